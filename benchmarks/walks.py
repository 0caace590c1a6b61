"""How far a reader walks: the files of ours that four tasks execute, their lines, and the switches between files.

    python benchmarks/walks.py

A profile hook sees every call of a function. Everything is imported before, so that what runs for an import alone does
not count.
"""

import importlib
import pkgutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

import fedualex as fx
from fedualex.cli import main

OURS = str(Path(fx.__file__).parent)


class Walk:
    """Our files in the order in which a task enters them."""

    def __init__(self, inside: Callable[[Any], bool] | None = None):
        self.files: set[str] = set()
        self.switches = 0
        self._here: dict[int, str] = {}
        self._inside = inside
        self._frame: Any = None

    def see(self, frame: Any, event: str, _: Any) -> None:
        """The profile hook. With `inside` it counts between the call and the return of the first such function."""
        if self._inside is not None:
            if event == "call" and self._frame is None and not self.files and self._inside(frame):
                self._frame = frame
            elif event == "return" and frame is self._frame:
                self._frame = None
                return
            if self._frame is None:
                return
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(OURS):
            return
        self.files.add(name)
        self.switches += self._here.get(threading.get_ident(), name) != name
        self._here[threading.get_ident()] = name

    @property
    def lines(self) -> int:
        """Of all files together."""
        return sum(len(Path(name).read_text().splitlines()) for name in self.files)


@contextmanager
def walking(inside: Callable[[Any], bool] | None = None) -> Iterator[Walk]:
    """Watch this thread and those that it starts."""
    walk = Walk(inside)
    threading.setprofile(walk.see)
    sys.setprofile(walk.see)
    try:
        yield walk
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def example() -> Any:
    """A sparse logistic model of three clients."""
    rng = np.random.default_rng(0)
    X, labels, clients = rng.normal(size=(60, 4)), rng.integers(0, 2, 60), np.repeat(np.arange(3), 20)
    return fx.problems.sparse_glm("logistic", X, labels, clients, l1=0.01)


def is_site_at_work(frame: Any) -> bool:
    """Whether this is a site's answer, from bytes to bytes."""
    return bool(frame.f_code.co_name == "answer" and frame.f_code.co_filename.startswith(OURS))


def command(*words: object) -> None:
    """A command of ours in this process."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    if result.exit_code:
        raise SystemExit(result.output)


def walks() -> Iterator[tuple[str, Walk]]:
    """The four tasks, one after the other."""
    problem = example()
    with walking() as walk:
        fx.solve(problem)
    yield "fx.solve(problem)", walk
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "fit"
        fit = ("fit", "bundled:breast_cancer", "--target", "target", "--clients", 5, "--goal", "fair", "--out", out)
        with walking() as walk:
            command(*fit)
        yield "fedualex fit --goal fair", walk
        with walking() as walk:
            command("verify", out / "run")
        yield "fedualex verify", walk
    with walking(is_site_at_work) as walk:
        fx.deploy.run(problem, fx.FeDualSlide(), rounds=2, tol=None, secure_sums="on")
    yield "one survey at a site", walk


def import_all() -> None:
    """Every module of ours that does not need an engine."""
    for module in pkgutil.walk_packages(fx.__path__, "fedualex."):
        if not module.name.startswith(("fedualex.deploy.flower", "fedualex.deploy.nvflare", "fedualex.__main__")):
            importlib.import_module(module.name)


if __name__ == "__main__":
    import_all()
    print(f"{len(list(Path(OURS).rglob('*.py')))} files of source")
    print("| walk | our files executed | lines in them | switches between files |\n|---|---|---|---|")
    for name, walk in walks():
        print(f"| {name} | {len(walk.files)} | {walk.lines:,} | {walk.switches:,} |", flush=True)
        if "--files" in sys.argv:
            print("\n".join(sorted(str(Path(file).relative_to(OURS)) for file in walk.files)))

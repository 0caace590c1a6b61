"""The paper's experiments from one call: protocol, exact optimum, comparison with the paper's sentences."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..storage import write_json
from . import folder, protocol
from .exact import write_exact
from .plan import Experiment, paper_experiments
from .registry import ConfigurationError, named
from .workers import pool

Show = Callable[[str, str, int, int], None]
"""Is told the experiment, the stage, and how many of its tasks are done, of how many."""


def chosen(names: Sequence[str], *, seeds: int | None, quick: bool) -> list[Experiment]:
    """The experiments that these names mean; "all" means every one."""
    known = paper_experiments()
    for name in names:
        named("experiment", name, {**known, "all": None})
    wanted = list(known) if "all" in names or not names else list(dict.fromkeys(names))
    return [Experiment.read(known[name], seeds=seeds, quick=quick) for name in wanted]


def reproduce(experiments: Sequence[Experiment], root: Path, *, resume: bool, show: Show) -> None:
    """Run the whole protocol of each experiment into root/NAME."""
    for experiment in experiments:  # all are refused, or none, before anything is written
        protocol.begun(experiment, root / experiment.name, resume=resume)
    _begin(experiments, root, resume=resume)
    for experiment in experiments:
        protocol.begin(experiment, root / experiment.name, resume=resume)
    with pool() as perform:
        for experiment in experiments:
            path = root / experiment.name
            if not (path / "exact.json").exists():
                with _timed(path, "exact optimum"):
                    write_exact(path / "exact.json", experiment.problem())
            for stage, tasks_of in protocol.stages(experiment, path):
                tasks, count = tasks_of(), 0

                def done(_: Any, stage: str = stage, total: int = len(tasks), name: str = experiment.name) -> None:
                    nonlocal count
                    count += 1
                    show(name, stage, count, total)

                with _timed(path, stage):
                    perform(experiment, path, tasks, done)
            if not (path / "averaging.json").exists():
                with _timed(path, "averaging"):
                    protocol.measure_averaging(experiment, experiment.problem(), path)


def _begin(experiments: Sequence[Experiment], root: Path, *, resume: bool) -> None:
    names = [experiment.name for experiment in experiments]
    if (root / "manifest.json").exists():
        manifest = folder.read_manifest(root, "reproduction")
        if not resume:
            raise ConfigurationError(f"{root} already holds results: --resume goes on with them, --out begins anew")
        names = list(dict.fromkeys([*manifest["experiments"], *names]))
        write_json(root / "manifest.json", manifest | {"experiments": names})
        return
    folder.write_collection(root, "reproduction", experiments=names, seeds=experiments[0].seeds)


@contextmanager
def _timed(path: Path, stage: str) -> Iterator[None]:
    """Add a stage's seconds to timing.json: a resumed protocol counts all its parts."""
    began = time.perf_counter()
    try:
        yield
    finally:
        file = path / "timing.json"
        seconds = json.loads(file.read_text()) if file.exists() else {}
        write_json(file, seconds | {stage: seconds.get(stage, 0.0) + time.perf_counter() - began})

"""The paper's experiments from one call: protocol, exact optimum, comparison with the paper's sentences."""

import functools
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..storage import write_json
from . import folder, protocol
from .exact import write_exact
from .plan import Experiment, paper_experiments, read_experiments
from .registry import ConfigurationError, named
from .workers import Pool, pool

Show = Callable[[str, str, int, int], None]
"""Is told the experiment, the stage, and how many of its tasks are done, of how many; at 0 a stage begins."""
ShowStage = Callable[[str, int, int], None]
"""The same for the stages of one experiment."""


def chosen(names: Sequence[str], *, seeds: int | None, quick: bool) -> list[Experiment]:
    """The experiments that these names mean; "all" means every one."""
    known = paper_experiments()
    for name in names:
        named("experiment", name, {**known, "all": None})
    wanted = list(known) if "all" in names or not names else list(dict.fromkeys(names))
    return [one for name in wanted for one in read_experiments(known[name], seeds=seeds, quick=quick)]


def reproduce(experiments: Sequence[Experiment], root: Path, *, resume: bool, show: Show) -> None:
    """Run the whole protocol of each experiment into root/NAME."""
    for experiment in experiments:  # all are refused, or none, before anything is written
        protocol.begun(experiment, root / experiment.name, resume=resume)
    _begin(experiments, root, resume=resume)
    for experiment in experiments:
        protocol.begin(experiment, root / experiment.name, resume=resume)
    with pool() as perform:
        for number, experiment in enumerate(experiments, 1):
            name = f"{experiment.name} ({number} of {len(experiments)})"
            _perform(experiment, root / experiment.name, perform, functools.partial(show, name))


def _perform(experiment: Experiment, path: Path, perform: Pool, show: ShowStage) -> None:
    """All stages of one experiment, but for what was done before."""
    if experiment.case is None and not (path / "exact.json").exists():
        with _stage(path, "exact optimum", 1, show) as done:
            write_exact(path / "exact.json", experiment.problem())
            done()
    for stage, tasks_of in protocol.stages(experiment, path):
        tasks = tasks_of()
        with _stage(path, stage, len(tasks), show) as done:
            perform(experiment, path, tasks, done)
    if any(map(experiment.uses_theory, experiment.methods)) and not (path / "theory.json").exists():
        with _stage(path, "theory", 1, show) as done:
            protocol.write_theory(experiment, path)
            done()
    if experiment.case is None and not (path / "averaging.json").exists():
        with _stage(path, "averaging", 1, show) as done:
            protocol.measure_averaging(experiment, experiment.problem(), path)
            done()


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
def _stage(path: Path, stage: str, total: int, show: ShowStage) -> Iterator[Callable[..., None]]:
    """A function to call after each task, which is shown; a resumed protocol counts the seconds of all its parts."""
    began, count = time.perf_counter(), itertools.count(1)
    show(stage, 0, total)
    try:
        yield lambda *task: show(stage, next(count), total)
    finally:
        file = path / "timing.json"
        seconds = json.loads(file.read_text()) if file.exists() else {}
        write_json(file, seconds | {stage: seconds.get(stage, 0.0) + time.perf_counter() - began})

"""Deployment: our round loop above one small seam, and the engines below it."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..algorithms import AbstractMethod
from ..precision import as_now
from ..problems import AbstractProblem
from ..problems.base import as_problem
from ..runtime import Run
from ..runtime.options import check_hooks
from .engine import Arrays, Engine, Reply, Request
from .local import LocalEngine
from .loop import Journal
from .privacy import Privacy
from .site import Site
from .task import Task

__all__ = ["Arrays", "Engine", "Journal", "LocalEngine", "Privacy", "Reply", "Request", "Site", "Task", "run"]


def run(
    problem: AbstractProblem,
    method: AbstractMethod,
    *,
    rounds: int,
    sites: int | None = None,
    checkpoint: Any = None,
    callback: Any = None,
    **options: Any,
) -> Run:
    """The rounds of a deployment with every site in a thread of this process (`engine="local"`): a rehearsal.

    Each client of the problem is a site that holds its own data alone; without data, give the number of `sites`. All
    that a wire would carry is turned into bytes and back. options: those of `Task`.
    """
    count = as_problem(problem).clients or sites or 1
    if sites not in (None, count):
        raise ValueError(f"sites must be {count}, as many as the problem's data has, got {sites}")
    if problem.clients is not None:
        options.setdefault("weights", tuple(map(float, problem.client_weights(count))))
    names = tuple(f"site-{m:0{len(str(count))}d}" for m in range(1, count + 1))
    task = Task(method, names, rounds, **options)
    task.check(problem)
    check_hooks(callback, None, None)
    journal = Journal() if callback is None else Journal(append=as_now(callback))
    engine = LocalEngine({name: task.site(problem.of_client(m), name).work for m, name in enumerate(names)})
    if checkpoint is not None:
        return task.serve(engine, problem, Path(checkpoint), journal)
    with TemporaryDirectory() as folder:
        return task.serve(engine, problem, Path(folder) / "checkpoint.npz", journal)

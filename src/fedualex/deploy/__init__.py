"""Deployment: the clients of a run are sites behind a small seam, and engines carry what is sent."""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from ..algorithms import Method
from ..compiling import keep_precision
from ..problems import AbstractProblem
from ..problems.known import floor_of_views, smoothness_of, with_floor, with_smoothness
from ..runtime import Run
from ..runtime.driver import RunHooks
from ..runtime.options import fields_of, takes
from .engine import Arrays, Engine, RefusedError, Reply, Request
from .guard import Guard, rehearse_sites
from .policy import Policy, Privacy, SiteFacts
from .site import Site
from .task import DeploymentOptions, RehearsalOptions, Task
from .threads import thread_engine

__all__ = [
    "Arrays",
    "DeploymentOptions",
    "Engine",
    "Guard",
    "Policy",
    "Privacy",
    "RefusedError",
    "Reply",
    "Request",
    "RunHooks",
    "Site",
    "SiteFacts",
    "Task",
    "run",
    "thread_engine",
]


@takes(RehearsalOptions)
def run(problem: AbstractProblem, method: Method, options: RehearsalOptions) -> Run:
    """The rounds of a deployment with every site in a thread of this process (`engine="local"`): a rehearsal.

    Each client of the problem is a site that holds its own data alone; without data, give the number of `sites`. All
    that a wire would carry is turned into bytes and back. method: any that can be deployed. The options:
    """
    count = problem.clients or options.sites or 1
    if options.sites not in (None, count):
        raise ValueError(f"sites must be {count}, as many as the problem's data has, got {options.sites}")
    given = fields_of(options, DeploymentOptions)
    if problem.clients is not None and options.weights is None:
        given["weights"] = tuple(map(float, problem.client_weights(count)))
    elif problem.clients is not None and problem.floor is not None:  # which may hold for the problem's own weights only
        problem = with_floor(problem, floor_of_views(problem.floor))
    names = tuple(f"site-{m:0{len(str(count))}d}" for m in range(1, count + 1))
    if method.missing_steps() and (known := smoothness_of(problem)) is not None:
        problem = with_smoothness(problem, known)  # as summaries of all sites would tell it to each
    task = Task(method, names, DeploymentOptions(**given))
    task.check(problem)
    hooks = RunHooks() if options.callback is None else RunHooks(append=keep_precision(options.callback))
    works, roster = rehearse_sites(task, {name: task.site(problem.of_client(m), name) for m, name in enumerate(names)})
    engine = thread_engine(works)
    with closing(engine), TemporaryDirectory() as folder:
        checkpoint = Path(options.checkpoint or Path(folder) / "checkpoint.npz")
        return task.serve(engine, problem, checkpoint, hooks, roster)

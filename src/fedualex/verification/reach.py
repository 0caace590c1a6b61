"""From a stored run back to its problem and the start of its rounds; code that a folder names is not run unasked."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..algorithms import Method
from ..compiling import double
from ..deploy.consortium.agreement import has_tables, known_at
from ..deploy.consortium.settings import server_problem, task_of
from ..problems import AbstractProblem
from ..runs.folder import StoredRun, other_versions
from ..runs.settings import build_method, run_options, weighted_problem
from ..runs.solving import OBJECT
from ..runtime import fingerprint
from ..runtime.clients import Wider
from ..runtime.options import SolveOptions
from ..runtime.outputs import AVERAGES, averages_of
from ..runtime.prepare import prepare
from ..runtime.state import Setup, State
from ..storage import Json
from ..tables.fit import GOAL, stored_problem
from ..validation import short


@dataclass(frozen=True)
class Reached:
    """The problem of a run; or why it could not be had, and the fingerprint of what there is now if it is another."""

    problem: AbstractProblem | None = None
    why_not: str = ""
    changed: str = ""


@dataclass(frozen=True)
class Begun:
    """What the rounds of a run begin with, and the fingerprint of all that decides how they go on."""

    problem: AbstractProblem
    setup: Setup
    start: State
    run_id: str
    wider: Wider | None = None
    """What the rounds are computed with if they continued in float64."""

    def setup_of(self, state: State) -> Setup:
        """What the rounds that led to this state were computed with."""
        if self.wider is None or state.sums.weight.dtype == self.setup.weights.dtype:
            return self.setup
        return self.wider()


def reach(run: StoredRun, *, trust: bool) -> Reached:
    """The problem again from its configuration, if its data is there and is the same.

    trust: whether the function of `entry = "module:function"` is called. All else that a configuration can name is this
    library's own (problems, regularizers, methods), or a file of numbers, which is read without pickle.
    """
    configuration = run.manifest["configuration"]
    if "entry" in configuration["problem"] and not trust:
        entry = short(configuration["problem"]["entry"])
        return Reached(why_not=f"the folder names code ({entry}); give --trust to run it")
    if OBJECT in configuration["problem"]:
        return Reached(why_not="the problem was made in Python, and no file names it")
    try:
        problem = _problem(configuration)
    except Exception as error:  # whatever stands in the manifest, and whatever the user's own code does
        return Reached(why_not=f"the data cannot be reached: {error}")
    if (digest := fingerprint(problem)) == run.manifest["data_sha256"]:
        return Reached(problem)
    if others := other_versions(run.manifest):
        return Reached(why_not=f"the fingerprint of the data was made by {others}")
    return Reached(why_not="the data has changed since", changed=digest)


def begin_again(configuration: Json, problem: AbstractProblem) -> Begun:
    """What a run of this configuration begins with."""
    with double():
        if is_deployment(configuration):
            known = known_at(_folder(configuration)) if has_tables(configuration) else None
            served = task_of(configuration, problem, known).prepare(problem)
            return Begun(served.view, served.setup, served.start, served.run_id)
        settings = {**configuration["run"], "weights": None}  # the problem has them already
        run = prepare(problem, build_method(configuration["method"]), run_options(SolveOptions, settings, problem))
        return Begun(run.problem, run.setup, run.start, run.run_id(), run.wider)


def averages(configuration: Json) -> tuple[str, ...]:
    """The averages that a run of this configuration keeps."""
    if not is_deployment(configuration):
        return AVERAGES
    return () if configuration.get("privacy") else averages_of(bool(configuration["run"].get("ergodic")))


def method_of(configuration: Json) -> Method | None:
    """The method of a run of this configuration; None where that cannot be read."""
    with suppress(Exception):  # whatever stands in the manifest
        return build_method(configuration["method"])
    return None


def is_deployment(configuration: Json) -> bool:
    """Whether the clients were sites."""
    return "sites" in configuration


def _problem(configuration: Json) -> AbstractProblem:
    folder = _folder(configuration)
    if is_deployment(configuration):
        return server_problem(configuration, folder)
    if GOAL in configuration["problem"]:
        return stored_problem(configuration["problem"], folder)
    return weighted_problem(configuration["problem"], folder, configuration["run"].get("weights"))


def _folder(configuration: Json) -> Path:
    return Path(configuration.get("folder", "."))

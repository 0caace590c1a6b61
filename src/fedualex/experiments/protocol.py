"""The paper's protocol: the whole grid of step sizes on one seed, then many seeds at the best steps.

Every task leaves one file or folder, written atomically, so a protocol that was stopped goes on with what is missing.
"""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..algorithms import AbstractMethod
from ..problems import AbstractProblem
from ..runtime import Run, Stop, averaging, score, simulate
from ..runtime.options import SimulatorOptions, SolveOptions, fields_of
from ..storage import write_json
from . import folder
from .bounds import bounds_of
from .configuration import RUN_DEFAULTS, configure, run_options
from .plan import Experiment
from .registry import ConfigurationError, build_method

Task = dict[str, Any]
"""One simulation: its `kind` ("grid" or "seed"), `method`, `steps` and `seed`. Plain data for workers."""


def begun(experiment: Experiment, root: Path, *, resume: bool) -> bool:
    """Whether the folder is there already and may be gone on with; refused if it is of another experiment."""
    if not (root / "manifest.json").exists():
        return False
    known = folder.read_manifest(root, "experiment")["plan"]
    if not resume:
        raise ConfigurationError(f"{root} already holds results: --resume goes on with them, --out begins anew")
    if json.loads(json.dumps(experiment.plan)) != known:
        raise ConfigurationError(f"{root} holds another experiment or other sizes: choose another --out")
    return True


def begin(experiment: Experiment, root: Path, *, resume: bool) -> None:
    """Make the experiment's folder, or go on with it if it is of the same experiment."""
    if not begun(experiment, root, resume=resume):
        folder.write_collection(root, "experiment", title=experiment.title, plan=experiment.plan)


def grid_tasks(experiment: Experiment) -> list[Task]:
    """Every point of every method's grid, on the seed for tuning."""
    seed = experiment.settings["tuning"]["seed"]
    return [
        {"kind": "grid", "method": label, "steps": steps, "seed": seed}
        for label in experiment.methods
        for steps in experiment.grid(label)
    ]


def seed_tasks(experiment: Experiment, root: Path) -> list[Task]:
    """Every seed at each method's best steps."""
    best = tuned_steps(experiment, root)
    return [
        {"kind": "seed", "method": label, "steps": steps, "seed": seed}
        for label, steps in best.items()
        for seed in range(experiment.seeds)
    ]


def tuned_steps(experiment: Experiment, root: Path) -> dict[str, dict[str, float]]:
    """Of each method the steps whose final certified gap is smallest; among equals the first of the grid."""
    best = {}
    for label in experiment.methods:
        finite = [one for one in _scores(experiment, root, label) if one["score"] is not None]
        if not finite:
            raise ValueError(f"{label}: no step sizes of the grid gave a finite run")
        best[label] = min(finite, key=lambda one: one["score"])["steps"]
    return best


def result_path(root: Path, task: Task) -> Path:
    """Where the result of a task is: a JSON file, for seeds the status of a run folder."""
    method = task["method"].replace(" ", "-")
    if task["kind"] == "seed":
        return root / "runs" / method / f"seed-{task['seed']}" / "status.json"
    steps = "_".join(f"{value:g}" for value in task["steps"].values()) or "no-steps"
    return root / task["kind"] / method / f"{steps}.json"


def perform(experiment: Experiment, problem: AbstractProblem, root: Path, task: Task) -> None:
    """Run one task and store its result."""
    resolved = configuration_of(experiment, task)
    options = fields_of(run_options(SolveOptions, resolved["run"], problem), SimulatorOptions)
    method = build_method(resolved["method"], f"[methods.{task['method']}]")
    path = result_path(root, task)
    if task["kind"] == "seed":
        folder.begin(path.parent, problem, resolved)
        folder.finish(path.parent, _whole_run(problem, method, options), problem)
        return
    result = _whole_run(problem, method, options)
    path.parent.mkdir(parents=True, exist_ok=True)
    found = score(result, tuned_output(experiment, result))
    write_json(path, {**task, "score": None if math.isinf(found) else found, "outputs": _outputs(result)})


def configuration_of(experiment: Experiment, task: Task) -> dict[str, Any]:
    """The run of a task as plain data, as its manifest keeps it."""
    own_run = experiment.methods[task["method"]].get("run", {})
    # With this output all are in the history.
    run = {**RUN_DEFAULTS, **experiment.settings["run"], "output": "polished", **own_run, "seed": task["seed"]}
    if task["kind"] != "seed":
        run["record_every"] = run["rounds"]
    return {
        "label": task["method"],
        "problem": experiment.settings["problem"],
        "method": {**experiment.method_settings(task["method"]), **task["steps"]},
        "run": run,
        "stopping": False,
    }


def tuned_output(experiment: Experiment, run: Run) -> str:
    """The output that steps are chosen by; the answer of a method that has no such output."""
    output: str = experiment.settings["tuning"]["output"]
    return output if output in run.outputs else run.output


AVERAGED = ("FedMiP plain averaging", "FeDualEx")
"""One primal and one dual method with an extra step: what the figure of primal averaging compares."""


def measure_averaging(experiment: Experiment, problem: AbstractProblem, root: Path) -> None:
    """Densities of clients' points and of the server's, at the tuned steps; nothing for games of ranks."""
    series: dict[str, Any] = {}
    run = experiment.settings["run"]
    exact = json.loads((root / "exact.json").read_text())
    for label in AVERAGED if exact["density"] is not None else ():
        method = build_method({**experiment.method_settings(label), **tuned_steps(experiment, root)[label]})
        options = fields_of(run_options(SolveOptions, {**RUN_DEFAULTS, **run}, problem), SolveOptions)
        chosen = {key: options[key] for key in ("clients", "local_steps", "noise", "seed", "z0", "dtype")}
        rounds = run["rounds"]
        series[label] = averaging(problem, method, rounds=rounds, every=max(1, rounds // 20), **chosen)
    write_json(root / "averaging.json", {"series": series, "exact": exact["density"]})


def write_theory(experiment: Experiment, root: Path) -> None:
    """What the theorems promise about the runs of a case, as printed and as corrected."""
    label = next(filter(experiment.uses_theory, experiment.methods))
    resolved = configuration_of(experiment, {"kind": "seed", "method": label, "steps": {}, "seed": 0})
    given = {table: resolved[table] for table in ("problem", "method", "run")}
    write_json(root / "theory.json", bounds_of(configure(given, Path())))


Stage = tuple[str, Callable[[], list[Task]]]


def stages(experiment: Experiment, root: Path) -> list[Stage]:
    """The protocol, stage by stage; each decides its tasks from the results of the one before."""
    return [
        ("grid", lambda: grid_tasks(experiment)),
        ("seeds", lambda: seed_tasks(experiment, root)),
    ]


def _whole_run(problem: AbstractProblem, method: AbstractMethod, options: dict[str, Any]) -> Run:
    """A run whose result may be stored: what Ctrl-C cut short would pass for the whole when the protocol goes on."""
    run = simulate(problem, method, **options)
    if run.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    return run


def _scores(experiment: Experiment, root: Path, label: str) -> list[dict[str, Any]]:
    tasks = [task for task in grid_tasks(experiment) if task["method"] == label]
    return [json.loads(result_path(root, task).read_text()) for task in tasks]


def _outputs(run: Run) -> dict[str, Mapping[str, Any]]:
    return {
        name: {"gap": o.gap, "density": o.density, "rank": None if o.rank is None else list(o.rank)}
        for name, o in run.outputs.items()
    }

"""The paper's experiments: plan, protocol, tasks on all cores, resumable folders."""

import functools
import itertools
import json
import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from importlib import resources
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import numpy as np

from .. import reference, tree
from ..algorithms import Method
from ..problems import AbstractProblem
from ..runs import folder
from ..runs.settings import (
    RUN_DEFAULTS,
    ConfigurationError,
    bounds_of,
    build_method,
    build_problem,
    check_keys,
    check_tables,
    configure,
    find_named,
    read_toml,
    run_options,
)
from ..runtime import Run, Stop, averaging, score, simulate, structure_of
from ..runtime.options import SimulatorOptions, SolveOptions, fields_of
from ..storage import Json, write_json

# The exact saddle point of a game beside its runs.


def write_exact(path: Path, problem: AbstractProblem) -> None:
    """Solve by linear programming, or by best responses where the game is not polyhedral; keep what reports show."""
    try:
        solution, how = reference.lp(problem), "linear programming"
    except TypeError:
        solution, how = reference.best_response(problem), "best responses"
    density, rank = structure_of(problem, solution.z)
    data = {
        "value": solution.value,
        "gap": solution.gap,
        "how": how,
        "density": density,
        "rank": None if rank is None else list(rank),
        "blocks": {
            name: structure_values(array, rank is not None) for name, array in tree.leaves_with_names(solution.z)
        },
    }
    write_json(path, data)


def structure_values(array: Any, spectral: bool) -> list[float]:
    """What shows a block's structure: its singular values, or its entries' sizes, in falling order."""
    values = np.linalg.svd(array, compute_uv=False) if spectral else np.sort(np.abs(np.ravel(array)))[::-1]
    return [float(value) for value in values]


# An experiment as plain data, from its TOML file: problem, methods, grid of step sizes and seeds.
#
# A file with [[cases]] is a study: several experiments that differ in one thing, of which the case says the value.


SMALL = "a small instance (--quick), not the paper's sizes"
"""What every page, figure and verdict of a quick experiment says."""
TABLES = ("problem", "run", "grid", "tuning", "quick", "methods")
CHANGED = ("problem", "run", "grid")
"""The tables that a case may change."""


@dataclass(frozen=True)
class Experiment:
    """A named experiment, at full size or quick, as plain data."""

    name: str
    title: str
    settings: Json
    seeds: int
    quick: bool = False
    """Whether it is the small instance of its file."""
    case: Json | None = None
    """Of an experiment that is one case of a study: its `study`, what differs (`axis`), and its `value`."""

    @property
    def methods(self) -> dict[str, Json]:
        """Settings of each method, by its label."""
        return dict(self.settings["methods"])

    def grid(self, label: str) -> list[dict[str, float]]:
        """All combinations of the step sizes that a method has and that its settings leave open.

        A method whose settings say steps = "theory" has one point: what theory chooses.
        """
        settings = self.method_settings(label)
        if self.uses_theory(label):
            return [{}]
        names = [name for name in build_method(settings).step_names() if name not in settings]
        grid = {name: values for name, values in self.settings["grid"].items() if name in names}
        return [dict(zip(grid, map(float, values), strict=True)) for values in itertools.product(*grid.values())]

    def method_settings(self, label: str) -> Json:
        """What a method is made from: its table, but for what the protocol reads."""
        return {key: value for key, value in self.methods[label].items() if key not in ("run", "steps")}

    def uses_theory(self, label: str) -> bool:
        """Whether theory chooses the steps of a method."""
        return bool(self.methods[label].get("steps") == "theory")

    def problem(self) -> AbstractProblem:
        """The game that all its runs solve."""
        return build_problem(self.settings["problem"], Path())

    @property
    def plan(self) -> Json:
        """What its folder keeps of it, and is resumed by."""
        small = {"quick": True} if self.quick else {}
        case = {"case": self.case} if self.case else {}
        return {"name": self.name, "seeds": self.seeds, "settings": self.settings, **small, **case}


def read_experiments(path: Path, *, seeds: int | None = None, quick: bool = False) -> list[Experiment]:
    """The experiments of a TOML file: one, or one for each case of a study."""
    tables = read_toml(path)
    title, count, cases = tables.pop("title", path.stem), tables.pop("seeds", 10), tables.pop("cases", [])
    check_tables(tables, TABLES)
    small = tables.pop("quick")
    _check(tables, small, cases)
    if quick:
        count, title = small.pop("seeds"), f"{title} (quick)"
        chosen = small.pop("cases", None)
        cases = [case for case in cases if chosen is None or case["name"] in chosen]
    else:
        small = {}
    experiments = []
    for case in cases or [{}]:
        settings = deepcopy(tables)
        for table in CHANGED:
            settings[table] |= case.get(table, {})
        for key, value in small.items():  # a case keeps what makes it one
            table = "grid" if key in settings["grid"] else "run"
            if key not in case.get(table, {}):
                settings[table][key] = value
        about = {"study": path.stem, "axis": case["axis"], "value": case["value"]} if case else None
        name = f"{path.stem}-{case['name']}" if case else path.stem
        headline = f"{title}: {case['axis']} = {case['value']:g}" if case else title
        experiments.append(Experiment(name, headline, settings, seeds or count, quick, about))
    return experiments


def _check(tables: Json, small: Json, cases: list[Json]) -> None:
    """Refuse keys that do not exist."""
    check_keys("[run]", tables["run"], RUN_DEFAULTS)
    check_keys("[tuning]", tables["tuning"], ("seed", "output"))
    known = ("clients", "rounds", "record_every", "seeds", "cases", *tables["grid"])
    check_keys("[quick]", small, known)
    for label, method in tables["methods"].items():
        check_keys(f"[methods.{label}] run", method.get("run", {}), RUN_DEFAULTS)
    for case in cases:
        check_keys("[[cases]]", case, ("name", "axis", "value", *CHANGED))
        if missing := {"name", "axis", "value"} - case.keys():
            raise ConfigurationError(f"[[cases]] needs name, axis and value, and a case has no {sorted(missing)[0]}")


def paper_experiments() -> dict[str, Path]:
    """The paper's experiments, and the studies that its theorems ask for, by the names of their files."""
    root = Path(str(resources.files(__package__) / "plans"))
    return {path.stem: path for path in sorted(root.glob("*.toml"))}


# The paper's protocol: the whole grid of step sizes on one seed, then many seeds at the best steps.
#
# Every task leaves one file or folder, written atomically, so a protocol that was stopped goes on with what is missing.


Task = Json
"""One simulation: its `kind` ("grid" or "seed"), `method`, `steps` and `seed`. Plain data for workers."""


def begin_experiment(experiment: Experiment, root: Path, *, resume: bool) -> bool:
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
    if not begin_experiment(experiment, root, resume=resume):
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
    reached = score(result, tuned_output(experiment, result))
    write_json(path, {**task, "score": None if math.isinf(reached) else reached, "outputs": _outputs(result)})


def configuration_of(experiment: Experiment, task: Task) -> Json:
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
    series: Json = {}
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


def _whole_run(problem: AbstractProblem, method: Method, options: Json) -> Run:
    """A run whose result may be stored: what Ctrl-C cut short would pass for the whole when the protocol goes on."""
    run = simulate(problem, method, **options)
    if run.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    return run


def _scores(experiment: Experiment, root: Path, label: str) -> list[Json]:
    tasks = [task for task in grid_tasks(experiment) if task["method"] == label]
    return [json.loads(result_path(root, task).read_text()) for task in tasks]


def _outputs(run: Run) -> dict[str, Json]:
    return {
        name: {"gap": o.gap, "density": o.density, "rank": None if o.rank is None else list(o.rank)}
        for name, o in run.outputs.items()
    }


# Tasks on all cores: one process a core, because one simulation does not fill two.


BLAS_THREADS = "OPENBLAS_NUM_THREADS"

Pool = Callable[[Experiment, Path, list[Task], Callable[[Task], None]], None]


@contextmanager
def pool() -> Iterator[Pool]:
    """A function that performs an experiment's tasks and reports each as it ends."""
    context = multiprocessing.get_context("spawn")
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None] * (os.cpu_count() or 1)
    queue: SimpleQueue[Any] = context.SimpleQueue()
    for core in cores:
        queue.put(core)
    # numpy's BLAS counts the cores when it is imported, before a worker has settled on one of them.
    chosen = BLAS_THREADS in os.environ
    os.environ.setdefault(BLAS_THREADS, "1")
    executor = ProcessPoolExecutor(len(cores), context, initializer=_settle, initargs=(queue,))

    def perform_all(experiment: Experiment, root: Path, tasks: list[Task], done: Callable[[Task], None]) -> None:
        missing = [task for task in tasks if not result_path(root, task).exists()]
        waiting = {executor.submit(_perform_task, experiment, root, task): task for task in missing}
        for task in tasks:
            if task not in missing:
                done(task)
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                task = waiting.pop(future)
                future.result()
                done(task)

    try:
        yield perform_all
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        if not chosen:
            del os.environ[BLAS_THREADS]


def _settle(queue: "SimpleQueue[Any]") -> None:
    """Give this worker a core of its own, before jax counts them, and end it when its parent is gone or at Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    core = queue.get()
    if core is not None:
        os.sched_setaffinity(0, {core})

    def end_with_parent() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


@functools.lru_cache(maxsize=1)
def _problem(text: str) -> AbstractProblem:
    return build_problem(json.loads(text), Path())


def _perform_task(experiment: Experiment, root: Path, task: Task) -> None:
    perform(experiment, _problem(json.dumps(experiment.settings["problem"])), root, task)


Show = Callable[[str, str, int, int], None]
"""Is told the experiment, the stage, and how many of its tasks are done, of how many; at 0 a stage begins."""
ShowStage = Callable[[str, int, int], None]
"""The same for the stages of one experiment."""


def choose_experiments(names: Sequence[str], *, seeds: int | None, quick: bool) -> list[Experiment]:
    """The experiments that these names mean; "all" means every one."""
    known = paper_experiments()
    for name in names:
        find_named("experiment", name, {**known, "all": None})
    wanted = list(known) if "all" in names or not names else list(dict.fromkeys(names))
    return [one for name in wanted for one in read_experiments(known[name], seeds=seeds, quick=quick)]


def reproduce(experiments: Sequence[Experiment], root: Path, *, resume: bool, show: Show) -> None:
    """Run the whole protocol of each experiment into root/NAME."""
    for experiment in experiments:  # all are refused, or none, before anything is written
        begin_experiment(experiment, root / experiment.name, resume=resume)
    _begin(experiments, root, resume=resume)
    for experiment in experiments:
        begin(experiment, root / experiment.name, resume=resume)
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
    for stage, tasks_of in stages(experiment, path):
        tasks = tasks_of()
        with _stage(path, stage, len(tasks), show) as done:
            perform(experiment, path, tasks, done)
    if any(map(experiment.uses_theory, experiment.methods)) and not (path / "theory.json").exists():
        with _stage(path, "theory", 1, show) as done:
            write_theory(experiment, path)
            done()
    if experiment.case is None and not (path / "averaging.json").exists():
        with _stage(path, "averaging", 1, show) as done:
            measure_averaging(experiment, experiment.problem(), path)
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

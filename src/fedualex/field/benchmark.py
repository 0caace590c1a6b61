"""Every method on every problem: the same number of tries, the same exchanges, and the certificate as the judge.

A folder keeps one file for each problem and method, written when it is done, so that a benchmark that was cut off goes
on where it was.
"""

import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..algorithms import AbstractMethod, FeDualSlide
from ..geometry import Dual
from ..problems import AbstractProblem
from ..runs.settings import folder_names
from ..runtime import Run, Stop, solve
from ..runtime.options import SimulatorOptions
from ..runtime.prepare import with_steps
from ..runtime.run import gaps_of
from ..runtime.sweeps import grid_around_theory
from ..storage import Json, write_json
from ..tree import Tree
from ..validation import whole_number
from .tasks import FIELD, METHODS, Entrant, Task, as_entrants, as_tasks

LEVELS = (1e-2, 1e-4, 1e-6)
"""Shares of the gap at the start."""
PLAN = "plan.json"
Settings = Json
"""Step sizes by name, and `local_steps`."""


@dataclass(frozen=True)
class Plan:
    """What all methods have alike."""

    exchanges: int = 200
    tries: int = 8
    """Combinations of step sizes and numbers of local steps, drawn from the whole grid: theory's own first."""
    seeds: int = 3
    records: int = 25
    """At how many places of a run its outputs are certified."""
    tol: float = 1e-9
    """Of the gap at the start: what reaches it stops."""

    def __post_init__(self) -> None:
        for name in ("exchanges", "tries", "seeds", "records"):
            whole_number(name, getattr(self, name))


QUICK = Plan(exchanges=60, tries=3, seeds=1, records=15)


@dataclass(frozen=True)
class Curve:
    """A run as far as figures need it; a gap is the smallest of all outputs and records so far."""

    seed: int
    exchanges: list[int]
    bytes: list[int]
    """Sent by one client."""
    operators: list[int]
    """Evaluated by one client."""
    seconds: list[float]
    gap: list[float | None]


@dataclass(frozen=True)
class Result:
    """A method on a problem: what was tried, what won, and its runs; or why it does not apply."""

    problem: str
    method: str
    start: float
    """The certified gap of the start."""
    place: int = 0
    """Where it stands in the benchmark's order."""
    refused: str = ""
    tried: list[Json] = field(default_factory=list)
    chosen: Json = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)

    def reach(self, level: float, axis: str = "exchanges") -> float:
        """The median over seeds of what it took to a gap of level times that of the start; infinite if it never did."""
        return float(np.median([_reach(curve, level * self.start, axis) for curve in self.curves] or [np.inf]))

    @property
    def last(self) -> float:
        """The median over seeds of the smallest gap."""
        gaps = [curve.gap[-1] if curve.gap and curve.gap[-1] is not None else np.inf for curve in self.curves]
        return float(np.median(gaps or [np.inf]))


def _reach(curve: Curve, gap: float, axis: str) -> float:
    there = [at for at, one in zip(getattr(curve, axis), curve.gap, strict=True) if one is not None and one <= gap]
    return float(there[0]) if there else np.inf


@dataclass(frozen=True)
class Benchmark:
    """All results of a folder."""

    folder: Path
    plan: Plan
    results: list[Result]

    @property
    def problems(self) -> list[str]:
        """Names, in the order of the benchmark."""
        return list(dict.fromkeys(result.problem for result in self.results))

    @property
    def methods(self) -> list[str]:
        """Labels, in the order of the benchmark."""
        return list(dict.fromkeys(result.method for result in self.results))

    def profile(self, level: float, axis: str = "exchanges") -> dict[str, NDArray[np.float64]]:
        """For each method what it took on each problem to come to a level; infinite where it did not."""
        return {
            label: np.array([result.reach(level, axis) for result in self.results if result.method == label])
            for label in self.methods
        }


Show = Callable[[str, str, int, int], None]


def benchmark(
    out: str | Path,
    *,
    problems: Any = None,
    methods: Any = None,
    plan: Plan | None = None,
    quick: bool = False,
    show: Show = lambda *_: None,
) -> Benchmark:
    """Every method on every problem, into a folder; what is there already is kept.

    problems: {name: problem, or `Task` with noise, cohort and clients}; the field's problems if None. methods: {label:
    method, or `Entrant` with numbers of local steps to try}; the field's methods if None. plan: what all have alike.
    quick: small problems and a small plan. show: is told (problem, method, done, of how many).
    """
    chosen = plan or (QUICK if quick else Plan())
    tasks = {name: task for name, task in FIELD.items() if task.quick or not quick}
    tasks = tasks if problems is None else as_tasks(problems)
    entrants = as_entrants(methods or METHODS)
    folder = Path(out)
    _keep_plan(folder, chosen)
    places = folder_names({f"{name} {label}": None for name, label in itertools.product(tasks, entrants)})
    done = 0
    for name, task in tasks.items():
        problem, start = None, 0.0
        for label, entrant in entrants.items():
            show(name, label, done, len(places))
            done += 1
            file = folder / "results" / f"{places[f'{name} {label}']}.json"
            if file.exists():
                continue
            if problem is None:
                problem = task.make()
                start = gap_of_start(problem)
            write_json(file, asdict(compete(problem, task, entrant, chosen, Result(name, label, start, done))))
    show("all problems", "all methods", len(places), len(places))
    return read_benchmark(folder)


def _keep_plan(folder: Path, plan: Plan) -> None:
    """The plan of a new folder is written; that of an old one must be this one."""
    file = folder / PLAN
    (folder / "results").mkdir(parents=True, exist_ok=True)
    if file.exists() and json.loads(file.read_text()) != asdict(plan):
        raise ValueError(f"{folder} holds a benchmark with another plan ({PLAN}): choose another folder")
    write_json(file, asdict(plan))


def read_benchmark(folder: Path) -> Benchmark:
    """What a folder holds."""
    if not (folder / PLAN).exists():
        raise ValueError(f"{folder} holds no benchmark: there is no {PLAN}")
    kept = [json.loads(file.read_text()) for file in sorted((folder / "results").glob("*.json"))]
    kept.sort(key=lambda one: one["place"])
    results = [Result(**{**one, "curves": [Curve(**curve) for curve in one["curves"]]}) for one in kept]
    return Benchmark(folder, Plan(**json.loads((folder / PLAN).read_text())), results)


def gap_of_start(problem: AbstractProblem) -> float:
    """The certified gap after a survey of zero, which all methods are measured by."""
    run = solve(problem, FeDualSlide(mode="survey"), clients=problem.clients or 1, rounds=1, output="bounds")
    if run.gap is None or run.gap <= 0:
        raise ValueError(f"the problem has no certified gap at zero that could be reduced: {run.answer.certificate}")
    return float(run.gap)


def compete(problem: AbstractProblem, task: Task, entrant: Entrant, plan: Plan, result: Result) -> Result:
    """Try what the plan allows on the first seed, and run what was best on all seeds."""
    try:
        tries = list(_tries(problem, task, entrant, plan))
        runs = [_run(problem, task, entrant, plan, settings, 0, result.start) for settings in tries]
    except (ValueError, TypeError) as why:
        return replace(result, refused=" ".join(str(why).split()))
    curves = [_curve(run, problem, task, entrant, settings, 0) for run, settings in zip(runs, tries, strict=True)]
    scores = [_score(curve) for curve in curves]
    best = min(range(len(tries)), key=lambda index: scores[index])
    tried = [{**settings, "gap": _or_none(score[0])} for settings, score in zip(tries, scores, strict=True)]
    kept = [curves[best]]
    for seed in range(1, plan.seeds if task.noise or task.cohort else 1):
        run = _run(problem, task, entrant, plan, tries[best], seed, result.start)
        kept.append(_curve(run, problem, task, entrant, tries[best], seed))
    return replace(result, tried=tried, chosen=tries[best], curves=kept)


def _or_none(gap: float) -> float | None:
    return gap if np.isfinite(gap) else None


def _score(curve: Curve) -> tuple[float, float]:
    """The smallest gap, and among equals the fewest exchanges."""
    gap = curve.gap[-1] if curve.gap and curve.gap[-1] is not None else np.inf
    return float(gap), _reach(curve, float(gap), "exchanges")


def _tries(problem: AbstractProblem, task: Task, entrant: Entrant, plan: Plan) -> Iterable[Json]:
    """Theory's own step sizes with the fewest local steps, then others of the grid in a drawn order."""
    method = entrant.method
    names = method.missing_steps()
    if not names:
        return [{"local_steps": steps} for steps in entrant.local_steps[: plan.tries]]
    base = grid_around_theory(problem, method, SimulatorOptions(**_share_settings(task), rounds=1))
    combinations = [
        {"local_steps": steps, **dict(zip(names, values, strict=True))}
        for steps in entrant.local_steps
        for values in itertools.product(*(base[name] for name in names))
    ]
    middle = {name: base[name][len(base[name]) // 2] for name in names}
    first = combinations.index({"local_steps": entrant.local_steps[0], **middle})
    order = np.random.default_rng(0).permutation(len(combinations))
    chosen = [first, *(int(index) for index in order if index != first)][: plan.tries]
    return [combinations[index] for index in chosen]


def _share_settings(task: Task) -> Json:
    options = {"clients": task.clients, "noise": task.noise, "cohort": task.cohort}
    return {name: value for name, value in options.items() if value is not None}


def _run(
    problem: AbstractProblem,
    task: Task,
    entrant: Entrant,
    plan: Plan,
    settings: Settings,
    seed: int,
    start: float,
) -> Run:
    """A run of all exchanges of the plan, whatever a round costs."""
    steps = {name: value for name, value in settings.items() if name != "local_steps"}
    method = with_steps(entrant.method, steps) if steps else entrant.method
    cost = method.exchanges if isinstance(method, AbstractMethod) else 1
    rounds = max(1, plan.exchanges // cost)
    every = 1 if entrant.operators is not None else max(1, rounds // plan.records)
    run = solve(
        problem,
        method,
        rounds=rounds,
        local_steps=settings["local_steps"],
        record_every=every,
        tol=plan.tol * start,
        seed=seed,
        **_share_settings(task),
        **entrant.other,
    )
    if run.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    return run


def _curve(run: Run, problem: AbstractProblem, task: Task, entrant: Entrant, settings: Settings, seed: int) -> Curve:
    """The history of a run, as it is compared."""
    history = run.history
    if not history:
        return Curve(seed, [], [], [], [], [])
    smallest = np.minimum.accumulate(
        np.min([np.where(np.isfinite(g), g, np.inf) for g in gaps_of(history).values()], axis=0)
    )
    rounds, exchanges = history["round"], history["exchanges"]
    clients = problem.clients or task.clients or 1
    operators = rounds * operators_of(entrant, problem, settings["local_steps"])
    return Curve(
        seed,
        exchanges.tolist(),
        (history["bytes_up"] // clients).tolist(),
        operators.tolist(),
        [round(float(second), 3) for second in history["seconds"]],
        [_or_none(float(gap)) for gap in smallest],
    )


def operators_of(entrant: Entrant, problem: AbstractProblem, local_steps: int) -> int:
    """Operators that a client evaluates in a round: those of surveys, its own at the reference, and of its steps."""
    method = with_steps(entrant.method, dict.fromkeys(entrant.method.missing_steps(), 1.0))
    if entrant.operators is not None or not isinstance(method, AbstractMethod):
        return entrant.operators or 1
    calls = 0

    def oracle(z: Tree, sample: int) -> Tree:
        nonlocal calls
        calls += 1
        return tree.scale(0.0, z)

    def step(z: Tree) -> Any:
        server = method.start(Dual(z, 0 * tree.dot(z, z)), problem.geometry)
        return method.local_step(method.local_init(server, method.memory(server)), oracle, problem.geometry)[0]

    jax.eval_shape(step, jax.tree.map(np.asarray, problem.like))
    return calls * local_steps + method.surveys + int(method.survey != "none")

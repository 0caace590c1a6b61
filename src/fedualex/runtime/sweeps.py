"""Grids of step sizes and seeds: compiled once, because step sizes and seeds are traced."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, no_type_check

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import tree
from ..algorithms import Method
from ..compiling import compile_fully, double
from ..display import gap_text, html_table, round_up
from ..problems import AbstractProblem
from ..tree import Tree
from ..validation import of_type, short
from .options import Check, RunOptions, SimulatorOptions, fields_of, one_word_of, option, options, takes
from .outputs import KINDS, structure_of
from .prepare import FACTORS, build_setup, first_state, prepare, with_steps
from .rounds import advance, run_local_steps
from .run import Run
from .simulator import simulate
from .state import Setup, State
from .status import Stop

# What averaging does to structure: the points of a round's clients, and the server's point that comes of them.


def averaging(
    problem: AbstractProblem,
    method: Method,
    *,
    clients: int,
    local_steps: int,
    rounds: int,
    every: int,
    noise: Any = None,
    seed: int = 0,
    z0: Any = None,
    dtype: Any = None,
) -> dict[str, list[int | float]]:
    """Densities of the clients' points at the end of a round (mean, lowest, highest) and of the server's after it.

    For dual and primal methods without a survey, whose messages are increments; not if all blocks are spectral.
    """
    series: dict[str, list[int | float]] = {name: [] for name in ("round", "clients", "lowest", "highest", "server")}
    with double():
        z0 = problem.validate_point(problem.like if z0 is None else z0, "z0")
        options = RunOptions(local_steps=local_steps, noise=noise, seed=seed, dtype=dtype)
        setup = build_setup(problem, method, options, clients)
        state = first_state(setup, z0, options)
        while int(state.round) < rounds:
            state = advance(setup, state, jnp.asarray(min(every, rounds - int(state.round)) - 1))
            points = _client_points(setup, state)
            state = advance(setup, state, jnp.asarray(1))
            each = [_density(problem, jax.tree.map(lambda leaf, m=m: leaf[m], points)) for m in range(clients)]
            server = _density(problem, setup.rounds.point(state.server, setup.problem.geometry))
            row = (int(state.round), float(np.mean(each)), min(each), max(each), server)
            for name, value in zip(series, row, strict=True):
                series[name].append(value)
    return series


@compile_fully
def _client_points(setup: Setup, state: State) -> Tree:
    """What the server averages: each client's state after its last step, as a point. A client alone is its own mean."""
    alone, steps = jnp.ones(1, setup.weights.dtype), jnp.asarray(setup.local_steps, setup.weights.dtype)

    def one(m: Array) -> Tree:
        data = jax.tree.map(lambda leaf: jnp.asarray(leaf)[m][None], setup.problem.data)
        part, _ = run_local_steps(setup, state, None, data, None, m[None], alone, steps)
        return setup.rounds.point(tree.add(state.server, part.message), setup.problem.geometry)

    return jax.lax.map(one, jnp.arange(setup.clients))


def _density(problem: AbstractProblem, z: Tree) -> float:
    density, _ = structure_of(problem, jax.tree.map(np.asarray, z))
    if density is None:
        raise ValueError("averaging compares densities, and all blocks of this problem are spectral")
    return density


def _grid(name: str, value: object) -> object:
    return of_type(name, value, Mapping, 'step sizes such as {"eta_c": [0.01, 0.03]}')


def _grid_or_none(name: str, value: object) -> object:
    return None if value is None else _grid(name, value)


def _seeds(name: str, value: object) -> object:
    return of_type(name, value, Iterable, "whole numbers such as (0, 1)")


def not_here(reason: str) -> Check:
    """A check that accepts None alone, for this reason."""

    def check(name: str, value: object) -> None:
        if value is not None:
            raise TypeError(f"{name} {reason}")

    return check


@no_type_check
@options
class GridOptions(SimulatorOptions):
    """The options of many runs that differ in their step sizes."""

    grid: Mapping[str, Sequence[float]] = option(
        _grid, 'Step sizes of the method with the values to try, such as {"eta_c": [0.01, 0.03]}.'
    )
    checkpoint: None = option(
        not_here("is of one run, and a sweep has many: call simulate for each"), "None: of one run.", default=None
    )


@no_type_check
@options
class SweepOptions(GridOptions):
    """The options of `fx.sweep`."""

    seed: None = option(not_here("is of one run: give seeds="), "None: there are seeds.", default=None)  # type: ignore[assignment]
    seeds: Iterable[int] = option(_seeds, "Every combination of the grid is run with each.", default=(0,))


@no_type_check
@options
class TuneOptions(GridOptions):
    """The options of `fx.tune`."""

    grid: Mapping[str, Sequence[float]] | None = option(  # type: ignore[assignment]
        _grid_or_none,
        "As in `fx.sweep`; if None, every step size that the method was built without, at 0.1, 0.3, 1, 3 and 10 times "
        "what theory would choose.",
        default=None,
    )
    output: str | None = option(
        one_word_of(*KINDS), "The output whose final certified gap is compared.", default="last"
    )


@dataclass(frozen=True)
class Point:
    """One run of a sweep: its step sizes, its seed and its outputs."""

    steps: dict[str, float]
    seed: int
    run: Run


@dataclass(frozen=True, repr=False)
class Tuned:
    """The method with the step sizes that won, and every candidate's score.

    method, steps: the method, and its step sizes by name. score, table: its certified gap; all candidates with theirs.
    """

    method: Method
    steps: dict[str, float]
    score: float
    table: list[tuple[dict[str, float], float]]

    def __repr__(self) -> str:
        best = f"{_text(self.steps)}: certified gap <= {round_up(self.score)}"
        return f"Tuned({type(self.method).__name__} with {best}, best of {len(self.table)})"

    def _repr_html_(self) -> str:
        """All candidates as a table, for notebooks."""
        rows = [(f"{_text(steps)} *" if steps == self.steps else _text(steps), gap_text(g)) for steps, g in self.table]
        return html_table(("step sizes, * the best", "certified gap <="), rows, repr(self))


def _text(steps: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={value:.4g}" for name, value in steps.items())


@takes(SweepOptions)
def sweep(problem: AbstractProblem, method: Method, chosen: SweepOptions) -> list[Point]:
    """`simulate` at every combination of the grid's step sizes and every seed, in one compilation. The options:"""
    points = []
    for steps, seed in itertools.product(_combinations(method, chosen.grid), chosen.seeds):
        run = simulate(problem, with_steps(method, steps), **{**fields_of(chosen, SimulatorOptions), "seed": seed})
        if run.stop is Stop.INTERRUPTED:  # what was not run to its end cannot be compared
            raise KeyboardInterrupt
        points.append(Point(steps, seed, run))
    return points


@takes(TuneOptions)
def tune(problem: AbstractProblem, method: Method, chosen: TuneOptions) -> Tuned:
    """The step sizes whose final certified gap of `output` is smallest on one seed.

    Without a grid, all combinations of 0.1, 0.3, 1, 3 and 10 times the step sizes that theory would choose are tried,
    for the step sizes that the method was built without; those that it has stay, such as the server's eta_s = 1.
    A run that broke down scores infinity; among equal scores the first of the grid wins.
    The problem must have certificates. The options:
    """
    if reason := problem.why_uncertifiable():
        raise ValueError(f"tune compares certificates, and this problem has none: {reason}")
    options = SimulatorOptions(**fields_of(chosen, SimulatorOptions))
    grid = grid_around_theory(problem, method, options) if chosen.grid is None else chosen.grid
    output = str(chosen.output)
    points = sweep(
        problem,
        method,
        grid=grid,
        seeds=(chosen.seed,),
        **{**fields_of(chosen, SimulatorOptions), "output": None, "seed": None},
    )
    table = [(point.steps, score(point.run, output)) for point in points]
    steps, best = min(table, key=lambda row: row[1])
    if not np.isfinite(best):
        raise ValueError(f"no step sizes of the grid gave a finite run: {short(dict(grid))}")
    return Tuned(with_steps(method, steps), steps, best, table)


def grid_around_theory(problem: AbstractProblem, method: Method, options: SimulatorOptions) -> dict[str, list[float]]:
    """Multiples of what theory would choose for each step size that the method was built without."""
    names, kind = method.missing_steps(), type(method).__name__
    if not method.step_names():
        raise ValueError(f"there is nothing to tune: {kind} has no step sizes")
    if not names:
        raise ValueError(f"there is nothing to tune: this {kind} has all its step sizes; leave some out, or give grid=")
    with double():
        filled = prepare(problem, method, options).setup.method
        return {name: [factor * float(getattr(filled, name)) for factor in FACTORS] for name in names}


def _combinations(method: Method, grid: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    names = method.step_names()
    for name in grid:
        if name not in names:
            raise ValueError(f"grid names {name!r}, but {type(method).__name__} has the step sizes {', '.join(names)}")
        if np.ndim(grid[name]) != 1 or len(grid[name]) == 0:
            raise ValueError(f"grid[{name!r}] must be a list of step sizes, got {short(grid[name])}")
    if not grid:
        raise ValueError(f"grid must name step sizes of {', '.join(names)}, got {{}}")
    return [dict(zip(grid, map(float, values), strict=True)) for values in itertools.product(*grid.values())]


def score(run: Run, output: str) -> float:
    """The final certified gap of an output; infinite if the run broke down or has no certificate."""
    gap = run.outputs[output].gap
    return float("inf") if gap is None or run.stop is Stop.NUMERICAL_ERROR else gap

"""Grids of step sizes and seeds: compiled once, because step sizes and seeds are traced."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, no_type_check

import numpy as np

from ..algorithms import AbstractMethod
from ..display import gap_text, html_table, rounded_up
from ..precision import double
from ..problems import AbstractProblem
from ..validation import of_type, short
from .accepted import one_word_of
from .keywords import Check, fields_of, option, options, takes
from .kinds import KINDS
from .options import SimulatorOptions
from .prepare import prepare
from .run import Run
from .simulator import simulate
from .status import Stop
from .steps import FACTORS, with_steps


def _grid(name: str, value: Any) -> Any:
    return of_type(name, value, Mapping, 'step sizes such as {"eta_c": [0.01, 0.03]}')


def _grid_or_none(name: str, value: Any) -> Any:
    return None if value is None else _grid(name, value)


def _seeds(name: str, value: Any) -> Any:
    return of_type(name, value, Iterable, "whole numbers such as (0, 1)")


def not_here(reason: str) -> Check:
    """Nothing but None, for this reason."""

    def check(name: str, value: Any) -> None:
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
    """One run of a sweep: its step sizes, its seed, and what came out."""

    steps: dict[str, float]
    seed: int
    run: Run


@dataclass(frozen=True, repr=False)
class Tuned:
    """The method with the step sizes that won, and every candidate's score.

    method, steps: the method, and its step sizes by name. score, table: its certified gap; all candidates with theirs.
    """

    method: AbstractMethod
    steps: dict[str, float]
    score: float
    table: list[tuple[dict[str, float], float]]

    def __repr__(self) -> str:
        found = f"{_text(self.steps)}: certified gap <= {rounded_up(self.score)}"
        return f"Tuned({type(self.method).__name__} with {found}, best of {len(self.table)})"

    def _repr_html_(self) -> str:
        """All candidates as a table, for notebooks."""
        rows = [(f"{_text(steps)} *" if steps == self.steps else _text(steps), gap_text(g)) for steps, g in self.table]
        return html_table(("step sizes, * the best", "certified gap <="), rows, repr(self))


def _text(steps: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={value:.4g}" for name, value in steps.items())


@takes(SweepOptions)
def sweep(problem: AbstractProblem, method: AbstractMethod, chosen: SweepOptions) -> list[Point]:
    """`simulate` at every combination of the grid's step sizes and every seed, in one compilation. The options:"""
    points = []
    for steps, seed in itertools.product(_combinations(method, chosen.grid), chosen.seeds):
        run = simulate(problem, with_steps(method, steps), **{**fields_of(chosen, SimulatorOptions), "seed": seed})
        if run.stop is Stop.INTERRUPTED:  # what was not run to its end cannot be compared
            raise KeyboardInterrupt
        points.append(Point(steps, seed, run))
    return points


@takes(TuneOptions)
def tune(problem: AbstractProblem, method: AbstractMethod, chosen: TuneOptions) -> Tuned:
    """The step sizes whose final certified gap of `output` is smallest on one seed.

    Without a grid, all combinations of 0.1, 0.3, 1, 3 and 10 times the step sizes that theory would choose are tried,
    for the step sizes that the method was built without; those that it has stay, such as the server's eta_s = 1.
    A run that broke down scores infinity; among equal scores the first of the grid wins.
    The problem must have certificates. The options:
    """
    if reason := problem.why_uncertifiable():
        raise ValueError(f"tune compares certificates, and this problem has none: {reason}")
    grid = _around_theory(problem, method, chosen) if chosen.grid is None else chosen.grid
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


def _around_theory(problem: AbstractProblem, method: AbstractMethod, chosen: TuneOptions) -> dict[str, list[float]]:
    """Multiples of what theory would choose for each step size that the method was built without."""
    names, kind = method.missing_steps(), type(method).__name__
    if not method.step_names():
        raise ValueError(f"there is nothing to tune: {kind} has no step sizes")
    if not names:
        raise ValueError(f"there is nothing to tune: this {kind} has all its step sizes; leave some out, or give grid=")
    options = SimulatorOptions(**fields_of(chosen, SimulatorOptions))
    with double():
        filled = prepare(problem, method, options).setup.method
        return {name: [factor * float(getattr(filled, name)) for factor in FACTORS] for name in names}


def _combinations(method: AbstractMethod, grid: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
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

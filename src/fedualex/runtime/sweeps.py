"""Grids of step sizes and seeds: compiled once, because step sizes and seeds are traced."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, no_type_check

import numpy as np

from ..algorithms import AbstractMethod
from ..problems import AbstractProblem
from ..validation import of_type, short
from .keywords import Check, fields_of, option, options, takes
from .kinds import KINDS
from .options import SimulatorOptions, one_word_of
from .run import Run
from .simulator import simulate
from .status import Stop
from .steps import with_steps


def _grid(name: str, value: Any) -> Any:
    return of_type(name, value, Mapping, 'step sizes such as {"eta_c": [0.01, 0.03]}')


def _seeds(name: str, value: Any) -> Any:
    return of_type(name, value, Iterable, "whole numbers such as (0, 1)")


def _not_here(reason: str) -> Check:
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
        _not_here("is of one run, and a sweep has many: call simulate for each"), "None: of one run.", default=None
    )


@no_type_check
@options
class SweepOptions(GridOptions):
    """The options of `fx.sweep`."""

    seed: None = option(_not_here("is of one run: give seeds="), "None: there are seeds.", default=None)  # type: ignore[assignment]
    seeds: Iterable[int] = option(_seeds, "Every combination of the grid is run with each.", default=(0,))


@no_type_check
@options
class TuneOptions(GridOptions):
    """The options of `fx.tune`."""

    output: str | None = option(
        one_word_of(*KINDS), "The output whose final certified gap is compared.", default="last"
    )


@dataclass(frozen=True)
class Point:
    """One run of a sweep: its step sizes, its seed, and what came out."""

    steps: dict[str, float]
    seed: int
    run: Run


@dataclass(frozen=True)
class Tuned:
    """The method with the step sizes that won, and every candidate's score."""

    method: AbstractMethod
    steps: dict[str, float]
    score: float
    table: list[tuple[dict[str, float], float]]


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

    A run that broke down scores infinity; among equal scores the first of the grid wins.
    The problem must have certificates. The options:
    """
    if reason := problem.why_uncertifiable():
        raise ValueError(f"tune compares certificates, and this problem has none: {reason}")
    output = str(chosen.output)
    points = sweep(
        problem,
        method,
        grid=chosen.grid,
        seeds=(chosen.seed,),
        **{**fields_of(chosen, SimulatorOptions), "output": None, "seed": None},
    )
    table = [(point.steps, score(point.run, output)) for point in points]
    steps, best = min(table, key=lambda row: row[1])
    if not np.isfinite(best):
        raise ValueError(f"no step sizes of the grid gave a finite run: {short(dict(chosen.grid))}")
    return Tuned(with_steps(method, steps), steps, best, table)


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

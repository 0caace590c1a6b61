"""Grids of step sizes and seeds: compiled once, because step sizes and seeds are traced."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np

from ..algorithms import AbstractMethod
from ..problems import AbstractProblem
from ..problems.base import as_problem
from ..validation import of_type, one_of, positive, short
from .options import OUTPUTS
from .run import Run
from .simulate import simulate
from .status import Stop


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


def sweep(
    problem: AbstractProblem,
    method: AbstractMethod,
    *,
    grid: Mapping[str, Sequence[float]],
    seeds: Iterable[int] = (0,),
    **options: Any,
) -> list[Point]:
    """`simulate` at every combination of the grid's step sizes and every seed, in one compilation.

    grid: step size names of the method with the values to try, e.g. {"eta_c": [1e-2, 3e-2], "eta_s": [1.0, 0.3]}.
    """
    if "checkpoint" in options:
        raise TypeError("checkpoint is of one run, and a sweep has many: call simulate for each")
    points = []
    of_type("seeds", seeds, Iterable, "whole numbers such as (0, 1)")
    for steps, seed in itertools.product(_combinations(method, grid), seeds):
        run = simulate(problem, with_steps(method, steps), seed=seed, **options)
        if run.stop is Stop.INTERRUPTED:  # what was not run to its end cannot be compared
            raise KeyboardInterrupt
        points.append(Point(steps, seed, run))
    return points


def tune(
    problem: AbstractProblem,
    method: AbstractMethod,
    *,
    grid: Mapping[str, Sequence[float]],
    seed: int = 0,
    output: str = "last",
    **options: Any,
) -> Tuned:
    """The step sizes whose final certified gap of `output` is smallest on one seed.

    A run that broke down scores infinity; among equal scores the first of the grid wins.
    The problem must have certificates.
    """
    one_of("output", output, OUTPUTS)
    if reason := as_problem(problem).why_uncertifiable():
        raise ValueError(f"tune compares certificates, and this problem has none: {reason}")
    points = sweep(problem, method, grid=grid, seeds=(seed,), **options)
    table = [(point.steps, score(point.run, output)) for point in points]
    steps, best = min(table, key=lambda row: row[1])
    if not np.isfinite(best):
        raise ValueError(f"no step sizes of the grid gave a finite run: {short(dict(grid))}")
    return Tuned(with_steps(method, steps), steps, best, table)


def with_steps(method: AbstractMethod, steps: Mapping[str, float]) -> AbstractMethod:
    """The method with these step sizes."""
    return eqx.tree_at(
        lambda m: [getattr(m, name) for name in steps],
        method,
        [positive(name, value) for name, value in steps.items()],
        is_leaf=lambda leaf: leaf is None,
    )


def _combinations(method: AbstractMethod, grid: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    of_type("method", method, AbstractMethod, "a method such as fx.FeDualEx(eta_c=0.03)")
    of_type("grid", grid, Mapping, 'step sizes such as {"eta_c": [0.01, 0.03]}')
    names = [name for name in vars(method) if name.startswith(("eta", "tau", "mu", "L"))]
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

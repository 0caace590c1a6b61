"""Worst sites without the block between x and y: cuts of the dual function, and warm Newton steps in x. A prototype.

    python benchmarks/dual_cuts.py [heart_disease.csv]

What a site would send at (x, y) under masks: sums over sites, weighted by y, of gradients and second derivatives in x,
and the loss of each site, which is the gradient in y. The server keeps c_k = the losses at x_k, so that

    D(y) = min over x of f(x, y) + psi_1(x) <= <c_k, y> + psi_1(x_k)   for all k,   optimum <= max over y of the least.

    repeat
      x = the solution of the model in x at fixed y; survey (x, y) with its dual cut, a lower bound of D(y)
      unless what is left at this y exceeds 0.3 of the gap:
        y = the point nearest to the best y where all cuts are above a level; survey (x, y)

The problem is that of `fedualex fit --goal fair`, on breast cancer with five clients or on four hospitals. One line for
each level: exchanges to 1e-1 / 1e-2 / 1e-3 / 1e-4 / 1e-5, each of one point, counted from zero.
"""

import sys
from pathlib import Path
from typing import Any

import cvxpy as cp
import jax
import numpy as np
from scipy.optimize import linprog

from fedualex.algorithms.newton import entries_of, point_of
from fedualex.bundle import lower_value, upper_value
from fedualex.certificates.surveys import flat_of
from fedualex.compiling import double
from fedualex.model_problem import blocks_of, solve_model
from fedualex.problems.curvature import surveyor_of
from fedualex.runtime.outputs import exact_problem
from fedualex.tables.fit import plan_fit

TARGETS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
LEVELS = (0.3, 0.6)
"""How far below the upper bound the level is, as a share of the gap."""
INNER, MOST, STIFF = 0.3, 90, 1e3
"""The share of the gap that may be left at one y, the most exchanges, and what keeps y where it is in the model."""


class Server:
    """What the server knows: cuts of the dual function, and bounds of the optimal value."""

    def __init__(self, problem: Any):
        exact = exact_problem(problem)
        self.flat, self.surveyor = flat_of(exact), surveyor_of(exact)
        self.blocks, self.split = blocks_of(self.flat), self.flat.split
        self.cap = float(exact.geometry.parts.y.regularizer.cap)
        start = entries_of(jax.tree.map(np.asarray, exact.geometry.project(self.flat.like)))
        self.x, self.y = start[: self.split], start[self.split :]
        self.slopes: list[Any] = []
        self.offsets: list[float] = []
        self.exchanges, self.upper, self.lower = 0, np.inf, -np.inf
        self.best, self.most = self.y, -np.inf

    def survey(self, start: Any = None) -> float:
        """One exchange at (x, y); the lower bound at this y."""
        self.exchanges += 1
        z, begun = (None if x is None else point_of(self.flat, np.concatenate([x, self.y])) for x in (self.x, start))
        found = self.surveyor.survey(z, curvature=True, start=begun)
        g, value = entries_of(found.operator), float(found.value)
        self.gx, losses, self.A = g[: self.split], -g[self.split :], found.curvature.xx
        psi, constant = float(self.flat.psi(np.concatenate([self.x, self.y]))), value - losses @ self.y
        self.slopes.append(losses)
        self.offsets.append(psi + constant)
        self.objective = value + psi
        self.upper = min(self.upper, float(upper_value(self.flat.sides, self.x, -losses, constant)))
        below = float(lower_value(self.flat.sides, self.y, self.gx, value - self.gx @ self.x))
        if found.cut is not None:
            cut = self.y, entries_of(found.cut.slope), float(found.cut.offset)
            below = max(below, float(lower_value(self.flat.sides, *cut)))
        if below > self.most:
            self.most, self.best = below, self.y
        self.lower = max(self.lower, below)
        return below

    def take_step(self) -> Any:
        """x becomes the solution of the model at this y; returns where it was."""
        size = self.split + self.y.size
        J = np.zeros((size, size))
        J[: self.split, : self.split] = self.A
        J[self.split :, self.split :] = STIFF * np.eye(self.y.size)
        g, c = np.concatenate([self.gx, np.zeros(self.y.size)]), np.concatenate([self.x, self.y])
        before, self.x = self.x, solve_model(self.blocks, g, J, c).point[: self.split]
        return before

    def bound_by_cuts(self) -> float:
        """max over y of the least cut: a bound from above, by a mean of the x_k."""
        rows = np.hstack([-np.array(self.slopes), np.ones((len(self.slopes), 1))])
        size = self.y.size
        ends = [(0, self.cap)] * size + [(None, None)]
        sums = {"A_eq": np.append(np.ones(size), 0.0)[None], "b_eq": [1.0]}
        aim = np.append(np.zeros(size), -1.0)
        return float(-linprog(aim, A_ub=rows, b_ub=self.offsets, bounds=ends, method="highs", **sums).fun)

    def move(self, level: float) -> None:
        """y becomes the point nearest to the best one where all cuts are at least the level."""
        y = cp.Variable(self.y.size)
        cuts = np.array(self.slopes) @ y + np.array(self.offsets) >= level
        domain = [cp.sum(y) == 1, y >= 0, y <= self.cap]
        cp.Problem(cp.Minimize(cp.sum_squares(y - self.best)), [cuts, *domain]).solve(solver=cp.CLARABEL)
        self.y = np.clip(y.value, 0, self.cap)
        self.y = self.y / self.y.sum()


def exchanges(problem: Any, share: float) -> list[str]:
    """How many until each of TARGETS."""
    server, reached = Server(problem), dict.fromkeys(TARGETS, "-")
    server.survey()
    while server.exchanges < MOST and reached[TARGETS[-1]] == "-":
        below = server.survey(server.take_step())
        above = min(server.upper, server.bound_by_cuts())
        gap = above - server.lower
        reached |= {level: str(server.exchanges) for level, at in reached.items() if at == "-" and gap <= level}
        if server.objective - below <= INNER * gap:
            server.move(min(server.most + (1 - share) * gap, above - 1e-12))
            server.survey()
    return list(reached.values())


def main(file: str = "") -> None:
    """One line for each level."""
    settings = {"table": "bundled:breast_cancer", "target": "target", "clients": 5, "goal": "fair"}
    if file:
        settings = {"table": file, "target": "disease", "clients": "center", "goal": "fair"}
    problem = plan_fit(settings, Path.cwd()).configuration.problem
    with double():
        for share in LEVELS:
            print(f"level {share:g}: {' / '.join(exchanges(problem, share))}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

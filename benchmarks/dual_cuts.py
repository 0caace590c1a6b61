"""Worst sites without the block between x and y: cuts of the dual function, and warm Newton steps in x. A prototype.

    python benchmarks/dual_cuts.py [heart_disease.csv] [curious]

What a site would send at (x, y) under masks: sums over sites, weighted by y, of gradients in x, the loss of each site,
which is the gradient in y, and second derivatives in x, in one of two ways: weighted by y; or of all sites alike, where
the server makes of their mean, by secants of the gradients at one y, those at this y. It keeps c_k = the losses at x_k:

    D(y) = min over x of f(x, y) + psi_1(x) <= <c_k, y> + psi_1(x_k)   for all k,   optimum <= max over y of the least.

    repeat
      x = the solution of the model in x at fixed y; survey (x, y) with its dual cut, a lower bound of D(y)
      unless what is left at this y exceeds 0.3 of the gap:
        y = the point nearest to the best y where all cuts are above a level; survey (x, y)

The problem is that of `fedualex fit --goal fair`, on breast cancer with five clients or on four hospitals. One line for
each way and level: exchanges to 1e-1 / 1e-2 / 1e-3 / 1e-4 / 1e-5, each of one point, counted from zero.

curious: what an honest server can solve for until 1e-4, here and from the surveys of FeDualSlide, by least squares that
take each site's gradient (and second derivatives) as the same at all points, with weights that fall with the distance
from the last one. Of each site the error, as a share of what tells it from the mean of all.
"""

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import cvxpy as cp
import jax
import numpy as np
from scipy.optimize import linprog

import fedualex as fx
from fedualex.algorithms import Facts
from fedualex.algorithms.newton import entries_of, point_of
from fedualex.bundle import lower_value, upper_value
from fedualex.certificates.surveys import flat_of
from fedualex.compiling import double
from fedualex.model_problem import blocks_of, solve_model
from fedualex.problems.curvature import surveyor_of
from fedualex.runtime.outputs import exact_problem
from fedualex.tables.fit import plan_fit

WAYS = "weighted", "mean"
TARGETS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
LEVELS = (0.3, 0.6)
"""How far below the upper bound the level is, as a share of the gap."""
NEAR = 1e-7
"""Points that are nearer to the last one count alike."""
INNER, MOST, STIFF = 0.3, 90, 1e3
"""The share of the gap that may be left at one y, the most exchanges, and what keeps y where it is in the model."""


class Heard(NamedTuple):
    """What one exchange told."""

    x: Any
    y: Any
    slope: Any
    """The gradient in x, weighted by y."""
    losses: Any
    second: Any
    """Second derivatives in x, weighted by y; not told where those of all sites alike are."""


class Server:
    """What the server knows: cuts of the dual function, and bounds of the optimal value.

    way: "weighted" or "mean", how second derivatives come.
    """

    def __init__(self, problem: Any, way: str):
        self.way, self.heard = way, list[Heard]()
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
        self.gx, losses = g[: self.split], -g[self.split :]
        self.heard.append(Heard(self.x, self.y, self.gx, losses, found.curvature.xx))
        self.A = found.curvature.xx if self.way == "weighted" else self.bend(self.mean_second(self.x))
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

    def mean_second(self, x: Any) -> Any:
        """The second derivatives of all sites alike."""
        at = point_of(self.flat, np.concatenate([x, np.full(self.y.size, 1 / self.y.size)]))
        return self.surveyor.survey(at, curvature=True).curvature.xx

    def bend(self, A: Any) -> Any:
        """A with the secants of gradients at one y, by the rule of Broyden, Fletcher, Goldfarb and Shanno."""
        for one, other in pairwise(self.heard):
            step, change = other.x - one.x, other.slope - one.slope
            along = step @ change
            if np.array_equal(one.y, other.y) and along > 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):
                own = A @ step
                A = A - np.outer(own, own) / (step @ own) + np.outer(change, change) / along
        return A

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


def solve(problem: Any, share: float, way: str, last: float) -> tuple[Server, list[str]]:
    """The server at the end of a run, and how many exchanges each of TARGETS took. last: the gap at which it ends."""
    server, reached, gap = Server(problem, way), dict.fromkeys(TARGETS, "-"), np.inf
    server.survey()
    while server.exchanges < MOST and gap > last:
        below = server.survey(server.take_step())
        above = min(server.upper, server.bound_by_cuts())
        gap = above - server.lower
        reached |= {level: str(server.exchanges) for level, at in reached.items() if at == "-" and gap <= level}
        if server.objective - below <= INNER * gap and gap > last:
            server.move(min(server.most + (1 - share) * gap, above - 1e-12))
            server.survey()
    return server, list(reached.values())


# What a curious server makes of an honest run.


def slide(problem: Any) -> Server:
    """A server that has heard what FeDualSlide asks for until 1e-4, or in 150 exchanges."""
    exact, server, method = exact_problem(problem), Server(problem, "weighted"), fx.FeDualSlide()
    facts = Facts(exact, 1)
    state = method.init(facts, exact.geometry.project(jax.tree.map(np.asarray, facts.flat.like)))
    while len(server.heard) < 150 and not (state.bounds.are_known and state.bounds.gap <= 1e-4):
        (point,) = method.ask(facts, state).points
        found, z = server.surveyor.survey(jax.tree.map(np.asarray, point)), entries_of(point)
        g = entries_of(found.operator)
        server.heard.append(Heard(z[: server.split], z[server.split :], g[: server.split], -g[server.split :], None))
        state = method.tell(facts, state, [found])
    return server


def weights_of(problem: Any, y: Any) -> Any:
    """What the sites count with."""
    return np.asarray(problem.f.shares(np.asarray(y)))


def solve_for_sites(problem: Any, server: Server, bent: Any) -> list[str]:
    """The error of each site's gradient at the last point; bent: what the server takes for second derivatives."""
    heard, last, count = server.heard, server.heard[-1], server.y.size
    moved = [one.x - last.x for one in heard]
    far = np.array([np.linalg.norm(step) for step in moved])
    rows, right = [], []
    for one, step, r in zip(heard, moved, far, strict=True):
        rows.append(np.kron(weights_of(problem, one.y), np.eye(server.split)) / (r + NEAR))
        right.append((one.slope - bent @ step) / (r + NEAR))
        if r > NEAR:
            own = 1 - float(problem.f.spread)
            rows.append(np.kron(np.eye(count), step) / (r**2 + NEAR))
            right.append(((one.losses - last.losses) / own - step @ bent @ step / 2) / (r**2 + NEAR))
    rows.append(1e-3 * np.eye(count * server.split))
    right.append(np.zeros(count * server.split))
    found = np.linalg.lstsq(np.vstack(rows), np.concatenate(right), rcond=None)[0].reshape(count, -1)
    return errors(problem, server, found, truth(problem, server)[0])


def solve_for_moments(problem: Any, server: Server) -> list[str]:
    """The error of each site's second derivatives at the last point, from those weighted by y."""
    far = np.array([np.linalg.norm(one.x - server.heard[-1].x) for one in server.heard])
    near = 1 / (far + 1e-3 * far.max())[:, None]
    q = np.array([weights_of(problem, one.y) for one in server.heard])
    second = np.array([one.second.ravel() for one in server.heard])
    found = np.linalg.lstsq(near * q, near * second, rcond=None)[0]
    return errors(problem, server, found, truth(problem, server)[1])


def truth(problem: Any, server: Server) -> tuple[Any, Any]:
    """Each site's gradient and second derivatives at the last point, one a row."""
    ys = np.random.default_rng(0).dirichlet(np.ones(server.y.size), 2 * server.y.size)
    points = (point_of(server.flat, np.concatenate([server.heard[-1].x, y])) for y in ys)
    found = [server.surveyor.survey(point, curvature=True) for point in points]
    slopes = np.array([entries_of(one.operator)[: server.split] for one in found])
    second = np.array([one.curvature.xx.ravel() for one in found])
    q = weights_of(problem, ys)
    return tuple(np.linalg.lstsq(q, each, rcond=None)[0] for each in (slopes, second))


def errors(problem: Any, server: Server, found: Any, true: Any) -> list[str]:
    """As shares of what tells each site from the weighted mean."""
    mean = weights_of(problem, server.heard[-1].y) @ true
    shares = np.linalg.norm(found - true, axis=1) / np.linalg.norm(true - mean, axis=1)
    return [f"{share:.2f}" for share in shares]


def report_curious(problem: Any) -> None:
    """One line for each run and what is solved for."""
    runs = {way: solve(problem, LEVELS[0], way, 1e-4)[0] for way in WAYS} | {"FeDualSlide": slide(problem)}
    for words, server in runs.items():
        bent = server.mean_second(server.heard[-1].x)
        for known, second in (("", np.zeros_like(bent)), (", mean second derivatives known", bent)):
            found = solve_for_sites(problem, server, second)
            print(f"{words}, {len(server.heard)} exchanges{known}: gradients {' / '.join(found)}", flush=True)
    print(f"weighted: second derivatives {' / '.join(solve_for_moments(problem, runs['weighted']))}", flush=True)


def main(*arguments: str) -> None:
    """One line for each way and level, or for what is solved for."""
    settings = {"table": "bundled:breast_cancer", "target": "target", "clients": 5, "goal": "fair"}
    for file in (argument for argument in arguments if argument.endswith(".csv")):
        settings = {"table": file, "target": "disease", "clients": "center", "goal": "fair"}
    problem = plan_fit(settings, Path.cwd()).configuration.problem
    with double():
        if "curious" in arguments:
            report_curious(problem)
            return
        for way in WAYS:
            for share in LEVELS:
                found = solve(problem, share, way, TARGETS[-1])[1]
                print(f"{way}, level {share:g}: {' / '.join(found)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Worst sites under masks: exchanges of FeDualCuts and FeDualSlide, and what a curious server can solve for.

    python benchmarks/dual_cuts.py [heart_disease.csv] [curious]

The problem is that of `fedualex fit --goal fair`, on breast cancer with five clients or on four hospitals. One line for
each method: exchanges to 1e-1 / 1e-2 / 1e-3 / 1e-4 / 1e-5 / 1e-6, counted from zero.

curious: what an honest server can solve for until 1e-4, by least squares that take each site's gradient (and second
derivatives) as the same at all points, with weights that fall with the distance from the last one. Of each site the
error, as a share of what tells it from the mean of all.
"""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import fedualex as fx
from fedualex.algorithms import Facts
from fedualex.algorithms.bounding import entries_of, point_of
from fedualex.certificates.surveys import flat_of
from fedualex.compiling import double
from fedualex.problems.curvature import surveyor_of
from fedualex.runtime.outputs import exact_problem
from fedualex.tables.fit import plan_fit

METHODS = fx.FeDualCuts, fx.FeDualSlide
TARGETS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
MOST = 200
"""Exchanges."""
NEAR = 1e-7
"""Points that are nearer to the last one count alike."""
RIDGES = 10.0 ** np.arange(-3, 5)
"""How strongly what is solved for is held to the mean of all."""


class Heard(NamedTuple):
    """What one survey told."""

    x: Any
    y: Any
    slope: Any
    """The gradient in x, weighted by y."""
    losses: Any


class Run:
    """What a server has heard that follows a method until a gap, and the gap after every exchange."""

    def __init__(self, problem: Any, method: Any, last: float):
        exact = exact_problem(problem)
        facts, self.heard, self.gaps = Facts(exact, 1), list[Heard](), list[float]()
        self.flat, self.surveyor = flat_of(exact), surveyor_of(exact)
        self.split, self.size = self.flat.split, int(problem.like.y.size)
        state = method.init(facts, exact.geometry.project(jax.tree.map(np.asarray, facts.flat.like)))
        while len(self.gaps) < MOST and not (self.gaps and self.gaps[-1] <= last):
            state = method.tell(facts, state, [self.listen(method.ask(facts, state))])
            self.gaps.append(state.bounds.gap if state.bounds.are_known else np.inf)

    def listen(self, asked: Any) -> Any:
        """The answer to a survey of one point."""
        point = jax.tree.map(np.asarray, asked.points[0])
        start = asked.starts[0] if asked.starts else None
        found = (self.surveyor.survey_alike if asked.alike else self.surveyor.survey)(point, start=start)
        z, g = entries_of(point), entries_of(found.operator)
        self.heard.append(Heard(z[: self.split], z[self.split :], g[: self.split], -g[self.split :]))
        return found

    def mean_second(self) -> Any:
        """The second derivatives in x of all sites alike at the last point."""
        last = point_of(self.flat, np.concatenate([self.heard[-1].x, self.heard[-1].y]))
        return self.surveyor.survey_alike(last).curvature.xx


# What a curious server makes of an honest run.


def weights_of(problem: Any, y: Any) -> Any:
    """What the sites count with."""
    return np.asarray(problem.f.shares(np.asarray(y)))


def solve_for_sites(problem: Any, run: Run, bent: Any) -> list[str]:
    """The error of each site's gradient at the last point; bent: what the server takes for second derivatives.

    Of RIDGES the one with the least errors, which a server would have to guess.
    """
    rows, right = equations(problem, run, bent)
    true, near = truth(problem, run), np.tile(run.heard[-1].slope, run.size)
    found = []
    for ridge in RIDGES:
        held = np.vstack([rows, ridge * np.eye(near.size)]), np.concatenate([right, ridge * near])
        found.append(errors(problem, run, np.linalg.lstsq(*held, rcond=None)[0].reshape(run.size, -1), true))
    return [f"{share:.2f}" for share in min(found, key=np.sum)]


def equations(problem: Any, run: Run, bent: Any) -> tuple[Any, Any]:
    """What every survey says of the sites' gradients at the last point, up to what bends more than that."""
    heard, last, count = run.heard, run.heard[-1], run.size
    rows, right = [], []
    for one in heard:
        step = one.x - last.x
        r = np.linalg.norm(step)
        rows.append(np.kron(weights_of(problem, one.y), np.eye(run.split)) / (r + NEAR))
        right.append((one.slope - bent @ step) / (r + NEAR))
        if r > NEAR:
            own = 1 - float(problem.f.spread)
            rows.append(np.kron(np.eye(count), step) / (r**2 + NEAR))
            right.append(((one.losses - last.losses) / own - step @ bent @ step / 2) / (r**2 + NEAR))
    return np.vstack(rows), np.concatenate(right)


def truth(problem: Any, run: Run) -> Any:
    """Each site's gradient at the last point, one a row."""
    ys = np.random.default_rng(0).dirichlet(np.ones(run.size), 2 * run.size)
    points = (point_of(run.flat, np.concatenate([run.heard[-1].x, y])) for y in ys)
    slopes = np.array([entries_of(run.surveyor.survey(point).operator)[: run.split] for point in points])
    return np.linalg.lstsq(weights_of(problem, ys), slopes, rcond=None)[0]


def errors(problem: Any, run: Run, found: Any, true: Any) -> Any:
    """As shares of what tells each site from the weighted mean."""
    mean = weights_of(problem, run.heard[-1].y) @ true
    return np.linalg.norm(found - true, axis=1) / np.linalg.norm(true - mean, axis=1)


def report_curious(problem: Any) -> None:
    """One line for each run and what is solved for."""
    for method in METHODS:
        run = Run(problem, method(), 1e-4)
        bent = run.mean_second()
        for known, second in (("", np.zeros_like(bent)), (", mean second derivatives known", bent)):
            found = solve_for_sites(problem, run, second)
            print(f"{method.__name__}, {len(run.heard)} exchanges{known}: gradients {' / '.join(found)}", flush=True)


def main(*arguments: str) -> None:
    """One line for each method, or for what is solved for."""
    settings = {"table": "bundled:breast_cancer", "target": "target", "clients": 5, "goal": "fair"}
    for file in (argument for argument in arguments if argument.endswith(".csv")):
        settings = {"table": file, "target": "disease", "clients": "center", "goal": "fair"}
    problem = plan_fit(settings, Path.cwd()).configuration.problem
    with double():
        if "curious" in arguments:
            report_curious(problem)
            return
        for method in METHODS:
            gaps = np.array(Run(problem, method(), TARGETS[-1]).gaps)
            first = [np.flatnonzero(gaps <= level) for level in TARGETS]
            reached = [str(there[0] + 1) if there.size else "-" for there in first]
            print(f"{method.__name__}: {' / '.join(reached)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

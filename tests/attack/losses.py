"""Losses of a linear score: a certificate is never below the gap, nor below its own formula where its rounding is bounded."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import jax
import numpy as np

import fedualex as fx
from fedualex.problems import Problem
from fedualex.runs.folder import describe

from .exact import Psi
from .games import INSIDE, REFUSALS, check_certificate, check_run
from .harness import require, within
from .suprema import ZERO, Vector, dot, number, vector
from .terms import Rng, array, evaluated, scale

ROWS, FEATURES = (1, 8), (1, 4)
"""Powers of two, so that every row's share is a float64."""
STEPS = [Decimal(10) ** -k for k in range(9)]


@dataclass(frozen=True)
class Fit:
    """mean_i loss(<w, X_i> + b, y_i) + psi(w, b), in exact arithmetic."""

    text: str
    X: Any
    y: Any
    squared: bool
    parts: dict[str, Psi]
    """By the names of the problem's arrays, as the library describes them."""

    def gap(self, z: fx.Saddle) -> Decimal:
        """phi(z) - phi(u) for the best u on the way to the response to z: at most the gap."""
        point = self._point(z)
        slopes = self._slopes(point)
        goal = {name: psi.maximizer([-t for t in slopes[name]]) for name, psi in self.parts.items()}
        here = self._objective(point)
        return max(here - self._objective(_between(point, goal, step)) for step in STEPS)

    def certified(self, z: fx.Saddle) -> Decimal:
        """<g, z> + psi(z) + psi^*(-g)."""
        point = self._point(z)
        slopes = self._slopes(point)
        return sum((psi.fenchel(point[name], slopes[name]) for name, psi in self.parts.items()), ZERO)

    def outside(self, z: fx.Saddle) -> Decimal:
        """How far z is outside the domain."""
        return max(psi.outside(self._point(z)[name]) for name, psi in self.parts.items())

    def _point(self, z: fx.Saddle) -> dict[str, Vector]:
        return {f"x[{name!r}]": vector(np.asarray(leaf)) for name, leaf in z.x.items()}

    def _scores(self, point: Mapping[str, Vector]) -> Vector:
        bias = point.get("x['bias']", [ZERO])[0]
        return [dot(vector(row), point["x['weights']"]) + bias for row in self.X]

    def _objective(self, point: Mapping[str, Vector]) -> Decimal:
        scores, targets = self._scores(point), vector(self.y)
        if self.squared:
            losses = [(s - t) ** 2 / 2 for s, t in zip(scores, targets, strict=True)]
        else:
            losses = [_softplus(-t * s) for s, t in zip(scores, targets, strict=True)]
        return sum(losses, ZERO) / len(losses) + sum((psi.value(point[name]) for name, psi in self.parts.items()), ZERO)

    def _slopes(self, point: Mapping[str, Vector]) -> dict[str, Vector]:
        scores, targets = self._scores(point), vector(self.y)
        if self.squared:
            residual = [(s - t) / len(scores) for s, t in zip(scores, targets, strict=True)]
        else:
            residual = [-t / (1 + (t * s).exp()) / len(scores) for s, t in zip(scores, targets, strict=True)]
        columns = [[number(entry) for entry in column] for column in self.X.T]
        return {"x['weights']": [dot(column, residual) for column in columns], "x['bias']": [sum(residual, ZERO)]}


def _softplus(t: Decimal) -> Decimal:
    return max(t, ZERO) + (1 + (-abs(t)).exp()).ln()


def _between(point: Mapping[str, Vector], goal: Mapping[str, Vector], step: Decimal) -> dict[str, Vector]:
    return {name: [a + step * (b - a) for a, b in zip(point[name], goal[name], strict=True)] for name in goal}


def random_fit(rng: Rng) -> tuple[Fit, Problem] | None:
    """A sparse linear or logistic regression with random data, penalties and bounds; None if it is refused."""
    rows, features = int(rng.choice(ROWS)), int(rng.choice(FEATURES))
    squared = bool(rng.random() < 0.5)
    X = scale(rng) * rng.normal(size=(rows, features))
    y = scale(rng) * rng.normal(size=rows) if squared else np.where(np.arange(rows) % 2, 1.0, -1.0)
    penalties = {"l1": 0.0 if rng.random() < 0.3 else scale(rng), "l2": 0.0 if rng.random() < 0.3 else scale(rng)}
    radius = scale(rng) if rng.random() < 0.5 else None
    options = ", ".join(f"{name}={value!r}" for name, value in penalties.items())
    family = "squared" if squared else "logistic"
    text = (
        f"fx.problems.sparse_glm({family!r}, {array(X)}, {array(y)}, {options}, radius={radius!r}, "
        f"intercept={bool(rng.random() < 0.5)})"
    )
    try:
        problem = evaluated(text)
        parts = {name: _described(part, features) for name, part in describe(problem.geometry).items()}
    except REFUSALS:
        return None
    return Fit(text, X, y, squared, parts), problem


def _described(part: Mapping[str, Any], features: int) -> Psi:
    """The library's description of a regularizer as one of ours."""
    name = part["class"]
    if name == "Euclidean":
        return _described(part["regularizer"], features)
    if name == "WithQuadratic":
        return replace(_described(part["core"], features), l2=number(part["lam"]))
    if name in ("InBox", "InBall"):
        return replace(_described(part["domain"], features), l1=number(part["penalty"]["lam"]))
    if name == "Box":
        lower, upper = (np.atleast_1d(np.array(part[side], float)) for side in ("lower", "upper"))
        size = features if lower.size > 1 else 1
        return Psi("box", size, lower=vector(lower), upper=vector(upper))
    kinds = {"L2Ball": "ball2", "L1Ball": "ball1"}
    if name in kinds:
        return Psi(kinds[name], features, radius=number(part["radius"]))
    if name == "L1":
        return Psi("space", features, l1=number(part["lam"]))
    raise ValueError(f"no exact arithmetic for {name}")


def attack(rng: Rng) -> None:
    """Certificates of a random fit at random points and, now and then, of a run."""
    made = random_fit(rng)
    if made is None:
        return
    fit, problem = made
    solved = bool(rng.random() < 0.2)
    tol = float(10 ** rng.uniform(-12, 2))
    call = f"fx.solve(problem, fx.FeDualEx(), rounds=20, record_every=10, tol={tol!r})"
    with within(120, "a certificate or run of a loss", fit.text):
        for _ in range(3):
            size = float(10 ** rng.uniform(-4, 4))
            z = jax.tree.map(lambda leaf, size=size: size * rng.normal(size=np.shape(leaf)), problem.like)
            _check(fit, problem, problem.project(z))
        if solved:
            repro = f"problem = {fit.text}\nrun = {call}\nprint(run)"
            try:
                run = eval(call, {"fx": fx, "problem": problem})
            except REFUSALS as error:
                require(len(str(error)) <= 400, f"a refusal of {len(str(error))} characters", repro)
                return
            check_run(run, tol, fit.gap, fit.outside, repro)


def _check(fit: Fit, problem: Problem, z: fx.Saddle) -> None:
    point = ", ".join(f"{name!r}: {array(leaf)}" for name, leaf in z.x.items())
    repro = f"problem = {fit.text}\nz = fx.Saddle({{{point}}})\nprint(problem.certificate(z))"
    require(fit.outside(z) <= INSIDE, "a projection is outside the domain", repro)
    try:
        certificate = problem.certificate(z)
    except REFUSALS:
        return
    bound = fit.gap(z) if certificate.estimated else fit.certified(z)
    check_certificate(certificate, bound, repro)

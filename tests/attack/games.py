"""Bilinear games of every kind and scale: a certificate is never below the gap of exact arithmetic, nor is its text."""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import jax
import numpy as np

import fedualex as fx
from fedualex.problems import Bilinear, Certificate

from .exact import is_number
from .harness import require, within
from .suprema import ZERO, Vector, dot, number, vector
from .terms import Rng, Term, array, entropic, euclidean, evaluated, scale, spectral

SIZES = (1, 3, 20)
SOLVED_SIZES = (1, 3)
METHODS = ("fx.FeDualEx()", "fx.SynchronousMirrorProx()", "fx.FedDualAvg()", "fx.FedMiP()")
REFUSALS = (TypeError, ValueError, FloatingPointError)
INSIDE = Decimal("1e-12")
LARGE = Decimal("1e290")
"""Beyond this float64 may answer with infinity."""


@dataclass(frozen=True)
class Game:
    """<A x - b, y> + psi_1(x) - psi_2(y)."""

    A: Any
    b: Any
    x: Term
    y: Term

    @property
    def text(self) -> str:
        return f"fx.problems.bilinear({array(self.A)}, {array(self.b)},\n    x={self.x.text},\n    y={self.y.text})"

    def gap(self, z: fx.Saddle) -> Decimal:
        """The gap at a point of float64 numbers, as they are."""
        x, y = vector(z.x), vector(z.y)
        rows = self.A.shape[0]
        A = [vector(row) for row in self.A]
        columns = list(zip(*A, strict=True))
        width = len(x) // len(columns)
        slope_x, slope_y = [ZERO] * len(x), vector(self.b)
        for p in range(width):  # of matrices, column by column
            own_x, own_y = x[p::width], y[p::width]
            slope_x[p::width] = [dot(list(column), own_y) for column in columns]
            slope_y[p::width] = [t - dot(A[i], own_x) for i, t in zip(range(rows), slope_y[p::width], strict=True)]
        return self.x.exact.fenchel(x, slope_x) + self.y.exact.fenchel(y, slope_y)

    def outside(self, z: fx.Saddle) -> Decimal:
        """How far z is outside the domain."""
        return max(self.x.exact.outside(vector(z.x)), self.y.exact.outside(vector(z.y)))


def random_game(rng: Rng, sizes: tuple[int, ...] = SIZES) -> Game:
    """Of vectors, or of matrices with two columns."""
    n, m = (int(size) for size in rng.choice(sizes, 2))
    A = _entries(rng, (n, m))
    if rng.random() < 0.1:
        b = _entries(rng, (n, 2))
        return Game(A, b, spectral(rng), spectral(rng))
    x, y = (entropic(rng, size) if rng.random() < 0.2 else euclidean(rng, size) for size in (m, n))
    return Game(A, _entries(rng, (n,)), x, y)


def _entries(rng: Rng, shape: tuple[int, ...]) -> Any:
    """Numbers of one size, of all sizes, whole numbers, one entry that is not 0, or none."""
    kind, size = rng.integers(8), scale(rng)
    if kind == 0:
        return np.zeros(shape)
    if kind == 1:
        found = np.zeros(shape)
        found.flat[rng.integers(found.size)] = size
        return found
    if kind == 2:
        return size * rng.integers(-3, 4, shape)
    if kind == 3:
        return rng.normal(size=shape) * 10 ** rng.uniform(-8, 8, shape)
    return size * rng.normal(size=shape)


def attack_points(rng: Rng) -> None:
    """A random game and its certificates at points that are no solutions: inside, on the boundary, at corners."""
    game = random_game(rng)
    with within(60, "a certificate", game.text):
        problem = _built(game)
        if problem is None:
            return
        for z in _points(rng, game, problem):
            repro = f"problem = {game.text}\nz = {_point_text(z)}\nprint(problem.certificate(z))"
            require(game.outside(z) <= INSIDE, "a projection is outside the domain", repro)
            try:
                certificate = problem.certificate(z)
            except REFUSALS:
                continue
            check_certificate(certificate, game.gap(z), repro)


def _built(game: Game) -> Bilinear | None:
    try:
        problem: Bilinear = evaluated(game.text)
    except REFUSALS:  # a cap that rounding makes too small, and the like
        return None
    return problem


def _points(rng: Rng, game: Game, problem: Bilinear) -> list[fx.Saddle]:
    """Projections of points of all sizes, and best responses to them."""
    found = []
    for _ in range(3):
        size = float(10 ** rng.uniform(-9, 9))
        z = problem.project(jax.tree.map(lambda leaf, size=size: size * rng.normal(size=np.shape(leaf)), problem.like))
        found.append(z)
        if isinstance(game.x.exact, type(game.y.exact)) and hasattr(game.x.exact, "maximizer"):
            g = fx.Saddle(game.A.T @ z.y, game.b - game.A @ z.x)
            corner = fx.Saddle(_response(game.x, g.x), _response(game.y, g.y))
            found.append(problem.project(corner))
    return found


def _response(term: Term, g: Any) -> Any:
    """Where <g, x> + psi(x) is least, as float64."""
    if not np.all(np.isfinite(g)):
        return np.zeros(g.shape)
    best: Vector = term.exact.maximizer(vector(-g))
    return np.array([float(min(max(t, -LARGE), LARGE)) for t in best])


def check_certificate(certificate: Certificate, gap: Decimal, repro: str) -> None:
    """Its number and its text are true."""
    found = certificate.gap
    require(found is not None, f"no certificate where there should be one: {certificate}", repro)
    require(not certificate.reason, f"a point of the domain is called infeasible: {certificate}", repro)
    if found == float("inf"):
        require(gap > LARGE, "an infinite bound on a finite gap", repro)
        return
    require(is_number(found), f"a bound that is not a number >= 0: {found!r}", repro)
    require(number(found) >= gap, f"a certificate below the gap: {found!r} < {float(gap)!r}", repro)
    check_text(str(certificate), gap, repro)


def check_text(text: str, gap: Decimal, repro: str) -> None:
    """What is printed as a bound is one."""
    shown = re.search(r"gap <= (\S+)", text)
    require(shown is not None, f"no bound in the text: {text!r}", repro)
    printed = Decimal(shown[1].rstrip(":,"))
    require(not printed.is_nan() and printed >= max(gap, ZERO), f"a printed bound below the gap: {text!r}", repro)


def attack_runs(rng: Rng) -> None:
    """A random game that is solved: every output is certified and inside, and OPTIMAL means it."""
    game = random_game(rng, SOLVED_SIZES)
    method, tol = str(rng.choice(METHODS)), float(10 ** rng.uniform(-12, 4))
    call = f"fx.solve(problem, {method}, rounds=20, record_every=10, tol={tol!r})"
    repro = f"problem = {game.text}\nrun = {call}\nprint(run)"
    with within(120, "a run", repro):
        problem = _built(game)
        if problem is None:
            return
        try:
            run = eval(call, {"fx": fx, "problem": problem})
        except REFUSALS as error:
            require(len(str(error)) <= 400, f"a refusal of {len(str(error))} characters", repro)
            return
    check_run(run, tol, game.gap, game.outside, repro)


def check_run(run: fx.Run, tol: float, gap: Any, outside: Any, repro: str) -> None:
    """Every output of a run, its text and its status against exact gaps."""
    for output in run.outputs.values():
        require(outside(output.z) <= INSIDE, f"the output {output.name} is outside the domain", repro)
        if output.gap is None:
            continue
        true, own = gap(output.z), f"{repro}\n# output {output.name}"
        check_certificate(output.certificate, true, own)
        require(output.status.name != "OPTIMAL" or true <= number(tol), "OPTIMAL, and the gap is above tol", own)
    for name, column in run.history.items():
        finite = name.startswith("gap") and column.dtype.kind == "f"
        require(not finite or bool(np.all(np.isfinite(column))), f"a record of {name} is not finite", repro)
    if run.gap is not None:
        check_text(str(run), gap(run.z), repro)


def _point_text(z: fx.Saddle) -> str:
    return f"fx.Saddle({array(z.x)}, {array(z.y)})"

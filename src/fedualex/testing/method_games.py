"""Small strongly convex-concave games with a known saddle point, and exact runs of a method on them."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from .. import tree
from ..algorithms import AbstractMethod
from ..problems import AbstractProblem, Problem, bilinear, matrix_game
from ..regularizers import Box, SquaredL2
from ..runtime.evaluator import Evaluator, points_of
from ..runtime.options import RunOptions
from ..runtime.outputs import AVERAGES, exact_problem
from ..runtime.prepare import build_setup, first_state, with_steps
from ..runtime.rounds import advance
from ..runtime.state import Missing
from ..tree import Saddle, Tree

ROUNDS = 300
ETA = 0.2
"""The step of a theorem that `theory_steps` is asked to translate; every game has beta <= 2."""
BETA = 2.0
BOUND = 1.0
SIZES = ((3, 2), (3, 1), (1, 2), (1, 1))
"""Clients and local steps, of which a method gets the first that it does not refuse."""


@dataclass(frozen=True)
class Game:
    """A problem of one or more clients, where its runs start, and its saddle point if that is known."""

    name: str
    problem: AbstractProblem
    start: Saddle
    saddle: Saddle | None = None


class Quadratic(eqx.Module):
    """f(x, y, example) = |x|^2 / 2 + <c, x> + <A x - b, y> - |y|^2 / 2 for example = (A, b, c)."""

    def __call__(self, x: Array, y: Array, example: Tree) -> Array:
        cross = jnp.vdot(example["A"] @ x - example["b"], y)
        return jnp.vdot(x, x) / 2 + jnp.vdot(example["c"], x) + cross - jnp.vdot(y, y) / 2


class Games:
    """The games of one seed."""

    def __init__(self, seed: int):
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(2, 3))
        self.A: NDArray[Any] = A / np.linalg.norm(A, 2)
        self.start = Saddle(np.full(3, -0.5), np.full(2, 0.5))
        self.shift: NDArray[Any] = rng.normal(size=3)
        self.y: NDArray[Any] = rng.uniform(-0.5, 0.5, 2)

    def with_psi(self) -> Game:
        """<A x - b, y> + |x|^2 / 2 - |y|^2 / 2, the squares in psi, with a saddle point inside of both boxes."""
        saddle = Saddle(-self.A.T @ self.y, self.y)
        psi = SquaredL2(1.0) + Box(BOUND)
        problem = bilinear(self.A, self.A @ saddle.x - saddle.y, x=psi, y=psi)
        return Game("a bilinear game with psi", problem, self.start, saddle)

    def with_data(self, clients: int = 1, *, equal: bool = True) -> Game:
        """The mean of `Quadratic` over the examples, in two boxes, with a saddle point on the boundary of x's.

        With equal clients every one of them has this mean; else only all together have.
        """
        x = np.array([BOUND, 0.3, -0.4])
        outward = np.array([0.5, 0.0, 0.0])  # in the normal cone of the box at x
        mean = {"A": self.A, "b": self.A @ x - self.y, "c": -x - self.A.T @ self.y - outward}
        data = []
        for m in range(clients):
            off = 0.0 if equal else 0.3 * (m - (clients - 1) / 2)
            spread = np.array([off + 0.1, off - 0.1])
            data.append(
                {
                    "A": np.stack([mean["A"]] * 2),
                    "b": np.stack([mean["b"]] * 2),
                    "c": mean["c"] + spread[:, None] * self.shift,
                }
            )
        box = Box(BOUND)
        problem = Problem(Quadratic(), x=box, y=box, like=self.start, data=data, by_construction=True)
        return Game("a problem with data of clients", problem, self.start, Saddle(x, self.y))

    def on_simplices(self) -> Game:
        """A matrix game with entropic maps, where a dual vector is no point."""
        return Game("a matrix game on simplices", matrix_game(self.A), Saddle(np.full(3, 1 / 3), np.array([0.9, 0.1])))


def sizes_of(method: AbstractMethod, problem: AbstractProblem) -> tuple[int, int] | None:
    """The clients and local steps that the method is run with on this problem; None if it refuses all."""
    known = [(m, k) for m, k in SIZES if problem.clients in (None, m)]
    return next((size for size in known if not method.refusal(problem, *size)), None)


def complete(method: AbstractMethod) -> AbstractMethod:
    """The method with every missing step size by its own rule."""
    rule = method.theory_steps(ETA, BETA, ROUNDS)
    return with_steps(method, {name: rule[name] for name in method.missing_steps()})


def outputs(game: Game, method: AbstractMethod, clients: int, local_steps: int, start: Saddle) -> dict[str, Tree]:
    """The points of all outputs after ROUNDS exact rounds from a start, before anything projects them."""
    options = RunOptions(rounds=ROUNDS, local_steps=local_steps)
    setup = build_setup(game.problem, method, options, clients)
    state = advance(setup, first_state(setup, start, options), jnp.asarray(ROUNDS))
    return points_of(setup, state, AVERAGES)


def gap(problem: AbstractProblem, points: dict[str, Tree]) -> float:
    """The smallest certified gap of all outputs that are finite."""
    finite = {name: z for name, z in points.items() if bool(tree.is_finite(z))}
    found = Evaluator(exact_problem(problem)).outputs(finite)
    gaps = [] if isinstance(found, Missing) else [output.gap for output in found.values()]
    return min((value for value in gaps if value is not None), default=np.inf)

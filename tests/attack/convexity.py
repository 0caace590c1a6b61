"""f that is not convex-concave, or has a kink where a gradient is taken, is never certified; a convex one always is."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fedualex as fx

from .harness import require, within
from .terms import Rng, array

CALL = "run = fx.solve(problem, fx.FeDualEx(0.05), rounds=20)"
HEADER = "import jax, jax.numpy as jnp, numpy as np, fedualex as fx"
SIZES = (1, 10)


@dataclass(frozen=True)
class Loss:
    """f(x, e) or f(x, y, e) as text, the arrays e that it is made of, and whether it may be certified."""

    text: str
    arrays: dict[str, Any]
    saddle: bool
    certifiable: bool

    def problem(self, size: int) -> fx.Problem:
        """On a box, with the arrays as the one example of the one client: f itself stays the same for all cases."""
        sides = {"x": fx.Box(1.0), "y": fx.Box(1.0) if self.saddle else None}
        like = fx.Saddle(np.zeros(size), np.zeros(size) if self.saddle else None)
        example = {name: np.asarray(value)[None] for name, value in self.arrays.items()}
        return fx.Problem(function(self.text), **sides, like=like, data=[example])

    def program(self, size: int) -> str:
        """The same, to be pasted."""
        block, given = (
            f"np.zeros({size})",
            ", ".join(f"{name!r}: {array(value)}[None]" for name, value in self.arrays.items()),
        )
        like = f"fx.Saddle({block}, {block})" if self.saddle else f"fx.Saddle({block})"
        sides = "x=fx.Box(1.0), y=fx.Box(1.0)" if self.saddle else "x=fx.Box(1.0)"
        return f"{HEADER}\nproblem = fx.Problem({self.text}, {sides}, like={like},\n    data=[{{{given}}}])\n{CALL}\nprint(run)"


@cache
def function(text: str) -> Any:
    """One function for one text, so that what is compiled for it is used again."""
    return eval(text, {"jnp": jnp, "jax": jax})


def _curved(rng: Rng, n: int, least: float) -> Any:
    """A symmetric matrix of random directions whose smallest eigenvalue is `least`, the others being up to 1."""
    directions = np.linalg.qr(rng.normal(size=(n, n)))[0]
    values = rng.uniform(0, 1, n) * (rng.random(n) < 0.8)  # degenerate directions among them
    values[0] = least
    matrix = directions * values @ directions.T
    return (matrix + matrix.T) / 2


def quadratic(rng: Rng, n: int, convex: bool) -> Loss:
    """<x, Q x> / 2 + <c, x>."""
    least = float(rng.choice([0.0, 1e-6, 0.3])) if convex else -float(10 ** rng.uniform(-1.3, 1))
    arrays = {"Q": _curved(rng, n, least), "c": rng.normal(size=n)}
    return Loss("lambda x, e: x @ e['Q'] @ x / 2 + e['c'] @ x", arrays, False, convex)


def saddle(rng: Rng, n: int, convex: bool) -> Loss:
    """<x, P x> / 2 + <x, B y> - <y, Q y> / 2, in which one of P and Q has a negative eigenvalue, or none."""
    bad = -float(10 ** rng.uniform(-1.3, 1))
    P, Q = _curved(rng, n, 0.1), _curved(rng, n, 0.1)
    if not convex:
        P, Q = (_curved(rng, n, bad), Q) if rng.random() < 0.5 else (P, _curved(rng, n, bad))
    text = "lambda x, y, e: x @ e['P'] @ x / 2 + x @ e['B'] @ y - y @ e['Q'] @ y / 2"
    return Loss(text, {"P": P, "Q": Q, "B": rng.normal(size=(n, n))}, True, convex)


def network(rng: Rng, n: int, convex: bool) -> Loss:
    """One hidden layer: of softplus with positive weights it is convex, of tanh it is not."""
    W, v = 2 * rng.normal(size=(2 * n, n)), rng.uniform(0.5, 1.5, 2 * n)
    if convex:
        return Loss("lambda x, e: e['v'] @ jax.nn.softplus(e['W'] @ x)", {"W": W, "v": v}, False, True)
    # Targets so far away make every unit concave at 0, where a run starts.
    text = "lambda x, e: jnp.sum((jnp.tanh(e['W'] @ x + 1) - e['t']) ** 2)"
    return Loss(text, {"W": W, "t": rng.uniform(-4, -3, 2 * n)}, False, False)


def kinked(rng: Rng, n: int, convex: bool) -> Loss:
    """Slopes a and -b on both sides of points k, at which autodiff gives a number that is no slope between them."""
    if convex:  # the pseudo-Huber loss: as steep, without the kink
        smooth = "lambda x, e: jnp.sum(jnp.sqrt((x - e['k']) ** 2 + 0.01))"
        return Loss(smooth, {"k": rng.uniform(-1, 1, n)}, False, True)
    arrays = {"a": 1 + rng.uniform(0.1, 2, n), "b": rng.uniform(0.5, 0.99, n)}
    return Loss("lambda x, e: jnp.sum(e['a'] * jax.nn.relu(x) - e['b'] * jax.nn.relu(-x))", arrays, False, False)


FAMILIES = (quadratic, saddle, network, kinked)


def attack(rng: Rng) -> None:
    """UNCERTIFIED without a number where f is not what a certificate needs, and a certificate where it is."""
    n = int(rng.choice(SIZES))
    family, convex = FAMILIES[rng.integers(len(FAMILIES))], bool(rng.random() < 0.5)
    loss = family(rng, n, convex)
    repro = loss.program(n)
    with within(120, "a run", repro):
        run = fx.solve(loss.problem(n), fx.FeDualEx(0.05), rounds=20)
    if loss.certifiable:
        require(run.gap is not None, f"a convex f ({family.__name__}) is refused: {run}", repro)
    else:
        sure = run.status.name != "UNCERTIFIED" or run.gap is not None
        require(not sure, f"an f that is not convex ({family.__name__}) is certified: {run}", repro)

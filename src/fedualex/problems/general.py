"""A problem from a user's own loss of one example."""

import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from .. import tree
from ..geometry import Product
from ..precision import double
from ..tree import Saddle, Tree, is_floating
from ..validation import any_real_array, short
from .base import AbstractProblem, build_geometry
from .data import Clients, objective_weights, stack_clients
from .operator_error import OperatorError, error_of_loss

ELSEWHERE = Clients(None, np.zeros(0, int))
"""No examples of no client."""


class Problem(AbstractProblem):
    """min_x max_y sum_m p_m (mean of f(x, y, example) over client m's examples) + psi_1(x) - psi_2(y).

    f: the loss of ONE example in jax.numpy, a scalar; convex in x and concave in y. `f(x, example)` without y= is plain
        minimization, and without data= f takes no example and all clients share it.
    x, y: a regularizer, a geometry, or a pytree of these, one for each array of `like`.
    like: `fx.Saddle(x0, y0)` of arrays with the shapes of x and y; their values are not used.
    data: one pytree for each client, whose arrays have the client's examples along the first axis; clients may be
        of unequal size. "elsewhere" is the view of a server, which has nobody's.
    weights: p. "clients" weighs all clients alike, "samples" by their number of examples; or one number >= 0 for each
        client, divided by their sum.
    uncertified: a sentence that says why certificates would be wrong, where f is known not to be convex-concave.
    by_construction: whether f is known to be convex-concave by the way it is built. Otherwise runs look for a disproof
        before they claim a certificate.
    own_weights: whether f or the domains were made for these weights, so that other ones would be wrong.
    """

    f: Callable[..., Any]
    geometry: Product
    like: Saddle
    data: Clients | None
    weights: NDArray[Any]
    uncertified: str = eqx.field(static=True)  # type: ignore[misc]
    by_construction: bool = eqx.field(static=True)  # type: ignore[misc]
    own_weights: bool = eqx.field(static=True)

    def __init__(
        self,
        f: Callable[..., Any],
        *,
        x: Any,
        y: Any = None,
        like: Saddle,
        data: Sequence[Tree] | str | None = None,
        weights: Any = "clients",
        uncertified: str = "",
        by_construction: bool = False,
        own_weights: bool = False,
    ):
        if not callable(f):
            raise TypeError(f"f must be a function of (x, y, example), got {short(f)}")
        self.f = f
        self.uncertified, self.by_construction, self.own_weights = uncertified, by_construction, own_weights
        self.like = _template(like, saddle=y is not None)
        self.geometry = build_geometry(x, y, self.like)
        if isinstance(data, str) and data == "elsewhere":
            if not (isinstance(weights, str) and weights == "clients"):
                raise ValueError(f"weights={short(weights)} of clients elsewhere: they belong to the deployment")
            self.data, self.weights = ELSEWHERE, np.zeros(0)
            return
        self.data = None if data is None else stack_clients(data)
        self.weights = objective_weights(weights, None if self.data is None else self.data.counts)
        self._check_f()

    @property
    def clients(self) -> int | None:
        """How many clients hold data."""
        return None if self.data is None else self.weights.size

    def client_weights(self, clients: int) -> NDArray[Any]:
        """As given, or all alike if the clients share f."""
        return np.full(clients, 1 / clients) if self.data is None else self.weights

    def reweighted(self, weights: Any) -> "Problem":
        """The same data and f with other client weights."""
        if self.data is None:
            raise ValueError("weights weigh clients with data of their own; without data= all clients share f")
        if self.own_weights:
            raise ValueError("weights belong to this problem, whose domains hold for them: give them where it is made")
        return eqx.tree_at(lambda problem: problem.weights, self, objective_weights(weights, self.data.counts))

    def of_client(self, m: int) -> "Problem":
        """With the data of client m alone."""
        if self.data is None:
            return self
        own = jax.tree.map(lambda leaf: leaf[m : m + 1], self.data)
        return eqx.tree_at(lambda problem: (problem.data, problem.weights), self, (own, np.ones(1)))

    def without_data(self) -> "Problem":
        """With its data elsewhere."""
        if self.data is None:
            return self
        return eqx.tree_at(lambda problem: (problem.data, problem.weights), self, (ELSEWHERE, np.zeros(0)))

    def sampled(self, examples: int, rng: np.random.Generator) -> "Problem":
        """With as many examples of each client, drawn with replacement."""
        longest = 0 if self.data is None else jax.tree.leaves(self.data.examples)[0].shape[1]
        each = max(1, examples // max(1, self.weights.size))
        if self.data is None or longest <= each:
            return self
        drawn = rng.integers(0, np.asarray(self.data.counts)[:, None], (self.weights.size, each))
        few = jax.tree.map(lambda leaf: np.asarray(leaf)[np.arange(len(drawn))[:, None], drawn], self.data.examples)
        own = Clients(few, np.full(len(drawn), each))
        return eqx.tree_at(lambda problem: problem.data, self, own)

    def loss(self, z: Saddle) -> Array:
        """f(x, y)."""
        if self.data is None:
            return self._of_example(z)
        if not self.data.counts.size:
            raise TypeError("the data of this problem is elsewhere, so its loss and operator cannot be computed here")
        every = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.data.examples)
        share = (jnp.asarray(self.weights)[:, None] * self.data.shares()).ravel()
        return self._weighted_loss(z, every, share)

    def operator(self, z: Saddle) -> Saddle:
        """(grad_x f, -grad_y f) over all clients."""
        return _saddle_gradient(self.loss, z)

    def operator_error(self, z: Saddle, g: Saddle) -> OperatorError:
        """A bound if f is `Majorized`, else an estimate."""
        return error_of_loss(self, z, g)

    def client_operator(self, client: Any, z: Saddle) -> Saddle:
        """(grad_x f_m, -grad_y f_m)."""
        if self.data is None:
            return self.operator(z)
        return _saddle_gradient(lambda at: self._weighted_loss(at, client.examples, client.shares()), z)

    def minibatch_operator(self, client: Any, z: Saddle, size: int, key: Array) -> Saddle:
        """The mean operator of `size` examples drawn uniformly, with replacement; padding is never drawn."""
        if self.data is None:
            raise TypeError("this problem has no data= to draw a Minibatch from; use GaussianNoise or no noise")
        drawn = jax.random.randint(key, (size,), 0, client.counts)
        batch = jax.tree.map(lambda leaf: jnp.asarray(leaf)[drawn], client.examples)
        return _saddle_gradient(lambda at: self._weighted_loss(at, batch, jnp.full(size, 1 / size)), z)

    def _weighted_loss(self, z: Saddle, examples: Tree, share: Array) -> Array:
        return jnp.vdot(share, jax.vmap(lambda example: self._of_example(z, example))(examples))

    def _of_example(self, z: Saddle, *example: Tree) -> Array:
        blocks = (z.x,) if z.y is None else (z.x, z.y)
        return self.f(*blocks, *example)

    def _check_f(self) -> None:
        """One abstract evaluation, so that a wrong f is found here and not inside a run."""
        example = () if self.data is None else (jax.tree.map(lambda leaf: leaf[0, 0], self.data.examples),)
        z = jax.tree.map(jnp.asarray, self.like)
        arguments = "(x, y" if self.like.y is not None else "(x"
        call = f"f{arguments}{', example)' if example else ')'}"
        try:
            result = jax.eval_shape(self._of_example, z, *example)
        except Exception as error:  # whatever f raises, the user should see where and on what
            raise TypeError(
                f"{call} could not be evaluated on arrays shaped as `like`: {_cause(self.f, error)}"
            ) from None
        shapes = [getattr(leaf, "shape", None) for leaf in jax.tree.leaves(result)]
        if shapes != [()] or not is_floating(jax.tree.leaves(result)[0]):
            raise ValueError(f"{call} must return one real number, got {short(result)}")
        for scope in (nullcontext(), double()):  # gradients, in the caller's precision and in the certificates'
            with scope:
                try:
                    jax.eval_shape(self.operator, tree.cast(self.like, jnp.result_type(float)))
                except Exception as error:
                    raise TypeError(f"{call} has no gradient that jax can compute: {_cause(self.f, error)}") from None

    def __repr__(self) -> str:
        name = getattr(self.f, "__name__", repr(self.f))
        return f"Problem({name}, x={self.geometry.parts.x}, y={self.geometry.parts.y}, clients={self.clients})"


def _cause(f: Any, error: Exception) -> str:
    """The first line of an error and the line of f that it came from."""
    text = str(error).splitlines()[0] if str(error) else ""
    here = getattr(getattr(f, "__code__", None), "co_filename", None)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == here]
    return f"{type(error).__name__}: {text}" + (f" (line {lines[-1]} of f's file)" if lines else "")


def _saddle_gradient(loss: Callable[[Saddle], Array], z: Saddle) -> Saddle:
    gradient = jax.grad(loss)(z)
    return Saddle(gradient.x, jax.tree.map(jnp.negative, gradient.y))


def _template(like: Any, saddle: bool) -> Saddle:
    if not isinstance(like, Saddle):
        raise TypeError(f"like must be fx.Saddle(x0, y0) of arrays with the shapes of x and y, got {short(like)}")
    if (like.y is not None) != saddle:
        raise ValueError("y= and like.y belong together: give both for a saddle point, neither to minimize over x")
    for name, leaf in tree.leaves_with_names(like):
        any_real_array(f"like.{name}", leaf, "an array of numbers")
        if np.size(leaf) == 0:
            raise ValueError(f"like must hold nonempty arrays, got one of shape {np.shape(leaf)}")
    if not jax.tree.leaves(like.x):
        raise ValueError("like.x must hold at least one array")
    return jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), np.float32), like)

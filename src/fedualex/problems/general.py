"""A problem from a user's own loss of one example."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..geometry import Product
from ..tree import Saddle, Tree
from ..validation import short
from .base import AbstractProblem
from .data import ELSEWHERE, Clients, objective_weights, stack_clients
from .domains import build_geometry
from .operator_error import OperatorError, error_of_loss
from .user_loss import check_loss, saddle_gradient, template


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
    by_construction: whether f is convex-concave by the way it is built; otherwise runs look for a disproof first.
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
        self.like = template(like, saddle=y is not None)
        self.geometry = build_geometry(x, y, self.like)
        if isinstance(data, str) and data == "elsewhere":
            if not (isinstance(weights, str) and weights == "clients"):
                raise ValueError(f"weights={short(weights)} of clients elsewhere: they belong to the deployment")
            self.data, self.weights = ELSEWHERE, np.zeros(0)
            return
        self.data = None if data is None else stack_clients(data)
        self.weights = objective_weights(weights, None if self.data is None else self.data.counts)
        example = () if self.data is None else (jax.tree.map(lambda leaf: leaf[0, 0], self.data.examples),)
        check_loss(f, self.like, example, self._of_example, self.operator)

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
        few = None if self.data is None else self.data.sampled(examples, rng)
        return self if few is None else eqx.tree_at(lambda problem: problem.data, self, few)

    def loss(self, z: Saddle) -> Array:
        """f(x, y)."""
        if self.data is None:
            return self._of_example(z)
        if not self.data.counts.size:
            raise TypeError("the data of this problem is elsewhere, so its loss and operator cannot be computed here")
        return self._weighted_loss(z, *self.data.pooled(self.weights))

    def operator(self, z: Saddle) -> Saddle:
        """(grad_x f, -grad_y f) over all clients."""
        return saddle_gradient(self.loss, z)

    def operator_error(self, z: Saddle, g: Saddle) -> OperatorError:
        """A bound if f is `Majorized`, else an estimate."""
        return error_of_loss(self, z, g)

    def client_operator(self, client: Any, z: Saddle) -> Saddle:
        """(grad_x f_m, -grad_y f_m)."""
        if self.data is None:
            return self.operator(z)
        return saddle_gradient(lambda at: self._weighted_loss(at, client.examples, client.shares()), z)

    def minibatch_operator(self, client: Any, z: Saddle, size: int, key: Array) -> Saddle:
        """The mean operator of `size` examples drawn uniformly, with replacement; padding is never drawn."""
        if self.data is None:
            raise TypeError("this problem has no data= to draw a Minibatch from; use GaussianNoise or no noise")
        batch = client.minibatch(size, key)
        return saddle_gradient(lambda at: self._weighted_loss(at, batch, jnp.full(size, 1 / size)), z)

    def _weighted_loss(self, z: Saddle, examples: Tree, share: Array) -> Array:
        return jnp.vdot(share, jax.vmap(lambda example: self._of_example(z, example))(examples))

    def _of_example(self, z: Saddle, *example: Tree) -> Array:
        return self.f(z.x, *example) if z.y is None else self.f(z.x, z.y, *example)

    def __repr__(self) -> str:
        name = getattr(self.f, "__name__", repr(self.f))
        return f"Problem({name}, x={self.geometry.parts.x}, y={self.geometry.parts.y}, clients={self.clients})"

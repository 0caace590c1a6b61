"""A problem from a user's own loss of one example."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..certificates.rounding import LossError, OperatorError, error_of_operator, error_of_value
from ..certificates.surveys import Surveyed
from ..geometry import Product
from ..tree import Saddle, Tree
from ..validation import short
from .base import AbstractProblem
from .domains import build_geometry
from .known import Floor, Smoothness, checked_floor, floor_of_views, with_floor, with_smoothness
from .rows import ELSEWHERE, Clients, objective_weights, problem_data
from .user_loss import check_loss, loss_and_gradient, of_example, operator_of, saddle_gradient, template, weighted_loss


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
    floor: `fx.problems.Floor(y, value)` if f(x, y) >= value is known for every x of the domain, at this one y.
    """

    f: Callable[..., Any]
    geometry: Product
    like: Saddle
    data: Clients | None
    weights: NDArray[Any]
    uncertified: str = eqx.field(static=True)  # type: ignore[misc]
    by_construction: bool = eqx.field(static=True)  # type: ignore[misc]
    own_weights: bool = eqx.field(static=True)
    floor: Floor | None  # type: ignore[misc]
    smoothness: Smoothness | None  # type: ignore[misc]

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
        floor: Any = None,
    ):
        if not callable(f):
            raise TypeError(f"f must be a function of (x, y, example), got {short(f)}")
        self.f = f
        self.uncertified, self.by_construction, self.own_weights = uncertified, by_construction, own_weights
        self.like = template(like, saddle=y is not None)
        self.geometry = build_geometry(x, y, self.like)
        self.floor, self.smoothness = checked_floor(floor, self.geometry, self.like), None
        self.data, self.weights = problem_data(data, weights)
        if self.data is not ELSEWHERE:
            check_loss(f, self.like, None if self.data is None else self.data.examples)

    @property
    def clients(self) -> int | None:
        """How many clients hold data."""
        return None if self.data is None else self.weights.size

    def client_weights(self, clients: int) -> NDArray[Any]:
        """As given, or all alike if the clients share f."""
        return np.full(clients, 1 / clients) if self.data is None else np.asarray(self.weights)

    def reweighted(self, weights: Any) -> "Problem":
        """The same data and f with other client weights."""
        if self.data is None:
            raise ValueError("weights weigh clients with data of their own; without data= all clients share f")
        if self.own_weights:
            raise ValueError("weights belong to this problem, whose domains hold for them: give them where it is made")
        return self._with(self.data, objective_weights(weights, self.data.counts), floor_of_views(self.floor))

    def of_client(self, m: int) -> "Problem":
        """With the data of client m alone."""
        return self if self.data is None else self._with(self.data.of(m), np.ones(1), floor_of_views(self.floor))

    def without_data(self) -> "Problem":
        """With its data elsewhere."""
        return self if self.data is None else self._with(ELSEWHERE, np.zeros(0), self.floor)

    def sampled(self, examples: int, rng: np.random.Generator) -> "Problem":
        """With as many examples of each client, drawn with replacement."""
        few = None if self.data is None else self.data.sampled(examples, rng)
        return self if few is None else with_smoothness(self, None)._with(few, self.weights, floor_of_views(self.floor))

    def _with(self, data: Clients, weights: NDArray[Any], floor: Floor | None) -> Any:
        return with_floor(eqx.tree_at(lambda p: (p.data, p.weights), self, (data, weights)), floor)

    def loss(self, z: Saddle) -> Array:
        """f(x, y)."""
        return of_example(self.f, z) if self.data is None else weighted_loss(self.f, z, *self.data.pooled(self.weights))

    def operator(self, z: Saddle) -> Saddle:
        """(grad_x f, -grad_y f) over all clients."""
        return self.survey(z).operator

    def survey(self, z: Saddle) -> Surveyed:
        """The operator and f, from one pass."""
        value, gradient = self.loss_and_gradient(z)
        return Surveyed(operator_of(gradient), value)

    def loss_and_gradient(self, z: Saddle) -> tuple[Array, Saddle]:
        """f and (grad_x f, grad_y f), from one pass over the examples of all clients."""
        return loss_and_gradient(self, z)

    def operator_error(self, z: Saddle, g: Saddle) -> OperatorError:
        """A bound if f is `Majorized`, else an estimate."""
        return error_of_operator(self, z, g)

    def value_error(self, z: Saddle, found: Surveyed) -> LossError:
        """A bound if f is `Majorized`, else an estimate."""
        return error_of_value(self, z, found.operator, found.value)

    def client_operator(self, client: Any, z: Saddle) -> Saddle:
        """(grad_x f_m, -grad_y f_m)."""
        if self.data is None:
            return self.operator(z)
        return saddle_gradient(lambda at: weighted_loss(self.f, at, client.examples, client.shares()), z)

    def minibatch_operator(self, client: Any, z: Saddle, size: int, key: Array) -> Saddle:
        """The mean operator of `size` examples drawn uniformly, with replacement; padding is never drawn."""
        if self.data is None:
            raise TypeError("this problem has no data= to draw a Minibatch from; use GaussianNoise or no noise")
        batch = client.minibatch(size, key)
        return saddle_gradient(lambda at: weighted_loss(self.f, at, batch, jnp.full(size, 1 / size)), z)

    def __repr__(self) -> str:
        name = getattr(self.f, "__name__", repr(self.f))
        return f"Problem({name}, x={self.geometry.parts.x}, y={self.geometry.parts.y}, clients={self.clients})"

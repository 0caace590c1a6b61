"""A problem from a user's own loss of one example."""

import traceback
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..arrays import Array, Reals
from ..certificates.rounding import LossError, OperatorError, error_of_operator, error_of_value
from ..certificates.surveys import Surveyed
from ..compiling import double
from ..geometry import Product
from ..tree import Saddle, Tree, is_floating
from ..validation import any_real_array, short
from .base import AbstractProblem, of_example
from .curvature import ScoreSurveyor, score_sums, surveyor_of
from .known import Floor, Smoothness, build_geometry, checked_floor, floor_of_views, with_floor, with_smoothness
from .rows import ELSEWHERE, Clients, Data, objective_weights, problem_data
from .stored import HeldClients


def saddle_gradient(loss: Callable[[Saddle], Array], z: Saddle) -> Saddle:
    """(grad_x, -grad_y) of a loss."""
    return operator_of(jax.grad(loss)(z))


def operator_of(gradient: Saddle) -> Saddle:
    """(grad_x, -grad_y) from the gradient."""
    return Saddle(gradient.x, jax.tree.map(jnp.negative, gradient.y))


def weighted_loss(f: Callable[..., Any], z: Saddle, examples: Tree, share: Array) -> Array:
    """sum_i share_i f(x, y, example_i)."""
    return jnp.vdot(share, jax.vmap(lambda example: of_example(f, z, example))(examples))


def check_loss(f: Callable[..., Any], like: Saddle, examples: Tree | None) -> None:
    """One abstract evaluation on one example, so that a wrong f is found here and not inside a run.

    examples: of all clients, by client; None if f takes none.
    """
    example = () if examples is None else (jax.tree.map(lambda leaf: leaf[0, 0], examples),)

    def loss(z: Saddle) -> Array:
        if not example:
            return of_example(f, z)
        one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], example[0])
        return weighted_loss(f, z, one, jnp.ones(1))

    arguments = "(x, y" if like.y is not None else "(x"
    call = f"f{arguments}{', example)' if example else ')'}"
    try:
        result = jax.eval_shape(partial(of_example, f), like, *example)
    except Exception as error:  # whatever f raises, the user should see where and on what
        raise TypeError(f"{call} could not be evaluated on arrays shaped as `like`: {_cause(f, error)}") from None
    shapes = [getattr(leaf, "shape", None) for leaf in jax.tree.leaves(result)]
    if shapes != [()] or not is_floating(jax.tree.leaves(result)[0]):
        raise ValueError(f"{call} must return one real number, got {short(result)}")
    for scope in (nullcontext(), double()):  # gradients, in the caller's precision and in the certificates'
        with scope:
            try:
                jax.eval_shape(partial(saddle_gradient, loss), _shapes(like, jnp.result_type(float)))
            except Exception as error:
                raise TypeError(f"{call} has no gradient that jax can compute: {_cause(f, error)}") from None


def _shapes(like: Saddle, dtype: object) -> Saddle:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), dtype), like)


def template(like: object, saddle: bool) -> Saddle:
    """Zeros with the shapes of `like`, or a clear refusal."""
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


def _cause(f: object, error: Exception) -> str:
    """The first line of an error and the line of f that it came from."""
    text = str(error).splitlines()[0] if str(error) else ""
    here = getattr(getattr(f, "__code__", None), "co_filename", None)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == here]
    return f"{type(error).__name__}: {text}" + (f" (line {lines[-1]} of f's file)" if lines else "")


# f and its gradient over many examples in one pass: what does not fit into a cache is read once and used twice.


BLOCK = 160 * 2**10
"""Bytes of examples that stay in a core's cache between a product with them and one with their transpose."""

LEAST_ROWS = 32
"""A block of fewer examples costs more to begin than it saves."""

LARGE = 2**22
"""Bytes of examples from which on blocks are worth their while."""


def loss_and_gradient(problem: "Problem", z: Saddle) -> tuple[Array, Saddle]:
    """f = sum_mi share_mi f(x, y, example_mi) of a `Problem`, and its gradient at z.

    Blocks have the next examples of every client, so that clients may be spread over devices.
    """
    if problem.data is None:
        alone: tuple[Array, Saddle] = jax.value_and_grad(problem.loss)(z)
        return alone
    examples, share = problem.data.weigh(problem.weights)

    def of(part: tuple[Tree, Array]) -> tuple[Array, Saddle]:
        every, weight = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), part)
        both: tuple[Array, Saddle] = jax.value_and_grad(lambda at: weighted_loss(problem.f, at, every, weight))(z)
        return both

    whole = jax.tree.map(jnp.asarray, (examples, share))
    rows = rows_of_a_block(z, examples)
    if rows is None:
        return of(whole)

    def add(block: Array, total: Any) -> Any:
        part = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, block * rows, rows, axis=1), whole)
        return jax.tree.map(jnp.add, total, of(part))

    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(of, whole))
    both: tuple[Array, Saddle] = jax.lax.fori_loop(0, share.shape[1] // rows, add, nothing)
    return both


def rows_of_a_block(z: Saddle, examples: Tree) -> int | None:
    """How many examples of each client a block has; None if all are better taken at once.

    The largest power of two that divides the length with at most BLOCK bytes of examples. A block adds to every entry
    of the gradient, so z may have no more bytes than the block.
    """
    leaves = jax.tree.leaves(examples)
    clients, length = leaves[0].shape[:2]
    each = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves) / length
    rows = length & -length
    while rows * each > BLOCK and rows > 1:
        rows //= 2
    few = rows * clients < LEAST_ROWS or each * length < LARGE or rows * each > BLOCK
    return None if few or sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(z)) > BLOCK else rows


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
    data: Clients | HeldClients | None
    weights: Reals
    uncertified: str = eqx.field(static=True)  # type: ignore[misc]
    by_construction: bool = eqx.field(static=True)  # type: ignore[misc]
    own_weights: bool = eqx.field(static=True)
    floor: Floor | None  # type: ignore[misc]
    smoothness: Smoothness | None  # type: ignore[misc]
    metric: Tree  # type: ignore[misc]

    def __init__(
        self,
        f: Callable[..., Any],
        *,
        x: object,
        y: object = None,
        like: Saddle,
        data: Data | None = None,
        weights: object = "clients",
        uncertified: str = "",
        by_construction: bool = False,
        own_weights: bool = False,
        floor: object = None,
    ):
        if not callable(f):
            raise TypeError(f"f must be a function of (x, y, example), got {short(f)}")
        self.f = f
        self.uncertified, self.by_construction, self.own_weights = uncertified, by_construction, own_weights
        self.like = template(like, saddle=y is not None)
        self.geometry = build_geometry(x, y, self.like)
        self.floor, self.smoothness = checked_floor(floor, self.geometry, self.like), None
        self.metric = None
        self.data, self.weights = problem_data(data, weights)
        # A sum of losses of scores has closed forms, which need no jax.
        if self.data is not ELSEWHERE and not hasattr(f, "score_sum"):
            check_loss(f, self.like, None if self.data is None else self.data.examples)

    @property
    def clients(self) -> int | None:
        """How many clients hold data."""
        return None if self.data is None else self.weights.size

    def client_weights(self, clients: int) -> Reals:
        """As given, or all alike if the clients share f."""
        return np.full(clients, 1 / clients) if self.data is None else np.asarray(self.weights)

    def reweighted(self, weights: object) -> "Problem":
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

    def _with(self, data: Clients | HeldClients, weights: Reals, floor: Floor | None) -> "Problem":
        return with_floor(eqx.tree_at(lambda p: (p.data, p.weights), self, (data, weights)), floor)

    def loss(self, z: Saddle) -> Array:
        """f(x, y)."""
        return of_example(self.f, z) if self.data is None else weighted_loss(self.f, z, *self.data.pool(self.weights))

    def value(self, z: Saddle) -> float:
        """f(x, y), by numpy if f is a sum of losses of scores."""
        sums = score_sums(self)
        return super().value(z) if sums is None else float(ScoreSurveyor(self, sums).survey(z).value)

    def operator(self, z: Saddle) -> Saddle:
        """(grad_x f, -grad_y f) over all clients."""
        return self.survey(z).operator

    def survey(self, z: Saddle) -> Surveyed:
        """The operator and f, from one pass."""
        if isinstance(self.data, HeldClients):
            return surveyor_of(self).survey(z)
        value, gradient = self.loss_and_gradient(z)
        return Surveyed(operator_of(gradient), value)

    def loss_and_gradient(self, z: Saddle) -> tuple[Array, Saddle]:
        """f and (grad_x f, grad_y f), from one pass over the examples of all clients."""
        return loss_and_gradient(self, z)

    def operator_error(self, z: Saddle, g: Saddle) -> OperatorError:
        """A bound if f is `Majorized`, else an estimate."""
        return error_of_operator(self, z, g)

    def value_error(self, z: Saddle, survey: Surveyed) -> LossError:
        """A bound if f is `Majorized`, else an estimate."""
        return error_of_value(self, z, survey.operator, survey.value)

    def client_operator(self, client: Tree, z: Saddle) -> Saddle:
        """(grad_x f_m, -grad_y f_m)."""
        if self.data is None:
            return self.operator(z)
        return saddle_gradient(lambda at: weighted_loss(self.f, at, client.examples, client.shares()), z)

    def minibatch_operator(self, client: Tree, z: Saddle, size: int, key: Array) -> Saddle:
        """The mean operator of `size` examples drawn uniformly, with replacement; padding is never drawn."""
        if self.data is None:
            raise TypeError("this problem has no data= to draw a Minibatch from; use GaussianNoise or no noise")
        batch = client.minibatch(size, key)
        return saddle_gradient(lambda at: weighted_loss(self.f, at, batch, jnp.full(size, 1 / size)), z)

    def __repr__(self) -> str:
        name = getattr(self.f, "__name__", repr(self.f))
        return f"Problem({name}, x={self.geometry.parts.x}, y={self.geometry.parts.y}, clients={self.clients})"

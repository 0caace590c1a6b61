"""What is known of a problem before any run: its domain, bounds of its weights, a lower bound of f, how smooth f is."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, no_type_check

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..accepted import Number, Numbers
from ..arrays import Array, Reals, Values, by_numpy
from ..certificates.certificate import FEASIBLE
from ..compiling import compile_quickly, double
from ..geometry import AbstractGeometry, Product, as_geometry, calls_lapack, is_geometry
from ..regularizers import L1, AbstractRegularizer, Box, GroupL2, L1Ball, L2Ball, SquaredL2, for_reports
from ..summaries import Known
from ..tree import Saddle, Scalar, Tree
from ..validation import encode_labels, nonnegative, of_type, positive, real_array, short
from .rows import Rows

if TYPE_CHECKING:
    from .base import AbstractProblem

    ProblemT = TypeVar("ProblemT", bound=AbstractProblem)
else:  # whose module imports this one
    ProblemT = TypeVar("ProblemT")


@no_type_check  # `checked_floor` refuses what is wrong
class Floor(eqx.Module):
    """f(x, y) >= value for EVERY x of the domain, in exact arithmetic: what is known of f before any run.

    y: a point of y's domain; None for plain minimization, where f(x) >= value.
    value: the bound, without psi. One that f attains should be lowered by what rounding may add to the data.
    each: whether f of every example alone obeys it, whatever the example's weight, as a loss >= 0 does. Then a client's
        own problem, a sample and other weights have it as well; otherwise only the problem that it was given for.
    """

    y: Tree
    value: Scalar
    each: bool = eqx.field(static=True, default=False)


def checked_floor(floor: object, geometry: Product, like: Saddle) -> Floor | None:
    """A floor in float64 whose y is in the domain of y; a clear refusal otherwise. None stays None."""
    if floor is None:
        return None
    floor = of_type(
        "floor", floor, Floor, "fx.problems.Floor(y, value), with f(x, y) >= value for every x of the domain"
    )
    value = real_array("floor.value", floor.value, "one finite number")
    if value.shape != ():
        raise ValueError(f"floor.value must be one finite number, got an array of shape {value.shape}")
    of_type("floor.each", floor.each, bool, "True or False")
    with double():
        y = point_like(like, Saddle(like.x, floor.y), "floor").y
        outside = 0.0 if y is None else float(Product(for_reports(geometry).parts.y).violation(y))
        if not outside <= FEASIBLE:
            raise ValueError(f"floor.y must be in the domain of y, got a point outside it by {outside:.2g} of its size")
        return Floor(jax.tree.map(np.asarray, y), np.asarray(value, np.float64), floor.each)


def floor_of_views(floor: Floor | None) -> Floor | None:
    """What is left of a floor where other examples or weights count."""
    return floor if floor is not None and floor.each else None


def with_floor(problem: ProblemT, floor: Floor | None) -> ProblemT:
    """The problem with this floor in place of its own."""
    return eqx.tree_at(lambda p: p.floor, problem, floor, is_leaf=lambda node: node is None)


# How fast the operators of a problem's clients change: bounds where f knows them, each from one client's examples.


class Smoothness(NamedTuple):
    """What holds for every client m of a problem, whose operator is g_m.

    beta: ||g_m(z) - g_m(z')||_* <= beta ||z - z'|| for all z and z' of the domain.
    slope: ||g_m||_* at the point of the domain nearest to 0.
    """

    beta: Number
    slope: Number


class Smooth(eqx.Module):
    """A loss of one example that can tell how fast a client's operator changes."""

    @abstractmethod
    def jacobian_bound(self, examples: Tree, problem: "AbstractProblem") -> float:
        """A number >= ||Jacobian of g_m||, from the geometry's norm to its dual, at every point of the domain.

        examples: all of one client, as numpy arrays, each of which counts alike. problem: has the domain.
        """


def beta_of(problem: "AbstractProblem") -> float | None:
    """The largest bound of a client, as `Smoothness` has it; None where f cannot tell, or its data is elsewhere."""
    if problem.smoothness is not None:
        return float(problem.smoothness.beta)
    f = getattr(problem, "f", None)
    if not isinstance(f, Smooth) or not problem.clients:
        return None
    with double():
        each = map(problem.data.client, range(problem.clients))
        return float(max(f.jacobian_bound(examples, problem) for examples in each))


def slope_of(problem: "AbstractProblem") -> float:
    """The largest slope of a client, as `Smoothness` has it."""
    with double():
        return float(_largest_slope(problem) if problem.smoothness is None else problem.smoothness.slope)


def smoothness_of(problem: "AbstractProblem") -> Smoothness | None:
    """Both numbers; None where f cannot tell."""
    beta = beta_of(problem)
    return None if beta is None else Smoothness(np.asarray(beta), np.asarray(slope_of(problem)))


def with_smoothness(problem: ProblemT, known: Smoothness | None) -> ProblemT:
    """The problem with what is known of all clients, whoever holds their data."""
    return eqx.tree_at(lambda p: p.smoothness, problem, known, is_leaf=lambda node: node is None)


def with_metric(problem: ProblemT, squares: Reals) -> ProblemT:
    """The problem with a metric of x in which columns of all scales look alike; standardized ones need none.

    squares: how far each column of the rows goes that x["weights"] is multiplied with, squared; 0 counts as 1.
    """
    like, parts = problem.like.x, problem.geometry.parts.x
    squares = np.where(squares > 0, squares, 1.0)
    shape = np.shape(like["weights"]) if isinstance(like, dict) and "weights" in like else ()
    if shape[:1] != squares.shape or np.allclose(squares, 1.0):
        return problem
    own = parts["weights"].metric_near(np.broadcast_to(squares.reshape(-1, *(1,) * (len(shape) - 1)), shape))
    metric = {name: np.asarray(own if name == "weights" else 1.0) for name in like}
    return eqx.tree_at(lambda p: p.metric, problem, metric, is_leaf=lambda node: node is None)


def is_affine(problem: "AbstractProblem") -> bool:
    """Whether every client's operator is an affine function of z, as f declares (`affine`)."""
    return problem.shared_affine or bool(getattr(getattr(problem, "f", None), "affine", False))


def norm_of_blocks(x: float, xy: float, y: float = 0.0) -> float:
    """The largest eigenvalue of [[x, xy], [xy, y]]: a bound on a Jacobian whose blocks have at most these norms."""
    return float((x + y) / 2 + np.hypot((x - y) / 2, xy))


@compile_quickly
def _largest_slope(problem: "AbstractProblem") -> Array:
    geometry = for_reports(problem.geometry)
    start = geometry.project(jax.tree.map(lambda leaf: jnp.zeros(jnp.shape(leaf)), problem.like))
    return jnp.max(jax.lax.map(lambda client: geometry.dual_norm(problem.client_operator(client, start)), problem.data))


def build_geometry(x: Tree, y: Tree, like: Saddle) -> Product:
    """The product of what was given as x= and y=, checked against the shapes of `like`."""
    parts = Saddle(as_geometry("x", x), None if like.y is None else as_geometry("y", y))
    for name in ("x", "y"):
        spec: Any = jax.tree.structure(getattr(parts, name), is_leaf=is_geometry)
        shape: Any = jax.tree.structure(getattr(like, name))
        if spec != shape:
            raise ValueError(
                f"{name} must have the structure of like.{name}, with one regularizer or geometry for each array: "
                f"{names_of(getattr(like, name))}"
            )
    named = tree.leaves_with_names(parts, is_leaf=is_geometry)
    for (name, part), leaf in zip(named, jax.tree.leaves(like), strict=True):
        _check_fit(name, part, np.shape(leaf))
    return Product(parts)


def _check_fit(name: str, part: AbstractGeometry, shape: tuple[int, ...]) -> None:
    try:
        result = _find_projected_shape(_OfShapes.of(part), shape)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={part!r} does not fit an array of shape {shape}: {error}") from None
    if result != shape:
        raise ValueError(f"{name}={part!r} does not fit an array of shape {shape}: its arrays make it {result}")


@dataclass(frozen=True)
class _OfShapes:
    """A geometry, which equals all with arrays of the same shapes in the same places."""

    key: tuple[object, ...]
    part: AbstractGeometry = field(compare=False)

    @classmethod
    def of(cls, part: AbstractGeometry) -> "_OfShapes":
        leaves, structure = jax.tree.flatten(part)
        return cls((structure, tuple((np.shape(leaf), np.result_type(leaf)) for leaf in leaves)), part)


@lru_cache(maxsize=256)
def _find_projected_shape(shaped: _OfShapes, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Of a projection; paths of penalties ask for hundreds that differ in a number."""
    if not calls_lapack(shaped.part):
        return tuple(np.shape(by_numpy(lambda part: part.project(np.zeros(shape)))(shaped.part)))
    with double():  # a bound of 1e150 is no float32
        projected = jax.eval_shape(shaped.part.project, jax.ShapeDtypeStruct(shape, jnp.float64))
    return tuple(projected.shape)


def names_of(point: Tree) -> str:
    """The names of a pytree's leaves, for error messages."""
    return short([name for name, _ in tree.leaves_with_names(point)])


def point_like(like: Saddle, z: Tree, name: str) -> Saddle:
    """z in float64 with the shapes of `like`; a clear refusal otherwise. Call within `double()`."""
    of_type(name, z, Saddle, "fx.Saddle(x, y)")
    structure: Any = jax.tree.structure(like)
    if jax.tree.structure(z) != structure:
        raise ValueError(
            f"{name} must have the structure of `like`, arrays {names_of(like)}, got {names_of(z)}; a list "
            "of numbers counts as a structure, so make it an array"
        )
    leaves = []
    for (part, shaped), leaf in zip(tree.leaves_with_names(like), jax.tree.leaves(z), strict=True):
        array = real_array(f"{name}.{part}", leaf)
        if array.shape != np.shape(shaped):
            raise ValueError(f"{name}.{part} must have shape {np.shape(shaped)}, got {array.shape}")
        leaves.append(jax.device_put(array))
    point: Saddle = jax.tree.unflatten(structure, leaves)
    return point


def why_unbounded(geometry: Product) -> str:
    """Which parts have no finite conjugate, and what would give them one; empty if all have."""
    parts = tree.leaves_with_names(geometry.parts, is_leaf=is_geometry)
    unbounded = [f"{name}={part!r}" for name, part in parts if not part.finite_conjugate]
    if not unbounded:
        return ""
    return f"the domain is unbounded in {', '.join(unbounded)}; a set such as Box(D) or L2Ball(D) would bound it"


# Sums over the rows of one client that recipes send, and what is read from them once they are added.


def sums_by_class(rows: Rows, labels: Values, masses: Reals) -> dict[str, Reals]:
    """For each class the weight of its rows, and their weighted sum."""
    member = (rows.numbers(rows.y, labels) == np.arange(len(labels))[:, None]) * masses
    return {"class_mass": member.sum(axis=1), "class_rows": member @ rows.X}


def sums_of_means(rows: Rows, masses: Reals) -> dict[str, Reals]:
    """The weighted sums of targets and rows."""
    return {"target_sum": np.asarray(masses @ rows.y), "row_sum": masses @ rows.X}


def total_mass(known: Sequence[Known]) -> float:
    """The weight of all rows, of which each has its share in the objective."""
    return float(known[0]["mass"].sum())


def mean_of(known: Known, name: str, mass: float) -> Reals:
    """A sum divided by the weight of its rows; a number if it is one."""
    return (known[name] / mass)[()]


def known_classes(known: Sequence[Known], two: bool = False) -> Values:
    """The labels of all clients, of which there must be two, or at least two."""
    labels = known[0]["classes"]
    if two and len(labels) != 2:
        raise ValueError(f"y must hold two classes, but it holds {len(labels)}")
    if len(labels) < 2:
        rows = int(known[0]["rows"].sum())
        raise ValueError(f"y must hold at least two classes, but all its {rows} labels are alike")
    return labels


def class_means(known: Known) -> Reals:
    """The mean row of each class."""
    return np.asarray(known["class_rows"] / known["class_mass"][:, None])


# Penalties of a linear model, and the balls and boxes that hold its solutions.


Ball = L1Ball | L2Ball


def weight_ball(l1: float, l2: float, radius: object, budget: float, group: float = 0.0) -> Ball:
    """L2Ball(radius), or the smallest of the balls that each penalty <= budget makes.

    L1Ball(budget / l1), L2Ball(sqrt(2 budget / l2)), and L2Ball(budget / group) for a sum of norms of groups.
    """
    if radius is not None:
        return L2Ball(positive("radius", radius))
    balls: list[Ball] = [L1Ball(budget / l1)] if l1 > 0 else []
    balls += [L2Ball(np.sqrt(2 * budget / l2))] if l2 > 0 else []
    balls += [L2Ball(budget / group)] if group > 0 else []
    if not balls:
        raise ValueError(
            "radius must be given if no penalty is > 0: nothing else bounds the weights; the least mean loss without "
            "penalty is found by an estimator with l1=0 and l2=0, or by fedualex fit --l1 0 --l2 0"
        )
    return min(balls, key=lambda ball: float(ball.radius))


def penalty_in(ball: Ball, l1: Number, l2: Number, groups: GroupL2 | None = None) -> AbstractRegularizer:
    """l1 ||w||_1 or a sum of norms of groups, + l2/2 ||w||^2, in the ball."""
    norm: AbstractRegularizer | None = groups if l1 == 0 else L1(l1)
    weights: AbstractRegularizer = ball if norm is None else norm + ball
    return weights if l2 == 0 else weights + SquaredL2(l2)


def largest_product(ball: Ball, vectors: Reals) -> Reals:
    """The largest |<w, v>| for w in the ball, for each row v."""
    dual = np.inf if isinstance(ball, L1Ball) else 2
    sizes: Reals = np.linalg.norm(np.atleast_2d(vectors), dual, axis=1)
    return np.asarray(ball.radius) * sizes


def bias_box(center: Numbers, direction: Reals, ball: Ball, reach: float) -> Box:
    """All b with |b + <w, direction> - center| <= reach for some w in the ball."""
    spread = largest_product(ball, direction)[0] + reach
    return Box(lower=center - spread, upper=center + spread)


def class_shares(masses: Reals, total: float) -> Reals:
    """The share of each class in the objective, from the weights of their rows and of all rows."""
    if np.any(masses <= 0):
        raise ValueError("weights must be > 0 for some client of every class of y")
    return np.divide(masses, total)


def class_bias_box(shares: Reals, means: Reals, ball: Ball, budget: float, binary: bool) -> Box:
    """All biases with which a mean logistic or softmax loss may be within the budget.

    shares: the weight s_c of each class; means: its mean row mu_c. Jensen's inequality and log(1 + e^u) >= u
    give s_c (b_k - b_c + <w_k - w_c, mu_c>) <= budget. With two classes and one score b stands for the difference:
    -S(mu_1) - budget / s_1 <= b <= S(mu_0) + budget / s_0, S(v) the largest |<w, v>| for w in the ball. Otherwise
    biases matter up to a common shift, and no two differ by more than D = max_c S'(mu_c) + budget / s_c, S'(v) the
    largest |<w_k - w_c, v>|: Box(D / 2) keeps one shift of each solution.
    """
    largest = largest_product(ball, means)
    if binary:
        above, below = largest + budget / shares
        return Box(lower=-below, upper=above)
    # Two columns in an l2 ball differ by at most sqrt(2) times its radius, in an l1 ball by the radius.
    longest = np.sqrt(2) if isinstance(ball, L2Ball) else 1.0
    return Box(float(np.max(longest * largest + budget / shares)) / 2)


class Penalty:
    """l1 ||w||_1 + l2/2 ||w||^2 + group sum_g sqrt(d_g) ||w_g||_2, in a ball with every w of penalty <= budget."""

    def __init__(self, l1: Number, l2: Number, radius: object, group: Number = 0.0, groups: object = None):
        self.l1, self.l2, self.group = nonnegative("l1", l1), nonnegative("l2", l2), nonnegative("group", group)
        if self.l1 > 0 and self.group > 0:
            raise ValueError("l1 and group cannot both be > 0: their sum has no closed form here")
        if (self.group > 0) != (groups is not None):
            raise ValueError("group > 0 and groups=, one label for each column of X, belong together")
        self.groups, self.radius = groups, radius
        self.ball(1.0)  # refused here, before any data is seen

    def ball(self, budget: float) -> Ball:
        """The ball of `weight_ball`."""
        return weight_ball(float(self.l1), float(self.l2), self.radius, budget, float(self.group))

    def regularizer(self, ball: Ball, shape: tuple[int, ...]) -> AbstractRegularizer:
        """The penalty of weights of this shape, in the ball."""
        norms = _groups(self.group, self.groups, shape) if self.group > 0 else None
        return penalty_in(ball, self.l1, self.l2, norms)


def _groups(group: Number, groups: object, shape: tuple[int, ...]) -> GroupL2:
    names, label = encode_labels("groups", groups, shape[0])
    entries = np.broadcast_to(label.reshape(-1, *(1,) * (len(shape) - 1)), shape)
    return GroupL2(group, np.ascontiguousarray(entries), np.sqrt(np.bincount(entries.ravel(), minlength=len(names))))

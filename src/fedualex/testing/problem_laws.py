"""The laws of a problem: at pairs of its points, and between the views that server and clients have of it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..arrays import Array
from ..compiling import double
from ..problems import AbstractProblem, Floor, Surveyed, check_convex_concave
from ..regularizers import for_reports
from ..runtime.outputs import exact_problem
from ..runtime.surveying import operator_at
from ..tree import Saddle, Tree
from ..validation import of_type, whole_number
from .sampling import FEASIBLE, Laws, Margins, equal, holds, require, same_arrays, size

# The laws between the views of a problem: all of it, a client's own, a server's, a sample, other weights.


SAME = 1e-9
"""By how much operators that are computed in two ways may differ, relative to their sizes."""
DRAWS = 1000
DEVIATIONS = 7.0
"""How many standard errors the mean of DRAWS minibatches may be off: less than one entry in 1e11 is, by chance."""


def view_laws(problem: AbstractProblem, z: Saddle, rng: np.random.Generator) -> dict[str, float]:
    """The margins of all laws between views, with operators at z."""
    with double():
        exact, point = tree.cast_module(problem, jnp.float64), tree.cast(z, jnp.float64)
        whole, server = operator_at(exact, point), exact.without_data()
        laws = {
            "without_data keeps the domain": holds(eqx.tree_equal(server.geometry, exact.geometry)),
            "without_data holds no data": holds(problem.data is None or not _sizes(server.data)),
            "sampled with room for all is the problem": _agree(_sample(problem, rng, point), whole),
        }
        if problem.clients is None:
            return laws | {"without data client_operator is the operator": _agree(_own(exact, None, point), whole)}
        return laws | _client_laws(exact, point, whole, rng)


def _client_laws(problem: AbstractProblem, z: Saddle, whole: Saddle, rng: np.random.Generator) -> dict[str, float]:
    clients = int(problem.clients or 1)
    p = np.asarray(problem.client_weights(clients))
    data = [jax.tree.map(lambda leaf, m=m: leaf[m], problem.data) for m in range(clients)]
    own = [_own(problem, client, z) for client in data]
    mean = tree.scale(0.0, whole)
    for share, g in zip(p, own, strict=True):
        mean = tree.add(mean, tree.scale(share, g))
    m = int(rng.integers(clients))
    laws = {
        "client_weights are >= 0 and sum to 1": SAME - abs(p.sum() - 1) if np.all(p >= 0) else -1.0,
        "the weighted mean of client operators is the operator": _agree(mean, whole, *own),
        "of_client has the operator of that client": _agree(operator_at(problem.of_client(m), z), own[m]),
        "minibatches are unbiased": _bias(problem, data[m], z, own[m], int(rng.integers(2**31))),
    }
    try:
        alone = problem.reweighted(np.eye(clients)[m])
    except (TypeError, ValueError):  # its domains hold for its own weights
        return laws
    return laws | {"reweighted to one client has its operator": _agree(operator_at(alone, z), own[m])}


def _bias(problem: AbstractProblem, client: Tree, z: Saddle, expected: Saddle, seed: int) -> float:
    """The smallest margin of |mean of minibatches - g_m| <= DEVIATIONS standard errors, over all entries."""
    keys = jax.random.split(jax.random.key(seed), DRAWS)
    drawn = eqx.filter_jit(lambda keys: jax.lax.map(lambda key: problem.minibatch_operator(client, z, 2, key), keys))
    margins = []
    for sample, exact in zip(jax.tree.leaves(drawn(keys)), jax.tree.leaves(expected), strict=True):
        rounding = SAME * (1e-12 + np.max(np.abs(sample)))
        allowed = DEVIATIONS * np.std(sample, axis=0) / np.sqrt(DRAWS) + rounding
        margins.append(np.min(allowed - np.abs(np.mean(sample, axis=0) - np.asarray(exact))))
    return float(min(margins))


def _sample(problem: AbstractProblem, rng: np.random.Generator, z: Saddle) -> Saddle:
    clients = problem.clients or 1
    room = clients * max((np.size(leaf) for leaf in jax.tree.leaves(problem.data)), default=1)
    sampled: Saddle = operator_at(tree.cast_module(problem.sampled(room, rng), jnp.float64), z)
    return sampled


@eqx.filter_jit
def _own(problem: AbstractProblem, client: object, z: Saddle) -> Saddle:
    return problem.client_operator(client, z)


def _sizes(data: Tree) -> int:
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(data))


def _agree(computed: Saddle, expected: Saddle, *terms: Saddle) -> float:
    """The margin of equality, relative to the largest entry of what was compared or added up."""
    largest = max(float(jnp.max(jnp.abs(leaf))) for leaf in jax.tree.leaves((expected, terms)))
    pairs = zip(jax.tree.leaves(computed), jax.tree.leaves(expected), strict=True)
    return SAME * (1e-12 + largest) - max(float(jnp.max(jnp.abs(a - b))) for a, b in pairs)


# The laws of a known lower bound: f is nowhere below it, in the problem and in the views that keep it.


STEPS = 10
"""Descents from a random point: most points are far above a floor that is a little too high."""
SIZES = 10.0 ** np.arange(-6, 7, 2)
"""Sizes of the steps that each of them tries, relative to 1 and to the size of x over that of the gradient."""


def floor_laws(problem: AbstractProblem, z: Saddle, rng: np.random.Generator) -> dict[str, float]:
    """The margins of all laws of problem.floor, from a point z of the domain; none if there is no floor."""
    if problem.floor is None:
        return {}
    server = problem.without_data().floor
    laws = {
        "f is never below its floor": _margin(problem, problem.floor, z),
        "without_data keeps the floor": holds(server is not None and bool(eqx.tree_equal(server, problem.floor))),
    }
    if problem.clients is not None:
        own = problem.of_client(int(rng.integers(problem.clients)))
        if own.floor is not None:
            laws["f of a client is never below the floor that it keeps"] = _margin(own, own.floor, z)
    return laws


def _margin(problem: AbstractProblem, floor: Floor, z: Saddle) -> float:
    """The least f(x, floor.y) that a few steps of projected descent find, with its rounding, less the floor."""
    with double():
        exact, at = exact_problem(problem), tree.cast(Saddle(z.x, floor.y), jnp.float64)
        least = np.inf
        for _ in range(STEPS + 1):
            at, above = _descend(exact, at)
            least = min(least, float(above))
        return least - float(floor.value)


@eqx.filter_jit
def _descend(problem: AbstractProblem, at: Saddle) -> tuple[Saddle, Array]:
    """The best of some points along the projected gradient in x, and how large f may be at this one."""
    survey = problem.survey(at)
    above = jnp.asarray(survey.value + problem.value_error(at, survey).size)
    g, y = survey.operator, tree.depend_on(at.y, above)
    length = jnp.sqrt(tree.dot(at.x, at.x) / jnp.maximum(tree.dot(g.x, g.x), 1e-300))
    steps = jnp.concatenate([jnp.zeros(1), jnp.asarray(SIZES), jnp.asarray(SIZES) * length])

    def step(eta: Array) -> tuple[Saddle, Array]:
        moved = problem.geometry.project(Saddle(tree.subtract(at.x, tree.scale(eta, g.x)), y))
        there = Saddle(moved.x, at.y)
        return there, problem.loss(there)

    points, values = jax.lax.map(step, steps)
    best = jnp.nanargmin(values)
    return jax.tree.map(lambda leaf: leaf[best], points), above


STEP = 1e-5
SMOOTH = 1e-5
"""What a central difference of step STEP may be off, relative to the numbers involved."""
ROUNDING = 1e-9


def check_problem(problem: AbstractProblem, *, samples: int = 10, seed: int = 0) -> None:
    """Check every law of a problem at random feasible points.

    samples: pairs of points. seed: decides them. That f is convex in x and concave in y is looked at only where the
    problem claims certificates, and not where it is `by_construction`.
    """
    of_type("problem", problem, AbstractProblem, "a problem such as fx.problems.paper_l1()")
    rng = np.random.default_rng(whole_number("seed", seed, 0))
    whole_number("samples", samples)
    require(problem, declared_laws(problem), "its declarations")
    if _is_elsewhere(problem):
        raise ValueError("problem must have its data here: without it there is no operator to check")
    Laws(problem, problem.like, point_laws).check_samples(samples, seed)
    for _ in range(min(samples, 3)):
        z, other = (problem.project(_draw(problem, rng)) for _ in range(2))
        require(problem, bound_laws(problem, z, other), f"z={z!r}, other={other!r}")
        require(problem, view_laws(problem, z, rng), f"z={z!r}")
    require(problem, floor_laws(problem, z, rng), f"floor={problem.floor!r}, z={z!r}")
    if not problem.uncertified and not problem.by_construction:
        check = check_convex_concave(problem, pairs=20 * samples, seed=seed)
        law = "f is convex in x and concave in y"
        require(problem, {law: holds(check.passed)}, f"{check.witness!r}: {check.reason}")


def declared_laws(problem: AbstractProblem) -> dict[str, float]:
    """Shapes and precision of what a problem returns, found without computing anything."""
    if _is_elsewhere(problem):
        return {}
    laws = {}
    with double():
        for kind in (jnp.float32, jnp.float64):
            own, name = tree.cast_module(problem, kind), jnp.dtype(kind).name
            like = jax.eval_shape(lambda kind=kind: tree.cast(problem.like, kind))
            operator, loss = jax.eval_shape(own.operator, like), jax.eval_shape(own.loss, like)
            laws[f"the operator at {name} has the shapes and precision of z"] = same_arrays(operator, like)
            laws[f"the loss at {name} is one real number"] = holds(getattr(loss, "shape", None) == ())
            survey = jax.eval_shape(own.survey, like)
            laws[f"a survey at {name} has the shapes of operator and loss"] = same_arrays(
                survey, Surveyed(operator, loss)
            )
    return laws


def point_laws(problem: AbstractProblem, like: Saddle, omega: Saddle, other: Saddle, weight: Array) -> Margins:
    """The margins of all laws at the projections of one pair of points."""
    exact = tree.cast_module(problem, jnp.float64)
    geometry = for_reports(exact.geometry)
    z = geometry.project(omega)
    u = geometry.project(tree.depend_on(other, jnp.sum(jax.tree.leaves(z.x)[0])))
    back = geometry.project(tree.depend_on(z, jnp.sum(jax.tree.leaves(u.x)[0])))
    g, g_other = exact.operator(z), exact.operator(u)
    error = exact.operator_error(z, g).size
    laws = {
        "project lands in the domain": FEASIBLE - geometry.violation(tree.depend_on(z, size(back))),
        "project is idempotent": equal(size(tree.subtract(back, z)), jnp.zeros(()), ROUNDING * (1 + size(z))),
        "the operator is finite": jnp.where(tree.is_finite(g), 0.0, -1.0),
        "the operator is (grad_x f, -grad_y f)": _slope_law(exact, z, u),
        "operator_error is a size >= 0": jnp.min(jnp.stack([jnp.min(leaf) for leaf in jax.tree.leaves(error)])),
        "a survey is the operator and the loss": _survey_law(exact, z, g),
        "value_error is a size >= 0": exact.value_error(z, Surveyed(g, exact.loss(z))).size,
    }
    middle = _between(z, u, 0.5)
    if problem.shared_affine:
        bend = tree.subtract(exact.operator(middle), tree.scale(0.5, tree.add(g, g_other)))
        laws["shared_affine is true"] = ROUNDING * (1 + size(g) + size(g_other)) - size(bend)
    if problem.bilinear:
        ends = [exact.loss(Saddle(z.x, y)) for y in (z.y, middle.y, u.y)]
        sides = [exact.loss(Saddle(x, z.y)) for x in (z.x, middle.x, u.x)]
        bent = jnp.abs(ends[0] - 2 * ends[1] + ends[2]) + jnp.abs(sides[0] - 2 * sides[1] + sides[2])
        laws["bilinear is true"] = ROUNDING * (1 + sum(map(jnp.abs, ends + sides))) - bent
    return laws


def _survey_law(problem: AbstractProblem, z: Saddle, g: Saddle) -> Array:
    """|g - survey.operator| + |f - survey.value| is rounding."""
    survey, value = problem.survey(z), problem.loss(z)
    apart = size(tree.subtract(survey.operator, g)) + jnp.abs(survey.value - value)
    return ROUNDING * (1e-12 + size(g) * (1 + size(z)) + jnp.abs(value)) - apart


def _slope_law(problem: AbstractProblem, z: Saddle, u: Saddle) -> Array:
    """(f(m + h d) - f(m - h d)) / 2h = <g_x, d_x> - <g_y, d_y> at m = (z + u) / 2 along d = u - z.

    Where the differences of two steps h do not agree there is a kink, and the law says nothing.
    """
    g, d = problem.operator(_between(z, u, 0.5)), tree.subtract(u, z)
    along_x, along_y = tree.dot(g.x, d.x), tree.dot(g.y, d.y)
    ends = [problem.loss(_between(z, u, 0.5 + side * STEP)) for side in (-2, -1, 1, 2)]
    near, far = (ends[2] - ends[1]) / (2 * STEP), (ends[3] - ends[0]) / (4 * STEP)
    scale = 1e-12 + jnp.abs(along_x) + jnp.abs(along_y) + jnp.max(jnp.abs(jnp.stack(ends)))
    kink = jnp.abs(near - far) > SMOOTH * scale
    return jnp.where(kink, 0.0, equal(near, along_x - along_y, SMOOTH * scale))


def bound_laws(problem: AbstractProblem, z: Saddle, other: Saddle) -> dict[str, Any]:
    """A certificate at z is no less than phi(x, y') - phi(x', y), which the gap is the largest of."""
    certificate = problem.certificate(z).gap
    if certificate is None:
        return {}
    above, below = problem.objective(Saddle(z.x, other.y)), problem.objective(Saddle(other.x, z.y))
    slack = ROUNDING * (abs(above) + abs(below))
    return {
        "a certificate is finite in the domain": holds(np.isfinite(certificate)),
        "a certificate is no less than a lower bound of the gap": certificate - (above - below) + slack,
    }


def _between(z: Saddle, u: Saddle, share: float) -> Tree:
    return tree.add(tree.scale(1 - share, z), tree.scale(share, u))


def _draw(problem: AbstractProblem, rng: np.random.Generator) -> Saddle:
    drawn: Saddle = jax.tree.map(lambda leaf: rng.normal(size=np.shape(leaf)), problem.like)
    return drawn


def _is_elsewhere(problem: AbstractProblem) -> bool:
    return problem.data is not None and not any(np.size(leaf) for leaf in jax.tree.leaves(problem.data))

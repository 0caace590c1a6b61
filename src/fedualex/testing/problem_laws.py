"""The laws of a problem: at pairs of its points, and between the views that server and clients have of it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import tree
from ..precision import double
from ..problems import AbstractProblem, Surveyed, check_convex_concave
from ..regularizers import for_reports
from ..tree import Saddle, Tree
from ..validation import of_type, whole_number
from .floor_laws import floor_laws
from .problem_views import view_laws
from .sampling import FEASIBLE, Laws, Margins, equal, holds, require, same_arrays, size

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
        found = check_convex_concave(problem, pairs=20 * samples, seed=seed)
        law = "f is convex in x and concave in y"
        require(problem, {law: holds(found.passed)}, f"{found.witness!r}: {found.reason}")


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
    found, value = problem.survey(z), problem.loss(z)
    apart = size(tree.subtract(found.operator, g)) + jnp.abs(found.value - value)
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

"""How little the limits of a problem can be violated: a bound from above and a certified one from below."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.sparse.linalg import cg
from jax.scipy.special import logsumexp

from .. import tree
from ..arrays import Array
from ..certificates.certificate import Measured, certificate_of
from ..compiling import double
from ..geometry import Product
from ..problems import AbstractProblem
from ..problems.constrained import excess, lower_bound, phase_one
from ..tree import Saddle, Tree
from ..validation import short

STAGES, STEPS, PRODUCTS = 8, 30, 400
"""Values of mu, Newton steps for each, and products with a Hessian for each step, at most."""

CLOSE = 0.9
"""A lower bound that is this share of the upper one says enough."""

SMALLEST = 1e-12
"""The smallest share of a Newton step that is tried."""


class LeastViolation(NamedTuple):
    """Bounds on min_x max_g (loss_g(x) - limit_g) over the domain of a problem with limits."""

    lower: float
    """Certified: no model of the domain violates less. Above 0, the limits are infeasible in this domain."""
    upper: float
    """The violation of a model that was found. At most 0, that model meets the limits."""


def least_violation(problem: AbstractProblem) -> LeastViolation:
    """Bounds on the least violation: until a model meets the limits, or they are within 10%, or 8 stages are over.

    problem: one made by `fx.problems.constrained`. With e_g(x) = loss_g(x) - limit_g and u = (x - c) / r in each block,
    c the point of the domain nearest to 0 and r half the domain's diameter, each stage minimizes

        F(u) = mu log sum_g exp(e_g(x) / mu) + eps/2 ||u||^2

    by Newton's method with conjugate gradients, from u = 0 on. At its minimum, with lam = softmax(e(x) / mu), the slope
    of `phase_one` in x is -eps u / r: if x is inside, the certificate at (x, lam) is at most mu log(groups) + eps a
    block. mu falls with the stages. So does eps until x is outside; then it is bisected, because where the domain binds
    there is an eps with x at its edge and a certificate of mu log(groups) alone. The bounds are those of `lower_bound`
    at (x, lam), projected: they hold however that was found.
    """
    phase = phase_one(problem)
    if phase is None:
        raise TypeError(f"least_violation is for a problem made by fx.problems.constrained, got {short(problem)}")
    with double():
        phase = tree.cast_module(phase, jnp.float64)
        u = jax.tree.map(jnp.zeros_like, phase.validate_point(phase.like).x)
        first = np.asarray(_excesses(phase, u))
        lower, upper = -np.inf, float(first.max())
        mu, eps = upper / max(1.0, np.log(first.size)), upper
        inside, outside = np.inf, 0.0
        for _ in range(STAGES):
            if upper <= 0 or lower >= CLOSE * upper:
                break
            mu /= 10
            u = _minimum(phase, u, jnp.asarray(mu), jnp.asarray(eps))
            g, measured, estimated, left = _measure_at(phase, u, jnp.asarray(mu))
            try:
                bound = lower_bound(certificate_of(measured, estimated), g)
            except FloatingPointError:  # what was found before the numbers broke down still holds
                break
            lower, upper = max(lower, bound), min(upper, float(np.max(excess(g))))
            if left:
                outside, eps = eps, min(10 * eps, np.sqrt(eps * inside))
            else:
                inside, eps = eps, max(eps / 10, np.sqrt(eps * outside))
    return LeastViolation(lower, upper)


def _place(problem: AbstractProblem, u: Tree) -> Tree:
    """x = c + r u."""
    parts, center = problem.geometry.parts.x, Product(problem.geometry.parts.x).project(tree.scale(0.0, u))
    return {name: center[name] + parts[name].diameter(u[name]) / 2 * u[name] for name in u}


@eqx.filter_jit
def _excesses(problem: AbstractProblem, u: Tree) -> Array:
    """e at x = c + r u: f is linear in lam, so e_g is f at the g-th unit vector."""
    x = _place(problem, u)
    units = jnp.eye(problem.like.y["multipliers"].size)
    return jax.vmap(lambda lam: problem.loss(Saddle(x, {"multipliers": lam})))(units)


@eqx.filter_jit
def _measure_at(problem: AbstractProblem, u: Tree, mu: Any) -> tuple[Saddle, Measured, bool, Array]:
    """g and the numbers of the certificate at (x, softmax(e / mu)), projected; whether x was outside."""
    x = _place(problem, u)
    z = problem.geometry.project(Saddle(x, {"multipliers": jax.nn.softmax(_excesses(problem, u) / mu)}))
    g = problem.operator(z)
    return g, *problem.measure(z, g), jnp.asarray(Product(problem.geometry.parts.x).violation(x) > 0)


@eqx.filter_jit
def _minimum(problem: AbstractProblem, u: Tree, mu: Any, eps: Any) -> Tree:
    """The minimum of F from u on, to within a slope of mu / 10."""

    def F(u: Tree) -> Array:
        return mu * logsumexp(_excesses(problem, u) / mu) + eps / 2 * tree.dot(u, u)

    def goes_on(carry: tuple[Any, Tree, Any, Any]) -> Array:
        steps, _, size, share = carry
        return (steps < STEPS) & (size > mu / 10) & (share > SMALLEST)

    def newton(carry: tuple[Any, Tree, Any, Any]) -> tuple[Any, Tree, Any, Any]:
        steps, u, _, _ = carry
        slope, product = jax.linearize(jax.grad(F), u)
        direction, _ = cg(product, tree.scale(-1.0, slope), tol=1e-2, maxiter=PRODUCTS)
        here, fall = F(u), tree.dot(slope, direction)

        def move(share: Any) -> Tree:
            return tree.add(u, tree.scale(share, direction))

        def too_far(share: Any) -> Array:
            return ~(F(move(share)) <= here + 1e-4 * share * fall) & (share > SMALLEST)

        share = jax.lax.while_loop(too_far, lambda share: share / 2, jnp.asarray(1.0))
        size = jnp.sqrt(tree.dot(slope, slope))  # before the step: one step more than needed is the surer end
        return steps + 1, tree.where(share > SMALLEST, move(share), u), size, share

    return jax.lax.while_loop(goes_on, newton, (0, u, jnp.asarray(jnp.inf), jnp.asarray(1.0)))[1]

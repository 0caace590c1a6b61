"""The constants of a problem: closed forms where there are any, else the largest values seen at feasible points."""

from collections.abc import Callable
from math import e, log
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from .. import tree
from ..accepted import Whole
from ..arrays import Reals
from ..compiling import compile_by_size, compile_quickly, double
from ..geometry import AbstractGeometry, Product, is_geometry
from ..problems import AbstractOracle, AbstractProblem, Bilinear, Exact, GaussianNoise
from ..problems.base import as_problem, where_not_finite
from ..problems.known import beta_of, slope_of
from ..problems.scores import spectral_norm
from ..regularizers import CappedSimplex, for_reports
from ..tree import Saddle, Tree, Vector
from ..validation import of_type, whole_number
from .theorems import Constants, product

# Sizes of a domain and of a game: the compiled part of a problem's constants.


class Sizes(NamedTuple):
    """Of the domain: B_0, its diameter and those of its blocks, and how far its points may be from 0 in each."""

    B0: Array
    whole: Array
    each: list[Array]
    radii: list[Array]


@compile_quickly
def sizes_of(geometry: Product, z0: Saddle) -> tuple[Saddle, Sizes]:
    """The projection of z0, and the sizes as seen from there."""
    start = geometry.project(z0)
    zero = jax.tree.map(jnp.zeros_like, z0)
    parts = list(zip(jax.tree.leaves(geometry.parts, is_leaf=is_geometry), jax.tree.leaves(zero), strict=True))
    each = [part.diameter(leaf) for part, leaf in parts]
    radii = [part.radius(leaf) for part, leaf in parts]
    reach, diameter = geometry.B0(geometry.dual(start).omega), geometry.diameter(zero)
    return start, Sizes(jnp.asarray(reach), jnp.asarray(diameter), each, radii)


@compile_quickly
def size_at_zero(problem: AbstractProblem) -> Array:
    """||g(0)||_*."""
    zero = jax.tree.map(lambda leaf: jnp.zeros(jnp.shape(leaf)), problem.like)
    return jnp.asarray(problem.geometry.dual_norm(problem.operator(zero)))


@compile_quickly
def largest_row(part: AbstractGeometry, rows: Array | Reals) -> Array:
    """The largest dual norm of a row."""
    return jnp.max(jax.vmap(part.dual_norm)(rows))


# Constants from below: the largest values seen at random feasible points.


SWEEPS, DRAWS, CLIENTS = 50, 32, 32  # power iterations and oracle calls at each point; the most clients looked at


def largest_seen(
    problem: AbstractProblem, oracle: AbstractOracle, start: Saddle, samples: int, seed: int
) -> list[float]:
    """The largest Jacobian norm, ||g_m||_* and root mean square noise at the start and at random feasible points."""
    rng, count = np.random.default_rng(seed), problem.clients or 1
    points = feasible_points(problem, start, samples, rng)
    members = rng.choice(count, min(count, CLIENTS), replace=False)
    pairs = np.array([(i, m) for i in range(samples) for m in members])
    return [float(value) for value in _largest(problem, oracle, points, pairs, np.asarray(seed))]


def feasible_points(problem: AbstractProblem, start: Saddle, samples: int, rng: np.random.Generator) -> Saddle:
    """The start and random points of the domain, `samples` in all, along the first axis."""
    drawn = [jax.tree.map(lambda u: 10 ** rng.uniform(-2, 1) * rng.normal(size=u.shape), start) for _ in range(samples)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *drawn)
    points: Saddle = _project_points(for_reports(problem.geometry), start, stacked)
    return points


@compile_quickly
def _project_points(geometry: Product, start: Saddle, drawn: Saddle) -> Saddle:
    """The start in the place of the first point, and the projections of the others."""
    points: Saddle = jax.tree.map(
        lambda row, others: others.at[0].set(row), start, jax.lax.map(geometry.project, drawn)
    )
    return points


def align(norm: Callable[[Tree], Vector], w: Tree) -> Tree:
    """The point of the unit ball that maximizes <., w>: the gradient at w of the norm dual to the ball's.

    A block of zeros has no direction: autodiff says nan, and 0 is one of its subgradients.
    """
    return jax.tree.map(lambda u: jnp.nan_to_num(u, posinf=0, neginf=0), jax.grad(norm)(w))


@compile_by_size
def _largest(problem: AbstractProblem, oracle: Any, points: Saddle, pairs: Any, seed: Any) -> Float[Array, "3"]:
    norm, keys = problem.geometry.dual_norm, jax.random.split(jax.random.key(seed), len(pairs))

    def measure(item: tuple[Array, Array]) -> Array:
        (i, m), key = item
        client, z = (jax.tree.map(lambda u, at=at: jnp.asarray(u)[at], t) for t, at in ((problem.data, m), (points, i)))
        operator = eqx.Partial(problem.client_operator, client)
        g, draws = operator(z), jax.random.split(key, DRAWS)
        noise = jax.lax.map(lambda k: norm(tree.subtract(oracle(problem, client, z, k), g)), draws)
        return jnp.stack([_jacobian_norm(operator, norm, z, key), norm(g), jnp.sqrt(jnp.mean(noise**2))])

    return jnp.max(jax.lax.map(measure, (pairs, keys)), axis=0)


def _jacobian_norm(
    operator: Callable[[Saddle], Saddle], norm: Callable[[Tree], Vector], z: Saddle, key: Array
) -> Array:
    """max ||J v||_* over ||v|| = 1 by u = argmax <u, J v>, v = argmax <J^T u, v>: power iteration in any norm.

    Never above the true norm.
    """
    (_, forward), (_, backward) = jax.linearize(operator, z), jax.vjp(operator, z)
    flat, unflatten = ravel_pytree(z)
    v = align(norm, unflatten(jax.random.normal(key, flat.shape)))

    def sweep(_: Array, v: Tree) -> Tree:
        return align(norm, backward(align(norm, forward(v)))[0])

    return jnp.asarray(norm(forward(jax.lax.fori_loop(0, SWEEPS, sweep, v))))


SAMPLES = 8  # points at which a constant without a closed form is looked for


def constants(
    problem: object, oracle: object = None, z0: Tree = None, *, samples: Whole = SAMPLES, seed: int = 0
) -> Constants:
    """The constants of a problem seen through an oracle (None: exact), started at the projection of z0 (None: 0).

    Bilinear games: beta = norm of A between the two blocks' norms, and sup ||g||_* <= ||g(0)||_* + beta sup ||z||.
    Problems of the catalogue: beta is the largest of the clients' own bounds, and sup ||g_m||_* <= ||g_m||_* at the
    point of the domain nearest to 0 + beta * diameter.
    Otherwise beta = sup ||Jacobian of g_m|| and sup ||g_m||_* are the largest values seen at `samples` feasible points
    of up to 32 clients, in the geometry's norms: estimates from below. So is sigma, unless the noise is Gaussian.
    seed: decides the points.
    """
    problem = as_problem(problem)
    accepted = "an oracle such as fx.GaussianNoise(0.1)"
    oracle = Exact() if oracle is None else of_type("oracle", oracle, AbstractOracle, accepted)
    samples = whole_number("samples", samples)
    with double():
        start = problem.validate_point(_zeros(problem) if z0 is None else z0, "z0")
        geometry = for_reports(problem.geometry)
        start, sizes = sizes_of(geometry, start)
        parts = list(zip(jax.tree.leaves(geometry.parts, is_leaf=is_geometry), jax.tree.leaves(start), strict=True))
        (beta, kind), sigma = _closed_beta(problem), _closed_sigma(oracle, parts)
        how = {"beta": kind, "sigma": "estimate" if sigma is None else "exact"}
        how["grad_bound"] = "estimate" if "estimate" in how.values() else "bound"
        size = None if beta is None else _largest_size(problem, sizes, beta)
        if beta is None or size is None or sigma is None:
            seen = largest_seen(problem, oracle, start, samples, seed)
            beta, size, sigma = (s if c is None else c for s, c in zip(seen, (beta, size, sigma), strict=True))
            if np.isnan([beta, size, sigma]).any() and (why := where_not_finite(problem, start, "the start")):
                raise FloatingPointError(why)
        kappa = max(_kappa(part.power, leaf.size) for part, leaf in parts)
        # Two vertices of a capped simplex may overlap, and a block of one entry may be a simplex of one point.
        nodes = jax.tree.leaves(geometry, is_leaf=lambda node: isinstance(node, CappedSimplex))
        attained = CappedSimplex not in map(type, nodes) and all(leaf.size > 1 for _, leaf in parts)
        how |= dict.fromkeys(["B", "diameter"], "exact" if attained else "bound")
        return Constants(
            beta=beta,
            sigma=sigma,
            grad_bound=_mean_square_bound([part for part, _ in parts], float(size), float(sigma)),
            B=sum(float(d) ** 2 / 2 if p.power == 2 else np.inf for (p, _), d in zip(parts, sizes.each, strict=True)),
            B0=float(sizes.B0),
            diameter=float(sizes.whole),
            kappa=kappa,
            how=how | {"B0": "exact", "kappa": "exact" if kappa == 1 else "bound"},
        )


def _mean_square_bound(parts: list[Any], size: float, sigma: float) -> float:
    """G with E||g(z) + noise||_*^2 <= G^2: noise of mean 0 adds its square in Hilbert norms; in others, by Minkowski's
    inequality, the root of its square.
    """
    hilbert = all(part.power == 2 for part in parts)
    return float(np.hypot(size, sigma)) if hilbert else size + sigma


def smoothness(problem: AbstractProblem) -> float:
    """beta alone, as `constants` has it; may be nan where the operator is somewhere in the domain."""
    with double():
        beta, _ = _closed_beta(problem)
        if beta is not None:
            return beta
        start, _ = sizes_of(for_reports(problem.geometry), problem.validate_point(_zeros(problem)))
        return largest_seen(problem, Exact(), start, SAMPLES, 0)[0]


def _zeros(problem: AbstractProblem) -> Saddle:
    return jax.tree.map(np.zeros_like, problem.like)


def _closed_beta(problem: AbstractProblem) -> tuple[float | None, str]:
    """Without looking at points, and whether it is exact or a bound; None, and an estimate to come, where f is unknown.

    A from l1 to ||.||_* has the largest norm of a column, from ||.|| to l-infinity that of a row; l2: spectral.
    """
    if isinstance(problem, Bilinear):
        x, y, A = problem.geometry.parts.x, problem.geometry.parts.y, np.asarray(problem.A)
        if x.power == 1:
            return float(largest_row(y, A.T)), "exact"
        if y.power == 1:
            return float(largest_row(x, A)), "exact"
        if x.power == y.power == 2:
            return spectral_norm(np.asarray(problem.A, float)), "exact"
    beta = beta_of(problem)
    return beta, "estimate" if beta is None else "bound"


def _largest_size(problem: AbstractProblem, sizes: Sizes, beta: float) -> float:
    """sup ||g||_* <= ||g(0)||_* + beta sup ||z|| of an affine g; a point of the simplex has norm 1.

    Beta may not hold outside of the domain, so of any other g it is ||g||_* at a point of it + beta * diameter.
    """
    if isinstance(problem, Bilinear):
        return float(size_at_zero(problem)) + product(beta, float(np.linalg.norm(np.array(sizes.radii))))
    return slope_of(problem) + product(beta, float(sizes.whole))


def _closed_sigma(oracle: AbstractOracle, parts: list[Any]) -> float | None:
    """sqrt(E||noise||_*^2) = sigma sqrt(sum of d for each l2 block, of E max_i xi_i^2 for each l-infinity block)."""
    if isinstance(oracle, Exact):
        return 0.0
    if isinstance(oracle, GaussianNoise) and all(part.power in (1, 2) for part, _ in parts):
        powers = [leaf.size if part.power == 2 else _largest_square(leaf.size) for part, leaf in parts]
        return float(oracle.sigma * np.sqrt(sum(powers)))
    return None


def _largest_square(size: int) -> float:
    """E max_i xi_i^2 of `size` standard normals = integral over a > 0 of 2 a (1 - P(|xi| <= a)^size)."""
    from scipy.special import erf  # imported where it is needed, for the simplex alone

    a = np.linspace(0, 12 + np.sqrt(2 * log(size)), 20_001)
    return float(np.trapezoid(2 * a * (1 - erf(a / np.sqrt(2)) ** size), a))


def _kappa(power: float | None, size: int) -> float:
    """1 in l2; min(d, e (2 ln d - 1)) in l-infinity (Nemirovski's inequality); q - 1 = 1 / (p - 1) in l_q.

    power: the p of ||.||_p, whose dual is meant. Of another norm nothing is known.
    """
    if power is None:
        return np.inf
    if power == 1:
        return float(size if size < 3 else min(size, e * (2 * log(size) - 1)))
    return 1 / (power - 1)

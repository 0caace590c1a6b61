"""How alike the clients' operators are: the constant of similarity that FeDualSlide's bound depends on."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.interpreters.partial_eval import dce_jaxpr
from jaxtyping import Array

from .. import tree
from ..accepted import Whole
from ..compiling import double
from ..geometry import is_geometry
from ..problems import AbstractProblem
from ..problems.base import as_problem
from ..regularizers import for_reports
from ..tree import Saddle, Tree
from ..validation import whole_number
from .constants import SWEEPS, align, feasible_points

SMALL = 200  # unknowns up to which the whole matrix is formed


@dataclass(frozen=True)
class Similarity:
    """delta, and how it was found: "exact", or "estimate" if it is the largest value seen (from below)."""

    delta: float
    how: str


def similarity(problem: object, *, samples: Whole = 8, seed: Whole = 0) -> Similarity:
    """The smallest delta with sum_m p_m ||d_m(z) - d_m(w)||_*^2 <= delta^2 ||z - w||^2, d_m = g_m - sum_n p_n g_n.

    problem: its clients have the weights p, and its geometry the norms.
    samples, seed: at how many feasible points, drawn from this seed, operators that are not affine are looked at.

    With J_m the Jacobian of g_m at z and D_m = J_m - sum_n p_n J_n, delta^2 = sup_z max_v sum_m p_m ||D_m v||_*^2 over
    ||v|| = 1. If no J_m depends on z (which is proved from the program that computes it) and all blocks are Euclidean,
    this is the largest eigenvalue of sum_m p_m D_m^T D_m: exact, over all directions v. Otherwise it is the largest
    value that power iteration in the geometry's norms finds at the sampled points: an estimate from below.

    Returns a `Similarity`. Clients that share one f have delta = 0.
    """
    problem, samples, seed = as_problem(problem), whole_number("samples", samples), whole_number("seed", seed, 0)
    if problem.clients is None or problem.clients == 1:
        return Similarity(0.0, "exact")
    with double():
        geometry = for_reports(problem.geometry)
        start = geometry.project(problem.validate_point(jax.tree.map(np.zeros_like, problem.like)))
        wide = tree.cast_module(problem, jnp.float64)
        p = jnp.asarray(problem.client_weights(problem.clients))
        blocks = jax.tree.leaves(geometry.parts, is_leaf=is_geometry)
        if is_affine(wide, start) and all(block.power == 2 for block in blocks):
            return Similarity(_largest_eigenvalue(wide, p, start) ** 0.5, "exact")
        rng = np.random.default_rng(seed)
        points = feasible_points(problem, start, samples, rng)
        key = jax.random.key(int(rng.integers(2**31)))
        return Similarity(float(_largest_spread(wide, p, points, key)), "estimate")


def is_affine(problem: AbstractProblem, z: Saddle) -> bool:
    """Whether no client's Jacobian depends on the point, as far as the program that computes it shows.

    True is a proof; False is not, for a dependence may cancel.
    """
    client = _client(problem, 0)

    def product(z: Saddle, v: Saddle) -> Saddle:
        return jax.jvp(eqx.Partial(problem.client_operator, client), (z,), (v,))[1]

    program = jax.make_jaxpr(product)(z, z).jaxpr
    _, used = dce_jaxpr(program, [True] * len(program.outvars))
    return not any(used[: len(jax.tree.leaves(z))])


def _client(problem: AbstractProblem, m: object) -> Tree:
    return jax.tree.map(lambda u: jnp.asarray(u)[m], problem.data)


def _spread(problem: AbstractProblem, p: Array, z: Saddle) -> tuple[Tree, Tree]:
    """The maps v -> (D_m v)_m and (s_m)_m -> sum_m p_m D_m^T s_m at z."""
    members = jnp.arange(p.size)

    def center(values: Tree) -> Tree:
        return jax.tree.map(lambda u: u - jnp.tensordot(p, u, 1), values)

    def of(m: Array) -> Tree:
        return eqx.Partial(problem.client_operator, _client(problem, m))

    def forward(v: Saddle) -> Tree:
        return center(jax.lax.map(lambda m: jax.jvp(of(m), (z,), (v,))[1], members))

    def backward(s: Tree) -> Saddle:
        each = jax.lax.map(lambda item: jax.vjp(of(item[0]), z)[1](item[1])[0], (members, center(s)))
        return jax.tree.map(lambda u: jnp.tensordot(p, u, 1), each)

    return forward, backward


def _largest_eigenvalue(problem: AbstractProblem, p: Array, z: Saddle) -> float:
    """Of sum_m p_m D_m^T D_m: from the whole matrix if it is small, else by Lanczos iteration, to rounding."""
    flat, unflatten = ravel_pytree(z)

    @eqx.filter_jit
    def apply(problem: AbstractProblem, v: Array) -> Array:
        forward, backward = _spread(problem, p, z)
        return ravel_pytree(backward(forward(unflatten(v))))[0]

    def times(v: Tree) -> Tree:
        return np.asarray(apply(problem, jnp.asarray(v).reshape(-1)))

    if flat.size <= SMALL:
        matrix = np.stack([times(row) for row in np.eye(flat.size)])
        return max(0.0, float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[-1]))
    from scipy.sparse.linalg import LinearOperator, eigsh  # a tenth of a second to import, for large problems alone

    operator = LinearOperator((flat.size, flat.size), matvec=times, dtype=float)
    start = np.random.default_rng(0).normal(size=flat.size)
    return max(0.0, float(eigsh(operator, k=1, which="LA", v0=start, return_eigenvectors=False)[0]))


@eqx.filter_jit
def _largest_spread(problem: AbstractProblem, p: Array, points: Saddle, key: Array) -> Array:
    """The largest sqrt(sum_m p_m ||D_m v||_*^2) over ||v|| = 1 and the points."""
    norm, (flat, unflatten) = problem.geometry.dual_norm, ravel_pytree(jax.tree.map(lambda u: u[0], points))
    first = align(norm, unflatten(jax.random.normal(key, flat.shape)))

    def at(z: Saddle) -> Array:
        forward, backward = _spread(problem, p, z)

        def sweep(_: Array, v: Saddle) -> Saddle:
            # The convex function v -> sum_m p_m ||D_m v||_*^2 / 2 is at least its linear part, which this maximizes.
            slopes = jax.lax.map(lambda u: tree.scale(norm(u), align(norm, u)), forward(v))
            return align(norm, backward(slopes))

        return jnp.sqrt(p @ jax.lax.map(norm, forward(jax.lax.fori_loop(0, SWEEPS, sweep, first))) ** 2)

    return jnp.max(jax.lax.map(at, points))

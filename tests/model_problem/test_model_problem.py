"""The model problem's solver: optimality by the regularizers' own prox, outside solvers, bad scales, no solution."""

import itertools

import cvxpy as cp
import jax
import numpy as np
import pytest

import fedualex as fx
from fedualex.bundle import Flat
from fedualex.compiling import double
from fedualex.geometry import Dual, EntropicSimplex, Product
from fedualex.geometry.base import AbstractGeometry
from fedualex.model_problem import blocks_of, solve_model
from fedualex.model_problem.blocks import block_of
from fedualex.regularizers import AbstractRegularizer
from fedualex.tree import Saddle

D, M = 12, 5
THIRDS = np.arange(D) // 3
UNIFORM = np.full(D, 1 / D)

BOUNDED = {
    "l1 in a wide l1 ball": fx.L1(0.1) + fx.L1Ball(1e3),
    "l1 in an l1 ball": fx.L1(0.1) + fx.L1Ball(0.5),
    "l1 in a wide l2 ball": fx.L1(0.1) + fx.L2Ball(1e3),
    "l1 in an l2 ball": fx.L1(0.1) + fx.L2Ball(0.3),
    "l1 in a box": fx.L1(0.1) + fx.Box(0.2),
    "l1 in a box away from 0": fx.L1(0.1) + fx.Box(lower=0.1, upper=0.4),
    "l1 ball": fx.L1Ball(0.5),
    "l2 ball": fx.L2Ball(0.3),
    "box": fx.Box(0.2),
    "box that fixes some": fx.Box(lower=np.where(THIRDS, -1.0, 0.1), upper=np.where(THIRDS, 1.0, 0.1)),
    "point": fx.L1Ball(0.0),
    "simplex": fx.Simplex(2.0),
    "capped simplex": fx.CappedSimplex(2 / D),
    "elastic net": fx.ElasticNet(0.1, 0.1),
    "ridge": fx.SquaredL2(0.5) + fx.Linear(np.linspace(-1, 1, D)),
    "groups in an l2 ball": fx.GroupL2(0.2, THIRDS) + fx.L2Ball(0.3),
    "groups and ridge in a wide l2 ball": fx.GroupL2(0.2, THIRDS) + fx.L2Ball(300.0) + fx.SquaredL2(0.1),
    "entropy": fx.Entropy(0.1),
    "weak divergence": fx.KL(1e-2, UNIFORM) + fx.Linear(0.3),
    "divergence on the simplex": EntropicSimplex(fx.KL(0.1, UNIFORM)),
    "weak divergence on the simplex": EntropicSimplex(fx.KL(1e-4, UNIFORM)),
    "simplex, entropic": EntropicSimplex(),
    "capped simplex, entropic": EntropicSimplex(fx.CappedSimplex(3 / D)),
}
ADVERSARIES = {
    "none": None,
    "simplex": fx.Simplex(),
    "box": fx.Box(lower=0.0, upper=5.0),
    "divergence": EntropicSimplex(fx.KL(0.1, np.full(M, 1 / M))),
    "capped simplex": fx.CappedSimplex(2 / M),
}
PAIRS = list(itertools.product(BOUNDED, ADVERSARIES))


def flat_of(x, y=None, shape=(D,), size=M):
    if y is None:
        return Flat(Product(Saddle(x)), Saddle(np.zeros(shape)), 1.0)
    return Flat(Product(Saddle(x, y)), Saddle(np.zeros(shape), np.zeros(size)), 1.0)


def draw(rng, d, m, *, rows, common=0.0, spread=0.0, own=0.0, copies=False):
    """g, J and c: rows of columns with a common factor, scales over 2 * spread decades, perhaps every column twice."""
    X = (rng.standard_normal((rows, d)) + common * rng.standard_normal((rows, 1))) * 10 ** rng.uniform(
        -spread, spread, d
    )
    if copies:
        X[:, 1::2] = X[:, : 2 * (d // 2) : 2]
    J = np.zeros((d + m, d + m))
    J[:d, :d] = X.T @ X / rows
    B = rng.standard_normal((m, d)) * np.sqrt(np.diagonal(J)[:d])
    J[d:, :d], J[:d, d:], J[d:, d:] = -B, B.T, own * np.eye(m)
    g = np.concatenate([-J[:d, :d] @ rng.standard_normal(d) / 2, rng.standard_normal(m)])
    return g, J, rng.standard_normal(d + m) / 10


def natural_residual(flat, solution, weight=1.0):
    """|n - prox(n + weight slope)| over |n| + |weight slope|, by the regularizers themselves where there are mirror maps."""
    with double():
        geometries = jax.tree.leaves(flat.geometry.parts, is_leaf=lambda p: isinstance(p, AbstractGeometry))
        n, s = (jax.tree.leaves(flat.point(v)) for v in (solution.point, solution.slope))
        errors, sizes = [], []
        for geometry, here, slope in zip(geometries, n, s, strict=True):
            if isinstance(
                geometry, EntropicSimplex
            ):  # no Euclidean prox in jax: the Fenchel gap is 0 exactly at solutions
                errors.append(float(geometry.psi(here) + geometry.psi_conjugate(slope) - np.vdot(slope, here)))
            else:
                errors.append(np.linalg.norm(here - geometry.primal(Dual(here + weight * slope, weight))))
            sizes.append(np.linalg.norm(here) + weight * np.linalg.norm(slope))
    return max(errors) / sum(sizes)


def check(flat, g, J, c, tolerance=1e-11):
    solution = solve_model(blocks_of(flat), g, J, c)
    np.testing.assert_array_equal(solution.slope, -(g + J @ (solution.point - c)))
    assert solution.residual <= 1e-12
    assert natural_residual(flat, solution) <= tolerance
    with double():
        assert float(flat.geometry.violation(flat.point(solution.point))) <= 1e-13
    return solution


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_every_pair_of_blocks_is_solved(x, y):
    rng = np.random.default_rng([list(BOUNDED).index(x), list(ADVERSARIES).index(y)])
    flat, m = flat_of(BOUNDED[x], ADVERSARIES[y]), M if ADVERSARIES[y] is not None else 0
    for rows, own in ((2 * D, 0.0), (D // 2, 0.1)):
        check(flat, *draw(rng, D, m, rows=rows, own=own))


@pytest.mark.parametrize("seed", [*range(15), *(pytest.param(k, marks=pytest.mark.slow) for k in range(15, 200))])
def test_random_problems(seed):
    """Bad scales, copies of columns, no curvature at all."""
    rng = np.random.default_rng([7, seed])
    x, y = rng.choice(list(BOUNDED)), rng.choice(list(ADVERSARIES))
    m = M if ADVERSARIES[y] is not None else 0
    flat = flat_of(BOUNDED[x], ADVERSARIES[y])
    g, J, c = draw(
        rng,
        D,
        m,
        rows=int(rng.choice([D // 2, 2 * D])),
        common=rng.choice([0, 1, 3]),
        spread=rng.choice([0, 1]),
        own=rng.choice([0, 0.1]),
        copies=rng.random() < 0.3,
    )
    if rng.random() < 0.1:
        J[:D, :D] = 0
    check(flat, g, J, c)


@pytest.mark.parametrize("seed", range(5))
def test_columns_of_all_scales(seed):
    """Columns from 1e-6 to 1e6, with the l1 strengths that belong to them: the answer is that of scaled columns."""
    rng = np.random.default_rng(seed)
    g, J, c = draw(rng, 60, 0, rows=120, common=1.0)
    scale = 10 ** rng.uniform(-6, 6, 60)
    flat = flat_of(fx.Box(lower=-0.1 / scale, upper=0.1 / scale), shape=(60,))
    plain = solve_model(blocks_of(flat_of(fx.Box(0.1), shape=(60,))), g, J, c)
    scaled = solve_model(blocks_of(flat), g * scale, J * np.outer(scale, scale), c / scale)
    assert scaled.residual <= 1e-12
    np.testing.assert_allclose(scaled.point * scale, plain.point, atol=1e-11)
    wild = solve_model(
        blocks_of(flat_of(fx.L1(0.1) + fx.L1Ball(1e8), shape=(60,))), g * scale, J * np.outer(scale, scale), c / scale
    )
    assert wild.residual <= 1e-12


SCALES = [(0, 0), (2, 2), (3, 3), (3, 103), (4, 4), (4, 204)]
"""Decades to both sides, and a seed. Of matrices whose columns have more, the last digits of J decide: of twelve copies
of (5, 205) and (6, 6) that differ in these alone, one and four are not solved to 1e-5."""


@pytest.mark.parametrize(
    ("name", "decades", "seed"),
    [*(("groups", *case) for case in (*SCALES, (5, 205), (6, 6))), *(("nuclear", *case) for case in SCALES)],
)
def test_columns_of_all_scales_under_a_penalty_that_couples_them(name, decades, seed):
    """psi^* sees the slope of every column alike: columns of steep and of flat ones have to be solved."""
    shape, lam, radius = (8, 3), 1e-3, 1e3
    groups, size = np.arange(24) // 3, int(np.prod(shape))
    groups[1], groups[3] = 1, 0  # steep and flat ones in one group
    psi = fx.GroupL2(lam, groups.reshape(shape)) if name == "groups" else fx.Spectral(fx.L1(lam))
    wide = psi + fx.L2Ball(radius) if name == "groups" else fx.Spectral(fx.L1(lam) + fx.L1Ball(radius))
    flat, rng = flat_of(wide, shape=shape), np.random.default_rng(seed)
    X = rng.standard_normal((40, 8)) * 10 ** rng.permutation(np.linspace(-decades, decades, 8))
    J = np.kron(X.T @ X / 40, np.eye(3))
    g = -(X.T @ rng.standard_normal((40, 3)) / 40).ravel()
    solution = solve_model(blocks_of(flat), g, J, np.zeros(size))
    n, s = solution.point, solution.slope
    if name == "groups":
        strengths = psi.model_form().weights
        inside = np.sqrt(np.bincount(groups, s * s)) / strengths
        value = strengths @ np.sqrt(np.bincount(groups, n * n))
    else:
        inside = np.linalg.norm(s.reshape(shape), 2) / lam
        value = lam * np.linalg.norm(n.reshape(shape), "nuc")
    assert value > 0
    assert np.max(inside) <= 1 + 1e-5
    assert abs(value - s @ n) <= 1e-5 * value


def test_it_agrees_with_an_outside_solver():
    rng = np.random.default_rng(3)
    g, J, c = draw(rng, 40, 0, rows=80, common=1.0)
    ours = check(flat_of(fx.L1(0.05) + fx.L2Ball(0.4), shape=(40,)), g, J, c)
    x = cp.Variable(40)
    value = g @ (x - c) + cp.quad_form(x - c, cp.psd_wrap(J)) / 2 + 0.05 * cp.norm1(x)
    cp.Problem(cp.Minimize(value), [cp.norm(x) <= 0.4]).solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10)
    np.testing.assert_allclose(ours.point, x.value, atol=1e-6)


def test_the_same_bits_for_the_same_input():
    rng = np.random.default_rng(4)
    problem = draw(rng, D, M, rows=D // 2, common=1.0)
    flat = flat_of(BOUNDED["l1 in a wide l1 ball"], fx.Simplex())
    first, second = (solve_model(blocks_of(flat), *problem) for _ in range(2))
    np.testing.assert_array_equal(first.point, second.point)


def test_a_start_at_the_solution_ends_at_once():
    rng = np.random.default_rng(5)
    flat = flat_of(BOUNDED["l1 in a wide l1 ball"], fx.Simplex())
    g, J, c = draw(rng, D, M, rows=2 * D)
    found = solve_model(blocks_of(flat), g, J, c)
    assert solve_model(blocks_of(flat), g, J, c, found.point).iterations <= 2


@pytest.mark.parametrize("psi", [fx.L1(0.1), fx.NonNegative(), fx.GroupL2(0.1, THIRDS)], ids=repr)
def test_a_model_without_a_solution_says_so(psi):
    """Downhill forever: the slope along a direction without curvature is more than psi can hold."""
    g, J = np.full(D, -1.0), np.zeros((D, D))
    solution = solve_model(blocks_of(flat_of(psi)), g, J, np.zeros(D))
    assert np.all(np.isfinite(solution.point))
    assert solution.residual > 1e-7


SPECTRAL = {
    "nuclear": fx.Spectral(fx.L1(0.2)),
    "nuclear in a spectral ball": fx.Spectral(fx.L1(0.1) + fx.Box(0.3)),
    "nuclear in a Frobenius ball": fx.Spectral(fx.L1(0.1) + fx.L2Ball(0.5)),
    "nuclear in a nuclear ball": fx.Spectral(fx.L1(0.1) + fx.L1Ball(0.6)),
    "nuclear and ridge": fx.Spectral(fx.L1(0.1)) + fx.SquaredL2(0.1),
    "spectral ball": fx.Spectral(fx.Box(0.3)),
}


@pytest.mark.parametrize("shape", [(4, 3), (3, 5)])
@pytest.mark.parametrize("name", SPECTRAL)
@pytest.mark.parametrize("m", [0, M])
def test_functions_of_singular_values(name, shape, m):
    rng = np.random.default_rng([list(SPECTRAL).index(name), m])
    d = shape[0] * shape[1]
    flat = flat_of(SPECTRAL[name], fx.Simplex() if m else None, shape)
    check(flat, *draw(rng, d, m, rows=2 * d), tolerance=1e-9)  # the prox in jax goes through a Gram matrix


@pytest.mark.parametrize("name", [*BOUNDED, *SPECTRAL])
def test_the_derivative_of_the_prox_is_that_of_differences(name):
    form = {**BOUNDED, **SPECTRAL}[name]
    form = form.model_form()
    block = block_of(form, (4, 3) if name in SPECTRAL else (D,))
    rng = np.random.default_rng(6)
    v = rng.standard_normal(D)
    t = block.steps(rng.uniform(0.5, 2, D))
    slope, ahead = block.slope(v, t), rng.standard_normal(D)
    basis = np.eye(D)[:, slope.kept] if slope.basis is None else slope.basis
    moved = basis @ slope.apply(basis.T @ ahead[:, None])[:, 0]
    step = 1e-6
    numeric = (block.prox(v + step * ahead, t) - block.prox(v - step * ahead, t)) / (2 * step)
    np.testing.assert_allclose(moved, numeric, atol=1e-6)


def concrete(base):
    for cls in base.__subclasses__():
        yield from concrete(cls)
        if cls.__module__.startswith("fedualex.") and not cls.__abstractmethods__:
            yield cls


def test_every_regularizer_and_geometry_declares_its_form():
    silent = [
        cls.__name__
        for base in (AbstractRegularizer, AbstractGeometry)
        for cls in concrete(base)
        if cls.model_form is base.model_form
    ]
    assert silent == ["Product"]


def test_one_without_a_form_is_refused():
    class Own(fx.regularizers.Zero):
        def model_form(self):
            return AbstractRegularizer.model_form(self)

    with pytest.raises(TypeError, match="declares no model_form"):
        blocks_of(flat_of(Own()))

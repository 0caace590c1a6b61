"""Gaps of methods are below the bounds of the theory, at every T.

T11, T12, ... and E3, E4, ... are the numbers of the property tests and of the errata in the mathematical specification.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from support import rows, twins_one_machine, twins_shared
from support.twin_cases import (
    BOX_X,
    SIMPLEX_START,
    SLOW,
    A,
    case,
    close,
    compile_quickly,  # noqa: F401
    saddle,
)

import fedualex as fx
from fedualex import tree
from fedualex.compiling import double

BOUNDED = {
    name: part
    for name, (part, like) in rows.GEOMETRIES.items()
    if np.shape(like) == rows.VECTOR.shape and isinstance(part, fx.Euclidean | fx.EntropicSimplex)
    if part.finite_conjugate and np.isfinite(float(part.diameter(rows.VECTOR)))
}
PAIRS = [
    ("8 box of arrays", "9 l2 ball"),
    ("10 l1 ball", "entropic"),
    ("entropic", "entropic"),
    ("13 l1 + l2 ball", "entropic cap"),
    ("19 group l2 + l2 ball", "12 box of arrays + l1"),
    ("20 capped simplex", "18 elastic net + box"),
    ("entropic kl + linear", "11 simplex of radius 3"),
]
DEGENERATE = ("of radius 0", "of one point", "of strength 0", "cap above 1", "of one entry", "whole")
EVERY_T = 12


def gaps_at_every_T(problem, method, z0):
    """The certificate of the ergodic mean after 1, 2, ..., EVERY_T steps on one machine; not compiled, so quick."""
    geometry, total, weight, gaps = problem.geometry, tree.scale(0.0, z0), 0.0, []
    state = method.start(geometry.dual(z0), geometry)
    for _ in range(EVERY_T):
        state, probe, w = method.local_step(state, lambda z, s: problem.operator(z), geometry)
        total, weight = tree.add(total, tree.scale(w, method.read(probe, geometry))), weight + w
        mean = tree.scale(1 / weight, total)
        gaps.append(float(tree.total(geometry.fenchel_gaps(mean, problem.operator(mean)))))
    return np.array(gaps)


def sampled_beta(problem, samples=500):
    """The largest ||g(z) - g(z')||_* / ||z - z'|| seen, in numpy: l1 and max norms on entropic blocks, else l2."""
    orders = [
        1 if isinstance(part, fx.EntropicSimplex) else 2
        for part in (problem.geometry.parts.x, problem.geometry.parts.y)
    ]
    rng, largest = np.random.default_rng(1), 0.0
    for _ in range(samples):
        kept = rng.uniform(size=10) < rng.uniform()  # sparse directions too: l1 balls have corners
        d = rng.normal(size=10) * np.where(kept.any(), kept, 1)
        g = np.concatenate([problem.A.T @ d[5:], problem.A @ d[:5]])
        duals = [np.inf if order == 1 else 2 for order in orders]
        size = np.hypot(*(np.linalg.norm(v, order) for v, order in zip((d[:5], d[5:]), orders, strict=True)))
        largest = max(
            largest,
            np.hypot(*(np.linalg.norm(v, order) for v, order in zip((g[:5], g[5:]), duals, strict=True))) / size,
        )
    return largest


def check_bounds(x, y):
    rng = np.random.default_rng(2)
    problem = fx.problems.bilinear(rng.normal(size=(5, 5)), rng.normal(size=5), x=BOUNDED[x], y=BOUNDED[y])
    z0 = problem.project(fx.Saddle(*np.abs(rng.normal(size=(2, 5)))))
    constants = fx.theory.constants(problem, z0=z0)
    assert 0.5 * constants.beta <= sampled_beta(problem) <= constants.beta * (1 + 1e-12)
    bound = constants.beta * constants.B0 / np.arange(1, EVERY_T + 1)
    methods = (fx.CompositeDualExtrapolation, 1), (fx.CoMP, 1), (fx.OptimisticMirrorDescent, 2)
    with double():
        for method, factor in methods:
            gaps = gaps_at_every_T(problem, method(1 / (factor * constants.beta)), problem.validate_point(z0))
            assert np.all(gaps <= factor * bound * (1 + 1e-9) + 1e-13)
            assert np.all(gaps >= -1e-12)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_gap_is_below_the_bound_at_every_T(x, y):
    """T16, T18: gap <= B0 / (eta T): Theorem 4 and CoMP with eta = 1/beta, optimistic with eta = 1/(2 beta)."""
    check_bounds(x, y)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("x", BOUNDED)
def test_gap_is_below_the_bound_on_all_pairs(x):
    for y in BOUNDED:
        if not any(word in name for word in DEGENERATE for name in (x, y)) or x == y:
            check_bounds(x, y)


@pytest.mark.slow
def test_recorded_gaps_are_below_the_bound():
    """T16 through `simulate`, in the mixed geometry; the records are the certificates of `ergodic`."""
    problem, z0 = case("shared entropic").problem, saddle(SIMPLEX_START)
    constants = fx.theory.constants(problem, z0=z0)
    close(constants.beta, np.max(np.linalg.norm(A, axis=1)))
    close(constants.B0, np.sum((BOX_X + np.abs(z0.x)) ** 2) / 2 - np.log(np.min(z0.y)))
    run = fx.simulate(problem, fx.CompositeDualExtrapolation(1 / constants.beta), steps=40, z0=z0, record_every=1)
    gaps = run.history["gap_ergodic"][1:]
    assert np.all(gaps <= constants.beta * constants.B0 / np.arange(1, 41) * (1 + 1e-9))
    assert gaps[-1] == pytest.approx(problem.gap(run.outputs["ergodic"].z), abs=1e-12)


@pytest.mark.slow
def test_counterexample_to_the_printed_half_step():
    """E3: f = 0.1 x y, |x| and |y| on [-1, 1]^2: with ell_t in the half step T gap = 1 > beta B = 0.4."""
    psi, beta, T = fx.L1(1.0) + fx.Box(1.0), 0.1, 20
    problem, z0 = fx.problems.bilinear([[beta]], [0.0], x=psi, y=psi), fx.Saddle(np.array([0.5]), np.array([0.5]))
    run = fx.simulate(problem, fx.CompositeDualExtrapolation(1 / beta), steps=T, z0=z0, record_every=1)
    assert np.max(run.history["gap_ergodic"][1:]) <= 1e-12
    space = twins_shared.L1Box(1, 1, 1.0, 1.0, (-1.0, 1.0), (-1.0, 1.0))

    def g(z, t, s):
        return beta * np.array([z[1], -z[0]])

    for t in range(1, T + 1):
        x, y = twins_one_machine.compositeDualExtrapolation(space, g, t, 1 / beta, np.array([0.5, 0.5]), printed=True)[
            "ergodic"
        ]
        assert t * problem.gap(fx.Saddle(np.array([x]), np.array([y]))) > 0.9


EUCLIDEAN_PAIRS = [
    ("12 l1 + box", "9 l2 ball"),
    pytest.param("17 l1 + l1 ball", "11 simplex", marks=SLOW),
]


@pytest.mark.slow
@pytest.mark.parametrize(("x", "y"), EUCLIDEAN_PAIRS)
def test_chambolle_pock_and_tseng_are_below_their_bounds(x, y):
    """T18: 2 beta B0 / N at tau = 1/beta; 4 beta sqrt(Bx By) / (T + 1) with mu = 2 beta sqrt(Bx/By) / (T + 1)."""
    rng = np.random.default_rng(3)
    problem = fx.problems.bilinear(rng.normal(size=(5, 5)), rng.normal(size=5), x=BOUNDED[x], y=BOUNDED[y])
    constants = fx.theory.constants(problem)
    beta, start = constants.beta, problem.project(problem.like)
    run = fx.simulate(problem, fx.ChambollePock(1 / beta, 1 / beta), steps=40, record_every=1)
    gaps = run.history["gap_ergodic"][1:]
    assert np.all(gaps <= 2 * beta * constants.B0 / np.arange(1, 41) * (1 + 1e-9))
    with double():
        b_x, b_y = (
            float(part.regularizer.farthest(jnp.asarray(at))) ** 2 / 2
            for part, at in ((BOUNDED[x], start.x), (BOUNDED[y], np.zeros(5)))
        )
    for T in (1, 2, 3, 5, 8, 13, 40):
        mu = 2 * beta * np.sqrt(b_x / b_y) / (T + 1)
        run = fx.simulate(problem, fx.TsengAPG(mu, beta**2 / mu), steps=T)
        assert run.outputs["last"].gap <= 4 * beta * np.sqrt(b_x * b_y) / (T + 1) * (1 + 1e-9)

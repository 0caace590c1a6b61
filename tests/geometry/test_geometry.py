"""Laws of the geometries over one list, their potentials against the closed forms of the table, and the product."""

import itertools

import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import logsumexp
from support.rows import GEOMETRIES, GROUPS, MATRIX, REGULARIZERS, VECTOR, WITHOUT_CLOCK, C, Q, kinds_first

import fedualex as fx
from fedualex import tree
from fedualex.compiling import double
from fedualex.geometry import AbstractGeometry, calls_lapack
from fedualex.testing import Laws, geometry_laws

entries = st.one_of(st.floats(-50, 50, allow_subnormal=False), st.sampled_from([0.0, 0.3, -0.3, 0.5, -0.5, 1.0]))
weights = st.sampled_from([0.0, 0.1, 1.0, 7.0])


# Those with a regularizer of the other list differ in it alone, and its laws are tried there.
SAME = REGULARIZERS.keys() - {"12 l1 + box", "15 nuclear + spectral ball", "20 capped simplex", "kl"}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", kinds_first(GEOMETRIES, SAME))
def test_laws(name):
    geometry, like = GEOMETRIES[name]
    laws = Laws(geometry, like, geometry_laws)
    leaves, structure = jax.tree.flatten(like)
    points = st.tuples(*(hnp.arrays(float, np.shape(leaf), elements=entries) for leaf in leaves))

    # Spectral rows are evaluated op by op, which takes longer.
    @settings(max_examples=4 if calls_lapack(geometry) else 15, **WITHOUT_CLOCK)
    @given(points, points, weights)
    def check(omega, other, weight):
        laws.check(jax.tree.unflatten(structure, omega), jax.tree.unflatten(structure, other), weight)

    check()


def test_every_geometry_is_in_the_list():
    concrete = {cls for cls in AbstractGeometry.__subclasses__() if cls.__module__.startswith("fedualex.")}
    assert concrete == {type(geometry) for geometry, _ in GEOMETRIES.values()}


# --- potentials ----------------------------------------------------------------------------------------------------


def hub(a, D):
    return np.where(a <= D, a**2 / 2, D * a - D**2 / 2)


def excess(a, threshold):
    return np.maximum(a - threshold, 0)


def sigma(W):
    return np.linalg.svd(W, compute_uv=False)


def group_norms(w):
    return np.array([np.linalg.norm(w[group == GROUPS]) for group in range(3)])


# (ell + tau psi)^*(omega) as the table of pairs prints it, in numpy.
POTENTIALS = {
    "none": (fx.Euclidean(), VECTOR, lambda w, t: np.sum(w**2) / 2),
    "l1": (fx.Euclidean(fx.L1(0.3)), VECTOR, lambda w, t: np.sum(excess(abs(w), 0.3 * t) ** 2) / 2),
    "squared l2": (fx.Euclidean(fx.SquaredL2(0.7)), VECTOR, lambda w, t: np.sum(w**2) / (2 * (1 + 0.7 * t))),
    "elastic net": (
        fx.Euclidean(fx.ElasticNet(0.3, 0.7)),
        VECTOR,
        lambda w, t: np.sum(excess(abs(w), 0.3 * t) ** 2) / (2 * (1 + 0.7 * t)),
    ),
    "group l2": (
        fx.Euclidean(fx.GroupL2(0.4, GROUPS)),
        VECTOR,
        lambda w, t: np.sum(excess(group_norms(w), 0.4 * t) ** 2) / 2,
    ),
    "nuclear": (fx.Euclidean(fx.Spectral(fx.L1(0.3))), MATRIX, lambda w, t: np.sum(excess(sigma(w), 0.3 * t) ** 2) / 2),
    "nonnegative": (fx.Euclidean(fx.NonNegative()), VECTOR, lambda w, t: np.sum(np.maximum(w, 0) ** 2) / 2),
    "box": (fx.Euclidean(fx.Box(0.5)), VECTOR, lambda w, t: np.sum(hub(abs(w), 0.5))),
    "l2 ball": (fx.Euclidean(fx.L2Ball(0.8)), VECTOR, lambda w, t: hub(np.linalg.norm(w), 0.8)),
    "l1 + box": (
        fx.Euclidean(fx.L1(0.3) + fx.Box(0.5)),
        VECTOR,
        lambda w, t: np.sum(hub(excess(abs(w), 0.3 * t), 0.5)),
    ),
    "l1 + l2 ball": (
        fx.Euclidean(fx.L1(0.3) + fx.L2Ball(0.8)),
        VECTOR,
        lambda w, t: hub(np.linalg.norm(excess(abs(w), 0.3 * t)), 0.8),
    ),
    "l1 + nonnegative": (
        fx.Euclidean(fx.L1(0.3) + fx.NonNegative()),
        VECTOR,
        lambda w, t: np.sum(excess(w, 0.3 * t) ** 2) / 2,
    ),
    "nuclear + spectral ball": (
        fx.Euclidean(fx.Spectral(fx.L1(0.3) + fx.Box(0.5))),
        MATRIX,
        lambda w, t: np.sum(hub(excess(sigma(w), 0.3 * t), 0.5)),
    ),
    "nuclear + Frobenius ball": (
        fx.Euclidean(fx.Spectral(fx.L1(0.3) + fx.L2Ball(0.8))),
        MATRIX,
        lambda w, t: hub(np.linalg.norm(excess(sigma(w), 0.3 * t)), 0.8),
    ),
    "entropic": (fx.EntropicSimplex(), VECTOR, lambda w, t: logsumexp(w)),
    "entropic linear": (fx.EntropicSimplex(fx.Linear(C)), VECTOR, lambda w, t: logsumexp(w - t * C)),
    "entropic l1": (fx.EntropicSimplex(fx.L1(0.3)), VECTOR, lambda w, t: logsumexp(w) - 0.3 * t),
    "entropic entropy": (
        fx.EntropicSimplex(fx.Entropy(0.4)),
        VECTOR,
        lambda w, t: (1 + 0.4 * t) * logsumexp(w / (1 + 0.4 * t)),
    ),
    "entropic kl": (
        fx.EntropicSimplex(fx.KL(0.4, Q)),
        VECTOR,
        lambda w, t: (1 + 0.4 * t) * logsumexp((w + 0.4 * t * np.log(Q)) / (1 + 0.4 * t)),
    ),
}


@pytest.mark.parametrize("name", POTENTIALS)
def test_potential_is_the_closed_form_of_the_table(name):
    geometry, like, closed_form = POTENTIALS[name]
    rng = np.random.default_rng(0)
    with double():
        for tau in (0.0, 0.4, 3.0):
            omega = 2 * rng.normal(size=like.shape)
            potential = float(geometry.potential(fx.Dual(jnp.asarray(omega), jnp.asarray(tau))))
            assert potential == pytest.approx(float(closed_form(omega, tau)), rel=1e-10, abs=1e-12)


# --- sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("psi", "like", "at_zero", "diameter"),
    [
        (fx.Box(0.05), np.zeros(900), 0.05**2 * 900 / 2, 2 * 0.05 * 30),
        (fx.L2Ball(0.8), VECTOR, 0.8**2 / 2, 1.6),
        (fx.L1Ball(0.8), VECTOR, 0.8**2 / 2, 1.6),
        (fx.Simplex(3.0), VECTOR, 9 / 2 * (1 - 1 / 5), 3 * np.sqrt(2)),
        (fx.Spectral(fx.L1(0.1) + fx.Box(0.05)), np.zeros((600, 20)), 0.05**2 * 20 / 2, 0.1 * np.sqrt(20)),
        (fx.Spectral(fx.L2Ball(0.5)), MATRIX, 0.5**2 / 2, 1.0),
    ],
)
def test_euclidean_sizes_of_the_table(psi, like, at_zero, diameter):
    with double():
        geometry = fx.Euclidean(psi)
        assert float(geometry.B0(jnp.asarray(like))) == pytest.approx(at_zero, rel=1e-12)
        assert float(geometry.diameter(like)) == pytest.approx(diameter, rel=1e-12)


def test_entropic_size_is_the_log_of_the_smallest_probability():
    with double():
        omega = np.array([0.3, -2.0, 1.0])
        smallest = np.min(omega - logsumexp(omega))
        assert float(fx.EntropicSimplex().B0(omega)) == pytest.approx(-smallest, rel=1e-14)
        assert float(fx.EntropicSimplex().B0(np.zeros(7))) == pytest.approx(np.log(7), rel=1e-14)


@pytest.mark.parametrize("cap", [0.3, 1 / 3, 0.4, 0.5, 0.7, 1.0])
def test_diameters_of_capped_simplices_are_attained(cap):
    """The largest distance between two extreme points, found by trying all orders of the profile."""
    profile = np.clip(1 - cap * np.arange(4), 0, cap)
    extremes = [np.array(order) for order in set(itertools.permutations(profile.tolist()))]
    with double():
        euclidean = max(np.linalg.norm(u - v) for u in extremes for v in extremes)
        assert float(fx.CappedSimplex(cap).diameter(np.zeros(4))) == pytest.approx(euclidean, abs=1e-12)
        l1 = max(np.abs(u - v).sum() for u in extremes for v in extremes)
        entropic = fx.EntropicSimplex(fx.CappedSimplex(cap))
        assert float(entropic.diameter(np.zeros(4))) == pytest.approx(l1, abs=1e-12)


def test_euclidean_size_survives_float32():
    far = jnp.full(3, 1e6, jnp.float32)
    assert float(fx.Euclidean(fx.L2Ball(1.0)).B0(far)) == pytest.approx(2e6 * np.sqrt(3), rel=1e-2)


def test_a_product_takes_regularizers_and_other_products():
    product = fx.Product({"w": fx.L1(0.1), "b": fx.Zero()})
    assert isinstance(product.parts["w"], fx.Euclidean)
    assert fx.Product(fx.Saddle(product, fx.Box(1.0))).parts.x["b"].regularizer == fx.Zero()


def test_an_infeasible_start_costs_more_than_its_projection():
    """A dual start outside the domain keeps its distance: the printed bound's B does not cover it."""
    with double():
        geometry = fx.Euclidean(fx.Box(0.05))
        outside = jnp.full(10, 1.0)
        assert geometry.B0(outside) > 5 * geometry.B0(geometry.project(outside))


# --- entropic details ----------------------------------------------------------------------------------------------


def test_softmax_ignores_constants_and_survives_large_numbers():
    with double():
        geometry = fx.EntropicSimplex(fx.KL(0.4, Q))
        omega = jnp.asarray(C)
        one, shifted = (geometry.primal(fx.Dual(omega + shift, 2.0)) for shift in (0.0, 1e4))
        np.testing.assert_allclose(one, shifted, rtol=1e-11)
        for scale in (1e4, 1e30, -1e30):
            x = geometry.primal(fx.Dual(scale * omega, 2.0))
            assert jnp.all(jnp.isfinite(x))
            assert float(geometry.violation(x)) <= 1e-12


def test_a_vertex_and_zero_probabilities_have_finite_values():
    with double():
        geometry, vertex = fx.EntropicSimplex(fx.KL(0.4, Q)), np.eye(5)[0]
        assert np.isfinite(geometry.ell(vertex))
        assert np.isfinite(geometry.psi(vertex))
        np.testing.assert_allclose(geometry.project(vertex), vertex, atol=1e-300)
        assert float(geometry.divergence(Q, vertex)) == np.inf


def test_p_norm_without_entries():
    with double():
        assert np.array_equal(fx.PNorm(1.5).primal(fx.Dual(np.zeros(3), 0.0)), np.zeros(3))


# --- product -------------------------------------------------------------------------------------------------------


def test_product_is_the_sum_of_its_parts():
    geometry, like = GEOMETRIES["product"]
    rng = np.random.default_rng(1)
    with double():
        omega = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=np.shape(leaf))), like)
        z = geometry.primal(fx.Dual(omega, 0.5))
        parts, blocks = geometry.parts, (lambda point: (point.x["weights"], point.x["bias"], point.y))
        separate = [
            part.primal(fx.Dual(leaf, 0.5))
            for part, leaf in zip((parts.x["weights"], parts.x["bias"], parts.y), blocks(omega), strict=True)
        ]
        for one, other in zip(blocks(z), separate, strict=True):
            assert np.array_equal(one, other)
        assert float(geometry.norm(z)) == pytest.approx(
            np.sqrt(
                sum(
                    float(part.norm(leaf)) ** 2
                    for part, leaf in zip((parts.x["weights"], parts.x["bias"], parts.y), blocks(z), strict=True)
                )
            )
        )


def test_descend_moves_omega_and_its_weight_together():
    g = fx.Saddle(jnp.ones(2), jnp.full(3, 2.0))
    start = fx.Dual(tree.scale(0.0, g), jnp.asarray(0.0))
    moved = start.descend(0.25, g).descend(0.5, g)
    assert float(moved.tau) == 0.75
    assert np.array_equal(moved.omega.y, np.full(3, -1.5, np.float32))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: fx.EntropicSimplex(fx.Box(1.0)), "Box.*has no closed form with the entropic mirror map"),
        (lambda: fx.EntropicSimplex(fx.SquaredL2(1.0)), "no closed form with the entropic mirror map"),
        (lambda: fx.EntropicSimplex(fx.CappedSimplex(0.1)).primal(fx.Dual(np.zeros(5), 0.0)), "at least 1/5"),
        (
            lambda: fx.PNorm(1.5, fx.Box(1.0)),
            "no closed form with the p-norm mirror map; accepted: nothing, L1",
        ),
        (lambda: fx.PNorm(1.0), "1 < p <= 2, got 1.0"),
        (lambda: fx.PNorm(3), "1 < p <= 2, got 3.0"),
        (lambda: fx.Euclidean("l1"), "must be a regularizer"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(build, message):
    with pytest.raises((TypeError, ValueError), match=message) as refused:
        build()
    assert "\n" not in str(refused.value)

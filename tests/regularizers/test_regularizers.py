"""Laws of the regularizers over one list, and what the closed forms promise at ties, zeros and extreme scales."""

from pathlib import Path

import equinox as eqx
import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support import rows
from support.rows import GROUPS, REGULARIZERS, WITHOUT_CLOCK, C, Q, kinds_first

import fedualex as fx
from fedualex import regularizers
from fedualex.compiling import double
from fedualex.geometry import calls_lapack
from fedualex.regularizers.base import AbstractRegularizer
from fedualex.testing import Laws, check_extremes, regularizer_laws

NAMES = [
    *("Zero", "L1", "SquaredL2", "ElasticNet", "GroupL2", "NonNegative", "Box", "L2Ball", "L1Ball", "Simplex"),
    *("CappedSimplex", "Linear", "Entropy", "KL", "Spectral"),
]

# Ties with the thresholds and bounds of the list are as likely as generic values.
entries = st.one_of(
    # Slopes too small to be told from 0 would leave an infinite conjugate without a witness in float64.
    st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda v: v if abs(v) > 1e-6 else 0.0),
    st.sampled_from([0.0, 0.3, -0.3, 0.5, -0.5, 0.8, 1.0, -1.0, 0.4]),
)
weights = st.one_of(st.floats(0, 100, allow_subnormal=False), st.sampled_from([0.0, 1.0]))


@pytest.mark.sampled(23)
@pytest.mark.parametrize("name", kinds_first(REGULARIZERS))
def test_laws(name):
    psi, like = REGULARIZERS[name]
    check_extremes(psi, like)
    laws = Laws(psi, like, regularizer_laws)

    # Spectral rows are evaluated op by op, which takes longer.
    @settings(max_examples=8 if calls_lapack(psi) else 40, **WITHOUT_CLOCK)
    @given(hnp.arrays(float, like.shape, elements=entries), hnp.arrays(float, like.shape, elements=entries), weights)
    def check(omega, other, weight):
        laws.check(omega, other, weight)

    check()


def test_every_regularizer_is_in_the_list():
    def below(cls):
        return {cls}.union(*map(below, cls.__subclasses__()))

    ours = {cls for cls in below(AbstractRegularizer) if cls.__module__.startswith("fedualex.")}
    concrete = {cls for cls in ours if not cls.__name__.startswith("Abstract")}
    listed = set()
    for psi, _ in REGULARIZERS.values():
        nodes = jax.tree.leaves(
            psi, is_leaf=lambda node, psi=psi: isinstance(node, AbstractRegularizer) and node is not psi
        )
        listed |= {type(psi), *map(type, nodes)}
    assert concrete <= listed


def test_every_public_name_is_in_the_list():
    constructors = [
        name for name in regularizers.__all__ if not name.startswith(("Abstract", "In", "With")) and name[0].isupper()
    ]
    assert sorted(constructors) == sorted(NAMES)
    source = Path(rows.__file__).read_text()
    assert [name for name in NAMES if f"fx.{name}(" not in source] == []


# --- exactness at ties, zeros and scales ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thresholds_are_exact_at_ties(dtype):
    with double():
        lam = np.array(0.1, dtype)
        omega = np.array([0.1, -0.1, np.nextafter(dtype(0.1), dtype(1)), 0.0], dtype)
        x = fx.L1(lam).prox(omega, dtype(1))
        assert x.dtype == dtype
        assert list(np.asarray(x) == 0) == [True, True, False, True]
        tied = fx.GroupL2(5.0, [0, 0, 1]).prox(np.array([3.0, 4.0, 6.0], dtype), dtype(1))
        assert np.array_equal(tied, [0.0, 0.0, 1.0])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", REGULARIZERS)
def test_integers_behave_as_the_floats_they_stand_for(name):
    psi, like = REGULARIZERS[name]
    whole = np.arange(like.size).reshape(like.shape) - 1
    with double():
        for method in (psi.value, psi.conjugate, psi.subgradient, psi.violation, psi.farthest, psi.diameter):
            np.testing.assert_array_equal(method(whole), method(whole.astype(float)))
        np.testing.assert_array_equal(psi.prox(whole, 1), psi.prox(whole.astype(float), 1.0))


def test_each_coordinate_of_a_box_has_its_own_size():
    with double():
        box = fx.Box(lower=[0.0, 0.0], upper=[1e9, 1e-3])
        assert float(box.violation(np.array([0.0, 1.9e-3]))) > 0.5
        assert float(box.violation(np.array([1e9, 1e-3]))) == 0


def test_gradients_at_zero_are_finite():
    with double():
        for function in (
            fx.L2Ball(1.0).conjugate,
            lambda x: jnp.sum(fx.L2Ball(1.0).prox(x, 0.0)),
            fx.Box(1.0).conjugate,
        ):
            assert jnp.all(jnp.isfinite(jax.grad(function)(jnp.zeros(3))))


def test_strengths_may_be_vmapped():
    with double():
        omega = np.array([0.3, -2.0])
        both = jax.vmap(lambda lam: fx.L1(lam).prox(omega, 1.0))(jnp.asarray([0.1, 0.5]))
        np.testing.assert_allclose(both, [[0.2, -1.9], [0.0, -1.5]], atol=1e-15)


def test_soft_thresholds_compose():
    with double():
        omega = np.random.default_rng(0).normal(size=50)
        twice = fx.L1(1.0).prox(fx.L1(1.0).prox(omega, 0.25), 0.5)
        np.testing.assert_allclose(twice, fx.L1(1.0).prox(omega, 0.75), atol=1e-16)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("scale", [1e30, pytest.param(1e-30, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", REGULARIZERS)
def test_extreme_scales_in_float32(name, scale):
    psi, like = REGULARIZERS[name]
    omega = jnp.asarray(scale * np.random.default_rng(0).normal(size=like.shape), jnp.float32)
    x = psi.prox(omega, 1.0)
    assert x.dtype == jnp.float32
    assert jnp.all(jnp.isfinite(x))
    assert float(psi.violation(x)) < 1e-5


def test_radial_maps_keep_the_direction_of_huge_and_tiny_vectors():
    with double():
        direction = np.array([3.0, -4.0])
        np.testing.assert_allclose(fx.L2Ball(2.0).prox(1e200 * direction, 0.0), [1.2, -1.6], rtol=1e-15)
        np.testing.assert_allclose(fx.L2Ball(1e-250).prox(1e-200 * direction, 0.0), [6e-251, -8e-251], rtol=1e-14)


def test_a_large_spread_does_not_hide_the_middle_of_a_capped_simplex():
    with double():
        x = fx.CappedSimplex(0.3).prox(np.array([1e30, 1e30, 0.0, -1e30, 0.2]), 1.0)
        np.testing.assert_allclose(x, [0.3, 0.3, 0.1, 0.0, 0.3], atol=1e-15)


@pytest.mark.parametrize("name", [name for name, (psi, like) in REGULARIZERS.items() if psi.absolutely_symmetric])
def test_symmetric_rows_are_odd_and_permutable(name):
    psi, like = REGULARIZERS[name]
    with double():
        omega = np.random.default_rng(1).normal(size=like.shape)
        x = psi.prox(omega, 0.7)
        np.testing.assert_allclose(psi.prox(-omega, 0.7), -x, atol=1e-15)
        np.testing.assert_allclose(psi.prox(omega[::-1], 0.7), x[::-1], atol=1e-15)
        np.testing.assert_allclose(psi.conjugate(-omega), psi.conjugate(omega), rtol=1e-14)


# --- matrices ------------------------------------------------------------------------------------------------------

SPECTRAL = {name: row for name, row in REGULARIZERS.items() if isinstance(row[0], fx.Spectral)}


@pytest.mark.parametrize("name", SPECTRAL)
def test_spectral_maps_commute_with_rotations(name):
    psi, like = SPECTRAL[name]
    rng = np.random.default_rng(2)
    left, right = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in like.shape)
    with double():
        omega = rng.normal(size=like.shape)
        np.testing.assert_allclose(psi.prox(left @ omega @ right, 0.5), left @ psi.prox(omega, 0.5) @ right, atol=1e-14)


@pytest.mark.parametrize("tau", [1e-4, 1e-2, 0.3])
def test_gram_route_equals_svd_route(tau):
    rng = np.random.default_rng(3)
    U, V = np.linalg.qr(rng.normal(size=(60, 8)))[0], np.linalg.qr(rng.normal(size=(8, 8)))[0]
    sigma = np.array([1.0, 1.0, 0.5, tau, 1e-3, 1e-7, 0.0, 0.0])
    omega = (U * sigma) @ V
    psi = fx.L1(1.0) + fx.Box(0.7)
    with double():
        gram, svd = (fx.Spectral(psi, route).prox(omega, tau) for route in ("gram", "svd"))
        assert np.max(np.abs(gram - svd)) < 1e-10
        gram32 = fx.Spectral(psi).prox(jnp.asarray(omega, jnp.float32), jnp.float32(tau))
        assert gram32.dtype == jnp.float32
        assert np.max(np.abs(gram32 - svd)) < 2e-6


def test_repeated_and_zero_singular_values():
    psi = fx.Spectral(fx.L1(0.25) + fx.Box(0.5))
    with double():
        assert np.array_equal(psi.prox(np.zeros((4, 3)), 1.0), np.zeros((4, 3)))
        np.testing.assert_allclose(psi.prox(np.eye(4, 3), 2.0), 0.5 * np.eye(4, 3), atol=1e-15)
        np.testing.assert_allclose(psi.subgradient(np.diag([2.0, 0.0, 0.0])), np.diag([0.25, 0, 0]), atol=1e-15)


@pytest.mark.parametrize("name", SPECTRAL)
def test_gram_route_equals_svd_route_for_every_row(name):
    psi, like = SPECTRAL[name]
    with double():
        for seed in range(10):
            omega = 10.0 ** (seed % 3) * np.random.default_rng(seed).normal(size=like.shape)
            gram = fx.Spectral(psi.psi, "gram").prox(omega, 0.5)
            np.testing.assert_allclose(gram, psi.prox(omega, 0.5), atol=1e-11)


def test_without_float64_the_prox_avoids_the_gram_matrix():
    rng = np.random.default_rng(4)
    U, V = np.linalg.qr(rng.normal(size=(30, 6)))[0], np.linalg.qr(rng.normal(size=(6, 6)))[0]
    omega = (U * 10.0 ** np.arange(2.0, -4.0, -1)) @ V
    x = fx.Spectral(fx.L1(1.0)).prox(jnp.asarray(omega, jnp.float32), 1e-3)
    with double():
        exact = np.asarray(fx.Spectral(fx.L1(1.0), "svd").prox(omega, 1e-3))
    assert np.max(np.abs(np.asarray(x) - exact)) < 2e-5

    tall = omega.astype(np.float32)
    squares, V = np.linalg.eigh(tall.T @ tall)
    sigma = np.sqrt(np.maximum(squares, 0))
    naive = tall @ (V * (np.maximum(sigma - 1e-3, 0) / np.maximum(sigma, 1e-30))) @ V.T
    assert np.max(np.abs(naive - exact)) > 1e-4  # what the rule is there to avoid


# --- sums ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (fx.L1(0.1), fx.Box(0.05)),
        (fx.L1(0.1), fx.NonNegative()),
        (fx.L1(0.1), fx.L2Ball(1.0)),
        (fx.L1(0.1), fx.L1Ball(1.0)),
        (fx.L1(0.1), fx.Simplex()),
        (fx.GroupL2(0.1, GROUPS), fx.L2Ball(1.0)),
        (fx.ElasticNet(0.1, 0.2), fx.Box(0.05)),
        (fx.Linear(C), fx.CappedSimplex(0.4)),
        (fx.SquaredL2(0.3), fx.KL(0.1, Q)),
        (fx.L1(0.1), fx.L1(0.2)),
        (fx.L1(0.1), fx.Box(0.05) + fx.SquaredL2(0.2)),
        (fx.L1(0.1) + fx.Box(1.0), fx.Box(lower=0.0)),
        (fx.L1(0.1) + fx.L2Ball(1.0), fx.L1(0.2)),
        (fx.Zero(), fx.Box(0.05)),
    ],
)
def test_sums_commute(left, right):
    with double():
        omega = np.random.default_rng(5).normal(size=5)
        one, other = left + right, right + left
        assert repr(one) == repr(other)
        assert np.array_equal(one.prox(omega, 0.5), other.prox(omega, 0.5))
        x = one.prox(omega, 0.0)
        np.testing.assert_allclose(one.value(x), left.value(x) + right.value(x), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (fx.L2Ball(1.0), fx.Box(1.0)),
        (fx.GroupL2(0.1, GROUPS), fx.Box(1.0)),
        (fx.GroupL2(0.1, GROUPS), fx.L1(1.0)),
        (fx.Entropy(0.1), fx.Simplex()),
        (fx.Spectral(fx.L1(0.1)), fx.Box(1.0)),
        (fx.Spectral(fx.Box(1.0)), fx.Spectral(fx.L2Ball(1.0))),
        (fx.Simplex(), fx.L2Ball(1.0)),
    ],
)
def test_a_sum_without_closed_form_names_the_ones_that_have_one(left, right):
    with pytest.raises(TypeError, match=r"no closed form.*L1 \+ Box.*GroupL2 \+ L2Ball"):
        left + right


# --- construction --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: fx.L1(-0.1), "L1: lam must be a number >= 0, got -0.1"),
        (lambda: fx.L1(np.nan), "L1: lam must not contain nan"),
        (lambda: fx.L1(np.inf), "L1: lam must be finite: a number >= 0, got inf"),
        (lambda: fx.L1("a"), "L1: lam must be a number >= 0, got 'a'"),
        (lambda: fx.Linear([]), "Linear: c must not be empty"),
        (lambda: fx.GroupL2(1.0, [[0], [1, 2]]), "groups must be integer labels"),
        (lambda: fx.L1([0.1, 0.2]), r"L1: lam must be a number >= 0, got an array of shape \(2,\)"),
        (lambda: fx.SquaredL2(-1.0), "SquaredL2: lam"),
        (lambda: fx.ElasticNet(1.0, -1.0), "ElasticNet: lam2"),
        (lambda: fx.L2Ball(-1.0), "L2Ball: radius"),
        (lambda: fx.L1Ball(-1.0), "L1Ball: radius"),
        (lambda: fx.Simplex(-1.0), "Simplex: radius"),
        (lambda: fx.CappedSimplex(0.0), "CappedSimplex: cap must be a number > 0"),
        (lambda: fx.CappedSimplex(0.1).prox(np.zeros(5), 1.0), "cap must be at least 1/5 for 5 entries, got 0.1"),
        (lambda: fx.Box(-1.0), "Box: radius"),
        (lambda: fx.Box(), "either a radius or lower and upper"),
        (lambda: fx.Box(1.0, lower=0.0), "either a radius or lower and upper"),
        (lambda: fx.Box(lower=1.0, upper=0.0), "lower must be <= upper everywhere"),
        (lambda: fx.Box(lower=np.zeros(3), upper=np.ones(2)), r"lower has shape \(3,\) and upper \(2,\)"),
        (lambda: fx.GroupL2(0.1, [0, 2]), r"every label of 0..2"),
        (lambda: fx.GroupL2(0.1, [0.5, 1.0]), "groups must be integer labels"),
        (lambda: fx.GroupL2(0.1, [0, 1], weights=[1.0]), "weights must be 2 numbers >= 0"),
        (lambda: fx.GroupL2(0.1, [0, 1]).prox(np.zeros(3), 1.0), r"x has shape \(3,\), but groups has shape \(2,\)"),
        (lambda: fx.KL(0.1, [0.5, 0.0]), "q must be > 0"),
        (lambda: fx.Linear([1.0, np.inf]), "Linear: c must be finite"),
        (lambda: fx.Spectral(fx.Simplex()), "signs or the order of the singular values"),
        (lambda: fx.Spectral("L1"), "psi must be a regularizer"),
        (lambda: fx.Spectral(fx.L1(0.1), "fast"), "route must be one of 'gram', 'svd', got 'fast'"),
        (lambda: fx.Spectral(fx.L1(0.1)).prox(np.zeros(3), 1.0), r"needs a matrix, got an array of shape \(3,\)"),
        (lambda: fx.L1(0.1) + 3, "can only be added to a regularizer"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(build, message):
    with pytest.raises((TypeError, ValueError), match=message) as refused:
        build()
    assert "\n" not in str(refused.value)


def test_regularizers_are_immutable():
    with pytest.raises(AttributeError):
        fx.L1(0.1).lam = 0.2
    with pytest.raises(ValueError, match="read-only"):
        fx.L1(0.1).lam[()] = 0.2


def test_changing_a_strength_does_not_recompile():
    traces = []

    @eqx.filter_jit
    def prox(psi, omega):
        traces.append(psi)
        return psi.prox(omega, 1.0)

    for lam in (0.1, 0.2, 0.0):
        prox(fx.L1(lam) + fx.Box(0.5) + fx.SquaredL2(lam), jnp.ones(3))
    assert len(traces) == 1


def test_strengths_stay_exact_in_float64():
    with double():
        assert float(fx.Box(0.05).prox(np.array([1.0]), 0.0)[0]) == 0.05


@pytest.mark.parametrize("psi", [fx.CappedSimplex(0.2), fx.CappedSimplex(1 / 3), fx.Simplex(0.3)])
def test_at_the_only_point_of_a_set_nothing_is_far(psi):
    """A difference of squares that is 0 may be rounded below 0, whose root would be no number."""
    size = round(1 / float(psi.cap)) if isinstance(psi, fx.CappedSimplex) else 1
    with double():
        for start in np.random.default_rng(0).choice([0.0, 0.3], size=(50, size)):
            assert 0 <= float(psi.farthest(psi.project(jnp.asarray(start)))) <= 1e-7

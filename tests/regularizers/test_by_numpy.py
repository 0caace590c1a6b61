"""The formulas of regularizers and geometries computed by numpy, beside the same formulas computed by jax."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.rows import GEOMETRIES, REGULARIZERS, kinds_first

import fedualex as fx
from fedualex import tree
from fedualex.arrays import by_numpy
from fedualex.certificates.certificate import measure
from fedualex.compiling import double
from fedualex.geometry import Dual, Product
from fedualex.regularizers import AbstractPenalty

SCALES = 1e-3, 20.0


def points(like):
    """Points of several sizes, one with ties and zeros, and one inside of most domains."""
    rng = np.random.default_rng(0)
    made = [scale * rng.normal(size=np.shape(like)) for scale in SCALES]
    return [*made, np.resize([0.3, -0.3, 0.0, 0.5, 1.0], np.shape(like)), np.full(np.shape(like), 1 / np.size(like))]


def assert_alike(one, other, size=1.0):
    """Equal up to a few units in the last place of the numbers that were added up; with the same infinities."""
    ours, theirs = jax.tree.leaves(one), jax.tree.leaves(other)
    assert len(ours) == len(theirs)
    for own, reference in zip(ours, theirs, strict=True):
        assert isinstance(own, np.ndarray | np.generic | float)
        assert np.asarray(own).dtype == np.asarray(reference).dtype
        np.testing.assert_allclose(own, reference, rtol=1e-13, atol=1e-14 * size)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", kinds_first(REGULARIZERS))
def test_a_regularizer_computes_alike(name):
    psi, like = REGULARIZERS[name]
    for x in points(like):
        calls = dict.fromkeys(("value", "conjugate", "subgradient", "violation", "farthest", "diameter"), (x,))
        with double():
            for method, arguments in {**calls, "prox": (x, np.asarray(0.7))}.items():
                ours = by_numpy(lambda psi, *given, method=method: getattr(psi, method)(*given))(psi, *arguments)
                assert_alike(ours, getattr(psi, method)(*arguments), 1 + np.abs(x).max())


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", kinds_first(GEOMETRIES, REGULARIZERS.keys() - {"kl"}))
def test_a_geometry_computes_alike(name):
    geometry, like = GEOMETRIES[name]

    def everything(geometry, z, other):
        inside, u = geometry.project(z), geometry.project(other)
        dual = Dual(other, np.asarray(0.7))
        found = [inside, geometry.primal(dual), geometry.interior(inside), geometry.dual(inside).omega]
        found += [geometry.ell(inside), geometry.psi(inside), geometry.psi_conjugate(z), geometry.violation(z)]
        found += [
            geometry.divergence(inside, geometry.interior(u)),
            geometry.norm(z),
            geometry.dual_norm(z),
            geometry.potential(dual),
        ]
        return [*found, geometry.diameter(z), geometry.B0(z), geometry.radius(z)]

    def fenchel(geometry, z, other):
        return geometry.fenchel(geometry.project(z), z, other)

    trees = [jax.tree.map(lambda leaf, k=k: points(leaf)[k], like) for k in range(len(SCALES) + 2)]
    for z, other in itertools.pairwise(trees):
        with double():
            assert_alike(by_numpy(everything)(geometry, z, other), everything(geometry, z, other), 1e3)
            ours, theirs = (jax.tree.leaves(run(geometry, z, other)) for run in (by_numpy(fenchel), fenchel))
            assert_alike(ours[::2], theirs[::2], 1e3)
            # What rounding may cost is the root of a difference where a set has one point.
            np.testing.assert_allclose(ours[1::2], theirs[1::2], rtol=0.5, atol=1e-11)


def test_the_precision_stays():
    x = np.array([0.5, -0.2], np.float32)
    found = by_numpy(lambda psi: (psi.prox(x, np.float32(1)), psi.conjugate(x)))(fx.L1(0.1) + fx.Box(1.0))
    assert [part.dtype for part in found] == [np.float32, np.float32]


def test_nothing_is_compiled_and_nothing_warns(recwarn):
    huge = np.array([1e300, -1e300])
    seen = []

    def note(event, _, **about):
        seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        part = fx.Euclidean(fx.Entropy(0.1))
        found = by_numpy(lambda part: (part.psi_conjugate(huge), part.ell(huge)))(part)
    finally:
        jax.monitoring.unregister_event_duration_listener(note)  # others listen as well
    assert [*map(float, found)] == [np.inf, np.inf]
    assert not seen
    assert not recwarn.list


def test_a_regularizer_of_ones_own_is_asked_as_it_is():
    class Quartic(AbstractPenalty):
        def value(self, x):
            return jnp.sum(jnp.asarray(x) ** 4)

        prox = conjugate = subgradient = finite_conjugate = absolutely_symmetric = None

    with double():
        found = by_numpy(lambda geometry, z: geometry.psi(z) + geometry.ell(z))(
            fx.Euclidean(Quartic()), np.full(2, 2.0)
        )
    assert float(found) == 36.0


def test_a_certificate_of_numpy_bounds_the_gap_as_jaxs_does():
    geometry = Product(fx.Saddle(fx.Euclidean(fx.L1(0.3) + fx.Box(0.5)), fx.EntropicSimplex(fx.Entropy(0.4))))
    rng = np.random.default_rng(1)
    z, g = (fx.Saddle(rng.normal(size=7), rng.normal(size=4)) for _ in range(2))
    error = tree.scale(np.asarray(1e-12), fx.Saddle(np.ones(7), np.ones(4)))
    with double():
        z = geometry.project(z)
        ours, theirs = by_numpy(measure)(geometry, z, g, error), measure(geometry, z, g, error)
    for own, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-12)

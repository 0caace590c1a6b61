"""The prox in a metric of one number for each entry, where a regularizer has it as a formula."""

import numpy as np
import pytest
from support.rows import REGULARIZERS, kinds_first

import fedualex as fx
from fedualex.arrays import by_numpy
from fedualex.compiling import double

WEIGHTS = 0.0, 0.7
BALLS = {
    "l2 ball": fx.L2Ball(0.8),
    "l1 ball": fx.L1Ball(0.8),
    "l1 + l2 ball": fx.L1(0.3) + fx.L2Ball(0.8),
    "l1 + l1 ball": fx.L1(0.3) + fx.L1Ball(0.8),
    "elastic net + l1 ball": fx.L1Ball(0.8) + fx.ElasticNet(0.3, 0.7),
}


def squares_like(like, decades=2):
    return 10 ** np.random.default_rng(1).uniform(-decades, decades, size=np.shape(like))


@pytest.mark.parametrize("name", kinds_first(REGULARIZERS))
def test_the_prox_in_a_metric_is_the_argmin(name):
    psi, like = REGULARIZERS[name]
    metric, rng = psi.metric_near(squares_like(like)), np.random.default_rng(2)
    assert np.all(np.asarray(metric) > 0)

    def check(psi, weight):
        for scale in (0.1, 3.0, 100.0):
            omega = scale * rng.normal(size=np.shape(like))
            x = psi.prox_in(metric, omega, np.asarray(weight))
            assert psi.violation(x) <= 1e-12
            slope = omega - metric * x
            for step in (1.0, 1e-2, 1e-4):
                near = psi.prox(x + step * (slope + rng.normal(size=x.shape)), np.zeros(()))
                gain = weight * (psi.value(near) - psi.value(x)) - np.vdot(slope, near - x)
                assert gain >= -1e-10 * (1 + scale) * np.linalg.norm(near - x) * np.sqrt(np.max(metric))

    for weight in WEIGHTS:
        by_numpy(check)(psi, weight)


@pytest.mark.parametrize("name", kinds_first(REGULARIZERS))
def test_in_the_metric_1_it_is_the_prox(name):
    psi, like = REGULARIZERS[name]
    one = psi.metric_near(np.ones(np.shape(like)))
    np.testing.assert_array_equal(one, np.ones_like(one))
    omega = 3 * np.random.default_rng(0).normal(size=np.shape(like))

    def both(psi):
        return psi.prox_in(one, omega, np.asarray(0.7)), psi.prox(omega, np.asarray(0.7))

    np.testing.assert_allclose(*by_numpy(both)(psi), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", BALLS)
def test_a_ball_is_found_in_metrics_of_many_decades_and_by_both_libraries(name):
    psi, rng = BALLS[name], np.random.default_rng(0)
    metric = squares_like(np.zeros(40), 8)
    for scale in (1.0, 1e4):
        omega = scale * np.sqrt(metric) * rng.normal(size=40)

        def prox(psi, omega=omega):
            return psi.prox_in(metric, omega, np.asarray(0.7))

        ours = by_numpy(prox)(psi)
        assert float(np.sum(np.abs(ours)) if "l1 ball" in name else np.linalg.norm(ours)) == pytest.approx(
            0.8, rel=1e-13
        )
        # What is left of omega is that of one multiplier: all of the l1 ball, or in proportion to x.
        with double():
            np.testing.assert_allclose(ours, prox(psi), rtol=1e-9, atol=1e-15)
    if isinstance(psi, fx.L2Ball):
        multiplier = (omega - metric * ours) / ours
        np.testing.assert_allclose(multiplier, multiplier[0], rtol=1e-6)
    if isinstance(psi, fx.L1Ball):
        multiplier = np.abs(omega - metric * ours)[ours != 0]
        np.testing.assert_allclose(multiplier, multiplier[0], rtol=1e-9)


def test_groups_share_a_number():
    psi = fx.GroupL2(0.4, np.array([0, 1, 0, 1, 2]))
    np.testing.assert_array_equal(psi.metric_near(np.array([1.0, 2.0, 3.0, 4.0, 5.0])), [2.0, 3.0, 2.0, 3.0, 5.0])
    assert fx.Spectral(fx.L1(0.3)).metric_near(np.array([[1.0, 3.0]])) == 2.0

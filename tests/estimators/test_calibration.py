"""Thresholds with a bounded rate of errors: the binomial tail, the coverage it promises, and which rows are held out."""

import numpy as np
import pytest
from scipy.stats import norm

from fedualex.estimators import NeymanPearsonClassifier
from fedualex.estimators.classifiers import hold_out
from fedualex.inference.rates import a_share, order_statistic, threshold


@pytest.mark.parametrize(("rate", "confidence"), [(0.05, 0.95), (0.1, 0.9), (0.3, 0.99)])
def test_coverage_is_as_promised(rate, confidence):
    rng, n = np.random.default_rng(0), 100
    k, risk = order_statistic(n, rate, confidence)
    found = np.array([threshold(rng.normal(size=n), rate, confidence).score for _ in range(4000)])
    missed = np.mean(norm.sf(found) > rate)
    assert risk <= 1 - confidence
    assert missed == pytest.approx(risk, abs=3 * np.sqrt(risk / 4000))  # equality for a continuous distribution
    smaller = np.array([np.sort(rng.normal(size=n))[k - 2] for _ in range(4000)])
    assert np.mean(norm.sf(smaller) > rate) > (1 - confidence) - 3 * np.sqrt((1 - confidence) / 4000)  # k is the least


def test_coverage_with_ties():
    rng = np.random.default_rng(0)
    found = np.array([threshold(rng.integers(0, 4, 60), 0.3, 0.9).score for _ in range(1000)])
    assert np.mean(np.mean(np.arange(4) > found[:, None], axis=1) > 0.3) <= 0.1


def test_too_few_rows_are_refused():
    assert order_statistic(59, 0.05, 0.95)[0] == 59  # log .05 / log .95 = 58.4
    with pytest.raises(
        ValueError, match=r"rate=0.05 with confidence=0.95 must have 59 rows .*, got 58: give more rows"
    ):
        order_statistic(58, 0.05, 0.95)
    with pytest.raises(ValueError, match="must have 59 rows of the limited class for calibration, got 1"):
        NeymanPearsonClassifier(rate=0.05).fit(np.arange(8.0)[:, None], np.arange(8) % 2)
    for name, wrong in [("rate", 1.0), ("confidence", 0), ("calibration", "half")]:
        with pytest.raises(ValueError, match=rf"{name} must be a number > 0 and < 1, got"):
            a_share(name, wrong)


def test_a_share_of_each_client_is_held_out():
    rng = np.random.default_rng(0)
    limited, clients = rng.random(400) < 0.5, rng.integers(0, 5, 400)
    held = hold_out(limited, clients, 0.3)
    assert not np.any(held & ~limited)
    assert held.sum() == int(0.3 * limited.sum())
    for m in range(5):
        assert abs(np.sum(held & (clients == m)) - 0.3 * np.sum(limited & (clients == m))) <= 1
    np.testing.assert_array_equal(held, hold_out(limited, clients, 0.3))
    assert hold_out(np.ones(10, bool), None, 0.3).sum() == 3


@pytest.mark.slow
def test_a_calibrated_classifier_keeps_its_rate():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1200)
    X = rng.normal(size=(1200, 2)) + 1.5 * y[:, None]
    clients, names = rng.integers(0, 3, 1200), np.array(["off", "on"])[y]
    train = np.arange(1200) < 800
    for limited in ("off", "on"):
        model = NeymanPearsonClassifier(0.2, limited, rate=0.1).fit(X[train], names[train], clients=clients[train])
        assert f"P(more than 0.1 of class {limited} is on the wrong side) <= 0.0" in model.rate_bound_
        wrong = model.predict(X[~train]) != names[~train]
        assert wrong[names[~train] == limited].mean() <= 0.1
        assert wrong[names[~train] != limited].mean() < 0.4
        plain = NeymanPearsonClassifier(0.2, limited).fit(X[train], names[train], clients=clients[train])
        assert (plain.threshold_, plain.rate_bound_) == (0.0, "")
        assert model.threshold_ != 0

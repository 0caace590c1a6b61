"""Intervals of measures beside plain formulas, scikit-learn and statsmodels."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import norm
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score, roc_curve
from statsmodels.stats.proportion import proportion_confint

from fedualex.inference import measures
from fedualex.inference.sums import add_up
from fedualex.problems.families import Logistic

ROWS = 500


def risks(seed=0, rows=ROWS):
    rng = np.random.default_rng(seed)
    scores = np.round(1.5 * rng.normal(size=rows) - 0.5, 2)  # with ties
    risk = 1 / (1 + np.exp(-scores))
    return scores, risk, rng.random(rows) < 1 / (1 + np.exp(-0.8 * scores - 0.2)), rng.integers(0, 3, rows)


def slow_delong(scores, positive):
    above, below = scores[positive], scores[~positive]
    wins = (above[:, None] > below) + 0.5 * (above[:, None] == below)
    return wins.mean(), wins.mean(axis=1).var(ddof=1) / len(above) + wins.mean(axis=0).var(ddof=1) / len(below)


def test_the_auc_of_one_party_has_delongs_variance():
    scores, _, positive, _ = risks()
    sums = measures.summarize_ranks(scores, positive) | {"rows": np.asarray(ROWS)}
    auc = measures.measure(sums)["auc"]
    value, variance = slow_delong(scores, positive)
    np.testing.assert_allclose([auc.value, auc.error], [value, np.sqrt(variance)], rtol=1e-12)
    assert auc.value == pytest.approx(roc_auc_score(positive, scores))


def test_the_auc_of_several_parties_is_that_of_the_pairs_within_them():
    scores, _, positive, who = risks()
    parts = [slow_delong(scores[who == m], positive[who == m]) for m in range(3)]
    pairs = np.array([positive[who == m].sum() * (~positive[who == m]).sum() for m in range(3)])
    share = pairs / pairs.sum()
    sums = add_up([measures.summarize_ranks(scores[who == m], positive[who == m]) for m in range(3)])
    auc = measures.measure(sums | {"rows": np.asarray(ROWS)})["auc"]
    expected = share @ [own[0] for own in parts], np.sqrt(share**2 @ [own[1] for own in parts])
    np.testing.assert_allclose([auc.value, auc.error], expected, rtol=1e-12)


def test_rows_of_one_class_have_no_auc_and_single_rows_the_largest_variance():
    assert (
        measures.measure(measures.summarize_ranks(np.arange(3.0), np.ones(3, bool)) | {"rows": np.ones(())})["auc"]
        is None
    )
    one = measures.summarize_ranks(np.array([2.0, 1.0]), np.array([True, False])) | {"rows": np.ones(())}
    assert measures.measure(one)["auc"].error == pytest.approx(np.sqrt(0.5))


def auc_of(scores, positive, confidence=0.95):
    sums = measures.summarize_ranks(scores, positive) | {"rows": np.asarray(float(len(scores)))}
    return measures.measure(sums, confidence)["auc"]


def test_the_interval_of_an_auc_is_delongs_on_the_scale_of_log_odds():
    scores, _, positive, _ = risks()
    auc = auc_of(scores, positive)
    reach = 1.959964 * auc.error / (auc.value * (1 - auc.value))
    ends = 1 / (1 + np.exp(-(np.log(auc.value / (1 - auc.value)) + reach * np.array([-1, 1]))))
    np.testing.assert_allclose([auc.lower, auc.upper], ends, rtol=1e-6)


def test_an_auc_of_one_has_the_exact_interval_of_pairs_without_a_common_row():
    scores, positive = np.arange(30.0), np.arange(30) >= 22  # 8 pairs
    lower = proportion_confint(8, 8, 0.05, "beta")[0]
    assert auc_of(scores, positive)[2:] == pytest.approx((lower, 1.0))
    assert auc_of(-scores, positive) == pytest.approx((0.0, 0.0, 0.0, 1 - lower))
    parts = [measures.summarize_ranks(scores, positive), measures.summarize_ranks(scores[:24], positive[:24])]
    both = measures.measure(add_up(parts) | {"rows": np.asarray(54.0)})["auc"]
    assert both[2:] == pytest.approx((proportion_confint(10, 10, 0.05, "beta")[0], 1.0))


@pytest.mark.parametrize("shift", [1.0, 2.5, 4.0])
def test_intervals_of_an_auc_hold_the_truth(shift):
    """Normal scores; with the largest shift most tables of 40 rows are in perfect order. Wald's would hold it rarely."""
    rng, truth = np.random.default_rng(0), norm.cdf(shift / np.sqrt(2))
    positive, held = np.arange(40) < 15, 0
    for _ in range(1000):
        found = auc_of(rng.normal(size=40) + shift * positive, positive)
        held += found.lower <= truth <= found.upper
    assert held >= 930


def test_accuracy_and_loss():
    scores, risk, positive, who = risks()
    losses = np.logaddexp(0, np.where(positive, -scores, scores))
    right = (scores > 0) == positive
    sums = add_up([measures.summarize_answers(right[who == m], losses[who == m]) for m in range(3)])
    found = measures.measure(sums, confidence=0.9)
    assert found["accuracy"].value == accuracy_score(positive, scores > 0)
    assert found["accuracy"][2:] == pytest.approx(proportion_confint(right.sum(), ROWS, 0.1, "wilson"))
    assert found["loss"].value == pytest.approx(log_loss(positive, risk))
    assert found["loss"].error == pytest.approx(losses.std(ddof=1) / np.sqrt(ROWS))


def calibration_sums(scores, positive, beta, meat):
    return measures.summarize_calibration(Logistic(), scores, np.where(positive, 1.0, -1.0), beta, meat)


def test_calibration_is_the_regression_of_outcome_on_score():
    scores, _, positive, who = risks()

    def ask(beta, meat):
        return add_up([calibration_sums(scores[who == m], positive[who == m], beta, meat) for m in range(3)])

    found = measures.calibrate(ask)
    ours = sm.Logit(positive.astype(int), sm.add_constant(scores)).fit(disp=0, tol=1e-12)
    for j, own in enumerate((found.intercept, found.slope)):
        np.testing.assert_allclose([own.value, own.error], [ours.params[j], ours.bse[j]], rtol=1e-6)
        np.testing.assert_allclose(own[2:], ours.conf_int()[j], rtol=1e-5)


def test_calibration_of_few_rows_says_why_there_is_none():
    scores, _, positive, _ = risks(rows=20)
    found = measures.calibrate(lambda beta, meat: calibration_sums(scores, positive, beta, meat))
    assert found.slope is None
    assert "rarest class" in found.sentence


def test_curves():
    _, risk, positive, who = risks()
    sums = add_up([measures.summarize_risks(risk[who == m], positive[who == m]) for m in range(3)])
    curve = measures.calibration_curve(sums)
    assert sum(one.rows for one in curve) == ROWS
    within = (risk >= 0.3) & (risk < 0.4)
    assert curve[3].predicted == pytest.approx(risk[within].mean())
    assert curve[3].observed == pytest.approx(positive[within].mean())
    assert curve[3][3:] == pytest.approx(proportion_confint(positive[within].sum(), within.sum(), 0.05, "wilson"))
    points = measures.roc_points(sums)
    assert points[0] == (0.0, 1.0, 1.0)
    false, true, thresholds = roc_curve(positive, risk, drop_intermediate=False)
    for point in points[1:-1]:
        place = np.flatnonzero(thresholds >= point.threshold)[-1]
        assert (point.false_positive, point.true_positive) == pytest.approx((false[place], true[place]))


def test_numbers():
    """r2 beside its plain delta method, whose coverage is checked below."""
    rng = np.random.default_rng(1)
    truth = 50 + 10 * rng.normal(size=ROWS)
    answers = truth + 5 * rng.standard_t(6, size=ROWS)
    who = rng.integers(0, 3, ROWS)
    parts = [measures.summarize_numbers(truth[who == m], answers[who == m], 49.0, 9.0) for m in range(3)]
    found = measures.measure(add_up(parts), scale=9.0)
    apart = truth - answers
    assert found["mse"].value == pytest.approx(np.mean(apart**2))
    assert found["mse"].error == pytest.approx((apart**2).std(ddof=1) / np.sqrt(ROWS))
    assert found["mae"].value == pytest.approx(np.mean(np.abs(apart)))
    assert found["mae"].error == pytest.approx(np.abs(apart).std(ddof=1) / np.sqrt(ROWS))
    assert found["r2"].value == pytest.approx(r2_score(truth, answers))
    square, mse, variance = (truth - truth.mean()) ** 2, np.mean(apart**2), truth.var()
    influence = (mse / variance * (square - variance) - (apart**2 - mse)) / variance
    assert found["r2"].error == pytest.approx(np.sqrt(np.mean(influence**2) / ROWS))


def test_r2_intervals_hold_the_truth_about_as_often_as_they_say():
    rng, held = np.random.default_rng(2), 0
    for _ in range(1000):
        answers = rng.normal(size=300)
        truth = answers + rng.normal(size=300)
        own = measures.measure(measures.summarize_numbers(truth, answers))["r2"]
        held += own.lower <= 0.5 <= own.upper
    assert 920 <= held <= 980

"""Estimators of counts and of times: beside scikit-learn and statsmodels, and what they accept as a target."""

import numpy as np
import pytest
from sklearn.linear_model import PoissonRegressor
from sklearn.model_selection import cross_val_score
from statsmodels.duration.hazard_regression import PHReg

from fedualex.estimators import FederatedCoxRegression, FederatedPoissonRegression

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 4)) * [1, 2, 3, 4] + 5
CLIENTS = np.arange(240) % 3
COUNTS = RNG.poisson(np.exp(0.3 * X[:, 0] - 0.1 * X[:, 1]))
DIED, SEEN = RNG.exponential(np.exp(-0.5 * X[:, 0] + 0.1 * X[:, 2])), RNG.exponential(0.5, 240)
TIMES, EVENTS = np.minimum(DIED, SEEN), DIED <= SEEN


@pytest.mark.parametrize("intercept", [True, False])
def test_counts_are_those_of_scikit_learn(intercept):
    options = {"fit_intercept": intercept}
    model = FederatedPoissonRegression(l1=0, l2=0.01, tol=1e-10, **options).fit(X, COUNTS, clients=CLIENTS)
    known = PoissonRegressor(alpha=0.01, tol=1e-10, max_iter=1000, **options).fit(X, COUNTS)
    np.testing.assert_allclose(model.coef_, known.coef_, atol=1e-5)
    np.testing.assert_allclose(model.predict(X), known.predict(X), rtol=1e-4)
    assert model.score(X, COUNTS) == pytest.approx(known.score(X, COUNTS), abs=1e-6)
    assert model.gap_ <= 1e-10


def test_rates_weigh_what_they_are_over():
    over = RNG.uniform(0.5, 3, 240)
    model = FederatedPoissonRegression(0, 0.001, tol=1e-10).fit(X, COUNTS / over, CLIENTS, sample_weight=over)
    known = PoissonRegressor(alpha=0.001, tol=1e-10, max_iter=1000).fit(X, COUNTS / over, sample_weight=over)
    np.testing.assert_allclose(model.coef_, known.coef_, atol=1e-5)


def test_a_model_of_counts_has_effects_and_chooses_its_penalty():
    free = FederatedPoissonRegression(l1=0).fit(X, COUNTS, clients=CLIENTS)
    known = PoissonRegressor(alpha=0, tol=1e-12, max_iter=1000).fit(X, COUNTS)
    np.testing.assert_allclose(free.coef_, known.coef_, atol=1e-5)
    assert free.summary().effect == "rate ratio"
    assert np.all(free.conf_int()[:, 0] < free.coef_)
    chosen = FederatedPoissonRegression(l1="auto").fit(X, COUNTS, clients=CLIENTS)
    assert chosen.l1_ == pytest.approx(chosen.path_.value)
    with pytest.raises(ValueError, match="numbers from 0 to 1e8"):
        FederatedPoissonRegression().fit(X, COUNTS - 5)


def test_times_are_those_of_statsmodels():
    pairs = np.stack([TIMES, EVENTS], axis=1)
    model = FederatedCoxRegression(l1=0, l2=1e-9, tol=1e-10).fit(X, pairs, clients=CLIENTS)
    known = PHReg(TIMES, X, status=EVENTS, strata=CLIENTS, ties="breslow").fit(disp=0)
    np.testing.assert_allclose(model.coef_, known.params, atol=1e-4)
    assert model.predict(X) == pytest.approx((X - X.mean(axis=0)) @ model.coef_)
    named = np.array(list(zip(EVENTS, TIMES, strict=True)), dtype=[("event", bool), ("time", float)])
    again = FederatedCoxRegression(l1=0, l2=1e-9, tol=1e-10).fit(X, named, clients=CLIENTS)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.score(X, named) == model.score(X, pairs)
    earlier = (TIMES[:, None] < TIMES) & EVENTS[:, None]
    ordered = (model.predict(X)[:, None] > model.predict(X)) & earlier
    assert model.score(X, pairs) == pytest.approx(ordered.sum() / earlier.sum())


def test_times_alone_are_events_and_folds_of_scikit_learn_work():
    alone = FederatedCoxRegression(0.01).fit(X, TIMES)
    both = FederatedCoxRegression(0.01).fit(X, np.stack([TIMES, np.ones(240)], axis=1))
    np.testing.assert_array_equal(alone.coef_, both.coef_)
    assert np.all(cross_val_score(FederatedCoxRegression(0.01), X, np.stack([TIMES, EVENTS], axis=1), cv=3) > 0.5)
    chosen = FederatedCoxRegression("auto").fit(X, np.stack([TIMES, EVENTS], axis=1), clients=CLIENTS)
    assert chosen.path_.value == pytest.approx(chosen.l1_)


BAD = [
    (np.array([(1.0, 2.0)] * 240, dtype=[("a", float), ("b", float)]), "two fields, an event"),
    (-TIMES, "the time of every row must be a number >= 0"),
    (np.stack([TIMES, EVENTS * 2], axis=1), "the event of every row must be 0"),
]


@pytest.mark.parametrize(("y", "words"), BAD, ids=[case[1] for case in BAD])
def test_what_is_no_time_is_refused(y, words):
    with pytest.raises(ValueError, match=words):
        FederatedCoxRegression().fit(X, y)


@pytest.mark.parametrize("l1", [0, 0.01])
def test_hazards_without_penalty_and_their_errors_are_those_of_statsmodels(l1):
    pairs = np.stack([TIMES, EVENTS], axis=1)
    model = FederatedCoxRegression(l1).fit(X, pairs, clients=CLIENTS)
    known = PHReg(TIMES, X, status=EVENTS, strata=CLIENTS, ties="breslow").fit(disp=0)
    table = model.summary()
    np.testing.assert_allclose([row.estimate for row in table.rows], known.params, rtol=1e-7)
    np.testing.assert_allclose(model.coef_std_, known.bse, rtol=1e-6)
    np.testing.assert_allclose(model.conf_int(0.9), known.conf_int(0.1), rtol=1e-6)
    assert (table.effect, table.kind) == ("hazard ratio", "model-based")
    np.testing.assert_allclose([row.penalized for row in table.rows], model.coef_)
    assert model.summary(kind="sandwich").rows[0].error == pytest.approx(known.bse[0], rel=0.3)
    if l1 == 0:
        np.testing.assert_allclose(model.coef_, known.params, rtol=1e-7)
        assert (model.status_.name, model.run_) == ("OPTIMAL", None)
        assert model.gap_ <= 1e-12


def test_weights_of_times_count_as_repeated_rows_without_penalty():
    pairs, weight = np.stack([TIMES, EVENTS], axis=1), 1.0 + (np.arange(240) % 3 == 0)
    model = FederatedCoxRegression(0).fit(X, pairs, clients=CLIENTS, sample_weight=weight)
    again = np.repeat(np.arange(240), weight.astype(int))
    twice = FederatedCoxRegression(0).fit(X[again], pairs[again], clients=CLIENTS[again])
    np.testing.assert_allclose(model.coef_, twice.coef_, rtol=1e-9)
    assert model.summary().kind == "sandwich"


def test_a_likelihood_of_times_without_a_largest_value_is_refused_with_its_direction():
    with pytest.raises(ValueError, match=r"FederatedCoxRegression: there is no model: .* separable along x0 \(\+\)"):
        FederatedCoxRegression(0).fit(-TIMES[:, None], TIMES)

"""Errors, intervals and unpenalized fits of estimators are those of statsmodels and scikit-learn, and they say why not."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
import statsmodels.api as sm
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedualex as fx
from fedualex.estimators import (
    AgnosticClassifier,
    FederatedGroupLasso,
    FederatedLasso,
    FederatedLogisticRegression,
    NeymanPearsonClassifier,
)

RNG = np.random.default_rng(5)
N = 400
X = RNG.normal(size=(N, 3)) * [1.0, 50.0, 0.02] + [0.0, 300.0, -2.0]
SCORE = (X - [0.0, 300.0, -2.0]) @ [1.0, 0.02, -30.0]
LABEL = np.where(RNG.random(N) < 1 / (1 + np.exp(-SCORE)), "yes", "no")
THREE = np.array(["a", "b", "c"])[
    np.argmax(np.stack([0 * SCORE, SCORE, -0.5 * SCORE], 1) + RNG.gumbel(size=(N, 3)), axis=1)
]
TARGET = 1e3 * SCORE + 5e4 + 800 * RNG.normal(size=N)
CLIENTS = np.arange(N) % 4
WEIGHT = RNG.integers(1, 4, size=N).astype(float)
DESIGN = sm.add_constant(X)


# --- without penalty -------------------------------------------------------------------------------------------------


def test_logistic_regression_without_penalty_is_scikit_learns():
    model = FederatedLogisticRegression(l1=0, l2=0).fit(X, LABEL, clients=CLIENTS, sample_weight=WEIGHT)
    chain = make_pipeline(StandardScaler(), LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000))
    chain.fit(X, LABEL, logisticregression__sample_weight=WEIGHT)
    np.testing.assert_allclose(model.predict_proba(X), chain.predict_proba(X), atol=1e-6)
    assert model.status_ is fx.Status.OPTIMAL
    assert model.gap_ <= 1e-12
    assert model.run_ is None
    assert 2 <= model.n_exchanges_ <= 12


def test_three_classes_without_penalty_are_scikit_learns():
    model = FederatedLogisticRegression(l1=0).fit(X, THREE)
    chain = make_pipeline(StandardScaler(), LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000)).fit(X, THREE)
    np.testing.assert_allclose(model.predict_proba(X), chain.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-12)
    assert model.gap_ <= 1e-10


@pytest.mark.parametrize("intercept", [True, False])
def test_least_squares_is_scikit_learns(intercept):
    model = FederatedLasso(alpha=0, fit_intercept=intercept).fit(X, TARGET, clients=CLIENTS, sample_weight=WEIGHT)
    reference = LinearRegression(fit_intercept=intercept).fit(X, TARGET, sample_weight=WEIGHT)
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, reference.intercept_, rtol=1e-8)
    assert model.status_ is fx.Status.OPTIMAL


def test_separable_data_are_refused_with_the_direction():
    frame = pd.DataFrame({"age": X[:, 0], "dose": X[:, 1]})
    label = (frame["dose"] > 300).to_numpy()
    with pytest.raises(
        ValueError, match=r"FederatedLogisticRegression: there is no model: .* separable along dose \(\+\)"
    ):
        FederatedLogisticRegression(l1=0, max_rounds=100).fit(frame, label)


def test_collinear_columns_are_refused_by_name():
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "both": X[:, 0] + X[:, 1]})
    with pytest.raises(ValueError, match="both is a combination of a, b; leave such columns out"):
        FederatedLasso(alpha=0).fit(frame, TARGET)


def test_what_has_no_unpenalized_fit_says_so():
    with pytest.raises(ValueError, match="l1 or l2 must be > 0, or radius given"):
        AgnosticClassifier(l1=0).fit(X, LABEL)


# --- errors and intervals --------------------------------------------------------------------------------------------


def test_intervals_of_logistic_regression_are_those_of_statsmodels():
    model = FederatedLogisticRegression(l1=0.01).fit(X, LABEL, clients=CLIENTS)
    reference = sm.Logit(LABEL == "yes", DESIGN).fit(disp=0, tol=1e-12)
    np.testing.assert_allclose(model.coef_std_, reference.bse[1:], rtol=1e-5)
    np.testing.assert_allclose(model.conf_int(0.9), reference.conf_int(0.1)[1:], rtol=1e-4, atol=1e-5)
    table = model.summary()
    assert [row.name for row in table.rows] == ["(intercept)", "x0", "x1", "x2"]
    np.testing.assert_allclose([row.estimate for row in table.rows], reference.params, rtol=1e-4)
    np.testing.assert_allclose([row.penalized for row in table.rows][1:], model.coef_[0])
    np.testing.assert_allclose(table.rows[0].penalized, model.intercept_[0])
    assert table.effect == "odds ratio"
    assert repr(table) == table.as_text()
    assert table.plain()["rows"][1]["name"] == "x0"
    robust = sm.Logit(LABEL == "yes", DESIGN).fit(disp=0, tol=1e-12, cov_type="HC0")
    np.testing.assert_allclose([row.error for row in model.summary(kind="sandwich").rows], robust.bse, rtol=1e-5)


@pytest.mark.parametrize("kind", [FederatedLasso, FederatedGroupLasso])
def test_intervals_of_least_squares_are_those_of_statsmodels(kind):
    model = kind(alpha=10.0, tol=1.0).fit(X, TARGET, clients=CLIENTS)
    reference = sm.OLS(TARGET, DESIGN).fit()
    np.testing.assert_allclose(model.coef_std_, reference.bse[1:], rtol=1e-7)
    np.testing.assert_allclose(model.conf_int(), reference.conf_int()[1:], rtol=1e-6)
    np.testing.assert_allclose([row.estimate for row in model.summary().rows], reference.params, rtol=1e-7)


def test_an_unpenalized_fit_without_intercept_has_its_intervals():
    model = FederatedLasso(alpha=0, fit_intercept=False).fit(X, TARGET)
    reference = sm.OLS(TARGET, X).fit()
    np.testing.assert_allclose(model.conf_int(), reference.conf_int(), rtol=1e-7)
    np.testing.assert_allclose([row.penalized for row in model.summary().rows], reference.params, rtol=1e-7)


def test_three_classes_have_intervals_against_the_first():
    model = FederatedLogisticRegression(l1=0).fit(X, THREE)
    reference = sm.MNLogit(np.searchsorted(["a", "b", "c"], THREE), DESIGN).fit(disp=0, tol=1e-12, method="newton")
    assert model.conf_int().shape == (3, 2, 2)
    np.testing.assert_allclose(model.coef_std_, reference.bse[1:], rtol=1e-5)
    np.testing.assert_allclose(
        model.conf_int(), np.moveaxis(reference.conf_int().reshape(2, 4, 2), 0, 1)[1:], rtol=1e-4
    )
    assert [row.name for row in model.summary().rows][:3] == ["(intercept), b", "(intercept), c", "x0, b"]


def test_weighted_rows_have_the_errors_of_the_sandwich_whatever_the_scale_of_weights():
    one, ten = (FederatedLogisticRegression(l1=0).fit(X, LABEL, sample_weight=k * WEIGHT) for k in (1, 10))
    np.testing.assert_allclose(one.coef_std_, ten.coef_std_, rtol=1e-6)
    table = one.summary()
    assert (table.kind, table.conditional) == ("sandwich", True)
    glm = sm.GLM(LABEL == "yes", DESIGN, family=sm.families.Binomial(), var_weights=WEIGHT)
    reference = glm.fit(cov_type="HC0", tol=1e-12)
    np.testing.assert_allclose(one.coef_std_, reference.bse[1:], rtol=1e-4)


def test_names_are_those_of_the_data_frame():
    frame = pd.DataFrame(X, columns=["age", "dose", "ratio"])
    model = FederatedLogisticRegression(l1=0.05).fit(frame, LABEL)
    assert "dose" in repr(model.summary())


def test_a_model_is_pickled_without_its_rows_and_with_what_was_found():
    model = FederatedLogisticRegression(l1=0).fit(X, LABEL)
    bare = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(bare.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="rows are not kept with a pickled FederatedLogisticRegression"):
        bare.summary()
    errors = model.coef_std_
    assert len(pickle.dumps(model)) < 2e4
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).coef_std_, errors)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        sklearn.clone(model).summary()


def test_too_few_rows_are_refused_in_a_sentence():
    model = FederatedLogisticRegression(l1=0.1).fit(X[:30], LABEL[:30])
    with pytest.raises(ValueError, match=r"has no intervals: there are .* rows of the rarest class for 4 parameters"):
        model.conf_int()


def test_what_was_found_is_forgotten_by_the_next_fit():
    model = FederatedLasso(alpha=0).fit(X, TARGET)
    before = model.coef_std_
    np.testing.assert_allclose(model.fit(X, 2 * TARGET).coef_std_, 2 * before, rtol=1e-7)


@pytest.mark.slow
def test_models_of_weighed_clients_and_of_limits_have_conditional_errors():
    for model in (AgnosticClassifier(l1=0.01), NeymanPearsonClassifier(limit=0.3)):
        table = model.fit(X, LABEL, clients=(SCORE > 0).astype(int)).summary()
        assert (table.kind, table.conditional) == ("sandwich", True)
        assert all(row.error > 0 for row in table.rows)

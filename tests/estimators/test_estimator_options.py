"""What fits can be asked for: groups, probabilities, options of the run, and metadata that scikit-learn routes."""

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedualex as fx
from fedualex import estimators

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
LABEL = (X[:, 0] + 0.5 * RNG.normal(size=40) > 0).astype(int)
TARGET = X @ [1.0, 2.0, 0.0] + 0.1 * RNG.normal(size=40)
CLIENTS = np.arange(40) % 3

ABSTRACT = {"AbstractFederated", "FederatedClassifier", "FederatedRegressor"}
CONCRETE = [getattr(estimators, name) for name in estimators.__all__ if name not in ABSTRACT]
LIMITED = (estimators.LimitedClassifier, estimators.LimitedRegressor)
GROUPED = (estimators.AgnosticClassifier, estimators.AgnosticRegressor, *LIMITED)


# --- metadata --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.__name__)
def test_what_is_known_of_rows_is_metadata_of_fit(kind):
    names = {"clients", "sample_weight", *(["groups"] if kind in GROUPED else [])}
    model = kind(limits=1.0) if kind in LIMITED else kind()
    assert set(model.get_metadata_routing().fit.requests) == names
    with sklearn.config_context(enable_metadata_routing=True):
        asked = model.set_fit_request(**dict.fromkeys(names, True))
    assert asked.get_metadata_routing().fit.requests == dict.fromkeys(names, True)


class Recorder(estimators.AgnosticClassifier):
    """Remembers what it was given for each row, and solves nothing."""

    def _fit(self, X, y, sample_weight, **columns):
        self.seen_ = {"sample_weight": sample_weight, **columns}
        self.classes_, self.coef_, self.intercept_ = np.unique(y), np.ones((1, X.shape[1])), np.zeros(1)
        self.n_features_in_ = X.shape[1]


def test_scikit_learns_tools_route_it():
    rows = {"clients": CLIENTS, "sample_weight": np.arange(40.0), "groups": np.arange(40) % 2}
    with sklearn.config_context(enable_metadata_routing=True):
        asked = Recorder().set_fit_request(clients=True, sample_weight=True, groups=True)
        asked = asked.set_score_request(sample_weight=True)
        chain = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), asked)
        found = cross_validate(chain, X, LABEL, params=rows, cv=2, return_estimator=True, return_indices=True)
        search = GridSearchCV(chain, {"recorder__l1": [0.1, 0.2]}, cv=2).fit(X, LABEL, **rows)
    for fitted, train in zip(found["estimator"], found["indices"]["train"], strict=True):
        for name, column in rows.items():
            np.testing.assert_array_equal(fitted[-1].seen_[name], column[train])
    for name, column in rows.items():
        np.testing.assert_array_equal(search.best_estimator_[-1].seen_[name], column)


# --- groups and probabilities ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_groups_are_served_whoever_holds_them():
    """With the groups as clients it is the same objective: rows of a group weigh alike in both."""
    by_group = estimators.AgnosticClassifier(tol=1e-3).fit(X, LABEL, clients=np.zeros(40), groups=CLIENTS)
    as_clients = estimators.AgnosticClassifier(tol=1e-3).fit(X, LABEL, clients=CLIENTS)
    np.testing.assert_allclose(by_group.coef_, as_clients.coef_, atol=0.05)

    def worst(model):
        losses = np.logaddexp(0, -np.where(LABEL == 1, 1, -1) * model.decision_function(X))
        return max(losses[g == CLIENTS].mean() for g in range(3)) + 0.01 * np.abs(model.coef_).sum()

    assert abs(worst(by_group) - worst(as_clients)) <= 1e-3
    chance = by_group.predict_proba(X)
    np.testing.assert_allclose(chance[:, 1], 1 / (1 + np.exp(-by_group.decision_function(X))))
    np.testing.assert_array_equal(chance.argmax(axis=1), by_group.predict(X))


# --- options of the run ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_callback_ends_the_run_and_verbose_prints_records(capsys):
    seen = []
    model = estimators.FederatedLasso(0.1, tol=1e-9, verbose=True, callback=lambda record: seen.append(record) or True)
    with pytest.warns(ConvergenceWarning, match=r"FederatedLasso ended as CERTIFIED \(INTERRUPTED\)"):
        model.fit(X, TARGET, clients=CLIENTS)
    assert len(seen) == 1
    assert f"FederatedLasso: round {seen[0]['round']}, gap <= " in capsys.readouterr().out


def test_a_warm_start_takes_up_where_the_last_fit_ended():
    cold = estimators.FederatedLasso(0.1, tol=1e-5)
    warm = sklearn.clone(cold).set_params(warm_start=True).fit(X, TARGET, clients=CLIENTS)
    first = warm.n_exchanges_
    np.testing.assert_array_equal(warm.coef_, cold.fit(X, TARGET, clients=CLIENTS).coef_)
    assert warm.fit(X, TARGET, clients=CLIENTS).n_exchanges_ < first
    assert cold.fit(X, TARGET, clients=CLIENTS).n_exchanges_ == first
    assert warm._start(fx.problems.sparse_glm("squared", X[:, :2], TARGET, l1=0.1)) is None  # other shapes


@pytest.mark.slow
def test_minibatches_have_the_method_that_fits_them():
    model = estimators.FederatedLogisticRegression(0.05, minibatch=8, local_steps=4, max_rounds=200, tol=0.05)
    model.fit(X, LABEL, clients=CLIENTS)
    assert model.run_.chosen.startswith("FeDualExCorrected: clients differ, and operators are noisy")
    exact = estimators.FederatedLogisticRegression(0.05).fit(X, LABEL, clients=CLIENTS)
    assert np.mean(model.predict(X) == exact.predict(X)) > 0.9


@pytest.mark.slow
def test_precision_of_local_steps():
    fits = [
        estimators.FederatedLogisticRegression(0.05, dtype=dtype, local_steps=4, method=fx.FeDualSlide()).fit(
            X, LABEL, clients=CLIENTS
        )
        for dtype in ("float64", "float32")
    ]
    assert not np.array_equal(fits[0].coef_, fits[1].coef_)
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, atol=0.05)


@pytest.mark.slow
def test_a_radius_bounds_the_weights_of_rows_as_given():
    for model, y in [
        (estimators.FederatedLogisticRegression(l1=0, radius=0.1), LABEL),
        (estimators.AgnosticClassifier(radius=0.1), LABEL),
        (estimators.FederatedLasso(0.1, radius=0.1), TARGET),
    ]:
        with pytest.warns(UserWarning, match="active"):
            model.fit(7 + 20 * X, y, clients=CLIENTS)
        assert np.linalg.norm(model.coef_) == pytest.approx(0.1, rel=0.05)


@pytest.mark.slow
def test_without_an_intercept():
    model = estimators.FederatedLogisticRegression(fit_intercept=False).fit(X, LABEL, clients=CLIENTS)
    assert model.intercept_.tolist() == [0.0]
    np.testing.assert_array_equal(model.predict(X), (X @ model.coef_[0] > 0).astype(int))

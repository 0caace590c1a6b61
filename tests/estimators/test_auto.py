"""A penalty of "auto": chosen by held-out rows, in units of the rows as given, and then a fit like any other."""

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import fedualex as fx
from fedualex.estimators import (
    AgnosticClassifier,
    AgnosticRegressor,
    FederatedAUCClassifier,
    FederatedCoxRegression,
    FederatedGroupLasso,
    FederatedLasso,
    FederatedLogisticRegression,
    FederatedMultiTask,
    FederatedPoissonRegression,
    FederatedRobustRegression,
    NeymanPearsonClassifier,
)

RNG = np.random.default_rng(3)
N = 150
X = RNG.normal(size=(N, 6))
SCORE = X @ [2.0, -1.0, 0.5, 0.0, 0.0, 0.0]
LABEL = np.where(SCORE + RNG.logistic(size=N) > 0, "yes", "no")
TARGET = 40.0 * SCORE + 30 * RNG.normal(size=N)
CLIENTS = np.array(["north", "south", "west"])[np.arange(N) % 3]
AUTO = [
    FederatedLogisticRegression(l1="auto"),
    FederatedAUCClassifier(l1="auto"),
    AgnosticClassifier(l1="auto"),
    NeymanPearsonClassifier(l1="auto", limit=0.5),
    FederatedLasso(alpha="auto"),
    FederatedGroupLasso(alpha="auto"),
    FederatedMultiTask(nuclear="auto"),
    AgnosticRegressor(l1="auto"),
]


COUNTS_AND_TIMES = [FederatedPoissonRegression(l1="auto"), FederatedCoxRegression(l1="auto")]


def target_of(model):
    return TARGET if sklearn.base.is_regressor(model) else LABEL


@pytest.mark.slow
@pytest.mark.parametrize("model", AUTO, ids=lambda model: type(model).__name__)
def test_the_fit_is_the_one_at_the_chosen_value(model):
    name, y = model.penalized, target_of(model)
    model = sklearn.clone(model).set_params(tol=1e-3 * np.var(y) if y is TARGET else 1e-4).fit(X, y, clients=CLIENTS)
    chosen = getattr(model, f"{name}_")
    assert chosen == model.path_.value
    assert (model.path_.name, model.path_.folds, len(model.path_.values)) == (name, 5, 30)
    assert model.status_ is fx.Status.OPTIMAL
    given = sklearn.clone(model).set_params(**{name: chosen}).fit(X, y, clients=CLIENTS)
    np.testing.assert_array_equal(given.coef_, model.coef_)
    assert getattr(given, f"{name}_") == chosen
    assert given.path_ is None


@pytest.mark.slow
def test_the_penalty_is_in_units_of_rows_and_targets_as_given():
    small = FederatedLasso("auto", tol=1.0).fit(X, TARGET, clients=CLIENTS)
    large = FederatedLasso("auto", tol=1e12).fit(100 * X, 1e6 * TARGET, clients=CLIENTS)
    assert large.alpha_ == pytest.approx(1e8 * small.alpha_, rel=1e-6)
    np.testing.assert_allclose(large.path_.measure, 1e12 * np.array(small.path_.measure), rtol=1e-6)
    huber = AgnosticRegressor("auto", loss="huber", delta=20.0, tol=1.0).fit(X, TARGET)
    larger = AgnosticRegressor("auto", loss="huber", delta=20.0e6, tol=1e12).fit(X, 1e6 * TARGET)
    assert larger.l1_ == pytest.approx(1e6 * huber.l1_, rel=1e-6)


def test_the_least_held_out_loss_is_that_of_a_sparse_model():
    model = FederatedLogisticRegression("auto", folds=4).fit(X, LABEL, clients=CLIENTS)
    path = model.path_
    assert path.folds == 4
    assert path.measure[path.chosen] <= path.measure[path.best] + path.error[path.best]
    assert path.measure[path.best] < path.measure[0]
    assert np.all(model.coef_[0, :2] != 0)
    sites = FederatedLogisticRegression("auto", folds="sites").fit(X, LABEL, clients=CLIENTS)
    assert sites.path_.folds == 3


@pytest.mark.slow
def test_grid_search_and_pipelines_still_work():
    chain = make_pipeline(StandardScaler(), FederatedLogisticRegression("auto"))
    search = GridSearchCV(chain, {"federatedlogisticregression__l1": ["auto", 0.01]}, cv=2).fit(X, LABEL)
    assert search.best_score_ > 0.7
    assert search.best_estimator_[-1].coef_std_.shape == (6,)


def test_refusals():
    with pytest.raises(TypeError, match="l1 must be a number >= 0, got 'auto'"):
        FederatedRobustRegression("auto").fit(X, TARGET)
    with pytest.raises(ValueError, match="folds must be a whole number >= 2, or 'sites', got 1"):
        FederatedLogisticRegression("auto", folds=1).fit(X, LABEL)
    with pytest.raises(ValueError, match="north must have at least 5 rows, one for each fold, got 4"):
        FederatedLogisticRegression("auto").fit(X[:12], LABEL[:12], clients=CLIENTS[:12])


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [*AUTO, *COUNTS_AND_TIMES], ids=lambda model: type(model).__name__)
def test_scikit_learns_checks(model):
    reason = "rows of weight 2 are in one fold, and rows that are there twice in two"
    apart = {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}
    if isinstance(model, FederatedAUCClassifier | NeymanPearsonClassifier):  # whose measures take rows of both classes
        apart["check_fit2d_1feature"] = "of its ten rows no two folds hold out both classes, which is refused"
    checks = check_estimator(model, on_fail=None, expected_failed_checks=apart)
    assert [(check["check_name"], str(check["exception"])) for check in checks if check["status"] == "failed"] == []

"""Estimators: scikit-learn's own checks, its own coefficients, and what a fit reports."""

import dataclasses

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
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
    LimitedClassifier,
    LimitedRegressor,
    NeymanPearsonClassifier,
)

ALL = [
    FederatedLasso(),
    FederatedGroupLasso(),
    FederatedRobustRegression(),
    FederatedMultiTask(),
    FederatedPoissonRegression(),
    FederatedCoxRegression(),
    AgnosticRegressor(),
    FederatedLogisticRegression(),
    AgnosticClassifier(),
    FederatedAUCClassifier(),
    NeymanPearsonClassifier(),
    LimitedClassifier(),
    LimitedRegressor(1e9),
]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", ALL, ids=lambda e: type(e).__name__)
def test_scikit_learns_checks(estimator):
    # Both fits end within tol, and rounding decides where; test_weights.py compares them.
    reason = "equal to 1e-7, where fits agree within their tol"
    apart = {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}
    checks = check_estimator(estimator, on_fail=None, expected_failed_checks=apart)
    assert not [check for check in checks if check["status"] == "failed"]


def diabetes():
    """Features on their raw scale, whose norms are 1; five clients with different targets."""
    X, y = fx.data.bundled("diabetes")
    return X, y, fx.data.dirichlet(y > 150, 5, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("federated", [False, True], ids=["one", "five"])
def test_lasso_is_scikit_learns_on_raw_features(federated):
    X, y, clients = diabetes()
    reference = Lasso(alpha=0.1, tol=1e-10).fit(X, y)
    model = FederatedLasso(alpha=0.1).fit(X, y, clients=clients if federated else None)
    assert model.status_ is fx.Status.OPTIMAL
    assert model.gap_ <= 1e-4
    # The gap bounds scores; coefficients only through X's smallest singular value, so they are compared at a smaller one.
    closer = FederatedLasso(alpha=0.1, tol=1e-6).fit(X, y, clients=clients if federated else None)
    np.testing.assert_allclose(closer.coef_, reference.coef_, atol=2e-2)
    assert np.mean((model.predict(X) - reference.predict(X)) ** 2) <= 2e-4  # strong convexity in the scores: 2 gap
    np.testing.assert_array_equal(model.coef_ == 0, reference.coef_ == 0)


@pytest.mark.slow
def test_lasso_without_intercept():
    X, y, clients = diabetes()
    reference = Lasso(alpha=0.1, tol=1e-10, fit_intercept=False).fit(X, y)
    model = FederatedLasso(alpha=0.1, fit_intercept=False, tol=1e-4).fit(X, y, clients=clients)
    assert model.intercept_ == 0
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["breast_cancer", "wine"])
def test_logistic_is_scikit_learns(name):
    X, y = fx.data.bundled(name)
    centered = 3 * fx.data.Standardizer.fit(X).transform(X)
    X = centered + 7
    clients = fx.data.iid(len(y), 3)
    reference = LogisticRegression(l1_ratio=1.0, C=1 / (0.03 * len(y)), solver="saga", tol=1e-6, max_iter=100_000)
    reference.fit(centered, y)  # its solver does not converge on the others
    model = FederatedLogisticRegression(l1=0.03, tol=1e-3).fit(X, y, clients=clients)
    assert model.status_ is fx.Status.OPTIMAL
    assert model.n_rounds_ == model.run_.rounds
    assert np.mean(np.abs(model.predict_proba(X) - reference.predict_proba(centered))) < 0.01
    assert np.mean(model.predict(X) == reference.predict(centered)) > 0.99


@pytest.mark.slow
def test_agnostic_is_fairer_than_the_mean():
    X, y = fx.data.bundled("breast_cancer")
    X = fx.data.Standardizer.fit(X).transform(X)
    clients = fx.data.dirichlet(y, 5, 0.5)
    mean = FederatedLogisticRegression(l1=0.01, tol=1e-2).fit(X, y, clients=clients)
    fair = AgnosticClassifier(l1=0.01, kl=0.05, tol=5e-2).fit(X, y, clients=clients)
    assert fair.gap_ <= 5e-2

    def worst(model):
        losses = np.logaddexp(0, -np.where(y == 1, 1, -1) * model.decision_function(X))
        return max(losses[clients == m].mean() for m in range(5))

    assert worst(fair) < worst(mean)


@pytest.mark.slow
def test_auc_ranks_as_its_problem_and_cuts_between_the_classes():
    X, y = fx.data.bundled("breast_cancer")
    standard = fx.data.Standardizer.fit(X).transform(X)
    X = 3 * standard + 7  # neither scale nor place of the rows matters: 3 w for rows thrice as large
    clients = fx.data.dirichlet(y, 5, 0.5)
    model = FederatedAUCClassifier(l1=0.03, l2=0.09).fit(X, y, clients=clients)
    assert model.status_ is fx.Status.OPTIMAL
    assert model.gap_ <= 1e-2
    scores = model.decision_function(X)
    means = scores[y == 1].mean(), scores[y == 0].mean()
    assert means[0] == pytest.approx(-means[1])
    assert means[0] > 0

    def objective(w):
        s = standard @ w
        return np.mean((1 - s[y == 1][:, None] + s[y == 0]) ** 2) + 0.01 * np.abs(w).sum() + 0.005 * w @ w

    problem = fx.problems.auc(standard, y, np.zeros(len(y)), l1=0.01, l2=0.01)
    run = fx.solve(problem, fx.BacktrackingCoMP(growth=1.05), steps=3000, tol=1e-3)
    assert run.status is fx.Status.OPTIMAL
    assert objective(3 * model.coef_[0]) - objective(run.z.x["weights"]) <= model.gap_
    assert fx.problems.roc_auc(scores, y) > 0.99


@pytest.mark.slow
def test_neyman_pearson_keeps_its_limit():
    X, y = fx.data.bundled("breast_cancer")
    X = fx.data.Standardizer.fit(X).transform(X)
    label = np.where(y == 1, "benign", "malignant")
    clients = fx.data.iid(len(y), 4)
    models, losses = {}, {}
    for limited in ("benign", "malignant"):
        model = models[limited] = NeymanPearsonClassifier(0.05, limited, l1=0.005, l2=0.02).fit(
            X, label, clients=clients
        )
        assert model.status_ is fx.Status.OPTIMAL
        loss = np.logaddexp(0, -np.where(label == "malignant", 1, -1) * model.decision_function(X))
        losses[limited] = {name: loss[label == name].mean() for name in ("benign", "malignant")}
        # A bound, and exact where the answer was surveyed itself; as a mean of surveys it may be better than what they say.
        assert losses[limited][limited] - 0.05 <= model.violation_ + 1e-9 < 0.01
        assert np.mean(model.predict(X[label == limited]) != limited) <= losses[limited][limited] / np.log(2)
    # What is limited is paid for by the other class.
    assert losses["benign"]["malignant"] > 0.06 < losses["malignant"]["benign"]
    default = NeymanPearsonClassifier(0.05, l1=0.005, l2=0.02).fit(X, label, clients=clients)
    np.testing.assert_array_equal(default.coef_, models["benign"].coef_)  # the first class in sorted order


@pytest.mark.slow
def test_more_rounds_than_needed_are_not_used():
    X, y, clients = diabetes()
    fits = [
        FederatedLasso(0.5, tol=1.0, max_rounds=rounds).fit(X, y, clients=clients) for rounds in (100, 1000, 50_000)
    ]
    assert {model.status_ for model in fits} == {fx.Status.OPTIMAL}
    assert {model.n_exchanges_ for model in fits} == {fits[0].n_rounds_}
    for model in fits[1:]:
        np.testing.assert_array_equal(model.coef_, fits[0].coef_)


def tenths(values):
    """Ten clients by rising value."""
    return np.argsort(np.argsort(values, kind="stable"), kind="stable") * 10 // len(values)


def cancer_by_area():
    X, y = fx.data.bundled("breast_cancer")
    return StandardScaler().fit_transform(X), y, tenths(X[:, 3])


def digits_by_class():
    X, y = load_digits(return_X_y=True)
    return StandardScaler().fit_transform(X), y >= 5, y


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "data", "exchanges"),
    [
        (FederatedLogisticRegression(), cancer_by_area, 200),
        (AgnosticClassifier(), cancer_by_area, 150),
        (AgnosticClassifier(), digits_by_class, 150),
        (FederatedAUCClassifier(), cancer_by_area, 60),
    ],
    ids=["logistic", "agnostic", "agnostic, digits", "auc"],
)
def test_defaults_meet_their_tolerance_in_few_exchanges(model, data, exchanges):
    X, y, clients = data()
    model.fit(X, y, clients=clients)
    assert model.status_ is fx.Status.OPTIMAL
    assert model.gap_ <= model.tol
    assert model.n_exchanges_ == model.run_.exchanges <= exchanges


@pytest.mark.slow
def test_lasso_with_collinear_columns():
    X, y, _ = diabetes()
    bins = OneHotEncoder(sparse_output=False).fit_transform(np.stack([tenths(X[:, 2]), tenths(X[:, 8])], axis=1))
    X = StandardScaler().fit_transform(np.hstack([X, bins]))
    assert np.linalg.matrix_rank(X) < X.shape[1]
    model = FederatedLasso().fit(X, y, clients=tenths(X[:, 0]))
    assert model.status_ is fx.Status.OPTIMAL
    assert model.n_exchanges_ <= 300

    def objective(fitted):
        return np.mean((fitted.predict(X) - y) ** 2) / 2 + np.abs(fitted.coef_).sum()

    assert objective(model) - objective(Lasso(tol=1e-8).fit(X, y)) <= model.gap_ <= 1e-4


def test_an_interrupted_fit_is_interrupted(monkeypatch):
    calls = []

    def solve(problem, method, **options):
        calls.append(method)
        return dataclasses.replace(fx.solve(problem, method, rounds=1), stop=fx.Stop.INTERRUPTED)

    monkeypatch.setattr("fedualex.estimators.base.solve", solve)
    X, y, clients = diabetes()
    with pytest.raises(KeyboardInterrupt):
        FederatedLasso(0.1).fit(X, y, clients=clients)
    assert calls == [None]  # once, with the method that `solve` chooses


@pytest.mark.slow
def test_clients_are_routed_through_scikit_learns_tools():
    X, y = fx.data.bundled("breast_cancer")
    clients = fx.data.iid(len(y), 3)
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(StandardScaler(), Counted(l1=0.05, tol=5e-2).set_fit_request(clients=True))
        scores = cross_validate(model, X, y, params={"clients": clients}, cv=2, return_estimator=True)
    assert [fitted[-1].seen_ for fitted in scores["estimator"]] == [3, 3]
    assert scores["test_score"].min() > 0.9


class Counted(FederatedLogisticRegression):
    """Remembers how many clients it saw."""

    def _problem(self, X, label, clients, **about):
        self.seen_ = len(np.unique(clients))
        return super()._problem(X, label, clients, **about)


@pytest.mark.slow
def test_clients_with_one_row_or_one_class():
    X, y = fx.data.bundled("breast_cancer")
    X, y = fx.data.Standardizer.fit(X).transform(X)[:60, :5], y[:60]
    clients = np.where(np.arange(60) == 7, "lone", np.where(y == 1, "benign", "malignant"))
    for model in (FederatedLogisticRegression(l1=0.05, tol=1e-2), AgnosticClassifier(l1=0.05, cvar=1.0, tol=5e-2)):
        model.fit(X, y == 1, clients=clients)
        assert model.status_ is fx.Status.OPTIMAL
        assert model.predict(X).dtype == bool


def test_a_missed_tolerance_is_a_warning():
    X, y, clients = diabetes()
    with pytest.warns(
        ConvergenceWarning, match=r"FederatedLasso ended as CERTIFIED \(MAX_ROUNDS\) after 1 exchange.* tol=0.0001"
    ):
        model = FederatedLasso(0.1, max_rounds=1).fit(X, y, clients=clients)
    assert model.gap_ > 1e-4
    assert (model.status_, model.run_.stop) == (fx.Status.CERTIFIED, fx.Stop.MAX_ROUNDS)


@pytest.mark.slow
def test_own_method_and_names_of_classes():
    X, y = fx.data.bundled("breast_cancer")
    X = fx.data.Standardizer.fit(X).transform(X)
    label = np.where(y == 1, "benign", "malignant")
    model = FederatedLogisticRegression(l1=0.02, method=fx.SynchronousMirrorProx(0.3), local_steps=1, tol=5e-2)
    model.fit(X, label, clients=fx.data.iid(len(y), 2))
    assert model.classes_.tolist() == ["benign", "malignant"]
    np.testing.assert_array_equal(model.predict(X) == "malignant", model.decision_function(X) > 0)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.score(X, label) > 0.95


def test_refusals():
    with pytest.raises(NotFittedError):
        FederatedLasso().predict([[1.0]])
    with pytest.raises(ValueError, match=r"alpha must be a number >= 0, got -1\.0"):
        FederatedLasso(alpha=-1).fit([[1.0], [2.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match="X must have a variance that float64 can hold"):
        FederatedLasso().fit([[1e200], [2e300]], [0.0, 1.0])
    with pytest.raises(ValueError, match="only one class"):
        AgnosticClassifier().fit([[1.0], [2.0]], [0, 0])
    for binary in (FederatedAUCClassifier(), NeymanPearsonClassifier()):
        with pytest.raises(ValueError, match=f"y holds 3 classes, {type(binary).__name__} accepts two"):
            binary.fit([[1.0], [2.0], [3.0]], [0, 1, 2])
    with pytest.raises(ValueError, match=r"limited must be one of the classes .*, got 7"):
        NeymanPearsonClassifier(limited=7).fit([[1.0], [2.0]], [0, 1])
    for wrong, message in [
        ({"l1": "a"}, "l1 must be a number >= 0, got 'a'"),
        ({"l2": -1}, "l2 must be a number >= 0, got -1.0"),
        ({"l1": 0, "l2": 0}, "l1 or l2 must be > 0"),
        ({"limit": 0}, "limit must be a number > 0, got 0.0"),
        ({"local_steps": "x"}, "local_steps must be a whole number >= 1, got 'x'"),
        ({"max_rounds": 0}, "max_rounds must be a whole number >= 1, got 0"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            NeymanPearsonClassifier(**wrong).fit([[1.0], [2.0]], [0, 1])
    with pytest.raises(ValueError, match=r"clients must hold 3 labels.*\(2,\)"):
        FederatedLasso().fit([[1.0], [2.0], [4.0]], [0.0, 1.0, 2.0], clients=[1, 2])

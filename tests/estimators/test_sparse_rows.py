"""Estimators on sparse rows: the models of the same rows in full, and a table that no memory would hold in full."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import get_tags

import fedualex as fx
from fedualex.estimators import (
    AgnosticClassifier,
    FederatedAUCClassifier,
    FederatedLasso,
    FederatedLogisticRegression,
    LimitedClassifier,
    NeymanPearsonClassifier,
)
from fedualex.estimators.base import Scale, by_client, check_data, linear_scores

ROOT = Path(__file__).parents[2]
GIB = 2.0
"""The memory that a fit of 100,000 x 20,000 one-hot rows may take."""
TRIED = {
    "logistic": FederatedLogisticRegression(l1=0.02, tol=1e-6),
    "lasso": FederatedLasso(alpha=0.02, tol=1e-7),
    "agnostic": AgnosticClassifier(l1=0.02, l2=0.1, tol=1e-5),
    "neyman-pearson": NeymanPearsonClassifier(limit=0.5, l2=0.05, tol=1e-6),
    "limits": LimitedClassifier(0.66, l2=0.05, tol=1e-6),
    "auc": FederatedAUCClassifier(l1=0.01, l2=0.1, tol=1e-6),
}


def thin():
    """Rows of which three entries in ten are not 0, scores, classes, and three clients."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(120, 12)) + 1, 2) * (rng.random((120, 12)) < 0.3)
    score = X @ rng.normal(size=12)
    return X, score, (score + 0.3 * rng.logistic(size=120) > np.median(score)).astype(int), np.arange(120) % 3


@pytest.mark.parametrize("clients", [None, thin()[3]], ids=["one", "three"])
def test_moments_of_sparse_rows_are_those_of_full_ones(clients):
    X = thin()[0]
    full, sparse = (fx.data.Standardizer.fit(A, clients) for A in (X, sp.csc_array(X)))
    np.testing.assert_allclose(sparse.mean, full.mean, rtol=1e-13)
    np.testing.assert_allclose(sparse.deviation, full.deviation, rtol=1e-13)
    with pytest.raises(TypeError, match="X must be a matrix that may be filled"):
        full.transform(sp.csr_array(X))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("in_loss", [True, False])
def test_sparse_rows_are_divided_and_centered_in_the_loss(intercept, in_loss):
    X, _, _, clients = thin()
    full, sparse = (Scale(A, clients, intercept, in_loss=in_loss) for A in (X, sp.csr_matrix(X)))
    assert sparse.size == pytest.approx(full.size, rel=1e-13)
    assert full.center is None
    assert (sparse.center is not None) == (intercept and in_loss)
    order = by_client(clients, len(clients))
    assert np.all(np.diff(clients[order]) >= 0)
    rows, center = sparse.rows(sp.csr_matrix(X), order), 0 if sparse.center is None else sparse.center
    assert sp.issparse(rows)
    scores = linear_scores(sp.csr_matrix(X[order]), sparse.mean, np.arange(12.0)[None] / sparse.size, 0.5)
    np.testing.assert_allclose((rows.toarray() - center) @ np.arange(12.0) + 0.5, scores[:, 0])


@pytest.mark.parametrize("model", TRIED.values(), ids=TRIED)
def test_sparse_input_is_declared_and_checked(model):
    assert get_tags(model).input_tags.sparse
    X = thin()[0]
    for kind in (sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array):
        found = check_data(model, kind(X), np.arange(120))[0]
        assert found.format == "csr"
        np.testing.assert_array_equal(found.toarray(), X)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        check_data(model, sp.csr_array([[np.nan, 1.0]]), [1])


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIED)
def test_model_of_sparse_rows_is_that_of_full_ones(name):
    """Both objectives are within tol of the least one, so they are within tol of each other."""
    X, score, label, clients = thin()
    model, y = TRIED[name], score if name == "lasso" else label
    full = model.fit(X, y, clients=clients)
    coef, intercept, objective = full.coef_, full.intercept_, objective_of(name, full, X, y, clients)
    assert full.status_ is fx.Status.OPTIMAL
    sparse = model.fit(sp.csc_matrix(X), y, clients=clients)
    assert sparse.status_ is fx.Status.OPTIMAL
    assert abs(objective_of(name, sparse, X, y, clients) - objective) <= sparse.tol
    np.testing.assert_allclose(sparse.coef_, coef, atol=5e-3)
    np.testing.assert_allclose(sparse.intercept_, intercept, atol=2e-3)
    np.testing.assert_allclose(scores_of(sparse, sp.csr_array(X)), scores_of(sparse, X), atol=1e-12)
    assert sparse.predict(sp.csc_array(X)).shape == y.shape


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic", "lasso"])
def test_centers_of_sparse_rows_save_exchanges(name, monkeypatch):
    """With the mean taken off in the loss, sparse rows need about as many exchanges as full ones; without it more.

    Of FeDualSlide: with second derivatives it makes no difference. At the default tol: far below it single exchanges depend on the last digits of sums.
    """
    X, score, label, clients = thin()
    model, y = clone(TRIED[name]).set_params(tol=1e-4, method=fx.FeDualSlide()), score if name == "lasso" else label
    full, centered = (model.fit(A, y, clients=clients).n_exchanges_ for A in (X, sp.csr_matrix(X)))
    monkeypatch.setattr(type(model), "centers", False)
    assert centered <= 1.25 * full
    assert centered < 0.75 * model.fit(sp.csr_matrix(X), y, clients=clients).n_exchanges_


def scores_of(model, X):
    return model.predict(X) if isinstance(model, FederatedLasso) else model.decision_function(X)


def objective_of(name, model, X, y, clients):
    """What a model minimizes, from its formula; of a ranking all pairs of rows, of limits the loss that is free."""
    scores, w = scores_of(model, X), model.coef_.ravel()
    weight = {key: getattr(model, key, 0.0) for key in ("l1", "l2", "alpha")}
    penalty = (weight["l1"] + weight["alpha"]) * np.abs(w).sum() + weight["l2"] / 2 * w @ w
    losses = np.logaddexp(0.0, np.where(y == 1, -scores, scores))
    match name:
        case "lasso":
            return np.mean((scores - y) ** 2) / 2 + penalty
        case "logistic":
            return losses.mean() + penalty
        case "agnostic":
            return max(losses[clients == m].mean() for m in np.unique(clients)) + penalty
        case "neyman-pearson":
            return losses[y == 1].mean() + penalty
    return np.mean((1 - scores[y == 1][:, None] + scores[y == 0]) ** 2) + penalty


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_large_table_fits_into_little_memory():
    found = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "sparse.py"], capture_output=True, text=True, check=True
    )
    measured = json.loads(found.stdout)
    assert measured["status"] == "OPTIMAL"
    assert measured["peak_gib"] < GIB

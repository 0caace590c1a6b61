"""`fedualex fit` with nothing tuned, on the tables that come with scikit-learn, beside scikit-learn on the same rows."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score

from fedualex import models
from fedualex.tables.fit import fit_into, plan_fit

CASES = [
    ("breast_cancer", "logistic", "accuracy"),
    ("breast_cancer", "fair", "accuracy"),
    ("breast_cancer", "auc", "auc"),
    ("breast_cancer", "neyman-pearson", "auc"),
    ("wine", "logistic", "accuracy"),
    ("digits", "logistic", "accuracy"),
    ("diabetes", "lasso", "r2"),
    ("diabetes", "robust", "r2"),
]


def of_scikit_learn(planned, metric):
    """The same metric of its own default model, on the same split."""
    parties, encoder = planned.parties, planned.encoder
    test, truth = encoder.transform(parties.held_out), parties.held_out["target"]
    X, y = np.concatenate([encoder.transform(party.trained) for party in parties.members]), parties.column("target")
    if metric == "r2":
        return LinearRegression().fit(X, y).score(test, truth)
    model = LogisticRegression(max_iter=5000).fit(X, y)
    return roc_auc_score(truth, model.decision_function(test)) if metric == "auc" else model.score(test, truth)


@pytest.mark.slow
@pytest.mark.parametrize(("table", "goal", "metric"), CASES)
def test_defaults_are_certified_and_as_good_as_scikit_learn(tmp_path, table, goal, metric):
    """The penalty is the largest within one standard error of the best, which may cost some rows: of 341 digits, four."""
    settings = {"table": f"bundled:{table}", "target": "target", "clients": "4", "goal": goal}
    planned = plan_fit(settings, Path())
    model = fit_into(tmp_path / "fit", planned)
    assert model.certificate["gap"] <= model.certificate["tol"]
    held_out, other = model.training["held_out"], of_scikit_learn(planned, metric)
    assert held_out["overall"][metric] >= other - (0.01 if table != "digits" else 0.015)
    assert held_out["intervals"]["overall"][metric][1] >= other
    (tmp_path / "fit" / "model").rename(tmp_path / "moved")
    again = models.load(tmp_path / "moved")
    np.testing.assert_array_equal(again.predict(planned.parties.held_out), model.predict(planned.parties.held_out))

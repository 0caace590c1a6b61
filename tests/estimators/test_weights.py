"""Weights of rows and classes: a weight of 2 is a row twice, a weight of 0 is no row."""

import numpy as np
import pytest
import sklearn
from sklearn.utils.class_weight import compute_class_weight

from fedualex.data import Standardizer
from fedualex.estimators import (
    AgnosticClassifier,
    AgnosticRegressor,
    FederatedAUCClassifier,
    FederatedGroupLasso,
    FederatedLasso,
    FederatedLogisticRegression,
    FederatedMultiTask,
    FederatedRobustRegression,
    NeymanPearsonClassifier,
)
from fedualex.estimators.base import with_class_weight

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
LABEL = np.where(X[:, 0] + 0.5 * RNG.normal(size=40) > 0, "yes", "no")
TARGET = X @ [1.0, 2.0, 0.0] + 0.1 * RNG.normal(size=40)
CLIENTS = np.arange(40) % 3
WEIGHT = RNG.integers(0, 4, 40)
TWICE = np.repeat(np.arange(40), WEIGHT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "y"),
    [
        (FederatedLasso(0.1), TARGET),
        *(
            pytest.param(model, y, marks=pytest.mark.slow)
            for model, y in [
                (FederatedLogisticRegression(class_weight="balanced"), LABEL),
                (FederatedGroupLasso(0.1, [0, 0, 1]), TARGET),
                (AgnosticClassifier(class_weight={"yes": 3.0}), LABEL),
                (AgnosticRegressor(loss="huber"), TARGET),
                (FederatedAUCClassifier(), LABEL),
                (NeymanPearsonClassifier(0.3, tol=1e-5), LABEL),
                (FederatedRobustRegression(tol=1e-3), TARGET),
                (FederatedMultiTask(0.1), np.stack([TARGET, -TARGET], axis=1)),
            ]
        ),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "tol") else "",
)
def test_a_weighted_fit_is_the_fit_of_repeated_rows(model, y):
    weighted = sklearn.clone(model).fit(X, y, clients=CLIENTS, sample_weight=WEIGHT)
    repeated = sklearn.clone(model).fit(X[TWICE], y[TWICE], clients=CLIENTS[TWICE])
    for name in ("coef_", "intercept_"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), atol=0.02)
    plain = sklearn.clone(model).fit(X, y, clients=CLIENTS)
    assert np.abs(weighted.coef_ - repeated.coef_).max() < 0.3 * np.abs(plain.coef_ - repeated.coef_).max()


def test_moments_of_weighted_rows_are_those_of_repeated_rows():
    weighted, repeated = Standardizer.fit(X, CLIENTS, WEIGHT), Standardizer.fit(X[TWICE], CLIENTS[TWICE])
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-12)
    np.testing.assert_allclose(weighted.deviation, repeated.deviation, rtol=1e-12)
    tenth = Standardizer.fit(X, CLIENTS, WEIGHT / 1000)
    np.testing.assert_allclose(tenth.mean, repeated.mean, rtol=1e-12)


def test_class_weights_are_scikit_learns():
    names, label = np.unique(LABEL, return_inverse=True)
    balanced = compute_class_weight("balanced", classes=names, y=LABEL)
    np.testing.assert_allclose(with_class_weight("balanced", names, label, None), balanced[label])
    np.testing.assert_allclose(
        with_class_weight("balanced", names, label[TWICE], None),
        compute_class_weight("balanced", classes=names, y=LABEL[TWICE])[label[TWICE]],
    )
    np.testing.assert_array_equal(with_class_weight({"no": 2}, names, label, WEIGHT), WEIGHT * np.where(label, 1, 2))
    assert with_class_weight(None, names, label, None) is None


def test_refusals():
    def refused(model, match, **rows):
        with pytest.raises((TypeError, ValueError), match=match):
            model.fit(X, LABEL, **rows)

    refused(
        AgnosticClassifier(class_weight="even"), "class_weight must be None, 'balanced' or a mapping .*, got 'even'"
    )
    refused(
        AgnosticClassifier(class_weight={"maybe": 1}), r"class_weight must be for classes of .*, got one for 'maybe'"
    )
    refused(AgnosticClassifier(class_weight={"no": -1}), r"class_weight\['no'\] must be a number > 0, got -1.0")
    refused(
        AgnosticClassifier(), "sample_weight must be 40 numbers >= 0, one for each row of X", sample_weight=[1.0, 2.0]
    )
    refused(AgnosticClassifier(), "groups must hold 40 labels in one column", groups=[1, 2])
    refused(AgnosticClassifier(), "only one class, ", sample_weight=(LABEL == "no") * 1.0)
    refused(AgnosticClassifier(l1=0), "l1 or l2 must be > 0, or radius given")
    refused(AgnosticClassifier(radius=-1), "radius must be a number > 0, got -1.0")
    refused(AgnosticClassifier(minibatch=0), "minibatch must be a whole number >= 1, got 0")
    refused(AgnosticClassifier(dtype="int"), "dtype must be 'float32' or 'float64', got 'int'")
    refused(AgnosticClassifier(callback=3), "callback must be a function of one record, got 3")
    with pytest.raises(
        ValueError, match="loss must be one of 'squared', 'huber', 'absolute', 'poisson', got 'logistic'"
    ):
        AgnosticRegressor(loss="logistic").fit(X, TARGET)

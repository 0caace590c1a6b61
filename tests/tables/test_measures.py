"""Measures on held-out rows are those of scikit-learn, in all and for each client."""

import numpy as np
import pytest
from sklearn import metrics

from fedualex.data import Encoder, Standardizer, Table
from fedualex.models import Answers, Model
from fedualex.problems.families import reading_of
from fedualex.tables.measures import mean_over_rows, measured, worst

ENCODER = Encoder(("a", "b"), {}, Standardizer(np.array([1.0, -1.0]), np.array([2.0, 0.5])))
RNG = np.random.default_rng(0)
COLUMNS = {"a": RNG.normal(size=60), "b": RNG.normal(size=60)}
OWNERS = np.array(["east", "west", "west"] * 20)


def table(target):
    return Table({**COLUMNS, "t": target}, "here")


def test_two_classes():
    model = Model(
        ENCODER, np.array([0.5, 0.2]), np.array(0.1), Answers(reading_of("classes"), np.array(["no", "yes"])), "t"
    )
    rows = table(RNG.choice(["no", "yes"], 60))
    found = measured(model, rows, OWNERS)
    for name, chosen in {"east": OWNERS == "east", "west": OWNERS == "west", "": OWNERS != ""}.items():
        truth, share = rows["t"][chosen], model.predict_proba(rows)[chosen]
        assert (found.clients[name] if name else found.overall) == {
            "rows": chosen.sum(),
            "positives": pytest.approx(np.mean(truth == "yes")),
            "accuracy": pytest.approx(metrics.accuracy_score(truth, model.predict(rows)[chosen])),
            "auc": pytest.approx(metrics.roc_auc_score(truth == "yes", share[:, 1])),
            "loss": pytest.approx(metrics.log_loss(truth, share, labels=["no", "yes"])),
        }
    for name in ("rows", "positives", "accuracy", "loss"):
        assert mean_over_rows(name, found.clients) == pytest.approx(found.overall[name])
    assert mean_over_rows("auc", found.clients) is None
    assert worst("loss", found.clients) == max(one["loss"] for one in found.clients.values())
    assert worst("auc", found.clients) == min(one["auc"] for one in found.clients.values())
    assert worst("positives", found.clients) is None
    errors = measured(model, rows, OWNERS, by_class=True)
    recall = metrics.recall_score(rows["t"], model.predict(rows), labels=["no", "yes"], average=None)
    assert [errors.overall[f"errors of {label}"] for label in ("no", "yes")] == pytest.approx(1 - recall)
    assert worst("errors of no", errors.clients) == max(one["errors of no"] for one in errors.clients.values())
    only = measured(model, rows.take(rows["t"] == "no"), OWNERS[rows["t"] == "no"], by_class=True)
    assert only.overall["errors of yes"] is None


def test_three_classes_and_a_class_that_nobody_was_trained_on():
    model = Model(
        ENCODER, RNG.normal(size=(2, 3)), np.zeros(3), Answers(reading_of("classes"), np.array(["p", "q", "r"])), "t"
    )
    rows = table(RNG.choice(["p", "q", "r"], 60))
    found = measured(model, rows, OWNERS).overall
    assert found["loss"] == pytest.approx(metrics.log_loss(rows["t"], model.predict_proba(rows)))
    assert found.keys() == {"rows", "accuracy", "loss"}
    assert measured(model, table(np.array(["p", "new"] * 30)), OWNERS).overall["loss"] is None


def test_numbers():
    model = Model(
        ENCODER, np.array([0.5, 0.2]), np.array(0.1), Answers(reading_of("numbers"), center=3.0, scale=2.0), "t"
    )
    rows = table(RNG.normal(3, 1, 60))
    answers = model.predict(rows)
    assert measured(model, rows, OWNERS).overall == {
        "rows": 60,
        "r2": pytest.approx(metrics.r2_score(rows["t"], answers)),
        "mae": pytest.approx(metrics.mean_absolute_error(rows["t"], answers)),
        "mse": pytest.approx(metrics.mean_squared_error(rows["t"], answers)),
    }


def test_several_targets_have_measures_of_their_own():
    """Of all clients the errors are known from those of each, which a server adds up; an r2 is not."""
    clients = {
        "a": {"rows": 1, "r2": 0.5, "r2 of days": 0.4, "mae of days": 2.0},
        "b": {"rows": 3, "r2": 0.7, "r2 of days": 0.8, "mae of days": 4.0},
    }
    assert worst("mae of days", clients) == 4.0
    assert worst("r2 of days", clients) == 0.4
    assert mean_over_rows("mae of days", clients) == pytest.approx(3.5)
    assert mean_over_rows("r2 of days", clients) is None

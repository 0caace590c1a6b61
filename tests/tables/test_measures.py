"""Measures on held-out rows are those of scikit-learn, in all and for each client."""

import numpy as np
import pytest
from sklearn import metrics

from fedualex.data import Encoder, Standardizer, Table
from fedualex.models import Answers, Model
from fedualex.problems.families import reading_of
from fedualex.tables.measures import ALL, measure_table, worst

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
    found = measure_table(model, rows, OWNERS).values
    pairs = {}
    for name, chosen in {"east": OWNERS == "east", "west": OWNERS == "west", ALL: OWNERS != ""}.items():
        truth, share = rows["t"][chosen], model.predict_proba(rows)[chosen]
        pairs[name] = np.sum(truth == "yes") * np.sum(truth == "no")
        auc = metrics.roc_auc_score(truth == "yes", share[:, 1])
        if name == ALL:  # pairs of two clients do not count
            auc = sum(pairs[own] * found[own]["auc"] for own in ("east", "west")) / (pairs["east"] + pairs["west"])
        assert found[name] == {
            "rows": chosen.sum(),
            "positives": pytest.approx(np.mean(truth == "yes")),
            "accuracy": pytest.approx(metrics.accuracy_score(truth, model.predict(rows)[chosen])),
            "auc": pytest.approx(auc),
            "loss": pytest.approx(metrics.log_loss(truth, share, labels=["no", "yes"])),
        }
    clients = {name: own for name, own in found.items() if name != ALL}
    assert worst("loss", clients) == max(one["loss"] for one in clients.values())
    assert worst("auc", clients) == min(one["auc"] for one in clients.values())
    assert worst("positives", clients) is None
    errors = measure_table(model, rows, OWNERS, by_class=True).values
    recall = metrics.recall_score(rows["t"], model.predict(rows), labels=["no", "yes"], average=None)
    assert [errors[ALL][f"errors of {label}"] for label in ("no", "yes")] == pytest.approx(1 - recall)
    each = [errors[name]["errors of no"] for name in clients]
    assert worst("errors of no", {name: errors[name] for name in clients}) == max(each)
    only = measure_table(model, rows.take(rows["t"] == "no"), OWNERS[rows["t"] == "no"], by_class=True).values
    assert only[ALL]["errors of yes"] is None


def test_three_classes_and_a_class_that_nobody_was_trained_on():
    model = Model(
        ENCODER, RNG.normal(size=(2, 3)), np.zeros(3), Answers(reading_of("classes"), np.array(["p", "q", "r"])), "t"
    )
    rows = table(RNG.choice(["p", "q", "r"], 60))
    found = measure_table(model, rows, OWNERS).values[ALL]
    assert found["loss"] == pytest.approx(metrics.log_loss(rows["t"], model.predict_proba(rows)))
    assert found.keys() == {"rows", "accuracy", "loss"}
    assert measure_table(model, table(np.array(["p", "new"] * 30)), OWNERS).values[ALL]["loss"] is None


def test_numbers():
    model = Model(
        ENCODER, np.array([0.5, 0.2]), np.array(0.1), Answers(reading_of("numbers"), center=3.0, scale=2.0), "t"
    )
    rows = table(RNG.normal(3, 1, 60))
    answers = model.predict(rows)
    assert measure_table(model, rows, OWNERS).values[ALL] == {
        "rows": 60,
        "r2": pytest.approx(metrics.r2_score(rows["t"], answers)),
        "mae": pytest.approx(metrics.mean_absolute_error(rows["t"], answers)),
        "mse": pytest.approx(metrics.mean_squared_error(rows["t"], answers)),
    }


def test_several_targets_have_measures_of_their_own():
    clients = {
        "a": {"rows": 1, "r2": 0.5, "r2 of days": 0.4, "mae of days": 2.0},
        "b": {"rows": 3, "r2": 0.7, "r2 of days": 0.8, "mae of days": 4.0},
    }
    assert worst("mae of days", clients) == 4.0
    assert worst("r2 of days", clients) == 0.4

"""Beside a goal stands the ordinary model of the same rows at the same penalty."""

import numpy as np
import pytest
from support.heart import heart_columns, write_heart

from fedualex.tables.fit import fit_into, plan_fit

FIT = {"table": "heart.csv", "target": "disease", "clients": "center", "id": "patient_id", "l1": 0.01, "l2": 0.0}


@pytest.mark.parametrize(("goal", "measure"), [("fair", "loss"), ("auc", "auc")])
def test_the_line_is_what_the_ordinary_fit_measures(tmp_path, goal, measure):
    write_heart(tmp_path, heart_columns(240))
    model = fit_into(tmp_path / goal, plan_fit({**FIT, "goal": goal}, tmp_path))
    plain = fit_into(tmp_path / "plain", plan_fit({**FIT, "goal": "logistic"}, tmp_path))
    assert "ordinary" not in plain.training
    told, same = model.training["ordinary"], plain.training["held_out"]
    for name, value in same["overall"].items():
        assert told["held_out"]["overall"][name] == pytest.approx(value, abs=1e-4)
    assert told["sentence"].startswith("The ordinary model on the same rows, at the same penalty: " + measure)
    assert f"{model.training['held_out']['overall'][measure]:.4g}" in told["sentence"]


def test_beside_a_ranking_a_chosen_penalty_has_the_same_share_of_the_largest_value(tmp_path):
    write_heart(tmp_path, heart_columns(240))
    chosen = {name: value for name, value in FIT.items() if name not in ("l1", "l2")}
    planned = plan_fit({**chosen, "goal": "auc"}, tmp_path)
    told = fit_into(tmp_path / "auc", planned).training
    assert "at the same share of the largest penalty: auc " in told["ordinary"]["sentence"]
    rows = [party.rows(planned.known) for party in planned.parties.members]
    X, label = np.concatenate([own.X for own in rows]), np.concatenate([own.y for own in rows])
    label = np.where(label == "yes", 1.0, 0.0)
    largest = np.max(np.abs(X.T @ (label - label.mean()))) / len(label)
    l1 = largest * told["penalty"]["value"] / told["penalty"]["curve"]["values"][0]
    plain = fit_into(tmp_path / "plain", plan_fit({**FIT, "goal": "logistic", "l1": l1}, tmp_path))
    for name, value in plain.training["held_out"]["overall"].items():
        assert told["ordinary"]["held_out"]["overall"][name] == pytest.approx(value, abs=1e-4)


def test_effects_beside_a_ranking_are_those_of_the_ordinary_model(tmp_path):
    write_heart(tmp_path, heart_columns(600))
    told, plain = (
        fit_into(tmp_path / goal, plan_fit({**FIT, "goal": goal}, tmp_path)).training["effects"]
        for goal in ("auc", "logistic")
    )
    for row, same in zip(told["rows"], plain["rows"], strict=True):
        assert row["penalized"] is None
        for name in ("estimate", "error", "lower", "upper", "p"):
            assert row[name] == pytest.approx(same[name], rel=1e-5, abs=1e-9)
    assert told["kind"] == plain["kind"] == "model-based"
    assert told["words"][0].startswith("Effects are those of the ordinary logistic model of the same rows")

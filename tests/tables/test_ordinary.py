"""Beside a goal stands the ordinary model of the same rows at the same penalty."""

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

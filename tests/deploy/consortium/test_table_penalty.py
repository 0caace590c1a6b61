"""A penalty that sites choose is the one that a fit of all their tables chooses, from sums alone."""

import json

import numpy as np
import pytest
from support.reconstruction import GOALS, hold, pooled

from fedualex import models
from fedualex.deploy.consortium.agreement import why_no_penalty
from fedualex.deploy.consortium.folds import FOLD_LOSSES, FOLD_SUMMARY
from fedualex.deploy.policy import PATH
from fedualex.tables import penalty
from fedualex.tables.fit import fit_into, plan_fit
from fedualex.tables.penalty import PENALTY
from fedualex.tables.recipe import TableRecipe

ROWS = {"east": 260, "north": 240, "west": 220}
FEW = {"east": 120, "north": 100, "west": 90}


@pytest.fixture(autouse=True)
def few_values(monkeypatch):
    """Paths of four values."""
    whole = penalty.search
    monkeypatch.setattr(penalty, "search", lambda *given, **options: whole(*given, count=4, **options))


@pytest.mark.parametrize("masked", [pytest.param(False, marks=pytest.mark.slow), True], ids=["plain", "masked"])
@pytest.mark.parametrize("goal", ["logistic", "lasso"])
def test_sites_choose_what_a_fit_of_all_tables_chooses(tmp_path, goal, masked):
    held = hold(tmp_path, goal, masked, ROWS, tol=1e-6, l1="auto")
    server = tmp_path / "deployment" / "server"
    settings = {"goal": goal, "tol": 1e-6, "l1": "auto", "l2": 0.008, **GOALS[goal]}
    fit = fit_into(tmp_path / "fit", plan_fit(pooled(tmp_path, settings), tmp_path))
    deployed, alone = (json.loads((folder / PENALTY).read_text()) for folder in (server, tmp_path / "fit"))
    assert deployed["curve"]["chosen"] == alone["curve"]["chosen"]
    np.testing.assert_allclose(deployed["curve"]["values"], alone["curve"]["values"], rtol=1e-6)
    np.testing.assert_allclose(deployed["curve"]["measure"], alone["curve"]["measure"], atol=1e-5)
    np.testing.assert_allclose(models.load(server).weights, fit.weights, atol=1e-3 if masked else 1e-6)
    missed = deployed["curve"]["missed"]
    assert (missed > 0) == ("ended at a gap above" in deployed["sentence"])
    assert masked or missed == 0
    tasks = [task for task, *_ in held.asked]
    asked = sum(tasks.count(task) for task in (FOLD_SUMMARY, PATH, FOLD_LOSSES)) / len(ROWS)
    assert asked == deployed["curve"]["exchanges"]


def test_sites_tell_of_no_small_fold_in_the_clear(tmp_path):
    hold(tmp_path, "lasso", False, FEW, l1="auto")
    said = json.loads((tmp_path / "deployment" / "server" / PENALTY).read_text())["sentence"]
    assert "a default that was not chosen by held-out rows" in said
    assert "folds of 20 rows or more, or under masks" in said


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"chosen l1": 0.1}, ""),
        ({"chosen l1": 0.1, "chosen l2": 0.0}, ""),
        ({"chosen l1": 0.0}, "no number > 0"),
        ({"chosen l1": np.nan}, "no number > 0"),
        ({"chosen l1": np.ones(2)}, "no number > 0"),
        ({"chosen l2": 0.1}, "other parts"),
        ({"chosen l1": 0.1, "chosen radius": 1.0}, "other parts"),
    ],
)
def test_a_site_takes_a_penalty_and_nothing_else_for_the_choice(told, reason):
    found = why_no_penalty(
        TableRecipe("lasso", "days", options={"l1": "auto"}), {name: np.asarray(value) for name, value in told.items()}
    )
    assert reason in found
    assert bool(reason) == bool(found)


def test_a_penalty_that_nobody_asked_for_is_refused():
    given = TableRecipe("lasso", "days", options={"l1": 0.2})
    assert why_no_penalty(given, {"chosen l1": np.asarray(0.1)}) == "it has other parts"

"""A penalty that sites choose is the one that a fit of all their tables chooses, from sums alone."""

import json

import numpy as np
import pytest
from support.reconstruction import GOALS, hold, pooled

from fedualex import models
from fedualex.data import Table
from fedualex.deploy.consortium.agreement import why_no_penalty
from fedualex.deploy.consortium.folds import FOLD_SUMMARY
from fedualex.deploy.consortium.kit import write_table_deployment
from fedualex.deploy.policy import FOLD_LOSSES, PATH, Policy, Release, SiteFacts
from fedualex.runs.settings import ConfigurationError
from fedualex.tables import choosing, penalty
from fedualex.tables.fit import fit_into, plan_fit
from fedualex.tables.party import Party, agree
from fedualex.tables.penalty import PENALTY, default_penalty, range_of_path
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
        ({"chosen l1": 0.1, "chosen l2": 0.0}, "a second penalty, which is not the default"),
        ({"chosen l1": 0.0}, "no number > 0"),
        ({"chosen l1": np.nan}, "no number > 0"),
        ({"chosen l1": np.ones(2)}, "no number > 0"),
        ({"chosen l2": 0.1}, "other parts"),
        ({"chosen l1": 0.1, "chosen radius": 1.0}, "other parts"),
    ],
)
def test_a_site_takes_a_penalty_and_nothing_else_for_the_choice(told, reason):
    recipe, known = (
        TableRecipe("lasso", "days", options={"l1": "auto"}),
        [{}, {}, {}, {"rows": np.array([30, 30, 40])}, {}],
    )
    found = why_no_penalty(recipe, known, {name: np.asarray(value) for name, value in told.items()})
    assert reason in found
    assert bool(reason) == bool(found)
    default = default_penalty(recipe, known, "a site refuses").as_known
    assert why_no_penalty(recipe, known, default) == ""


def test_a_site_knows_the_path_of_a_mean_loss_of_classes_and_takes_no_value_beyond_it(tmp_path):
    """Of logistic regression and of three classes, from merged sums alone: the ends are those that a search has."""
    rng = np.random.default_rng(0)
    for classes in (("ill", "well"), ("ill", "sick", "well")):
        X = rng.normal(size=(300, 4)) * [1, 10, 0.1, 1]
        y = np.array(classes)[np.clip((X[:, 0] + rng.normal(size=300)).round().astype(int), 0, len(classes) - 1)]
        table = Table({**{f"f{j}": X[:, j] for j in range(4)}, "y": y}, "t")
        recipe = TableRecipe("logistic", "y", options={"l1": "auto"})
        members = [Party(recipe, m, table.take(np.arange(m, 300, 3))) for m in range(3)]
        known = agree(members)
        curve = choosing.search(
            recipe.recipe(known), choosing.PartiesHere([p.fold(known) for p in members]), count=2
        ).curve
        assert range_of_path(recipe, known) == pytest.approx(curve.values[::-1], rel=1e-5)
        for share, reason in ((0.5, ""), (1.0, ""), (1.01, "not within the path"), (0.0009, "not within the path")):
            found = why_no_penalty(recipe, known, {"chosen l1": np.asarray(share * curve.values[0])})
            assert reason in found
            assert bool(reason) == bool(found)


def test_folds_that_are_whole_sites_are_not_told_under_masks(tmp_path):
    """Two masked sums, of all sites and of all but one, tell of that one: the kit is refused, and so is a server."""
    fit = {"goal": "logistic", "target": "y", "folds": "sites"}
    sites = {name: {} for name in ROWS}
    with pytest.raises(ConfigurationError, match="tells the server of each site alone, which masks are to hide"):
        write_table_deployment(tmp_path / "kit", fit, sites, {}, {})
    write_table_deployment(tmp_path / "kit", fit, sites, {}, {"secure_sums": "off"})
    about = SiteFacts(rows=100)
    for task in (FOLD_SUMMARY, PATH, FOLD_LOSSES):
        asked = Release(task, 3, fold=100, whole_sites=True)
        assert "whole sites, which masks would not hide" in Policy().why_not_released(asked, about, masked=True).text
        assert Policy().why_not_released(asked, about, masked=False) is None
        few = Release(task, 3, fold=19)
        assert "folds of 20 rows or more" in Policy().why_not_released(few, about, masked=False).text
        assert Policy().why_not_released(few, about, masked=True) is None
        many = Release(task, 801, fold=100)
        assert "points in one request" in Policy().why_not_released(many, about, masked=True).text


def test_a_penalty_that_nobody_asked_for_is_refused():
    given = TableRecipe("lasso", "days", options={"l1": 0.2})
    assert why_no_penalty(given, [], {"chosen l1": np.asarray(0.1)}) == "it has other parts"

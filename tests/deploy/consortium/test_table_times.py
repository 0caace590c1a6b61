"""Times to an event between sites: the model, effects and measures of `fit`, and what leaves a site."""

import numpy as np
import pytest
from support.consortium import noting, run_in_threads
from support.times import columns, write

from fedualex import models
from fedualex.data import Table
from fedualex.deploy.consortium.kit import write_table_deployment
from fedualex.deploy.consortium.site import smallest_groups
from fedualex.tables.fit import fit_into, plan_fit
from fedualex.tables.recipe import TableRecipe

SITES = ("bonn", "oslo", "york")
WANTED = {"time": "days", "event": "died", "id": "patient", "reference": {"ward": "a"}, "l1": 0.002, "l2": 0.01}


def sites_of(folder, rows=300, masked=False, **wanted):
    """A deployment of three sites with tables of their own, and the table of all."""
    table = columns(rows)
    write(folder / "all.csv", table)
    for name in SITES:
        own = table["site"] == name
        write(folder / f"{name}.csv", {key: np.asarray(v)[own].tolist() for key, v in table.items() if key != "site"})
    tables = {name: {"table": str(folder / f"{name}.csv")} for name in SITES}
    run = {"secure_sums": "on" if masked else "off", "timeout": 300.0}
    write_table_deployment(folder / "deployment", {"goal": "cox", **WANTED, **wanted}, tables, {}, run)
    return folder / "deployment"


@pytest.mark.slow
@pytest.mark.parametrize(("goal", "masked"), [("cox", False), ("cox", True), ("fair-cox", False)])
def test_sites_have_the_model_of_a_fit(tmp_path, goal, masked):
    root = sites_of(tmp_path, rows=450, masked=masked, goal=goal)  # each site holds out as many as it may tell of
    run_in_threads(root)
    found = models.load(root / "server")
    settings = {"table": "all.csv", "clients": "site", "goal": goal, **WANTED}
    fit = fit_into(tmp_path / "fit", plan_fit(settings, tmp_path))
    if goal == "cox":  # a worst case between three sites takes another method, and so another certified answer
        np.testing.assert_allclose(found.weights, fit.weights, atol=1e-9)
        assert found.certificate["exchanges"] == fit.certificate["exchanges"] <= 12
    assert found.certificate["gap"] <= found.certificate["tol"]
    own, other = (model.training["held_out"]["overall"]["c-index"] for model in (found, fit))
    assert own == pytest.approx(other, abs=1e-9 if goal == "cox" else 0.05)
    if goal == "cox":
        for one, two in zip(found.training["effects"]["rows"], fit.training["effects"]["rows"], strict=True):
            assert one["estimate"] == pytest.approx(two["estimate"], abs=1e-8)
            assert one["error"] == pytest.approx(two["error"], abs=1e-8)


@pytest.mark.slow
def test_nothing_that_leaves_a_site_has_a_length_of_its_rows_or_events(tmp_path):
    shapes = []
    for rows in (300, 450):
        (folder := tmp_path / str(rows)).mkdir()
        seen: list = []
        run_in_threads(sites_of(folder, rows=rows), noting(seen))
        shapes.append(
            {(r.task, name): np.shape(a) for _, r, arrays in seen for name, a in arrays.items() if a.dtype.kind == "f"}
        )
        times = np.unique(columns(rows)["days"])
        for _, _, arrays in seen:  # no time of a row is among the numbers, but by chance one
            for array in arrays.values():
                values = np.asarray(array).ravel()
                if values.dtype.kind == "f":
                    assert np.isin(values[values > 50], times).sum() <= 1
    both = shapes[0].keys() & shapes[1].keys()
    assert len(both) > 5
    assert all(shapes[0][key] == shapes[1][key] for key in both)


def test_the_rarer_of_events_and_rows_without_is_what_a_sites_rules_are_about():
    table = {**columns(40), "died": np.where(np.arange(40) < 3, 1, 0)}
    own = Table(
        {name: np.asarray(column) for name, column in table.items() if name not in ("site", "ward")}, "stays.csv"
    )
    recipe = TableRecipe("cox", ("days", "died"), id="patient")
    assert smallest_groups(own, recipe)["died"] == 3

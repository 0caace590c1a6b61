"""The penalty of a table is chosen once and kept; what cannot be chosen is refused, or said, in one sentence."""

import csv
import json

import numpy as np
import pytest
from support.command_line import cli, refused

from fedualex.algorithms import newton
from fedualex.tables import penalty
from fedualex.tables.choosing import PartiesHere
from fedualex.tables.fit import fit_into, plan_fit
from fedualex.tables.penalty import PENALTY, choose_penalty


@pytest.fixture
def few_values(monkeypatch):
    """Paths of four values."""
    whole = penalty.search
    monkeypatch.setattr(penalty, "search", lambda *given, **options: whole(*given, count=4, **options))


def chosen(settings, folder):
    planned = plan_fit(settings, folder)

    def parties():
        return PartiesHere([party.fold(planned.known) for party in planned.parties.members])

    return choose_penalty(planned.recipe, planned.known, parties)


def table(folder, rows=120, columns=3, sites=4, seed=0):
    """A file with a target of numbers, one of classes, weights of rows, and whose each row is."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    number = X[:, 0] + 0.5 * rng.normal(size=rows)
    made = {f"x{j}": X[:, j] for j in range(columns)} | {"number": number, "other": X[:, 0] - X[:, 1]}
    made |= {"label": np.where(number > 0, "yes", "no"), "counts": rng.integers(1, 4, rows)}
    made["site"] = np.array([f"site {m}" for m in np.arange(rows) % sites])
    lines = [",".join(made), *(",".join(map(str, row)) for row in zip(*made.values(), strict=True))]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    return {"table": "rows.csv", "holdout": 0.0}


def test_a_choice_is_kept_and_not_made_again(tmp_path, few_values, monkeypatch):
    told, again = [], []
    settings = {"table": "bundled:wine", "target": "target", "clients": 3, "l1": "auto"}
    first = fit_into(tmp_path / "fit", plan_fit(settings, tmp_path), told.append)
    kept = json.loads((tmp_path / "fit" / PENALTY).read_text())
    assert kept["curve"]["missed"] == 0
    assert max(kept["curve"]["gaps"]) <= kept["curve"]["tol"]
    assert told[0] == "l1 is being chosen by held-out rows"
    assert sum(text.startswith("exchange") for text in told) == kept["curve"]["exchanges"]
    assert told[-1] == kept["sentence"]
    monkeypatch.setattr(penalty, "search", None)
    second = fit_into(tmp_path / "fit", plan_fit(settings, tmp_path), again.append)
    assert again == told[-1:]
    np.testing.assert_array_equal(first.weights, second.weights)


def test_a_nuclear_norm_of_a_table(tmp_path, few_values):
    settings = {**table(tmp_path), "target": ["number", "other"], "goal": "low-rank", "nuclear": "auto", "clients": 3}
    found = chosen({**settings, "ignore": ["label", "counts", "site"]}, tmp_path)
    assert found.name == "nuclear"
    assert found.curve.missed == 0
    assert found.curve.nonzeros[-1] == 2


def test_weights_of_rows_change_the_path(tmp_path, few_values):
    settings = {**table(tmp_path), "target": "number", "l1": "auto", "clients": "site", "ignore": ["label", "other"]}
    plain, weighed = (
        chosen({**settings, **more}, tmp_path)
        for more in ({"ignore": ["label", "other", "counts"]}, {"weights": "counts"})
    )
    assert plain.curve.missed == weighed.curve.missed == 0
    assert plain.curve.values[0] != pytest.approx(weighed.curve.values[0], rel=1e-3)


def test_sites_are_left_out_in_turn(tmp_path, few_values):
    settings = {**table(tmp_path), "target": "label", "l1": "auto", "clients": "site", "folds": "sites"}
    found = chosen({**settings, "ignore": ["number", "other", "counts"]}, tmp_path)
    assert found.curve.folds == 4
    assert found.curve.missed == 0


def test_fewer_rows_than_columns(tmp_path, few_values):
    settings = {**table(tmp_path, rows=48, columns=60), "target": "number", "l1": "auto", "clients": 3}
    found = chosen({**settings, "ignore": ["label", "other", "counts", "site"]}, tmp_path)
    assert found.curve.values[-1] == pytest.approx(1e-2 * found.curve.values[0])
    assert found.curve.missed == 0


def test_who_has_fewer_rows_than_folds_is_named(tmp_path):
    settings = {**table(tmp_path, rows=15, sites=5), "target": "number", "l1": "auto", "clients": "site"}
    with pytest.raises(ValueError, match="site 0 must have at least 5 rows, one for each fold, got 3"):
        chosen({**settings, "ignore": ["label", "other", "counts"]}, tmp_path)


def test_columns_that_tell_nothing_leave_the_model_without_weights(tmp_path):
    settings = {**table(tmp_path), "target": "number", "l1": "auto", "clients": 3}
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    still = [lines[0], *(",".join(["1.5", "2.5", "3.5", *line.split(",")[3:]]) for line in lines[1:])]
    (tmp_path / "rows.csv").write_text("\n".join(still) + "\n")
    settings["ignore"] = ["label", "other", "counts", "site"]
    model = fit_into(tmp_path / "fit", plan_fit(settings, tmp_path))
    assert np.all(model.weights == 0)
    assert "No feature tells anything" in json.loads((tmp_path / "fit" / PENALTY).read_text())["sentence"]


def test_many_variables_are_not_chosen_for_though_some_columns_would_solve_them(tmp_path, monkeypatch):
    """As if three variables were many under l1: problems that are solved together have all columns."""
    monkeypatch.setattr(newton, "MANY", 3)
    monkeypatch.setattr(newton, "WORKING", 2)
    ignored = {"ignore": ["number", "other", "counts", "site"], "clients": 3}
    settings = {**table(tmp_path), "target": "label", "goal": "logistic", **ignored}
    why = "second derivatives of 4 variables are too many"
    found = chosen(settings, tmp_path)
    assert found.curve is None
    assert found.sentence.endswith(f"a default that was not chosen by held-out rows: {why}.")
    with pytest.raises(ValueError, match=why):
        chosen({**settings, "l1": "auto"}, tmp_path)


def test_the_path_is_a_table_on_request(tmp_path, few_values):
    settings = {**table(tmp_path), "target": "label", "clients": "site", "ignore": ["number", "other", "counts"]}
    model = fit_into(tmp_path / "fit", plan_fit(settings, tmp_path))
    shown = cli("summary", tmp_path / "fit", "--path", "--out", tmp_path / "path.csv").output
    assert model.training["penalty"]["sentence"] in " ".join(shown.split())
    rows = list(csv.DictReader((tmp_path / "path.csv").read_text().splitlines()))
    curve = model.training["penalty"]["curve"]
    assert [float(row["l1"]) for row in rows] == curve["values"]
    assert [float(row["certified_gap"]) for row in rows] == curve["gaps"]
    assert "chosen" in rows[curve["chosen"]]["mark"]
    assert json.loads(cli("summary", tmp_path / "fit", "--path", "--json").output)["measure"] == curve["measure"]
    fit_into(tmp_path / "given", plan_fit({**settings, "l1": 0.1}, tmp_path))
    assert "this model has no path of penalties: l1 = 0.1, as given." in refused(
        "summary", tmp_path / "given", "--path"
    )

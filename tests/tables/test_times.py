"""Times to an event in a table: a fit beside statsmodels, measures, refusals, files and verification."""

import csv

import numpy as np
import pytest
from statsmodels.duration.hazard_regression import PHReg
from support.command_line import cli, refused, strict
from support.times import FIT, columns, write

from fedualex import models
from fedualex.deploy.consortium.agreement import why_no_penalty
from fedualex.problems.risk_sets import concordance_sums
from fedualex.tables import penalty
from fedualex.tables.choosing import PartiesHere
from fedualex.tables.fit import plan_fit


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with a table and its model without penalty, and what the fit printed."""
    place = tmp_path_factory.mktemp("times")
    write(place / "stays.csv", columns())
    options = (*FIT, "--l1", "0", "--l2", "0", "--holdout", "0", "--out", place / "fit")
    return place, cli("fit", place / "stays.csv", *options).output


def test_coefficients_and_errors_are_those_of_statsmodels(fitted):
    place, text = fitted
    table = columns()
    encoded = np.stack([table["age"], table["dose"], table["ward"] == "b", table["ward"] == "c"], axis=1).astype(float)
    known = PHReg(table["days"], encoded, status=table["died"], strata=table["site"], ties="breslow").fit(disp=0)
    effects = strict(cli("summary", place / "fit", "--json").output)
    rows = {row["name"]: row for row in effects["rows"]}
    for j, name in enumerate(("age", "dose", "ward=b", "ward=c")):
        assert rows[name]["estimate"] == pytest.approx(known.params[j], abs=1e-6)
        assert rows[name]["error"] == pytest.approx(known.bse[j], abs=1e-5)
        assert rows[name]["ratio"] == pytest.approx(np.exp(known.params[j]), rel=1e-6)
        assert rows[name]["bound"] <= 1e-6
    assert "hazard ratio" in text
    assert "Effects on the hazard of died" in text
    assert "(intercept)" not in text
    assert set(effects["others"]) >= {"sandwich"}


def test_the_gap_without_penalty_is_proved_and_verified(fitted):
    place, _ = fitted
    assert models.load(place / "fit").certificate["gap"] <= 1e-12
    assert "VERIFIED" in cli("verify", place / "fit").output


def test_predictions_are_scores_and_relative_hazards(fitted):
    place, _ = fitted
    cli("predict", place / "fit", place / "stays.csv", "--keep", "patient", "--out", place / "p.csv")
    rows = list(csv.DictReader((place / "p.csv").read_text().splitlines()))
    assert set(rows[0]) == {"patient", "prediction", "relative hazard"}
    assert float(rows[3]["relative hazard"]) == pytest.approx(np.exp(float(rows[3]["prediction"])))


def test_survival_is_that_of_the_clients_own_baseline_hazard(fitted):
    place, _ = fitted
    options = ("--survival", "100,1e9", "--clients", "site", "--out", place / "s.csv")
    cli("predict", place / "fit", place / "stays.csv", *options)
    rows = list(csv.DictReader((place / "s.csv").read_text().splitlines()))
    table, row = columns(), 5
    own = table["site"] == table["site"][row]
    time, event = table["days"][own], table["died"][own]
    relative = np.array([float(r["relative hazard"]) for r in rows])
    hazard = sum(1 / relative[own][time >= t].sum() for t in time[(event == 1) & (time <= 100)])
    assert float(rows[row]["survival at 100"]) == pytest.approx(np.exp(-hazard * relative[row]), rel=1e-9)
    assert rows[row]["survival at 1e+09"] == ""
    assert "survival needs clients" in refused("predict", place / "fit", place / "stays.csv", "--survival", "100")
    assert "must be times such as" in refused("predict", place / "fit", place / "stays.csv", "--survival", "soon")


def test_the_c_index_of_all_rows_and_of_pairs_within_clients(fitted):
    place, _ = fitted
    new = columns(rows=90, seed=3)
    write(place / "new.csv", new)
    model = models.load(place / "fit")
    scores = model.decision_function({name: np.asarray(new[name]) for name in ("age", "dose", "ward")})
    pooled = strict(cli("evaluate", place / "fit", place / "new.csv", "--json").output)
    found = concordance_sums(new["days"], new["died"], scores)
    assert pooled["overall"]["c-index"] == pytest.approx(found["concordant"] / found["comparable"], rel=1e-12)
    lower, upper = pooled["intervals"]["overall"]["c-index"]
    assert 0.5 < lower < pooled["overall"]["c-index"] < upper < 1
    within = strict(cli("evaluate", place / "fit", place / "new.csv", "--clients", "site", "--json").output)
    each = [
        concordance_sums(*(np.asarray(a)[new["site"] == s] for a in (new["days"], new["died"], scores)))
        for s in ("bonn", "oslo", "york")
    ]
    total = sum(one["concordant"] for one in each) / sum(one["comparable"] for one in each)
    assert within["overall"]["c-index"] == pytest.approx(total, rel=1e-12)


def bootstrap_deviation(time, event, scores, rng):
    picks = (rng.integers(0, len(time), len(time)) for _ in range(400))
    sums = [concordance_sums(time[i], event[i], scores[i]) for i in picks]
    return np.std([one["concordant"] / one["comparable"] for one in sums])


def test_the_error_of_a_c_index_is_that_of_the_bootstrap():
    from fedualex.inference.measures import measure, summarize_times

    rng, table = np.random.default_rng(0), columns(rows=150, seed=5)
    scores = 0.06 * table["age"] - 0.5 * table["dose"]
    given = (table["days"], table["died"], scores)
    error = measure(summarize_times(*given))["c-index"].error
    assert error == pytest.approx(bootstrap_deviation(*given, rng), rel=0.15)


BAD = [
    ({"days": -3.0}, "the time 'days' must be a number >= 0, got -3.0 in row 8 (patient p7"),
    ({"days": ""}, "the time 'days' must be a number >= 0, got nothing in row 8 (patient p7"),
    ({"died": 2}, "the event 'died' must be 1 where the event happened at the time of the row, else 0, got 2 in row 8"),
    ({"died": "yes"}, "the event 'died' must be 1 where the event happened at the time of the row, else 0, got "),
]


@pytest.mark.parametrize(("change", "words"), BAD, ids=[str(case[0]) for case in BAD])
def test_bad_times_and_events_are_refused_by_row(tmp_path, change, words):
    table = columns(rows=40)
    for name, value in change.items():
        table[name] = [value if i == 7 else old for i, old in enumerate(np.asarray(table[name]).tolist())]
    assert words in refused("fit", write(tmp_path / "t.csv", table), *FIT)


def test_options_that_do_not_fit_are_refused(tmp_path):
    path = write(tmp_path / "t.csv", columns(rows=40), died=[0] * 40)
    assert "every row of every client is censored" in refused("fit", path, *FIT)
    assert "needs time and event, the names of two columns" in refused("fit", path, "--goal", "cox", "--time", "days")
    assert "time and event are for the goals cox, fair-cox, limits-cox, got the goal lasso" in refused(
        "fit", path, *FIT, "--goal", "lasso"
    )
    assert "has no column 'dayz'" in refused("fit", path, "--time", "dayz", "--event", "died")


def many_columns(beta, rows=300, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, len(beta)))
    died, seen = rng.exponential(np.exp(-X @ beta)), rng.exponential(0.5, rows)
    found = {f"x{j}": X[:, j].round(4) for j in range(len(beta))}
    found |= {"site": np.arange(rows) % 3, "days": np.minimum(died, seen), "died": (died <= seen).astype(int)}
    return found


def test_held_out_rows_decide_whether_few_columns_are_kept_or_all_are_shrunk(tmp_path, monkeypatch):
    whole = penalty.search
    monkeypatch.setattr(penalty, "search", lambda *given, **options: whole(*given, count=6, **options))
    rng = np.random.default_rng(0)
    for name, beta in (("l1", np.array([1.0, 1.0, *[0.0] * 18])), ("l2", 0.2 * rng.choice([-1, 1], 20))):
        path = write(tmp_path / f"{name}.csv", many_columns(beta))
        wanted = {"table": str(path), "time": "days", "event": "died", "clients": "site", "holdout": 0.0}
        planned = plan_fit(wanted, tmp_path)
        members = [PartiesHere([party.fold(planned.known) for party in planned.parties.members])]
        found = penalty.choose_penalty(planned.recipe, planned.known, members.pop)
        assert (found.name, *found.others) == (name, "l2" if name == "l1" else "l1")
        assert set(found.others.values()) == {0.0}
        assert found.curve.rule == ("best" if name == "l2" else "one-standard-error")
        assert f"Along {'l2' if name == 'l1' else 'l1'} the least is" in found.sentence
        assert not why_no_penalty(planned.recipe, planned.known, found.as_known)
        both = {key: value + 1 for key, value in found.as_known.items()}
        assert "second penalty" in why_no_penalty(planned.recipe, planned.known, both)
        asked = plan_fit({**wanted, "l1": "auto"}, tmp_path).recipe
        assert asked.penalties == ("l1",)


@pytest.mark.slow
def test_a_monotone_likelihood_has_no_optimum_and_says_so(tmp_path):
    table = columns()
    table["dose"] = -np.where(table["died"] == 1, table["days"], 1e4)  # the earlier, the larger
    path = write(tmp_path / "t.csv", table)
    assert "separable along" in refused("fit", path, *FIT, "--l1", "0", "--l2", "0", "--out", tmp_path / "fit")


@pytest.mark.slow
@pytest.mark.parametrize("goal", ["cox", "fair-cox"])
def test_a_penalty_is_chosen_and_the_run_verified(tmp_path, goal):
    write(tmp_path / "stays.csv", columns())
    text = cli("fit", tmp_path / "stays.csv", *FIT, "--goal", goal, "--out", tmp_path / "fit").output
    assert "held-out rows (5 folds)" in " ".join(text.split())
    model = models.load(tmp_path / "fit")
    assert model.certificate["gap"] <= 1e-5
    assert model.certificate["exchanges"] <= 15
    assert model.training["held_out"]["overall"]["c-index"] > 0.55
    assert "VERIFIED" in cli("verify", tmp_path / "fit" / "run").output
    assert ("ordinary model" in text) == (goal == "fair-cox")

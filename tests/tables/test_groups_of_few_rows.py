"""Groups that are too small to be judged are one group, here as between sites; and what a fair model says first."""

from dataclasses import replace

import numpy as np
import pytest
from support.consortium import run_in_threads
from support.patients import HOSPITALS, write

from fedualex import models
from fedualex.data import bundled, read_csv
from fedualex.deploy.consortium.kit import write_table_deployment
from fedualex.deploy.policy import POLICY
from fedualex.runs.settings import ConfigurationError
from fedualex.tables.fit import fit_into, plan_fit
from fedualex.tables.ordinary import judge_fairness
from fedualex.tables.weights import are_merged

SIZES = {"east": 200, "north": 45, "west": 40}
FIT = {"table": "all.csv", "target": "outcome", "goal": "fair", "l1": 0.02, "l2": 0.0, "holdout": 0.0, "tol": 1e-8}
FIT |= {"least_rows": 60}  # sites of fewer rows than 20 would not release second derivatives


@pytest.mark.parametrize(
    ("rows", "merged"),
    [
        ([30, 40, 50], []),
        ([30, 4, 9, 7, 40], [1, 2, 3]),
        ([30, 4, 40], [0, 1]),  # one small group alone would rule as before
        ([30, 4, 5, 40], [0, 1, 2]),
        ([3, 4], [0, 1]),
        ([19.0000001, 19.9999999, 21.0], [0, 1]),  # sums under masks
        ([5], []),
    ],
)
def test_the_smallest_groups_are_one_until_it_has_rows_enough(rows, merged):
    assert np.flatnonzero(are_merged(np.array(rows, float), 20)).tolist() == merged


def columns(seed=0):
    """Three hospitals, and wards that are spread over them, of which A and B are small."""
    rng = np.random.default_rng(seed)
    hospital = np.repeat(list(SIZES), list(SIZES.values()))
    rows = len(hospital)
    ward = rng.permutation(np.array(["A"] * 20 + ["B"] * 45 + ["C"] * 90 + ["D"] * (rows - 155)))
    age, dose = rng.normal(50, 12, rows), rng.exponential(2.0, rows)
    score = (age - 50) / 8 - 0.8 * (dose - 2) + (ward == "C") + (hospital == "west") + rng.normal(size=rows)
    named = {"age": age, "dose": dose, "ward": ward, "hospital": hospital}
    named["outcome"] = np.where(score > 0, "sick", "well")
    return {name: column.tolist() for name, column in named.items()}


@pytest.fixture
def place(tmp_path):
    whole = columns()
    write(tmp_path / "all.csv", whole)
    for name in HOSPITALS:
        own = [i for i, hospital in enumerate(whole["hospital"]) if hospital == name]
        write(
            tmp_path / f"{name}.csv",
            {key: [values[i] for i in own] for key, values in whole.items() if key != "hospital"},
        )
    return tmp_path


def test_small_groups_are_named_and_are_one_group(place):
    planned = plan_fit({**FIT, "clients": "hospital", "groups": "ward"}, place)
    assert "groups of few rows (under 60, or too few together) count as one: A, B" in planned.notes
    assert planned.configuration.problem.like.y.size == 3
    alone = plan_fit({**FIT, "clients": "hospital", "groups": "ward", "least_rows": 0}, place)
    assert alone.configuration.problem.like.y.size == 4
    renamed = {**columns(), "ward": [{"A": "AB", "B": "AB"}.get(ward, ward) for ward in columns()["ward"]]}
    write(place / "all.csv", renamed)
    written = fit_into(place / "written", plan_fit({**FIT, "clients": "hospital", "groups": "ward"}, place))
    write(place / "all.csv", columns())
    merged = fit_into(place / "merged", planned)
    np.testing.assert_allclose(merged.weights, written.weights, atol=1e-6)


@pytest.mark.parametrize("groups", [{"groups": "ward"}, {}], ids=["groups", "clients"])
def test_sites_merge_what_a_fit_merges(place, groups):
    planned = plan_fit({**FIT, "clients": "hospital", **groups}, place)
    here = fit_into(place / "fit", planned)
    assert len(planned.recipe.merged_groups(planned.known)) == 2
    own = {name: {"table": str(place / f"{name}.csv")} for name in HOSPITALS}
    wanted = {key: value for key, value in FIT.items() if key != "table"} | groups
    run = {"secure_sums": "off", "timeout": 300.0}
    write_table_deployment(place / "there", wanted, own, {}, run, {"name": "FeDualNewton"})
    for name in HOSPITALS:  # rules that merge rare categories would make another table
        (place / "there" / "sites" / name / POLICY).write_text("")
    run_in_threads(place / "there")
    there = models.load(place / "there" / "server")
    np.testing.assert_allclose(there.weights, here.weights, atol=1e-9)
    assert there.certificate["exchanges"] == here.certificate["exchanges"]


def test_sites_that_are_one_group_share_its_weight(place):
    planned = plan_fit({**FIT, "clients": "hospital"}, place)
    shares = planned.recipe.shares_of_parties(planned.known, np.array([[0.6, 0.4]]))
    np.testing.assert_allclose(shares, [[0.4, 0.3, 0.3]])  # the merged group is the first of the problem
    plain = replace(planned.recipe, least_rows=0).shares_of_parties(planned.known, np.array([[0.2, 0.3, 0.5]]))
    np.testing.assert_allclose(plain, [[0.2, 0.3, 0.5]])


def test_rows_must_be_a_whole_number(place):
    with pytest.raises(ConfigurationError, match="least_rows must be a whole number >= 0, got -1"):
        plan_fit({**FIT, "clients": "hospital", "least_rows": -1}, place)


def test_a_constant_and_a_fair_model_that_is_no_better_say_so_first(place):
    held = {**FIT, "clients": "hospital", "holdout": 0.3, "tol": 1e-6}
    constant = fit_into(place / "constant", plan_fit({**held, "l1": 10.0}, place))
    assert constant.training["verdict"].startswith("This model is a constant: every row gets the same answer. ")
    planned = plan_fit(held, place)
    fair = fit_into(place / "fair", planned)
    table = planned.parties.held_out
    wards = table["ward"]
    ordinary = fit_into(place / "plain", plan_fit({**held, "goal": "logistic"}, place))
    verdict, told = judge_fairness(fair, ordinary, table, wards)
    swapped, _ = judge_fairness(ordinary, fair, table, wards)
    said = "On held-out rows this model does not serve its worst group better than the ordinary one. "
    assert sorted([verdict.startswith(said), swapped.startswith(said)]) == [False, True]
    assert told.startswith("Served worst on held-out rows: ")
    assert judge_fairness(fair, fair, read_csv(place / "all.csv"), np.array(columns()["ward"]))[0].startswith(said)


def tables_for_groups():
    """Six tables with groups: features, whether something happened, and the group of each row."""
    X, label = bundled("breast_cancer")
    yield (
        "areas",
        np.delete(X, 3, axis=1)[:, :8],
        label == 1,
        np.digitize(X[:, 3], np.quantile(X[:, 3], [0.2, 0.5, 0.8])),
    )
    X, days = bundled("diabetes")
    yield "age and sex", X, days > np.median(days), 2 * (X[:, 0] > np.median(X[:, 0])) + (X[:, 1] > 0)
    X, kind = bundled("wine")
    yield "alcohol", X[:, 1:7], kind == 1, np.digitize(X[:, 0], np.quantile(X[:, 0], [0.3, 0.6]))
    for name, districts, most, apart in (("handfuls", 60, 30, 0.7), ("survey", 20, 80, 1.0), ("noise", 15, 40, 0.0)):
        rng = np.random.default_rng(districts)
        sizes = np.round(np.exp(rng.uniform(np.log(3), np.log(most), districts))).astype(int)
        group = np.repeat(np.arange(districts), sizes)
        X = rng.normal(size=(len(group), 4))
        score = (X @ [0.8, -0.5, 0.3, 0.0] + apart * rng.normal(size=districts)[group]) * (name != "noise") - 0.5
        yield name, X, rng.random(len(group)) < 1 / (1 + np.exp(-score)), group


@pytest.mark.slow
def test_on_six_tables_no_fair_model_is_a_constant_or_no_better_without_saying_so(tmp_path):
    seen = []
    for name, X, happened, group in tables_for_groups():
        named = {f"f{j}": X[:, j].tolist() for j in range(X.shape[1])}
        named |= {"group": [f"g{g}" for g in group], "y": np.where(happened, "yes", "no").tolist()}
        write(tmp_path / f"{name}.csv", named)
        for groups in ({"groups": "group"}, {"clients": "group"}, {"groups": "group", "kl": 0.0, "least_rows": 0}):
            wanted = {"table": f"{name}.csv", "target": "y", "goal": "fair", "l1": 0.01, "l2": 0.0, **groups}
            planned = plan_fit(wanted, tmp_path)
            fair = fit_into(tmp_path / f"{name}{len(seen)}", planned)
            table, constant = planned.parties.held_out, all(c.size == 0 for c in fair.coefficients)
            own, usual = (
                fair.training["ordinary"]["worst_group"].partition("by the ordinary model")[i] for i in (0, 2)
            )
            losses = [float(text.partition("loss ")[2].partition(" ")[0]) for text in (own, usual)]
            verdict = fair.training["verdict"]
            assert constant == verdict.startswith("This model is a constant: "), (name, groups)
            if not constant:
                worse = losses[0] > losses[1]
                assert verdict.startswith("On held-out rows this model does not serve its worst group") >= worse, name
            assert len(np.unique(fair.predict_proba(table)[:, 1])) > 1 or constant
            seen.append((name, constant))
    assert len(seen) == 18

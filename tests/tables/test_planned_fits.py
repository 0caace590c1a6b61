"""What a fit says of a table before it computes, and what it leaves out."""

import re

import pytest
from support.patients import columns, write

import fedualex as fx
from fedualex.tables.fit import plan_fit
from fedualex.tables.goals import GOALS, complete_options
from fedualex.tables.penalty import default_penalty

FIT = {"table": "patients.csv", "target": "outcome", "clients": "hospital", "goal": "fair"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table as it comes from a hospital: with ids, dates, a constant word and a word for every street."""
    path = tmp_path_factory.mktemp("plan")
    table = columns()
    rows = len(table["outcome"])
    extra = {
        "patient": list(range(1000, 1000 + rows)),
        "admission": [f"2026-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(rows)],
        "kind": ["acute"] * rows,
        "street": [f"street {min(i % 90, 33)}" for i in range(rows)],
    }
    write(path / "patients.csv", table | extra, without=("days",))
    return path


def test_what_a_person_should_know_of_a_table_is_said(folder):
    planned = plan_fit(FIT, folder)
    assert planned.notes == [
        "if these columns number the rows, leave them out by ignore: patient",
        "columns with many categories, each of which is a feature: street (34)",
    ]
    missing, *said = planned.recipe.describe_columns(planned.known, planned.parties.names)[1:]
    assert re.match(r"Missing values count as the mean of their column: age \d+%, town \d+% of rows\. ", missing)
    assert said == [
        "Columns without a coefficient, which vary not at all, or by less than 1e-12 of their size: unit.",
        "Columns of text that take no part: admission (dates), kind (the same text in every row).",
    ]
    assert not any(name.startswith(("admission", "kind")) for name in planned.encoder.features)


def test_notes_on_columns_that_hardly_vary_are_true_and_huge_ones_are_refused(tmp_path):
    table = columns()
    rows = len(table["outcome"])
    extra = {
        "stamp": [10**18 + i for i in range(rows)],
        "tiny": [1e-300 * (i % 7) for i in range(rows)],
        "far": [1e9 + i % 5 for i in range(rows)],
    }
    write(tmp_path / "patients.csv", table | extra, without=("days",))
    planned = plan_fit(FIT, tmp_path)
    assert planned.notes[:1] == [
        "columns vary by less than 1e-12 of their size, or by too little for float64, and have no coefficient; "
        "subtract what is common, or multiply them: stamp, tiny",
    ]
    deviation = dict(zip(planned.encoder.numbers, planned.encoder.standardizer.deviation, strict=True))
    assert deviation["far"] == pytest.approx(2**0.5, rel=0.05)
    write(tmp_path / "patients.csv", table | {"huge": [1e300 * (i % 3) for i in range(rows)]}, without=("days",))
    with pytest.raises(ValueError, match="the column 'huge' must have a variance that float64 can hold: divide it by"):
        plan_fit(FIT, tmp_path)
    write(tmp_path / "patients.csv", table | {"cost": [1e300 * (i % 3) for i in range(rows)]}, without=("days",))
    with pytest.raises(ValueError, match="the target 'cost' must have a variance that float64 can hold"):
        plan_fit({**FIT, "target": "cost", "goal": "lasso"}, tmp_path)


def test_ignored_columns_take_no_part(folder):
    planned = plan_fit({**FIT, "ignore": ["patient", "street"]}, folder)
    assert planned.encoder.numbers == ("age", "dose", "unit")
    assert set(planned.encoder.categories) == {"town", "ward"}
    assert planned.configuration.resolved["problem"]["ignore"] == ["patient", "street"]
    assert plan_fit(FIT, folder).configuration.resolved["problem"]["ignore"] == []


@pytest.mark.parametrize(
    ("ignore", "message"),
    [
        (["streat"], "has no column 'streat'"),
        ("patient", r"ignore must be a list of columns such as \[.*\], got 'patient'"),
        (["outcome"], "ignore must not name the target, got 'outcome'"),
    ],
)
def test_what_cannot_be_ignored_is_refused(folder, ignore, message):
    with pytest.raises((ValueError, TypeError), match=message):
        plan_fit({**FIT, "ignore": ignore}, folder)


@pytest.mark.parametrize(("options", "limited"), [({}, "sick is limited to 0.1"), ({"limited": "well"}, "well is")])
def test_the_class_whose_loss_is_limited_is_named(folder, options, limited):
    planned = plan_fit({**FIT, "goal": "neyman-pearson", **options}, folder)
    assert planned.notes[0].startswith(f"the mean loss of outcome = {limited}")


def test_default_penalties_shrink_with_the_rows_and_stay_from_2000_on(folder):
    planned = plan_fit(FIT, folder)
    labels, settings = planned.parties.column("outcome"), planned.configuration.resolved["problem"]
    rows = len(labels)
    assert (settings["l1"], settings["l2"]) == ("auto", 0.0)
    found = default_penalty(planned.recipe, planned.known, "nobody could")
    assert (found.value, found.others) == (0.5 / rows, {"l2": 1 / rows})
    assert found.sentence.endswith("a default that was not chosen by held-out rows: nobody could.")
    assert complete_options("logistic", {"l1": 0.1}, labels, 500) == {"l1": 0.1, "l2": 0.002}
    most = GOALS["fair"].defaults(2000)
    assert GOALS["fair"].defaults(10**6) == most == {"l1": 2.5e-4, "l2": 5e-4, "cvar": None, "kl": None}


@pytest.mark.parametrize("goal", ["logistic", "fair"])
def test_labels_of_three_classes_have_a_score_each(goal, tmp_path):
    settings = {"table": "bundled:wine", "target": "target", "clients": 5, "goal": goal, "l1": 0.01}
    assert plan_fit(settings, tmp_path).configuration.problem.like.x["weights"].shape == (13, 3)


BUNDLED = [
    ("breast_cancer", "target", "logistic"),
    ("breast_cancer", "target", "fair"),
    ("breast_cancer", "target", "auc"),
    ("breast_cancer", "target", "neyman-pearson"),
    ("wine", "target", "logistic"),
    ("wine", "target", "fair"),
    ("digits", "target", "logistic"),
    ("digits", "target", "fair"),
    ("diabetes", "target", "lasso"),
    ("diabetes", "target", "fair-regression"),
    ("diabetes", "target", "robust"),
    ("diabetes", "target", "poisson"),
    ("diabetes", "target", "fair-counts"),
    ("diabetes", "s1,s2,s3", "low-rank"),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("table", "target", "goal"), BUNDLED)
def test_bundled_tables_need_twelve_exchanges_to_the_default_tolerance(table, target, goal, tmp_path):
    penalty = {"nuclear": 0.01} if goal == "low-rank" else {"l1": 0.01}
    settings = {"table": f"bundled:{table}", "target": target, "goal": goal, "clients": 5, **penalty}
    planned = plan_fit(settings, tmp_path).configuration
    assert planned.options.tol == 1e-8
    run = fx.solve(planned.problem, planned.method, rounds=13, tol=1e-8)
    assert run.status is fx.Status.OPTIMAL
    assert run.exchanges <= 12

"""`fedualex fit`, `predict`, `explain`: from a table to a certified model that can be used."""

import csv
import io
import json
import re
import shutil

import numpy as np
import pytest
from click.testing import CliRunner
from support.command_line import cli, read, refused, strict
from support.patients import HOSPITALS, columns, write

import fedualex as fx
from fedualex import models
from fedualex.cli import main

FIT = ("--target", "outcome", "--clients", "hospital", "--l1", "0.004")
LEAK = "days"
"""A column that gives the outcome away."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("fit")
    write(path / "patients.csv", without=(LEAK,))
    return path


@pytest.fixture(scope="module")
def fair(place):
    """The folder of a fair model, and what `fit` printed."""
    result = cli("fit", place / "patients.csv", *FIT, "--goal", "fair", "--out", place / "fair")
    assert result.exit_code == 0, result.output
    return place / "fair", result.output


def test_fit_ends_with_the_certificate_the_test_and_named_coefficients(fair):
    path, text = fair
    words = " ".join(text.split())
    assert words.startswith("This model predicts the probability that outcome is well, from 1")
    assert "Goal: fair, the least loss of the client that is served worst, to a certified gap of " in words
    assert "Columns without a coefficient, which vary not at all, or by less than 1e-12 of their size: unit." in words
    assert "Missing values count as the mean of their column: age " in words
    assert re.search(
        r" Certified: no model of this kind has an objective lower by more than \d(\.\d+)?e-(0[789]|1\d)", words
    )
    assert "rows that were held out" in text
    assert all(hospital in text for hospital in HOSPITALS)
    assert re.search(r"town=(Lima|Oslo|Rome)", text)
    assert str(path / "model") in text
    model = models.load(path / "model")
    assert model.certificate["gap"] <= model.certificate["tol"] == 1e-8
    assert model.training["held_out"]["overall"]["accuracy"] > 0.7
    assert sum(model.training["clients"].values()) == model.training["rows"] == 150 - model.training["held_out"]["rows"]
    assert model.classes.tolist() == ["sick", "well"]


def test_the_run_of_a_fit_can_be_verified(fair):
    result = cli("verify", fair[0])
    assert result.exit_code == 0, result.output


def test_predict_is_the_model_on_other_rows(fair, place):
    write(place / "new.csv", columns(rows=40, seed=5), delimiter=";", decimal=",", without=(LEAK, "outcome"))
    shutil.copytree(fair[0] / "model", place / "elsewhere", dirs_exist_ok=True)
    result = cli("predict", place / "elsewhere", place / "new.csv")
    found = list(csv.DictReader(io.StringIO(result.output)))
    model, table = models.load(fair[0] / "model"), fx.data.read_csv(place / "new.csv")
    assert [row["prediction"] for row in found] == model.predict(table).tolist()
    np.testing.assert_allclose([float(row["score"]) for row in found], model.decision_function(table), rtol=1e-15)
    shares = [[float(row["probability of sick"]), float(row["probability of well"])] for row in found]
    np.testing.assert_allclose(shares, model.predict_proba(table), rtol=1e-15)
    assert cli("predict", fair[0], place / "new.csv", "--out", place / "p.csv").output.startswith("40 predictions")
    assert (place / "p.csv").read_text().splitlines() == result.output.splitlines()


def test_a_table_without_a_column_of_training_is_refused_in_a_sentence(fair, place):
    for name in ("town", "dose"):
        write(place / "less.csv", columns(rows=20, seed=5), without=(LEAK, "outcome", name))
        assert f"must have the column '{name}'" in refused("predict", fair[0], place / "less.csv")


def test_unseen_categories_are_said_and_count_as_none(fair, place):
    other = columns(rows=10, seed=7)
    other["town"] = ["Bern"] * 10
    write(place / "bern.csv", other)
    result = CliRunner().invoke(main, ["predict", str(fair[0]), str(place / "bern.csv")])
    assert result.exit_code == 0
    assert result.stderr == "note: town holds categories that were not there in training: Bern\n"


def test_explain_says_what_fit_said(fair):
    text = cli("explain", fair[0]).output
    assert text.splitlines()[0] == fair[1].splitlines()[0]
    found = strict(cli("explain", fair[0], "--json").output)
    model = models.load(fair[0] / "model")
    assert ["(intercept)", f"{model.intercept.item():+.4g}", "-"] in [line.split() for line in text.splitlines()]
    assert found["coefficients"] == {c.feature: c.per_unit.tolist() for c in model.coefficients if c.size > 0}
    assert found["certificate"]["gap"] == model.certificate["gap"]


def test_the_same_through_a_file_and_json(fair, place):
    (place / "fit.toml").write_text(
        '[fit]\ntable = "patients.csv"\ntarget = "outcome"\nclients = "hospital"\ngoal = "fair"\nl1 = 0.004\n'
    )
    found = strict(cli("fit", place / "fit.toml", "--out", place / "again", "--json").output)
    model = models.load(fair[0] / "model")
    np.testing.assert_array_equal(models.load(place / "again" / "model").weights, model.weights)
    assert found["certificate"] == dict(model.certificate)
    shutil.rmtree(place / "again" / "model")  # as if it had been killed before the model was written
    before = (place / "again" / "run" / "status.json").stat().st_mtime_ns
    assert cli("fit", place / "fit.toml", "--out", place / "again").exit_code == 0
    assert (place / "again" / "run" / "status.json").stat().st_mtime_ns == before
    assert (place / "again" / "model" / "model.json").exists()
    line = refused("fit", place / "fit.toml", "--tol", "0.5", "--out", place / "again")
    assert "already holds a finished run with tol = 1e-08, where 0.5 is asked for: choose another --out" in line


def test_a_finished_fit_is_not_taken_for_one_of_a_table_that_has_changed(place):
    table = columns(rows=60)
    write(place / "changing.csv", table, without=(LEAK,))
    command = ("fit", place / "changing.csv", *FIT, "--rounds", 2, "--out", place / "changing")
    assert cli(*command).exit_code == 3
    write(place / "changing.csv", {**table, "dose": table["dose"][::-1]}, without=(LEAK,))
    assert f"already holds a finished run on what {place / 'changing.csv'} held before it was changed" in refused(
        *command
    )


def test_several_targets_in_one_model(place):
    write(place / "stays.csv")
    out = place / "low-rank"
    arguments = ("--target", "days,dose", "--goal", "low-rank", "--clients", "hospital", "--ignore", "outcome")
    text = cli("fit", place / "stays.csv", *arguments, "--out", out).output
    assert "\nCertified: " in text
    assert "r2 of days" in text
    assert text.count("\nCoefficients of days:") == text.count("\nCoefficients of dose:") == 1
    table, model = fx.data.read_csv(place / "stays.csv"), models.load(out)
    rows = list(csv.DictReader(io.StringIO(cli("predict", out, place / "stays.csv").output)))
    assert list(rows[0]) == ["prediction of days", "prediction of dose"]
    found = [[float(value) for value in row.values()] for row in rows]
    np.testing.assert_allclose(found, model.predict(table), rtol=1e-12)
    held = model.training["held_out"]["overall"]
    assert held["r2"] == pytest.approx(np.mean([held["r2 of days"], held["r2 of dose"]]))
    file = '[fit]\ntable = "stays.csv"\ntarget = ["days", "dose"]\nclients = "hospital"\nignore = ["outcome"]\n'
    (place / "stays.toml").write_text(file)
    assert cli("fit", place / "stays.toml", "--out", place / "again-low-rank").exit_code == 0
    np.testing.assert_array_equal(models.load(place / "again-low-rank").weights, model.weights)


def test_one_target_of_a_goal_for_one(place):
    (place / "two.toml").write_text('[fit]\ntable = "patients.csv"\ntarget = ["dose", "unit"]\ngoal = "lasso"\n')
    assert "the goal lasso predicts one column, got target ['dose', 'unit']; several are for low-rank" in refused(
        "fit", place / "two.toml"
    )


def test_a_fit_that_ends_short_of_tol_says_so(place):
    result = cli("fit", place / "patients.csv", *FIT, "--goal", "fair", "--rounds", 2, "--out", place / "short")
    assert result.exit_code == 3
    words = " ".join(result.output.split())
    assert "Tolerance 1e-08 not reached: no model of this kind has an objective lower by more than" in words
    assert "To come nearer, raise --rounds, or accept a larger --tol; with another --out." in words
    assert read(place / "short" / "model", "model.json")["certificate"]["status"] == "CERTIFIED"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "outcom"), "has no column 'outcom'; did you mean 'outcome'"),
        (("--target", "outcome", "--clients", "hospitl"), "has no column 'hospitl'; did you mean 'hospital'"),
        ((), "[fit] needs target, the name of a column"),
        ((*FIT, "--goal", "fare"), "there is no goal 'fare'; did you mean 'fair'"),
        ((*FIT, "--goal", "lasso"), "the target 'outcome' of the goal lasso must be real numbers"),
        (
            ("--target", "dose", "--goal", "lasso", "--limit", "1"),
            "limit is no option of the goal lasso, which has l1, l2",
        ),
        (
            ("--target", "dose", "--goal", "fair"),
            "the goal fair is for classes, but 'dose' holds fractions such as",
        ),
        ((*FIT, "--goal", "fair", "--holdout", "1"), "holdout must be a share of the rows"),
        ((*FIT, "--goal", "fair", "--tol", "-1"), "tol must be"),
        (("--target", "age", "--goal", "lasso"), "the target 'age' must be known in every row, but it is missing in 9"),
        (("--target", "outcome", "--clients", "outcome"), "clients must be another column than the target"),
        (
            ("--target", "outcome", "--clients", "town"),
            "the column of clients 'town' must not contain nan, None or empty",
        ),
        (
            ("--target", "unit", "--goal", "fair"),
            "the target 'unit' of the goal fair must hold at least two classes, got 1",
        ),
        (("--target", "dose,age", "--goal", "low-rank"), "the target 'age' must be known in every row"),
        (("--target", "dose,age"), "has no column 'dose,age'; several targets are for the goal low-rank"),
        (("--target", "dose,dose", "--goal", "low-rank"), "target must name every column once"),
        (
            ("--target", "dose,ward", "--goal", "low-rank"),
            "the target 'ward' of the goal low-rank must be real numbers",
        ),
        (
            ("--target", "dose,unit", "--goal", "low-rank", "--clients", "unit"),
            "clients must be another column than the target, got 'unit'",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(place, arguments, message):
    line = refused("fit", place / "patients.csv", *arguments, "--out", place / "refused")
    assert message in line, line


def test_other_wrong_inputs(fair, place):
    assert "table must be a file .csv" in refused("fit", place / "patients.xlsx", *FIT)
    assert "cannot be read as a CSV file" in refused("fit", place / "none.csv", *FIT)
    assert "is no model: it has no model.json" in refused("predict", place, place / "patients.csv")
    write(place / "less.csv", without=("dose",))
    assert "must have the column 'dose'" in refused("predict", fair[0], place / "less.csv")


@pytest.mark.slow
def test_fairness_over_a_column(place, fair):
    result = cli(
        "fit",
        place / "patients.csv",
        *FIT,
        "--groups",
        "ward",
        "--goal",
        "fair",
        "--rounds",
        3,
        "--out",
        place / "towns",
    )
    assert result.exit_code == 3
    model = models.load(place / "towns" / "model")
    assert "ward" not in model.columns  # whose groups are served is no feature
    assert model.training["configuration"]["problem"]["groups"] == "ward"
    line = refused("fit", place / "patients.csv", *FIT, "--groups", "ward", "--goal", "auc")
    assert "groups are for the goals fair, limits, fair-regression, " in line
    assert line.endswith(", got the goal auc")
    line = refused("fit", place / "patients.csv", *FIT, "--groups", "town", "--goal", "fair", "--out", place / "holes")
    assert "groups must not contain nan, None or empty text" in line


@pytest.mark.slow
def test_solve_on_a_table_keeps_the_model_as_well(place):
    (place / "own.toml").write_text(
        '[problem]\nname = "agnostic"\ncsv = "patients.csv"\ntarget = "outcome"\nstandardize = true\nl1 = 0.001\n'
        'partition = { kind = "by_column", column = "hospital" }\n'
        '[method]\nname = "FeDualSlide"\n[run]\nrounds = 3\n'
    )
    result = cli("solve", place / "own.toml", "--out", place / "own")
    assert result.output.endswith(f"model: {place / 'own' / 'model'}\n")
    model = models.load(place / "own" / "model")
    assert model.training["held_out"] is None
    assert model.training["rows"] == 150
    assert cli("predict", place / "own", place / "patients.csv").exit_code == 0
    assert cli("verify", place / "own").exit_code == 0


@pytest.mark.slow
def test_several_methods_on_a_table_keep_the_model_of_the_best(place):
    (place / "several.toml").write_text(
        '[problem]\nname = "auc"\ncsv = "patients.csv"\ntarget = "outcome"\nstandardize = true\nl2 = 0.01\n'
        'partition = { kind = "by_column", column = "hospital" }\n'
        '[[method]]\nname = "FeDualExCorrected"\neta_c = 1e-6\n[[method]]\nname = "FeDualSlide"\n[run]\nrounds = 12\n'
    )
    result = cli("solve", place / "several.toml", "--out", place / "several")
    assert result.exit_code == 0, result.output
    assert result.output.endswith(f"model of FeDualSlide: {place / 'several' / 'model'}\n")
    model = models.load(place / "several" / "model")
    assert model.training["method"] == "FeDualSlide"
    assert model.training["configuration"]["method"]["name"] == "FeDualSlide"
    assert cli("predict", place / "several", place / "patients.csv").exit_code == 0
    assert cli("verify", place / "several").exit_code == 0


def test_codes_that_happen_to_be_numbers_are_predicted_and_errors_name_column_row_and_value(tmp_path):
    codes = ["01", "2", "3", "A"]
    lines = [f"{40 + i},{codes[i % 4]},{'ab'[i % 3 == 0]},{'nsw'[i % 3]}" for i in range(60)]
    (tmp_path / "all.csv").write_text("\n".join(["age,code,y,site", *lines]) + "\n")
    fit = ("fit", tmp_path / "all.csv", "--target", "y", "--clients", "site", "--goal", "logistic", "--l1", "0.004")
    assert cli(*fit, "--out", tmp_path / "fit").exit_code == 0
    few = [line for line in lines if ",A," not in line]
    (tmp_path / "few.csv").write_text("\n".join(["age,code,y,site", *few]) + "\n")
    found = {}
    for name in ("all", "few"):
        told = json.loads(cli("predict", tmp_path / "fit", tmp_path / f"{name}.csv", "--json").stdout)
        found[name] = told["prediction"], told["score"]
    kept = [i for i, line in enumerate(lines) if line in few]
    assert found["few"][0] == [found["all"][0][i] for i in kept]
    assert found["few"][1] == pytest.approx([found["all"][1][i] for i in kept], rel=1e-12)
    (tmp_path / "few.csv").write_text("\n".join(["age,code", "41,2", "old,3"]) + "\n")
    words = refused("predict", tmp_path / "fit", tmp_path / "few.csv")
    assert "the column 'age' must hold numbers, as when it was fitted, got text, 'old' in row 2 of 2" in words
    (tmp_path / "all.csv").write_text("\n".join(["age,code,y,site", *lines[:5], "4,A,a,", *lines[5:]]) + "\n")
    words = refused(*fit, "--out", tmp_path / "other")
    assert "the column of clients 'site' must not contain nan, None or empty text, got '' in row 6 of 61" in words
    (tmp_path / "all.csv").write_text("\n".join(["age,code,age,site", *lines]) + "\n")
    assert "different names for its columns, got more than one 'age'" in refused(*fit, "--out", tmp_path / "other")

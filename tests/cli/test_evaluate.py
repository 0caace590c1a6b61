"""`fedualex evaluate`, `predict --keep` and `--id`, and what is said of columns: on a table like a clinical one."""

import csv
import io

import numpy as np
import pytest
from click.testing import CliRunner
from support.command_line import cli, refused, strict
from support.heart import heart_columns, write_heart
from support.patients import write

from fedualex import models
from fedualex.cli import main
from fedualex.data import read_csv
from fedualex.tables.measures import evaluate_model

FIT = ("--target", "disease", "--clients", "center", "--id", "patient_id", "--categories", "cp,thal", "--l1", "0.004")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """The folder of tables and of a model, and what `fit` printed."""
    place = tmp_path_factory.mktemp("heart")
    write_heart(place)
    write(place / "new.csv", heart_columns(rows=60, seed=3))
    text = cli("fit", place / "heart.csv", *FIT, "--reference", "thal=3", "--out", place / "fit").output
    return place, text


def test_what_was_done_is_in_the_last_lines_in_explain_and_in_the_folder(fitted):
    place, text = fitted
    done = [
        "Coefficients of categories compare with a reference: cp with ",
        "Columns of numbers that are categories: cp, thal.",
        "Missing values count as the mean of their column: ca ",
    ]
    for output in (text, cli("explain", place / "fit").output):
        lines = " ".join(output.split())
        assert all(sentence in lines for sentence in done)
        assert "thal=7 (against 3)" in lines
    assert text.splitlines()[-2:] == [
        f"model: {place / 'fit' / 'model'}",
        f"next: fedualex report {place / 'fit'}, a page; fedualex predict {place / 'fit'} NEW.csv",
    ]
    assert all(len(line) <= 100 or str(place) in line for line in text.splitlines())
    found = strict(cli("explain", place / "fit", "--json").output)
    assert found["training"]["done"][1] == done[1]
    assert "thal=7 (against 3)" in found["coefficients"]
    assert models.load(place / "fit").training["done"] == found["training"]["done"]


def test_evaluate_measures_all_rows_and_each_client(fitted):
    place, _ = fitted
    model, table = models.load(place / "fit"), read_csv(place / "new.csv")
    result = CliRunner().invoke(
        main,
        ["evaluate", str(place / "fit"), str(place / "new.csv"), "--clients", "center", "--out", str(place / "m.csv")],
    )
    assert result.exit_code == 0, result.output
    assert "On 60 rows of " in result.stdout
    assert all(name in result.stdout for name in ("basel", "cleveland", "zurich", "all clients"))
    assert "note: missing values count as the mean of training: ca (" in result.stderr
    rows = list(csv.DictReader((place / "m.csv").read_text().splitlines()))
    assert [row["client"] for row in rows] == ["all clients", "basel", "cleveland", "zurich"]
    right = model.predict(table) == table["disease"]
    assert float(rows[0]["accuracy"]) == pytest.approx(np.mean(right))
    assert all(float(row["loss lower"]) < float(row["loss"]) < float(row["loss upper"]) for row in rows)
    assert float(rows[3]["accuracy"]) == pytest.approx(np.mean(right[table["center"] == "zurich"]))
    found = strict(CliRunner().invoke(main, ["evaluate", str(place / "fit"), str(place / "new.csv"), "--json"]).stdout)
    assert found["rows"] == 60
    assert found["clients"] == {}
    assert found["overall"]["auc"] == evaluate_model(model, table, None).plain()["overall"]["auc"]


def test_evaluate_refuses_what_cannot_be_measured(fitted):
    place, _ = fitted
    table = heart_columns(rows=30, seed=3)
    write(place / "less.csv", table, without=("disease",))
    assert "has no column 'disease'" in refused("evaluate", place / "fit", place / "less.csv")
    assert "has no column 'centre'; did you mean 'center'" in refused(
        "evaluate", place / "fit", place / "new.csv", "--clients", "centre"
    )
    table["disease"][4] = "perhaps"
    write(place / "other.csv", table)
    said = refused("evaluate", place / "fit", place / "other.csv")
    assert "the target 'disease' must hold no, yes, as in training, got 'perhaps' in row 5 (patient_id P004)" in said
    table["disease"][4] = ""
    write(place / "other.csv", table)
    assert "'disease' must be known in every row, but it is missing in 1, first in row 5 (patient_id P004)" in refused(
        "evaluate", place / "fit", place / "other.csv"
    )


def test_rows_with_holes_are_not_measured_if_they_were_left_out_in_training(fitted):
    place, _ = fitted
    cli("fit", place / "heart.csv", *FIT, "--missing", "drop", "--out", place / "drop")
    result = CliRunner().invoke(main, ["evaluate", str(place / "drop"), str(place / "new.csv"), "--json"])
    found, table = strict(result.stdout), heart_columns(rows=60, seed=3)
    whole = sum(None not in cells for cells in zip(table["thal"], table["ca"], table["trestbps"], strict=True))
    assert found["rows"] == whole
    assert found["notes"] == [f"rows with missing values are left out, as they were in training: {60 - whole}"]
    assert cli("predict", place / "drop", place / "new.csv").output.count("\n") == 61
    table["disease"][50] = "perhaps"
    write(place / "other.csv", table)
    assert "got 'perhaps' in row 51 (patient_id P050)" in refused("evaluate", place / "drop", place / "other.csv")


def test_predict_keeps_columns_as_the_file_has_them(fitted):
    place, _ = fitted
    table = heart_columns(rows=10, seed=3)
    table["patient_id"] = [f"00{i}" for i in range(10)]
    write(place / "few.csv", table, without=("disease",))
    text = cli("predict", place / "fit", place / "few.csv", "--keep", "patient_id,trestbps").output
    found = list(csv.DictReader(io.StringIO(text)))
    assert list(found[0])[:3] == ["patient_id", "trestbps", "prediction"]
    assert [row["patient_id"] for row in found] == table["patient_id"]
    assert found[4]["trestbps"] == ""
    as_json = strict(cli("predict", place / "fit", place / "few.csv", "--keep", "trestbps", "--json").output)
    assert as_json["trestbps"][4] is None
    plain = models.load(place / "fit").predict(read_csv(place / "few.csv")).tolist()
    assert [row["prediction"] for row in found] == plain
    assert "keep: " in refused("predict", place / "fit", place / "few.csv", "--keep", "patient")
    write(place / "twice.csv", {**table, "prediction": ["x"] * 10})
    assert "keep must name columns that predict does not write, got 'prediction'" in refused(
        "predict", place / "fit", place / "twice.csv", "--keep", "prediction"
    )


def test_predict_names_column_row_id_and_value(fitted):
    place, _ = fitted
    table = heart_columns(rows=10, seed=3)
    table["age"][6] = "old"
    write(place / "wrong.csv", {**table, "bed": list(range(10))}, without=("disease",))
    said = refused("predict", place / "fit", place / "wrong.csv")
    assert (
        "the column 'age' must hold numbers, as when it was fitted, got text, 'old' in row 7 (patient_id P006)" in said
    )
    assert "in row 7 (bed 6) of 10" in refused("predict", place / "fit", place / "wrong.csv", "--id", "bed")


def test_codes_are_the_same_however_a_file_writes_them(fitted):
    place, _ = fitted
    table = heart_columns(rows=10, seed=3)
    model = models.load(place / "fit")
    write(place / "plain.csv", table)
    expected = model.decision_function(read_csv(place / "plain.csv"))
    table["thal"] = [None if value is None else int(value) for value in table["thal"]]
    table["cp"] = [f"{value}.0" for value in table["cp"]]
    table["cp"][0] = "never"  # the whole column is text now
    write(place / "codes.csv", table)
    result = CliRunner().invoke(main, ["predict", str(place / "fit"), str(place / "codes.csv")])
    found = [float(row["score"]) for row in csv.DictReader(io.StringIO(result.stdout))]
    np.testing.assert_allclose(found[1:], expected[1:], rtol=1e-12)
    assert result.stderr == "note: cp holds categories that were not there in training: never\n"


@pytest.mark.parametrize("given", ["thal", "=3", "thal="])
def test_a_reference_is_a_column_and_a_level(fitted, given):
    message = refused("fit", fitted[0] / "heart.csv", "--target", "disease", "--reference", given)
    assert "must be COLUMN=LEVEL, such as thal=3" in message


def test_calibrated_probabilities_lie_on_the_line_of_held_out_rows(fitted):
    place, _ = fitted
    write(place / "large.csv", heart_columns(rows=500, seed=4))
    cli("fit", place / "large.csv", *FIT, "--out", place / "large")
    model = models.load(place / "large")
    files = [cli("predict", place / "large", place / "new.csv", *flag).output for flag in ((), ("--calibrated",))]
    plain, moved = ([*csv.DictReader(io.StringIO(text))] for text in files)
    line = model.training["held_out"]["calibration"]["overall"]
    chances = [np.array([float(row["probability of yes"]) for row in rows]) for rows in (plain, moved)]
    odds = [np.log(one / (1 - one)) for one in chances]
    np.testing.assert_allclose(odds[1], line["intercept"][0] + line["slope"][0] * odds[0], rtol=1e-9, atol=1e-9)
    assert [row["prediction"] for row in moved] == [row["prediction"] for row in plain]
    assert abs(line["slope"][0] - 1) > 1e-3
    without = models.Model(model.encoder, model.weights, model.bias, model.answers, model.target)
    with pytest.raises(ValueError, match="this model has no line of calibration: a fit keeps it of two classes"):
        without.calibrated()

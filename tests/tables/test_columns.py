"""Columns as statisticians have them: codes that are categories, references, missing values, and cells that are wrong."""

import numpy as np
import pytest
from support.heart import CENTERS, heart_columns, write_heart

from fedualex.tables.fit import plan_fit

FIT = {"table": "heart.csv", "target": "disease", "clients": "center", "goal": "logistic", "id": "patient_id"}


@pytest.fixture
def place(tmp_path):
    write_heart(tmp_path)
    return tmp_path


def test_codes_are_numbers_with_a_note_until_they_are_named(place):
    planned = plan_fit(FIT, place)
    assert planned.encoder.numbers == ("age", "cp", "thal", "ca", "trestbps")
    (note,) = (note for note in planned.notes if note.startswith("columns of few whole numbers count as numbers"))
    assert note.endswith("should be named in categories: cp (1, 2, 3, 4), thal (3, 6, 7), ca (0, 1, 2, 3)")
    named = plan_fit({**FIT, "categories": ["cp", "thal"]}, place)
    assert named.encoder.numbers == ("age", "ca", "trestbps")
    assert named.encoder.categories["thal"] == ("3", "6", "7")
    assert not any("cp" in note or "thal" in note for note in named.notes)


def test_the_reference_is_the_most_frequent_category_or_what_is_chosen(place):
    planned = plan_fit({**FIT, "categories": ["cp", "thal"]}, place)
    cp = planned.parties.column("cp")
    most = np.unique(cp)[np.argmax(np.unique(cp, return_counts=True)[1])]
    assert planned.encoder.references == {"cp": str(most), "thal": "3", "smoker": "no"}
    assert {"thal=6 (against 3)", "thal=7 (against 3)"} < set(planned.encoder.features)
    assert not any(name.startswith("thal=3") for name in planned.encoder.features)
    for level in ("7", 7, 7.0, "7.0"):
        chosen = plan_fit({**FIT, "categories": ["cp", "thal"], "reference": {"thal": level}}, place)
        assert chosen.encoder.references["thal"] == "7"
        assert chosen.configuration.resolved["problem"]["categories"] == ["cp", "thal"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"categories": ["thall"]}, "categories: .*heart.csv has no column 'thall'; did you mean 'thal'"),
        ({"categories": ["disease"]}, "categories must name features, got 'disease'"),
        ({"categories": "thal"}, r"categories must be a list of columns such as \[.thal.\], got 'thal'"),
        ({"reference": {"smoker": "maybe"}}, r"reference: the column 'smoker' has no category 'maybe'; it has \['no'"),
        (
            {"reference": {"thal": "3"}},
            "reference: the column 'thal' holds no categories; columns of numbers are named",
        ),
        ({"reference": ["thal"]}, "reference must be a table such as"),
        ({"missing": "guess"}, "missing must be one of mean, indicator, drop, got 'guess'"),
        ({"id": "patient"}, "has no column 'patient'; did you mean 'patient_id'"),
        ({"id": "disease"}, "id must be another column than the target"),
    ],
)
def test_wrong_settings_are_refused_by_name(place, settings, message):
    with pytest.raises(ValueError, match=message):
        plan_fit({**FIT, **settings}, place)


def test_columns_that_are_missing_together_have_one_indicator(place):
    planned = plan_fit({**FIT, "categories": ["thal"], "missing": "indicator"}, place)
    assert planned.encoder.indicators == (("ca", "thal"), ("trestbps",))
    assert planned.encoder.features[-2:] == ("ca, thal missing", "trestbps missing")
    table = planned.parties.members[2].trained
    rows = planned.encoder.transform(table)
    gone = np.isnan(table["thal"])
    np.testing.assert_array_equal(rows[:, -2], gone)
    shares = dict(zip(planned.encoder.categories["thal"], planned.encoder.shares["thal"], strict=True))
    column = planned.encoder.features.index("thal=7 (against 3)")
    np.testing.assert_array_equal(rows[gone, column], np.full(gone.sum(), shares["7"]))
    known = np.concatenate([own.trained["thal"] for own in planned.parties.members])
    assert shares["7"] == pytest.approx(np.mean(known[~np.isnan(known)] == 7))


def test_rows_with_holes_can_be_left_out_and_are_counted(place):
    whole = heart_columns()
    planned = plan_fit({**FIT, "missing": "drop"}, place)
    gone = dict.fromkeys(CENTERS, 0)
    for center, *cells in zip(whole["center"], whole["thal"], whole["ca"], whole["trestbps"], strict=True):
        gone[center] += None in cells
    assert (
        dict(zip(planned.parties.names, (own.trained.dropped for own in planned.parties.members), strict=True)) == gone
    )
    trained = [own.trained for own in planned.parties.members]
    assert all(not np.isnan(own["thal"]).any() for own in (*trained, planned.parties.held_out))
    lost = ", ".join(f"{name} {count}" for name, count in gone.items())
    done = planned.recipe.describe_columns(planned.known, planned.parties.names)
    assert f"Rows with missing values were left out: {lost}." in done
    whole["thal"] = [None if c == "zurich" else value for c, value in zip(whole["center"], whole["thal"], strict=True)]
    write_heart(place, whole)
    with pytest.raises(ValueError, match="every row of zurich misses a value, so that missing = drop leaves none"):
        plan_fit({**FIT, "missing": "drop"}, place)


def test_what_was_done_is_said(place):
    planned = plan_fit({**FIT, "categories": ["thal"], "missing": "indicator"}, place)
    assert planned.recipe.describe_columns(planned.known, planned.parties.names) == [
        "Coefficients of categories compare with a reference: thal with 3, smoker with no.",
        "Columns of numbers that are categories: thal.",
        "Missing values count as the mean of their column: ca 24%, trestbps 6%, thal 24% of rows; columns say where: "
        "'ca, thal missing', 'trestbps missing'. Intervals of effects take these means for data, and are too narrow "
        "where many values miss.",
    ]


@pytest.mark.parametrize("column", ["age", "ca"])
def test_one_text_in_a_column_of_numbers_is_refused_by_row_value_id_and_client(place, column):
    whole = heart_columns()
    whole[column][34] = "unknown"
    write_heart(place, whole)
    with pytest.raises(ValueError, match=rf"the column '{column}' must hold numbers or categories") as refusal:
        plan_fit(FIT, place)
    assert "but there is 'unknown' in row 35 (patient_id P034, client cleveland) of 180" in str(refusal.value)
    assert not any(name in str(refusal.value) for name in ("basel", "zurich"))
    if column == "ca":
        named = plan_fit({**FIT, "categories": ["ca"]}, place)
        assert named.encoder.categories["ca"] == ("0", "1", "2", "3", "unknown")


@pytest.mark.parametrize(("column", "named"), [("smoker", "the column 'smoker'"), ("disease", "the target")])
def test_labels_that_differ_by_case_or_blanks_are_refused_by_name(place, column, named):
    whole = heart_columns()
    first = whole["center"].index("zurich")
    at = next(i for i in range(first, 180, 3) if whole[column][i] == "yes")
    for i in range(at, 180, 3):  # some are held out
        whole[column][i] = whole[column][i].replace("yes", "Y es")
    write_heart(place, whole)
    with pytest.raises(ValueError, match=f"{named} must spell a label in one way") as refusal:
        plan_fit(FIT, place)
    assert "'Y es' (zurich)" in str(refusal.value)
    assert "'yes' (basel, cleveland" in str(refusal.value)


def test_clients_that_differ_by_case_are_refused(place):
    whole = heart_columns()
    whole["center"][0] = "Basel"
    write_heart(place, whole)
    with pytest.raises(
        ValueError, match="the column of clients 'center' must spell a label in one way, got 'Basel' and"
    ):
        plan_fit(FIT, place)


def test_weights_count_in_shares_and_references(place):
    whole = heart_columns()
    whole["often"] = [50.0 if value == "yes" else 1.0 for value in whole["smoker"]]
    write_heart(place, whole)
    assert plan_fit({**FIT, "weights": "often"}, place).encoder.references["smoker"] == "yes"

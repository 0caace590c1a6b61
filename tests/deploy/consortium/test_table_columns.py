"""Three centers with a table each: categories, references and missing values are those of a fit of all rows; a wrong
value is told with the site that has it, and with no other.
"""

import numpy as np
import pytest
from support.command_line import cli, refused
from support.consortium import given, noting, run_in_threads
from support.heart import CENTERS, heart_columns, write_heart

from fedualex import models
from fedualex.data import read_csv
from fedualex.deploy import Request
from fedualex.deploy.consortium.deployment import load_site
from fedualex.deploy.consortium.kit import write_table_deployment
from fedualex.deploy.ledger import audit
from fedualex.deploy.wire import make_answerer, reply_from_bytes, request_to_bytes, unpack_summary
from fedualex.runs.settings import ConfigurationError
from fedualex.tables.fit import fit_into, plan_fit

GOAL = {"goal": "logistic", "target": "disease", "id": "patient_id", "tol": 1e-9}
CODED = {**GOAL, "categories": ["cp", "thal"], "reference": {"cp": "2"}}


def deployed(place, secure_sums="off", **fit):
    sites = {name: {"table": str(place / f"{name}.csv")} for name in CENTERS}
    root = place / f"deployment-{secure_sums}"
    write_table_deployment(root, fit, sites, {}, {"secure_sums": secure_sums, "timeout": 300.0})
    return root


def policies(root, text):
    for name in CENTERS:
        (root / "sites" / name / "policy.toml").write_text(text)


@pytest.mark.parametrize("secure_sums", ["off", "on"])
@pytest.mark.parametrize("missing", ["indicator", "drop"])
def test_a_deployment_is_the_fit_of_all_rows(tmp_path, secure_sums, missing):
    write_heart(tmp_path)
    fit = {**CODED, **given("logistic"), "missing": missing}
    root, seen = deployed(tmp_path, secure_sums, **fit), []
    policies(root, "rows_per_parameter = 1\n")  # so that the method is that of the fit
    run_in_threads(root, noting(seen))
    planned = plan_fit({"table": "heart.csv", "clients": "center", **fit}, tmp_path)
    whole, apart = fit_into(tmp_path / "fit", planned), models.load(root / "server")
    assert apart.encoder.features == whole.encoder.features
    assert apart.encoder.references == whole.encoder.references == {"cp": "2", "thal": "3", "smoker": "no"}
    assert apart.encoder.indicators == whole.encoder.indicators
    table = read_csv(tmp_path / "heart.csv")
    np.testing.assert_allclose(apart.encoder.transform(table), whole.encoder.transform(table), rtol=0, atol=1e-9)
    np.testing.assert_allclose(apart.decision_function(table), whole.decision_function(table), rtol=0, atol=1e-9)
    told = [said for said in apart.training["done"] if not said.startswith("It was not tested on held-out rows")]
    assert told == whole.training["done"]  # sites hold out fewer rows than they measure
    third = [arrays for _, request, arrays in seen if request.task == "summary" and request.round == 2]
    sent = [unpack_summary({name: own for name, own in arrays.items() if name != "check"}) for arrays in third]
    assert all({"counts of cp", "counts of thal", "counts of smoker"} <= one.sums.keys() for one in sent)
    assert all(("missing apart" in one.sums) == (missing == "indicator") for one in sent)
    counts = sum(np.asarray(one.sums["counts of smoker"], float) for one in sent)
    rows = sum(own.trained.rows for own in planned.parties.members)
    assert (counts.sum() == pytest.approx(rows)) == (secure_sums == "off")  # what leaves is under masks


def test_check_announces_counts_and_what_is_missing_together(tmp_path):
    write_heart(tmp_path)
    root = deployed(tmp_path, **CODED, missing="indicator")
    text = cli("deploy", "check", root / "sites" / "zurich").output
    assert "counts of thal" in text
    assert "missing apart" in text
    assert "6 summaries" not in text
    policies(root, "least_group = 15\n")
    assert "rows of the rarest value: thal (" in refused("deploy", "check", root / "sites" / "zurich")


def test_one_text_in_a_column_of_numbers_is_told_by_the_site_that_has_it(tmp_path):
    whole = heart_columns()
    whole["trestbps"][34] = "unknown"
    write_heart(tmp_path, whole)
    root = deployed(tmp_path, **GOAL)
    said = refused("deploy", "check", root / "sites" / "cleveland")
    assert "the column 'trestbps' must hold numbers or categories: " in said
    assert "there is 'unknown' in row 12 (patient_id P034) of 60" in said
    for name in ("basel", "zurich"):
        load_site(root / "sites" / name)
    with pytest.raises(ValueError, match="'unknown' in row 12"):
        load_site(root / "sites" / "cleveland")
    told = make_answerer(lambda: load_site(root / "sites" / "cleveland"))
    reply = reply_from_bytes(told(request_to_bytes(Request("columns", 0, "run", {}))))
    assert reply.error.startswith("refused: the site cannot be loaded: CellError in the column 'trestbps' (")
    assert "unknown" not in reply.error  # what is in the cell stays


@pytest.mark.parametrize("secure_sums", ["off", "on"])
def test_a_column_of_text_at_one_site_is_told_with_its_name(tmp_path, secure_sums):
    whole = heart_columns()
    for i, center in enumerate(whole["center"]):
        if center == "zurich" and whole["ca"][i] is not None:
            whole["ca"][i] = "some" if whole["ca"][i] else "none"
    write_heart(tmp_path, whole)
    root = deployed(tmp_path, secure_sums, **GOAL)
    with pytest.raises(ConfigurationError, match="the column 'ca' must hold text at all clients or numbers") as refusal:
        run_in_threads(root)
    assert "got text at zurich and numbers at basel, cleveland" in str(refusal.value)
    assert audit(root / "sites" / "zurich")["totals"]["tasks"] == {"columns": 1, "summary": 1}


@pytest.mark.parametrize(("column", "named"), [("smoker", "the column 'smoker'"), ("disease", "the target")])
def test_labels_that_differ_by_case_between_sites_are_refused_by_name(tmp_path, column, named):
    whole = heart_columns()
    for i, center in enumerate(whole["center"]):
        if center == "basel":
            whole[column][i] = whole[column][i].title()
    write_heart(tmp_path, whole)
    with pytest.raises(ValueError, match=f"{named} must spell a label in one way") as refusal:
        run_in_threads(deployed(tmp_path, **GOAL))
    assert "got 'No' (basel) and 'no' (cleveland, zurich), which differ by case or blanks alone" in str(refusal.value)


def test_a_site_without_a_row_that_is_whole_refuses_itself(tmp_path):
    whole = heart_columns()
    whole["thal"] = [None if c == "zurich" else value for c, value in zip(whole["center"], whole["thal"], strict=True)]
    write_heart(tmp_path, whole)
    root = deployed(tmp_path, **GOAL, missing="drop")
    assert "zurich.csv misses a value, so that missing = drop leaves none" in refused(
        "deploy", "check", root / "sites" / "zurich"
    )
    assert "features" in cli("deploy", "check", root / "sites" / "basel").output

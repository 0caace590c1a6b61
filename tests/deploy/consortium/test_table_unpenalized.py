"""Between sites the model without penalty is that of a fit, found from sums alone; where there is none, it is said."""

import json

import numpy as np
import pytest
from support.consortium import noting, run_in_threads
from support.heart import CENTERS, heart_columns, write_heart
from support.numbers_in_json import numbers_of
from support.times import columns, write

from fedualex import models
from fedualex.cli.deploy_run import ending, ending_words
from fedualex.deploy.clients import SilentSitesError
from fedualex.deploy.consortium.check import check_site
from fedualex.deploy.consortium.deployment import find_unfinished
from fedualex.deploy.consortium.kit import plan_deployment, write_table_deployment
from fedualex.deploy.ledger import audit
from fedualex.runs.settings import ConfigurationError
from fedualex.tables.fit import fit_into, plan_fit
from fedualex.verification.verify import verify

NONE = {"l1": 0.0, "l2": 0.0}
HEART = {"goal": "logistic", "target": "disease", "id": "patient_id", "categories": ["cp", "thal"], **NONE}
COX = {"goal": "cox", "time": "days", "event": "died", "id": "patient", "reference": {"ward": "a"}, **NONE}


def deployed(folder, names, secure_sums="off", policy="", **fit):
    tables = {name: {"table": str(folder / f"{name}.csv")} for name in names}
    root = folder / f"deployment-{secure_sums}"
    write_table_deployment(root, fit, tables, {}, {"secure_sums": secure_sums, "timeout": 300.0, "patience": 0.1})
    for name in names:
        (root / "sites" / name / "policy.toml").write_text(f"{policy}least_held_out = 5\n")
    return root


def write_times(folder):
    table = columns(300)
    write(folder / "all.csv", table)
    for name in ("bonn", "oslo", "york"):
        own = table["site"] == name
        write(folder / f"{name}.csv", {key: np.asarray(v)[own].tolist() for key, v in table.items() if key != "site"})
    return ("bonn", "oslo", "york")


def same(one, other):
    """Weights, certificate, effects and measures of two models."""
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-9)
    np.testing.assert_allclose(one.bias, other.bias, atol=1e-9)
    told = ("status", "proof", "exchanges", "tol")
    assert {key: one.certificate[key] for key in told} == {key: other.certificate[key] for key in told}
    assert max(model.certificate["gap"] for model in (one, other)) < 1e-15
    for row, twin in zip(one.training["effects"]["rows"], other.training["effects"]["rows"], strict=True):
        both = (numbers_of(own, skip=("bound",)) for own in (row, twin))
        np.testing.assert_allclose(*both, rtol=1e-6, atol=1e-9)
    ours, theirs = (model.training["held_out"]["overall"] for model in (one, other))
    assert ours == pytest.approx(theirs, abs=1e-9)
    assert one.training["penalty"]["sentence"] == other.training["penalty"]["sentence"] == "l1 = l2 = 0, as asked for."


@pytest.mark.parametrize("secure_sums", [pytest.param("off", marks=pytest.mark.slow), "on"])
def test_sites_have_the_model_of_a_fit(tmp_path, secure_sums):
    write_heart(tmp_path, heart_columns(600))
    whole = fit_into(tmp_path / "fit", plan_fit({"table": "heart.csv", "clients": "center", **HEART}, tmp_path))
    seen = []
    root = deployed(tmp_path, CENTERS, secure_sums, **HEART)
    assert run_in_threads(root, noting(seen)) is None
    model = models.load(root / "server")
    same(model, whole)
    tasks = {request.task for _, request, _ in seen}
    assert tasks.isdisjoint({"survey", "curvature", "round", "path"})
    assert ending_words(ending(root)) == "OPTIMAL"
    with pytest.raises(ConfigurationError, match="already holds a model"):
        find_unfinished(root / "server")
    with pytest.raises(ConfigurationError, match="are at its sites, and no run is kept"):
        verify(root / "server")


@pytest.mark.slow
@pytest.mark.parametrize("secure_sums", ["off", "on"])
def test_sites_have_the_unpenalized_hazards_of_a_fit(tmp_path, secure_sums):
    root = deployed(tmp_path, write_times(tmp_path), secure_sums, **COX)
    run_in_threads(root)
    found = plan_fit({"table": "all.csv", "clients": "site", **COX}, tmp_path)
    same(models.load(root / "server"), fit_into(tmp_path / "fit", found))


def test_check_announces_the_sums_that_leave(tmp_path):
    write_heart(tmp_path, heart_columns(300))
    root = deployed(tmp_path, CENTERS, **HEART)
    said = check_site(root / "sites" / CENTERS[0])
    assert "A model without penalty takes no run" in said.words
    run_in_threads(root)
    announced = {(one.task, one.numbers) for one in said.beside}
    left = {
        (line["task"], line["numbers"]) for line in audit(root / "sites" / CENTERS[0])["lines"] if "numbers" in line
    }
    assert {line for line in left if line[0] in ("effects", "measure", "calibrate")} <= announced
    assert {"effects", "measure"} <= {task for task, _ in left}


def test_where_there_is_no_model_it_is_said(tmp_path):
    table = heart_columns(300)
    table["disease"] = np.where(np.asarray(table["age"], float) > 55, "yes", "no").tolist()
    write_heart(tmp_path, table)
    with pytest.raises(ConfigurationError, match=r"there is no model: .* separable along .*age \(\+\)"):
        run_in_threads(deployed(tmp_path, CENTERS, **HEART))
    root = deployed(tmp_path, CENTERS, "auto", 'curvature = "refuse"\n', **HEART)
    with pytest.raises(SilentSitesError, match=r"no valid answer of basel.*second derivatives"):
        run_in_threads(root)
    assert ending(root) is None
    assert json.loads((root / "server" / "failure.json").read_text())["heals"]


def test_refusals_before_anything_is_sent():
    sites, server = ["a", "b", "c"], {}
    with pytest.raises(ConfigurationError, match="l1 or l2 must be > 0 for the goal auc"):
        plan_deployment({**HEART, "goal": "auc"}, sites, server, {})
    with pytest.raises(ConfigurationError, match=r"\[method\] has no part in a model without penalty"):
        plan_deployment(HEART, sites, server, {}, {"name": "FeDualNewton"})

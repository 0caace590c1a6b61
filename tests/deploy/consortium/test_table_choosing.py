"""Between sites a penalty is chosen, effects are found and a model is measured as in a fit of all rows."""

import numpy as np
import pytest
from support.consortium import noting, run_in_threads
from support.heart import CENTERS, heart_columns, write_heart
from support.numbers_in_json import numbers_of

from fedualex import models
from fedualex.deploy.consortium.kit import write_table_deployment
from fedualex.deploy.ledger import audit
from fedualex.deploy.policy import EXAMPLES
from fedualex.tables.fit import fit_into, plan_fit

TOGETHER = ("tasks", "arrays", "exchanges_per_day", "numbers_per_run", "least_rows", "rows_per_parameter")
"""The rules that policy.toml shows which are no refusal of a whole kind: under all of them a run does all that it can."""
FIT = {"goal": "logistic", "target": "disease", "id": "patient_id", "categories": ["cp", "thal"], "tol": 1e-9}


def deployed(place, secure_sums, policy="", name="deployment", **fit):
    sites = {name: {"table": str(place / f"{name}.csv")} for name in CENTERS}
    root = place / f"{name}-{secure_sums}"
    write_table_deployment(root, fit, sites, {}, {"secure_sums": secure_sums, "timeout": 300.0})
    for name in CENTERS:
        (root / "sites" / name / "policy.toml").write_text(policy)
    return root


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("choosing")
    write_heart(folder, heart_columns(900))
    return folder


@pytest.fixture(scope="module")
def whole(place):
    return fit_into(place / "fit", plan_fit({"table": "heart.csv", "clients": "center", **FIT}, place))


@pytest.mark.parametrize("secure_sums", [pytest.param("off", marks=pytest.mark.slow), "on"])
def test_a_deployment_without_a_penalty_has_the_numbers_of_a_fit(place, whole, secure_sums):
    seen = []
    rules = [f"{name} = {EXAMPLES[name]}" for name in (*TOGETHER, *["secure_sums"] * (secure_sums == "on"))]
    root = deployed(place, secure_sums, "\n".join(rules), **FIT)
    run_in_threads(root, noting(seen))
    apart = models.load(root / "server")
    mine, theirs = whole.training, apart.training
    assert theirs["penalty"]["sentence"] == mine["penalty"]["sentence"]
    assert theirs["penalty"]["value"] == pytest.approx(mine["penalty"]["value"], rel=1e-9)
    curves = [np.array(own["penalty"]["curve"]["measure"]) for own in (mine, theirs)]
    np.testing.assert_allclose(*curves, rtol=1e-6)
    np.testing.assert_allclose(apart.weights, whole.weights, atol=1e-9)
    for part in ("effects", "held_out"):
        own = {name: value for name, value in mine[part].items() if name not in ("clients", "others", "curves")}
        for name in own:
            both = (
                numbers_of(own[name], skip=("clients", "bound")),
                numbers_of(theirs[part][name], ("clients", "bound")),
            )
            np.testing.assert_allclose(*both, rtol=1e-6, atol=1e-9, err_msg=f"{part} {name}")
    tasks = [request.task for site, request, _ in seen if site == CENTERS[0]]
    assert tasks.count("path") + tasks.count("curvature") + tasks.count("effects") <= 60
    assert {"fold-summary", "folds", "path", "fold-losses", "effects", "measure", "calibrate"} <= set(tasks)
    told = audit(root / "sites" / CENTERS[0])["lines"]
    assert max(line["sums"] for line in told if line.get("task") == "path") > 100  # all folds and values at once
    assert 2 * sum(line.get("sums", 0) for line in told) <= int(EXAMPLES["exchanges_per_day"])
    assert 2 * sum(line.get("numbers", 0) for line in told) <= int(EXAMPLES["numbers_per_run"])


@pytest.mark.parametrize(
    "policy", ['curvature = "refuse"', 'tasks = ["columns", "summary", "begin", "survey", "model"]']
)
def test_where_a_site_does_not_choose_a_default_is_used_and_said(place, policy):
    root = deployed(place, "off", policy + "\n", f"refusing-{len(policy)}", **{**FIT, "tol": 1e-3})
    run_in_threads(root)
    model = models.load(root / "server")
    assert (
        "a default that was not chosen by held-out rows: no valid answer of basel"
        in model.training["penalty"]["sentence"]
    )
    assert model.training["effects"]["refused"].startswith("there is no table of effects: no valid answer of basel")

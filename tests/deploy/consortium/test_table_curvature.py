"""Second derivatives between sites: the model of `fit` in as many exchanges, and first order where a site refuses."""

import numpy as np
import pytest
from support.patients import HOSPITALS
from support.reconstruction import GOALS, hold, pooled

from fedualex import models
from fedualex.deploy.consortium.deployment import load_site, serve
from fedualex.deploy.policy import POLICY
from fedualex.deploy.threads import thread_engine
from fedualex.tables.fit import fit_into, plan_fit

ROWS = {"east": 120, "north": 100, "west": 90}
TOL = 1e-6


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("goal", ["logistic", "lasso", "auc", "neyman-pearson", "fair, groups", "low-rank"])
def test_sites_have_the_model_of_a_fit_in_as_many_exchanges(tmp_path, goal, masked):
    held = hold(tmp_path, goal, masked, ROWS, tol=TOL)
    deployed = models.load(tmp_path / "deployment" / "server")
    name = goal.partition(",")[0]
    fit = fit_into(tmp_path / "fit", plan_fit(pooled(tmp_path, {"goal": name, "tol": TOL, **GOALS[goal]}), tmp_path))
    np.testing.assert_allclose(deployed.weights, fit.weights, atol=1e-9)
    assert deployed.certificate["exchanges"] == fit.certificate["exchanges"] <= 12
    assert deployed.certificate["gap"] <= TOL
    assert not any(task == "survey" for task, *_ in held.asked)


@pytest.mark.parametrize(
    "rule",
    [
        'curvature = "refuse"',
        "rows_per_parameter = 1000",
        'tasks = ["columns", "summary", "begin", "survey", "measure", "model"]',
    ],
)
def test_where_a_site_refuses_the_run_goes_on_in_first_order(tmp_path, caplog, rule):
    (tmp_path / "allowed").mkdir()
    hold(tmp_path / "allowed", "logistic", True, ROWS, tol=1e-3, rounds=200)
    root = tmp_path / "allowed" / "deployment"
    (root / "sites" / "north" / POLICY).write_text(rule + "\n")
    before = models.load(root / "server")
    seen, sites = [], {name: load_site(root / "sites" / name) for name in HOSPITALS}

    def noted(work):
        def answer(request):
            seen.append(request.task)
            return work(request)

        return answer

    for file in (root / "server" / "run").glob("*"):
        file.unlink()
    serve(thread_engine({name: noted(guard.work) for name, guard in sites.items()}), root / "server")
    after = models.load(root / "server")
    assert seen.count("curvature") == len(HOSPITALS)  # asked for once, of everybody
    assert "survey" in seen
    assert after.certificate["gap"] <= 1e-3
    assert after.certificate["exchanges"] > before.certificate["exchanges"]
    assert "on without second derivatives: no valid answer of north" in caplog.text

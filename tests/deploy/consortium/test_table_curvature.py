"""Second derivatives between sites: the model of `fit` in as many exchanges, and first order where a site refuses.

Whatever a test starts is ended by its process id, even when the test fails.
"""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from support.command_line import cli
from support.consortium import deployment, given, measure_few, noting, run_in_threads, write_tables
from support.deployments import free_port
from support.patients import HOSPITALS
from support.reconstruction import GOALS, hold, pooled, write_sites

import fedualex as fx
from fedualex import models
from fedualex.algorithms import newton
from fedualex.deploy import engines
from fedualex.deploy.consortium.deployment import load_site, serve
from fedualex.deploy.engine import RefusedError
from fedualex.deploy.ledger import audit
from fedualex.deploy.policy import POLICY
from fedualex.deploy.threads import thread_engine
from fedualex.runtime.status import Code
from fedualex.tables import effects
from fedualex.tables.fit import fit_into, plan_fit

ROWS = {"east": 120, "north": 100, "west": 90}
TOL = 1e-6


def assert_like_a_fit(folder, goal, home) -> None:
    """The model in a party's folder is that of a fit, certified after as many exchanges."""
    found, name = models.load(home), goal.partition(",")[0]
    settings = {"goal": name, "tol": TOL, **given(name), **GOALS[goal]}
    fit = fit_into(folder / "fit", plan_fit(pooled(folder, settings), folder))
    np.testing.assert_allclose(found.weights, fit.weights, atol=1e-9)
    assert found.certificate["exchanges"] == fit.certificate["exchanges"] <= 12
    assert found.certificate["gap"] <= TOL


@pytest.mark.sampled(3)
@pytest.mark.parametrize("goal", ["logistic", "lasso", "auc", "neyman-pearson", "fair, groups", "low-rank"])
@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
def test_sites_have_the_model_of_a_fit_in_as_many_exchanges(tmp_path, goal, masked):
    held = hold(tmp_path, goal, masked, ROWS, tol=TOL)
    assert_like_a_fit(tmp_path, goal, tmp_path / "deployment" / "server")
    assert not any(task == "survey" for task, *_ in held.asked)


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("goal", ["fair", "fair-cox"])
def test_sites_that_are_weighed_have_the_model_of_the_simulated_method(tmp_path, monkeypatch, goal, masked):
    """And nearly that of a fit to 1e-10; of second derivatives nothing but sums in x leaves."""
    held = hold(tmp_path, goal, masked, ROWS, tol=TOL, rounds=60)
    found = models.load(tmp_path / "deployment" / "server")
    plan = plan_fit(pooled(tmp_path, {"goal": goal, "tol": TOL, **given(goal), **GOALS[goal]}), tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("fedualex.tables.fit.choose_method", lambda *_: (fx.FeDualCuts(), ""))
        same = fit_into(tmp_path / "same", replace(plan))
    np.testing.assert_allclose(found.weights, same.weights, atol=1e-9)
    assert found.certificate["exchanges"] == same.certificate["exchanges"] <= 60
    assert found.certificate["gap"] <= TOL
    exactly = replace(plan, wanted=replace(plan.wanted, tol=1e-10))
    np.testing.assert_allclose(found.weights, fit_into(tmp_path / "fit", exactly).weights, atol=1e-3)
    assert all(arrays["alike"] for task, _, arrays in held.asked if task == "curvature")
    told = [arrays for task, _, arrays in held.answered if task == "curvature"]
    assert told
    assert all(arrays["curvature.yx"].size == arrays["curvature.yy"].size == 0 for arrays in told)


def test_a_server_that_asks_for_the_block_between_x_and_y_is_refused(tmp_path):
    """Row m of it is the gradient of site m alone; in x alone it is answered."""
    write_sites(tmp_path, ROWS, GOALS["fair"])
    root, seen = deployment(tmp_path, "on", goal="fair", rounds=3, **GOALS["fair"]), []
    run_in_threads(root, noting(seen))
    site = load_site(root / "sites" / "north")
    request = next(request for name, request, _ in seen if (name, request.task) == ("north", "curvature"))
    for alike in (True, False):
        asked = replace(request, arrays={**request.arrays, "alike": np.array(alike)}, nonce=f"another {alike}")
        if alike:
            assert site.work(asked)
            continue
        with pytest.raises(RefusedError, match="no second derivatives of a loss that weighs sites") as refusal:
            site.work(asked)
        assert refusal.value.code == Code.NO_CURVATURE


def test_sites_are_asked_for_some_columns_of_a_wide_table(tmp_path, monkeypatch):
    """As if 5 variables were many."""
    monkeypatch.setattr(newton, "MANY", 5)
    monkeypatch.setattr(newton, "WORKING", 4)
    held = hold(tmp_path, "logistic", True, ROWS, tol=TOL, l1=0.05)
    assert {arrays["columns"].size for task, _, arrays in held.asked if task == "curvature"} <= {4, 5, 0}
    assert any(task == "survey" for task, *_ in held.asked)  # which columns matter
    settings = {"goal": "logistic", "tol": TOL, **given("logistic"), "l1": 0.05, **GOALS["logistic"]}
    fit = fit_into(tmp_path / "fit", plan_fit(pooled(tmp_path, settings), tmp_path))
    found = models.load(tmp_path / "deployment" / "server")
    np.testing.assert_allclose(found.weights, fit.weights, atol=1e-9)
    assert found.certificate["exchanges"] == fit.certificate["exchanges"] <= 12


def test_of_a_wide_table_rows_are_counted_for_all_columns_that_were_asked_for(tmp_path, monkeypatch):
    """The smallest site has rows for 5 of 6 variables: it answers about 4 of them, until others are asked for."""
    monkeypatch.setattr(newton, "MANY", 5)
    monkeypatch.setattr(newton, "WORKING", 4)
    write_sites(tmp_path, ROWS, GOALS["logistic"])
    root, seen = deployment(tmp_path, "on", goal="logistic", tol=1e-3, l1=0.05, **GOALS["logistic"]), []
    for name in HOSPITALS:
        (root / "sites" / name / POLICY).write_text("rows_per_parameter = 18\n")
    run_in_threads(root, noting(seen))
    assert models.load(root / "server").certificate["gap"] <= 1e-3
    tasks = [request.task for _, request, _ in seen if request.task in ("curvature", "survey")]
    assert tasks[:3] == ["survey"] * 3, "which columns matter"
    assert tasks[3:6] == ["curvature"] * 3
    assert set(tasks[-3:]) == {"survey"}, "first order after a refusal"
    for name in HOSPITALS:
        lines = audit(root / "sites" / name)["lines"]
        assert 4 <= len({column for line in lines for column in line["columns"]}) <= 5


def test_columns_that_x_does_not_have_are_refused(tmp_path):
    write_sites(tmp_path, ROWS, GOALS["logistic"])
    root, seen = deployment(tmp_path, goal="logistic", tol=TOL, **GOALS["logistic"]), []
    run_in_threads(root, noting(seen))
    site = load_site(root / "sites" / "north")
    request = next(request for name, request, _ in seen if (name, request.task) == ("north", "curvature"))
    for columns in ([0, 0], [1, 0], [-1, 2], [0, 6]):
        wrong = replace(request, arrays={**request.arrays, "columns": np.array(columns)})
        with pytest.raises(ValueError, match="columns must be different numbers from 0 to 5, in rising order"):
            site.work(wrong)


@pytest.mark.parametrize(("goal", "rows", "tol"), [("logistic", 60, 1e-8), ("logistic", 30, 1e-3), ("fair", 60, 1e-6)])
def test_a_small_tolerance_is_the_default_where_sites_have_rows_enough_for_second_derivatives(
    tmp_path, goal, rows, tol
):
    write_sites(tmp_path, dict.fromkeys(ROWS, rows), GOALS[goal])
    root = deployment(tmp_path, "on", goal=goal, **GOALS[goal])
    run_in_threads(root)
    assert models.load(root / "server").certificate["tol"] == tol


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("goal", ["logistic", "lasso", "auc", "neyman-pearson"])
@pytest.mark.parametrize("engine", ["local", "nvflare"])
def test_processes_have_the_model_of_a_fit_under_masks(tmp_path, engine, goal):
    write_sites(tmp_path, ROWS, GOALS[goal])
    server = {"engine": engine, "port": free_port()}
    root = deployment(tmp_path, "on", "deployment", server, goal=goal, tol=TOL, **GOALS[goal])
    measure_few(root)
    try:
        assert cli("deploy", "up", root).exit_code == 0
        ran = cli("deploy", "run", root)
        assert ran.exit_code == 0, ran.output
    finally:
        engines.control_of(engine).down(root)
    for home in (root / "server", *(root / "sites" / name for name in HOSPITALS)):
        assert_like_a_fit(tmp_path, goal, home)


@pytest.fixture(scope="module")
def allowed(tmp_path_factory):
    """A deployment after a run in which no site refused anything."""
    folder = tmp_path_factory.mktemp("allowed")
    hold(folder, "logistic", True, ROWS, tol=1e-3, rounds=200)
    return folder / "deployment"


@pytest.mark.parametrize(
    "rule",
    [
        'curvature = "refuse"',
        "rows_per_parameter = 1000",
        'tasks = ["columns", "summary", "begin", "survey", "measure", "model"]',
    ],
)
def test_where_a_site_refuses_the_run_goes_on_in_first_order(allowed, tmp_path, caplog, rule):
    root = shutil.copytree(allowed, tmp_path / "deployment")
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


def test_where_a_site_that_is_weighed_refuses_the_run_goes_on_in_first_order(tmp_path, caplog):
    write_sites(tmp_path, ROWS, GOALS["fair"])
    root, seen = deployment(tmp_path, "on", goal="fair", tol=1e-2, rounds=200, **GOALS["fair"]), []
    (root / "sites" / "north" / POLICY).write_text('curvature = "refuse"\n')
    run_in_threads(root, noting(seen))
    assert models.load(root / "server").certificate["gap"] <= 1e-2
    answered = [name for name, request, _ in seen if request.task == "curvature"]
    assert sorted(answered) == ["east", "west"]  # once, of everybody
    assert "on without second derivatives: no valid answer of north" in caplog.text


def test_for_far_too_few_rows_of_a_wide_table_no_effects_are_asked_for(tmp_path, monkeypatch):
    """A square of 100,000 columns has 80 GB."""
    monkeypatch.setattr(effects, "MOST", 2)
    monkeypatch.setattr(effects, "LEAST_EVENTS", 10_000)
    write_tables(tmp_path)
    root = deployment(tmp_path, goal="logistic")
    run_in_threads(root)
    told = models.load(root / "server").training["effects"]["refused"]
    assert re.fullmatch(r"there are \d+ rows for \d parameters, and 10000 for each are needed", told)
    assert "effects" not in audit(root / "sites" / "north")["totals"]["tasks"]

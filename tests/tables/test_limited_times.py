"""Times to an event while some groups' losses are limited: beside a convex solver, infeasible, between sites."""

import json

import cvxpy as cp
import numpy as np
import pytest
from support.command_line import cli, refused
from support.consortium import run_in_threads
from support.references import minimize
from support.times import columns, write

from fedualex import models
from fedualex.deploy.consortium.kit import write_table_deployment
from fedualex.problems.risk_sets import find_losses_of_rows
from fedualex.runs.settings import ConfigurationError
from fedualex.tables.fit import fit_into, plan_fit
from fedualex.tables.ordinary import judge_shares

SITES = ("bonn", "oslo", "york")
WANTED = {"time": "days", "event": "died", "groups": "ward", "id": "patient", "l1": 0.002, "l2": 0.01, "tol": 1e-8}
FIT = {**WANTED, "table": "all.csv", "clients": "site", "limit": {"b": 0.945}}


@pytest.fixture
def place(tmp_path):
    write(tmp_path / "all.csv", columns())
    return tmp_path


def stated(planned):
    """The same for a convex solver: weights, the mean loss of all rows, and the share of each group."""
    w, loss, group, null, rows = None, [], [], [], 0
    for party in planned.parties.members:
        own, rows = party.rows(planned.known), rows + len(party.rows(planned.known).y)
        w = cp.Variable(own.X.shape[1]) if w is None else w
        time, event = own.y.T
        for e in np.flatnonzero(event):
            loss.append(cp.log_sum_exp((own.X[time >= time[e]] - own.X[e]) @ w))
            null.append(np.log(np.sum(time >= time[e])))
            group.append(own.group[e])
    shares = {
        name: sum(one for one, of in zip(loss, group, strict=True) if of == name)
        / sum(one for one, of in zip(null, group, strict=True) if of == name)
        for name in np.unique(group).tolist()
    }
    return w, sum(loss) / rows, shares


@pytest.mark.slow
def test_it_is_the_minimum_of_a_convex_solver(place):
    planned = plan_fit({**FIT, "holdout": 0.0, "limit": {"b": 0.955}}, place)
    assert planned.goal == "limits-cox"
    model = fit_into(place / "fit", planned)
    w, each, shares = stated(planned)
    below = [shares["b"] <= 0.955]
    minimize(each + 0.002 * cp.norm1(w) + 0.005 * cp.sum_squares(w), below)
    assert float(np.squeeze(below[0].dual_value)) > 0.01  # the limit matters
    np.testing.assert_allclose(model.weights, w.value, atol=2e-5)
    assert model.certificate["gap"] <= 1e-8
    assert model.certificate["violation"] <= 1e-8


def test_all_of_it_is_said_and_verified(place):
    options = ("--time", "days", "--event", "died", "--clients", "site", "--id", "patient", "--l1", "0.002", "--json")
    given = (place / "all.csv", *options, "--limit", "oslo=0.99", "--out", place / "fit")
    said = json.loads(cli("fit", *given).output)
    assert said["goal"] == "limits-cox"
    note = "the loss of these groups is limited to a share of what it is without a model: site = oslo to 0.99"
    assert note in said["notes"]
    worst = said["training"]["ordinary"]["worst_group"]
    assert "site = oslo, at most 0.99 of its loss without a model in training: " in worst
    assert "by the ordinary model 0." in worst
    assert said["training"]["ordinary"]["sentence"].endswith("(larger is better)")
    assert cli("verify", place / "fit" / "run").output.startswith("VERIFIED")


def test_a_limit_that_no_model_meets_is_proved_to_be_none(place):
    planned = plan_fit({**FIT, "limit": {"b": 0.9}}, place)
    words = (
        r"there is no model: the limits are infeasible: no model in this domain violates less than .*: ward = b to 0.9$"
    )
    with pytest.raises(ConfigurationError, match=words):
        fit_into(place / "fit", planned)
    found = float(json.loads((place / "fit" / "run" / "status.json").read_text())["least_violation"])
    _, _, shares = stated(planned)
    least = minimize(shares["b"]) - 0.9
    assert 0.8 * least <= found <= least + 1e-7
    assert cli("verify", place / "fit" / "run").output.startswith("VERIFIED")


def test_shares_on_held_out_rows_are_of_the_risk_sets_of_each_client(place):
    planned = plan_fit(FIT, place)
    model = fit_into(place / "fit", planned)
    table, owners = planned.parties.held_out, planned.parties.owners
    losses, null = 0.0, 0.0
    for name in SITES:
        own = table.take(owners == name)
        found = find_losses_of_rows(*np.asarray(own.pick(model.target), float).T, model.decision_function(own))
        losses, null = (total + one[own["ward"] == "b"].sum() for total, one in zip((losses, null), found, strict=True))
    for limit, over in ((1.5, False), (0.5, True)):
        verdict, told = judge_shares(model, model, table, owners, "ward", {"b": limit, "gone": 0.9})
        assert f"ward = b, at most {limit} of its loss without a model in training: {losses / null:.3g} on" in told
        assert "ward = gone has no held-out events to measure its loss by." in told
        assert ("the limit of b is exceeded" in verdict) == over


@pytest.mark.slow
def test_held_out_rows_choose_the_penalty(place):
    settings = {key: value for key, value in FIT.items() if key not in ("l1", "l2")}
    model = fit_into(place / "fit", plan_fit({**settings, "folds": 3, "tol": 1e-6}, place))
    curve = model.training["penalty"]["curve"]
    assert curve["what"] == "loss under the limit"
    assert curve["missed"] == 0
    assert model.certificate["violation"] <= 1e-6


def deploy(place, limit, masks):
    table = columns()
    for name in SITES:
        own = table["site"] == name
        write(place / f"{name}.csv", {key: np.asarray(v)[own].tolist() for key, v in table.items() if key != "site"})
    tables = {name: {"table": str(place / f"{name}.csv")} for name in SITES}
    wanted = {**WANTED, "goal": "limits-cox", "limit": limit}
    write_table_deployment(place / "there", wanted, tables, {}, {"secure_sums": masks, "timeout": 300.0})
    run_in_threads(place / "there")


@pytest.mark.parametrize("masks", ["off", pytest.param("on", marks=pytest.mark.slow)])
def test_sites_have_the_model_of_a_fit(place, masks):
    here = fit_into(place / "fit", plan_fit(FIT, place))
    deploy(place, FIT["limit"], masks)
    there = models.load(place / "there" / "server")
    np.testing.assert_allclose(there.weights, here.weights, atol=1e-9)
    assert there.certificate["exchanges"] == here.certificate["exchanges"]
    assert there.certificate["gap"] <= 1e-8


@pytest.mark.slow
def test_between_sites_limits_that_no_model_meets_are_proved_to_be_none(place):
    limits = {"a": 0.99, "b": 0.93}  # the first one is far away
    with pytest.raises(
        ConfigurationError, match=r"there is no model: the limits are infeasible: .* ward = a to 0.99, ward = b"
    ):
        deploy(place, limits, "on")
    found = json.loads((place / "there" / "server" / "run" / "status.json").read_text())["least_violation"]
    _, _, shares = stated(plan_fit({**FIT, "limit": limits}, place))
    least = minimize(shares["b"]) - 0.93
    assert 0.8 * least <= float(found) <= least + 1e-7


def test_what_does_not_fit_is_refused(place):
    options = ("--time", "days", "--event", "died", "--id", "patient", "--l2", "0.1", "--limit", "b=0.9")
    said = refused("fit", place / "all.csv", *options)
    assert "the goal limits-cox needs groups, the column whose values limit names" in said
    said = refused("fit", place / "all.csv", *options, "--goal", "cox", "--groups", "ward")
    assert "limits of groups are for the goals limits, limits-regression, limits-counts, limits-cox, got" in said

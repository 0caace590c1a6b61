"""Limits of the losses of groups: beside a convex solver, proved infeasible, between sites, and refused."""

import json

import cvxpy as cp
import numpy as np
import pytest
from support.command_line import cli, refused
from support.consortium import run_in_threads
from support.patients import HOSPITALS, columns, write
from support.references import minimize

from fedualex import models
from fedualex.deploy.consortium.deployment import failure_of
from fedualex.deploy.consortium.kit import write_table_deployment
from fedualex.deploy.consortium.messages import read_known
from fedualex.deploy.policy import POLICY
from fedualex.runs.settings import ConfigurationError
from fedualex.tables.fit import fit_into, plan_fit
from fedualex.tables.limits import OTHERS, describe_reached, describe_unmet, limited_labels

GOALS = {
    "limits": {"target": "outcome", "limit": {"A": 0.245, "B": 0.18}, "ignore": ["days"]},
    "limits-regression": {"target": "days", "limit": {"B": 0.0365}, "ignore": ["outcome"]},
    "limits-counts": {"target": "visits", "limit": {"A": 0.58}, "ignore": ["outcome", "days"]},
}
FIT = {"table": "all.csv", "clients": "hospital", "groups": "ward", "l1": 0.01, "l2": 0.002, "tol": 1e-8}


@pytest.fixture
def place(tmp_path):
    whole = columns(400)
    rng = np.random.default_rng(0)
    ward = np.array(whole["ward"])
    dose = np.minimum(np.array(whole["dose"], float), 4.0)
    whole["visits"] = rng.poisson(np.exp(0.3 * dose - 0.4 * dose * (ward == "A"))).tolist()
    write(tmp_path / "all.csv", whole)
    for name in HOSPITALS:
        own = [i for i, hospital in enumerate(whole["hospital"]) if hospital == name]
        table = {key: [values[i] for i in own] for key, values in whole.items() if key != "hospital"}
        write(tmp_path / f"{name}.csv", table)
    return tmp_path


def stated(planned):
    """The same for a convex solver: its variables, the mean loss of all rows and of each group, and the penalty."""
    recipe, known = planned.recipe, planned.known
    parts = [party.rows(known) for party in planned.parties.members]
    examples = [party.examples(known) for party in planned.parties.members]
    X, group = np.concatenate([rows.X for rows in parts]), np.concatenate([rows.group for rows in parts])
    target = np.concatenate([np.asarray(one["target"]) for one in examples])
    weights, bias = cp.Variable(X.shape[1]), cp.Variable()
    score = X @ weights + bias
    match recipe.goal:
        case "limits":
            each = cp.logistic(-cp.multiply(target, score))
        case "limits-regression":
            each = cp.square(score - target) / 2
        case _:
            entropy = target * np.log(np.where(target > 0, target, 1.0)) - target
            each = cp.exp(score) - cp.multiply(target, score) + entropy
    groups = {name: cp.sum(each[np.flatnonzero(group == name)]) / np.sum(group == name) for name in np.unique(group)}
    return (
        (weights, bias),
        cp.sum(each) / len(target),
        groups,
        0.01 * cp.norm1(weights) + 0.001 * cp.sum_squares(weights),
    )


@pytest.mark.parametrize("goal", GOALS)
def test_it_is_the_minimum_of_a_convex_solver(place, goal):
    planned = plan_fit({**FIT, **GOALS[goal], "goal": goal, "holdout": 0.0}, place)
    model = fit_into(place / "fit", planned)
    limits = GOALS[goal]["limit"]
    (weights, bias), each, groups, penalty = stated(planned)
    below = [groups[name] <= limit for name, limit in limits.items()]
    minimize(each + penalty, below)
    assert max(float(np.squeeze(one.dual_value)) for one in below) > 0.01  # some limit matters
    np.testing.assert_allclose(model.weights, weights.value, atol=2e-5)
    assert model.bias == pytest.approx(float(bias.value), abs=2e-5)
    assert model.certificate["gap"] <= 1e-8
    assert model.certificate["violation"] <= 1e-8
    assert "verdict" not in model.training


def test_the_target_and_a_file_decide_for_limits_of_clients_and_all_of_it_is_verified(place):
    (place / "fit.toml").write_text(
        '[fit]\ntable = "all.csv"\ntarget = "outcome"\nclients = "hospital"\nignore = ["days", "visits"]\n'
        "l1 = 0.01\nlimit = { east = 0.25, west = 0.3 }\n"
    )
    said = json.loads(cli("fit", place / "fit.toml", "--out", place / "fit", "--json").output)
    assert said["goal"] == "limits"
    assert "the mean loss of these groups is limited: hospital = east to 0.25, hospital = west to 0.3" in said["notes"]
    assert "hospital" not in {name.partition("=")[0] for name in said["coefficients"]}
    worst = said["training"]["ordinary"]["worst_group"]
    for part in ("hospital = east, at most 0.25 in training: ", "; by the ordinary model ", "Served worst on held-out"):
        assert part in worst
    assert said["training"]["ordinary"]["sentence"].endswith("(smaller is better)")
    assert said["training"]["penalty"]["value"] == 0.01
    assert cli("verify", place / "fit" / "run").output.startswith("VERIFIED")
    told = cli("fit", place / "all.csv", "--target", "outcome", "--clients", "hospital", "--ignore", "days,visits",
               "--l1", "0.01", "--limit", "east=0.25", "--limit", "west=0.3", "--out", place / "again", "--json")  # fmt: skip
    assert json.loads(told.output)["coefficients"] == said["coefficients"]


def test_a_limit_that_no_model_meets_is_proved_to_be_none(place):
    settings = {**FIT, **GOALS["limits"], "goal": "limits", "limit": {"A": 0.2, "B": 0.1}}
    with pytest.raises(
        ConfigurationError, match="there is no model: the limits are infeasible: no model in this domain"
    ):
        fit_into(place / "fit", plan_fit(settings, place))
    said = cli("verify", place / "fit" / "run").output
    assert said.startswith("VERIFIED")
    found = float(json.loads((place / "fit" / "run" / "status.json").read_text())["least_violation"])
    _, _, groups, _ = stated(plan_fit(settings, place))
    least = minimize(cp.maximum(groups["A"] - 0.2, groups["B"] - 0.1))
    assert 0.8 * least <= found <= least + 1e-7


@pytest.mark.slow
def test_held_out_rows_choose_the_penalty(place):
    settings = {**FIT, **GOALS["limits"], "goal": "limits", "folds": 3, "limit": {"A": 0.26, "B": 0.2}}
    planned = plan_fit({name: value for name, value in settings.items() if name not in ("l1", "l2")}, place)
    model = fit_into(place / "fit", planned)
    curve = model.training["penalty"]["curve"]
    assert curve["missed"] == 0
    assert curve["what"] == "loss under the limit"
    assert 0.05 < curve["values"][0] < 1  # as of the ordinary loss, whatever a limit would be worth
    assert model.certificate["violation"] <= 1e-6


@pytest.mark.parametrize("masks", ["off", "on"])
@pytest.mark.parametrize("goal", ["limits", pytest.param("limits-regression", marks=pytest.mark.slow)])
def test_sites_have_the_model_of_a_fit(place, goal, masks):
    fit = {**FIT, **GOALS[goal], "goal": goal} | ({"limit": {"B": 0.04}} if goal == "limits-regression" else {})
    here = fit_into(place / "fit", plan_fit(fit, place))
    there = deploy(place, fit, masks)
    np.testing.assert_allclose(there.weights, here.weights, atol=1e-9)
    np.testing.assert_allclose(there.bias, here.bias, atol=1e-9)
    known = read_known(place / "there" / "server")
    assert not any("range" in part for part in known)  # the largest target is somebody's own
    assert there.certificate["exchanges"] == here.certificate["exchanges"]
    own, other = (found.training["ordinary"]["held_out"]["overall"] for found in (here, there))
    assert other == pytest.approx(own, abs=1e-6)


def deploy(place, wanted, masks):
    """Run a deployment of the hospitals' tables, beside which that of all is."""
    own = {name: {"table": str(place / f"{name}.csv")} for name in HOSPITALS}
    for name in HOSPITALS:
        drop(place / f"{name}.csv", wanted["ignore"])
    fit = {key: value for key, value in wanted.items() if key not in ("table", "clients", "ignore")}
    write_table_deployment(place / "there", fit, own, {}, {"secure_sums": masks, "timeout": 300.0})
    for name in HOSPITALS:  # rules that merge rare categories would make another table
        (place / "there" / "sites" / name / POLICY).write_text("least_held_out = 5\n")
    run_in_threads(place / "there")
    return models.load(place / "there" / "server")


UNREACHABLE = {
    "limits": {"A": 0.2, "B": 0.1},
    "limits-regression": {"A": 0.02, "B": 0.02},
}


@pytest.mark.parametrize(
    ("goal", "masks"),
    [
        ("limits", "on"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("limits", "off"), ("limits-regression", "on"))),
    ],
)
def test_between_sites_limits_that_no_model_meets_are_proved_to_be_none(place, goal, masks):
    wanted = {**FIT, **GOALS[goal], "goal": goal, "limit": UNREACHABLE[goal], "tol": 1e-6}
    words = r"there is no model: the limits are infeasible: no model in this domain violates less than 0.*: ward = A to"
    with pytest.raises(ConfigurationError, match=words):
        deploy(place, wanted, masks)
    run = place / "there" / "server" / "run"
    status = json.loads((run / "status.json").read_text())
    assert status["stop"] == "INFEASIBLE"
    _, _, groups, _ = stated(plan_fit(wanted, place))
    least = minimize(cp.maximum(*(groups[name] - limit for name, limit in UNREACHABLE[goal].items())))
    assert 0.8 * least <= float(status["least_violation"]) <= least + 1e-7
    assert "nothing differs" in cli("verify", run).output
    assert not (place / "there" / "server" / "model").exists()
    assert "there is no model" in failure_of(place / "there" / "server")


def test_between_sites_each_limited_group_has_its_sentence(place):
    model = deploy(place, {**FIT, **GOALS["limits"], "goal": "limits", "tol": 1e-6}, "on")
    told = next(said for said in model.training["done"] if said.startswith("Limited losses"))
    assert "ward = A 0.245 (at most 0.245)" in told
    assert "(at most 0.18)" in told


def drop(file, names):
    rows = [line.split(",") for line in file.read_text().splitlines()]
    kept = [i for i, name in enumerate(rows[0]) if name not in names]
    file.write_text("".join(",".join(row[i] for i in kept) + "\n" for row in rows))


REFUSED = {
    "no such group": ({"limit": {"C": 0.3}}, "limit must name a value of 'ward', .*'A', 'B'.*, got 'C'"),
    "no number": ({"limit": {"A": "low"}}, "limit of 'A' must be a number > 0, got 'low'"),
    "below 0": ({"limit": {"A": -0.1}}, "limit of 'A' must be a number > 0, got -0.1"),
    "no group": ({"limit": 0.4}, "limit of the goal limits must name groups and numbers, as north=0.4, got 0.4"),
    "nothing": ({"limit": None}, "limit of the goal limits must name groups and numbers, as north=0.4, got None"),
    "few rows": ({"least_rows": 200}, "limit: 'B' of 'ward' has 106 rows to train on, and what fewer than 200 lose"),
    "another goal": ({"goal": "fair"}, "limits of groups are for the goals limits, limits-regression, limits-counts, limits-cox, got"),
    "a class": ({"goal": "neyman-pearson", "groups": None}, "limits of groups are for the goals limits"),
    "no groups": ({"groups": None, "clients": 3}, "the goal limits needs groups, the column whose values limit names"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_one_sentence(place, case):
    changes, message = REFUSED[case]
    with pytest.raises((ValueError, ConfigurationError), match=message):
        plan_fit({**FIT, **GOALS["limits"], "goal": "limits", **changes}, place)


def test_between_sites_limits_are_of_groups_that_sites_share(place):
    own = {name: {"table": str(place / f"{name}.csv")} for name in HOSPITALS}
    wanted = {"goal": "limits", "target": "outcome", "limit": {"east": 0.4}, "l1": 0.01}
    with pytest.raises(ConfigurationError, match="the goal limits needs groups, the column whose values limit names"):
        write_table_deployment(place / "there", wanted, own, {}, {})


def test_words_of_the_command_line():
    for given in ("A", "A=low", "=3", "A=-1", "A=inf"):
        found = refused("fit", "t.csv", "--target", "y", "--limit", given)
        assert f"--limit must be GROUP=NUMBER, such as north=0.4, or one NUMBER, above 0, got {given!r}" in found
    found = refused("fit", "t.csv", "--target", "y", "--limit", "A=1", "--limit", "A=2")
    assert "--limit must name every group once, got 'A' twice" in found


def test_groups_are_named_as_tables_and_people_write_them():
    assert limited_labels(np.array([1.0, 2.0, 3.0]), {"1": 0.3, "3.0": 0.2}).tolist() == ["1", OTHERS, "3.0"]
    limits = {"b": 0.2, "a": 0.3}
    assert describe_unmet("ward", limits, np.array([1e-9, -0.1])) == ""
    assert describe_unmet("ward", limits, np.array([0.01, -0.1])).endswith(": that of ward = a is exceeded by 0.01.")
    told = describe_reached("ward", limits, np.array([0.01, -0.1]), timed=False)
    assert told.endswith(": ward = a 0.31 (at most 0.3), ward = b 0.1 (at most 0.2).")

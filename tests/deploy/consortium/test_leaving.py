"""What a server can make of an honest run: no array is as long as a site's table, and no row can be solved for."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from support.command_line import cli, refused
from support.consortium import deployment, noting, run_in_threads
from support.patients import write
from support.reconstruction import FEATURES, GOALS, found_gradients, found_rows, hold, write_sites

import fedualex as fx
import fedualex.tables.goals as goals
from fedualex import models
from fedualex.compiling import double
from fedualex.data import Table, read_csv
from fedualex.deploy.consortium import agreement, kit
from fedualex.deploy.consortium.agreement import check_goal
from fedualex.deploy.consortium.deployment import load_site
from fedualex.deploy.engine import RefusedError
from fedualex.deploy.ledger import audit
from fedualex.deploy.policy import Policy, Release, SiteFacts, why_not_weighed
from fedualex.inference.sums import Design, summarize_effects
from fedualex.problems import RobustRecipe
from fedualex.problems.families import Logistic, Poisson
from fedualex.runs.settings import ConfigurationError
from fedualex.runtime.status import Code
from fedualex.tables.fit import plan_fit
from fedualex.tables.measures import measure_table
from fedualex.tables.weights import weighs_clients, words_of_weights

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import dual_cuts

ROWS = {"east": 30, "north": 24, "west": 18}
APART = {site: 3 * count for site, count in ROWS.items()}
"""So many rows that no sites are one group together, and that each answers for the effects of the ordinary model."""
DEPLOYED = list(GOALS)
WEIGHING = [name for name in DEPLOYED if weighs_clients(name.partition(",")[0], "groups" in GOALS[name])]
"""Goals whose adversary weighs sites."""
LOCAL = {"run": {"local_steps": 3}, "method": {"name": "FeDualExCorrected"}}


def test_every_goal_is_deployed_here_or_refused():
    assert {*(name.partition(",")[0] for name in GOALS), "limits-counts"} == goals.GOALS.keys()


@pytest.fixture
def goal(monkeypatch):
    """A goal whose runs have a dual number for each row."""
    structure = goals.Structure(RobustRecipe)
    monkeypatch.setitem(goals.GOALS, "deviations", goals.Goal("the least absolute deviations", structure))
    monkeypatch.setitem(GOALS, "deviations", {"target": "days"})
    return "deviations"


def test_a_goal_with_a_dual_number_for_each_row_stays_on_one_machine(tmp_path, goal):
    with pytest.raises(ConfigurationError, match="one dual number for each row would leave a site; use lasso"):
        check_goal(goal)
    words = "the goal deviations is for one machine: one dual number for each row would leave a site; use lasso"
    options = ("--goal", goal, "--target", "days", "--sites", "a,b,c")
    assert words in refused("deploy", "init", tmp_path / "kit", *options)
    assert not (tmp_path / "kit").exists()
    write_sites(tmp_path, ROWS, GOALS[goal])
    fit = ("fit", tmp_path / "east.csv", "--target", "days", "--goal", goal, "--rounds", "3", "--out", tmp_path / "fit")
    assert "model: " in cli(*fit).output


def test_limits_of_counts_stay_on_one_machine(tmp_path):
    """A step that was too long made one row nearly all of a sum: its gradient was the row, but for a factor."""
    options = (
        "--goal",
        "limits-counts",
        "--target",
        "visits",
        "--groups",
        "ward",
        "--limit",
        "A=0.9",
        "--sites",
        "a,b,c",
    )
    assert "the goal limits-counts is for one machine: " in refused("deploy", "init", tmp_path / "kit", *options)


ADAPTED = {"effects", "calibrate"}
"""What is asked for as a model has turned out: of the coefficients that are not 0, with or without errors."""


def shapes(held, forms=False) -> set:
    """The task, name and shape of every array that left a site, but for the names of columns and classes.

    forms: with the shapes of what was asked for, for tasks that are adapted to the model.
    """
    texts = ("names", "labels", "columns")
    asked = {(task, number): form_of(arrays) for _, task, number, arrays in held.told if forms and task in ADAPTED}
    return {
        (task, asked.get((task, number)), name, np.shape(array))
        for task, number, arrays in held.answered
        for name, array in arrays.items()
        if name.partition(".")[0] not in texts and array.dtype != np.uint8
    }


def form_of(arrays) -> frozenset:
    """Names and shapes, and of numbers that say yes or no what they say."""
    kept = {name: np.asarray(array) for name, array in arrays.items() if array.dtype != np.uint8}
    said = {name: a.item() for name, a in kept.items() if a.ndim == 0 and a.item() in (0, 1)}
    return frozenset((name, a.shape, said.get(name)) for name, a in kept.items())


FIRST_ORDER = {"method": {"name": "FeDualSlide"}}
STEPS = [
    pytest.param(FIRST_ORDER, id="surveys"),
    pytest.param({**LOCAL, "rounds": 2}, id="local steps", marks=pytest.mark.slow),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("options", STEPS)
@pytest.mark.parametrize("goal", DEPLOYED)
def test_no_released_array_is_as_long_as_a_table_has_rows(tmp_path, goal, options):
    found = []
    for name, times in (("few", 5), ("more", 6)):
        (tmp_path / name).mkdir()
        rows = dict.fromkeys(ROWS, times * ROWS["north"])
        found.append(shapes(hold(tmp_path / name, goal, False, rows, **{"rounds": 3, **options}), forms=True))
    alike = {one[:2] for one in found[0]} & {one[:2] for one in found[1]}
    assert {one for one in found[0] if one[:2] in alike} == {one for one in found[1] if one[:2] in alike}
    tasks = {task for task, _ in alike}
    assert tasks == {task for task, *_ in found[0] | found[1]}
    assert tasks >= ({"summary", "survey", "round"} if options == LOCAL | {"rounds": 2} else {"summary", "survey"})


@pytest.mark.sampled(4)
@pytest.mark.parametrize("goal", [name for name in DEPLOYED if name not in WEIGHING])
def test_second_derivatives_are_no_longer_for_more_rows(tmp_path, goal):
    """Where sites are weighed, second derivatives are not asked for."""
    found = []
    for name, times in (("few", 5), ("more", 6)):
        (tmp_path / name).mkdir()
        rows = dict.fromkeys(ROWS, times * ROWS["north"])
        found.append(shapes(hold(tmp_path / name, goal, False, rows, rounds=3)))
    assert found[0] == found[1]
    assert {task for task, *_ in found[0]} >= {"summary", "curvature"}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("goal", DEPLOYED)
@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
def test_no_row_follows_from_all_that_a_server_holds(tmp_path, goal, masked):
    held = hold(tmp_path, goal, masked, ROWS)
    assert found_rows(held) == 0
    if masked:
        assert found_gradients(held) == 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("goal", ["logistic", "neyman-pearson", "lasso"])
@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
def test_no_row_follows_from_second_derivatives(tmp_path, goal, masked):
    held = hold(tmp_path, goal, masked, {site: 5 * count for site, count in ROWS.items()}, tol=1e-6)
    assert any(task == "curvature" for task, *_ in held.asked)
    assert found_rows(held) == 0


def test_second_derivatives_of_one_row_are_that_row(tmp_path, monkeypatch):
    """Which is why a site with few rows for each parameter releases none: the attack finds it where nothing refuses."""
    held = hold(tmp_path, "logistic", False, {site: 5 * count for site, count in ROWS.items()}, rounds=1)
    row = held.rows[:1]
    whole = np.concatenate([np.ones((1, 1)), row], axis=1)
    triangle = (whole.T @ whole)[np.triu_indices(whole.shape[1])]
    held.answered = [("curvature", 0, {"curvature.xx": triangle[None]})]
    held.files, held.asked, held.rows = {}, [], row
    assert found_rows(held) == 1


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
def test_the_same_attack_solves_for_every_row_where_rows_have_duals(tmp_path, monkeypatch, masked, goal):
    for module in (agreement, kit):
        monkeypatch.setattr(module, "check_goal", lambda name: None)
    held = hold(tmp_path, goal, masked, ROWS)
    assert found_rows(held) == len(held.rows)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"method": {"name": "FeDualSlide"}}, id="surveys"),
        pytest.param({**LOCAL, "rounds": 2}, id="local steps", marks=pytest.mark.slow),
    ],
)
def test_check_announces_what_the_ledger_counts(tmp_path, options):
    """Summaries, surveys and rounds of a site, by one declaration: the numbers are those that left."""
    hold(tmp_path, "fair", True, dict.fromkeys(ROWS, APART["north"]), **{"rounds": 3, **options})
    site = tmp_path / "deployment" / "sites" / "north"
    said = json.loads(cli("deploy", "check", site, "--json").output)
    lines = [line for line in audit(site)["lines"] if line["kind"] == "release"]
    assert said["numbers_in_summaries"] == [line["numbers"] for line in lines if line["task"] == "summary"]
    surveys = [line for line in lines if line["task"] == "survey"]
    assert surveys
    assert all(line["numbers"] == line["sums"] * said["numbers_in_an_exchange"] for line in surveys)
    rounds = {line["numbers"] for line in lines if line["task"] == "round"}
    assert rounds == ({said["numbers_in_a_round"]} if "rounds" in options else set())


@pytest.mark.sampled(9)
@pytest.mark.parametrize("goal", DEPLOYED)
@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
def test_check_announces_all_that_leaves_of_a_goal_with_its_defaults(tmp_path, goal, masked):
    """The penalty is chosen, with effects, the ordinary model, measures and calibration: line by line of the ledger."""
    chosen = {"nuclear": "auto"} if goal == "low-rank" else {"l1": "auto", "l2": None}
    hold(tmp_path, goal, masked, dict.fromkeys(ROWS, 170), **chosen, rounds=30)
    site = tmp_path / "deployment" / "sites" / "north"
    said = json.loads(cli("deploy", "check", site, "--json").output)
    lines = [line for line in audit(site)["lines"] if line["kind"] == "release"]
    beside: dict = {}
    for one in said["beside"]:
        beside.setdefault(one["task"], []).append(one["numbers"])
    left: dict = {}
    for line in lines:
        left.setdefault(line["task"], []).append((line["sums"], line["numbers"]))
    silent = {"columns", "begin", "folds", "model", "roster"}
    assert all(numbers == 0 for task in silent & left.keys() for _, numbers in left[task])
    assert left.keys() - silent - {"summary", "survey", "curvature"} <= beside.keys()
    assert [numbers for _, numbers in left["summary"]] == said["numbers_in_summaries"]
    for sums, numbers in left.get("survey", []):
        assert numbers == sums * said["numbers_in_an_exchange"]
    for sums, numbers in left.get("curvature", []):
        assert numbers <= sums * said["numbers_with_curvature"]
    if "fold-summary" in left:
        sent = [numbers for _, numbers in left["fold-summary"]]
        assert sent == beside["fold-summary"][: len(sent)]  # the rest is refused where a fold has few rows of a group
    plain, bent, cut = beside.get("path", (0, 0, 0))
    for sums, numbers in left.get("path", []):
        assert sums * plain <= numbers <= sums * (bent + cut - plain)
    assert all(numbers == sums * beside["fold-losses"][0] for sums, numbers in left.get("fold-losses", []))
    for task in ("measure", "calibrate"):
        assert {numbers for _, numbers in left.get(task, [])} <= set(beside.get(task, []))
    for _, numbers in left.get("effects", []):  # of columns that are combinations of others nothing is asked
        assert numbers in beside["effects"] or numbers < min(beside["effects"])


@pytest.mark.parametrize("goal", ["fair", "fair, groups"])
@pytest.mark.parametrize("rows", [{**APART, "north": 18}, {**APART, "north": 18, "west": 18}], ids=["one", "two"])
def test_check_announces_no_less_than_leaves_where_groups_are_merged(tmp_path, goal, rows):
    """Which ones are is known once all sites have told their rows: a site of few rows cannot tell by its own."""
    hold(tmp_path, goal, True, rows, rounds=3)
    for name in rows:
        site = tmp_path / "deployment" / "sites" / name
        said = json.loads(cli("deploy", "check", site, "--json").output)
        lines = [line for line in audit(site)["lines"] if line["kind"] == "release"]
        sent = [line["numbers"] for line in lines if line["task"] == "summary"]
        assert np.all(np.array(said["numbers_in_summaries"]) >= sent)
        surveys = [line["numbers"] / line["sums"] for line in lines if line["task"] == "survey"]
        assert surveys
        assert max(surveys) <= said["numbers_in_an_exchange"]


WEIGHS = [
    "the clients that are served worst have 0.3 of the weight, one of them at most 0.5 of that, all clients share 0.6 by "
    "their rows (none more than half of it), and all share 0.1 alike"
]


def test_a_fit_and_a_deployment_limit_the_weight_of_one_client_alike(tmp_path):
    """The saddle problem with its limit is certified, the limit is there, and the model says so."""
    held = hold(tmp_path, "fair", True, APART)
    y = np.concatenate([arrays["points.y"] for task, _, arrays in held.asked if task == "survey"])
    assert y.max() <= 0.5 + 1e-12
    model = models.load(tmp_path / "deployment" / "server")
    assert model.certificate["gap"] <= model.certificate["tol"]
    assert model.training["weighs"] == WEIGHS
    rows = [(tmp_path / f"{name}.csv").read_text().splitlines() for name in sorted(ROWS)]
    whole = [
        rows[0][0] + ",site",
        *(f"{line},{name}" for name, own in zip(sorted(ROWS), rows, strict=True) for line in own[1:]),
    ]
    (tmp_path / "all.csv").write_text("\n".join(whole) + "\n")
    fit = plan_fit({"table": "all.csv", "clients": "site", "goal": "fair", "target": "outcome"}, tmp_path)
    own = fit.recipe.recipe(fit.known)
    assert (own.cvar, own.spread) == (pytest.approx(2 / 3), pytest.approx(0.7))
    assert fit.weighs == words_of_weights("fair", 3, False, None) == WEIGHS
    asked = (
        "the clients that are served worst have 0.9 of the weight, one of them at most 0.5 of that, and all share 0.1"
    )
    assert words_of_weights("fair", 3, False, 0.5) == [f"{asked} alike"]
    assert words_of_weights("fair", 2, False, 0.5) == ["of 2 clients the one that is served worst counts alone"]


def test_an_honest_masked_run_whose_adversary_leaves_one_site_out_is_answered_to_its_end(tmp_path):
    """Two sites are served worst by far: the third has no weight of the adversary, and counts all the same."""
    settings, rng = {"target": "days"}, np.random.default_rng(0)
    write_sites(tmp_path, APART, settings)
    for name in APART:  # of north all rows follow the rule, of the others few
        table = read_csv(tmp_path / f"{name}.csv")
        noise = (name != "north") * 20 * rng.normal(size=table.rows)
        days = sum(table[f"f{j}"] for j in range(5)) + noise
        write(tmp_path / f"{name}.csv", {key: table[key].tolist() for key in table} | {"days": days.tolist()})
    asked = []
    root = deployment(tmp_path, "on", goal="fair-regression", **settings, rounds=200, tol=1e-7, cvar=0.5)
    run_in_threads(root, noting(asked))
    model = models.load(root / "server")
    assert model.certificate["gap"] <= 1e-7
    site = load_site(root / "sites" / "east")
    surveys = [request for name, request, _ in asked if name == "east" and request.task == "survey"]
    weights = np.concatenate([site._declare(request).weights for request in surveys])
    points = np.concatenate([request.arrays["points.y"] for request in surveys])
    assert points[:, 1].min() < 1e-6  # north, of which the sum would have had nothing
    np.testing.assert_allclose(weights, 0.9 * points + 0.1 / 3, rtol=1e-12)
    assert weights.min() >= 0.1 / 3
    bent = next(r for name, r, _ in reversed(asked) if name == "east" and r.task == "curvature")
    for y in ELSEWHERE:
        for honest, place in ((surveys[-1], "points.y"), (bent, "points.y"), (bent, "starts.y")):
            points = np.zeros_like(honest.arrays[place]) + y
            request = replace(honest, arrays={**honest.arrays, place: points}, nonce="another")
            with pytest.raises(RefusedError, match="where the weights of sites are in their domain"):
                site.work(request)


ELSEWHERE = (
    (1.0, 0.0, 0.0),
    (0.85, 0.1, 0.05),  # 0.798 of the weight at one site
    (0.5185185, 0.5185185, -0.037037),  # two sites, and a third with next to nothing
    (2.0, -1.0, 0.0),
    (0.0, 0.0, 0.0),
    (1e6, 1e6, 1e6),
)
"""Mixtures that no honest run asks at."""


def test_what_a_sum_of_two_sites_and_a_thirtieth_hides():
    """The rule lets it pass: who knows the first site's part has the second's up to a fourteenth of the third's."""
    rng = np.random.default_rng(0)
    X, y, site = rng.normal(size=(30, 3)), np.where(rng.random(30) < 0.5, 1.0, -1.0), np.arange(30) % 3
    problem = fx.problems.agnostic(X, y, site, loss="logistic", l2=0.1, spread=0.1, cvar=2 / 3)
    with double():  # as a site does
        weights = np.asarray(problem.f.shares(np.array([[0.5, 0.5, 0.0]])))[0]
    np.testing.assert_allclose(weights, [29 / 60, 29 / 60, 2 / 60], rtol=1e-12)
    assert why_not_weighed(tuple(weights.tolist())) == ""
    first, second, third = rng.normal(size=(3, 4))
    guess = (weights @ [first, second, third] - weights[0] * first) / weights[1]
    np.testing.assert_allclose(guess - second, third * 2 / 29, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "error"), [(fx.FeDualSlide, 0.1), (fx.FeDualCuts, 0.2)])
def test_an_honest_run_that_weighs_sites_tells_their_gradients_nearly(method, error):
    """Sums at many mixtures and each site's losses, which are all that leaves under masks, are equations for them."""
    rng = np.random.default_rng(0)
    site, X, beta = np.arange(240) % 4, rng.normal(size=(240, 4)), rng.normal(size=(4, 4))
    y = np.where(np.sum(X * beta[site], axis=1) + rng.logistic(size=240) > 0, 1.0, -1.0)
    problem = fx.problems.agnostic(X, y, site, loss="logistic", l1=0.005, spread=0.1, cvar=0.5)
    with double():
        run = dual_cuts.Run(problem, method(), 1e-4)
        known = np.zeros((5, 5)) if method is fx.FeDualSlide else run.mean_second()
        found = dual_cuts.solve_for_sites(problem, run, known)
    assert max(map(float, found)) < error


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
def test_a_site_answers_for_effects_by_its_rules(tmp_path, masked):
    """Its own sums in the clear, of all sites under masks; by the rules of all second derivatives."""
    held = hold(tmp_path, "logistic", masked, dict.fromkeys(ROWS, 5 * ROWS["north"]), tol=1e-6, l1=0.05)
    told = [a for task, _, arrays in held.answered if task == "effects" for a in arrays.values() if a.dtype.kind == "f"]
    own = [a for _, key, a in held.alone if key.startswith("effects") and a.size > FEATURES]
    assert own
    slopes = [a for a in own if np.count_nonzero(a) > 1 and np.any(a % 1)]
    # slopes at a solution are as small as 1e-12, and the same to 9 digits is not the same to 1e-8
    seen = [any(a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=0) for b in told) for a in slopes]
    assert any(seen) == (not masked)
    assert all(seen) == (not masked)
    about = SiteFacts(rows=24)
    for policy in (Policy(), Policy(curvature="refuse"), Policy(tasks=("survey",))):
        asked = Release("effects", 1, parameters=6)
        assert policy.why_not_released(asked, about, masked).code == Code.NO_CURVATURE


def test_an_intercept_of_its_own_stays_at_the_site():
    """It is profiled out: no number that leaves is the intercept, and none changes when all scores are moved."""
    rng = np.random.default_rng(1)
    X, beta = rng.normal(size=(80, 3)), rng.normal(size=3)
    y = np.where(X @ beta + 0.7 + rng.logistic(size=80) > 0, 1.0, -1.0)
    sums = summarize_effects(Logistic(), Design(X, y, np.ones(80)), beta, own_intercept=True, meat=True)
    scores = X @ beta
    own = brentq(lambda a: np.sum(-y / (1 + np.exp(y * (scores + a)))), -20, 20, xtol=1e-14)
    sent = np.concatenate([np.ravel(value) for value in sums.values()])
    assert np.min(np.abs(sent - own)) > 1e-6
    assert np.min(np.abs(sent - len(y) * own)) > 1e-6
    moved = summarize_effects(
        Logistic(), Design(X + 5 * beta / (beta @ beta), y, np.ones(80)), beta, own_intercept=True
    )
    assert float(moved["value"]) == pytest.approx(float(sums["value"]), rel=1e-12)


@pytest.mark.parametrize("family", [Logistic(), Poisson()], ids=["logistic", "poisson"])
@pytest.mark.parametrize("meat", [False, True])
def test_sums_of_a_site_without_a_finite_intercept_have_the_places_and_shapes_of_all(meat, family):
    """Masks are added up by places; and what is in a message must not tell that all its rows are of one class."""
    rng, counts = np.random.default_rng(0), family.counts
    X, both = rng.normal(size=(40, 3)), np.arange(40) % 2.0
    found = [
        summarize_effects(family, Design(X, y if counts else 2 * y - 1, np.ones(40)), np.ones(3), True, meat=meat)
        for y in (both, 0 * both)
    ]
    assert [float(sums["intercepts"]) for sums in found] == [1, 0]
    shapes = [[(name, np.shape(value)) for name, value in sums.items()] for sums in found]
    assert shapes[0] == shapes[1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("goal", ["logistic", "neyman-pearson", "auc", "lasso", "low-rank"])
def test_under_masks_measures_are_those_of_all_rows_together(tmp_path, goal):
    """What is a mean over rows is what the sites' own measures in the clear make of it; of no site there is anything."""
    found = {}
    for masked in (False, True):
        (folder := tmp_path / str(masked)).mkdir()
        hold(folder, goal, masked, dict.fromkeys(ROWS, 48))
        model = models.load(folder / "deployment" / "server")
        tables = [load_site(folder / "deployment" / "sites" / name)._work.__self__.side.table for name in sorted(ROWS)]
        found[masked] = model, tables
    model, tables = found[True]
    held = model.training["held_out"]
    assert held["clients"] == {}
    columns = {name: np.concatenate([own.held_out[name] for own in tables]) for name in tables[0].held_out}
    whole = Table(columns, "all")
    by_class = goal == "neyman-pearson"
    owners = np.concatenate([np.full(own.held_out.rows, m) for m, own in enumerate(tables)])
    same = measure_table(model, whole, owners, by_class).plain()["overall"]
    assert held["overall"].keys() == same.keys()
    for name, value in same.items():
        assert held["overall"][name] == pytest.approx(value, rel=1e-9, abs=1e-12)
    assert set(found[False][0].training["held_out"]["clients"]) == set(ROWS)

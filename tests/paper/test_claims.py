"""Claims of the paper: each verdict, from runs that are written down for it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.paper_runs import L1, as_the_paper_says, write_experiment

from fedualex.paper import claims
from fedualex.paper.claims import (
    PAPER,
    Claim,
    Found,
    Spread,
    Trend,
    complete,
    final,
    gaps_at_equal_cost,
    judge,
    round_of_rank,
    seed_runs,
    steps_text,
    write_claims,
)
from fedualex.runs.folder import StoredRun


def opposite(label, output, seed, r):
    """Final numbers with which none does in any."""
    gap = {"FeDualEx": 2.0, "FedMiP": 1.5, "FedDualAvg": 0.5, "FedMiD": 0.4}.get(label.split(" ")[0], 1.0)
    density = {"FeDualEx": 0.95, "FedMiP": 0.7, "FedDualAvg": 0.9, "FedMiD": 0.8}.get(label.split(" ")[0], 1.0)
    return gap, density, [20, 20]


def last_only(label, output, seed, r):
    return (as_the_paper_says if output == "last" else opposite)(label, output, seed, r)


def plain_only(label, output, seed, r):
    """As the paper says, except for the primal methods with their server's rule as printed."""
    return (opposite if "printed" in label else as_the_paper_says)(label, output, seed, r)


ALL = ("l1-k1", "l1-k10", "nuclear-k1", "nuclear-k10")


@pytest.mark.parametrize(
    ("values", "verdict", "why"),
    [
        (as_the_paper_says, "agrees", "In every reading."),
        (opposite, "does not agree", "In no reading."),
        (last_only, "agrees only if", "Only: "),
    ],
)
def test_each_claim_gets_each_verdict(tmp_path, values, verdict, why):
    for name in ALL:
        write_experiment(tmp_path, name, values)
    table = write_claims(tmp_path)
    assert [one["claim"] for one in table] == [claim.sentence for claim in PAPER]
    assert {one["claim"]: one["verdict"] for one in table} == dict.fromkeys([c.sentence for c in PAPER], verdict)
    assert all(one["why"].startswith(why) for one in table)
    if values is last_only:
        assert all("last point" in one["why"] and "ergodic average" not in one["why"].split(".")[0] for one in table)
    assert json.loads((tmp_path / "claims.json").read_text()) == table


def test_readings_by_the_servers_rule(tmp_path):
    for name in ALL:
        write_experiment(tmp_path, name, plain_only)
    found = {one["claim"]: one for one in write_claims(tmp_path)}
    for claim in PAPER:
        plain = [reading for reading in claim.readings if "as printed" not in reading]
        depends = len(plain) < len(claim.readings)
        assert found[claim.sentence]["verdict"] == ("agrees only if" if depends else "agrees"), claim.sentence
        only = f"Only: {'; '.join(plain)}." if depends else "In every reading."
        assert found[claim.sentence]["why"].startswith(only), claim.sentence


def test_readings_by_what_feddualavg_averages(tmp_path):
    """E36: the same iterates, two averages, and a verdict that depends on which is meant."""

    def values(label, output, seed, r):
        gap, density, ranks = as_the_paper_says(label, output, seed, r)
        worse = label == "FedDualAvg" and output == "ergodic"
        return (4.0 if worse else gap), density, ranks

    for name in ALL:
        write_experiment(tmp_path, name, values)
    found = {one["claim"]: one for one in write_claims(tmp_path)}
    one = found["nuclear: dual methods do better in gap"]
    assert one["verdict"] == "agrees only if"
    assert "after its steps" in one["why"]
    assert "before its steps" not in one["why"]


def test_equal_ranks_are_not_better(tmp_path):
    def values(label, output, seed, r):
        gap, density, _ = as_the_paper_says(label, output, seed, r)
        return gap, density, [10, 10]

    write_experiment(tmp_path, "nuclear-k1", values)
    found = {one["claim"]: one["verdict"] for one in write_claims(tmp_path)}
    assert found["nuclear: dual methods do better in gap and rank"] == "does not agree"
    assert found["nuclear: dual methods do better in gap"] == "agrees"


def test_a_claim_that_holds_for_one_K_says_for_which(tmp_path):
    write_experiment(tmp_path, "l1-k1", as_the_paper_says)
    write_experiment(tmp_path, "l1-k10", opposite)
    table = write_claims(tmp_path)
    assert {one["verdict"] for one in table} == {"agrees only if"}
    assert all("last point of l1-k1" in one["why"] and "of l1-k10" not in one["why"] for one in table)
    shutil.rmtree(tmp_path / "l1-k10")
    assert {one["verdict"] for one in write_claims(tmp_path)} == {"agrees"}


def test_what_was_not_run_is_left_out(tmp_path):
    assert write_claims(tmp_path) == []
    write_experiment(tmp_path, "nuclear-k10", as_the_paper_says)
    table = write_claims(tmp_path)
    assert [one["claim"] for one in table] == [c.sentence for c in PAPER if "nuclear-k10" in c.experiments]
    assert all("nuclear-k10" in one["measured"] and "nuclear-k1 " not in one["measured"] for one in table)
    assert judge(PAPER[0], {"nuclear-k10": {}}) is None


def test_an_experiment_counts_when_all_its_seeds_are_there(tmp_path):
    write_experiment(tmp_path, "l1-k1", as_the_paper_says)
    assert complete(tmp_path / "l1-k1", seed_runs(tmp_path / "l1-k1"))
    (tmp_path / "l1-k1" / "runs" / "FedDualAvg" / "seed-1" / "status.json").unlink()
    assert not complete(tmp_path / "l1-k1", seed_runs(tmp_path / "l1-k1"))
    assert write_claims(tmp_path) == []
    shutil.rmtree(tmp_path / "l1-k1" / "runs" / "FedDualAvg")  # not even begun
    assert list(seed_runs(tmp_path / "l1-k1")) == [label for label in L1 if label != "FedDualAvg"]
    assert write_claims(tmp_path) == []


def test_measured_are_means_and_deviations(tmp_path):
    write_experiment(tmp_path, "l1-k1", as_the_paper_says, seeds=3)
    runs = seed_runs(tmp_path / "l1-k1")
    gaps = np.array([2.0, 2.01, 2.02])
    spread = final(runs["FedDualAvg"], "last", "gap")
    assert (spread.mean, spread.std) == (pytest.approx(gaps.mean()), pytest.approx(gaps.std()))
    assert steps_text(runs["FedDualAvg"][0]) == "eta_s 1, eta_c 0.1"
    write_experiment(tmp_path, "nuclear-k1", as_the_paper_says)
    assert final(seed_runs(tmp_path / "nuclear-k1")["FedMiP as printed"], "last", "rank") == Spread(40.0, 0.0)  # both
    (found,) = [one for one in write_claims(tmp_path) if "FedDualAvg stays above" in one["claim"]]
    each = "l1-k1 gap 2.01 ± 0.008 (eta_s 1, eta_c 0.1)"
    averages = [f"ergodic average, FedDualAvg's of the points {when} its steps: {each}" for when in ("before", "after")]
    assert found["measured"] == "; ".join([f"last point: {each}", *averages])


@pytest.mark.parametrize(
    ("change", "sentence", "holds"),
    [
        ({"FeDualEx": (claims.ORDER_TENTH, 0.7)}, "FeDualEx converges to the order", True),
        ({"FeDualEx": (0.317, 0.7)}, "FeDualEx converges to the order", False),
        ({"FedDualAvg": (1.0, 0.8)}, "FedDualAvg stays above 10^0", False),
        ({"FedDualAvg": (1.001, 0.8)}, "FedDualAvg stays above 10^0", True),
        ({"FeDualEx": (0.1, 0.749)}, "density ('sparsity', E29) around 0.7", True),
        ({"FeDualEx": (0.1, 0.649)}, "density ('sparsity', E29) around 0.7", False),
        ({"FedMiP": (0.2, 0.981)}, "FedMiP stays at a density around 0.95", False),
        ({"FedDualAvg": (2.0, 0.9), "FedMiD": (3.0, 0.9)}, "lower density", False),  # equal is not lower
        ({"FedDualAvg": (2.0, 0.8), "FedMiD": (3.0, 0.81)}, "lower density", True),
    ],
)
def test_where_a_claim_begins_to_hold(tmp_path, change, sentence, holds):
    def values(label, output, seed, r):
        gap, density, ranks = as_the_paper_says(label, output, 0, r)
        return *change.get(label.split(" ")[0], (gap, density)), ranks

    write_experiment(tmp_path, "l1-k1", values, seeds=1)
    (found,) = [one for one in write_claims(tmp_path) if sentence in one["claim"]]
    assert found["verdict"] == ("agrees" if holds else "does not agree")


def test_verdicts_of_any_claim():
    def claim(*holds):
        readings = {str(i): lambda runs, i=i: Found(holds[i], f"number {i}") for i in range(len(holds))}
        return Claim("a sentence", ("one", "two"), readings, "A remark.")

    verdicts = [
        judge(claim(*holds), {"two": {}, "three": {}}) for holds in ((True, True), (False, True), (False, False))
    ]
    assert [one["verdict"] for one in verdicts] == ["agrees", "agrees only if", "does not agree"]
    assert verdicts[1] == {
        "claim": "a sentence",
        "measured": "0: two number 0; 1: two number 1",
        "readings": [
            {"reading": "0", "experiment": "two", "holds": False, "measured": "number 0"},
            {"reading": "1", "experiment": "two", "holds": True, "measured": "number 1"},
        ],
        "verdict": "agrees only if",
        "why": "Only: 1. A remark.",
    }


@pytest.mark.parametrize(
    ("ranks", "start"),
    [
        ([20, 10, 10, 10], 1),
        ([10, 10, 10, 10], 0),
        ([10, 20, 10, 10], 2),  # left again: only the last stay counts
        ([20, 20, 20, 10], 3),
        ([10, 10, 10, 20], None),
        ([], None),
    ],
)
def test_settled(ranks, start):
    history = [{"round": 10 * i, "rank_last": [10, rank]} for i, rank in enumerate(ranks)]
    run = StoredRun(Path(), {}, history, {})
    assert round_of_rank(run, "last", [10, 10]) == (None if start is None else 10 * start)


@pytest.mark.parametrize(
    ("arrival", "verdict"), [((5, 5), "agrees"), ((5, 10), "does not agree"), ((5, 11), "does not agree")]
)
def test_the_rank_is_reached_in_every_seed_within_half_of_the_rounds(tmp_path, arrival, verdict):
    def values(label, output, seed, r):
        gap, density, _ = as_the_paper_says(label, output, seed, r)
        return gap, density, [10, 10] if r >= arrival[seed] else [10, 11]

    write_experiment(tmp_path, "nuclear-k1", values)
    (found,) = [one for one in write_claims(tmp_path) if "quickly reaches" in one["claim"]]
    assert found["verdict"] == verdict
    text = {5: "from round 5 of 10 on", 10: "from round 10 of 10 on", 11: "not settled at 10 by round 10"}
    assert text[arrival[1]] in found["measured"]


@pytest.mark.parametrize("quick", [False, True])
def test_every_verdict_says_if_its_instance_is_small(tmp_path, quick):
    write_experiment(tmp_path, "l1-k1", as_the_paper_says, quick=quick)
    table = write_claims(tmp_path)
    assert len(table) > 5
    assert {one["small"] for one in table} == {quick}


def test_a_trend_needs_all_its_cases():
    trend = Trend("a sentence", ("one", "two"), lambda runs: Found(len(runs) == 2, "together"))
    assert judge(trend, {"one": {}}) is None
    assert judge(trend, {"one": {}, "two": {}, "three": {}})["verdict"] == "agrees"


def test_slopes_and_promises_of_a_study(tmp_path):
    """Gaps that fall like 1/R, below what theory.json says of one theorem and above what it says of the other."""
    for value in (50, 100, 200, 400, 800):
        name = f"rates-R-{value}"
        write_experiment(tmp_path, name, lambda label, output, seed, r, v=value: (10 / v, 0.5, None))
        manifest = json.loads((tmp_path / name / "manifest.json").read_text())
        manifest["plan"]["case"] = {"study": "rates", "axis": "rounds R", "value": value}
        (tmp_path / name / "manifest.json").write_text(json.dumps(manifest))
        bounds = [
            {"result": "Theorem 1", "version": "printed", "total": 9 / value},
            {"result": "Theorem 1", "version": "corrected", "total": 11 / value},
        ]
        (tmp_path / name / "theory.json").write_text(json.dumps({"bounds": bounds}))
    found = {one["claim"]: one for one in write_claims(tmp_path)}
    assert found["rates: the ergodic gap falls with R at least like R^(-1/2)"]["verdict"] == "agrees"
    assert "slope -1.00" in found["rates: the ergodic gap falls with R at least like R^(-1/2)"]["measured"]
    assert found["rates: the ergodic gap is below Theorem 1 as printed"]["verdict"] == "does not agree"
    assert found["rates: the ergodic gap is below Theorem 1 as corrected"]["verdict"] == "agrees"


def test_methods_are_compared_after_as_many_exchanges(tmp_path):
    """A record of more exchanges than the others have made does not count."""
    write_experiment(tmp_path, "unequal-1", lambda label, output, seed, r: (1.0 if r <= 5 else 0.1, 0.5, None))
    runs = seed_runs(tmp_path / "unequal-1")
    groups = {"short": [replace(run, history=run.history[:2]) for run in runs["FeDualEx"]], "long": runs["FedDualAvg"]}
    assert {label: gap.mean for label, gap in gaps_at_equal_cost(groups, "last").items()} == {"short": 1.0, "long": 1.0}

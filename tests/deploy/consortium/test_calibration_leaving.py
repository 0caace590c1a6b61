"""What is told of rows that were held out: no score of a row follows, and few are told of together."""

import numpy as np
import pytest
from scipy.optimize import linprog

from fedualex.deploy.policy import MOST_PLACES, Policy
from fedualex.inference import measures
from fedualex.inference.measures import (
    BINS,
    LEAST_BIN,
    ROUNDED,
    STEP,
    calibrate,
    coarse,
    merge_bins,
    summarize_calibration,
    summarize_ranks,
    summarize_risks,
)
from fedualex.inference.sums import Design, add_up, summarize_effects
from fedualex.problems.families import Logistic

LEAST = Policy().least_held_out
ENOUGH = 5e-4
"""How far apart two scores of a row are for neither to be known; the counts at 101 thresholds tell it to some 0.04."""


def held_out(rng, count):
    """Scores of a model that is somewhat too sure, and answers."""
    scores = 1.5 * rng.normal(size=count)
    return scores, np.where(rng.random(count) < 1 / (1 + np.exp(-0.8 * scores - 0.2)), 1.0, -1.0)


def asked_places(parties):
    """Where an honest run asks: for all together, and in the clear for the first alone."""
    places = []

    def ask(some):
        def answer(beta, meat):
            places.append((beta, meat))
            return add_up([coarse(summarize_calibration(Logistic(), *party, beta, meat)) for party in some])

        return answer

    calibrate(ask(parties))
    calibrate(ask(parties[:1]))
    return places


def told(scores, answers, places):
    """All numbers that leave a site of its scores: at these places, and as measures."""
    found = [coarse(summarize_calibration(Logistic(), scores, answers, beta, meat)) for beta, meat in places]
    found.append(merge_bins(summarize_risks(1 / (1 + np.exp(-scores)), answers > 0)))
    found.append(summarize_ranks(scores, answers > 0))
    return np.concatenate([np.ravel(value) for one in found for value in one.values()])


def exact(scores, answers, places):
    """The same where they are rounded sums that depend smoothly on scores, before they are rounded."""
    found = []
    for beta, meat in places:
        sums = summarize_effects(Logistic(), Design(scores[:, None], answers, np.ones(len(scores))), beta, meat=meat)
        found += [np.ravel(sums[name]) for name in ROUNDED if name in sums]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(measures, "round_to_step", lambda sums: sums)
        risks = merge_bins(summarize_risks(1 / (1 + np.exp(-scores)), answers > 0))
    return np.concatenate([*found, risks["bin_risk"]])


def slopes(scores, answers, places):
    """How these change with each score."""
    step = 1e-5
    moved = [
        (exact(scores + d, answers, places), exact(scores - d, answers, places)) for d in step * np.eye(len(scores))
    ]
    return np.stack([(up - down) / (2 * step) for up, down in moved], axis=1)


def least_apart(scores, answers, places):
    """How far others can be in a row that tell the very same numbers, to the last bit, in the row where this is least.

    Others are tried along the farthest points that have them to first order.
    """
    J, now, numbers = slopes(scores, answers, places), exact(scores, answers, places), told(scores, answers, places)
    cell = STEP * np.rint(now / STEP)
    room = np.concatenate([cell + STEP / 2 - now, now - cell + STEP / 2])
    nearest = np.full(len(scores), 0.0)
    for row in range(len(scores)):
        for way, most in ((1.0, 0.03), (-1.0, 0.03), (1.0, 0.005), (-1.0, 0.005)):
            aim = way * np.eye(len(scores))[row]
            found = linprog(-aim, A_ub=np.concatenate([J, -J]), b_ub=room, bounds=[(-most, most)] * len(scores))
            for share in 0.7 ** np.arange(6) if nearest[row] < ENOUGH else ():
                other = scores + share * found.x
                if np.array_equal(told(other, answers, places), numbers):
                    nearest[row] = max(nearest[row], abs(other[row] - scores[row]))
                    break
    return float(np.min(nearest))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_no_score_of_a_row_follows_from_all_that_a_calibration_in_the_clear_tells(seed):
    """For each row there are scores that tell the same to the last bit and are another in this row."""
    rng = np.random.default_rng(seed)
    parties = [held_out(rng, LEAST) for _ in range(3)]
    places = asked_places(parties)
    assert len(places) >= 4
    assert least_apart(*parties[0], places) > ENOUGH


def test_without_rounding_scores_are_known_from_the_same_numbers(monkeypatch):
    """The test above can fail: a thousandth of a thousandth is too much."""
    monkeypatch.setattr(measures, "STEP", 2.0**-30)
    monkeypatch.setitem(globals(), "STEP", 2.0**-30)
    rng = np.random.default_rng(0)
    parties = [held_out(rng, LEAST) for _ in range(3)]
    assert least_apart(*parties[0], asked_places(parties)) < 1e-6


@pytest.mark.parametrize("parties", [1, 3])
def test_a_server_that_picks_its_places_finds_a_score_even_of_a_sum(parties):
    """No rule prevents it: with a slope of a million a calibration counts the rows above a threshold. docs/trust.md."""
    rng = np.random.default_rng(parties)
    some = [held_out(rng, LEAST) for _ in range(parties)]
    low, high = -20.0, 20.0
    for _ in range(MOST_PLACES):
        middle = (low + high) / 2
        beta = np.array([-1e6 * middle, 1e6])
        sums = add_up([coarse(summarize_calibration(Logistic(), *party, beta, False)) for party in some])
        above = sums["slope"][0] + np.sum(np.concatenate([answers for _, answers in some]) > 0)
        low, high = (middle, high) if above > 0.5 else (low, middle)
    largest = max(np.max(scores) for scores, _ in some)
    assert abs(low - largest) < 1e-6


def test_no_tenth_of_predicted_risk_is_told_of_fewer_than_five_rows():
    rng = np.random.default_rng(0)
    for count in (1, 4, 5, 9, 20, 200):
        risk = rng.beta(0.3, 0.7, count)
        sums = merge_bins(summarize_risks(risk, rng.random(count) < risk))
        rows = sums["bin_rows"]
        assert rows.sum() == count
        assert np.all(rows[rows > 0] >= min(LEAST_BIN, count))
        some = rows > 0
        tenth = np.minimum((sums["bin_risk"][some] / rows[some] * BINS + 1e-2).astype(int), BINS - 1)
        assert np.all(np.abs(tenth - np.flatnonzero(some)) <= 1)
        assert np.all(sums["bin_risk"] % STEP == 0)


def test_one_row_on_the_wrong_side_is_not_told_by_what_speaks_against_separation():
    """The losses of all other rows fall along the direction; its own score would be the sum of what grows."""
    rows, target = np.array([[-2.0], [-1.0], [0.3123], [1.0], [2.0]]), np.array([-1.0, -1.0, -1.0, 1.0, 1.0])
    design = Design(rows, target, np.ones(5))
    sums = [summarize_effects(Logistic(), design, np.array([0.0, slope])) for slope in (1.0, 1.1, 3.0)]
    assert [float(one["against"]) for one in sums] == [0.5, 0.5, 1.0]
    assert all(np.log2(float(one["along"])) % 1 == 0 for one in sums)
    apart = summarize_effects(Logistic(), Design(rows, np.sign(rows[:, 0] - 0.5), np.ones(5)), np.array([-0.5, 1.0]))
    assert float(apart["against"]) == 0.0 < float(apart["along"])

"""When there is no optimum, or none that can be trusted: separable, collinear, too few rows."""

import numpy as np
import pytest
from scipy.optimize import linprog
from support.effects import Parties, cut, draw_rows, draw_target, family_named

from fedualex.inference.newton import Outcome, estimate
from fedualex.inference.sums import Design


def answer_of(design, who, name="logistic", own=False, **options):
    family = family_named(name)
    contrasts = int(design.target.max()) if name == "multiclass" else 1
    size = contrasts * (design.rows.shape[1] + (not own))
    names = [f"b{j}" for j in range(size)]
    asking = Parties(family, cut(design, who), own)
    return estimate(asking, np.zeros(size), names=names, exact=family.exact_second, self_concordant=True, **options)


def rows_of(seed, rows, columns):
    rng = np.random.default_rng(seed)
    return rng, draw_rows(rng, rows, columns), rng.integers(0, 3, rows)


def separated(X, sign):
    """Whether some direction has y <x, d> >= 0 for all rows, and > 0 for one: by linear programming."""
    margins = sign[:, None] * np.column_stack([np.ones(len(X)), X])
    found = linprog(-margins.sum(axis=0), A_ub=-margins, b_ub=np.zeros(len(X)), bounds=(-1, 1))
    return -found.fun > 1e-7


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_complete_separation(seed, own):
    rng, X, who = rows_of(seed, 200, 3)
    sign = np.where(X @ rng.normal(size=3) + 0.3 > 0, 1.0, -1.0)
    answer = answer_of(Design(X, sign, np.ones(200)), who, own=own, least_events=0)
    assert answer.outcome is Outcome.SEPARABLE
    direction = np.array([answer.direction.get(f"b{j}", 0.0) for j in range(answer.beta.size)])
    if not own:
        assert np.all(sign * (X @ direction[1:] + direction[0]) >= -1e-9)
    assert "no finite optimum" in answer.sentence
    assert answer.exchanges <= 16


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_a_level_of_one_class_is_named(own, centered):
    """Quasi-complete separation: everybody with b has the outcome, and the other columns are as they may."""
    rng, X, who = rows_of(1, 400, 2)
    level = (rng.random(400) < 0.1).astype(float)
    sign = np.where(level > 0, 1.0, draw_target(rng, "logistic", X @ [0.5, -0.5]))
    column = (level - level.mean()) / level.std() if centered else level
    answer = answer_of(Design(np.column_stack([X, column]), sign, np.ones(400)), who, own=own)
    assert answer.outcome is Outcome.SEPARABLE
    name = "b2" if own else "b3"
    assert answer.direction[name] == 1.0
    assert set(answer.direction) <= {name, "b0"}
    assert f"{name} (+)" in answer.sentence


def test_a_hidden_combination_that_separates_some_rows():
    """Neither sparse nor complete: rows with <x, d> = 0 are of both classes, all others of one on each side."""
    rng, X, who = rows_of(2, 300, 3)
    direction = np.array([0.5, -1.0, 0.25])
    tied = rng.random(300) < 0.6
    X[tied] -= np.outer(X[tied] @ direction, direction) / (direction @ direction)
    sign = np.where(tied, draw_target(rng, "logistic", X @ [1.0, 0.5, 0.0]), np.sign(X @ direction))
    answer = answer_of(Design(X, sign, np.ones(300)), who)
    assert answer.outcome is Outcome.SEPARABLE
    found = np.array([answer.direction.get(f"b{j}", 0.0) for j in range(4)])
    np.testing.assert_allclose(found / found[2], [0, *(direction / direction[1])], atol=1e-6)


@pytest.mark.parametrize("own", [False, True])
def test_separable_classes(own):
    rng, X, who = rows_of(3, 300, 2)
    scores = np.column_stack([np.zeros(300), X @ [2.0, 1.0], X @ [-1.0, 2.0]])
    answer = answer_of(Design(X, scores.argmax(axis=1), np.ones(300)), who, "multiclass", own)
    assert answer.outcome is Outcome.SEPARABLE
    noisy = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    assert answer_of(Design(X, noisy, np.ones(300)), who, "multiclass", own).outcome is Outcome.DONE


@pytest.mark.slow
def test_separable_if_and_only_if_a_linear_program_says_so():
    """Small tables with strong effects, of which many are separable."""
    kinds = {True: 0, False: 0}
    for seed in range(300):
        rng, X, who = rows_of(seed, 30, 2)
        sign = draw_target(rng, "logistic", X @ [4.0, 2.0] * rng.choice([0.5, 1.0, 3.0]))
        if len(np.unique(sign)) < 2:
            continue
        answer = answer_of(Design(X, sign, np.ones(30)), who, least_events=0, most=40)
        truth = bool(separated(X, sign))
        assert answer.outcome is (Outcome.SEPARABLE if truth else Outcome.DONE), (seed, answer.outcome)
        kinds[truth] += 1
    assert min(kinds.values()) > 50


def test_one_row_among_the_others_is_enough_to_make_it_finite():
    _, X, who = rows_of(4, 300, 2)
    sign = np.where(X @ [1.0, -1.0] > 0, 1.0, -1.0)
    inside = int(np.argmax(X @ [1.0, -1.0]))
    sign[inside] = -1.0
    answer = answer_of(Design(X, sign, np.ones(300)), who)
    assert answer.outcome is Outcome.DONE


def test_collinear_columns_are_named():
    _, X, who = rows_of(5, 300, 3)
    rng = np.random.default_rng(6)
    twin = X[:, 0] - 2 * X[:, 2]
    design = Design(np.column_stack([X, twin]), draw_target(rng, "logistic", X[:, 0]), np.ones(300))
    answer = answer_of(design, who)
    assert answer.outcome is Outcome.COLLINEAR
    assert "b4 is a combination of b1, b3;" in answer.sentence
    dropped = answer_of(design, who, drop=True)
    without = answer_of(design._replace(rows=X), who)
    assert (dropped.outcome, dropped.dropped) == (Outcome.DONE, ("b4",))
    np.testing.assert_allclose(dropped.beta[:4], without.beta, atol=1e-9)
    np.testing.assert_allclose(dropped.model_based[:4, :4], without.model_based, rtol=1e-7)
    assert np.isnan(dropped.beta[4])


def test_what_varies_only_between_parties_is_collinear_with_their_intercepts():
    rng, X, who = rows_of(7, 300, 2)
    design = Design(np.column_stack([X, who]), draw_target(rng, "logistic", X[:, 0]), np.ones(300))
    answer = answer_of(design, who, own=True)
    assert answer.outcome is Outcome.COLLINEAR
    assert "b2 does not vary" in answer.sentence


@pytest.mark.parametrize(
    ("name", "said"),
    [("logistic", "rows of the rarest class for 5 parameters"), ("squared", "there are 40 rows for 5")],
)
def test_too_few_rows(name, said):
    rng, X, who = rows_of(8, 40, 4)
    answer = answer_of(Design(X, draw_target(rng, name, X[:, 0]), np.ones(40)), who, name)
    assert answer.outcome is Outcome.TOO_FEW
    assert said in answer.sentence
    assert answer.exchanges == 1


def test_an_unreached_optimum_says_so():
    rng, X, who = rows_of(9, 300, 2)
    design = Design(X, draw_target(rng, "logistic", X[:, 0]), np.ones(300))
    answer = answer_of(design, who, most=2)
    assert answer.outcome is Outcome.NOT_REACHED
    assert answer.model_based is None

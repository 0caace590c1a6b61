"""The table of effects: units, ratios, intervals, words, and as JSON."""

import json

import numpy as np
import pytest
import statsmodels.api as sm
from support.effects import Parties, cut, draw_rows, draw_target, family_named

from fedualex.inference.coefficients import Proved
from fedualex.inference.newton import Outcome, estimate
from fedualex.inference.sums import Design
from fedualex.inference.table import CONDITIONAL, Effects, readable_units, shown_rows, tabulate

ROWS = 400
NAMES = ("intercept", "age", "dose")
DEVIATION, CENTER = np.array([12.0, 0.3]), np.array([55.0, 1.5])


def estimated(name, drop=False):
    rng = np.random.default_rng(0)
    X = draw_rows(rng, ROWS, 2)
    design = Design(X, draw_target(rng, name, X @ [0.6, -0.4]), np.ones(ROWS))
    if drop:
        design = design._replace(rows=np.column_stack([X, X[:, 0]]))
    family = family_named(name)
    names = (*NAMES, "twin") if drop else NAMES
    asking = Parties(family, cut(design, rng.integers(0, 3, ROWS)))
    exact = family.exact_second
    found = estimate(asking, np.zeros(len(names)), names=names, exact=exact, self_concordant=not exact, drop=drop)
    assert found.outcome is Outcome.DONE
    return design, found


def units():
    """Takes the intercept to the zero of the columns, and slopes to one unit of them."""
    matrix = np.diag([1.0, *(1 / DEVIATION)])
    matrix[0, 1:] = -CENTER / DEVIATION
    return matrix


def test_odds_ratios_are_those_of_statsmodels_per_unit():
    design, found = estimated("logistic")
    X = sm.add_constant(design.rows * DEVIATION + CENTER)
    ours = sm.Logit((design.target > 0).astype(int), X).fit(disp=0, tol=1e-12)
    effects = tabulate(found, penalized=np.zeros(3), effect="odds ratio", units=units(), confidence=0.9)
    columns = np.array([[row.estimate, row.error, row.z, row.p] for row in effects.rows]).T
    expected = np.array([ours.params, ours.bse, ours.tvalues, ours.pvalues])
    np.testing.assert_allclose(columns, expected, rtol=1e-6, atol=1e-9)
    ends = np.array([[row.ratio_lower, row.ratio_upper] for row in effects.rows])
    np.testing.assert_allclose(ends, np.exp(ours.conf_int(alpha=0.1)), rtol=1e-6)
    assert effects.degrees is None
    assert all(row.bound < 1e-5 * row.error * 10 for row in effects.rows)


def test_squares_have_students_intervals():
    design, found = estimated("squared")
    ours = sm.OLS(design.target, sm.add_constant(design.rows)).fit()
    effects = tabulate(found, penalized=np.zeros(3), effect="difference")
    ends = np.array([[row.lower, row.upper] for row in effects.rows])
    np.testing.assert_allclose(ends, ours.conf_int(), rtol=1e-8)
    np.testing.assert_allclose([row.p for row in effects.rows], ours.pvalues, rtol=1e-6, atol=1e-300)
    assert effects.rows[0].ratio is None
    assert effects.degrees == ROWS - 3
    assert any("Student" in sentence for sentence in effects.words)
    robust = tabulate(found, penalized=np.zeros(3), effect="difference", kind="sandwich")
    reference = sm.OLS(design.target, sm.add_constant(design.rows)).fit(cov_type="HC0").conf_int()
    np.testing.assert_allclose([[row.lower, row.upper] for row in robust.rows], reference, rtol=1e-8)


def test_dropped_columns_have_no_numbers_and_the_table_goes_through_json():
    _, found = estimated("logistic", drop=True)
    effects = tabulate(
        found, penalized=np.arange(4.0), effect="odds ratio", conditional=True, references={"age": "young"}
    )
    again = Effects.read(json.loads(json.dumps(effects.plain(), allow_nan=False)))
    np.testing.assert_equal(again.rows, effects.rows)
    assert again.words == effects.words
    assert CONDITIONAL in effects.words
    assert np.isnan(effects.rows[3].estimate)
    text = effects.as_text()
    assert "age (against young)" in text
    assert "dropped" in text
    assert all(len(line) == len(effects.header()) for line in effects.cells())


def test_a_column_that_does_not_vary_has_no_effect():
    _, found = estimated("logistic")
    constant = tabulate(found, penalized=np.zeros(3), effect="odds ratio", units=np.array([1.0, 0.0, 1.0])).rows[1]
    assert np.isnan([constant.estimate, constant.p, constant.ratio]).all()


def test_refusals():
    _, found = estimated("logistic")
    with pytest.raises(ValueError, match="needs more sites than the 3 parameters, got 3 sites"):
        tabulate(found, penalized=np.zeros(3), effect="", kind="clustered")
    with pytest.raises(ValueError, match="kind must be one of"):
        tabulate(found, penalized=np.zeros(3), effect="", kind="robust")
    with pytest.raises(ValueError, match="confidence must be a number between 0 and 1, got 95"):
        tabulate(found, penalized=np.zeros(3), effect="", confidence=95)


def test_effects_of_large_and_small_numbers_are_shown_for_a_power_of_ten_and_kept_for_one_unit():
    mean, deviation = np.array([4e4, 50.0, 2e-5, 0.01, 0.5, 3.0, 0.0]), np.array([2e4, 9.9, 5e-6, 0.0995, 0.05, 10, 0])
    per = readable_units(mean, deviation)
    np.testing.assert_allclose(per, [1e4, 1, 1e-6, 1, 0.01, 10, 1])  # the fourth holds 0 and 1
    _, found = estimated("logistic")
    plain = tabulate(found, penalized=np.ones(3), effect="odds ratio", units=units())
    scaled = tabulate(
        found, penalized=np.ones(3), effect="odds ratio", units=units(), shown_per=np.array([1.0, 1e4, 1e-6])
    )
    for one, other, shown in zip(plain.rows, scaled.rows, shown_rows(scaled.plain()), strict=True):
        assert one.ratio == other.ratio
        assert shown["ratio"] == pytest.approx(np.exp(other.shown_per * one.estimate))
        assert shown["upper"] == pytest.approx(other.shown_per * one.upper)
        assert (shown["z"], shown["p"]) == (one.z, one.p)
    assert [cells[0] for cells in scaled.cells()] == ["intercept", "age (per 10,000)", "dose (per 1e-06)"]


def test_what_is_proved_of_penalized_coefficients_is_a_column_and_the_rest_of_the_digits_is_left_out():
    _, found = estimated("logistic")
    proved = Proved(np.array([np.inf, 0.0, 2e-3]), np.array([False, True, False]), np.array([0.0, 0.0, 1.0]))
    effects = tabulate(found, penalized=np.array([0.1234567, 0, 0.1234567]), effect="odds ratio", proved=proved)
    assert [cells[1:3] for cells in effects.cells()] == [["0.1235", ""], ["0", "zero"], ["0.12", "sign"]]
    again = Effects.read(json.loads(json.dumps(effects.plain(), allow_nan=False)))
    np.testing.assert_equal(again.rows, effects.rows)
    assert "proved" not in tabulate(found, penalized=np.zeros(3), effect="odds ratio").header()

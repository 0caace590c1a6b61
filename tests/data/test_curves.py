"""Natural cubic splines from histograms: their space is that of an outside library, and few rows are told together."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from fedualex.data import Coding, Encoder
from fedualex.data.curves import EDGES, QUANTILES, Curve, curve_of, histogram

RNG = np.random.default_rng(0)
COLUMNS = {
    "normal": RNG.normal(size=2000),
    "long tail": np.exp(RNG.normal(size=2000)),
    "even": RNG.random(500),
    "years": RNG.integers(18, 90, 800).astype(float),
}


def scaled(values):
    return (values - values.mean()) / values.std()


def curve(values):
    return curve_of(histogram(scaled(values)), 5, "dose")


@pytest.mark.parametrize("name", COLUMNS)
def test_knots_are_near_the_quantiles(name):
    values = np.sort(scaled(COLUMNS[name]))
    below = np.searchsorted(values, curve(values).knots) / len(values)
    np.testing.assert_allclose(below, QUANTILES[5], atol=0.03)


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_uncorrelated_with_the_line_and_of_mean_square_one_nearly(name):
    z = scaled(COLUMNS[name])
    whole = np.column_stack([np.ones(len(z)), z, curve(z).values(z)])
    np.testing.assert_allclose(whole.T @ whole / len(z), np.eye(5), atol=0.2)


def test_it_is_every_natural_spline_of_these_knots_and_straight_beyond():
    found = curve(COLUMNS["normal"])
    knots, wanted = np.array(found.knots), RNG.normal(size=5)
    other = CubicSpline(knots, wanted, bc_type="natural")

    def line_and_curve(z):
        return np.column_stack([np.ones(len(z)), z, found.values(z)])

    weights = np.linalg.solve(line_and_curve(knots), wanted)
    inside = np.linspace(knots[0], knots[-1], 60)
    np.testing.assert_allclose(line_and_curve(inside) @ weights, other(inside), atol=1e-12)
    for end in (knots[0], knots[-1]):
        far = end + np.sign(end) * np.array([0.5, 2.0, 1e9])
        np.testing.assert_allclose(
            line_and_curve(far) @ weights, other(end) + other(end, 1) * (far - end), rtol=1e-9, atol=1e-9
        )


def test_of_few_rows_none_is_told_alone_and_all_are_counted():
    for rows in (7, 40, 300):
        z = RNG.normal(size=rows)
        found = histogram(z)
        assert found.sum() == rows
        assert found[found > 0].min() >= 5
        assert (found > 0).sum() <= rows // 5
    assert histogram(np.array([0.1, 2.0])).sum() == 0  # fewer rows than may be told
    assert histogram(np.array([0.5, np.nan, 3.0]), fewest=1).sum() == 2


def test_weights_count_as_repeated_rows():
    z, times = RNG.normal(size=200), RNG.integers(1, 4, 200)
    np.testing.assert_allclose(histogram(z, times, fewest=1), histogram(np.repeat(z, times), fewest=1))


def test_a_lump_of_one_value_takes_one_knot():
    values = np.where(RNG.random(1000) < 0.7, 0.0, RNG.exponential(size=1000) + 1)
    found = curve(values)
    assert np.unique(np.searchsorted(EDGES, found.knots)).size == 5
    np.testing.assert_allclose(
        np.diag(found.values(scaled(values)).T @ found.values(scaled(values))) / 1000, 1, atol=0.3
    )


@pytest.mark.parametrize(("counts", "values"), [([0, 50, 50, 0], 2), ([0, 100, 0, 0], 5), ([0, 0, 0, 0], 0)])
def test_too_few_values_have_no_curve(counts, values):
    with pytest.raises(ValueError, match=f"'dose' must have 5 different values .* got {values} values"):
        curve_of(np.array([*counts, *[0] * (EDGES.size - 3)], float), values, "dose")


def table():
    rng = np.random.default_rng(1)
    dose = np.where(rng.random(300) < 0.05, np.nan, rng.gamma(2, 1, 300))
    sex, ward = rng.choice(["f", "m"], 300, p=[0.4, 0.6]), rng.choice(["a", "b", "c"], 300)
    return {"dose": dose, "age": rng.normal(60, 9, 300), "sex": sex, "ward": ward}


CODING = Coding(smooth=("dose",), interact=(("age", "sex"), ("sex", "ward"), ("age", "dose")))


def test_features_and_the_row_of_zeros():
    encoder = Encoder.fit(table(), np.arange(300) % 3, coding=CODING)
    rows = encoder.transform(table())
    names = list(encoder.features)
    assert names[5:] == ["dose (curve 1)", "dose (curve 2)", "dose (curve 3)", *encoder.product_names]
    assert len(encoder.product_names) == 1 + 2 + 1
    age, sex, both = (rows[:, names.index(name)] for name in ("age", "sex=f (against m)", "age:sex=f"))
    np.testing.assert_array_equal(both, age * sex)
    np.testing.assert_array_equal(rows[np.isnan(table()["dose"])][:, 5:8], 0)
    assert encoder.together.tolist()[5:8] == [5, 5, 5]
    assert np.all(np.mean(rows**2, axis=0) <= encoder.squares + 1e-12)
    assert np.isinf(encoder.squares).tolist() == [*[False] * 5, *[True] * 3, *[False] * 3, True]
    zero = {"dose": [0.0], "age": [0.0], "sex": ["m"], "ward": [encoder.references["ward"]]}
    np.testing.assert_array_equal(encoder.transform(zero)[0], encoder.origin)
    deviation = dict(zip(encoder.numbers, encoder.standardizer.deviation, strict=True))
    scales = dict(zip(names, encoder.scales, strict=True))
    assert scales["age:sex=f"] == deviation["age"]
    assert scales["age:dose"] == pytest.approx(deviation["age"] * deviation["dose"])


def test_clients_find_the_curve_of_all_rows_up_to_bins_of_few():
    whole = table()
    dose = scaled(whole["dose"][~np.isnan(whole["dose"])])
    for clients in (None, np.arange(300) % 3):
        knots = Encoder.fit(whole, clients, coding=CODING).curves["dose"].knots
        np.testing.assert_allclose(np.mean(dose[:, None] < knots, axis=0), QUANTILES[5], atol=0.04)


def test_a_curve_is_what_it_says():
    assert Curve((0.0, 1.0, 2.0), ((0.0,), (0.0,), (1.0,))).size == 1
    notes = {**table(), "note": [f"text {i}" for i in range(300)]}
    with pytest.raises(ValueError, match="interact: the column 'note' takes no part"):
        Encoder.fit(notes, coding=Coding(interact=(("age", "note"),)))
    with pytest.raises(ValueError, match="smooth: the column 'sex' must hold numbers"):
        Encoder.fit(table(), coding=Coding(smooth=("sex",)))

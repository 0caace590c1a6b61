"""A column that says how much each row counts: the problem of a table in which rows are written so many times."""

import jax
import numpy as np
import pytest
from support.patients import columns, write

from fedualex.compiling import double
from fedualex.runs.settings import ConfigurationError
from fedualex.runtime.outputs import exact_problem
from fedualex.tables.fit import plan_fit

TIMES = [1, 2, 3, 0]
"""How often each row is meant, over and over."""
FIT = {"table": "table.csv", "clients": "hospital", "holdout": 0.0}


def planned(folder, table, **settings):
    write(folder / "table.csv", table)
    return plan_fit({**FIT, **settings}, folder)


@pytest.mark.parametrize(("goal", "target"), [("lasso", "days"), ("logistic", "outcome")])
def test_a_row_of_weight_2_is_the_row_twice(tmp_path, goal, target):
    table = columns(rows=60)
    times = (TIMES * 15)[:60]
    weighed = planned(tmp_path, {**table, "times": times}, goal=goal, target=target, weights="times")
    repeated = {
        name: [v for v, n in zip(column, times, strict=True) for _ in range(n)] for name, column in table.items()
    }
    written = planned(tmp_path, repeated, goal=goal, target=target)
    assert "times" not in weighed.encoder.features
    assert weighed.encoder.features == written.encoder.features
    for name in ("mean", "deviation"):
        moments = [getattr(plan.encoder.standardizer, name) for plan in (weighed, written)]
        np.testing.assert_allclose(moments[0], moments[1], rtol=1e-12)
    one, other = weighed.configuration.problem, written.configuration.problem
    with double():
        z = jax.tree.map(lambda leaf: 0.1 + 0 * np.asarray(leaf), one.like)
        found = [exact_problem(problem).survey(z) for problem in (one, other)]
    assert float(found[0].value) == pytest.approx(float(found[1].value), rel=1e-12)
    for a, b in zip(*(jax.tree.leaves(survey.operator) for survey in found), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize(
    ("weights", "values", "line"),
    [
        ("times", [-1.0] * 60, "the column 'times' must be 60 numbers >= 0"),
        ("times", ["much"] * 60, "the column 'times' must be 60 numbers >= 0"),
        ("times", [None, *[1.0] * 59], "the column 'times' must not contain nan"),
        ("outcome", [1.0] * 60, "weights must be another column than the target"),
        ("time", [1.0] * 60, "has no column 'time'"),
    ],
)
def test_a_column_that_holds_no_weights_is_refused(tmp_path, weights, values, line):
    table = {**columns(rows=60), "times": values}
    with pytest.raises((ConfigurationError, TypeError, ValueError), match=line):
        planned(tmp_path, table, goal="logistic", target="outcome", weights=weights)


def test_a_client_whose_rows_count_nothing_has_no_say(tmp_path):
    table = columns(rows=60)
    weights = [0.0 if hospital == table["hospital"][0] else 1.0 for hospital in table["hospital"]]
    plan = planned(tmp_path, {**table, "times": weights}, goal="logistic", target="outcome", weights="times")
    shares = dict(zip(plan.parties.names, np.asarray(plan.configuration.problem.weights), strict=True))
    assert shares.pop(table["hospital"][0]) == 0
    assert sum(shares.values()) == pytest.approx(1)

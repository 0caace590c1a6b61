"""A rate from counts by predicted risk is one from single scores, kept all the more."""

import numpy as np
import pytest

from fedualex.data import Encoder, Table
from fedualex.inference.sums import add_up
from fedualex.models import Answers, Model
from fedualex.problems.readings import ClassReading
from fedualex.runs.settings import ConfigurationError
from fedualex.summaries import merge_summaries
from fedualex.tables.measures import sum_measures
from fedualex.tables.rates import calibrate_threshold, threshold_from_counts


def made(rows, seed=0):
    """Rows of one number by which two classes differ, and a model of it."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, rows)
    table = Table({"x": label + rng.normal(size=rows), "y": label}, "made")
    known = []
    for _ in range(Encoder.exchanges):
        known.append(merge_summaries([Encoder.summarize(table.without("y"), known)]))
    answers = Answers(ClassReading(), np.array([0, 1]))
    return Model(Encoder.from_known(known), np.array([1.3]), np.asarray(0.1), answers, "y"), table


@pytest.mark.parametrize("limited", ["0", "1"])
@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_no_row_that_single_scores_keep_right_is_lost(limited, rate):
    model, table = made(800)
    whole, told = calibrate_threshold(model, table, limited, rate, 0.95)
    parts = [table.take(np.arange(m, 800, 3)) for m in range(3)]
    counted, said = threshold_from_counts(
        model, add_up([sum_measures(model, part) for part in parts]), limited, rate, 0.95
    )
    assert (said["risk"], said["rows"]) == (told["risk"], told["rows"])
    own = table.take(np.flatnonzero(table["y"] == int(limited)))
    right, kept = (one.predict(own) == int(limited) for one in (whole, counted))
    assert np.all(kept[right])
    assert kept.mean() <= right.mean() + 0.03


def test_where_the_grid_ends_no_rate_is_promised():
    model, table = made(400)
    sums = sum_measures(model, table)
    sums["reached_negative"] = np.full(101, float(np.sum(table["y"] == 0)))
    with pytest.raises(ConfigurationError, match=r"the predicted risks of y = 0 are above .99 where a threshold"):
        threshold_from_counts(model, sums, "0", 0.05, 0.95)

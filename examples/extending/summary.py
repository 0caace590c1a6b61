"""A summary of one's own: the extremes of columns."""

import numpy as np

import fedualex as fx
from fedualex.summaries import Summary, merge_summaries


def extremes(X):
    """What one client sends: the largest value of each column, and of its negative."""
    return Summary(largest={"most": X.max(axis=0), "least": (-X).max(axis=0)})


X, _ = fx.data.bundled("wine")
X = np.asarray(X)
parts = [X[rows] for rows in np.array_split(np.arange(len(X)), 3)]
known = merge_summaries([extremes(part) for part in parts])
assert np.array_equal(known["most"], X.max(axis=0))
assert np.array_equal(-known["least"], X.min(axis=0))
assert extremes(X).shapes == {"most": (13,), "least": (13,)}  # as long as a row, however many rows there are

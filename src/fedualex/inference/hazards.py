"""The sums of `summarize_effects` for times to events: what a party sends, of a partial likelihood.

The party is a stratum, so that nothing of its baseline hazard is a parameter. A third derivative along u is the third
central moment of <row, u> in risk sets, and so at most the largest deviation from the mean times the second: with rows
of norm at most r from some point, 2 r |u| (docs/inference.md).
"""

from typing import Any

import numpy as np

from ..arrays import Reals
from ..problems.risk_sets import RiskSets, Shares, second_of, slope_of
from .sums import HUGE, UNIT, Sums, one_hot, triangle


def summarize_hazards(own: RiskSets, beta: Reals, scale: float, meat: bool) -> Sums:
    """The sums of a party at beta. scale: what its weights are multiplied by, so that all rows weigh 1 on average.

    events: how many. row_meat: of the residuals of Lin and Wei, a row's own part of the slope when it changes the risk
    sets that it is in. along, against: by how much losses fall, and grow, far away in the direction beta.
    """
    counts, score = scale * own.event * own.weight, own.rows @ beta
    with np.errstate(over="ignore", invalid="ignore"):
        shares = Shares(own, score)
        residuals = _residuals(own, shares, counts)
        slope = slope_of(own, shares, counts)
        sums: dict[str, Any] = {
            "value": counts @ shares.losses(own),
            "slope": slope,
            "second": triangle(second_of(own.rows, shares, counts)),
            "rounding": _rounding(own, shares, counts, np.abs(own.rows) @ np.abs(beta)),
        }
    happened = own.event > 0
    highest, lowest = np.maximum.accumulate(score)[own.last], np.minimum.accumulate(score)[own.last]
    sums |= {
        "rows": float(len(score)),
        "parties": float(len(score) > 0),
        "events": np.array([float(happened.sum())]),
        "uninformative": 0.0,
        "intercepts": 0.0,
        "mass": counts.sum(),
        "against": counts @ (highest - score),
        "along": counts @ (score - lowest),
        "constant": one_hot(2 * float(np.max(own.reach[happened], initial=0.0))),
    }
    if meat:
        sums |= {"row_meat": triangle(residuals.T @ residuals), "party_meat": triangle(np.outer(slope, slope))}
    return {name: np.clip(np.nan_to_num(part, nan=HUGE), -HUGE, HUGE) for name, part in sums.items()}


def _residuals(own: RiskSets, shares: Shares, counts: Reals) -> Reals:
    """For each row: its event less the mean of its risk set, less what it adds to those of all events."""
    means = shares.means(own.rows)
    exposed = shares.pull(counts)
    added = np.stack([shares.pull(counts * column) for column in means.T], axis=1)
    return np.asarray(counts[:, None] * (own.rows - means) - (exposed[:, None] * own.rows - added))


def _rounding(own: RiskSets, shares: Shares, counts: Reals, reach: Reals) -> Reals:
    """How far the slope may be off, to first order: each share by twice the error of a score and of a sum."""
    terms = sum(own.rows.shape) + 16
    each = counts + shares.pull(counts) * (1 + 2 * float(np.max(reach, initial=0.0)))
    return np.asarray(UNIT * terms * (np.abs(own.rows).T @ each))

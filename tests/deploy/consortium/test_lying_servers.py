"""Lying servers against real sites: none learns more than the honest protocol gives it."""

import numpy as np
import pytest
from support.liars import LIARS, copy_world, make_world

from fedualex.deploy.secure.sums import unmask


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("liars"))


@pytest.mark.parametrize("liar", LIARS, ids=lambda liar: liar.__name__)
def test_a_server_that_lies_is_refused_or_gets_noise(world, tmp_path, liar):
    for seed in range(2):
        (tmp_path / str(seed)).mkdir()
        liar(copy_world(world, tmp_path / str(seed)), np.random.default_rng(seed))


def test_a_server_that_picks_its_points_solves_for_a_row_even_under_masks(world, tmp_path):
    """What no rule about points prevents, and docs/trust.md says: only noise, or few answers, keep a row back then.

    At weights so large that every row is wholly on one side, two thresholds with one row between them have sums that
    differ by that row.
    """
    mine, rng = copy_world(world, tmp_path), np.random.default_rng(0)
    asked = mine.last("survey")
    direction = rng.normal(size=asked.arrays["points.x['weights']"].shape[1])

    def slopes(threshold):
        arrays = {
            "points.x['weights']": 1e9 * direction[None],
            "points.x['bias']": np.array([-1e9 * threshold]),
            "points.y": np.full((1, 3), 1 / 3),
        }
        request = mine.fresh(asked, rng, arrays=arrays)
        total = unmask({name: mine.sites[name].work(request) for name in sorted(mine.sites)})
        return np.append(total["operators.x['weights']"][0], total["operators.x['bias']"][0])

    lower, upper = -10.0, 10.0
    below, above = slopes(lower), slopes(upper)
    tables = [site._work.__self__.side for site in mine.sites.values()]
    weights = tables[0].recipe.recipe(mine.known)
    shares = (1 - weights.spread) / 3 + weights.spread * weights.prior
    one = [share / side.table.trained.rows for share, side in zip(shares, tables, strict=True)]
    for _ in range(60):
        if np.any(np.isclose(below[-1] - above[-1], one, rtol=1e-6)):
            break
        middle = (lower + upper) / 2
        between = slopes(middle)
        if below[-1] - between[-1] > 1e-9:
            upper, above = middle, between
        else:
            lower, below = middle, between
    row = (above - below)[:-1] / (above - below)[-1]
    known = mine.known
    rows = [side.recipe.rows(side.table.trained, known).X for side in tables]
    assert np.min(np.max(np.abs(np.concatenate(rows) - row), axis=1)) < 1e-6

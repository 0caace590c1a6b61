"""`make bench-exchanges`: its problems are what they are called, and a row of each kind can be made and shown."""

import sys
from pathlib import Path

import numpy as np
import pytest

import fedualex as fx

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import exchange_page
import exchange_problems
import exchanges
import newton_exchanges


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "delta"), [("q05", 0.05), ("q3", 0.3), ("b5", 0.5)])
def test_games_have_the_similarity_of_their_name(name, delta):
    found = fx.theory.similarity(exchange_problems.problem(name))
    assert found.how == "exact"
    assert found.delta == pytest.approx(delta, rel=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["cancer", "digits"])
def test_ten_clients_share_real_data(name):
    assert exchange_problems.problem(name).clients == 10


@pytest.mark.slow
def test_one_row_of_each_kind():
    game = exchange_problems.problem("q3")
    slide = exchanges.slid(game, "survey", last=10)["all"]
    assert list(slide) == [10]
    baseline = exchanges.BASELINES["SynchronousMirrorProx"]
    row = exchanges.tuned(game, baseline, 1.0, grid=range(3), last=10)
    assert 0 < slide[10] < row["all"][10] <= row["plain"][10] < np.inf


def test_a_level_is_reached_with_the_allowance_for_rounding():
    row = {"gaps": [None, 1e-3, 2e-8], "exchanges": [1, 2, 3], "rounding": 1.5e-8}
    assert [newton_exchanges.reached(row, level) for level in (1e-2, 1e-8, 1e-9)] == ["2", "3", "-"]


@pytest.mark.parametrize(
    ("number", "text"), [(0.5, ".5"), (1.24, "1.2"), (3.46e-4, "3.5e-4"), (0.034, ".034"), (1e-12, "1.0e-12")]
)
def test_numbers_have_two_digits(number, text):
    assert exchange_page.short(number) == text


def test_every_row_has_a_count_and_a_style():
    rows = [*exchanges.BASELINES, *(f"FeDualSlide, {mode}" for mode in exchanges.MODES)]
    assert set(rows) == set(exchange_page.COUNTS) == set(exchange_page.looks())
    for name, baseline in exchanges.BASELINES.items():
        method = baseline.made(1.0, 1.0)
        assert baseline.exchanges == method.exchanges - isinstance(method, fx.LeadSliding), name

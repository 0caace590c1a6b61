"""Many examples are read in blocks, and the sums are those of all examples at once."""

import jax
import numpy as np
import pytest

import fedualex as fx
from fedualex.compiling import double
from fedualex.problems import general as one_pass

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(400, 6))
LABEL = RNG.choice([0, 1], 400)
CLIENTS = RNG.integers(0, 3, 400)

PROBLEMS = {
    "saddle": lambda: fx.problems.agnostic(ROWS, LABEL, CLIENTS, l1=0.01),
    "minimization": lambda: fx.problems.sparse_glm("logistic", ROWS, LABEL, CLIENTS, l1=0.01),
    "a y for each row": lambda: fx.problems.robust_regression(ROWS, ROWS @ np.arange(6), CLIENTS, l1=0.01),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
def test_blocks_add_up_to_the_whole(make, monkeypatch):
    problem = make()
    z = jax.tree.map(lambda leaf: leaf + 0.01 * RNG.normal(size=leaf.shape), problem.project(problem.like))
    with double():
        assert one_pass.rows_of_a_block(z, problem.data.examples) is None
        whole, errors = problem.survey(z), problem.operator_error(z, problem.operator(z))
        monkeypatch.setattr(one_pass, "LARGE", 0)
        monkeypatch.setattr(one_pass, "BLOCK", 6000)
        assert one_pass.rows_of_a_block(z, problem.data.examples) in (16, 32)
        blocks, other = problem.survey(z), problem.operator_error(z, problem.operator(z))
    for one, two in zip(jax.tree.leaves((whole, errors)), jax.tree.leaves((blocks, other)), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-13, atol=1e-15)


def test_when_there_are_blocks():
    row = jax.ShapeDtypeStruct((20, 3328, 419), np.float64)
    like = {"row": row, "target": jax.ShapeDtypeStruct((20, 3328), np.float64)}
    assert one_pass.rows_of_a_block(np.zeros(420), like) == 2
    assert one_pass.rows_of_a_block(np.zeros(60_000), like) is None  # every block would add to all of them
    assert one_pass.rows_of_a_block(np.zeros(420), {"row": jax.ShapeDtypeStruct((1, 61_441, 419), np.float64)}) is None
    assert one_pass.rows_of_a_block(np.zeros(420), {"row": jax.ShapeDtypeStruct((5000, 64, 419), np.float64)}) is None

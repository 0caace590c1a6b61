"""Lying servers against real sites: none learns more than the honest protocol gives it."""

import numpy as np
import pytest
from support.liars import LIARS, copy_world, make_world


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("liars"))


@pytest.mark.parametrize("liar", LIARS, ids=lambda liar: liar.__name__)
def test_a_server_that_lies_is_refused_or_gets_noise(world, tmp_path, liar):
    for seed in range(2):
        (tmp_path / str(seed)).mkdir()
        liar(copy_world(world, tmp_path / str(seed)), np.random.default_rng(seed))

"""Lying servers against real sites behind their rules: nothing is answered, or what is answered is noise."""

import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from support.liars import LIARS, World, copy_world, make_world

from .harness import require, within
from .terms import Rng


@cache
def world() -> World:
    """Sites after an honest run, which every liar gets a copy of."""
    return make_world(Path(mkdtemp(prefix="liars-")))


def attack(rng: Rng) -> None:
    """One liar with numbers of its own."""
    liar, place = LIARS[rng.integers(len(LIARS))], Path(mkdtemp(prefix="liar-"))
    repro = f"# support.liars.{liar.__name__}"
    try:
        with within(300, liar.__name__, repro):
            liar(copy_world(world(), place), rng)
    except (AssertionError, pytest.fail.Exception) as error:
        require(False, f"{liar.__name__}: {error}", repro)
    finally:
        shutil.rmtree(place)

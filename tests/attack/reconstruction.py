"""Rows of sites from all that a server holds after an honest run: of every goal, with and without masks, none."""

import shutil
from pathlib import Path
from tempfile import mkdtemp

from support.patients import HOSPITALS
from support.reconstruction import GOALS, found_gradients, found_rows, hold

from fedualex.deploy.clients import SilentSitesError
from fedualex.deploy.consortium.agreement import check_goal
from fedualex.runs.settings import ConfigurationError

from .harness import require, within
from .terms import Rng


def attack(rng: Rng) -> None:
    """One run of one goal on tables of random sizes."""
    goal, masked = str(rng.choice(list(GOALS))), bool(rng.random() < 0.5)
    rows, seed = {name: int(rng.integers(14, 60)) for name in HOSPITALS}, int(rng.integers(2**31))
    repro = f"# support.reconstruction.hold(folder, {goal!r}, {masked}, {rows}, seed={seed})"
    try:
        check_goal(goal.partition(",")[0])
    except ConfigurationError:
        return  # it is not deployed
    place = Path(mkdtemp(prefix="held-"))
    try:
        with within(600, "a run", repro):
            held = hold(place, goal, masked, rows, seed)
    except SilentSitesError:
        return  # a site has too few rows of a class, group or event, and its rules refuse
    finally:
        shutil.rmtree(place)
    require(found_rows(held) == 0, f"rows of {goal} follow from what the server holds", repro)
    if masked:
        require(found_gradients(held) == 0, f"the gradient of a single site of {goal} is held under masks", repro)

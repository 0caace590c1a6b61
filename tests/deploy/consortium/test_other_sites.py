"""What one site can learn about the others: all that it is sent, and attempts to find others' rows and sums in it."""

from functools import cache

import numpy as np
import pytest
from support.patients import HOSPITALS
from support.reconstruction import GOALS, Held, found_rows, found_vectors, hold

from fedualex.deploy.consortium.messages import unpack_model
from fedualex.deploy.wire import unpack_known

ROWS = {"east": 23, "north": 29, "west": 31}
DEPLOYED = list(GOALS)
APART = {"place", "rows", "mass"}
"""Of merged summaries, what is kept apart by site: the order of its columns, the number and the weight of its rows."""
KINDS = pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])


def sent_to(held, site):
    """(task, number, arrays) of all requests to one site."""
    return [(task, number, arrays) for name, task, number, arrays in held.told if name == site]


def view_of(held, site):
    """What a site holds: what it was sent, and its own answers; beside it the rows of the others."""
    own = [("own", 0, {key: array}) for name, key, array in held.alone if name == site]
    others = np.concatenate([rows for name, rows in held.rows_of.items() if name != site])
    sent = [("sent", number, arrays) for _, number, arrays in sent_to(held, site)]
    return Held(answered=[*sent, *own], rows=others)


def numbers_of(arrays):
    return [np.asarray(array) for array in arrays.values() if array.dtype.kind == "f"]


@pytest.fixture(scope="module")
def held_of(tmp_path_factory):
    """All that an honest run of a goal has told, made once for each goal."""

    @cache
    def held(goal, masked):
        return hold(tmp_path_factory.mktemp("run"), goal, masked, ROWS)

    return held


@pytest.mark.sampled(7)
@pytest.mark.parametrize("goal", DEPLOYED)
@KINDS
def test_what_another_site_is_sent(held_of, goal, masked):
    """All are sent the same; no row of another follows from it, and no gradient or mean loss of another is in it."""
    held = held_of(goal, masked)
    everyone = [
        sorted(
            (task, number, sorted((key, array.tobytes()) for key, array in arrays.items()))
            for task, number, arrays in sent
            if masked or task != "calibrate"  # in the clear each site is sent the estimates of its own calibration
        )
        for sent in (sent_to(held, site) for site in HOSPITALS)
    ]
    assert everyone[0] == everyone[1] == everyone[2]
    for site in HOSPITALS:
        assert found_rows(view_of(held, site)) == 0
        gradients = [(name, array) for name, key, array in held.alone if name != site and "operators" in key]
        assert found_vectors(gradients, [a for _, _, sent in sent_to(held, site) for a in numbers_of(sent)]) == 0
        losses = {float(t) for name, key, a in held.alone if name != site and "values" in key for t in np.ravel(a)}
        told = {float(t) for _, _, sent in sent_to(held, site) for a in numbers_of(sent) for t in np.ravel(a)}
        assert not (losses - {0.0, np.log(2)}) & told
    assert not any(key.startswith("curvature") for _, _, sent in sent_to(held, "east") for key in sent)


@KINDS
@pytest.mark.parametrize("goal", ["logistic", "fair"])
def test_another_site_is_told_merged_summaries_and_of_each_site_its_rows_alone(held_of, goal, masked):
    """Counts and sums of columns of all together, categories and classes that some site has; rows and weights of each."""
    held = held_of(goal, masked)
    known = unpack_known(next(arrays for task, _, arrays in sent_to(held, "east") if task == "begin"))
    own = {site: [a for name, key, a in held.alone if name == site and "summary sums" in key] for site in HOSPITALS}
    for part in known:
        for name, array in part.items():
            if name in APART and array.shape[:1] == (3,):
                continue
            assert array.shape[:1] != (3,) or array.ndim == 1, f"{name} has a row for each site"
            if array.dtype.kind in "fi" and np.any(array):
                assert not any(np.array_equal(array, alone) for sums in own.values() for alone in sums), name
    assert [int(count) for count in known[3]["rows"]] == [len(held.rows_of[site]) for site in HOSPITALS]


@KINDS
def test_the_model_tells_another_site_the_measures_that_the_server_has(tmp_path, masked):
    """Those of each site in the clear, and of all together under masks."""
    held = hold(tmp_path, "logistic", masked, dict.fromkeys(HOSPITALS, 40))
    arrays = next(arrays for task, _, arrays in sent_to(held, "east") if task == "model")
    told = unpack_model(arrays).training["held_out"]
    assert set(told["clients"]) == (set() if masked else set(HOSPITALS))
    assert told["rows"] > 0

"""What a server can make of an honest run: no array is as long as a site's table, and no row can be solved for."""

import numpy as np
import pytest
from support.command_line import cli, refused
from support.reconstruction import GOALS, found_gradients, found_rows, hold, write_sites

import fedualex.tables.goals as goals
from fedualex.deploy.consortium import agreement, kit
from fedualex.deploy.consortium.agreement import check_goal
from fedualex.runs.settings import ConfigurationError

ROWS = {"east": 30, "north": 24, "west": 18}
MORE = {"east": 47, "north": 35, "west": 21}
REFUSED = ("robust",)
DEPLOYED = [name for name in GOALS if name not in REFUSED]
LOCAL = {"run": {"local_steps": 3}, "method": {"name": "FeDualExCorrected"}}


def test_every_goal_is_deployed_here_or_refused():
    assert {name.partition(",")[0] for name in GOALS} == goals.GOALS.keys()


@pytest.mark.parametrize("goal", REFUSED)
def test_a_goal_with_a_dual_number_for_each_row_stays_on_one_machine(tmp_path, goal):
    with pytest.raises(ConfigurationError, match="one dual number for each row would leave a site; use lasso"):
        check_goal(goal)
    words = "the goal robust is for one machine: one dual number for each row would leave a site; use lasso"
    options = ("--goal", goal, "--target", "days", "--sites", "a,b,c")
    assert words in refused("deploy", "init", tmp_path / "kit", *options)
    assert not (tmp_path / "kit").exists()
    write_sites(tmp_path, ROWS, GOALS[goal])
    fit = ("fit", tmp_path / "east.csv", "--target", "days", "--goal", goal, "--rounds", "3", "--out", tmp_path / "fit")
    assert "model: " in cli(*fit).output


def shapes(held) -> set:
    """The name and shape of every array that left a site, but for the names of columns and classes."""
    texts = ("names", "labels", "columns")
    return {
        (task, name, np.shape(array))
        for task, _, arrays in held.answered
        for name, array in arrays.items()
        if name.partition(".")[0] not in texts and array.dtype != np.uint8
    }


STEPS = [pytest.param({}, id="surveys"), pytest.param({**LOCAL, "rounds": 2}, id="local steps", marks=pytest.mark.slow)]


@pytest.mark.parametrize("options", STEPS)
@pytest.mark.parametrize("goal", DEPLOYED)
def test_no_released_array_is_as_long_as_a_table_has_rows(tmp_path, goal, options):
    found = []
    for name, rows in (("few", ROWS), ("more", MORE)):
        (tmp_path / name).mkdir()
        found.append(shapes(hold(tmp_path / name, goal, False, rows, **{"rounds": 3, **options})))
    assert found[0] == found[1]
    tasks = {task for task, *_ in found[0]}
    assert tasks >= ({"summary", "survey", "round"} if options else {"summary", "survey"})


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("goal", DEPLOYED)
def test_no_row_follows_from_all_that_a_server_holds(tmp_path, goal, masked):
    held = hold(tmp_path, goal, masked, ROWS)
    assert found_rows(held) == 0
    if masked:
        assert found_gradients(held) == 0


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
def test_the_same_attack_solves_for_every_row_where_rows_have_duals(tmp_path, monkeypatch, masked):
    for module in (agreement, kit):
        monkeypatch.setattr(module, "check_goal", lambda name: None)
    held = hold(tmp_path, "robust", masked, ROWS)
    assert found_rows(held) == len(held.rows)

"""One definition of options: every surface is made from it."""

import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import fedualex as fx
from fedualex.deploy.consortium import settings as deployment_settings
from fedualex.deploy.policy import Policy
from fedualex.deploy.task import DeploymentOptions, RehearsalOptions
from fedualex.report.comparison import CompareOptions
from fedualex.runs.settings import PROTOCOL, RUN_DEFAULTS, configure, run_defaults, run_options
from fedualex.runtime.options import (
    SimulatorOptions,
    SolveOptions,
    decisive_options,
    listing,
    option,
    options,
    table,
    takes,
)
from fedualex.runtime.sweeps import SweepOptions, TuneOptions
from fedualex.validation import whole_number

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "_ext"))

import listings

DOCS = Path(__file__).parents[2] / "docs"
GAME = fx.problems.bilinear(np.eye(2), np.ones(2), x=fx.Box(1.0), y=fx.Box(1.0))
FUNCTIONS = {
    "solve": (fx.solve, SolveOptions),
    "simulate": (fx.simulate, SimulatorOptions),
    "sweep": (fx.sweep, SweepOptions),
    "tune": (fx.tune, TuneOptions),
    "compare": (fx.compare, CompareOptions),
    "deploy.run": (fx.deploy.run, RehearsalOptions),
}


@options
class More(SolveOptions):
    """The options of a run, and one more."""

    patience: int = option(whole_number, "Records to wait for.", default=3)
    mood: int = option(whole_number, "Of no part in the rounds.", default=1, decides=False, in_files=False)


@takes(More)
def solve_more(problem, method, options):
    """Solve."""
    return options


def test_a_new_option_is_one_field_and_every_surface_has_it():
    assert solve_more(GAME, fx.FeDualEx(), rounds=2, patience=np.int8(5)).patience == 5
    assert inspect.signature(solve_more).parameters["patience"].default == 3
    assert "patience: Records to wait for. Default: 3." in solve_more.__doc__
    assert "| `patience` | `3` | Records to wait for. |" in table(More)
    with pytest.raises(ValueError, match=r"patience must be a whole number >= 1, got 0"):
        solve_more(GAME, fx.FeDualEx(), patience=0)
    with pytest.raises(TypeError, match=r"there is no option 'patient'; did you mean 'patience'"):
        solve_more(GAME, fx.FeDualEx(), patient=1)
    assert run_defaults(More) == RUN_DEFAULTS | {"patience": 3}
    assert run_options(More, run_defaults(More) | {"patience": 4, "rounds": 2}, GAME).patience == 4
    assert decisive_options(More(patience=4)) != decisive_options(More())
    assert decisive_options(More(mood=2)) == decisive_options(More())


@pytest.mark.parametrize(
    ("given", "rounds", "tol"),
    [
        ({}, 1000, 1e-4),
        ({"tol": 0.1}, 1000, 0.1),
        ({"max_seconds": 5.0}, 1000, None),
        ({"rounds": 7}, 7, None),
        ({"steps": 7}, None, None),
    ],
)
def test_solve_need_not_be_told_when_to_end(given, rounds, tol):
    chosen = SolveOptions(**given)
    assert (chosen.rounds, chosen.tol) == (rounds, tol)
    tables = {"problem": {"name": "paper_l1"}, "method": {"name": "FeDualEx"}, "run": given}
    written = configure(tables, Path()).resolved["run"]
    assert (written["rounds"], written["tol"]) == (rounds, tol)


def test_solve_without_options_ends_with_a_certificate():
    run = fx.solve(GAME)
    assert run.stop is fx.Stop.TOLERANCE
    assert run.gap <= 1e-4


@pytest.mark.parametrize("function", [fx.simulate, fx.tune])
def test_what_runs_all_rounds_must_be_told_how_many(function):
    with pytest.raises(TypeError, match=r"give either rounds= .* or steps="):
        function(GAME, fx.FeDualEx())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_fields_of_their_options_as_keywords(name):
    function, kind = FUNCTIONS[name]
    problem, method, *keywords = inspect.signature(function).parameters.values()
    assert (problem.name, method.name) == ("problem", "methods" if name == "compare" else "method")
    assert [keyword.name for keyword in keywords] == [one.name for one in fields(kind)]
    assert listing(kind) in function.__doc__
    for one in fields(kind):
        assert one.metadata["meaning"].endswith("."), one.name


def test_a_deployment_has_the_same_options_in_its_file():
    shared = {one.name for one in fields(fx.deploy.DeploymentOptions) if one.metadata["in_files"]}
    assert deployment_settings.RUN_DEFAULTS.keys() == shared | {"noise", "minibatch", "start"}


@pytest.mark.parametrize(
    ("page", "kind", "known"),
    [
        ("simulator.md", SolveOptions, None),
        ("deployment.md", DeploymentOptions, SolveOptions),
        ("trust.md", Policy, None),
    ],
)
def test_the_table_of_the_docs_is_made_from_the_fields(page, kind, known):
    """A page whose functions share options with others has those that differ, and names the rest before its table."""
    text = (DOCS / page).read_text()
    before, mark, _ = text.partition("<!-- the options of ")
    shown = listings.expanded(text)
    assert mark
    assert table(kind, known) in shown
    for one in fields(kind):
        assert f"| `{one.name}` |" in shown or f"`{one.name}`" in before


@pytest.mark.slow
def test_a_type_checker_refuses_wrong_keywords_and_types(tmp_path):
    lines = {
        "fx.solve(game, method, rounds=3, tol=1e-3)": None,
        "fx.solve(game, method, round=3)": 'Unexpected keyword argument "round"',
        "fx.solve(game, 3)": 'matches argument types "Bilinear", "int"',
        'fx.simulate(game, method, rounds="3")': 'matches argument types "Bilinear", "FeDualEx", "str"',
        "fx.simulate(game, method, rounds=3, tol=1e-3)": 'Unexpected keyword argument "tol"',
        "fx.compare(game, [method], rounds=3, tol=1e-3, seeds=2).runs": None,
        "fx.compare(game, method, rounds=3)": 'Argument 2 to "compare" has incompatible type "FeDualEx"',
        'fx.tune(game, method, rounds=3, grid={"eta_c": [0.1]}).method': None,
        'fx.problems.auc([[1.0], [2.0]], ["a", "b"], [0, 1], l1=np.float64(0.1))': None,
        'fx.problems.auc([[1.0], [2.0]], ["a", "b"], [0, 1], l1="0.1")': 'Argument "l1" to "auc" has incompatible type "str"',
        "fx.data.iid(10, 2.5)": 'Argument 2 to "iid" has incompatible type "float"',
    }
    script = tmp_path / "script.py"
    head = "import numpy as np\nimport fedualex as fx\ngame, method = fx.problems.paper_l1(), fx.FeDualEx(0.1)\n"
    script.write_text(head + "\n".join(lines))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(script)]
    said = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600).stdout
    for number, refusal in enumerate(lines.values(), start=4):
        found = [line for line in said.splitlines() if line.startswith(f"script.py:{number}: error")]
        assert (refusal is None) == (not found), said
        assert refusal is None or refusal in found[0]


# --- things that declare themselves ---------------------------------------------------------------------------------

METHODS = [getattr(fx.algorithms, name) for name in fx.algorithms.__all__ if name not in PROTOCOL]


@pytest.mark.parametrize("make", METHODS)
def test_methods_declare_their_step_sizes(make):
    method = make()
    names = method.step_names()
    assert names or method.outputs or method.asks_curvature  # which finds its steps on the way, or needs none
    assert set(names) <= set(vars(method))
    assert set(method.missing_steps()) <= set(names)
    rule = method.theory_steps(0.1, 2.0, 10)
    assert all(rule[name] > 0 for name in method.missing_steps())

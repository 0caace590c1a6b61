"""Methods side by side on the field's problems: what is tried, kept, resumed, counted and shown."""

import csv
import json
import re
import subprocess
import sys

import numpy as np
import pytest

import fedualex as fx
from fedualex.field import FIELD, METHODS, Plan, Task, benchmark, read_additions, write_page
from fedualex.field.benchmark import gap_of_start, operators_of, read_benchmark
from fedualex.field.page import headline, stairs

ROWS = [(np.array([[1.0, 0.5], [0.2, -1.0]]), np.array([1.0, 0.0])), (np.array([[0.3, 0.9]]), np.array([2.0]))]
TINY = Plan(exchanges=6, tries=2, seeds=2, records=3)
OWN = '''
import numpy as np
import fedualex as fx
from fedualex.algorithms.primal import AbstractPlainMethod, descend
from fedualex.algorithms.base import step
from fedualex.field import Entrant


class Doubled(AbstractPlainMethod):
    """Descent with a step that is twice as long as it says."""

    eta_c: np.ndarray = step("eta_c")
    eta_s: np.ndarray = step("eta_s", 1.0)

    def local_step(self, local, oracle, geometry):
        z = descend(local.z, local.z, 2 * self.eta_c, oracle, 0, geometry)
        return local.move(z, self.eta_c), z, self.eta_c


def loss(x, row):
    return 0.5 * (row[0] @ x - row[1]) ** 2


rng = np.random.default_rng(0)
data = [(rng.normal(size=(4, 2)), rng.normal(size=4)) for _ in range(3)]
METHODS = {"doubled": Entrant(Doubled(), local_steps=(1, 2))}
PROBLEMS = {"mine": fx.Problem(loss, x=fx.L1(0.1) + fx.Box(2.0), like=fx.Saddle(np.zeros(2)), data=data)}
'''


def loss(x, row):
    return 0.5 * (row[0] @ x - row[1]) ** 2


def squares():
    return fx.Problem(loss, x=fx.L1(0.1) + fx.Box(2.0), like=fx.Saddle(np.zeros(2)), data=ROWS)


def test_a_file_of_ones_own_competes_and_is_resumed(tmp_path):
    """A method and a problem from outside, in 30 lines; what is done is not done again."""
    (tmp_path / "own.py").write_text(OWN)
    tasks, entrants = read_additions(tmp_path / "own.py")
    entrants |= {name: METHODS[name] for name in ("FeDualNewton", "DRFA")}
    told = []
    found = benchmark(
        tmp_path / "out", problems=tasks, methods=entrants, plan=TINY, show=lambda *state: told.append(state)
    )
    assert found.problems == ["mine"]
    assert found.methods == ["doubled", "FeDualNewton", "DRFA"]
    own, newton, _ = found.results
    assert len(own.tried) == 2
    assert own.tried[0]["local_steps"] == 1
    assert own.chosen["eta_c"] in [one["eta_c"] for one in own.tried]
    assert newton.reach(1e-6) <= 3 < own.reach(1e-6)
    assert newton.curves[0].gap[-1] < 1e-8 * newton.start
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "out" / "results").iterdir()}
    (tmp_path / "out" / "results" / "mine-DRFA.json").unlink()
    again = benchmark(tmp_path / "out", problems=tasks, methods=entrants, plan=TINY)
    assert len(again.results) == 3
    assert sum(file.stat().st_mtime_ns != before[file] for file in before) == 1
    with pytest.raises(ValueError, match="holds a benchmark with another plan"):
        benchmark(tmp_path / "out", problems=tasks, methods=entrants, plan=Plan(exchanges=7))
    check_page(again)


def check_page(found):
    page, *others = write_page(found)
    text = page.read_text()
    assert headline(found).startswith("FeDualNewton reached 0.0001 of the start's gap on 1 of 1 problems")
    assert "http" not in text.replace("http-equiv", "")  # it opens offline
    assert all(file.stat().st_size > 100 for file in others)
    rows = list(csv.DictReader((found.folder / "results.csv").read_text().splitlines()))
    assert {row["method"] for row in rows} == set(found.methods)
    gaps = [float(row["gap"]) for row in rows if row["method"] == "doubled" and row["gap"]]
    assert gaps == sorted(gaps, reverse=True)
    assert re.search(r"textbf\{[23]\}", (found.folder / "results.tex").read_text())


def test_what_does_not_apply_is_refused_with_its_reason(tmp_path):
    game = fx.problems.bilinear(np.eye(2), np.ones(2), x=fx.Box(1.0), y=fx.Box(1.0))
    methods = {name: METHODS[name] for name in ("SDANE",)}
    found = benchmark(tmp_path, problems={"game": Task(lambda: game, clients=2)}, methods=methods, plan=TINY)
    assert found.results[0].refused.startswith("SDANE is a method for minimization")
    assert json.loads(next((tmp_path / "results").iterdir()).read_text())["curves"] == []


def test_operators_are_counted_as_clients_evaluate_them():
    """Two calls a local step of an extra-step method; a survey, and a client's own operator at its reference."""
    counted = {name: operators_of(METHODS[name], squares(), 5) for name in ("FeDualEx", "FedAvgS", "ScaffoldS")}
    assert counted == {"FeDualEx": 10, "FedAvgS": 5, "ScaffoldS": 7}
    assert operators_of(METHODS["FeDualNewton"], squares(), 1) == 3


def test_all_methods_are_measured_by_one_gap_at_the_start():
    """That of zero after one survey: what the penalized loss of zero exceeds its lower bound by."""
    assert 0 < gap_of_start(squares()) <= 0.5 * np.mean([0.5, 4.0]) + 2


def test_a_profile_rises_where_problems_are_solved():
    at, share = stairs(np.array([3.0, np.inf, 3.0, 10.0]), 20)
    np.testing.assert_array_equal(at, [1, 3, 3, 10, 20])
    np.testing.assert_array_equal(share, [0, 0.5, 0.5, 0.75, 0.75])


@pytest.mark.parametrize(("content", "why"), [("x = 1", "defines neither PROBLEMS"), ("METHODS = {'a': 3}", "methods")])
def test_a_wrong_file_is_refused(tmp_path, content, why):
    (tmp_path / "own.py").write_text(content)
    with pytest.raises((ValueError, TypeError), match=why):
        read_additions(tmp_path / "own.py")


@pytest.mark.slow
def test_the_command_runs_what_is_named(tmp_path):
    command = [sys.executable, "-m", "fedualex", "benchmark", "--quick", "--out", str(tmp_path / "out")]
    named = ["--methods", "FeDualNewton,FeDualSlide", "--problems", "games, similar (delta .1)"]
    done = subprocess.run([*command, *named], capture_output=True, text=True, check=True)
    assert "FeDualNewton reached 0.0001 of the start's gap on 1 of 1 problems" in done.stdout
    assert read_benchmark(tmp_path / "out").methods == ["FeDualSlide", "FeDualNewton"]
    wrong = subprocess.run([*command, "--methods", "FedNewton"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "there is no 'FedNewton'; there are FeDualEx," in wrong.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", FIELD)
def test_the_problems_of_the_field_can_be_certified(name):
    assert gap_of_start(FIELD[name].make()) > 0

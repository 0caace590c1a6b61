"""`fedualex theory`, `methods`, `problems` and `demo`, and the help of every command."""

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from support.command_line import (
    cli,
    here,  # noqa: F401
    read,
    refused,
    strict,
    write_toml,
)

from fedualex.cli import main
from fedualex.paper.demo import METHODS as DEMO
from fedualex.runs.settings import METHODS, PROBLEMS


@pytest.mark.parametrize(
    ("name", "results"),
    [
        ("optimal", [("Theorem 1", "printed"), ("Theorem 1", "corrected"), ("Proposition B, corrected", "ours")]),
        ("machine", [("Theorem 4", "printed"), ("Theorem 4", "corrected")]),
        ("own", [("Theorem 2", "printed"), ("Theorem 2", "corrected"), ("Proposition B, corrected", "ours")]),
    ],
)
def test_theory_prints_constants_and_bounds(here, name, results):
    found = strict(cli("theory", here / f"{name}.toml", "--json").stdout)
    assert [(bound["result"], bound["version"]) for bound in found["bounds"]] == results
    assert found["constants"].keys() == {"beta", "sigma", "grad_bound", "B", "B0", "diameter", "kappa"}
    assert found["constants"]["beta"]["value"] > 0
    assert found["constants"]["sigma"]["value"] == 0
    shown = cli("theory", here / f"{name}.toml").stdout
    assert "Steps and bounds" in shown
    assert "…" not in shown
    assert f"{found['constants']['beta']['value']:.4g}" in shown
    for bound in found["bounds"]:
        if name == "own":  # unbounded: nothing is promised
            assert bound["total"] is None
        elif bound["version"] != "printed":
            assert 0 < bound["best_step"] <= bound["step_limit"]
            assert bound["total"] == pytest.approx(sum(bound["terms"].values()))


def test_theory_knows_the_spectral_norm_and_the_noise(here):
    file = write_toml(here / "theory.toml", run="rounds = 9\nclients = 4\nlocal_steps = 3\nnoise = 0.5")
    constants = strict(cli("theory", file, "--json").stdout)["constants"]
    with np.load(here / "game.npz") as data:
        assert constants["beta"]["value"] == pytest.approx(np.linalg.norm(data["A"], 2))
    assert constants["sigma"]["value"] == pytest.approx(0.5 * np.sqrt(7))
    write_toml(here / "theory.toml", run="steps = 9\nnoise = 0.5")
    assert {bound["result"] for bound in strict(cli("theory", file, "--json").stdout)["bounds"]} == {"Theorem 3"}


def test_the_catalogue_lists_all_that_a_file_can_name():
    methods, problems = (strict(cli(command, "--json").stdout) for command in ("methods", "problems"))
    assert methods.keys() == METHODS.keys()
    assert problems.keys() == PROBLEMS.keys()
    assert all(text and "\n" not in text for text in [*methods.values(), *problems.values()])
    for command, names in (("methods", methods), ("problems", problems)):
        shown = cli(command).stdout
        assert all(name in shown for name in names)


GROUPS = [name for name, command in main.commands.items() if hasattr(command, "commands")]
COMMANDS = [[name] for name in main.commands if name not in GROUPS]
COMMANDS += [[group, name] for group in GROUPS for name in main.commands[group].commands]


@pytest.mark.parametrize("command", [[], *([group] for group in GROUPS), *COMMANDS])
def test_help_of_every_command(command):
    result = cli(*command, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")
    assert cli(*command, "-h").stdout == result.stdout
    if command in COMMANDS:
        assert "--json" in result.stdout


def test_python_m_is_the_same_program():
    program = [sys.executable, "-m", "fedualex", "--version"]
    result = subprocess.run(program, capture_output=True, text=True, timeout=600, check=True)
    assert re.search(r"^python -m fedualex, version \d+\.\d+\.\d+", result.stdout)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_told_how_to_complete(shell, monkeypatch):
    """As docs/cli.md says; the shell then asks the program, which answers with commands and options."""
    if shell == "bash" and shutil.which("bash") is None:
        pytest.fail("there is no bash to write its completion for")
    monkeypatch.setenv("_FEDUALEX_COMPLETE", f"{shell}_source")
    assert "_FEDUALEX_COMPLETE" in CliRunner().invoke(main, [], prog_name="fedualex").stdout
    monkeypatch.setenv("_FEDUALEX_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "fedualex ve")
    monkeypatch.setenv("COMP_CWORD", "ve" if shell == "fish" else "1")
    assert "verify" in CliRunner().invoke(main, [], prog_name="fedualex").stdout


@pytest.mark.parametrize("command", ["methods", "problems"])
def test_in_a_narrow_terminal_no_word_is_cut(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    shown = cli(command).stdout
    assert max(map(len, shown.splitlines())) <= 40
    for name in {"methods": METHODS, "problems": PROBLEMS}[command]:
        assert name in shown.split()
    help_of_fit = cli("fit", "--help").stdout
    assert max(map(len, help_of_fit.splitlines())) <= 40


def test_the_program_starts_without_jax():
    program = "import sys; from fedualex.cli import main; assert 'jax' not in sys.modules; main(['--version'])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True)
    assert re.search(r"version \d+\.\d+\.\d+", result.stdout)


@pytest.mark.slow
def test_demo_shows_every_method_at_its_best_steps_for_each_output(tmp_path):
    out = tmp_path / "demo"
    result = cli("demo", "--out", out, "--json")
    assert result.exit_code == 0
    found = strict(result.stdout)
    assert found["folder"] == str(out)
    assert found["status"] == read(out / "ergodic" / "FeDualEx", "status.json")
    assert found["status"]["output"] == "ergodic"
    assert list(found["tables"]) == ["ergodic", "last", "polished"]  # what Algorithm 1 returns is the first
    gaps = {}
    for output, table in found["tables"].items():
        assert {row["method"] for row in table} == set(DEMO)
        assert all(row["distance"] >= 0 for row in table)
        answers = {row["method"]: row for row in table if row["answer"]}
        assert {row["output"] for row in answers.values()} == {output}
        gaps[output] = {method: row["gap"] for method, row in answers.items()}
    assert gaps["ergodic"]["FeDualEx"] < 0.06
    assert min(gaps["polished"], key=gaps["polished"].get) == "FeDualEx"
    assert gaps["last"]["FedMiP (plain averaging)"] < gaps["last"]["FeDualEx"] < 0.2
    assert found["findings"][0].startswith("Why FedMiP and FedMiD are ahead in last")
    assert "FedDualAvg" in (out / "report.html").read_text()
    assert cli("verify", out).exit_code == 0
    assert "holds something else" in refused("demo", "--out", out / "ergodic" / "FeDualEx")

"""`fedualex compare` and `fedualex report`."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from support.command_line import GAME, OUTPUTS, cli, copied, here, read, refused, solved, strict  # noqa: F401

from fedualex.cli import main
from fedualex.runs.settings import build_problem
from fedualex.runtime import fingerprint


@pytest.mark.slow
def test_compare_shows_runs_of_one_problem(solved, tmp_path):
    runs = [solved(name)[0] for name in ("optimal", "noisy")]
    table = strict(cli("compare", *runs, "--json").stdout)
    assert {row["method"] for row in table} == {"FeDualEx (optimal)", "FeDualEx (noisy)"}
    assert {row["output"] for row in table} - {"best"} == OUTPUTS
    for row in table:
        run = runs["noisy" in row["method"]]
        assert row["gap"] == read(run, "status.json")["outputs"][row["output"]]["gap"]
    out = tmp_path / "comparison"
    shown = cli("compare", *runs, "--out", out).stdout
    assert "(noisy)" in shown
    assert f"report: {out / 'report.html'}" in shown
    page = (out / "report.html").read_text()
    assert "FeDualEx (noisy)" in page
    assert read(out, "manifest.json")["kind"] == "comparison"


@pytest.mark.slow
def test_compare_refuses_what_cannot_be_compared(solved, copied, tmp_path):
    optimal = solved("optimal")[0]
    for other in ("diverged", "machine"):
        assert "different problems" in refused("compare", optimal, solved(other)[0], "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    result = cli("compare")
    assert result.exit_code == 2
    assert "Missing argument" in result.stderr


@pytest.mark.slow
def test_compare_never_writes_over_a_run(solved, copied, tmp_path):
    path = copied("optimal")
    assert "kind 'comparison' is needed" in refused("compare", path, "--out", path)
    assert cli("verify", path).exit_code == 0
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"")
    assert "not a folder that fedualex wrote" in refused("compare", path, "--out", tmp_path / "photos")


def test_compare_ignores_what_is_no_run_and_says_so(solved, copied, tmp_path):
    run = copied("short")
    (tmp_path / "report.html").write_text("a page")
    (tmp_path / "figures").mkdir()
    result = CliRunner().invoke(main, ["compare", *map(str, sorted(tmp_path.iterdir())), "--json"])
    assert result.exit_code == 0
    assert {row["method"] for row in strict(result.stdout)} == {"FeDualEx"}
    assert result.stderr == "ignored, for they are no runs: figures, report.html\n"
    assert "there is no folder" in refused("compare", run, tmp_path / "gone")
    assert "it has no manifest.json" in refused("compare", tmp_path / "figures")


def test_report_and_figures_of_a_run(copied):
    path = copied("spectral")
    page = Path(strict(cli("report", path, "--json").stdout)["report"])
    assert page == path / "report.html"
    text = page.read_text()
    assert text.lstrip().lower().startswith("<!doctype html>")
    assert "Certified within " in text
    assert len(text) < 2e6
    files = [Path(file) for file in strict(cli("figures", path, "--json").stdout)["figures"]]
    assert {file.name for file in files} == {"captions.md"} | {
        f"spectral-{output}{axis}.{kind}"
        for output in ("last", "ergodic")
        for axis in ("", "-megabytes")  # as many exchanges as rounds
        for kind in ("png", "pdf")
    }
    assert "of the output last" in (path / "figures" / "captions.md").read_text()


@pytest.mark.slow
def test_report_of_a_run_without_certificates(copied):
    path = copied("own")
    assert cli("report", path).exit_code == 0
    assert "the domain is unbounded in x" in (path / "report.html").read_text()


def test_compare_keeps_runs_of_equal_names_apart(solved, copied):
    table = strict(cli("compare", solved("short")[0], copied("short"), "--json").stdout)
    assert len(table) == 2 * len(OUTPUTS)


def test_a_loss_is_told_apart_by_what_it_closes_over(here):
    first, second = (build_problem({"entry": "cli_own:closed_over", "shift": s}, here) for s in (1.0, 2.0))
    assert fingerprint(first) != fingerprint(second)


SEVERAL = (
    '[[method]]\nname = "FeDualEx"\neta_c = 0.5\n\n[[method]]\nname = "FeDualEx"\nlabel = "short steps"\neta_c = 0.01\n'
)


def several(path, methods=SEVERAL):
    path.write_text(f"[problem]\n{GAME}\n\n{methods}\n[run]\nrounds = 200\nrecord_every = 10\ntol = 1e-3\n")
    return path


@pytest.mark.slow
def test_several_methods_of_a_file_are_solved_and_compared(here, tmp_path):
    file, out = several(here / "several.toml"), tmp_path / "out"
    result = cli("solve", file, "--out", out)
    assert result.exit_code == 3  # of the method that did not get there
    assert "FeDualEx: status: OPTIMAL, TOLERANCE" in result.stdout
    assert f"report: {out / 'report.html'}" in result.stdout
    assert read(out, "manifest.json")["runs"] == ["FeDualEx", "short-steps"]
    assert read(out / "short-steps", "manifest.json")["configuration"]["label"] == "short steps"
    assert cli("verify", out).exit_code == 0
    (out / "short-steps" / "status.json").unlink()  # as if it had been killed
    before = (out / "FeDualEx" / "status.json").read_bytes()
    found = strict(cli("solve", file, "--out", out, "--json").stdout)
    assert found["runs"].keys() == {row["method"] for row in found["table"]} == {"FeDualEx", "short steps"}
    assert (out / "FeDualEx" / "status.json").read_bytes() == before
    other = several(here / "other.toml", SEVERAL.replace("short", "shorter"))
    assert "a comparison of other methods" in refused("solve", other, "--out", out)


def test_what_is_wrong_with_several_methods_is_said(here, tmp_path):
    for methods, refusal in (
        (SEVERAL.replace("eta_c = 0.01", "eta = 0.01"), "[[method]] short steps has no key 'eta'"),
        (SEVERAL.replace('"short steps"', "3"), "[[method]] label must be a text"),
        (SEVERAL.replace("eta_c = 0.5", 'label = "short steps"'), "[[method]] label must be another one for each"),
    ):
        assert refusal in refused("solve", several(here / "wrong.toml", methods), "--out", tmp_path / "out")
    (here / "wrong.toml").write_text("method = []\n")
    assert "a table [method], or tables [[method]], got []" in refused("solve", here / "wrong.toml")
    assert not (tmp_path / "out").exists()

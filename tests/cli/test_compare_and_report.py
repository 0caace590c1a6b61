"""`fedualex compare` and `fedualex report`."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from support.command_line import GAME, OUTPUTS, cli, copied, here, read, refused, solved, strict  # noqa: F401

from fedualex.cli import main


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

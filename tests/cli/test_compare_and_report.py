"""`fedualex compare` and `fedualex report`."""

from pathlib import Path

import pytest
from support.command_line import OUTPUTS, cli, copied, here, read, refused, solved, strict  # noqa: F401

from fedualex.experiments.registry import build_problem
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
    assert {file.suffix for file in (out / "figures").iterdir()} == {".png", ".pdf"}
    assert all(file.stat().st_size > 1000 for file in (out / "figures").iterdir())
    assert read(out, "manifest.json")["kind"] == "comparison"


def test_compare_refuses_what_cannot_be_compared(solved, copied, tmp_path):
    optimal = solved("optimal")[0]
    for other in ("diverged", "machine"):
        assert "different problems" in refused("compare", optimal, solved(other)[0], "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    result = cli("compare")
    assert result.exit_code == 2
    assert "Missing argument" in result.stderr


def test_compare_never_writes_over_a_run(solved, copied, tmp_path):
    path = copied("optimal")
    assert "kind 'comparison' is needed" in refused("compare", path, "--out", path)
    assert cli("verify", path).exit_code == 0
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"")
    assert "not a folder that fedualex wrote" in refused("compare", path, "--out", tmp_path / "photos")


def test_report_of_a_run(copied):
    path = copied("spectral")
    files = [Path(file) for file in strict(cli("report", path, "--json").stdout)]
    assert files[0] == path / "report.html"
    assert all(file.stat().st_size > 1000 for file in files)
    assert {file.name for file in files[1:]} == {
        f"spectral-{output}{axis}.{kind}"
        for output in ("last", "ergodic")
        for axis in ("", "-exchanges", "-megabytes")
        for kind in ("png", "pdf")
    }
    page = files[0].read_text()
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "FeDualEx" in page


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

"""The command line, as a user would run it."""

from click.testing import CliRunner

from fedualex.cli import main


def test_demo_certifies_the_exact_saddle_point():
    result = CliRunner().invoke(main, ["demo"], env={"COLUMNS": "120"})
    assert result.exit_code == 0
    assert "saddle value 1.436844" in result.output
    assert "exact saddle point" in result.output
    assert "random feasible" in result.output
    last = result.output.strip().splitlines()[-1]
    assert last.startswith("certificate of the exact point: gap <= ")
    assert float(last.split()[7]) < 1e-9

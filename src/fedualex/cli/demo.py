"""`fedualex demo`: four methods on the paper's l1 game, with certificates and a report."""

import sys
from pathlib import Path

import click

from .common import exit_code, json_option, one_line_errors, out_option, print_json


@click.command()
@out_option(default="fedualex-demo", show_default=True, help="Where runs and report go.")
@click.option(
    "--seed", default=0, type=click.IntRange(0, 2**63 - 1), show_default=True, help="Of the start and the noise."
)
@json_option
@one_line_errors
def demo(out: Path, seed: int, as_json: bool) -> None:
    """FeDualEx and three baselines on the paper's l1 game: 100 clients, 10 local steps, noise 0.1; under a minute.

    Each has the steps of the paper's grid that suit its polished output, which is its answer; FedMiP and FedMiD average
    plainly on the server. FeDualEx ends when its certificate meets a tolerance.
    """
    from ..experiments import demo as runs
    from ..report import write_report
    from ..report.collect import collect
    from .comparison import print_comparison

    if not as_json:
        click.echo(f"min max <A x - b, y> + 0.1 |x|_1 - 0.1 |y|_1, 600 + 300 variables in a box; tol {runs.TOL:g}")

    def announce(label: str, text: str) -> None:
        if not as_json:
            click.echo(f"{label}: {text}")

    first = runs.run_demo(out, seed, announce)
    page, panel = write_report(out), collect(out)["panels"][0]
    if as_json:
        print_json({"folder": str(out), "status": first, "findings": panel["findings"], "table": panel["table"]})
    else:
        print_comparison(panel)
        click.echo("\n".join([panel["headline"], *panel["findings"], f"report: {page}"]))
    sys.exit(exit_code(first, runs.TOL))

"""`fedualex demo`: four methods on the paper's l1 game, each at its best steps, with certificates and a report."""

import sys
from pathlib import Path
from typing import Any

import click

from .common import exit_code, json_option, one_line_errors, out_option, print_json, print_table, shown


@click.command()
@out_option(default="fedualex-demo", show_default=True, help="Where runs and report go.")
@click.option(
    "--seed", default=0, type=click.IntRange(0, 2**63 - 1), show_default=True, help="Of the start and the noise."
)
@json_option
@one_line_errors
def demo(out: Path, seed: int, as_json: bool) -> None:
    """FeDualEx and three baselines on the paper's l1 game: 100 clients, 10 local steps, noise 0.1; a minute or two.

    Each runs three times, at the steps of the paper's grid that are best for it in each output: the ergodic average
    that Algorithm 1 returns, the server's last point, and the polished average, which is ours. FedMiP and FedMiD
    average plainly on the server; as printed they solve another problem.
    """
    from ..experiments import demo as runs
    from ..report import write_report
    from ..report.collect import collect

    if not as_json:
        click.echo("min max <A x - b, y> + 0.1 |x|_1 - 0.1 |y|_1, 600 + 300 variables in a box; 100 clients")

    def announce(output: str, label: str, text: str) -> None:
        if not as_json:
            click.echo(f"{label}, steps for {output}: {text}")

    first = runs.run_demo(out, seed, announce)
    page, data = write_report(out), collect(out)
    if as_json:
        tables = {output: panel["table"] for output, panel in zip(runs.STEPS, data["panels"], strict=True)}
        print_json({"folder": str(out), "status": first, "findings": data["findings"], "tables": tables})
    else:
        _print_outputs(dict(zip(runs.STEPS, data["panels"], strict=True)))
        click.echo("\n".join([*data["findings"], f"report: {page}"]))
    sys.exit(exit_code(first, None))


def _print_outputs(panels: dict[str, dict[str, Any]]) -> None:
    """One row for each output: the certified gap of each method at the steps that are best for it there."""
    from rich import box
    from rich.table import Table

    from ..experiments.demo import MEANINGS, STEPS

    methods = list(next(iter(panels.values()))["methods"])
    title = "certified gap <= (density), and below it eta_s, eta_c: the steps that are best for this output"
    columns = ("output", *(method.replace(" (", "\n(") for method in methods))
    table = Table(*columns, title=title, box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for output, panel in panels.items():
        rows = {row["method"]: row for row in panel["table"] if row["output"] == output}
        cells = [f"{shown(rows[m]['gap'])} ({rows[m]['structure']})\n{_steps(STEPS[output][m])}" for m in methods]
        table.add_row(output, *cells)
    print_table(table)
    click.echo("\n".join(f"{output}: {meaning}." for output, meaning in MEANINGS.items()))


def _steps(steps: tuple[float, float]) -> str:
    return ", ".join(f"{step:g}" for step in steps)

"""`fedualex verify`: the certificates of a run, computed again."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from .common import json_option, one_line_errors, print_json, print_table

VERIFIED = {"VERIFIED": 0, "DIFFERS": 1, "CANNOT_BE_READ": 2, "NOT_FULLY_CHECKED": 3, "DATA_CHANGED": 5}
"""Exit codes of `verify`."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--trust", is_flag=True, help='Run the code that the folder names as entry = "module:function".')
@json_option
@one_line_errors
def verify(folder: Path, trust: bool, as_json: bool) -> None:
    """Compute the certificates of a run again, in plain numpy, and compare; or of all runs in a folder of them.

    Exit code 0: all agrees. 1: something differs. 2: it cannot be read. 3: nothing differs, but not everything could
    be checked. 5: the data has changed, nothing else differs. Of several runs the worst: 1, 2, 5, 3, 0.
    """
    from ..experiments import verify as verification

    result = verification.verify(folder, trust=trust)
    if as_json:
        print_json(result.plain())
    elif result.runs:
        _print_results(result)
    else:
        _print_checks(result.checks)
    if not as_json:
        click.echo(result.headline)
    sys.exit(VERIFIED[result.verdict.name])


def _print_checks(checks: Iterable[Any]) -> None:
    from rich.table import Table

    words = {True: "agrees", False: "DIFFERS", None: "not checked"}
    table = Table("output", "what", "stored", "found", "")
    for check in checks:
        table.add_row(check.output, check.what, _text(check.stored), _text(check.found), words[check.agrees])
    print_table(table)


def _print_results(result: Any) -> None:
    """A headline for each run, and below it what did not agree."""
    if not result.runs:
        click.echo(f"{result.path}: {result.headline}")
    for check in result.checks:
        if not check.agrees:
            of = f"{check.output}: " if check.output else ""
            click.echo(f"  {'not checked' if check.agrees is None else 'DIFFERS'}: {of}{check.what}")
    for run in result.runs:
        _print_results(run)


def _text(value: Any) -> str:
    """A cell of a table; of a hash its beginning."""
    text = "" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)
    return f"{text[:8]}..." if isinstance(value, str) and len(value) == 64 else text

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
@click.option("-v", "--verbose", is_flag=True, help="Show every check, also those that agree.")
@json_option
@one_line_errors
def verify(folder: Path, trust: bool, verbose: bool, as_json: bool) -> None:
    """Compute the certificates of a run again, in plain numpy, and compare; or of all runs in a folder of them.

    One line, and above it what does not agree or could not be checked.

    Exit code 0: all agrees. 1: something differs. 2: it cannot be read. 3: nothing differs, but not everything could
    be checked. 5: the data has changed, nothing else differs. Of several runs the worst: 1, 2, 5, 3, 0.
    """
    from ..experiments import verify as verification

    result = verification.verify(folder, trust=trust)
    if as_json:
        print_json(result.plain())
    else:
        _print_results(result, verbose)
        click.echo(result.headline)
    sys.exit(VERIFIED[result.verdict.name])


def _print_results(result: Any, verbose: bool) -> None:
    """What does not agree, a line each, or with verbose all checks; of each run of a collection below its headline."""
    if verbose and result.checks:
        _print_table(result.checks)
    for check in result.checks if not verbose else ():
        if not check.agrees:
            click.echo(_line(check))
    for run in result.runs:
        if verbose or run.headline != "VERIFIED":
            click.echo(f"{run.path}: {run.headline}")
        _print_results(run, verbose)


def _line(check: Any) -> str:
    of = f"{check.output}: " if check.output else ""
    if check.agrees is None:
        return f"  not checked: {of}{check.what}"
    found = "" if check.found is None else f" (stored {_text(check.stored)}, found {_text(check.found)})"
    return f"  DIFFERS: {of}{check.what}{found}"


def _print_table(checks: Iterable[Any]) -> None:
    from rich.table import Table

    words = {True: "agrees", False: "DIFFERS", None: "not checked"}
    table = Table("output", "what", "stored", "found", "")
    for check in checks:
        table.add_row(check.output, check.what, _text(check.stored), _text(check.found), words[check.agrees])
    print_table(table)


def _text(value: Any) -> str:
    """A cell of a table; of a hash its beginning."""
    text = "" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)
    return f"{text[:8]}..." if isinstance(value, str) and len(value) == 64 else text

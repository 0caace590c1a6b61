"""`fedualex deploy audit`: what left a site, from its own ledger."""

from pathlib import Path
from typing import Any

import click

from .common import json_option, one_line_errors, print_json


@click.command()
@click.argument("site_folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--acknowledge", metavar="NOTE", help="Note that the damage was seen, so that the site answers again.")
@json_option
@one_line_errors
def audit(site_folder: Path, acknowledge: str | None, as_json: bool) -> None:
    """Print every release of a site, and its totals. Exit code 1: the ledger is damaged."""
    from ..deploy import audit as ledgers

    if acknowledge is not None:
        ledgers.acknowledge(site_folder, acknowledge)
    found = ledgers.audit(site_folder)
    if as_json:
        print_json(found)
    else:
        _show(found)
    if found["damage"]:
        raise SystemExit(1)


def _show(found: dict[str, Any]) -> None:
    for line in found["lines"]:
        what = [_arrays(line, "in_the_clear"), _arrays(line, "under_masks"), line["note"]]
        if line["epsilon"] is not None:
            what.append(f"epsilon {line['epsilon']:.3g}")
        task = f"{line['task']} {line['round']}" if line["task"] else line["kind"]
        head = f"{line['time'][:19]}  {line['run'][:8]:8}  {task:12}  {line['size']:>9} bytes"
        click.echo("  ".join([head, *filter(None, what)]))
    totals = found["totals"]
    tasks = ", ".join(f"{count} {task}" for task, count in totals["tasks"].items()) or "none"
    click.echo(f"releases: {totals['releases']} ({tasks}) in {totals['runs']} runs, {totals['bytes']} bytes")
    masked, clear = totals["under_masks"], totals["in_the_clear"]
    click.echo(f"with something in the clear: {clear}; under masks: {masked}; with noise: {totals['with_noise']}")
    if totals["epsilon"] is not None:
        click.echo(f"epsilon spent: {totals['epsilon']:.4g} (delta {totals['delta']:g})")
    click.echo(f"head: {found['head']}")
    click.echo(f"ledger: DAMAGED, {found['damage']}" if found["damage"] else "ledger: whole")


def _arrays(line: dict[str, Any], how: str) -> str:
    """The arrays of a line that left in this way, each with its shape; nothing if there are none."""
    named = " ".join(f"{name}{line['arrays'][name]}" for name in line[how])
    return f"{how.replace('_', ' ')}: {named}" if named else ""

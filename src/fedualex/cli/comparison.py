"""`fedualex compare`, and `fedualex solve` with several methods: runs of one problem side by side."""

from pathlib import Path
from typing import Any

import click

from .common import (
    STOPS,
    exit_code,
    json_option,
    one_line_errors,
    out_option,
    print_json,
    print_table,
    shown,
    status_line,
)


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@out_option(default=None, help="Also write a comparison with report.html and figures into this folder.")
@json_option
@one_line_errors
def compare(runs: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Runs of one problem side by side; those that differ in their seeds alone are one, with mean and deviation.

    What is no run is ignored, so that FOLDER/* is all runs of a folder.
    """
    from ..experiments import folder
    from ..experiments.several import runs_among, title_of
    from ..report import write_report
    from ..report.panels import compared_panel

    loaded, ignored = runs_among(runs)
    if ignored:
        click.echo(f"ignored, for they are no runs: {', '.join(path.name for path in ignored)}", err=True)
    title = title_of(loaded[0].manifest["configuration"]["problem"])
    panel = compared_panel(title, loaded)
    if out is not None:
        folder.check_collection(out, "comparison")
        names = [str(run.path.resolve()) for run in loaded]
        folder.write_collection(out, "comparison", title=title, runs=names)
        write_report(out)
    if as_json:
        print_json(panel["table"])
        return
    print_comparison(panel)
    if out is not None:
        click.echo(f"report: {out / 'report.html'}")


def solve_several(path: Path, given: dict[str, Any], home: Path, as_json: bool) -> int:
    """A run of each method of a file into folders of `path`, their comparison and its report; the worst exit code.

    given: the tables of the file. home: where its relative paths start from.
    """
    from ..experiments.several import configure_each, keep_best, solve_each
    from ..models.store import MODEL
    from ..report import write_report
    from ..report.collect import collect

    configurations = configure_each(given, home)
    first = next(iter(configurations.values()))
    tol = first.options.tol
    if not as_json:
        click.echo(repr(first.problem))

    def announce(label: str, status: dict[str, Any]) -> None:
        if not as_json:
            click.echo(f"{label}: {status_line(status, tol)}")

    statuses = solve_each(path, configurations, announce)
    kept = keep_best(path, configurations, [label for label in statuses if statuses[label]["stop"] not in STOPS])
    page, panel = write_report(path), collect(path)["panels"][0]
    if as_json:
        print_json({"folder": str(path), "runs": statuses, "table": panel["table"]})
    else:
        print_comparison(panel)
        click.echo(f"report: {page}")
        if kept:
            click.echo(f"model of {kept}: {path / MODEL}")
    return max(exit_code(status, tol) for status in statuses.values())


def print_comparison(panel: dict[str, Any]) -> None:
    """One row for each method: certified gap and density or rank of every output; and whose steps are untuned."""
    from rich import box
    from rich.table import Table

    outputs = list(dict.fromkeys(row["output"] for row in panel["table"]))
    title = f"certified gap <= ({panel['structure']}) of each output, * the answer"
    names = ("method", *(output.replace("_", "_\n") for output in outputs), "cost", "status")
    table = Table(*names, title=title, box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for method in dict.fromkeys(row["method"] for row in panel["table"]):
        rows = {row["output"]: row for row in panel["table"] if row["method"] == method}
        cells = [_cell(rows[output]) if output in rows else "" for output in outputs]
        answer = next((row for row in rows.values() if row["answer"]), next(iter(rows.values())))
        cost = f"{answer['seconds']:.0f} s\n{answer['megabytes']:.0f} MB"
        table.add_row(method, *cells, cost, f"{answer['status']}\n{answer['stop']}")
    print_table(table)
    if panel["untuned"]:
        click.echo(panel["untuned"])


def _cell(row: dict[str, Any]) -> str:
    """The certified gap of an output, starred if it is the answer, and its structure."""
    return f"{shown(row['gap'])}{' *' if row['answer'] else ''}\n({row['structure']})"

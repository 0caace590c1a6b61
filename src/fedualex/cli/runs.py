"""`fedualex solve`, `compare`, `report`: one run, and what can be done with its folder."""

import sys
from pathlib import Path
from typing import Any

import click

from ..display import rounded_up
from .common import STOPS, exit_code, json_option, one_line_errors, out_option, print_json, print_table, shown

run_argument = click.Path(path_type=Path)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@out_option(default=None, help="The run's folder; runs/NAME of the file. An unfinished run in it is gone on with.")
@json_option
@one_line_errors
def solve(file: Path, out: Path | None, as_json: bool) -> None:
    """Solve the problem of a TOML file and keep the run in a folder."""
    from ..experiments.configuration import configure, read_toml
    from ..experiments.folder import load
    from ..experiments.kept_model import keep_model
    from ..experiments.run_folder import solve_into
    from ..models.store import MODEL

    path = out or Path("runs") / file.stem
    configuration = configure(read_toml(file), file.parent)
    if not as_json:
        click.echo(f"{configuration.problem!r}\n{_settings(configuration.resolved['method'])}")
    solve_into(path, configuration)
    stored = load(path)
    status: dict[str, Any] = stored.status or {}
    if configuration.rows is not None and status["stop"] not in STOPS:
        keep_model(path / MODEL, stored, configuration.rows, {})
    tol = configuration.options.tol
    if as_json:
        print_json({"folder": str(path), **status})
    else:
        print_outputs(status)
        click.echo(status_line(status, tol))
        click.echo(f"run: {path}")
        if (path / MODEL).exists():
            click.echo(f"model: {path / MODEL}")
    sys.exit(exit_code(status, tol))


@click.command()
@click.argument("runs", nargs=-1, required=True, type=run_argument)
@out_option(default=None, help="Also write a comparison with report.html and figures into this folder.")
@json_option
@one_line_errors
def compare(runs: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Runs of one problem side by side."""
    from ..experiments import folder
    from ..report import write_report
    from ..report.collect import compared_panel

    loaded = [folder.load(path) for path in runs]
    problem = loaded[0].manifest["configuration"]["problem"]
    title = f"Runs of {problem.get('name') or problem.get('entry')}"
    panel = compared_panel(title, loaded)
    if out is not None:
        folder.check_collection(out, "comparison")
        names = [str(path.resolve()) for path in runs]
        folder.write_collection(out, "comparison", title=title, runs=names)
        write_report(out)
    if as_json:
        print_json(panel["table"])
        return
    print_comparison(panel)
    if out is not None:
        click.echo(f"report: {out / 'report.html'}")


@click.command()
@click.argument("run", type=run_argument)
@json_option
@one_line_errors
def report(run: Path, as_json: bool) -> None:
    """Write report.html and figures into the folder of a run, an experiment, a comparison or a reproduction."""
    from ..report import write_report

    files = [str(file) for file in write_report(run)]
    if as_json:
        print_json(files)
    else:
        click.echo("\n".join(files))


def print_outputs(status: dict[str, Any]) -> None:
    """The certified outputs of a run."""
    from rich import box
    from rich.table import Table

    shifted = any(abs(found["shift"]) > found["rounding"] for found in status["outputs"].values())
    names = ("output", "gap <=", "x part", "y part", *["shift"] * shifted, "rounding", "density", "rank", "status")
    table = Table(*names, title="certified gaps, * the answer", box=box.SIMPLE_HEAD, collapse_padding=True)
    for name, found in status["outputs"].items():
        rank = "" if found["rank"] is None else " / ".join(map(str, found["rank"]))
        density = "" if found["density"] is None else f"{found['density']:.3f}"
        gap, x, y, rounding = (shown(found[key]) for key in ("gap", "gap_x", "gap_y", "rounding"))
        gaps = (gap, x, y, *[f"{found['shift']:.3g}"] * shifted, rounding)
        label = f"{name} ({found['origin']})" if found["origin"] else name
        table.add_row(f"{label} *" if name == status["output"] else label, *gaps, density, rank, found["status"])
    print_table(table)
    if status["steps"]:
        click.echo(f"steps: {status['steps']}")


def _settings(method: dict[str, Any]) -> str:
    """A method as it was configured."""
    given = ", ".join(f"{key}={value!r}" for key, value in method.items() if key != "name" and value is not None)
    return f"{method['name']}({given})"


def status_line(status: dict[str, Any], tol: float | None) -> str:
    """The end of a run in one line."""
    gap, words = status["gap"], f"status: {status['status']}, {status['stop']} ({status['stop_meaning']})"
    if gap is None:
        return f"{words}  {status['outputs'][status['output']]['reason']}"
    against = "" if tol is None else f" {'<=' if gap <= tol else '>'} tol {tol:g}"
    above = status.get("violation")
    limits = "" if above is None else f"  violation <= {rounded_up(above, 3)}"
    return f"{words}  certified gap <= {shown(gap)}{against}{limits}  ({status['output']})"


def print_comparison(panel: dict[str, Any]) -> None:
    """One row for each method: certified gap and density or rank of every output."""
    from rich import box
    from rich.table import Table

    outputs = list(dict.fromkeys(row["output"] for row in panel["table"]))
    title = f"certified gap <= ({panel['structure']}) of each output, * the answer; seconds, megabytes"
    table = Table("method", *outputs, "s", "MB", "status", title=title, box=box.SIMPLE_HEAD, collapse_padding=True)
    table.columns[0].no_wrap = table.columns[-1].no_wrap = True
    for method in dict.fromkeys(row["method"] for row in panel["table"]):
        rows = {row["output"]: row for row in panel["table"] if row["method"] == method}
        cells = [_cell(rows[output]) if output in rows else "" for output in outputs]
        answer = next((row for row in rows.values() if row["answer"]), next(iter(rows.values())))
        cost = (f"{answer['seconds']:.1f}", f"{answer['megabytes']:.0f}")
        table.add_row(method, *cells, *cost, f"{answer['status']}\n{answer['stop']}")
    print_table(table)


def _cell(row: dict[str, Any]) -> str:
    """The certified gap of an output, starred if it is the answer, and its structure."""
    return f"{shown(row['gap'])}{' *' if row['answer'] else ''}\n({row['structure']})"

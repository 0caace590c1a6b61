"""`fedualex solve`, `report`, `figures`: a run, and what can be drawn from its folder."""

import sys
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
    resumable,
    shown,
    status_line,
)

run_argument = click.Path(path_type=Path)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@out_option(default=None, help="The run's folder; runs/NAME of the file. An unfinished run in it is resumed.")
@json_option
@one_line_errors
def solve(file: Path, out: Path | None, as_json: bool) -> None:
    """Solve the problem of a TOML file and keep the run in a folder; with several [[method]] tables a run of each."""
    from ..experiments.configuration import configure, read_toml
    from ..experiments.folder import load
    from ..experiments.kept_model import keep_model
    from ..experiments.run_folder import solve_into
    from ..experiments.several import has_several
    from ..models.store import MODEL
    from .comparison import solve_several

    path, given = out or Path("runs") / file.stem, read_toml(file)
    if has_several(given):
        with resumable("the runs", as_json):
            sys.exit(solve_several(path, given, file.parent, as_json))
    configuration = configure(given, file.parent)
    if not as_json:
        click.echo(f"{configuration.problem!r}\n{_settings(configuration.resolved['method'])}")
    with resumable("the run", as_json):
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
        if status["stop"] == "INTERRUPTED":
            click.echo(f"the same command resumes the run after round {status['rounds']}")
    sys.exit(exit_code(status, tol))


@click.command()
@click.argument("folder", type=run_argument)
@json_option
@one_line_errors
def report(folder: Path, as_json: bool) -> None:
    """Write report.html into the FOLDER of a run, a fit, an experiment, a comparison or a reproduction."""
    from ..report import write_report

    page = str(write_report(folder))
    if as_json:
        print_json({"report": page})
    else:
        click.echo(page)


@click.command()
@click.argument("folder", type=run_argument)
@json_option
@one_line_errors
def figures(folder: Path, as_json: bool) -> None:
    """Draw the figures of a FOLDER for a paper: PDF and PNG of a column's width in FOLDER/figures, with captions."""
    from ..report import write_figures

    files = [str(file) for file in write_figures(folder)]
    if as_json:
        print_json({"figures": files})
    else:
        click.echo("\n".join(files))


def print_outputs(status: dict[str, Any]) -> None:
    """The certified outputs of a run; columns in which there is nothing are left out."""
    from rich import box
    from rich.table import Table

    outputs = status["outputs"]
    shifted = any(abs(found["shift"]) > found["rounding"] for found in outputs.values())
    columns = {
        "output": [_name(name, found, status["output"]) for name, found in outputs.items()],
        "gap <=": [shown(found["gap"]) for found in outputs.values()],
        "x part": ["" if found["gap"] is None else shown(found["gap_x"]) for found in outputs.values()],
        "y part": ["" if found["gap"] is None else shown(found["gap_y"]) for found in outputs.values()],
        "shift": [f"{found['shift']:.3g}" if shifted else "" for found in outputs.values()],
        "rounding": ["" if found["gap"] is None else shown(found["rounding"]) for found in outputs.values()],
        "density": ["" if found["density"] is None else f"{found['density']:.3f}" for found in outputs.values()],
        "rank": ["" if found["rank"] is None else " / ".join(map(str, found["rank"])) for found in outputs.values()],
        "status": [found["status"] for found in outputs.values()],
    }
    kept = {name: cells for name, cells in columns.items() if any(cells)}
    title = "certified gaps, * the answer"
    table = Table(*kept, title=title, box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for row in zip(*kept.values(), strict=True):
        table.add_row(*row)
    print_table(table)
    if status["steps"]:
        click.echo(f"steps: {status['steps']}")
    if status.get("precision"):  # folders of before have none
        click.echo(f"precision of the rounds: {status['precision']}")


def _name(name: str, found: dict[str, Any], answer: str) -> str:
    """An output by name, with where it is from, starred if it is the answer."""
    label = f"{name} ({found['origin']})" if found["origin"] else name
    return f"{label} *" if name == answer else label


def _settings(method: dict[str, Any]) -> str:
    """A method as it was configured."""
    given = ", ".join(f"{key}={value!r}" for key, value in method.items() if key != "name" and value is not None)
    return f"{method['name']}({given})"

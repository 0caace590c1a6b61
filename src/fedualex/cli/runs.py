"""`fedualex solve`, `report`, `verify`: a run, and what can be done with its folder."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from .common import exit_code, json_option, one_line_errors, out_option, print_json, print_table, shown, status_line

run_argument = click.Path(path_type=Path)

VERIFIED = {"VERIFIED": 0, "DIFFERS": 1, "CANNOT_BE_READ": 2, "NOT_FULLY_CHECKED": 3, "DATA_CHANGED": 5}
"""Exit codes of `verify`."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@out_option(default=None, help="The run's folder; runs/NAME of the file. An unfinished run in it is gone on with.")
@json_option
@one_line_errors
def solve(file: Path, out: Path | None, as_json: bool) -> None:
    """Solve the problem of a TOML file and keep the run in a folder; with several [[method]] tables a run of each."""
    from ..experiments.configuration import configure, read_toml
    from ..experiments.folder import load
    from ..experiments.run_folder import solve_into
    from ..experiments.several import has_several
    from .comparison import solve_several

    path, given = out or Path("runs") / file.stem, read_toml(file)
    if has_several(given):
        sys.exit(solve_several(path, given, file.parent, as_json))
    configuration = configure(given, file.parent)
    if not as_json:
        click.echo(f"{configuration.problem!r}\n{_settings(configuration.resolved['method'])}")
    solve_into(path, configuration)
    status: dict[str, Any] = load(path).status or {}
    tol = configuration.options.tol
    if as_json:
        print_json({"folder": str(path), **status})
    else:
        print_outputs(status)
        click.echo(status_line(status, tol))
        click.echo(f"run: {path}")
    sys.exit(exit_code(status, tol))


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


@click.command()
@click.argument("folder", type=run_argument)
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

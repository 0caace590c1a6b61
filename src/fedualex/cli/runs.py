"""Commands about runs: `solve`, `compare`, `report`, `figures`, `verify`."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from ..storage import Json
from .common import (
    STOPS,
    echo,
    exit_code,
    gap_in_short,
    json_option,
    one_line_errors,
    out_option,
    print_json,
    print_table,
    resumable,
    status_line,
)

# `fedualex compare`, and `fedualex solve` with several methods: runs of one problem side by side.


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@out_option(default=None, help="Also write a comparison with report.html and figures into this folder.")
@json_option
@one_line_errors
def compare(runs: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Runs of one problem side by side; those that differ in their seeds alone are one, with mean and deviation.

    What is no run is ignored, so that FOLDER/* is all runs of a folder.
    """
    from ..report import write_report
    from ..report.panels import compared_panel
    from ..runs import folder
    from ..runs.solving import runs_among, title_of

    loaded, ignored = runs_among(runs)
    if ignored:
        echo(f"ignored, for they are no runs: {', '.join(path.name for path in ignored)}", err=True)
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
        echo(f"report: {out / 'report.html'}")


def solve_several(path: Path, given: Json, home: Path, as_json: bool) -> int:
    """A run of each method of a file into folders of `path`, their comparison and its report; the worst exit code.

    given: the tables of the file. home: where its relative paths start from.
    """
    from ..models.store import MODEL
    from ..report import write_report
    from ..report.collect import collect
    from ..runs.solving import configure_each, solve_each
    from ..tables.kept_model import keep_best

    configurations = configure_each(given, home)
    first = next(iter(configurations.values()))
    tol = first.options.tol
    if not as_json:
        echo(repr(first.problem))

    def announce(label: str, status: Json) -> None:
        if not as_json:
            echo(f"{label}: {status_line(status, tol)}")

    statuses = solve_each(path, configurations, announce)
    kept = keep_best(path, configurations, [label for label in statuses if statuses[label]["stop"] not in STOPS])
    page, panel = write_report(path), collect(path)["panels"][0]
    if as_json:
        print_json({"folder": str(path), "runs": statuses, "table": panel["table"]})
    else:
        print_comparison(panel)
        echo(f"report: {page}")
        if kept:
            echo(f"model of {kept}: {path / MODEL}")
    return max(exit_code(status, tol) for status in statuses.values())


def print_comparison(panel: Json) -> None:
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
        echo(panel["untuned"])


def _cell(row: Json) -> str:
    """The certified gap of an output, starred if it is the answer, and its structure."""
    return f"{gap_in_short(row['gap'])}{' *' if row['answer'] else ''}\n({row['structure']})"


run_argument = click.Path(path_type=Path)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@out_option(default=None, help="The run's folder; runs/NAME of the file. An unfinished run in it is resumed.")
@json_option
@one_line_errors
def solve(file: Path, out: Path | None, as_json: bool) -> None:
    """Solve the problem of a TOML file and keep the run in a folder; with several [[method]] tables a run of each."""
    from ..models.store import MODEL
    from ..runs.folder import load
    from ..runs.settings import configure, read_toml
    from ..runs.solving import has_several, solve_into
    from ..tables.kept_model import keep_model

    path, given = out or Path("runs") / file.stem, read_toml(file)
    if has_several(given):
        with resumable("the runs", as_json):
            sys.exit(solve_several(path, given, file.parent, as_json))
    configuration = configure(given, file.parent)
    if not as_json:
        echo(f"{configuration.problem!r}\n{_settings(configuration.resolved['method'])}")
    with resumable("the run", as_json):
        solve_into(path, configuration)
    stored = load(path)
    status: Json = stored.status or {}
    if configuration.rows is not None and status["stop"] not in STOPS:
        keep_model(path / MODEL, stored, configuration.rows)
    tol = configuration.options.tol
    if as_json:
        print_json({"folder": str(path), **status})
    else:
        print_outputs(status)
        echo(status_line(status, tol))
        echo(f"run: {path}")
        if (path / MODEL).exists():
            echo(f"model: {path / MODEL}")
        if status["stop"] == "INTERRUPTED":
            echo(f"the same command resumes the run after round {status['rounds']}")
    sys.exit(exit_code(status, tol))


@click.command()
@click.argument("folder", type=run_argument)
@json_option
@one_line_errors
def report(folder: Path, as_json: bool) -> None:
    """Write report.html into the FOLDER of a fit, a model, a run, an experiment, a comparison or a reproduction."""
    from ..report import write_report

    page = str(write_report(folder))
    if as_json:
        print_json({"report": page})
    else:
        echo(page)


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
        echo("\n".join(files))


def print_outputs(status: Json) -> None:
    """The certified outputs of a run; columns in which there is nothing are left out."""
    from rich import box
    from rich.table import Table

    outputs = status["outputs"]
    shifted = any(abs(output["shift"]) > output["rounding"] for output in outputs.values())
    columns = {
        "output": [_name(name, output, status["output"]) for name, output in outputs.items()],
        "gap <=": [gap_in_short(output["gap"]) for output in outputs.values()],
        "x part": ["" if output["gap"] is None else gap_in_short(output["gap_x"]) for output in outputs.values()],
        "y part": ["" if output["gap"] is None else gap_in_short(output["gap_y"]) for output in outputs.values()],
        "shift": [f"{output['shift']:.3g}" if shifted else "" for output in outputs.values()],
        "rounding": ["" if output["gap"] is None else gap_in_short(output["rounding"]) for output in outputs.values()],
        "density": ["" if output["density"] is None else f"{output['density']:.3f}" for output in outputs.values()],
        "rank": ["" if output["rank"] is None else " / ".join(map(str, output["rank"])) for output in outputs.values()],
        "status": [output["status"] for output in outputs.values()],
    }
    kept = {name: cells for name, cells in columns.items() if any(cells)}
    title = "certified gaps, * the answer"
    table = Table(*kept, title=title, box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for row in zip(*kept.values(), strict=True):
        table.add_row(*row)
    print_table(table)
    if status["steps"]:
        echo(f"steps: {status['steps']}")
    if status.get("precision"):  # folders of before have none
        echo(f"precision of the rounds: {status['precision']}")


def _name(name: str, output: Json, answer: str) -> str:
    """An output by name, with where it is from, starred if it is the answer."""
    label = f"{name} ({output['origin']})" if output["origin"] else name
    return f"{label} *" if name == answer else label


def _settings(method: Json) -> str:
    """A method as it was configured."""
    given = ", ".join(f"{key}={value!r}" for key, value in method.items() if key != "name" and value is not None)
    return f"{method['name']}({given})"


# `fedualex verify`: the certificates of a run, computed again.


VERIFIED = {"VERIFIED": 0, "DIFFERS": 1, "CANNOT_BE_READ": 2, "NOT_FULLY_CHECKED": 3, "DATA_CHANGED": 5}
"""Exit codes of `verify`."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--trust", is_flag=True, help='Run the code that the folder names as entry = "module:function".')
@click.option("-v", "--verbose", is_flag=True, help="Show every check, also those that agree.")
@json_option
@one_line_errors
def verify(folder: Path, trust: bool, verbose: bool, as_json: bool) -> None:
    """Compute the certificates of a run, or of a fit, again in plain numpy, and compare; or of all runs in a folder.

    One line, and above it what does not agree or could not be checked.

    Exit code 0: all agrees. 1: something differs. 2: it cannot be read. 3: nothing differs, but not everything could
    be checked. 5: the data has changed, nothing else differs. Of several runs the worst: 1, 2, 5, 3, 0.
    """
    from ..verification import verify as verification

    result = verification.verify(folder, trust=trust)
    if as_json:
        print_json(result.plain())
    else:
        _print_results(result, verbose)
        echo(result.headline)
    sys.exit(VERIFIED[result.verdict.name])


def _print_results(result: Any, verbose: bool) -> None:
    """What does not agree, a line each, or with verbose all checks; of each run of a collection below its headline."""
    if verbose and result.checks:
        _print_table(result.checks)
    for check in result.checks if not verbose else ():
        if not check.agrees:
            echo(_line(check))
    for run in result.runs:
        if verbose or run.headline != "VERIFIED":
            echo(f"{run.path}: {run.headline}")
        _print_results(run, verbose)


def _line(check: Any) -> str:
    of = f"{check.output}: " if check.output else ""
    if check.agrees is None:
        return f"  not checked: {of}{check.what}"
    numbers = "" if check.found is None else f" (stored {_text(check.stored)}, found {_text(check.found)})"
    return f"  DIFFERS: {of}{check.what}{numbers}"


def _print_table(checks: Iterable[Any]) -> None:
    from rich.table import Table

    words = {True: "agrees", False: "DIFFERS", None: "not checked"}
    table = Table("output", "what", "stored", "found", "")
    for check in checks:
        table.add_row(check.output, check.what, _text(check.stored), _text(check.found), words[check.agrees])
    print_table(table)


def _text(value: object) -> str:
    """A cell of a table; of a hash its beginning."""
    text = "" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)
    return f"{text[:8]}..." if isinstance(value, str) and len(value) == 64 else text

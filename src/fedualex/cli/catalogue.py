"""`fedualex methods`, `fedualex problems`, `fedualex theory`: what there is, and what is known about it."""

from pathlib import Path

import click

from .common import echo, json_option, one_line_errors, print_json, print_table


@click.command()
@json_option
@one_line_errors
def methods(as_json: bool) -> None:
    """All methods that a configuration file can name."""
    from ..runs.settings import METHODS

    _print_table({name: _first_line(method) for name, method in METHODS.items()}, "method", as_json)


@click.command()
@json_option
@one_line_errors
def problems(as_json: bool) -> None:
    """All problems that a configuration file can name."""
    from ..runs.settings import PROBLEMS

    _print_table({name: _first_line(problem) for name, problem in PROBLEMS.items()}, "problem", as_json)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@one_line_errors
def theory(file: Path, as_json: bool) -> None:
    """Constants, step sizes and bounds for the run of a TOML file, as printed in the paper and as corrected."""
    from ..runs.settings import bounds_of, configure, read_toml

    bounds = bounds_of(configure(read_toml(file), file.parent))
    if as_json:
        print_json(bounds)
        return
    from rich.table import Table

    constants = Table("constant", "value", "how", title="Constants")
    for name, constant in bounds["constants"].items():
        constants.add_row(name, _number(constant["value"]), constant["how"])
    print_table(constants)
    table = Table("result", "version", "largest step", "best step", "bound there", "terms", title="Steps and bounds")
    for bound in bounds["bounds"]:
        terms = ", ".join(f"{name} {_number(value)}" for name, value in bound["terms"].items())
        cells = (_number(bound[key]) for key in ("step_limit", "best_step", "total"))
        table.add_row(bound["result"], bound["version"], *cells, terms)
    print_table(table)
    for note in bounds["notes"]:
        echo(note)


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4g}"


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().partition("\n")[0]


def _print_table(rows: dict[str, str], kind: str, as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table(kind, "what it is")
    for name, text in rows.items():
        table.add_row(name, text)
    print_table(table)

"""What all commands share: errors in one line, JSON on request, exit codes by status."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

EXIT_CODES = {
    "OPTIMAL": 0,
    "MAX_ROUNDS": 0,
    "OPTIMAL_INACCURATE": 3,
    "MAX_TIME": 3,
    "STALLED": 3,
    "DIVERGED": 4,
    "NUMERICAL_ERROR": 4,
    "UNCERTIFIED": 5,
    "CLIENTS_LOST": 6,
    "INTERRUPTED": 130,
}
"""0: done. 3: an answer, but short of what was asked. 4: no answer to trust. 5: no certificate exists. 2: bad input."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
out_option = functools.partial(click.option, "--out", type=click.Path(path_type=Path, file_okay=False))


def exit_code(status: str, tol: float | None) -> int:
    """The class of a status; the end of all rounds is a success only if no tolerance was asked for."""
    return 3 if status == "MAX_ROUNDS" and tol is not None else EXIT_CODES[status]


class BadInput(click.ClickException):
    """One line, and exit code 2."""

    exit_code = 2


def one_line_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """What a user can get wrong becomes one clear line without a trace."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except BrokenPipeError:  # whoever reads the output has had enough
            raise
        except (ValueError, TypeError, OSError, ArithmeticError, MemoryError, ImportError) as error:
            raise BadInput(" ".join(str(error).split())) from None

    return wrapped


def print_table(table: Any) -> None:
    """A table of rich; text in it is text, also where it has square brackets, and is never cut."""
    from rich.console import Console

    for column in table.columns:
        column.overflow = "fold"
    Console(markup=False, emoji=False, highlight=False).print(table)


def print_json(data: Any) -> None:
    """One strict JSON document."""
    click.echo(json.dumps(data, indent=1, allow_nan=False))


def shown(gap: float | None) -> str:
    """A certified gap as text; rounding below zero is shown as the zero it stands for."""
    return "not certifiable" if gap is None else f"{max(gap, 0):.3g}"

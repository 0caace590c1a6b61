"""What all commands share: errors in one line, JSON on request, exit codes by status."""

import functools
import io
import json
import os
import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from ..display import round_up, visible
from ..storage import Json

STOPS = {
    "INTERRUPTED": 130,
    "CLIENTS_LOST": 6,
    "INFEASIBLE": 7,
    "NUMERICAL_ERROR": 4,
    "DIVERGED": 4,
}
"""Ends of a run with an exit code of their own, unless the answer is OPTIMAL."""

LINE = 100
"""Columns of a line of text at most, and those of a table that goes to no terminal."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")


class BadInput(click.ClickException):
    """One line, and exit code 2."""

    exit_code = 2


def writable(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """The folder, if it or the nearest one above it that exists can be written to; checked before the work is done."""
    if path is not None:
        nearest = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            raise BadInput(f"{parameter.opts[0]} must be a folder that can be written to, got {str(path)!r}")
    return path


out_option = functools.partial(
    click.option, "--out", type=click.Path(path_type=Path, file_okay=False), callback=writable
)


def exit_code(status: Json, tol: float | None) -> int:
    """0: done. 3: an answer, but short of what was asked. 4: the run broke down. 5: nothing is certified.

    6: sites were lost. 7: the limits are proved infeasible. 130: interrupted. 2 is for bad input, 1 for all else.
    """
    if status["status"] == "OPTIMAL":
        return 0
    if status["stop"] in STOPS:
        return STOPS[status["stop"]]
    if status["status"] == "UNCERTIFIED":
        return 5
    return 0 if tol is None and status["stop"] == "MAX_ROUNDS" else 3


def echo(text: str = "", *, err: bool = False) -> None:
    """A line for people: names of columns, clients and sites are others' words, and may not steer a terminal."""
    click.echo(visible(text), err=err)


def echo_line(text: str, *, err: bool = False) -> None:
    """The same with names in it whose line breaks must not forge another line."""
    echo(in_one_line(text), err=err)


def line_width() -> int:
    """The columns of the terminal; LINE where there is none."""
    return shutil.get_terminal_size((LINE, 24)).columns


def print_paragraph(text: str, *, err: bool = False) -> None:
    """Sentences, in lines that are read easily; single words are never broken."""
    width = min(line_width(), LINE)
    for line in textwrap.wrap(in_one_line(visible(text)), width, break_long_words=False, break_on_hyphens=False):
        click.echo(line, err=err)


def in_one_line(text: str) -> str:
    """Line breaks as escapes."""
    return text.replace("\n", "\\n")


def one_line_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """What a user can get wrong becomes one clear line without a trace."""

    @functools.wraps(command)
    def run(*arguments: object, **options: object) -> Any:
        try:
            return command(*arguments, **options)
        except BrokenPipeError:  # whoever reads the output has had enough
            raise
        except (ValueError, TypeError, OSError, ArithmeticError, MemoryError, ImportError) as error:
            raise BadInput(visible(" ".join(str(error).split()))) from None
        except (AssertionError, RuntimeError):
            if why := _why_no_devices():
                raise BadInput(why) from None
            raise

    return run


def _why_no_devices() -> str:
    """What is wrong with JAX_PLATFORMS, if jax has no devices because of it."""
    chosen = os.environ.get("JAX_PLATFORMS")
    if not chosen:
        return ""
    import jax

    try:
        jax.devices()
    except (AssertionError, RuntimeError):
        return f"JAX_PLATFORMS must name what this machine has, or be left out, got {chosen!r}: no device is found"
    return ""


def _accept_any_name() -> None:
    """Where the locale cannot write a character, as in C, it is shown escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="backslashreplace")


def print_table(table: Any) -> None:
    """A table of rich; text in it is text, also where it has square brackets, and is never cut.

    Where the terminal is too narrow for its longest words side by side, each row is a list of its cells.
    """
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(width=line_width(), markup=False, emoji=False, highlight=False)
    for column in table.columns:
        column.overflow = "fold"
        column.header, column._cells = visible(str(column.header)), [visible(str(cell)) for cell in column.cells]
        # Single words are not broken, sentences are.
        column.no_wrap = not any(" " in str(cell) for cell in (column.header, *column.cells))
    unlimited = console.options.update(max_width=10_000)
    if Measurement.get(console, unlimited, table).minimum <= console.width:
        with console.capture() as drawn:
            console.print(table)
        click.echo("\n".join(line.rstrip() for line in drawn.get().splitlines()))
    else:
        console.print("\n".join(_list_rows(table)))


def _list_rows(table: Any) -> Iterator[str]:
    """A table as lines: its title, and of each row the first cell, then the others by name, without empty ones."""
    if table.title:
        yield f"{table.title}\n"
    names = [str(column.header).replace("\n", "") or "result" for column in table.columns]
    for first, *others in zip(*(column.cells for column in table.columns), strict=True):
        yield first or names[0]
        yield from (f"  {name}: {' '.join(cell.split())}" for name, cell in zip(names[1:], others, strict=True) if cell)


@contextmanager
def resumable(what: str, as_json: bool) -> Iterator[None]:
    """After Ctrl-C a line says that the same command resumes. what: what it resumes, such as "the run"."""
    try:
        yield
    except KeyboardInterrupt:
        if not as_json:
            echo(f"the same command resumes {what}", err=True)
        raise


def print_json(data: object) -> None:
    """One strict JSON document."""
    echo(json.dumps(data, indent=1, allow_nan=False))


def gap_in_short(gap: float | None) -> str:
    """A certified gap as text, rounded up."""
    return "not certifiable" if gap is None else round_up(gap, 3)


def status_line(status: Json, tol: float | None) -> str:
    """The end of a run in one line."""
    gap, words = status["gap"], f"status: {status['status']}, {status['stop']} ({status['stop_meaning']})"
    cost = f"{status['rounds']} rounds, {status['seconds']:.1f} s"
    if gap is None:
        return f"{words}  {status['outputs'][status['output']]['reason']}  {cost}"
    against = "" if tol is None else f" {'<=' if gap <= tol else '>'} tol {tol:g}"
    above = status.get("violation")
    limits = "" if above is None else f"  violation <= {round_up(above, 3)}"
    return f"{words}  certified gap <= {gap_in_short(gap)}{against}{limits}  ({status['output']})  {cost}"


def plain_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """One line for bad input (exit code 2), and for what went wrong with an engine (1)."""

    @functools.wraps(command)
    def run(*arguments: object, **options: object) -> Any:
        try:
            return command(*arguments, **options)
        except (RuntimeError, ConnectionError) as error:
            raise click.ClickException(visible(" ".join(str(error).split()))) from None

    return one_line_errors(run)


def say(line: str, data: Json, as_json: bool) -> None:
    """A line for people, or data for programs."""
    if as_json:
        print_json(data)
    else:
        echo(line)


# How the program ends: errors as one line or as JSON, and Ctrl-C at any moment.


NARROW = 52
"""Columns of a terminal below which click would write help wider than it is."""


class Commands(click.Group):
    """All commands: an error is one line, or with --json the document {"error": ...}; Ctrl-C exits with 130."""

    def main(
        self, args: Sequence[str] | None = None, *rest: object, standalone_mode: bool = True, **options: object
    ) -> Any:
        """As click has it, but for how the program ends."""
        arguments = sys.argv[1:] if args is None else list(args)
        _accept_any_name()
        if (columns := shutil.get_terminal_size().columns) < NARROW:
            options.setdefault("terminal_width", columns)
        run = functools.partial(super().main, arguments, *rest, standalone_mode=False, **options)
        if not standalone_mode:
            return run()
        as_json = "--json" in arguments
        try:
            with _prompt_interrupts(as_json):
                sys.exit(run())
        except click.ClickException as error:
            if as_json:
                print_json({"error": " ".join(error.format_message().split())})
            else:
                error.show()
            sys.exit(error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            _say_interrupted(as_json)
            sys.exit(STOPS["INTERRUPTED"])


@contextmanager
def _prompt_interrupts(as_json: bool) -> Iterator[None]:
    """Ctrl-C is a KeyboardInterrupt, but the end at once where modules are imported.

    Extensions in C that are interrupted there print a trace and raise something else, and there is nothing to save.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
                _say_interrupted(as_json)
                sys.stdout.flush()
                os._exit(STOPS["INTERRUPTED"])
            frame = frame.f_back
        raise KeyboardInterrupt

    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # neither ignored nor somebody else's
    if not ours or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _say_interrupted(as_json: bool) -> None:
    if as_json:
        print_json({"error": "interrupted"})
    else:
        echo("interrupted", err=True)

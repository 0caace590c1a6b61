"""How the program ends: errors as one line or as JSON, and Ctrl-C at any moment."""

import functools
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from .common import STOPS, print_json

NARROW = 52
"""Columns of a terminal below which click would write help wider than it is."""


class Commands(click.Group):
    """All commands: an error is one line, or with --json the document {"error": ...}; Ctrl-C exits with 130."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, standalone_mode: bool = True, **options: Any) -> Any:
        """As click has it, but for how the program ends."""
        arguments = sys.argv[1:] if args is None else list(args)
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
        click.echo("interrupted", err=True)

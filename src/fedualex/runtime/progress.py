"""A progress bar on a terminal, nothing anywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..display import rounded_up


@contextmanager
def progress_bar(rounds: int, shown: bool = True) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that shows a record: rounds done, the best certificate in it, rounds a second, time left."""
    if not (shown and sys.stderr is not None and sys.stderr.isatty()):
        yield lambda record: None
        return
    from rich.console import Console  # which takes its time, and a site of a deployment starts without it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    line = (
        TextColumn("round"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    with Progress(*line, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("rounds", total=rounds, note="compiling")

        def show(record: dict[str, Any]) -> None:
            speed = record["round"] / max(record["seconds"], 1e-9)
            bar.update(task, completed=record["round"], note=f"{smallest_gap(record)}  {speed:.1f} rounds/s")

        yield show


def smallest_gap(record: dict[str, Any]) -> str:
    """The best certificate of a record, in words."""
    gaps = [value for key, value in record.items() if key.startswith("gap_") and value is not None]
    return f"gap <= {rounded_up(min(gaps), 3)}" if gaps else "not certifiable"

"""`fedualex demo` and `fedualex reproduce`: the paper's games and experiments."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ..storage import Json
from .common import echo, exit_code, gap_in_short, json_option, one_line_errors, out_option, print_json, print_table

# `fedualex demo`: four methods on the paper's l1 game, each at its best steps, with certificates and a report.


@click.command()
@out_option(default="fedualex-demo", show_default=True, help="Where runs and report go.")
@click.option(
    "--seed", default=0, type=click.IntRange(0, 2**63 - 1), show_default=True, help="Of the start and the noise."
)
@json_option
@one_line_errors
def demo(out: Path, seed: int, as_json: bool) -> None:
    """FeDualEx and three baselines on the paper's l1 game: 100 clients, 10 local steps, noise 0.1; a minute or two.

    Each runs three times, at the steps of the paper's grid that are best for it in each output: the ergodic average
    that Algorithm 1 returns, the server's last point, and the polished average, which is ours. FedMiP and FedMiD
    average plainly on the server; as printed they solve another problem.
    """
    from ..paper import demo as runs
    from ..report import write_report
    from ..report.collect import collect

    if not as_json:
        echo("min max <A x - b, y> + 0.1 |x|_1 - 0.1 |y|_1, 600 + 300 variables in a box; 100 clients")

    def announce(output: str, label: str, text: str) -> None:
        if not as_json:
            echo(f"{label}, steps for {output}: {text}")

    first = runs.run_demo(out, seed, announce)
    page, data = write_report(out), collect(out)
    if as_json:
        tables = {output: panel["table"] for output, panel in zip(runs.STEPS, data["panels"], strict=True)}
        print_json({"folder": str(out), "status": first, "findings": [runs.WHY_LAST], "tables": tables})
    else:
        _print_outputs(dict(zip(runs.STEPS, data["panels"], strict=True)))
        echo("\n".join([data["headline"] + ".", runs.WHY_LAST, f"report: {page}"]))
    sys.exit(exit_code(first, None))


def _print_outputs(panels: dict[str, Json]) -> None:
    """One row for each output: the certified gap of each method at the steps that are best for it there."""
    from rich import box
    from rich.table import Table

    from ..paper.demo import MEANINGS, STEPS

    methods = list(next(iter(panels.values()))["methods"])
    title = "certified gap <= (density), and below it eta_s, eta_c: the steps that are best for this output"
    columns = ("output", *(method.replace(" (", "\n(") for method in methods))
    table = Table(*columns, title=title, box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for output, panel in panels.items():
        rows = {row["method"]: row for row in panel["table"] if row["output"] == output}
        cells = [
            f"{gap_in_short(rows[m]['gap'])} ({rows[m]['structure']})\n{_steps(STEPS[output][m])}" for m in methods
        ]
        table.add_row(output, *cells)
    print_table(table)
    echo("\n".join(f"{output}: {meaning}." for output, meaning in MEANINGS.items()))


def _steps(steps: tuple[float, float]) -> str:
    return ", ".join(f"{step:g}" for step in steps)


Show = Callable[[str, str, int, int], None]
SECONDS_BETWEEN_LINES = 10


@click.command()
@click.argument("experiments", nargs=-1, metavar="[l1-k1|l1-k10|nuclear-k1|nuclear-k10|all]...")
@click.option("--seeds", type=click.IntRange(min=1), help="Seeds at the tuned steps; 10, with --quick 2.")
@click.option("--quick", is_flag=True, help="A small instance of the same protocol, to see that everything works.")
@click.option("--resume", is_flag=True, help="Go on with what --out already holds.")
@out_option(default=None, help="Where results go; runs/paper, or runs/paper-quick.")
@json_option
@one_line_errors
def reproduce(
    experiments: tuple[str, ...], seeds: int | None, quick: bool, resume: bool, out: Path | None, as_json: bool
) -> None:
    """Run the paper's experiments at full size and compare them with its sentences.

    Every method on the paper's grid of step sizes, tuned on one seed, then on 10 seeds; figures, a table of claims
    and report.html. Killed and started again with --resume, it goes on where it was.
    """
    from ..paper import reproduction as protocol
    from ..paper.claims import write_claims
    from ..paper.reproduction import SMALL
    from ..report import write_figures, write_report

    root = out or Path("runs/paper-quick" if quick else "runs/paper")
    chosen = protocol.choose_experiments(experiments or ("all",), seeds=seeds, quick=quick)
    with progress() as show:
        protocol.reproduce(chosen, root, resume=resume, show=show)
        show("all experiments", "claims, page and figures", 0, 1)
        claims = write_claims(root)
        files = [write_report(root), *write_figures(root)]
        show("all experiments", "claims, page and figures", 1, 1)
    if as_json:
        print_json({"folder": str(root), "claims": claims, "files": [str(file) for file in files]})
        return
    print_claims(claims)
    if quick:
        echo(f"This is {SMALL}.")
    echo(f"report: {root / 'report.html'}")


def print_claims(claims: list[Json]) -> None:
    """The table that compares measurements with the paper's sentences."""
    from rich.table import Table

    headers = ("the paper says", "measured", "verdict", "why")
    table = Table(*headers, title="Section 6, sentence by sentence", show_lines=True)
    for claim in claims:
        small = " (small instance)" if claim["small"] else ""
        table.add_row(claim["claim"], claim["measured"], f"{claim['verdict']}{small}", claim["why"])
    print_table(table)


def _lines() -> Show:
    """A function that prints lines where there is no terminal to draw on."""
    began = last = time.perf_counter()

    def show(name: str, stage: str, done: int, total: int) -> None:
        nonlocal last
        now = time.perf_counter()
        if done in (0, total) or now - last >= SECONDS_BETWEEN_LINES:
            last = now
            echo(f"{name}: {stage}: {done} of {total} done, {now - began:.0f} s since the start", err=True)

    return show


@contextmanager
def progress() -> Iterator[Show]:
    """A bar for each stage on a terminal; elsewhere lines: when a stage begins and ends, and every ten seconds."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines()
        return
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *times, console=console) as bar:
        tasks: dict[str, int] = {}

        def show(name: str, stage: str, done: int, total: int) -> None:
            key = f"{name}: {stage}"
            if key not in tasks:
                tasks[key] = bar.add_task(key, total=total)
            bar.update(tasks[key], completed=done)  # type: ignore[arg-type]

        yield show

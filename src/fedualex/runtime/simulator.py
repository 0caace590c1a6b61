"""`simulate` and `solve`: many rounds on one machine, with records, certificates and a stopping rule."""

import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

from .. import tree
from ..algorithms import Method
from ..algorithms.base import Survey
from ..compiling import double, drop_programs, keep_precision
from ..display import round_up
from ..problems import AbstractProblem
from ..problems.base import where_not_finite
from ..storage import Json
from . import checkpoint as checkpoints
from .clients import Conversation, SimulatedClients
from .driver import Driver, Judgement, Keeping, Record, Records, RunHooks
from .options import SimulatorOptions, SolveOptions, StoppingOptions, fields_of, meanings, takes_or_chooses
from .outputs import exact_problem, map_in_pairs, points_in_domain
from .prepare import Prepared, check_length, choose_method, polish_grid, prepare
from .run import Run
from .sharding import agree_on_seconds, check_shared, is_writer, spread
from .surveying import surveys_at

# A progress bar on a terminal, nothing anywhere else.


@contextmanager
def progress_bar(rounds: int, shown: bool = True) -> Iterator[Callable[[Json], None]]:
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

        def show(record: Json) -> None:
            speed = record["round"] / max(record["seconds"], 1e-9)
            bar.update(task, completed=record["round"], note=f"{smallest_gap(record)}  {speed:.1f} rounds/s")

        yield show


def smallest_gap(record: Json) -> str:
    """The smallest certified gap of a record, in words."""
    gaps = [value for key, value in record.items() if key.startswith("gap_") and value is not None]
    return f"gap <= {round_up(min(gaps), 3)}" if gaps else "not certifiable"


# Compiled programs kept between processes: the second start of a program does not compile again.


SWITCH = "FEDUALEX_CACHE"
"""The environment variable that names another folder, or turns the cache off with "off"."""
KEPT = 8192
"""Programs in the folder, of some 20 kB each, above which the half is removed that was not read for longest."""


FOLDER = "jax_compilation_cache_dir"
_turn = threading.Lock()
_before: list[Json] = []
"""For each run under way, what jax's configuration was before it."""


@contextmanager
def compiled_programs_kept() -> Iterator[None]:
    """Keep programs in the user's cache folder within this, unless the user has chosen one or switched it off.

    Afterwards, jax's configuration is as it was. In memory, programs are kept until there are too many.
    """
    keep_compiled_programs()
    try:
        yield
    finally:
        with _turn:
            before = _before.pop()
            if not _before:  # others may still be running, in other threads
                _configure(before)


def keep_compiled_programs() -> None:
    """`compiled_programs_kept` for good: in processes that are ours alone, a deployment's server and its sites."""
    drop_programs()
    with _turn:
        wanted = {} if _before else _cache_settings()
        _before.append(_before[0] if _before else {name: jax.config.values[name] for name in wanted})
        _configure(wanted)


def _configure(settings: Json) -> None:
    for name, value in settings.items():
        jax.config.update(name, value)
    if settings:
        compilation_cache.reset_cache()  # jax looks for its folder once; it may have looked already


def _cache_settings() -> Json:
    choice = os.environ.get(SWITCH, "")
    if choice == "off" or jax.config.values[FOLDER] is not None:
        return {}
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(choice) if choice else home / "fedualex" / "jax"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a cache that cannot be written is no reason to fail
        return {}
    _make_room_once(folder)
    # Ours are many small programs: by default jax keeps only what took a second to compile.
    few = {"jax_persistent_cache_min_compile_time_secs": 0, "jax_persistent_cache_min_entry_size_bytes": -1}
    return {FOLDER: str(folder), **few}


@functools.cache
def _make_room_once(folder: Path) -> None:
    _make_room(folder)


def _make_room(folder: Path) -> None:
    """Remove old programs where there are too many; every version of jax and of ours leaves its own behind."""
    programs = [entry for entry in os.scandir(folder) if entry.name.endswith("-cache")]
    if len(programs) <= KEPT:
        return
    used = []
    for entry in programs:
        with suppress(OSError):  # another process makes room as well
            used.append((max(entry.stat().st_atime, entry.stat().st_mtime), entry.path))
    for _, path in sorted(used)[: len(used) // 2]:
        with suppress(OSError):
            os.unlink(path)


@takes_or_chooses(SolveOptions)
def solve(problem: AbstractProblem, method: Method | None, options: SolveOptions) -> Run:
    """Run a method on a problem until an output's certificate is at most `tol`, and return certified outputs.

    Without a method, the one that fits is chosen (`runtime.prepare.choose_method`), and `run.chosen` says why.
    Without tol, the run ends with its rounds, its time, or when it diverges; `solve(problem)` has a tol. The options:
    """
    return _run(problem, method, options, stopping=True)


STOPPING = "tol and max_seconds are stopping rules, and simulate runs all rounds: use fx.solve"


@takes_or_chooses(SimulatorOptions, refused=dict.fromkeys(meanings(StoppingOptions), STOPPING))
def simulate(problem: AbstractProblem, method: Method | None, options: SimulatorOptions) -> Run:
    """Run all rounds of a method on a problem, without a stopping rule, and return certified outputs.

    Without a method, the one that fits is chosen, as in `solve`. The options:
    """
    check_length(options)
    return _run(problem, method, SolveOptions(**fields_of(options, SimulatorOptions)), stopping=False)


def _run(problem: AbstractProblem, given: Method | None, options: SolveOptions, *, stopping: bool) -> Run:
    started = time.perf_counter()
    callback = options.callback and keep_precision(options.callback)
    with compiled_programs_kept():
        method, why = (given, "") if given is not None else choose_method(problem, options)
        with double():
            prepared = prepare(problem, method, options)
            mesh = prepared.setup.mesh
            exact = exact_problem(spread(prepared.problem, mesh))
            simulated = SimulatedClients(exact, prepared.setup, prepared.wider)
            clients = Conversation(simulated, exact)
            _check_start(prepared, exact, simulated, clients.averages)
            judgement = _judgement(prepared, options)
            records = Records(prepared.problem, exact, prepared.setup, clients, judgement, prepared.start)
            with progress_bar(prepared.rounds, shown=is_writer(mesh)) as show:

                def tell(record: Record) -> object:
                    show(record)
                    return callback and callback(record)

                driver = Driver(
                    clients,
                    records,
                    _keeping(prepared, options, RunHooks(append=tell)),
                    stopping=stopping,
                    max_seconds=options.max_seconds,
                    agree=lambda seconds: agree_on_seconds(mesh, seconds),
                )
                reasons = {"steps": prepared.steps, "precision": prepared.precision, "chosen": why}
                run = driver.run(prepared.start, **reasons, began=started)
                return replace(run, precision=prepared.precision + _describe_widening(simulated))


def _describe_widening(clients: SimulatedClients) -> str:
    """An addition to the sentence about the precision, if it changed during the run."""
    if not clients.wide_since:
        return ""
    return f"; float64 after round {clients.wide_since}, as rounding was no longer far below the noise"


def _check_start(
    prepared: Prepared, exact: AbstractProblem, clients: SimulatedClients, averages: tuple[str, ...]
) -> None:
    """Refuse a start without a finite operator, from which no output could be made."""
    setup = prepared.setup
    start = points_in_domain(exact, setup, prepared.start, averages)["last"]
    # By the program that will be needed anyway, or none: that of the method's own surveys, or of records, which ask in
    # pairs.
    if setup.method.asks_curvature:
        surveys = clients.survey_with_curvature(Survey((start,), (False,)))
    elif setup.method.outputs:
        surveys = clients.survey([start])
    else:
        surveys = map_in_pairs(partial(surveys_at, exact), [start])
    if not tree.known_finite([survey.operator for survey in surveys]):
        raise FloatingPointError(where_not_finite(prepared.problem, start, "the start"))


def _judgement(prepared: Prepared, options: SolveOptions) -> Judgement:
    return Judgement.of(
        options,
        prepared.rounds,
        polish=() if prepared.setup.method.outputs else polish_grid(prepared.problem),
        everything=options.tol is not None or options.output in ("client_average", "polished"),
    )


def _keeping(prepared: Prepared, options: SolveOptions, hooks: RunHooks) -> Keeping:
    if options.checkpoint is None:
        return Keeping(hooks=hooks)
    file = Path(options.checkpoint)
    check_shared(prepared.setup.mesh, file)
    checkpoints.check_folder(file)
    return Keeping(file, prepared.run_id(), writes=is_writer(prepared.setup.mesh), hooks=hooks)

"""`simulate` and `solve`: many rounds on one machine, with records, certificates and a stopping rule."""

import time
from dataclasses import replace
from pathlib import Path

from .. import tree
from ..algorithms import AbstractMethod
from ..precision import double, keep_precision
from ..problems import AbstractProblem
from ..problems.base import where_not_finite
from . import checkpoint as checkpoints
from .choice import chosen_method
from .clients import SimulatedClients
from .compilation import keep_compiled_programs
from .driver import Driver, Keeping, RunHooks
from .exchanges import asked_by
from .keywords import fields_of, meanings, takes_or_chooses
from .options import SimulatorOptions, SolveOptions, StoppingOptions
from .outputs import exact_problem
from .prepare import Prepared, check_length, prepare
from .progress import progress_bar
from .reader import points_in_domain
from .records import Judgement, Record, Records
from .run import Run
from .sharding import agreed, check_shared, is_writer, spread
from .steps import polish_grid


@takes_or_chooses(SolveOptions)
def solve(problem: AbstractProblem, method: AbstractMethod | None, options: SolveOptions) -> Run:
    """Run a method on a problem until an output's certificate is at most `tol`, and return certified outputs.

    Without a method the run has the one that fits (`runtime.choice`), and `run.chosen` says why.
    Without tol the run ends with its rounds, its time, or when it diverges; `solve(problem)` has a tol. The options:
    """
    return _run(problem, method, options, stopping=True)


STOPPING = "tol and max_seconds are stopping rules, and simulate runs all rounds: use fx.solve"


@takes_or_chooses(SimulatorOptions, refused=dict.fromkeys(meanings(StoppingOptions), STOPPING))
def simulate(problem: AbstractProblem, method: AbstractMethod | None, options: SimulatorOptions) -> Run:
    """Run all rounds of a method on a problem, without a stopping rule, and return certified outputs.

    Without a method the run has the one that fits, as in `solve`. The options:
    """
    check_length(options)
    return _run(problem, method, SolveOptions(**fields_of(options, SimulatorOptions)), stopping=False)


def _run(problem: AbstractProblem, given: AbstractMethod | None, options: SolveOptions, *, stopping: bool) -> Run:
    started = time.perf_counter()
    keep_compiled_programs()
    callback = options.callback and keep_precision(options.callback)
    method, why = (given, "") if given is not None else chosen_method(problem, options)
    with double():
        prepared = prepare(problem, method, options)
        mesh = prepared.setup.mesh
        exact = exact_problem(spread(prepared.problem, mesh))
        simulated = SimulatedClients(exact, prepared.setup, prepared.wider)
        _check_start(prepared, exact, simulated)
        clients = asked_by(simulated, exact, prepared.setup)
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
                agree=lambda seconds: agreed(mesh, seconds),
            )
            reasons = {"steps": prepared.steps, "precision": prepared.precision, "chosen": why}
            run = driver.run(prepared.start, **reasons, began=started)
            return replace(run, precision=prepared.precision + _continued(simulated))


def _continued(clients: SimulatedClients) -> str:
    """What became of the precision, if it changed."""
    if not clients.widened:
        return ""
    return f"; float64 after round {clients.widened}, as rounding was no longer far below the noise"


def _check_start(prepared: Prepared, exact: AbstractProblem, clients: SimulatedClients) -> None:
    """Refuse a start without a finite operator: there would be nothing to return."""
    setup = prepared.setup
    start = points_in_domain(exact, setup, prepared.start, clients.averages)["last"]
    if not tree.known_finite([found.operator for found in clients.survey([start])]):
        raise FloatingPointError(where_not_finite(prepared.problem, start, "the start"))


def _judgement(prepared: Prepared, options: SolveOptions) -> Judgement:
    return Judgement(
        rounds=prepared.rounds,
        every=options.record_every or max(1, prepared.rounds // 50),
        tol=options.tol,
        output=options.output,
        polish=() if prepared.setup.method.exchanging else polish_grid(prepared.problem),
        everything=options.tol is not None or options.output in ("client_average", "polished"),
        trust=options.convexity == "trust",
    )


def _keeping(prepared: Prepared, options: SolveOptions, hooks: RunHooks) -> Keeping:
    if options.checkpoint is None:
        return Keeping(hooks=hooks)
    file = Path(options.checkpoint)
    check_shared(prepared.setup.mesh, file)
    checkpoints.check_folder(file)
    return Keeping(file, prepared.run_id(), writes=is_writer(prepared.setup.mesh), hooks=hooks)

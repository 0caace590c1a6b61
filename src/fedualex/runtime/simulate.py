"""`simulate` and `solve`: many rounds on one machine, with records, certificates and a stopping rule."""

import copy
import inspect
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from .. import tree
from ..precision import as_now, double
from ..problems.finiteness import where_not_finite
from ..validation import hint, one_of
from . import checkpoint as checkpoints
from .compilation import keep_compiled_programs
from .examination import Examination
from .feasibility import concluded
from .options import check_hooks
from .outputs import Evaluator
from .prepare import prepare
from .progress import progress_bar
from .records import Records, bytes_per_round
from .rounds import State, advance
from .run import Run
from .sharding import agreed, check_shared, leads, local, spread
from .status import Stop
from .steps import polish_grid

Ending = tuple[Stop, str]
"""Why a run ends: the word, and more about it where the word does not say it all."""


def solve(
    problem: Any,
    method: Any,
    *,
    tol: Any = None,
    max_seconds: Any = None,
    **options: Any,
) -> Run:
    """Run a method on a problem until an output's certificate is at most `tol`, and return certified outputs.

    Without tol the run ends with its rounds, its time, or when it diverges. All other options are those of `simulate`.
    """
    _check_names(options)
    return _run(problem, method, stopping=True, tol=tol, max_seconds=max_seconds, **options)


def simulate(problem: Any, method: Any, **options: Any) -> Run:
    """Run all rounds of a method on a problem, without a stopping rule, and return certified outputs.

    rounds, local_steps (K; a number, or one for each client), clients (M; from the data if the problem has clients),
    weights (of the clients in the objective, as for `Problem`; the problem's own if None), cohort (clients a round,
    uniform; all if None). `steps=T` means one client, one local step, T rounds.
    noise: `GaussianNoise`, `Minibatch`, or None for exact operators. seed: decides noise and cohorts, by counters.
    z0: a start, 0 if None. init: "project" starts at its projection; "paper" starts dual methods at the
    dual image of z0 itself, which keeps its distance (primal methods start at the projection either way).
    record_every: rounds between records. callback: is given a copy of every record; returning True ends the run.
    output: which output `run.z` is; by default the one with the smallest certificate, with tol the sparsest that
    meets it.
    dtype: of the rounds; certificates are float64 always. chunk: how many clients are computed at once.
    fast: "law" allows shortcuts whose results are equal in law only (docs/performance.md); otherwise exact ones only.
    checkpoint: a file that is written at every record, and continued from if it is there.
    mesh: a `jax.sharding.Mesh` with one axis; clients are split over its devices, of one process or of several
    (docs/scaling.md).
    convexity: "check" looks for a disproof of a user's f at the start and at the outputs; if one is found, nothing is
    certified. "trust" takes the user's word (docs/problems.md).
    """
    if {"tol", "max_seconds"} & set(options):
        raise TypeError("tol and max_seconds are stopping rules, and simulate runs all rounds: use fx.solve")
    _check_names(options)
    return _run(problem, method, stopping=False, tol=None, max_seconds=None, **options)


def _run(
    problem: Any,
    method: Any,
    *,
    stopping: bool,
    tol: Any,
    max_seconds: Any,
    callback: Any = None,
    checkpoint: Any = None,
    convexity: Any = "check",
    **options: Any,
) -> Run:
    one_of("convexity", convexity, ("check", "trust"))
    check_hooks(callback, checkpoint, max_seconds)
    file = None if checkpoint is None else Path(checkpoint)
    began = time.perf_counter()
    keep_compiled_programs()
    callback = callback and as_now(callback)
    with double():
        prepared = prepare(problem, method, tol=tol, **options)
        setup, state, total, every = prepared.setup, prepared.start, prepared.rounds, prepared.record_every
        mesh, grid = setup.mesh, polish_grid(prepared.problem)
        evaluator = Evaluator(spread(prepared.problem, mesh), tol)
        examination = Examination(prepared.problem, trust=convexity == "trust")
        start = prepared.problem.project(setup.method.point(state.server, setup.problem.geometry))
        if not tree.is_finite(evaluator.operators([start])):  # there would be nothing to return
            raise FloatingPointError(where_not_finite(prepared.problem, start, "the start"))
        evaluator.reason = evaluator.reason or examination.reason([start], thorough=True)
        records = Records(evaluator, examination, grid, setup, total, prepared.output, every)
        up, down = bytes_per_round(setup)
        run_id = ""
        if file is not None:
            check_shared(mesh, file)
            checkpoints.check_folder(file)
            run_id = prepared.run_id()
            if file.exists():
                state = records.resume(file, state, run_id)
                began -= records.all[-1]["seconds"]

        def elapsed() -> float:
            return agreed(mesh, time.perf_counter() - began)

        def keep(following: State) -> Ending | None:
            """Make a state the run's own: record, show, save, report it. How it ends the run, if it does."""
            nonlocal state
            done = int(following.round)
            if not bool(tree.is_finite((following.server, following.sums, following.memory))):
                return Stop.NUMERICAL_ERROR, ""
            try:
                record = records.record(following, elapsed(), (done * up, done * down))
            except FloatingPointError as error:
                return Stop.NUMERICAL_ERROR, str(error)
            state = following
            show(record)
            if file is not None and leads(mesh):
                records.save(file, state, run_id)
            # A copy: what a callback does to its record is its own affair.
            if callback and callback(copy.deepcopy(record)) is True:
                return Stop.INTERRUPTED, "the callback returned True"
            return verdict()

        def verdict() -> Ending | None:
            stop = records.verdict() if stopping else None
            return stop and (stop, "")

        try:
            with progress_bar(total, shown=leads(mesh)) as show:
                ending = verdict() if records.all else keep(state)
                while ending is None and (left := total - int(state.round)):
                    ending = keep(local(mesh, advance(setup, state, jnp.asarray(min(every, left)))))
                    if ending is None and max_seconds is not None and elapsed() > max_seconds:
                        ending = Stop.MAX_TIME, ""
        except KeyboardInterrupt:
            ending = Stop.INTERRUPTED, ""
        stop, detail = ending or (Stop.MAX_ROUNDS, "")
        run = records.finish(state, stop, time.perf_counter() - began, prepared.steps, detail)
        return run if stop is Stop.INTERRUPTED else concluded(run, prepared.problem)


def _check_names(options: dict[str, Any]) -> None:
    """Refuse an option that does not exist, with the one that was probably meant."""
    known = [*list(inspect.signature(prepare).parameters)[3:], "callback", "checkpoint", "convexity"]
    for name in options:
        if name not in known:
            raise TypeError(f"there is no option {name!r}; {hint(name, known, 'options are')}")

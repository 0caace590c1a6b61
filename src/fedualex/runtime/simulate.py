"""`simulate` and `solve`: many rounds on one machine, with records, certificates and a stopping rule."""

import copy
import inspect
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..precision import as_now, double
from ..problems import Exact
from ..validation import hint, one_of
from . import checkpoint as checkpoints
from .compilation import keep_compiled_programs
from .examination import Examination
from .feasibility import concluded
from .options import check_choices, check_cohort, check_hooks, check_mesh, check_sizes
from .outputs import Evaluator
from .progress import progress_bar
from .records import Records, bytes_per_round
from .rounds import State, advance
from .run import Run
from .setup import build_setup, first_state
from .sharding import agreed, check_shared, leads, local, spread
from .status import Stop
from .steps import polish_grid, with_theory_steps

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
    convexity: "check" looks for a disproof of a user's f at the start and at the outputs, and certifies nothing if one is
    found; "trust" takes the user's word (docs/problems.md).
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
    rounds: Any = None,
    steps: Any = None,
    clients: Any = None,
    weights: Any = None,
    local_steps: Any = 1,
    cohort: Any = None,
    noise: Any = None,
    seed: Any = 0,
    z0: Any = None,
    init: Any = "project",
    record_every: Any = None,
    output: Any = None,
    dtype: Any = "float64",
    callback: Any = None,
    checkpoint: Any = None,
    chunk: Any = None,
    fast: Any = None,
    mesh: Any = None,
    convexity: Any = "check",
) -> Run:
    total, clients = check_sizes(problem, method, rounds, steps, clients, local_steps, cohort)
    check_choices(init, output, noise, seed, tol, record_every, chunk, dtype)
    if fast is not None:
        one_of("fast", fast, ("law",))
    one_of("convexity", convexity, ("check", "trust"))
    check_hooks(callback, checkpoint, max_seconds)
    mesh = check_mesh(mesh, problem)
    problem = problem if weights is None else problem.reweighted(weights)
    check_cohort(cohort, problem.client_weights(clients))
    every = record_every or max(1, total // 50)
    oracle = Exact() if noise is None else noise
    file = None if checkpoint is None else Path(checkpoint)
    began = time.perf_counter()
    keep_compiled_programs()
    callback = callback and as_now(callback)
    with double():
        z0 = problem.admit(problem.like if z0 is None else z0)
        sizes: dict[str, Any] = {"clients": clients, "local_steps": int(np.max(local_steps)), "rounds": total}
        sizes["as_assumed"] = init == "project" and bool(np.min(local_steps) == np.max(local_steps))
        method, chosen = with_theory_steps(method, problem, oracle, z0, one_machine=steps is not None, **sizes)
        setup = build_setup(problem, method, oracle, clients, cohort, local_steps, seed, dtype, chunk, fast, mesh)
        state = first_state(setup, z0, init, dtype)
        evaluator = Evaluator(spread(problem, mesh), tol)
        examination = Examination(problem, trust=convexity == "trust")
        evaluator.reason = evaluator.reason or examination.reason([problem.project(z0)], thorough=True)
        records = Records(evaluator, examination, polish_grid(problem), setup, total, output, every)
        up, down = bytes_per_round(setup)
        run_id = ""
        if file is not None:
            check_shared(mesh, file)
            checkpoints.check_folder(file)
            # The problem as it was given: on a mesh no process has all data of the setup's.
            whole = eqx.tree_at(lambda s: s.problem, setup, problem)
            run_id = checkpoints.fingerprint(whole, state, init, str(total), str(every), str(tol), str(output))
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
        run = records.finish(state, stop, time.perf_counter() - began, chosen, detail)
        return run if stop is Stop.INTERRUPTED else concluded(run, problem)


def _check_names(options: dict[str, Any]) -> None:
    """Refuse an option that does not exist, with the one that was probably meant."""
    known = list(inspect.signature(_run).parameters)[5:]
    for name in options:
        if name not in known:
            raise TypeError(f"there is no option {name!r}; {hint(name, known, 'options are')}")

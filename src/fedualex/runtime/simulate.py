"""`simulate` and `solve`: many rounds on one machine, with records, certificates and a stopping rule."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..algorithms import AbstractMethod
from ..precision import double
from ..problems import AbstractOracle, AbstractProblem, Exact
from ..tree import Saddle
from . import checkpoint as checkpoints
from .options import check_choices, check_sizes
from .outputs import Evaluator, Output
from .progress import progress_bar
from .rounds import Setup, State, Sums, advance
from .run import Run, columns
from .status import Status
from .steps import polish_grid, with_theory_steps

CHUNK_ENTRIES = 2**19
"""About how many numbers of one variable a chunk of clients holds."""

NEGLIGIBLE = 1e-9
"""A certificate below this share of the first one is rounding: growing from there is not divergence."""

Record = dict[str, Any]


def solve(
    problem: AbstractProblem,
    method: AbstractMethod,
    *,
    tol: float | None = None,
    max_seconds: float | None = None,
    **options: Any,
) -> Run:
    """Run a method on a problem until an output's certificate is at most `tol`, and return certified outputs.

    Without tol the run ends with its rounds, its time, or when it diverges. All other options are those of `simulate`.
    """
    return _run(problem, method, stopping=True, tol=tol, max_seconds=max_seconds, **options)


def simulate(problem: AbstractProblem, method: AbstractMethod, **options: Any) -> Run:
    """Run all rounds of a method on a problem, without a stopping rule, and return certified outputs.

    rounds, local_steps (K; a number, or one for each client), clients (M; from the data if the problem has clients),
    weights (of the clients in the objective, as for `Problem`; the problem's own if None), cohort (clients a round,
    uniform; all if None). `steps=T` means one client, one local step, T rounds.
    noise: `GaussianNoise`, `Minibatch`, or None for exact operators. seed: decides noise and cohorts, by counters.
    z0: a start, 0 if None. init: "project" starts at its projection, "paper" at the dual image of z0 itself.
    record_every: rounds between records. callback: is given every record.
    output: which output `run.z` is; by default "polished", with tol the sparsest one that meets it.
    dtype: of the rounds; certificates are float64 always. chunk: how many clients are computed at once.
    checkpoint: a file that is written at every record, and continued from if it is there.
    """
    return _run(problem, method, stopping=False, tol=None, max_seconds=None, **options)


def _run(
    problem: AbstractProblem,
    method: AbstractMethod,
    *,
    stopping: bool,
    tol: float | None,
    max_seconds: float | None,
    rounds: int | None = None,
    steps: int | None = None,
    clients: int | None = None,
    weights: Any = None,
    local_steps: Any = 1,
    cohort: int | None = None,
    noise: AbstractOracle | None = None,
    seed: int = 0,
    z0: Saddle | None = None,
    init: str = "project",
    record_every: int | None = None,
    output: str | None = None,
    dtype: Any = "float64",
    callback: Callable[[Record], None] | None = None,
    checkpoint: str | Path | None = None,
    chunk: int | None = None,
) -> Run:
    total, clients = check_sizes(problem, method, rounds, steps, clients, local_steps, cohort)
    check_choices(init, output, noise, seed, tol, record_every, chunk, dtype)
    problem = problem if weights is None else problem.reweighted(weights)
    every = record_every or max(1, total // 50)
    oracle = Exact() if noise is None else noise
    file = None if checkpoint is None else Path(checkpoint)
    began = time.perf_counter()
    with double():
        z0 = problem.admit(problem.like if z0 is None else z0)
        sizes = {"clients": clients, "local_steps": int(np.max(local_steps)), "rounds": total}
        method, chosen = with_theory_steps(method, problem, oracle, z0, one_machine=steps is not None, **sizes)
        setup = _setup(problem, method, oracle, clients, cohort, local_steps, seed, dtype, chunk)
        state = _start(setup, z0, init, dtype)
        progress = Progress(problem, setup, total, tol, output, every)
        run_id = ""
        if file is not None:
            checkpoints.check_folder(file)
            run_id = checkpoints.fingerprint(setup, state, init, str(total), str(every), str(tol))
            if file.exists():
                state = progress.resume(file, state, run_id)
                began -= progress.records[-1]["seconds"]

        def publish(record: Record) -> None:
            """Show a record, save what belongs to it, and give it to the callback."""
            show(record)
            if file is not None:
                progress.save(file, state, run_id)
            if callback:
                callback(record)

        status = progress.verdict() if stopping and progress.records else None
        try:
            with progress_bar(total) as show:
                if not progress.records:
                    publish(progress.record(state, time.perf_counter() - began))
                while status is None and int(state.round) < total:
                    following = advance(setup, state, jnp.asarray(min(every, total - int(state.round))))
                    if not bool(tree.is_finite((following.server, following.sums, following.memory))):
                        status = Status.NUMERICAL_ERROR
                        break
                    record = progress.record(following, time.perf_counter() - began)
                    state = following
                    publish(record)
                    if stopping:
                        status = progress.verdict()
                    if status is None and max_seconds is not None and time.perf_counter() - began > max_seconds:
                        status = Status.MAX_TIME
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        except FloatingPointError:
            status = Status.NUMERICAL_ERROR
        return progress.finish(state, status or Status.MAX_ROUNDS, time.perf_counter() - began, chosen)


class Progress:
    """Records, the best certificates so far, and what they say about stopping."""

    def __init__(self, problem: AbstractProblem, setup: Setup, rounds: int, tol: Any, output: Any, every: int):
        self.evaluator, self.setup = Evaluator(problem), setup
        self.grid = polish_grid(problem)
        self.rounds, self.tol, self.output, self.every = rounds, tol, output, every
        self.records: list[Record] = []
        self.best: Output | None = None
        self.bytes = _bytes_per_round(setup)

    def record(self, state: State, seconds: float) -> Record:
        """Certificates and structure of `last` and `ergodic` (of all four if there is a tol), and the cost so far."""
        outputs = self.outputs(state, everything=self.tol is not None or self.output in ("clients", "polished"))
        done = int(state.round)
        record: Record = {"round": done, "seconds": seconds}
        record |= {"bytes_up": done * self.bytes[0], "bytes_down": done * self.bytes[1]}
        for name, output in outputs.items():
            record[f"gap_{name}"] = output.gap
            record[f"density_{name}"] = output.density
            record[f"rank_{name}"] = output.rank
            if output.gap is not None and (self.best is None or output.gap < (self.best.gap or 0)):
                self.best = output
        self.records.append(record)
        return record

    def save(self, file: Path, state: State, run_id: str) -> None:
        """Write a checkpoint: the state, the best point so far, and the records."""
        best = None if self.best is None else (self.best.name, self.best.z)
        checkpoints.save(file, (state, None if best is None else best[1]), self.records, run_id, best and best[0])

    def resume(self, file: Path, state: State, run_id: str) -> State:
        """Go on from a checkpoint, exactly as if the run had not stopped."""
        best = None if self.evaluator.reason else self.evaluator.problem.like
        (state, z), self.records, name = checkpoints.load(file, (state, best), run_id)
        self.best = None if z is None else self.evaluator.output(name, z)
        return state

    def outputs(self, state: State, everything: bool) -> dict[str, Output]:
        """The outputs of a state; before the first round only its point."""
        setup, evaluate = self.setup, self.evaluator
        outputs = {"last": evaluate.output("last", setup.method.point(state.server, setup.problem.geometry))}
        if float(state.sums.weight) == 0:  # nothing to average yet
            names = ("clients", "ergodic", "polished") if everything else ("ergodic",)
            return outputs | {name: Output(name, *list(vars(outputs["last"]).values())[1:]) for name in names}
        means = {
            "clients": tree.scale(1 / state.sums.weight, state.sums.clients),
            "ergodic": tree.scale(1 / state.sums.weight, state.sums.ergodic),
        }
        outputs["ergodic"] = evaluate.output("ergodic", means["ergodic"])
        if everything:
            outputs["clients"] = evaluate.output("clients", means["clients"])
            outputs["polished"] = evaluate.polished(means["clients"], self.grid)
        return outputs

    def verdict(self) -> Status | None:
        """Whether the records say that it is time to stop."""
        best = [min(gaps) for record in self.records if (gaps := _gaps(record, self.output))]
        if len(best) < len(self.records):
            return None
        if self.tol is not None and best[-1] <= self.tol:
            return Status.OPTIMAL
        floor = NEGLIGIBLE * max(best[0], 0)
        if len(best) > 3 and all(gap > 10 * max(min(best), floor) for gap in best[-3:]):
            return Status.DIVERGED
        fifth = max(2, self.rounds // (5 * self.every))
        if self.tol is not None and len(best) > fifth and min(best) > 0.99 * min(best[:-fifth]):
            return Status.STALLED
        return None

    def finish(self, state: State, status: Status, seconds: float, chosen: str) -> Run:
        """All outputs of the final state, and the rule that picks one."""
        outputs = self.outputs(state, everything=True)
        name = self.output or self._pick(outputs)
        gap = outputs[name].gap
        if gap is None:
            if status in (Status.MAX_ROUNDS, Status.MAX_TIME):
                status = Status.UNCERTIFIED
        elif self.tol is not None and status in (Status.MAX_ROUNDS, Status.MAX_TIME, Status.STALLED):
            if gap <= self.tol:
                status = Status.OPTIMAL
            elif gap <= 10 * self.tol:
                status = Status.OPTIMAL_INACCURATE
        return Run(status, name, outputs, self.best, columns(self.records), int(state.round), seconds, chosen, state)

    def _pick(self, outputs: dict[str, Output]) -> str:
        good = [o for o in outputs.values() if self.tol is not None and o.gap is not None and o.gap <= self.tol]
        return min(good, key=lambda o: (o.structure, o.gap)).name if good else "polished"


def _gaps(record: Record, output: str | None) -> list[float]:
    """The certified gaps of a record: of one output, or of all."""
    wanted = f"gap_{output or ''}"
    return [value for key, value in record.items() if key.startswith(wanted) and value is not None]


def _setup(
    problem: AbstractProblem,
    method: AbstractMethod,
    oracle: AbstractOracle,
    clients: int,
    cohort: int | None,
    local_steps: Any,
    seed: int,
    dtype: Any,
    chunk: int | None,
) -> Setup:
    kind = jnp.dtype(dtype)
    per_client = np.broadcast_to(np.asarray(local_steps, int), (clients,))
    size = max(np.size(leaf) for leaf in jax.tree.leaves(problem.like))
    return Setup(
        problem=tree.cast_module(problem, kind),
        method=tree.cast_module(method, kind),
        oracle=tree.cast_module(oracle, kind),
        weights=jnp.asarray(problem.client_weights(clients), kind),
        steps=jnp.asarray(per_client),
        key=jax.random.key(seed),
        clients=clients,
        cohort=clients if cohort is None else cohort,
        local_steps=int(per_client.max()),
        chunk=chunk or max(1, CHUNK_ENTRIES // size),
        equal_steps=bool(np.all(per_client == per_client[0])),
    )


def _start(setup: Setup, z0: Saddle, init: str, dtype: Any) -> State:
    geometry = setup.problem.geometry
    z0 = tree.cast(z0, jnp.dtype(dtype))
    dual = geometry.dual(geometry.project(z0) if init == "project" else z0)
    server = setup.method.start(dual, geometry)
    point = setup.method.point(server, geometry)
    memory = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (setup.clients, *leaf.shape)), setup.method.memory(server)
    )
    zero = tree.scale(0.0, point)
    return State(server, memory, point, Sums(zero, zero, jnp.zeros((), jnp.dtype(dtype))), jnp.asarray(0))


def _bytes_per_round(setup: Setup) -> tuple[int, int]:
    """What a network would carry in a round: state down, message and the sum behind `clients` up; surveys both ways."""

    def size(a: Any) -> int:
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(a))

    like = tree.cast(setup.problem.like, setup.weights.dtype)
    dual = jax.eval_shape(setup.problem.geometry.dual, like)
    server = jax.eval_shape(lambda d: setup.method.start(d, setup.problem.geometry), dual)
    up, down = setup.cohort * (size(server) + size(like)), setup.cohort * size(server)
    if setup.method.survey == "fresh":
        up, down = up + setup.clients * size(like), down + (setup.clients + setup.cohort) * size(like)
    if setup.method.survey == "stale":
        up, down = up + setup.clients * size(like), down + setup.cohort * 2 * size(like)
    return up, down

"""The one loop of a run: ask clients, record, judge, keep, stop, finish. Simulator and deployment differ below it."""

import copy
import dataclasses
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np

from .. import tree
from ..certificates.surveys import Surveyed
from ..display import round_down
from ..problems import AbstractProblem
from ..problems.constrained import exceeds, is_doubtful
from ..problems.convexity import CHECKED, Disproof, disproof, why_not_checked
from ..storage import Json
from ..tree import Saddle
from . import checkpoint as checkpoints
from .clients import Conversation
from .outputs import Evaluator, Output, Reader, Steps, exchanges_of, gap_of, points_in_domain
from .run import Run, columns
from .state import Setup, State
from .status import Code, Failure, Missing, Stop, answer_of, status_of, stop_of

if TYPE_CHECKING:
    from ..reference import LeastViolation


# Whether a run's problem has an answer at all: a proof that no model meets its limits, or nothing.


UNDECIDED = "no model was found that meets the limits, and no proof that there is none"


def conclude(run: Run, problem: AbstractProblem) -> Run:
    """The run, ended as INFEASIBLE if that is proved: none of its outputs is then optimal, however small its gap."""
    began = time.perf_counter()
    try:
        least = bound_violation(problem, run.violation)
    except KeyboardInterrupt:
        return replace(run, stop=Stop.INTERRUPTED, detail="while it was asked whether the limits can be met")
    if least is None:
        return run
    return settle(replace(run, seconds=run.seconds + time.perf_counter() - began), least)


def settle(run: Run, least: "LeastViolation") -> Run:
    """The run with what bounds on the least violation say of it."""
    if not (sentence := prove_infeasible(least)):
        return replace(run, detail=run.detail or UNDECIDED) if least.upper > 0 else run
    outputs = {name: replace(output, status=status_of(output.gap, None)) for name, output in run.outputs.items()}
    return replace(run, stop=Stop.INFEASIBLE, detail=sentence, outputs=outputs, least_violation=least.lower)


def bound_violation(problem: AbstractProblem, violation: float | None) -> "LeastViolation | None":
    """Bounds on the least violation, computed only where an answer exceeds the limits by `violation`.

    None where the problem has no limits, where a model is known that meets them, and where the data is elsewhere:
    phase one is then a deployment of its own.
    """
    doubtful = is_doubtful(problem) and problem.clients != 0 and exceeds(problem, violation)
    if not doubtful:
        return None
    from ..reference import least_violation  # it brings scipy's solvers: a fifth of a second, for few runs

    return least_violation(problem)


def prove_infeasible(least: "LeastViolation | None") -> str:
    """The sentence that the limits are infeasible, if `least` proves it; empty otherwise."""
    return "" if least is None or not least.lower > 0 else infeasibility_text(least.lower)


def infeasibility_text(least: float) -> str:
    """The sentence that no model violates the limits by less than `least`."""
    return f"the limits are infeasible: no model in this domain violates less than {round_down(least)}"


# Whether f was seen not to be convex in x and concave in y: then no certificate of it is worth anything.


TRUSTED = "f was taken to be convex in x and concave in y, as asked"


class Examination:
    """Looks for a disproof of f at the points whose certificates are to be claimed; call within `double()`.

    trust: whether the user vouches for f, so that nothing is looked at.
    """

    def __init__(self, problem: AbstractProblem, trust: bool):
        self.problem = tree.cast_module(problem, jnp.float64)
        self.sentence = TRUSTED if trust else why_not_checked(problem) or CHECKED
        """What was looked at, for reports. That no disproof was found is never told as a proof."""
        self.disproof: Disproof | None = None

    def examine(self, points: Iterable[Saddle], thorough: bool = False) -> str:
        """Why nothing may be certified, if a disproof is found at one of the points; empty otherwise."""
        if self.sentence == CHECKED and self.disproof is None:
            distinct = {id(z): z for z in points}.values()
            disproofs = (disproof(self.problem, z, thorough=thorough) for z in distinct)
            self.disproof = next((one for one in disproofs if one is not None), None)
            if self.disproof is not None:
                self.sentence = self.disproof.reason
        return "" if self.disproof is None else self.disproof.reason


Record = Json


@dataclass(frozen=True)
class Judgement:
    """When a run is recorded, and by what its records are judged."""

    rounds: int
    every: int
    """Rounds between two records."""
    tol: float | None
    output: str | None
    """The output that is the answer whatever happens; None for the best."""
    polish: Steps
    """The steps that are tried for the polished output."""
    everything: bool
    """Whether all outputs are recorded, or `last` and `ergodic` only."""
    trust: bool
    """Whether the user vouches that f is convex-concave."""

    @classmethod
    def of(cls, options: Any, rounds: int, **own: Any) -> "Judgement":
        """From the options of a run, simulated or deployed. own: the fields that these two decide differently."""
        asked = {
            "every": options.record_every or max(1, rounds // 50),
            "tol": options.tol,
            "output": options.output,
            "trust": options.convexity == "trust",
        }
        return cls(rounds=rounds, **(asked | own))

    def is_due(self, rounds: int) -> bool:
        """Whether there is a record after so many rounds."""
        return rounds % self.every == 0 or rounds == self.rounds


class Records:
    """The records of a run, its best certificate so far, and whether they end the run. Call within `double()`.

    exact: the problem as `exact_problem` makes it, in the layout of the devices. A disproof of f is looked for around
    the start.
    """

    def __init__(
        self,
        problem: AbstractProblem,
        exact: AbstractProblem,
        setup: Setup,
        clients: Conversation,
        judgement: Judgement,
        start: State,
    ):
        self.problem, self.setup, self.clients, self.judgement = problem, setup, clients, judgement
        self.examination = Examination(problem, trust=judgement.trust)
        first = points_in_domain(exact, setup, start, clients.averages)["last"]
        reason = clients.unsurveyed or self.examination.examine([first], thorough=True)
        self.evaluator = Evaluator(
            exact,
            clients.survey if clients.remote else None,
            told=clients.told,
            sum_error=clients.sum_error,
            reason=reason,
            tol=judgement.tol,
        )
        self.all: list[Record] = []
        self.best: Output | None = None
        """The best output of all records; bounds are left out, as they never become worse."""
        self.reader = Reader(self.evaluator, setup, clients, judgement.polish)

    def is_due(self, state: State) -> bool:
        """Whether this state is recorded: after every so many rounds, and when the method says that tol is met."""
        rule, rounds = self.judgement, int(state.round)
        bounds = self.setup.method.bounds(state.server)
        if bounds is None:
            return rule.is_due(rounds)
        met = rule.tol is not None and bounds.gap <= rule.tol
        return rounds > 0 and (rule.is_due(rounds) or rounds == 1 or met)

    def record(self, state: State, seconds: float) -> Record | Missing:
        """Certificates and structure of the recorded outputs, and the cost so far; or whose answer is missing."""
        exchanges = exchanges_of(self.setup, state)
        record: Record = {"round": int(state.round), "exchanges": exchanges, "seconds": seconds}
        record |= self.clients.costs(state)
        outputs = self.reader.read(state, self.judgement.everything)
        if isinstance(outputs, Missing):
            return outputs
        for name, output in outputs.items():
            record |= output.to_record()
            if name != "bounds" and gap_of(output) < gap_of(self.best):
                self.best = dataclasses.replace(output, name="best", origin=f"{name} of round {int(state.round)}")
        self.all.append(record)
        return record

    def save(self, file: Path, state: State, run_id: str) -> None:
        """Write a checkpoint: the state, the best point so far with its survey, and the records."""
        best = self.best
        origin = None if best is None else best.origin
        kept = (None, None) if best is None else (best.z, (best.operator, best.value))
        whole = state, self.clients.checkpoint_state(), self.reader.trace, kept
        checkpoints.save(file, whole, self.all, run_id, origin)

    def resume(self, file: Path, state: State, run_id: str) -> State:
        """Continue from a checkpoint, exactly as if the run had not stopped."""
        like = self.problem.like
        best = (None, None) if checkpoints.read(file)[0]["best"] is None else (like, (like, np.zeros(())))
        shape = state, self.clients.checkpoint_state(), self.reader.trace, best
        (state, kept, self.reader.trace, (z, at)), self.all, origin = checkpoints.load(file, shape, run_id)
        self.clients.restore(kept)
        if origin is not None:
            self.best = dataclasses.replace(self.evaluator.certify_survey("best", z, Surveyed(*at)), origin=origin)
        return state

    def judge(self) -> Stop | None:
        """How the records end the run; None if it goes on."""
        rule = self.judgement
        limits = {"rounds": rule.rounds, "record_every": rule.every, "patience": self.setup.method.patience}
        return stop_of(self.all, rule.output, tol=rule.tol, **limits)

    def _best(self, bounds: Output | None) -> Output | None:
        """The output with the smallest certificate of all records and of the bounds; None without certificates."""
        best = min((self.best, bounds), key=gap_of)
        return None if gap_of(best) == np.inf else best

    def finish(self, state: State, stop: Stop, detail: str, seconds: float, steps: str) -> Run:
        """All outputs of the final state, the best record if it is better, and which of them is the answer."""
        unanswered = False
        try:
            read = self.reader.read(state, everything=True)
            unanswered = isinstance(read, Missing)
        except FloatingPointError as error:
            if not self.all:  # not even the start has finite numbers: there is no run
                raise
            stop, detail = Stop.NUMERICAL_ERROR, str(error)
            read = Missing(Failure(Code.NOT_FINITE, str(error)))
        outputs = self.reader.read_uncertified(state, read.why.text) if isinstance(read, Missing) else read
        best = self._best(outputs.get("bounds"))
        if best is not None and gap_of(best) < min(map(gap_of, outputs.values())):
            outputs["best"] = best
        certified = [output.z for output in outputs.values() if output.gap is not None]
        if certified and (reason := self.examination.examine(certified)):
            outputs = {name: output.withdraw(reason) for name, output in outputs.items() if name != "best"}
            stop, best, self.all = Stop.DISPROVED, None, [without_gaps(record) for record in self.all]
            unanswered = False  # nothing is left to ask for
        gaps = {name: output.gap for name, output in outputs.items()}
        structure = {name: output.structure for name, output in outputs.items()}
        spent = self.clients.costs(state)
        return Run(
            stop=stop,
            detail=detail,
            output=self.judgement.output or answer_of(gaps, structure, self.judgement.tol),
            outputs=outputs,
            best=best,
            history=columns(self.all),
            rounds=int(state.round),
            exchanges=exchanges_of(self.setup, state),
            seconds=seconds,
            steps=steps,
            state=state,
            convexity=self.examination.sentence,
            disproof=self.examination.disproof,
            epsilon=spent.get("epsilon"),
            unanswered=unanswered,
            server_seconds=spent.get("server_seconds"),
        )


def without_gaps(record: Record) -> Record:
    """The record with its certificates withdrawn."""
    return {key: None if key.startswith("gap_") else value for key, value in record.items()}


# The loop itself, and where a run is kept.


log = logging.getLogger(__name__)

Ending = tuple[Stop, str]
"""Why a run ends: the word, and more about it where the word does not say it all."""


@dataclass(frozen=True)
class RunHooks:
    """Functions that are called as a run goes on.

    begin: called before the first round. append: given every record. finish: given the run when it has ended.
    """

    begin: Callable[[], None] = lambda: None
    append: Callable[[Record], object] = lambda record: None
    """Called with a copy of every record, once the checkpoint with it is written; the run ends if it returns True."""
    finish: Callable[[Run], None] = lambda run: None


@runtime_checkable
class Fence(Protocol):
    """Decides who may write: of two runs with one checkpoint, the later one."""

    def take_over(self) -> AbstractContextManager[None]:
        """A context at whose end, unless something was raised, this run is the writer."""
        ...

    def hold(self) -> AbstractContextManager[None]:
        """A context inside of which, and nowhere else, this run may write."""
        ...


class NoFence:
    """The fence of a run whose checkpoint nobody else writes."""

    def take_over(self) -> AbstractContextManager[None]:
        """A context that does nothing: there is no other writer."""
        return nullcontext()

    def hold(self) -> AbstractContextManager[None]:
        """A context that does nothing: there is no other writer."""
        return nullcontext()


@dataclass(frozen=True)
class Keeping:
    """Where a run is kept: its checkpoint and the functions that are told of it."""

    file: Path | None = None
    run_id: str = ""
    writes: bool = True
    """Whether this process writes the checkpoint that it reads."""
    fence: Fence = field(default_factory=NoFence)
    hooks: RunHooks = field(default_factory=RunHooks)


class Driver:
    """One run. Call within `double()`.

    stopping: whether records may end it. agree: maps the seconds of this process to those that all processes of a mesh
    go by.
    """

    def __init__(
        self,
        clients: Conversation,
        records: Records,
        keeping: Keeping,
        *,
        stopping: bool,
        max_seconds: float | None,
        agree: Callable[[float], float] = lambda seconds: seconds,
    ):
        self.clients, self.records, self.keeping = clients, records, keeping
        self.stopping, self.max_seconds, self.agree = stopping, max_seconds, agree

    def run(self, start: State, *, steps: str, precision: str, began: float, chosen: str = "") -> Run:
        """Run from the start, or from the checkpoint if there is one, to an answer.

        steps, precision, chosen: which step sizes, which precision of the rounds and which method were chosen, and why.
        began: when the run began, by `time.perf_counter`.
        """
        self.state, self.began = start, began
        file, fence = self.keeping.file, self.keeping.fence
        log.info("begins: %s; its program is compiled at the first round", self._plan())
        with fence.take_over():
            if file is not None and file.exists():
                self.state = self.records.resume(file, start, self.keeping.run_id)
                self.began -= self.records.all[-1]["seconds"] if self.records.all else 0.0
                log.info("resumed from %s after round %d", file, int(self.state.round))
            self.keeping.hooks.begin()
        try:
            ending = self._judge() if self.records.all else self._adopt(start)
            while ending is None and int(self.state.round) < self.records.judgement.rounds:
                ending = self._advance()
        except KeyboardInterrupt:
            ending = Stop.INTERRUPTED, ""
        stop, detail = ending or (Stop.MAX_ROUNDS, "")
        # Without agreement: another process may not have been interrupted.
        run = self.records.finish(self.state, stop, detail, time.perf_counter() - self.began, steps)
        run = dataclasses.replace(run, chosen=chosen, precision=precision)
        if run.stop is not Stop.INTERRUPTED:
            run = conclude(run, self.records.problem)
        with fence.hold():
            self.keeping.hooks.finish(run)
        log.info("ended: %s", run)
        return run

    def _plan(self) -> str:
        setup, rounds = self.records.setup, self.records.judgement.rounds
        return f"{type(setup.method).__name__}, {rounds} rounds, {setup.clients} clients"

    def _advance(self) -> Ending | None:
        """Ask for the next rounds. Returns how they end the run; None if it goes on."""
        if self.clients.reserve_privacy():
            self._keep(None)
        rule, done = self.records.judgement, int(self.state.round)
        following = self.clients.advance(self.state, min(rule.every - done % rule.every, rule.rounds - done))
        if isinstance(following, Missing):
            log.warning("round %d failed: %s", done, following.why)
            lost = following.stop is Stop.CLIENTS_LOST
            ending = (Stop.CLIENTS_LOST, following.why.text) if lost else _ending_of(following.stop)
        else:
            ending = self._adopt(following)
        if ending is None and self.max_seconds is not None and self._measure_seconds() > self.max_seconds:
            return Stop.MAX_TIME, ""
        return ending

    def _adopt(self, following: State) -> Ending | None:
        """Make a state the run's own: record it if due, store and judge it. Returns how the run ends, or None."""
        if not tree.known_finite((following.server, following.sums, following.memory)):
            return Stop.NUMERICAL_ERROR, ""
        record = None
        if self.records.is_due(following):
            try:
                answer = self.records.record(following, self._measure_seconds())
            except FloatingPointError as error:
                return Stop.NUMERICAL_ERROR, str(error)
            if not isinstance(answer, Missing):
                record = answer
            elif answer.stop is not None:
                return answer.stop, ""
            else:
                log.warning("no certificate at round %d: %s", int(following.round), answer.why)
        self.state = following
        if record is not None:
            log.debug("record: %s", record)
        if self._keep(record):
            return Stop.INTERRUPTED, "the callback returned True"
        return None if record is None else self._judge()

    def _keep(self, record: Record | None) -> bool:
        """Store the state and pass the record to the hooks. Returns whether they end the run."""
        keeping = self.keeping
        with keeping.fence.hold():
            if keeping.file is not None and keeping.writes:
                self.records.save(keeping.file, self.state, keeping.run_id)
            # A copy: what a callback does to its record is its own affair.
            return record is not None and keeping.hooks.append(copy.deepcopy(record)) is True

    def _judge(self) -> Ending | None:
        return _ending_of(self.records.judge()) if self.stopping else None

    def _measure_seconds(self) -> float:
        return self.agree(time.perf_counter() - self.began)


def _ending_of(stop: Stop | None) -> Ending | None:
    return None if stop is None else (stop, "")

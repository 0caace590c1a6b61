"""Records of a run: certificates and cost so far, the best point, and what they say about stopping."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from .. import tree
from ..certificates.surveys import Surveyed
from ..problems import AbstractProblem
from ..problems.convexity import CHECKED, Disproof, disproof, unchecked
from ..tree import Saddle
from . import checkpoint as checkpoints
from .clients import Asking
from .evaluator import Evaluator, Reader, exchanges_of, gap_of, points_in_domain
from .outputs import Output
from .run import Run, columns
from .state import Setup, State
from .status import Code, Failure, Missing, Stop, answer_of, stop_of

# Whether f was seen not to be convex in x and concave in y: then no certificate of it is worth anything.


TRUSTED = "f was taken to be convex in x and concave in y, as asked"


class Examination:
    """Looks for a disproof of f at the points whose certificates are to be claimed; call within `double()`.

    trust: look at nothing, and take the user's word.
    """

    def __init__(self, problem: AbstractProblem, trust: bool):
        self.problem = tree.cast_module(problem, jnp.float64)
        self.sentence = TRUSTED if trust else unchecked(problem) or CHECKED
        """What was looked at, for reports; never that f is convex-concave because nothing was found."""
        self.found: Disproof | None = None

    def reason(self, points: Iterable[Saddle], thorough: bool = False) -> str:
        """Why nothing may be certified, if a disproof is found at one of the points; empty otherwise."""
        if self.sentence == CHECKED and self.found is None:
            distinct = {id(z): z for z in points}.values()
            found = (disproof(self.problem, z, thorough=thorough) for z in distinct)
            self.found = next((one for one in found if one is not None), None)
            if self.found is not None:
                self.sentence = self.found.reason
        return "" if self.found is None else self.found.reason


Record = dict[str, Any]


@dataclass(frozen=True)
class Judgement:
    """By what a run is recorded and judged."""

    rounds: int
    every: int
    """Rounds between two records."""
    tol: float | None
    output: str | None
    """The output that is the answer whatever happens; None for the best."""
    polish: Any
    """The steps that are tried for the polished output."""
    everything: bool
    """Whether all outputs are recorded, or `last` and `ergodic` only."""
    trust: bool
    """Whether the user's word is taken that f is convex-concave."""

    def is_due(self, rounds: int) -> bool:
        """Whether there is a record after so many rounds."""
        return rounds % self.every == 0 or rounds == self.rounds


class Records:
    """Records, the best certificate so far, and what they say about stopping. Call within `double()`.

    exact: the problem as `exact_problem` makes it, in the layout of the devices. f is looked at around the start.
    """

    def __init__(
        self,
        problem: AbstractProblem,
        exact: AbstractProblem,
        setup: Setup,
        clients: Asking,
        judgement: Judgement,
        start: State,
    ):
        self.problem, self.setup, self.clients, self.judgement = problem, setup, clients, judgement
        self.examination = Examination(problem, trust=judgement.trust)
        first = points_in_domain(exact, setup, start, clients.averages)["last"]
        reason = clients.unsurveyed or self.examination.reason([first], thorough=True)
        self.evaluator = Evaluator(
            exact,
            clients.survey if clients.elsewhere else None,
            elsewhere=clients.elsewhere,
            sum_error=clients.sum_error,
            reason=reason,
            tol=judgement.tol,
        )
        self.all: list[Record] = []
        self.best: Output | None = None
        """The best of all records but for the bounds, which never become worse."""
        self.reader = Reader(self.evaluator, setup, clients, judgement.polish)

    def is_due(self, state: State) -> bool:
        """Whether there is a record of this state: also when the method itself says that tol is met."""
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
        record |= self.clients.spent(state)
        outputs = self.reader.outputs(state, self.judgement.everything)
        if isinstance(outputs, Missing):
            return outputs
        for name, output in outputs.items():
            record[f"gap_{name}"] = output.gap
            record[f"density_{name}"] = output.density
            record[f"rank_{name}"] = output.rank
            if name != "bounds" and gap_of(output) < gap_of(self.best):
                self.best = dataclasses.replace(output, name="best", origin=f"{name} of round {int(state.round)}")
        self.all.append(record)
        return record

    def save(self, file: Path, state: State, run_id: str) -> None:
        """Write a checkpoint: the state, the best point so far with its survey, and the records."""
        best, origin = self.best, None if self.best is None else self.best.origin
        kept = (None, None) if best is None else (best.z, (best.operator, best.value))
        checkpoints.save(file, (state, self.clients.ledger(), self.reader.trace, kept), self.all, run_id, origin)

    def resume(self, file: Path, state: State, run_id: str) -> State:
        """Continue from a checkpoint, exactly as if the run had not stopped."""
        like = self.problem.like
        best = (None, None) if checkpoints.read(file)[0]["best"] is None else (like, (like, np.zeros(())))
        shape = state, self.clients.ledger(), self.reader.trace, best
        (state, ledger, self.reader.trace, (z, at)), self.all, origin = checkpoints.load(file, shape, run_id)
        self.clients.restore(ledger)
        if origin is not None:
            self.best = dataclasses.replace(self.evaluator.output("best", z, Surveyed(*at)), origin=origin)
        return state

    def verdict(self) -> Stop | None:
        """Whether the records say that it is time to stop."""
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
            found = self.reader.outputs(state, everything=True)
            unanswered = isinstance(found, Missing)
        except FloatingPointError as error:
            if not self.all:  # not even the start has finite numbers: there is no run
                raise
            stop, detail = Stop.NUMERICAL_ERROR, str(error)
            found = Missing(Failure(Code.NOT_FINITE, str(error)))
        outputs = self.reader.unanswered(state, found.why.text) if isinstance(found, Missing) else found
        best = self._best(outputs.get("bounds"))
        if best is not None and gap_of(best) < min(map(gap_of, outputs.values())):
            outputs["best"] = best
        certified = [output.z for output in outputs.values() if output.gap is not None]
        if certified and (reason := self.examination.reason(certified)):
            outputs = {name: output.withdrawn(reason) for name, output in outputs.items() if name != "best"}
            stop, best, self.all = Stop.DISPROVED, None, [without_gaps(record) for record in self.all]
            unanswered = False  # nothing is left to ask for
        gaps = {name: output.gap for name, output in outputs.items()}
        structure = {name: output.structure for name, output in outputs.items()}
        spent = self.clients.spent(state)
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
            disproof=self.examination.found,
            epsilon=spent.get("epsilon"),
            unanswered=unanswered,
            server_seconds=spent.get("server_seconds"),
        )


def without_gaps(record: Record) -> Record:
    """A record whose certificates were withdrawn."""
    return {key: None if key.startswith("gap_") else value for key, value in record.items()}

"""The round loop of a deployment: what the simulator does in one program, with sites that may fail."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..problems import AbstractProblem, Certificate
from ..runtime import Run, Stop
from ..runtime.examination import Examination
from ..runtime.outputs import UNANSWERED, Evaluator, Output, structure_of
from ..runtime.records import Record, Records
from ..runtime.rounds import Contribution, Setup, State, Sums, add_probes, draw_cohort
from ..tree import Tree
from .engine import Engine
from .exchange import Exchange, SilentSitesError
from .fence import Fence
from .privacy import Privacy
from .site import reply_like
from .wire import pack

log = logging.getLogger("fedualex.deploy")

PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds after a failed round, doubled with every failure."""


@dataclass(frozen=True)
class Plan:
    """What a deployment is asked for beyond the setup of its rounds."""

    rounds: int
    record_every: int
    tol: float | None = None
    max_seconds: float | None = None
    output: str | None = None
    ergodic: bool = False
    """Whether sites send the K probes of a round, for the exact `ergodic` output."""
    min_replies: int | None = None
    """With fewer valid replies a round fails and is done again; all of its cohort if None."""
    attempts: int = 5
    """Failed rounds in a row after which the run ends as CLIENTS_LOST."""
    privacy: Privacy | None = None
    """With it sites send noisy increments and nothing else: no certificates, and the output `last` alone."""


@dataclass(frozen=True)
class Journal:
    """What is kept of a run beside its checkpoint. Called only while this server is the one that may write."""

    begin: Callable[[], None] = lambda: None
    append: Callable[[Record], None] = lambda record: None
    """A record, after the checkpoint that holds it: what was told is never told again."""
    finish: Callable[[Run], None] = lambda run: None


class Loop:
    """Rounds above the seam. The state lives here and in the checkpoint, never at sites."""

    def __init__(
        self,
        engine: Engine,
        problem: AbstractProblem,
        setup: Setup,
        sites: dict[str, float],
        plan: Plan,
        grid: Any,
        *,
        timeout: float,
        run_id: str,
    ):
        self.setup, self.plan, self.run_id = setup, plan, run_id
        self.sites, self.weights = list(sites), list(sites.values())
        self.exchange = Exchange(engine, self.sites, run_id, timeout)
        evaluator = Evaluator(problem, plan.tol, self._exact_operators)
        examination = Examination(problem, trust=False)
        self.records = Records(evaluator, examination, grid, setup, plan.rounds, plan.output, plan.record_every)
        self.records.everything |= plan.output is None
        self.records.kept = ("ergodic", "clients") if plan.ergodic else ("clients",)
        self.reply_like = reply_like(setup, plan.ergodic)
        if plan.privacy is not None:
            evaluator.reason = "sites send noisy increments only, and an exact operator would not be private"
            self.records.kept, self.records.output = (), "last"
            self.reply_like = {"message": self.reply_like["message"]}
        self.giving_up = False

    def run(self, start: State, file: Path, journal: Journal, chosen: str = "") -> Run:
        """From the start, or from the checkpoint if there is one, to a status. Call within `double()`."""
        fence, began = Fence(file), time.perf_counter()
        evaluator, examination = self.records.evaluator, self.records.examination
        evaluator.reason = evaluator.reason or examination.reason([_point(self.setup, start)], thorough=True)
        state, traffic = start, jnp.zeros(3, int)
        with fence.taken_over():
            if file.exists():
                self.giving_up = True  # the certificate of the best point can wait, if sites are silent now
                state, traffic = self.records.resume(file, (state, traffic), self.run_id)
                self.giving_up, self.exchange.traffic = False, [int(count) for count in traffic]
                began -= self.records.all[-1]["seconds"] if self.records.all else 0.0
            journal.begin()
        stop = self.records.verdict() if self.records.all else None
        failures = 0

        def publish(record: Record | None = None) -> None:
            with fence.held():
                self.records.save(file, (state, jnp.asarray(self.exchange.traffic)), self.run_id)
                if record is not None:
                    journal.append(record)

        try:
            if not self.records.all:
                stop, record = self._record(state, began)
                publish(record)
            while stop is None and int(state.round) < self.plan.rounds:
                if self.plan.privacy is not None:  # counted before it happens: a crash must not forget a release
                    self.exchange.traffic[2] += 1
                    publish()
                following = self._round(state)
                if self.exchange.engine.stopped():
                    stop = Stop.INTERRUPTED
                elif following is None and self.exchange.overflown:
                    stop = Stop.NUMERICAL_ERROR  # as in one program: the same again would end the same
                elif following is None:
                    failures += 1
                    if failures >= self.plan.attempts:
                        stop = Stop.CLIENTS_LOST
                    else:
                        time.sleep(min(PAUSE * 2 ** (failures - 1), LONGEST_PAUSE))
                elif not bool(tree.is_finite((following.server, following.sums))):
                    stop = Stop.NUMERICAL_ERROR
                else:
                    record, due = None, self._is_due(int(following.round))
                    if due:
                        stop, record = self._record(following, began)
                    if due and record is None and self.exchange.engine.stopped():
                        stop = Stop.INTERRUPTED  # the round is done again, and its record with it
                    elif stop is not Stop.NUMERICAL_ERROR:
                        state, failures = following, 0
                        publish(record)
                if stop is None and self.plan.max_seconds and time.perf_counter() - began > self.plan.max_seconds:
                    stop = Stop.MAX_TIME
        except KeyboardInterrupt:
            stop = Stop.INTERRUPTED
        # Whoever is silent now was asked for the last time: an answer without certificates is better than none.
        self.giving_up = True
        run = self.records.finish(state, stop or Stop.MAX_ROUNDS, time.perf_counter() - began, chosen)
        run = replace(run, epsilon=self._epsilon())
        with fence.held():
            journal.finish(run)
        return run

    def _is_due(self, rounds: int) -> bool:
        return rounds % self.plan.record_every == 0 or rounds == self.plan.rounds

    def _epsilon(self) -> float | None:
        """What all increments that sites were asked for so far are worth, failed rounds included."""
        return None if self.plan.privacy is None else self.plan.privacy.epsilon(self.exchange.traffic[2])

    def _record(self, state: State, began: float) -> tuple[Stop | None, Record | None]:
        """Whether the state's certificates say that it is time to stop, and its record; none if sites are silent."""
        traffic = self.exchange.traffic[0], self.exchange.traffic[1]
        best = self.records.best
        try:
            if best is not None and best.gap is None:  # sites were silent when it was asked for
                certified = self.records.evaluator.outputs({best.name: best.z})[best.name]
                self.records.best = replace(certified, origin=best.origin)
            record = self.records.record(state, time.perf_counter() - began, traffic)
        except (SilentSitesError, FloatingPointError) as error:
            if best is None and not self.records.evaluator.reason:
                self.records.best = self._uncertified(state)
            if isinstance(error, FloatingPointError) or self.exchange.overflown:
                return Stop.NUMERICAL_ERROR, None
            log.warning("no certificate at round %d: %s", int(state.round), error)
            return None, None
        if (epsilon := self._epsilon()) is not None:
            record["epsilon"] = epsilon
        return self.records.verdict(), record

    def _uncertified(self, state: State) -> Output:
        """The point of a state: a checkpoint holds the best point so far, be it the first one without a certificate."""
        problem = self.records.evaluator.problem
        z = problem.project(_point(self.setup, state))
        nothing, origin = Certificate(None, None, UNANSWERED), f"last of round {int(state.round)}"
        return Output("best", z, None, nothing, *structure_of(problem, z), origin=origin)

    def _round(self, state: State) -> State | None:
        """The state one round later; None if too few sites answered."""
        method = self.setup.method
        point = _point(self.setup, state)
        survey = None
        if method.survey != "none":
            at = point if method.survey == "fresh" else state.reference
            try:
                (mean,) = self._survey([at])
            except SilentSitesError as error:
                log.warning("round %d failed: %s", int(state.round), error)
                return None
            survey = (at, tree.cast(mean, self.setup.weights.dtype))
        ids = [int(m) for m in draw_cohort(self.setup, state.round)[0]]
        cohort = [self.sites[m] for m in ids]
        needed = min(self.plan.min_replies or len(cohort), len(cohort))
        replies = self.exchange.ask(
            "round", pack(server=state.server, survey=survey), int(state.round), cohort, needed, **self.reply_like
        )
        if len(replies) < needed:
            log.warning("round %d failed: %d of %d replies", int(state.round), len(replies), needed)
            return None
        return _close(self.setup, state, point, self._mean(replies), jnp.asarray(len(replies) / self.setup.clients))

    def _mean(self, replies: dict[str, dict[str, Tree]]) -> dict[str, Tree]:
        """sum_m a_m reply_m, in the order of the sites, so that the sum has the same bits whoever was first."""
        kind = np.dtype(self.setup.weights.dtype)
        ids = [self.sites.index(site) for site in replies]
        p = np.asarray(self.weights)[ids]
        a, steps = (p / p.sum()).astype(kind), np.asarray(self.setup.steps)[ids].astype(kind)
        scaled = a * (a @ steps) / steps  # increments count a step of everybody alike (unequal local steps)
        probes = {"probes": a, "probe_weights": a, "shares": a} if self.plan.ergodic else {}
        factors = {"message": scaled, "points": scaled, "point_weight": scaled, **probes}
        return {name: _combine(factors[name], [reply[name] for reply in replies.values()]) for name in self.reply_like}

    def _exact_operators(self, points: list[Tree]) -> list[Tree] | None:
        if self.plan.privacy is not None:
            return None
        try:
            return self._survey(points)
        except SilentSitesError:
            if self.giving_up:
                return None
            raise

    def _survey(self, points: list[Tree]) -> list[Tree]:
        """sum_m p_m g_m at each point, from all sites: fewer would be the operator of another problem."""
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *points)
        like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), stacked)
        replies = self.exchange.survey(pack(points=stacked), operators=like)
        mean = _combine(self.weights, [reply["operators"] for reply in replies.values()])
        return [jax.tree.map(lambda leaf, i=i: leaf[i], mean) for i in range(len(points))]


def _combine(factors: Any, trees: list[Tree]) -> Tree:
    """sum_i factor_i tree_i, in the trees' precision."""
    return jax.tree.map(
        lambda *leaves: np.asarray(sum(leaf.dtype.type(f) * leaf for f, leaf in zip(factors, leaves, strict=True))),
        *trees,
    )


@eqx.filter_jit
def _point(setup: Setup, state: State) -> Tree:
    return setup.method.point(state.server, setup.problem.geometry)


@eqx.filter_jit
def _close(setup: Setup, state: State, point: Tree, total: dict[str, Tree], fraction: Any) -> State:
    """What the server makes of a round."""
    server = setup.method.server_step(
        state.server, total["message"], setup.problem.geometry, fraction.astype(setup.weights.dtype)
    )
    if "probes" in total:
        return State(server, None, point, add_probes(setup, state.sums, Contribution(**total)), state.round + 1)
    sums = state.sums
    if "points" in total:
        clients, weight = tree.add(sums.clients, total["points"]), sums.weight + total["point_weight"]
        sums = Sums(clients, sums.ergodic, weight)
    return State(server, None, point, sums, state.round + 1)

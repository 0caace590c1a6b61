"""The clients of a deployment: sites that are asked through an engine, and may fail."""

import logging
import time
from dataclasses import replace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import tree
from ..certificates.surveys import Surveyed
from ..compiling import optimized
from ..runtime import Stop
from ..runtime.outputs import accumulated
from ..runtime.rounds import draw_cohort, survey_point
from ..runtime.state import Contribution, Missing, Setup, State
from ..tree import Tree
from .adding import Adding, round_factors
from .engine import Engine
from .exchange import EVERYBODY, Exchange, SilentSitesError
from .plausible import Plausible
from .privacy import Privacy
from .secure.fixed_point import quantization
from .site import reply_like
from .wire import pack

log = logging.getLogger(__name__)

PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds after a failed round, doubled with every failure."""
UNANSWERED = "not all sites answered when asked for their operators"
PRIVATE = "sites send noisy increments only, and an exact operator would not be private"


class SiteClients:
    """The sites of a run. The state lives above, and in the checkpoint, never at sites.

    sites: their names with their weights. needed: with fewer valid replies a round fails and is done again; all of its
    cohort if None. attempts: failed rounds in a row after which the run ends. averages: the outputs whose sums
    sites send parts of. privacy: with it sites send noisy increments and nothing else. plausible: judges surveys.
    roster: of secure sums, as `Exchange` has it.
    """

    elsewhere = True

    def __init__(
        self,
        engine: Engine,
        setup: Setup,
        sites: dict[str, float],
        *,
        run_id: str,
        timeout: float,
        needed: int | None,
        attempts: int,
        averages: tuple[str, ...],
        privacy: Privacy | None,
        plausible: Plausible,
        roster: str = "",
    ):
        self.setup, self.sites, self.weights = setup, list(sites), list(sites.values())
        self.exchange = Exchange(engine, self.sites, run_id, timeout, roster)
        self.adding = Adding(weighted=bool(roster))
        self.sum_error = quantization(len(self.sites)) if roster else 0.0
        self.needed, self.attempts, self.averages, self.privacy = needed, attempts, averages, privacy
        self.plausible = plausible
        self.reply_like = reply_like(setup, averages)
        self.unsurveyed = "" if privacy is None else PRIVATE
        self._failures = 0

    def survey(self, points: list[Tree]) -> list[Surveyed] | Missing:
        """sum_m p_m g_m and sum_m p_m f_m at each point, from all sites: fewer would be those of another problem."""
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *points)
        like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), stacked)
        numbers = jax.ShapeDtypeStruct((len(points),), jax.tree.leaves(like)[0].dtype)
        try:
            replies = self.exchange.survey(pack(points=stacked), self.adding.reading(operators=like, values=numbers))
        except SilentSitesError as error:
            log.warning("no operators: %s", error)
            return Missing(f"{UNANSWERED}: {error}", self._stop())
        found = {site: Surveyed(reply["operators"], reply["values"]) for site, reply in replies.items()}
        mean = self.adding.total(self.weights, list(found.values()), Surveyed(like, cast(Array, numbers)))
        if doubts := self.plausible.doubts(stacked, {EVERYBODY: mean} if self.exchange.roster else found):
            self.exchange.reasons |= doubts
            log.warning("no operators: not believed: %s", self.exchange.why_not())
            return Missing(f"{UNANSWERED}: {self.exchange.why_not()}", self._stop())
        return [jax.tree.map(lambda leaf, i=i: leaf[i], mean) for i in range(len(points))]

    def local(self, state: State, rounds: int) -> State | Missing:
        """The state one round later."""
        return self.attempted(self._round(state))

    def attempted(self, found: Any) -> Any:
        """What a round or a survey found; missing replies are waited for, and end the run after so many attempts.

        A refusal is final: where the round cannot be done without the site, it ends the run at once.
        """
        if self.exchange.engine.stopped():
            return Missing("the engine was stopped", Stop.INTERRUPTED)
        if not isinstance(found, Missing):
            self._failures = 0
            return found
        self._failures += 1
        if found.stop is None and (self.exchange.refused or self._failures >= self.attempts):
            return Missing(f"no valid answer of {self.exchange.why_not()}", Stop.CLIENTS_LOST)
        if found.stop is None:
            pause = min(PAUSE * 2 ** (self._failures - 1), LONGEST_PAUSE)
            log.info("sites are asked again in %.1f s, after failure %d of %d", pause, self._failures, self.attempts)
            time.sleep(pause)
        return found

    def announce(self) -> bool:
        """With privacy a release is counted before it happens: a crash must not forget it."""
        self.exchange.traffic[2] += self.privacy is not None
        return self.privacy is not None

    def spent(self, state: State) -> dict[str, Any]:
        """Bytes so far, failed rounds included, and what all increments that sites were asked for are worth."""
        up, down, releases = self.exchange.traffic
        spent = {"bytes_up": up, "bytes_down": down}
        return spent if self.privacy is None else {**spent, "epsilon": self.privacy.epsilon(releases)}

    def ledger(self) -> Array:
        """Bytes up, bytes down, releases."""
        return jnp.asarray(self.exchange.traffic)

    def restore(self, ledger: Array) -> None:
        """Continue to count."""
        self.exchange.traffic = [int(count) for count in ledger]

    def _stop(self) -> Stop | None:
        """How a failure ends the run: by hand, or because numbers overflowed, as they would again; else it does not."""
        if self.exchange.engine.stopped():
            return Stop.INTERRUPTED
        return Stop.NUMERICAL_ERROR if self.exchange.overflown else None

    def _round(self, state: State) -> State | Missing:
        point = _point(self.setup, state)
        survey = state.reference if self.setup.method.survey == "given" else None
        for index in range(self.setup.method.surveys):
            at = _survey_point(self.setup, state, index)
            found = self.survey([at])
            if isinstance(found, Missing):
                return found
            survey = (at, tree.cast(found[0].operator, self.setup.weights.dtype))
            state = replace(state, server=_surveyed(self.setup, state, survey[1], index))
        cohort = [self.sites[int(m)] for m in draw_cohort(self.setup, state.round)[0]]
        needed = min(self.needed or len(cohort), len(cohort))
        sent, read = pack(server=state.server, survey=survey), self.adding.reading(**self.reply_like)
        replies = self.exchange.ask("round", sent, int(state.round), cohort, needed, read)
        if len(replies) < needed:
            return Missing(f"{len(replies)} of {needed} replies", self._stop())
        return _close(self.setup, state, point, self._mean(replies), jnp.asarray(len(replies) / self.setup.clients))

    def _mean(self, replies: dict[str, dict[str, Tree]]) -> dict[str, Tree]:
        """sum_m a_m reply_m, in the order of the sites, so that the sum has the same bits whoever was first."""
        ids = [self.sites.index(site) for site in replies]
        p = np.ones(1) if self.setup.method.lead is not None else np.asarray(self.weights)[ids]
        factors = round_factors(self.setup, p, ids)
        parts = {name: [reply[name] for reply in replies.values()] for name in self.reply_like}
        return {name: self.adding.total(factors[name], parts[name], like) for name, like in self.reply_like.items()}


@optimized
def _point(setup: Setup, state: State) -> Tree:
    return setup.method.point(state.server, setup.problem.geometry)


@optimized
def _survey_point(setup: Setup, state: State, index: int) -> Tree:
    return survey_point(setup.method, state, setup.problem.geometry, index)


@optimized
def _surveyed(setup: Setup, state: State, g: Tree, index: int) -> Tree:
    return setup.method.surveyed(state.server, g, setup.problem.geometry, index)


@optimized
def _close(setup: Setup, state: State, point: Tree, total: dict[str, Tree], fraction: Any) -> State:
    """What the server makes of a round."""
    server = setup.method.server_step(
        state.server, total["message"], setup.problem.geometry, fraction.astype(setup.weights.dtype)
    )
    sums = accumulated(setup, state.sums, Contribution(**total))
    return State(server, None, point, sums, state.round + 1)

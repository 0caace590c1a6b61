"""The clients of a deployment: sites that are asked through an engine, and may fail."""

import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from .. import tree
from ..algorithms import LocalSteps, Survey
from ..certificates.surveys import Minorant, Surveyed, SurveyErrors
from ..compiling import compile_fully
from ..problems import AbstractProblem
from ..runtime.outputs import accumulate
from ..runtime.rounds import draw_cohort, survey_point
from ..runtime.state import Contribution, Setup, State
from ..runtime.status import Code, Failure, Missing
from ..tree import Tree
from .engine import BACK, POLL_SECONDS, Arrays, Engine, Reply, Request, event
from .policy import CURVATURE, Privacy
from .secure.sums import SUMMED, MaskError, quantization, reveal
from .site import ALL, reply_like, some_curvature
from .wire import Adder, MessageError, pack, round_factors, size_of

# Whether what a site says of its f can be true: a wrong but finite answer is not averaged in silence.
#
# For f convex in x and concave in y, with operator g = (grad_x f, -grad_y f), any two points z_i, z_j obey
#
#     f(z_i) - f(z_j)  <=  <g_x(z_i), x_i - x_j> + <g_y(z_j), y_j - y_i>,
#
# because f(x_j, y_i) is at least the tangent of f(., y_i) at x_i and at most that of f(x_j, .) at y_j. In plain
# minimization answers that obey this are those of some convex function: then a site that lies can do no more than a
# site with other data could. A floor f(x, y_0) >= v of every example gives f(z) + <g_y(z), y - y_0> >= v in the same
# way.


SLACK = 1e-6
"""What rounding may have added, of the size of the terms."""
TINY = 1e-200
"""Numbers below this may have been taken for 0."""
MOST_KEPT, MOST_BYTES = 8, 2**28
"""Answers of each site that later ones are compared with: so many, or fewer if those of all sites take more memory."""

Vector = NDArray[np.float64]


class Answer(NamedTuple):
    """What a site said of one point, as vectors."""

    x: Vector
    y: Vector
    gx: Vector
    gy: Vector
    value: float


class AnswerCheck:
    """Remembers what sites said and compares. problem: the server's view. bound: the greatest length of an operator."""

    def __init__(self, problem: AbstractProblem, bound: float | None):
        self.bound, self.compares = bound, not problem.why_uncertifiable()
        floor = problem.floor
        self.floor = None if floor is None or not floor.each else (_vector(floor.y), float(floor.value))
        self._kept: dict[str, deque[Answer]] = {}

    def find_doubts(self, points: Tree, surveys: Mapping[str, Surveyed]) -> dict[str, str]:
        """The sites whose answers cannot be true, each with the reason; answers of the others are remembered."""
        reasons = {}
        for site, said in surveys.items():
            new = _split_answers(points, said)
            if reason := self._reason(new, self._kept.get(site, ())):
                reasons[site] = reason
            else:
                size = sum(part.nbytes for part in new[0][:4]) * len(surveys)
                kept = self._kept.setdefault(site, deque(maxlen=min(MOST_KEPT, MOST_BYTES // max(size, 1))))
                kept.extend(new)
        return reasons

    def _reason(self, new: list[Answer], old: Iterable[Answer]) -> str:
        for own in new:
            length = float(np.sqrt(own.gx @ own.gx + own.gy @ own.gy))
            if self.bound is not None and length > self.bound * (1 + SLACK):
                return f"its operator is {length:.3g} long, and at most {self.bound:g} is believed"
            if not self.compares:
                continue
            if self.floor is not None and _below_floor(own, *self.floor):
                return "its loss is below the least that this loss can be"
            if any(_contradict(own, other) or _contradict(other, own) for other in (*old, *new)):
                return "two of its answers cannot both be of a loss that is convex in x and concave in y"
        return ""


def _contradict(one: Answer, other: Answer) -> bool:
    """Whether the inequality above fails at (z_i, z_j) by more than rounding."""
    over = one.value - other.value - one.gx @ (one.x - other.x) - other.gy @ (other.y - one.y)
    terms = np.abs(one.gx) @ (np.abs(one.x) + np.abs(other.x)) + np.abs(other.gy) @ (np.abs(one.y) + np.abs(other.y))
    return bool(over > SLACK * (abs(one.value) + abs(other.value) + terms) + TINY)


def _below_floor(own: Answer, y: Vector, value: float) -> bool:
    low = own.value + own.gy @ (own.y - y)
    terms = abs(own.value) + abs(value) + np.abs(own.gy) @ (np.abs(own.y) + np.abs(y))
    return bool(low < value - SLACK * terms - TINY)


def _split_answers(points: Tree, said: Surveyed) -> list[Answer]:
    values, g = np.asarray(said.value, float), said.operator
    each = [jax.tree.map(lambda leaf, i=i: leaf[i], (points.x, points.y, g.x, g.y)) for i in range(values.size)]
    return [
        Answer(_vector(x), _vector(y), _vector(gx), _vector(gy), float(value))
        for (x, y, gx, gy), value in zip(each, values, strict=True)
    ]


def _vector(part: Tree) -> Vector:
    leaves = [np.asarray(leaf, float).reshape(-1) for leaf in jax.tree.leaves(part)]
    return np.concatenate(leaves) if leaves else np.zeros(0)


# Asking sites: checks of every reply, bytes, and patience with sites that do not answer.


Read = Callable[[Arrays], Any]
"""What a reply holds, or a MessageError that says why it is not what was asked for."""

log = logging.getLogger(__name__)
T = TypeVar("T")

LONGEST_SKIP = 32
"""Exchanges for which a site is left alone at most; the first failure costs it one, the next two, then four."""
EVERYBODY = "all sites together"
NO_REPLY = Failure(Code.SILENT, "no reply")
TRIES = 3
"""How often all sites are asked when all must answer."""


PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds after a failed round, doubled with every failure."""


class Patience:
    """With failures in a row: it is over after so many of them, and so many seconds since the first."""

    def __init__(self, attempts: int, seconds: float):
        self.attempts, self.seconds, self.failures, self._since = attempts, seconds, 0, 0.0

    def fail(self) -> bool:
        """Count a failure; whether patience is over."""
        now = time.monotonic()
        self._since = self._since if self.failures else now
        self.failures += 1
        return self.failures >= self.attempts and now - self._since >= self.seconds

    def pause(self, stopped: Callable[[], bool]) -> None:
        """Wait, longer after every failure, unless the run is stopped meanwhile."""
        end = time.monotonic() + min(PAUSE * 2 ** min(max(self.failures - 1, 0), 10), LONGEST_PAUSE)
        while (left := end - time.monotonic()) > 0 and not stopped():
            time.sleep(min(left, POLL_SECONDS))


class SilentSitesError(RuntimeError):
    """Not all sites gave a valid answer where all were needed."""


class Exchange:
    """Requests to sites and valid replies from them.

    roster: the digest of the list of keys of all sites, for secure sums. Then all sites answer or none, each array that
    is added up comes weighted, and the sum of all is in the reply of the first site, with zeros in those of the others.
    """

    def __init__(
        self,
        engine: Engine,
        sites: Sequence[str],
        run_id: str,
        timeout: float,
        roster: str = "",
        patience: float = 0.0,
    ):
        self.engine, self.run_id, self.timeout, self.roster = engine, run_id, timeout, roster
        self.patience = patience
        """Seconds for which all sites are asked again where all must answer; without any a few times at once."""
        self._answered: dict[str, float] = {}
        """When each site answered last, in seconds since 1970."""
        self.order = {site: m for m, site in enumerate(sites)}
        self.traffic = [0, 0, 0]
        """Bytes of arrays up and down so far, and how many increments sites were asked for under privacy."""
        self.overflown = False
        """Whether all whose answers were wanted last gave them, and nobody finite numbers: it is not their fault.
        A site that is alone must have done so twice."""
        self.refused = False
        """Whether so many sites have refused, when they were asked last, that asking again would change nothing."""
        self.reasons: dict[str, Failure] = {}
        """Why each site that did not answer when it was asked last did not."""
        self._infinite_before = False
        self._count = self._split_surveys = 0
        self._misses: dict[str, int] = {}
        self._skip_until: dict[str, int] = {}

    def ask(
        self, task: str, arrays: Arrays, round_index: int, sites: Sequence[str], needed: int, read: Read
    ) -> dict[str, Any]:
        """The valid replies, sorted by site. Sites that failed lately are left out while enough others are there."""
        self._count += 1
        reachable = set(self.engine.sites())
        patient = [s for s in sites if s in reachable and self._skip_until.get(s, 0) < self._count]
        asked = patient if len(patient) >= needed else list(sites)
        self.reasons.pop(EVERYBODY, None)
        nonce = secrets.token_hex(16) if self.roster and task in SUMMED else ""  # fresh masks for every attempt
        request = Request(task, round_index, self.run_id, arrays, nonce, self.roster if nonce else "")
        self.traffic[1] += size_of(arrays) * len(asked)
        valid, reasons = dict[str, Any](), dict.fromkeys(asked, NO_REPLY)
        for reply in self.engine.broadcast(request, asked, self.timeout):
            if reply.site not in reasons:  # late, or lost its way: no reason to be impatient with that site
                log.warning(
                    "%s %d: a reply of %s is dropped: it was not asked", request.task, request.round, reply.site
                )
                continue
            try:
                valid[reply.site] = self._check_reply(reply, request, dict if nonce else read)
            except MessageError as error:
                reasons[reply.site] = reply.failure or Failure(error.code, str(error))
        infinite = sum(why.is_about_numbers for site, why in reasons.items() if site not in valid)
        everybody = 0 < infinite == len(sites)
        self.overflown = everybody and (infinite > 1 or self._infinite_before)
        self._infinite_before = everybody
        refusals = sum(why.is_final for site, why in reasons.items() if site not in valid)
        self.refused = len(sites) - refusals < needed
        for site, why in reasons.items():
            if site in valid:
                if site in self._misses:
                    about = event(BACK, site, request.task, request.round)
                    log.info("%s %d: %s answers again", request.task, request.round, site, extra=about)
                self._answered[site] = time.time()
                for failures in (self._misses, self._skip_until, self.reasons):
                    failures.pop(site, None)
            else:
                self._blame(site, request, why)
        replies = {site: valid[site] for site in sorted(valid, key=self.order.__getitem__)}
        return self._remove_masks(request, replies, read) if nonce else replies

    def survey(self, arrays: Arrays, read: Read) -> dict[str, Any]:
        """A valid reply of every site to a survey.

        Surveys have numbers of their own: a round has several, at other points, whose late replies must not be mixed.
        """
        self._split_surveys += 1
        return self.ask_all("survey", arrays, self._split_surveys, read)

    def ask_curvature(self, arrays: Arrays, read: Read) -> dict[str, Any]:
        """A valid reply of every site to a survey with second derivatives."""
        self._split_surveys += 1
        return self.ask_all(CURVATURE, arrays, self._split_surveys, read)

    def ask_all(
        self, task: str, arrays: Arrays, number: int, read: Read, sites: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """A valid reply of every site: those that did not answer are asked again for a while, unless they refused.

        sites: who is asked, if not all.
        """
        sites, replies = list(self.order if sites is None else sites), dict[str, Any]()
        patience = Patience(TRIES, self.patience)
        while (missing := [site for site in sites if site not in replies]) and not self.engine.stopped():
            if patience.failures:
                log.info("%s %d: asked again: %s", task, number, ", ".join(missing))
            replies |= self.ask(task, arrays, number, missing, len(missing), read)
            self.overflown &= len(missing) == len(sites)  # asking those again who failed says nothing of the others
            if self.awaits_person:
                patience.failures = 0  # who must look at the request has more time than a machine that failed
            if self.refused or (len(replies) < len(sites) and patience.fail() and not self.awaits_person):
                break
            if len(replies) < len(sites) and self.patience:
                patience.pause(self.engine.stopped)
        if missing := [site for site in sites if site not in replies]:
            raise SilentSitesError(f"no valid answer of {self.why_not() or ', '.join(missing)}")
        return {site: replies[site] for site in sites}

    @property
    def awaits_person(self) -> bool:
        """Whether a site that did not answer waits for somebody's approval, and patience has no end."""
        return self.patience > 0 and any(why.code == Code.AWAITS_APPROVAL for why in self.reasons.values())

    def why_not(self) -> str:
        """The sites that gave no valid answer last, with their reasons."""
        by_reason: dict[str, list[str]] = {}
        for site, why in self.reasons.items():
            by_reason.setdefault(why.text, []).append(site)
        return "; ".join(f"{', '.join(sites)} ({reason})" for reason, sites in by_reason.items())

    def _remove_masks(self, request: Request, replies: dict[str, Arrays], read: Read) -> dict[str, Any]:
        """The sums of all sites; nothing if one is missing, for masks cancel in the sum of all only."""
        if list(replies) != list(self.order):
            return {}
        try:
            return {site: read(own) for site, own in reveal(replies).items()}
        except (MaskError, MessageError) as error:
            log.warning("%s %d: no sum: %s", request.task, request.round, error)
            self.reasons[EVERYBODY] = Failure(Code.NO_SUM, str(error))
            return {}

    def _check_reply(self, reply: Reply, request: Request, read: Read) -> Any:
        if (why := reply.failure) is not None or reply.arrays is None:
            raise MessageError("" if why is None else why.text)
        if (reply.round, reply.run_id) != (request.round, request.run_id):
            raise MessageError(f"a reply to round {reply.round} of run {reply.run_id!r}")
        self.traffic[0] += size_of(reply.arrays)
        return read(reply.arrays)

    def _blame(self, site: str, request: Request, why: Failure) -> None:
        self.reasons[site] = why
        misses = self._misses[site] = self._misses.get(site, 0) + 1
        self._skip_until[site] = self._count + min(2 ** (misses - 1), LONGEST_SKIP)
        about = event(why.code, site, request.task, request.round, why.text, self._answered.get(site))
        log.warning("%s %d: nothing from %s: %s", request.task, request.round, site, why.text, extra=about)


UNANSWERED = "not all sites answered when asked for their operators"
PRIVATE = "sites send noisy increments only, and an exact operator would not be private"


class SiteClients:
    """The sites of a run. The state lives above, and in the checkpoint, never at sites.

    sites: their names with their weights. needed: with fewer valid replies a round fails and is done again; all of its
    cohort if None. attempts, patience: failed rounds in a row after which the run ends, and seconds since the first of
    them. averages: the outputs whose sums
    sites send parts of. privacy: with it sites send noisy increments and nothing else. plausible: judges surveys.
    roster: of secure sums, as `Exchange` has it.
    """

    remote = True

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
        patience: float = 0.0,
        averages: tuple[str, ...],
        privacy: Privacy | None,
        answer_check: AnswerCheck,
        roster: str = "",
    ):
        self.setup, self.sites, self.weights = setup, list(sites), list(sites.values())
        self.exchange = Exchange(engine, self.sites, run_id, timeout, roster)
        self.adder = Adder(weighted=bool(roster))
        self.sum_error = quantization(len(self.sites)) if roster else 0.0
        self.needed, self.averages, self.privacy = needed, averages, privacy
        self._patience = Patience(attempts, patience)
        self.answer_check = answer_check
        self.reply_like = reply_like(setup, averages)
        self.unsurveyed = "" if privacy is None else PRIVATE

    def survey(self, points: list[Tree]) -> list[Surveyed] | Missing:
        """sum_m p_m g_m and sum_m p_m f_m at each point, from all sites: fewer would be those of another problem."""
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *points)
        like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), stacked)
        numbers = jax.ShapeDtypeStruct((len(points),), jax.tree.leaves(like)[0].dtype)
        try:
            replies = self.exchange.survey(pack(points=stacked), self._make_reader(operators=like, values=numbers))
        except SilentSitesError as error:
            log.warning("no operators: %s", error)
            return self._missing(Code.TOO_FEW, f"{UNANSWERED}: {error}")
        surveys = {site: Surveyed(reply["operators"], reply["values"]) for site, reply in replies.items()}
        mean = self.adder.total(self.weights, list(surveys.values()), Surveyed(like, cast(Array, numbers)))
        if doubted := self._refuse_doubted(stacked, mean, surveys):
            return doubted
        errors = self._add_errors(replies)
        means = [jax.tree.map(lambda leaf, i=i: leaf[i], mean) for i in range(len(points))]
        return [at._replace(errors=told) for at, told in zip(means, errors, strict=True)]

    def _make_reader(self, **like: Any) -> Read:
        """The function that reads answers to surveys, which say how far they may be off where sites can bound that."""
        told = jax.ShapeDtypeStruct((*like["values"].shape, len(SurveyErrors._fields)), np.float64)
        plain, with_errors = self.adder.make_reader(**like), self.adder.make_reader(**like, errors=told)
        return lambda arrays: with_errors(arrays) if "errors" in arrays else plain(arrays)

    def _add_errors(self, replies: Mapping[str, Mapping[str, Any]]) -> list[SurveyErrors | None]:
        """Of each point, added up like values; None if a site does not say them."""
        told = [reply.get("errors") for reply in replies.values()]
        if any(own is None or np.any(own < 0) for own in told):
            return [None] * len(next(iter(replies.values()))["values"])
        return [SurveyErrors(*row) for row in self.adder.total(self.weights, told, told[0])]

    def _refuse_doubted(self, points: Tree, mean: Surveyed, surveys: Mapping[str, Surveyed]) -> Missing | None:
        """Answers that cannot be true count as missing; None if they can."""
        doubts = self.answer_check.find_doubts(points, {EVERYBODY: mean} if self.exchange.roster else surveys)
        if not doubts:
            return None
        self.exchange.reasons |= {site: Failure(Code.DOUBTED, text) for site, text in doubts.items()}
        log.warning("no operators: not believed: %s", self.exchange.why_not())
        return self._missing(Code.DOUBTED, f"{UNANSWERED}: {self.exchange.why_not()}")

    def survey_with_curvature(self, request: Survey) -> list[Surveyed] | Missing:
        """`survey` with second derivatives and dual cuts; without them where a site does not release any."""
        points, curved = list(request.points), np.asarray(request.curvature, bool)
        given = request.starts or (None,) * len(points)
        begun = np.array([start is not None for start in given], bool)
        starts = [point if start is None else start for point, start in zip(points, given, strict=True)]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *points)
        columns = ALL if request.columns is None else np.asarray(request.columns, np.int64)
        sent, like = self._curvature_request(points, starts, curved, begun, columns, alike=request.alike)
        try:
            replies = self.exchange.ask_curvature(sent, self._make_reader(**like))
        except SilentSitesError as error:
            if any(why.code == Code.NO_CURVATURE for why in self.exchange.reasons.values()):
                log.warning("on without second derivatives: %s", error)
                return self.survey(points)
            log.warning("no second derivatives: %s", error)
            return self._missing(Code.TOO_FEW, f"{UNANSWERED}: {error}")
        said = [{name: reply[name] for name in like} for reply in replies.values()]
        mean = self.adder.total(self.weights, said, like)
        surveys = {site: Surveyed(reply["operators"], reply["values"]) for site, reply in replies.items()}
        if doubted := self._refuse_doubted(stacked, Surveyed(mean["operators"], mean["values"]), surveys):
            return doubted
        errors = self._add_errors(replies)
        means = _split_surveys(mean, curved, begun)
        return [at._replace(errors=told) for at, told in zip(means, errors, strict=True)]

    def _curvature_request(
        self,
        points: list[Tree],
        starts: list[Tree],
        curved: NDArray[np.bool_],
        begun: NDArray[np.bool_],
        columns: NDArray[np.int64],
        *,
        alike: bool,
    ) -> tuple[Arrays, dict[str, Any]]:
        """What sites are sent, and the shapes of what they answer."""
        stacked, first = (jax.tree.map(lambda *leaves: np.stack(leaves), *each) for each in (points, starts))
        point = points[0]

        def shapes(count: int, one: object) -> Any:
            return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((count, *np.shape(leaf)), np.float64), one)

        like = {
            "operators": shapes(len(points), point),
            "values": shapes(len(points), np.zeros(())),
            "curvature": shapes(int(curved.sum()), some_curvature(point, columns, alike)),
            "cuts": shapes(int(begun.sum()), Minorant(point.x, np.zeros(()))),
        }
        sent = pack(points=stacked, starts=first, curved=curved, begun=begun, columns=columns, alike=np.array(alike))
        return sent, like

    def local(self, state: State, rounds: int) -> State | Missing:
        """The state one round later."""
        return self.retry(self._round(state))

    def retry(self, answer: T | Missing) -> T | Missing:
        """The answer; one that is missing returns after a pause, and ends the run once patience is over.

        A refusal is final: where the round cannot be done without the site, it ends the run at once.
        """
        if self.exchange.engine.stopped():
            return Missing(Failure(Code.STOPPED, "the engine was stopped"))
        if not isinstance(answer, Missing):
            self._patience.failures = 0
            return answer
        if answer.stop is None:
            if self._patience.fail() or self.exchange.refused:
                return Missing(Failure(Code.LOST, f"no valid answer of {self.exchange.why_not()}"))
            patience = self._patience
            log.info("sites are asked again, after failure %d of %d", patience.failures, patience.attempts)
            self._patience.pause(self.exchange.engine.stopped)
        return answer

    def count(self, request: Survey | LocalSteps) -> None:
        """Nothing: bytes are counted as they are carried."""

    def reserve_privacy(self) -> bool:
        """With privacy, count a release before it happens: a crash must not forget it."""
        self.exchange.traffic[2] += self.privacy is not None
        return self.privacy is not None

    def costs(self, state: State) -> dict[str, Any]:
        """Bytes so far, failed rounds included, and the epsilon of all increments that sites were asked for."""
        up, down, releases = self.exchange.traffic
        carried = {"bytes_up": up, "bytes_down": down}
        return carried if self.privacy is None else {**carried, "epsilon": self.privacy.epsilon(releases)}

    def checkpoint_state(self) -> Array:
        """Bytes up, bytes down, releases."""
        return jnp.asarray(self.exchange.traffic)

    def restore(self, kept: Array) -> None:
        self.exchange.traffic = [int(count) for count in kept]

    def _missing(self, code: Code, text: str) -> Missing:
        """Missing with this code, unless the run was stopped by hand, or numbers overflowed, as they would again."""
        if self.exchange.engine.stopped():
            code = Code.STOPPED
        elif self.exchange.overflown:
            code = Code.NOT_FINITE
        return Missing(Failure(code, text))

    def _round(self, state: State) -> State | Missing:
        point = _point(self.setup, state)
        survey = state.reference if self.setup.rounds.survey == "given" else None
        for index in range(self.setup.rounds.surveys):
            at = _survey_point(self.setup, state, index)
            surveys = self.survey([at])
            if isinstance(surveys, Missing):
                return surveys
            survey = (at, tree.cast(surveys[0].operator, self.setup.weights.dtype))
            state = replace(state, server=_tell_survey(self.setup, state, survey[1], index))
        cohort = [self.sites[int(m)] for m in draw_cohort(self.setup, state.round)[0]]
        needed = min(self.needed or len(cohort), len(cohort))
        sent, read = pack(server=state.server, survey=survey), self.adder.make_reader(**self.reply_like)
        replies = self.exchange.ask("round", sent, int(state.round), cohort, needed, read)
        if len(replies) < needed:
            return self._missing(Code.TOO_FEW, f"{len(replies)} of {needed} replies")
        return _close(self.setup, state, point, self._mean(replies), jnp.asarray(len(replies) / self.setup.clients))

    def _mean(self, replies: dict[str, dict[str, Tree]]) -> dict[str, Tree]:
        """sum_m a_m reply_m, in the order of the sites, so that the sum has the same bits whoever was first."""
        ids = [self.sites.index(site) for site in replies]
        p = np.ones(1) if self.setup.rounds.lead is not None else np.asarray(self.weights)[ids]
        factors = round_factors(self.setup, p, ids)
        parts = {name: [reply[name] for reply in replies.values()] for name in self.reply_like}
        return {name: self.adder.total(factors[name], parts[name], like) for name, like in self.reply_like.items()}


@compile_fully
def _point(setup: Setup, state: State) -> Tree:
    return setup.rounds.point(state.server, setup.problem.geometry)


@compile_fully
def _survey_point(setup: Setup, state: State, index: int) -> Tree:
    return survey_point(setup.rounds, state, setup.problem.geometry, index)


@compile_fully
def _tell_survey(setup: Setup, state: State, g: Tree, index: int) -> Tree:
    return setup.rounds.surveyed(state.server, g, setup.problem.geometry, index)


@compile_fully
def _close(setup: Setup, state: State, point: Tree, total: dict[str, Tree], fraction: Array) -> State:
    """The state after a round with this mean reply."""
    server = setup.rounds.server_step(
        state.server, total["message"], setup.problem.geometry, fraction.astype(setup.weights.dtype)
    )
    sums = accumulate(setup, state.sums, Contribution(**total))
    return State(server, None, point, sums, state.round + 1)


def _split_surveys(mean: Mapping[str, Any], curved: NDArray[np.bool_], begun: NDArray[np.bool_]) -> list[Surveyed]:
    """What all sites say of each point, from the sums of their answers."""
    surveys, places = [], [np.cumsum(flags) - 1 for flags in (curved, begun)]

    def at(name: str, i: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[i], mean[name])

    for i in range(len(curved)):
        curvature = at("curvature", places[0][i]).squares() if curved[i] else None
        cut = at("cuts", places[1][i]) if begun[i] else None
        surveys.append(Surveyed(at("operators", i), at("values", i), curvature, cut))
    return surveys

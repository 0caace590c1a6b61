"""How a run ends, and why something that it asked for did not come: words for it, and rules on plain records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from types import MappingProxyType

from ..storage import Json


class Status(Enum):
    """What a point is worth by its own certificate, in one word; the value says it in a sentence."""

    OPTIMAL = "its certified gap is at most tol"
    OPTIMAL_INACCURATE = "its certified gap is above tol and at most 10 tol"
    CERTIFIED = "its gap is certified, but it is above 10 tol, or no tol was given"
    UNCERTIFIED = "nothing is claimed of it; its certificate says why"

    def __str__(self) -> str:
        return self.name


class Stop(Enum):
    """Why a run ended, in one word; the value says it in a sentence."""

    TOLERANCE = "an output's certified gap was at most tol"
    MAX_ROUNDS = "all rounds were run"
    MAX_TIME = "the time limit was reached"
    STALLED = "the best certificate improved by less than 1% over a fifth of the rounds and the method's patience"
    DIVERGED = "the certificate exceeded 10 times its best in three records in a row"
    NUMERICAL_ERROR = "the state became nan or infinite; the last finite one is kept"
    DISPROVED = "f was seen not to be convex in x and concave in y, so its certificates were withdrawn"
    INTERRUPTED = "the run was interrupted; what was there is returned"
    CLIENTS_LOST = "too few clients answered"
    INFEASIBLE = "no point of the domain meets the limits of the problem"

    def __str__(self) -> str:
        return self.name


class Code(StrEnum):
    """Why something that was asked for did not come. Programs decide by this code alone; people read the text."""

    REFUSED = "refused"
    """A site's own decision for which there is no word below."""
    TOO_FEW_ROWS = "too_few_rows"
    NO_PART = "no_part"
    """The site takes no part in this goal."""
    NOT_RELEASED = "not_released"
    """A task, an array or a model that the site's rules name as staying, or do not name as leaving."""
    NO_CURVATURE = "no_curvature"
    """Second derivatives do not leave the site; everything else may."""
    NOT_MEASURED = "not_measured"
    """Too few sites hold out rows enough for sums of measures."""
    MASKS_ONLY = "masks_only"
    NOISE_ONLY = "noise_only"
    BUDGET_SPENT = "budget_spent"
    """The site's budget of differential privacy does not cover another release."""
    DAY_SPENT = "day_spent"
    """The site has given the answers of 24 hours."""
    LEDGER_DAMAGED = "ledger_damaged"
    KEYS_DIFFER = "keys_differ"
    """The server's list of keys for secure sums is not the site's, or one of them has none."""
    OTHER_VERSION = "other_version"
    """Server and site run different versions of fedualex."""
    DISAGREES = "disagrees"
    """Server and site were told different tasks."""
    OTHER_ROWS = "other_rows"
    """The site's table is not the one that it had when the run began."""
    NOT_LOADED = "not_loaded"
    """The site's folder or table cannot be used."""
    NOT_FINITE = "not_finite"
    """There are nan or infinities in an answer."""
    TOO_LARGE = "too_large"
    """There are numbers in an answer that secure sums cannot hold."""
    AWAITS_APPROVAL = "awaits_approval"
    """A person at the site has not yet said that a run of this kit may begin."""
    ANSWERED = "answered"
    """Masks are used once, and this attempt has had its answer."""
    RAISED = "raised"
    """The site's work failed; its own log says how."""
    DISK_FULL = "disk_full"
    """The site cannot write down what would leave it."""
    MALFORMED = "malformed"
    """What came is not what was asked for."""
    TIMEOUT = "timeout"
    WRONG_KEY = "wrong_key"
    """Somebody came under the site's name who does not have its key."""
    STOPPED = "stopped"
    SILENT = "silent"
    UNREACHABLE = "unreachable"
    OUTSIDE = "outside"
    """The site is there, and takes part if the run is sent again, not before."""
    DOUBTED = "doubted"
    """No convex-concave f could have answered like that."""
    NO_SUM = "no_sum"
    """All answered, and their masks do not cancel."""
    TOO_FEW = "too_few"
    """Fewer clients answered than are needed; they may be asked again."""
    LOST = "lost"
    """Too few answered, and asking again would change nothing, or was tried often enough."""


WITHOUT = "or is left out of the study"
REFUSALS: Mapping[Code, str] = MappingProxyType(
    {
        Code.REFUSED: f"the site changes what is in the way, {WITHOUT}",
        Code.TOO_FEW_ROWS: f"the site gets more rows, changes `least_rows` or `least_group` in policy.toml, {WITHOUT}",
        Code.NO_PART: f"the site adds the goal to `goals` in policy.toml, {WITHOUT}",
        Code.NOT_RELEASED: f"the site changes `tasks`, `arrays` or `keep_model` in policy.toml, {WITHOUT}",
        Code.NO_CURVATURE: "nothing need be done: the run goes on without, with more exchanges and no table of effects",
        Code.NOT_MEASURED: "nothing need be done: the model is not tested; it is if three sites have more rows, or a "
        "smaller `least_held_out` in policy.toml",
        Code.MASKS_ONLY: "give all sites keys for secure sums and `secure_sums` in [run]",
        Code.NOISE_ONLY: "give the run a [privacy] table: the site has a budget, and releases nothing without noise",
        Code.BUDGET_SPENT: f"nothing to wait for: the site raises `epsilon` in policy.toml, {WITHOUT}",
        Code.DAY_SPENT: "wait until the oldest answers are 24 hours old, then `fedualex deploy resume`",
        Code.LEDGER_DAMAGED: "the site's operator runs `fedualex deploy audit SITE --acknowledge NOTE`, then `fedualex "
        "deploy resume`",
        Code.KEYS_DIFFER: "`fedualex deploy join` there, then `admit`, where sites make their own keys; else `fedualex "
        "deploy renew`, and give every party its new folder",
        Code.OTHER_VERSION: "install the same version of fedualex at both, then `fedualex deploy run`",
        Code.DISAGREES: "give every party its folder of the same kit",
        Code.OTHER_ROWS: "the site puts back the table of before, then `fedualex deploy resume`; or move `server/run` "
        "and `server/known.npz` away and begin again with the new rows",
        Code.NOT_LOADED: "`fedualex deploy check` in the site's folder says what is wrong; then `fedualex deploy run`",
    }
)
"""A site's own decisions: the same question would be refused again. Each with what can be done about it."""

START = "look at its log, and start it if it is not running: the run then goes on"
HEALS: Mapping[Code, str] = MappingProxyType(
    {
        Code.TIMEOUT: f"{START}; if it is only slow, raise `timeout` in server/deployment.json",
        Code.DISK_FULL: "make room there: the run then goes on",
        Code.WRONG_KEY: "give it the folder of its own kit: the run then goes on",
        Code.RAISED: "its log.jsonl has the traceback",
        Code.MALFORMED: "compare the versions of fedualex at both; its log says more",
        Code.AWAITS_APPROVAL: "`fedualex deploy approve` in its folder: the run then goes on",
    }
)
"""What a site may recover from, each with what helps; `START` for all others."""


@dataclass(frozen=True)
class Failure:
    """Something that was asked for and did not come, as a word for programs and a sentence for people."""

    code: Code
    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def is_final(self) -> bool:
        """Whether a site would not answer the same question again."""
        return self.code in REFUSALS

    @property
    def is_about_numbers(self) -> bool:
        """Whether the site did its work, and the numbers that came of it cannot be used."""
        return self.code in (Code.NOT_FINITE, Code.TOO_LARGE)


ENDS: Mapping[Code, Stop] = MappingProxyType(
    {Code.STOPPED: Stop.INTERRUPTED, Code.NOT_FINITE: Stop.NUMERICAL_ERROR, Code.LOST: Stop.CLIENTS_LOST}
)


@dataclass(frozen=True)
class Missing:
    """An answer that all clients together did not give, and why."""

    why: Failure

    @property
    def stop(self) -> Stop | None:
        """How this ends the run; None if clients may be asked again."""
        return ENDS.get(self.why.code)


INACCURATE = 10.0
"""A certified gap of at most this many times tol is OPTIMAL_INACCURATE."""


def status_of(gap: float | int | None, tol: float | int | None) -> Status:
    """The status of a point with this certified gap."""
    if gap is None:
        return Status.UNCERTIFIED
    if tol is None or gap > INACCURATE * tol:
        return Status.CERTIFIED
    return Status.OPTIMAL if gap <= tol else Status.OPTIMAL_INACCURATE


# When records end a run, and which output is its answer: on plain numbers, so that stored runs can be judged again.


Number = float | int

NEGLIGIBLE = 1e-9
"""A certificate below this share of the first one is rounding: growing from there is not divergence."""


def best_gap(record: Json, output: str | None, without: str = "") -> Number | None:
    """The smallest certified gap of a record, or that of the one output that was asked for; None if there is none.

    without: an output that does not count.
    """
    wanted = f"gap_{output or ''}"
    keys = [key for key in record if key.startswith(wanted) and key != f"gap_{without}"]
    return min((record[key] for key in keys if record[key] is not None), default=None)


def stop_of(
    records: Sequence[Json],
    output: str | None,
    *,
    rounds: int,
    record_every: int,
    tol: Number | None,
    patience: int,
) -> Stop | None:
    """What the best gaps of all records so far end the run with; None if it goes on. output: the one that counts alone.

    TOLERANCE: the last gap is at most tol. DIVERGED: the last three gaps of points exceed 10 times their smallest, and
    the bounds, which can only become better, did not. STALLED, with tol only: the smallest improved by less than 1%
    over the records of a fifth of the rounds, or of `patience` rounds (what the method declares) where that is more.
    """
    best = [gap for record in records if (gap := best_gap(record, output)) is not None]
    if not best or len(best) < len(records):
        return None
    if tol is not None and best[-1] <= tol:
        return Stop.TOLERANCE
    points = [gap for record in records if (gap := best_gap(record, output, without="bounds")) is not None]
    if len(best) > 3 and min(best[-3:]) >= min(best[:-3]) and _diverge(points):
        return Stop.DIVERGED
    span = max(2, rounds // (5 * record_every), -(-patience // record_every))
    if tol is not None and len(best) > span and min(best) > 0.99 * min(best[:-span]):
        return Stop.STALLED
    return None


def _diverge(gaps: Sequence[Number]) -> bool:
    return len(gaps) > 3 and all(gap > 10 * max(min(gaps), NEGLIGIBLE * max(gaps[0], 0)) for gap in gaps[-3:])


def answer_of(gaps: Mapping[str, Number | None], structure: Mapping[str, Number], tol: Number | None) -> str:
    """The sparsest output that meets tol, else the one with the smallest certificate, else the polished one."""
    good = [name for name, gap in gaps.items() if status_of(gap, tol) is Status.OPTIMAL]
    if good:
        return min(good, key=lambda name: (structure[name], gaps[name]))
    certified = {name: gap for name, gap in gaps.items() if gap is not None}
    if certified:
        return min(certified, key=lambda name: certified[name])
    return next((name for name in ("polished", "last") if name in gaps), next(iter(gaps)))

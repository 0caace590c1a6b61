"""A site's own rules about what may leave it: a file in its folder that no server can change."""

import json
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, no_type_check

import jax
import numpy as np

from ..arrays import Values
from ..geometry import Dual
from ..runtime.options import build_options, meanings, one_word_of, option, optional, options
from ..runtime.status import Code, Failure
from ..storage import write_atomically
from ..validation import of_type, positive, short, whole_number

# Clipping and Gaussian noise on what a site sends, and what that is worth.


@dataclass(frozen=True)
class Privacy:
    """A site's increment is cut to length `clip`, and every entry gets noise N(0, (noise * clip)^2).

    This hides a whole site's data, also from a server that follows the protocol: two data sets of one site move the
    clipped increment by at most 2 clip. A server that asks more often than it tells spends more than it tells: a site
    counts for itself if its rules have a budget (`Policy`). The increment is all that leaves the site: no sums of
    points and no operators, which would not be covered, so such a run has the output `last` alone and no certificate.

    clip, noise: numbers > 0.
    """

    clip: float
    noise: float
    delta: float = 1e-5
    """The epsilon of a run is told for this delta."""

    def __post_init__(self) -> None:
        for name in ("clip", "noise", "delta"):
            positive(f"privacy: {name}", getattr(self, name))
        if self.delta >= 1:
            raise ValueError(f"privacy: delta must be below 1, got {self.delta}")

    def apply(self, message: Dual) -> Dual:
        """The message with a clipped and noisy increment; its weight tau is the same for any data.

        An increment that is not finite counts as zero: to send it, or to say so, would be a release without cover.
        The noise is from the operating system, not from the run's seed, which the server knows and could subtract.
        """
        rng = np.random.default_rng(secrets.randbits(256))
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(message.omega)]
        length = float(np.sqrt(sum(np.sum(np.square(leaf, dtype=float)) for leaf in leaves)))
        finite = np.isfinite(length)
        shrink = min(1.0, self.clip / length) if length > 0 else 1.0

        def hide(leaf: object) -> Any:
            array = np.asarray(leaf) if finite else np.zeros_like(leaf)
            return (shrink * array + rng.normal(0.0, self.noise * self.clip, array.shape)).astype(array.dtype)

        return Dual(jax.tree.map(hide, message.omega), message.tau)

    def epsilon(self, releases: int) -> float:
        """(epsilon, delta)-differential privacy of one site's data after so many increments, by an accountant.

        The sensitivity is 2 clip, so the accountant is told a noise multiplier of noise / 2.
        """
        return composed_epsilon({self.noise: releases}, self.delta)


def composed_epsilon(releases: Mapping[float, int], delta: float) -> float:
    """The epsilon for this delta after so many increments with each multiplier of noise, of any number of runs."""
    try:
        from dp_accounting import GaussianDpEvent
        from dp_accounting.rdp import RdpAccountant
    except ImportError:
        raise ImportError("an epsilon needs dp-accounting: pip install 'fedualex[privacy]'") from None
    accountant = RdpAccountant()
    for noise, count in releases.items():
        if count:
            accountant.compose(GaussianDpEvent(noise / 2), count)
    return float(accountant.get_epsilon(delta)) if any(releases.values()) else 0.0


# What is asked of a site, declared in one place. Rules, the ledger and `deploy check` all count by this declaration.


MOST_POINTS, MOST_OF_PATH = 64, 800
"""Points of one request at most, and of one for a whole path of penalties or its losses: a server that wants more asks
more often, and each of them counts."""
MOST_MODELS = 3
"""Models that are measured on held-out rows for one kit at most; one of them may be asked for again."""
FEWEST_WEIGHED, MOST_WEIGHT = 3, 0.8
"""Under masks: how many sites have a weight > 0 in a sum at least, and the largest share of one of them."""
OUTSIDE = 1e-6
"""By how much of its size a mixture of sites may be out of its domain: rounds may be in float32."""
MOST_BEGUN = 10
"""Merged summaries with which a site compares its columns for one kit at most: each comparison is an answer."""
BEGIN, MEASURE, CALIBRATE, CURVATURE, PATH, EFFECTS = "begin", "measure", "calibrate", "curvature", "path", "effects"
FOLD_LOSSES = "fold-losses"
MEASURED = (MEASURE, CALIBRATE)
"""What is asked of held-out rows, in sums of the sites that hold out enough."""
BENT = (CURVATURE, PATH, EFFECTS)
"""What holds second derivatives."""
LEAST_FOLD = 20
"""Rows of a fold that a site tells of in the clear."""
LEAST_PART = 5
"""Rows of a class, of a group, or with an event, that a sum or a difference of two sums tells of: of this site in the
clear, of all sites together under masks."""
PLACE = " at "
"""In the subject of a calibration, between the model and the place."""
MOST_PLACES = 40
"""Pairs of intercept and slope at which the models of one kit are calibrated at most, of all sites and of each."""


@dataclass(frozen=True)
class Release:
    """What would leave a site if a request were answered, as far as rules and budgets are about it.

    kind: what is asked for, such as "survey". sums: how many sums over rows, one for each point. numbers: how many
    numbers in all; None if that is known once they are there. weights: for each sum the weights of all sites in it,
    where the request chooses them; outside: how far out of their domain. parameters: of the model, or those that the
    request names, where rows are counted for each. columns: these, if it names some: all that were ever named for one
    kit count together. subject: the digest of the model that is asked about, where one is, or of what columns are
    compared with. mixed: whether second derivatives are by the weights of sites as well. rows: behind the sum of the
    fewest; all of the site's if None. fold: rows of the smallest part of this site that a difference of two sums tells
    of, where it is not all of them; whole_sites: whether such a part is all that one site has, so that masks would not
    hide it. parts: rows of the smallest class or group that has some, of this site and of all sites, where sums over
    them are told apart.
    """

    kind: str
    sums: int = 1
    numbers: int | None = None
    weights: tuple[tuple[float, ...], ...] = ()
    parameters: int = 0
    columns: tuple[int, ...] = ()
    subject: str = ""
    mixed: bool = True
    rows: int | None = None
    fold: int | None = None
    whole_sites: bool = False
    parts: tuple[float, float] | None = None
    outside: float = 0.0

    def count_numbers(self, arrays: Mapping[str, Values]) -> "Release":
        """The release with the numbers of its answer, or as many as were declared if that is more. Texts are none."""
        count = sum(_count_numbers(np.asarray(array)) for array in arrays.values())
        return replace(self, numbers=max(count, self.numbers or 0))


def _count_numbers(array: Values) -> int:
    """The entries of an array; of bytes, which are texts, the numbers in them if they are JSON."""
    if array.dtype != np.uint8:
        return array.size
    try:
        values = [json.loads(array.tobytes())]
    except (ValueError, RecursionError):
        return 0
    count = 0
    while values:
        value = values.pop()
        if isinstance(value, dict | list):
            values += value.values() if isinstance(value, dict) else value
        count += isinstance(value, int | float) and not isinstance(value, bool)
    return count


def why_not_weighed(weights: tuple[float, ...]) -> str:
    """Why a sum over sites with these weights would tell of one or two of them; empty if it does not."""
    total = sum(weights)
    if min(weights) < 0:
        return "this site answers in sums in which no weight is below 0"
    if sum(weight > 0 for weight in weights) < FEWEST_WEIGHED:
        return f"this site answers in sums of {FEWEST_WEIGHED} sites or more, and fewer have a weight in this one"
    if max(weights) > MOST_WEIGHT * total:
        return f"this site answers in sums in which no site has more than {MOST_WEIGHT:g} of the weight"
    return ""


POLICY = "policy.toml"
HEAD = """# The rules of this site: what may leave it. They are enforced here, whatever the server says.
# An empty file has no rules. Take the # from a line to have its rule; put one before a line to be rid of it.
"""
EXAMPLES = {
    "least_rows": "100",
    "least_group": "10",
    "least_category": "5",
    "goals": '["fair"]',
    "exchanges_per_day": "2000",
    "numbers_per_run": "1000000",
    "tasks": '["roster", "present", "columns", "summary", "begin", "survey", "curvature", "round", "fold-summary", '
    '"folds", "path", "fold-losses", "effects", "measure", "calibrate", "model"]',
    "arrays": '["columns", "names", "sums", "largest", "labels", "each", "ready", "differences", "operators", '
    '"values", "curvature", "cuts", "errors", "message", "points", "point_weight", "taken", "kept"]',
    "secure_sums": '"required"',
    "fair_by_site": '"refuse"',
    "curvature": '"refuse"',
    "rows_per_parameter": "10",
    "least_held_out": "50",
    "epsilon": "4.0",
    "delta": "1e-5",
    "keep_model": "false",
    "keep_values": "true",
    "approve": '"first"',
}
"""Limits of day and kit let a run choose its penalty, and begin once more if its server was killed: with 30 columns
and 5 folds a choice takes some 850 sums and 400,000 numbers."""

FEWEST_ROWS, FEWEST_OF_CATEGORY, MOST_NUMBERS = 10, 5, 10_000_000
THRESHOLDS: Mapping[str, str] = MappingProxyType(
    {
        "least_rows": str(FEWEST_ROWS),
        "least_category": str(FEWEST_OF_CATEGORY),
        "numbers_per_run": str(MOST_NUMBERS),
        "keep_values": "true",
    }
)
"""What is in force in the folder of a site with a table until the site changes it."""
REQUIRED, ALLOWED = "required", "allowed"
NEVER, FIRST = "never", "first"


ALLOW, REFUSE = "allow", "refuse"


def _flag(name: str, value: object) -> bool:
    return of_type(name, value, bool, "true or false")


def _is_required(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    return bool(one_word_of(REQUIRED, ALLOWED)(name, value) == REQUIRED)


def _words(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise TypeError(f"{name} must be a list of words, got {short(value)}")
    return tuple(value)


def _positive(name: str, value: object) -> float:
    return float(positive(name, value))


def _probability(name: str, value: object) -> float:
    if not (number := _positive(name, value)) < 1:
        raise ValueError(f"{name} must be a number between 0 and 1, got {number}")
    return number


@no_type_check
@options
class Policy:
    """What a site lets leave. Every rule is off if it is left out."""

    least_rows: int | None = option(
        optional(whole_number), "A table with fewer rows than this gives no answer.", default=None
    )
    least_group: int | None = option(
        optional(whole_number),
        "A table in which a class or a category has fewer rows than this gives no answer.",
        default=None,
    )
    least_category: int | None = option(
        optional(whole_number),
        "A category of fewer rows than this is called 'other' before anything is told of it, and fewer rows that "
        "differ from all others in a column are told as these.",
        default=None,
    )
    goals: tuple[str, ...] | None = option(
        optional(_words), "Goals, or names of problems, that this site takes part in; all if left out.", default=None
    )
    exchanges_per_day: int | None = option(
        optional(whole_number),
        "Exchanges within any 24 hours at most, of all runs together; a request for several points is as many.",
        default=None,
    )
    numbers_per_run: int | None = option(
        optional(whole_number),
        "Numbers that leave for one kit at most, all that are sent before, in and after its runs together.",
        default=None,
    )
    tasks: tuple[str, ...] | None = option(
        optional(_words), 'Kinds of requests that are answered, such as "survey"; all if left out.', default=None
    )
    arrays: tuple[str, ...] | None = option(
        optional(_words),
        "Arrays that may leave, by the first part of their names; all if left out.",
        default=None,
    )
    secure_sums: bool = option(
        _is_required,
        "Whether what is added up over sites leaves under masks only, 'required' or 'allowed': the server sees sums.",
        default=False,
    )
    fair_by_site: str = option(
        one_word_of(ALLOW, REFUSE),
        "Whether this site takes part where the adversary weighs sites, and a server can ask at weights of its choice.",
        default=ALLOW,
    )
    curvature: str = option(
        one_word_of(ALLOW, REFUSE), "Whether second derivatives of the mean loss may leave.", default=ALLOW
    )
    rows_per_parameter: int = option(
        whole_number, "Rows for each parameter of the model from which on second derivatives may leave.", default=5
    )
    least_held_out: int = option(
        whole_number, "A model is measured on this many rows that were held out, or on none.", default=20
    )
    epsilon: float | None = option(
        optional(_positive),
        "The budget of differential privacy of this site, for all runs; then nothing leaves without noise.",
        default=None,
    )
    delta: float = option(_probability, "The delta for which epsilon is counted.", default=1e-5)
    keep_model: bool = option(_flag, "Whether the model of a run is kept at this site.", default=True)
    keep_values: bool = option(
        _flag,
        "Whether this site keeps the values that it released, for `fedualex deploy audit --values`.",
        default=False,
    )
    approve: str = option(
        one_word_of(NEVER, FIRST),
        "With 'first' nothing leaves for a kit until a person at this site gives `fedualex deploy approve`.",
        default=NEVER,
    )

    def why_not(self, about: "SiteFacts") -> Failure | None:
        """Why a site with these facts gives no answer at all; None if it does. Tells no number of rows."""
        for name, count, what in (
            ("least_rows", about.rows, "rows"),
            ("least_group", about.least_group, "rows in each class and category"),
        ):
            least = getattr(self, name)
            if least is not None and (count is None or count < least):
                unknown = ", and their number is not known" if count is None else ""
                return Failure(Code.TOO_FEW_ROWS, f"this site answers from at least {least} {what}{unknown}")
        if self.goals is not None and about.goal not in self.goals:
            text = f"this site takes part in {', '.join(self.goals) or 'nothing'}, not in {short(about.goal)}"
            return Failure(Code.NO_PART, text)
        if self.fair_by_site == REFUSE and about.weighs_sites:
            text = f"this site takes no part where sites are weighed by the server's points, as in {short(about.goal)}"
            return Failure(Code.NO_PART, text)
        if self.epsilon is not None and about.privacy is None:
            return Failure(Code.NOISE_ONLY, "this site releases nothing without noise, and the run has no privacy")
        return None

    def why_not_released(self, asked: Release, about: "SiteFacts", masked: bool) -> Failure | None:
        """Why this is not answered, whatever was answered before; None if it is."""
        if asked.sums > (most := MOST_OF_PATH if asked.kind in (PATH, FOLD_LOSSES) else MOST_POINTS):
            text = f"this site answers at {most} points in one request, got {asked.sums}"
            return Failure(Code.NOT_RELEASED, text)
        if not masked and asked.fold is not None and asked.fold < LEAST_FOLD:
            text = f"this site tells of folds of {LEAST_FOLD} rows or more, or under masks"
            return Failure(Code.NOT_RELEASED, text)
        if asked.parts is not None and asked.parts[masked] < LEAST_PART:
            whose = "of all sites together" if masked else "of its own, or under masks"
            text = f"this site tells of classes, groups and events of {LEAST_PART} rows or more {whose}"
            return Failure(Code.NOT_RELEASED, text)
        if masked and asked.whole_sites:
            text = "this site tells of no folds that are whole sites, which masks would not hide"
            return Failure(Code.NOT_RELEASED, text)
        if not asked.outside <= OUTSIDE:  # all sites but one or two could count next to nothing there; nan is refused
            return Failure(Code.NOT_RELEASED, "this site answers where the weights of sites are in their domain")
        if masked and (reasons := list(filter(None, map(why_not_weighed, asked.weights)))):
            return Failure(Code.NOT_MEASURED if asked.kind in MEASURED else Code.NOT_RELEASED, reasons[0])
        if asked.kind in BENT and (why := self.why_no_curvature(asked, about, masked)):
            return Failure(Code.NO_CURVATURE, why)
        return None

    def why_no_curvature(self, asked: Release, about: "SiteFacts", masked: bool) -> str:
        """Why second derivatives are not released; empty if they are."""
        unnamed = [names for names in (self.tasks, self.arrays) if names is not None and CURVATURE not in names]
        if self.curvature == REFUSE or unnamed:
            return "this site releases no second derivatives"
        if ((about.rows or 0) if asked.rows is None else asked.rows) < self.rows_per_parameter * asked.parameters:
            return f"this site releases second derivatives of {self.rows_per_parameter} rows or more for each parameter"
        if masked and asked.weights and asked.mixed:
            # Row m of the mixed ones is the gradient of site m alone, whatever masks add up to.
            return "this site releases no second derivatives of a loss that weighs sites, which masks would not hide"
        return ""


@dataclass(frozen=True)
class SiteFacts:
    """What rules may be about; where something is not known, a rule about it refuses."""

    rows: int | None = None
    """Rows of the table."""
    least_group: int | None = None
    """Rows of the smallest class or category."""
    goal: str | None = None
    """The goal, or the name of the problem."""
    privacy: Privacy | None = None
    """The clipping and the noise that the run asks for."""
    weighs_sites: bool = False
    """Whether the points of a run weigh sites, as where the groups of a worst-case loss are the sites."""
    kit: str = ""
    """A word for what this site has agreed to, in its own files: runs for the same count together."""


def read_policy(folder: Path) -> Policy:
    """The rules in a site's folder; a site without the file does not start, for it may have been lost."""
    file = folder / POLICY
    try:
        rules = tomllib.loads(file.read_text())
    except FileNotFoundError:
        raise FileNotFoundError(f"{file} is missing: a site has its own rules, and an empty file if none") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{file} cannot be read as TOML: {error}") from None
    try:
        return build_options(Policy, rules)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{file}: {error}") from None


def write_policy(folder: Path, in_force: Mapping[str, str] = MappingProxyType({})) -> None:
    """A file that shows every rule, for the site to edit; a file that is there stays as it is.

    in_force: rules that hold until the site changes them, as TOML has their values.
    """
    if not (folder / POLICY).exists():
        lines = {name: f"# {name} = {example}" for name, example in EXAMPLES.items()}
        lines |= {name: f"{name} = {value}" for name, value in in_force.items()}
        rules = [f"\n# {meaning}\n{lines[name]}\n" for name, meaning in meanings(Policy).items()]
        write_atomically(folder / POLICY, (HEAD + "".join(rules)).encode())

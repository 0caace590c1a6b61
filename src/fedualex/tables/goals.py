"""What a person can want from a table: a family of losses, and the structure of the objective."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms import Method
from ..arrays import Values
from ..data import Coding
from ..data.columns import CellError, code_of
from ..data.encoder import MEAN as FILLED, MISSING
from ..problems import (
    AbstractRecipe,
    AgnosticRecipe,
    AucRecipe,
    ConstrainedRecipe,
    CoxRecipe,
    FairCoxRecipe,
    LimitedCoxRecipe,
    LowRankRecipe,
    SparseGlmRecipe,
)
from ..problems.families import FAMILIES, Family, family_of
from ..problems.readings import Reading
from ..runs.settings import ConfigurationError, check_keys
from ..storage import Json
from ..summaries import Known
from ..validation import classes, hint, missing, short

MOST_ROWS = 2000
"""Rows from which on default penalties stay as they are: smaller ones only make problems harder to solve."""


@dataclass(frozen=True)
class OverRows:
    """The default of a penalty: `share` over the number of rows, of which no more than MOST_ROWS count.

    The more rows, the less a model needs to be held back. l2 = 1 / rows is what scikit-learn's C = 1 means.
    """

    share: float

    def of(self, rows: int) -> float:
        """share / min(rows, MOST_ROWS)"""
        return self.share / min(rows, MOST_ROWS)


LIMIT = 0.1
LIMITED = "limited"
"""The option that names the class whose loss is limited."""
PENALTY = {"l1": OverRows(0.5), "l2": OverRows(1.0)}
PENALTIES = ("l1", "l2", "nuclear")
AUTO = "auto"
"""A penalty that held-out rows choose, one of PENALTIES."""


@dataclass(frozen=True)
class Structure:
    """How the losses of rows become an objective.

    recipe: the catalogue's. family: its argument that names the family of losses; "" where it has one of its own.
    fixed: other arguments. options: which arguments people may choose, with their defaults where the penalty is given.
    penalties: those of them that held-out rows find unless one is given; of two the one that predicts better alone.
    two: whether the target must have two classes. several: whether there may be several targets.
    grouped: whether groups of rows can stand in for clients.
    classes_open: whether the recipe tells two classes from several where it is told no loss of classes.
    tol: the certified gap at which a fit without second derivatives ends, in units of the objective.
    """

    recipe: type[AbstractRecipe]
    family: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    options: Json = field(default_factory=lambda: PENALTY)
    penalties: tuple[str, ...] = ("l1",)
    tol: float = 1e-2
    two: bool = False
    several: bool = False
    grouped: bool = False
    classes_open: bool = False


MEAN = Structure(SparseGlmRecipe, "family", tol=1e-3)
"""The mean loss of all rows."""
WORST = Structure(AgnosticRecipe, "loss", options=PENALTY | {"cvar": None, "kl": None}, grouped=True, classes_open=True)
"""The loss of the client or group that is served worst."""
LIMITED_CLASS = Structure(
    ConstrainedRecipe,
    "loss",
    {"groups": "classes", "limits": LIMIT},
    PENALTY | {"limit": LIMIT, "limited": None},
    two=True,
)
"""The loss of one class, while that of the other is limited."""
MOST_WEIGHT = 1000.0
"""What the excess of a group over its limit counts at most, in units of the mean loss: a limit that would take more is
met as nearly as this buys, or proved to be out of reach."""
LIMITED_GROUPS = Structure(
    ConstrainedRecipe,
    "loss",
    {"limits": LIMIT, "of_all": True, "multiplier": MOST_WEIGHT},
    PENALTY | {"limit": None},
    two=True,
    grouped=True,
)
"""The mean loss of all rows, while that of some groups is limited."""
PAIRS = Structure(AucRecipe, fixed={"saddle": False}, options={"l1": 1e-3, "l2": 1e-2}, two=True)
"""Squares of pairs of rows, one of each class."""
SHARED = Structure(LowRankRecipe, options={"nuclear": 1e-2}, penalties=("nuclear",), tol=1e-3, several=True)
"""Squares of several targets whose coefficients share few directions."""
HAZARD = Structure(CoxRecipe, penalties=("l1", "l2"), tol=1e-3)
"""Cox's partial likelihood, a stratum for each client. Where events are few beside columns, whether few columns should
be kept or all be shrunk decides how well a model predicts (docs/penalty.md)."""
WORST_HAZARD = Structure(FairCoxRecipe, options=PENALTY | {"cvar": None}, penalties=("l1", "l2"), grouped=True)
"""The same of the client or group for which a model gains least."""
LIMITED_HAZARD = Structure(
    LimitedCoxRecipe,
    fixed={"limits": LIMIT, "multiplier": MOST_WEIGHT},
    options=PENALTY | {"limit": None},
    penalties=("l1", "l2"),
    grouped=True,
)
"""The same of all rows, while that of some groups is limited to a share of what it is without a model."""
LIMITED_ONES = (LIMITED_GROUPS, LIMITED_HAZARD)
"""Structures that limit the losses of groups."""

UNPENALIZED = (MEAN, HAZARD)
"""Structures whose optimum without any penalty is found by sums, and certified without a domain."""


@dataclass(frozen=True)
class Goal:
    """What a person can want: a structure, of the losses of a family. words: what is minimized."""

    words: str
    structure: Structure
    family: str = ""

    @cached_property
    def reading(self) -> Reading:
        """What the scores mean, as the recipe says."""
        return self.make_recipe(self.defaults(1)).reading

    @property
    def counts(self) -> bool:
        """Whether the target is a count, which may be over an exposure."""
        return self.family in FAMILIES and FAMILIES[self.family]().counts

    def make_recipe(self, arguments: Json) -> AbstractRecipe:
        """The recipe, made with those of the arguments that it takes."""
        kind = self.structure.recipe
        left = self.structure.classes_open and FAMILIES[self.family]().reading.labelled
        named = {self.structure.family: self.family} if self.structure.family and not left else {}
        given = {**self.structure.fixed, **named, **arguments}
        return kind(**{one.name: given[one.name] for one in fields(kind) if given.get(one.name) is not None})  # type: ignore[arg-type]

    def family_of(self, known: Sequence[Known]) -> Family:
        """The losses of rows, for structures that leave that open. known: what the goal's recipe knows."""
        return family_of("family", self.family).settled(known)

    def defaults(self, rows: int) -> Json:
        """The options for so many rows if nothing is chosen."""
        options = self.structure.options.items()
        return {key: value.of(rows) if isinstance(value, OverRows) else value for key, value in options}

    def with_numbers(self, options: Json, rows: int) -> Json:
        """Options with a number in place of AUTO, for what does not depend on it."""
        return {key: self.defaults(rows)[key] if value == AUTO else value for key, value in options.items()}


GOALS: dict[str, Goal] = {
    "logistic": Goal("the least mean loss over all rows", MEAN, "logistic"),
    "fair": Goal("the least loss of the client that is served worst", WORST, "logistic"),
    "auc": Goal("the best ranking of two classes", PAIRS),
    "neyman-pearson": Goal("the least loss of one class while that of the other is limited", LIMITED_CLASS, "logistic"),
    "limits": Goal(
        "the least mean loss over all rows while that of some groups is limited", LIMITED_GROUPS, "logistic"
    ),
    "lasso": Goal("the least squares", MEAN, "squared"),
    "fair-regression": Goal("the least squares of the client that is served worst", WORST, "squared"),
    "limits-regression": Goal("the least squares while those of some groups are limited", LIMITED_GROUPS, "squared"),
    "robust": Goal("the least absolute deviations, which outliers cannot pull", MEAN, "absolute"),
    "poisson": Goal("the least deviance of counts", MEAN, "poisson"),
    "fair-counts": Goal("the least deviance of counts of the client that is served worst", WORST, "poisson"),
    "limits-counts": Goal(
        "the least deviance of counts while that of some groups is limited", LIMITED_GROUPS, "poisson"
    ),
    "low-rank": Goal("the least squares of several targets that share few directions", SHARED),
    "cox": Goal("the largest partial likelihood of times to an event, each client a stratum", HAZARD),
    "fair-cox": Goal("the same for the client for which a model gains least", WORST_HAZARD),
    "limits-cox": Goal(
        "the largest partial likelihood of times to an event while the losses of some groups are limited",
        LIMITED_HAZARD,
    ),
}
CLOSE, PER_ROW = 1e-8, 1e-13
"""A gap below which Newton's last step leaves coefficients four digits or more, and what the rounding of sums over rows
may add to it for each row (benchmarks/results/fits.md)."""
NEAR = 1e-6
"""The same for methods whose steps are no whole Newton steps, so that each further digit takes some exchanges more."""


def default_tolerance(goal: str, method: Method, rows: int) -> float:
    """The certified gap at which a run ends that nobody chose: a small one where few more exchanges reach it."""
    if not method.asks_curvature:
        return GOALS[goal].structure.tol
    return max(NEAR if method.asks_alike else CLOSE, PER_ROW * rows)


OPTIONS = tuple(dict.fromkeys(name for goal in GOALS.values() for name in goal.structure.options))


def target_of(goal: str | None, given: object) -> str | list[str]:
    """The target as files have it: the name of a column; for low-rank a list of names, or names with commas between.

    Without a goal several names are what low-rank takes.
    """
    timed = goal in GOALS and GOALS[goal].reading.timed
    several = timed or GOALS[goal].structure.several if goal in GOALS else isinstance(given, list)
    if isinstance(given, str) and not several:
        return given
    names = given.split(",") if isinstance(given, str) else given
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"target must be the name of a column, or for low-rank a list of names, got {given!r}")
    if not several:
        able = ", ".join(name for name, other in GOALS.items() if other.structure.several)
        raise ConfigurationError(f"the goal {goal} predicts one column, got target {given!r}; several are for {able}")
    if len(set(names)) < len(names):
        raise ConfigurationError(f"target must name every column once, got {given!r}")
    return names


def names_of(target: str | Sequence[str]) -> tuple[str, ...]:
    """The columns that a target names."""
    return (target,) if isinstance(target, str) else tuple(target)


MOST_CODES, MOST_CLASSES, LARGEST_MEAN = 10, 20, 30.0


def choose_goal(target: str, labels: NDArray[Any]) -> tuple[str, str]:
    """The goal for a target where none was asked for, and why, in a sentence.

    Two classes, or more of words or of up to MOST_CODES whole numbers: logistic. Counts, which are more whole numbers
    from 0 or 1 of a mean below LARGEST_MEAN: poisson. Other numbers: lasso. More than MOST_CLASSES words are refused.
    """
    if labels.ndim > 1:
        return "low-rank", "several targets have the goal low-rank"
    values = np.unique(labels[~missing(labels)])
    words = labels.dtype.kind in "USb"
    if words and len(values) > MOST_CLASSES:
        raise ConfigurationError(
            f"the target {target!r} holds {len(values)} different words: if they are classes, ask for the goal logistic"
        )
    whole = words or bool(np.all(values == np.round(values)))
    if whole and len(values) <= (MOST_CLASSES if words else MOST_CODES):
        held, goal = f"{len(values)} classes", "logistic"
    elif whole and values[0] in (0, 1) and (mean := float(np.mean(labels[~missing(labels)]))) < LARGEST_MEAN:
        held, goal = f"whole numbers from {values[0]:g} to {values[-1]:g} with the mean {mean:.3g}", "poisson"
    else:
        held, goal = "numbers", "lasso"
    return goal, f"the target {target!r} holds {held}, so the goal is {goal}; another can be chosen by goal"


TIMED = ("time", "event")
"""The two keys that stand in place of `target` where it is a time to an event."""
NEEDED = {"time": "a number >= 0", "event": "1 where the event happened at the time of the row, else 0"}


def check_time(kind: str, name: str, column: NDArray[Any]) -> None:
    """Refuse times and events that are none, by row and value. kind: one of TIMED. name: that of the column."""
    gone, text = missing(column), column.dtype.kind not in "fiub"
    odd = gone | (text or (column < 0 if kind == "time" else ~np.isin(column, (0, 1))))
    if np.any(odd):
        row = int(np.argmax(odd))
        value = "nothing" if gone[row] else repr(column[row].item())
        raise CellError(row, f"the {kind} {name!r} must be {NEEDED[kind]}, got {value}")


def check_labels(name: str, target: str, labels: NDArray[Any]) -> None:
    """Refuse a target with holes, and labels that are not of the kind that the goal predicts, whosever they are."""
    if GOALS[name].reading.timed:
        return  # both columns are checked together
    if gone := int(np.sum(there := missing(labels))):
        where = f"{gone}, first in row {int(np.argmax(there)) + 1} of {len(labels)}"
        raise ConfigurationError(f"the target {target!r} must be known in every row, but it is missing in {where}")
    reading = GOALS[name].reading
    if reading.labelled and labels.dtype.kind == "f" and np.any(parts := labels != np.round(labels)):
        able = ", ".join(other for other, goal in GOALS.items() if not goal.reading.labelled)
        seen = f"fractions such as {labels[np.argmax(parts)]:g}"
        raise ConfigurationError(f"the goal {name} is for classes, but {target!r} holds {seen}: use {able}")
    reading.check_labels(f"the target {target!r} of the goal {name}", labels)


def check_target(name: str, target: str, labels: Values) -> None:
    """Refuse labels that the goal cannot predict, and too few or too many classes among all of them."""
    check_labels(name, target, labels)
    if not GOALS[name].reading.labelled:
        return
    values = np.unique(labels)
    if len(values) < 2 or (len(values) > 2 and GOALS[name].structure.two):
        need = "two classes" if GOALS[name].structure.two else "at least two classes"
        raise ConfigurationError(f"the target {target!r} of the goal {name} must hold {need}, got {len(values)}")


def penalties_to_choose(name: str, chosen: Json) -> tuple[str, ...]:
    """The penalties that held-out rows are to choose: those that are AUTO, or else the goal's own that are not given.

    If a goal has two, only the better one is chosen.
    """
    asked = tuple(key for key in PENALTIES if chosen.get(key) == AUTO)
    own = GOALS[name].structure.penalties
    if asked or own[0] in chosen:
        return asked
    return tuple(key for key in own if key not in chosen)


def complete_options(name: str, chosen: Json, labels: Values, rows: int) -> Json:
    """All options of a goal for so many rows to train on, with their defaults; refused if it does not have one.

    A penalty that is to be chosen is AUTO, and no other penalty stands beside it unless it is given.
    """
    goal, able = GOALS[name], GOALS[name].structure.options
    for key, value in chosen.items():
        if key not in able:
            raise ConfigurationError(f"{key} is no option of the goal {name}, which has {', '.join(able)}")
        if value == AUTO and key not in PENALTIES:
            raise ConfigurationError(f"{key} of the goal {name} must be a number, got {AUTO!r}")
    check_limit(name, chosen)
    options = {**goal.defaults(rows), **chosen}
    if auto := penalties_to_choose(name, chosen):
        options |= {key: AUTO if key in auto else chosen.get(key, 0.0) for key in PENALTIES if key in options}
    if is_unpenalized(options) and goal.structure not in UNPENALIZED:
        named = ", ".join(other for other, one in GOALS.items() if one.structure in UNPENALIZED)
        raise ConfigurationError(
            f"l1 or l2 must be > 0 for the goal {name}, whose weights nothing else bounds; a model without penalty is "
            f"for the goals {named}"
        )
    if LIMITED in options:
        first = classes("the target", labels)[0].tolist()[0] if options[LIMITED] is None else options[LIMITED]
        options[LIMITED] = str(first)
    return options


def check_limit(name: str, chosen: Json) -> None:
    """Refuse one number where groups are limited, and groups where a class is."""
    limit, structure = chosen.get("limit"), GOALS[name].structure
    if structure in LIMITED_ONES:
        if not isinstance(limit, Mapping) or not limit:
            raise ConfigurationError(
                f"limit of the goal {name} must name groups and numbers, as north=0.4, got {short(limit)}"
            )
        for group, most in limit.items():
            if isinstance(most, bool) or not isinstance(most, int | float) or not 0 < most < np.inf:
                raise ConfigurationError(f"limit of {group!r} must be a number > 0, got {short(most)}")
    elif isinstance(limit, Mapping):
        able = ", ".join(other for other, goal in GOALS.items() if goal.structure in LIMITED_ONES)
        raise ConfigurationError(f"limits of groups are for the goals {able}, got the goal {name}")


def limiting_goal(goal: str) -> str:
    """The goal that limits the losses of groups in place of this ordinary one."""
    if GOALS[goal].structure is MEAN:
        for name, other in GOALS.items():
            if other.structure is LIMITED_GROUPS and other.family == GOALS[goal].family:
                return name
    able = ", ".join(name for name in GOALS if GOALS[name].structure in LIMITED_ONES)
    raise ConfigurationError(f"limits of groups are for the goals {able}, got a target for the goal {goal}")


def check_options(name: str, chosen: Json) -> None:
    """Refuse options that the goal does not have, and bad values, before there is data."""
    options = complete_options(name, chosen, np.array(["0", "1"]), rows=1)
    GOALS[name].make_recipe(arguments_of(GOALS[name].with_numbers(options, 1)))


def is_unpenalized(options: Json) -> bool:
    """Whether l1 and l2 are both 0."""
    return options.get("l1") == 0 and options.get("l2") == 0


def arguments_of(options: Json) -> Json:
    """The arguments of a goal's problem from all of its options."""
    arguments = {key: value for key, value in options.items() if value is not None}
    if LIMITED in arguments:
        arguments["limits"] = {arguments.pop(LIMITED): arguments.pop("limit")}
    elif "limit" in arguments:
        arguments["limits"] = arguments.pop("limit")
    domain = {"radius": 1.0} if is_unpenalized(options) else {}  # any will do: nothing that is proved depends on it
    return {**arguments, **domain}


SITES = "sites"
ONE_ERROR, BEST = "one-standard-error", "best"


@dataclass(frozen=True)
class Selection:
    """How held-out rows choose a penalty.

    folds: how many parts the rows of each party are dealt into; SITES leaves out one party after the other.
    choose: ONE_ERROR is the largest penalty within one standard error of the best, BEST the best; None is BEST for l2,
    of which a larger one leaves no column out, and for the worst group (`rule_of`), and else ONE_ERROR.
    """

    folds: int | str = 5
    choose: str | None = None

    def takes_best(self, penalty: str) -> bool:
        """Whether the rule of the path of this penalty is BEST."""
        return penalty == "l2" if self.choose is None else self.choose == BEST

    def __post_init__(self) -> None:
        whole = isinstance(self.folds, int) and not isinstance(self.folds, bool) and 2 <= self.folds <= MOST_FOLDS
        if not whole and self.folds != SITES:
            raise ConfigurationError(
                f"folds must be a whole number from 2 to {MOST_FOLDS}, or {SITES!r}, got {self.folds!r}"
            )
        if self.choose not in (None, ONE_ERROR, BEST):
            raise ConfigurationError(f"choose must be {ONE_ERROR!r} or {BEST!r}, got {self.choose!r}")


DROPPED, REFUSED = COLLINEAR = ("drop", "refuse")
MOST_FOLDS = 20
LEAST_ROWS = 20
"""Groups of fewer rows are merged into one: the loss of a handful of rows is chance, and must not decide."""

# What [fit] and the command line say, whether the table is here or at several sites.


@dataclass(frozen=True)
class FitSettings:
    """What is wanted of one table, or of tables with the same columns. options: those of the goal that were chosen."""

    target: str | list[str]
    goal: str | None = None
    """None: what the target holds decides."""
    groups: str | None = None
    weights: str | None = None
    exposure: str | None = None
    """The column of what counts are over, for goals of counts."""
    id: str | None = None
    """The column that names rows."""
    categories: Sequence[str] = ()
    """Columns of numbers that are categories."""
    reference: Mapping[str, str] = field(default_factory=dict)
    """For a column of categories, the one that the others are compared with."""
    least_rows: int = LEAST_ROWS
    """Groups of fewer rows are one group together; 0 merges none."""
    smooth: Sequence[str] = ()
    """Columns of numbers whose effects may bend."""
    interact: Sequence[tuple[str, str]] = ()
    """Pairs of columns whose products are features."""
    missing: str = FILLED
    holdout: float = 0.2
    rounds: int = 1000
    tol: float | None = None
    """None: that of the goal."""
    folds: int | str = 5
    choose: str | None = None
    """None: as `Selection` says."""
    confidence: float = 0.95
    rate: float | None = None
    """The largest share of the limited class on the wrong side, for neyman-pearson."""
    site_intercepts: bool | None = None
    """Of the table of effects. None: where it is said whose a row is."""
    collinear: str = DROPPED
    """What is done, without penalty, with a column that is a combination of others: it is left out, or refused."""
    options: Json = field(default_factory=dict)

    @property
    def coding(self) -> Coding:
        """How columns become features."""
        return Coding(tuple(self.categories), self.reference, self.missing, tuple(self.smooth), tuple(self.interact))


FIT_KEYS = (*(one.name for one in fields(FitSettings) if one.name != "options"), *OPTIONS)
"""The keys of [fit] that say what is wanted; which table it is stands beside them."""


def read_fit(given: Json, beside: Sequence[str]) -> FitSettings:
    """The settings of [fit]; None is the default. beside: keys that are allowed and are somebody else's."""
    check_keys("[fit]", given, (*FIT_KEYS, *TIMED, *beside))
    goal = given.get("goal")
    if goal is not None and goal not in GOALS:
        raise ConfigurationError(f"there is no goal {goal!r}; {hint(goal, GOALS)}")
    if (given := _with_times(goal, given)).get("target") is None:
        raise ConfigurationError("[fit] needs target, the name of a column")
    target, goal = given["target"], given.get("goal")
    chosen = {key: given[key] for key in FIT_KEYS if given.get(key) is not None}
    chosen["reference"] = _reference(chosen.get("reference", {}))
    chosen["interact"] = _pairs(chosen.get("interact", []))
    _check_coding(chosen)
    options = {key: chosen.pop(key) for key in OPTIONS if key in chosen}
    settings = FitSettings(**{**chosen, "target": target_of(goal, target), "options": options})
    confidence: object = settings.confidence
    if isinstance(confidence, bool) or not isinstance(confidence, float) or not 0 < confidence < 1:
        raise ConfigurationError(f"confidence must be a number between 0 and 1, as 0.95, got {confidence!r}")
    if settings.collinear not in COLLINEAR:
        raise ConfigurationError(f"collinear must be {' or '.join(COLLINEAR)}, got {short(settings.collinear)}")
    if settings.site_intercepts not in (None, True, False):
        raise ConfigurationError(f"site_intercepts must be true or false, got {settings.site_intercepts!r}")
    return settings


def _with_times(goal: str | None, given: Json) -> Json:
    """The settings with the columns of time and event as the target, if they are given."""
    told = [given.get(key) for key in TIMED]
    timed = goal is not None and GOALS[goal].reading.timed
    if not timed and told == [None, None]:
        return given
    if goal is not None and not timed:
        able = ", ".join(name for name, other in GOALS.items() if other.reading.timed)
        raise ConfigurationError(f"time and event are for the goals {able}, got the goal {goal}")
    if not all(isinstance(name, str) and name for name in told) or given.get("target") is not None:
        want = "time and event, the names of two columns, in place of target"
        raise ConfigurationError(f"the goal {goal or COX} needs {want}, got time {told[0]!r} and event {told[1]!r}")
    return {**given, "target": told, "goal": goal or (LIMITS_COX if isinstance(given.get("limit"), Mapping) else COX)}


COX, LIMITS_COX = "cox", "limits-cox"


def _reference(given: object) -> dict[str, str]:
    """For columns of categories their references as text; numbers of files are codes."""
    if not isinstance(given, Mapping) or not all(isinstance(level, str | int | float) for level in given.values()):
        raise ConfigurationError(f'reference must be a table such as {{ thal = "3" }}, got {short(given)}')
    return {str(name): code_of(level) if not isinstance(level, str) else level for name, level in given.items()}


def _pairs(given: object) -> tuple[tuple[str, str], ...]:
    """Pairs of columns, each written as one text or as a list of two."""
    pairs = list[tuple[str, ...]]()
    for one in given if isinstance(given, list | tuple) else [given]:
        pair = tuple(one.split(":")) if isinstance(one, str) else tuple(one) if isinstance(one, list | tuple) else ()
        if len(pair) != 2 or not all(isinstance(name, str) and name for name in pair) or pair[0] == pair[1]:
            raise ConfigurationError(f'interact must be pairs of two columns such as ["dose:sex"], got {short(given)}')
        if {*pair} in map(set, pairs):
            raise ConfigurationError(f"interact must name every pair once, got {short(given)}")
        pairs.append(pair)
    return tuple((one, other) for one, other in pairs)


def _check_coding(chosen: Json) -> None:
    for key, like in (("categories", "thal"), ("smooth", "age")):
        names = chosen.get(key, [])
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise ConfigurationError(f'{key} must be a list of columns such as ["{like}"], got {short(names)}')
        if len(set(names)) < len(names):
            raise ConfigurationError(f"{key} must name every column once, got {short(names)}")
    if (how := chosen.get("missing", FILLED)) not in MISSING:
        raise ConfigurationError(f"missing must be one of {', '.join(MISSING)}, got {short(how)}")
    if not isinstance(key := chosen.get("id", ""), str):
        raise ConfigurationError(f"id must be the name of a column, got {short(key)}")


def read_least_rows(goal: str, given: Any) -> int:
    """How many rows a group has at least, for goals that serve the worst one or limit some; 0 for others."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ConfigurationError(f"least_rows must be a whole number >= 0, got {given!r}")
    return given if GOALS[goal].structure in (WORST, *LIMITED_ONES) else 0


def check_exposure(goal: str, exposure: str | None) -> None:
    """Refuse an exposure for a goal without counts."""
    if exposure is not None and not GOALS[goal].counts:
        able = ", ".join(name for name, other in GOALS.items() if other.counts)
        raise ConfigurationError(f"exposure is for the goals {able}, got the goal {goal}")


def check_groups(goal: str, groups: str | None) -> None:
    """Refuse groups for a goal that serves none, and a goal that limits groups without them."""
    if groups is None and GOALS[goal].structure in LIMITED_ONES:
        raise ConfigurationError(f"the goal {goal} needs groups, the column whose values limit names")
    if groups is not None and not GOALS[goal].structure.grouped:
        able = ", ".join(name for name, other in GOALS.items() if other.structure.grouped)
        raise ConfigurationError(f"groups are for the goals {able}, got the goal {goal}")

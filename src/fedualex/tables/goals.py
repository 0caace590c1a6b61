"""What a person can want from a table, and the problem of the catalogue that it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import problems
from ..algorithms import Method
from ..data.columns import code_of
from ..data.encoder import MEAN, MISSING
from ..problems import AbstractRecipe
from ..problems.readings import Reading
from ..problems.recipe import sources_of
from ..runs.settings import ConfigurationError, check_keys
from ..validation import classes, hint, missing, short

LEAST_SHARE = 0.05
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


@dataclass(frozen=True)
class Goal:
    """problem, arguments: the catalogue's. options: which of its arguments people may choose, with their defaults.

    two: whether the target must have two classes. several: whether there may be several targets.
    grouped: whether groups of rows can stand in for clients.
    tol: the certified gap at which a fit ends, in units of the objective.
    """

    words: str
    problem: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    tol: float = 1e-2
    two: bool = False
    several: bool = False
    grouped: bool = False

    @cached_property
    def reading(self) -> Reading:
        """What the scores mean, as the recipe says."""
        return self.make_recipe({**self.arguments, **self.defaults(1)}).reading

    @property
    def recipe_class(self) -> type[Any]:
        """The catalogue's class of recipes for the problem."""
        sources: Any = sources_of(getattr(problems, self.problem))
        kind: type[Any] = sources.recipe
        return kind

    def make_recipe(self, arguments: Mapping[str, Any]) -> AbstractRecipe:
        """The recipe with those arguments of the problem that it takes."""
        kind = self.recipe_class
        made: AbstractRecipe = kind(**{one.name: arguments[one.name] for one in fields(kind) if one.name in arguments})
        return made

    def defaults(self, rows: int) -> dict[str, Any]:
        """What the options are for so many rows, if nothing is chosen."""
        return {key: value.of(rows) if isinstance(value, OverRows) else value for key, value in self.options.items()}


LIMIT = 0.1
LIMITED = "limited"
"""The option that names the class whose loss is limited."""
PENALTY = {"l1": OverRows(0.5), "l2": OverRows(1.0)}

GOALS: dict[str, Goal] = {
    "logistic": Goal(
        "the least mean loss over all rows, sparse",
        "sparse_glm",
        {"family": "logistic"},
        PENALTY,
        tol=1e-3,
    ),
    "fair": Goal(
        "the least loss of the client that is served worst",
        "agnostic",
        {},
        PENALTY | {"cvar": None},
        grouped=True,
    ),
    "auc": Goal("the best ranking of two classes", "auc", {"saddle": False}, {"l1": 1e-3, "l2": 1e-2}, two=True),
    "neyman-pearson": Goal(
        "the least loss of one class while that of the other is limited",
        "constrained",
        {"groups": "classes", "limits": LIMIT},
        PENALTY | {"limit": LIMIT, "limited": None},
        two=True,
    ),
    "lasso": Goal("the least squares, sparse", "sparse_glm", {"family": "squared"}, PENALTY, tol=1e-3),
    "fair-regression": Goal(
        "the least squares of the client that is served worst",
        "agnostic",
        {"loss": "squared"},
        PENALTY,
        grouped=True,
    ),
    "robust": Goal("the least absolute deviations, which outliers cannot pull", "robust_regression", {}, PENALTY),
    "low-rank": Goal(
        "the least squares of several targets that share few directions",
        "low_rank",
        {},
        {"nuclear": 1e-2},
        tol=1e-3,
        several=True,
    ),
}
CLOSE, PER_ROW = 1e-6, 1e-11
"""The gap at which printed digits hold, and what the rounding of sums over rows may add to it for each row."""


def default_tolerance(goal: str, method: Method, rows: int) -> float:
    """The certified gap at which a run ends that nobody chose: a small one where few more exchanges reach it."""
    return max(CLOSE, PER_ROW * rows) if method.asks_curvature else GOALS[goal].tol


OPTIONS = tuple(dict.fromkeys(name for goal in GOALS.values() for name in goal.options))


def target_of(goal: str | None, given: Any) -> str | list[str]:
    """The target as files have it: the name of a column; for low-rank a list of names, or names with commas between.

    Without a goal several names are what low-rank takes.
    """
    several = GOALS[goal].several if goal in GOALS else isinstance(given, list)
    if isinstance(given, str) and not several:
        return given
    names = given.split(",") if isinstance(given, str) else given
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"target must be the name of a column, or for low-rank a list of names, got {given!r}")
    if not several:
        able = ", ".join(name for name, other in GOALS.items() if other.several)
        raise ConfigurationError(f"the goal {goal} predicts one column, got target {given!r}; several are for {able}")
    if len(set(names)) < len(names):
        raise ConfigurationError(f"target must name every column once, got {given!r}")
    return names


def names_of(target: str | Sequence[str]) -> tuple[str, ...]:
    """The columns that a target names."""
    return (target,) if isinstance(target, str) else tuple(target)


def goal_of(name: str | None, labels: NDArray[Any]) -> str:
    """The goal of this name; without one "logistic" for classes and "lasso" for numbers.

    Numbers that are not whole, or of which more than a share of the rows are distinct, are no classes.
    """
    if name is not None:
        return name
    if labels.ndim > 1:
        return "low-rank"
    few = len(np.unique(labels)) <= max(2, LEAST_SHARE * len(labels))
    whole = labels.dtype.kind in "USbiu" or bool(np.all(labels == np.round(labels)))
    return "logistic" if few and whole else "lasso"


def check_labels(name: str, target: str, labels: NDArray[Any]) -> None:
    """Refuse a target with holes, and labels that are not of the kind that the goal predicts, whosever they are."""
    if gone := int(np.sum(there := missing(labels))):
        where = f"{gone}, first in row {int(np.argmax(there)) + 1} of {len(labels)}"
        raise ConfigurationError(f"the target {target!r} must be known in every row, but it is missing in {where}")
    reading = GOALS[name].reading
    if reading.labelled and labels.dtype.kind == "f" and np.any(parts := labels != np.round(labels)):
        able = ", ".join(other for other, goal in GOALS.items() if not goal.reading.labelled)
        found = f"fractions such as {labels[np.argmax(parts)]:g}"
        raise ConfigurationError(f"the goal {name} is for classes, but {target!r} holds {found}: use {able}")
    reading.check_labels(f"the target {target!r} of the goal {name}", labels)


def check_target(name: str, target: str, labels: NDArray[Any]) -> None:
    """Refuse such labels, and too few or too many classes among all of them."""
    check_labels(name, target, labels)
    if not GOALS[name].reading.labelled:
        return
    found = np.unique(labels)
    if len(found) < 2 or (len(found) > 2 and GOALS[name].two):
        need = "two classes" if GOALS[name].two else "at least two classes"
        raise ConfigurationError(f"the target {target!r} of the goal {name} must hold {need}, got {len(found)}")


def complete_options(name: str, chosen: Mapping[str, Any], labels: NDArray[Any], rows: int) -> dict[str, Any]:
    """All options of a goal for so many rows to train on, with their defaults; refused if it does not have one."""
    goal = GOALS[name]
    for key in chosen:
        if key not in goal.options:
            raise ConfigurationError(f"{key} is no option of the goal {name}, which has {', '.join(goal.options)}")
    options = {**goal.defaults(rows), **chosen}
    if LIMITED in options:
        first = classes("the target", labels)[0].tolist()[0] if options[LIMITED] is None else options[LIMITED]
        options[LIMITED] = str(first)
    return options


def arguments_of(name: str, chosen: Mapping[str, Any], labels: NDArray[Any], rows: int) -> dict[str, Any]:
    """The arguments of a goal's problem for so many rows to train on."""
    options = complete_options(name, chosen, labels, rows)
    if LIMITED in options:
        options["limits"] = {options.pop(LIMITED): options.pop("limit")}
    return {**GOALS[name].arguments, **{key: value for key, value in options.items() if value is not None}}


# What [fit] and the command line say, whether the table is here or at several sites.


@dataclass(frozen=True)
class FitSettings:
    """What is wanted of one table, or of tables with the same columns. options: those of the goal that were chosen."""

    target: str | list[str]
    goal: str | None = None
    """None: what the target holds decides."""
    groups: str | None = None
    weights: str | None = None
    id: str | None = None
    """The column that names rows."""
    categories: Sequence[str] = ()
    """Columns of numbers that are categories."""
    reference: Mapping[str, str] = field(default_factory=dict)
    """For a column of categories, the one that the others are compared with."""
    missing: str = MEAN
    holdout: float = 0.2
    rounds: int = 1000
    tol: float | None = None
    """None: that of the goal."""
    options: Mapping[str, Any] = field(default_factory=dict)


FIT_KEYS = (*(one.name for one in fields(FitSettings) if one.name != "options"), *OPTIONS)
"""The keys of [fit] that say what is wanted; which table it is stands beside them."""


def read_fit(given: Mapping[str, Any], beside: Sequence[str]) -> FitSettings:
    """The settings of [fit]; None is the default. beside: keys that are allowed and are somebody else's."""
    check_keys("[fit]", given, (*FIT_KEYS, *beside))
    if (target := given.get("target")) is None:
        raise ConfigurationError("[fit] needs target, the name of a column")
    goal = given.get("goal")
    if goal is not None and goal not in GOALS:
        raise ConfigurationError(f"there is no goal {goal!r}; {hint(goal, GOALS)}")
    chosen = {key: given[key] for key in FIT_KEYS if given.get(key) is not None}
    chosen["reference"] = _reference(chosen.get("reference", {}))
    _check_coding(chosen)
    options = {key: chosen.pop(key) for key in OPTIONS if key in chosen}
    return FitSettings(**{**chosen, "target": target_of(goal, target), "options": options})


def _reference(given: Any) -> dict[str, str]:
    """For columns of categories their references as text; numbers of files are codes."""
    if not isinstance(given, Mapping) or not all(isinstance(level, str | int | float) for level in given.values()):
        raise ConfigurationError(f'reference must be a table such as {{ thal = "3" }}, got {short(given)}')
    return {str(name): code_of(level) if not isinstance(level, str) else level for name, level in given.items()}


def _check_coding(chosen: Mapping[str, Any]) -> None:
    names = chosen.get("categories", [])
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ConfigurationError(f'categories must be a list of columns such as ["thal"], got {short(names)}')
    if (how := chosen.get("missing", MEAN)) not in MISSING:
        raise ConfigurationError(f"missing must be one of {', '.join(MISSING)}, got {short(how)}")
    if not isinstance(key := chosen.get("id", ""), str):
        raise ConfigurationError(f"id must be the name of a column, got {short(key)}")


def check_groups(goal: str, groups: str | None) -> None:
    """Refuse groups for a goal that serves none."""
    if groups is not None and not GOALS[goal].grouped:
        able = ", ".join(name for name, other in GOALS.items() if other.grouped)
        raise ConfigurationError(f"groups are for the goals {able}, got the goal {goal}")


MOST_OF_ONE = 0.5
"""The largest weight of one client where the adversary weighs clients: in a deployment the sum at a weight near 1 would
be that client's own gradient."""
SPREAD = 0.1
"""What all clients share alike there, whatever the adversary does: no sum is one of two clients alone."""


def weighs_clients(name: str, grouped: bool) -> bool:
    """Whether the adversary of a goal weighs clients, as it does unless rows have groups."""
    return GOALS[name].grouped and not grouped


def with_limited_weights(arguments: Mapping[str, Any], clients: int) -> dict[str, Any]:
    """The arguments of a goal that weighs clients: MOST_OF_ONE is the largest weight of one, and SPREAD is for all.

    A share `cvar` of M clients is a largest weight of 1 / (cvar M). Of two clients the limit would make the mean, so
    that there is none: nothing can be hidden in a sum of two.
    """
    if clients * MOST_OF_ONE <= 1:
        return dict(arguments)
    least = 1 / (MOST_OF_ONE * clients)
    return {**arguments, "cvar": max(arguments.get("cvar") or least, least), "spread": SPREAD}


def words_of_weights(name: str, clients: int, grouped: bool) -> list[str]:
    """What a person should know of it, in a sentence; nothing where it is not so."""
    if not weighs_clients(name, grouped) or clients < 2:
        return []
    if clients * MOST_OF_ONE <= 1:
        return [f"of {clients} clients the one that is served worst counts alone"]
    worst = f"the clients that are served worst have {1 - SPREAD:g} of the weight"
    return [f"{worst}, one of them at most {MOST_OF_ONE:g} of that, and all clients share {SPREAD:g} alike"]

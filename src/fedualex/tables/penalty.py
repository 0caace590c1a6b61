"""The penalty of a table's model: chosen by held-out rows of all parties, or what is said where it cannot be."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from ..algorithms.newton import why_no_curvature
from ..storage import Json
from ..summaries import Known
from .choosing import UNRELATED, Curve, Parties, Rule, search, share_of
from .folds import FoldsError
from .goals import GOALS, MEAN, PENALTIES
from .recipe import CHOSEN, TableRecipe

PENALTY = "penalty.json"
"""Where the choice is kept, beside the run."""
SMALL = 500
"""Rows below which one standard error is so wide that the rule for it should be named as a choice."""


@dataclass(frozen=True)
class Penalty:
    """name, value: which penalty it is, and how large. others: further penalties with their values.

    curve: what was measured along the path; None where the penalty was not chosen so. short: how it came about, in a
    sentence. more: what else there is to say of that.
    """

    name: str
    value: float
    others: Mapping[str, float]
    short: str
    more: str = ""
    curve: Curve | None = None

    @property
    def sentence(self) -> str:
        """`short` and `more` together."""
        return f"{self.short} {self.more}".rstrip()

    @property
    def as_known(self) -> Known:
        """As all parties know it."""
        return chosen_known(self.plain())

    def plain(self) -> Json:
        """The penalty as JSON data."""
        curve = None if self.curve is None else self.curve.plain()
        said = {"short": self.short, "sentence": self.sentence}
        return {"name": self.name, "value": self.value, **self.others, **said, "curve": curve}


def choose_penalty(
    recipe: TableRecipe,
    known: Sequence[Known],
    parties: Callable[[], Parties],
    *,
    sum_error: float = 0.0,
    announce: Callable[[str], None] = lambda text: None,
) -> Penalty:
    """The penalty that held-out rows choose; where they cannot and nobody asked for it, the default, with the reason.

    announce: is told of each exchange.
    """
    try:
        if why := why_not_chosen(recipe, known):
            raise FoldsError(why)
        members, curves = AskedOnce(parties()), list[Curve]()
        for name in recipe.penalties:
            own = recipe.with_penalty(name).recipe(known)
            rule = "best" if recipe.selection.takes_best(name) else cast(Rule | None, recipe.selection.choose)
            kind = name if name == "l2" else ""
            path = search(own, members, name=kind, rule=rule, sum_error=sum_error, announce=announce)
            curves.append(replace(path.curve, name=name))
    except FoldsError as error:
        if any(name in recipe.options for name in recipe.penalties):
            raise
        return default_penalty(recipe, known, str(error))
    curve, *others = sorted(curves, key=lambda one: one.measure[one.best])
    curve = replace(curve, exchanges=sum(one.exchanges for one in curves))
    least = f"along {curve.name} {curve.measure[curve.best]:.4g}"
    said = [f"Along {one.name} the least is {one.measure[one.best]:.4g}, {least}." for one in others]
    more = " ".join(filter(None, (curve.more, *said, _say_small(curve, recipe, known))))
    return Penalty(curve.name, curve.value, {one.name: 0.0 for one in others}, curve.short, more, curve)


class AskedOnce:
    """Parties whose summaries are asked for once, however many searches begin with them."""

    def __init__(self, parties: Parties):
        self.parties, self.folds = parties, parties.folds
        self.surveys, self.measure_held_out = parties.surveys, parties.measure_held_out
        self._summaries: list[Known] = []
        self._settled = False

    def summaries(self, known: Sequence[Sequence[Known]]) -> Known:
        """The parties' summaries."""
        if (done := len(known[0])) == len(self._summaries):
            self._summaries.append(self.parties.summaries(known))
        return self._summaries[done]

    def settle(self, known: Sequence[Sequence[Known]]) -> None:
        """Tell parties, unless they were told before."""
        if not self._settled:
            self.parties.settle(known)
        self._settled = True


def _say_small(curve: Curve, recipe: TableRecipe, known: Sequence[Known]) -> str:
    """A warning that the rule may choose too large a penalty where rows are few; else empty."""
    rows = int(recipe.counts(known).sum())
    if curve.best == curve.chosen or rows >= SMALL:
        return ""
    return f"With only {rows} rows that may be too large: --choose best takes the least."


def why_not_chosen(recipe: TableRecipe, known: Sequence[Known]) -> str:
    """What keeps held-out rows from choosing; empty if nothing does. Many problems at once share no working columns."""
    return why_no_curvature(recipe.problem(known, "elsewhere"), of_all=True)


def default_penalty(recipe: TableRecipe, known: Sequence[Known], why: str) -> Penalty:
    """The default penalty, where neither a person nor held-out rows have chosen one."""
    name, rows = recipe.penalties[0], int(recipe.counts(known).sum())
    defaults = GOALS[recipe.goal].defaults(rows)
    others: Json = {key: recipe.options.get(key, defaults[key]) for key in _beside(name, defaults)}
    text = f"{name} = {defaults[name]:.4g}, a default that was not chosen by held-out rows: {why}."
    return Penalty(name, defaults[name], others, text)


def _beside(name: str, options: Json) -> list[str]:
    """The other penalties that a goal has."""
    return [key for key in PENALTIES if key in options and key != name]


def range_of_path(recipe: TableRecipe, known: Sequence[Known]) -> tuple[float, float] | None:
    """The least and the largest value that are tried; None where what all parties know does not tell them.

    Of mean losses of classes it does: at no weights and the best constant the slope is that of the sums of each class.
    """
    sums: Known = {name: value for own in recipe.own_known(known) for name, value in own.items()}
    if (
        GOALS[recipe.goal].structure is not MEAN
        or "class_rows" not in sums
        or recipe.penalties != ("l1",)
        or recipe.groups_curves
    ):
        return None
    masses, rows = np.asarray(sums["class_mass"]), np.asarray(sums["class_rows"])
    slope = np.abs(rows - np.outer(masses / masses.sum(), rows.sum(axis=0))) / masses.sum()
    most = np.max(slope)
    if most <= UNRELATED * np.max(np.abs(rows)) / masses.sum():
        return None  # no feature tells anything: there is one value
    return float(share_of(float(recipe.counts(known).sum()), rows.shape[1]) * most), float(most)


def given_penalty(recipe: TableRecipe, known: Sequence[Known]) -> Penalty:
    """The penalty that was given, or that a goal has which cannot choose."""
    name = GOALS[recipe.goal].structure.penalties[0]
    options = recipe.settings(known)
    others = {key: float(options[key]) for key in _beside(name, options)}
    how = "as given" if name in recipe.options else "the default of the goal"
    told = "l1 = l2 = 0, as asked for" if recipe.is_unpenalized else f"{name} = {options[name]:.4g}, {how}"
    return Penalty(name, float(options[name]), others, f"{told}.")


def chosen_known(plain: Json) -> Known:
    """A choice, from what `Penalty.plain` gave, as all parties know it."""
    values = {plain["name"]: plain["value"]} | {key: plain[key] for key in _beside(plain["name"], plain)}
    return {CHOSEN + name: np.asarray(float(value)) for name, value in values.items()}


def told_penalty(recipe: TableRecipe, known: Sequence[Known], file: Path) -> Json:
    """How the penalty of a run came about, as JSON has it. file: where a choice was kept."""
    if not recipe.penalties:
        return given_penalty(recipe, known).plain()
    penalty: Json = json.loads(file.read_text())
    return penalty

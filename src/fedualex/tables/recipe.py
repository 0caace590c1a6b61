"""A goal for tables that nobody has seen: from each party's columns to a problem, and from its solution to a model."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Reals, Values
from ..data import Coding, Encoder, Standardizer, Table
from ..data.columns import complete_rows, is_text, name_rows, plain_column, refuse_odd_cells, refuse_twins
from ..data.curves import FEWEST_IN_BIN
from ..data.differences import find_differences
from ..data.encoder import CATEGORIES, DROP, MEAN, PLAIN, known_holes
from ..data.moments import LEAST_SPREAD
from ..data.stored import STRETCH, StoredTable, room_for
from ..models import Answers, Model
from ..models.model import exposures, standardized_answers
from ..problems import AbstractRecipe, Problem
from ..problems.families import Family
from ..problems.readings import Reading
from ..problems.rows import Data, Rows, class_column, label_column
from ..problems.stored import FileRows, slices
from ..runs.settings import ConfigurationError
from ..storage import Json
from ..summaries import Known, Summary, merge_summaries
from ..validation import hint, row_weights, short
from .goals import (
    AUTO,
    COX,
    GOALS,
    HAZARD,
    LIMITED_CLASS,
    LIMITED_HAZARD,
    LIMITED_ONES,
    MEAN as MEAN_LOSS,
    OPTIONS,
    PAIRS,
    TIMED,
    UNPENALIZED,
    WORST,
    WORST_HAZARD,
    Goal,
    Selection,
    arguments_of,
    check_labels,
    check_target,
    check_time,
    complete_options,
    is_unpenalized,
    names_of,
    penalties_to_choose,
)
from .limits import check_limited, describe_limits, limited_labels
from .weights import are_merged, weighs_clients, with_held_weights, with_limited_weights

GROUPS, ROWS_OF_GROUPS, OWN_ROWS = "groups", "rows of groups", "own rows"
"""What is known of groups before the recipe of the catalogue: their names and rows, or the rows of each party."""
TARGET = "target "
"""Before the names of what is said of the target."""
CLASSES_OF_TARGET = TARGET + "classes"
PARTS = "rows of parts"
"""How many rows each part of `TableRecipe.parts` has."""
ROWS, DROPPED = "rows", "dropped"
CHOSEN = "chosen "
"""Before the name of an option whose value held-out rows have chosen."""


@dataclass(frozen=True, eq=False)
class TableRecipe:
    """A problem of the catalogue for tables with the same columns at all parties, and the model that comes of it.

    goal, options: one of GOALS, and what was chosen of its options. target, groups, weights, exposure: names of
    columns, of a target perhaps several; of weights numbers >= 0, in proportion to which rows count; of the exposure
    numbers > 0, over which the target counts.
    smooth: whether theory chooses step sizes, for which parties tell how fast their operators change.
    selection: how the penalty is chosen where it is AUTO.
    coding: how columns become features. id: the column that names rows, which is no feature. least_rows: groups of
    fewer rows are one group together, where a goal serves the worst one.
    The exchanges are those of the encoder, in which the target's classes or moments travel as well, those of the
    goal's own recipe, and one for smoothness. What has been chosen since is the last that all parties know. No method
    but `summarize_columns`, `rows` and `labels` sees a row.
    """

    goal: str
    target: str | tuple[str, ...]
    groups: str | None = None
    weights: str | None = None
    exposure: str | None = None
    options: Json = field(default_factory=dict)
    smooth: bool = False
    selection: Selection = field(default_factory=Selection)
    coding: Coding = PLAIN
    id: str | None = None
    least_rows: int = 0

    @property
    def exchanges(self) -> int:
        """How many summaries each party sends."""
        return Encoder.exchanges + self._goal.structure.recipe.exchanges + self.smooth

    @property
    def penalties(self) -> tuple[str, ...]:
        """The penalties that held-out rows choose, of two the better one alone; none if nothing is to be chosen."""
        return penalties_to_choose(self.goal, self.options)

    def with_penalty(self, name: str) -> "TableRecipe":
        """The recipe in which only this one of the penalties is chosen."""
        others = {key: 0.0 for key in self.penalties if key != name}
        return replace(self, options={**self.options, **others, name: AUTO})

    @property
    def is_unpenalized(self) -> bool:
        """Whether the mean loss alone is minimized."""
        return self._goal.structure in UNPENALIZED and is_unpenalized(self.options)

    @property
    def ordinary(self) -> "TableRecipe | None":
        """The mean loss of the same rows; None where the goal is ordinary itself, or has no such model."""
        if self._goal.structure not in (WORST, LIMITED_CLASS, *LIMITED_ONES, PAIRS, WORST_HAZARD):
            return None
        if self.reading.timed:
            return replace(self, goal=COX, groups=None, options={}, least_rows=0)
        family = self._goal.family or "logistic"
        name = next(name for name, goal in GOALS.items() if goal.structure is MEAN_LOSS and goal.family == family)
        return replace(self, goal=name, groups=None, options={}, least_rows=0)

    @property
    def _goal(self) -> Goal:
        return GOALS[self.goal]

    def counts(self, known: Sequence[Known]) -> Reals:
        """How many rows each party trains on."""
        return known[Encoder.exchanges]["rows"]

    @property
    def reading(self) -> Reading:
        """What the scores mean."""
        return self._goal.reading

    @property
    def limits_classes(self) -> bool:
        """Whether the goal limits the loss of a class."""
        return self._goal.structure is LIMITED_CLASS

    @property
    def weighs(self) -> tuple[bool, float | None]:
        """Whether rows have groups, and which share of the worst was asked for: what `words_of_weights` wants."""
        return self.groups is not None, self.options.get("cvar")

    @property
    def limits_by_name(self) -> Mapping[str, float]:
        """The limits of the losses of groups, by their names; none for other goals."""
        return self.options["limit"] if self._goal.structure in LIMITED_ONES else {}

    def why_infeasible(self, proof: str) -> str:
        """That no model meets the limits, which those are, and the sentence of the run that proved it."""
        return f"there is no model: {proof}; {self.words_of_limits}"

    @property
    def words_of_limits(self) -> str:
        """Which losses of groups are limited, in a sentence."""
        return describe_limits(str(self.groups), self.limits_by_name, self.reading.timed)

    @property
    def weighs_parties(self) -> bool:
        """Whether the dual variable weighs the parties, as where they are the groups of a worst-case loss."""
        return weighs_clients(self.goal, self.groups is not None)

    def summarize_columns(self, table: Table, known: Sequence[Known], fewest: int = FEWEST_IN_BIN) -> Summary:
        """At one party: what its columns and its target hold, in the first exchanges, before there are features.

        fewest: rows of a bin of its histograms at least.
        """
        labels, weight = self.labels(table), self._row_weights(table)
        columns = Encoder.summarize(self._features(table), known, weight, self.coding, fewest)
        if not known:
            columns = _with(columns, sums={ROWS: np.asarray(float(len(labels)))})
            if self.coding.missing == DROP:
                columns = _with(columns, each={DROPPED: np.asarray(float(table.dropped))})
        columns = self._summarize_groups(columns, table, known)
        if len(known) == 1:
            columns = _with(columns, sums={PARTS: self.parts(table, known).sum(axis=1).astype(float)})
        if self.reading.standardized and len(known) < Standardizer.exchanges:
            moments = Standardizer.summarize(labels.reshape(len(labels), -1), _target_known(known), weight)
            return _with(columns, sums={TARGET + name: value for name, value in moments.sums.items()})
        if known or not self.reading.labelled:
            return columns
        return _with(columns, labels={CLASSES_OF_TARGET: np.unique(labels)})

    def parts(self, table: Table, known: Sequence[Known]) -> NDArray[np.bool_]:
        """At one party: which rows are of each part of the target whose sums can be told apart, (parts, rows).

        Classes; of times the rows with an event; of each target of numbers those that differ from the most frequent
        one, to which all others add the same. A row without weight is in none.
        """
        labels, weight = self.labels(table), self._row_weights(table)
        if self.reading.labelled:
            members = labels == known[0][CLASSES_OF_TARGET][:, None]
        elif self.reading.timed:
            members = labels[None, :, 1] == 1
        else:
            members = np.stack([column != _most_frequent(column) for column in labels.reshape(table.rows, -1).T])
        return np.asarray(members if weight is None else members & (weight > 0))

    def _summarize_groups(self, columns: Summary, table: Table, known: Sequence[Known]) -> Summary:
        if not self.least_rows and not self.limits_by_name:
            return columns
        if self.weighs_parties:
            return columns if known else _with(columns, each={OWN_ROWS: np.asarray(float(table.rows))})
        group = label_column("groups", table[str(self.groups)], table.rows)
        if not known:
            return _with(columns, labels={GROUPS: np.unique(group)})
        if len(known) > 1:
            return columns
        counts = np.sum(group == known[0][GROUPS][:, None], axis=1)
        return _with(columns, sums={ROWS_OF_GROUPS: counts.astype(float)})

    def merged_groups(self, known: Sequence[Known]) -> Values:
        """The names of the groups, or the numbers of the parties, that are one group together."""
        if not self.least_rows or self.limits_by_name or len(known) < Encoder.exchanges:
            return np.zeros(0, int)
        if self.weighs_parties:
            return np.flatnonzero(are_merged(known[0][OWN_ROWS], self.least_rows))
        return known[0][GROUPS][are_merged(known[1][ROWS_OF_GROUPS], self.least_rows)]

    def check_known(self, known: Sequence[Known]) -> None:
        """Refuse, once all parties have told of their groups, limits of groups that are none."""
        if self.limits_by_name and len(known) == Encoder.exchanges:
            told = known[0][GROUPS], known[1][ROWS_OF_GROUPS]
            check_limited(str(self.groups), self.limits_by_name, *told, self.least_rows)

    def shares_of_parties(self, known: Sequence[Known], shares: Reals) -> Reals:
        """What each party counts with, from what each group does; those that are one group share alike."""
        parties = self.counts(known).size
        merged = np.isin(np.arange(parties), self.merged_groups(known))
        if not merged.any():
            return shares
        whole = np.empty((len(shares), parties))
        whole[:, merged], whole[:, ~merged] = shares[:, :1] / merged.sum(), shares[:, 1:]
        return whole

    def recipe(self, known: Sequence[Known]) -> AbstractRecipe:
        """The recipe of the catalogue, once it is known which classes there are."""
        arguments = arguments_of(self._goal.with_numbers(self._options(known), self._count(known)))
        if self.weighs_parties and len(known) > Encoder.exchanges:  # before that no summary depends on it
            arguments = with_limited_weights(arguments, self.counts(known), self.merged_groups(known))
        grouped: Json = {"grouped": True} if self.groups is not None else {}
        if grouped and self._goal.structure is WORST:
            arguments = with_held_weights(arguments)
        if self.weighs_parties:
            grouped["merged"] = tuple(self.merged_groups(known).tolist())
        if arguments.get("l1") and self.groups_curves:
            together = tuple(self.encoder(known).together.tolist())
            arguments = {**arguments, "l1": 0.0, "group": arguments["l1"], "groups": together}
        return self._goal.make_recipe({**arguments, **grouped})

    @property
    def groups_curves(self) -> bool:
        """Whether l1 is of the norm of all columns of a curve, so that they vanish together."""
        return bool(self.coding.smooth) and self._goal.structure in (MEAN_LOSS, HAZARD, WORST_HAZARD, LIMITED_HAZARD)

    def settings(self, known: Sequence[Known]) -> Json:
        """Goal, columns and every option with its value, as a run folder keeps them for `read_recipe`."""
        options = self._options(known)
        target = self.target if isinstance(self.target, str) else list(self.target)
        told: Json = {"goal": self.goal, "target": target, "groups": self.groups, "weights": self.weights}
        told |= {"exposure": self.exposure, "id": self.id, "least_rows": self.least_rows}
        chosen = asdict(self.selection) if self.penalties else {}
        return {**told, **plain_coding(self.coding), **options, **chosen}

    def _options(self, known: Sequence[Known]) -> Json:
        """All options; those that have been chosen have their values."""
        options = complete_options(self.goal, self.options, self._classes(known), self._count(known))
        chosen = known[self.exchanges] if len(known) > self.exchanges else {}
        return options | {name.removeprefix(CHOSEN): float(value) for name, value in chosen.items()}

    def own_known(self, known: Sequence[Known]) -> Sequence[Known]:
        """What the goal's own recipe knows."""
        return known[Encoder.exchanges : self.exchanges]

    def _classes(self, known: Sequence[Known]) -> Values:
        """The labels of all parties, checked; none of a target that has no labels."""
        if not self.reading.labelled:
            return np.zeros(0)
        classes = known[0][CLASSES_OF_TARGET]
        check_target(self.goal, str(self.target), classes)
        return classes

    def _count(self, known: Sequence[Known]) -> int:
        return round(float(known[0][ROWS]))  # of a sum under masks, which is near a whole number

    def rows(self, table: Table, known: Sequence[Known]) -> Rows:
        """At one party: its rows as the catalogue takes them."""
        X, labels, weight = self._encode(table, known), self.labels(table), self._row_weights(table)
        group = None if self.groups is None else label_column("groups", table[self.groups], len(X))
        if group is not None and self.limits_by_name:
            group = limited_labels(group, self.limits_by_name)
        if group is not None and len(merged := self.merged_groups(known)):
            group = np.where(np.isin(group, merged), self.merged_name, group.astype(str))
        if self.reading.standardized:
            numbers = self.scale(known).transform(labels.reshape(len(X), -1)).reshape(labels.shape)
            return Rows(X, numbers, weight, group)
        y: NDArray[Any] = class_column(labels, len(X)) if self.reading.labelled else np.asarray(labels, float)
        if self.exposure is not None:  # a rate that weighs what its count is over (`Poisson`)
            over = exposures(table, self.exposure)
            y = y / over
            weight = over if weight is None else over * weight
        return Rows(X, y, weight, y if self.limits_classes else group)

    def _encode(self, table: Table, known: Sequence[Known]) -> Any:
        """The features of a table; block by block if it is stored in a file."""
        encoder, features = self.encoder(known), self._features(table)
        if not isinstance(features, StoredTable):
            return encoder.transform(features)
        size = len(encoder.features)
        room_for(8 * size * features.rows)
        return FileRows((encoder.transform(features.take(part)) for part in slices(features.rows, STRETCH)), size)

    def problem(self, known: Sequence[Known], data: Data) -> Problem:
        """Anywhere: the problem with the examples of all parties, of one of them, or with data "elsewhere"."""
        return self.recipe(known).problem(self.own_known(known), data)

    def party_weights(self, known: Sequence[Known]) -> Reals:
        """The weight of each party in the objective."""
        return self.recipe(known).client_weights(self.own_known(known))

    def encoder(self, known: Sequence[Known]) -> Encoder:
        """The encoder that takes columns to features."""
        return Encoder.from_known(known[: Encoder.exchanges], self.coding)

    def scale(self, known: Sequence[Known]) -> Standardizer:
        """The center and the scale of a target of numbers."""
        scale = Standardizer.from_known(_target_known(known[: Standardizer.exchanges]))
        if not np.all(np.isfinite(scale.mean + scale.deviation)):
            raise ValueError(
                f"the target {self.target!r} must have a variance that float64 can hold: divide it by its size"
            )
        return scale

    def model(self, known: Sequence[Known], x: Mapping[str, Reals], **about: Any) -> Model:
        """The model of a solution x. about: what `Model` keeps beside, as its certificate."""
        recipe = self.recipe(known)
        bias = recipe.bias(self.own_known(known), x)
        told = (np.asarray(x["weights"]), bias, self.answers(known), self.target)
        return Model(self.encoder(known), *told, exposure=self.exposure, **about)

    @property
    def merged_name(self) -> str:
        """The name of the group into which groups of few rows are merged."""
        return f"groups of fewer than {self.least_rows} rows"

    def rows_in_units(self, known: Sequence[Known]) -> float:
        """The rows of all parties, or what they count over: the factor from a mean loss to the loss of all rows."""
        if self.exposure is None or self.weights is not None or self._goal.structure is not MEAN_LOSS:
            return float(self.counts(known).sum())
        return float(known[Encoder.exchanges]["mass"].sum())

    def family(self, known: Sequence[Known]) -> Family:
        """The losses of rows, for goals whose structure leaves that open."""
        return self._goal.family_of(self.own_known(known))

    def answers(self, known: Sequence[Known]) -> Answers:
        """How a model of these tables answers."""
        if not self.reading.standardized:
            return Answers(self.reading, known[0].get(CLASSES_OF_TARGET, np.zeros(0)))
        return standardized_answers(self.reading, self.scale(known), not isinstance(self.target, str))

    @property
    def beside(self) -> tuple[str, ...]:
        """The columns that are no features."""
        others = (self.groups, self.weights, self.exposure, self.id)
        return (*names_of(self.target), *dict.fromkeys(name for name in others if name is not None))

    def check_columns(self, table: Table, owners: Sequence[Any] | None = None) -> None:
        """At whoever has a whole table: refuse it by column, row and value. owners: whose each row is, by name."""
        features, coding = self._features(table), self.coding
        both = tuple(name for pair in coding.interact for name in pair)
        named = {"categories": coding.categories, "reference": coding.reference}
        for key, names in {**named, "smooth": coding.smooth, "interact": both}.items():
            for name in names:
                if name in self.beside:
                    raise ConfigurationError(f"{key} must name features, got {name!r}")
                if name not in features:
                    raise ConfigurationError(f"{key}: {table.source} has no column {name!r}; {hint(name, features)}")
        with name_rows(table, self.id, owners):
            refuse_odd_cells(features, coding.categories)
            for name in coding.smooth:
                if name in coding.categories:
                    raise ConfigurationError(f"smooth: the column {name!r} is one of categories, and has no curve")
                column = plain_column(name, features[name])
                if is_text(column) and np.any(column != ""):
                    word = short(str(column[np.argmax(column != "")]))
                    raise ConfigurationError(f"smooth: the column {name!r} must hold numbers, got text such as {word}")
            if self.reading.timed:
                for kind, name in zip(TIMED, names_of(self.target), strict=True):
                    check_time(kind, name, table[name])
            if self.exposure is not None:
                exposures(table, self.exposure)
        if self.groups is not None:
            refuse_twins(f"the column {self.groups!r}", np.unique(table[self.groups]).tolist())

    def used_rows(self, table: Table) -> NDArray[np.bool_]:
        """At one party: the rows that take part, which are all unless those with holes are left out."""
        return complete_rows(self._features(table)) if self.coding.missing == DROP else np.ones(table.rows, bool)

    def find_differences(self, table: Table, own: Sequence[Summary], known: Sequence[Known]) -> dict[str, list[str]]:
        """At one party: its features that differ from those of all others, by kind. own: its summaries of columns."""
        features = self._features(table)
        return find_differences(features, own, known[: Encoder.exchanges], self.coding, self._row_weights(table))

    def describe_columns(self, known: Sequence[Known], parties: Sequence[str]) -> list[str]:
        """What was done with the columns and with missing values, in sentences."""
        encoder = self.encoder(known)
        compared = [f"{name} with {level}" for name, level in encoder.references.items() if level]
        said = [f"Coefficients of categories compare with a reference: {', '.join(compared)}."] if compared else []
        said += [f"Columns of numbers that are categories: {', '.join(encoder.codes)}."] if encoder.codes else []
        said += self._describe_holes(known)
        if self.coding.missing == DROP:
            counts = zip(parties, known[0][DROPPED].tolist(), strict=True)
            lost = ", ".join(f"{name} {count:.0f}" for name, count in counts if count)
            said.append(f"Rows with missing values were left out: {lost or 'none'}.")
        said += [f"Columns whose effects may bend, at {_knots_of(encoder)}."] if encoder.curves else []
        if encoder.standardizer is not None:
            still = [n for n, d in zip(encoder.numbers, encoder.standardizer.deviation, strict=True) if d == 0]
            if still:
                small = f"not at all, or by less than {LEAST_SPREAD:g} of their size"
                said.append(f"Columns without a coefficient, which vary {small}: {', '.join(still)}.")
        out = [f"{name} ({what})" for name, what in encoder.left_out.items()]
        return [*said, *([f"Columns of text that take no part: {', '.join(out)}."] if out else [])]

    def _describe_holes(self, known: Sequence[Known]) -> list[str]:
        """Which columns miss values, in how many rows, and what that means for effects."""
        gone, indicators = known_holes(known, self.coding), self.encoder(known).indicators
        if not gone:
            return []
        empty = dict(zip(known[0]["columns"].tolist(), known[0]["empty"].tolist(), strict=True))
        shares = {name: "" if self.weights else f" {_percent(empty[name] / self._count(known))}" for name in gone}
        text = "Missing values count as the mean of their column: "
        text += ", ".join(name + share for name, share in shares.items()) + ("" if self.weights else " of rows")
        where = ", ".join(f"'{', '.join(group)} missing'" for group in indicators)
        text += f"; columns say where: {where}" if where else ""
        return [f"{text}. Intervals of effects take these means for data, and are too narrow where many values miss."]

    def _features(self, table: Table) -> Table:
        return table.without(*self.beside)

    def _row_weights(self, table: Table) -> Reals | None:
        if self.weights is None:
            return None
        column = table[self.weights]
        if column.dtype.kind in "iuf" and not column.any():  # rows of another party may count
            return np.zeros(table.rows)
        return row_weights(column, table.rows, f"the column {self.weights!r}")

    def labels(self, table: Table) -> Values:
        """At one party: its target, checked."""
        for name in names_of(self.target):
            check_labels(self.goal, name, table[name])
        return table.pick(self.target)

    @property
    def has_kinds(self) -> bool:
        """Whether the same share of each of `kinds` is held out."""
        return self.reading.labelled or self.reading.timed

    def kinds(self, table: Table) -> Values:
        """At one party: the labels by which rows are held out; of times whether the event happened."""
        labels = self.labels(table)
        return np.asarray(labels[:, 1]) if self.reading.timed else labels


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.01 else "<1%"


def merge_named(parts: Mapping[str, Summary]) -> dict[str, Values]:
    """The summaries of all parties as one. What does not fit together is refused by who has it."""
    merged = merge_summaries(parts.values())
    for i, column in enumerate(merged["columns"].tolist() if "columns" in merged else ()):
        texts = [name for name, one in parts.items() if one.largest["text"][i] == 2]
        numbers = [name for name, one in parts.items() if one.largest["number"][i] == 1]
        if texts and numbers:
            both = f"text at {_some(texts)} and numbers at {_some(numbers)}"
            raise ConfigurationError(
                f"the column {column!r} must hold text at all clients or numbers at all, got {both}"
            )
    for label in next(iter(parts.values())).labels:
        own = {name: set(np.asarray(one.labels[label]).tolist()) for name, one in parts.items()}
        named = f"the column {label.removeprefix(CATEGORIES)!r}" if label.startswith(CATEGORIES) else label
        if label != "columns":
            refuse_twins("the target" if label == CLASSES_OF_TARGET else named, merged[label].tolist(), own)
    return merged


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def plain_coding(coding: Coding) -> Json:
    """How columns are coded, as files keep it."""
    told = {"categories": list(coding.categories), "reference": dict(coding.reference), "missing": coding.missing}
    return {**told, "smooth": list(coding.smooth), "interact": list(map(list, coding.interact))}


def _knots_of(encoder: Encoder) -> str:
    """The knots of every curve, by column."""
    each = ((name, ", ".join(f"{knot:.4g}" for knot in encoder.knots(name).tolist())) for name in encoder.curves)
    return "; ".join(f"the knots of {name}: {knots}" for name, knots in each)


def read_recipe(settings: Json, smooth: bool = False) -> TableRecipe:
    """The recipe of settings that a run folder or the folder of a deployment keeps. smooth: as of `TableRecipe`."""
    target = settings["target"] if isinstance(settings["target"], str) else tuple(settings["target"])
    options = {key: settings[key] for key in OPTIONS if settings.get(key) is not None}
    coding = Coding(
        tuple(settings.get("categories", ())),
        settings.get("reference", {}),
        settings.get("missing", MEAN),
        tuple(settings.get("smooth", ())),
        tuple((one, other) for one, other in settings.get("interact", ())),
    )
    selection = Selection(**{one.name: settings[one.name] for one in fields(Selection) if one.name in settings})
    beside = {"groups": settings["groups"], "weights": settings["weights"]}
    beside |= {"exposure": settings.get("exposure"), "id": settings.get("id")}
    beside |= {"least_rows": settings.get("least_rows", 0)}
    return TableRecipe(
        settings["goal"], target, options=options, smooth=smooth, selection=selection, coding=coding, **beside
    )


def _most_frequent(column: Values) -> Any:
    values, counts = np.unique(column, return_counts=True)
    return values[np.argmax(counts)]


def _with(columns: Summary, **parts: Mapping[str, Any]) -> Summary:
    """A summary with more in these parts of it."""
    return replace(columns, **{name: {**getattr(columns, name), **more} for name, more in parts.items()})


def _target_known(known: Sequence[Known]) -> list[Known]:
    """What is known of the moments of the target, by the names of `Standardizer`."""
    return [{name.removeprefix(TARGET): part[name] for name in part if name.startswith(TARGET)} for part in known]

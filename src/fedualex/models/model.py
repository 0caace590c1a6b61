"""A linear model of a table: what it was fitted to, how it answers, and what is certified about it."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..accepted import Columns
from ..arrays import Reals, Values
from ..data import Encoder, Standardizer
from ..data.columns import CellError, column_of_kind, named_columns, plain_column
from ..data.stored import StoredTable
from ..display import round_up
from ..inference.table import Effects
from ..problems.readings import Reading
from ..storage import Json
from ..validation import missing, short

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


@dataclass(frozen=True, eq=False)
class Answers:
    """How a model answers: what its scores mean, and the numbers that this takes.

    reading: what scores mean. labels: the classes in sorted order; none of numbers. threshold: of two classes, the
    score above which a row is of the second. center, scale: of standardized numbers, one of each for several targets.
    """

    reading: Reading
    labels: Values = field(default_factory=lambda: np.zeros(0))
    threshold: float = 0.0
    center: Reals | float = 0.0
    scale: Reals | float = 1.0

    def of(self, scores: Reals) -> Values:
        """The answer for each row."""
        return self.reading.predict(scores, self)

    def probabilities(self, scores: Reals) -> Reals:
        """One column for each class; refused where scores are none of a probability model."""
        return self.reading.probabilities(scores)


def standardized_answers(reading: Reading, scale: Standardizer, several: bool) -> Answers:
    """Numbers for targets that were standardized so; one number for each score if there are several targets."""
    center, size = scale.mean, np.where(scale.deviation > 0, scale.deviation, 1.0)
    if not several:
        center, size = center[0], size[0]
    return Answers(reading, center=center, scale=size)


def exposures(table: Columns, name: str) -> NDArray[np.float64]:
    """What the counts of a table's rows are over, checked."""
    if name not in table:
        raise ValueError(f"table must have the column {name!r}, the exposure; for rates, a column of ones")
    over = np.asarray(column_of_kind(name, plain_column(name, table[name]), text=False), float)
    if not np.all(fine := (over > 0) & np.isfinite(over)):
        row = int(np.argmin(fine))
        raise CellError(row, f"the column {name!r}, the exposure, must hold numbers > 0, got {over[row]:g}")
    return over


# Named coefficients of a linear model for rows as people have them.


class Coefficient(NamedTuple):
    """What one feature adds to the score, one number for each score of the model."""

    feature: str
    per_unit: NDArray[np.float64]
    """For one more of what the column holds; for a category, for being in it and not in the reference. Of a product of
    columns for one more of both, each less its mean; of a column of a curve as it is."""
    per_deviation: NDArray[np.float64]
    """For one standard deviation more; of a category and of an indicator of missing values the same as per_unit."""

    @property
    def size(self) -> float:
        """The largest |per_deviation|, by which features can be compared."""
        return float(np.max(np.abs(self.per_deviation)))


def list_coefficients(encoder: Encoder, weights: Reals) -> list[Coefficient]:
    """All coefficients, the largest first: w_j / deviation_j for a number, w_j for a category.

    Sizes that agree in nine digits, as those of two opposite categories do, are in the order of the features.
    """
    coefficients = []
    for name, w, deviation in zip(encoder.features, np.atleast_2d(weights.T).T, encoder.scales, strict=True):
        coefficients.append(Coefficient(name, w / deviation if deviation > 0 else 0 * w, w))
    return sorted(coefficients, key=lambda c: -float(f"{c.size:.8e}"))


def intercept(encoder: Encoder, weights: Reals, bias: Reals) -> Reals:
    """The score of a row of zeros that is in the reference of all categories."""
    return np.asarray(bias + encoder.origin @ weights)


@dataclass(frozen=True, eq=False)
class Model:
    """score(row) = <weights, encoded row> + bias, for tables with the columns that it was fitted to.

    encoder: from columns to features. weights: (features,), or (features, scores) where there are several scores.
    answers: what scores mean. target: the name of the column that is predicted, or of several, one for each score.
    exposure: the column of what counts are over, whose logarithm is added to the score; None if there is none.
    certificate: {"gap", "status", "meaning", ...} of the run that found it; gap None where nothing is certified.
    training: where it came from, as plain data: goal, settings, clients, rows, versions, metrics.
    """

    encoder: Encoder
    weights: Reals
    bias: Reals
    answers: Answers
    target: str | tuple[str, ...]
    certificate: Json = field(default_factory=dict)
    training: Json = field(default_factory=dict)
    exposure: str | None = None

    def __post_init__(self) -> None:
        features = len(self.encoder.features)
        if self.weights.shape[:1] != (features,) or self.weights.shape[1:] != np.shape(self.bias):
            shapes = f"{self.weights.shape} and {np.shape(self.bias)}"
            raise ValueError(f"weights and bias must fit {features} features, got the shapes {shapes}")
        if self.several and self.weights.shape[1:] != (len(self.target),):
            raise ValueError(f"weights must have a column for each of {self.target}, got shape {self.weights.shape}")
        if not np.all(np.isfinite(self.weights)) or not np.all(np.isfinite(self.bias)):
            raise ValueError("weights and bias must be finite")

    @property
    def several(self) -> bool:
        """Whether there are several targets with a score each, and not a time and an event with one."""
        return not isinstance(self.target, str) and not self.answers.reading.timed

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns that are predicted."""
        return (self.target,) if isinstance(self.target, str) else self.target

    def parts(self) -> list["Model"]:
        """The model of each target alone; of one target the model itself."""
        if not self.several:
            return [self]
        center, scale, _ = np.broadcast_arrays(self.answers.center, self.answers.scale, np.zeros(len(self.target)))
        parts = []
        for t, name in enumerate(self.target):
            answers = replace(self.answers, center=center[t], scale=scale[t])
            parts.append(replace(self, weights=self.weights[:, t], bias=self.bias[t], answers=answers, target=name))
        return parts

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        return (*self.encoder.numbers, *self.encoder.categories)

    @property
    def classes(self) -> Values:
        """The labels that can be predicted; none for numbers."""
        return self.answers.labels

    def decision_function(self, table: Columns) -> Reals:
        """The score of each row of a table; one column a class for more than two classes, one a target for several.

        table: a `fx.data.Table`, a data frame of pandas, polars or pyarrow, or any mapping from names to
        columns. Missing numbers, and missing and unseen categories, count as the mean of training.
        """
        table = named_columns(table)
        if not hasattr(table, "__getitem__") or not hasattr(table, "keys"):
            raise TypeError(f"table must map the names of columns to columns, got {short(table)}")
        parts = table.blocks() if isinstance(table, StoredTable) else [table]
        with np.errstate(over="ignore", invalid="ignore"):
            scores = np.concatenate([self.encoder.transform(part) @ self.weights + self.bias for part in parts])
        if self.exposure is not None:
            scores = scores + np.log(exposures(table, self.exposure))
        if not np.all(np.isfinite(scores)):
            row = int(np.argmin(np.isfinite(scores.reshape(len(scores), -1)).all(axis=1)))
            raise ValueError(f"table must have numbers whose scores float64 holds; that of row {row} is beyond it")
        return scores

    def predict(self, table: Columns) -> Values:
        """The class or the number of each row; one column for each of several targets."""
        return self.answers.of(self.decision_function(table))

    def predict_proba(self, table: Columns) -> Reals:
        """The probability of each class, one column each; refused for a ranking and for numbers."""
        return self.answers.probabilities(self.decision_function(table))

    @property
    def coefficients(self) -> list[Coefficient]:
        """What each feature adds to the answer, the largest first, for columns as they are; numbers in their units."""
        return list_coefficients(self.encoder, self.answers.scale * self.weights)

    @property
    def intercept(self) -> Reals:
        """The answer's part that no feature adds."""
        bias = np.asarray(self.answers.center + self.answers.scale * self.bias)
        return intercept(self.encoder, self.answers.scale * self.weights, bias)

    def unseen(self, table: Columns) -> dict[str, list[str]]:
        """Categories of a table that were not there in training, by column; they count as missing ones do."""
        table = named_columns(table)
        unseen: dict[str, list[str]] = {}
        for name, known in self.encoder.categories.items():
            if name not in table:
                continue  # `decision_function` says which columns are missing
            column = self.encoder.column(table, name, text=True)
            new = sorted(set(column.tolist()) - set(known) - {"", "nan", "None"})
            unseen |= {name: new} if new else {}
        return unseen

    def beyond(self, table: Columns) -> dict[str, tuple[int, float, float]]:
        """The columns that bend, each with how many rows of a table are beyond its outer knots, and these.

        There an effect is a straight line.
        """
        table = named_columns(table)
        beyond = {}
        for name in (name for name in self.encoder.curves if name in table):
            knots, column = self.encoder.knots(name), self.encoder.column(table, name, text=False)
            low, high = float(knots[0]), float(knots[-1])
            if count := int(np.sum((column < low) | (column > high))):
                beyond[name] = (count, low, high)
        return beyond

    def holes(self, table: Columns) -> dict[str, int]:
        """The columns of a table that miss values, each with how many."""
        table = named_columns(table)
        counts = {name: int(missing(table[name]).sum()) for name in self.columns if name in table}
        return {name: count for name, count in counts.items() if count}

    def curve(self, name: str, values: object) -> Reals:
        """What values of a column that bends add to the answer, against its middle knot."""
        rows = self.encoder.curve_at(name, np.asarray(values, float))
        return np.asarray(self.answers.scale * (rows @ self.weights))

    def calibrated(self) -> "Model":
        """The model whose scores lie on the line of calibration of the rows that were held out: other probabilities of
        two classes, the same predictions. A ValueError where no such line was kept.
        """
        held = (self.training.get("held_out") or {}).get("calibration") or {}
        line = held.get("overall") or {}
        if len(self.classes) != 2 or not line.get("slope"):
            why = line.get("sentence") or "a fit keeps it of two classes with probabilities and held-out rows"
            raise ValueError(f"this model has no line of calibration: {why}")
        slope, start = line["slope"][0], line["intercept"][0]
        if not slope > 0:
            raise ValueError(f"this model has no line of calibration that rises: its slope is {slope:.3g}")
        moved = replace(self.answers, threshold=slope * self.answers.threshold + start)
        return replace(self, weights=slope * self.weights, bias=slope * self.bias + start, answers=moved)

    def effects(self, errors: str | None = None) -> Json:
        """The table of effects that a fit has kept, as plain data; {"refused": why} where there is none.

        errors: their kind, such as "sandwich"; None is the one that is shown first.
        """
        kept: Json | None = self.training.get("effects")
        if kept is None:
            raise ValueError("this model has no table of effects: fit it again with this version")
        if errors is None or "refused" in kept or errors == kept["kind"]:
            return dict(kept)
        if errors not in kept["others"]:
            known = ", ".join([kept["kind"], *kept["others"]])
            raise ValueError(f"errors must be one of {known}, which this model has, got {errors!r}")
        about = {name: kept[name] for name in ("exchanges", "own_intercepts")}
        return {**kept["others"][errors], **about, "others": {}}

    def summary(self, errors: str | None = None) -> Effects:
        """The same table, which prints itself; a ValueError says why there is none."""
        kept = self.effects(errors)
        if "refused" in kept:
            raise ValueError(f"this model has no table of effects: {kept['refused']}")
        return Effects.read(kept)

    @property
    def adds_to(self) -> str:
        """What coefficients add up to, in words."""
        return self.answers.reading.adds_to(self.targets, self.answers, self.weights.ndim > 1)

    def to_sklearn(self) -> "Pipeline":
        """The same model as a pipeline of scikit-learn's own classes, which needs nothing of this library.

        It takes matrices or data frames with exactly `columns`, in their order.
        """
        from .sklearn import pipeline

        return pipeline(self)

    def __str__(self) -> str:
        used = sum(c.size > 0 for c in self.coefficients)
        gap = self.certificate.get("gap")
        claim = "not certified" if gap is None else f"certified within {round_up(gap, 3)} of the best objective"
        names = ", ".join(map(repr, self.targets))
        return f"{self.answers.reading.title} for {names}: {used} of {len(self.encoder.features)} features, {claim}"

    __repr__ = __str__

"""How good a model is on rows that it was not fitted to: sums over each party's rows, and what all of them say."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Reals, Values
from ..data import Table
from ..data.columns import CellError, column_of_kind, complete_rows, plain_column, refuse_twins
from ..data.encoder import DROP
from ..inference.measures import (
    LEAST_BIN,
    Interval,
    calibrate,
    calibration_curve,
    coarse,
    measure,
    merge_bins,
    roc_points,
    summarize_answers,
    summarize_calibration,
    summarize_counts,
    summarize_numbers,
    summarize_ranks,
    summarize_risks,
    summarize_times,
)
from ..inference.sums import Sums, add_up
from ..models import Model
from ..problems.families import Logistic, Poisson
from ..problems.readings import NEUTRAL, OF, SMALLER_IS_BETTER, MeanReading, Measured
from ..storage import Json
from ..validation import hint, missing
from .goals import LIMITED, TIMED, check_time

CONFIDENCE = 0.95
ALL = "all clients"

# At one party: sums over its rows, the same names and shapes whatever rows it has.


def sum_measures(model: Model, table: Table | None) -> Sums:
    """What a party's rows add to the measures of all; zeros for a party without rows that can be measured."""
    return _sum_measures(model, *_truth_and_scores(model, table))


def sum_calibration(model: Model, table: Table | None, beta: NDArray[Any], meat: bool) -> Sums:
    """What a party's rows add to the calibration of all, at (intercept, slope)."""
    return _sum_calibration(model, *_truth_and_scores(model, table), beta, meat)


def _sum_measures(model: Model, truth: NDArray[Any], scores: NDArray[Any]) -> Sums:
    if model.answers.reading.labelled:
        return _sum_classes(model, truth, scores)
    if model.answers.reading.timed:
        return summarize_times(truth[:, 0], truth[:, 1], scores)
    if not model.several:
        return _sum_numbers(model, truth, scores)
    parts = zip(model.parts(), truth.T, scores.T, strict=True)
    sums = {f"{part.target}/{name}": value for part, *own in parts for name, value in _sum_numbers(part, *own).items()}
    return sums | {"rows": np.asarray(float(len(truth)))}


def _sum_calibration(model: Model, truth: Any, scores: Reals, beta: Reals, meat: bool) -> Sums:
    if predicts_counts(model):
        return coarse(summarize_calibration(Poisson(), scores, np.asarray(truth, float), beta, meat))
    known = np.isin(truth, model.classes)
    sign = np.where(truth[known] == model.classes[1], 1.0, -1.0)
    return coarse(summarize_calibration(Logistic(), scores[known], sign, beta, meat))


def predicts_counts(model: Model) -> bool:
    """Whether the model predicts counts."""
    return isinstance(model.answers.reading, MeanReading) and model.answers.reading.family.counts


def predicts_risk(model: Model) -> bool:
    """Whether the model predicts the probability of one of two classes."""
    return model.answers.reading.has_probabilities and len(model.classes) == 2


def has_calibration(model: Model) -> bool:
    """Whether the predictions of the model can be calibrated."""
    return predicts_risk(model) or predicts_counts(model)


def _truth_and_scores(model: Model, table: Table | None) -> tuple[NDArray[Any], Reals]:
    if table is not None:
        return table.pick(model.target), model.decision_function(table)
    shape = np.shape(model.weights)[1:]
    if model.answers.reading.timed:
        return np.zeros((0, 2)), np.zeros(0)
    truth = model.classes[:0] if model.answers.reading.labelled else np.zeros((0, *shape))
    return truth, np.zeros((0, *shape))


def _sum_classes(model: Model, truth: NDArray[Any], scores: Reals) -> Sums:
    reading, answers = model.answers.reading, model.answers.of(scores)
    member = truth == model.classes[:, None]
    known = member.any(axis=0)
    # With one score s, those of the two classes are 0 and s.
    each = scores if scores.ndim > 1 else np.stack([np.zeros_like(scores), scores], axis=1)
    losses = np.logaddexp.reduce(each, axis=1) - np.sum(each * member.T, axis=1)
    sums = summarize_answers(answers == truth, np.where(known, losses, 0.0) if reading.has_probabilities else None)
    sums |= {"unknown": np.asarray(float(np.sum(~known))), "of_class": member.sum(axis=1).astype(float)}
    sums |= {"wrong_of_class": np.sum(member & (answers != truth), axis=1).astype(float)}
    if len(model.classes) != 2:
        return sums
    sums |= summarize_ranks(scores[known], member[1][known])
    if not predicts_risk(model):
        return sums
    return sums | merge_bins(summarize_risks(reading.probabilities(scores[known])[:, 1], member[1][known]))


def _sum_numbers(model: Model, truth: NDArray[Any], scores: Reals) -> Sums:
    answers, given = model.answers, np.asarray(truth, float)
    sums = summarize_numbers(given, np.asarray(answers.of(scores), float), float(answers.center), float(answers.scale))
    if not isinstance(answers.reading, MeanReading):
        return sums
    family = answers.reading.family
    losses = np.asarray(family.loss(scores, given))
    if predicts_counts(model):
        likelihood = np.asarray(family.log_likelihood(scores, given))
        return sums | summarize_counts(given, np.asarray(answers.of(scores)), 2 * losses, likelihood)
    return sums | {"loss_sum": np.asarray(losses.sum()), "loss_squares": np.asarray(np.sum(losses**2))}


# From the sums of some rows to their measures.


Intervals = dict[str, Interval | None]


def read_measures(model: Model, sums: Sums, by_class: bool = False, confidence: float = CONFIDENCE) -> Intervals:
    """Every measure by its name, with its interval; None where the rows do not define it.

    by_class: whether to add the errors of each class, which are the share of its rows that get another answer.
    """
    if not model.answers.reading.labelled:
        return _read_numbers(model, sums, confidence)
    measures = measure(sums, confidence)
    if sums["unknown"] >= 0.5 and "loss" in measures:  # a class that was not there in training
        measures["loss"] = None
    if len(model.classes) == 2:
        share = _share(sums["of_class"][1], sums["rows"], confidence)
        measures = {"positives": share, **measures}
    if by_class:
        parts = zip(model.classes.tolist(), sums["wrong_of_class"], sums["of_class"], strict=True)
        measures |= {f"errors{OF}{label}": _share(wrong, own, confidence) for label, wrong, own in parts}
    return measures


def _share(count: Any, rows: Any, confidence: float) -> Interval | None:
    return measure({"rows": rows, "right": count}, confidence)["accuracy"]


def _read_numbers(model: Model, sums: Sums, confidence: float) -> Intervals:
    if not model.several:
        return measure(sums, confidence, float(model.answers.scale))
    each: dict[str, Intervals] = {}
    for part in model.parts():
        own = {name.removeprefix(f"{part.target}/"): value for name, value in sums.items()}
        each[str(part.target)] = measure(own, confidence, float(part.answers.scale))
    r2 = [one.value for of_target in each.values() if (one := of_target["r2"]) is not None]
    mean = float(np.mean(r2)) if len(r2) == len(each) else None
    measures: Intervals = {"r2": None if mean is None else Interval(mean, np.nan, np.nan, np.nan)}
    for name, of_target in each.items():
        measures |= {f"{what}{OF}{name}": of_target[what] for what in ("r2", "mae")}
    return measures


@dataclass(frozen=True)
class Measures:
    """How a model fares on some rows: of all of them, and of each client by its name where that is known.

    sums: of each; by_class, confidence: as for `read_measures`. calibration: of all, and of each.
    """

    model: Model
    sums: Sums
    clients: Mapping[str, Sums]
    calibration: Mapping[str, Any] = field(default_factory=dict)
    by_class: bool = False
    confidence: float = CONFIDENCE
    dropped: int = 0
    """Rows with missing values that were not measured."""

    @property
    def values(self) -> dict[str, Measured]:
        """The numbers alone: of all clients, then of each."""
        parts = {ALL: self.sums, **self.clients}
        return {name: _values(sums, self._read(sums)) for name, sums in parts.items()}

    def columns(self) -> dict[str, list[Any]]:
        """The columns of a file: a row for all clients and one for each, with all measures and their intervals."""
        values, plain, told = self.values, self.plain(), dict[str, list[Any]]()
        ends = [plain["intervals"]["overall"], *(plain["intervals"]["clients"][name] for name in self.clients)]
        for name in values[ALL]:
            told[name] = [own.get(name) for own in values.values()]
            if ends[0].get(name) is not None:
                both = [own.get(name) or (None, None) for own in ends]
                told |= {f"{name} {end}": [one[k] for one in both] for k, end in enumerate(("lower", "upper"))}
        return {"client": list(values), **told}

    def plain(self) -> Json:
        """The measures as JSON data: values, intervals, and for probabilities calibration and curves."""
        whole, each = self._read(self.sums), {name: self._read(own) for name, own in self.clients.items()}
        told = {
            "rows": round(float(self.sums["rows"])),
            "overall": _values(self.sums, whole),
            "clients": {name: _values(self.clients[name], own) for name, own in each.items()},
            "confidence": self.confidence,
            "intervals": {"overall": _ends(whole), "clients": {name: _ends(own) for name, own in each.items()}},
        }
        if not has_calibration(self.model):
            return told
        if not predicts_risk(self.model):
            return told | {"calibration": dict(self.calibration)}
        curves = {
            "overall": self._curves(self.sums),
            "clients": {n: self._curves(own, LEAST_BIN) for n, own in self.clients.items()},
        }
        return told | {"calibration": dict(self.calibration), "curves": curves}

    def _read(self, sums: Sums) -> Intervals:
        return read_measures(self.model, sums, self.by_class, self.confidence)

    def _curves(self, sums: Sums, least: int = 1) -> Json:
        return {
            "bins": list(map(list, calibration_curve(sums, self.confidence, least))),
            "roc": list(map(list, roc_points(sums))),
        }


def _values(sums: Sums, measures: Intervals) -> Measured:
    values = {name: None if one is None else one.value for name, one in measures.items()}
    return {"rows": round(float(sums["rows"])), **values}


def _ends(measures: Intervals) -> dict[str, list[float]]:
    known = {name: one for name, one in measures.items() if one is not None and np.isfinite(one.lower + one.upper)}
    return {name: [one.lower, one.upper] for name, one in known.items()}


# All parties together.


Ask = Callable[[Reals, bool], Mapping[str, Reals]]


def measure_table(
    model: Model, table: Table, clients: Values, by_class: bool = False, confidence: float = CONFIDENCE
) -> Measures:
    """The measures of rows in this process. clients: whose row each is."""
    owned = {str(name): table.take(clients == name) for name in np.unique(clients)}
    parts = {name: _truth_and_scores(model, part) for name, part in owned.items()}
    sums = {name: _sum_measures(model, *part) for name, part in parts.items()}
    calibration = _calibrations(model, list(parts.values()), confidence)
    if calibration:
        calibration |= {"clients": {name: _calibrate(model, [part], confidence) for name, part in parts.items()}}
    return Measures(model, add_up(list(sums.values())), sums, calibration, by_class, confidence)


Scored = tuple[NDArray[Any], NDArray[Any]]
"""The truth of some rows, and their scores."""


def _calibrations(model: Model, parts: Sequence[Scored], confidence: float) -> dict[str, Any]:
    """The calibration of all parties together; empty for a model that cannot be calibrated."""
    return {"overall": _calibrate(model, parts, confidence), "clients": {}} if has_calibration(model) else {}


def _calibrate(model: Model, parts: Sequence[Scored], confidence: float) -> dict[str, Any]:
    return calibration_by(
        model, lambda beta, meat: add_up([_sum_calibration(model, *part, beta, meat) for part in parts]), confidence
    )


def calibration_by(model: Model, ask: Ask, confidence: float) -> Json:
    """Intercept and slope with their intervals, from sums that somebody is asked for, as JSON has it."""
    line = calibrate(ask, confidence, "sandwich" if predicts_counts(model) else "model-based")

    def ends(one: Interval | None) -> list[float] | None:
        return None if one is None else [one.value, one.lower, one.upper]

    return {"intercept": ends(line.intercept), "slope": ends(line.slope), "sentence": line.sentence}


def evaluate_model(model: Model, table: Table, clients: str | None, confidence: float = CONFIDENCE) -> Measures:
    """How a model fares on a table that it was not fitted to. clients: the column that says whose each row is.

    Rows with missing values are left out if they were left out in training.
    """
    for name in (*model.targets, *([] if clients is None else [clients])):
        if name not in table:
            raise ValueError(f"{table.source} has no column {name!r}; {hint(name, table)}")
        if gone := int(np.sum(there := missing(table[name]))):
            said = f"the column {name!r} must be known in every row, but it is missing in {gone}, first"
            raise CellError(int(np.argmax(there)), said)
    _check_truth(model, table)
    model.decision_function(table)  # refuses wrong cells while rows have the numbers of the file
    whole = {name: table[name] for name in model.columns}
    kept = complete_rows(whole) if model.encoder.missing == DROP else np.ones(table.rows, bool)
    if not kept.any():
        raise ValueError(f"every row of {table.source} misses a value, and such rows were left out in training")
    used, lost = table.take(kept), int((~kept).sum())
    owners = np.full(used.rows, "all rows") if clients is None else used[clients]
    refuse_twins("the column of clients", np.unique(owners).tolist())
    measures = measure_table(model, used, owners, LIMITED in _problem_of(model), confidence)
    if clients is None:
        measures = replace(measures, clients={}, calibration={**measures.calibration, "clients": {}})
    return replace(measures, dropped=lost)


def _problem_of(model: Model) -> Json:
    """The settings of the problem that a model was fitted to; empty if it keeps none."""
    problem: Json = model.training.get("configuration", {}).get("problem", {})
    return problem


def _check_truth(model: Model, table: Table) -> None:
    """Refuse a target that is not of the kind that the model predicts, by row and value."""
    timed = model.answers.reading.timed
    for kind, name in zip(TIMED, model.targets, strict=True) if timed else ():
        check_time(kind, name, table[name])
    for name in model.targets:
        column = table[name]
        if not model.answers.reading.labelled:
            column_of_kind(name, plain_column(name, column), text=False)
        elif np.any(odd := ~np.isin(column, model.classes)):
            row = int(np.argmax(odd))
            known = ", ".join(map(str, model.classes.tolist()))
            raise CellError(row, f"the target {name!r} must hold {known}, as in training, got {column[row].item()!r}")


def worst_client(name: str, clients: Mapping[str, Mapping[str, float | int | None]]) -> str | None:
    """The client of the worst value of a measure; None where no client has one, or it is neither good nor bad."""
    known = {client: value for client, values in clients.items() if (value := values.get(name)) is not None}
    if not known or name in NEUTRAL:
        return None
    return (max if name.partition(OF)[0] in SMALLER_IS_BETTER else min)(known, key=lambda client: known[client])


def worst(name: str, clients: Mapping[str, Mapping[str, float | int | None]]) -> float | None:
    """The worst value of a measure over the clients that have one; None for what is neither good nor bad."""
    client = worst_client(name, clients)
    return None if client is None else clients[client][name]

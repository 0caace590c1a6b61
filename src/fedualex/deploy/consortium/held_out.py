"""How a model fares on rows that sites held out, as sums over rows that masks can hide."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data import Table
from ...models import Model
from ...problems.readings import OF

Sums = Mapping[str, NDArray[Any]]


def sum_measures(model: Model, table: Table | None) -> dict[str, NDArray[Any]]:
    """A site's part; zeros of a site that has no rows for this, so that all sites send the same names and shapes."""
    if not model.answers.reading.labelled:
        return _sum_numbers(model, table)
    return _sum_classes(model, table)


def measures_of(model: Model, sums: Sums, by_class: bool) -> dict[str, Any] | None:
    """The measures of all rows together, by the names of `tables.measures`; None if no site had rows for this.

    An AUC is no sum over rows, so that there is none.
    """
    rows = round(float(sums["rows"]))
    if not rows:
        return None
    mean = {name: np.asarray(total) / rows for name, total in sums.items()}
    if not model.answers.reading.labelled:
        return {"rows": rows, **_numbers(model, mean)}
    found: dict[str, Any] = {"rows": rows, "accuracy": float(mean["correct"])}
    if len(model.classes) == 2:
        found |= {"positives": float(mean["of class"][1]), "auc": None}
    if model.answers.reading.has_probabilities:
        found["loss"] = None if sums["unknown"] >= 0.5 else float(mean["loss"])
    if by_class:
        parts = zip(model.classes.tolist(), mean["wrong of class"], mean["of class"], strict=True)
        found |= {f"errors{OF}{label}": float(wrong / own) if own > 0 else None for label, wrong, own in parts}
    return found


def _sum_numbers(model: Model, table: Table | None) -> dict[str, NDArray[Any]]:
    """Sums of errors, and of targets as the model scales them: those of raw ones would lose digits to their mean."""
    targets = 1 if isinstance(model.target, str) else len(model.target)
    if table is None:
        names = ("absolute", "squares", "truth", "truth squares")
        return {"rows": np.zeros(()), **{name: np.zeros(targets) for name in names}}
    truth = np.asarray(table.pick(model.target), float).reshape(table.rows, targets)
    apart = truth - np.asarray(model.answers.of(model.decision_function(table)), float).reshape(truth.shape)
    scaled = (truth - model.answers.center) / model.answers.scale
    each = {"absolute": np.abs(apart), "squares": apart**2, "truth": scaled, "truth squares": scaled**2}
    return {"rows": np.asarray(float(table.rows)), **{name: values.sum(axis=0) for name, values in each.items()}}


def _numbers(model: Model, mean: Sums) -> dict[str, Any]:
    spread = (mean["truth squares"] - mean["truth"] ** 2) * np.reshape(model.answers.scale, -1) ** 2
    errors = zip(mean["squares"].tolist(), spread.tolist(), strict=True)
    r2 = [1 - error / own if own > 0 else None for error, own in errors]
    if isinstance(model.target, str):
        return {"r2": r2[0], "mae": float(mean["absolute"][0]), "mse": float(mean["squares"][0])}
    known = [value for value in r2 if value is not None]
    found: dict[str, Any] = {"r2": float(np.mean(known)) if len(known) == len(r2) else None}
    for name, own, absolute in zip(model.target, r2, mean["absolute"].tolist(), strict=True):
        found |= {f"r2{OF}{name}": own, f"mae{OF}{name}": absolute}
    return found


def _sum_classes(model: Model, table: Table | None) -> dict[str, NDArray[Any]]:
    count = len(model.classes)
    if table is None:
        zeros = {name: np.zeros(()) for name in ("rows", "correct", "unknown", "loss")}
        return zeros | {"of class": np.zeros(count), "wrong of class": np.zeros(count)}
    truth, scores = table.pick(model.target), model.decision_function(table)
    right, member = model.answers.of(scores) == truth, truth == model.classes[:, None]
    known = member.any(axis=0)
    sums = {"rows": float(len(truth)), "correct": float(right.sum()), "unknown": float((~known).sum())}
    # With one score s, those of the two classes are 0 and s.
    each = scores if scores.ndim > 1 else np.stack([np.zeros_like(scores), scores], axis=1)
    loss = np.logaddexp.reduce(each, axis=1) - np.sum(each * member.T, axis=1)
    known = known & model.answers.reading.has_probabilities
    found = {name: np.asarray(total) for name, total in sums.items()} | {"loss": np.asarray(loss[known].sum())}
    return found | {"of class": member.sum(axis=1).astype(float), "wrong of class": (member & ~right).sum(axis=1) * 1.0}

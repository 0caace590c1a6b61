"""A rate of errors that is promised with confidence: a threshold from the scores of rows that parties hold out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Table
from ..display import rounded_up
from ..inference.rates import a_share, order_statistic, threshold
from ..inference.sums import UNIT
from ..models import Model
from ..runs.settings import ConfigurationError
from ..summaries import Known
from .recipe import TableRecipe


def check_rate(
    recipe: TableRecipe, known: Sequence[Known], held_out: Table | None, rate: float, confidence: float
) -> None:
    """Refuse a rate that cannot be promised, before anything is solved."""
    if not recipe.limits_classes:
        raise ConfigurationError(f"rate is for the goal neyman-pearson, got the goal {recipe.goal}")
    if held_out is None:
        raise ConfigurationError("rate takes held-out rows: give a holdout > 0")
    answers, limited = recipe.answers(known), recipe.settings(known)["limited"]
    rows = int(np.sum(_limited_rows(held_out[str(recipe.target)], answers.labels, limited)))
    order_statistic(rows, a_share("rate", rate), confidence, "holdout")


def calibrate_threshold(
    model: Model, held_out: Table, limited: str, rate: float, confidence: float
) -> tuple[Model, dict[str, Any]]:
    """The model with a threshold that keeps the rate of errors on the limited class, and what is promised.

    `threshold` of the scores of its held-out rows, as `NeymanPearsonClassifier(rate=)` has it.
    """
    rows = held_out.take(np.flatnonzero(_limited_rows(held_out[str(model.target)], model.classes, limited)))
    sign = 1 if str(model.classes[0]) == limited else -1  # rows of the first class are wrong above the threshold
    features = model.encoder.transform(rows)
    reach = np.abs(features) @ np.abs(model.weights) + np.abs(model.bias)
    slack = float(2 * (features.shape[1] + 8) * UNIT * np.max(reach))
    found = threshold(sign * model.decision_function(rows), rate, confidence, slack)
    sentence = (
        f"P(more than {rate:g} of {model.target} = {limited} is on the wrong side) <= {rounded_up(found.risk)}, from "
        f"{found.rows} rows of it that were held out: if these and further ones are independent and of one "
        "distribution. The threshold is chosen by them, so that their errors below are no test of it."
    )
    told = {"limited": limited, "rate": rate, "confidence": confidence, "risk": found.risk, "rows": found.rows}
    calibrated = replace(model, answers=replace(model.answers, threshold=sign * found.score))
    return calibrated, {**told, "threshold": sign * found.score, "sentence": sentence}


def _limited_rows(labels: NDArray[Any], classes: NDArray[Any], limited: str) -> NDArray[np.bool_]:
    (number,) = np.flatnonzero(np.asarray(classes, str) == limited)
    return np.asarray(labels == classes[number])

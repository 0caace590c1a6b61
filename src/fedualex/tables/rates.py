"""A rate of errors that is promised with confidence: a threshold from the scores of rows that parties hold out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..arrays import Reals, Values
from ..data import Table
from ..display import round_up
from ..inference.measures import THRESHOLDS
from ..inference.rates import a_share, order_statistic, threshold
from ..inference.sums import UNIT
from ..models import Model
from ..runs.settings import ConfigurationError
from ..storage import Json
from ..summaries import Known
from .goals import GOALS, LIMITED_CLASS
from .recipe import TableRecipe

GRID_SLACK = 1e-9
"""How far a score may be from that of the risk that was counted, as two computations of it differ."""


def check_rate(
    recipe: TableRecipe, known: Sequence[Known], held_out: Table | None, rate: float, confidence: float
) -> None:
    """Refuse a rate that cannot be promised, before anything is solved."""
    check_wanted_rate(recipe.goal, rate, 0.0 if held_out is None else 1.0)
    assert held_out is not None
    answers, limited = recipe.answers(known), recipe.settings(known)["limited"]
    rows = int(np.sum(_find_limited_rows(held_out[str(recipe.target)], answers.labels, limited)))
    order_statistic(rows, a_share("rate", rate), confidence, "holdout")


def check_wanted_rate(goal: str, rate: float, holdout: float) -> None:
    """Refuse a rate where no class is limited or no row is held out, whatever the rows are."""
    if GOALS[goal].structure is not LIMITED_CLASS:
        raise ConfigurationError(f"rate is for the goal neyman-pearson, got the goal {goal}")
    if not holdout > 0:
        raise ConfigurationError("rate takes held-out rows: give a holdout > 0")
    a_share("rate", rate)


def calibrate_threshold(
    model: Model, held_out: Table, limited: str, rate: float, confidence: float
) -> tuple[Model, Json]:
    """The model with a threshold that keeps the rate of errors on the limited class, and what is promised.

    `threshold` of the scores of its held-out rows, as `NeymanPearsonClassifier(rate=)` has it.
    """
    rows = held_out.take(np.flatnonzero(_find_limited_rows(held_out[str(model.target)], model.classes, limited)))
    sign = 1 if str(model.classes[0]) == limited else -1  # rows of the first class are wrong above the threshold
    features = model.encoder.transform(rows)
    reach = np.abs(features) @ np.abs(model.weights) + np.abs(model.bias)
    slack = float(2 * (features.shape[1] + 8) * UNIT * np.max(reach))
    cut = threshold(sign * model.decision_function(rows), rate, confidence, slack)
    return _with_threshold(model, sign * cut.score, cut.risk, cut.rows, limited, rate, confidence)


def threshold_from_counts(
    model: Model, sums: Mapping[str, Reals], limited: str, rate: float, confidence: float
) -> tuple[Model, Json]:
    """The same from counts of held-out rows by predicted risk, where no score of a row may be seen.

    sums: of `sum_measures` of all parties. The threshold is the first of the 101 risks that is not below the score
    which single rows would give: the rate is kept all the more.
    """
    first = str(model.classes[0]) == limited  # its rows are wrong from the threshold on, those of the other below it
    count = round(float(sums["classes"][0 if first else 1]))
    order, risk = order_statistic(count, rate, confidence, "holdout")
    reached = np.round(np.asarray(sums["reached_negative" if first else "reached_positive"]))
    able = np.flatnonzero(count - reached >= order if first else reached >= order)
    place = float(THRESHOLDS[able[0 if first else -1]]) if able.size else 1.0
    if not 0 < place < 1:
        share = "above .99" if first else "below .01"
        where = f"{share} where a threshold would be"
        raise ConfigurationError(f"the predicted risks of {model.target} = {limited} are {where}: give a larger rate")
    score = float(np.log(place / (1 - place)))
    slack = GRID_SLACK * (1 + abs(score))
    return _with_threshold(model, score + (slack if first else -slack), risk, count, limited, rate, confidence)


def _with_threshold(
    model: Model, score: float, risk: float, rows: int, limited: str, rate: float, confidence: float
) -> tuple[Model, Json]:
    sentence = (
        f"P(more than {rate:g} of {model.target} = {limited} is on the wrong side) <= {round_up(risk)}, from "
        f"{rows} rows of it that were held out: if these and further ones are independent and of one "
        "distribution. The threshold is chosen by them, so that their errors below are no test of it."
    )
    told = {"limited": limited, "rate": rate, "confidence": confidence, "risk": risk, "rows": rows}
    calibrated = replace(model, answers=replace(model.answers, threshold=score))
    return calibrated, {**told, "threshold": score, "sentence": sentence}


def _find_limited_rows(labels: Values, classes: Values, limited: str) -> NDArray[np.bool_]:
    (number,) = np.flatnonzero(np.asarray(classes, str) == limited)
    return np.asarray(labels == classes[number])

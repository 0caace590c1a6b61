"""What is said of a model wherever it is shown: what it predicts from what, and by which measure it is judged."""

from collections.abc import Mapping, Sequence

from ..problems.readings import NEUTRAL, OF
from .model import Model

NAMES = {"auc": "AUC", "c-index": "C-index", "r2": "R²", "mae": "mean absolute error", "mse": "mean squared error"}
MAIN, SERVED = ("auc", "c-index", "r2", "accuracy", "mae", "loss"), ("loss", "auc", "c-index", "mae", "r2", "accuracy")
"""The measure of the first sentence, and that by which clients are compared: the first of these that there is."""


def what_it_predicts(model: Model) -> str:
    """A sentence: what, and from how many rows of how many clients."""
    return f"This model {_predicts(model)}{_from_rows(model)}."


def _predicts(model: Model) -> str:
    labels, targets = [str(label) for label in model.classes.tolist()], " and ".join(model.targets)
    targets = f"the hazard of {model.targets[1]}" if model.answers.reading.timed else targets
    if len(labels) == 2:
        if model.answers.reading.has_probabilities:
            return f"predicts the probability that {targets} is {labels[1]}"
        return f"ranks rows by how likely {targets} is {labels[1]}"
    return f"predicts which of {len(labels)} classes {targets} is" if labels else f"predicts {targets}"


def _from_rows(model: Model) -> str:
    rows, clients = model.training.get("rows"), model.training.get("clients") or {}
    if rows is None:
        return ""
    return f", from {count_text(rows, 'row')}" + (f" of {count_text(len(clients), 'client')}" if clients else "")


def count_text(count: int, noun: str) -> str:
    """So many of them."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def first_measure(wanted: Sequence[str], values: Mapping[str, float | None]) -> str:
    """The first of these that has a value, or else any that is said of a model; "" if there is none."""
    known = [name for name, value in values.items() if value is not None and name not in NEUTRAL]
    return next((name for name in (*wanted, *known) if name in known), "")


def measure_name(measure: str) -> str:
    """As people read it."""
    name, of, rest = measure.partition(OF)
    return f"{NAMES.get(name, name)}{of}{rest}"

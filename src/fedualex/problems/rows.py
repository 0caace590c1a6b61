"""Tables of examples: checked rows, labels as numbers, whose row is whose, and bounds on what a model can be."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..regularizers import L1, AbstractRegularizer, GroupL2, L1Ball, L2Ball, SquaredL2
from ..validation import nonnegative, positive, real_array, short
from .data import objective_weights


def checked_matrix(name: str, values: Any) -> NDArray[Any]:
    """A nonempty real matrix with one row for each example."""
    array = real_array(name, values, "a real matrix")
    if array.ndim != 2:
        raise ValueError(f"{name} must be a matrix with one row for each example, got shape {array.shape}")
    return array


def checked_target(name: str, values: Any, rows: int) -> NDArray[Any]:
    """One real number for each row."""
    array = real_array(name, values, f"{rows} real numbers")
    if array.shape != (rows,):
        raise ValueError(f"{name} must hold {rows} numbers, one for each row of X, got an array of shape {array.shape}")
    return array


def checked_classes(y: Any, rows: int) -> tuple[int, NDArray[np.int32]]:
    """The number of classes, at least two, and each row's class as its number in sorted order."""
    classes, label = numbered("y", y, rows)
    if classes < 2:
        raise ValueError(f"y must hold at least two classes, but all its {rows} labels are alike")
    return classes, label


def numbered(name: str, values: Any, rows: int) -> tuple[int, NDArray[np.int32]]:
    """How many distinct labels there are, and the number of each row's label in sorted order."""
    try:
        array = np.asarray(values)
        _, number = np.unique(array, return_inverse=True)
    except (TypeError, ValueError):  # ragged, or not to be sorted
        raise TypeError(f"{name} must be {rows} labels that can be sorted, got {short(values)}") from None
    if array.shape != (rows,):
        raise ValueError(f"{name} must hold {rows} labels, one for each row of X, got an array of shape {array.shape}")
    if np.any(array != array):  # nan is the one label that differs from itself
        raise ValueError(f"{name} must not contain nan")
    return int(number.max()) + 1, number.astype(np.int32)  # the index type of both precisions


class Owners:
    """Whose row is whose: client numbers in sorted order of their ids, and the weight of each row in the objective.

    With weights "samples" all rows weigh alike, as if they were pooled; with "clients" all clients do.
    """

    def __init__(self, clients: Any, weights: Any, rows: int):
        self.count, self.client = (
            (1, np.zeros(rows, np.int32)) if clients is None else numbered("clients", clients, rows)
        )
        sizes = np.bincount(self.client, minlength=self.count)
        self.weights = objective_weights(weights, sizes)
        self.share: NDArray[Any] = (self.weights / sizes)[self.client]

    def split(self, **examples: NDArray[Any]) -> list[dict[str, NDArray[Any]]]:
        """The examples of each client."""
        return [{name: array[self.client == m] for name, array in examples.items()} for m in range(self.count)]

    def mean(self, values: NDArray[Any]) -> NDArray[Any]:
        """sum_i p_i values_i."""
        return np.asarray(np.tensordot(self.share, values, 1))


class Penalty:
    """l1 ||w||_1 + l2/2 ||w||^2 + group sum_g sqrt(d_g) ||w_g||_2, in a ball that holds every w of penalty <= budget.

    The ball is L1Ball(budget / l1), L2Ball(sqrt(2 budget / l2)) or, for groups, L2Ball(budget / group), the one of
    smaller radius; or L2Ball(radius) if a radius is given.
    """

    def __init__(self, budget: float, shape: tuple[int, ...], l1: Any, l2: Any, group: Any, groups: Any, radius: Any):
        l1, l2, group = nonnegative("l1", l1), nonnegative("l2", l2), nonnegative("group", group)
        if l1 > 0 and group > 0:
            raise ValueError("l1 and group cannot both be > 0: their sum has no closed form here")
        if (group > 0) != (groups is not None):
            raise ValueError("group > 0 and groups=, one label for each column of X, belong together")
        self.ball = _smallest_ball(budget, float(l1), float(l2), float(group), radius)
        norm: AbstractRegularizer | None = L1(l1) if l1 > 0 else None
        if group > 0:
            norm = _groups(group, groups, shape)
        bounded = self.ball if norm is None else norm + self.ball
        self.regularizer: AbstractRegularizer = bounded if l2 == 0 else bounded + SquaredL2(l2)

    def largest(self, direction: NDArray[Any]) -> float:
        """max |<w, direction>| over the ball."""
        order = np.inf if isinstance(self.ball, L1Ball) else 2
        return float(self.ball.radius * np.linalg.norm(np.ravel(direction), order))


def _smallest_ball(budget: float, l1: float, l2: float, group: float, radius: Any) -> L1Ball | L2Ball:
    if radius is not None:
        return L2Ball(positive("radius", radius))
    balls: list[L1Ball | L2Ball] = [L1Ball(budget / l1)] if l1 > 0 else []
    balls += [L2Ball(np.sqrt(2 * budget / l2))] if l2 > 0 else []
    balls += [L2Ball(budget / group)] if group > 0 else []
    if not balls:
        raise ValueError("radius must be given if no penalty is > 0: nothing else bounds the weights")
    return min(balls, key=lambda ball: float(ball.radius))


def _groups(group: Any, groups: Any, shape: tuple[int, ...]) -> GroupL2:
    count, label = numbered("groups", groups, shape[0])
    entries = np.broadcast_to(label.reshape(-1, *(1,) * (len(shape) - 1)), shape)
    return GroupL2(group, np.ascontiguousarray(entries), np.sqrt(np.bincount(entries.ravel(), minlength=count)))

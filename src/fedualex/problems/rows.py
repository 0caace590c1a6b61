"""What the catalogue's problems share: rows with labels, the ball of the weights, and a federation of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..regularizers import L1, AbstractRegularizer, L1Ball, L2Ball, SquaredL2
from ..validation import positive, real_array, short

Ball = L1Ball | L2Ball


def matrix(X: Any) -> NDArray[Any]:
    """X as a nonempty real matrix."""
    X = real_array("X", X, "a real matrix")
    if X.ndim != 2 or X.size == 0:
        raise ValueError(f"X must be a nonempty matrix with one row for each example, got shape {X.shape}")
    return X


def numbered(name: str, values: Any, rows: int) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """The distinct labels in sorted order, and the number of each row's label among them."""
    try:
        array = np.asarray(values)
        names, number = np.unique(array, return_inverse=True)
    except (TypeError, ValueError):  # ragged, or not to be sorted
        raise TypeError(f"{name} must be {rows} labels that can be sorted, got {short(values)}") from None
    if array.shape != (rows,):
        raise ValueError(f"{name} must hold {rows} labels, one for each row of X, got an array of shape {array.shape}")
    if np.any(array != array):  # nan is the one label that differs from itself
        raise ValueError(f"{name} must not contain nan")
    return names, number.astype(np.int32)  # the index type of both precisions


def two_classes(y: Any, rows: int) -> NDArray[Any]:
    """-1 for the first of the two labels in sorted order, +1 for the second."""
    names, label = numbered("y", y, rows)
    if len(names) != 2:
        raise ValueError(f"y must hold two classes, but it holds {len(names)}")
    return np.where(label == 1, 1.0, -1.0)


def targets(y: Any, rows: int) -> NDArray[Any]:
    """y as one real number for each row."""
    target = real_array("y", y, f"{rows} real numbers")
    if target.shape != (rows,):
        raise ValueError(f"y must hold {rows} numbers, one for each row of X, got an array of shape {target.shape}")
    return np.asarray(target)


def weight_ball(l1: float, l2: float, radius: Any, budget: float) -> Ball:
    """L2Ball(radius), or the smaller of the balls that l1 ||w||_1 <= budget and l2/2 ||w||^2 <= budget make."""
    if radius is not None:
        return L2Ball(positive("radius", radius))
    balls: list[Ball] = [L1Ball(budget / l1)] if l1 > 0 else []
    balls += [L2Ball(np.sqrt(2 * budget / l2))] if l2 > 0 else []
    if not balls:
        raise ValueError("radius must be given if l1 and l2 are 0: nothing else bounds the weights")
    return min(balls, key=lambda ball: float(ball.radius))


def penalized(ball: Ball, l1: Any, l2: Any) -> AbstractRegularizer:
    """l1 ||w||_1 + l2/2 ||w||^2 in the ball."""
    weights: AbstractRegularizer = ball if l1 == 0 else L1(l1) + ball
    return weights if l2 == 0 else weights + SquaredL2(l2)


def largest_product(ball: Ball, vectors: NDArray[Any]) -> NDArray[Any]:
    """The largest |<w, v>| for w in the ball, for each row v."""
    dual = np.inf if isinstance(ball, L1Ball) else 2
    return np.asarray(ball.radius * np.linalg.norm(np.atleast_2d(vectors), dual, axis=1))


def by_client(examples: dict[str, NDArray[Any]], client: NDArray[Any]) -> list[dict[str, NDArray[Any]]]:
    """The examples of each client, in the sorted order of their ids."""
    return [{name: array[client == m] for name, array in examples.items()} for m in range(int(client.max()) + 1)]

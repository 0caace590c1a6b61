"""Exchanges, CPU time and memory of the estimators with their defaults, beside scikit-learn on the same rows.

    python benchmarks/estimators.py             # all of it, a few minutes
    python benchmarks/estimators.py auc lasso   # cases whose names hold one of these words

CPU times are process_time: `first` includes compilation, `again` is a second fit. Every data set is standardized.
"""

import resource
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fedualex as fx
from fedualex.estimators import AgnosticClassifier, FederatedAUCClassifier, FederatedLasso, FederatedLogisticRegression

Array = NDArray[Any]


class Case(NamedTuple):
    """An estimator, its rows, and what it is held against."""

    name: str
    model: Any
    data: tuple[Array, Array, Array]
    """Rows, targets, clients."""
    target: int | None
    """Exchanges that are enough."""
    peer: Callable[[int], Any] | None
    """scikit-learn's model for so many rows."""


def deciles(values: Array) -> Array:
    """Ten clients of equal size by rising value."""
    ranks: Array = np.argsort(np.argsort(values, kind="stable"), kind="stable") * 10 // len(values)
    return ranks


def cancer() -> tuple[Array, Array, Array]:
    """Breast cancer, ten clients by the area of the tumour."""
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y, deciles(X[:, 3])


def made(rows: int = 2000, columns: int = 50) -> tuple[Array, Array, Array]:
    """A made table, ten clients by its first column."""
    X, y = make_classification(rows, columns, n_informative=10, n_redundant=10, flip_y=0.05, random_state=0)
    return StandardScaler().fit_transform(X), y, deciles(X[:, 0])


def digits(binary: bool) -> tuple[Array, Array, Array]:
    """Digits, a client for each of them; the target is the digit, or whether it is at least 5."""
    X, y = load_digits(return_X_y=True)
    return StandardScaler().fit_transform(X), (y >= 5).astype(int) if binary else y, y


def collinear() -> tuple[Array, Array, Array]:
    """Diabetes with two of its columns also as one-hot bins, each of which sums to 1; ten clients by age."""
    X, y = load_diabetes(return_X_y=True)
    bins = np.stack([deciles(X[:, 2]), deciles(X[:, 8])], axis=1)
    both = np.hstack([X, OneHotEncoder(sparse_output=False).fit_transform(bins)])
    return StandardScaler().fit_transform(both), y, deciles(X[:, 0])


def liblinear(l1: float) -> Callable[[int], Any]:
    """The same objective, but that liblinear also penalizes the intercept."""
    return lambda n: LogisticRegression(l1_ratio=1.0, C=1 / (l1 * n), solver="liblinear", tol=1e-4, max_iter=10_000)


def saga(l1: float) -> Callable[[int], Any]:
    """The same objective."""
    return lambda n: LogisticRegression(l1_ratio=1.0, C=1 / (l1 * n), solver="saga", tol=1e-4, max_iter=10_000)


def balanced(n: int) -> Any:
    """Another loss, for the same purpose."""
    return LogisticRegression(class_weight="balanced")


CASES = [
    Case("logistic, breast cancer (liblinear)", FederatedLogisticRegression(), cancer(), 200, liblinear(0.01)),
    Case("logistic, breast cancer (saga)", FederatedLogisticRegression(), cancer(), 200, saga(0.01)),
    Case("logistic, made 2000 x 50 (saga)", FederatedLogisticRegression(), made(), 200, saga(0.01)),
    Case("lasso, collinear", FederatedLasso(), collinear(), None, lambda n: Lasso(1.0)),
    Case("agnostic, breast cancer", AgnosticClassifier(), cancer(), 150, None),
    Case("agnostic, digits >= 5", AgnosticClassifier(), digits(binary=True), 150, None),
    Case("agnostic, digits, 10 classes", AgnosticClassifier(), digits(binary=False), 150, None),
    Case("auc, breast cancer (balanced)", FederatedAUCClassifier(), cancer(), 60, balanced),
    Case("auc, made 2000 x 50 (balanced)", FederatedAUCClassifier(), made(), 60, balanced),
]


def seconds(work: Callable[[], Any]) -> float:
    """CPU seconds of all threads."""
    began = time.process_time()
    work()
    return time.process_time() - began


def row_of(case: Case) -> str:
    """A line of the table."""
    X, y, clients = case.data
    first = seconds(lambda: case.model.fit(X, y, clients=clients))
    again = min(seconds(lambda: case.model.fit(X, y, clients=clients)) for _ in range(2))
    theirs = ratio = "-"
    if case.peer is not None:
        peer = case.peer(len(y))
        peer.fit(X, y)
        least = min(seconds(lambda: peer.fit(X, y)) for _ in range(5))
        theirs, ratio = f"{1000 * least:.0f}", f"{again / least:.0f}"
    model, wanted = case.model, "-" if case.target is None else f"{case.target}"
    exchanges = f"{model.n_exchanges_} | {wanted} | {model.gap_:.1e} / {model.tol:g}"
    return f"| {case.name} | {exchanges} | {first:.1f} | {again:.2f} | {theirs} | {ratio} |"


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory_of_auc(rows: int = 200_000, columns: int = 50) -> str:
    """What the fit of a large table adds to the peak, as a multiple of the table. A small fit comes first."""
    X, y, clients = made(rows, columns)
    few = slice(None, None, 100)
    FederatedAUCClassifier().fit(X[few], y[few], clients=clients[few])
    before = resident()
    model = FederatedAUCClassifier()
    took = seconds(lambda: model.fit(X, y, clients=clients))
    theirs = LogisticRegression(class_weight="balanced")
    added, least = (peak() - before) / X.nbytes, seconds(lambda: theirs.fit(X, y))
    return (
        f"AUC on {rows} x {columns}: {model.n_exchanges_} exchanges, gap {model.gap_:.1e}, {took:.1f} s of CPU "
        f"(balanced LogisticRegression {least:.1f}), {added:.1f} times the table in memory"
    )


def resident() -> int:
    """What this process has now, in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def main(words: list[str]) -> None:
    """Print the table."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    if not words or "memory" in words:
        print(memory_of_auc(), flush=True)
    print(f"fedualex {fx.__version__}")
    print("| case | exchanges | target | gap / tol | first, s | again, s | scikit-learn, ms | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        if not words or any(word in case.name for word in words):
            print(row_of(case), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

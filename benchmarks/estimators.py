"""Exchanges, CPU time and memory of the estimators with their defaults, beside scikit-learn on the same rows.

    python benchmarks/estimators.py             # all of it, a few minutes
    python benchmarks/estimators.py auc lasso   # cases whose names hold one of these words

CPU times are process_time: `first` includes what is compiled (nothing where an earlier case or process did), `again` is
another fit. Every data set is standardized. scikit-learn has the loosest tolerance that reaches our tol.
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
Peer = Callable[[Array, Array, float], Any]
"""scikit-learn's model, fitted with a tolerance of its own."""


class Case(NamedTuple):
    """An estimator, its rows, and what it is held against."""

    name: str
    model: Any
    data: tuple[Array, Array, Array]
    """Rows, targets, clients."""
    target: int | None
    """Exchanges that are enough."""
    peer: Peer | None
    objective: Callable[[Any, Array, Array], float] | None
    """What both minimize, where it is the same."""


def deciles(values: Array) -> Array:
    """Ten clients of equal size by rising value."""
    ranks: Array = np.argsort(np.argsort(values, kind="stable"), kind="stable") * 10 // len(values)
    return ranks


def cancer() -> tuple[Array, Array, Array]:
    """Breast cancer, ten clients by the area of the tumor."""
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


def logistic(solver: str) -> Peer:
    """The same objective, but that liblinear also penalizes the intercept."""

    def fitted(X: Array, y: Array, tol: float) -> Any:
        strength = 1 / (FederatedLogisticRegression().l1 * len(y))
        return LogisticRegression(l1_ratio=1.0, C=strength, solver=solver, tol=tol, max_iter=100_000).fit(X, y)

    return fitted


def lasso(X: Array, y: Array, tol: float) -> Any:
    """The same objective."""
    return Lasso(FederatedLasso().alpha, tol=tol, max_iter=100_000).fit(X, y)


def mean_logistic(model: Any, X: Array, y: Array) -> float:
    """The objective of `FederatedLogisticRegression`, for two classes."""
    losses = np.logaddexp(0, -np.where(y == model.classes_[1], 1, -1) * model.decision_function(X))
    return float(losses.mean() + FederatedLogisticRegression().l1 * np.abs(model.coef_).sum())


def mean_square(model: Any, X: Array, y: Array) -> float:
    """The objective of `FederatedLasso`."""
    return float(np.mean((model.predict(X) - y) ** 2) / 2 + FederatedLasso().alpha * np.abs(model.coef_).sum())


def balanced(X: Array, y: Array, tol: float) -> Any:
    """Another loss for the same purpose, as scikit-learn has it: nothing is comparable but the time."""
    return LogisticRegression(class_weight="balanced").fit(X, y)


LOGISTIC, AGNOSTIC, AUC = FederatedLogisticRegression(), AgnosticClassifier(), FederatedAUCClassifier()

CASES = [
    Case("logistic, breast cancer (liblinear)", LOGISTIC, cancer(), 200, logistic("liblinear"), mean_logistic),
    Case("logistic, breast cancer (saga)", LOGISTIC, cancer(), 200, logistic("saga"), mean_logistic),
    Case("logistic, made 2000 x 50 (liblinear)", LOGISTIC, made(), 200, logistic("liblinear"), mean_logistic),
    Case("logistic, made 2000 x 50 (saga)", LOGISTIC, made(), 200, logistic("saga"), mean_logistic),
    Case("lasso, collinear (Lasso)", FederatedLasso(), collinear(), None, lasso, mean_square),
    Case("agnostic, breast cancer", AGNOSTIC, cancer(), 150, None, None),
    Case("agnostic, digits >= 5", AGNOSTIC, digits(binary=True), 150, None, None),
    Case("agnostic, digits, 10 classes", AGNOSTIC, digits(binary=False), 150, None, None),
    Case("auc, breast cancer (balanced)", AUC, cancer(), 60, balanced, None),
    Case("auc, made 2000 x 50 (balanced)", AUC, made(), 60, balanced, None),
]


def seconds(work: Callable[[], Any]) -> float:
    """CPU seconds of all threads."""
    began = time.process_time()
    work()
    return time.process_time() - began


def comparable(case: Case) -> float:
    """The loosest tolerance with which the peer's objective is as near to the optimum as the estimator has to be."""
    X, y, _ = case.data
    if case.peer is None or case.objective is None:
        return np.inf
    lowest = case.objective(case.model, X, y) - case.model.gap_
    for tol in 10.0 ** -np.arange(1, 9):
        if case.objective(case.peer(X, y, float(tol)), X, y) <= lowest + case.model.tol:
            return float(tol)
    return 1e-4  # never as near: liblinear, which penalizes the intercept, has its default


def row_of(case: Case) -> str:
    """A line of the table."""
    X, y, clients = case.data
    first = seconds(lambda: case.model.fit(X, y, clients=clients))
    again = min(seconds(lambda: case.model.fit(X, y, clients=clients)) for _ in range(2))
    theirs = ratio = "-"
    if case.peer is not None:
        peer, tol = case.peer, comparable(case)
        least = min(seconds(lambda: peer(X, y, tol)) for _ in range(5))
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

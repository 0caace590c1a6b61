"""What it takes to choose a penalty: exchanges on bundled tables, and CPU beside scikit-learn's own searches.

python benchmarks/penalty_path.py            # exchanges of all goals, then both comparisons of CPU
python benchmarks/penalty_path.py --quick    # the comparisons on 2,000 x 20
python benchmarks/penalty_path.py --cpu      # the comparisons alone
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoCV, LogisticRegressionCV

from fedualex.problems.agnostic import AgnosticRecipe
from fedualex.problems.auc import AucRecipe
from fedualex.problems.constrained import ConstrainedRecipe
from fedualex.problems.low_rank import LowRankRecipe
from fedualex.problems.rows import split_rows
from fedualex.problems.sparse_glm import SparseGlmRecipe
from fedualex.tables.choosing import PartiesHere, Search, fold_rows, search

PARTIES = 3


def scaled(X: Any) -> Any:
    """Columns of mean 0 and variance 1."""
    return (X - X.mean(axis=0)) / X.std(axis=0)


def bundled() -> dict[str, tuple[Any, Any]]:
    """A recipe of each goal with the rows of three parties."""
    X, y = load_breast_cancer(return_X_y=True)
    D, t = load_diabetes(return_X_y=True)
    X, D, t = scaled(X), scaled(D), scaled(t)
    classes = split_rows(X, y, np.arange(len(y)) % PARTIES)
    limited = split_rows(X, y, np.arange(len(y)) % PARTIES, None, y)
    numbers = split_rows(D, t, np.arange(len(t)) % PARTIES)
    several = split_rows(D[:, :6], D[:, 6:], np.arange(len(t)) % PARTIES)
    l2 = 1 / len(y)
    return {
        "logistic": (SparseGlmRecipe("logistic", l1=1.0, l2=l2), classes),
        "lasso": (SparseGlmRecipe("squared", l1=1.0), numbers),
        "fair": (AgnosticRecipe("logistic", l1=1.0, l2=l2), classes),
        "fair-regression": (AgnosticRecipe("squared", l1=1.0, l2=l2), numbers),
        "neyman-pearson": (ConstrainedRecipe({0: 0.1}, l1=1.0, l2=l2), limited),
        "auc": (AucRecipe(l1=1.0, l2=1e-2, saddle=False), classes),
        "low-rank": (LowRankRecipe(nuclear=1.0), several),
    }


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and the seconds of CPU of the second of two calls."""
    run()
    began = time.process_time()
    found = run()
    return found, time.process_time() - began


def report_exchanges() -> None:
    """One line a goal."""
    print("goal             exchanges  largest gap  chosen  best  CPU s")
    for goal, (recipe, rows) in bundled().items():
        found, seconds = timed(lambda recipe=recipe, rows=rows: search(recipe, fold_rows(recipe, rows)))
        curve = found.curve
        print(
            f"{goal:16} {curve.exchanges:9}  {max(curve.gaps):11.1e}  {curve.chosen:6}  {curve.best:4}  {seconds:5.1f}"
        )


def random_rows(rows: int, columns: int) -> tuple[Any, Any, Any]:
    """Rows with a tenth of their columns that matter, numbers and classes of them."""
    rng = np.random.default_rng(0)
    X = scaled(rng.normal(size=(rows, columns)) @ (np.eye(columns) + 0.3 * rng.normal(size=(columns, columns))))
    score = X[:, : max(1, columns // 10)].sum(axis=1)
    target = scaled(score + rng.normal(size=rows) * score.std())
    return X, target, (rng.random(rows) < 1 / (1 + np.exp(-score / score.std()))).astype(int)


def folds_of(parties: PartiesHere, rows: int) -> list[tuple[Any, Any]]:
    """The same folds for scikit-learn, whose rows are one table."""
    number = np.empty(rows, int)
    for m, party in enumerate(parties.members):
        number[np.arange(rows) % PARTIES == m] = party.fold
    return [(np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(parties.folds)]


def compare(name: str, recipe: Any, rows: Any, peer: Callable[[Search, Any], Any], count: int, times: int) -> None:
    """CPU here and there for the same values and folds, in turn; the median of so many times.

    peer: the index of the best value, as scikit-learn finds it.
    """
    found, cv = search(recipe, fold_rows(recipe, rows)), folds_of(fold_rows(recipe, rows), count)
    own, other = list[float](), list[float]()
    for _ in range(times):
        began = time.process_time()
        found = search(recipe, fold_rows(recipe, rows))
        own.append(time.process_time() - began)
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", FutureWarning)  # names that versions before 1.8 do not have yet
            best = peer(found, cv)
        other.append(time.process_time() - began)
    here, there = np.median(own), np.median(other)
    curve = found.curve
    print(f"{name}: {here:.3f} s of CPU here, {there:.3f} s there, ratio {here / there:.2f}")
    print(f"    {curve.exchanges} exchanges, best value number {curve.best} here and {best} there")


def report_cpu(count: int, columns: int) -> None:
    """Squares and classes."""
    X, target, label = random_rows(count, columns)
    clients = np.arange(count) % PARTIES

    def lasso(found: Search, cv: Any) -> int:
        model = LassoCV(alphas=np.asarray(found.curve.values), cv=cv).fit(X, target)
        return int(np.argmin(np.abs(np.asarray(found.curve.values) - model.alpha_)))

    def logistic(found: Search, cv: Any) -> int:
        C = 1 / (np.asarray(found.curve.values) * 0.8 * count)
        model = LogisticRegressionCV(
            Cs=C, cv=cv, solver="liblinear", penalty="l1", scoring="neg_log_loss", tol=1e-4
        ).fit(X, label)
        return int(np.argmin(np.abs(C - model.C_[0])))

    print(f"\n{count} x {columns}, {PARTIES} parties, 30 values x 5 folds, one thread")
    base = SparseGlmRecipe("squared", l1=1.0)
    compare("LassoCV", base, split_rows(X, target, clients), lasso, count, 7)
    compare(
        "LogisticRegressionCV (l1, liblinear)",
        replace(base, family="logistic"),
        split_rows(X, label, clients),
        logistic,
        count,
        1,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2,000 x 20 in place of 20,000 x 50")
    parser.add_argument("--cpu", action="store_true", help="the comparisons alone")
    arguments = parser.parse_args()
    if not arguments.cpu:
        report_exchanges()
    report_cpu(*((2_000, 20) if arguments.quick else (20_000, 50)))

"""Wide tables: from how many variables on a model of some columns pays, and what FeDualSlide needs there.

    python benchmarks/wide.py crossover|wide|raw [COLUMNS ...]

crossover: FeDualNewton with second derivatives of all variables, with those of WORKING columns, and FeDualSlide, in
exchanges, bytes of one client and CPU seconds of one process, until 1e-4; of these numbers of columns, or of all. wide:
the last two on many more columns. raw: FeDualSlide on raw columns, made ones of scales from .01 to 100 and those of
bundled tables, in their own units and in the metric of the problem.
Made tables: columns with a common factor, 20 of which matter; l1 as a share of the least that makes all weights 0.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from scipy.sparse import csr_array, random_array

import fedualex as fx
from fedualex.algorithms import newton

LEVEL, ROUNDS = 1e-4, 300
CROSSOVER = [
    (kind, columns) for kind in ("logistic", "worst client") for columns in (100, 200, 500, 1000, 1500, 2000, 3000)
]
WIDE: list[tuple[str, int, int, dict[str, Any]]] = [
    ("logistic", 2_000, 4000, {"share": 0.05}),
    ("logistic", 5_000, 1000, {"share": 0.03, "common": 0.8}),
    ("logistic", 5_000, 1000, {"raw": True}),
    ("lasso", 5_000, 1000, {"share": 0.03, "common": 0.8}),
    ("lasso", 5_000, 1000, {"raw": True}),
    ("worst client", 5_000, 1000, {}),
    ("logistic", 20_000, 600, {}),
    ("lasso", 20_000, 600, {}),
    ("logistic", 50_000, 2000, {"sparse": True}),
    ("lasso", 50_000, 2000, {"sparse": True}),
]


def made_rows(
    kind: str,
    columns: int,
    rows: int,
    share: float = 0.1,
    common: float = 0.5,
    raw: bool = False,
    sparse: bool = False,
) -> tuple[Any, Any, float]:
    """Rows, targets and l1. common: the share of a common factor in each column. raw: scales from .01 to 100."""
    rng = np.random.default_rng(0)
    if sparse:
        X: Any = csr_array(random_array((rows, columns), density=0.01, rng=rng))
    else:
        X = np.sqrt(1 - common) * rng.normal(size=(rows, columns)) + np.sqrt(common) * rng.normal(size=(rows, 1))
    w = np.zeros(columns)
    w[rng.choice(columns, 20, replace=False)] = rng.normal(size=20)
    score = X @ w
    score = 2 * (score - score.mean()) / score.std()
    X = X * 10 ** rng.uniform(-2, 2, size=columns) if raw else X
    target = score + rng.normal(size=rows) if kind == "lasso" else (score + rng.logistic(size=rows) > 0).astype(int)
    slope = np.asarray(X.T @ (target - target.mean())) / rows
    return X, target, share * float(np.max(np.abs(slope)))


def made(kind: str, columns: int, rows: int, **options: Any) -> Any:
    """A problem of `made_rows`."""
    X, target, l1 = made_rows(kind, columns, rows, **options)
    if kind == "worst client":
        return fx.problems.agnostic(X, target, np.argsort(np.argsort(X[:, 0])) * 5 // rows, l1=l1)
    family = "squared" if kind == "lasso" else "logistic"
    return fx.problems.sparse_glm(family, X, target, fx.data.iid(rows, 3), l1=l1)


def until(problem: Any, method: Any) -> str:
    """Exchanges, megabytes of one client and CPU seconds until the level, or the last gap."""
    began = time.process_time()
    run = fx.solve(problem, method, rounds=ROUNDS, record_every=1, tol=LEVEL, output="bounds")
    seconds = time.process_time() - began
    gaps = [np.inf if gap is None else float(gap) for gap in run.history["gap_bounds"]]
    sent = float(run.history["bytes_up"][-1]) / (problem.clients or 1) / 1e6
    count = f"{run.history['exchanges'][-1]}" if min(gaps) <= LEVEL else f"- ({min(gaps):.0e})"
    return f"{count} / {sent:.2f} / {seconds:.1f}"


def cross(*wanted: int) -> None:
    """One row for each problem: three routes."""
    most = newton.LARGEST, newton.MANY
    print("| problem | columns | all second derivatives | those of some columns | FeDualSlide |\n|---|---|---|---|---|")
    for kind, columns in CROSSOVER:
        if wanted and columns not in wanted:
            continue
        problem, found = made(kind, columns, 4000, share=0.05), []
        for many in (10**6, newton.WORKING - 1):
            newton.LARGEST, newton.MANY = max(many, most[0]), many
            found.append(until(problem, fx.FeDualNewton()) if columns >= newton.WORKING or many == 10**6 else "")
        newton.LARGEST, newton.MANY = most
        found.append(until(problem, fx.FeDualSlide(mode="survey")))
        print(f"| {kind} | {columns:,} | {' | '.join(found)} |", flush=True)


def widen() -> None:
    """One row for each problem: two routes."""
    print("| problem | columns | rows | FeDualNewton | FeDualSlide |\n|---|---|---|---|---|")
    for kind, columns, rows, options in WIDE:
        problem = made(kind, columns, rows, **options)
        found = [until(problem, method) for method in (fx.FeDualNewton(), fx.FeDualSlide(mode="survey"))]
        words = ", ".join([kind, *(f"{key} {value}" if value is not True else key for key, value in options.items())])
        print(f"| {words} | {columns:,} | {rows:,} | {' | '.join(found)} |", flush=True)


def bundled(name: str, family: str, **options: Any) -> Any:
    """A raw table, centered; a target of numbers has deviation 1."""
    X, y = fx.data.bundled(name)
    y = (y - y.mean()) / y.std() if family == "squared" else y
    return fx.problems.sparse_glm(family, X, y, fx.data.iid(len(y), 3), center=X.mean(axis=0), **options)


def grouped(columns: int, rows: int) -> Any:
    """Ten columns in each group, which no working set takes apart."""
    X, target, l1 = made_rows("logistic", columns, rows, raw=True)
    groups = np.arange(columns) // 10
    return fx.problems.sparse_glm("logistic", X, target, fx.data.iid(rows, 3), group=l1 / 10, groups=groups)


RAW: dict[str, Callable[[], Any]] = {
    "lasso, diabetes": lambda: bundled("diabetes", "squared", l1=0.01),
    "logistic, breast cancer": lambda: bundled("breast_cancer", "logistic", l1=0.001),
    "softmax, wine": lambda: bundled("wine", "logistic", l1=0.01),
    "logistic, 2,000 columns": lambda: made("logistic", 2_000, 1000, raw=True),
    "logistic with groups, 2,000 columns": lambda: grouped(2_000, 1000),
    "lasso, 2,000 columns": lambda: made("lasso", 2_000, 1000, raw=True),
    "worst client, 2,000 columns": lambda: made("worst client", 2_000, 1000, raw=True),
    "logistic, 5,000 columns": lambda: made("logistic", 5_000, 1000, raw=True),
    "lasso, 5,000 columns": lambda: made("lasso", 5_000, 1000, raw=True),
    "lasso, 20,000 columns": lambda: made("lasso", 20_000, 600, raw=True),
    "lasso, 50,000 columns, sparse": lambda: made("lasso", 50_000, 2000, raw=True, sparse=True),
}


def compare_metrics(*wanted: int) -> None:
    """One row for each problem, or for those with these numbers: FeDualSlide without and with the metric."""
    print("| problem | in the columns' own units | in their metric |\n|---|---|---|")
    for number, (words, make) in enumerate(RAW.items()):
        if wanted and number not in wanted:
            continue
        problem = make()
        without = eqx.tree_at(lambda p: p.metric, problem, None)
        found = [until(p, fx.FeDualSlide(mode="survey")) for p in (without, problem)]
        print(f"| {words} | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    part, *numbers = sys.argv[1:]
    {"crossover": cross, "wide": widen, "raw": compare_metrics}[part](*map(int, numbers))

"""The first fit of a table, and fits of many rows, each in turns with scikit-learn at the same accuracy: CPU seconds.

    python benchmarks/large.py PART     one measurement in this process, as JSON (first, logistic, lasso, fair, stream)
    python benchmarks/large.py logistic 1000000

Models have no intercept, so that the objectives are the same. scikit-learn's solver ends at the loosest of its
tolerances at which its objective is within 1e-6 of the optimum, by our certified bound.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parquet_table import write_table
from processes import Times, answer, interleaved

ACCURACY = 1e-6
FIT = [sys.executable, "-m", "fedualex", "fit"]
ANCHOR = """
import sys
import pandas
from sklearn.linear_model import LogisticRegression
X = pandas.read_csv(sys.argv[1])
y = X.pop("target")
LogisticRegression().fit((X - X.mean()) / X.std(), y)
"""


def first_fit() -> dict[str, Times]:
    """`fedualex fit` in a cold process, and in the second one, beside a process that fits scikit-learn's model."""
    return answer("large.py", "first")


def large() -> dict[str, dict[str, Times]]:
    """l1 logistic regression of 100,000 x 50 and of 1,000,000, the lasso of 1,000,000 x 100, and a fair model.

    With one thread for BLAS, whose own wait in loops where others compute as well.
    """
    parts: dict[str, list[object]] = {name: [name] for name in ("logistic", "lasso", "fair")}
    parts["logistic of 1,000,000"] = ["logistic", 1_000_000]
    return {name: answer("large.py", *words, OPENBLAS_NUM_THREADS="1") for name, words in parts.items()}


def stream() -> Times:
    """A fit of a Parquet file of 10,000,000 x 50, which is never in memory as a whole."""
    return answer("large.py", "stream", 10_000_000)


def process_seconds(command: list[str], **environment: str) -> float:
    """CPU seconds of a process and its own."""

    def used() -> float:
        times = resource.getrusage(resource.RUSAGE_CHILDREN)
        return times.ru_utime + times.ru_stime

    before = used()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | environment)
    return used() - before


def measure_first() -> dict[str, Times]:
    """Three times each, in turns."""

    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer(as_frame=True)
    table = Path(tempfile.mkdtemp()) / "breast_cancer.csv"
    found.frame.to_csv(table, index=False)
    command = [*FIT, str(table), "--target", "target", "--clients", "5", "--l1", "0.001"]

    def ours() -> Times:
        with tempfile.TemporaryDirectory() as folder:
            words = [[*command, "--out", f"{folder}/{name}"] for name in ("cold", "second")]
            cold, second = (process_seconds(command, FEDUALEX_CACHE=f"{folder}/cache") for command in words)
        return {"cold_s": cold, "second_s": second}

    anchor = [sys.executable, "-c", ANCHOR, str(table)]
    return interleaved({"ours": ours, "scikit-learn": lambda: {"s": process_seconds(anchor)}}, 3)


def measure_stream(rows: int) -> Times:
    """In a process of its own: seconds on the clock and of the processor, and the most memory that it has."""
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/table.parquet"
        write_table(rows, table)
        words = [*FIT, table, "--target", "y", "--clients", "5", "--l1", "0.002", "--out", f"{folder}/fit"]
        began = time.perf_counter()
        cpu = process_seconds(words)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        return {"wall_s": time.perf_counter() - began, "cpu_s": cpu, "peak_mib": peak, "rows": float(rows)}


def cpu_seconds(work: Callable[[], Any]) -> float:
    """Of one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def beside(problem: Any, peers: dict[str, Callable[[float], Any]], repeats: int) -> dict[str, Times]:
    """Ours and each peer at its loosest tolerance that is accurate enough. peers: weights, given a tolerance."""
    import fedualex as fx

    run = fx.solve(problem, tol=ACCURACY)
    optimum = problem.objective(run.z) - run.gap
    works: dict[str, Callable[[], Any]] = {"ours": lambda: fx.solve(problem, tol=ACCURACY)}
    for name, fit in peers.items():
        for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8):
            weights = fit(tol)
            if problem.objective(fx.Saddle({"weights": weights})) - optimum <= ACCURACY:
                works[name] = lambda fit=fit, tol=tol: fit(tol)  # type: ignore[misc]
                break
    return interleaved({name: lambda work=work: {"s": cpu_seconds(work)} for name, work in works.items()}, repeats)


def measure_logistic(rows: int = 100_000, columns: int = 50, l1: float = 0.002) -> dict[str, Times]:
    """Ten of the weights are not 0."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    import fedualex as fx

    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    y = (rng.random(rows) < 1 / (1 + np.exp(-X[:, :10] @ rng.normal(size=10)))).astype(int)
    problem = fx.problems.sparse_glm("logistic", X, y, l1=l1, intercept=False)
    about = {"C": 1 / (l1 * rows), "l1_ratio": 1.0, "fit_intercept": False, "max_iter": 10_000}

    def by(solver: str) -> Callable[[float], Any]:
        return lambda tol: LogisticRegression(solver=solver, tol=tol, **about).fit(X, y).coef_[0]

    return beside(problem, {"liblinear": by("liblinear"), "saga": by("saga")}, 3 if rows <= 100_000 else 1)


def measure_lasso(rows: int = 1_000_000, columns: int = 100, l1: float = 0.05) -> dict[str, Times]:
    """With a Gram matrix that scikit-learn makes first."""
    import numpy as np
    from sklearn.linear_model import Lasso

    import fedualex as fx

    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    y = X[:, :10] @ rng.normal(size=10) + rng.normal(size=rows)
    problem = fx.problems.sparse_glm("squared", X, y, l1=l1, intercept=False)

    def fit(tol: float) -> Any:
        return Lasso(alpha=l1, precompute=True, fit_intercept=False, tol=tol).fit(X, y).coef_

    return beside(problem, {"Lasso": fit}, 3)


def measure_fair(rows: int = 100_000, columns: int = 50, groups: int = 5) -> dict[str, Times]:
    """The least loss of the worst of five groups, to 1e-4, beside CVXPY with Clarabel on the pooled rows."""
    import cvxpy as cp
    import numpy as np

    import fedualex as fx

    l1, rng = 1e-3, np.random.default_rng(0)
    X, group = rng.normal(size=(rows, columns)), rng.integers(0, groups, rows)
    slopes = rng.normal(size=10) + 0.5 * rng.normal(size=(groups, 10))
    sign = np.where(rng.random(rows) < 1 / (1 + np.exp(-np.sum(X[:, :10] * slopes[group], axis=1))), 1.0, -1.0)
    problem = fx.problems.agnostic(X, sign, group, l1=l1)

    def by_clarabel() -> None:
        w, b = cp.Variable(columns), cp.Variable()
        losses = cp.logistic(cp.multiply(-sign, X @ w + b))
        means = [cp.sum(losses[np.flatnonzero(group == g)]) / np.sum(group == g) for g in range(groups)]
        cp.Problem(cp.Minimize(cp.max(cp.hstack(means)) + l1 * cp.norm1(w))).solve(solver=cp.CLARABEL)

    works = {"ours": lambda: fx.solve(problem, tol=1e-4), "Clarabel": by_clarabel}
    return interleaved({name: lambda work=work: {"s": cpu_seconds(work)} for name, work in works.items()}, 1)


if __name__ == "__main__":
    parts: dict[str, Callable[..., Any]] = {
        "first": measure_first,
        "logistic": measure_logistic,
        "lasso": measure_lasso,
        "fair": measure_fair,
        "stream": measure_stream,
    }
    json.dump(parts[sys.argv[1]](*map(int, sys.argv[2:])), sys.stdout)

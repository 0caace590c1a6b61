"""Wide tables: from how many variables on a model of some columns pays, and what FeDualSlide needs there.

    python benchmarks/wide.py crossover|wide|raw [COLUMNS ...]

crossover: FeDualNewton with second derivatives of all variables, with those of WORKING columns, and FeDualSlide, in
exchanges, bytes of one client and CPU seconds of one process, until 1e-4; of these numbers of columns, or of all. wide:
the last two on many more columns. raw: FeDualSlide on columns of scales from .01 to 100, measured in their own units
and in those of a diagonal metric; a ridge problem of one's own, which has the same domain in both.
Made tables: columns with a common factor, 20 of which matter; l1 as a share of the least that makes all weights 0.
"""

import sys
import time
from typing import Any

import jax.numpy as jnp
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


def made(
    kind: str,
    columns: int,
    rows: int,
    share: float = 0.1,
    common: float = 0.5,
    raw: bool = False,
    sparse: bool = False,
) -> Any:
    """A problem. common: the share of the common factor in each column. raw: columns of scales from .01 to 100."""
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
    l1 = share * float(np.max(np.abs(slope)))
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
        problem, found = made(kind, columns, 4000, 0.05), []
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


def ridge(scale: Any, X: Any, target: Any, l2: float, radius: Any) -> Any:
    """Logistic regression with a ridge in x = v / scale, |x_j| <= radius_j: the same problem for every scale."""

    def loss(v: Any, example: Any) -> Any:
        row, label = example
        return jnp.logaddexp(0.0, -label * (row @ v)) + l2 / 2 * jnp.sum((v * jnp.asarray(1 / scale, v.dtype)) ** 2)

    rows = [(X[m::3] / scale, target[m::3]) for m in range(3)]
    box = fx.Box(lower=-radius * scale, upper=radius * scale)
    return fx.Problem(loss, x=box, like=fx.Saddle(np.zeros(X.shape[1])), data=rows, floor=fx.problems.Floor(None, 0.0))


def compare_metrics() -> None:
    """One row for each ridge and domain: FeDualSlide in two metrics."""
    print("| l2 | domain | in the columns' own units | in a diagonal metric |\n|---|---|---|---|")
    rng = np.random.default_rng(0)
    size = 10 ** rng.uniform(-2, 2, size=60)
    Z = np.sqrt(0.5) * rng.normal(size=(300, 60)) + np.sqrt(0.5) * rng.normal(size=(300, 1))
    score = Z[:, :20] @ rng.normal(size=20)
    target = np.where(2 * (score - score.mean()) / score.std() + rng.logistic(size=300) > 0, 1.0, -1.0)
    for l2 in (1e-3, 1e-1):
        reach = np.full(60, np.sqrt(2 * np.log(2) / l2))
        for words, radius in (("within reach of the objective", reach), ("three deviations of a score", 3 / size)):
            metrics = np.ones(60), np.sqrt(size**2 / 4 + l2)  # the second bounds the diagonal of the second derivatives
            problems = [ridge(scale, Z * size, target, l2, radius) for scale in metrics]
            found = [until(problem, fx.FeDualSlide(mode="survey")) for problem in problems]
            print(f"| {l2:g} | {words} | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    part, *numbers = sys.argv[1:]
    {"crossover": cross, "wide": widen, "raw": compare_metrics}[part](*map(int, numbers))

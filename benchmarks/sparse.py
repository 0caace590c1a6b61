"""Memory and time of l1 logistic regression on a sparse one-hot table of 100,000 rows and 20,000 columns.

    python benchmarks/sparse.py          # a minute; as numbers of float64 the table would have 15 GiB

40 columns of words, 500 words each, frequent and rare ones; ten clients of 10,000 rows by rising score. Prints JSON.
"""

import json
import time
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

import fedualex as fx

ROWS, COLUMNS, WORDS, CLIENTS = 100_000, 40, 500, 10
L1, TOL = 1e-3, 1e-3


def table() -> tuple[csr_matrix, np.ndarray, np.ndarray]:
    """Rows, two classes, clients."""
    rng = np.random.default_rng(0)
    word = np.minimum(WORDS * rng.random((ROWS, COLUMNS)) ** 4, WORDS - 1).astype(int)
    index = (word + WORDS * np.arange(COLUMNS)).ravel()
    X = csr_matrix((np.ones(index.size), index, np.arange(0, index.size + 1, COLUMNS)), shape=(ROWS, COLUMNS * WORDS))
    score = X @ (rng.normal(size=X.shape[1]) * (rng.random(X.shape[1]) < 0.1))
    y = (score - np.median(score) + rng.logistic(size=ROWS) > 0).astype(int)
    return X, y, np.argsort(np.argsort(score)) * CLIENTS // ROWS


def peak_kib() -> int:
    """The most memory that this program had (Linux). `ru_maxrss` counts that of the process which started it, too."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1])


def measured() -> dict[str, float | str]:
    """What a fit took."""
    X, y, clients = table()
    began = time.perf_counter()
    model = fx.estimators.FederatedLogisticRegression(l1=L1, tol=TOL).fit(X, y, clients=clients)
    seconds, run = time.perf_counter() - began, model.run_
    return {
        "status": model.status_.name,
        "gap": model.gap_,
        "exchanges": model.n_exchanges_,
        "seconds": seconds,
        "seconds_an_exchange": float(np.diff(run.history["seconds"])[-1] / np.diff(run.history["exchanges"])[-1]),
        "server_seconds": run.server_seconds,
        "peak_gib": peak_kib() / 2**20,
        "accuracy": float(np.mean(model.predict(X) == y)),
        "nonzero_weights": int(np.sum(model.coef_ != 0)),
    }


if __name__ == "__main__":
    print(json.dumps(measured(), indent=1))

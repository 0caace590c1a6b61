"""FeDualSlide's certified gap over the classical dual-scaled gap at the same point, for l1 logistic regression.

    python benchmarks/classical_gaps.py     # a minute; prints the table of benchmarks/results/exchanges.md

The classical dual point at (w, b) is theta_i = sigma(-margin_i), times the largest s <= 1 at which no entry of
X^T (signs theta) / n exceeds l1. The bias has no penalty but a box |b| <= B, whose support function is B |.|; with a
bias of its own, the best one for w, the classical gap has nothing to pay for it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import entr, expit

import fedualex as fx

Array = NDArray[Any]
MARKS = (10, 30, 100)
SHARES = (1e-1, 1e-2, 1e-3)
"""l1 as a share of the smallest one at which all weights are 0."""


def cancer() -> tuple[Array, Array]:
    """Breast cancer, columns standardized."""
    X, y = fx.data.bundled("breast_cancer")
    return (X - X.mean(0)) / X.std(0), y


def sparse() -> tuple[Array, Array]:
    """400 rows of 200 columns, 10 of which matter."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(400, 200)), np.zeros(200)
    w[:10] = 2 * rng.normal(size=10)
    return X, (X @ w + rng.normal(size=400) > 0).astype(int)


def classical_gap(X: Array, signs: Array, w: Array, b: float, l1: float, B: float) -> float:
    """P(w, b) - D(s theta), with D(t) = mean of the entropies of t - B |mean of signs t|."""
    margins = signs * (X @ w + b)
    theta = expit(-margins)
    largest = np.abs(X.T @ (signs * theta)).max() / len(signs)
    t = min(1.0, l1 / largest) * theta
    dual = np.mean(entr(t) + entr(1 - t)) - B * abs(np.mean(signs * t))
    return float(np.mean(np.logaddexp(0, -margins)) + l1 * np.abs(w).sum() - dual)


def best_bias(X: Array, signs: Array, w: Array, B: float) -> float:
    """Where the derivative of the mean loss by the bias is 0."""
    return float(brentq(lambda b: np.mean(signs * expit(-signs * (X @ w + b))), -B, B, xtol=1e-14))


def ratios(X: Array, y: Array, share: float) -> list[tuple[float, float, float]]:
    """At each mark our gap, and over the two classical ones."""
    signs = np.where(y == np.unique(y)[1], 1.0, -1.0)
    l1 = share * np.abs(X.T @ (signs - signs.mean())).max() / (2 * len(signs))
    problem = fx.problems.sparse_glm("logistic", X, y, np.arange(len(y)) % 5, l1=l1)
    B, found = float(problem.geometry.parts.x["bias"].regularizer.upper), []
    for mark in MARKS:
        run = fx.simulate(problem, fx.FeDualSlide("survey"), rounds=mark, record_every=mark)
        w, b = np.asarray(run.z.x["weights"]), float(run.z.x["bias"])
        theirs = classical_gap(X, signs, w, b, l1, B), classical_gap(X, signs, w, best_bias(X, signs, w, B), l1, 0.0)
        found.append((float(run.gap), *(run.gap / gap for gap in theirs)))
    return found


def main() -> None:
    """Print the table."""
    print("| rows | l1 | gap | over the classical one | with a bias of its own |\n|---|---|---|---|---|")
    for name, data in (("breast cancer", cancer()), ("400 x 200", sparse())):
        for share in SHARES:
            cells = (" / ".join(f"{one:.2g}" for one in column) for column in zip(*ratios(*data, share), strict=True))
            print(f"| {name} | {share:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

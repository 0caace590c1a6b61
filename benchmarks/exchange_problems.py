"""The problems of `make bench-exchanges`: games of known similarity, and agnostic learning on real data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

import fedualex as fx

CLIENTS, HALF, RANK = 10, 50, 10
PSI = fx.L1(0.1) + fx.Box(2.0)
PROBLEMS = {
    "q05": "quadratic games, delta = .05 for a mean operator of beta = 1",
    "q3": "the same with delta = .3",
    "b5": "bilinear games, delta = .5",
    "cancer": "breast cancer, a client for each decile of the tumor area",
    "digits": "digits, a client for each digit",
    "cancer5": "the same as cancer, weights in a ball of radius 5",
    "digits5": "the same as digits, weights in a ball of radius 5",
}


def problem(name: str) -> Any:
    """One of PROBLEMS."""
    made = {
        "q05": lambda: game(0.05, curved=True),
        "q3": lambda: game(0.3, curved=True),
        "b5": lambda: game(0.5, curved=False),
        "cancer": cancer,
        "digits": digits,
        "cancer5": lambda: cancer(5.0),
        "digits5": lambda: digits(5.0),
    }
    return made[name]()


def saddle(x: Any, y: Any, example: Any) -> Any:
    """x^T P x / 2 + y^T A x - y^T Q y / 2 + <b, x> - <c, y>."""
    P, A, Q, b, c = (example[key] for key in "PAQbc")
    return x @ P @ x / 2 + y @ A @ x - y @ Q @ y / 2 + b @ x - c @ y


def game(delta: float, *, curved: bool, seed: int = 0) -> fx.Problem:
    """Random games with beta = 1: client m has (1 - t) (P, A, Q) + t (P_m, A_m, Q_m), with the t that has this delta.

    P and Q are Wishart matrices of rank 10, or 0 in a bilinear game.
    """
    rng = np.random.default_rng(seed)
    # The first row is what all clients share.
    A = rng.normal(size=(1 + CLIENTS, HALF, HALF)) / HALF**0.5 / 2
    P, Q = (curved * _wishart(rng) for _ in range(2))
    b, c = rng.normal(size=(2, CLIENTS, HALF)) / 2

    def mixed(t: float) -> list[NDArray[Any]]:
        return [(1 - t) * each[:1] + t * each[1:] for each in (P, A, Q)]

    t = brentq(lambda t: np.divide(*spread(*mixed(t))) - delta, 1e-3, 1 - 1e-9)
    _, beta = spread(*mixed(t))
    matrices = dict(zip("PAQ", (each / beta for each in mixed(t)), strict=True)) | {"b": b, "c": c}
    data = [{key: each[m : m + 1] for key, each in matrices.items()} for m in range(CLIENTS)]
    like = fx.Saddle(np.zeros(HALF), np.zeros(HALF))
    return fx.Problem(saddle, x=PSI, y=PSI, like=like, data=data, by_construction=True)


def _wishart(rng: np.random.Generator) -> NDArray[Any]:
    """All in one subspace, so that their mean is not better conditioned than each."""
    root = rng.normal(size=(1 + CLIENTS, RANK, RANK)) @ rng.normal(size=(RANK, HALF)) / (RANK * HALF) ** 0.5
    return np.swapaxes(root, 1, 2) @ root / 4


def spread(P: NDArray[Any], A: NDArray[Any], Q: NDArray[Any]) -> tuple[float, float]:
    """(delta, beta) of equally weighted clients; beta is that of the mean."""
    J = np.concatenate([np.concatenate([P, np.swapaxes(A, 1, 2)], 2), np.concatenate([-A, Q], 2)], 1)
    mean = J.mean(0)
    away = (J - mean).reshape(-1, J.shape[2])
    return np.linalg.norm(away, 2) / CLIENTS**0.5, float(np.linalg.norm(mean, 2))


def cancer(radius: float | None = None) -> fx.Problem:
    """Breast cancer, columns standardized."""
    X, y = fx.data.bundled("breast_cancer")
    deciles = np.quantile(X[:, 3], np.arange(1, CLIENTS) / CLIENTS)
    client = np.searchsorted(deciles, X[:, 3], side="right")
    return fx.problems.agnostic((X - X.mean(0)) / X.std(0), y, client, l1=1e-2, radius=radius)


def digits(radius: float | None = None) -> fx.Problem:
    """Whether a digit is 5 or more, from pixels in [0, 1]."""
    X, digit = fx.data.bundled("digits")
    return fx.problems.agnostic(X / 16, digit >= 5, digit, l1=1e-2, radius=radius)

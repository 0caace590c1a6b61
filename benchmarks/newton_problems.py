"""The problems by whose exchanges FeDualNewton is measured: real tables, from zero, with nothing tuned."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedualex as fx

P = fx.problems


def scaled(X: NDArray[Any]) -> NDArray[Any]:
    """Columns of mean 0 and deviation 1; constant ones are 0."""
    deviation = X.std(axis=0)
    return np.asarray((X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))


def table(name: str, raw: bool = False) -> tuple[Any, Any, NDArray[Any]]:
    """Rows, targets and three clients; a target of numbers has mean 0 and deviation 1 unless the table is raw."""
    X, y = fx.data.bundled(name)
    if not raw:
        X = scaled(X)
        y = scaled(y[:, None])[:, 0] if name == "diabetes" else y
    return X, y, fx.data.iid(len(y), 3)


def by(column: NDArray[Any], clients: int) -> NDArray[Any]:
    """A client for each part of a column's range."""
    return np.asarray(np.argsort(np.argsort(column)) * clients // len(column))


def glm(family: str, name: str, raw: bool = False, **penalty: Any) -> Any:
    """A sum over all rows."""
    return P.sparse_glm(family, *table(name, raw), **penalty)


def collinear() -> Any:
    """Lasso with every column twice, once with a little noise."""
    X, y, clients = table("diabetes")
    noise = np.random.default_rng(0).normal(size=X.shape)
    return P.sparse_glm("squared", np.hstack([X, X + 1e-6 * noise, X]), y, clients, l1=0.01)


def wide() -> Any:
    """20,000 made rows of 100 columns, 20 of which matter."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(20_000, 100)), rng.normal(size=100) * (np.arange(100) < 20)
    labels = (X @ w + rng.normal(size=20_000) > 0).astype(int)
    return P.sparse_glm("logistic", X, labels, fx.data.iid(20_000, 3), l1=0.001)


def worst(name: str, clients: int = 5, **options: Any) -> Any:
    """The client that is served worst; clients by the first column, of digits by the digit."""
    X, y, _ = table(name)
    return P.agnostic(X, y, y if name == "digits" else by(X[:, 0], clients), **options)


def limited(limit: float = 0.05, **options: Any) -> Any:
    """Neyman-Pearson: the loss of one class is limited."""
    X, y, clients = table("breast_cancer")
    return P.constrained(X, y, clients, groups="classes", limits={0: limit}, l1=0.001, **options)


def heavy_tails() -> Any:
    """Diabetes with noise that has no second moment; clients by the first column."""
    X, y, _ = table("diabetes")
    y = y + 2 * np.random.default_rng(0).standard_t(1.2, len(y))
    return P.agnostic(X, y, by(X[:, 0], 5), loss="huber", delta=0.5, l1=0.01)


def ranking(**options: Any) -> Any:
    """Pairs of breast cancer."""
    X, y, clients = table("breast_cancer")
    return P.auc(X, y, clients, l1=0.001, l2=0.01, **options)


def tasks() -> Any:
    """Four columns of diabetes from the others."""
    X, _, clients = table("diabetes")
    return P.low_rank(X[:, :6], X[:, 6:], clients, nuclear=0.05)


AFFINE: dict[str, Callable[[], Any]] = {
    "lasso, diabetes": lambda: glm("squared", "diabetes", l1=0.01),
    "lasso, diabetes, raw": lambda: glm("squared", "diabetes", raw=True, l1=0.01),
    "lasso, collinear": collinear,
    "low rank": tasks,
    "ranking, saddle": ranking,
    "ranking, minimization": lambda: ranking(saddle=False),
}
CURVED: dict[str, Callable[[], Any]] = {
    "logistic, breast cancer, .01": lambda: glm("logistic", "breast_cancer", l1=0.01),
    "logistic, breast cancer, .001": lambda: glm("logistic", "breast_cancer", l1=0.001),
    "logistic, breast cancer, raw": lambda: glm("logistic", "breast_cancer", raw=True, l1=0.001),
    "logistic, 20,000 x 100": wide,
    "softmax, wine": lambda: glm("logistic", "wine", l1=0.01),
    "worst client, breast cancer": lambda: worst("breast_cancer", 10, l1=0.001),
    "softmax, digits": lambda: glm("logistic", "digits", l1=0.001),
    "worst client, KL": lambda: worst("breast_cancer", 10, l1=0.001, kl=0.1),
    "worst client, CVaR": lambda: worst("breast_cancer", 10, l1=0.001, cvar=0.3),
    "worst client, digits": lambda: worst("digits", l1=0.001),
    "worst client, squares": lambda: worst("diabetes", loss="squared", l1=0.01),
    "Neyman-Pearson": limited,
}
HUBER: dict[str, Callable[[], Any]] = {
    "worst client, Huber": lambda: worst("diabetes", loss="huber", delta=0.5, l1=0.01),
}
NASTY: dict[str, Callable[[], Any]] = {
    "nearly separable, l1 1e-5": lambda: glm("logistic", "breast_cancer", l1=1e-5),
    "nearly separable, l1 1e-6": lambda: glm("logistic", "breast_cancer", l1=1e-6),
    "tight limit, multiplier to 100": lambda: limited(0.02, multiplier=100.0),
    "worst client, Huber, heavy tails": heavy_tails,
}
PROBLEMS = AFFINE | CURVED | HUBER | NASTY

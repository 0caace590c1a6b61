"""What all estimators share: checked input, features in a common scale, a run, and what is reported of it."""

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from ..algorithms import FeDualSlide
from ..data import Standardizer
from ..display import rounded_up
from ..problems import AbstractProblem, active_bounds
from ..runtime import Status, Stop, solve
from ..tree import Saddle, Tree
from ..validation import classes, nonnegative, positive, refuse_masked, refuse_mixed, short, whole_number


class Scale:
    """Rows as (row - mean) / size, with one size for all columns, so that the penalty keeps its meaning.

    mean and size (the root mean square of all deviations) come from federated moments. w / size and
    b - <w / size, mean> are the model for the rows as they were. Sparse rows are row / size, with the same size: less
    their mean they would be full, and a bias that no penalty holds makes up for it.
    """

    def __init__(self, X: Any, clients: Any, intercept: bool):
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            moments = Standardizer.fit(X, clients)
            size = float(np.sqrt(np.mean(moments.deviation**2 + (0 if intercept else moments.mean**2))))
        if not np.isfinite(size):
            raise ValueError("X must have a variance that float64 can hold: divide its columns by their size")
        self.mean = moments.mean if intercept and not issparse(X) else np.zeros_like(moments.mean)
        self.size = size if size > 0 else 1.0

    def rows(self, X: Any) -> Any:
        """Rows in the common scale, sparse if they were."""
        if issparse(X):
            return X / self.size
        rows = X - self.mean
        rows /= self.size
        return rows

    def model(self, weights: Any, bias: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """The weights and the bias for rows as they were."""
        weights = np.asarray(weights) / self.size
        return weights, np.asarray(bias - self.mean @ weights)


@dataclass(init=False, eq=False, repr=False, kw_only=True)
class AbstractFederated(BaseEstimator):  # type: ignore[misc]
    """`fit(X, y, clients=None)`: clients has an id for each row, None is one client.

    tol: the certified gap, in units of the objective, at which a fit ends; a `ConvergenceWarning` says that it was not
    reached. max_rounds: rounds after which it ends in any case; one round of the default method is one exchange.
    local_steps: K; with 1 the default method only surveys, with more it also tries local steps. method: a method of the
    library that replaces the default, FeDualSlide.
    A fit sets gap_ (None if the problem has none), status_, n_rounds_, n_exchanges_ and run_.
    """

    # As scikit-learn has it, anything may be stored; `fit` refuses what is wrong.
    tol: Any
    max_rounds: Any = 1000
    local_steps: Any = 1
    method: Any = None

    def __init__(self, tol: Any, max_rounds: Any, local_steps: Any, method: Any):
        self.tol, self.max_rounds, self.local_steps, self.method = tol, max_rounds, local_steps, method

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _solve(self, problem: AbstractProblem) -> Saddle:
        """The point of the smallest certificate; a warning if the tolerance is missed, or a bound is active there."""
        rounds, steps = whole_number("max_rounds", self.max_rounds), whole_number("local_steps", self.local_steps)
        method = FeDualSlide() if self.method is None else self.method
        steps = 1 if getattr(method, "one_machine", False) else steps
        run = solve(problem, method, rounds=rounds, local_steps=steps, tol=float(positive("tol", self.tol)))
        if run.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        if run.stop is Stop.INFEASIBLE:
            raise ValueError(f"{type(self).__name__} has no model: {run.detail}")
        self.run_, self.gap_, self.status_ = run, run.gap, run.status
        self.n_rounds_, self.n_exchanges_ = run.rounds, run.exchanges
        if self.status_ is not Status.OPTIMAL:
            claim = "no certificate" if self.gap_ is None else f"a certified gap <= {rounded_up(self.gap_)}"
            warnings.warn(
                f"{type(self).__name__} ended as {self.status_} ({run.stop}) after {run.exchanges} exchanges with "
                f"{claim}, tol={self.tol}: raise max_rounds or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        active_bounds(problem, run.z)
        return run.z


class FederatedClassifier(ClassifierMixin, AbstractFederated):  # type: ignore[misc]
    """A linear classifier: scores <w, row> + b, of one column for two classes and one column a class for more.

    A subclass says what problem it solves for rows in a common scale.
    """

    multiclass: ClassVar[bool] = True

    def _penalty(self, size: float) -> dict[str, Any]:
        """l1 and l2 for rows that were divided by `size`."""
        l1, l2 = nonnegative("l1", self.l1), nonnegative("l2", self.l2)
        if l1 == l2 == 0:
            raise ValueError("l1 or l2 must be > 0: nothing else bounds the weights, and a certificate needs a bound")
        return {"l1": l1 / size, "l2": l2 / size**2}

    @abstractmethod
    def _problem(self, X: NDArray[Any], label: NDArray[Any], clients: Any, size: float) -> AbstractProblem:
        """The problem for rows that were divided by `size`."""

    def _bias(self, x: Tree, scale: Scale, X: NDArray[Any], label: NDArray[Any]) -> Any:
        """What is added to the scores of rows in the common scale, which are scale.rows(X)."""
        return x["bias"]

    def _keep(self, problem: AbstractProblem, z: Saddle) -> None:
        """Set more attributes after a fit."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.multiclass
        return tags

    def fit(self, X: Any, y: Any, clients: Any = None) -> "FederatedClassifier":
        """Fit to rows X with labels y; clients: whose row it is."""
        refuse_mixed("y", y)
        X, y = checked_data(self, X, y)
        self.classes_, label = classes("y", y)
        if len(self.classes_) < 2:
            raise ValueError(f"y must hold at least two classes, but there is only one class, {self.classes_[0]!r}")
        if len(self.classes_) > 2 and not self.multiclass:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"y holds {len(self.classes_)} classes, {type(self).__name__} accepts two"
            )
        clients = np.zeros(X.shape[0]) if clients is None else clients
        scale = Scale(X, clients, intercept=True)
        # The rows in the common scale are not kept during the run: they are as large as the data.
        problem = self._problem(scale.rows(X), label, clients, scale.size)
        x = (z := self._solve(problem)).x
        weights, bias = scale.model(x["weights"], self._bias(x, scale, X, label))
        self.coef_, self.intercept_ = np.atleast_2d(weights.T), np.atleast_1d(bias)
        self._keep(problem, z)
        return self

    def decision_function(self, X: Any) -> NDArray[Any]:
        """The score of each row: above 0 for the second of two classes; one column a class for more."""
        check_is_fitted(self)
        scores = checked_data(self, X, reset=False) @ self.coef_.T + self.intercept_
        return np.asarray(scores[:, 0] if scores.shape[1] == 1 else scores)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        scores = self.decision_function(X)
        number = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[number])


def checked_data(estimator: BaseEstimator, X: Any, y: Any = None, **options: Any) -> Any:
    """scikit-learn's own checks, and X in float64, by rows if it is sparse; masked entries and text are refused."""
    refuse_masked("X", X)
    refuse_masked("y", y)
    given = (X,) if options.get("reset") is False else (X, y)
    try:
        return validate_data(estimator, *given, dtype=np.float64, accept_sparse="csr", **options)
    except OverflowError:
        raise ValueError(f"X must be real numbers that float64 can hold, got {short(X)}") from None
    except ValueError as error:
        if "could not convert" not in str(error):
            raise
        raise ValueError(f"X must be real numbers: {error}") from None

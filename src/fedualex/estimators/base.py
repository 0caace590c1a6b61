"""What all estimators share: checked input, features in a common scale, a run, and what is reported of it."""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from ..algorithms import FeDualSlide
from ..data import Standardizer
from ..display import rounded_up
from ..problems import AbstractProblem, Minibatch, active_bounds
from ..runtime import Status, Stop, solve
from ..runtime.simulator import smallest_gap
from ..tree import Saddle
from ..validation import positive, refuse_masked, short, whole_number
from ..validation.sparse import issparse


class Scale:
    """Rows as (row - mean) / size, with one size for all columns, so that the penalty keeps its meaning.

    mean and size (the root mean square of all deviations) come from federated moments, in which rows count by their
    weight. w / size and b - <w / size, mean> are the model for the rows as they were. Sparse rows are row / size, with
    the same size: less their mean they would be full. A problem that can take the mean off in its loss is given it as
    `center`, None for full rows; for others the mean is 0, and a bias that no penalty holds makes up for it.
    """

    def __init__(self, X: Any, clients: Any, intercept: bool, sample_weight: Any = None, in_loss: bool = False):
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            moments = Standardizer.fit(X, clients, sample_weight)
            size = float(np.sqrt(np.mean(moments.deviation**2 + (0 if intercept else moments.mean**2))))
        if not np.isfinite(size):
            raise ValueError("X must have a variance that float64 can hold: divide its columns by their size")
        self.size = size if size > 0 else 1.0
        sparse = issparse(X)
        self.mean = moments.mean if intercept and (in_loss or not sparse) else np.zeros_like(moments.mean)
        self.center = self.mean / self.size if intercept and in_loss and sparse else None

    def rows(self, X: Any, order: NDArray[Any]) -> Any:
        """Rows in the common scale and in this order, sparse if they were."""
        rows = X[order]
        if issparse(X):
            return rows / self.size
        rows -= self.mean
        rows /= self.size
        return rows

    def model(self, weights: Any, bias: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """The weights and the bias for rows as they were."""
        weights = np.asarray(weights) / self.size
        return weights, np.asarray(bias - self.mean @ weights)


@dataclass(init=False, eq=False, repr=False, kw_only=True)
class AbstractFederated(BaseEstimator):  # type: ignore[misc]
    """`fit(X, y, clients=None, sample_weight=None)`: clients has an id for each row, None is one client.

    sample_weight: a number >= 0 for each row, in proportion to which rows count in every mean; a row of weight 0 is as
    good as absent, and a weight of 2 is the row twice.
    tol: the certified gap, in units of the objective, at which a fit ends; a `ConvergenceWarning` says that it was not
    reached. max_rounds: rounds after which it ends in any case; one round of the default method is one exchange.
    local_steps: K; with 1 the default method only surveys, with more it also tries local steps. method: a method of the
    library that replaces the default, FeDualSlide.
    minibatch: None, or of how many rows of a client, drawn with replacement, each local step takes its operator; the
    default method is then the one that `fx.solve` chooses. dtype: the precision of rounds, "float64" or "float32"; if
    None, float32 with minibatches; certificates are float64 always. warm_start: start at the solution of the previous
    fit if its arrays have the shapes of this one. callback: is given every record of the run, and ends it by returning
    True. verbose: print every record; on a terminal a progress bar is shown in any case.
    A fit sets gap_ (None if the problem has none), status_, n_rounds_, n_exchanges_ and run_.
    """

    # As scikit-learn has it, anything may be stored; `fit` refuses what is wrong.
    tol: Any
    max_rounds: Any = 1000
    local_steps: Any = 1
    method: Any = None
    minibatch: Any = None
    dtype: Any = None
    warm_start: Any = False
    callback: Any = None
    verbose: Any = False

    centers: ClassVar[bool] = False
    """Whether `_problem` takes center=, the row to take off in the loss, as sparse rows need it."""

    def __init__(self, tol: Any, max_rounds: Any, local_steps: Any, method: Any):
        self.tol, self.max_rounds, self.local_steps, self.method = tol, max_rounds, local_steps, method

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _solve(self, problem: AbstractProblem) -> Saddle:
        """The point of the smallest certificate; a warning if the tolerance is missed, or a bound is active there."""
        if self.verbose:
            print(f"{type(self).__name__}: its programs are compiled, unless they were before")
        run = solve(problem, self._method(), **self._options(problem))
        if run.stop is Stop.INTERRUPTED and not run.detail:  # by the keyboard, not by the callback
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
                stacklevel=4,
            )
        active_bounds(problem, run.z)
        return run.z

    def _method(self) -> Any:
        """The method of a run; None lets the run choose one for noisy operators."""
        return FeDualSlide() if self.method is None and self.minibatch is None else self.method

    def _options(self, problem: AbstractProblem) -> dict[str, Any]:
        """The options of a run."""
        steps = whole_number("local_steps", self.local_steps)
        return {
            "rounds": whole_number("max_rounds", self.max_rounds),
            "local_steps": 1 if getattr(self.method, "one_machine", False) else steps,
            "tol": float(positive("tol", self.tol)),
            "noise": None if self.minibatch is None else Minibatch(whole_number("minibatch", self.minibatch)),
            "dtype": self.dtype,
            "z0": self._start(problem),
            "callback": self._told if self.verbose else self.callback,
        }

    def _start(self, problem: AbstractProblem) -> Saddle | None:
        """The last solution where there is one of the problem's shapes, in the scale of its own rows."""
        last = self.run_.z if self.warm_start and hasattr(self, "run_") else None
        same = jax.tree.map(np.shape, last) == jax.tree.map(np.shape, problem.like)
        return last if same else None

    def _told(self, record: dict[str, Any]) -> object:
        """What happens at a record of the run."""
        if self.verbose:
            print(f"{type(self).__name__}: round {record['round']}, {smallest_gap(record)}")
        return None if self.callback is None else self.callback(record)


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

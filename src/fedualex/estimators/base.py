"""What all estimators share: checked input, features in a common scale, a run, and what is reported of it."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from ..accepted import ClassWeight, Column, Number, Numbers, Switch, Whole
from ..arrays import RealMatrix, Reals, Values
from ..data import Standardizer
from ..display import round_up
from ..problems import AbstractProblem, AbstractRecipe, Minibatch, active_bounds, assemble
from ..problems.rows import Rows, label_column
from ..runtime import Run, Status, Stop, solve
from ..runtime.options import a_function
from ..runtime.simulator import smallest_gap
from ..runtime.status import status_of
from ..storage import Json
from ..tree import Saddle
from ..validation import issparse, positive, refuse_masked, row_weights, short, whole_number
from .effects import Fitted, contrast_labels, feature_names, find_optimum
from .penalties import AUTO, Setting, choose_penalty

if TYPE_CHECKING:
    from sklearn.utils import Tags


# Weights of rows and of classes.


ACCEPTED = "None, 'balanced' or a mapping from classes to numbers > 0"


def drop_weightless_rows(
    X: RealMatrix, y: NDArray[Any], sample_weight: Numbers | None, columns: Mapping[str, Column | None]
) -> tuple[RealMatrix, NDArray[Any], dict[str, NDArray[Any] | None]]:
    """X, y, and what else is known of each row, without the rows of weight 0, which are as good as absent.

    columns: None, or one label for each row.
    """
    labels = {k: None if v is None else label_column(k, v, X.shape[0]) for k, v in columns.items()}
    if sample_weight is None:
        return X, y, {"sample_weight": None, **labels}
    weight = row_weights(sample_weight, X.shape[0])
    there = weight > 0
    kept = {k: None if v is None else v[there] for k, v in labels.items()}
    return X[there], y[there], {"sample_weight": weight[there], **kept}


def by_client(clients: Column | None, rows: int) -> NDArray[np.intp]:
    """The order in which the rows of a client lie together, so that nobody needs to copy them again to have them."""
    return np.arange(rows) if clients is None else np.argsort(np.unique(clients, return_inverse=True)[1], kind="stable")


def with_class_weight(
    class_weight: ClassWeight | None, names: Values, label: NDArray[np.int32], weight: Reals | None
) -> Reals | None:
    """The weight of each row times that of its class; None if neither was given.

    class_weight "balanced" is (weight of all rows) / (classes * weight of the class), sums to which each client adds
    its own; in a mapping, classes that are not named weigh 1.
    """
    if class_weight is None:
        return None if weight is None else np.asarray(weight)
    own = np.ones(len(label)) if weight is None else weight
    if isinstance(class_weight, str) and class_weight == "balanced":
        mass = np.bincount(label, own, len(names))
        return np.asarray(own * (mass.sum() / (len(names) * mass))[label])
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be {ACCEPTED}, got {short(class_weight)}")
    if unknown := [name for name in class_weight if not np.any(names == name)]:
        raise ValueError(f"class_weight must be for classes of {names.tolist()}, got one for {short(unknown[0])}")
    factors = [positive(f"class_weight[{name!r}]", class_weight.get(name, 1.0)) for name in names.tolist()]
    return np.asarray(own * np.array(factors)[label])


class Scale:
    """Rows as (row - mean) / size, with one size for all columns, so that the penalty keeps its meaning.

    mean and size (the root mean square of all deviations) come from federated moments, in which rows count by their
    weight. w / size is for rows less the mean, and b is the score of the mean. Sparse rows are row / size, with
    the same size: less their mean they would be full. A problem that can take the mean off in its loss is given it as
    `center`, None for full rows; for others the mean is 0, and a bias that no penalty holds makes up for it.
    """

    def __init__(
        self, X: object, clients: object, intercept: bool, sample_weight: object = None, in_loss: bool = False
    ):
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            moments = Standardizer.fit(X, clients, sample_weight)
            size = float(np.sqrt(np.mean(moments.deviation**2 + (0 if intercept else moments.mean**2))))
        if not np.isfinite(size):
            raise ValueError("X must have a variance that float64 can hold: divide its columns by their size")
        self.size = size if size > 0 else 1.0
        sparse = issparse(X)
        self.mean = moments.mean if intercept and (in_loss or not sparse) else np.zeros_like(moments.mean)
        self.center = self.mean / self.size if intercept and in_loss and sparse else None

    def rows(self, X: RealMatrix, order: NDArray[np.intp]) -> RealMatrix:
        """Rows in the common scale and in this order, sparse if they were."""
        rows = X[order]
        if issparse(X):
            return rows / self.size
        rows -= self.mean
        rows /= self.size
        return rows


BLOCK = 2**15
"""Numbers of which scores are computed at a time, which stay in the processor's memory."""


def linear_scores(X: RealMatrix, center: Reals, weights: Reals, offset: Reals | float) -> Reals:
    """(X - center) weights^T + offset, weights being (outputs, features).

    The order in which the numbers of a row are added depends on how many columns there are and on nothing else: a row
    has the same score to the last bit, whichever rows come with it. Sparse rows stay as they are.
    """
    if issparse(X):
        return np.asarray(X @ weights.T + (offset - weights @ center))
    scores, step = np.empty((len(X), len(weights))), max(1, BLOCK // X.shape[1])
    for start in range(0, len(X), step):
        rows = np.subtract(X[start : start + step], center, order="C")
        for k, w in enumerate(weights):
            scores[start : start + step, k] = (rows * w).sum(axis=1)
    return np.asarray(scores + offset)


@dataclass(init=False, eq=False, repr=False, kw_only=True)
class AbstractFederated(BaseEstimator):  # type: ignore[misc]
    """`fit(X, y, clients=None, sample_weight=None)`: clients has an id for each row, None is one client.

    sample_weight: a number >= 0 for each row, in proportion to which rows count in every mean; a row of weight 0 is as
    good as absent, and a weight of 2 is the row twice.
    tol: the certified gap, in units of the objective, at which a fit ends; a `ConvergenceWarning` says that it was not
    reached. max_rounds: rounds after which it ends in any case; one round of the default method is one exchange.
    local_steps: K, of methods that take local steps. method: a method of the library in place of the one that
    `fx.solve` chooses, which `run_.chosen` names.
    minibatch: None, or of how many rows of a client, drawn with replacement, each local step takes its operator.
    dtype: the precision of rounds, "float64" or "float32"; if None, float32 with minibatches; certificates are float64
    always. warm_start: start at the solution of the previous fit if its arrays have the shapes of this one. callback:
    is given every record of the run, and ends it by returning True. verbose: print every record; on a terminal a
    progress bar is shown in any case.
    A penalty of "auto" (l1, of the Lassos alpha, of several targets nuclear) is chosen among 30 values by held-out
    rows: the largest whose held-out loss is within one standard error of the least, and where the worst client is
    served that of the least. folds: how many parts the rows of
    each client are dealt into for that, or "sites" to hold out one client after the other. path_ is then the curve that
    was measured (`path_.values`, `path_.measure`, `path_.error`, `path_.sentence`), else None; l1_, alpha_ or nuclear_
    is the penalty of the fit, which is certified as any other.
    A fit sets gap_ (None if the problem has none), status_, n_rounds_, n_exchanges_ and run_, and the model: coef_ for
    rows less center_, the mean of the columns, and offset_, the score of that mean. Predictions are made of these, and
    gap_ is about them. intercept_ = offset_ - <coef_, center_> is what is left for rows as they are, rounded: where
    columns are far from 0 for their spread, as time stamps are, <coef_, row> + intercept_ loses digits.
    """

    # As scikit-learn has it, anything may be stored; `fit` refuses what is wrong.
    tol: Number
    max_rounds: Whole = 1000
    local_steps: Whole = 1
    method: Any = None
    minibatch: Whole | None = None
    dtype: str | type | None = None
    warm_start: Switch = False
    callback: Callable[[Json], object] | None = None
    verbose: Switch = False

    centers: ClassVar[bool] = False
    """Whether `_problem` takes center=, the row to take off in the loss, as sparse rows need it."""
    shifts: ClassVar[bool] = True
    """Whether the problem is the same for targets that are numbers less one of them, and over one."""
    penalized: ClassVar[str] = ""
    """The penalty that held-out rows choose if it is "auto"; empty where they cannot."""

    def __init__(self, tol: Number, max_rounds: Whole, local_steps: Whole, method: Any):
        self.tol, self.max_rounds, self.local_steps, self.method = tol, max_rounds, local_steps, method

    def __sklearn_tags__(self) -> "Tags":
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _recipe(self, at: Setting) -> AbstractRecipe:
        """The problem without rows, for this penalty and rows in this scale."""
        raise NotImplementedError(f"{type(self).__name__} says by _problem what problem it solves")

    def _assemble(self, parts: Sequence[Rows], clients: Column | None, at: Setting) -> AbstractProblem:
        """The problem of these rows. A penalty that is "auto" is chosen first; sets path_ and, as l1_, its value.

        parts: the rows of each client; clients: whose each row was.
        """
        name, self.path_ = self.penalized, None
        value = getattr(self, name)
        if isinstance(value, str) and value == AUTO:
            names = [""] if clients is None else list(map(str, np.unique(clients)))
            self.path_ = choose_penalty(self, parts, names, name, at)
            value = self.path_.value
        problem = assemble(self._recipe(at._replace(value=value)), parts)
        setattr(self, f"{name}_", float(value))
        return problem

    def _keep_model(self, center: Reals, weights: Reals, offset: Reals | float) -> None:
        """Set the model for rows less the center. weights: (outputs, features), or (features,) of one number."""
        self.center_, self.coef_, self.offset_ = center, weights, offset
        self.intercept_ = (np.asarray(offset) - weights @ center)[()]

    def _keep_rows(self, fitted: Fitted) -> None:
        """What an estimator with standard errors keeps of a fit."""

    def _scores(self, X: object) -> Reals:
        """Of each row, one column for each output."""
        weights = np.atleast_2d(self.coef_)
        if not hasattr(self, "center_"):  # somebody has set a model for rows as they are
            return linear_scores(X, np.zeros(weights.shape[1]), weights, self.intercept_)
        return linear_scores(X, self.center_, weights, self.offset_)

    def _solve(self, problem: AbstractProblem) -> Saddle:
        """The point of the smallest certificate; a warning if the tolerance is missed, or a bound is active there."""
        if self._has_no_penalty:
            return self._solve_without_penalty(problem)
        if self.verbose:
            print(f"{type(self).__name__}: its programs are compiled, unless they were before")
        answers: list[object] = []
        run = solve(problem, self.method, **self._options(problem), callback=self._listener(answers))
        if run.stop is Stop.INTERRUPTED and answers[-1:] != [True]:  # by the keyboard, not by the callback
            raise KeyboardInterrupt
        if run.stop is Stop.INFEASIBLE:
            raise ValueError(f"{type(self).__name__} has no model: {run.detail}")
        self.run_: Run | None = run
        self.gap_, self.status_ = run.gap, run.status
        self.n_rounds_, self.n_exchanges_ = run.rounds, run.exchanges
        if self.status_ is not Status.OPTIMAL:
            claim = "no certificate" if self.gap_ is None else f"a certified gap <= {round_up(self.gap_)}"
            warnings.warn(
                f"{type(self).__name__} ended as {self.status_} ({run.stop}) after {run.exchanges} exchanges with "
                f"{claim}, tol={self.tol}: raise max_rounds or tol",
                ConvergenceWarning,
                stacklevel=4,
            )
        active_bounds(problem, run.z)
        return run.z

    @property
    def _has_no_penalty(self) -> bool:
        """Whether the problem has neither a penalty nor a bound, so that its optimum is found by another way."""
        return False

    def _solve_without_penalty(self, problem: AbstractProblem) -> Saddle:
        """By Newton's method on sums, with a gap that self-concordance proves without a domain."""
        tol, most = float(positive("tol", self.tol)), whole_number("max_rounds", self.max_rounds)
        try:
            optimum = find_optimum(problem, feature_names(self), contrast_labels(self), most)
        except ValueError as error:
            raise ValueError(f"{type(self).__name__}: {error}") from None
        self.run_, self.gap_ = None, optimum.gap
        self.n_rounds_ = self.n_exchanges_ = optimum.exchanges
        self.status_ = status_of(optimum.gap, tol)
        return optimum.z

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
        }

    def _start(self, problem: AbstractProblem) -> Saddle | None:
        """The last solution where there is one of the problem's shapes, in the scale of its own rows."""
        run: Run | None = getattr(self, "run_", None)
        last = run.z if self.warm_start and run is not None else None
        same = jax.tree.map(np.shape, last) == jax.tree.map(np.shape, problem.like)
        return last if same else None

    def _listener(self, answers: list[object]) -> Callable[[Json], object] | None:
        """What happens at a record of the run, if anything does; what the callback returned goes to `answers`."""
        told = None if self.callback is None else a_function("callback", self.callback)

        def listen(record: Json) -> object:
            if self.verbose:
                print(f"{type(self).__name__}: round {record['round']}, {smallest_gap(record)}")
            answers.append(None if told is None else told(record))
            return answers[-1]

        return listen if self.verbose or told is not None else None


def check_data(estimator: BaseEstimator, X: object, y: object = None, **options: object) -> Any:
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

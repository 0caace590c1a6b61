"""Regressors: sparse, of counts, of low rank, robust."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score
from sklearn.utils.validation import check_is_fitted

from ..accepted import Column, Folds, Matrix, Number, Penalty, Switch
from ..arrays import RealMatrix, Reals, Values
from ..data import Standardizer
from ..problems import AbstractProblem, AbstractRecipe, LowRankRecipe, SparseGlmRecipe, robust_regression, split_rows
from ..problems.families.counts import Poisson
from ..problems.rows import features
from ..validation import nonnegative, plain_array, positive, short
from .base import AbstractFederated, Scale, by_client, check_data, drop_weightless_rows
from .effects import EffectsMixin, Fitted
from .penalties import ANY, Setting

if TYPE_CHECKING:
    from sklearn.utils import Tags


class FederatedRegressor(RegressorMixin, AbstractFederated):  # type: ignore[misc]
    """A linear model of one number: <w, row> + b.

    A subclass says what problem it solves for rows in a common scale and targets less their mean.
    """

    fit_intercept: Switch = True

    def _problem(
        self,
        X: RealMatrix,
        y: Reals,
        clients: Column | None,
        size: float,
        sample_weight: Reals | None,
        center: Reals | None = None,
        groups: Values | None = None,
    ) -> AbstractProblem:
        """The problem for rows that were divided by `size`; sample_weight is None if all rows weigh alike."""
        parts = split_rows(features(X), y, clients, sample_weight, groups)
        at = Setting(getattr(self, self.penalized), size, center=center, grouped=groups is not None)
        return self._assemble(parts, clients, at)

    def fit(
        self, X: Matrix, y: Column, clients: Column | None = None, sample_weight: Column | None = None
    ) -> "FederatedRegressor":
        """Fit to rows X with targets y; clients: whose row it is; sample_weight: how much it counts."""
        return self._fit(X, y, sample_weight, clients=clients)

    def _fit(
        self, X: Matrix, y: Column, sample_weight: Column | None, **columns: Column | None
    ) -> "FederatedRegressor":
        """columns: what `_problem` is given for each row beside its weight."""
        check_numbers(y)
        checked, target = self._check(X, y)
        kept, target, rows = drop_weightless_rows(checked, target, sample_weight, columns)
        clients, weight = rows["clients"], rows["sample_weight"]
        scale = Scale(kept, clients, self.fit_intercept, weight, self.centers)
        order = by_client(clients, len(target))
        rows = {name: None if column is None else column[order] for name, column in rows.items()}
        rows |= {"center": scale.center} if self.centers else {}
        shift = Standardizer.fit(target.reshape(len(target), -1), clients, weight).mean
        shift = (shift if self.fit_intercept and self.shifts else np.zeros_like(shift)).reshape(target.shape[1:])
        problem = self._problem(scale.rows(kept, order), (target - shift)[order], size=scale.size, **rows)
        x = (z := self._solve(problem)).x
        weights = np.asarray(x["weights"] / scale.size).reshape(-1, *target.shape[1:]).T
        self._keep_model(scale.mean, weights, np.reshape(x.get("bias", 0.0) + shift, target.shape[1:])[()])
        self._keep_rows(Fitted(problem, z, scale.size, shift))
        return self

    def _check(self, X: object, y: object) -> tuple[RealMatrix, Reals]:
        return check_data(self, X, y, y_numeric=True)

    def predict(self, X: Matrix) -> Values:
        """<w, row> + b for each row."""
        check_is_fitted(self)
        scores = self._scores(check_data(self, X, reset=False))
        return scores[:, 0] if np.ndim(self.coef_) == 1 else scores


def check_numbers(y: object) -> None:
    """Refuse text; all else is scikit-learn's to check."""
    array = plain_array("y", y)
    try:
        np.asarray(array if array.dtype.kind in "USO" and y is not None else 0, float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"y must be real numbers, one for each row of X, got {short(y)}") from None


# Sparse linear regression.


@dataclass(eq=False, repr=False)
class FederatedLasso(EffectsMixin, FederatedRegressor):
    """min_{w, b} mean (<w, row> + b - y)^2 / 2 + alpha ||w||_1 over the rows of all clients, as scikit-learn's Lasso.

    radius: None, or a bound of ||w||_2. coef_, intercept_: w and b. For all else see `AbstractFederated`.
    fit_intercept: whether there is a b; it is 0 otherwise. alpha = 0 is least squares: run_ is None then, and columns
    that are combinations of others are refused by name. `summary`, `conf_int`, `coef_std_`: see `EffectsMixin`.
    """

    centers: ClassVar[bool] = True
    penalized: ClassVar[str] = "alpha"

    alpha: Penalty = 1.0
    _: KW_ONLY
    fit_intercept: Switch = True
    radius: Number | None = None
    folds: Folds = 5
    tol: Number = 1e-4

    def _recipe(self, at: Setting) -> AbstractRecipe:
        alpha, radius = at.penalty(nonnegative("alpha", at.value)), at.radius(self.radius)
        radius = ANY if alpha == 0 and radius is None else radius
        return SparseGlmRecipe("squared", l1=alpha, radius=radius, intercept=self.fit_intercept, center=at.center)

    @property
    def _has_no_penalty(self) -> bool:
        return self.alpha_ == 0 and self.radius is None


@dataclass(eq=False, repr=False)
class FederatedGroupLasso(EffectsMixin, FederatedRegressor):
    """min_{w, b} mean (<w, row> + b - y)^2 / 2 + alpha sum_g sqrt(d_g) ||w_g||_2 over the rows of all clients.

    groups: for each column its group, whose d_g weights vanish together; None makes each column a group.
    radius: None, or a bound of ||w||_2. coef_, intercept_: w and b. For all else see `AbstractFederated`.
    fit_intercept: whether there is a b; it is 0 otherwise.
    """

    centers: ClassVar[bool] = True
    penalized: ClassVar[str] = "alpha"

    alpha: Penalty = 1.0
    groups: Column | None = None
    _: KW_ONLY
    fit_intercept: Switch = True
    radius: Number | None = None
    folds: Folds = 5
    tol: Number = 1e-4

    def _recipe(self, at: Setting) -> AbstractRecipe:
        groups = range(self.n_features_in_) if self.groups is None else self.groups
        group, radius = at.penalty(positive("alpha", at.value)), at.radius(self.radius)
        own, center = self.fit_intercept, at.center
        return SparseGlmRecipe("squared", group=group, groups=groups, radius=radius, intercept=own, center=center)


# Regression of counts.


@dataclass(eq=False, repr=False)
class FederatedPoissonRegression(EffectsMixin, FederatedRegressor):
    """min_{w, b} mean (exp(s) - y s + y log y - y) + l1 ||w||_1 + l2/2 ||w||^2, s = <w, row> + b: half the deviance.

    With l1 = 0 as scikit-learn's PoissonRegressor(alpha=l2). `predict` gives the mean exp(s), `score` D^2, the share of
    the deviance that is explained. Counts over exposures are rates y whose sample_weight is the exposure.
    radius: None, or a bound of ||w||_2. coef_, intercept_: w and b. For all else see `AbstractFederated`.
    fit_intercept: whether there is a b; it is 0 otherwise. l1 = l2 = 0 is the model without penalty, and run_ is None.
    `summary`, `conf_int`, `coef_std_`: see `EffectsMixin`.
    """

    centers: ClassVar[bool] = True
    penalized: ClassVar[str] = "l1"
    shifts: ClassVar[bool] = False

    l1: Penalty = 0.01
    l2: Number = 0.0
    _: KW_ONLY
    fit_intercept: Switch = True
    radius: Number | None = None
    folds: Folds = 5
    tol: Number = 1e-4

    def __sklearn_tags__(self) -> "Tags":
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _check(self, X: object, y: object) -> tuple[RealMatrix, Reals]:
        rows, target = super()._check(X, y)
        return rows, Poisson().column(target, len(target))

    def _recipe(self, at: Setting) -> AbstractRecipe:
        bounded = at.penalties(self.l2, self.radius, unbounded=True)
        return SparseGlmRecipe("poisson", intercept=self.fit_intercept, center=at.center, **bounded)

    @property
    def _has_no_penalty(self) -> bool:
        return bool(self.l1_ == 0 and self.l2 == 0 and self.radius is None)

    def predict(self, X: Matrix) -> Values:
        """exp(<w, row> + b) for each row: the count that is expected."""
        return np.asarray(np.exp(super().predict(X)))

    def score(self, X: Matrix, y: Column, sample_weight: Column | None = None) -> float:
        """D^2: 1 less the deviance over that of the mean."""
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))


# Regression of several targets that share few directions.


@dataclass(eq=False, repr=False)
class FederatedMultiTask(FederatedRegressor):
    """min_{W, b} mean ||W row + b - y||^2 / 2 + nuclear ||W||_* over the rows of all clients.

    y has a row of targets for each row of X; a column of targets is one task. coef_, of shape (targets, features), and
    intercept_, of shape (targets,), are W and b; of one task they are an array and a number, as everywhere.
    For all else see `AbstractFederated`.
    fit_intercept: whether there is a b; it is 0 otherwise.
    """

    penalized: ClassVar[str] = "nuclear"

    nuclear: Penalty = 0.01
    _: KW_ONLY
    fit_intercept: Switch = True
    folds: Folds = 5
    tol: Number = 1e-4

    def __sklearn_tags__(self) -> "Tags":
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _check(self, X: object, y: object) -> tuple[RealMatrix, Reals]:
        return check_data(self, X, y, y_numeric=True, multi_output=True)

    def _problem(self, X: RealMatrix, y: Reals, *about: Any, **more: Any) -> AbstractProblem:
        return super()._problem(X, y.reshape(len(y), -1), *about, **more)

    def _recipe(self, at: Setting) -> AbstractRecipe:
        return LowRankRecipe(at.penalty(positive("nuclear", at.value)), self.fit_intercept)


# Regression that outliers cannot pull.


@dataclass(eq=False, repr=False)
class FederatedRobustRegression(FederatedRegressor):
    """min_{w, b} mean |<w, row> + b - y| + l1 ||w||_1 + l2/2 ||w||^2 over the rows of all clients.

    radius: None, or a bound of ||w||_2. coef_, intercept_: w and b. For all else see `AbstractFederated`.
    fit_intercept: whether there is a b; it is 0 otherwise.
    """

    l1: Penalty = 0.01
    l2: Number = 0.0
    _: KW_ONLY
    fit_intercept: Switch = True
    radius: Number | None = None
    tol: Number = 1e-2

    def _problem(
        self,
        X: Reals,
        y: Values,
        clients: Any,
        size: float,
        sample_weight: Any,
        center: Any = None,
        groups: Any = None,
    ) -> AbstractProblem:
        bounded = Setting(self.l1, size).penalties(self.l2, self.radius)
        return robust_regression(X, y, clients, intercept=self.fit_intercept, sample_weight=sample_weight, **bounded)

"""Models whose loss on some groups is limited."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from ..accepted import Column, Folds, Limits, Matrix, Number, Penalty
from ..arrays import RealMatrix, Reals, Values
from ..problems import AbstractProblem, AbstractRecipe, ConstrainedRecipe
from ..problems.constrained import check_limits
from ..problems.families import FAMILIES, Family, family_of
from ..tables.goals import MOST_WEIGHT
from ..validation import positive
from .classifiers import ProbabilisticClassifier
from .effects import EffectsMixin
from .penalties import Setting
from .regressors import FederatedRegressor


@dataclass(eq=False, repr=False)
class LimitedClassifier(EffectsMixin, ProbabilisticClassifier):
    """The least mean logistic loss of all rows + l1 ||w||_1 + l2/2 ||w||^2, that of some groups being limited.

    limits: a mapping from groups to the largest mean loss of each, or one number for all of them; log 2 = 0.693 is that
    of a model that knows nothing. Groups are the clients, or what `fit` is given as groups=, a label for each row,
    whoever holds it. Limits that no model meets are refused with a proof. A fit also sets violation_, by how much they
    are exceeded in training at most: the excess of a group counts a thousand times the mean loss at most, which may be
    too little where a limit is barely within reach. Limits are kept in training, not on further rows.
    radius: None, or a bound of ||w||_2. For all else see `AbstractFederated`; for one class, and for rates of errors,
    `NeymanPearsonClassifier`.
    """

    multiclass: ClassVar[bool] = False

    limits: Limits = 1.0
    l1: Penalty = 0.01
    l2: Number = 0.0
    _: KW_ONLY
    radius: Number | None = None
    folds: Folds = 5
    tol: Number = 1e-4

    def fit(
        self,
        X: Matrix,
        y: Column,
        clients: Column | None = None,
        sample_weight: Column | None = None,
        groups: Column | None = None,
    ) -> "LimitedClassifier":
        """Fit to rows X with labels y.

        clients: whose row it is; sample_weight: how much it counts; groups: whose losses are limited, the clients if
        None.
        """
        check_limits(self.limits)
        self._fit(X, y, sample_weight, clients=clients, groups=clients if groups is None else groups)
        self.violation_ = None if self.run_ is None else self.run_.violation
        return self

    def _groups(self, label: Values, groups: Values | None) -> Values:
        return np.zeros(len(label), int) if groups is None else groups

    def _recipe(self, at: Setting) -> AbstractRecipe:
        return ConstrainedRecipe(self.limits, of_all=True, multiplier=MOST_WEIGHT, **at.penalties(self.l2, self.radius))


@dataclass(eq=False, repr=False)
class LimitedRegressor(EffectsMixin, FederatedRegressor):
    """`LimitedClassifier` for numbers: losses are means of u^2 / 2, u = <w, row> + b - y, or of Huber losses of u.

    limits: as there, of losses in the units of y^2 / 2. loss: "squared", or "huber": u^2 / 2 for |u| <= delta and
    delta |u| - delta^2 / 2 beyond. coef_, intercept_: w and b. l1, l2, radius: as there.
    """

    penalized: ClassVar[str] = "l1"

    limits: Limits
    l1: Penalty = 0.01
    l2: Number = 0.0
    _: KW_ONLY
    loss: Family | str = "squared"
    delta: Number = 1.0
    radius: Number | None = None
    folds: Folds = 5
    tol: Number = 1e-4

    def fit(
        self,
        X: Matrix,
        y: Column,
        clients: Column | None = None,
        sample_weight: Column | None = None,
        groups: Column | None = None,
    ) -> "LimitedRegressor":
        """Fit to rows X with targets y; clients, sample_weight and groups as for `LimitedClassifier`."""
        check_limits(self.limits)
        self._fit(X, y, sample_weight, clients=clients, groups=clients if groups is None else groups)
        self.violation_ = None if self.run_ is None else self.run_.violation
        return self

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
        """Rows without a group are one."""
        own = np.zeros(len(y), int) if groups is None else groups
        return super()._problem(X, y, clients, size, sample_weight, center, own)

    def _recipe(self, at: Setting) -> AbstractRecipe:
        of_classes = tuple(name for name, family in FAMILIES.items() if family().reading.labelled)
        loss = family_of("loss", self.loss, of_classes, delta=positive("delta", self.delta))
        bounded = at.penalties(self.l2, self.radius)
        return ConstrainedRecipe(self.limits, loss, of_all=True, multiplier=MOST_WEIGHT, **bounded)

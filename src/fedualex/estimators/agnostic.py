"""Models for the worst mixture of clients or groups."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from ..accepted import ClassWeight, Column, Folds, Matrix, Number, Numbers, Penalty
from ..problems import AbstractRecipe, AgnosticRecipe
from ..problems.families import FAMILIES, Family, family_of
from ..validation import nonnegative, positive
from .classifiers import ProbabilisticClassifier
from .effects import EffectsMixin
from .penalties import Setting
from .regressors import FederatedRegressor


@dataclass(eq=False, repr=False)
class AgnosticClassifier(EffectsMixin, ProbabilisticClassifier):
    """min_x max_y sum_m y_m loss_m(x) + l1 ||w||_1 + l2/2 ||w||^2 - kl KL(y || prior) (`fx.problems.agnostic`).

    m counts the clients, or the groups of rows if `fit` is given groups=, a label for each row, whoever holds it.
    prior has a number for each of them, in sorted order of their ids; cvar is the share of them that is served
    worst, None for the worst one. One client is plain logistic regression. class_weight: None, "balanced" or a mapping
    from classes to numbers, by which the weights of their rows are multiplied. radius: None, or a bound of ||w||_2.
    For all else see `AbstractFederated`.
    """

    l1: Penalty = 0.01
    l2: Number = 0.0
    kl: Number = 0.0
    _: KW_ONLY
    prior: Numbers | None = None
    cvar: Number | None = None
    class_weight: ClassWeight | None = None
    radius: Number | None = None
    folds: Folds = 5
    tol: Number = 1e-2

    def fit(
        self,
        X: Matrix,
        y: Column,
        clients: Column | None = None,
        sample_weight: Column | None = None,
        groups: Column | None = None,
    ) -> "AgnosticClassifier":
        """Fit to rows X with labels y.

        clients: whose row it is; sample_weight: how much it counts; groups: among whom the worst mixture is sought,
        the clients if None.
        """
        self._fit(X, y, sample_weight, clients=clients, groups=groups)
        return self

    def _recipe(self, at: Setting) -> AbstractRecipe:
        bounded = at.penalties(self.l2, self.radius)
        return AgnosticRecipe(kl=self.kl, prior=self.prior, cvar=self.cvar, grouped=at.grouped, **bounded)


@dataclass(eq=False, repr=False)
class AgnosticRegressor(EffectsMixin, FederatedRegressor):
    """`AgnosticClassifier` for numbers: loss_m is a mean of u^2 / 2, u = <w, row> + b - y, or of Huber losses of u.

    loss: "squared", or "huber": u^2 / 2 for |u| <= delta and delta |u| - delta^2 / 2 beyond. One client, or cvar=1 with
    clients of equal weight, is plain regression. coef_, intercept_: w and b. For all else see `AgnosticClassifier`.
    l1, l2, kl, prior, cvar, radius: as there.
    """

    penalized: ClassVar[str] = "l1"

    l1: Penalty = 0.01
    l2: Number = 0.0
    kl: Number = 0.0
    _: KW_ONLY
    loss: Family | str = "squared"
    delta: Number = 1.0
    prior: Numbers | None = None
    cvar: Number | None = None
    radius: Number | None = None
    folds: Folds = 5
    tol: Number = 1e-2

    def fit(
        self,
        X: Matrix,
        y: Column,
        clients: Column | None = None,
        sample_weight: Column | None = None,
        groups: Column | None = None,
    ) -> "AgnosticRegressor":
        """Fit to rows X with targets y; clients, sample_weight and groups as for `AgnosticClassifier`."""
        self._fit(X, y, sample_weight, clients=clients, groups=groups)
        return self

    def _recipe(self, at: Setting) -> AbstractRecipe:
        of_classes = tuple(name for name, family in FAMILIES.items() if family().reading.labelled)
        delta, kl = positive("delta", self.delta) / at.unit, nonnegative("kl", self.kl) / at.unit**2
        loss = family_of("loss", self.loss, of_classes, delta=delta)
        bounded = at.penalties(self.l2, self.radius)
        return AgnosticRecipe(loss, kl=kl, prior=self.prior, cvar=self.cvar, grouped=at.grouped, **bounded)

"""Times to an event: a Cox model whose strata are the clients."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..accepted import Column, Folds, Matrix, Number, Penalty
from ..arrays import RealMatrix, Reals
from ..problems import AbstractRecipe, split_rows
from ..problems.cox import CoxRecipe, times_and_events
from ..problems.risk_sets import concordance_sums
from ..problems.rows import features
from ..validation import plain_array
from .base import AbstractFederated, Scale, by_client, check_data, drop_weightless_rows
from .effects import EffectsMixin, Fitted
from .penalties import Setting
from .regressors import check_numbers

if TYPE_CHECKING:
    from sklearn.utils import Tags


@dataclass(eq=False, repr=False)
class FederatedCoxRegression(EffectsMixin, RegressorMixin, AbstractFederated):  # type: ignore[misc]
    """min_w Cox's partial likelihood of times to an event, over rows, + l1 ||w||_1 + l2/2 ||w||^2; clients are strata.

    y: an array with two named fields, first whether the event happened and then the time, as of scikit-survival; or
    two columns, of times and of events (1, or 0 if the row was last seen then without it); or times alone, at which
    all events happened. Risk sets never cross a client. `predict` gives <w, row>, the logarithm of the hazard relative
    to a mean row, and `score` the C-index over all pairs of rows. There is no intercept: offset_ is 0.
    radius: None, or a bound of ||w||_2. l1 = l2 = 0 is the model without penalty: run_ is None then, and a likelihood
    that grows forever is refused with the direction. `summary`, `conf_int`, `coef_std_`: see `EffectsMixin`. For all
    else see `AbstractFederated`.
    """

    penalized: ClassVar[str] = "l1"
    shifts: ClassVar[bool] = False

    l1: Penalty = 0.01
    l2: Number = 0.0
    _: KW_ONLY
    radius: Number | None = None
    folds: Folds = 5
    tol: Number = 1e-4

    def __sklearn_tags__(self) -> "Tags":
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def fit(
        self, X: Matrix, y: Column, clients: Column | None = None, sample_weight: Column | None = None
    ) -> "FederatedCoxRegression":
        """Fit to rows X with times and events y; clients: whose row it is; sample_weight: how much it counts."""
        checked, pairs = self._check(X, y)
        kept, pairs, rows = drop_weightless_rows(checked, pairs, sample_weight, {"clients": clients})
        owners, weight = rows["clients"], rows["sample_weight"]
        scale, order = Scale(kept, owners, True, weight), by_client(owners, len(pairs))
        owners, weight = (None if column is None else column[order] for column in (owners, weight))
        parts = split_rows(features(scale.rows(kept, order)), pairs[order], owners, weight)
        problem = self._assemble(parts, owners, Setting(self.l1, scale.size))
        weights = np.asarray((z := self._solve(problem)).x["weights"])
        self._keep_model(scale.mean, weights / scale.size, 0.0)
        self._keep_rows(Fitted(problem, z, scale.size, 0.0))
        return self

    def _check(self, X: object, y: object) -> tuple[RealMatrix, Reals]:
        columns = None if y is None else _columns_of(y)
        rows, times = check_data(
            self, X, columns, y_numeric=True, multi_output=columns is not None and columns.shape[1:] == (2,)
        )
        return rows, _pairs_of(times)

    def _recipe(self, at: Setting) -> AbstractRecipe:
        return CoxRecipe(**at.penalties(self.l2, self.radius, unbounded=True))

    @property
    def _has_no_penalty(self) -> bool:
        return bool(self.l1_ == 0 and self.l2 == 0 and self.radius is None)

    def predict(self, X: Matrix) -> Reals:
        """The logarithm of the hazard of each row relative to the mean row."""
        check_is_fitted(self)
        return self._scores(check_data(self, X, reset=False))[:, 0]

    def score(self, X: Matrix, y: Column) -> float:
        """The C-index: of the pairs of rows whose order in time is known, the share that is ordered rightly."""
        check_is_fitted(self)
        times, events = _pairs_of(_columns_of(y)).T
        sums = concordance_sums(times, events, self.predict(X))
        return float(sums["concordant"] / sums["comparable"])


def _columns_of(y: object) -> NDArray[Any]:
    """y as it is, or the times and events of two named fields, the event first."""
    array: NDArray[Any] = plain_array("y", y)
    if (names := array.dtype.names) is None:
        check_numbers(y)
        return array
    if len(names) != 2 or array.dtype[0].kind != "b":
        raise ValueError(f"y must have two fields, an event (true or false) and a time, got {names}")
    return np.stack([array[names[1]].astype(float), array[names[0]].astype(float)], axis=1)


def _pairs_of(y: Reals) -> NDArray[np.float64]:
    """Times and events; of times alone all events happened."""
    return times_and_events(np.stack([y, np.ones(len(y))], axis=1) if y.ndim == 1 else y, len(y))

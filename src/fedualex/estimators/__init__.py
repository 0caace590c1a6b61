"""scikit-learn estimators whose rows belong to clients; each comes with the certificate of its fit."""

try:
    import sklearn  # noqa: F401
except ImportError:
    raise ImportError("fedualex.estimators needs scikit-learn: pip install 'fedualex[estimators]'") from None

from .agnostic import AgnosticClassifier, AgnosticRegressor
from .base import AbstractFederated
from .classifiers import (
    FederatedAUCClassifier,
    FederatedClassifier,
    FederatedLogisticRegression,
    NeymanPearsonClassifier,
)
from .limited import LimitedClassifier, LimitedRegressor
from .regressors import (
    FederatedGroupLasso,
    FederatedLasso,
    FederatedMultiTask,
    FederatedPoissonRegression,
    FederatedRegressor,
    FederatedRobustRegression,
)
from .survival import FederatedCoxRegression

__all__ = [
    "AbstractFederated",
    "AgnosticClassifier",
    "AgnosticRegressor",
    "FederatedAUCClassifier",
    "FederatedClassifier",
    "FederatedCoxRegression",
    "FederatedGroupLasso",
    "FederatedLasso",
    "FederatedLogisticRegression",
    "FederatedMultiTask",
    "FederatedPoissonRegression",
    "FederatedRegressor",
    "FederatedRobustRegression",
    "LimitedClassifier",
    "LimitedRegressor",
    "NeymanPearsonClassifier",
]

"""scikit-learn estimators whose rows belong to clients; each comes with the certificate of its fit."""

try:
    import sklearn  # noqa: F401
except ImportError:
    raise ImportError("fedualex.estimators needs scikit-learn: pip install 'fedualex[estimators]'") from None

from .agnostic import AgnosticClassifier, AgnosticRegressor
from .auc import FederatedAUCClassifier
from .base import AbstractFederated
from .classifier import FederatedClassifier
from .lasso import FederatedGroupLasso, FederatedLasso
from .logistic import FederatedLogisticRegression
from .multi_task import FederatedMultiTask
from .neyman_pearson import NeymanPearsonClassifier
from .regressor import FederatedRegressor
from .robust import FederatedRobustRegression

__all__ = [
    "AbstractFederated",
    "AgnosticClassifier",
    "AgnosticRegressor",
    "FederatedAUCClassifier",
    "FederatedClassifier",
    "FederatedGroupLasso",
    "FederatedLasso",
    "FederatedLogisticRegression",
    "FederatedMultiTask",
    "FederatedRegressor",
    "FederatedRobustRegression",
    "NeymanPearsonClassifier",
]

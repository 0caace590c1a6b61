"""scikit-learn estimators whose rows belong to clients; each comes with the certificate of its fit."""

try:
    import sklearn  # noqa: F401
except ImportError:
    raise ImportError("fedualex.estimators needs scikit-learn: pip install 'fedualex[estimators]'") from None

from .agnostic import AgnosticClassifier
from .auc import FederatedAUCClassifier
from .base import AbstractFederated, FederatedClassifier
from .lasso import FederatedLasso
from .logistic import FederatedLogisticRegression
from .neyman_pearson import NeymanPearsonClassifier

__all__ = [
    "AbstractFederated",
    "AgnosticClassifier",
    "FederatedAUCClassifier",
    "FederatedClassifier",
    "FederatedLasso",
    "FederatedLogisticRegression",
    "NeymanPearsonClassifier",
]

"""Problems: operators, data, oracles, certificates, and a catalogue of ready constructors."""

from .active import active_bounds
from .agnostic import agnostic
from .auc import auc
from .base import AbstractProblem
from .bilinear import Bilinear, bilinear, matrix_game
from .certificate import Certificate
from .constrained import constrained, violation
from .convexity import ConvexityCheck, check_convex_concave
from .general import Problem
from .metrics import ClientMetrics, client_metrics, roc_auc
from .oracles import AbstractOracle, Exact, GaussianNoise, Minibatch
from .paper import paper_l1, paper_nuclear

__all__ = [
    "AbstractOracle",
    "AbstractProblem",
    "Bilinear",
    "Certificate",
    "ClientMetrics",
    "ConvexityCheck",
    "Exact",
    "GaussianNoise",
    "Minibatch",
    "Problem",
    "active_bounds",
    "agnostic",
    "auc",
    "bilinear",
    "check_convex_concave",
    "client_metrics",
    "constrained",
    "matrix_game",
    "paper_l1",
    "paper_nuclear",
    "roc_auc",
    "violation",
]

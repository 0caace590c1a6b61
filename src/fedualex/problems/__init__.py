"""Problems: operators, data, oracles, certificates, and a catalogue of ready constructors."""

from .active import active_bounds
from .adversarial import AttackReport, attack_report, universal_adversarial
from .agnostic import agnostic
from .auc import auc
from .base import AbstractProblem
from .bilinear import Bilinear, bilinear, matrix_game
from .certificate import Certificate
from .constrained import constrained
from .convexity import ConvexityCheck, check_convex_concave
from .feasibility import phase_one, violation
from .floor import Floor
from .general import Problem
from .glm import sparse_glm
from .low_rank import low_rank
from .metrics import ClientMetrics, client_metrics, roc_auc
from .oracles import AbstractOracle, Exact, GaussianNoise, Minibatch
from .paper import paper_l1, paper_nuclear
from .robust import robust_regression
from .survey import Surveyed

__all__ = [
    "AbstractOracle",
    "AbstractProblem",
    "AttackReport",
    "Bilinear",
    "Certificate",
    "ClientMetrics",
    "ConvexityCheck",
    "Exact",
    "Floor",
    "GaussianNoise",
    "Minibatch",
    "Problem",
    "Surveyed",
    "active_bounds",
    "agnostic",
    "attack_report",
    "auc",
    "bilinear",
    "check_convex_concave",
    "client_metrics",
    "constrained",
    "low_rank",
    "matrix_game",
    "paper_l1",
    "paper_nuclear",
    "phase_one",
    "robust_regression",
    "roc_auc",
    "sparse_glm",
    "universal_adversarial",
    "violation",
]

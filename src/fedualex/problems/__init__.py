"""Problems: operators, data, oracles, certificates, and a catalogue of ready constructors."""

from .adversarial import AttackReport, attack_report, universal_adversarial
from .agnostic import agnostic
from .base import AbstractProblem
from .bilinear import Bilinear, bilinear, matrix_game
from .certificate import Certificate
from .convexity import ConvexityCheck, check_convex_concave
from .general import Problem
from .glm import sparse_glm
from .low_rank import low_rank
from .oracles import AbstractOracle, Exact, GaussianNoise, Minibatch
from .paper import paper_l1, paper_nuclear
from .robust import robust_regression

__all__ = [
    "AbstractOracle",
    "AbstractProblem",
    "AttackReport",
    "Bilinear",
    "Certificate",
    "ConvexityCheck",
    "Exact",
    "GaussianNoise",
    "Minibatch",
    "Problem",
    "agnostic",
    "attack_report",
    "bilinear",
    "check_convex_concave",
    "low_rank",
    "matrix_game",
    "paper_l1",
    "paper_nuclear",
    "robust_regression",
    "sparse_glm",
    "universal_adversarial",
]

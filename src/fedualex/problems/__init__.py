"""Problems: operators, data, oracles, certificates, and a catalogue of ready constructors."""

from ..certificates.certificate import Certificate
from ..certificates.surveys import Surveyed
from .active import active_bounds
from .adversarial import AdversarialRecipe, AttackReport, attack_report, universal_adversarial
from .agnostic import AgnosticRecipe, agnostic
from .auc import AucRecipe, auc
from .base import AbstractOracle, AbstractProblem, Exact, GaussianNoise, Minibatch
from .bilinear import Bilinear, bilinear, matrix_game
from .constrained import ConstrainedRecipe, constrained, phase_one, violation
from .convexity import ConvexityCheck, check_convex_concave
from .cox import CoxRecipe, FairCoxRecipe, cox, fair_cox
from .general import Problem
from .known import Floor
from .limited_cox import LimitedCoxRecipe, limited_cox
from .low_rank import LowRankRecipe, low_rank
from .metrics import ClientMetrics, client_metrics
from .paper import (
    federated_lasso,
    federated_low_rank,
    noisy_matrix_game,
    paper_l1,
    paper_l1_unequal,
    paper_nuclear,
    paper_nuclear_unequal,
)
from .readings import roc_auc
from .recipe import AbstractRecipe, assemble, gather
from .robust import RobustRecipe, robust_regression
from .rows import Rows, split_rows
from .sparse_glm import SparseGlmRecipe, sparse_glm

__all__ = [
    "AbstractOracle",
    "AbstractProblem",
    "AbstractRecipe",
    "AdversarialRecipe",
    "AgnosticRecipe",
    "AttackReport",
    "AucRecipe",
    "Bilinear",
    "Certificate",
    "ClientMetrics",
    "ConstrainedRecipe",
    "ConvexityCheck",
    "CoxRecipe",
    "Exact",
    "FairCoxRecipe",
    "Floor",
    "GaussianNoise",
    "LimitedCoxRecipe",
    "LowRankRecipe",
    "Minibatch",
    "Problem",
    "RobustRecipe",
    "Rows",
    "SparseGlmRecipe",
    "Surveyed",
    "active_bounds",
    "agnostic",
    "assemble",
    "attack_report",
    "auc",
    "bilinear",
    "check_convex_concave",
    "client_metrics",
    "constrained",
    "cox",
    "fair_cox",
    "federated_lasso",
    "federated_low_rank",
    "gather",
    "limited_cox",
    "low_rank",
    "matrix_game",
    "noisy_matrix_game",
    "paper_l1",
    "paper_l1_unequal",
    "paper_nuclear",
    "paper_nuclear_unequal",
    "phase_one",
    "robust_regression",
    "roc_auc",
    "sparse_glm",
    "split_rows",
    "universal_adversarial",
    "violation",
]

"""Exact optima to measure against, each with a certificate as its proof."""

from .best_response import best_response
from .feasibility import LeastViolation, least_violation
from .lp import lp
from .solution import Solution

__all__ = ["LeastViolation", "Solution", "best_response", "least_violation", "lp"]

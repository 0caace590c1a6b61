"""Exact optima to measure against, each with a certificate as its proof."""

from .exact import Solution, best_response, lp
from .feasibility import LeastViolation, least_violation

__all__ = ["LeastViolation", "Solution", "best_response", "least_violation", "lp"]

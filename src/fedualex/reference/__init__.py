"""Exact optima to measure against, each with a certificate as its proof."""

from .best_response import best_response
from .lp import lp
from .solution import Solution

__all__ = ["Solution", "best_response", "lp"]

"""Theory: the constants of a problem, and what the theorems promise with them, as printed and as corrected."""

from .bounds import Bound, Constants, Term
from .constants import constants
from .theorems import Theorem, proposition_b, theorem1, theorem2, theorem3, theorem4

__all__ = [
    "Bound",
    "Constants",
    "Term",
    "Theorem",
    "constants",
    "proposition_b",
    "theorem1",
    "theorem2",
    "theorem3",
    "theorem4",
]

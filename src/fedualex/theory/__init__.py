"""Theory: the constants of a problem, and what theorems promise: the paper's, printed and corrected, and ours."""

from .constants import constants
from .similarity import Similarity, similarity
from .slide import SlideBound, slide
from .theorems import Bound, Constants, Term, Theorem, proposition_b, theorem1, theorem2, theorem3, theorem4

__all__ = [
    "Bound",
    "Constants",
    "Similarity",
    "SlideBound",
    "Term",
    "Theorem",
    "constants",
    "proposition_b",
    "similarity",
    "slide",
    "theorem1",
    "theorem2",
    "theorem3",
    "theorem4",
]

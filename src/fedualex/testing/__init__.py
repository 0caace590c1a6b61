"""The laws that a regularizer, a geometry, a method or a problem must obey, as checkers for a user's own class.

`check_regularizer(psi, like)`, `check_geometry(geometry, like)`, `check_method(method)` and `check_problem(problem)`
raise an `AssertionError` that names the broken law and where it fails. They sample: passing is strong evidence, not a
proof.
"""

from .geometry_laws import check_geometry, geometry_laws
from .method_laws import check_method
from .problem_laws import check_problem
from .regularizer_laws import check_extremes, check_regularizer, regularizer_laws
from .sampling import Laws

__all__ = [
    "Laws",
    "check_extremes",
    "check_geometry",
    "check_method",
    "check_problem",
    "check_regularizer",
    "geometry_laws",
    "regularizer_laws",
]

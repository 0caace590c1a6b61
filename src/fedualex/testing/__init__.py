"""The laws that a regularizer or a geometry must obey, as checkers for a user's own class.

`check_regularizer(psi, like)` and `check_geometry(geometry, like)` raise an `AssertionError` that names the broken law
and the point where it fails. They sample: passing is strong evidence, not a proof.
"""

from .geometry_laws import check_geometry, geometry_laws
from .regularizer_laws import check_extremes, check_regularizer, regularizer_laws
from .sampling import Laws

__all__ = ["Laws", "check_extremes", "check_geometry", "check_regularizer", "geometry_laws", "regularizer_laws"]

"""The laws that a regularizer or a geometry must obey, as checkers for a user's own class.

`check_regularizer(psi, like)` and `check_geometry(geometry, like)` raise an `AssertionError` that names the law and
shows the point where it fails. They sample: passing is strong evidence, not a proof.
"""

from .geometry_laws import GeometryLaws, check_geometry
from .regularizer_laws import RegularizerLaws, check_regularizer

__all__ = ["GeometryLaws", "RegularizerLaws", "check_geometry", "check_regularizer"]

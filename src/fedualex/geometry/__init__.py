"""Geometries: a mirror map together with a regularizer, and the maps between primal and dual points."""

from .base import AbstractGeometry, Dual, calls_lapack, is_geometry
from .entropic import EntropicSimplex
from .euclidean import Euclidean
from .pnorm import PNorm
from .product import Product, as_geometry

__all__ = [
    "AbstractGeometry",
    "Dual",
    "EntropicSimplex",
    "Euclidean",
    "PNorm",
    "Product",
    "as_geometry",
    "calls_lapack",
    "is_geometry",
]

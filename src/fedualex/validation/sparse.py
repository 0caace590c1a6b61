"""Sparse matrices of scipy as one kind of them, or refused."""

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from .words import short

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def issparse(value: object) -> bool:
    """Whether it is a sparse matrix of scipy; whoever has one has imported scipy, and else nobody waits for that."""
    scipy = sys.modules.get("scipy.sparse")
    return scipy is not None and bool(scipy.issparse(value))


def real_csr(name: str, value: Any) -> "csr_array":
    """A sparse matrix of any format as one of finite float64 numbers by rows: a copy without duplicates and zeros."""
    from scipy.sparse import csr_array

    if value.ndim != 2 or 0 in value.shape:
        raise ValueError(f"{name} must be a nonempty matrix with one row for each example, got shape {value.shape}")
    if value.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be a real matrix, got a sparse one of {value.dtype}")
    if hasattr(value, "check_format"):
        _check_indices(name, value)
    with np.errstate(over="ignore"):  # refused below
        found = csr_array(value, dtype=np.float64, copy=True)
        found.sum_duplicates()
    if not np.all(np.isfinite(found.data)):
        raise ValueError(f"{name} must be finite: a real matrix, got {short(value)} with nan or infinite entries")
    found.eliminate_zeros()
    return found


def refuse_sparse(name: str, value: Any, accepted: str) -> None:
    """Refuse a sparse matrix where rows have to be whole."""
    if issparse(value):
        raise TypeError(f"{name} must be {accepted}, got a sparse matrix of shape {value.shape}: give {name}.toarray()")


def _check_indices(name: str, value: Any) -> None:
    try:
        value.check_format(full_check=True)  # scipy itself reads beyond its arrays if they are wrong
    except ValueError as error:
        raise ValueError(f"{name} must be a sparse matrix whose indices fit its shape {value.shape}: {error}") from None

"""Arguments turned into arrays, or refused in one sentence that names argument, value and what is accepted."""

from .arrays import (
    Array,
    any_real_array,
    nonnegative,
    plain_array,
    positive,
    real_array,
    real_scalar,
    refuse_masked,
    row_weights,
    whole_number,
)
from .labels import classes, encode_labels, missing, refuse_mixed, rows_of
from .sparse import real_csr, refuse_sparse
from .words import hint, of_type, one_of, short

__all__ = [
    "Array",
    "any_real_array",
    "classes",
    "encode_labels",
    "hint",
    "missing",
    "nonnegative",
    "of_type",
    "one_of",
    "plain_array",
    "positive",
    "real_array",
    "real_csr",
    "real_scalar",
    "refuse_masked",
    "refuse_mixed",
    "refuse_sparse",
    "row_weights",
    "rows_of",
    "short",
    "whole_number",
]

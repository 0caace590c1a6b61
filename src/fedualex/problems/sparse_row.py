"""Rows of which most entries are 0: an example keeps the others and where they are."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..tree import Tree
from ..validation import real_csr
from ..validation.sparse import issparse

STEP = 8
"""Widths are multiples of it, so that tables that differ a little in their fullest row share compiled programs."""


class SparseRow(eqx.Module):
    """A row with the entries `value` in the columns `index`, or many rows along leading axes.

    All rows have one width, that of the fullest. Shorter ones are padded with zeros in column 0, and to add 0 is exact:
    a product rounds as a sum of as many terms as the row has entries, which are no more than it has columns.
    """

    index: Any
    value: Any

    def __matmul__(self, weights: Any) -> Array:
        """<row, w>, or one such number for each column of w."""
        return jnp.asarray(self.value) @ jnp.asarray(weights)[self.index]

    def __abs__(self) -> "SparseRow":
        return SparseRow(self.index, abs(self.value))

    def widened(self, width: int) -> "SparseRow":
        """The same rows with padding up to this width."""
        more = [(0, 0)] * (np.ndim(self.value) - 1) + [(0, width - np.shape(self.value)[-1])]
        return SparseRow(np.pad(self.index, more), np.pad(self.value, more))


def example_rows(X: Any) -> Any:
    """Rows as examples have them: arrays as they are, and sparse matrices as `SparseRow`."""
    if not issparse(X):
        return X
    found = real_csr("X", X)
    counts = np.diff(found.indptr)
    width = min(-(-max(int(counts.max()), 1) // STEP) * STEP, found.shape[1])
    rows = SparseRow(np.zeros((len(counts), width), np.int32), np.zeros((len(counts), width)))
    there = np.arange(width) < counts[:, None]
    rows.index[there], rows.value[there] = found.indices, found.data
    return rows


def same_width(clients: Sequence[Tree]) -> list[Tree]:
    """The examples of these clients with all sparse rows as wide as the widest."""
    nodes = jax.tree.leaves(clients, is_leaf=is_sparse)
    width = max((np.shape(node.value)[-1] for node in nodes if is_sparse(node)), default=0)

    def widen(node: Any) -> Any:
        return node.widened(width) if is_sparse(node) else node

    return [jax.tree.map(widen, client, is_leaf=is_sparse) if width else client for client in clients]


def is_sparse(node: object) -> bool:
    """Whether this is a `SparseRow`."""
    return isinstance(node, SparseRow)

"""The surveys that a server remembers: where, with which operator and value, and with how much weight."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


class Cuts(eqx.Module):
    """Surveys as the rows of arrays, so many at most; a row is in use or empty.

    A survey at u that found the operator g and the value f bounds the gap of others: with e = <g, u> + psi(u), for all
    v of the domain <g, v> + psi(v) >= e - (the gap function's linearization at u).
    """

    points: Array
    operators: Array
    values: Array
    heights: Array
    """e = <g, u> + psi(u)."""
    weights: Any
    """c >= 0."""
    used: Array

    def added(self, point: Array, operator: Array, value: Array, height: Array, weight: Array) -> "Cuts":
        """With one more, in the first empty row; call `with_room` before."""
        return self.with_row(jnp.argmin(self.used), Cuts(point, operator, value, height, weight, jnp.asarray(True)))

    def with_row(self, row: Array, new: "Cuts") -> "Cuts":
        """With another survey in a row; new: its parts, each without the axis of the rows."""
        # Not `.at[row].set(one)`: XLA makes a loop of each of these scatters, which takes long to compile.
        return jax.tree.map(
            lambda rows, one: jax.lax.dynamic_update_index_in_dim(rows, one.astype(rows.dtype), row, 0), self, new
        )

    def with_room(self, slack: Array) -> "Cuts":
        """With an empty row: if there is none, a survey is forgotten.

        That is the one with the largest slack of those without weight, and that of least weight where all have some.
        Where the weight is 0, as it nearly always is, all weighted sums stay as they are.
        """
        least = jnp.argmin(jnp.where(self.weights > 0, self.weights, -jnp.maximum(slack, 0.0)))
        kept = (np.arange(self.used.size) != least) | ~jnp.all(self.used)
        changed = self.used & kept, jnp.where(kept, self.weights, 0.0)
        return eqx.tree_at(lambda cuts: (cuts.used, cuts.weights), self, changed)

    def reweighted(self, weights: Any) -> "Cuts":
        """With other weights."""
        return eqx.tree_at(lambda cuts: cuts.weights, self, weights)


def no_cuts(memory: int, size: int) -> Cuts:
    """So many empty rows for vectors of this size."""
    rows, nothing = jnp.zeros((memory, size)), jnp.zeros(memory)
    return Cuts(rows, rows, nothing, nothing, nothing, jnp.zeros(memory, bool))


def nearest(cuts: Cuts, point: Array) -> Array:
    """The row whose point is nearest."""
    distance = jnp.sum((cuts.points - point) ** 2, axis=1)
    return jnp.argmin(jnp.where(cuts.used, distance, jnp.inf))

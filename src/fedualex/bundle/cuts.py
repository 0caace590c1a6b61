"""The surveys that a server remembers: where, with which operator and value, and with how much weight."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
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
        row = jnp.argmin(self.used)
        new = Cuts(point, operator, value, height, weight, jnp.asarray(True))
        return jax.tree.map(lambda rows, one: rows.at[row].set(one), self, new)

    def with_room(self, slack: Array) -> "Cuts":
        """With an empty row: if there is none, a survey is forgotten.

        That is the one with the largest slack of those without weight, and that of least weight where all have some.
        Where the weight is 0, as it nearly always is, all weighted sums stay as they are.
        """
        least = jnp.argmin(jnp.where(self.weights > 0, self.weights, -jnp.maximum(slack, 0.0)))
        used, weights = self.used.at[least].set(False), self.weights.at[least].set(0.0)
        emptied = eqx.tree_at(lambda cuts: (cuts.used, cuts.weights), self, (used, weights))
        full = jnp.all(self.used)
        return jax.tree.map(lambda a, b: jnp.where(full, a, b), emptied, self)

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

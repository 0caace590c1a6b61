"""The surveys that a server remembers: where, with which operator and value, and with how much weight."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array


class Cuts(eqx.Module):
    """Surveys as the rows of arrays, so many at most; a row is in use or empty.

    A survey at u that found the operator g and the value f bounds the gap of others: with e = <g, u> + psi(u), for all
    v of the domain <g, v> + psi(v) >= e - (the gap function's linearization at u). Two may be merged into their
    weighted mean, which leaves every weighted sum of all of them as it is; `pure` says which were never merged.
    """

    points: Array
    operators: Array
    values: Array
    heights: Array
    """e = <g, u> + psi(u)."""
    weights: Array
    """c >= 0."""
    used: Array
    pure: Array

    def added(self, point: Array, operator: Array, value: Array, height: Array, weight: Array) -> "Cuts":
        """With one more, in the first empty row; call `with_room` before."""
        row = jnp.argmin(self.used)
        new = Cuts(point, operator, value, height, weight, jnp.asarray(True), jnp.asarray(True))
        return jax.tree.map(lambda rows, one: rows.at[row].set(one), self, new)

    def with_room(self) -> "Cuts":
        """With an empty row: if there is none, the two of least weight are merged, which is exact.

        A survey of weight 0 vanishes in the other, which stays pure.
        """
        order = jnp.argsort(self.weights, stable=True)
        least, other = order[0], order[1]
        total = self.weights[least] + self.weights[other]
        share = jnp.where(total > 0, self.weights[least] / jnp.where(total > 0, total, 1.0), 0.0)

        def mean(rows: Array) -> Array:
            return rows.at[other].set(share * rows[least] + (1 - share) * rows[other])

        emptied = Cuts(
            points=mean(self.points),
            operators=mean(self.operators),
            values=mean(self.values),
            heights=mean(self.heights),
            weights=self.weights.at[other].set(total).at[least].set(0.0),
            used=self.used.at[least].set(False),
            pure=self.pure.at[other].set(self.pure[other] & (share == 0)),
        )
        full = jnp.all(self.used)
        return jax.tree.map(lambda a, b: jnp.where(full, a, b), emptied, self)

    def reweighted(self, weights: Array) -> "Cuts":
        """With other weights."""
        return eqx.tree_at(lambda cuts: cuts.weights, self, weights)


def no_cuts(memory: int, size: int) -> Cuts:
    """So many empty rows for vectors of this size."""
    rows, nothing = jnp.zeros((memory, size)), jnp.zeros(memory)
    flags = jnp.zeros(memory, bool)
    return Cuts(rows, rows, nothing, nothing, nothing, flags, flags)


def nearest(cuts: Cuts, point: Array) -> Array:
    """The row whose point is nearest."""
    distance = jnp.sum((cuts.points - point) ** 2, axis=1)
    return jnp.argmin(jnp.where(cuts.used, distance, jnp.inf))

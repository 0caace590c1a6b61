"""The outputs of a run, each with what it is, what is summed up for it, and what clients send for that."""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..tree import Tree
from .state import Contribution, Setup, Sums


@dataclass(frozen=True)
class OutputKind:
    """One output."""

    name: str
    label: str
    """What it is, for tables and pages."""
    wire: tuple[str, ...] = ()
    """What clients send for it: fields of `Contribution`."""
    increment: Callable[[Setup, Contribution], Tree] | None = None
    """What a round adds to its sum; None for outputs that are no averages."""
    polishes: str = ""
    """The output that it is made of, if its sum is another's."""


def _own_points(setup: Setup, total: Contribution) -> Tree:
    """The clients' own points."""
    return total.points


def _mean_probes(setup: Setup, total: Contribution) -> Tree:
    """The averaged probes of every local step, read as points."""
    method, geometry = setup.method, setup.problem.geometry

    def read(carry: Tree, step: Any) -> tuple[Tree, None]:
        probe, weight, share = step
        # With unequal steps nobody may be active in the last ones; their weight is 0.
        mean = tree.scale(1 / jnp.where(share > 0, share, 1), probe)
        return tree.add(carry, tree.scale(weight, method.read(mean, geometry))), None

    zero = jax.tree.map(lambda leaf: jnp.zeros(jnp.shape(leaf), setup.weights.dtype), setup.problem.like)
    return jax.lax.scan(read, zero, (total.probes, total.probe_weights, total.shares))[0]


KINDS: dict[str, OutputKind] = {
    kind.name: kind
    for kind in (
        OutputKind("last", "the server's last point"),
        OutputKind(
            "ergodic",
            "the average of the points that the mean probes of all steps stand for",
            wire=("probes", "probe_weights", "shares", "point_weight"),
            increment=_mean_probes,
        ),
        OutputKind(
            "client_average",
            "the average of all points that clients probed",
            wire=("points", "point_weight"),
            increment=_own_points,
        ),
        OutputKind("bounds", "x of the best upper bound of the optimal value, and y of the best lower bound"),
        OutputKind("polished", "one composite step from the average of the clients", polishes="client_average"),
    )
}
AVERAGES = tuple(kind.name for kind in KINDS.values() if kind.increment is not None)


def averages_of(ergodic: bool) -> tuple[str, ...]:
    """The averages whose sums clients send parts of; those behind `ergodic` cost K-fold, and are sent if asked for."""
    return AVERAGES if ergodic else tuple(name for name in AVERAGES if name != "ergodic")


def polishing(names: Container[str]) -> list[OutputKind]:
    """The outputs that are made of one of these."""
    return [kind for kind in KINDS.values() if kind.polishes and kind.polishes in names]


def no_sums(setup: Setup, averages: Iterable[str]) -> Sums:
    """Nothing averaged yet."""
    kind = setup.weights.dtype
    zero = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), kind), setup.problem.like)
    return Sums(dict.fromkeys(averages, zero), np.zeros((), kind))


def accumulated(setup: Setup, sums: Sums, total: Contribution) -> Sums:
    """The sums after a round."""
    points = {}
    for name, point in sums.points.items():
        increment = KINDS[name].increment
        points[name] = point if increment is None else tree.add(point, increment(setup, total))
    return Sums(points, sums.weight if total.point_weight is None else sums.weight + total.point_weight)

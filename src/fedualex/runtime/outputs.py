"""The points a run can return, each projected, certified, and with its density or rank."""

import dataclasses
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..certificates.surveys import Surveyed
from ..compiling import compiled
from ..display import gap_text
from ..geometry import Product, is_geometry
from ..problems import AbstractProblem, Certificate
from ..regularizers import for_reports, is_spectral
from ..tree import Saddle, Tree
from .state import Contribution, Setup, Sums
from .status import Status

# The outputs of a run, each with what it is, what is summed up for it, and what clients send for that.


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
    method, geometry = setup.rounds, setup.problem.geometry

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


PAIR = 2
"""Points that are surveyed and certified at once: those of a record."""
NONZERO = 1e-5
"""Entries and singular values up to this size count as zero, as in the paper."""


@dataclass(frozen=True)
class Evidence:
    """Surveys from which a certificate of (x, y) follows: x = sum upper_i x_i, y = sum lower_i y_i + floor y_floor."""

    points: Saddle
    """Where the surveys were made, along the first axis."""
    upper: NDArray[Any]
    """The weight of each in the upper bound."""
    lower: NDArray[Any]
    """The weight of each in the lower bound."""
    floor: float
    """The weight of what is known of f beforehand in the lower bound."""
    starts: Saddle | None = None
    """Where the steps to these points began whose dual cuts bound from below; None if all cuts are those of surveys."""


CELLS = ("certified gap <=", "density", "rank", "status")
"""What a table says of an output."""


@dataclass(frozen=True, repr=False)
class Output:
    """A point of the domain in float64, its certificate, and its structure.

    name, z: what it is called, and its point.
    """

    name: str
    z: Saddle
    operator: Saddle | None
    """The exact operator at z; None if it could not be had."""
    value: float | None
    """f(z), exact; None if it could not be had."""
    certificate: Certificate
    density: float | None
    """The share of nonzero entries in all blocks that are not spectral; None if there is no such block."""
    rank: tuple[int, ...] | None
    """The ranks of the spectral blocks; None if there is none."""
    status: Status = Status.UNCERTIFIED
    """What it is worth: its own certified gap against tol."""
    origin: str = ""
    """Of "best": which output of which round it was."""
    violation: float | None = None
    """By how much x exceeds the limits of the problem at most; None if it has none, or without the operator."""
    evidence: Evidence | None = None
    """The surveys that the certificate follows from, where that is not the one at z."""

    @property
    def label(self) -> str:
        """Its name, and where it comes from."""
        return f"{self.name}: {self.origin}" if self.origin else self.name

    @property
    def gap(self) -> float | None:
        """The certified bound on the duality gap."""
        return self.certificate.gap

    def cells(self) -> tuple[str, ...]:
        """Its gap, density, ranks and status as text, as CELLS names them."""
        density = "" if self.density is None else f"{self.density:.3f}"
        return gap_text(self.gap), density, " / ".join(map(str, self.rank or ())), str(self.status)

    def __repr__(self) -> str:
        density = "" if self.density is None else f", density {self.density:.3f}"
        rank = "" if self.rank is None else f", rank {' / '.join(map(str, self.rank))}"
        claim = "not certifiable" if self.gap is None else f"certified gap <= {gap_text(self.gap)}"
        return f"Output({self.label}: {self.status}, {claim}{density}{rank})"

    def withdrawn(self, reason: str) -> "Output":
        """The same point, of which nothing is claimed any more."""
        return dataclasses.replace(self, certificate=Certificate(None, None, reason), status=Status.UNCERTIFIED)

    @property
    def structure(self) -> float:
        """Density plus total rank: what is compared when several outputs are good enough."""
        return (self.density or 0.0) + sum(self.rank or ())


def exact_problem(problem: AbstractProblem) -> AbstractProblem:
    """The problem as certificates need it: float64, with spectral parts on the SVD route."""
    exact = eqx.tree_at(lambda p: p.geometry, problem, for_reports(problem.geometry))
    wide: AbstractProblem = tree.cast_module(exact, jnp.float64)
    return wide


@compiled
def _projected(geometry: Product, points: list[Tree]) -> Tree:
    return projected(geometry, points)


def projected(geometry: Product, points: list[Tree]) -> Tree:
    """The points of the domain nearest to these, in float64, along the first axis; to be compiled."""
    stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf, jnp.float64) for leaf in leaves]), *points)
    return jax.lax.map(geometry.project, stacked)


def project(problem: AbstractProblem, z: Tree) -> Tree:
    """The point of the domain nearest to z, in float64."""
    return unstacked(_projected(problem.geometry, [z]))[0]


def unstacked(points: Tree) -> list[Any]:
    """What there is along the first axis of arrays, one by one, as arrays of numpy."""
    leaves, structure = jax.tree.flatten(points)
    return [jax.tree.unflatten(structure, row) for row in zip(*map(np.asarray, leaves), strict=True)]


def in_pairs(program: Callable[[Tree], Tree], items: list[Tree]) -> list[Any]:
    """program(item) of each, for a compiled one that takes PAIR of them along the first axis.

    So it is compiled for one shape, and called once for a record of two outputs.
    """
    found: list[Any] = []
    for first in range(0, len(items), PAIR):
        some = items[first : first + PAIR]
        filled = some + some[-1:] * (PAIR - len(some))
        found += unstacked(program(jax.tree.map(lambda *leaves: np.stack(leaves), *filled)))[: len(some)]
    return found


@compiled
def operator_at(problem: AbstractProblem, z: Tree) -> Tree:
    """The exact operator at z."""
    return problem.operator(z)


@compiled
def surveys_at(problem: AbstractProblem, points: Tree) -> Surveyed:
    """The exact operator and f at each point along the first axis."""
    return jax.lax.map(problem.survey, points)


@compiled
def survey_at(problem: AbstractProblem, z: Tree) -> Surveyed:
    """The exact operator and f at z."""
    return problem.survey(z)


def structure_of(problem: AbstractProblem, z: Saddle) -> tuple[float | None, tuple[int, ...] | None]:
    """Density of the plain blocks and ranks of the spectral ones."""
    parts = jax.tree.leaves(problem.geometry.parts, is_leaf=is_geometry)
    plain, ranks = [], []
    for part, leaf in zip(parts, jax.tree.leaves(z), strict=True):
        if any(map(is_spectral, jax.tree.leaves(part, is_leaf=is_spectral))):
            ranks.append(int(np.sum(np.linalg.svd(leaf, compute_uv=False) > NONZERO)))
        else:
            plain.append(np.ravel(leaf))
    density = float(np.mean(np.abs(np.concatenate(plain)) > NONZERO)) if plain else None
    return density, tuple(ranks) or None

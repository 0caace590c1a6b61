"""The certificate of a pair (x, y) whose bounds come from several surveys."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..arrays import Array, by_numpy, xp
from ..bundle import Bounds, Cuts, Flat, KnownFloor, Side, improve_bounds, no_bounds, no_cuts
from ..compiling import compile_by_size
from ..geometry import Product
from ..regularizers import for_reports
from ..regularizers.fenchel import UNIT
from ..tree import Saddle, Scalar, Tree, Vector
from .certificate import Measured, measure
from .rounding import LossError, Majorized, OperatorError

ESTIMATE = 4.0
"""How many times larger than at one survey the error of others may be, where it is an estimate anyway."""


class Curvature(NamedTuple):
    """The second derivatives of f at a point, on vectors: xx, yx (a row for each entry of y), and yy of -f.

    The Jacobian of the operator (grad_x f, -grad_y f) is [[xx, yx^T], [-yx, yy]].
    """

    xx: NDArray[np.float64]
    yx: NDArray[np.float64]
    yy: NDArray[np.float64]

    @property
    def jacobian(self) -> NDArray[np.float64]:
        """The Jacobian of the operator."""
        return np.block([[self.xx, self.yx.T], [-self.yx, self.yy]])

    @property
    def of_x(self) -> "Curvature":
        """Those in x alone, as if there were no y."""
        return Curvature(self.xx, np.zeros((0, len(self.xx))), np.zeros((0, 0)))

    def triangles(self) -> "Curvature":
        """The same derivatives as they travel: of symmetric ones a triangle, row by row."""
        return Curvature(self.xx[np.triu_indices(len(self.xx))], self.yx, self.yy[np.triu_indices(len(self.yy))])

    def squares(self) -> "Curvature":
        """The inverse of `triangles`."""
        return Curvature(_square(self.xx, self.yx.shape[1]), self.yx, _square(self.yy, len(self.yx)))

    @classmethod
    def like(cls, x: int, y: int) -> "Curvature":
        """The shapes of triangles, for so many entries of x and y."""
        return cls(np.zeros(x * (x + 1) // 2), np.zeros((y, x)), np.zeros(y * (y + 1) // 2))


def _square(triangle: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    matrix, above = np.zeros((size, size)), np.triu_indices(size)
    matrix[above] = triangle
    matrix.T[above] = triangle
    return matrix


class Minorant(NamedTuple):
    """f(v, y) >= <slope, v> + offset for every v of x's space, at the y of one point."""

    slope: Tree
    offset: Scalar


class BoundErrors(NamedTuple):
    """What rounding may have done to both bounds: entries of (lower.slope, upper.slope), and the offsets together."""

    slope: NDArray[np.float64]
    offset: float


class SurveyErrors(NamedTuple):
    """What rounding may have done to the numbers of one survey and of its cut, and does to them where they are added.

    With these numbers just as they were sent, for all x' and y' of the domain

        f(x, y') <= value + <g_y, y - y'> + offset,
        f(x', y) >= value + <g_x, x' - x> - offset - slope sum_j |x'_j|, and likewise for the cut.
    """

    offset: Scalar
    slope: Scalar
    moved: Scalar
    """By how much f changes at most if every entry of x moves by UNIT times the largest that it has in the domain."""


class Surveyed(NamedTuple):
    """What all clients together say of one point: g(z) = sum_m p_m g_m(z) and f(z) = sum_m p_m f_m(z), exact.

    operator, value: g(z) and f(z).
    """

    operator: Saddle
    value: Scalar
    curvature: Curvature | None = None
    """Second derivatives, where they were asked for."""
    cut: Minorant | None = None
    """The dual cut of a step to z, where one was asked for."""
    errors: SurveyErrors | None = None
    """From clients elsewhere that can bound them; from rows that are here they are found where they are wanted."""


@runtime_checkable
class KnownValue(Protocol):
    """f(x, y) >= value for every x of the domain, at this y (`fx.problems.Floor`)."""

    @property
    def y(self) -> Tree: ...
    @property
    def value(self) -> Scalar: ...


@runtime_checkable
class CertifiableProblem(Protocol):
    """What certificates ask of a problem."""

    @property
    def geometry(self) -> Product: ...
    @property
    def like(self) -> Saddle: ...
    @property
    def data(self) -> Tree: ...
    @property
    def clients(self) -> int | None: ...
    @property
    def floor(self) -> KnownValue | None: ...
    def without_data(self) -> "CertifiableProblem": ...
    def survey(self, z: Saddle) -> Surveyed: ...
    def operator_error(self, z: Saddle, g: Saddle) -> OperatorError: ...
    def value_error(self, z: Saddle, survey: Surveyed) -> LossError: ...


def flat_of(problem: CertifiableProblem) -> Flat:
    """The geometry of a problem in float64 on vectors, with spectral parts on the SVD route."""
    geometry = tree.cast_module(for_reports(problem.geometry), jnp.float64)
    like = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf)), problem.like)
    return Flat(geometry, like, np.ones(()))


def known_floor(problem: CertifiableProblem, flat: Flat) -> KnownFloor:
    """The floor of a problem as bounds take it, outside of compiled programs."""
    floor = problem.floor
    size = sum(leaf.size for leaf in jax.tree.leaves(flat.like)) - flat.split
    if floor is None:
        return KnownFloor(np.zeros(size), np.zeros(()), np.asarray(False))
    leaves = [np.ravel(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(floor.y)]
    return KnownFloor(np.concatenate([np.zeros(0), *leaves]), np.asarray(floor.value, np.float64), np.asarray(True))


def pair_with_slopes(flat: Flat, bounds: Bounds) -> tuple[Saddle, Saddle, Array]:
    """z = (x of the upper bound, y of the lower one), g = (lower slope, upper slope), and the shift of their gap.

    upper - lower = <g, z> + psi(z) + psi^*(-g) + shift, shift = upper.offset - lower.offset - <g, z>.
    """
    z = bounds.point
    g = xp.concatenate([bounds.lower.slope, bounds.upper.slope])
    return flat.point(z), flat.point(g), xp.subtract(bounds.upper.offset - bounds.lower.offset, xp.vdot(g, z))


def measure_proved(
    problem: CertifiableProblem, bounds: Bounds, slope_error: Vector, offset_error: Scalar
) -> tuple[Measured, Array]:
    """The numbers of the certificate of the pair, and its shift, from bounds of their errors; compilable.

    With (t, s) <= slope_error, entry by entry, and a + b <= offset_error, for all v

        f(x, v) <= upper.offset - <upper.slope, v> + a + <s, |v|>,
        f(v, y) >= lower.offset + <lower.slope, v> - b - <t, |v|>.

    As |v| <= |z| + |v - z|, slope_error is an error of g, as `measure` takes it, and costs <slope_error, |z|> beside.
    """
    flat = flat_of(problem)
    z, g, shift = pair_with_slopes(flat, bounds)
    measured = measure(problem.geometry, z, g, flat.point(slope_error))
    at = xp.abs(bounds.point)
    summed = xp.abs(bounds.upper.offset) + xp.abs(bounds.lower.offset) + xp.vdot(xp.abs(flat.vector(g)), at)
    adding = (at.size + 64) * UNIT * (summed + xp.abs(measured.x) + xp.abs(measured.y))
    more = xp.asarray(offset_error) + xp.vdot(xp.asarray(slope_error), at) + adding
    return measured._replace(rounding=(1 + 64 * UNIT) * (measured.rounding + more)), shift


def measure_pair(
    problem: CertifiableProblem, bounds: Bounds, errors: BoundErrors | None, sum_error: Scalar
) -> tuple[tuple[Saddle, Saddle, Array], Measured]:
    """`pair_with_slopes` and the numbers of its certificate, compiled. errors: as they are proved; None to estimate."""
    if errors is None:
        pair = by_numpy(pair_with_slopes)(flat_of(problem), bounds)
        return pair, measure_estimated(problem, bounds, sum_error)[0]
    return _measure_proved_pair(problem.without_data(), bounds, errors.slope, errors.offset)


@by_numpy
def _measure_proved_pair(
    problem: CertifiableProblem, bounds: Bounds, slope_error: Vector, offset_error: Scalar
) -> tuple[tuple[Saddle, Saddle, Array], Measured]:
    return pair_with_slopes(flat_of(problem), bounds), measure_proved(problem, bounds, slope_error, offset_error)[0]


def measure_bounds(problem: CertifiableProblem, bounds: Bounds, sum_error: Scalar = 0.0) -> tuple[Measured, Array]:
    """The numbers of the certificate of the pair, and its shift; compilable. The rounding is an estimate.

    With a majorant, errors are taken where every entry is as large as at any of the surveys, which bounds them all; but
    those of means of several points are estimated. sum_error: by how much each entry of an operator, and each value,
    may be off because of the way in which it was added up.
    """
    flat = flat_of(problem)
    z, g, shift = pair_with_slopes(flat, bounds)
    sides = bounds.upper, bounds.lower
    there = [xp.where(side.weights[:-1, None] > 0, _farthest(side), 0.0).max(axis=0) for side in sides]
    reach = flat.point(xp.maximum(xp.maximum(*there), xp.abs(flat.vector(z))))
    largest = xp.maximum(bounds.upper.largest, bounds.lower.largest)
    sizes = xp.maximum(bounds.upper.value_size, bounds.lower.value_size)
    error, value_error = _errors(problem, flat, bounds, reach, largest, sizes, sum_error)
    measured = measure(problem.geometry, z, g, error)
    entries = xp.sum(flat.vector(reach))
    count = flat.vector(reach).size + bounds.upper.weights.size + 64
    summed = sizes + 2 * largest * entries + xp.abs(bounds.upper.offset) + xp.abs(bounds.lower.offset)
    more = 2 * (value_error + tree.dot(error, reach)) + 4 * count * UNIT * summed
    return measured._replace(rounding=measured.rounding + more), shift


_measure_elsewhere, _measure_with_data = by_numpy(measure_bounds), compile_by_size(measure_bounds)


def measure_estimated(problem: CertifiableProblem, bounds: Bounds, sum_error: Scalar = 0.0) -> tuple[Measured, Array]:
    """`measure_bounds`, outside of programs: by numpy where the data is elsewhere, so that nothing of f is computed."""
    measure_here = _measure_elsewhere if is_elsewhere(problem) else _measure_with_data
    return measure_here(problem, bounds, np.asarray(sum_error))


def is_elsewhere(problem: CertifiableProblem) -> bool:
    """Whether this is the view of a server, which has nobody's data."""
    return problem.data is not None and problem.clients == 0


def _farthest(side: Side) -> Array:
    """The sizes of the entries of its points, and of where steps to them began."""
    sizes = xp.abs(side.points)
    return sizes if side.starts is None else xp.maximum(sizes, xp.abs(side.starts))


def _errors(
    problem: CertifiableProblem,
    flat: Flat,
    bounds: Bounds,
    reach: Saddle,
    largest: Array,
    sizes: Array,
    sum_error: Scalar,
) -> tuple[Saddle, Array]:
    """How far operators and values of all surveys may be from the exact ones."""
    if isinstance(getattr(problem, "f", None), Majorized) or is_elsewhere(problem):
        at, survey = reach, Surveyed(jax.tree.map(lambda leaf: xp.full_like(leaf, largest), reach), sizes)
        factor = 1.0
    else:
        lower, upper = (side.points[xp.argmax(side.weights[:-1])] for side in (bounds.lower, bounds.upper))
        # A lower bound may need no survey at all.
        at = flat.point(xp.where(xp.any(bounds.lower.weights[:-1] > 0), lower, upper))
        survey, factor = problem.survey(at), ESTIMATE
    error, value = problem.operator_error(at, survey.operator), problem.value_error(at, survey)
    return tree.scale(factor, error.add(sum_error).size), factor * (value.size + sum_error)


# What the surveys of records say together: bounds of the optimal value from above and from below.


SURVEYS, ENTRIES = 20, 2**22
"""How many surveys are remembered, and of how many numbers at most."""


class Trace(eqx.Module):
    """The last surveys of a run, and the best bounds of all."""

    cuts: Cuts
    bounds: Bounds
    oldest: Array
    """The row that is overwritten next."""


def no_trace(problem: CertifiableProblem) -> Trace:
    """Before the first survey."""
    flat = flat_of(problem)
    size = sum(leaf.size for leaf in jax.tree.leaves(flat.like))
    rows = max(2, min(SURVEYS, ENTRIES // size))
    return _no_trace(flat, rows, size)


@compile_by_size
def _no_trace(flat: Flat, rows: int, size: int) -> Trace:
    return Trace(no_cuts(rows, size), no_bounds(flat, rows), jnp.asarray(0))


def add_surveys(problem: CertifiableProblem, trace: Trace, surveys: Sequence[tuple[Saddle, Saddle, Scalar]]) -> Trace:
    """The trace with more surveys, each a point with its operator and value; the oldest are forgotten."""
    flat = flat_of(problem)
    return _add_surveys(flat, known_floor(problem, flat), trace, surveys)


@compile_by_size
def _add_surveys(
    flat: Flat, known: KnownFloor, trace: Trace, surveys: Sequence[tuple[Saddle, Saddle, Scalar]]
) -> Trace:
    cuts, row = trace.cuts, trace.oldest
    true, zero = jnp.asarray(True), jnp.zeros(())
    for z, g, value in surveys:
        new = Cuts(flat.vector(z), flat.vector(g), jnp.asarray(value, jnp.float64), zero, zero, true)
        cuts = cuts.with_row(row, new)
        row = (row + 1) % cuts.used.size
    return Trace(cuts, improve_bounds(flat, cuts, known, trace.bounds, model=False), row)

"""The points that a run can return: read from its state, projected, certified, with density or rank."""

import dataclasses
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from .. import tree
from ..algorithms import Method
from ..bundle import Bounds
from ..certificates.certificate import Measured, certificate_of
from ..certificates.surveys import Surveyed, add_surveys, flat_of, measure_pair, no_trace
from ..certificates.told import Told, ToldErrors, errors_of_bounds
from ..compiling import compile_by_size
from ..display import gap_text
from ..geometry import AbstractGeometry, Product, is_geometry
from ..problems import AbstractProblem, Certificate
from ..problems.constrained import lagrangian_of, largest_violation
from ..problems.score_rounding import ScoreErrors, score_errors
from ..regularizers import for_reports, is_spectral
from ..storage import Json
from ..tree import Saddle, Scalar, Tree, Vector
from .state import Contribution, Setup, State, Sums
from .status import Missing, Status, status_of
from .surveying import surveys_at

if TYPE_CHECKING:
    from .clients import Conversation

# The outputs of a run, each with what it is, what is summed up for it, and what clients send for that.


@dataclass(frozen=True)
class OutputKind:
    """A kind of point that a run can return, under one name."""

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
    return total.points


def _mean_probes(setup: Setup, total: Contribution) -> Tree:
    """The averaged probes of every local step, read as points."""
    method, geometry = setup.rounds, setup.problem.geometry

    def read(carry: Tree, step: Tree) -> tuple[Tree, None]:
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
    """The averages for which clients send sums; those behind `ergodic` cost K times as much and are optional."""
    return AVERAGES if ergodic else tuple(name for name in AVERAGES if name != "ergodic")


def polished_kinds(names: Container[str]) -> list[OutputKind]:
    """The kinds of outputs that are made of one of these."""
    return [kind for kind in KINDS.values() if kind.polishes and kind.polishes in names]


def no_sums(setup: Setup, averages: Iterable[str]) -> Sums:
    """The sums before anything was averaged."""
    kind = setup.weights.dtype
    zero = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), kind), setup.problem.like)
    return Sums(dict.fromkeys(averages, zero), np.zeros((), kind))


def accumulate(setup: Setup, sums: Sums, total: Contribution) -> Sums:
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
    upper: NDArray[np.float64]
    """The weight of each in the upper bound."""
    lower: NDArray[np.float64]
    """The weight of each in the lower bound."""
    floor: float
    """The weight of what is known of f beforehand in the lower bound."""
    starts: Saddle | None = None
    """Where the steps to these points began whose dual cuts bound from below; None if all cuts are those of surveys."""
    told: Told | None = None
    """What clients say of the rounding of these surveys, if the certificate's rounding follows from it."""


class Column(NamedTuple):
    """What tables say of an output: one of its fields, under a header, as text."""

    field: str
    header: str
    text: Callable[[Any], str] = str
    recorded: bool = True
    """Whether every record keeps it, as `field_output`."""


COLUMNS = (
    Column("gap", "certified gap <=", gap_text),
    Column("density", "density", lambda share: "" if share is None else f"{share:.3f}"),
    Column("rank", "rank", lambda ranks: " / ".join(map(str, ranks or ()))),
    Column("status", "status", recorded=False),
)
"""One line for each column of tables and histories; `measures_of` computes what is new in it."""
CELLS = tuple(column.header for column in COLUMNS)


@dataclass(frozen=True, repr=False)
class Output:
    """A point of the domain in float64, its certificate, and its structure."""

    name: str
    """One of KINDS, or "best"."""
    z: Saddle
    """The point."""
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
    """What the point is worth: its certified gap against tol."""
    origin: str = ""
    """Which output of which round "best" was; empty for other outputs."""
    violation: float | None = None
    """By how much x exceeds the limits of the problem at most, its rounding included; None if it has none, or without
    the operator. Where the data is elsewhere that rounding is an estimate."""
    evidence: Evidence | None = None
    """The surveys that the certificate follows from, where that is not the one at z."""

    @property
    def label(self) -> str:
        """The name, with the origin of "best"."""
        return f"{self.name}: {self.origin}" if self.origin else self.name

    @property
    def gap(self) -> float | None:
        """The certified bound on the duality gap."""
        return self.certificate.gap

    def cells(self) -> tuple[str, ...]:
        """The row of a table, by COLUMNS."""
        return tuple(column.text(getattr(self, column.field)) for column in COLUMNS)

    def to_record(self) -> Json:
        """What a record keeps of the output, by the keys of the record."""
        return {f"{column.field}_{self.name}": getattr(self, column.field) for column in COLUMNS if column.recorded}

    def __repr__(self) -> str:
        density = "" if self.density is None else f", density {self.density:.3f}"
        rank = "" if self.rank is None else f", rank {' / '.join(map(str, self.rank))}"
        claim = "not certifiable" if self.gap is None else f"certified gap <= {gap_text(self.gap)}"
        return f"Output({self.label}: {self.status}, {claim}{density}{rank})"

    def withdraw(self, reason: str) -> "Output":
        """The same point without a certificate, for this reason."""
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


@compile_by_size
def _project_all(geometry: Product, points: list[Tree]) -> Tree:
    return project_all(geometry, points)


def project_all(geometry: Product, points: list[Tree]) -> Tree:
    """The points of the domain nearest to these, in float64, along the first axis; for use inside a program."""
    stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf, jnp.float64) for leaf in leaves]), *points)
    return jax.lax.map(geometry.project, stacked)


def project(problem: AbstractProblem, z: Tree) -> Tree:
    """The point of the domain nearest to z, in float64."""
    return unstack(_project_all(problem.geometry, [z]))[0]


def unstack(points: Tree) -> list[Tree]:
    """The trees along the first axis of stacked arrays, as arrays of numpy."""
    leaves, structure = jax.tree.flatten(points)
    return [jax.tree.unflatten(structure, row) for row in zip(*map(np.asarray, leaves), strict=True)]


def map_in_pairs(program: Callable[[Tree], Tree], items: list[Tree]) -> list[Tree]:
    """program(item) for each item, where the program takes PAIR of them along the first axis.

    So the program is compiled for one shape, and called once for a record of two outputs.
    """
    results: list[Tree] = []
    for first in range(0, len(items), PAIR):
        some = items[first : first + PAIR]
        filled = some + some[-1:] * (PAIR - len(some))
        results += unstack(program(jax.tree.map(lambda *leaves: np.stack(leaves), *filled)))[: len(some)]
    return results


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


def measures_of(problem: AbstractProblem, z: Saddle, operator: Saddle | None, slope_error: Vector | None) -> Json:
    """The fields of an output that describe its point, besides those of its certificate."""
    density, rank = structure_of(problem, z)
    return {"density": density, "rank": rank, "violation": largest_violation(problem, operator, slope_error)}


# Points projected, certified and measured, in compiled programs.


Steps = Sequence[float] | NDArray[np.float64]
"""The steps that are tried for the polished output."""
Survey = Callable[[list[Tree]], "list[Surveyed] | Missing"]
"""The exact operators and values at some points of the domain, or why they could not be had."""
Claim = Callable[[], Certificate]
"""A certificate, or the `FloatingPointError` that says why there is none, when it is asked for."""


class Evaluator:
    """Certificates of a problem, compiled once; call within `double()`.

    exact: the problem, as `exact_problem` makes it. survey: where operators and values come from; the problem itself if
    None. told: what was said of their rounding, if they are summed elsewhere. sum_error: by how much each entry
    may be off because of the way it was added. reason: why nothing is certified, beyond what the problem itself says.
    tol: what outputs are judged against.
    """

    def __init__(
        self,
        exact: AbstractProblem,
        survey: Survey | None = None,
        *,
        told: ToldErrors | None = None,
        sum_error: float = 0.0,
        reason: str = "",
        tol: float | None = None,
    ):
        self.problem, self.told, self.sum_error, self.tol = exact, told, np.asarray(sum_error), tol
        self.reason = exact.why_uncertifiable() or reason
        self.survey = survey

    @cached_property
    def errors(self) -> ScoreErrors | None:
        """What bounds of several surveys may lose by rounding, where that is proved."""
        return None if self.told is not None else score_errors(self.problem)

    @property
    def errors_of_limits(self) -> ScoreErrors | None:
        """The same for a problem with limits, whose violation is told with its rounding; None without limits."""
        return None if lagrangian_of(self.problem) is None else self.errors

    def project_and_certify(self, points: dict[str, Tree]) -> dict[str, Output] | Missing:
        """The outputs of points that are projected onto the domain first."""
        return self.certify({name: project(self.problem, z) for name, z in points.items()})

    def certify(self, points: dict[str, Tree]) -> dict[str, Output] | Missing:
        """The outputs of points of the domain, each with its certificate and structure."""
        claims = self._survey_and_certify(list(points.values()))
        if isinstance(claims, Missing):
            return claims
        rows = zip(points.items(), claims, strict=True)
        return {name: self._make_output(name, z, at, certificate()) for (name, z), (at, certificate) in rows}

    def leave_uncertified(self, points: dict[str, Tree], reason: str) -> dict[str, Output]:
        """The outputs of points of the domain without operators, and without certificates for this reason."""
        return {name: self._make_output(name, z, None, Certificate(None, None, reason)) for name, z in points.items()}

    def polish(self, average: Output, steps: Steps) -> Output | Missing:
        """The best certificate among composite steps P_eta(grad ell(z) - eta g(z)) from an output, with the exact g."""
        if average.operator is None:
            return dataclasses.replace(average, name="polished")
        points = unstack(_polish(self.problem.geometry, average.z, average.operator, np.asarray(steps, np.float64)))
        claims, outputs = self._survey_and_certify(points), []
        if isinstance(claims, Missing):
            return claims
        for z, (at, certificate) in zip(points, claims, strict=True):
            with suppress(FloatingPointError):  # a step may leave the region where the operator is finite
                outputs.append(self._make_output("polished", z, at, certificate()))
        if not outputs:
            return dataclasses.replace(average, name="polished")
        return min(outputs, key=lambda output: np.inf if output.gap is None else output.gap)

    def certify_survey(self, name: str, z: Tree, at: Surveyed) -> Output:
        """The output of a point z of the domain, certified from the survey `at` it."""
        return self._make_output(name, z, at, self._certificates([z], [at])[0]())

    def _survey_and_certify(self, points: list[Tree]) -> list[tuple[Surveyed, Claim]] | Missing:
        """Survey and certificate of each point: in one program, if the problem is surveyed here."""
        if self.survey is None and not self.reason:
            surveyed = map_in_pairs(partial(_survey_and_measure, self.problem, self.sum_error), points)
            return [
                (at, partial(claim, one, self.told is not None or bool(estimated))) for at, (one, estimated) in surveyed
            ]
        survey = self.survey or partial(map_in_pairs, partial(surveys_at, self.problem))
        surveys: list[Surveyed] | Missing = survey(points)
        if isinstance(surveys, Missing):
            return surveys
        return list(zip(surveys, self._certificates(points, surveys), strict=True))

    def _certificates(self, points: list[Tree], surveys: list[Surveyed]) -> list[Claim]:
        """The certificate of each point from the survey there."""
        if self.reason:
            return [partial(Certificate, None, None, self.reason)] * len(points)
        items = [(z, at.operator) for z, at in zip(points, surveys, strict=True)]
        measured = map_in_pairs(partial(_measure, self.problem, self.sum_error), items)
        return [partial(claim, one, self.told is not None or bool(estimated)) for one, estimated in measured]

    def certify_bounds(self, bounds: Bounds) -> Output:
        """The output of the pair of the best bounds of both sides, with the surveys that it follows from."""
        told = None if self.told is None else self.told.recall(bounds)
        own = None if self.errors is None else self.errors.of(bounds)
        proved = own if told is None else errors_of_bounds(self.problem, bounds, told)
        (z, g, shift), measured = measure_pair(self.problem, bounds, proved, self.sum_error)
        certificate = claim(measured, estimated=proved is None, shift=float(shift))
        slope_error = None if self.errors_of_limits is None else self.errors_of_limits.of_mean_slopes(bounds)
        output = self._make_output("bounds", z, Surveyed(g, np.asarray(np.nan)), certificate, slope_error)
        evidence = dataclasses.replace(_evidence(self.problem, bounds), told=None if proved is None else told)
        return dataclasses.replace(output, value=None, evidence=evidence)

    def _make_output(
        self, name: str, z: Tree, at: Surveyed | None, certificate: Certificate, slope_error: Vector | None = None
    ) -> Output:
        point, operator = (jax.tree.map(np.asarray, leaf) for leaf in (z, None if at is None else at.operator))
        if slope_error is None and self.errors_of_limits is not None:
            slope_error = self.errors_of_limits.of_slopes(
                np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(point)])
            )
        return Output(
            name,
            point,
            operator,
            None if at is None else float(at.value),
            certificate,
            **measures_of(self.problem, point, operator, slope_error),
            status=status_of(certificate.gap, self.tol),
        )


def claim(measured: Measured, estimated: bool, shift: float = 0.0) -> Certificate:
    """`certificate_of`; without a claim where a projection left the domain."""
    certificate = certificate_of(measured, estimated, shift)
    return Certificate(None, None, certificate.reason) if certificate.gap == np.inf else certificate


@compile_by_size
def _survey_and_measure(
    problem: AbstractProblem, sum_error: Scalar, points: Tree
) -> tuple[Surveyed, tuple[Measured, Array]]:
    """In two loops: in one, XLA could compute the operator twice, with other rounding than was surveyed."""
    surveys = jax.lax.map(problem.survey, points)
    return surveys, _measure_each(problem, sum_error, (points, surveys.operator))


@compile_by_size
def _measure(problem: AbstractProblem, sum_error: Scalar, items: tuple[Tree, Tree]) -> tuple[Measured, Array]:
    return _measure_each(problem, sum_error, items)


def _measure_each(problem: AbstractProblem, sum_error: Scalar, items: tuple[Tree, Tree]) -> tuple[Measured, Array]:
    """What the certificates of points are made of, from the operators there, along the first axis."""
    return jax.lax.map(lambda item: jax.tree.map(jnp.asarray, problem.measure(item[0], item[1], sum_error)), items)


def _evidence(problem: AbstractProblem, bounds: Bounds) -> Evidence:
    """The surveys that have a weight, first those of the upper bound and then those of the lower one."""
    sides = [(np.asarray(side.points), np.asarray(side.weights)) for side in (bounds.upper, bounds.lower)]
    rows = [np.flatnonzero(weights[:-1]) for _, weights in sides]
    points = np.concatenate([points[own] for (points, _), own in zip(sides, rows, strict=True)])
    flat, nothing = flat_of(problem), [np.zeros(own.size) for own in rows]
    own = [weights[row] for (_, weights), row in zip(sides, rows, strict=True)]
    begun = [side.points if side.starts is None else side.starts for side in (bounds.upper, bounds.lower)]
    starts = np.concatenate([np.asarray(side)[row] for side, row in zip(begun, rows, strict=True)])
    return Evidence(
        points=flat.points(points),
        upper=np.concatenate([own[0], nothing[1]]),
        lower=np.concatenate([nothing[0], own[1]]),
        floor=float(sides[1][1][-1]),
        starts=None if bounds.lower.starts is None else flat.points(starts),
    )


@compile_by_size
def _polish(geometry: Product, z: Tree, g: Tree, steps: Vector) -> Tree:
    center = geometry.dual(z)
    return jax.lax.map(lambda eta: geometry.project(geometry.primal(center.descend(eta, g))), steps)


# The outputs of a state: points that clients are asked about, and bounds that follow from all surveys.


class Reader:
    """Reads outputs from states, and remembers what their surveys say together. Call within `double()`.

    polish: the steps that are tried for the polished output.
    """

    def __init__(self, evaluator: Evaluator, setup: Setup, clients: "Conversation", polish: Steps):
        self.evaluator, self.setup, self.clients, self.polish = evaluator, setup, clients, polish
        # Without anything known beforehand, bounds of both sides say little more than the certificates themselves.
        traceless = setup.method.outputs or evaluator.reason or evaluator.problem.floor is None
        self.trace = None if traceless else no_trace(evaluator.problem)

    def read(self, state: State, everything: bool) -> dict[str, Output] | Missing:
        """The outputs of a state; before the first round all are its point."""
        if (bounds := self.setup.method.bounds(state.server)) is not None:
            return self._bounds_of_method(bounds, state)
        outputs = self._ask_clients(state, everything)
        if isinstance(outputs, Missing) or self.trace is None:
            return outputs
        several = [outputs["last"], min(outputs.values(), key=gap_of)]
        # The value as an array: as a number of Python it would be part of the program, and compiled for.
        points = [(at.z, at.operator, np.asarray(at.value)) for at in several if at.operator is not None]
        self.trace = add_surveys(self.evaluator.problem, self.trace, points)
        return outputs | self._bounds_of_trace()

    def _bounds_of_trace(self) -> dict[str, Output]:
        """The output of the best bounds by all surveys of records so far, if there are any."""
        if self.trace is not None and self.trace.bounds.are_known:
            with suppress(FloatingPointError):
                return {"bounds": self.evaluator.certify_bounds(self.trace.bounds)}
        return {}

    def _bounds_of_method(self, bounds: Bounds, state: State) -> dict[str, Output]:
        """The output of the best bounds by the method's own surveys."""
        if not bounds.are_known:
            point = self.setup.method.point(state.server, self.setup.problem.geometry)
            return self.evaluator.leave_uncertified({"bounds": point}, "nobody was asked for an operator yet")
        return {"bounds": self.evaluator.certify_bounds(bounds)}

    def _ask_clients(self, state: State, everything: bool) -> dict[str, Output] | Missing:
        """The outputs that clients are asked about."""
        points = self._points(state, everything)
        if self.clients.unsurveyed:
            return _fill_polished(self.evaluator.leave_uncertified(points, self.clients.unsurveyed))
        if float(state.sums.weight) == 0:  # one point for all
            only = self.evaluator.certify({"last": points["last"]})
            return only if isinstance(only, Missing) else _fill_polished(dict.fromkeys(points, only["last"]))
        outputs = self.evaluator.certify(points)
        if isinstance(outputs, Missing):
            return outputs
        for kind in polished_kinds(points):
            polished = self.evaluator.polish(outputs[kind.polishes], self.polish)
            if isinstance(polished, Missing):
                return polished
            outputs[kind.name] = polished
        return outputs

    def _points(self, state: State, everything: bool) -> dict[str, Tree]:
        points = points_in_domain(self.evaluator.problem, self.clients.setup, state, self.clients.averages)
        return {name: z for name, z in points.items() if everything or name in ("last", "ergodic")}

    def read_uncertified(self, state: State, reason: str) -> dict[str, Output]:
        """The outputs of a state without certificates, for this reason; bounds from earlier surveys stay."""
        points = _fill_polished(self.evaluator.leave_uncertified(self._points(state, everything=True), reason))
        return points | self._bounds_of_trace()


def exchanges_of(setup: Setup, state: State) -> int:
    """How many round trips the method has made up to this state; those that only certify are not counted."""
    return int(setup.method.exchanges_of(state.server, int(state.round)))


def points_of(setup: Setup, state: State, averages: Iterable[str]) -> dict[str, Tree]:
    """The point of a state, and those of these averages that it has; before the first round all are its point."""
    kept = [name for name in averages if name in state.sums.points]
    return _points(setup.method, setup.problem.geometry, state.server, state.sums, kept)


def points_in_domain(exact: AbstractProblem, setup: Setup, state: State, averages: tuple[str, ...]) -> dict[str, Tree]:
    """`points_of` projected onto the domain, in float64."""
    if setup.method.bounds(state.server) is not None:  # it asks about points of the domain only
        return {"last": setup.method.point(state.server, setup.problem.geometry)}
    names = ("last", *averages)
    points = _read_points(exact.geometry, setup.method, setup.problem.geometry, state.server, state.sums, averages)
    return dict(zip(names, unstack(points), strict=True))


@compile_by_size
def _read_points(
    reports: Product, method: Method, geometry: Product, server: Tree, sums: Sums, averages: tuple[str, ...]
) -> Tree:
    return project_all(reports, list(_points(method, geometry, server, sums, averages).values()))


def _points(
    method: Method, geometry: AbstractGeometry, server: Tree, sums: Sums, averages: Iterable[str]
) -> dict[str, Tree]:
    last, some = method.point(server, geometry), sums.weight > 0
    inverse = 1 / jnp.where(some, sums.weight, 1)
    means = {name: tree.scale(inverse, sums.points[name]) for name in averages}
    return {"last": last} | {name: tree.where(some, mean, last) for name, mean in means.items()}


def _fill_polished(outputs: dict[str, Output]) -> dict[str, Output]:
    """The outputs, with copies in place of the polished ones: without operators nothing can be polished."""
    whole = outputs | {kind.name: outputs[kind.polishes] for kind in polished_kinds(outputs)}
    return {name: dataclasses.replace(output, name=name) for name, output in whole.items()}


def gap_of(output: Output | None) -> float:
    """The certified gap of an output, infinite where it has none."""
    return float("inf") if output is None or output.gap is None else output.gap

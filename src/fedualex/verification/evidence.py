"""The surveys that the certificate of an output follows from, checked again: their weights, means, slopes and shift."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..bundle import Bounds, Side
from ..certificates.surveys import SurveyErrors, flat_of, measure_bounds, measure_proved
from ..certificates.told import Told, errors_of_bounds
from ..compiling import double
from ..problems import AbstractProblem
from ..problems.constrained import lagrangian_of, largest_violation
from ..problems.curvature import surveyor_of
from ..problems.known import Floor
from ..problems.score_rounding import score_errors
from ..regularizers.fenchel import UNIT
from ..runs.folder import StoredRun, finite
from ..runs.settings import ConfigurationError
from ..runtime import Stop
from ..runtime.driver import Examination, bound_violation, infeasibility_text, prove_infeasible
from ..runtime.outputs import exact_problem
from ..runtime.surveying import survey_at
from ..storage import Json
from ..tree import Saddle
from . import recheck
from .reach import Reached, is_deployment

# What a verification finds: checks, and one verdict over all of them.


DATA = "data as it was"
"""The one check whose failure has a verdict of its own: the folder may be whole, and the data another."""


class Verdict(IntEnum):
    """From the best to the worst; of several the worst counts."""

    VERIFIED = 0
    NOT_FULLY_CHECKED = 1
    DATA_CHANGED = 2
    CANNOT_BE_READ = 3
    DIFFERS = 4


REASONS = {
    Verdict.NOT_FULLY_CHECKED: "nothing differs",
    Verdict.DATA_CHANGED: "the configuration leads to another problem than the run's; nothing else differs",
}


@dataclass(frozen=True)
class Check:
    """One comparison: what the folder says, what was found again, and whether they agree (None: could not be done)."""

    output: str
    what: str
    stored: Any
    found: Any
    agrees: bool | None


@dataclass(frozen=True)
class Result:
    """What was found in a folder: its own checks, and in a collection what was found in each run."""

    path: Path
    checks: tuple[Check, ...] = ()
    runs: tuple["Result", ...] = ()
    trouble: str = ""
    """Why a run of a collection could not be read."""

    @property
    def verdict(self) -> Verdict:
        """The worst of all."""
        return max([_verdict(self.checks, self.trouble), *(run.verdict for run in self.runs)])

    @property
    def headline(self) -> str:
        """The verdict in words."""
        reason = self.trouble or REASONS.get(self.verdict)
        return self.verdict.name.replace("_", " ") + (f": {reason}" if reason else "")

    def plain(self) -> Json:
        """As plain data; what is not finite as text, because strict JSON has no such numbers."""
        inner = {"runs": [run.plain() for run in self.runs]} if self.runs else {}
        return {
            "folder": str(self.path),
            "verdict": self.verdict.name,
            "headline": self.headline,
            "agrees": self.verdict <= Verdict.NOT_FULLY_CHECKED,
            "complete": self._complete(),
            "checks": [asdict(replace(c, stored=_finite(c.stored), found=_finite(c.found))) for c in self.checks],
            **inner,
        }

    def _complete(self) -> bool:
        checked = all(check.agrees is not None for check in self.checks)
        return checked and not self.trouble and all(run._complete() for run in self.runs)


def _verdict(checks: Iterable[Check], trouble: str) -> Verdict:
    differing = {check.what for check in checks if check.agrees is False}
    if differing - {DATA}:
        return Verdict.DIFFERS
    if trouble:
        return Verdict.CANNOT_BE_READ
    if differing:
        return Verdict.DATA_CHANGED
    complete = all(check.agrees for check in checks)
    return Verdict.VERIFIED if complete else Verdict.NOT_FULLY_CHECKED


def _finite(value: object) -> Any:
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


# The surveys that the certificate of an output follows from, as a folder holds them.


Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class StoredEvidence:
    """Points of surveys along the first axis, leaf by leaf, and the weight of each in either bound."""

    points: Arrays
    upper: NDArray[Any]
    lower: NDArray[Any]
    floor: float
    starts: Arrays
    """Where steps to these points began, the points themselves for surveys."""
    told: Told | None = None
    """What clients say of the rounding of those that have a weight."""

    def at(self, i: int) -> Arrays:
        """The point of one survey."""
        return {leaf: np.asarray(array[i]) for leaf, array in self.points.items()}

    def start(self, i: int) -> Arrays | None:
        """Where the step to it began whose dual cut counts; None if the cut is that of the survey."""
        begun = {leaf: np.asarray(array[i]) for leaf, array in self.starts.items()}
        return None if all(np.array_equal(begun[leaf], at) for leaf, at in self.at(i).items()) else begun


def read_evidence(run: StoredRun, output: str, z: Arrays) -> StoredEvidence | None:
    """The surveys of an output whose point is z; None where its certificate is that of the one at z."""
    points, weights, starts, told = run.surveys(output)
    if not points and not weights:
        return None
    wrong = ConfigurationError(f"{run.path / 'solution.npz'} does not hold surveys of the output {output!r}")
    if weights.keys() != {"upper", "lower", "floor"} or points.keys() != z.keys():
        raise wrong
    numbers = [*weights.values(), *points.values()]
    if any(array.dtype.kind != "f" for array in numbers) or weights["floor"].shape != ():
        raise wrong
    count = weights["upper"].shape
    if len(count) != 1 or weights["lower"].shape != count:
        raise wrong
    starts = starts or points
    if starts.keys() != z.keys() or any(array.dtype.kind != "f" for array in starts.values()):
        raise wrong
    if any(part[leaf].shape != (*count, *z[leaf].shape) for leaf in z for part in (points, starts)):
        raise wrong
    evidence = StoredEvidence(points, weights["upper"], weights["lower"], float(weights["floor"]), starts)
    if not told:
        return evidence
    each = len(SurveyErrors._fields)
    shapes = {side: (np.count_nonzero(weights[side]), each) for side in ("upper", "lower")} | {"offsets": (2,)}
    if {name: array.shape for name, array in told.items()} != shapes or any(a.dtype.kind != "f" for a in told.values()):
        raise wrong
    return replace(evidence, told=Told(*(np.asarray(told[part], float) for part in Told._fields)))


ROUNDING = 1e-11
"""Two float64 computations of one number may differ by this share of the sizes that were added up."""
FEASIBLE = 1e-12
WEIGHTS = 1e-9
"""So far from 1 may the weights of a side sum to."""


class Bounded(NamedTuple):
    """A pair of bounds as it is stored."""

    evidence: StoredEvidence
    z: Arrays
    g: Arrays


class Mixed(NamedTuple):
    """The same from the data: slopes, shift, what may be rounded of it, and the sizes of what was found."""

    g: Arrays
    offsets: tuple[float, float]
    shift: float
    size: float
    largest: float
    value_size: float


def mean_checks(
    description: Any, output: str, evidence: StoredEvidence, z: Arrays, problem: AbstractProblem | None
) -> list[Check]:
    """Weights of both sides, surveys inside the domain, and z as their mean; without y where its floor is unknown."""
    numbers: list[Any] = [evidence.upper, evidence.lower, evidence.floor]
    numbers += [*evidence.points.values(), *evidence.starts.values()]
    if not all(np.all(np.isfinite(array)) for array in numbers):
        return [Check(output, "finite numbers in the surveys", None, None, False)]
    checks = []
    floor = None if problem is None else problem.floor
    for side, weights in (("upper", evidence.upper), ("lower", np.append(evidence.lower, evidence.floor))):
        whole = bool(np.all(weights >= 0)) and abs(np.sum(weights) - 1) <= WEIGHTS
        checks.append(Check(output, f"weights of the {side} bound", 1.0, float(np.sum(weights)), bool(whole)))
    if problem is not None and floor is None:
        checks.append(Check(output, "weight of a floor that is not there", evidence.floor, 0.0, evidence.floor == 0))
    try:
        outside = float(np.max([recheck.violation(description, evidence.at(i)) for i in range(evidence.upper.size)]))
        checks.append(Check(output, "distance of surveys outside the domain", 0.0, outside, bool(outside <= FEASIBLE)))
    except recheck.CannotRedo as error:
        checks.append(Check(output, f"surveys in the domain ({error})", None, None, None))
    known = evidence.floor == 0 or floor is not None
    apart, near = 0.0, True
    for leaf in z:
        if leaf.startswith("x") or known:
            mean, size = _mean(evidence, leaf, floor)
            off = float(np.max(np.abs(mean - z[leaf]), initial=0.0))
            apart, near = max(apart, off), near and off <= ROUNDING * size
    checks.append(Check(output, "mean of the surveyed points, largest difference", 0.0, apart, near))
    return checks


def rounding_check(output: str, stored: Json, computed: float, estimated: bool, apart: float = 0.0) -> Check:
    """Whether a stored rounding is enough, and no estimate is called a bound.

    An estimate is twice what shaking the inputs changes, and programs that round differently see different changes.
    apart: by how much the numbers that were stored and those that were found may differ by their own last bits, which a
    rounding that is measured with longer numbers sees.
    """
    least = computed / 2 if estimated else (1 - 1e-6) * computed - apart
    enough = stored["rounding"] >= least and stored["estimated"] >= estimated
    return Check(output, "rounding", stored["rounding"], computed, enough)


LAST_BITS = 2.0**-49
"""What two computations of the same sum may differ by, as a share of the sizes of its terms."""


def survey_checks(
    problem: AbstractProblem, output: str, stored: Json, pair: Bounded, sizes: Mapping[str, float]
) -> list[Check]:
    """Slopes, shift and rounding, from surveys of the data."""
    told = pair.evidence.told is not None
    try:
        mixed = _mix(problem, pair, sizes)
        rounding, estimated = (0.0, False) if told else _rounding(problem, pair, mixed, stored["estimated"])
    except (ValueError, FloatingPointError) as error:
        return [Check(output, f"surveys of the data ({error})", None, None, False)]
    apart = {leaf: float(np.max(np.abs(mixed.g[leaf] - pair.g[leaf]), initial=0.0)) for leaf in pair.g}
    near = all(apart[leaf] <= ROUNDING * max(sizes[leaf], mixed.largest) for leaf in apart)
    checks = [Check(output, "mean operator of the surveys, largest difference", 0.0, max(apart.values()), bool(near))]
    if stored["gap"] is None:  # its certificate was withdrawn, and the shift with it
        return checks
    close = bool(abs(mixed.shift - stored["shift"]) <= ROUNDING * mixed.size)
    checks.append(Check(output, "shift from the surveys", stored["shift"], mixed.shift, close))
    if told:
        return [*checks, *told_checks(problem, output, stored, pair)]
    return [*checks, rounding_check(output, stored, rounding, estimated, LAST_BITS * mixed.size)]


def point_of(problem: AbstractProblem, z: Arrays) -> Saddle:
    """The arrays of a stored point in the structure of the problem's."""
    structure: Any = jax.tree.structure(problem.like)
    names = [name for name, _ in tree.leaves_with_names(problem.like)]
    if sorted(names) != sorted(z):
        raise ConfigurationError(f"the problem has the arrays {names}, and solution.npz {sorted(z)}")
    return jax.tree.unflatten(structure, [z[name] for name in names])


def _mean(evidence: StoredEvidence, leaf: str, floor: Floor | None) -> tuple[NDArray[Any], float]:
    """A leaf of the weighted mean of all points, and how large the terms of its entries are."""
    points = evidence.points[leaf]
    if leaf.startswith("x"):
        return np.tensordot(evidence.upper, points, 1), _largest(np.tensordot(evidence.upper, np.abs(points), 1))
    mean, size = np.tensordot(evidence.lower, points, 1), np.tensordot(evidence.lower, np.abs(points), 1)
    if floor is not None:
        own = np.asarray(dict(tree.leaves_with_names(Saddle(None, floor.y)))[leaf])
        mean, size = mean + evidence.floor * own, size + evidence.floor * np.abs(own)
    return mean, _largest(size)


def _mix(problem: AbstractProblem, pair: Bounded, sizes: Mapping[str, float]) -> Mixed:
    """g = (sum lower_i gx_i, sum upper_i gy_i), and the shift that Theorem 1' of docs/slide.md adds to its parts."""
    evidence, floor = pair.evidence, problem.floor
    g = {leaf: np.zeros_like(array) for leaf, array in pair.g.items()}
    above, below, size, largest, value_size = 0.0, 0.0, 0.0, 0.0, 0.0
    for i, (upper, lower) in enumerate(zip(evidence.upper, evidence.lower, strict=True)):
        point = evidence.at(i)
        own, value = _survey(problem, point)
        cut = _cut(problem, point, evidence.start(i)) if lower > 0 else None
        if cut is not None:  # it takes the place of the survey's own, as if its height at the point were f's
            slopes, offset = cut
            own = {**own, **slopes}
            below += lower * (offset - value + sum(float(np.vdot(own[leaf], point[leaf])) for leaf in slopes))
        inner = {leaf: float(np.vdot(own[leaf], point[leaf])) for leaf in g}
        for leaf in g:
            g[leaf] = np.asarray(g[leaf] + (lower if leaf.startswith("x") else upper) * own[leaf])
            largest = max(largest, _largest(own[leaf]))
            size += (upper + lower) * max(sizes[leaf], _largest(own[leaf])) * float(np.sum(np.abs(point[leaf])))
        above += upper * (value + sum(product for leaf, product in inner.items() if not leaf.startswith("x")))
        below += lower * (value - sum(product for leaf, product in inner.items() if leaf.startswith("x")))
        size, value_size = size + (upper + lower) * abs(value), max(value_size, abs(value))
    if floor is not None:
        below, size = below + evidence.floor * float(floor.value), size + evidence.floor * abs(float(floor.value))
    inner_size = sum(float(np.sum(np.abs(g[leaf] * pair.z[leaf]))) for leaf in g)
    shift = above - below - sum(float(np.vdot(g[leaf], pair.z[leaf])) for leaf in g)
    return Mixed(g, (float(above), float(below)), float(shift), float(size + inner_size), largest, value_size)


def _survey(problem: AbstractProblem, point: Arrays) -> tuple[Arrays, float]:
    """The exact operator and f in float64, whatever the data is stored in."""
    with double():
        survey = survey_at(exact_problem(problem), problem.validate_point(point_of(problem, point)))
        return {name: np.asarray(leaf) for name, leaf in tree.leaves_with_names(survey.operator)}, float(survey.value)


def _cut(problem: AbstractProblem, point: Arrays, start: Arrays | None) -> tuple[Arrays, float] | None:
    """The slope and the offset of the dual cut of a step; None if there was no step."""
    if start is None:
        return None
    with double():
        at, begun = (problem.validate_point(point_of(problem, where)) for where in (point, start))
        cut = surveyor_of(exact_problem(problem)).survey(at, start=begun).cut
    if cut is None:
        raise ValueError("the loss of this problem has no dual cuts")
    return {name: np.asarray(leaf) for name, leaf in tree.leaves_with_names(Saddle(cut.slope))}, float(cut.offset)


def _rounding(problem: AbstractProblem, pair: Bounded, mixed: Mixed, estimated: bool) -> tuple[float, bool]:
    """The rounding that a certificate from these surveys has, and whether it is an estimate.

    estimated: whether the run called its own one. Then that is what is looked at, as bounds may be larger.
    """
    with double():
        exact = exact_problem(problem)
        bounds = _bounds(exact, problem, pair, mixed.g, mixed.offsets, (mixed.largest, mixed.value_size))
        errors = None if estimated else score_errors(exact)
        proved = None if errors is None else errors.of(bounds)
        if proved is None:
            return float(measure_bounds(exact, bounds)[0].rounding), True
        return float(measure_proved(exact, bounds, proved.slope, proved.offset)[0].rounding), False


def _bounds(
    exact: AbstractProblem, problem: AbstractProblem, pair: Bounded, g: Arrays, offsets: Any, sizes: tuple[float, float]
) -> Bounds:
    """Both sides from their surveys, with these slopes and offsets."""
    flat, evidence = flat_of(exact), pair.evidence
    rows = np.stack([flat.vector(point_of(problem, evidence.at(i))) for i in range(evidence.upper.size)])
    starts = [evidence.start(i) or evidence.at(i) for i in range(evidence.upper.size)]
    begun = np.stack([flat.vector(point_of(problem, start)) for start in starts])
    point, slopes = (np.asarray(flat.vector(point_of(problem, arrays))) for arrays in (pair.z, g))

    def side(weights: NDArray[Any], floor: float, point: NDArray[Any], slope: NDArray[Any], offset: float) -> Side:
        # A row is there even if the floor alone has a weight.
        own = weights > 0 if np.any(weights > 0) else np.arange(weights.size) == 0
        numbers = 0.0, point, slope, offset, rows[own], np.append(weights[own], floor)
        return Side(*map(jnp.asarray, (*numbers, *sizes, begun[own])))

    split = flat.split
    upper = side(evidence.upper, 0.0, point[:split], slopes[split:], offsets[0])
    return Bounds(upper, side(evidence.lower, evidence.floor, point[split:], slopes[:split], offsets[1]))


def told_checks(problem: AbstractProblem, output: str, stored: Json, pair: Bounded) -> list[Check]:
    """The rounding that follows from what clients say of theirs; an estimate that they say nothing for stays one."""
    told = pair.evidence.told
    if told is None or stored["gap"] is None:
        what = "rounding is an estimate where nobody bounds it"
        return [] if stored["gap"] is None else [Check(output, what, stored["estimated"], True, stored["estimated"])]
    with double():
        exact = exact_problem(problem)
        bounds = _bounds(exact, problem, pair, pair.g, told.offsets, (0.0, 0.0))
        z, g = (np.asarray(flat_of(exact).vector(point_of(problem, arrays))) for arrays in (pair.z, pair.g))
        proved = errors_of_bounds(exact, bounds, told)
        if proved is None or min(np.min(told.upper, initial=0.0), np.min(told.lower, initial=0.0)) < 0:
            return [Check(output, "rounding from what sites say of theirs", stored["rounding"], None, False)]
        rounding = float(measure_proved(exact, bounds, proved.slope, proved.offset)[0].rounding)
    upper, lower = told.offsets
    shift, size = float(upper - lower - g @ z), float(abs(upper) + abs(lower) + np.abs(g) @ np.abs(z))
    close = bool(abs(shift - stored["shift"]) <= ROUNDING * size)
    return [
        Check(output, "shift from the offsets of both bounds", stored["shift"], shift, close),
        rounding_check(output, stored, rounding, estimated=False, apart=LAST_BITS * size),
    ]


def _largest(array: Any) -> float:
    return float(np.max(np.abs(array), initial=0.0))


# What a stored run says about f: that it was looked at, taken on trust, or seen not to be convex-concave.


def convexity_checks(run: StoredRun, reached: Reached) -> list[Check]:
    """A disproof of f looked for again, where the run looked: at the points that it certified.

    Where certificates were withdrawn the point of the disproof may be gone with them: not found is then not checked.
    """
    status, settings = run.status or {}, run.manifest["configuration"]["run"]
    said, problem = status["stop"] == Stop.DISPROVED.name, reached.problem
    certified = [name for name, output in status["outputs"].items() if output["gap"] is not None]
    if problem is None:
        return [Check("", f"why the run ended (DISPROVED: {reached.why_not})", None, None, None)] if said else []
    if not said and not certified:
        return []
    if is_deployment(run.manifest["configuration"]):
        problem = problem.without_data()
    stored = [run.points(name)[0] for name in (status["outputs"] if said else certified)]
    # A point that is not finite has failed already, as an output.
    points = [point_of(problem, z) for z in stored if all(np.all(np.isfinite(array)) for array in z.values())]
    with double():
        examination = Examination(problem, trust=settings.get("convexity") == "trust")
        disproof = examination.examine([problem.validate_point(point) for point in points])
    if said:
        return [Check("", "why the run ended (DISPROVED)", _convexity_of(status), disproof, True if disproof else None)]
    return [
        Check(
            "",
            "what was seen of f",
            _convexity_of(status),
            examination.sentence,
            _convexity_of(status) == examination.sentence,
        )
    ]


def _convexity_of(status: Json) -> Any:
    return status.get("convexity")


# What a stored run says about the limits of its problem: how far outputs exceed them, and whether they can be met.


CLOSE = 1.01
"""A search for a proof may end a little elsewhere on another machine: a bound up to so many times its own will do."""


APART = 100.0
"""How many times more or less the rounding of a mean over surveys may be than that at the point itself."""


def _violation_check(output: str, stored: Any, problem: AbstractProblem, z: Arrays, g: Arrays) -> Check:
    """From the stored operator, with a rounding that is neither left out nor much more than that at the point."""
    operator = point_of(problem, g) if g else None
    least = finite(largest_violation(problem, operator, 0.0))
    if least is None or stored is None:
        return Check(output, "violation", stored, least, stored == least)
    with double():
        errors = score_errors(exact_problem(problem))
    vector = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(point_of(problem, z))])
    own = largest_violation(problem, operator, None if errors is None else errors.of_slopes(vector))
    rounding = max(float(own or 0.0) - least, 4 * UNIT * abs(least))
    near = least + rounding / APART <= stored <= least + APART * rounding
    return Check(output, "violation", stored, own, near)


def limit_checks(run: StoredRun, reached: Reached) -> list[Check]:
    """Violations from the stored operators, and the proof of infeasibility found again; nothing if nothing is said."""
    status: Json = run.status or {}
    said, problem = status["stop"] == Stop.INFEASIBLE.name, reached.problem
    if problem is None or problem.clients == 0:
        why_not = reached.why_not or "the data is elsewhere"
        return [Check("", f"why the run ended ({status['stop']}: {why_not})", None, None, None)] if said else []
    if lagrangian_of(problem) is None:
        return [Check("", "INFEASIBLE: the problem has limits", None, None, False)] if said else []
    checks = []
    here = problem.without_data() if is_deployment(run.manifest["configuration"]) else problem
    for name, output in status["outputs"].items():
        checks.append(_violation_check(name, output["violation"], here, *run.points(name)))
    if is_deployment(run.manifest["configuration"]) or status["stop"] == Stop.INTERRUPTED.name:
        return checks
    again = bound_violation(problem, status["outputs"][status["output"]]["violation"])
    proved = again.lower if again is not None and prove_infeasible(again) else None
    kept = status["least_violation"]
    same = (proved is not None) == said == (kept is not None)
    agrees = same and (
        proved is None or (kept <= CLOSE * proved and status["stop_meaning"] == infeasibility_text(kept))
    )
    return [*checks, Check("", "limits that cannot be met", kept, proved, agrees)]

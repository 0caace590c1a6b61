"""The optimum without penalty, by Newton's method on sums: what is proved of it, and why there may be none."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from ..arrays import Reals
from .sums import HUGE, UNIT, from_triangle, largest_constant

Ask = Callable[[Reals, bool], Mapping[str, Reals]]
"""(parameters, with the sums of the sandwich?) to the sums of all parties (`summarize_effects`): one exchange."""

CLOSE = 1e-6
"""How close to the optimum the search ends, as a share of a standard error."""
LEAST_EVENTS = 10
"""The fewest events, or rows, for each parameter."""
SAME = 1e-9
"""The share of a column's curvature that others must leave unexplained."""
FAR_JUMP = 40.0
"""Steps after which the losses of separated rows are below rounding."""
PATIENCE = 5
"""After so many exchanges without a proof of an optimum, a direction is looked for along which losses fall forever."""


class Outcome(Enum):
    """How the search for the optimum ended."""

    DONE = "done"
    SEPARABLE = "separable"
    COLLINEAR = "collinear"
    TOO_FEW = "too few"
    NOT_REACHED = "not reached"


@dataclass(frozen=True)
class Estimate:
    """The optimum without penalty, or why there is none.

    why: why there is no optimum, for people; empty if there is. names, beta: the parameters, nan for those of dropped
    columns. model_based, sandwich, clustered: covariances of the estimates; clustered is None unless there are more
    parties than parameters. degrees: rows less parameters if the loss is squares, else None: then the dispersion was
    estimated. dispersion: of counts, Pearson's statistic over rows less parameters, 1 if they vary as the family says.
    decrement, gap, bounds: Newton's decrement, and what is proved of f(beta) - min f and |beta - optimum|
    (docs/inference.md, Lemma 1); infinite where nothing is proved. direction: of an infinite optimum, by name.
    exchanges: how often parties were asked. rows, parties, uninformative: as `summarize_effects` counts them.
    parameters: with the intercepts of parties.
    """

    outcome: Outcome
    why: str
    names: tuple[str, ...]
    beta: Reals
    exchanges: int
    rows: int
    parties: int
    uninformative: int
    parameters: int
    value: float
    decrement: float = np.inf
    gap: float = np.inf
    bounds: Reals | None = None
    model_based: Reals | None = None
    sandwich: Reals | None = None
    clustered: Reals | None = None
    degrees: int | None = None
    dispersion: float | None = None
    dropped: tuple[str, ...] = ()
    direction: dict[str, float] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """Why there is no table of effects, if the outcome is not DONE."""
        return f"no intervals: {self.why}" if self.why else ""


@dataclass(frozen=True)
class _Point:
    """The sums at beta with what follows from them, for the columns that are kept.

    decrement, noise: an upper bound of Newton's decrement, and the part of it that is rounding. ratio: of Lemma 1.
    """

    beta: Reals
    sums: Mapping[str, Reals]
    second: Reals
    step: Reals
    decrement: float
    noise: float
    ratio: float

    @property
    def value(self) -> float:
        return float(self.sums["value"])

    @property
    def radius(self) -> float:
        """A bound of the distance to the optimum, in the norm of the second derivative; infinite if none is proved."""
        return bound_distance(self.decrement, self.ratio)


def estimate(
    ask: Ask,
    start: Reals,
    *,
    names: Sequence[str],
    exact: bool,
    self_concordant: bool,
    most: int = 25,
    drop: bool = False,
    least_events: float | int = LEAST_EVENTS,
    counted: str = "",
) -> Estimate:
    """The optimum without penalty from `start` on, by damped Newton steps, with its covariances.

    names: of the parameters, in their order. exact: the loss is squares. self_concordant: |phi'''| <= phi''; without
    either nothing is proved of the distance to the optimum. most: exchanges. drop: go on without columns that are
    combinations of those before them. least_events: refuse fewer events, or rows, for each parameter. counted: how
    events are called, if not as rows of a class or with a target.
    """
    search = _Search(ask, tuple(names), exact, self_concordant, most)
    start = np.asarray(start, float)
    sums = search.answer(start, exact)
    if (why := _too_few(sums, start.size, least_events, counted)) is not None:
        return search.conclude(Outcome.TOO_FEW, why, start, sums)
    if not float(sums["value"]) < HUGE:
        return search.give_up(search.point(start, sums))
    kept, twins = _independent_columns(sums, start.size)
    if twins and not drop:
        return search.conclude(Outcome.COLLINEAR, _collinear_sentence(search.names, twins), start, sums)
    search.kept = kept
    if twins:
        start = np.where(np.isin(np.arange(start.size), kept), start, 0.0)
        sums = search.answer(start, exact)
    return search.run(search.point(start, sums))


class _Search:
    """Newton's method with a count of its exchanges."""

    def __init__(self, ask: Ask, names: tuple[str, ...], exact: bool, self_concordant: bool, most: int):
        self.ask, self.names, self.exact, self.most = ask, names, exact, most
        self.proving = exact or self_concordant
        self.kept: NDArray[np.intp] = np.arange(len(names))
        self.exchanges = 0

    def answer(self, beta: Reals, meat: bool) -> Mapping[str, Reals]:
        self.exchanges += 1
        return self.ask(beta, meat)

    def point(self, beta: Reals, sums: Mapping[str, Reals]) -> _Point:
        """Newton's step and decrement; the decrement counts what rounding may have done to the slope."""
        kept = self.kept
        second = from_triangle(sums["second"])[np.ix_(kept, kept)]
        slope, off = sums["slope"][kept], sums["rounding"][kept]
        values, vectors, scale = _decompose_scaled(second)
        step, decrement, noise, ratio = np.zeros(beta.size), np.inf, np.inf, np.inf
        if float(sums["value"]) < HUGE and values[0] > 0:
            inverse = vectors / values @ vectors.T
            solved = scale * (inverse @ (scale * slope))
            step[kept] = -solved
            spread = np.abs(scale * off)
            noise = float(np.sqrt(spread @ np.abs(inverse) @ spread))
            decrement = float(np.sqrt(max(float(slope @ solved), 0.0))) + noise
            least = np.linalg.eigvalsh(second)[0]
            constant = 0.0 if self.exact else largest_constant(sums["constant"])
            ratio = constant / np.sqrt(least) if least > 0 and self.proving else np.inf
        return _Point(beta, sums, second, step, decrement, noise, ratio)

    def run(self, at: _Point) -> Estimate:
        before, trust, checked = np.inf, 1.0, 0
        while True:
            if _separates(at.sums) and not self.exact:
                return self._separable(at, at.beta)
            if self._close(at, before):
                return self._finish(at)
            if self.exchanges >= self.most or not np.isfinite(at.decrement):
                return self.give_up(at)
            if np.isinf(at.radius) and not self.exact and self.exchanges >= checked + PATIENCE:
                direction, at = self._look_far(at)
                checked = self.exchanges
                if direction is not None:
                    return self._separable(at, direction)
            trial = self._try(at, trust)
            off = 64 * UNIT * abs(at.value) + float(at.sums.get("coarse", 0.0))  # two values may differ by it
            if trial.value <= at.value - 1e-4 * trust * at.decrement**2 + off:
                before, at, trust = at.decrement, trial, 1.0
            else:
                trust = max(trust / 4, _guarantee_share(at.decrement, at.ratio))

    def give_up(self, at: _Point) -> Estimate:
        why = f"the optimum without penalty was not reached in {self.exchanges} exchanges"
        return self.conclude(Outcome.NOT_REACHED, why, at.beta, at.sums)

    def _close(self, at: _Point, before: float) -> bool:
        """Whether the optimum is proved to be close, or as close as rounding lets it be.

        Where nothing can be proved, the last step and the next one must be those of fast convergence.
        """
        deviation = np.sqrt(2 * at.value / float(at.sums["rows"])) if self.exact else 1.0
        if self.proving:
            last = at.decrement <= 4 * at.noise or (self.exact and np.isfinite(before))
            return bool(at.radius <= CLOSE * deviation or (last and np.isfinite(at.radius)))
        return bool(at.decrement <= min(CLOSE, before / 10))

    def _try(self, at: _Point, trust: float) -> _Point:
        last = bool(self.exact or _after_step(at) <= CLOSE)
        beta = at.beta + trust * at.step
        return self.point(beta, self.answer(beta, last))

    def _finish(self, at: _Point) -> Estimate:
        if "row_meat" not in at.sums:
            at = self.point(at.beta, self.answer(at.beta, True))
        done = self.conclude(Outcome.DONE, "", at.beta, at.sums)
        kept, radius = self.kept, at.radius
        values, vectors, scale = _decompose_scaled(at.second)
        inverse = scale[:, None] * (vectors / values @ vectors.T) * scale
        left = done.rows - done.uninformative - done.parameters
        degrees = done.rows - done.parameters if self.exact else None
        vary = float(at.sums["pearson"]) / left if "pearson" in at.sums and left > 0 else None
        dispersion = 2 * at.value / degrees if degrees else 1.0
        row, party = (from_triangle(at.sums[name])[np.ix_(kept, kept)] for name in ("row_meat", "party_meat"))
        parties, rows = done.parties, done.rows
        clustered = None
        if parties > kept.size:
            factor = parties / (parties - 1) * (rows - 1) / (rows - done.parameters)
            clustered = self._whole(factor * inverse @ party @ inverse)
        bounds = np.full(at.beta.size, np.nan)
        bounds[kept] = radius * np.sqrt(np.diag(inverse))
        beta = np.full(at.beta.size, np.nan)
        beta[kept] = at.beta[kept]
        return replace(
            done,
            beta=beta,
            decrement=at.decrement,
            gap=_gap(at.decrement, at.ratio),
            bounds=bounds,
            model_based=self._whole(dispersion * np.asarray(inverse)),
            sandwich=self._whole(inverse @ row @ inverse),
            clustered=clustered,
            degrees=degrees,
            dispersion=vary,
        )

    def _whole(self, matrix: Reals) -> Reals:
        """The matrix of all parameters, nan for those of dropped columns."""
        whole = np.full((len(self.names), len(self.names)), np.nan)
        whole[np.ix_(self.kept, self.kept)] = (matrix + matrix.T) / 2
        return whole

    def conclude(self, outcome: Outcome, why: str, beta: Reals, sums: Mapping[str, Reals]) -> Estimate:
        counts = (round(float(sums[name])) for name in ("rows", "parties", "uninformative"))
        rows, parties, uninformative = counts
        return Estimate(
            outcome=outcome,
            why=why,
            names=self.names,
            beta=beta,
            exchanges=self.exchanges,
            rows=rows,
            parties=parties,
            uninformative=uninformative,
            parameters=self.kept.size + round(float(sums["intercepts"])),
            value=float(sums["value"]),
            dropped=tuple(name for j, name in enumerate(self.names) if j not in self.kept),
        )

    def _look_far(self, at: _Point) -> tuple[Reals | None, _Point]:
        """A direction along which the losses fall forever, if there is one; and the better of this point and a far one.

        A direction without least point leaves alone the rows that keep their curvature far out in it, so it is in the
        null space of the second derivative there; Newton's step is projected to it.
        """
        far = at.beta + FAR_JUMP * at.step
        beyond = self.point(far, self.answer(far, False))
        if not beyond.value <= at.value:
            return None, at
        if _separates(beyond.sums):
            return far, at
        better = beyond if np.isfinite(beyond.decrement) else at
        direction = np.zeros(far.size)
        direction[self.kept] = _project_to_null(beyond.second, at.second, at.step[self.kept])
        if not np.any(direction):
            return None, better
        return (direction if _separates(self.answer(direction, False)) else None), better

    def _separable(self, at: _Point, direction: Reals) -> Estimate:
        shares = direction / np.max(np.abs(direction))
        moved = {name: float(share) for name, share in zip(self.names, shares, strict=True) if abs(share) > SAME}
        ended = self.conclude(Outcome.SEPARABLE, _separable_sentence(moved), at.beta, at.sums)
        return replace(ended, direction=moved)


def _separates(sums: Mapping[str, Reals]) -> bool:
    """Whether the point that was asked for is a direction in which no loss grows and some fall, up to rounding."""
    along, against = float(sums["along"]), float(sums["against"])
    return along > 0 and against <= SAME * along / float(sums["rows"])


# Bounds of Lemma 1 of docs/inference.md. ratio: R / sqrt(the least eigenvalue of the second derivative).


def bound_distance(decrement: float, ratio: float) -> float:
    """-log(1 - ratio decrement) / ratio, which bounds the distance to the optimum in the norm of the derivative."""
    return _limit(decrement, ratio, lambda u: -np.log1p(-u) / ratio, decrement)


def _gap(decrement: float, ratio: float) -> float:
    """(u + (1 - u) log(1 - u)) / ratio^2, u = ratio decrement, which bounds f - min f."""

    def bound(u: float) -> float:
        # (u + (1 - u) log(1 - u)) = u^2/2 + u^3/6 + u^4/12 + ...: where that cancels, the series
        series = u**2 * (1 / 2 + u / 6 + u**2 / 12 / (1 - u))
        return (series if u < 1e-3 else u + (1 - u) * np.log1p(-u)) / ratio**2

    return _limit(decrement, ratio, bound, decrement**2 / 2)


def _limit(decrement: float, ratio: float, bound: Callable[[float], float], without: float) -> float:
    if not np.isfinite(ratio) or not ratio * decrement < 1:
        return np.inf
    return float(bound(ratio * decrement)) if ratio > 0 else without


def _after_step(at: _Point) -> float:
    """The decrement expected after a whole step: a guess, on which only the number of exchanges depends."""
    return at.ratio * at.decrement**2 if np.isfinite(at.ratio) else at.decrement**2


def _guarantee_share(decrement: float, ratio: float) -> float:
    """The share of Newton's step that is sure to lower the loss (Sun and Tran-Dinh 2019)."""
    u = ratio * decrement
    return float(np.log1p(u) / u) if np.isfinite(u) and u > 0 else 0.0


def _decompose_scaled(second: Reals) -> tuple[Reals, Reals, Reals]:
    """Eigenvalues and vectors of D H D, and D, which makes the diagonal 1."""
    diagonal = np.diag(second)
    if not np.all(diagonal > 0):
        return np.zeros(len(second)), np.eye(len(second)), np.ones(len(second))
    scale = 1 / np.sqrt(diagonal)
    values, vectors = np.linalg.eigh(scale[:, None] * second * scale)
    return values, vectors, scale


def _project_to_null(beyond: Reals, before: Reals, step: Reals) -> Reals:
    """The part of the step in the null space of a second derivative, judged by the one before.

    Entries that are rounding are 0.
    """
    scale = 1 / np.sqrt(np.diag(before))
    values, vectors = np.linalg.eigh(scale[:, None] * beyond * scale)
    null = vectors[:, values <= SAME * max(values[-1], SAME)]
    direction = null @ (null.T @ (step / scale))
    direction = np.where(np.abs(direction) > 1e-10 * np.max(np.abs(direction), initial=0.0), direction, 0.0)
    return np.asarray(scale * direction)


# Refusals.


def _too_few(sums: Mapping[str, Reals], size: int, least: float | int, counted: str) -> str | None:
    events = np.atleast_1d(sums["events"])
    contrasts = max(1, events.size - 1)
    parameters = (size + round(float(sums["intercepts"]))) / contrasts
    fewest = float(events.min())
    if fewest >= least * parameters:
        return None
    what = counted or "rows of the rarest class"
    if events.size == 1 and not counted:
        what = "rows" if fewest == float(sums["rows"]) else "rows whose target is not 0"
    each = "" if contrasts == 1 else " of a class"
    are, what = ("are", what) if round(fewest) != 1 else ("is", what.replace("rows", "row"))
    return f"there {are} {fewest:.0f} {what} for {parameters:.0f} parameters{each}, and {least:g} for each are needed"


def _independent_columns(sums: Mapping[str, Reals], size: int) -> tuple[NDArray[np.intp], dict[int, list[int]]]:
    """Which columns are no combinations of those before them, and for the others of which.

    By Cholesky's decomposition of the second derivative in the order of the columns.
    """
    second = from_triangle(sums["second"])
    diagonal, mass = np.diag(second), float(sums["mass"])
    kept: list[int] = []
    twins: dict[int, list[int]] = {}
    for j in range(size):
        if not diagonal[j] > SAME**1.5 * mass:
            twins[j] = []
            continue
        within = np.ix_(kept, kept)
        scale = 1 / np.sqrt(diagonal[kept])
        made = scale * np.linalg.solve(scale[:, None] * second[within] * scale, scale * second[kept, j])
        left = diagonal[j] - second[j, kept] @ made
        if left > SAME * diagonal[j]:
            kept.append(j)
        else:
            share = np.abs(made) * np.sqrt(diagonal[kept] / diagonal[j])
            twins[j] = [k for k, part in zip(kept, share, strict=True) if part > 1e-6]
    return np.array(kept, int), twins


def _collinear_sentence(names: tuple[str, ...], twins: dict[int, list[int]]) -> str:
    def say(j: int) -> str:
        others = ", ".join(names[k] for k in twins[j])
        return f"{names[j]} is a combination of {others}" if others else f"{names[j]} does not vary"

    return f"{'; '.join(say(j) for j in twins)}; leave such columns out"


def _separable_sentence(direction: dict[str, float]) -> str:
    order = sorted(direction, key=lambda name: -abs(direction[name]))
    shown = ", ".join(f"{name} ({'+' if direction[name] > 0 else '-'})" for name in order[:5])
    more = f" and {len(order) - 5} more" if len(order) > 5 else ""
    return (
        f"without penalty there is no finite optimum, since the data are separable along {shown}{more}: "
        "these effects are infinite"
    )

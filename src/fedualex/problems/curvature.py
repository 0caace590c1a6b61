"""Surveys in plain numpy: value, operator, second derivatives and dual cuts of f, from one pass over the rows.

Most losses of the catalogue are sums over rows of a convex function of a score, with coefficients that are affine in y:

    f(x, y) = sum_i c_i(y) phi(s_i(x), target_i) + <level, y>,   c_i(y) = fixed_i + <mixed_i, y> >= 0,   s_i linear.

A loss that is such a sum says so (`score_sum`), and all that a survey wants has a closed form. Any other loss is
differentiated by jax.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from ..arrays import Array, RealMatrix, Reals, by_numpy
from ..certificates.surveys import Curvature, Minorant, Surveyed
from ..compiling import compile_by_size, double
from ..tree import Saddle, Tree
from ..validation import issparse
from .base import AbstractProblem, of_example
from .families import Family
from .scores import ScoreRows, ScoreSum
from .stored import STRETCH, map_in_threads, slices

LEAST = 1e-12
"""The share of its coefficient before a step that a row must have after it to follow the step."""


Columns = NDArray[np.intp] | None


class Block(NamedTuple):
    """Some rows (beside_i, row_i - center), which are multiplied with all of x."""

    rows: RealMatrix
    beside: Reals
    center: Array | None

    @classmethod
    def of(cls, rows: ScoreRows) -> "Block":
        """Full rows are shifted here; sparse ones stay as they are, and products take the center off."""
        if issparse(rows.rows) or rows.center is None:
            return cls(*rows)
        return cls(rows.rows - rows.center, rows.beside, None)

    def scores(self, x: Reals) -> Reals:
        """One for each row, or several. x: (columns, scores), those of `beside` first."""
        extra = self.beside.shape[1]
        scores = self.rows @ x[extra:] + self.beside @ x[:extra]
        scores = np.asarray(scores if self.center is None else scores - self.center @ x[extra:])
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def add_up(self, weight: Reals) -> Reals:
        """sum_i weight_i (beside_i, row_i - center), one column for each of weight."""
        own = self.rows.T @ weight
        if self.center is not None:
            own = own - np.outer(self.center, weight.sum(axis=0))
        return np.concatenate([self.beside.T @ weight, own])

    def squares(self, weight: Reals) -> Reals:
        """sum_i weight_i r_i r_i^T."""
        if issparse(self.rows):
            return self._sparse_squares(weight)
        whole = np.concatenate([self.beside, self.rows], axis=1) if self.beside.shape[1] else self.rows
        if np.any(weight < 0):
            return np.asarray(whole.T @ (weight[:, None] * whole))
        # A matrix times its own transpose is half the work, and numpy knows it by the two being one array.
        whole = np.sqrt(weight)[:, None] * whole
        return np.asarray(whole.T @ whole)

    def pick(self, columns: NDArray[np.intp]) -> Reals:
        """These columns of (beside_i, row_i - center), as a full matrix."""
        extra = self.beside.shape[1]
        own = columns[columns >= extra] - extra
        rows = self.rows[:, own]
        rows = rows.toarray() if issparse(rows) else rows
        if self.center is not None:
            rows = rows - self.center[own]
        return np.concatenate([self.beside[:, columns[columns < extra]], rows], axis=1)

    def _sparse_squares(self, weight: Reals) -> Reals:
        weighted = self.rows.multiply(weight[:, None]).tocsr()
        own = (self.rows.T @ weighted).toarray()
        cross = np.asarray((weighted.T @ self.beside).T)
        if self.center is not None:
            total = np.asarray(weighted.sum(axis=0)).ravel()
            shift = np.outer(total, self.center)
            own = own - shift - shift.T + weight.sum() * np.outer(self.center, self.center)
            cross = cross - np.outer(self.beside.T @ weight, self.center)
        return np.block([[self.beside.T @ (weight[:, None] * self.beside), cross], [cross.T, own]])


class Surveyor:
    """f of a problem through its values, operators, second derivatives and dual cuts; made once for many surveys."""

    def __init__(self, problem: AbstractProblem):
        self.problem = problem

    def survey(
        self, z: Saddle, *, curvature: bool = False, start: Saddle | None = None, columns: Columns = None
    ) -> Surveyed:
        """What all clients say of z: with curvature=True the second derivatives too; with `start` a dual cut.

        The cut is that of a Newton step from `start` to z (`Minorant`). columns: the entries of x, in rising order,
        among which second derivatives are wanted; all if None.
        """
        raise NotImplementedError

    def survey_alike(self, z: Saddle, *, start: Saddle | None = None, columns: Columns = None) -> Surveyed:
        """The same, but with the second derivatives in x alone, at the y whose entries are alike and add up to 1.

        Where y weighs clients they are sums of which none is one client's, and tell nothing of the clients' gradients.
        """
        second = self.survey(with_alike_y(z), curvature=True, columns=columns).curvature
        assert second is not None
        return self.survey(z, start=start)._replace(curvature=second.of_x)


def with_alike_y(z: Saddle) -> Saddle:
    """x with the y whose entries are all alike and add up to 1."""
    return Saddle(z.x, jax.tree.map(lambda leaf: np.full(np.shape(leaf), 1 / max(1, np.size(leaf))), z.y))


Stretch = list[tuple[float, ScoreSum, slice]]
"""Some blocks of rows, each with the weight of its client."""


class ScoreSurveyor(Surveyor):
    """Of losses of scores, in closed form."""

    def __init__(self, problem: AbstractProblem, parts: list[tuple[float, ScoreSum]]):
        super().__init__(problem)
        self.parts = parts

    @by_numpy
    def survey(
        self, z: Saddle, *, curvature: bool = False, start: Saddle | None = None, columns: Columns = None
    ) -> Surveyed:
        """Added up over clients and blocks of rows."""
        x, y = score_vectors(self.problem.like, z)
        made: Any = AllSquares if columns is None else partial(SomeSquares, entries=columns)
        begun = None if start is None else score_vectors(self.problem.like, start)

        def add_up(stretch: Stretch) -> _Totals:
            total = _Totals(x.shape, y.size, made(x.shape, y.size) if curvature else None)
            for weight, own, part in stretch:
                few = own.of(part)
                rows = Block.of(few.rows)
                losses = RowLosses(rows, few.family, few.target, rows.scores(x), weight * few.coefficients(y))
                total.add(losses, None if few.mixed is None else weight * few.mixed)
                if begun is not None:
                    total.add_cut(losses, rows.scores(begun[0]), weight * few.coefficients(begun[1]))
            return total

        first, *others = map_in_threads(add_up, list(self._stretches()))
        for other in others:
            first.merge(other)
        for weight, own in self.parts:
            if own.level is not None:
                first.add_level(weight * own.level, y)
        return first.to_survey(self.problem.like)

    def _stretches(self) -> Iterator[Stretch]:
        """All blocks of rows of all clients, those together that one thread adds up: they are always the same."""
        stretch, rows = Stretch(), 0
        for weight, own in self.parts:
            for part in slices(len(own.target)):
                if rows >= STRETCH:
                    yield stretch
                    stretch, rows = Stretch(), 0
                stretch.append((weight, own, part))
                rows += part.stop - part.start
        yield stretch


def score_vectors(like: Saddle, z: Saddle) -> tuple[Reals, Reals]:
    """x with a column for each score, and y."""
    x, y = (np.concatenate([np.zeros(0), *map(_flat, jax.tree.leaves(part))]) for part in (z.x, z.y))
    return x.reshape(-1, _outputs(like)), y


def _outputs(like: Saddle) -> int:
    """How many scores a row has."""
    return int(np.prod(np.shape(like.x["weights"])[1:], dtype=int))


class RowLosses(NamedTuple):
    """Some rows, what their losses are, and how much each counts."""

    rows: Block
    family: Family
    target: Reals
    scores: Reals
    counts: Reals


def newton_slopes(at: RowLosses, origin: Reals, before: Reals) -> tuple[Reals, Reals]:
    """The a_i of the dual cut of a step from scores `origin` with coefficients `before`, and the sizes of their terms.

    a_i = phi'(origin) + (before_i / counts_i) phi''(origin) (the change of the score), clipped; the ratio is 0 where a
    row has lost its weight. Any a_i in dom phi^* would be valid.
    """
    ratio = np.divide(before, at.counts, out=np.zeros_like(before), where=at.counts > LEAST * before)
    second, step = np.asarray(at.family.second(origin, at.target)), at.scores - origin
    bent = np.einsum("nij,nj->ni", second, step) if second.ndim > step.ndim else second * step
    slope, change = np.asarray(at.family.slope(origin, at.target)), (ratio * bent.T).T
    return np.asarray(at.family.clipped(slope + change, at.target)), np.abs(slope) + np.abs(change)


class _Totals:
    """What is added up over the rows."""

    def __init__(self, shape: tuple[int, ...], others: int, squares: "AllSquares | SomeSquares | None"):
        self.value, self.slope, self.y_slope, self.squares = 0.0, np.zeros(shape), np.zeros(others), squares
        self.cut, self.offset, self.has_cut = np.zeros(shape), 0.0, False

    def add(self, at: RowLosses, mixed: Any) -> None:
        """Value and operator, and second derivatives where they are wanted."""
        losses, slopes = (
            per_row(at.family.loss(at.scores, at.target)),
            as_columns(at.family.slope(at.scores, at.target)),
        )
        self.value += float(at.counts @ losses)
        self.slope += at.rows.add_up(at.counts[:, None] * slopes)
        if mixed is not None:
            self.y_slope += np.asarray(mixed.T @ losses)
        if self.squares is not None:
            self.squares.add(at, slopes, mixed)

    def add_cut(self, at: RowLosses, origin: Reals, before: Reals) -> None:
        """f(., y) >= <sum counts_i a_i row_i, .> - sum counts_i phi^*(a_i) + <level, y>, a_i those of a step."""
        a, _ = newton_slopes(at, origin, before)
        self.cut += at.rows.add_up(at.counts[:, None] * as_columns(a))
        self.offset -= float(at.counts @ per_row(at.family.conjugate(a, at.target)))
        self.has_cut = True

    def merge(self, other: "_Totals") -> None:
        """Add what another thread added up."""
        self.value, self.offset = self.value + other.value, self.offset + other.offset
        self.slope, self.y_slope, self.cut = (
            self.slope + other.slope,
            self.y_slope + other.y_slope,
            self.cut + other.cut,
        )
        self.has_cut |= other.has_cut
        if self.squares is not None and other.squares is not None:
            self.squares.xx, self.squares.yx = self.squares.xx + other.squares.xx, self.squares.yx + other.squares.yx

    def add_level(self, level: Reals, y: Reals) -> None:
        """What f has beside the rows."""
        self.value += float(level @ y)
        self.offset += float(level @ y)
        self.y_slope += level

    def to_survey(self, like: Saddle) -> Surveyed:
        """In the shapes of the problem."""
        survey = Surveyed(
            Saddle(reshape_like(like.x, self.slope.ravel()), reshape_like(like.y, -self.y_slope)),
            np.asarray(self.value),
        )
        if self.squares is not None:
            survey = survey._replace(curvature=self.squares.curvature())
        if self.has_cut:
            survey = survey._replace(cut=Minorant(reshape_like(like.x, self.cut.ravel()), np.asarray(self.offset)))
        return survey


class AllSquares:
    """Second derivatives in all of x, (columns, scores) of it, and between y and x."""

    def __init__(self, shape: tuple[int, ...], others: int):
        self.xx, self.yx = np.zeros((*shape, *shape)), np.zeros((others, *shape))

    def add(self, at: RowLosses, slopes: Reals, mixed: Any) -> None:
        """sum_i counts_i r_i r_i^T phi_i'', and sum_i mixed_i r_i^T phi_i'."""
        second, scores = np.asarray(at.family.second(at.scores, at.target)), self.xx.shape[1]
        if second.ndim < 3:  # a score by itself
            second = as_columns(second)
            alike = bool(np.all(second == second[:, :1]))
            common = at.rows.squares(at.counts * second[:, 0]) if alike else None
            for k in range(scores):
                self.xx[:, k, :, k] += at.rows.squares(at.counts * second[:, k]) if common is None else common
        else:
            for k, other in _pairs(scores):
                product = at.rows.squares(at.counts * second[:, k, other])
                self.xx[:, k, :, other] += product
                if other < k:
                    self.xx[:, other, :, k] += product
        if mixed is not None:
            for k, slope in enumerate(slopes.T):
                self.yx[:, :, k] += at.rows.add_up(_weigh_rows(mixed, slope)).T

    def curvature(self) -> Curvature:
        """As matrices."""
        others, count = len(self.yx), self.xx.shape[0] * self.xx.shape[1]
        return Curvature(self.xx.reshape(count, count), self.yx.reshape(others, count), np.zeros((others, others)))


class SomeSquares:
    """The same among some entries of x alone. shape: of x."""

    def __init__(self, shape: tuple[int, ...], others: int, entries: NDArray[np.intp]):
        scores = shape[1]
        self.columns, self.of_score = entries // scores, [np.flatnonzero(entries % scores == k) for k in range(scores)]
        self.xx, self.yx = np.zeros((entries.size, entries.size)), np.zeros((others, entries.size))

    def add(self, at: RowLosses, slopes: Reals, mixed: Any) -> None:
        """As for all entries."""
        rows = [at.rows.pick(self.columns[own]) for own in self.of_score]
        second = np.asarray(at.family.second(at.scores, at.target))
        apart = as_columns(second) if second.ndim < 3 else None
        for k, other in _pairs(len(rows)) if apart is None else ((k, k) for k in range(len(rows))):
            weight = at.counts * (second[:, k, other] if apart is None else apart[:, k])
            product = rows[k].T @ (weight[:, None] * rows[other])
            self.xx[np.ix_(self.of_score[k], self.of_score[other])] += product
            if other < k:
                self.xx[np.ix_(self.of_score[other], self.of_score[k])] += product.T
        if mixed is not None:
            for own, part, slope in zip(rows, self.of_score, slopes.T, strict=True):
                self.yx[:, part] += (own.T @ _weigh_rows(mixed, slope)).T

    def curvature(self) -> Curvature:
        """As matrices."""
        return Curvature(self.xx, self.yx, np.zeros((len(self.yx), len(self.yx))))


def _pairs(scores: int) -> Iterator[tuple[int, int]]:
    return ((k, other) for k in range(scores) for other in range(k + 1))


def _weigh_rows(mixed: RealMatrix, slope: Reals) -> Reals:
    return np.asarray(mixed.multiply(slope[:, None]).toarray() if issparse(mixed) else mixed * slope[:, None])


class DifferentiatedSurveyor(Surveyor):
    """Of any loss, by jax; one column of the Jacobian after the other."""

    def survey(
        self, z: Saddle, *, curvature: bool = False, start: Saddle | None = None, columns: Columns = None
    ) -> Surveyed:
        """Without a dual cut."""
        with double():
            survey = _survey(self.problem, z)
            if not curvature:
                return survey
            x, y = (sum(map(np.size, jax.tree.leaves(part))) for part in (z.x, z.y))
            kept = np.arange(x) if columns is None else columns
            jacobian, split = np.asarray(_jacobian(self.problem, z, np.append(kept, x + np.arange(y)))), kept.size
        xx, yy = jacobian[:split, :split], jacobian[split:, split:]
        return survey._replace(curvature=Curvature((xx + xx.T) / 2, -jacobian[split:, :split], (yy + yy.T) / 2))


@compile_by_size
def _survey(problem: AbstractProblem, z: Saddle) -> Surveyed:
    return problem.survey(z)


@compile_by_size
def _jacobian(problem: AbstractProblem, z: Saddle, kept: Array) -> Array:
    """Among the kept entries."""
    vector, back = ravel_pytree(z)

    def column(index: Array) -> Array:
        direction = jnp.zeros_like(vector).at[index].set(1.0)
        return jax.jvp(lambda v: ravel_pytree(problem.operator(back(v)))[0], (vector,), (direction,))[1][kept]

    return jax.lax.map(column, kept).T


def surveyor_of(problem: AbstractProblem) -> Surveyor:
    """The surveyor of a problem with its data: a loss that is no sum over rows may bring its own (`surveyor`)."""
    own = getattr(getattr(problem, "f", None), "surveyor", None)
    if own is not None and (surveyor := own(problem)) is not None:
        return cast(Surveyor, surveyor)
    parts = score_sums(problem)
    return DifferentiatedSurveyor(problem) if parts is None else ScoreSurveyor(problem, parts)


def score_sums(problem: AbstractProblem) -> list[tuple[float, ScoreSum]] | None:
    """The weight of each client, and its f as a sum of losses of scores; None where f is no such sum."""
    if getattr(getattr(problem, "f", None), "score_sum", None) is None or problem.data is None or not problem.clients:
        return None
    sums = [score_sum_of(problem, problem.data.client(m)) for m in range(problem.data.counts.size)]
    known = [own for own in sums if own is not None]
    weights = np.asarray(problem.client_weights(problem.clients), float).tolist()
    return list(zip(weights, known, strict=True)) if len(known) == len(sums) else None


def score_sum_of(problem: AbstractProblem, examples: Tree) -> ScoreSum | None:
    """f of one client with these examples as a sum of losses of scores, whatever data the problem has."""
    score_sum = getattr(getattr(problem, "f", None), "score_sum", None)
    own: ScoreSum | None = None if score_sum is None else score_sum(examples, problem.like)
    if own is None:
        return None
    # With an array of jax in it, a family would compute by jax, each operation a program.
    own = own._replace(family=jax.tree.map(np.asarray, own.family))
    # Several targets of which there is one have a score each, as one target has.
    return own._replace(target=own.target.reshape(len(own.target))) if _outputs(problem.like) == 1 else own


KINKS = {"abs", "clamp", "max", "min", "reduce_max", "reduce_min", "relu", "select_n", "sign", "sort"}
"""What a program can do that has no second derivative everywhere."""


def kink_of(problem: AbstractProblem) -> str:
    """The first of KINKS that the program of f uses; empty if there is none, or the problem vouches for itself.

    A guess for a loss of the user's own: what is used may be harmless, and what is harmless may hide a kink.
    """
    f = getattr(problem, "f", None)
    if problem.by_construction or f is None or problem.clients == 0:
        return ""
    with double():
        point = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf)), problem.like)
        example = () if problem.data is None else (jax.tree.map(lambda leaf: leaf[0][0], problem.data.examples),)
        program = jax.make_jaxpr(lambda z: of_example(f, z, *example))(point)
    return next(_kinks(program.jaxpr), "")


def _kinks(program: Any, names_only: bool = False) -> Iterator[str]:
    """From the end on; only what derivatives depend on, so nothing that `stop_gradient` ends.

    names_only: of a function with a derivative of its own, of which its name has to tell.
    """
    needed = {variable for variable in program.outvars if not hasattr(variable, "val")}
    # The logarithm of a sum of exponentials is that of its absolute value, where the largest was taken off.
    shifted = any(equation.primitive.name == "stop_gradient" for equation in program.eqns)
    kinks = KINKS - {"abs"} if shifted else KINKS
    for equation in reversed(program.eqns):
        name = equation.primitive.name
        if name == "stop_gradient" or needed.isdisjoint(equation.outvars):
            continue
        needed |= {variable for variable in equation.invars if not hasattr(variable, "val")}
        own = {str(equation.params.get("name"))} | (set() if names_only else {name})
        yield from sorted(own & kinks)
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda node: hasattr(node, "eqns")):
            inner = getattr(inner, "jaxpr", inner)
            yield from _kinks(inner, names_only or name == "custom_jvp_call") if hasattr(inner, "eqns") else ()


def _flat(leaf: Any) -> Reals:
    return np.ravel(np.asarray(leaf, np.float64))


def as_columns(a: Array) -> Reals:
    """A column for each score."""
    own = np.asarray(a)
    return own[:, None] if own.ndim == 1 else own


def per_row(a: Array) -> Reals:
    """Summed over targets that have a loss each."""
    own = np.asarray(a)
    return own if own.ndim == 1 else own.sum(axis=1)


def reshape_like(like: Tree, vector: Reals) -> Tree:
    """The vector in the shapes of a pytree."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])
    parts = [vector[end - np.size(leaf) : end] for end, leaf in zip(ends, leaves, strict=True)]
    shaped = [part.reshape(np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
    return jax.tree.unflatten(structure, shaped)

"""Surveys in plain numpy: value, operator, second derivatives and dual cuts of f, from one pass over the rows.

Most losses of the catalogue are sums over rows of a convex function of a score, with coefficients that are affine in y:

    f(x, y) = sum_i c_i(y) phi(s_i(x), target_i) + <level, y>,   c_i(y) = fixed_i + <mixed_i, y> >= 0,   s_i linear.

A loss that is such a sum says so (`scored`), and all that a survey wants has a closed form. Any other loss is
differentiated by jax.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from ..certificates.surveys import Curvature, Minorant, Surveyed
from ..compiling import compiled
from ..precision import double
from ..tree import Saddle
from ..validation import issparse
from .scores import Scored, ScoreRows

BLOCK = 4096
"""Rows that are looked at together: their products stay in the cache."""


class Block(NamedTuple):
    """Some rows (beside_i, row_i - center), which are multiplied with all of x."""

    rows: Any
    beside: NDArray[Any]
    center: NDArray[Any] | None

    @classmethod
    def of(cls, rows: ScoreRows, part: slice) -> "Block":
        """Full rows are shifted here; sparse ones stay as they are, and products take the center off."""
        own, beside = rows.rows[part], rows.beside[part]
        if issparse(own) or rows.center is None:
            return cls(own, beside, rows.center)
        return cls(own - rows.center, beside, None)

    def scores(self, x: NDArray[Any]) -> NDArray[Any]:
        """x: (columns, scores), those of `beside` first."""
        extra = self.beside.shape[1]
        found = self.rows @ x[extra:] + self.beside @ x[:extra]
        return np.asarray(found if self.center is None else found - self.center @ x[extra:])

    def add_up(self, weight: NDArray[Any]) -> NDArray[Any]:
        """sum_i weight_i (beside_i, row_i - center), one column for each of weight."""
        own = self.rows.T @ weight
        if self.center is not None:
            own = own - np.outer(self.center, weight.sum(axis=0))
        return np.concatenate([self.beside.T @ weight, own])

    def squares(self, weight: NDArray[Any]) -> NDArray[Any]:
        """sum_i weight_i r_i r_i^T."""
        if issparse(self.rows):
            return self._sparse_squares(weight)
        whole = np.concatenate([self.beside, self.rows], axis=1) if self.beside.shape[1] else self.rows
        return np.asarray(whole.T @ (weight[:, None] * whole))

    def _sparse_squares(self, weight: NDArray[Any]) -> NDArray[Any]:
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

    def __init__(self, problem: Any):
        self.problem = problem

    def survey(self, z: Saddle, *, curvature: bool = False, start: Saddle | None = None) -> Surveyed:
        """What all clients say of z: with curvature=True the second derivatives too; with `start` a dual cut.

        The cut is that of a Newton step from `start` to z (`Minorant`).
        """
        raise NotImplementedError

    @property
    def has_cuts(self) -> bool:
        """Whether steps have dual cuts."""
        return False


class ScoredSurveyor(Surveyor):
    """Of losses of scores, in closed form."""

    def __init__(self, problem: Any):
        super().__init__(problem)
        data, like = problem.data, problem.like
        self.shape = (-1, int(np.prod(np.shape(like.x["weights"])[1:], dtype=int)))
        self.parts = []
        for weight, client in zip(np.asarray(problem.weights, float), _clients(data), strict=True):
            scored = problem.f.scored(client, like)
            share = weight / len(scored.target)
            mixed = None if scored.mixed is None else scored.mixed * share
            self.parts.append((weight, scored._replace(fixed=share * scored.fixed, mixed=mixed)))

    @property
    def has_cuts(self) -> bool:
        """They do."""
        return True

    def survey(self, z: Saddle, *, curvature: bool = False, start: Saddle | None = None) -> Surveyed:
        """Added up over clients and blocks of rows."""
        x, y = self._vectors(z)
        total = _Totals(x.shape, y.size, curvature)
        begin = None if start is None else self._vectors(start)
        for weight, scored in self.parts:
            coefficients = scored.coefficients(y)
            before = None if begin is None else scored.coefficients(begin[1])
            for part in _parts(len(coefficients)):
                rows = Block.of(scored.rows, part)
                c, scores, target = coefficients[part], _squeezed(rows.scores(x)), scored.target[part]
                mixed = None if scored.mixed is None else scored.mixed[part]
                total.add(rows, scored.family, scores, target, c, mixed)
                if begin is not None and before is not None:
                    total.add_cut(
                        rows, scored.family, (_squeezed(rows.scores(begin[0])), before[part]), scores, target, c
                    )
            total.add_level(weight, scored, y)
        return total.surveyed(self.problem.like)

    def _vectors(self, z: Saddle) -> tuple[NDArray[Any], NDArray[Any]]:
        x, y = (np.concatenate([np.zeros(0), *map(_flat, jax.tree.leaves(part))]) for part in (z.x, z.y))
        return x.reshape(self.shape), y


class _Totals:
    """What is added up over the rows."""

    def __init__(self, shape: tuple[int, ...], others: int, curvature: bool):
        self.value, self.slope, self.y_slope = 0.0, np.zeros(shape), np.zeros(others)
        self.xx = np.zeros((*shape, *shape)) if curvature else None
        self.yx = np.zeros((others, *shape)) if curvature else None
        self.cut, self.offset, self.has_cut = np.zeros(shape), 0.0, False

    def add(self, rows: Block, family: Any, scores: Any, target: Any, c: NDArray[Any], mixed: Any) -> None:
        losses, slopes = _per_row(family.loss(scores, target)), _columns(family.slope(scores, target))
        self.value += float(c @ losses)
        self.slope += rows.add_up(c[:, None] * slopes)
        if mixed is not None:
            self.y_slope += np.asarray(mixed.T @ losses)
        if self.xx is None or self.yx is None:
            return
        self._add_squares(rows, family.second(scores, target), c)
        for k in range(slopes.shape[1]):
            if mixed is not None:
                weighed = (
                    mixed.multiply(slopes[:, k : k + 1]).tocsr() if issparse(mixed) else mixed * slopes[:, k : k + 1]
                )
                self.yx[:, :, k] += rows.add_up(weighed.toarray() if issparse(weighed) else weighed).T

    def _add_squares(self, rows: Block, second: NDArray[Any], c: NDArray[Any]) -> None:
        assert self.xx is not None
        if second.ndim < 3:  # a score by itself
            second = _columns(second)
            alike = bool(np.all(second == second[:, :1]))
            for k in range(second.shape[1]):
                found = found if alike and k else rows.squares(c * second[:, k])
                self.xx[:, k, :, k] += found
            return
        for k in range(second.shape[1]):
            for other in range(k + 1):
                found = rows.squares(c * second[:, k, other])
                self.xx[:, k, :, other] += found
                if other < k:
                    self.xx[:, other, :, k] += found

    def add_cut(self, rows: Block, family: Any, start: Any, scores: Any, target: Any, c: NDArray[Any]) -> None:
        """a_i = phi' + (c_i(y) before over now) phi'' (the change of the score), clipped to where phi^* is finite."""
        (origin, before), there = start, c > 0
        ratio = np.divide(before, c, out=np.zeros_like(c), where=there)
        step, second = scores - origin, family.second(origin, target)
        bent = np.einsum("nij,nj->ni", second, step) if second.ndim == 3 else second * step
        a = family.slope(origin, target) + ratio.reshape(-1, *(1,) * (bent.ndim - 1)) * bent
        a = family.clipped(
            np.where(there.reshape(-1, *(1,) * (bent.ndim - 1)), a, family.slope(scores, target)), target
        )
        self.cut += rows.add_up(c[:, None] * _columns(a))
        self.offset -= float(c @ _per_row(family.conjugate(a, target)))
        self.has_cut = True

    def add_level(self, weight: float, scored: Scored, y: NDArray[Any]) -> None:
        """What f has beside the rows."""
        if scored.level is not None:
            self.value += weight * float(scored.level @ y)
            self.offset += weight * float(scored.level @ y)
            self.y_slope += weight * scored.level

    def surveyed(self, like: Saddle) -> Surveyed:
        """In the shapes of the problem."""
        count = self.slope.size
        operator = Saddle(_shaped(like.x, self.slope.ravel()), _shaped(like.y, -self.y_slope))
        found = Surveyed(operator, np.asarray(self.value))
        if self.xx is not None and self.yx is not None:
            others = self.y_slope.size
            xx = self.xx.reshape(count, count)
            found = found._replace(curvature=Curvature(xx, self.yx.reshape(others, count), np.zeros((others, others))))
        if self.has_cut:
            found = found._replace(cut=Minorant(_shaped(like.x, self.cut.ravel()), np.asarray(self.offset)))
        return found


class DifferentiatedSurveyor(Surveyor):
    """Of any loss, by jax; one column of the Jacobian after the other."""

    def survey(self, z: Saddle, *, curvature: bool = False, start: Saddle | None = None) -> Surveyed:
        """Without a dual cut."""
        with double():
            found = _survey(self.problem, z)
            if not curvature:
                return found
            jacobian, split = np.asarray(_jacobian(self.problem, z)), sum(map(np.size, jax.tree.leaves(z.x)))
        xx, yy = jacobian[:split, :split], jacobian[split:, split:]
        return found._replace(curvature=Curvature((xx + xx.T) / 2, -jacobian[split:, :split], (yy + yy.T) / 2))


@compiled
def _survey(problem: Any, z: Saddle) -> Surveyed:
    return problem.survey(z)


@compiled
def _jacobian(problem: Any, z: Saddle) -> Any:
    vector, back = ravel_pytree(z)

    def column(direction: Any) -> Any:
        tangent = jax.jvp(lambda v: ravel_pytree(problem.operator(back(v)))[0], (vector,), (direction,))[1]
        return tangent

    return jax.lax.map(column, jnp.eye(vector.size, dtype=vector.dtype)).T


def surveyor_of(problem: Any) -> Surveyor:
    """The surveyor of a problem with its data."""
    scored = getattr(getattr(problem, "f", None), "scored", None)
    return (
        ScoredSurveyor(problem) if scored is not None and problem.data is not None else DifferentiatedSurveyor(problem)
    )


def _parts(count: int) -> Iterator[slice]:
    return (slice(start, start + BLOCK) for start in range(0, count, BLOCK))


def _clients(data: Any) -> Iterator[Any]:
    """The examples of each client without padding, as numpy arrays."""
    for m, count in enumerate(np.asarray(data.counts)):
        yield jax.tree.map(lambda leaf, m=m, count=count: np.asarray(leaf[m])[:count], data.examples)


def _flat(leaf: Any) -> NDArray[Any]:
    return np.ravel(np.asarray(leaf, np.float64))


def _squeezed(scores: NDArray[Any]) -> NDArray[Any]:
    """A family of one score takes a vector."""
    return scores[:, 0] if scores.shape[1] == 1 else scores


def _columns(a: NDArray[Any]) -> NDArray[Any]:
    return a[:, None] if a.ndim == 1 else a


def _per_row(a: NDArray[Any]) -> NDArray[Any]:
    """Summed over targets that have a loss each."""
    return a if a.ndim == 1 else a.sum(axis=1)


def _shaped(like: Any, vector: NDArray[Any]) -> Any:
    """The vector in the shapes of a pytree."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])
    parts = [vector[end - np.size(leaf) : end] for end, leaf in zip(ends, leaves, strict=True)]
    return jax.tree.unflatten(
        structure, [part.reshape(np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
    )

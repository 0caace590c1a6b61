"""The model problem of methods with curvature: a composite affine monotone inclusion, solved to rounding."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ..bundle import Flat
from ..geometry import Product, is_geometry
from .blocks import Block, Floats, OfSingularValues, block_of
from .interior import follow
from .newton import Model, Walk, accelerate, approach, forward_backward, length_of, polish

__all__ = ["Blocks", "ModelSolution", "blocks_of", "has_model", "solve_model"]


@dataclass(frozen=True)
class Blocks:
    """psi of a problem as the solver computes with it: one block for each array, in the order of `Flat.vector`."""

    members: list[Block]
    ends: list[int]
    quadratic: Floats
    linear: Floats
    split: int

    @property
    def may_rest(self) -> NDArray[np.bool_]:
        """Of each entry, whether l1 keeps it at 0 as long as its slope is small: a model without it is one of psi."""
        return np.concatenate([np.full(block.size, block.may_rest) for block in self.members] or [np.zeros(0, bool)])

    @property
    def l1(self) -> Floats:
        """The strength of each entry."""
        return np.concatenate([np.full(block.size, block.form.l1) for block in self.members] or [np.zeros(0)])

    def among(self, kept: NDArray[np.intp]) -> "Blocks":
        """psi of these entries, in rising order, where all others are 0; every one of those may rest."""
        ends = np.searchsorted(kept, self.ends)
        parts = zip(self.members, [0, *self.ends[:-1]], np.split(kept, ends[:-1]), strict=True)
        members = [block.among(own - first) for block, first, own in parts]
        split = int(np.searchsorted(kept, self.split))
        return Blocks(members, ends.tolist(), self.quadratic[kept], self.linear[kept], split)


class ModelSolution(NamedTuple):
    """A point n of the domain, the slope -(g + J (n - c)) there, and how well -slope's inclusion holds."""

    point: Floats
    slope: Floats
    residual: float
    """|n - prox(n - T F(n))| in the metric 1/T, relative to |n| + |T F(n)|, which count for no more than FAR times
    |c| + |T F(c)|, because a model without a solution leads away forever. T is 1 / curvature of each entry; of a matrix
    it is one number, the largest in which the model was solved."""
    iterations: int
    """Newton steps, iterations of the interior point method and accelerated steps, of different cost, together."""


def blocks_of(flat: Flat) -> Blocks:
    """The blocks of a geometry, once for each problem.

    Raises: a TypeError for a regularizer or geometry that declares no `model_form`.
    """
    forms = [part.model_form() for part in jax.tree.leaves(flat.geometry.parts, is_leaf=is_geometry)]
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(flat.like)]
    sizes = [int(np.prod(shape)) for shape in shapes]
    quadratic = [np.full(size, form.quadratic) for form, size in zip(forms, sizes, strict=True)]
    linear = [np.broadcast_to(form.linear, shape).ravel() for form, shape in zip(forms, shapes, strict=True)]
    members = [block_of(form, shape) for form, shape in zip(forms, shapes, strict=True)]
    ends = np.cumsum(sizes).tolist()
    return Blocks(members, ends, np.concatenate(quadratic), np.concatenate(linear).astype(float), flat.split)


def has_model(geometry: Product) -> bool:
    """Whether every part declares what `blocks_of` asks for."""
    try:
        for part in jax.tree.leaves(geometry.parts, is_leaf=is_geometry):
            part.model_form()
    except TypeError:
        return False
    return True


def solve_model(blocks: Blocks, g: Floats, J: Floats, c: Floats, start: Floats | None = None) -> ModelSolution:
    """The n with 0 in g + J (n - c) + d psi(n), for a monotone J.

    g, c: vectors. J: [[A, B'], [-B, C]], A and C symmetric and positive semidefinite; it may be singular. start: where
    the search begins, c unless given.
    The bits of the answer depend on these alone, given the library for linear algebra.
    Returns: the best point found, always in the domain; where the model has no solution, the residual tells.
    """
    J, g, c = (np.asarray(part, float) for part in (J, g, c))
    if not all(np.all(np.isfinite(part)) for part in (J, g, c)):
        raise ValueError("solve_model: g, J and c must be finite, got entries that are not")
    full = J + np.diag(blocks.quadratic)
    tilted = g + blocks.linear + blocks.quadratic * c
    model = Model(blocks.members, blocks.ends, tilted, full, c, _steps(blocks, full), blocks.split)
    with np.errstate(all="ignore"):  # a path that has lost its digits ends by itself
        model, walk = _solve(model, c if start is None else np.asarray(start, float))
    slope = -(g + J @ (walk.point - c))
    return ModelSolution(walk.point, slope, model.residual(walk.point, FAR), walk.steps)


FAR = 1e6
HANDOVER = 1e-3
"""Each time its mu has fallen by this, from HANDOVER^2 on, the interior point method hands over to Newton's method."""
SOLVED = 2e-13
"""A residual at which nothing else is tried; Newton's method goes on below it as long as it gains."""
NEARLY = 1e-12
"""The same in longer steps, where rounding counts for more."""
LONGER, MISSES = 10 ** (1 / 3), 4
"""By what steps grow, and after how many in which it is not solved the growing ends."""
SPECTRAL = 500
"""The most Newton steps where a block is a function of singular values."""
FIRST_ORDER, CLOSE = 200, 1e-3
"""Accelerated steps before them, where the start's own residual is not close."""
FACTORS = (1.0, 1e4, 1e8)
"""Of the first mu: a start too near to the boundary of a wide domain is lost after a few steps."""


def _solve(model: Model, start: Floats) -> tuple[Model, Walk]:
    """Newton's method from the start; if it is lost, from the points of an interior point method.

    Returns: the model in the metric in which it is solved, and where that ended.
    """
    if any(isinstance(block, OfSingularValues) for block in model.blocks):
        return _lengthen(model, _solve_spectral(model, start))
    best = polish(model, start, 12)
    first = length_of(start - forward_backward(model, start), model.t) ** 2 / start.size
    for factor in FACTORS:
        if best.residual <= SOLVED:
            break
        best = _follow(model, start, factor * first, best)
    return model, best


def _solve_spectral(model: Model, start: Floats) -> Walk:
    """Newton's method from the start or from where accelerated steps lead; if it is lost, proximal points."""
    best = polish(model, start, 12 if model.residual(start) <= CLOSE else 0)
    if best.residual > SOLVED and model.split == start.size:
        start = accelerate(model, start, FIRST_ORDER)
        best = _better(best, polish(model, start, 12))
        best.steps += FIRST_ORDER
    return best if best.residual <= SOLVED else _better(best, approach(model, start, SPECTRAL))


def _lengthen(model: Model, walk: Walk) -> tuple[Model, Walk]:
    """The same in steps that are longer and longer, as long as it is solved in them.

    A matrix has one step for all of its entries, as long as the steepest can bear: what a slope misses elsewhere is
    hidden from a residual in that metric, but not from psi^*, which counts every slope alike.
    """
    matrices = np.concatenate([np.full(block.size, isinstance(block, OfSingularValues)) for block in model.blocks])
    curvature = np.diagonal(model.J)[matrices]
    curvature = curvature[curvature > 0]
    spread = np.max(curvature) / np.min(curvature) if curvature.size else 1.0
    solved, here, longer, misses = (model, walk), walk.point, model, 0
    for _ in range(int(np.log(spread) / np.log(LONGER))):
        longer = replace(longer, t=np.where(matrices, LONGER * longer.t, longer.t))
        reached = polish(longer, here, 12)
        if reached.residual > NEARLY and solved[0] is model:  # the shortest steps may have ended far from a solution
            reached = _better(reached, approach(longer, here, SPECTRAL))
        walk.steps += reached.steps
        misses = 0 if reached.residual <= NEARLY else misses + 1
        if misses == MISSES:
            break
        if misses == 0:
            solved = longer, reached
        if reached.residual < longer.residual(here):
            here = reached.point
    model, reached = solved
    return model, Walk(reached.point, reached.residual, walk.steps)


def _follow(model: Model, start: Floats, first: float, best: Walk) -> Walk:
    """The interior point method from one mu on, with Newton's method along its path."""
    level, x = HANDOVER**2 * first, start
    for x, mu in follow(model, start, first):
        best.steps += 1
        if mu <= level:
            best = _better(best, polish(model, x, 12))
            level = HANDOVER * mu
        if best.residual <= SOLVED:
            return best
    return _better(best, polish(model, x, 12))


def _better(one: Walk, other: Walk) -> Walk:
    chosen = other if other.residual < one.residual else one
    return Walk(chosen.point, chosen.residual, one.steps + other.steps)


def _steps(blocks: Blocks, J: Floats) -> Floats:
    """1 / curvature of each entry; where it has none of its own, that of others seen through the coupling."""
    own = np.diagonal(J).copy()
    known = own > 0
    inverse = np.where(known, 1 / np.where(known, own, 1), 0)
    seen = np.abs(J * J.T) @ inverse
    curvature = np.maximum(own, np.where(known, 0, seen))
    typical = np.median(curvature[curvature > 0]) if np.any(curvature > 0) else 1.0
    curvature = np.where(curvature > 0, curvature, typical)
    ends = [0, *blocks.ends]
    steps = [block.steps(1 / curvature[a:b]) for block, a, b in zip(blocks.members, ends[:-1], ends[1:], strict=True)]
    return np.concatenate(steps)

"""Which bounds of a problem's domain an answer touches."""

import warnings

import numpy as np

from .. import tree
from ..arrays import Reals
from ..compiling import double
from ..geometry import Euclidean, is_geometry
from ..regularizers import AbstractRegularizer, Box, InBall, InBox, L1Ball, L2Ball, Spectral, split
from ..tree import Saddle
from .base import AbstractProblem, as_problem

TOLERANCE = 1e-6
"""How near to a bound, relative to the size of the set, is at the bound."""


def active_bounds(problem: AbstractProblem, z: Saddle) -> list[str]:
    """The arrays of z that lie at a bound of their size: a ball's radius, or an end of a box other than 0.

    A bound derived from data keeps a solution inside, so one that is active is a warning, and is issued as one: the
    answer is not near a solution yet, or the bound was given and is too small. An end at 0 is a sign, not a size, a
    set of one point leaves no choice, simplices are what they are, and the y of a loss whose `y_is_a_sign` is true is
    at an end by nature: none of these is reported.

    problem, z: the problem, and a point of its domain.
    Returns: the paths of these arrays in z.
    """
    with double():
        z = as_problem(problem).validate_point(z)
    sets = problem.geometry.parts
    if getattr(getattr(problem, "f", None), "y_is_a_sign", False):
        sets, z = Saddle(sets.x, None), Saddle(z.x, None)
    parts = tree.leaves_with_names(sets, is_leaf=is_geometry)
    leaves = [np.asarray(leaf) for _, leaf in tree.leaves_with_names(z)]
    active = [name for (name, part), leaf in zip(parts, leaves, strict=True) if _touches(part, leaf)]
    if active:
        warnings.warn(f"bounds are active at this point: {', '.join(active)}", stacklevel=2)
    return active


def _touches(part: object, leaf: Reals) -> bool:
    if not isinstance(part, Euclidean):
        return False
    domain = domain_of(part.regularizer)
    if isinstance(domain, Spectral):
        domain, leaf = domain_of(domain.psi), np.linalg.svd(leaf, compute_uv=False)
    match domain:
        case L1Ball() | L2Ball():
            size = np.linalg.norm(leaf.ravel(), 1 if isinstance(domain, L1Ball) else 2)
            return bool(size >= (1 - TOLERANCE) * domain.radius > 0)
        case Box():
            width = domain.upper - domain.lower
            slack = TOLERANCE * np.where(np.isfinite(width), width, np.abs(leaf))
            ends = (np.where(end == 0, np.inf, end) for end in (domain.lower, domain.upper))
            point = slack <= np.spacing(np.abs(leaf))  # no wider than its rounding
            return any(bool(np.any(~point & (np.abs(leaf - end) <= slack))) for end in ends)
    return False


def domain_of(regularizer: AbstractRegularizer) -> AbstractRegularizer:
    """The set of a regularizer, without its penalties."""
    core, _, _ = split(regularizer)
    return core.domain if isinstance(core, InBall | InBox) else core

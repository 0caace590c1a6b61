"""What a server can do alone with the surveys that it remembers: weigh them, and bound the optimal value by them."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from . import tree
from .arrays import Array, Module, Reals, xp
from .geometry import Dual, Product, calls_lapack
from .searches import maximize_concave, minimize_nonnegative
from .tree import Flag, Saddle, Scalar, Tree, Vector

# Points, operators and dual pairs as plain vectors: what a server computes with when it remembers many of them.


class Mapped(NamedTuple):
    """What a dual pair (omega, tau) stands for."""

    point: Array
    psi: Array
    potential: Array
    """<omega, z> - ell(z) - tau psi(z)."""


class Flat(Module):
    """A geometry on vectors v = (x, y) of float64. Spectral parts are asked one after the other (`tree.depend_on`)."""

    geometry: Product
    like: Saddle
    scale: Scalar
    """s: ell is s ell_x + ell_y, so that a step of one size moves both variables by what they have to go."""
    metric: Tree = None
    """m, of the structure of x: a number or an array for each of its arrays, so that ell_x(x) is that of sqrt(m) x.

    None: 1."""

    def vector(self, z: Tree) -> Array:
        """All entries of a point, x first."""
        return xp.concatenate([xp.ravel(xp.asarray(leaf, xp.float64)) for leaf in jax.tree.leaves(z)])

    def point(self, v: Vector) -> Saddle:
        """The point that has these entries."""
        leaves, structure = jax.tree.flatten(self.like)
        ends = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]
        parts = zip(xp.split(v, ends), leaves, strict=True)
        point: Saddle = jax.tree.unflatten(structure, [part.reshape(np.shape(leaf)) for part, leaf in parts])
        return point

    def points(self, rows: NDArray[np.float64]) -> Saddle:
        """The points that have these rows, along the first axis; outside of compiled programs."""
        leaves, structure = jax.tree.flatten(self.like)
        ends = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]
        parts = zip(np.split(rows, ends, axis=1), leaves, strict=True)
        points: Saddle = jax.tree.unflatten(
            structure, [part.reshape(len(rows), *np.shape(leaf)) for part, leaf in parts]
        )
        return points

    @property
    def split(self) -> int:
        """How many of the entries are x's."""
        return sum(np.size(leaf) for leaf in jax.tree.leaves(self.like.x))

    @property
    def x(self) -> "Flat":
        """The geometry of x alone."""
        return Flat(Product(Saddle(self.geometry.parts.x)), Saddle(self.like.x), self.scale, self.metric)

    @property
    def y(self) -> "Flat":
        """The geometry of y alone, in the place of x."""
        return Flat(Product(Saddle(self.geometry.parts.y)), Saddle(self.like.y), xp.ones(()))

    @property
    def sides(self) -> tuple["Flat", "Flat"]:
        """The geometries of x and of y."""
        return self.x, self.y

    def map_dual(self, omega: Array | Reals, tau: Array | float) -> Mapped:
        """P_tau(omega), psi there, and the potential."""
        point = scaled_primal(self.geometry, Dual(self.point(omega), tau), self.scale, self.metric)
        psi, z = self.geometry.psi(point), self.vector(point)
        return Mapped(z, psi, xp.vdot(omega, z) - self.ell(point) - tau * psi)

    def ell(self, z: Saddle) -> Array:
        """s ell_x + ell_y."""
        parts = self.geometry.parts
        own = 0.0 if z.y is None else Product(parts.y).ell(z.y)
        return Product(parts.x).ell(self.in_units(z.x)) * self.scale + own

    def dual(self, v: Vector) -> Array:
        """grad ell."""
        omega = self.vector(self.geometry.dual(self.point(v)).omega)
        return xp.concatenate([self.scale * self._squares * omega[: self.split], omega[self.split :]])

    def in_units(self, x: Tree) -> Tree:
        """sqrt(m) x."""
        return x if self.metric is None else jax.tree.map(lambda m, leaf: xp.sqrt(m) * leaf, self.metric, x)

    def in_metric(self, rows: Array) -> Array:
        """Vectors whose distances are those of these rows in the metric of ell_x and ell_y."""
        return xp.concatenate([rows[:, : self.split] * xp.sqrt(self._squares), rows[:, self.split :]], axis=1)

    def in_dual_metric(self, rows: Array) -> Array:
        """Vectors whose products are those of these rows in the metric of ell^*: x's entries over sqrt(s m)."""
        x = rows[:, : self.split] / xp.sqrt(self.scale * self._squares)
        return xp.concatenate([x, rows[:, self.split :]], axis=1)

    @property
    def _squares(self) -> Array:
        """m for each entry of x."""
        if self.metric is None:
            return xp.ones(())
        leaves = zip(jax.tree.leaves(self.metric), jax.tree.leaves(self.like.x), strict=True)
        return xp.concatenate([xp.ravel(xp.broadcast_to(m, xp.shape(leaf))) for m, leaf in leaves])

    def interior(self, v: Array) -> Array:
        """A point near v from which nothing is too far away."""
        return self.vector(self.geometry.interior(self.point(v)))

    def with_scale(self, scale: Scalar) -> "Flat":
        """The geometry with another s."""
        return Flat(self.geometry, self.like, scale, self.metric)

    def with_metric(self, metric: Tree) -> "Flat":
        """The geometry with another m."""
        return Flat(self.geometry, self.like, self.scale, metric)

    def divergences(self, v: Vector, reference: Vector) -> tuple[Array, Array]:
        """How far v is from a reference: D_x without s, and D_y."""
        z, at, parts = self.point(v), self.point(reference), self.geometry.parts
        x = Product(parts.x).divergence(self.in_units(z.x), self.in_units(at.x))
        return x, xp.zeros(()) if z.y is None else Product(parts.y).divergence(z.y, at.y)

    def psi(self, v: Array | Reals) -> Array:
        """The regularizers' value, 0 where there is nothing."""
        return self.geometry.psi(self.point(v)) if v.size else xp.zeros(())

    def conjugate(self, s: Array | Reals) -> Array:
        """psi^*(s)."""
        return self.geometry.psi_conjugate(self.point(s)) if s.size else xp.zeros(())


def scaled_primal(geometry: Product, dual: Dual, scale: Scalar, metric: Tree = None) -> Saddle:
    """argmin s ell_x + ell_y + tau psi - <omega, .>: for x what (omega_x / s, tau / s) stands for without s.

    metric: that of `Flat`.
    """
    parts, omega = geometry.parts, dual.omega
    if metric is None:
        x = Product(parts.x).primal(Dual(tree.scale(1 / scale, omega.x), dual.tau / scale))
    else:
        x = Product(parts.x).primal_in(tree.scale(scale, metric), Dual(omega.x, dual.tau))
    if omega.y is None:
        return Saddle(x)
    return Saddle(x, Product(parts.y).primal(Dual(_wait_for(x, omega.y, parts), dual.tau)))


def _wait_for(x: Tree, omega: Tree, parts: Saddle) -> Tree:
    """omega, not used before x is there, if both variables call LAPACK."""
    if not (calls_lapack(parts.x) and calls_lapack(parts.y)):
        return omega
    return tree.depend_on(omega, xp.ravel(jax.tree.leaves(x)[0])[0])


# The surveys that a server remembers: where, with which operator and value, and with how much weight.


class Cuts(eqx.Module):
    """Surveys as the rows of arrays, so many at most; a row is in use or empty.

    A survey at u that found the operator g and the value f bounds the gap of others: with e = <g, u> + psi(u), for all
    v of the domain <g, v> + psi(v) >= e - (the gap function's linearization at u).
    """

    points: Array
    operators: Array
    values: Array
    heights: Array
    """e = <g, u> + psi(u)."""
    weights: Vector
    """c >= 0."""
    used: Array

    def add(self, point: Array, operator: Array, value: Array, height: Array, weight: Array) -> "Cuts":
        """The cuts with one more, in the first empty row; call `with_room` before."""
        return self.with_row(jnp.argmin(self.used), Cuts(point, operator, value, height, weight, jnp.asarray(True)))

    def with_row(self, row: Array, new: "Cuts") -> "Cuts":
        """The cuts with another survey in this row; new: its parts, each without the axis of the rows."""
        # Not `.at[row].set(one)`: XLA makes a loop of each of these scatters, which takes long to compile.
        return jax.tree.map(
            lambda rows, one: jax.lax.dynamic_update_index_in_dim(rows, one.astype(rows.dtype), row, 0), self, new
        )

    def with_room(self, slack: Array) -> "Cuts":
        """With an empty row: if there is none, a survey is forgotten.

        That is the one with the largest slack of those without weight, and that of least weight where all have some.
        Where the weight is 0, as it nearly always is, all weighted sums stay as they are.
        """
        least = jnp.argmin(jnp.where(self.weights > 0, self.weights, -jnp.maximum(slack, 0.0)))
        kept = (np.arange(self.used.size) != least) | ~jnp.all(self.used)
        changed = self.used & kept, jnp.where(kept, self.weights, 0.0)
        return eqx.tree_at(lambda cuts: (cuts.used, cuts.weights), self, changed)

    def with_weights(self, weights: Vector) -> "Cuts":
        """The cuts with other weights."""
        return eqx.tree_at(lambda cuts: cuts.weights, self, weights)


def no_cuts(memory: int, size: int) -> Cuts:
    """So many empty rows for vectors of this size."""
    rows, nothing = xp.zeros((memory, size)), xp.zeros(memory)
    return Cuts(rows, rows, nothing, nothing, nothing, xp.zeros(memory, bool))


def find_nearest(flat: Flat, cuts: Cuts, point: Array) -> Array:
    """The row whose point is nearest."""
    distance = jnp.sum(flat.in_metric(cuts.points - point) ** 2, axis=1)
    return jnp.argmin(jnp.where(cuts.used, distance, jnp.inf))


# Bounds of the optimal value from surveys: one from above with its x, one from below with its y.


UNKNOWN = 1e300
"""A bound that says nothing."""


class KnownFloor(eqx.Module):
    """f(x, y) >= value for every x of the domain, at one y: known before any survey."""

    y: Vector
    value: Vector
    there: Flag
    """Whether anything is known."""


class Side(eqx.Module):
    """A bound of the optimal value, the point that has it, and the surveys from which it follows."""

    bound: Scalar
    """P(x) <= bound, or D(y) >= bound."""
    point: Vector
    """x or y."""
    slope: Vector
    """The weighted mean of the surveys' operators in the other variable."""
    offset: Scalar
    """The weighted mean of f + <g_y, y>, or of f - <g_x, x>."""
    points: Vector
    """Where the surveys were made, one a row."""
    weights: Vector
    """The weights of the surveys, and last that of what is known beforehand; they sum to 1."""
    largest: Scalar
    """The largest entry of the surveys' operators."""
    value_size: Scalar
    """The largest of the surveys' values."""
    starts: Vector | None = None
    """Where the steps began whose dual cuts bound from below, one a row; a survey is a step that ends where it begins.

    None: all are surveys."""


class Bounds(eqx.Module):
    """The best of both sides so far: the gap of (upper.point, lower.point) is at most their difference."""

    upper: Side
    lower: Side

    @property
    def point(self) -> Array:
        """(x, y): x of the upper bound, y of the lower one."""
        return xp.concatenate([self.upper.point, self.lower.point])

    @property
    def are_known(self) -> bool:
        """Whether there is a bound on both sides."""
        return float(self.upper.bound) < UNKNOWN and float(self.lower.bound) > -UNKNOWN

    @property
    def gap(self) -> float:
        """upper - lower."""
        return float(self.upper.bound) - float(self.lower.bound)


def no_bounds(flat: Flat, memory: int) -> Bounds:
    """The bounds before anything is known."""
    split, size = flat.split, sum(leaf.size for leaf in jax.tree.leaves(flat.like))

    def nothing(bound: float, own: int) -> Side:
        rows, weights = xp.zeros((memory, size)), xp.zeros(memory + 1)
        zero = xp.zeros(())
        return Side(xp.asarray(bound, xp.float64), xp.zeros(own), xp.zeros(size - own), zero, rows, weights, zero, zero)

    # The slope of the upper side is in y, and that of the lower one in x.
    upper, lower = nothing(UNKNOWN, split), nothing(-UNKNOWN, size - split)
    return Bounds(upper, lower)


def upper_bound(flat: Flat, cuts: Cuts, mu: Array) -> Array:
    """P(x) <= sum mu_i (f_i + <g_y,i, y_i>) + psi_1(x) + psi_2^*(-sum mu_i g_y,i) at x = sum mu_i x_i."""
    xs, slopes, offsets = majorants(flat, cuts)
    return upper_value(flat.sides, mu @ xs, mu @ slopes, jnp.vdot(mu, offsets))


def lower_bound(flat: Flat, cuts: Cuts, known: KnownFloor, lam: Array) -> Array:
    """D(y) >= sum lam_i (f_i - <g_x,i, x_i>) - psi_1^*(-sum lam_i g_x,i) - psi_2(y) at y = sum lam_i y_i.

    The last weight is that of what is known: its value, its y, and the slope 0.
    """
    ys, slopes, offsets = minorants(flat, cuts, known)
    return lower_value(flat.sides, lam @ ys, lam @ slopes, jnp.vdot(lam, offsets))


def upper_value(sides: tuple[Flat, Flat], x: Array, slope: Array, offset: Array) -> Array:
    """offset + psi_1(x) + psi_2^*(-slope)."""
    psi = sides[0].psi(x)
    return offset + psi + sides[1].conjugate(-tree.depend_on(slope, psi))  # one LAPACK call at a time


def lower_value(sides: tuple[Flat, Flat], y: Array, slope: Array, offset: Array) -> Array:
    """offset - psi_1^*(-slope) - psi_2(y)."""
    conjugate = sides[0].conjugate(-slope)
    return offset - conjugate - sides[1].psi(tree.depend_on(y, conjugate))


def majorants(flat: Flat, cuts: Cuts) -> tuple[Array, Array, Array]:
    """The x_i of every survey, with f(x_i, .) <= offset_i - <slope_i, .>: slopes and offsets."""
    split = flat.split
    slopes, y = cuts.operators[:, split:], cuts.points[:, split:]
    return cuts.points[:, :split], slopes, cuts.values + jnp.sum(slopes * y, axis=1)


def minorants(flat: Flat, cuts: Cuts, known: KnownFloor) -> tuple[Array, Array, Array]:
    """The y_i of every survey and of what is known, with f(., y_i) >= offset_i + <slope_i, .>: slopes and offsets."""
    split = flat.split
    slopes, x = cuts.operators[:, :split], cuts.points[:, :split]
    offsets = jnp.append(cuts.values - jnp.sum(slopes * x, axis=1), known.value)
    ys = jnp.concatenate([cuts.points[:, split:], known.y[None]])
    return ys, jnp.concatenate([slopes, jnp.zeros((1, split))]), offsets


# The level problem: how much weight each remembered survey gets, re-optimized by the server alone.


EVALUATIONS = 300
"""Of the quasi-Newton method, at most. It ends by itself after 10 to 60, but not where cuts are almost parallel, or if
no point reaches the level: then there is no minimum, and the weights so far prove a gap below the level."""
ACCURACY = 1e-4
"""Up to which share of the level, or of the gap, what a cut leaves above it does not count."""


def pair_of(cuts: Cuts, center: Array) -> tuple[Array, Array]:
    """O(c) = (omega_c - sum c_i g_i, sum c_i), the dual pair of the weights c."""
    return center - cuts.weights @ cuts.operators, jnp.sum(cuts.weights)


def solve_level_problem(flat: Flat, cuts: Cuts, center: Array, level: Scalar) -> Array:
    """The weights c >= 0 that minimize Q(c) = pot(O(c)) + sum c_i e_i - level sum c_i, found from the present ones.

    The gradient is e_i - <g_i, z> - psi(z) - level at z = P(O(c)). The minimum is the projection of the center onto
    the points where no cut leaves a gap above -level; its dual pair is O(c).
    """
    return _minimize_potential(
        flat, cuts.operators, cuts.heights, cuts.used, center, level, jnp.zeros(()), cuts.weights, ACCURACY * level
    )


def project_onto_level(
    flat: Flat, slopes: Array, offsets: Array, used: Array, center: Array, level: Scalar, stiffness: Array, gap: Array
) -> Array:
    """The weights of affine minorants offset_i + <slope_i, x> where the center is projected onto model(x) <= level.

    model(x) = max_i (offset_i + <slope_i, x>) + psi(x). Divided by their sum S, the weights are multipliers of a lower
    bound of min model. stiffness: stiffness S^2 / 2 is added, so that S stays finite where model > level everywhere.
    gap: between the bounds that the level is in the middle of.
    """
    start = jnp.zeros(used.size)
    return _minimize_potential(flat, slopes, -offsets, used, center, -level, stiffness, start, ACCURACY * gap)


def _minimize_potential(
    flat: Flat,
    operators: Array,
    heights: Array,
    used: Array,
    center: Array,
    level: Scalar,
    stiffness: Array,
    start: Vector,
    accuracy: Scalar,
) -> Array:
    # Weights are measured in units that make all operators alike in size.
    measured = flat.in_dual_metric(operators)
    size = jnp.sqrt(jnp.max(jnp.sum(measured**2, axis=1)))
    unit = 1 / jnp.where(size > 0, size, 1.0)

    def evaluate(scaled: jax.Array) -> tuple[jax.Array, jax.Array]:
        c = unit * scaled
        total = jnp.sum(c)
        z, psi, potential = flat.map_dual(center - c @ operators, total)
        value = potential + jnp.vdot(c, heights) - level * total + stiffness * total**2 / 2
        return jnp.asarray(value), jnp.asarray(unit * (heights - operators @ z - psi - level + stiffness * total))

    curvature = unit**2 * (measured @ measured.T + stiffness)
    return unit * minimize_nonnegative(
        evaluate, jnp.asarray(start / unit), curvature, jnp.asarray(used), EVALUATIONS, unit * accuracy
    )


# Better bounds: which weights of the surveys are tried, and which are kept.


STIFF = 30.0
"""How many times the mass of the level problem's weights those of the model may have, about."""


def improve_bounds(flat: Flat, cuts: Cuts, known: KnownFloor, bounds: Bounds, *, model: bool) -> Bounds:
    """The bounds with what the surveys and their weights make better.

    Tried from above: every survey alone, and the weighted mean. From below the same, and, mixed with what is known
    beforehand, the best of them, the mean, and with `model` the multipliers of the model of all surveys.
    """
    alone = jnp.where(cuts.used[:, None], np.eye(cuts.used.size), 0.0)
    mean = _normalize(cuts.weights)
    upper = _improve_upper(flat, cuts, jnp.concatenate([alone, mean[None]]), bounds.upper)
    tried = jnp.pad(tree.depend_on(jnp.concatenate([alone, mean[None]]), upper.bound), ((0, 0), (0, 1)))
    multipliers = _normalize(_multipliers(flat, cuts, known, upper, bounds.lower)) if model else tried[-1]
    tried = jnp.concatenate([tried, multipliers[None]])
    return Bounds(upper, _improve_lower(flat, cuts, known, tried, bounds.lower))


def _multipliers(flat: Flat, cuts: Cuts, known: KnownFloor, upper: Side, lower: Side) -> Array:
    """Where the model of all surveys is projected onto the middle between both bounds."""
    _, slopes, offsets = minorants(flat, cuts, known)
    usable = jnp.append(cuts.used, known.there)
    gap = jnp.where(lower.bound > -UNKNOWN, upper.bound - lower.bound, 0.0)
    mass = STIFF * jnp.sum(cuts.weights)
    stiffness = gap / jnp.where(mass > 0, mass, 1.0)
    center = flat.x.dual(upper.point)
    return project_onto_level(flat.x, slopes, offsets, usable, center, upper.bound - gap / 2, stiffness, gap)


def _improve_upper(flat: Flat, cuts: Cuts, tried: Array, present: Side) -> Side:
    xs, slopes, offsets = (tried @ part for part in majorants(flat, cuts))
    values = jax.vmap(partial(upper_value, flat.sides))(xs, slopes, offsets)
    values = jnp.where(_are_usable(tried, values), values, UNKNOWN)
    best = jnp.argmin(values)
    weights = jnp.append(tried[best], 0.0)
    side = Side(values[best], xs[best], slopes[best], offsets[best], cuts.points, weights, *_sizes(cuts))
    return _choose(values[best] < present.bound, side, present)


def _improve_lower(flat: Flat, cuts: Cuts, known: KnownFloor, tried: Array, present: Side) -> Side:
    """tried: weights of the surveys and of what is known; the last two rows are means of several surveys."""
    beforehand = np.eye(tried.shape[1])[-1]
    tried = jnp.concatenate([tried, known.there * beforehand[None]])
    parts = minorants(flat, cuts, known)
    rows = tuple(tried @ part for part in parts)
    values = jax.vmap(partial(lower_value, flat.sides))(*rows)
    values = jnp.where(_are_usable(tried, values), values, -UNKNOWN)
    # The best single survey and the two means, each mixed with what is known beforehand.
    chosen = jnp.stack([jnp.argmax(values[:-3]), tried.shape[0] - 3, tried.shape[0] - 2])

    beside = known.y, jnp.zeros(flat.split), known.value

    def mix(share: Array, *row: Array) -> Array:
        return lower_value(
            flat.sides, *(share * own + (1 - share) * other for own, other in zip(row, beside, strict=True))
        )

    def values_at(shares: jax.Array) -> jax.Array:
        return jnp.asarray(jax.vmap(mix)(shares, *(part[chosen] for part in rows)))

    shares, mixtures = maximize_concave(values_at, jnp.asarray(values[chosen]))
    mixtures = jnp.where(known.there & (values[chosen] > -UNKNOWN), mixtures, -UNKNOWN)
    weights = shares[:, None] * tried[chosen] + (1 - shares[:, None]) * beforehand
    tried, values = jnp.concatenate([tried, weights]), jnp.concatenate([values, mixtures])
    lam, bound = tried[jnp.argmax(values)], jnp.max(values)
    y, slope, offset = (lam @ part for part in parts)
    side = Side(bound, y, slope, offset, cuts.points, lam, *_sizes(cuts))
    return _choose(bound > present.bound, side, present)


def _are_usable(tried: Array, values: Array) -> Array:
    """Which rows of weights are not all 0, and have a finite bound."""
    return (jnp.sum(tried, axis=1) > 0) & jnp.isfinite(values)


def _sizes(cuts: Cuts) -> tuple[Array, Array]:
    """The largest entry of all operators, and the largest value."""
    return jnp.max(jnp.abs(cuts.operators)), jnp.max(jnp.abs(cuts.values))


def _normalize(weights: Vector) -> Vector:
    """Divided by their sum, if that is positive."""
    total = jnp.sum(weights)
    return weights / jnp.where(total > 0, total, 1.0)


def _choose(condition: Array, one: Side, other: Side) -> Side:
    chosen: Side = tree.where(condition, one, other)
    return chosen

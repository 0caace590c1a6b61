"""The prox of every block in a diagonal metric, and its derivative: what Newton's method on a fixed point needs."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..regularizers.base import ModelForm

Floats = NDArray[np.float64]

# The derivative of a prox: symmetric in the metric, between 0 and 1.


@dataclass(frozen=True)
class Slope:
    """P, the derivative of a prox at a point: 0 outside of the directions `kept`, and among them a linear map.

    kept: rows, or, with a basis, its orthonormal columns. plain: P is 1 among them. apply: P times a matrix that has
    these rows, or those of its product with the basis.
    """

    kept: NDArray[np.intp]
    plain: bool
    apply: Callable[[Floats], Floats]
    basis: Floats | None = None


def _same(rows: Floats) -> Floats:
    return rows


# Blocks whose entries, or groups of entries, are separate but for one coupling.


@dataclass(frozen=True)
class Separate:
    """phi_i(x_i), or group norms, in a ball or on a simplex.

    The prox in the metric 1/t minimizes sum_i (x_i - v_i)^2 / (2 t_i) + psi(x). With the multiplier nu of the coupling
    it is soft(v, t (l1 + nu)), soft(v, t l1) / (1 + t nu) or soft(v - t nu, t l1), clipped, and nu is a root.
    """

    form: ModelForm
    size: int
    lower: Floats
    upper: Floats
    prior: Floats
    labels: NDArray[np.intp] | None

    @property
    def may_rest(self) -> bool:
        """Whether an entry can be left out at 0."""
        inside = bool(np.all((self.lower <= 0) & (self.upper >= 0)))
        return self.form.l1 > 0 and self.labels is None and self.form.coupling != "sum" and inside

    def among(self, kept: NDArray[np.intp]) -> "Separate":
        """The same of these entries, where all others are 0."""
        if kept.size == self.size:
            return self
        own = {name: getattr(self, name)[kept] for name in ("lower", "upper", "prior")}
        return replace(self, size=kept.size, **own)

    def steps(self, t: Floats) -> Floats:
        """The steps that the prox is known for: all."""
        return t

    def prox(self, v: Floats, t: Floats) -> Floats:
        """argmin sum_i (x_i - v_i)^2 / (2 t_i) + psi(x), psi without its quadratic and linear terms."""
        return self._solve_coupling(v, t)[0]

    def slope(self, v: Floats, t: Floats) -> Slope:
        """The derivative of the prox at v; at a kink one of its limits."""
        x, nu = self._solve_coupling(v, t)
        form = self.form
        inside = (x > self.lower) & (x < self.upper)
        if self.labels is not None:
            inside = (np.bincount(self.labels, x * x) > 0)[self.labels]
        elif form.l1 > 0 or form.coupling == "l1":
            inside &= x != 0
        kept = np.flatnonzero(inside)
        x, t = x[kept], t[kept]
        scale = np.ones(kept.size)
        if form.entropy > 0:
            scale = x / (x + t * form.entropy)
        if form.coupling == "l2":
            scale = scale / (1 + nu * t)
        first = _scale_by(scale) if self.labels is None else self._invert_groups(x, t * scale, kept, scale)
        tied = form.coupling == "sum" or nu > 0
        if not tied:
            plain = form.entropy == 0 and self.labels is None
            return Slope(kept, plain, _same if plain else first)
        w = {"l1": np.sign(x), "l2": x, "sum": np.ones(kept.size)}[form.coupling]  # type: ignore[index]
        across = first((t * w)[:, None])[:, 0]  # P is symmetric in the metric: P T w = T P' w
        length = w @ across

        def apply(rows: Floats) -> Floats:
            moved = first(rows)
            return moved - np.outer(across / length, w @ moved) if length > 0 else moved

        return Slope(kept, False, apply)

    def _invert_groups(self, x: Floats, t: Floats, kept: NDArray[np.intp], scale: Floats) -> Callable[[Floats], Floats]:
        """The inverse of 1 + T (w / |x_g|) (1 - u u'), u = x_g / |x_g|, on each group, of what was scaled."""
        labels, weights = self.labels[kept], self.form.weights  # type: ignore[index]
        norms = np.sqrt(np.bincount(labels, x * x, weights.size))[labels]  # type: ignore[union-attr]
        unit, bent = x / norms, t * weights[labels] / norms  # type: ignore[index]
        order = np.argsort(labels, kind="stable")
        starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
        place = np.empty(labels.size, np.intp)
        place[order] = np.repeat(np.arange(starts.size), np.diff(np.append(starts, labels.size)))
        if not labels.size:
            return _same
        length = np.add.reduceat((unit * unit / (1 + bent))[order], starts)

        def apply(rows: Floats) -> Floats:
            moved = (scale / (1 + bent))[:, None] * rows
            along = np.add.reduceat((unit[:, None] * moved)[order], starts, axis=0) / length[:, None]
            return moved + (bent / (1 + bent) * unit)[:, None] * along[place]

        return apply

    def _solve_coupling(self, v: Floats, t: Floats) -> tuple[Floats, float]:
        """The prox and the multiplier of the coupling."""
        form = self.form
        free = self._at(v, t, 0.0)
        match form.coupling:
            case None:
                return free, 0.0
            case "l1" | "l2":
                return self._in_ball(v, t, free)
        if self.size == 0:
            return free, 0.0
        return self._with_sum(v, t)

    def _at(self, v: Floats, t: Floats, nu: float) -> Floats:
        form = self.form
        if self.labels is not None:
            return _shrink_groups(v / (1 + nu * t), t / (1 + nu * t), self.labels, form.weights)  # type: ignore[arg-type]
        if form.coupling == "sum":
            v = v - nu * t
        l1 = form.l1 + (nu if form.coupling == "l1" else 0.0)
        if form.entropy > 0:
            tau = t * form.entropy
            x = tau * wright((v - t * l1) / tau - 1 + np.log(self.prior) - np.log(tau))
        else:
            x = np.sign(v) * np.maximum(np.abs(v) - t * l1, 0) if l1 > 0 else v
        if form.coupling == "l2":
            x = x / (1 + nu * t)
        return np.clip(x, self.lower, self.upper)

    def _in_ball(self, v: Floats, t: Floats, free: Floats) -> tuple[Floats, float]:
        radius = self.form.radius
        order = 1 if self.form.coupling == "l1" else 2
        size = float(np.linalg.norm(free, order)) if free.size else 0.0
        if size <= radius:
            return free, 0.0
        if radius == 0:
            return np.zeros_like(free), 1.0
        if order == 1:
            nu = _root_of_pieces(
                lambda nu: float(np.sum(np.abs(self._at(v, t, nu)))) - radius, np.abs(v) / t - self.form.l1, 0.0
            )
        else:
            nu = self._root_of_length(v, t, free)
        x = self._at(v, t, nu)
        length = float(np.linalg.norm(x, order))
        return (x * (radius / length) if length > radius else x), nu

    def _root_of_length(self, v: Floats, t: Floats, free: Floats) -> float:
        """The nu at which the l2 norm is the radius."""
        # 1/||x|| is nearly linear in nu: Newton's method from the left does not overshoot (More 1978).
        nu, x, kept = 0.0, free, np.flatnonzero(free)
        for _ in range(60):
            length, at = float(np.linalg.norm(x)), kept[x[kept] != 0]
            moved = (t[at] / (1 + nu * t[at]) * x[at])[:, None]
            if self.labels is not None:
                scale = 1 / (1 + nu * t[at])
                moved = self._invert_groups(x[at], t[at] * scale, at, scale)((t[at] * x[at])[:, None])
            step = (length / self.form.radius - 1) * length * length / float(x[at] @ moved[:, 0])
            nu += step
            if abs(step) <= 1e-16 * nu:
                break
            x = self._at(v, t, nu) if self.labels is not None else free / (1 + nu * t)
        return nu

    def _with_sum(self, v: Floats, t: Floats) -> tuple[Floats, float]:
        radius = self.form.radius

        def excess(nu: float) -> float:
            return float(np.sum(self._at(v, t, nu))) - radius

        if self.form.entropy > 0:
            nu = self._smooth_root(v, t, excess)
        else:
            ends = [(v - end) / t for end in (self.lower, self.upper) if np.all(np.isfinite(end))]
            nu = _root_of_pieces(excess, np.concatenate(ends), -np.inf)
        x = self._at(v, t, nu)
        for _ in range(2):  # the sum to its last digits: v may be much larger than x
            free = (x > self.lower) & (x < self.upper)
            x[free] += (radius - float(np.sum(x))) * (x[free] / max(float(np.sum(x[free])), np.finfo(float).tiny))
            x = np.clip(x, self.lower, self.upper)
        return x, nu

    def _smooth_root(self, v: Floats, t: Floats, excess: Callable[[float], float]) -> float:
        """The nu at which the entropic prox has the right sum, by Newton's method between bounds."""
        radius, lam = self.form.radius, self.form.entropy

        # The slope nu makes the entry x_i where nu = (v_i - x_i) / t_i - lam (1 + log(x_i / q_i)).
        def where(x: Floats | float) -> Floats:
            return (v - x) / t - lam * (1 + np.log(x / self.prior))

        low, high = float(np.max(where(radius))), float(np.max(where(radius / self.size)))
        if self.form.radius > 0 and high <= low:
            return low
        nu = high
        for _ in range(100):
            x = self._at(v, t, nu)
            error = float(np.sum(x)) - radius
            low, high = (nu, high) if error > 0 else (low, nu)
            fall = float(np.sum(x * t / (x + t * lam)))
            step = error / fall if fall > 0 else np.inf
            new = nu + step
            if not low < new < high:
                new = (low + high) / 2
            if abs(error) <= 4e-16 * radius or new == nu:
                break
            nu = new
        return nu


def _shrink_groups(v: Floats, t: Floats, labels: NDArray[np.intp], weights: Floats) -> Floats:
    """argmin sum_i (x_i - v_i)^2 / (2 t_i) + sum_g w_g |x_g|: x_i = v_i s / (s + t_i w), s = |x_g| or 0.

    s is where |v_i / (s + t_i w)| is 1 in l2: its inverse is concave in s, so Newton's method from the left does not
    overshoot; it begins where the largest entry alone is 1.
    """
    count, limit = weights.size, t * weights[labels]
    s = np.zeros(count)
    np.maximum.at(s, labels, np.abs(v) - limit)
    with np.errstate(divide="ignore", invalid="ignore"):
        zero = np.bincount(labels, np.where(v == 0, 0, v / limit) ** 2, count) <= 1
    for _ in range(60):
        at = np.where(zero, 1, s)[labels] + limit
        parts = np.where(v == 0, 0, v / np.where(at > 0, at, 1)) ** 2
        size = np.bincount(labels, parts, count)
        fall = np.bincount(labels, parts / np.where(at > 0, at, 1), count)
        step = np.where(zero | (fall <= 0), 0, (np.sqrt(size) - 1) * size / np.where(fall > 0, fall, 1))
        s = np.maximum(s + step, 0)
        if np.all(np.abs(step) <= 1e-16 * s):
            break
    length = np.where(zero, 0, s)[labels]
    return v * np.where(zero[labels], 0, length / np.where(length + limit > 0, length + limit, 1))


def _scale_by(scale: Floats) -> Callable[[Floats], Floats]:
    return lambda rows: scale[:, None] * rows


def _root_of_pieces(falling: Callable[[float], float], breaks: Floats, least: float) -> float:
    """The root of a falling function that is linear between its breakpoints, beyond `least`."""
    breaks = np.unique(breaks[breaks > least])
    low, high = -1, breaks.size  # falling(breaks[low]) > 0 >= falling(breaks[high])
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if falling(float(breaks[middle])) > 0 else (low, middle)
    left = breaks[low] if low >= 0 else (least if np.isfinite(least) else breaks[0] - 1 - abs(breaks[0]))
    right = breaks[high] if high < breaks.size else left + 1 + abs(left)
    at_left, at_right = falling(float(left)), falling(float(right))
    if at_left == at_right:
        return float(left)
    return float(left + (right - left) * (at_left / (at_left - at_right)))


def wright(c: Floats) -> Floats:
    """The v > 0 with v + log v = c, by Newton's method on log v."""
    c = np.maximum(c, -1e300)
    u = np.where(c > 1, np.log(np.maximum(c, 1)), c)
    for _ in range(8):
        v = np.exp(u)
        u = u - (v + u - c) / (v + 1)
    return np.where(c > 1, c - u, np.exp(u))


# Functions of the singular values of a matrix.


@dataclass(frozen=True)
class OfSingularValues:
    """psi(sigma(X)); the metric is one number for the whole block."""

    inner: Separate
    shape: tuple[int, int]
    may_rest = False

    @property
    def size(self) -> int:
        """How many entries the matrix has."""
        return self.shape[0] * self.shape[1]

    def among(self, kept: NDArray[np.intp]) -> "OfSingularValues":
        """The same: no entry rests."""
        return self

    @property
    def form(self) -> ModelForm:
        """That of the matrix, for its quadratic term."""
        return self.inner.form

    def steps(self, t: Floats) -> Floats:
        """One step for all entries."""
        return np.full(t.size, np.min(t, initial=np.inf))

    def prox(self, v: Floats, t: Floats) -> Floats:
        """U diag(prox(sigma)) V'."""
        U, sigma, Vt = np.linalg.svd(v.reshape(self.shape), full_matrices=False)
        return ((U * self.inner.prox(sigma, t[: sigma.size])) @ Vt).ravel()

    def slope(self, v: Floats, t: Floats) -> Slope:
        """With H = U' D V: its even part times (f_i - f_j) / (s_i - s_j), its odd part times (f_i + f_j) / (s_i + s_j).

        Its diagonal goes through the derivative of f, and what is orthogonal to the singular vectors times f_i / s_i.
        """
        rows, columns = self.shape
        U, sigma, Vt = np.linalg.svd(v.reshape(self.shape), full_matrices=True)
        small = sigma.size
        f = self.inner.prox(sigma, t[:small])
        inner = self.inner.slope(sigma, t[:small])
        s, values = (np.pad(part, (0, max(rows, columns) - small)) for part in (sigma, f))
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = (values[:, None] - values) / (s[:, None] - s)
            summed = (values[:, None] + values) / (s[:, None] + s)
        # Equal singular values: the limit is the derivative of f in one entry.
        equal = np.abs(s[:, None] - s) <= 1e-14 * (sigma[0] if small else 0)
        single = np.zeros(s.size)
        single[inner.kept] = self._diagonal(inner)
        apart = np.where(equal, np.minimum(single[:, None], single), apart)
        summed = np.where(s[:, None] + s > 0, summed, 1.0 if inner.kept.size else 0.0)
        even, odd = ((apart + summed) / 2)[:rows, :columns], np.zeros(self.shape)
        odd[:small, :small] = ((apart - summed) / 2)[:small, :small]
        at = np.arange(small)
        live = (even != 0) | (odd != 0)
        live[at, at] = single[:small] > 0
        i, j = np.nonzero(live)
        basis = (U[:, None, i] * Vt.T[None, :, j]).reshape(rows * columns, i.size)

        def apply(block: Floats) -> Floats:
            turned = np.zeros((rows, columns, block.shape[1]))
            turned[i, j] = block
            moved = even[:, :, None] * turned
            moved[:small, :small] += odd[:small, :small, None] * turned[:small, :small].transpose(1, 0, 2)
            moved[at, at] = 0
            moved[inner.kept, inner.kept] = inner.apply(turned[inner.kept, inner.kept])
            return moved[i, j]

        return Slope(np.arange(i.size), False, apply, basis)

    @staticmethod
    def _diagonal(inner: Slope) -> Floats:
        return np.diag(inner.apply(np.eye(inner.kept.size)))


Block = Separate | OfSingularValues


def block_of(form: ModelForm, shape: tuple[int, ...]) -> Block:
    """The block that a form describes, for an array of this shape."""
    if form.spectral:
        small = min(shape)
        inner = _separate(form, (small,))
        return OfSingularValues(inner, (shape[0], shape[1]))
    return _separate(form, shape)


def _separate(form: ModelForm, shape: tuple[int, ...]) -> Separate:
    lower, upper, prior = (
        np.broadcast_to(np.asarray(part, float), shape).ravel() for part in (form.lower, form.upper, form.prior)
    )
    labels = None if form.groups is None else np.asarray(form.groups, np.intp).ravel()
    return Separate(form, int(np.prod(shape)), lower, upper, prior, labels)

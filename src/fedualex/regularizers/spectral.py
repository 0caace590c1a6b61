"""Functions of the singular values of a matrix."""

from dataclasses import replace
from typing import Literal, TypeVar

import equinox as eqx
import jax

from ..arrays import Array, is_numpy, xp
from ..compiling import double_available
from ..tree import Scalar, Vector, as_real
from ..validation import one_of, short
from .base import AbstractRegularizer, ModelForm, nonzero

T = TypeVar("T")


class Spectral(AbstractRegularizer):
    """psi(sigma(X)) for an absolutely symmetric psi, sigma(X) the singular values of a matrix X.

    `Spectral(L1(lam))` is lam times the nuclear norm, `Spectral(Box(D))` the spectral-norm ball,
    `Spectral(L1(lam) + Box(D))` and `Spectral(L1(lam) + L2Ball(D))` the nuclear norm in a spectral or a Frobenius
    ball. Prox, conjugate and distances are psi's own, applied to the singular values.

    `route` says how the prox finds them: "gram", from the eigenvectors of the smaller Gram matrix, for loops
    (in float64, or not at all: a float32 Gram matrix would lose half of the digits); "svd" for reports. The Gram route
    errs by about eps sigma_1^2 / sigma_i in sigma_i: trust it for thresholds above 1e-6 of the largest singular value.
    """

    psi: AbstractRegularizer
    route: Literal["gram", "svd"] = eqx.field(static=True)

    def __init__(self, psi: object, route: object = "gram"):
        if not isinstance(psi, AbstractRegularizer):
            raise TypeError(f"Spectral: psi must be a regularizer such as L1(0.1) + Box(0.05), got {short(psi)}")
        if not psi.absolutely_symmetric:
            raise TypeError(
                f"Spectral: {psi!r} depends on the signs or the order of the singular values; accepted are sums of "
                "Zero, L1, SquaredL2, ElasticNet, Box(radius), L2Ball and L1Ball"
            )
        self.psi = psi
        self.route = one_of("Spectral: route", route, ("gram", "svd"))  # type: ignore[assignment]

    def value(self, x: Vector) -> Array:
        """psi(sigma(X))."""
        return self.psi.value(_singular_values(x))

    def prox(self, omega: Vector, weight: Scalar) -> Array:
        """U diag(psi.prox(sigma, weight)) V^T."""
        omega = _matrix(omega)
        if omega.shape[0] < omega.shape[1]:
            return self.prox(omega.T, weight).T
        # Without float64 in this trace there is no safe Gram matrix.
        if self.route == "svd" or not (is_numpy() or double_available()):
            U, sigma, Vt = xp.linalg.svd(omega, full_matrices=False)
            return (U * self.psi.prox(sigma, weight)) @ Vt
        tall = omega.astype(xp.float64)
        squares, V = xp.linalg.eigh(tall.T @ tall)
        sigma = xp.sqrt(xp.maximum(squares, 0))
        factor = self.psi.prox(sigma, weight) / nonzero(sigma)
        return omega @ ((V * factor) @ V.T).astype(omega.dtype)

    def conjugate(self, s: Vector) -> Array:
        """psi's conjugate of sigma(S)."""
        return self.psi.conjugate(_singular_values(s))

    def subgradient(self, x: Vector) -> Array:
        """U diag(psi.subgradient(sigma)) V^T over the singular values that are not zero up to rounding."""
        x = _matrix(x)
        U, sigma, Vt = xp.linalg.svd(x, full_matrices=False)
        noise = max(x.shape) * xp.finfo(x.dtype).eps * xp.max(sigma, initial=0)
        return (U * self.psi.subgradient(xp.where(sigma > noise, sigma, 0))) @ Vt

    def violation(self, x: Vector) -> Array:
        """psi's, at sigma(X)."""
        return self.psi.violation(_singular_values(x))

    def farthest(self, center: Vector) -> Array:
        """psi's, from sigma(center): the farthest matrix shares the singular vectors."""
        return self.psi.farthest(_singular_values(center))

    def diameter(self, like: Vector) -> Array:
        """psi's, for vectors of min(rows, columns) entries."""
        rows, columns = _matrix(like).shape
        return self.psi.diameter(xp.zeros(min(rows, columns), xp.result_type(as_real(like))))

    @property
    def finite_conjugate(self) -> bool:
        return self.psi.finite_conjugate

    @property
    def absolutely_symmetric(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"Spectral({self.psi!r})" if self.route == "gram" else f"Spectral({self.psi!r}, {self.route!r})"

    def model_form(self) -> ModelForm:
        return replace(self.psi.model_form(), spectral=True)


def for_reports(tree: T) -> T:
    """The tree with every `Spectral` in it on the SVD route."""
    routed: T = jax.tree.map(
        # One that is there already stays: in a compiled function its psi cannot be checked again.
        lambda node: Spectral(node.psi, "svd") if is_spectral(node) and node.route != "svd" else node,
        tree,
        is_leaf=is_spectral,
    )
    return routed


def is_spectral(node: object) -> bool:
    """Whether a node calls LAPACK."""
    return isinstance(node, Spectral)


def _matrix(x: Vector) -> Array:
    if xp.ndim(x) != 2:
        raise ValueError(f"Spectral needs a matrix, got an array of shape {xp.shape(x)}")
    return as_real(x)


def _singular_values(x: Vector) -> Array:
    values: Array = xp.linalg.svd(_matrix(x), compute_uv=False)
    return values

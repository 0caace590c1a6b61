"""FeDualSlide's rounds in plain numpy, in the symbols of docs/slide.md; independent of the library's own class."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Flat:
    """l1 + box in the Euclidean norm: P, psi, psi*, pot and V of a pair (omega, theta)."""

    lam: float = 0.1
    D: float = 1.0

    def P(self, O):
        return np.clip(np.sign(O[0]) * np.maximum(np.abs(O[0]) - O[1] * self.lam, 0), -self.D, self.D)

    def ell(self, v):
        return v @ v / 2

    def psi(self, v):
        return self.lam * np.abs(v).sum()

    def conjugate(self, s):
        return self.D * np.maximum(np.abs(s) - self.lam, 0).sum()

    def B(self, z):
        return np.maximum((self.D - z) ** 2, (self.D + z) ** 2).sum() / 2

    def recentred(self, z):
        return (z, 0.0)

    def H(self, O, v):
        return self.ell(v) + O[1] * self.psi(v) - O[0] @ v

    def pot(self, O):
        return -self.H(O, self.P(O))

    def V(self, O, v):
        return self.H(O, v) + self.pot(O)


@dataclass(frozen=True)
class Entropic(Flat):
    """Two simplices of n entries each with the entropy; psi = 0."""

    n: int = 3

    def P(self, O):
        w = np.exp(O[0].reshape(2, self.n) - O[0].reshape(2, self.n).max(1, keepdims=True))
        return (w / w.sum(1, keepdims=True)).ravel()

    def ell(self, v):
        return (v * np.log(np.maximum(v, 1e-300))).sum()

    def psi(self, v):
        return 0.0

    def conjugate(self, s):
        return s.reshape(2, self.n).max(1).sum()

    def B(self, z):
        return (-np.log(z.reshape(2, self.n).min(1))).sum()

    def recentred(self, z):
        return (np.log(z), 0.0)


def descend(O, T, g):
    return (O[0] - T * g, O[1] + T)


def pulled(L, O, rho):
    return ((1 - rho) * L[0] + rho * O[0], (1 - rho) * L[1] + rho * O[1])


def local_point(geometry, operator, O, rho, eta, K):
    """One client's K pulled steps from O: the weighted mean of its half points."""
    L, total, weights = O, 0.0, 0.0
    for k in range(K):
        half = geometry.P(descend(pulled(L, O, rho), eta, operator(geometry.P(L))))
        L = descend(pulled(L, O, rho), eta, operator(half))
        w = (1 - rho) ** (K - 1 - k)
        total, weights = total + w * half, weights + w
    return total / weights


def rounds(geometry, J, b, a, z0, bound, T, R, K, optimistic, recentre):
    """R rounds on g_m(z) = J_m z + b_m with weights a: for each the probe, its operator and Err(T)."""
    G, offset = np.tensordot(a, J, 1), a @ b
    O = geometry.recentred(z0)
    w = geometry.P(O)
    for _ in range(R):
        w = w if optimistic else geometry.P(O)
        F = [lambda z, m=m: J[m] @ (z - w) + G @ w + offset for m in range(len(a))]
        u = sum(a[m] * local_point(geometry, F[m], O, bound.rho, bound.local_step(T), K) for m in range(len(a)))
        g = G @ u + offset
        after = descend(O, T, g)
        yield u, g, geometry.pot(after) - geometry.pot(O) + T * (g @ u + geometry.psi(u))
        O, w = (geometry.recentred(geometry.P(after)) if recentre else after), u


def certificate(geometry, cuts, c):
    """Cert(c), of the surveys (u_i, g_i)."""
    weights = np.array(c) / np.sum(c)
    values = [g @ u + geometry.psi(u) for u, g in cuts]
    return weights @ values + geometry.conjugate(-sum(w * g for w, (_, g) in zip(weights, cuts, strict=True)))

"""FeDualSlide's rounds in plain numpy, in the symbols of docs/slide.md; independent of the library's own class."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Flat:
    """l1 + box in the Euclidean norm: P, psi, psi*, pot and V of a pair (omega, theta)."""

    lam: float = 0.1
    D: float = 1.0

    def P(self, pair):
        return np.clip(np.sign(pair[0]) * np.maximum(np.abs(pair[0]) - pair[1] * self.lam, 0), -self.D, self.D)

    def ell(self, v):
        return v @ v / 2

    def psi(self, v):
        return self.lam * np.abs(v).sum()

    def conjugate(self, s):
        return self.D * np.maximum(np.abs(s) - self.lam, 0).sum()

    def B(self, z):
        return np.maximum((self.D - z) ** 2, (self.D + z) ** 2).sum() / 2

    def recentered(self, z):
        return (z, 0.0)

    def H(self, pair, v):
        return self.ell(v) + pair[1] * self.psi(v) - pair[0] @ v

    def pot(self, pair):
        return -self.H(pair, self.P(pair))

    def V(self, pair, v):
        return self.H(pair, v) + self.pot(pair)


@dataclass(frozen=True)
class Entropic(Flat):
    """Two simplices of n entries each with the entropy; psi = 0."""

    n: int = 3

    def P(self, pair):
        w = np.exp(pair[0].reshape(2, self.n) - pair[0].reshape(2, self.n).max(1, keepdims=True))
        return (w / w.sum(1, keepdims=True)).ravel()

    def ell(self, v):
        return (v * np.log(np.maximum(v, 1e-300))).sum()

    def psi(self, v):
        return 0.0

    def conjugate(self, s):
        return s.reshape(2, self.n).max(1).sum()

    def B(self, z):
        return (-np.log(z.reshape(2, self.n).min(1))).sum()

    def recentered(self, z):
        return (np.log(z), 0.0)


def descend(pair, T, g):
    return (pair[0] - T * g, pair[1] + T)


def pulled(L, pair, rho):
    return ((1 - rho) * L[0] + rho * pair[0], (1 - rho) * L[1] + rho * pair[1])


def local_point(geometry, operator, pair, rho, eta, K):
    """One client's K pulled steps from pair: the weighted mean of its half points."""
    L, total, weights = pair, 0.0, 0.0
    for k in range(K):
        half = geometry.P(descend(pulled(L, pair, rho), eta, operator(geometry.P(L))))
        L = descend(pulled(L, pair, rho), eta, operator(half))
        w = (1 - rho) ** (K - 1 - k)
        total, weights = total + w * half, weights + w
    return total / weights


def rounds(geometry, J, b, a, z0, bound, T, R, K, optimistic, recenter):
    """R rounds on g_m(z) = J_m z + b_m with weights a: for each the probe, its operator and Err(T)."""
    G, offset = np.tensordot(a, J, 1), a @ b
    pair = geometry.recentered(z0)
    w = geometry.P(pair)
    for _ in range(R):
        w = w if optimistic else geometry.P(pair)
        F = [lambda z, m=m, w=w: J[m] @ (z - w) + G @ w + offset for m in range(len(a))]
        u = sum(a[m] * local_point(geometry, F[m], pair, bound.rho, bound.local_step(T), K) for m in range(len(a)))
        g = G @ u + offset
        after = descend(pair, T, g)
        yield u, g, geometry.pot(after) - geometry.pot(pair) + T * (g @ u + geometry.psi(u))
        pair, w = (geometry.recentered(geometry.P(after)) if recenter else after), u


def certificate(geometry, cuts, c):
    """Cert(c), of the surveys (u_i, g_i)."""
    weights = np.array(c) / np.sum(c)
    values = [g @ u + geometry.psi(u) for u, g in cuts]
    return weights @ values + geometry.conjugate(-sum(w * g for w, (_, g) in zip(weights, cuts, strict=True)))

"""A family of one's own: counts with a known dispersion."""

import numpy as np

import fedualex as fx
from fedualex.problems.families import NumberFamily, namespace

K = 0.5  # the variance of a count of mean m is m + K m^2


class NegativeBinomial(NumberFamily):
    """(target + 1/K) log(1 + exp(u)) - target u, u = score + log K, less its minimum."""

    name = "negative binomial"
    accepted = "numbers >= 0"
    effect = "rate ratio"
    # No third derivative exceeds the second, so that intervals and models without penalty are proved.
    self_concordant = True

    def allows(self, target):
        return np.isfinite(target) & (target >= 0)

    def mean(self, score):
        return np.exp(score)

    def link(self, mean):
        return np.log(mean)

    def loss(self, score, target):
        u = score + np.log(K)
        return (target + 1 / K) * namespace(score, target).logaddexp(0.0, u) - target * u + least(target)

    def slope(self, score, target):
        return (target + 1 / K) * share(score) - target

    def second(self, score, target):
        return (target + 1 / K) * share(score) * share(-score - 2 * np.log(K))

    def conjugate(self, slope, target):
        size = target + 1 / K
        part = (slope + target) / size
        value = size * (entropy(part) + entropy(1 - part)) - slope * np.log(K) - least(target)
        return namespace(slope, target).where((part >= 0) & (part <= 1), value, np.inf)

    def clipped(self, slope, target):
        return namespace(slope, target).clip(slope, -target, 1 / K)

    def size(self, reach, target):
        return (target + 1 / K) * (2 + reach) ** 2 + namespace(target).abs(least(target))

    def curvature(self, lower, upper, target):
        return (target + 1 / K) / 4

    def steepest(self, lower, upper, target):
        return np.maximum(target, 1 / K)


def share(score):
    """exp(u) / (1 + exp(u))."""
    xp, u = namespace(score), score + np.log(K)
    small = xp.exp(-xp.abs(u))
    return xp.where(u > 0, 1.0, small) / (1 + small)


def entropy(part):
    """part log part, 0 at 0."""
    xp = namespace(part)
    return xp.where(part > 0, part * xp.log(xp.where(part > 0, part, 1.0)), 0.0)


def least(target):
    """Minus the least value of the loss without it."""
    size = target + 1 / K
    return size * (entropy(target / size) + entropy(1 / (K * size)))


rng = np.random.default_rng(0)
X, clients = rng.normal(size=(60, 2)), np.repeat([0, 1, 2], 20)
y = rng.poisson(np.exp(X @ [0.5, 0.0] + 1.0))
run = fx.solve(fx.problems.sparse_glm(NegativeBinomial(), X, y, clients, l1=0.05), rounds=200, tol=1e-6)
fair = fx.solve(fx.problems.agnostic(X, y, clients, loss=NegativeBinomial(), l1=0.05), rounds=300, tol=1e-4)
assert run.gap <= 1e-6
assert fair.gap <= 1e-4

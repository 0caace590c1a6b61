"""Tables of simulated rows for the tests of inference, and parties that answer from them."""

from typing import ClassVar

import numpy as np

from fedualex.inference.sums import Design, add_up, summarize_effects
from fedualex.problems.families import FAMILIES, NumberFamily, namespace


class CountLoss(NumberFamily):
    """exp(s) - y s, the loss of counts with log link, as far as inference needs a family."""

    name: ClassVar[str] = "counts under test"
    accepted: ClassVar[str] = "numbers >= 0"
    effect: ClassVar[str] = "rate ratio"

    def mean(self, score):
        return np.exp(score)

    def link(self, mean):
        return np.log(mean)

    def loss(self, score, target):
        return namespace(score, target).exp(score) - target * score

    def slope(self, score, target):
        return namespace(score, target).exp(score) - target

    def second(self, score, target):
        return namespace(score, target).exp(score) + 0.0 * target

    def _unused(self, *_):
        raise NotImplementedError

    conjugate = clipped = size = curvature = steepest = _unused


def family_named(name):
    return CountLoss() if name == "counts" else FAMILIES[name]()


def draw_rows(rng, rows, columns, correlation=0.3):
    """Standardized numbers, equally correlated."""
    common = rng.normal(size=(rows, 1))
    X = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * rng.normal(size=(rows, columns))
    return (X - X.mean(axis=0)) / X.std(axis=0)


def draw_target(rng, name, score):
    """Targets as the family's loss takes them, for scores (rows,), or (rows, classes)."""
    if name == "logistic":
        return np.where(rng.random(len(score)) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
    if name == "counts":
        return rng.poisson(np.exp(score)).astype(float)
    if name == "multiclass":
        return np.argmax(score + rng.gumbel(size=score.shape), axis=1)
    return score + rng.normal(size=len(score))


def cut(design, parties):
    """The rows of each party. parties: whose each row is."""
    return [Design(*(part[parties == name] for part in design)) for name in np.unique(parties)]


class Parties:
    """Parties that answer; `asked` counts exchanges."""

    def __init__(self, family, designs, own_intercept=False):
        self.family, self.designs, self.own = family, designs, own_intercept
        self.asked = 0

    def __call__(self, beta, meat):
        self.asked += 1
        return add_up([summarize_effects(self.family, own, beta, self.own, meat=meat) for own in self.designs])

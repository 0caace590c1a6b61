"""Tables of simulated rows for the tests of inference, and parties that answer from them."""

import numpy as np

from fedualex.inference.sums import Design, add_up, summarize_effects
from fedualex.problems.families import FAMILIES


def family_named(name):
    return FAMILIES[name]()


def draw_rows(rng, rows, columns, correlation=0.3):
    """Standardized numbers, equally correlated."""
    common = rng.normal(size=(rows, 1))
    X = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * rng.normal(size=(rows, columns))
    return (X - X.mean(axis=0)) / X.std(axis=0)


def draw_target(rng, name, score):
    """Targets as the family's loss takes them, for scores (rows,), or (rows, classes)."""
    if name == "logistic":
        return np.where(rng.random(len(score)) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
    if name == "poisson":
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

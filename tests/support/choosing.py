"""Bundled tables at three parties, recipes of all goals, and a direct search for a penalty, one solve at a time."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes

import fedualex as fx
from fedualex.problems.agnostic import AgnosticRecipe
from fedualex.problems.auc import AucRecipe
from fedualex.problems.constrained import ConstrainedRecipe
from fedualex.problems.recipe import assemble
from fedualex.problems.rows import Rows, split_rows
from fedualex.problems.sparse_glm import SparseGlmRecipe

PARTIES = 3


@cache
def breast_cancer(grouped=False):
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return split_rows(X, y, np.arange(len(y)) % PARTIES, None, y if grouped else None)


@cache
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    return split_rows(X, y, np.arange(len(y)) % PARTIES)


def recipes():
    return {
        "logistic": SparseGlmRecipe("logistic", l1=1.0),
        "lasso": SparseGlmRecipe("squared", l1=1.0),
        "fair": AgnosticRecipe("logistic", l1=1.0, l2=2e-3),
        "neyman-pearson": ConstrainedRecipe({0: 0.1}, l1=1.0, l2=2e-3),
        "auc": AucRecipe(l1=1.0, l2=1e-2, saddle=False),
    }


def rows_of(goal):
    return diabetes() if goal == "lasso" else breast_cancer(grouped=goal == "neyman-pearson")


def some(rows, chosen):
    return Rows(*(None if part is None else part[chosen] for part in rows))


def fitted(recipe, value, rows, tol=1e-8):
    """The certified run of one value, with the data here."""
    problem = assemble(replace(recipe, l1=value), rows)
    return fx.solve(problem, fx.FeDualNewton(), rounds=60, tol=tol)


def direct_search(goal, recipe, rows, folds, values):
    """The same curve from one solve a fold and value, measured by formulas of its own: (mean, error, excess)."""
    fold = [folded.fold for folded in folds]
    count = 1 + max(own.max() for own in fold)
    table = []
    for value in values:
        each = []
        for k in range(count):
            kept = [some(own, number != k) for own, number in zip(rows, fold, strict=True)]
            x = fitted(recipe, value, kept).z.x
            each.append([measured(goal, x, some(own, number == k)) for own, number in zip(rows, fold, strict=True)])
        table.append(each)
    return SimpleNamespace(**MEASURES[goal](table))


def measured(goal, x, rows):
    """(weights, sums) of the parts of one party's held-out rows."""
    scores = rows.X @ np.asarray(x["weights"]) + np.asarray(x.get("bias", 0.0))
    if goal == "lasso":
        return np.array([len(scores)]), np.array([np.sum((scores - rows.y) ** 2) / 2])
    if goal == "auc":
        apart = scores[rows.y == 1][:, None] - scores[rows.y == 0]
        return np.array([apart.size]), np.array([np.sum(apart < 0) + np.sum(apart == 0) / 2])
    loss = np.logaddexp(0, np.where(rows.y == 1, -scores, scores))
    if goal == "neyman-pearson":
        return np.bincount(rows.y, minlength=2)[::-1], np.bincount(rows.y, loss, minlength=2)[::-1]
    return np.array([len(loss)]), np.array([loss.sum()])


def pooled(table):
    """From [value][fold][party](weights, sums): the mean and its standard error, parties together."""
    found = np.array([[np.sum(parties, axis=0) for parties in each] for each in table])  # value, fold, 2, part
    each, mass = found[:, :, 1] / found[:, :, 0], found[:, :, 0]
    mean = np.average(each, axis=1, weights=mass)
    spread = np.average((each - mean[:, None]) ** 2, axis=1, weights=mass)
    return mean, np.sqrt(spread / (each.shape[1] - 1))


def mean_measure(table):
    mean, error = pooled(table)
    return {"mean": mean[:, 0], "error": error[:, 0], "excess": np.zeros(len(mean))}


def worst_measure(table):
    """Parties are the groups."""
    groups = [pooled([[[each[m]] for each in value] for value in table]) for m in range(PARTIES)]
    mean, error = (np.stack([group[i][:, 0] for group in groups]) for i in (0, 1))
    worst, at = mean.argmax(axis=0), np.arange(mean.shape[1])
    return {"mean": mean[worst, at], "error": error[worst, at], "excess": np.zeros(mean.shape[1])}


def limited_measure(table):
    mean, error = pooled(table)
    return {"mean": mean[:, 0], "error": error[:, 0], "excess": np.maximum(mean[:, 1] - 0.1 - error[:, 1], 0)}


MEASURES = {
    "logistic": mean_measure,
    "lasso": mean_measure,
    "auc": mean_measure,
    "fair": worst_measure,
    "neyman-pearson": limited_measure,
}

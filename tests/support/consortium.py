"""Parties that each have a table of their own."""

import numpy as np
from support.patients import HOSPITALS

from fedualex.data import read_csv
from fedualex.experiments.consortium.recipe import TableRecipe
from fedualex.experiments.tables import held_out_by
from fedualex.summaries import merged

GOAL_SETTINGS = {
    "logistic": {"target": "outcome"},
    "fair": {"target": "outcome", "groups": "ward"},
    "auc": {"target": "outcome"},
    "neyman-pearson": {"target": "outcome", "limit": 0.5},
    "lasso": {"target": "days"},
    "fair-regression": {"target": "days"},
    "robust": {"target": "days"},
}


def recipe_for(goal: str) -> TableRecipe:
    settings = dict(GOAL_SETTINGS[goal])
    return TableRecipe(goal, settings.pop("target"), settings.pop("groups", None), settings)


def parts_of(path, target="outcome") -> dict:
    """The rows that each hospital trains on, without the column that says whose they are."""
    whole = read_csv(path)
    found = {}
    for name in HOSPITALS:
        own = whole.take(whole["hospital"] == name).without("hospital")
        test = held_out_by(own[target], 0.2)
        found[name] = own.take(np.setdiff1d(np.arange(own.rows), test))
    return found


def known_of(recipe: TableRecipe, parts: dict) -> list:
    """All merged summaries."""
    known: list = []
    for _ in range(recipe.exchanges):
        known.append(merged(recipe.summarize(table, known, m) for m, table in enumerate(parts.values())))
    return known

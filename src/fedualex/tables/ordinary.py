"""The ordinary model of the same rows at the same penalty, so that a reader sees what a goal has bought."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Table
from ..inference.measures import Interval
from ..inference.sums import Design, Sums, from_triangle, summarize_effects
from ..model_problem.lasso import Squares, solve_lasso_path
from ..models import Model
from ..problems.readings import SMALLER_IS_BETTER
from ..problems.rows import Rows
from ..summaries import Known
from .effects import Ask
from .goals import COX, GOALS, LIMITED_CLASS, MEAN, PAIRS, WORST, WORST_HAZARD
from .measures import CONFIDENCE, read_measures, sum_measures, worst
from .recipe import TableRecipe

BESIDE = {WORST.recipe, LIMITED_CLASS.recipe, PAIRS.recipe, WORST_HAZARD.recipe}
"""The structures that have an ordinary model beside them."""
MOST, LAST = 60, 1e-7
"""Exchanges at most; a whole step of so small a share of the model is the last one, as the next would be its square."""
MEASURES = ("loss", "deviance", "auc", "mse", "c-index")
"""By the first that both models have they are compared."""


def ordinary_recipe(recipe: TableRecipe) -> TableRecipe | None:
    """The mean loss of the same rows; None where the goal is ordinary itself, or has no such model."""
    goal = GOALS[recipe.goal]
    if goal.structure.recipe not in BESIDE:
        return None
    family = goal.family or "logistic"
    means = (other for other, found in GOALS.items() if found.structure is MEAN and found.family == family)
    name = COX if recipe.reading.timed else next(means)
    return replace(recipe, goal=name, groups=None, options={})


def ordinary_model(recipe: TableRecipe, known: Sequence[Known], weights: Any, bias: Any) -> Model | None:
    """With these numbers. recipe, known: of the goal that it stands beside."""
    plain = ordinary_recipe(recipe)
    if plain is None:
        return None
    answers = plain.answers(known)
    own = recipe.model(known, {"weights": np.asarray(weights), "bias": np.asarray(bias)})
    return replace(own, answers=answers, bias=np.asarray(bias))


def sum_ordinary(recipe: TableRecipe, known: Sequence[Known], rows: Rows, beta: NDArray[Any]) -> Sums:
    """At one party: value, slope and second derivative of the mean loss of its rows at beta, and their weight."""
    plain = ordinary_recipe(recipe)
    if plain is None:
        raise ValueError(f"the goal {recipe.goal} has no ordinary model beside it")
    known = recipe.own_known(known)
    family = GOALS[plain.goal].family_of(known)
    weight = np.ones(len(rows.y)) if rows.weight is None else np.asarray(rows.weight, float)
    design = Design(np.asarray(rows.X, float), family.encoded(rows, known), weight)
    return {**summarize_effects(family, design, beta), "total": np.asarray(weight.sum())}


def penalties_of(recipe: TableRecipe, known: Sequence[Known]) -> dict[str, float]:
    """l1 and l2 as they were given or chosen."""
    options = recipe.settings(known)
    return {key: float(options[key]) for key in ("l1", "l2")}


def fit_ordinary(recipe: TableRecipe, known: Sequence[Known], ask: Ask) -> Model | None:
    """The least mean loss with the same l1 and l2, by Newton's method on sums; None where the goal has no such model.

    ask: the sums of all parties' `sum_ordinary` at {"beta"}. It is compared with and not certified. The losses of rows
    that are at risk together are no such sums.
    """
    if (search := _search_of(recipe, known)) is None or not search.l1 + search.l2 > 0:
        return None
    z = np.zeros(search.size(len(recipe.encoder(known).features)))
    sums, length = ask({"beta": search.beta(z)}), 1.0
    for _ in range(MOST):
        if (found := search.step_to(z, sums)) is None:
            return None
        size = np.max(np.abs(found - z)) / (1 + np.max(np.abs(z)))
        if size <= LAST:
            z = found
            break
        trial = z + length * (found - z)
        there = ask({"beta": search.beta(trial)})
        if search.value(trial, there) <= search.value(z, sums):
            z, sums, length = trial, there, 1.0
        else:
            length /= 4
    weights, bias = search.model(z)
    return ordinary_model(recipe, known, weights, bias)


def first_question(recipe: TableRecipe, known: Sequence[Known]) -> Known | None:
    """What parties are asked first for the ordinary model, which tells the size of all that follow; None without."""
    if (search := _search_of(recipe, known)) is None:
        return None
    return {"beta": search.beta(np.zeros(search.size(len(recipe.encoder(known).features))))}


def _search_of(recipe: TableRecipe, known: Sequence[Known]) -> "_Search | None":
    plain, own = ordinary_recipe(recipe), recipe.own_known(known)
    if plain is None or plain.reading.timed:
        return None
    outputs = GOALS[plain.goal].family_of(own).outputs(own)
    return _Search(outputs, **penalties_of(recipe, known))


class _Search:
    """Where the numbers of a model are among z = (biases, weights), and what the sums say of them.

    outputs: the shape of a row's scores. Of several classes the first has no bias, and the sums are against it.
    """

    def __init__(self, outputs: tuple[int, ...], l1: float, l2: float):
        self.scores = outputs[0] if outputs else 1
        self.free = max(self.scores - 1, 1)
        self.l1, self.l2 = l1, l2

    def size(self, columns: int) -> int:
        return self.free + columns * self.scores

    def beta(self, z: NDArray[Any]) -> NDArray[Any]:
        weights = z[self.free :].reshape(-1, self.scores)
        own = weights if self.scores == 1 else weights[:, 1:] - weights[:, :1]
        return np.concatenate([z[None, : self.free], own]).ravel()

    def value(self, z: NDArray[Any], sums: Mapping[str, NDArray[Any]]) -> float:
        w = z[self.free :]
        return float(sums["value"] / sums["total"] + self.l1 * np.abs(w).sum() + self.l2 / 2 * w @ w)

    def step_to(self, z: NDArray[Any], sums: Mapping[str, NDArray[Any]]) -> NDArray[Any] | None:
        """The least point of the model at z."""
        total, own = float(sums["total"]), slice(self.free, len(z))
        linear = np.stack([self.beta(unit) for unit in np.eye(len(z))], axis=1)
        slope = linear.T @ sums["slope"] / total
        second = linear.T @ from_triangle(sums["second"]) @ linear / total
        ridge = np.zeros(len(z))
        ridge[own] = self.l2
        second += np.diag(ridge)
        around = slope + ridge * z - second @ z
        if self.l1 == 0:
            return np.asarray(np.linalg.solve(second, -around))
        found = solve_lasso_path(Squares(0.0, around, second, -np.inf, own, len(z)), np.array([self.l1]))
        return None if found is None else found.points[0]

    def model(self, z: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        weights = z[self.free :].reshape(-1, self.scores)
        if self.scores == 1:
            return weights[:, 0], np.asarray(z[0])
        return weights, np.append(0.0, z[: self.free])


def with_ordinary(model: Model, measures: Mapping[str, Any] | None) -> Model:
    """The model with what the ordinary one measures beside it; itself where there is none, or one has no measures."""
    held: Mapping[str, Any] | None = model.training["held_out"]
    if measures is None or held is None:
        return model
    told = {"sentence": describe_ordinary(held, measures), "held_out": measures}
    return replace(model, training={**model.training, "ordinary": told})


def describe_ordinary(measures: Mapping[str, Any], ordinary: Mapping[str, Any]) -> str:
    """Both models on the same held-out rows, in one sentence."""
    both = (ordinary, measures)
    known = (name for name in MEASURES if all(found["overall"].get(name) is not None for found in both))
    name, told = next(known, "accuracy"), []
    for found in both:
        text, least = f"{found['overall'][name]:.4g}", worst(name, found["clients"])
        told.append(text if least is None or len(found["clients"]) < 2 else f"{text}, {least:.4g} for the worst client")
    how = "smaller" if name in SMALLER_IS_BETTER else "larger"
    beside = f"{name} {told[0]}; this one: {told[1]} ({how} is better)"
    return f"The ordinary model on the same rows, at the same penalty: {beside}"


# Of goals that serve the worst group: what that group has of it on held-out rows.


LEAST_MEASURED = 10
"""Held-out rows of a group below which it is measured together with others of as few."""


def is_constant(model: Model) -> bool:
    """Whether every row gets the same answer."""
    return not any(c.size > 0 for c in model.coefficients)


def judge_fairness(
    model: Model, ordinary: Model, table: Table, groups: NDArray[Any], confidence: float = CONFIDENCE
) -> tuple[str, str]:
    """What is wrong with a fair model on held-out rows, if something is, and both worst groups, in a sentence each.

    table, groups: held-out rows, and whose group each is.
    """
    names, count = np.unique(groups.astype(str), return_counts=True)
    few = np.isin(groups.astype(str), names[count < LEAST_MEASURED])
    number = np.where(few, f"groups of fewer than {LEAST_MEASURED} held-out rows", groups.astype(str))
    own, usual = (_worst_group(one, table, number, confidence) for one in (model, ordinary))
    if own is None or usual is None:
        return ("This model is a constant: every row gets the same answer." if is_constant(model) else ""), ""
    (name, loss), (other, ordinary_loss) = own, usual
    told = (
        f"Served worst on held-out rows: {name}, loss {_told(loss)}; by the ordinary model: {other}, loss "
        f"{_told(ordinary_loss)} (with {100 * confidence:g}% intervals)."
    )
    if is_constant(model):
        return "This model is a constant: every row gets the same answer. " + told, told
    if loss.value >= ordinary_loss.value:
        return f"On held-out rows this model does not serve its worst group better than the ordinary one. {told}", told
    return "", told


def _told(loss: Interval) -> str:
    return f"{loss.value:.3g} ({loss.lower:.3g} to {loss.upper:.3g})"


def _worst_group(model: Model, table: Table, groups: NDArray[Any], confidence: float) -> tuple[str, Interval] | None:
    """The group of the largest loss, with its loss; None if some group has none."""
    found = dict[str, Interval]()
    for name in np.unique(groups).tolist():
        measures = read_measures(model, sum_measures(model, table.take(groups == name)), confidence=confidence)
        known = next((one for key in MEASURES if (one := measures.get(key)) is not None), None)
        if known is None:
            return None
        found[name] = known
    return max(found.items(), key=lambda item: item[1].value)

"""The ordinary model of the same rows at the same penalty, so that a reader sees what a goal has bought."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Reals, Values
from ..data import Table
from ..inference.hazards import summarize_hazards
from ..inference.measures import Interval
from ..inference.sums import Design, Sums, from_triangle, summarize_effects
from ..model_problem.lasso import Squares, solve_lasso_path
from ..models import Model
from ..problems.cox import stratum
from ..problems.readings import OF, SMALLER_IS_BETTER
from ..problems.risk_sets import find_losses_of_rows
from ..problems.rows import Rows
from ..storage import Json
from ..summaries import Known
from .choosing import HUGE
from .effects import Ask, Remembering
from .goals import GOALS, LIMITED_CLASS, PAIRS
from .limits import limited_labels
from .measures import CONFIDENCE, predicts_counts, read_measures, sum_measures, worst
from .recipe import TableRecipe

MOST, LAST = 60, 1e-7
"""Exchanges at most; a whole step of so small a share of the model is the last one, as the next would be its square."""
MEASURES = ("loss", "deviance", "auc", "mse", "c-index")
"""Models are compared by the first of these that both have, unless each class has errors of its own."""
ERRORS = f"errors{OF}"


def ordinary_model(recipe: TableRecipe, known: Sequence[Known], weights: Any, bias: Any) -> Model | None:
    """The ordinary model with these coefficients. recipe, known: of the goal that it stands beside."""
    plain = recipe.ordinary
    if plain is None:
        return None
    answers = plain.answers(known)
    own = recipe.model(known, {"weights": np.asarray(weights), "bias": np.asarray(bias)})
    return replace(own, answers=answers, bias=np.asarray(bias))


def sum_ordinary(recipe: TableRecipe, known: Sequence[Known], rows: Rows, asked: Known) -> Sums:
    """At one party: the sums for effects of the ordinary model of its rows at `beta`, and their weight.

    asked: {"beta", "own_intercept", "meat"}.
    """
    plain = recipe.ordinary
    if plain is None:
        raise ValueError(f"the goal {recipe.goal} has no ordinary model beside it")
    beta, meat = asked["beta"], bool(asked["meat"])
    if plain.reading.timed:
        return summarize_hazards(stratum(rows)[0], beta, 1.0, meat)
    known = recipe.own_known(known)
    family = GOALS[plain.goal].family_of(known)
    weight = np.ones(len(rows.y)) if rows.weight is None else np.asarray(rows.weight, float)
    design = Design(np.asarray(rows.X, float), family.encoded(rows, known), weight)
    sums = summarize_effects(family, design, beta, bool(asked["own_intercept"]), meat=meat)
    return {**sums, "total": np.asarray(weight.sum())}


def penalties_of(recipe: TableRecipe, known: Sequence[Known]) -> dict[str, float]:
    """l1 and l2 as they were given or chosen."""
    options = recipe.settings(known)
    return {key: float(options[key]) for key in ("l1", "l2")}


class Ordinary(NamedTuple):
    """The ordinary model beside another one. how: at which penalty, in words."""

    model: Model
    how: str


def fit_ordinary(recipe: TableRecipe, known: Sequence[Known], penalty: Json, ask: Ask) -> Ordinary | None:
    """The least mean loss with the same l1 and l2, by Newton's method on sums; None where the goal has no such model.

    Where the goal's losses are other ones, of pairs of rows or of one class, a penalty that was chosen along a path is
    as large for the ordinary model as its share of the largest value says.
    ask: the sums of all parties' `sum_ordinary`. It is compared with and not certified. The losses of rows that are at
    risk together are no such sums.
    """
    if (search := _search_of(recipe, known, ask)) is None or not search.l1 + search.l2 > 0:
        return None
    curve, own = penalty.get("curve"), GOALS[recipe.goal].structure
    z, how = search.zero(len(recipe.encoder(known).features)), "at the same penalty"
    if curve and own in (PAIRS, LIMITED_CLASS):
        share, search.l1 = search.l1 / curve["values"][0], HUGE
        if (null := search.run(z)) is None:
            return None
        z, search.l1, how = null, share * search.largest(null), "at the same share of the largest penalty"
    if (solution := search.run(z)) is None:
        return None
    model = ordinary_model(recipe, known, *search.model(solution))
    return None if model is None else Ordinary(model, how)


def first_question(recipe: TableRecipe, known: Sequence[Known]) -> Known | None:
    """What parties are asked first for the ordinary model, which tells the size of all that follow; None without."""
    if (search := _search_of(recipe, known, lambda asked: {})) is None:
        return None
    return search.question(search.zero(len(recipe.encoder(known).features)))


def _search_of(recipe: TableRecipe, known: Sequence[Known], ask: Ask) -> "_Search | None":
    plain, own = recipe.ordinary, recipe.own_known(known)
    if plain is None or plain.reading.timed:
        return None
    outputs = GOALS[plain.goal].family_of(own).outputs(own)
    return _Search(outputs, **penalties_of(recipe, known), ask=ask)


class _Search:
    """Where the numbers of a model are among z = (biases, weights), and what the sums say of them.

    outputs: the shape of a row's scores. Of several classes the first has no bias, and the sums are against it.
    """

    def __init__(self, outputs: tuple[int, ...], l1: float, l2: float, ask: Ask):
        self.scores = outputs[0] if outputs else 1
        self.free = max(self.scores - 1, 1)
        self.l1, self.l2, self.ask = l1, l2, Remembering(ask)

    def run(self, z: Reals) -> Reals | None:
        """The minimizer, by Newton's method from z on; None if it is not reached."""
        sums, length = self.sums(z), 1.0
        for _ in range(MOST):
            if (target := self.step_to(z, sums)) is None:
                return None
            if np.max(np.abs(target - z)) <= LAST * (1 + np.max(np.abs(z))):
                return target
            trial = z + length * (target - z)
            there = self.sums(trial)
            if self.value(trial, there) <= self.value(z, sums):
                z, sums, length = trial, there, 1.0
            else:
                length /= 4
        return z

    def sums(self, z: Reals) -> Mapping[str, Reals]:
        return self.ask(self.question(z))

    def question(self, z: Reals) -> Known:
        return {"beta": self.beta(z), "own_intercept": np.asarray(0), "meat": np.asarray(0)}

    def largest(self, z: Reals) -> float:
        """The least l1 at which no weight is worth having. z: the point without weights."""
        return float(np.max(np.abs(self.slope(self.sums(z), self.linear(len(z)))[self.free :])))

    def slope(self, sums: Mapping[str, Reals], linear: Reals) -> Reals:
        return np.asarray(linear.T @ sums["slope"] / float(sums["total"]))

    def linear(self, size: int) -> Reals:
        """The matrix of `beta`."""
        return np.stack([self.beta(unit) for unit in np.eye(size)], axis=1)

    def zero(self, columns: int) -> Reals:
        return np.zeros(self.free + columns * self.scores)

    def beta(self, z: Reals) -> Reals:
        weights = z[self.free :].reshape(-1, self.scores)
        own = weights if self.scores == 1 else weights[:, 1:] - weights[:, :1]
        return np.concatenate([z[None, : self.free], own]).ravel()

    def value(self, z: Reals, sums: Mapping[str, Reals]) -> float:
        w = z[self.free :]
        return float(sums["value"] / sums["total"] + self.l1 * np.abs(w).sum() + self.l2 / 2 * w @ w)

    def step_to(self, z: Reals, sums: Mapping[str, Reals]) -> Reals | None:
        """The minimizer of the quadratic model at z."""
        own, ridge, linear = slice(self.free, len(z)), np.zeros(len(z)), self.linear(len(z))
        slope = self.slope(sums, linear)
        second = linear.T @ from_triangle(sums["second"]) @ linear / float(sums["total"])
        ridge[own] = self.l2
        second += np.diag(ridge)
        around = slope + ridge * z - second @ z
        if self.l1 == 0:
            return np.asarray(np.linalg.solve(second, -around))
        path = solve_lasso_path(Squares(0.0, around, second, -np.inf, own, len(z)), np.array([self.l1]))
        return None if path is None else path.points[0]

    def model(self, z: Reals) -> tuple[Reals, Reals]:
        weights = z[self.free :].reshape(-1, self.scores)
        if self.scores == 1:
            return weights[:, 0], np.asarray(z[0])
        return weights, np.append(0.0, z[: self.free])


def with_ordinary(model: Model, measures: Json | None, how: str) -> Model:
    """The model with what the ordinary one measures beside it; itself where there is none, or one has no measures.

    how: at which penalty it was fitted.
    """
    held: Json | None = model.training["held_out"]
    if measures is None or held is None:
        return model
    told = {"sentence": describe_ordinary(held, measures, how), "held_out": measures}
    return replace(model, training={**model.training, "ordinary": told})


def describe_ordinary(measures: Json, ordinary: Json, how: str) -> str:
    """Both models on the same held-out rows, in one sentence: by what each class has, or by the first of MEASURES."""
    errors = [name for name in measures["overall"] if name.startswith(ERRORS)]
    both = (ordinary, measures)
    known = (name for name in MEASURES if all(own["overall"].get(name) is not None for own in both))
    names = errors or [next(known, "accuracy")]
    one, other = (", ".join(_measure_text(name, own) for name in names) for own in both)
    better = "smaller" if names[0].partition(OF)[0] in SMALLER_IS_BETTER else "larger"
    return f"The ordinary model on the same rows, {how}: {one}; this one: {other} ({better} is better)"


def _measure_text(name: str, measures: Json) -> str:
    value, least = measures["overall"].get(name), worst(name, measures["clients"])
    text = f"{name} {'-' if value is None else f'{value:.4g}'}"
    return text if least is None or len(measures["clients"]) < 2 else f"{text} ({least:.4g} for the worst client)"


# Of goals that serve the worst group: what that group has of it on held-out rows.


LEAST_MEASURED = 10
"""Held-out rows of a group below which it is measured together with others of as few."""


def is_constant(model: Model) -> bool:
    """Whether every row gets the same answer."""
    return not any(c.size > 0 for c in model.coefficients)


def judge_fairness(
    model: Model, ordinary: Model, table: Table, groups: Values, confidence: float = CONFIDENCE
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
        f"Served worst on held-out rows: {name}, loss {loss_text(loss)}; by the ordinary model: {other}, loss "
        f"{loss_text(ordinary_loss)} (with {100 * confidence:g}% intervals)."
    )
    if is_constant(model):
        return "This model is a constant: every row gets the same answer. " + told, told
    if loss.value >= ordinary_loss.value:
        return f"On held-out rows this model does not serve its worst group better than the ordinary one. {told}", told
    return "", told


def loss_text(loss: Interval) -> str:
    """The loss with its interval, as text."""
    return f"{loss.value:.3g} ({loss.lower:.3g} to {loss.upper:.3g})"


def _worst_group(model: Model, table: Table, groups: Values, confidence: float) -> tuple[str, Interval] | None:
    """The group of the largest loss, with its loss; None if some group has none."""
    losses = measure_groups(model, table, groups, confidence)
    return None if losses is None else max(losses.items(), key=lambda item: item[1].value)


def measure_groups(model: Model, table: Table, groups: Values, confidence: float) -> dict[str, Interval] | None:
    """The loss of each group; None if some group has none."""
    losses = dict[str, Interval]()
    for name in np.unique(groups).tolist():
        measures = read_measures(model, sum_measures(model, table.take(groups == name)), confidence=confidence)
        known = next((one for key in MEASURES if (one := measures.get(key)) is not None), None)
        if known is None:
            return None
        losses[name] = known
    return losses


# Of goals that limit the losses of groups: what these have of it on held-out rows.


def judge_limits(
    model: Model, ordinary: Model, table: Table, column: str, limits: Mapping[str, float], confidence: float
) -> tuple[str, str]:
    """What is wrong on held-out rows, if something is, and what limited groups lose there by both models."""
    names = limited_labels(table[column], limits)
    both = [measure_groups(one, table, names, confidence) for one in (model, ordinary)]
    told, over = [], []
    for name, limit in limits.items():
        own, usual = ((losses or {}).get(name) for losses in both)
        if own is None or usual is None:
            told.append(f"{column} = {name} has no held-out rows to measure its loss by.")
            continue
        bound = _as_measured(model, limit)
        said = f"at most {bound:.3g} in training" if bound is not None else "limited"
        told.append(
            f"{column} = {name}, {said}: {loss_text(own)} on held-out rows; by the ordinary model {loss_text(usual)}."
        )
        if bound is not None and own.value > bound:
            over.append(name)
    _, worst = judge_fairness(model, ordinary, table, table[column], confidence)
    whole = " ".join([*told, worst]).strip()
    return (f"On held-out rows the limit of {', '.join(over)} is exceeded. {whole}" if over else ""), whole


def judge_shares(
    model: Model, ordinary: Model, table: Table, owners: Values, column: str, limits: Mapping[str, float]
) -> tuple[str, str]:
    """The same of times to an event, whose limits are shares of what a group loses without a model.

    owners: whose each held-out row is; risk sets are those of held-out rows alone.
    """
    names = limited_labels(table[column], limits)
    own, usual = (_find_shares(one, table, owners, names) for one in (model, ordinary))
    told, over = [], []
    for name, limit in limits.items():
        if name not in own:
            told.append(f"{column} = {name} has no held-out events to measure its loss by.")
            continue
        told.append(
            f"{column} = {name}, at most {limit:.3g} of its loss without a model in training: {own[name]:.3g} on "
            f"held-out rows; by the ordinary model {usual[name]:.3g}."
        )
        over += [name] * (own[name] > limit)
    whole = " ".join(told)
    return (f"On held-out rows the limit of {', '.join(over)} is exceeded. {whole}" if over else ""), whole


def _find_shares(model: Model, table: Table, owners: Values, names: Values) -> dict[str, float]:
    """Of each group that has events what it loses, as a share of that without a model."""
    losses, null = np.zeros(table.rows), np.zeros(table.rows)
    time, event = np.asarray(table.pick(model.target), float).T
    scores = model.decision_function(table)
    for owner in np.unique(owners):
        member = owners == owner
        losses[member], null[member] = find_losses_of_rows(time[member], event[member], scores[member])
    sums = {str(name): (losses[names == name].sum(), null[names == name].sum()) for name in np.unique(names)}
    return {name: float(lost / most) for name, (lost, most) in sums.items() if most > 0}


def _as_measured(model: Model, limit: float) -> float | None:
    """A limit of the mean loss as held-out rows measure that; None where rows count by an exposure."""
    if model.classes.size:
        return limit
    if predicts_counts(model):
        return None if model.exposure is not None else 2 * limit
    return 2 * limit * float(model.answers.scale) ** 2

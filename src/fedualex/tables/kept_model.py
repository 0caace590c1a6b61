"""The model of a stored run on a table, kept in a folder with what is certified and measured of it."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..arrays import Reals, Values
from ..data import Standardizer
from ..data.sources import TableRows
from ..models import Answers, Model, save
from ..models.model import standardized_answers
from ..models.store import MODEL
from ..problems import gather, split_rows
from ..problems.readings import Reading
from ..runs import folder
from ..runs.folder import StoredRun, provenance
from ..runs.settings import Configuration, folder_names, recipe_of
from ..storage import Json
from ..summaries import Known
from ..validation import classes
from .limits import describe_reached, describe_unmet
from .measures import measure_table
from .recipe import TableRecipe
from .weights import words_of_weights

LEAVES = {"weights": "x['weights']", "bias": "x['bias']"}
"""The names of a linear model's arrays in a run folder."""
MULTIPLIERS = "y['multipliers']"
Measure = Callable[[Model], Json | None]
"""How a model fares on rows that were held out, as JSON has it; None where there are none."""


Calibrate = Callable[[Model], tuple[Model, Json]]
"""A model with another threshold, and what is promised of it, as JSON has it."""


@dataclass(frozen=True)
class Answer:
    """What a model is made of: x, the y by which losses are weighed, and what is certified of them.

    configuration: as a run folder keeps it. said: what a person should know, in sentences. excess: of a goal with
    limits by how much the loss of each group is above its own, groups in sorted order.
    """

    x: Mapping[str, Reals]
    y: Values
    certificate: Json
    configuration: Json
    said: Sequence[str] = ()
    excess: Reals = field(default_factory=lambda: np.zeros(0))


def read_answer(stored: StoredRun) -> Answer:
    """The answer of a stored run."""
    configuration = stored.manifest["configuration"]
    _, g = stored.points((stored.status or {})["output"])
    excess = -np.asarray(g.get(MULTIPLIERS, np.zeros(0)), float)
    return Answer(solution(stored), weights_of(stored), certificate_of(stored), configuration, excess=excess)


@dataclass(frozen=True)
class Findings:
    """What belongs to an answer, as JSON data: how the penalty came about, and the table of effects.

    measure: how a model fares on held-out rows. calibrate: what bounds its rate of errors; None if nothing does.
    """

    penalty: Json
    effects: Json
    measure: Measure
    calibrate: Calibrate | None = None


def make_model(
    recipe: TableRecipe, known: Sequence[Known], answer: Answer, parties: Iterable[str], beside: Findings
) -> Model:
    """The model of an answer. known: merged summaries; parties: the names of those who sent them, in order."""
    model = recipe.model(known, answer.x, certificate=answer.certificate)
    parts: Json = {"penalty": dict(beside.penalty), "effects": dict(beside.effects)}
    if beside.calibrate is not None:
        model, rate = beside.calibrate(model)
        parts["rate"] = dict(rate)
    rows = dict(zip(parties, map(int, recipe.counts(known)), strict=True))
    weighs = words_of_weights(recipe.goal, len(rows), *recipe.weighs)
    done = [*recipe.describe_columns(known, list(rows)), *answer.said]
    if recipe.limits_by_name:
        told = str(recipe.groups), recipe.limits_by_name, answer.excess
        done.append(describe_reached(*told, recipe.reading.timed))
        parts |= {"verdict": unmet} if (unmet := describe_unmet(*told)) else {}
    said = {"goal": recipe.goal, "weighs": weighs, "done": done, "id": recipe.id}
    return describe_training(model, answer.configuration, rows, beside.measure, **said, **parts)


def describe_training(
    model: Model, configuration: Json, rows: Mapping[str, int], measure: Measure, **more: object
) -> Model:
    """The model with where it came from. rows: how many each client trained on; more: what else to keep."""
    about = {
        **more,
        "rows": sum(rows.values()),
        "clients": rows,
        "held_out": measure(model),
        "configuration": configuration,
        **provenance(),
    }
    return replace(model, training=about)


def certificate_of(stored: StoredRun) -> Json:
    """What a model keeps of the status of the run that found it."""
    status: Json = stored.status or {}
    kept = {key: status[key] for key in ("gap", "status", "meaning", "exchanges", "violation")}
    return {**kept, "tol": stored.manifest["configuration"]["run"]["tol"]}


def solution(stored: StoredRun) -> Json:
    """The weights of a run's answer, and its bias where it has one."""
    z, _ = stored.points((stored.status or {})["output"])
    return {name: z[leaf] for name, leaf in LEAVES.items() if leaf in z}


def weights_of(stored: StoredRun) -> Reals:
    """The y of a run's answer, by which it weighs losses; empty where there is none."""
    z, _ = stored.points((stored.status or {})["output"])
    return np.concatenate([np.zeros(0), *(np.ravel(value) for leaf, value in z.items() if leaf.startswith("y"))])


# The model of a file that names a problem of the catalogue, the source of its rows and their partition.


def keep_model(path: Path, stored: StoredRun, rows: TableRows, **more: object) -> Model:
    """The model of a run's answer, written into a folder. more: what else to keep."""
    problem = stored.manifest["configuration"]["problem"]
    recipe, x = recipe_of(problem), solution(stored)
    # A ranking has no bias of its own: its middle comes from what clients add up to.
    known = gather(recipe, split_rows(rows.X, rows.y, rows.clients, rows.weights)) if recipe.bias_is_known else []
    answers = _answers(recipe.reading, rows)
    model = Model(rows.encoder, x["weights"], recipe.bias(known, x), answers, rows.target, certificate_of(stored))

    def measure(model: Model) -> Json | None:
        by_class = problem.get("groups") == "classes"
        return None if rows.held_out is None else measure_table(model, rows.held_out, rows.owners[1], by_class).plain()

    counts = {str(name): int(np.sum(rows.clients == name)) for name in np.unique(rows.clients)}
    model = describe_training(model, stored.manifest["configuration"], counts, measure, **more)
    save(model, path)
    return model


def _answers(reading: Reading, rows: TableRows) -> Answers:
    if not reading.standardized:
        return Answers(reading, classes("the target", rows.y)[0] if reading.labelled else np.zeros(0))
    plain = rows.y.reshape(len(rows.y), -1)[0]
    scale = rows.target_scale or Standardizer(np.zeros_like(plain, float), np.ones_like(plain, float))
    return standardized_answers(reading, scale, not isinstance(rows.target, str))


def keep_best(path: Path, configurations: Mapping[str, Configuration], labels: Iterable[str]) -> str:
    """Keep the model of the run of these labels that has the smallest certified gap; its label, or "" if none is.

    It is "" without a certified run, and where the problem is not made from a table.
    """
    places = folder_names(configurations)
    runs = {label: folder.load(path / places[label]) for label in labels}
    rows = next(iter(configurations.values())).rows
    if rows is None or not runs:
        return ""
    best = min(runs, key=lambda label: _gap(runs[label]))
    keep_model(path / MODEL, runs[best], rows, method=best)
    return best


def _gap(run: folder.StoredRun) -> float:
    """The certified gap of a run's answer; infinite if there is none."""
    gap = (run.status or {})["gap"]
    return math.inf if gap is None else float(gap)

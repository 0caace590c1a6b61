"""Folds between parties: surveys of several losses as arrays, and sites that are asked for them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ...algorithms.base import Survey
from ...arrays import Reals
from ...certificates.surveys import Curvature, Minorant, Surveyed
from ...storage import Json
from ...summaries import Known, Summary, merge_summaries
from ...tables.choosing import checked_folds
from ...tables.folds import joined_known
from ...tables.recipe import TableRecipe
from ...tree import Saddle
from .. import Arrays
from ..clients import Exchange
from ..policy import FOLD_LOSSES, PATH
from ..wire import MessageError, pack_known, unpack_json, unpack_known, unpack_summary

log = logging.getLogger(__name__)

FOLD_SUMMARY, FOLDS = "fold-summary", "folds"

Requests = Sequence[tuple[int, Survey]]
LikeOf = Callable[[int], Saddle]
"""From the number of a loss to the shapes of its points."""

# Requests as arrays. Those of a loss are together: its points, where steps to them began, and what is wanted of each.


def pack_surveys(requests: Requests) -> Arrays:
    """The requests as the arrays that sites are sent."""
    sent: Arrays = {"requests": np.array([[f, len(survey.points)] for f, survey in requests])}
    for f, places in _by_loss(requests).items():
        points = [_entries(point) for point, _, _ in places]
        starts = [_entries(point if start is None else start) for point, _, start in places]
        sent[f"{f}/points"], sent[f"{f}/starts"] = np.stack(points), np.stack(starts)
        sent[f"{f}/curved"] = np.array([curved for _, curved, _ in places], bool)
        sent[f"{f}/begun"] = np.array([start is not None for _, _, start in places], bool)
    return pack_known([sent])


def unpack_surveys(arrays: Arrays, like_of: LikeOf) -> list[tuple[int, Survey]]:
    """The requests from arrays; a `MessageError` if the arrays are not requests."""
    (sent,) = unpack_known(arrays)
    requests, taken = list[tuple[int, Survey]](), dict[int, int]()
    try:
        for f, count in sent["requests"].astype(int).tolist():
            like, first = like_of(f), taken.get(f, 0)
            taken[f] = first + count
            rows = range(first, first + count)
            points = tuple(_fill(like, sent[f"{f}/points"][i]) for i in rows)
            curved = tuple(bool(sent[f"{f}/curved"][i]) for i in rows)
            starts = tuple(_fill(like, sent[f"{f}/starts"][i]) if sent[f"{f}/begun"][i] else None for i in rows)
            requests.append((f, Survey(points, curved, starts)))
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise MessageError(f"these are no surveys: {type(error).__name__}") from None
    return requests


def summarize_surveys(requests: Requests, answers: Sequence[Sequence[Surveyed]]) -> Summary:
    """A site's part of all answers, second derivatives as triangles."""
    sums: Json = {}
    for f in _by_loss(requests):
        surveys = [one for (g, _), own in zip(requests, answers, strict=True) if g == f for one in own]
        bent = [one.curvature for one in surveys if one.curvature is not None]
        cuts = [one.cut for one in surveys if one.cut is not None]
        sums[f"{f}/values"] = np.array([float(one.value) for one in surveys])
        sums[f"{f}/operators"] = np.stack([_entries(one.operator) for one in surveys])
        for name in Curvature._fields:
            sums[f"{f}/{name}"] = np.stack([getattr(one, name) for one in bent]) if bent else np.zeros(0)
        sums[f"{f}/offsets"] = np.array([float(cut.offset) for cut in cuts])
        sums[f"{f}/slopes"] = np.stack([_entries(cut.slope) for cut in cuts]) if cuts else np.zeros(0)
    return Summary(sums=sums)


def read_surveys(requests: Requests, total: Known) -> list[list[Surveyed]]:
    """The answers of all sites together, from their sums."""
    iterators = {f: _read_loss(places, f, total) for f, places in _by_loss(requests).items()}
    return [[next(iterators[f]) for _ in survey.points] for f, survey in requests]


def _read_loss(places: Sequence[tuple[Any, bool, Any]], f: int, total: Known) -> Any:
    bent = begun = 0
    for i, (point, curved, start) in enumerate(places):
        operator = _fill(point, total[f"{f}/operators"][i])
        curvature = cut = None
        if curved:
            curvature = Curvature(*(total[f"{f}/{name}"][bent] for name in Curvature._fields)).squares()
            bent += 1
        if start is not None and total[f"{f}/offsets"].size:
            cut = Minorant(_fill(point.x, total[f"{f}/slopes"][begun]), total[f"{f}/offsets"][begun])
            begun += 1
        yield Surveyed(operator, total[f"{f}/values"][i], curvature, cut)


def _by_loss(requests: Requests) -> dict[int, list[tuple[Saddle, bool, Saddle | None]]]:
    """For each loss what is wanted, point by point."""
    asked: dict[int, list[tuple[Saddle, bool, Saddle | None]]] = {}
    for f, survey in requests:
        count = len(survey.points)
        flags, starts = survey.curvature or (False,) * count, survey.starts or (None,) * count
        asked.setdefault(f, []).extend(zip(survey.points, map(bool, flags), starts, strict=True))
    return asked


def _entries(z: object) -> Reals:
    return np.concatenate([np.zeros(0), *(np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(z))])


def _fill(like: object, entries: Reals) -> Any:
    """A tree of these shapes with these entries."""
    leaves, structure = jax.tree.flatten(like)
    sizes = [np.size(leaf) for leaf in leaves]
    if np.shape(entries) != (sum(sizes),):
        raise ValueError(f"{sum(sizes)} entries are needed, got {np.shape(entries)}")
    parts = np.split(np.asarray(entries, float), np.cumsum(sizes)[:-1])
    shaped = [part.reshape(np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
    return jax.tree.unflatten(structure, shaped)


# Points of held-out folds as arrays.


def pack_points(requests: Sequence[tuple[int, Any]]) -> Arrays:
    """The points (fold, x) as arrays."""
    folds, entries = np.array([k for k, _ in requests]), np.stack([_entries(x) for _, x in requests])
    return pack_known([{"folds": folds, "points": entries}])


def unpack_points(arrays: Arrays, like_of: LikeOf) -> list[tuple[int, Any]]:
    """The points from arrays; a `MessageError` if the arrays are not points."""
    (sent,) = unpack_known(arrays)
    try:
        pairs = zip(sent["folds"].astype(int).tolist(), sent["points"], strict=True)
        return [(k, _fill(like_of(k).x, entries)) for k, entries in pairs]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise MessageError(f"these are no points: {type(error).__name__}") from None


class SitesWithFolds:
    """All sites as the parties of `tables.choosing.search`."""

    def __init__(self, exchange: Exchange, recipe: TableRecipe):
        self.exchange, self.folds = exchange, checked_folds(recipe.selection.folds, len(exchange.order))
        self._asked = 0

    def summaries(self, known: Sequence[Sequence[Known]]) -> Known:
        return self._ask(FOLD_SUMMARY, pack_known(joined_known(known)))

    def settle(self, known: Sequence[Sequence[Known]]) -> None:
        """Tell sites what all summaries became, which they keep until the penalty is chosen."""
        self.exchange.ask_all(FOLDS, pack_known(joined_known(known)), 0, _read_ready)

    def surveys(self, requests: Requests) -> list[list[Surveyed]]:
        return read_surveys(requests, self._ask(PATH, pack_surveys(requests)))

    def measure_held_out(self, requests: Sequence[tuple[int, Any]]) -> Known:
        return self._ask(FOLD_LOSSES, pack_points(requests))

    def _ask(self, task: str, arrays: Arrays) -> Mapping[str, Reals]:
        self._asked += 1
        total = merge_summaries(self.exchange.ask_all(task, arrays, self._asked, unpack_summary).values())
        log.info("choosing the penalty, exchange %d: all sites have answered", self._asked)
        return total


def _read_ready(arrays: Arrays) -> bool:
    return bool(unpack_json(arrays, "ready")[0])

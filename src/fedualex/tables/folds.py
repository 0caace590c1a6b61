"""Folds of rows, which stay the same when rows are appended, and what one party sends of all folds at once."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ..algorithms.base import Survey
from ..algorithms.bounding import entries_of
from ..arrays import Reals, Values
from ..certificates.surveys import Surveyed
from ..problems import AbstractRecipe
from ..problems.curvature import ScoreSurveyor, Surveyor, score_sum_of, surveyor_of
from ..problems.rows import Rows
from ..problems.scores import ScoreRows, ScoreSum
from ..storage import Json
from ..summaries import Known, Summary
from ..tree import Saddle

# Which fold a row is in: decided by the row's own key, and nothing else.


_GOLDEN, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def fold_of(keys: object, salt: str, folds: int = 5, seed: int = 0) -> NDArray[np.int64]:
    """The fold of each row, 0 to folds - 1: a hash of its key, its site and the seed, alike on every machine.

    keys: an id for each row, or how many rows there are, whose keys are then their positions. salt: the site's name.
    """
    values = np.arange(keys) if isinstance(keys, int | np.integer) else np.asarray(keys)
    start = _mix(_hash(np.asarray([salt]))[0] ^ _mix(np.uint64(seed)))
    return (_mix(_hash(values) ^ start) % np.uint64(folds)).astype(np.int64)


def _hash(values: Values) -> NDArray[np.uint64]:
    """64 bits of each value; of text character by character, however wide the column is."""
    if values.dtype.kind in "biu":
        return _mix(values.astype(np.int64).view(np.uint64))
    if values.dtype.kind == "f":
        return _mix((values.astype(np.float64) + 0.0).view(np.uint64))
    text = np.asarray(values, str)
    letters = text.reshape(-1, 1).view(np.uint32).reshape(len(text), -1).astype(np.uint64)
    hashes = np.zeros(len(text), np.uint64)
    for letter in letters.T:  # padding is 0, which changes nothing
        hashes = np.where(letter > 0, _mix(hashes ^ letter), hashes)
    return hashes


def _mix(number: Any) -> Any:
    """One step of splitmix64."""
    with np.errstate(over="ignore"):
        z = number + _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * _FIRST
        z = (z ^ (z >> np.uint64(27))) * _SECOND
        return z ^ (z >> np.uint64(31))


class FoldsError(ValueError):
    """Why these rows cannot choose a penalty, in one sentence."""


HELD_OUT, OF_PARTS = "held out", "rows of each part"
"""The names of the sums over held-out rows, and of how many rows each class or group has without a fold."""

# Summaries of all folds in one: the name of a fold is before the names in it.


def _prefix(fold: int) -> str:
    return f"fold {fold}/"


def joined_folds(parts: Sequence[Summary]) -> Summary:
    """The summaries of one party, one for each fold, as one."""

    def join(kind: str) -> Json:
        return {_prefix(k) + name: value for k, part in enumerate(parts) for name, value in getattr(part, kind).items()}

    return Summary(**{kind: join(kind) for kind in ("sums", "largest", "labels", "each")})


def joined_known(known: Sequence[Sequence[Known]]) -> list[Known]:
    """What is known of each loss as one list, the fold before each name: the opposite of `known_by_fold`."""
    return [
        {_prefix(k) + name: value for k, own in enumerate(known) for name, value in own[number].items()}
        for number in range(len(known[0]))
    ]


def known_by_fold(known: Known, count: int) -> list[dict[str, Values]]:
    """What merged summaries say of each of so many folds."""
    return [
        {name.removeprefix(_prefix(k)): value for name, value in known.items() if name.startswith(_prefix(k))}
        for k in range(count)
    ]


def check_folds(first: Sequence[Known]) -> None:
    """Refuse folds that lack a class or a group. first: what the first summaries of all folds became."""
    for name in ("classes", "groups"):
        whole = first[-1].get(name)
        for k, known in enumerate(first[:-1]):
            if whole is not None and len(known[name]) < len(whole):
                lost = np.setdiff1d(whole, known[name])[0]
                kind = "class" if name == "classes" else "group"
                raise FoldsError(
                    f"folds must leave rows of every {kind}, but all rows of the {kind} {lost!s} are in fold {k}: "
                    "choose fewer folds, or a penalty by hand"
                )


class FoldedRows:
    """One party's rows, of which fold k is left out of loss number k; loss number `folds` has all rows.

    recipe: of the catalogue, whatever its penalty: no loss depends on it. fold: of each row. client: the number of the
    party; name: what it is called in refusals. sites: whether folds are parties. parts: which rows are of each class or
    group whose sums are told apart, (parts, rows); none if nobody has to know how few these are. Nothing of what it
    answers grows with its rows.
    """

    def __init__(
        self,
        recipe: AbstractRecipe,
        rows: Rows,
        fold: Reals,
        folds: int,
        client: int,
        name: str = "",
        sites: bool = False,
        parts: NDArray[np.bool_] | None = None,
    ):
        if recipe.row_duals:
            raise FoldsError("a penalty cannot be chosen where every row has a dual number of its own: give l1")
        self.name, count = name or f"client {client}", len(rows.y)
        if not sites and count < folds:
            raise FoldsError(f"{self.name} must have at least {folds} rows, one for each fold, got {count}")
        self.recipe, self.rows, self.fold, self.folds, self.client = recipe, rows, np.asarray(fold), folds, client
        self.parts = np.zeros((0, count), bool) if parts is None else parts
        self._known: list[list[Known]] = [[] for _ in range(folds + 1)]
        self._surveyors: dict[int, tuple[float, Surveyor]] = {}
        self._shares: dict[int, float | None] = {}

    def summarize(self, known: Sequence[Sequence[Known]]) -> Summary:
        """The recipe's next summary of every loss, `fold 3/` before the names of number 3. known: of each, so far."""
        return joined_folds(self.summaries(known))

    def summaries(self, known: Sequence[Sequence[Known]]) -> list[Summary]:
        """The recipe's next summary of every loss, one for each."""
        summaries = [self.recipe.summarize(self._without(k), known[k], self.client) for k in range(self.folds + 1)]
        if known[0] or not len(self.parts):
            return summaries
        return [replace(one, sums={**one.sums, OF_PARTS: self._rows_without(k)}) for k, one in enumerate(summaries)]

    def fewest_of_parts(self, first: Sequence[Known]) -> tuple[float, float]:
        """The rows of the smallest part within a fold or without it, of this party and of all parties.

        first: what the first summaries became, of each loss.
        """
        own = np.stack([self._rows_without(k) for k in range(self.folds + 1)])
        total = np.round(np.stack([known[OF_PARTS] for known in first]))
        return _fewest(own), _fewest(total)

    def _rows_without(self, k: int) -> Reals:
        return self.parts[:, self.fold != k].sum(axis=1).astype(float)

    def settle(self, known: Sequence[Sequence[Known]]) -> None:
        """What all parties have added up to for each loss, before the first survey."""
        self._known, self._surveyors, self._shares = [list(own) for own in known], {}, {}
        for name in ("_matrix", "_of_folds"):
            self.__dict__.pop(name, None)

    def survey(self, requests: Sequence[tuple[int, Survey]]) -> list[list[Surveyed]]:
        """Its weighted part of each survey, second derivatives as triangles."""
        places = [(f, *at) for f, request in requests for at in _points(request)]
        parts = self._survey_together(places)
        answers = iter([parts.get(i) or self._part(*place) for i, place in enumerate(places)])
        return [[next(answers) for _ in request.points] for _, request in requests]

    @property
    def fewest_trained(self) -> int:
        """The rows that are left without the largest fold, counting only folds that do not hold all of them."""
        left = len(self.fold) - np.bincount(self.fold, minlength=self.folds)
        return int(left[left > 0].min(initial=len(self.fold)))

    @property
    def least(self) -> int:
        """The rows of its smallest fold that is not empty."""
        counts = np.bincount(self.fold, minlength=1)
        return int(counts[counts > 0].min())

    def like(self, f: int) -> Saddle:
        """The shapes of a point of loss number f."""
        point: Saddle = self._surveyor(f)[1].problem.like
        return point

    def measure_held_out(self, requests: Sequence[tuple[int, Any]]) -> Summary:
        """What the goal's measure needs of the rows of fold k, at each (k, x): one row of sums for each request."""
        parts = list[Reals]()
        for k, several in groupby(requests, key=lambda request: request[0]):
            points = [x for _, x in several]
            parts.append(self.recipe.held_out_of(self.rows, self.fold == k, self._known[k], self.client, points))
        return Summary(sums={HELD_OUT: np.concatenate(parts)})

    def _part(self, f: int, point: Any, curvature: bool, start: Any) -> Surveyed:
        weight, surveyor = self._surveyor(f)
        return _weigh(surveyor.survey(point, curvature=curvature, start=start), weight)

    def _survey_together(self, places: Sequence[tuple[int, Any, bool, Any]]) -> dict[int, Surveyed]:
        """Of several losses at one point: each fold is surveyed once, and added to all losses that have it."""
        alike = dict[tuple[bytes, bool], list[int]]()
        for i, (_, point, curvature, start) in enumerate(places):
            if start is None:
                alike.setdefault((entries_of(point).tobytes(), curvature), []).append(i)
        surveys = dict[int, Surveyed]()
        for (_, curvature), several in alike.items():
            losses = [places[i][0] for i in several]
            if len(several) < 3 or any(self._share_of(f) is None for f in losses):
                continue
            of_fold = [own.survey(places[several[0]][1], curvature=curvature) for own in self._of_folds]
            for i, f in zip(several, losses, strict=True):
                parts = [own for k, own in enumerate(of_fold) if k != f]
                total: Surveyed = jax.tree.map(lambda *leaves: sum(leaves), *parts)
                surveys[i] = _weigh(total, self._surveyor(f)[0] * (self._share_of(f) or 0.0))
        return surveys

    @cached_property
    def _of_folds(self) -> list[ScoreSurveyor]:
        """Surveyors of the rows of each fold that has some, by the coefficients of all rows."""
        whole = self._surveyor(self.folds)[1]
        assert isinstance(whole, ScoreSurveyor)
        ((_, every),) = whole.parts
        kept = [np.flatnonzero(self.fold == k) for k in range(self.folds)]
        return [ScoreSurveyor(whole.problem, [(1.0, _some_losses(every, rows))]) for rows in kept]

    def _share_of(self, f: int) -> float | None:
        """How much more every row counts in loss number f than in that of all rows; None if rows differ in that."""
        if f not in self._shares:
            self._shares[f] = 1.0 if f == self.folds else self._compare_share(f)
        return self._shares[f]

    def _compare_share(self, f: int) -> float | None:
        there, whole = self._surveyor(f)[1], self._surveyor(self.folds)[1]
        if not isinstance(there, ScoreSurveyor) or not isinstance(whole, ScoreSurveyor):
            return None
        ((_, own),), ((_, every),) = there.parts, whole.parts
        if not isinstance(own.rows.rows, _SomeRows):
            return None
        kept = np.flatnonzero(self.fold != f)
        if own.mixed is not None or own.family != every.family or not np.array_equal(own.target, every.target[kept]):
            return None
        ratio = own.fixed[0] / every.fixed[kept[0]] if every.fixed[kept[0]] > 0 else 0.0
        same = np.allclose(own.fixed, ratio * every.fixed[kept], rtol=4 * np.finfo(float).eps, atol=0)
        return float(ratio) if ratio > 0 and same else None

    def _surveyor(self, f: int) -> tuple[float, Surveyor]:
        if f not in self._surveyors:
            known = self._known[f]
            weight = float(self.recipe.client_weights(known)[self.client])
            self._surveyors[f] = weight, self._share_surveyor(f) or self._own_surveyor(f)
        return self._surveyors[f]

    def _own_surveyor(self, f: int) -> Surveyor:
        """A surveyor with its own copy of the rows."""
        known = self._known[f]
        examples = self.recipe.examples(self._without(f), known, self.client)
        view = self.recipe.problem(known, "elsewhere")
        if (own := score_sum_of(view, examples)) is not None:
            return ScoreSurveyor(view, [(1.0, own)])
        return surveyor_of(self.recipe.problem(known, [examples]))

    def _share_surveyor(self, f: int) -> Surveyor | None:
        """That looks at the rows of the loss that has all of them: one copy serves. None where examples are others."""
        kept = np.flatnonzero(self.fold != f)
        if f == self.folds or not kept.size or not self.recipe.keeps_rows or not isinstance(self.rows.X, np.ndarray):
            return None
        matrix, known = self._matrix, self._known[f]
        without = self._without(f)._replace(X=np.zeros((kept.size, 0)))
        view = self.recipe.problem(known, "elsewhere")
        own = score_sum_of(view, self.recipe.examples(without, known, self.client))
        if own is None or matrix is None:
            return None
        return ScoreSurveyor(view, [(1.0, own._replace(rows=own.rows._replace(rows=_SomeRows(matrix, kept))))])

    @cached_property
    def _matrix(self) -> Reals | None:
        """All rows as losses of scores have them."""
        whole = self._surveyor(self.folds)[1]
        return whole.parts[0][1].rows.rows if isinstance(whole, ScoreSurveyor) else None

    def _without(self, k: int) -> Rows:
        """The rows of loss number k; of a party that has none, all of its rows without weight."""
        if k == self.folds:
            return self.rows
        if (kept := self.fold != k).any():
            return self.rows.of(kept)
        if not isinstance(self.recipe.weights, str) or self.recipe.weights != "samples":
            raise FoldsError(
                f"all {len(kept)} rows of {self.name} are in fold {k}, and clients count alike or by given numbers "
                "here: such a fold cannot be left out"
            )
        return self.rows._replace(weight=np.zeros(len(kept)))


def _fewest(without: Reals) -> float:
    """The least number > 0 of rows of a part that are in a fold or not in it. without: by fold, and last all rows."""
    return least_of_some(np.concatenate([without, without[-1] - without[:-1]]))


def least_of_some(counts: Reals) -> float:
    """The least of the counts that are not 0, which under masks are near whole numbers; infinite if all are 0."""
    some = np.round(np.asarray(counts, float))
    return float(np.min(some[some > 0], initial=np.inf))


class _SomeRows:
    """Some rows of a matrix, copied block by block when they are looked at."""

    def __init__(self, rows: Reals, kept: NDArray[np.int64]):
        self.rows, self.kept = rows, kept

    def __getitem__(self, part: slice) -> Values:
        return np.asarray(self.rows[self.kept[part]])


def _some_losses(every: ScoreSum, kept: NDArray[np.int64]) -> ScoreSum:
    """The losses of some rows, which are not copied."""
    rows = ScoreRows(_SomeRows(every.rows.rows, kept), every.rows.beside[kept], every.rows.center)
    return every._replace(rows=rows, target=every.target[kept], fixed=every.fixed[kept])


def _weigh(survey: Surveyed, weight: float) -> Surveyed:
    """The survey times a weight, with second derivatives as triangles."""
    if survey.curvature is not None:
        survey = survey._replace(curvature=survey.curvature.triangles())
    part: Surveyed = jax.tree.map(lambda leaf: weight * np.asarray(leaf), survey)
    return part


def _points(request: Survey) -> Iterable[tuple[Any, bool, Any]]:
    count = len(request.points)
    return zip(request.points, request.curvature or (False,) * count, request.starts or (None,) * count, strict=True)


def added_surveys(parts: Iterable[list[list[Surveyed]]]) -> list[list[Surveyed]]:
    """The parts of all parties added up, second derivatives as squares again."""
    total: Any = None
    for part in parts:
        total = part if total is None else jax.tree.map(np.add, total, part)
    return [[_square(survey) for survey in answers] for answers in total]


def _square(survey: Surveyed) -> Surveyed:
    return survey if survey.curvature is None else survey._replace(curvature=survey.curvature.squares())

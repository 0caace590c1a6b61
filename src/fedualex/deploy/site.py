"""The client's side of every engine: local rounds and full-batch surveys, from its own data. Keeps no state."""

import math
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from .. import tree
from ..certificates.surveys import Curvature, Minorant, Surveyed, SurveyErrors
from ..compiling import compile_fully, double
from ..problems import AbstractOracle, AbstractProblem
from ..problems.curvature import Surveyor, surveyor_of, with_alike_y
from ..problems.score_rounding import ScoreErrors, score_errors, tells_errors
from ..runtime.outputs import KINDS, no_sums
from ..runtime.rounds import run_local_steps
from ..runtime.state import Contribution, Setup, State
from ..runtime.status import Code
from ..tree import Saddle, Tree
from ..validation import short
from .engine import Arrays, RefusedError, Request
from .policy import CURVATURE, Privacy, Release
from .wire import MessageError, pack, unpack


class DisagreementError(RefusedError):
    """The server runs another task than this site was told: other steps, seed, noise, sites or another version."""

    def __init__(self, text: str):
        super().__init__(text, Code.DISAGREES)


class Site:
    """Client m of a run, with its own problem. `work` may be called from several threads at once.

    problem: the problem with this site's data alone. setup, client: sizes, method and precision; the number m.
    agreed: what the run's id must begin with, so that both sides work on the same task. averages: the outputs whose
    sums are sent. privacy: clipping and noise, or None. factors: what the site's arrays are multiplied by in sums over
    all sites, by the first parts of their names. told: a digest of what this site was told of the others, on which its
    masks depend.
    """

    def __init__(
        self,
        problem: AbstractProblem,
        setup: Setup,
        client: int,
        agreed: str,
        averages: tuple[str, ...],
        privacy: Privacy | None = None,
        factors: Mapping[str, float] = MappingProxyType({}),
        told: str = "",
    ):
        self.problem, self.setup, self.client, self.agreed = problem, setup, client, agreed
        self.averages, self.privacy, self._factors, self._told = averages, privacy, factors, told
        self._one_by_one = threading.Lock()

    def work(self, request: Request) -> Arrays:
        """The answer to a request: the arrays that docs/deployment.md lists, and nothing else."""
        if request.run_id.partition("-")[0] != self.agreed:
            raise DisagreementError("the server and this site were told different tasks")
        tasks = {"round": self._round, "survey": self._survey, CURVATURE: self._curvature}
        if request.task not in tasks:
            raise RefusedError(f"task must be one of {', '.join(map(repr, tasks))}, got {short(request.task)}")
        with double():
            return tasks[request.task](request)

    def factors(self, task: str) -> Mapping[str, float]:
        """What its arrays are multiplied by in sums over all sites."""
        return self._factors

    def told(self, task: str) -> str:
        """What its masks depend on besides the request."""
        return self._told

    def added_up(self) -> None:
        """All that have keys."""

    def declare(self, request: Request) -> Release:
        """What would leave if this were answered."""
        if request.task == "survey":
            return declare_survey(self.problem, _count(request.arrays))
        if request.task == CURVATURE:
            asked = self._read_asked(request)
            names = "curved", "begun", "columns", "alike"
            return declare_curvature(self.problem, *(asked[name] for name in names))
        return self._round_release if request.task == "round" else Release(request.task)

    @cached_property
    def _round_release(self) -> Release:
        with double():
            return declare_round(reply_like(self.setup, self.averages))

    def asked_y(self, request: Request) -> NDArray[np.floating[Any]]:
        """The points y of a request, one below the other; of a round the one that it begins at."""
        with double():
            if request.task == CURVATURE:
                asked = self._read_asked(request)
                places = [asked["points"], asked["starts"], *[with_alike_y(asked["points"])] * bool(asked["alike"])]
                return np.concatenate([np.asarray(each.y) for each in places])
            if request.task == "survey":
                y = unpack(request.arrays, points=survey_like(self.problem, request.arrays))["points"].y
                return np.asarray(y)
            server = unpack(request.arrays, **round_like(self.setup))["server"]
            return np.asarray(self.setup.rounds.point(server, self.setup.problem.geometry).y)[None]

    def _round(self, request: Request) -> Arrays:
        received = unpack(request.arrays, **round_like(self.setup))
        counters = jnp.asarray(request.round), jnp.asarray(self.client)
        part = _contribute(self.setup, received["server"], received["survey"], self.setup.problem.data, *counters)
        if self.privacy is not None:
            part = replace(part, message=self.privacy.apply(part.message))
        return pack(**reply_of(part, self.averages))

    def _survey(self, request: Request) -> Arrays:
        """In the precision of the points, whatever that of the rounds is: certificates ask in float64."""
        if self.privacy is not None:
            raise PermissionError("operators and values are not covered by the privacy of this run")
        like = survey_like(self.problem, request.arrays)
        points = unpack(request.arrays, points=like)["points"]
        exact = tree.cast_module(self.problem, jax.tree.leaves(like)[0].dtype)
        mean = _survey(exact, points)
        surveys = [
            jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), (points, mean)) for i in range(_count(request.arrays))
        ]
        return pack(
            operators=mean.operator, values=mean.value, **self._tell_errors([(z, None, at) for z, at in surveys])
        )

    def _curvature(self, request: Request) -> Arrays:
        """Operators and values at all points, second derivatives at some, and dual cuts of steps to some."""
        if self.privacy is not None:
            raise PermissionError("second derivatives are not covered by the privacy of this run")
        asked = self._read_asked(request)
        places = [self._place(asked, i) for i in range(len(asked["curved"]))]
        surveys = [self._survey_point(asked, i, *place) for i, place in enumerate(places)]
        curved = [at.curvature.triangles() for at in surveys if at.curvature is not None]
        cuts = [at.cut for at in surveys if at.cut is not None]
        return pack(
            operators=_stack([at.operator for at in surveys], self.problem.like),
            values=np.stack([np.asarray(at.value) for at in surveys]),
            curvature=_stack(curved, some_curvature(self.problem.like, asked["columns"], asked["alike"])),
            cuts=_stack(cuts, Minorant(self.problem.like.x, np.zeros(()))),
            **self._tell_errors([(*place, at) for place, at in zip(places, surveys, strict=True)]),
        )

    def _tell_errors(self, surveys: list[tuple[Saddle, Saddle | None, Surveyed]]) -> dict[str, NDArray[Any]]:
        """What rounding may have done to each survey (`SurveyErrors`), if they are in float64 and it can be bounded."""
        if self._errors is None or any(np.asarray(at.value).dtype != np.float64 for _, _, at in surveys):
            return {}
        with self._one_by_one:
            told = [self._errors.tell(*survey, clients=self.setup.clients) for survey in surveys]
        return {"errors": np.array(told, float).reshape(len(told), len(SurveyErrors._fields))}

    @cached_property
    def _errors(self) -> ScoreErrors | None:
        exact = tree.cast_module(self.problem, jnp.float64)
        return score_errors(exact) if tells_errors(exact) else None

    def _read_asked(self, request: Request) -> dict[str, Any]:
        """What a request for second derivatives names: points, starts, and entries of x, none of which are all."""
        asked = unpack(request.arrays, **curvature_like(self.problem.like, request.arrays))
        columns, size = np.asarray(asked["columns"]), sizes_of(self.problem.like)[0]
        if columns.size and (np.any(np.diff(columns) <= 0) or columns[0] < 0 or columns[-1] >= size):
            raise MessageError(f"columns must be different numbers from 0 to {size - 1}, in rising order")
        return asked

    def _place(self, asked: Mapping[str, Any], i: int) -> tuple[Saddle, Saddle | None]:
        """Point i, and where the step to it began whose cut is wanted, if one is."""
        point, start = (jax.tree.map(lambda leaf: np.asarray(leaf)[i], asked[name]) for name in ("points", "starts"))
        return point, start if bool(asked["begun"][i]) else None

    def _survey_point(self, asked: Mapping[str, Any], i: int, point: Saddle, start: Saddle | None) -> Surveyed:
        """The survey of point i; where a loss has no dual cuts, the cut of the survey takes their place."""
        curved, columns = bool(asked["curved"][i]), asked["columns"] if asked["columns"].size else None
        if curved and asked["alike"]:
            survey = self._surveyor.survey_alike(point, start=start, columns=columns)
        else:
            survey = self._surveyor.survey(point, curvature=curved, start=start, columns=columns)
        if start is not None and survey.cut is None:
            offset = float(survey.value) - float(tree.dot(survey.operator.x, point.x))
            survey = survey._replace(cut=Minorant(survey.operator.x, np.asarray(offset)))
        return survey

    @cached_property
    def _surveyor(self) -> Surveyor:
        with double():
            return surveyor_of(tree.cast_module(self.problem, jnp.float64))


ALL = np.zeros(0, np.int64)
"""The entries of x in which second derivatives are asked for, where it is all of them."""


def sizes_of(like: Saddle) -> tuple[int, int]:
    """How many entries x and y have."""
    x, y = (sum(np.size(leaf) for leaf in jax.tree.leaves(part)) for part in (like.x, like.y))
    return x, y


def curvature_like(like: Saddle, arrays: Arrays) -> dict[str, Tree]:
    """What a site is sent: points, where steps to them began, what is wanted of each, in which entries of x, and where.

    alike: whether second derivatives are wanted in x alone, where y weighs all its entries alike.
    """
    count, named = (int((np.shape(arrays.get(name, ())) or (0,))[0]) for name in ("curved", "columns"))
    columns = jax.ShapeDtypeStruct((named,), np.int64)
    points = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((count, *np.shape(leaf)), np.float64), like)
    flags = jax.ShapeDtypeStruct((count,), np.bool_)
    alike = jax.ShapeDtypeStruct((), np.bool_)
    return {"points": points, "starts": points, "curved": flags, "begun": flags, "columns": columns, "alike": alike}


def some_curvature(like: Saddle, columns: NDArray[np.int64], alike: object) -> Curvature:
    """The shapes of second derivatives in these entries of x, or in all where none are named; alike: in x alone."""
    x, y = sizes_of(like)
    return Curvature.like(columns.size or x, 0 if alike else y)


def _stack(trees: list[Tree], like: Tree) -> Tree:
    """The trees along a new first axis, which may have no entries."""
    return jax.tree.map(lambda leaf, *leaves: np.reshape(leaves, (len(leaves), *np.shape(leaf))), like, *trees)


def declare_curvature(
    problem: AbstractProblem,
    curved: NDArray[np.bool_],
    begun: NDArray[np.bool_],
    columns: NDArray[np.int64] = ALL,
    alike: object = False,
) -> Release:
    """What a survey of each point, second derivatives of some and dual cuts of steps to some would release.

    Where entries of x are named, these are its parameters; a site adds to them those that other requests named.
    alike: whether second derivatives are in x alone, where y weighs all its entries alike.
    """
    like = problem.like
    x, y = sizes_of(like)
    second = sum(np.size(part) for part in some_curvature(like, columns, alike))
    numbers = len(curved) * (1 + x + y + count_told(problem))
    numbers += int(np.sum(curved)) * second + int(np.sum(begun)) * (1 + x)
    named = tuple(columns.tolist())
    return Release(CURVATURE, len(curved), numbers, parameters=columns.size or x, columns=named, mixed=not alike)


def round_like(setup: Setup) -> dict[str, Tree]:
    """What a site is sent for a round: the server's state, and for methods with a survey (z_ref, g(z_ref))."""
    point = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), setup.weights.dtype), setup.problem.like)
    geometry = setup.problem.geometry
    server = jax.eval_shape(lambda z: setup.rounds.start(geometry.dual(z), geometry), point)
    return {"server": server, "survey": None if setup.rounds.survey == "none" else (point, point)}


def reply_of(part: Contribution, averages: Iterable[str]) -> dict[str, Tree]:
    """What leaves a site: its message, and what the sums behind these outputs need."""
    wire = dict.fromkeys(name for average in averages for name in KINDS[average].wire)
    return {"message": part.message} | {name: getattr(part, name) for name in wire}


def reply_like(setup: Setup, averages: Iterable[str]) -> dict[str, Tree]:
    """The shapes of `reply_of`, which do not depend on anybody's data."""
    blind = eqx.tree_at(lambda s: s.oracle, setup, _Blind())
    server = round_like(setup)["server"]
    counter = jax.ShapeDtypeStruct((), jnp.asarray(0).dtype)
    return reply_of(eqx.filter_eval_shape(_contribute, blind, server, None, None, counter, counter), averages)


def survey_like(problem: AbstractProblem, arrays: Arrays) -> Tree:
    """Points stacked along the first axis, as many as came, float64 or in the precision of the rounds."""
    count, dtype = _count(arrays), np.result_type(next(iter(arrays.values()), np.zeros(0)))
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((count, *np.shape(leaf)), dtype), problem.like)


def _count(arrays: Arrays) -> int:
    return int((next(iter(arrays.values()), np.zeros(0)).shape or (0,))[0])


def declare_survey(problem: AbstractProblem, points: int) -> Release:
    """What a survey would release: for each point the mean loss of a site's rows, its operator, and their errors."""
    numbers = 1 + sum(np.size(leaf) for leaf in jax.tree.leaves(problem.like)) + count_told(problem)
    return Release("survey", points, points * numbers)


def count_told(problem: AbstractProblem) -> int:
    """How many numbers a site says of the rounding of each survey."""
    return len(SurveyErrors._fields) if tells_errors(problem) else 0


def declare_round(like: Mapping[str, Tree]) -> Release:
    """What a round would release: all that `reply_like` has, and a sum for every probe that is sent."""
    sizes = [math.prod(leaf.shape) for leaf in jax.tree.leaves(like)]
    probes = [leaf.shape[0] for leaf in jax.tree.leaves(like.get("probes"))]
    return Release("round", 1 + max(probes, default=0), sum(sizes))


class _Blind(AbstractOracle):
    """An operator of the right shape."""

    def __call__(self, problem: AbstractProblem, client: Tree, z: Saddle, key: jax.Array) -> Saddle:
        return z


@compile_fully
def _contribute(
    setup: Setup, server: Tree, survey: Tree, data: Tree, round_index: Array, client: Array
) -> Contribution:
    """The local steps of the simulator, on one client of weight 1.

    Its increments are not normalized by its number of steps: the server does that, which knows who took part.
    """
    kind = setup.weights.dtype
    zero = jax.tree.map(lambda leaf: jnp.zeros(np.shape(leaf), kind), setup.problem.like)
    state = State(server, None, zero, no_sums(setup, ()), round_index)
    own_steps = setup.steps[client].astype(kind)
    return run_local_steps(setup, state, survey, data, None, client[None], jnp.ones(1, kind), own_steps)[0]


@compile_fully
def _survey(problem: AbstractProblem, points: Tree) -> Surveyed:
    surveys = jax.lax.map(problem.survey, points)
    return surveys._replace(value=surveys.value.astype(jax.tree.leaves(points)[0].dtype))

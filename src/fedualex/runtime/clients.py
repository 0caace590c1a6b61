"""The seam between a run and those who hold its data: they are asked for surveys, and for rounds of local steps."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from .. import tree
from ..algorithms import Facts, LocalSteps, Stepped, Survey
from ..certificates.surveys import Surveyed
from ..certificates.told import ToldErrors
from ..problems import AbstractProblem
from ..problems.curvature import Surveyor, surveyor_of
from ..storage import Json
from ..tree import Saddle, Tree
from .outputs import AVERAGES, no_sums
from .rounds import advance
from .sharding import local
from .state import Setup, State
from .status import Code, Failure, Missing
from .surveying import survey_at

# When rounds in float32 continue in float64: once their rounding is no longer far below their noise.


SHARE = 1 / 128
"""The share of the noise of a round that its rounding may be: rounding has a mean, so that its errors add up."""
SPACING = 16
"""A run is looked at after so many rounds, and when it is so many times as long as at the last look."""
OTHER_NOISE = 2**30
"""Added to the number of a round that no run reaches: its noise is other noise."""

T = TypeVar("T")

Wider = Callable[[], Setup]
"""What float64 rounds of the same run are computed with."""


def is_due(before: int, after: int) -> bool:
    """Whether rounding is to be looked at on the way from `before` to `after` rounds: at SPACING, SPACING^2, ..."""
    return _count_powers(after) > _count_powers(before)


def _count_powers(rounds: int) -> int:
    return int(math.log(rounds + 0.5, SPACING)) if rounds else 0


def rounding_shows(setup: Setup, state: State) -> bool:
    """Whether a round's rounding of the server's state is above SHARE of what the round's noise does to it.

    A dual state grows with the rounds and its increments do not, so that its rounding, eps |server| / 4 in the mean,
    comes near the noise at last. The noise is half the squared difference of two rounds that begin alike.
    """
    again = replace(state, round=np.asarray(int(state.round) + OTHER_NOISE, np.asarray(state.round).dtype))
    one, other = (_numbers(local(setup.mesh, advance(setup, start, np.asarray(1))).server) for start in (state, again))
    noise = math.sqrt(sum(float(np.sum((u - v) ** 2)) for u, v in zip(one, other, strict=True)) / 2)
    size = math.sqrt(sum(float(np.sum(u**2)) for u in one))
    return float(np.finfo(setup.weights.dtype).eps) * size / 4 > SHARE * noise


def _numbers(server: Tree) -> list[NDArray[np.float64]]:
    """The floating numbers of a state, in float64."""
    return [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(server) if tree.is_floating(leaf)]


@runtime_checkable
class Clients(Protocol):
    """All clients of a run. An answer that they cannot give is a `Missing`, which says why."""

    setup: Setup
    """What rounds are computed with at present."""
    averages: tuple[str, ...]
    """The outputs whose sums come with a round of local steps."""
    remote: bool
    """Whether their operators and values are summed elsewhere, where this process cannot bound the rounding."""
    sum_error: float
    """By how much each entry of a survey may differ from what clients add up to because of the way it is added; 0 if it
    is added in float64, the rounding of which is counted with that of operators."""
    unsurveyed: str
    """Why clients are never asked for exact operators, so that there are no certificates; empty if they are asked."""

    def survey(self, points: list[Tree]) -> list[Surveyed] | Missing:
        """sum_m p_m g_m and sum_m p_m f_m at each point, exactly."""
        ...

    def survey_with_curvature(self, request: Survey) -> list[Surveyed] | Missing:
        """`survey` with second derivatives and dual cuts where the request asks for them."""
        ...

    def local(self, state: State, rounds: int) -> State | Missing:
        """The state after at least one and at most so many rounds of local steps."""
        ...

    def retry(self, answer: T | Missing) -> T | Missing:
        """The answer to an exchange; one that is missing returns after a pause, or as one that ends the run."""
        ...

    def count(self, request: Survey | LocalSteps) -> None:
        """Count the bytes of an exchange that the method itself decided on."""
        ...

    def reserve_privacy(self) -> bool:
        """Count what the next round will release. Returns whether the count must be stored before the round begins."""
        ...

    def costs(self, state: State) -> Json:
        """What the run has cost up to this state, as columns of its record: bytes up and down, epsilon."""
        ...

    def checkpoint_state(self) -> Tree:
        """What a checkpoint has to keep of these clients."""
        ...

    def restore(self, kept: Tree) -> None:
        """Continue with what `checkpoint_state` returned before."""
        ...


class SimulatedClients:
    """All clients in one compiled program, which does many rounds in one call.

    exact: the problem in float64, for surveys (`exact_problem`). wider: what rounds are computed with as soon as their
    rounding shows; None if they keep their precision.
    """

    averages: tuple[str, ...] = AVERAGES
    remote = False
    sum_error = 0.0
    unsurveyed = ""

    def __init__(self, exact: AbstractProblem, setup: Setup, wider: Wider | None = None):
        self.exact, self.setup, self.wider = exact, setup, wider
        self.bytes = [(0, bytes_per_round(setup))]
        """Since which round a round has so many bytes up and down."""
        self.carried = [0, 0]
        """Bytes up and down of exchanges that the method itself decided on, and how many there were."""
        self.exchanges = 0

    def survey(self, points: list[Tree]) -> list[Surveyed]:
        """Compiled, one point after the other."""
        return [survey_at(self.exact, z) for z in points]

    def survey_with_curvature(self, request: Survey) -> list[Surveyed]:
        """One point after the other, in plain numpy where f has a closed form."""
        starts = request.starts or (None,) * len(request.points)
        return [
            self.surveyor.survey_alike(z, start=start, columns=request.columns)
            if curvature and request.alike
            else self.surveyor.survey(z, curvature=curvature, start=start, columns=request.columns)
            for z, curvature, start in zip(request.points, request.curvature, starts, strict=True)
        ]

    @cached_property
    def surveyor(self) -> Surveyor:
        """What surveys with second derivatives are computed by; made for the first of them."""
        return surveyor_of(self.exact)

    def local(self, state: State, rounds: int) -> State:
        """The state after all of the rounds; in float64 from then on if their rounding shows."""
        following: State = local(self.setup.mesh, advance(self.setup, state, np.asarray(rounds)))
        if self.wider is None or not is_due(int(state.round), int(following.round)):
            return following
        if not tree.known_finite(following.server) or not rounding_shows(self.setup, following):
            return following
        self._widen(self.wider, int(following.round))
        wide: State = tree.cast(following, self.setup.weights.dtype)
        return wide

    def _widen(self, wider: Wider, since: int) -> None:
        self.setup, self.wider = wider(), None
        self.bytes.append((since, bytes_per_round(self.setup)))

    @property
    def wide_since(self) -> int:
        """The round after which rounds are in float64, 0 if they are as they were at the start."""
        return self.bytes[-1][0]

    def retry(self, answer: T) -> T:
        """The answer itself: in a simulation no answer is missing."""
        return answer

    def count(self, request: Survey | LocalSteps) -> None:
        """Surveys are in float64, local steps in the precision of the rounds; sums come back with their weight."""
        size = sum(leaf.size for leaf in jax.tree.leaves(self.setup.problem.like))
        match request:
            case Survey(points):
                started = sum(start is not None for start in request.starts)
                more = sum(request.curvature) * self._curvature_numbers(request) + started * (self._sizes()[0] + 1)
                named = 0 if request.columns is None else request.columns.size
                up, down = 8 * (len(points) * (size + 1) + more), 8 * ((len(points) + started) * size + named)
                asked = self.setup.clients
            case LocalSteps(start, reference, _):
                number, asked = self.setup.weights.dtype.itemsize, self.setup.cohort
                up = number * (size + 1) + message_bytes(self.setup)
                down = number * sum(map(np.size, jax.tree.leaves((start, reference))))
        for way, count in enumerate((up, down)):
            self.carried[way] += asked * count
        self.exchanges += 1

    def _sizes(self) -> tuple[int, int]:
        """How many entries x and y have."""
        like = self.setup.problem.like
        x, y = (sum(leaf.size for leaf in jax.tree.leaves(part)) for part in (like.x, like.y))
        return x, y

    def _curvature_numbers(self, request: Survey) -> int:
        """How many numbers second derivatives are: one triangle of xx, and unless y counts alike of yy, and yx."""
        x, y = self._sizes()
        y = 0 if request.alike else y
        x = x if request.columns is None else request.columns.size
        return x * (x + 1) // 2 + x * y + y * (y + 1) // 2

    def reserve_privacy(self) -> bool:
        """Nothing: a simulation releases nothing."""
        return False

    def costs(self, state: State) -> Json:
        """The bytes that a network would have carried."""
        ends = [since for since, _ in self.bytes[1:]] + [int(state.round) - self.exchanges]
        rounds = [end - since for (since, _), end in zip(self.bytes, ends, strict=True)]
        up, down = (
            sum(count * sizes[way] for count, (_, sizes) in zip(rounds, self.bytes, strict=True)) for way in (0, 1)
        )
        return {"bytes_up": up + self.carried[0], "bytes_down": down + self.carried[1]}

    def checkpoint_state(self) -> Tree:
        """The round from which rounds are in float64, and the bytes that the method's own exchanges carried."""
        return np.asarray([self.wide_since, self.exchanges, *self.carried])

    def restore(self, kept: Tree) -> None:
        """Restore the counts, and the precision of the rounds."""
        wide_since, self.exchanges, *self.carried = (int(count) for count in kept)
        if self.wider is not None and wide_since:
            self._widen(self.wider, wide_since)


def bytes_per_round(setup: Setup) -> tuple[int, int]:
    """Bytes up and down in a round: state down, message and the sum behind `client_average` up, surveys both ways."""
    method = setup.rounds
    server, like = _server_and_like(setup)
    number = setup.weights.dtype.itemsize  # f_m, beside g_m
    asked = method.surveys * setup.clients
    up = setup.cohort * (message_bytes(setup) + _bytes(like)) + asked * (_bytes(like) + number)
    return up, setup.cohort * _bytes(server) + (asked + bool(asked) * setup.cohort) * _bytes(like)


def message_bytes(setup: Setup) -> int:
    """Bytes of the message of one client after its local steps."""
    method, (server, _) = setup.rounds, _server_and_like(setup)
    return _bytes(
        jax.eval_shape(
            lambda s: method.local_final(method.local_init(s, method.memory(s)), s, method.memory(s))[0], server
        )
    )


def _server_and_like(setup: Setup) -> tuple[Tree, Tree]:
    """The shapes of the state that local steps start from, and of a point."""
    like, geometry = tree.cast(setup.problem.like, setup.weights.dtype), setup.problem.geometry
    return jax.eval_shape(lambda d: setup.rounds.start(d, geometry), jax.eval_shape(geometry.dual, like)), like


def _bytes(a: Tree) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(a))


# A method and its clients in conversation: what it asks for is asked of them, and what they answer is told to it.


AVERAGE = "client_average"
"""The sum that the points of local steps come back in."""


class Conversation:
    """Carries what the method of a run asks for to the clients, and their answers back.

    exact: the problem in float64, of which the domain and what is known of f are used, not the data.
    """

    def __init__(self, clients: Clients, exact: AbstractProblem):
        self.clients, self.method = clients, clients.setup.method
        self.facts = Facts(exact, clients.setup.local_steps)
        self.averages: tuple[str, ...] = clients.averages if self.method.rounds is self.method else ()
        self.remote, self.unsurveyed, self.sum_error = clients.remote, clients.unsurveyed, clients.sum_error
        self.told = ToldErrors(exact, clients.sum_error) if clients.remote else None
        self.server_seconds = 0.0

    @property
    def setup(self) -> Setup:
        """What rounds are computed with at present."""
        return self.clients.setup

    def survey(self, points: list[Tree]) -> list[Surveyed] | Missing:
        """The clients' answer, whose rounding is remembered."""
        return self._remember(points, [None] * len(points), self.clients.survey(points))

    def _remember(
        self, points: Sequence[Saddle], starts: Sequence[Saddle | None], answer: list[Surveyed] | Missing
    ) -> list[Surveyed] | Missing:
        """The answer, after what clients say of its rounding is remembered."""
        if self.told is not None and not isinstance(answer, Missing):
            self.told.remember(points, starts, answer)
        return answer

    def advance(self, state: State, rounds: int) -> State | Missing:
        """The state after what the method asks for: one exchange, or at most `rounds` rounds of local steps."""
        request = self._take_time(lambda: self.method.ask(self.facts, state.server))
        if _continues_run(request, state):
            after = self.clients.local(state, min(rounds, request.most))
            if isinstance(after, Missing):
                return after
            return replace(after, server=self.method.tell(self.facts, state.server, Stepped(after.server, None)))
        self.clients.count(request)
        answer = self._survey(request) if isinstance(request, Survey) else self._step(state, request)
        if isinstance(answer, Missing):
            return answer
        server = self._take_time(lambda: as_arrays(self.method.tell(self.facts, state.server, answer)))
        return replace(state, server=server, round=np.asarray(int(state.round) + 1))

    def _take_time(self, step: Callable[[], T]) -> T:
        """Run a step of the server itself, and count its seconds."""
        began = time.perf_counter()
        result: T = jax.block_until_ready(step())
        self.server_seconds += time.perf_counter() - began
        return result

    def _survey(self, request: Survey) -> list[Surveyed] | Missing:
        plain = not any(request.curvature) and not any(start is not None for start in request.starts)
        answer = self.clients.survey(list(request.points)) if plain else self.clients.survey_with_curvature(request)
        surveys = self.clients.retry(answer)
        if not isinstance(surveys, Missing) and not tree.known_finite(surveys):
            text = "an operator or a value of f is not finite where it was surveyed"
            return Missing(Failure(Code.NOT_FINITE, text))
        return self._remember(request.points, request.starts or (None,) * len(request.points), surveys)

    def _step(self, state: State, request: LocalSteps) -> Stepped | Missing:
        """The weighted mean of all points that clients probe in local steps from a state that is not the run's own."""
        setup, kind = self.setup, self.setup.weights.dtype
        begun, reference = tree.cast((request.start, request.reference), kind)
        if reference is None:
            reference = setup.rounds.point(begun, setup.problem.geometry)
        after = self.clients.local(State(begun, None, reference, no_sums(setup, (AVERAGE,)), state.round), 1)
        if isinstance(after, Missing):
            return after
        mean = tree.cast(tree.scale(1 / after.sums.weight, after.sums.points[AVERAGE]), jnp.float64)
        return Stepped(after.server, mean)

    def reserve_privacy(self) -> bool:
        """Count for the clients what the next round will release. Returns whether the count must be stored before."""
        return self.clients.reserve_privacy()

    def costs(self, state: State) -> Json:
        """The clients' costs, and the seconds of the server's own steps if the method decides on its exchanges."""
        own = {"server_seconds": self.server_seconds} if self.method.outputs else {}
        return {**self.clients.costs(state), **own}

    def checkpoint_state(self) -> Tree:
        """That of the clients, the seconds of the server where `costs` has them, and what was said of rounding."""
        told = None if self.told is None else self.told.checkpoint_state()
        return self.clients.checkpoint_state(), np.asarray(self.server_seconds) if self.method.outputs else None, told

    def restore(self, kept: Tree) -> None:
        """Restore what `checkpoint_state` returned."""
        theirs, seconds, told = kept
        if self.told is not None:
            self.told.restore(told)
        self.clients.restore(theirs)
        self.server_seconds = 0.0 if seconds is None else float(seconds)


def _continues_run(request: Survey | LocalSteps, state: State) -> TypeGuard[LocalSteps]:
    """Whether local steps from the run's own state are asked for, of which many may be one program."""
    own = isinstance(request, LocalSteps) and request.start is state.server and request.reference is None
    return own and state.reference is not None


def as_arrays(server: Tree) -> Tree:
    """The state with Python's numbers as arrays, as in a checkpoint, so that a resumed run compiles nothing again."""
    return jax.tree.map(_as_array, server)


def _as_array(leaf: object) -> Array | NDArray[Any]:
    """Python's numbers become arrays of numpy, which take a tenth of the time that those of jax take."""
    return leaf if isinstance(leaf, jax.Array) and not leaf.weak_type else np.asarray(leaf)

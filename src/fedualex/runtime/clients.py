"""The seam between a run and those who hold its data: they are asked for surveys, and for rounds of local steps."""

from functools import partial
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from .. import tree
from ..algorithms.exchanging import exchanging
from ..certificates.surveys import Surveyed
from ..problems import AbstractProblem
from ..tree import Tree
from .kinds import AVERAGES
from .missing import Missing
from .outputs import in_pairs, survey_at, surveys_at
from .rounds import advance
from .sharding import local
from .state import Setup, State
from .widening import Wider, is_due, rounding_shows


@runtime_checkable
class Clients(Protocol):
    """All clients of a run. What they cannot give is `Missing`, with its reason."""

    setup: Setup
    """What rounds are computed with at present."""
    averages: tuple[str, ...]
    """The outputs whose sums come with a round of local steps."""
    elsewhere: bool
    """Whether their operators and values are summed where nobody here can bound the rounding."""
    sum_error: float
    """By how much each entry of a survey may differ from what clients add up to because of the way it is added; 0 if it
    is added in float64, the rounding of which is counted with that of operators."""
    unsurveyed: str
    """Why nobody is ever asked for exact operators, so that there are no certificates; empty if they are."""

    def survey(self, points: list[Tree]) -> list[Surveyed] | Missing:
        """sum_m p_m g_m and sum_m p_m f_m at each point, exactly."""
        ...

    def local(self, state: State, rounds: int) -> State | Missing:
        """The state after at least one and at most so many rounds of local steps."""
        ...

    def attempted(self, found: Any) -> Any:
        """What an exchange of the method found; where that is missing, after a pause, or as the end of the run."""
        ...

    def announce(self) -> bool:
        """Count what the next round will release; whether that must be stored before it happens."""
        ...

    def spent(self, state: State) -> dict[str, Any]:
        """What the run has cost until this state, as columns of its record: bytes up and down, privacy."""
        ...

    def ledger(self) -> Tree:
        """What a checkpoint has to keep of these clients."""
        ...

    def restore(self, ledger: Tree) -> None:
        """Continue with what a checkpoint kept."""
        ...


class SimulatedClients:
    """All clients in one compiled program, which does many rounds in one call.

    exact: the problem in float64, for surveys (`exact_problem`). wider: what rounds are computed with as soon as their
    rounding shows; None if they keep their precision.
    """

    averages: tuple[str, ...] = AVERAGES
    elsewhere = False
    sum_error = 0.0
    unsurveyed = ""

    def __init__(self, exact: AbstractProblem, setup: Setup, wider: Wider | None = None):
        self.exact, self.setup, self.wider = exact, setup, wider
        self.bytes = [(0, bytes_per_round(setup))]
        """Since which round a round has so many bytes up and down."""

    def survey(self, points: list[Tree]) -> list[Surveyed]:
        """In pairs, as records ask; one point after the other for a method whose every exchange is a survey."""
        if self.setup.method.exchanging:
            return [survey_at(self.exact, z) for z in points]
        return in_pairs(partial(surveys_at, self.exact), points)

    def local(self, state: State, rounds: int) -> State:
        """All of the rounds, and in float64 from then on if their rounding shows."""
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
    def widened(self) -> int:
        """The round after which rounds are in float64, 0 if they are as they were at the start."""
        return self.bytes[-1][0]

    def attempted(self, found: Any) -> Any:
        """It is there."""
        return found

    def announce(self) -> bool:
        """Nothing is released."""
        return False

    def spent(self, state: State) -> dict[str, Any]:
        """What a network would have carried."""
        if (method := exchanging(self.setup.method)) is not None:
            return dict(method.traffic(state.server, self.setup.clients, self.setup.weights.dtype.itemsize))
        ends = [since for since, _ in self.bytes[1:]] + [int(state.round)]
        rounds = [end - since for (since, _), end in zip(self.bytes, ends, strict=True)]
        up, down = (
            sum(count * sizes[way] for count, (_, sizes) in zip(rounds, self.bytes, strict=True)) for way in (0, 1)
        )
        return {"bytes_up": up, "bytes_down": down}

    def ledger(self) -> Tree:
        """Since when rounds are in float64."""
        return np.asarray(self.widened)

    def restore(self, ledger: Tree) -> None:
        """In the precision that the state has."""
        if self.wider is not None and int(ledger):
            self._widen(self.wider, int(ledger))


def bytes_per_round(setup: Setup) -> tuple[int, int]:
    """Bytes up and down in a round: state down, message and the sum behind `client_average` up, surveys both ways."""

    def size(a: Any) -> int:
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(a))

    method = setup.method
    like = tree.cast(setup.problem.like, setup.weights.dtype)
    dual = jax.eval_shape(setup.problem.geometry.dual, like)
    server = jax.eval_shape(lambda d: method.start(d, setup.problem.geometry), dual)
    message = jax.eval_shape(
        lambda s: method.local_final(method.local_init(s, method.memory(s)), s, method.memory(s))[0], server
    )
    number = setup.weights.dtype.itemsize  # f_m, beside g_m
    asked = method.surveys * setup.clients
    up, down = setup.cohort * (size(message) + size(like)) + asked * (size(like) + number), setup.cohort * size(server)
    return up, down + (asked + bool(asked) * setup.cohort) * size(like)

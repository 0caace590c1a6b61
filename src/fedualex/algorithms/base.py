"""What a method is: what it asks clients for, and what it makes of their answers.

A method is written in one of two ways. As `Method`: `init`, `ask` and `tell`, exchange by exchange. Or as
`AbstractMethod`: rounds of local steps as eight small functions, of which many can be one program.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import fields
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, Literal, NamedTuple

import equinox as eqx
import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from ..accepted import Numbers
from ..bundle import Bounds, Flat, KnownFloor
from ..certificates.surveys import Surveyed, flat_of, known_floor
from ..geometry import AbstractGeometry, Dual
from ..model_problem import Blocks, blocks_of
from ..problems import AbstractProblem
from ..problems.known import is_affine
from ..tree import Saddle, Scalar, Tree
from ..validation import of_type, one_of, positive

MANY = 2**31
"""Rounds that no run reaches: nobody wants to see them one by one."""
Oracle = Callable[[Tree, int], Tree]
"""oracle(z, s): the client's s-th sample of its operator at z in this local step; the method never sees a key."""

Correction = Literal["none", "fresh", "stale", "given"]
StepSize = Any
"""A number > 0, or None for what theory or a rule of the method chooses; stored as an array.

`Any` because the field is given one type and holds another, which type checkers have no word for.
"""

State = TypeVar("State", default=Any)
"""What the server of a method remembers between exchanges."""
Local = TypeVar("Local", default=Any)
"""What a client has between two of its local steps."""
Message = TypeVar("Message", default=Any)
"""What a client sends at the end of a round."""


class Survey(NamedTuple):
    """Asked of all clients together: sum_m p_m g_m and sum_m p_m f_m, exact, at each of these points of the domain.

    The answer is a list of `Surveyed`.
    """

    points: tuple[Saddle, ...]
    curvature: tuple[bool, ...] = ()
    """For each of them whether second derivatives are asked for as well; empty if for none."""
    starts: tuple[Saddle | None, ...] = ()
    """For each of them where the step to it began, if the dual cut of that step is asked for; empty if for none."""
    columns: NDArray[np.intp] | None = None
    """The entries of x, in rising order, among which second derivatives are asked for; None: all."""
    alike: bool = False
    """Whether they are those in x alone, where y weighs all its entries alike (`Surveyor.survey_alike`)."""


class LocalSteps(NamedTuple):
    """Asked of clients: rounds of the local steps of `method.rounds` from a state `start`. The answer is `Stepped`.

    reference: (w, g(w)), by which oracles are corrected where the local steps say "given". most: so many rounds may be
    done before the method is told; they are then one program.
    """

    start: Tree
    """What clients are sent."""
    reference: Tree = None
    most: int = 1


class Stepped(NamedTuple):
    """What became of local steps: the server's state after them, and the weighted mean of all that clients probed.

    mean: None where the state that was sent is the server's own, so that averages of the run go on.
    """

    server: Tree
    mean: Saddle | None


class Facts:
    """What a method is told of a problem: never data. In float64, on vectors; computed when it is first asked for.

    local_steps: how many steps each client takes in a round.
    """

    def __init__(self, problem: AbstractProblem, local_steps: int):
        self._problem, self.local_steps = problem, local_steps

    @cached_property
    def flat(self) -> Flat:
        """The domain with its geometry."""
        return flat_of(self._problem)

    @cached_property
    def scaled(self) -> Flat:
        """The same in the metric of the problem, in which columns of all scales look alike."""
        return self.flat.with_metric(self._problem.metric)

    @cached_property
    def blocks(self) -> Blocks:
        """The domain as models are solved over it."""
        return blocks_of(self.flat)

    @cached_property
    def known(self) -> KnownFloor:
        """A lower bound of f, if one is known."""
        return known_floor(self._problem, self.flat)

    @property
    def affine(self) -> bool:
        """Whether the operator is affine, so that its second derivatives are the same everywhere."""
        return is_affine(self._problem)


class Method(eqx.Module, Generic[State]):
    """Decides exchange by exchange what clients are asked for, a `Survey` or `LocalSteps`, and learns what they answer.

        server = init(facts, z)
        repeat:  server = tell(facts, server, answer of the clients to ask(facts, server))

    Its server's state holds arrays and numbers, and is all that a checkpoint keeps of it.
    """

    one_machine: ClassVar[bool] = False
    """Whether the method is defined for a single client with K = 1 only."""
    covered: ClassVar[bool] = False
    """Whether the theorems that choose missing step sizes are about this method; a heuristic if not."""
    private: ClassVar[bool] = False
    """Whether clipping and noise at the clients cover all that they send: one increment of a dual pair a round."""
    patience: ClassVar[int] = 0
    """Rounds without progress that are usual: a run is not called stalled before so many, however few it has in all."""
    outputs: ClassVar[tuple[str, ...]] = ()
    """The outputs that it has in place of averages of its rounds, such as the pair of its own bounds."""
    needs_float64: ClassVar[str] = ""
    """Why its rounds are computed in float64, in a few words; empty if the noise decides."""
    asks_curvature: ClassVar[bool] = False
    """Whether it asks for second derivatives where clients give them."""
    asks_alike: ClassVar[bool] = False
    """Whether these are in x alone, where y weighs all its entries alike (`Survey.alike`)."""
    needs_everybody: ClassVar[bool] = False
    """Whether all clients must answer every exchange, so that a cohort is refused."""

    @classmethod
    def step_names(cls) -> tuple[str, ...]:
        """The names of its step sizes."""
        return tuple(field.name for field in fields(cls) if field.metadata.get("step"))

    def missing_steps(self) -> tuple[str, ...]:
        """The names of the step sizes that were left to theory."""
        return tuple(name for name in self.step_names() if getattr(self, name) is None)

    def theory_steps(self, eta: float, beta: float, rounds: int) -> dict[str, float]:
        """A value for every step size, from the step eta of a theorem; what is given stays as it is.

        beta: the smoothness of the operator.
        """
        return dict.fromkeys(self.step_names(), eta) | {"eta_s": 1.0}

    def refusal(self, problem: AbstractProblem, clients: int, local_steps: Numbers) -> str:
        """Why the method cannot be run on this problem with these sizes, in one sentence; empty if it can."""
        if self.one_machine and (clients > 1 or np.max(local_steps) > 1):
            return f"{type(self).__name__} is a method for one machine: use steps=, on one client"
        return ""

    @property
    def rounds(self) -> "AbstractMethod":
        """The local steps that its clients take; `NoSteps` if it asks for surveys only."""
        return NoSteps()

    @abstractmethod
    def init(self, facts: Facts, z: Saddle) -> State | None:
        """The server's state before the first exchange, for a run from z; None: that of its local steps' `start`."""

    @abstractmethod
    def ask(self, facts: Facts, server: State) -> Survey | LocalSteps:
        """What clients are asked for next."""

    @abstractmethod
    def tell(self, facts: Facts, server: State, answer: list[Surveyed] | Stepped) -> State:
        """The server's state when clients have answered."""

    @abstractmethod
    def point(self, server: State, geometry: AbstractGeometry) -> Tree:
        """The server's primal point."""

    def bounds(self, server: State) -> Bounds | None:
        """Bounds of the optimal value that its own surveys prove; None if it has none."""
        return None

    def exchanges_of(self, server: State, rounds: int) -> int:
        """Round trips up to this state, to which the driver has counted so many rounds: one in each."""
        return rounds


class AbstractMethod(Method[State], Generic[State, Local, Message]):
    """A round: the server broadcasts its state; each client runs `local_init`, `local_step` K times and `local_final`;
    the weighted mean of their messages goes to `server_step`.

    With a `survey`, the oracle of a round is corrected in operator space to g_m(z) - g_m(z_ref) + g(z_ref), where g is
    the mean over all clients of their full-batch operators and z_ref is the round's server point ("fresh"), the
    previous round's ("stale"), or one whose operator the server knows already ("given"). A client recomputes its own
    g_m(z_ref), so nobody keeps a memory. A method may want several fresh surveys a round, one after the other, at
    points of its own: the last one corrects the oracle.
    """

    survey: ClassVar[Correction] = "none"
    linear_sample: ClassVar[int | None] = None
    """The sample of a local step that enters the next state linearly and nothing else; None if there is no such one.

    Where clients share an affine operator with Gaussian noise, a simulator may then draw the mean of these samples at
    once, which has the same law.
    """

    sums: ClassVar[tuple[str, ...]] = ()
    """The sums of probes that a server needs of a round, by the names of outputs; empty: those of outputs asked for."""

    @property
    def rounds(self) -> "AbstractMethod":
        return self

    def init(self, facts: Facts, z: Saddle) -> None:
        """None: the run begins with `start`."""
        return

    def ask(self, facts: Facts, server: State) -> LocalSteps:
        """Local steps, for as many rounds as the driver likes to do at once."""
        return LocalSteps(server, most=MANY)

    def tell(self, facts: Facts, server: State, answer: list[Surveyed] | Stepped) -> State:
        """The state after the rounds."""
        assert isinstance(answer, Stepped)
        after: State = answer.server
        return after

    def exchanges_of(self, server: State, rounds: int) -> int:
        """`exchanges` in every round."""
        return rounds * self.exchanges

    @property
    def lead(self) -> int | None:
        """The client that alone takes the local steps of every round; None if the cohort does."""
        return None

    @property
    def surveys(self) -> int:
        """How many surveys a round begins with."""
        return int(self.survey in ("fresh", "stale"))

    @property
    def exchanges(self) -> int:
        """The round trips of one round: one for the local steps, and one for every survey that is not stale."""
        return 1 + (0 if self.survey == "stale" else self.surveys)

    def survey_point(self, server: State, geometry: AbstractGeometry, index: int) -> Tree:
        """Where the fresh survey of this index is taken: the server's point."""
        return self.point(server, geometry)

    def surveyed(self, server: State, g: Tree, geometry: AbstractGeometry, index: int) -> State:
        """The server's state after the fresh survey of this index has found g; unchanged unless a method says else."""
        return server

    @abstractmethod
    def start(self, dual: Dual, geometry: AbstractGeometry) -> State:
        """The server's first state, from a dual pair."""

    @abstractmethod
    def local_init(self, server: State, memory: Tree) -> Local:
        """A client's state at the beginning of a round."""

    @abstractmethod
    def local_step(self, local: Local, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Local, Tree, Scalar]:
        """The client's next state, a probe (what outputs are averages of), and the probe's weight."""

    @abstractmethod
    def local_final(self, local: Local, server: State, memory: Tree) -> tuple[Message, Tree]:
        """The message to the server, and what the client remembers."""

    @abstractmethod
    def server_step(self, server: State, message: Message, geometry: AbstractGeometry, fraction: Scalar) -> State:
        """The server's next state from the mean message; `fraction` of all clients took part."""

    @abstractmethod
    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        """The primal point that a probe, or a mean of probes, stands for."""

    @abstractmethod
    def memory(self, server: State) -> Tree:
        """What a client remembers before its first round; None for methods without memory."""


class NoSteps(AbstractMethod[Dual, Dual, None]):
    """The local steps of a method that asks for surveys only."""

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Dual:
        return dual

    def local_init(self, server: Dual, memory: Tree) -> Dual:
        return server

    def local_step(self, local: Dual, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Dual, Dual, Scalar]:
        """The pair stays, with a probe of weight 0."""
        return local, local, 0.0

    def local_final(self, local: Dual, server: Dual, memory: Tree) -> tuple[None, None]:
        """No message, and no memory."""
        return None, None

    def server_step(self, server: Dual, message: None, geometry: AbstractGeometry, fraction: Scalar) -> Dual:
        return server

    def point(self, server: Dual, geometry: AbstractGeometry) -> Tree:
        """The point of the pair."""
        return geometry.primal(server)

    def read(self, probe: Dual, geometry: AbstractGeometry) -> Tree:
        """The point of the pair."""
        return geometry.primal(probe)

    def memory(self, server: Dual) -> None:
        return


def step(name: str, default: float | None = None) -> Any:
    """The field of a step size: stored as an array, so that another value does not recompile; None asks theory."""
    return eqx.field(default=default, converter=partial(step_size, name), metadata={"step": True})


def choice(name: str, default: str, *others: str) -> Any:
    """The field of a choice among words, which is compiled in."""
    return eqx.field(static=True, default=default, converter=partial(one_of, name, choices=(default, *others)))


def switch(name: str) -> Any:
    """The field of something that is off unless asked for, which is compiled in."""
    return eqx.field(static=True, default=False, converter=partial(of_type, name, kind=bool, accepted="True or False"))


def step_size(name: str, value: object) -> Any:
    """A step size as an array; None stays None."""
    return None if value is None else positive(name, value)

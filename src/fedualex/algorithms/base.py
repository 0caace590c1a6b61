"""What a method is: how it starts, steps on a client, and steps on the server."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any, ClassVar, Literal

import equinox as eqx
import numpy as np

from ..geometry import AbstractGeometry, Dual
from ..problems import AbstractProblem
from ..tree import Scalar, Tree
from ..validation import of_type, one_of, positive

Oracle = Callable[[Tree, int], Tree]
"""oracle(z, s): the client's s-th sample of its operator at z in this local step; the method never sees a key."""

Survey = Literal["none", "fresh", "stale", "given"]
StepSize = Any
"""A number > 0, or None for what theory or a rule of the method chooses; stored as an array."""


class AbstractMethod(eqx.Module):
    """A round: the server broadcasts its state; each client runs `local_init`, `local_step` K times and `local_final`;
    the weighted mean of their messages goes to `server_step`.

    With a `survey`, the oracle of a round is corrected in operator space to g_m(z) - g_m(z_ref) + g(z_ref), where g is
    the mean over all clients of their full-batch operators and z_ref is the round's server point ("fresh"), the
    previous round's ("stale"), or one whose operator the server knows already ("given"). A client recomputes its own
    g_m(z_ref), so nobody keeps a memory. A method may want several fresh surveys a round, one after the other, at
    points of its own: the last one corrects the oracle.
    """

    survey: ClassVar[Survey] = "none"
    one_machine: ClassVar[bool] = False
    """Whether the method is defined for a single client with K = 1 only."""
    covered: ClassVar[bool] = False
    """Whether the theorems that choose missing step sizes are about this method; a heuristic if not."""
    private: ClassVar[bool] = False
    """Whether clipping and noise at the clients cover all that they send: one increment of a dual pair a round."""
    linear_sample: ClassVar[int | None] = None
    """The sample of a local step that enters the next state linearly and nothing else; None if there is no such one.

    Where clients share an affine operator with Gaussian noise, a simulator may then draw the mean of these samples at
    once, which has the same law.
    """

    patience: ClassVar[int] = 0
    """Rounds without progress that are usual: a run is not called stalled before so many, however few it has in all."""
    exchanging: ClassVar[bool] = False
    """Whether a round is one exchange that the method itself decides on, a survey or local steps (`FeDualSlide`)."""

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

    def refusal(self, problem: AbstractProblem, clients: int, local_steps: Any) -> str:
        """Why the method cannot be run on this problem with these sizes, in one sentence; empty if it can."""
        if self.one_machine and (clients > 1 or np.max(local_steps) > 1):
            return f"{type(self).__name__} is a method for one machine: use steps=, on one client"
        return ""

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

    def survey_point(self, server: Tree, geometry: AbstractGeometry, index: int) -> Tree:
        """Where the fresh survey of this index is taken: the server's point."""
        return self.point(server, geometry)

    def surveyed(self, server: Tree, g: Tree, geometry: AbstractGeometry, index: int) -> Tree:
        """The server's state that clients are sent once this survey has found g: the same."""
        return server

    @abstractmethod
    def start(self, dual: Dual, geometry: AbstractGeometry) -> Tree:
        """The server's first state, from a dual pair."""

    @abstractmethod
    def local_init(self, server: Tree, memory: Tree) -> Tree:
        """A client's state at the beginning of a round."""

    @abstractmethod
    def local_step(self, local: Tree, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Tree, Tree, Scalar]:
        """The client's next state, a probe (what outputs are averages of), and the probe's weight."""

    @abstractmethod
    def local_final(self, local: Tree, server: Tree, memory: Tree) -> tuple[Tree, Tree]:
        """The message to the server, and what the client remembers."""

    @abstractmethod
    def server_step(self, server: Tree, message: Tree, geometry: AbstractGeometry, fraction: Scalar) -> Tree:
        """The server's next state from the mean message; `fraction` of all clients took part."""

    @abstractmethod
    def point(self, server: Tree, geometry: AbstractGeometry) -> Tree:
        """The server's primal point."""

    @abstractmethod
    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        """The primal point that a probe, or a mean of probes, stands for."""

    @abstractmethod
    def memory(self, server: Tree) -> Tree:
        """What a client remembers before its first round; None for methods without memory."""


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

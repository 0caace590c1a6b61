"""What a method is: how it starts, steps on a client, and steps on the server."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import equinox as eqx

from ..geometry import AbstractGeometry, Dual
from ..tree import Scalar, Tree
from ..validation import positive

Oracle = Callable[[Tree, int], Tree]
"""oracle(z, s): the client's s-th sample of its operator at z in this local step; the method never sees a key."""

Survey = Literal["none", "fresh", "stale"]


class AbstractMethod(eqx.Module):
    """A round: the server broadcasts its state; each client runs `local_init`, `local_step` K times and `local_final`;
    the weighted mean of their messages goes to `server_step`.

    With a `survey`, the oracle of a round is corrected in operator space to g_m(z) - g_m(z_ref) + g(z_ref), where g is
    the mean over all clients of their full-batch operators and z_ref is the round's server point ("fresh") or the
    previous round's ("stale"). A client recomputes its own g_m(z_ref), so nobody keeps a memory.
    """

    survey: ClassVar[Survey] = "none"
    one_machine: ClassVar[bool] = False
    """Whether the method is defined for a single client with K = 1 only."""
    last_call: ClassVar[int | None] = None
    """The sample of a local step that enters the next state linearly and nothing else; None if there is no such one.

    Where clients share an affine operator with Gaussian noise, a simulator may then draw the mean of these samples at
    once, which has the same law.
    """

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


def step_size(name: str, value: Any) -> Any:
    """A step size as an array, so that another value does not recompile; None asks theory for one."""
    return None if value is None else positive(name, value)

"""What a method is: how it starts, steps on a client, and steps on the server."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import equinox as eqx

from .. import tree
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


class AbstractDualMethod(AbstractMethod):
    """State, probes and messages are dual pairs; the server adds eta_s times the mean increment."""

    eta_s: eqx.AbstractVar[Any]

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Dual:
        """The pair itself."""
        return dual

    def local_init(self, server: Dual, memory: None) -> Dual:
        """The server's pair."""
        return server

    def local_final(self, local: Dual, server: Dual, memory: None) -> tuple[Dual, None]:
        """The increment of omega and of its weight."""
        return tree.subtract(local, server), None

    def server_step(self, server: Dual, message: Dual, geometry: AbstractGeometry, fraction: Scalar) -> Dual:
        """(omega, tau) + eta_s (mean increment)."""
        return tree.add(server, tree.scale(self.eta_s, message))

    def point(self, server: Dual, geometry: AbstractGeometry) -> Tree:
        """P_tau(omega)."""
        return geometry.primal(server)

    def read(self, probe: Dual, geometry: AbstractGeometry) -> Tree:
        """P_tau(omega) of the averaged pair."""
        return geometry.primal(probe)

    def memory(self, server: Dual) -> None:
        """None."""
        return


class Primal(eqx.Module):
    """A primal point and the step sizes that led to it, so that a server needs no K."""

    z: Tree
    elapsed: Scalar

    def moved(self, z: Tree, eta: Scalar) -> "Primal":
        """The next point, one step of size eta later."""
        return Primal(z, self.elapsed + eta)


class AbstractPrimalMethod(AbstractMethod):
    """State is a primal point, messages are increments of it, probes are primal points."""

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Primal:
        """The primal point of the pair."""
        return Primal(geometry.primal(dual), dual.tau)

    def local_init(self, server: Primal, memory: None) -> Primal:
        """The server's point."""
        return server

    def local_final(self, local: Primal, server: Primal, memory: None) -> tuple[Primal, None]:
        """The increment, and the step sizes behind it."""
        return tree.subtract(local, server), None

    def point(self, server: Primal, geometry: AbstractGeometry) -> Tree:
        """The point."""
        return server.z

    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        """The probe: means of primal points are primal points."""
        return probe

    def memory(self, server: Primal) -> None:
        """None."""
        return


class AbstractSequential(AbstractMethod):
    """For one machine: the message is the new state, and the server takes it."""

    def local_init(self, server: Tree, memory: None) -> Tree:
        """The state."""
        return server

    def local_final(self, local: Tree, server: Tree, memory: None) -> tuple[Tree, None]:
        """The new state."""
        return local, None

    def server_step(self, server: Tree, message: Tree, geometry: AbstractGeometry, fraction: Scalar) -> Tree:
        """The new state."""
        return message

    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        """The probe, a primal point."""
        return probe

    def memory(self, server: Tree) -> None:
        """None."""
        return


def step_size(name: str, value: Any) -> Any:
    """A step size as an array, so that another value does not recompile; None asks theory for one."""
    return None if value is None else positive(name, value)

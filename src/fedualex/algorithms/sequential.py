"""The family of methods for one machine."""

from ..geometry import AbstractGeometry
from ..tree import Scalar, Tree
from .base import AbstractMethod


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

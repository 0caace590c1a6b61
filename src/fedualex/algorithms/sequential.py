"""The family of methods for one machine."""

from typing import Any, ClassVar

from ..geometry import AbstractGeometry, Euclidean
from ..problems import AbstractProblem
from ..tree import Scalar, Tree
from .base import AbstractMethod


class AbstractSequential(AbstractMethod):
    """For one machine: the message is the new state, and the server takes it."""

    one_machine: ClassVar[bool] = True

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


class AbstractGameMethod(AbstractSequential):
    """For bilinear games in Euclidean geometry on one machine."""

    def refusal(self, problem: AbstractProblem, clients: int, local_steps: Any) -> str:
        """It needs A, and proximal steps in each block alone."""
        parts = (problem.geometry.parts.x, problem.geometry.parts.y)
        if not problem.bilinear or not all(isinstance(part, Euclidean) for part in parts):
            return f"{type(self).__name__} is a method for bilinear games in Euclidean geometry, got {problem!r}"
        return super().refusal(problem, clients, local_steps)

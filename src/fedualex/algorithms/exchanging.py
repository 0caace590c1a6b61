"""Methods that decide themselves, exchange by exchange, what clients are asked for."""

from typing import Any, Protocol, cast, runtime_checkable

from ..bundle import Flat, Known
from ..tree import Saddle, Tree
from .base import AbstractMethod


@runtime_checkable
class Exchanging(Protocol):
    """A method whose rounds are single exchanges: surveys, or local steps of clients.

    Its server's state has `bounds` of the optimal value, `at`, the point of the next survey, and `exchanges`.
    """

    def opened(self, flat: Flat, z: Saddle, local_steps: int) -> Tree:
        """The server before its first exchange, a survey of the projection of z."""
        ...

    def pull(self, flat: Flat, server: Tree, local_steps: int) -> tuple[Tree, Tree] | None:
        """What local steps start from, and the reference (w, g(w)) they are corrected by; None if a survey is next."""
        ...

    def after_steps(self, flat: Flat, server: Tree, mean: Saddle) -> Tree:
        """The server after local steps, of which it is told the weighted mean of all probes."""
        ...

    def after_survey(
        self, flat: Flat, known: Known, server: Tree, operator: Saddle, value: Any, local_steps: int
    ) -> Tree:
        """The server after a survey."""
        ...

    def traffic(self, server: Tree, clients: int, itemsize: int) -> dict[str, int]:
        """Bytes up and down so far."""
        ...


def exchanging(method: AbstractMethod) -> Exchanging | None:
    """The method, if it decides on its exchanges itself."""
    return cast(Exchanging, method) if method.exchanging else None

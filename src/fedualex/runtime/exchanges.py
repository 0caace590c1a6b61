"""Clients of a method that decides itself, exchange by exchange, whether they are surveyed or take local steps."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from .. import tree
from ..algorithms.exchanging import Exchanging, exchanging
from ..certificates.surveys import Surveyed, flat_of, known_of
from ..problems import AbstractProblem
from ..tree import Saddle, Tree
from .clients import Clients
from .kinds import no_sums
from .missing import Missing
from .state import Setup, State
from .status import Stop

T = TypeVar("T")

AVERAGE = "client_average"
"""The sum that the points of local steps come back in."""


def first_exchange(method: Exchanging, setup: Setup, problem: AbstractProblem, z: Saddle) -> State:
    """The state before the first exchange, which is a survey of the projection of z."""
    flat = flat_of(problem)
    server = method.opened(flat, tree.cast(z, jnp.float64), setup.local_steps)
    return State(server, None, None, no_sums(setup, ()), np.asarray(0))


def asked_by(clients: Clients, exact: AbstractProblem, setup: Setup) -> Clients:
    """The clients as a driver asks them: for rounds, or for what a method decides on."""
    method = exchanging(setup.method)
    return clients if method is None else ExchangeClients(clients, method, exact, setup)


class ExchangeClients:
    """The clients of a run, asked for one exchange at a time; `clients` are those who are asked.

    exact: the problem in float64, of which the domain and what is known of f are used, not the data.
    """

    averages: tuple[str, ...] = ()

    def __init__(self, clients: Clients, method: Exchanging, exact: AbstractProblem, setup: Setup):
        self.clients, self.method, self.setup = clients, method, setup
        self.flat = flat_of(exact)
        self.known = known_of(exact, self.flat)
        self.elsewhere, self.unsurveyed, self.sum_error = clients.elsewhere, clients.unsurveyed, clients.sum_error
        self.server_seconds = 0.0

    def survey(self, points: list[Tree]) -> list[Surveyed] | Missing:
        """As they answer."""
        return self.clients.survey(points)

    def local(self, state: State, rounds: int) -> State | Missing:
        """The state after the exchange that the method asks for."""
        server, steps = state.server, self.setup.local_steps
        pull = self._own(lambda: self.method.pull(self.flat, server, steps))
        if pull is None:
            found = self.clients.attempted(self.clients.survey([server.at]))
            if isinstance(found, Missing):
                return found
            if not tree.known_finite(found[0]):
                return Missing("an operator or a value of f is not finite where it was surveyed", Stop.NUMERICAL_ERROR)
            about = found[0].operator, found[0].value
            following = self._own(
                lambda: as_arrays(self.method.after_survey(self.flat, self.known, server, *about, steps))
            )
        else:
            mean = self._mean_point(state, *pull)
            if isinstance(mean, Missing):
                return mean
            following = self._own(lambda: as_arrays(self.method.after_steps(self.flat, server, mean)))
        return replace(state, server=following, round=np.asarray(int(state.round) + 1))

    def _own(self, step: Callable[[], T]) -> T:
        """A step of the server itself, of which the time is taken."""
        began = time.perf_counter()
        found: T = jax.block_until_ready(step())
        self.server_seconds += time.perf_counter() - began
        return found

    def _mean_point(self, state: State, pull: Tree, reference: Tree) -> Tree | Missing:
        """The weighted mean of all points that clients probe in their local steps from `pull`."""
        kind = self.setup.weights.dtype
        sums = no_sums(self.setup, (AVERAGE,))
        start = State(tree.cast(pull, kind), None, tree.cast(reference, kind), sums, state.round)
        found = self.clients.local(start, 1)
        if isinstance(found, Missing):
            return found
        return tree.cast(tree.scale(1 / found.sums.weight, found.sums.points[AVERAGE]), jnp.float64)

    def attempted(self, found: Any) -> Any:
        """As they judge."""
        return self.clients.attempted(found)

    def announce(self) -> bool:
        """As they do."""
        return self.clients.announce()

    def spent(self, state: State) -> dict[str, Any]:
        """As they count, and the seconds of the server's own steps."""
        return {**self.clients.spent(state), "server_seconds": self.server_seconds}

    def ledger(self) -> Tree:
        """Theirs, and the seconds of the server."""
        return self.clients.ledger(), np.asarray(self.server_seconds)

    def restore(self, ledger: Tree) -> None:
        """Continue to count."""
        theirs, seconds = ledger
        self.clients.restore(theirs)
        self.server_seconds = float(seconds)


def as_arrays(server: Tree) -> Tree:
    """The same with arrays for Python's numbers, as a checkpoint has them, and of one type whatever came before."""
    return jax.tree.map(_as_array, server)


def _as_array(leaf: Any) -> Array | NDArray[Any]:
    """Python's numbers become arrays of numpy, which take a tenth of the time that those of jax take."""
    return leaf if isinstance(leaf, jax.Array) and not leaf.weak_type else np.asarray(leaf)

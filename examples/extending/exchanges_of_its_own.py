"""A method that decides itself what clients are asked next: extragradient steps by surveys."""

from typing import Any, NamedTuple

import jax.numpy as jnp

import fedualex as fx
from fedualex.algorithms import Method, Survey


class Walk(NamedTuple):
    """The point of the last whole step, the point that is surveyed next, and whether it is half a step ahead."""

    anchor: Any
    at: Any
    half: Any


class ExtragradientBySurveys(Method):
    """z_half = P(z - eta g(z)); z <- P(z - eta g(z_half)): every exchange is a survey."""

    eta: float
    outputs = ("last",)
    needs_float64 = "operators are exact"

    def init(self, facts, z):
        z = facts.flat.geometry.project(z)
        return Walk(z, z, jnp.asarray(False))

    def ask(self, facts, server):
        return Survey((server.at,))

    def tell(self, facts, server, answer):
        geometry = facts.flat.geometry
        z = geometry.primal(geometry.dual(server.anchor).descend(self.eta, answer[0].operator))
        return Walk(z, z, jnp.asarray(False)) if bool(server.half) else Walk(server.anchor, z, jnp.asarray(True))

    def point(self, server, geometry):
        return server.anchor


game = fx.problems.matrix_game([[1.0, -1.0], [-1.0, 2.0]])
run = fx.solve(game, ExtragradientBySurveys(0.3), rounds=200, tol=1e-3)
assert run.stop is fx.Stop.TOLERANCE

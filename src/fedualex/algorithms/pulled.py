"""The local steps of FeDualSlide: dual extrapolation that is pulled back to the pair where the round began."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from .. import tree
from ..bundle import scaled_primal
from ..geometry import AbstractGeometry, Dual
from ..tree import Scalar, Tree
from .base import AbstractMethod, Oracle, Survey


class Pull(eqx.Module):
    """What clients are sent: the pair where a round begins, the step size, and how strongly it pulls back."""

    dual: Dual
    eta: Any
    rho: Any
    scale: Any
    """Of x's part of ell (`bundle.Flat`)."""


class Pulled(eqx.Module):
    """A client's pair in between, and the weight of its next probe."""

    dual: Dual
    origin: Pull
    weight: Any


class PulledSteps(AbstractMethod):
    """Dual extrapolation with a pull back, for operators corrected to g_m(z) - g_m(w) + g(w) at a given reference w.

        back = (1 - rho) local + rho O
        half = back.descend(eta, g(P(local)));   local <- back.descend(eta, g(P(half)))

    Probes are the points P(half), of weight (1 - rho)^(K - 1 - k) up to a common factor; their weighted mean is all
    that the server uses. rho = 0 is the local step of `FeDualEx`.
    """

    survey: ClassVar[Survey] = "given"

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Pull:
        """The pair, with a step of size 0."""
        nothing = jnp.zeros((), jnp.result_type(dual.tau))
        return Pull(dual, nothing, nothing, nothing + 1)

    def local_init(self, server: Pull, memory: None) -> Pulled:
        """At the pair."""
        return Pulled(server.dual, server, jnp.ones_like(server.rho))

    def local_step(self, local: Pulled, oracle: Oracle, geometry: Any) -> tuple[Pulled, Tree, Scalar]:
        """The half point is the probe."""
        eta, rho, scale = local.origin.eta, local.origin.rho, local.origin.scale
        back = tree.add(tree.scale(1 - rho, local.dual), tree.scale(rho, local.origin.dual))
        half = scaled_primal(geometry, back.descend(eta, oracle(scaled_primal(geometry, local.dual, scale), 0)), scale)
        following = back.descend(eta, oracle(half, 1))
        return Pulled(following, local.origin, local.weight / (1 - rho)), half, local.weight

    def local_final(self, local: Pulled, server: Pull, memory: None) -> tuple[None, None]:
        """Nothing but the mean of the probes is used."""
        return None, None

    def server_step(self, server: Pull, message: None, geometry: AbstractGeometry, fraction: Scalar) -> Pull:
        """What becomes of the probes is decided elsewhere."""
        return server

    def point(self, server: Pull, geometry: Any) -> Tree:
        """P of the pair."""
        return scaled_primal(geometry, server.dual, server.scale)

    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        """The half point."""
        return probe

    def memory(self, server: Pull) -> None:
        """None."""
        return

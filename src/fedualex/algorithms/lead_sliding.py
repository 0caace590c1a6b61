"""Sliding with a lead client: one client solves, the others are surveyed."""

from functools import partial
from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp

from .. import tree
from ..accepted import Numbers
from ..geometry import AbstractGeometry, Dual
from ..problems import AbstractProblem
from ..tree import Scalar, Tree
from ..validation import whole_number
from .base import AbstractMethod, Correction, Oracle, StepSize, choice, step

Mode = Literal["extragradient", "optimistic"]


class Sliding(eqx.Module):
    """The pair (grad ell(z), 0), the lead's last answer u, and the weight of its coming survey: 0 before the first."""

    center: Dual
    u: Tree
    weight: Scalar


class Leading(eqx.Module):
    """What the lead was sent, and its own pair."""

    server: Sliding
    pair: Dual


class LeadSliding(AbstractMethod[Sliding, Leading, Dual]):
    """Gradient sliding for operators that are similar: client `lead`, l, solves a proximal problem by itself.

        u <- about the u that has  u = P(grad ell(z) - eta F(u), eta),  F(u) = g_l(u) - g_l(w) + g(w)
        z <- P(grad ell(z) - eta g(u), eta)

    mode "extragradient": w = z, surveyed as u is (Kovalev et al. 2022). mode "optimistic": w is the u before, whose
    survey is there already; without psi and domain, and with exact answers, u <- J(u - eta (2 d(u) - d(u before))) for
    d = g - g_l and the resolvent J of eta g_l: the core of SVOGS (Zhou, Ye and Luo 2024), all clients in every survey.
    Both converge for eta below 1 and 1/2 over the Lipschitz constant of d, however large that of g_l is.

    The lead takes K steps of dual extrapolation, pulled back to O = (grad ell(z), 0), and answers u = P(L):

        back = (1 - rho) L + rho O,  rho = min(eta_c / eta, 1)
        half = back - rho eta F(P(L));  L <- back - rho eta F(P(half))

    An error of the answer shrinks by 1 - rho a step if (eta_c beta)^2 <= 1 - rho. The probe is the u of the survey.
    A round surveys u, then z if it is "extragradient", then asks the lead: 2 or 3 exchanges. The papers count 1 and 2,
    because there the server itself has the lead's data.
    """

    eta: StepSize = step("eta")
    eta_c: StepSize = step("eta_c")
    mode: Mode = choice("LeadSliding: mode", "extragradient", "optimistic")
    lead: int = eqx.field(static=True, default=0, converter=partial(whole_number, "LeadSliding: lead", least=0))
    survey: ClassVar[Correction] = "fresh"

    @property
    def surveys(self) -> int:
        """At u, and at z for "extragradient"."""
        return 2 if self.mode == "extragradient" else 1

    def theory_steps(self, eta: float, beta: float, rounds: int) -> dict[str, float]:
        """eta_c = eta / (1 + eta beta), which the lead's steps converge with."""
        eta = eta if self.eta is None else float(self.eta)
        return {"eta": eta, "eta_c": eta / (1 + eta * beta)}

    def refusal(self, problem: AbstractProblem, clients: int, local_steps: Numbers) -> str:
        """Refused unless the lead is one of the clients."""
        return "" if self.lead < clients else f"LeadSliding: lead must be one of {clients} clients, got {self.lead}"

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Sliding:
        """The primal point is z and u."""
        z = geometry.primal(dual)
        return Sliding(geometry.dual(z), z, 0 * dual.tau)

    def survey_point(self, server: Sliding, geometry: AbstractGeometry, index: int) -> Tree:
        return server.u if index == 0 else geometry.primal(server.center)

    def surveyed(self, server: Sliding, g: Tree, geometry: AbstractGeometry, index: int) -> Sliding:
        """z <- P(grad ell(z) - eta g(u), eta) after the survey at u."""
        z = geometry.primal(server.center.descend(server.weight, g))
        return server if index else Sliding(geometry.dual(z), server.u, server.weight)

    def local_init(self, server: Sliding, memory: None) -> Leading:
        """The lead begins at O."""
        return Leading(server, server.center)

    def local_step(self, local: Leading, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Leading, Tree, Scalar]:
        """The u that was surveyed is the probe."""
        rho = jnp.minimum(self.eta_c / self.eta, 1.0)
        back = tree.add(tree.scale(1 - rho, local.pair), tree.scale(rho, local.server.center))
        half = back.descend(rho * self.eta, oracle(geometry.primal(local.pair), 0))
        pair = back.descend(rho * self.eta, oracle(geometry.primal(half), 1))
        return Leading(local.server, pair), local.server.u, local.server.weight

    def local_final(self, local: Leading, server: Sliding, memory: None) -> tuple[Dual, None]:
        """The lead's last pair L."""
        return local.pair, None

    def server_step(self, server: Sliding, message: Dual, geometry: AbstractGeometry, fraction: Scalar) -> Sliding:
        """u = P(L), to be surveyed with weight eta."""
        return Sliding(server.center, geometry.primal(message), self.eta)

    def point(self, server: Sliding, geometry: AbstractGeometry) -> Tree:
        """u, the newest point."""
        return server.u

    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        return probe

    def memory(self, server: Sliding) -> None:
        return

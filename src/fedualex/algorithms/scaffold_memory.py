"""SCAFFOLD's second option: the one method whose clients remember."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..problems import AbstractProblem
from ..tree import Scalar, Tree
from ..validation import short
from .base import AbstractMethod, Oracle, StepSize, step
from .plain import descend
from .primal import Primal


class Controlled(eqx.Module):
    """A point and a control variate in operator space."""

    primal: Primal
    control: Tree


class ScaffoldSMemory(AbstractMethod):
    """SCAFFOLD-S, second option: control variates from the clients' own path, kept by the clients between rounds.

        z   <- project(z - eta_c (g_m(z) + s(z) - c_m + c))
        c_m <- c_m - c + (z_r - z_K) / (K eta_c);   c <- c + fraction mean(c_m new - c_m)

    Exact without psi and domain; with them the control absorbs subgradients and projections, and `ScaffoldS` is right.

    eta_c, eta_s: the step sizes of clients, from theory if None, and of the server.
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)

    def refusal(self, problem: AbstractProblem, clients: int, local_steps: Any) -> str:
        """Its control variates divide by the K that all clients have."""
        if np.min(local_steps) == np.max(local_steps):
            return ""
        return f"ScaffoldSMemory takes the same number of local_steps on all clients, got {short(local_steps)}"

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Controlled:
        """The primal point, and c = 0."""
        z = geometry.primal(dual)
        return Controlled(Primal(z, dual.tau), tree.scale(0.0, z))

    def memory(self, server: Controlled) -> Tree:
        """c_m = 0."""
        return tree.scale(0.0, server.control)

    def local_init(self, server: Controlled, memory: Tree) -> Controlled:
        """The server's point, and c - c_m."""
        return Controlled(server.primal, tree.subtract(server.control, memory))

    def local_step(
        self, local: Controlled, oracle: Oracle, geometry: AbstractGeometry
    ) -> tuple[Controlled, Tree, Scalar]:
        """The new point is the probe."""

        def controlled(z: Tree, sample: int) -> Tree:
            return tree.add(oracle(z, sample), local.control)

        z = descend(local.primal.z, local.primal.z, self.eta_c, controlled, 0, geometry)
        return Controlled(local.primal.moved(z, self.eta_c), local.control), z, self.eta_c

    def local_final(self, local: Controlled, server: Controlled, memory: Tree) -> tuple[Controlled, Tree]:
        """The increments of the point and of the client's control variate."""
        moved = tree.subtract(local.primal, server.primal)
        path = tree.scale(-1 / jnp.asarray(moved.elapsed), moved.z)
        control = tree.subtract(path, local.control)
        return Controlled(moved, tree.subtract(control, memory)), control

    def server_step(
        self, server: Controlled, message: Controlled, geometry: AbstractGeometry, fraction: Scalar
    ) -> Controlled:
        """project(z + eta_s Delta), c + fraction mean(change of c_m)."""
        moved = tree.add(server.primal, tree.scale(self.eta_s, message.primal))
        control = tree.add(server.control, tree.scale(fraction, message.control))
        return Controlled(Primal(geometry.project(moved.z), moved.elapsed), control)

    def point(self, server: Controlled, geometry: AbstractGeometry) -> Tree:
        """The point."""
        return server.primal.z

    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        """The probe."""
        return probe

"""Methods whose state is a point: mirror methods with a prox, and plain ones that project."""

from typing import Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..accepted import Number, Numbers
from ..geometry import AbstractGeometry, Dual
from ..problems import AbstractProblem
from ..tree import Saddle, Scalar, Tree
from ..validation import short
from .base import AbstractMethod, Correction, Oracle, StepSize, choice, step


class Primal(eqx.Module):
    """A primal point and the step sizes that led to it, so that a server needs no K."""

    z: Tree
    elapsed: Scalar

    def move(self, z: Tree, eta: Scalar) -> "Primal":
        """The next point, one step of size eta later."""
        return Primal(z, self.elapsed + eta)


class AbstractPrimalMethod(AbstractMethod[Primal, Primal, Primal]):
    """State is a primal point, messages are increments of it, probes are primal points."""

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Primal:
        """The primal point of the pair."""
        return Primal(geometry.primal(dual), dual.tau)

    def local_init(self, server: Primal, memory: None) -> Primal:
        return server

    def local_final(self, local: Primal, server: Primal, memory: None) -> tuple[Primal, None]:
        """The increment, and the step sizes behind it."""
        return tree.subtract(local, server), None

    def point(self, server: Primal, geometry: AbstractGeometry) -> Tree:
        return server.z

    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        """The probe: means of primal points are primal points."""
        return probe

    def memory(self, server: Primal) -> None:
        return


# What FedMiP and FedMiD have in common: the rule of their server.


ServerProx = Literal["paper", "project", "none"]


class AbstractMirrorMethod(AbstractPrimalMethod):
    """The server's rule of FedMiP and FedMiD, with Delta the mean increment of a round of K local steps:

    server_prox="paper":   z <- P(grad ell(z) + eta_s Delta, weight eta_s eta_c K), as printed. Clients and server then
                           both apply psi, so for small steps the method solves the problem with psi doubled.
    server_prox="project": the same with weight 0. In Euclidean geometry this only returns to the domain; in another
                           one a primal difference is added to a dual vector, as in the paper: "none" is better.
    server_prox="none":    z <- z + eta_s Delta: plain averaging. It loses zeros and rank.
    """

    eta_s: eqx.AbstractVar[Any]
    server_prox: eqx.AbstractVar[ServerProx]

    def server_step(self, server: Primal, message: Primal, geometry: AbstractGeometry, fraction: Scalar) -> Primal:
        """The rule that `server_prox` names."""
        step = tree.scale(self.eta_s, message)
        if self.server_prox == "none":
            return tree.add(server, step)
        omega = tree.add(geometry.dual(server.z).omega, step.z)
        weight = step.elapsed if self.server_prox == "paper" else 0 * step.elapsed
        return server.move(geometry.primal(Dual(omega, weight)), step.elapsed)


# FedMiP: federated mirror prox (Algorithm 2).


class FedMiP(AbstractMirrorMethod):
    """Federated mirror prox (Algorithm 2): two composite mirror steps, both from z.

        half = P(grad ell(z) - eta_c g(z),    eta_c)
        z   <- P(grad ell(z) - eta_c g(half), eta_c)

    `server_prox` is explained in `AbstractMirrorMethod`; "paper" is as printed. The probe is the half point.
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)
    server_prox: ServerProx = choice("FedMiP: server_prox", "paper", "project", "none")

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The half point is the probe."""
        center = geometry.dual(local.z)
        half = geometry.primal(center.descend(self.eta_c, oracle(local.z, 0)))
        z = geometry.primal(center.descend(self.eta_c, oracle(half, 1)))
        return local.move(z, self.eta_c), half, self.eta_c


# FedMiD: federated mirror descent.


class FedMiD(AbstractMirrorMethod):
    """Federated mirror descent (Yuan, Zaheer, Reddi): a composite mirror step, z <- P(grad ell(z) - eta_c g(z), eta_c).

    `server_prox` is explained in `AbstractMirrorMethod`; "paper" is as printed. The probe is the new point.
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)
    server_prox: ServerProx = choice("FedMiD: server_prox", "paper", "project", "none")

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The new point is the probe."""
        z = geometry.primal(geometry.dual(local.z).descend(self.eta_c, oracle(local.z, 0)))
        return local.move(z, self.eta_c), z, self.eta_c


# Without a proximal step: psi enters through a subgradient, the domain through a projection.


class AbstractPlainMethod(AbstractPrimalMethod):
    """The server projects: z <- project(z + eta_s mean increment)."""

    eta_s: eqx.AbstractVar[Any]

    def server_step(self, server: Primal, message: Primal, geometry: AbstractGeometry, fraction: Scalar) -> Primal:
        """project(z + eta_s Delta)."""
        moved = tree.add(server, tree.scale(self.eta_s, message))
        return Primal(geometry.project(moved.z), moved.elapsed)


def descend(start: Tree, at: Tree, eta: Scalar, oracle: Oracle, sample: int, geometry: AbstractGeometry) -> Tree:
    """project(start - eta (g + s)(at)), as a mirror step of weight 0."""
    slope = tree.add(oracle(at, sample), geometry.subgradient(at))
    omega = tree.subtract(geometry.dual(start).omega, tree.scale(eta, slope))
    return geometry.primal(Dual(omega, 0 * eta))


# FedAvg, for minimization and on saddle points.


class FedAvgS(AbstractPlainMethod):
    """FedAvg on a saddle point, descending and ascending at once: z <- project(z - eta_c (g + s)(z)), s(z) in d psi(z).

    In another geometry than the Euclidean, the step is a mirror step. For plain minimization it is `FedAvg`; the probe
    is the new point. Hou et al. 2021.
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The new point is the probe."""
        z = descend(local.z, local.z, self.eta_c, oracle, 0, geometry)
        return local.move(z, self.eta_c), z, self.eta_c


def FedAvg(eta_c: Number | None = None, eta_s: Number = 1.0) -> FedAvgS:
    """Local SGD with averaging, for plain minimization: `FedAvgS` on a problem without y.

    eta_c, eta_s: the step sizes of clients, from theory if None, and of the server.
    """
    return FedAvgS(eta_c, eta_s)


# Local SGDA: its own step for each block.


class LocalSGDA(AbstractPlainMethod):
    """Local stochastic gradient descent ascent with its own step for each block: `FedAvgS` with eta_x and eta_y."""

    eta_x: StepSize = step("eta_x")
    eta_y: StepSize = step("eta_y")
    eta_s: StepSize = step("eta_s", 1.0)

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The new point is the probe, with weight 1: the two blocks have no common step."""
        slope = tree.add(oracle(local.z, 0), geometry.subgradient(local.z))
        step = Saddle(tree.scale(self.eta_x, slope.x), tree.scale(self.eta_y, slope.y))
        omega = tree.subtract(geometry.dual(local.z).omega, step)
        z = geometry.primal(Dual(omega, 0 * self.eta_x))
        return local.move(z, self.eta_x), z, 1.0


# Extra Step Local SGD.


class ExtraStepLocalSGD(AbstractPlainMethod):
    """Extra Step Local SGD (Beznosikov et al. 2020): FedAvgS with an extra step, both from z. The probe is the half.

    half = project(z - eta_c (g + s)(z));  z <- project(z - eta_c (g + s)(half)).
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The half point is the probe."""
        half = descend(local.z, local.z, self.eta_c, oracle, 0, geometry)
        z = descend(local.z, half, self.eta_c, oracle, 1, geometry)
        return local.move(z, self.eta_c), half, self.eta_c


# FedGDA-GT: federated gradient descent ascent with gradient tracking, and a proximal step.


class FedGDAGT(AbstractPlainMethod):
    """FedGDA-GT (Sun and Wei 2022): descent ascent from z_r with a tracked operator, here with a composite mirror step.

        z  <- P(grad ell(z) - eta_c (g_m(z) - g_m(z_r) + g(z_r)), eta_c)      K times on every client
        z_r <- project(z_r + eta_s mean(z - z_r))

    The tracked operator is the fresh survey of `AbstractMethod`. Without psi and domain, with eta_s = 1, it is
    FedGDA-GT as printed, which converges linearly for strongly convex-concave f and small eta_c; on a bilinear game
    descent ascent does not converge. `ScaffoldS` is the same with a subgradient of psi. The probe is the new point.
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)
    survey: ClassVar[Correction] = "fresh"

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The new point is the probe; the oracle is corrected."""
        z = geometry.primal(geometry.dual(local.z).descend(self.eta_c, oracle(local.z, 0)))
        return local.move(z, self.eta_c), z, self.eta_c


# SCAFFOLD-S, first option: control variates by survey.


class ScaffoldS(AbstractPlainMethod):
    """SCAFFOLD on a saddle point (Hou et al. 2021), first option: the control variates are full-batch operators at z_r.

    z <- project(z - eta_c (g_m(z) + s(z) - c_m + c)), c_m = g_m(z_r), c their mean: the survey of `AbstractMethod`.
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)
    survey: ClassVar[Correction] = "fresh"

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The new point is the probe; the oracle is corrected."""
        z = descend(local.z, local.z, self.eta_c, oracle, 0, geometry)
        return local.move(z, self.eta_c), z, self.eta_c


# SCAFFOLD's second option: the one method whose clients remember.


class Controlled(eqx.Module):
    """A point and a control variate in operator space."""

    primal: Primal
    control: Tree


class ScaffoldSMemory(AbstractMethod[Controlled, Controlled, Controlled]):
    """SCAFFOLD-S, second option: control variates from the clients' own path, kept by the clients between rounds.

        z   <- project(z - eta_c (g_m(z) + s(z) - c_m + c))
        c_m <- c_m - c + (z_r - z_K) / (K eta_c);   c <- c + fraction mean(c_m new - c_m)

    Exact without psi and domain; with them the control absorbs subgradients and projections, and `ScaffoldS` is right.

    eta_c, eta_s: the step sizes of clients, from theory if None, and of the server.
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)

    def refusal(self, problem: AbstractProblem, clients: int, local_steps: Numbers) -> str:
        """Refused unless all clients take equally many steps: its control variates divide by their number."""
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

        def add_control(z: Tree, sample: int) -> Tree:
            return tree.add(oracle(z, sample), local.control)

        z = descend(local.primal.z, local.primal.z, self.eta_c, add_control, 0, geometry)
        return Controlled(local.primal.move(z, self.eta_c), local.control), z, self.eta_c

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
        return server.primal.z

    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        return probe

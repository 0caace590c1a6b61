"""Methods for one machine, which federated ones come from."""

from typing import Any, ClassVar, Generic

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from .. import tree
from ..accepted import Number, Numbers
from ..geometry import AbstractGeometry, Dual
from ..problems import AbstractProblem
from ..tree import Saddle, Scalar, Tree
from ..validation import real_scalar
from .base import AbstractMethod, Oracle, State, StepSize, step, step_size
from .dual import FedDualAvg, FeDualEx, extrapolate
from .primal import ExtraStepLocalSGD, FedAvgS, FedMiD, FedMiP


class AbstractSequential(AbstractMethod[State, State, State], Generic[State]):
    """For one machine: the message is the new state, and the server takes it."""

    one_machine: ClassVar[bool] = True

    def local_init(self, server: State, memory: None) -> State:
        return server

    def local_final(self, local: State, server: State, memory: None) -> tuple[State, None]:
        return local, None

    def server_step(self, server: State, message: State, geometry: AbstractGeometry, fraction: Scalar) -> State:
        return message

    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        """The probe, a primal point."""
        return probe

    def memory(self, server: State) -> None:
        return


class AbstractGameMethod(AbstractSequential[State], Generic[State]):
    """For bilinear games in Euclidean geometry on one machine."""

    def refusal(self, problem: AbstractProblem, clients: int, local_steps: Numbers) -> str:
        """Refused unless there is a matrix A, and proximal steps act on each block alone."""
        parts = (problem.geometry.parts.x, problem.geometry.parts.y)
        if not problem.bilinear or not all(part.power == 2 for part in parts):
            return f"{type(self).__name__} is a method for bilinear games in Euclidean geometry, got {problem!r}"
        return super().refusal(problem, clients, local_steps)


# Step sizes found on the way: one try a step, accepted or refused, so that no constant is needed.


class DualTry(eqx.Module):
    """A dual pair and the step size to try next."""

    dual: Dual
    eta: Scalar


class BacktrackingDualExtrapolation(AbstractSequential[DualTry]):
    """Composite dual extrapolation (Algorithm 4) without noise, with a step size that is tried before it is taken.

    A try of size eta is accepted if eta <g(half) - g(z), half - z+> <= V_z(half) + V_half(z+), which is enough
    for the proof of Theorem 4; then gap <= B0 / (sum of accepted steps). A refused try moves nothing and halves eta; an
    accepted one multiplies it by `growth`. growth=1 is plain backtracking from above; with growth > 1 the step also
    recovers, and any first `eta` will do. A try costs two operator calls either way; a refused probe has weight 0.
    """

    eta: StepSize = step("eta", 1.0)
    growth: Any = eqx.field(default=1.0, converter=lambda value: at_least_one("growth", value))

    def start(self, dual: Dual, geometry: AbstractGeometry) -> DualTry:
        """The pair, and the first step to try."""
        return DualTry(dual, jnp.asarray(self.eta, jnp.result_type(dual.tau)))

    def local_step(self, local: DualTry, oracle: Oracle, geometry: AbstractGeometry) -> tuple[DualTry, Tree, Scalar]:
        """One try; the half point is the probe, with weight eta or 0."""
        seen: list[tuple[Tree, Tree]] = []

        def watch(z: Tree, sample: int) -> Tree:
            seen.append((z, oracle(z, sample)))
            return seen[-1][1]

        following, _, eta = extrapolate(local.dual, local.eta, watch, geometry)
        (z, g), (half, g_half) = seen
        z_next = geometry.primal(following)
        accepted = is_acceptable(eta, z, half, z_next, tree.subtract(g_half, g), geometry)
        dual = tree.where(accepted, following, local.dual)
        return DualTry(dual, jnp.where(accepted, eta * self.growth, eta / 2)), half, jnp.where(accepted, eta, 0)

    def point(self, server: DualTry, geometry: AbstractGeometry) -> Tree:
        """P of the pair."""
        return geometry.primal(server.dual)


class PrimalTry(eqx.Module):
    """A point and the step size to try next."""

    z: Tree
    eta: Scalar


class BacktrackingCoMP(AbstractSequential[PrimalTry]):
    """Composite mirror prox without noise, with the tries of `BacktrackingDualExtrapolation` and its bound.

    eta, growth: the first step that is tried, and by what it is multiplied after an accepted try.
    """

    eta: StepSize = step("eta", 1.0)
    growth: Any = eqx.field(default=1.0, converter=lambda value: at_least_one("growth", value))

    def start(self, dual: Dual, geometry: AbstractGeometry) -> PrimalTry:
        """The primal point, and the first step to try."""
        return PrimalTry(geometry.primal(dual), jnp.asarray(self.eta, jnp.result_type(dual.tau)))

    def local_step(
        self, local: PrimalTry, oracle: Oracle, geometry: AbstractGeometry
    ) -> tuple[PrimalTry, Tree, Scalar]:
        """One try; the half point is the probe, with weight eta or 0."""
        z, eta = local.z, local.eta
        center, g = geometry.dual(z), oracle(z, 0)
        half = geometry.primal(center.descend(eta, g))
        g_half = oracle(half, 1)
        z_next = geometry.primal(center.descend(eta, g_half))
        accepted = is_acceptable(eta, z, half, z_next, tree.subtract(g_half, g), geometry)
        following = PrimalTry(tree.where(accepted, z_next, z), jnp.where(accepted, eta * self.growth, eta / 2))
        return following, half, jnp.where(accepted, eta, 0)

    def point(self, server: PrimalTry, geometry: AbstractGeometry) -> Tree:
        return server.z


def is_acceptable(eta: Number, z: Tree, half: Tree, z_next: Tree, change: Tree, geometry: AbstractGeometry) -> Array:
    """eta <g(half) - g(z), half - z+> <= V_z(half) + V_half(z+)."""
    drift = eta * tree.dot(change, tree.subtract(half, z_next))
    return jnp.asarray(drift) <= geometry.divergence(half, z) + geometry.divergence(z_next, half)


def at_least_one(name: str, value: object) -> Any:
    """`value`, if it is a number >= 1."""
    number = real_scalar(name, value, "a number >= 1")
    if number < 1:
        raise ValueError(f"{name} must be a number >= 1, got {float(number)!r}")
    return number


def AdaptiveDualExtrapolation(eta: Number = 1.0) -> BacktrackingDualExtrapolation:
    """Dual extrapolation that needs no constants: backtracking whose step grows by 5% after every accepted try.

    eta: the first step that is tried; any number > 0 will do.
    """
    return BacktrackingDualExtrapolation(eta, growth=1.05)


# The primal-dual method of Chambolle and Pock.


class ChambollePock(AbstractGameMethod[Saddle]):
    """The primal-dual method of Chambolle and Pock (2011) for bilinear games in Euclidean geometry.

        x+ = prox(x - tau_x A^T y, tau_x);   y+ = prox(y + tau_y (A (2 x+ - x) - b), tau_y)

    tau_x tau_y ||A||^2 <= 1; the probe is the new pair. The operator at (x+, y) gives A x+ - b, at (x, y) the rest.
    """

    tau_x: StepSize = step("tau_x")
    tau_y: StepSize = step("tau_y")

    def theory_steps(self, eta: float, beta: float, rounds: int) -> dict[str, float]:
        """tau_x tau_y beta^2 = 1."""
        x, y = (1 / beta if tau is None else 1 / (float(tau) * beta**2) for tau in (self.tau_y, self.tau_x))
        return {"tau_x": x, "tau_y": y}

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Saddle:
        return geometry.primal(dual)

    def local_step(self, local: Saddle, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Saddle, Saddle, Scalar]:
        """The new point is the probe."""
        here = oracle(local, 0)
        step = Saddle(tree.scale(self.tau_x, here.x), tree.scale(0.0, here.y))
        x = geometry.primal(Dual(tree.subtract(local, step), self.tau_x)).x
        ahead = oracle(Saddle(x, local.y), 1).y
        extrapolated = tree.subtract(tree.scale(2.0, ahead), here.y)
        y = geometry.primal(Dual(Saddle(x, tree.subtract(local.y, tree.scale(self.tau_y, extrapolated))), self.tau_y)).y
        return Saddle(x, y), Saddle(x, y), 1.0

    def point(self, server: Saddle, geometry: AbstractGeometry) -> Saddle:
        return server


# Nesterov's dual extrapolation.


class NesterovDualExtrapolation(AbstractSequential[Dual]):
    """Nesterov's dual extrapolation (2007) for psi = 0; a psi that is there enters through its subgradient.

        half  = P(grad ell(z) - eta g(z), 0),  z = P(omega, 0);   omega <- omega - eta g(half)

    Algorithm 4 with psi = 0 starts its half step from omega instead: the two agree while the domain is not active.
    """

    eta: StepSize = step("eta")

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Dual:
        """The pair itself; its weight stays what it is."""
        return dual

    def local_step(self, local: Dual, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Dual, Tree, Scalar]:
        """The half point is the probe."""
        z = geometry.primal(local)
        slope = tree.add(oracle(z, 0), geometry.subgradient(z))
        half = geometry.generalized_prox(geometry.dual(z), tree.scale(self.eta, slope))
        slope = tree.add(oracle(half, 1), geometry.subgradient(half))
        return Dual(tree.subtract(local.omega, tree.scale(self.eta, slope)), local.tau), half, self.eta

    def point(self, server: Dual, geometry: AbstractGeometry) -> Tree:
        """P(omega, 0)."""
        return geometry.primal(server)


# Optimistic mirror descent.


class Past(eqx.Module):
    """A point and the operator one step before it; `first` until there is one."""

    z: Tree
    before: Tree
    first: Any


class OptimisticMirrorDescent(AbstractSequential[Past]):
    """Optimistic mirror descent: one operator a step, z <- P(grad ell(z) - eta (2 g(z) - g(z before)), eta).

    In the first step the operator before is g(z_0). eta <= 1 / (2 beta); the probe is the new point. Popov 1980;
    Jiang and Mokhtari 2022.
    """

    eta: StepSize = step("eta")

    def theory_steps(self, eta: float, beta: float, rounds: int) -> dict[str, float]:
        """The step of theory, at most 1 / (2 beta)."""
        return {"eta": min(eta, 1 / (2 * beta))}

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Past:
        """The primal point, without a past."""
        z = geometry.primal(dual)
        return Past(z, tree.scale(0.0, z), jnp.ones((), jnp.result_type(dual.tau)))

    def local_step(self, local: Past, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Past, Tree, Scalar]:
        """The new point is the probe."""
        g = oracle(local.z, 0)
        before = tree.add(tree.scale(local.first, g), tree.scale(1 - local.first, local.before))
        optimistic = tree.subtract(tree.scale(2.0, g), before)
        z = geometry.primal(geometry.dual(local.z).descend(self.eta, optimistic))
        return Past(z, g, 0 * local.first), z, self.eta

    def point(self, server: Past, geometry: AbstractGeometry) -> Tree:
        return server.z


# Tseng's accelerated proximal gradient.


class Smoothed(eqx.Module):
    """Tseng's three sequences and his theta."""

    x: Tree
    w: Tree
    mean_y: Tree
    theta: Any


class TsengAPG(AbstractGameMethod[Smoothed]):
    """Tseng's accelerated proximal gradient on the smoothed primal of a Euclidean bilinear game, for a fixed T.

        u = (1 - theta) x + theta w;   v = argmax <A u - b, v> - psi_2(v) - mu/2 ||v||^2;
        w <- argmin <A^T v, w> + psi_1(w) + theta L/2 ||w - w_old||^2;   x <- (1 - theta) x + theta w

    L = beta^2 / mu. The answer is the last (x, mean v): `last`. Tseng 2008; bound 4 beta sqrt(B_x B_y) / (T + 1).
    """

    mu: StepSize = step("mu")
    L: StepSize = step("L")

    def theory_steps(self, eta: float, beta: float, rounds: int) -> dict[str, float]:
        """The smoothing for a fixed number of steps and blocks of equal size."""
        mu = 2 * beta / (rounds + 1) if self.mu is None else float(self.mu)
        return {"mu": mu, "L": beta**2 / mu}

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Smoothed:
        """x = w = x_0, theta = 1."""
        z = geometry.primal(dual)
        return Smoothed(z.x, z.x, tree.scale(0.0, z.y), jnp.ones((), jnp.result_type(dual.tau)))

    def local_step(
        self, local: Smoothed, oracle: Oracle, geometry: AbstractGeometry
    ) -> tuple[Smoothed, Saddle, Scalar]:
        """The current answer is the probe."""
        theta = local.theta
        u = _mix(theta, local.x, local.w)
        slope = oracle(Saddle(u, local.mean_y), 0).y  # b - A u
        v = geometry.primal(Dual(Saddle(u, tree.scale(-1 / self.mu, slope)), 1 / self.mu)).y
        weight = 1 / (theta * self.L)
        gradient = oracle(Saddle(u, v), 1).x  # A^T v
        w = geometry.primal(Dual(Saddle(tree.subtract(local.w, tree.scale(weight, gradient)), v), weight)).x
        x, mean_y = _mix(theta, local.x, w), _mix(theta, local.mean_y, v)
        following = (jnp.sqrt(theta**4 + 4 * theta**2) - theta**2) / 2
        return Smoothed(x, w, mean_y, following), Saddle(x, mean_y), 1.0

    def point(self, server: Smoothed, geometry: AbstractGeometry) -> Saddle:
        """(x, mean v)."""
        return Saddle(server.x, server.mean_y)


def _mix(theta: Scalar, a: Tree, b: Tree) -> Tree:
    return tree.add(tree.scale(1 - jnp.asarray(theta), a), tree.scale(theta, b))


# One-machine names of federated methods: with M = 1, eta_s = 1 they are the same method.


def StochasticDualExtrapolation(eta: Number | None = None) -> FeDualEx:
    """Algorithm 3: `FeDualEx` on one machine.

    eta: the step size; from theory if None.
    """
    return FeDualEx(eta_c=step_size("eta", eta))


def CompositeDualExtrapolation(eta: Number | None = None) -> FeDualEx:
    """Algorithm 4: `FeDualEx` on one machine, without noise. Theorem 4: gap <= B0 / (eta T) for eta <= 1 / beta."""
    return FeDualEx(eta_c=step_size("eta", eta))


def DualAveraging(eta: Number | None = None) -> FedDualAvg:
    """Regularized dual averaging (Xiao 2010), constant step: `FedDualAvg` on one machine.

    eta: the step size; from theory if None.
    """
    return FedDualAvg(eta_c=step_size("eta", eta))


def CompositeMirrorDescent(eta: Number | None = None) -> FedMiD:
    """Composite mirror descent (Duchi et al. 2010): `FedMiD` on one machine without a server prox.

    eta: the step size; from theory if None.
    """
    return FedMiD(eta_c=step_size("eta", eta), server_prox="none")


def CoMP(eta: Number | None = None) -> FedMiP:
    """Composite mirror prox (He, Juditsky, Nemirovski 2015), constant step: `FedMiP` on one machine, no server prox.

    eta: the step size; from theory if None.
    """
    return FedMiP(eta_c=step_size("eta", eta), server_prox="none")


def StochasticMirrorProx(eta: Number | None = None) -> FedMiP:
    """Stochastic mirror prox (Juditsky, Nemirovski and Tauvel 2011): `CoMP` with a noisy oracle.

    eta: the step size; from theory if None.
    """
    return CoMP(eta)


def MirrorDescent(eta: Number | None = None) -> FedAvgS:
    """Mirror descent, z <- P(grad ell(z) - eta (g + s)(z), 0): `FedAvgS` on one machine."""
    return FedAvgS(eta_c=step_size("eta", eta))


def MirrorProx(eta: Number | None = None) -> ExtraStepLocalSGD:
    """Mirror prox (Nemirovski 2004), psi through its subgradient: `ExtraStepLocalSGD` on one machine.

    eta: the step size; from theory if None.
    """
    return ExtraStepLocalSGD(eta_c=step_size("eta", eta))

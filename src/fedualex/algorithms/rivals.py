"""Methods that others proposed for the same problems: worst-client weights, and clients that differ."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..accepted import Number, Numbers
from ..certificates.surveys import Surveyed
from ..geometry import AbstractGeometry, Dual
from ..model_problem import solve_model
from ..problems import AbstractProblem
from ..tree import Saddle, Scalar, Tree
from ..validation import short
from .base import AbstractMethod, Correction, Facts, Method, Oracle, Stepped, StepSize, Survey, step
from .bounding import entries_of, point_of
from .newton import why_no_curvature
from .primal import LocalSGDA, ScaffoldSMemory

# Worst-client weights, by descent in x and ascent in y at different places.


class Snapshot(eqx.Module):
    """A point, the step sizes behind it, and -grad_y f summed along the local steps."""

    z: Saddle
    elapsed: Scalar
    ascent: Tree


class DRFA(AbstractMethod[Snapshot, Snapshot, Snapshot]):
    """Distributionally robust federated averaging (Deng, Kamani and Mahdavi 2020): K local steps in x, one step in y.

        x <- project(x - eta_c (g_x + s)(x, y_r)) on every client, s(x) in d psi_1(x)
        x_{r+1} = project(x_r + eta_s mean increment)
        y_{r+1} = project(y_r - eta_y sum_k (mean_m g_y(x_{m,k}, y_r) + s(y_r)))

    The paper estimates the sum over k from the losses at one local step that is drawn at random, of the mean point of
    that step; here it is the sum itself, at the clients' own points, which costs no second exchange. It draws clients
    by the weights y; here all take part, and f_m holds y. The probe is the point before the step.
    """

    eta_c: StepSize = step("eta_c")
    eta_y: StepSize = step("eta_y")
    eta_s: StepSize = step("eta_s", 1.0)

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Snapshot:
        """The primal point of the pair."""
        z = geometry.primal(dual)
        return Snapshot(z, dual.tau, tree.scale(0.0, z.y))

    def local_init(self, server: Snapshot, memory: None) -> Snapshot:
        return server

    def local_step(self, local: Snapshot, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Snapshot, Tree, Scalar]:
        """x moves, y stays, and its gradient is added up."""
        slope = tree.add(oracle(local.z, 0), geometry.subgradient(local.z))
        omega = tree.subtract(geometry.dual(local.z).omega, tree.scale(self.eta_c, slope))
        x = geometry.primal(Dual(omega, 0 * self.eta_c)).x
        moved = Snapshot(Saddle(x, local.z.y), local.elapsed + self.eta_c, tree.add(local.ascent, slope.y))
        return moved, local.z, 1.0

    def local_final(self, local: Snapshot, server: Snapshot, memory: None) -> tuple[Snapshot, None]:
        return tree.subtract(local, server), None

    def server_step(
        self, server: Snapshot, message: Snapshot, geometry: AbstractGeometry, fraction: Scalar
    ) -> Snapshot:
        """x by the mean increment, y by one step along the mean of its gradients; their sum begins anew."""
        x = tree.add(server.z.x, tree.scale(self.eta_s, message.z.x))
        omega = geometry.dual(Saddle(x, server.z.y)).omega
        ascended = Saddle(omega.x, tree.subtract(omega.y, tree.scale(self.eta_y, message.ascent)))
        z = geometry.primal(Dual(ascended, 0 * server.elapsed))
        return Snapshot(z, server.elapsed + self.eta_s * message.elapsed, server.ascent)

    def point(self, server: Snapshot, geometry: AbstractGeometry) -> Tree:
        return server.z

    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        return probe

    def memory(self, server: Snapshot) -> None:
        return


def AFL(eta_x: Number | None = None, eta_y: Number | None = None) -> LocalSGDA:
    """Agnostic federated learning (Mohri, Sivek and Suresh 2019): `LocalSGDA`, to be run with `local_steps=1`.

    eta_x, eta_y: the step sizes of the two blocks; from theory if None.
    """
    return LocalSGDA(eta_x, eta_y)


class Extrapolated(eqx.Module):
    """A point, -grad_y f at the round before it, and 1 until there is one."""

    z: Saddle
    before: Tree
    first: Scalar


class Bent(eqx.Module):
    """What a client has between its local steps: where the round began, its own x, and the step sizes behind it."""

    start: Saddle
    x: Tree
    elapsed: Scalar


class ScaffPD(AbstractMethod[Extrapolated, Bent, Bent]):
    """Scaff-PD (Yu, Karimireddy, Ma and Jordan 2023): an accelerated primal-dual step with corrected local steps in x.

        y+ = P_y(d(y) - sigma ((1 + theta) g_y(x, y) - theta g_y(x before, y before)), sigma)
        u <- u - eta_c (g_m(u, y+) - g_m(x, y+) + g(x, y+))_x     K times on every client, from x
        x+ = P_x(d(x) - tau (x - mean u) / (K eta_c), tau)

    Two surveys a round: at (x, y), then at (x, y+). The paper forms both from one message for each client, which holds
    its loss and its gradient; here f_m holds the weight y_m, so that a client's own gradient is not on the wire.
    Its clients add psi nowhere, and so here: psi_1 acts at the server. With K = 1 it is the accelerated primal-dual
    method of Hamedani and Aybat (2021), on bilinear games that of Chambolle and Pock with y first. theta = 1 is for
    convex-concave f; the paper's rates O(1 / R^2) and better are for strongly convex losses and steps that change,
    which are not built. Without step sizes: tau = sigma = 1 / (2 beta), eta_c = tau / K. The probe is (x+ before, y+).
    """

    tau: StepSize = step("tau")
    sigma: StepSize = step("sigma")
    eta_c: StepSize = step("eta_c")
    theta: StepSize = step("theta", 1.0)
    survey: ClassVar[Correction] = "fresh"

    @property
    def surveys(self) -> int:
        """At (x, y) and at (x, y+)."""
        return 2

    def theory_steps(self, eta: float, beta: float, rounds: int) -> dict[str, float]:
        """1 / (2 beta) for both blocks, as in the constant case of the accelerated primal-dual method."""
        return {"tau": 1 / (2 * beta), "sigma": 1 / (2 * beta), "eta_c": min(eta, 1 / (2 * beta)), "theta": 1.0}

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Extrapolated:
        """The primal point of the pair, without a past."""
        z = geometry.primal(dual)
        return Extrapolated(z, tree.scale(0.0, z.y), jnp.ones((), jnp.result_type(dual.tau)))

    def surveyed(self, server: Extrapolated, g: Tree, geometry: AbstractGeometry, index: int) -> Extrapolated:
        """y+ after the survey at (x, y); the one at (x, y+) corrects the oracles."""
        if index:
            return server
        before = tree.add(tree.scale(server.first, g.y), tree.scale(1 - server.first, server.before))
        slope = tree.subtract(tree.scale(1 + self.theta, g.y), tree.scale(self.theta, before))
        ascended = geometry.dual(server.z).descend(self.sigma, Saddle(tree.scale(0.0, server.z.x), slope))
        return Extrapolated(Saddle(server.z.x, geometry.primal(ascended).y), g.y, 0 * server.first)

    def local_init(self, server: Extrapolated, memory: None) -> Bent:
        return Bent(server.z, server.z.x, jnp.zeros_like(server.first))

    def local_step(self, local: Bent, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Bent, Tree, Scalar]:
        """A plain step in x at y+; the oracle is corrected."""
        slope = oracle(Saddle(local.x, local.start.y), 0).x
        moved = tree.subtract(local.x, tree.scale(self.eta_c, slope))
        return Bent(local.start, moved, local.elapsed + self.eta_c), local.start, 1.0

    def local_final(self, local: Bent, server: Extrapolated, memory: None) -> tuple[Bent, None]:
        """The way that x went; the start is the server's own."""
        zero = tree.scale(0.0, local.start)
        return Bent(zero, tree.subtract(local.x, server.z.x), local.elapsed), None

    def server_step(
        self, server: Extrapolated, message: Bent, geometry: AbstractGeometry, fraction: Scalar
    ) -> Extrapolated:
        """x+ along the mean way; y+ is there already."""
        slope = tree.scale(-1 / jnp.asarray(message.elapsed), message.x)
        moved = geometry.dual(server.z).descend(self.tau, Saddle(slope, tree.scale(0.0, server.z.y)))
        return Extrapolated(Saddle(geometry.primal(moved).x, server.z.y), server.before, server.first)

    def point(self, server: Extrapolated, geometry: AbstractGeometry) -> Tree:
        return server.z

    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        return probe

    def memory(self, server: Extrapolated) -> None:
        return


# Clients that differ: corrected, regularized local problems, and control variates.


class Centered(eqx.Module):
    """A prox-center v with the mean x of the clients' answers."""

    center: Tree
    x: Tree


class Answer(eqx.Module):
    """A client's answer x with the operator there, and the point that it goes on from."""

    center: Tree
    x: Tree
    g: Tree
    following: Tree


class Reply(eqx.Module):
    """The increment of x, and the operator at the client's x."""

    x: Tree
    g: Tree


class SDANE(AbstractMethod[Centered, Answer, Reply]):
    """S-DANE (Jiang, Rodomanov and Stich 2024), for minimization: local proximal problems about a center of their own.

        x_m about the minimizer of  f_m(x) + <grad f(v) - grad f_m(v), x> + |x - v|^2 / (2 eta)  (+ psi)
        x = mean x_m;   v <- P(d(v) - eta mean grad f_m(x_m), eta)

    K - 1 proximal gradient steps of size eta_c find x_m, and the K-th call of the oracle is at x_m itself, so that a
    client sends x_m with its gradient. The paper's stopping test for the local problem and its line search for eta are
    not built: K and eta are given. psi and the domain, which the paper does not have, enter local steps and the step of
    v by their prox. With K = 1 it is proximal gradient descent with the step eta. The probe is x_m.
    """

    eta: StepSize = step("eta")
    eta_c: StepSize = step("eta_c")
    survey: ClassVar[Correction] = "fresh"

    def theory_steps(self, eta: float, beta: float, rounds: int) -> dict[str, float]:
        """eta_c = eta / (1 + eta beta), which the local steps converge with."""
        eta = eta if self.eta is None else float(self.eta)
        return {"eta": eta, "eta_c": eta / (1 + eta * beta)}

    def refusal(self, problem: AbstractProblem, clients: int, local_steps: Numbers) -> str:
        """Refused where there is something to maximize over, and unless all clients take equally many steps."""
        if any(np.size(leaf) for leaf in jax.tree.leaves(problem.like.y)):
            return f"SDANE is a method for minimization, got a problem with y: {short(problem)}"
        if np.min(local_steps) != np.max(local_steps):
            return f"SDANE takes the same number of local_steps on all clients, got {short(local_steps)}"
        return ""

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Centered:
        """The primal point of the pair is v and x."""
        z = geometry.primal(dual)
        return Centered(z, z)

    def survey_point(self, server: Centered, geometry: AbstractGeometry, index: int) -> Tree:
        return server.center

    def local_init(self, server: Centered, memory: None) -> Answer:
        """The local problem begins at v."""
        return Answer(server.center, server.center, tree.scale(0.0, server.center), server.center)

    def local_step(self, local: Answer, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Answer, Tree, Scalar]:
        """The operator at the newest point, which is the answer, and the step from there."""
        x, rho = local.following, self.eta_c / (self.eta + self.eta_c)
        g = oracle(x, 0)
        here, center = geometry.dual(x).omega, geometry.dual(local.center).omega
        mixed = Dual(tree.add(tree.scale(1 - rho, here), tree.scale(rho, center)), 0 * self.eta)
        return Answer(local.center, x, g, geometry.primal(mixed.descend(rho * self.eta, g))), x, 1.0

    def local_final(self, local: Answer, server: Centered, memory: None) -> tuple[Reply, None]:
        """x_m and the operator there."""
        return Reply(tree.subtract(local.x, server.x), local.g), None

    def server_step(self, server: Centered, message: Reply, geometry: AbstractGeometry, fraction: Scalar) -> Centered:
        """x by the mean of x_m; v along the mean of the operators at x_m, whose corrections cancel."""
        center = geometry.primal(geometry.dual(server.center).descend(self.eta, message.g))
        return Centered(center, geometry.project(tree.add(server.x, message.x)))

    def point(self, server: Centered, geometry: AbstractGeometry) -> Tree:
        return server.x

    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        return probe

    def memory(self, server: Centered) -> None:
        return


def ProxSkipVIP(eta_c: Number | None = None) -> ScaffoldSMemory:
    """ProxSkip-VIP-FL (Zhang, Choudhury, Stich and Loizou 2023), with an exchange after every K-th local step.

        z_m <- z_m - eta_c (g_m(z_m) - h_m) K times;   z = mean z_m;   h_m <- h_m + (z - z_m) / (K eta_c)

    The paper exchanges after a random number of steps, K in the mean. With K itself and all clients it is
    `ScaffoldSMemory` with eta_s = 1: h_m is what that method calls c_m - c. Exact without psi and domain.
    """
    return ScaffoldSMemory(eta_c, 1.0)


# Second derivatives as they are used today.


class ProxNewton(Method[Saddle]):
    """Proximal Newton, whole steps: z <- the solution of 0 in g(z_c) + J(z_c) (z - z_c) + d psi(z).

    For the logistic loss without a penalty it is iteratively reweighted least squares, as DataSHIELD and vantage6 fit
    generalized linear models. No damping, no cuts of dual points, no bounds of its own: `FeDualNewton` adds these.
    """

    needs_float64: ClassVar[str] = "the method works with exact operators"
    asks_curvature: ClassVar[bool] = True
    needs_everybody: ClassVar[bool] = True

    def refusal(self, problem: AbstractProblem, clients: int, local_steps: Numbers) -> str:
        """Refused where clients have no second derivatives."""
        why = why_no_curvature(problem, of_all=True)
        return f"ProxNewton needs second derivatives of all variables: {why}" if why else ""

    def init(self, facts: Facts, z: Saddle) -> Saddle:
        """The start, in the domain."""
        flat = facts.flat
        return point_of(flat, flat.vector(flat.geometry.project(flat.point(entries_of(z)))))

    def ask(self, facts: Facts, server: Saddle) -> Survey:
        """The operator and its Jacobian at the point."""
        return Survey((server,), (True,))

    def tell(self, facts: Facts, server: Saddle, answer: list[Surveyed] | Stepped) -> Saddle:
        assert isinstance(answer, list)
        (seen,) = answer
        assert seen.curvature is not None
        model = solve_model(facts.blocks, entries_of(seen.operator), seen.curvature.jacobian, entries_of(server))
        return point_of(facts.flat, model.point)

    def point(self, server: Saddle, geometry: AbstractGeometry) -> Tree:
        return server

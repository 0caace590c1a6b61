"""Twins of the methods of one machine."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.twins_shared import Oracle, Prox, Result, Space, Vector, soft, start_dual, start_point


def sequential_result(points: list[Vector], probes: list[Vector], **more: Any) -> Result:
    return Result(last=points[-1], ergodic=sum(probes) / len(probes), points=points, **more)


def stochasticDualExtrapolation(
    space: Space, g: Oracle, T: int, eta: float, z0: Vector, init: str = "project", printed: bool = False
) -> Result:
    """Algorithm 3. The half step has ell_{t+1}; `printed` uses the paper's ell_t, which is wrong (E3)."""
    omega = start_dual(space, z0, init)
    points, halves = [], []
    for t in range(T):
        z = space.P(omega, t * eta)  # z_t: ell_t
        z_half = space.P(omega - eta * g(z, t, 0), (t if printed else t + 1) * eta)  # z_{t+1/2}: ell_{t+1}
        omega = omega - eta * g(z_half, t, 1)  # dual variable update
        halves.append(z_half)
        points.append(space.P(omega, (t + 1) * eta))
    return sequential_result(points, halves, omega=omega, theta=T * eta)


def compositeDualExtrapolation(
    space: Space, g: Oracle, T: int, eta: float, z0: Vector, init: str = "project", printed: bool = False
) -> Result:
    """Algorithm 4: Algorithm 3 with an exact operator."""
    return stochasticDualExtrapolation(space, g, T, eta, z0, init, printed)


def nesterovDualExtrapolation(space: Space, g: Oracle, T: int, eta: float, z0: Vector, init: str = "project") -> Result:
    """Nesterov 2007, psi = 0: the half step starts from grad ell(z_t), not from omega_t (E35)."""
    omega = start_dual(space, z0, init)
    points, halves = [], []
    for t in range(T):
        z = space.P(omega, 0.0)
        z_half = space.P(space.grad_ell(z) - eta * g(z, t, 0), 0.0)
        omega = omega - eta * g(z_half, t, 1)
        halves.append(z_half)
        points.append(space.P(omega, 0.0))
    return sequential_result(points, halves, omega=omega, theta=0.0)


def _descent(space: Space, g: Oracle, T: int, eta: float, z0: Vector, init: str, weight: float) -> Result:
    z, points = start_point(space, z0, init), []
    for t in range(T):
        z = space.P(space.grad_ell(z) - eta * g(z, t, 0), weight)
        points.append(z)
    return sequential_result(points, points)  # mean of z_1..z_T


def mirrorDescent(space: Space, g: Oracle, T: int, eta: float, z0: Vector, init: str = "project") -> Result:
    """z^+ = P_0(grad ell(z) - eta g(z)): psi is ignored, C is not."""
    return _descent(space, g, T, eta, z0, init, 0.0)


def compositeMirrorDescent(space: Space, g: Oracle, T: int, eta: float, z0: Vector, init: str = "project") -> Result:
    """z^+ = P_eta(grad ell(z) - eta g(z)) (Duchi et al.)."""
    return _descent(space, g, T, eta, z0, init, eta)


def dualAveraging(
    space: Space, g: Oracle, T: int, eta: float, z0: Vector, init: str = "project", composite: bool = True
) -> Result:
    """RDA: omega^+ = omega - eta g(z_t), z_{t+1} = P_{(t+1) eta}(omega^+) (E9); plain dual averaging has weight 0.

    The ergodic mean is over z_0..z_{T-1}, the points at which gradients were taken (as in fedDualAvg).
    """
    omega = start_dual(space, z0, init)
    z, points, probes = space.P(omega, 0.0), [], []
    for t in range(T):
        probes.append(z)
        omega = omega - eta * g(z, t, 0)
        z = space.P(omega, (t + 1) * eta if composite else 0.0)
        points.append(z)
    return sequential_result(points, probes, omega=omega, theta=T * eta if composite else 0.0)


def _prox_steps(space: Space, g: Oracle, T: int, eta: float, z0: Vector, init: str, weight: float) -> Result:
    z, points, halves = start_point(space, z0, init), [], []
    for t in range(T):
        z_half = space.P(space.grad_ell(z) - eta * g(z, t, 0), weight)
        z = space.P(space.grad_ell(z) - eta * g(z_half, t, 1), weight)
        halves.append(z_half)
        points.append(z)
    return sequential_result(points, halves)


def mirrorProx(space: Space, g: Oracle, T: int, eta: float, z0: Vector, init: str = "project") -> Result:
    """Nemirovski 2004: both steps from z, weight 0."""
    return _prox_steps(space, g, T, eta, z0, init, 0.0)


def coMP(space: Space, g: Oracle, T: int, eta: float, z0: Vector, init: str = "project") -> Result:
    """Composite mirror prox: both steps from z, weight eta."""
    return _prox_steps(space, g, T, eta, z0, init, eta)


def stochasticMirrorProx(space: Space, g: Oracle, T: int, eta: float, z0: Vector, init: str = "project") -> Result:
    """Juditsky et al. 2011: coMP with independent samples at the two steps (without psi: the published method)."""
    return _prox_steps(space, g, T, eta, z0, init, eta)


def optimisticMirrorDescent(space: Space, g: Oracle, T: int, eta: float, z0: Vector, init: str = "project") -> Result:
    """z_{k+1} = P_eta(grad ell(z_k) - eta [2 g(z_k) - g(z_{k-1})]), g(z_{-1}) := g(z_0); one gradient a step."""
    z, points = start_point(space, z0, init), []
    previous = None
    for k in range(T):
        current = g(z, k, 0)
        if previous is None:
            previous = current
        z = space.P(space.grad_ell(z) - eta * (2.0 * current - previous), eta)
        previous = current
        points.append(z)
    return sequential_result(points, points)  # mean of z_1..z_N


def chambollePock(
    A: np.ndarray, b: Vector, prox_x: Prox, prox_y: Prox, tau_x: float, tau_y: float, T: int, z0: Vector
) -> Result:
    """PDHG for <Ax - b, y>: prox(v, tau) = argmin tau psi(.) + |. - v|^2/2 over the block's set, z0 in C."""
    n_x = A.shape[1]
    x, y, points = z0[:n_x], z0[n_x:], []
    for _ in range(T):
        x_new = prox_x(x - tau_x * (A.T @ y), tau_x)
        y = prox_y(y + tau_y * (A @ (2.0 * x_new - x) - b), tau_y)
        x = x_new
        points.append(np.concatenate([x, y]))
    return sequential_result(points, points)


def tsengAPG(
    A: np.ndarray, b: Vector, lam_x: float, D_x: float, lam_y: float, D_y: float, T: int, beta: float,
    x0: Vector | None = None,
) -> Result:  # fmt: skip
    """Tseng's accelerated proximal gradient on the smoothed primal of <Ax - b, y>, l1 + box [-D, D] on both blocks.

    Euclidean, y's center 0. The output is (x_T, bar v_T), under both names; T is part of the method (it fixes mu).
    """
    n_y, n_x = A.shape
    x = np.zeros(n_x) if x0 is None else np.clip(x0, -D_x, D_x)
    B_x = 0.5 * float(np.sum((D_x + np.abs(x)) ** 2))  # sup over X of |. - x_0|^2/2
    B_y = 0.5 * n_y * D_y**2  # sup over Y of d_2 = |.|^2/2
    mu = 2.0 * beta * np.sqrt(B_x / B_y) / (T + 1)
    L = beta**2 / mu
    w, v_bar, theta, points = x, np.zeros(n_y), 1.0, []
    for _ in range(T):
        u = (1.0 - theta) * x + theta * w
        v = np.clip(soft(A @ u - b, lam_y) / mu, -D_y, D_y)
        w = np.clip(soft(w - (A.T @ v) / (theta * L), lam_x / (theta * L)), -D_x, D_x)
        x = (1.0 - theta) * x + theta * w
        v_bar = (1.0 - theta) * v_bar + theta * v
        theta = (np.sqrt(theta**4 + 4.0 * theta**2) - theta**2) / 2.0
        points.append(np.concatenate([x, v_bar]))
    return Result(last=points[-1], ergodic=points[-1], points=points)

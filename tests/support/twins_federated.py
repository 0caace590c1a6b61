"""Twins of the federated methods: dual ones, then primal ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from support.twins_shared import (
    Averages,
    ClientOperator,
    ClientOracle,
    Cohorts,
    LocalOracle,
    Result,
    Space,
    Steps,
    Vector,
    all_clients,
    at,
    cohort_weights,
    dual_result,
    increment,
    local_steps,
    mean_steps,
    primal_result,
    start_dual,
    start_point,
)

# --------------------------------------------------------------------------------------------------------------------
# Dual federated methods


def _feDualEx_client(
    space: Space, g: LocalOracle, omega_r: Vector, theta_r: float, K_m: int, eta_c: float
) -> tuple[Vector, list[tuple[Vector, float]], list[Vector]]:
    """Algorithm 1, lines 4-9, for one client: omega^m_{r,K}, its dual probes (omega_half, theta), its z_half."""
    omega, duals, halves = omega_r, [], []  # line 4
    for k in range(K_m):  # line 5
        theta = theta_r + eta_c * k
        z = space.P(omega, theta)  # line 6: ell_{r,k}
        omega_half = omega - eta_c * g(z, k, 0)
        z_half = space.P(omega_half, theta + eta_c)  # line 7: ell_{r,k+1}
        omega = omega - eta_c * g(z_half, k, 1)  # line 8
        duals.append((omega_half, theta + eta_c))
        halves.append(z_half)
    return omega, duals, halves


def _corrected(g: LocalOracle, c_m: Vector, c: Vector) -> LocalOracle:
    """hat g_m(z) = g_m(z) - c_m + c (section 9.2)."""
    return lambda z, k, s: g(z, k, s) - c_m + c


def feDualEx(
    space: Space, g: ClientOracle, M: int, K: Steps, R: int, cohorts: Cohorts, a: Vector,
    eta_c: float, eta_s: float, z0: Vector, init: str = "project",
) -> Result:  # fmt: skip
    """Algorithm 1 (FeDualEx)."""
    K = local_steps(K, M)
    omega, theta = start_dual(space, z0, init), 0.0
    out, points = Averages(K), []
    for r in range(R):  # line 1
        a_r = cohort_weights(a, cohorts[r])  # line 2
        end, duals, halves = {}, {}, {}
        for m in a_r:  # lines 3-9
            end[m], duals[m], halves[m] = _feDualEx_client(space, at(g, m, r), omega, theta, K[m], eta_c)
        out.dual(space, a_r, duals)
        out.primal(a_r, halves)
        omega = omega + eta_s * increment(a_r, K, omega, end)  # lines 12-13
        theta = theta + eta_s * eta_c * mean_steps(a_r, K)
        points.append(space.P(omega, theta))
    return dual_result(out, omega, theta, points)  # line 16


def feDualExCorrected(
    space: Space, g: ClientOracle, full: ClientOperator, M: int, K: Steps, R: int, cohorts: Cohorts, a: Vector,
    eta_c: float, eta_s: float, z0: Vector, init: str = "project", mode: str = "fresh", recenter: bool = False,
) -> Result:  # fmt: skip
    """Section 9.2: Algorithm 1 with hat g_m = g_m - c_m + c at both half steps of every local step.

    recenter: a round ends at its point alone, with omega = grad ell(z) and theta = 0.
    """
    K = local_steps(K, M)
    omega, theta = start_dual(space, z0, init), 0.0
    z_r = z_previous = space.P(omega, theta)
    out, points = Averages(K), []
    for r in range(R):
        a_r = cohort_weights(a, cohorts[r])
        z_ref = {"fresh": z_r, "stale": z_previous}[mode]  # stale: z_{r-1}; z_0 in round 0
        c_clients = [full(m, z_ref) for m in range(M)]
        c = all_clients(a, M, c_clients)  # over ALL clients, not the cohort
        end, duals, halves = {}, {}, {}
        for m in a_r:
            g_hat = _corrected(at(g, m, r), c_clients[m], c)
            end[m], duals[m], halves[m] = _feDualEx_client(space, g_hat, omega, theta, K[m], eta_c)
        out.dual(space, a_r, duals)
        out.primal(a_r, halves)
        omega = omega + eta_s * increment(a_r, K, omega, end)
        theta = theta + eta_s * eta_c * mean_steps(a_r, K)
        z_previous, z_r = z_r, space.P(omega, theta)
        if recenter:
            omega, theta = space.grad_ell(z_r), 0.0
        points.append(z_r)
    return dual_result(out, omega, theta, points)


def _fedDualAvg_client(
    space: Space, g: LocalOracle, omega_r: Vector, theta_r: float, K_m: int, eta_c: float, average: str
) -> tuple[Vector, list[tuple[Vector, float]], list[Vector]]:
    omega, duals = omega_r, [(omega_r, theta_r)]
    for k in range(K_m):
        omega = omega - eta_c * g(space.P(omega, theta_r + eta_c * k), k, 0)
        duals.append((omega, theta_r + eta_c * (k + 1)))
    duals = duals[:-1] if average == "before" else duals[1:]  # E36
    return omega, duals, [space.P(*dual) for dual in duals]


def fedDualAvg(
    space: Space, g: ClientOracle, M: int, K: Steps, R: int, cohorts: Cohorts, a: Vector,
    eta_c: float, eta_s: float, z0: Vector, init: str = "project", average: str = "before",
) -> Result:  # fmt: skip
    """Section 2.4 (Federated Dual Averaging), simultaneous saddle version."""
    K = local_steps(K, M)
    omega, theta = start_dual(space, z0, init), 0.0
    out, points = Averages(K), []
    for r in range(R):
        a_r = cohort_weights(a, cohorts[r])
        end, duals, own = {}, {}, {}
        for m in a_r:
            end[m], duals[m], own[m] = _fedDualAvg_client(space, at(g, m, r), omega, theta, K[m], eta_c, average)
        out.dual(space, a_r, duals)
        out.primal(a_r, own)
        omega = omega + eta_s * increment(a_r, K, omega, end)
        theta = theta + eta_s * eta_c * mean_steps(a_r, K)
        points.append(space.P(omega, theta))
    return dual_result(out, omega, theta, points)


# --------------------------------------------------------------------------------------------------------------------
# Primal federated methods


def _mirror_server(
    space: Space, z_r: Vector, a_r: dict[int, float], K: list[int], end: dict[int, Vector],
    eta_c: float, eta_s: float, server_prox: str, difference: str,
) -> Vector:  # fmt: skip
    """Algorithm 2, lines 12-13: z_{r+1} = P_{eta_s eta_c K}(grad ell(z_r) + eta_s Delta_r), and its variants (E4)."""
    Delta = increment(a_r, K, z_r, end)  # line 12: a primal difference
    if server_prox == "none":
        return z_r + eta_s * Delta
    if difference == "dual":
        Delta = increment(a_r, K, space.grad_ell(z_r), {m: space.grad_ell(end[m]) for m in end})
    weight = {"paper": eta_s * eta_c * mean_steps(a_r, K), "project": 0.0}[server_prox]
    return space.P(space.grad_ell(z_r) + eta_s * Delta, weight)  # line 13


def _fedMiP_client(
    space: Space, g: LocalOracle, z_r: Vector, K_m: int, eta_c: float, weight: float
) -> tuple[Vector, list[Vector]]:
    """Algorithm 2, lines 4-8: both steps from grad ell(z), weight eta_c each; the probes are the half points."""
    z, halves = z_r, []  # line 4
    for k in range(K_m):  # line 5
        z_half = space.P(space.grad_ell(z) - eta_c * g(z, k, 0), weight)  # line 6
        z = space.P(space.grad_ell(z) - eta_c * g(z_half, k, 1), weight)  # line 7
        halves.append(z_half)
    return z, halves


def _fedMiD_client(
    space: Space, g: LocalOracle, z_r: Vector, K_m: int, eta_c: float, weight: float
) -> tuple[Vector, list[Vector]]:
    """One composite mirror descent step a time; the probes are the new points."""
    z, news = z_r, []
    for k in range(K_m):
        z = space.P(space.grad_ell(z) - eta_c * g(z, k, 0), weight)
        news.append(z)
    return z, news


def _mirror_rounds(
    client: Callable[..., tuple[Vector, list[Vector]]],
    space: Space, g: ClientOracle, M: int, K: Steps, R: int, cohorts: Cohorts, a: Vector,
    eta_c: float, eta_s: float, z0: Vector, init: str, server_prox: str, client_prox: bool, difference: str,
) -> Result:  # fmt: skip
    """The rounds of Algorithm 2, with the given local update."""
    K = local_steps(K, M)
    weight = eta_c if client_prox else 0.0
    z = start_point(space, z0, init)
    out, points = Averages(K), []
    for r in range(R):  # line 1
        a_r = cohort_weights(a, cohorts[r])  # line 2
        end, probes = {}, {}
        for m in a_r:  # lines 3-8
            end[m], probes[m] = client(space, at(g, m, r), z, K[m], eta_c, weight)
        out.primal(a_r, probes)
        z = _mirror_server(space, z, a_r, K, end, eta_c, eta_s, server_prox, difference)
        points.append(z)
    return primal_result(out, points)  # line 16


def fedMiP(
    space: Space, g: ClientOracle, M: int, K: Steps, R: int, cohorts: Cohorts, a: Vector,
    eta_c: float, eta_s: float, z0: Vector, init: str = "project",
    server_prox: str = "paper", client_prox: bool = True, difference: str = "primal",
) -> Result:  # fmt: skip
    """Algorithm 2 (FedMiP)."""
    return _mirror_rounds(
        _fedMiP_client, space, g, M, K, R, cohorts, a, eta_c, eta_s, z0, init, server_prox, client_prox, difference
    )


def fedMiD(
    space: Space, g: ClientOracle, M: int, K: Steps, R: int, cohorts: Cohorts, a: Vector,
    eta_c: float, eta_s: float, z0: Vector, init: str = "project",
    server_prox: str = "paper", client_prox: bool = True, difference: str = "primal",
) -> Result:  # fmt: skip
    """Section 2.3 (Federated Mirror Descent): Algorithm 2's rounds with one mirror descent step per local step."""
    return _mirror_rounds(
        _fedMiD_client, space, g, M, K, R, cohorts, a, eta_c, eta_s, z0, init, server_prox, client_prox, difference
    )


def fedGDAGT(
    space: Space, g: ClientOracle, full: ClientOperator, M: int, K: Steps, R: int, cohorts: Cohorts, a: Vector,
    eta_c: float, eta_s: float, z0: Vector, init: str = "project",
) -> Result:  # fmt: skip
    """Sun and Wei 2022, Algorithm 2, with a composite mirror step in place of the gradient step."""
    K = local_steps(K, M)
    z = start_point(space, z0, init)
    out, points = Averages(K), []
    for r in range(R):
        a_r = cohort_weights(a, cohorts[r])
        c_clients = [full(m, z) for m in range(M)]
        c = all_clients(a, M, c_clients)
        end, news = {}, {}
        for m in a_r:
            end[m], news[m] = _fedMiD_client(space, _corrected(at(g, m, r), c_clients[m], c), z, K[m], eta_c, eta_c)
        out.primal(a_r, news)
        z = space.project(z + eta_s * increment(a_r, K, z, end))
        points.append(z)
    return primal_result(out, points)


def leadSliding(
    space: Space, g: ClientOracle, full: ClientOperator, M: int, K: Steps, R: int, cohorts: Cohorts, a: Vector,
    eta: float, eta_c: float, z0: Vector, init: str = "project", mode: str = "extragradient", lead: int = 0,
) -> Result:  # fmt: skip
    """Sliding with a lead client, in the order of the papers: the lead solves, then z steps with g(u).

    The last u is not surveyed any more, so it is not in the averages.
    """
    K_lead, rho = local_steps(K, M)[lead], min(eta_c / eta, 1.0)
    z = w = start_point(space, z0, init)
    answers: list[Vector] = []
    for r in range(R):
        if mode == "extragradient":
            w = z
        c = all_clients(a, M, [full(m, w) for m in range(M)])
        F = _corrected(at(g, lead, r), full(lead, w), c)
        omega, theta = space.grad_ell(z), 0.0
        for k in range(K_lead):
            back = (1 - rho) * omega + rho * space.grad_ell(z)
            theta_next = (1 - rho) * theta + rho * eta
            half = space.P(back - rho * eta * F(space.P(omega, theta), k, 0), theta_next)
            omega, theta = back - rho * eta * F(half, k, 1), theta_next
        u = space.P(omega, theta)
        answers.append(u)
        z = space.P(space.grad_ell(z) - eta * all_clients(a, M, [full(m, u) for m in range(M)]), eta)
        w = u
    mean = np.mean(answers[:-1], axis=0)
    return Result(last=answers[-1], client_average=mean, ergodic=mean)


def _subgradient_client(
    space: Space, g: LocalOracle, z_r: Vector, K_m: int, eta: float | Vector
) -> tuple[Vector, list[Vector]]:
    """z <- Pi_C(z - eta [g(z) + s(z)]), s in the subdifferential of psi; the probes are the new points."""
    z, news = z_r, []
    for k in range(K_m):
        z = space.project(z - eta * (g(z, k, 0) + space.subgradient(z)))
        news.append(z)
    return z, news


def _averaging_rounds(
    space: Space, g: ClientOracle, M: int, K: Steps, R: int, cohorts: Cohorts, a: Vector,
    eta: float | Vector, eta_s: float, z0: Vector, init: str,
) -> Result:  # fmt: skip
    K = local_steps(K, M)
    z = start_point(space, z0, init)
    out, points = Averages(K), []
    for r in range(R):
        a_r = cohort_weights(a, cohorts[r])
        end, news = {}, {}
        for m in a_r:
            end[m], news[m] = _subgradient_client(space, at(g, m, r), z, K[m], eta)
        out.primal(a_r, news)
        z = space.project(z + eta_s * increment(a_r, K, z, end))
        points.append(z)
    return primal_result(out, points)


def fedAvgS(
    space: Space, g: ClientOracle, M: int, K: Steps, R: int, cohorts: Cohorts, a: Vector,
    eta_c: float, eta_s: float, z0: Vector, init: str = "project",
) -> Result:  # fmt: skip
    """Section 2.5 (FedAvg-S; FedAvg when there is no y): projected subgradient steps, averaging in the primal."""
    return _averaging_rounds(space, g, M, K, R, cohorts, a, eta_c, eta_s, z0, init)


def localSGDA(
    space: Space, g: ClientOracle, M: int, K: Steps, R: int, cohorts: Cohorts, a: Vector,
    eta_x: float, eta_y: float, eta_s: float, z0: Vector, init: str = "project",
) -> Result:  # fmt: skip
    """Section 2.5 (Local SGDA): the same, simultaneous, with its own step for each block."""
    eta = np.array([eta_x if i < space.n_x else eta_y for i in range(len(z0))])
    return _averaging_rounds(space, g, M, K, R, cohorts, a, eta, eta_s, z0, init)


def scaffoldS(
    space: Space, g: ClientOracle, full: ClientOperator, M: int, K: Steps, R: int, cohorts: Cohorts, a: Vector,
    eta_c: float, eta_s: float, z0: Vector, init: str = "project", option: str = "I",
) -> Result:  # fmt: skip
    """Section 2.6 (SCAFFOLD-S): z <- Pi_C(z - eta_c [g_m(z) + s(z) - c_m + c])."""
    K = local_steps(K, M)
    z = start_point(space, z0, init)
    c_clients, c = [np.zeros_like(z) for _ in range(M)], np.zeros_like(z)
    out, points = Averages(K), []
    for r in range(R):
        a_r = cohort_weights(a, cohorts[r])
        if option == "I":  # fresh full-batch operators of all clients at z_r
            c_clients = [full(m, z) for m in range(M)]
            c = all_clients(a, M, c_clients)
        end, news = {}, {}
        for m in a_r:
            g_hat = _corrected(at(g, m, r), c_clients[m], c)
            end[m], news[m] = _subgradient_client(space, g_hat, z, K[m], eta_c)
        out.primal(a_r, news)
        if option == "II":
            c_clients, c = _scaffold_memory(c_clients, c, z, end, K, eta_c, M)
        z = space.project(z + eta_s * increment(a_r, K, z, end))
        points.append(z)
    return primal_result(out, points)


def _scaffold_memory(
    c_clients: list[Vector], c: Vector, z_r: Vector, end: dict[int, Vector], K: list[int], eta_c: float, M: int
) -> tuple[list[Vector], Vector]:
    """Option II: c_m^+ = c_m - c + (z_r - z^m_K)/(K_m eta_c); c += (|C_r|/M) sum_{C_r} (1/|C_r|)(c_m^+ - c_m)."""
    size = len(end)
    c_plus, change = list(c_clients), np.zeros_like(c)
    for m in end:
        c_plus[m] = c_clients[m] - c + (z_r - end[m]) / (K[m] * eta_c)
        change = change + (1.0 / size) * (c_plus[m] - c_clients[m])
    return c_plus, c + (size / M) * change


def _extra_step_client(
    space: Space, g: LocalOracle, z_r: Vector, K_m: int, eta_c: float
) -> tuple[Vector, list[Vector]]:
    """Both steps from z; the operator is g + s; the probes are the half points."""
    z, halves = z_r, []
    for k in range(K_m):
        z_half = space.project(z - eta_c * (g(z, k, 0) + space.subgradient(z)))
        z = space.project(z - eta_c * (g(z_half, k, 1) + space.subgradient(z_half)))
        halves.append(z_half)
    return z, halves


def extraStepLocalSGD(
    space: Space, g: ClientOracle, M: int, K: Steps, R: int, cohorts: Cohorts, a: Vector,
    eta_c: float, eta_s: float, z0: Vector, init: str = "project",
) -> Result:  # fmt: skip
    """Section 2.7 (Extra Step Local SGD); z_{r+1} = Pi_C(z_r + eta_s Delta_r), the plain mean for eta_s = 1."""
    K = local_steps(K, M)
    z = start_point(space, z0, init)
    out, points = Averages(K), []
    for r in range(R):
        a_r = cohort_weights(a, cohorts[r])
        end, halves = {}, {}
        for m in a_r:
            end[m], halves[m] = _extra_step_client(space, at(g, m, r), z, K[m], eta_c)
        out.primal(a_r, halves)
        z = space.project(z + eta_s * increment(a_r, K, z, end))
        points.append(z)
    return primal_result(out, points)


# --------------------------------------------------------------------------------------------------------------------
# Rivals


def dRFA(
    space: Space, g: ClientOracle, M: int, K: Steps, R: int, cohorts: Cohorts, a: Vector,
    eta_c: float, eta_y: float, eta_s: float, z0: Vector, init: str = "project",
) -> Result:  # fmt: skip
    """Deng, Kamani and Mahdavi 2020, with all losses of a round in the place of those at one drawn step."""
    K = local_steps(K, M)
    z, n = start_point(space, z0, init), space.n_x
    out, points = Averages(K), []
    for r in range(R):
        a_r = cohort_weights(a, cohorts[r])
        begin, end, before = np.concatenate([z, np.zeros(len(z) - n)]), {}, {}
        for m in a_r:
            x, ascent, before[m] = z, np.zeros(len(z) - n), []
            for k in range(K[m]):
                before[m].append(x)
                slope = at(g, m, r)(x, k, 0) + space.subgradient(x)
                ascent = ascent + slope[n:]
                x = np.concatenate([space.project(x - eta_c * slope)[:n], z[n:]])
            end[m] = np.concatenate([x, ascent])
        out.primal(a_r, before)
        Delta = increment(a_r, K, begin, end)
        z = space.project(np.concatenate([z[:n] + eta_s * Delta[:n], z[n:] - eta_y * Delta[len(z) :]]))
        points.append(z)
    return primal_result(out, points)


def scaffPD(
    space: Space, g: ClientOracle, full: ClientOperator, M: int, K: Steps, R: int, cohorts: Cohorts, a: Vector,
    tau: float, sigma: float, eta_c: float, theta: float, z0: Vector, init: str = "project",
) -> Result:  # fmt: skip
    """Yu, Karimireddy, Ma and Jordan 2023: extrapolated ascent in y, then corrected local descent in x."""
    K = local_steps(K, M)
    z, n, s_before = start_point(space, z0, init), space.n_x, None
    out, points = Averages(K), []
    for r in range(R):
        a_r = cohort_weights(a, cohorts[r])
        s = all_clients(a, M, [full(m, z) for m in range(M)])[n:]
        s_before = s if s_before is None else s_before
        climb = np.concatenate([np.zeros(n), (1 + theta) * s - theta * s_before])
        y = space.P(space.grad_ell(z) - sigma * climb, sigma)[n:]
        z, s_before = np.concatenate([z[:n], y]), s
        c_clients = [full(m, z) for m in range(M)]
        c = all_clients(a, M, c_clients)
        way, probes = {}, {}
        for m in a_r:
            u = z[:n]
            for k in range(K[m]):
                slope = _corrected(at(g, m, r), c_clients[m], c)(np.concatenate([u, y]), k, 0)
                u = u - eta_c * slope[:n]
            way[m], probes[m] = (z[:n] - u) / (K[m] * eta_c), [z] * K[m]
        out.primal(a_r, probes)
        descent = np.concatenate([sum(a_r[m] * way[m] for m in a_r), np.zeros(len(z) - n)])
        z = np.concatenate([space.P(space.grad_ell(z) - tau * descent, tau)[:n], y])
        points.append(z)
    return primal_result(out, points)

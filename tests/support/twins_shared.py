"""Twins: slow, transparent numpy transcriptions of every method, one explicit loop per index, no cleverness.

They are written from the paper's pseudocode (with the errata of the mathematical specification) and share no line with
the package: a test compares the package with them. A point z is a vector holding x, then y. The operator is
(grad_x f, -grad_y f). The dual state omega is the paper's bar(varsigma) - varsigma, so it *decreases* along gradients;
theta is the total weight of psi.

Federated twins take, in this order: space, the client oracle g(m, z, r, k, s) with s = 0, 1 the two samples of one
local step (methods with one gradient a step use s = 0), M, K (one int, or one K_m per client), R, cohorts (client ids
of every round), a (objective weights p_m of all M clients), the steps eta_c, eta_s, the start z0 and `init`.
One-machine twins take an oracle g(z, t, s), the number of steps T, the step eta, z0 and `init`.

This is what they share: spaces, weights, means. `cd tests && python -m support.twins_checks` runs the self-check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

Vector = np.ndarray
ClientOracle = Callable[[int, Vector, int, int, int], Vector]  # g(m, z, r, k, s)
ClientOperator = Callable[[int, Vector], Vector]  # full(m, z)
LocalOracle = Callable[[Vector, int, int], Vector]  # g(z, k, s): one client in one round
Oracle = Callable[[Vector, int, int], Vector]  # g(z, t, s): one machine
Steps = int | Sequence[int]
Cohorts = Sequence[Sequence[int] | np.ndarray]
Prox = Callable[[Vector, float], Vector]


class Result(dict[str, Any]):
    """The outputs by name; an output that is not defined for a run raises when it is asked for."""

    def __missing__(self, key: str) -> Any:
        raise ValueError(f"the output {key!r} is not defined for this run (ergodic needs the same K on every client)")


# --------------------------------------------------------------------------------------------------------------------
# Spaces (section 1): P(omega, theta) = argmin_{z in C} ell(z) + theta psi(z) - <omega, z>


class Space(Protocol):
    """What the twins ask of a geometry with its regulariser and its constraint, which is always active (E5)."""

    n_x: int

    def P(self, omega: Vector, theta: float) -> Vector: ...

    def grad_ell(self, z: Vector) -> Vector: ...

    def project(self, z: Vector) -> Vector: ...

    def subgradient(self, z: Vector) -> Vector: ...


def soft(w: Vector, tau: float | Vector) -> Vector:
    """sgn(w) max(|w| - tau, 0), coordinate by coordinate."""
    return np.copysign(np.maximum(np.abs(w) - tau, 0.0), w)


def softmax(w: Vector) -> Vector:
    e = np.exp(w - np.max(w))
    return e / np.sum(e)


class Free:
    """No psi, no constraint, Euclidean (row 1): P is the identity."""

    def __init__(self, n_x: int, n_y: int) -> None:
        self.n_x, self.n_y = n_x, n_y

    def P(self, omega: Vector, theta: float) -> Vector:
        return omega.copy()

    def grad_ell(self, z: Vector) -> Vector:
        return z.copy()

    def project(self, z: Vector) -> Vector:
        return self.P(self.grad_ell(z), 0.0)

    def subgradient(self, z: Vector) -> Vector:
        return np.zeros_like(z)


class L1Box:
    """psi = lam_x |x|_1 + lam_y |y|_1, C = box x box, Euclidean (row 12 in both blocks)."""

    def __init__(
        self,
        n_x: int,
        n_y: int,
        lam_x: float,
        lam_y: float,
        box_x: tuple[float, float],
        box_y: tuple[float, float],
    ) -> None:
        self.n_x, self.n_y = n_x, n_y
        self.lam = np.concatenate([np.full(n_x, lam_x), np.full(n_y, lam_y)])
        self.lower = np.concatenate([np.full(n_x, box_x[0]), np.full(n_y, box_y[0])])
        self.upper = np.concatenate([np.full(n_x, box_x[1]), np.full(n_y, box_y[1])])

    def P(self, omega: Vector, theta: float) -> Vector:
        return np.clip(soft(omega, theta * self.lam), self.lower, self.upper)

    def grad_ell(self, z: Vector) -> Vector:
        return z.copy()

    def project(self, z: Vector) -> Vector:
        return self.P(self.grad_ell(z), 0.0)

    def subgradient(self, z: Vector) -> Vector:
        return self.lam * np.sign(z)


class L1BoxEntropy:
    """x: lam_x |x|_1 + box, Euclidean (row 12); y: lam_y KL(y || q) on the simplex, entropy (section 1.2)."""

    def __init__(self, n_x: int, n_y: int, lam_x: float, box_x: tuple[float, float], lam_y: float, q: Vector) -> None:
        self.n_x, self.n_y = n_x, n_y
        self.lam_x, self.box_x, self.lam_y = lam_x, box_x, lam_y
        self.q = np.asarray(q, dtype=float)

    def split(self, z: Vector) -> tuple[Vector, Vector]:
        return z[: self.n_x], z[self.n_x :]

    def P(self, omega: Vector, theta: float) -> Vector:
        omega_x, omega_y = self.split(omega)
        x = np.clip(soft(omega_x, theta * self.lam_x), self.box_x[0], self.box_x[1])
        tau = theta * self.lam_y
        y = softmax((omega_y + tau * np.log(self.q)) / (1.0 + tau))
        return np.concatenate([x, y])

    def grad_ell(self, z: Vector) -> Vector:
        x, y = self.split(z)
        return np.concatenate([x, 1.0 + np.log(y)])

    def project(self, z: Vector) -> Vector:
        return self.P(self.grad_ell(z), 0.0)  # the y block is divided by its sum

    def subgradient(self, z: Vector) -> Vector:
        x, y = self.split(z)
        return np.concatenate([self.lam_x * np.sign(x), self.lam_y * (1.0 + np.log(y / self.q))])


# --------------------------------------------------------------------------------------------------------------------
# What the federated twins share


def start_point(space: Space, z0: Vector, init: str) -> Vector:
    """The starting point of primal methods: z_0 projected on C, or z_0 as it is (E5)."""
    if init == "project":
        return space.project(z0)
    if init == "paper":
        return z0.copy()
    raise ValueError(init)


def start_dual(space: Space, z0: Vector, init: str) -> Vector:
    """omega_0 = grad ell(z_0), the paper's bar(varsigma) (E27)."""
    return space.grad_ell(start_point(space, z0, init))


def local_steps(K: Steps, M: int) -> list[int]:
    """K_m for every client m."""
    return [int(K)] * M if isinstance(K, int | np.integer) else [int(K_m) for K_m in K]


def cohort_weights(a: Vector, cohort: Sequence[int] | np.ndarray) -> dict[int, float]:
    """a_m = p_m / sum_{C_r} p for m in C_r."""
    total = sum(float(a[m]) for m in cohort)
    return {int(m): float(a[m]) / total for m in cohort}


def at(g: ClientOracle, m: int, r: int) -> LocalOracle:
    """Client m's oracle in round r."""
    return lambda z, k, s: g(m, z, r, k, s)


def mean_steps(a_r: dict[int, float], K: list[int]) -> float:
    """Kbar = sum a_m K_m over the cohort."""
    return sum(a_r[m] * K[m] for m in a_r)


def increment(a_r: dict[int, float], K: list[int], begin: Vector, end: dict[int, Vector]) -> Vector:
    """Delta_r = Kbar sum a_m (end_m - begin) / K_m; for equal K it is sum a_m (end_m - begin)."""
    Kbar = mean_steps(a_r, K)
    Delta = np.zeros_like(begin)
    for m in a_r:
        Delta = Delta + a_r[m] * (end[m] - begin) * (Kbar / K[m])
    return Delta


def weighted(a_r: dict[int, float], vectors: dict[int, Vector]) -> Vector:
    """sum over the cohort of a_m v_m."""
    return sum((a_r[m] * vectors[m] for m in a_r), start=np.zeros_like(next(iter(vectors.values()))))


def all_clients(a: Vector, M: int, vectors: Sequence[Vector]) -> Vector:
    """sum over all M clients of p_m v_m, with p normalised to sum one."""
    return weighted(cohort_weights(a, range(M)), dict(enumerate(vectors)))


class Averages:
    """Running means over (r, k): output A ("ergodic") and output B ("client_average")."""

    def __init__(self, K: list[int]) -> None:
        self.K, self.equal = K, len(set(K)) == 1
        self.A: list[Vector] = []
        self.B: list[tuple[float, Vector]] = []

    def primal(self, a_r: dict[int, float], probes: dict[int, list[Vector]]) -> None:
        """B: the round's sum_m a_m (1/K_m) sum_k z^m_k, to be averaged over rounds with weight Kbar."""
        means = {m: np.sum(probes[m], axis=0) / self.K[m] for m in a_r}
        self.B.append((mean_steps(a_r, self.K), weighted(a_r, means)))

    def dual(self, space: Space, a_r: dict[int, float], probes: dict[int, list[tuple[Vector, float]]]) -> None:
        """A: hat z_{r,k} = P_theta(sum a_m omega^m_{r,k}) for every k; all clients have the same theta at step k."""
        if not self.equal:
            return
        for k in range(self.K[0]):
            omega_hat = weighted(a_r, {m: probes[m][k][0] for m in a_r})
            theta = next(iter(probes.values()))[k][1]
            self.A.append(space.P(omega_hat, theta))

    def clients(self) -> Vector:
        return np.sum([Kbar * z for Kbar, z in self.B], axis=0) / sum(Kbar for Kbar, _ in self.B)

    def ergodic(self) -> Vector:
        return np.mean(self.A, axis=0)


def dual_result(out: Averages, omega: Vector, theta: float, points: list[Vector]) -> Result:
    result = Result(last=points[-1], omega=omega, theta=theta, client_average=out.clients(), points=points)
    if out.equal:
        result["ergodic"] = out.ergodic()
    return result


def primal_result(out: Averages, points: list[Vector]) -> Result:
    result = Result(last=points[-1], client_average=out.clients(), points=points)
    if out.equal:
        result["ergodic"] = out.clients()  # sum over r, k of the cohort mean: the same vector
    return result

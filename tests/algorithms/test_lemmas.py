"""Identities and lemmas of the theory, along a run with noise.

T11, T12, ... and E3, E4, ... are the numbers of the property tests and of the errata in the mathematical specification.
"""

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import twins_shared
from support.twin_cases import (
    ETA_C,
    N_X,
    N_Y,
    case,
    close,
    compile_quickly,  # noqa: F401
    flat,
    saddle,
)

import fedualex as fx
from fedualex import tree
from fedualex.compiling import double


@dataclass(frozen=True)
class Step:
    """One local step of one client: its pairs (omega, tau), points and oracle values, at 0, half and 1."""

    r: int
    k: int
    m: int
    a: float
    pairs: tuple
    points: tuple
    values: tuple


@cache
def recorded(case_name, eta_s, cohorts, K=3):
    """FeDualEx by hand, through its own functions and a recording oracle with Gaussian noise; omega_0 at the end."""
    the, method = case(case_name), fx.FeDualEx(ETA_C, eta_s)
    geometry, rng, steps = the.problem.geometry, np.random.default_rng(7), []
    with double():
        first = server = method.start(geometry.dual(tree.cast(saddle(the.z0), jnp.float64)), geometry)
        for r, cohort in enumerate(cohorts):
            a, messages = twins_shared.cohort_weights(the.weights, cohort), []
            for m in cohort:
                local = method.local_init(server, None)
                for k in range(K):
                    seen = []

                    def oracle(z, s, m=m, seen=seen):
                        assert s == len(seen)
                        g = the.operator(m, flat(z)) + 0.3 * rng.normal(size=N_X + N_Y)
                        seen.append((z, tree.cast(saddle(g), jnp.float64)))
                        return seen[-1][1]

                    following, half, weight = method.local_step(local, oracle, geometry)
                    assert weight == ETA_C
                    points = (seen[0][0], seen[1][0], geometry.primal(following))
                    values = (seen[0][1], seen[1][1])
                    steps.append(Step(r, k, m, a[m], (local, half, following), points, values))
                    local = following
                message, _ = method.local_final(local, server, None)
                messages.append(tree.scale(a[m], message))
            mean = messages[0] if len(messages) == 1 else jax.tree.map(lambda *leaves: sum(leaves), *messages)
            server = method.server_step(server, mean, geometry, len(cohort) / the.clients)
    return steps, first, server


EVERYONE, PARTIAL = ((0, 1, 2, 3),) * 3, ((0, 2), (1, 2, 3), (3,))
GEOMETRIES = pytest.mark.parametrize("case_name", ["data entropic", "data"])


def candidates(geometry, count=2):
    rng = np.random.default_rng(8)
    return [geometry.project(saddle(jnp.asarray(rng.normal(size=N_X + N_Y)))) for _ in range(count)]


def progress(geometry, eta, pairs, points, values, u):
    """The right side of the identity of T11 and of Lemma 1, without <g1, u - z_half>; and the size of its terms."""
    (start, half, following), (_, z_half, z_next), (g0, g1) = pairs, points, values
    terms = [
        geometry.generalized_divergence(u, start),
        -geometry.generalized_divergence(u, following),
        -geometry.generalized_divergence(z_half, start),
        -geometry.generalized_divergence(z_next, half),
        eta * tree.dot(tree.subtract(g1, g0), tree.subtract(z_half, z_next)),
    ]
    return float(sum(terms)), float(max(map(abs, terms)))


@pytest.mark.slow
@GEOMETRIES
def test_identity_of_one_step(case_name):
    """T11, for every u in C and whatever the oracle says:

    eta [psi(z_half) - psi(u) + <g1, z_half - u>] = V_omega(u) - V_omega+(u) - V_omega(z_half) - V_half(z+)
                                                    + eta <g1 - g0, z_half - z+>, V the generalized divergence.
    """
    steps, _, _ = recorded(case_name, 0.7, PARTIAL)
    geometry = case(case_name).problem.geometry
    with double():
        for u in candidates(geometry):
            for step in steps:
                assert step.pairs[1].tau == step.pairs[2].tau == step.pairs[0].tau + ETA_C
                z_half, g1 = step.points[1], step.values[1]
                linear = tree.dot(g1, tree.subtract(z_half, u))
                left = ETA_C * float(geometry.psi(z_half) - geometry.psi(u) + linear)
                right, size = progress(geometry, ETA_C, step.pairs, step.points, step.values, u)
                assert abs(left - right) <= 1e-12 * max(1.0, size)


@pytest.mark.sampled(4)
@GEOMETRIES
@pytest.mark.parametrize(("eta_s", "cohorts"), [(1.0, EVERYONE), (0.7, PARTIAL)], ids=["everyone", "partial"])
def test_proposition_b_on_every_path(case_name, eta_s, cohorts):
    """T17, for every u in C, any clients, noise, cohorts and 0 < eta_s <= 1:

    sum_r sum_m a_m sum_k eta [<g1, z_half - u> + psi(z_half) - psi(u)]
        <= V_omega_0(u) / eta_s - V_omega_R(u) / eta_s + sum_r sum_m a_m sum_k [eta^2/2 |g1 - g0|_*^2 - |z - z_half|^2/2].
    """
    steps, first, last = recorded(case_name, eta_s, cohorts)
    geometry = case(case_name).problem.geometry
    with double():
        for u in candidates(geometry):
            left = sum(
                s.a
                * ETA_C
                * (tree.dot(s.values[1], tree.subtract(s.points[1], u)) + geometry.psi(s.points[1]) - geometry.psi(u))
                for s in steps
            )
            errors = sum(
                s.a * (ETA_C**2 / 2) * geometry.dual_norm(tree.subtract(s.values[1], s.values[0])) ** 2
                - s.a * geometry.norm(tree.subtract(s.points[0], s.points[1])) ** 2 / 2
                for s in steps
            )
            travelled = geometry.generalized_divergence(u, first) - geometry.generalized_divergence(u, last)
            assert float(left) <= float(travelled) / eta_s + float(errors) + 1e-12


def averages(steps, geometry):
    """The shadow sequences: for every (r, k) the mean pairs, the points they stand for, the mean oracle values."""
    for r, k in sorted({(step.r, step.k) for step in steps}):
        group = [step for step in steps if (step.r, step.k) == (r, k)]

        def mean(items, group=group):
            scaled = [tree.scale(step.a, item) for step, item in zip(group, items, strict=True)]
            return jax.tree.map(lambda *leaves: sum(leaves), *scaled)

        pairs = tuple(mean([step.pairs[i] for step in group]) for i in range(3))
        values = tuple(mean([step.values[i] for step in group]) for i in range(2))
        yield k, group, pairs, tuple(map(geometry.primal, pairs)), values


@pytest.mark.slow
@GEOMETRIES
def test_lemmas_1_and_2(case_name):
    """Along the shadow sequences, for every u in C:

    Lemma 1: eta [psi(z_hat_half) - psi(u)] = V_k(u) - V_{k+1}(u) - V_k(z_hat_half) - V_half(z_hat_{k+1})
             + eta <g_half - g_k, z_hat_half - z_hat_{k+1}> + eta <g_half, u - z_hat_half>
    Lemma 2 (with the third term of the appendix, E14): <g(z_hat), z_hat - u> = <g_half, z_hat - u>
             + <mean g_m(z^m) - g_half, z_hat - u> + <mean [g_m(z_hat) - g_m(z^m)], z_hat - u>,  z_hat = z_hat_half
    """
    the = case(case_name)
    geometry = the.problem.geometry
    steps, _, _ = recorded(case_name, 1.0, EVERYONE)
    with double():
        for _, group, pairs, points, values in averages(steps, geometry):
            z_hat, g_half = flat(points[1]), flat(values[1])
            exact = sum(s.a * the.operator(s.m, flat(s.points[1])) for s in group)
            drift = sum(s.a * (the.operator(s.m, z_hat) - the.operator(s.m, flat(s.points[1]))) for s in group)
            for u in candidates(geometry):
                right, size = progress(geometry, ETA_C, pairs, points, values, u)
                right += ETA_C * g_half @ (flat(u) - z_hat)
                left = ETA_C * float(geometry.psi(points[1]) - geometry.psi(u))
                assert abs(left - right) <= 1e-12 * max(1.0, size)
                away = z_hat - flat(u)
                split = g_half @ away + (exact - g_half) @ away + drift @ away
                close(flat(the.problem.operator(points[1])) @ away, split)


@GEOMETRIES
@pytest.mark.parametrize(("eta_s", "cohorts"), [(1.0, EVERYONE), (0.7, PARTIAL)], ids=["everyone", "partial"])
def test_clients_drift_no_further_than_the_lemma_says(case_name, eta_s, cohorts):
    """||z_hat_{k+1/2} - z^m_{k+1/2}|| <= 2 eta (k + 1) G and ||z_hat_k - z^m_k|| <= 2 eta k G, G = max ||g||_*; and
    before it ||P(omega) - P(omega')|| <= ||omega - omega'||_* at equal weights."""
    geometry = case(case_name).problem.geometry
    steps, _, _ = recorded(case_name, eta_s, cohorts)
    with double():
        G = max(float(geometry.dual_norm(g)) for step in steps for g in step.values)
        for k, group, pairs, points, _ in averages(steps, geometry):
            for step in group:
                for at, lead in ((0, k), (1, k + 1)):
                    away = float(geometry.norm(tree.subtract(points[at], step.points[at])))
                    dual = float(geometry.dual_norm(tree.subtract(pairs[at].omega, step.pairs[at].omega)))
                    assert away <= dual + 1e-13
                    assert away <= 2 * ETA_C * lead * G + 1e-13

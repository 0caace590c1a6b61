"""README's example as a program of its own in plain jax: dual extrapolation and a certificate every ten steps.

    python benchmarks/by_hand.py     prints the CPU seconds of the process

It does what `fx.solve` cannot leave out: imports, a program for the steps, one for the certificate. FEDUALEX_CACHE
names the folder of its compiled programs, or is "off".
"""

import os
import time

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
if (folder := os.environ.get("FEDUALEX_CACHE", "off")) != "off":
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

LAM, BOX, BALL, STEP = 0.01, 1.0, 0.3, 0.3
RNG = np.random.default_rng(0)
DATA = [(RNG.normal(size=(n, 3)), RNG.choice([-1.0, 1.0], n)) for n in (40, 25, 90)]
FEATURES, LABELS = (np.concatenate(part) for part in zip(*DATA, strict=True))
SHARES = np.concatenate([np.full(len(labels), 1 / 3 / len(labels)) for _, labels in DATA])


def loss(x, y, feature, label):
    """Of one example."""
    return jnp.logaddexp(0, -label * (feature + y) @ x) - 5 * jnp.sum(y**2)


def operator(x, y):
    """(grad_x f, -grad_y f)."""

    def f(x, y):
        return jnp.vdot(SHARES, jax.vmap(lambda feature, label: loss(x, y, feature, label))(FEATURES, LABELS))

    slope_x, slope_y = jax.grad(f, (0, 1))(x, y)
    return slope_x, -slope_y


def primal(u, v, weight):
    """The point of a dual pair."""
    x = jnp.clip(jnp.sign(u) * jnp.maximum(jnp.abs(u) - weight * LAM, 0), -BOX, BOX)
    return x, v * jnp.minimum(1, BALL / jnp.maximum(jnp.linalg.norm(v), 1e-300))


@jax.jit
def advanced(state, steps):
    """So many steps of dual extrapolation, and the sums of their half points."""

    def step(_, state):
        u, v, weight, sum_x, sum_y = state
        g_x, g_y = operator(*primal(u, v, weight))
        x, y = primal(u - STEP * g_x, v - STEP * g_y, weight + STEP)
        g_x, g_y = operator(x, y)
        return u - STEP * g_x, v - STEP * g_y, weight + STEP, sum_x + x, sum_y + y

    return jax.lax.fori_loop(0, steps, step, state)


@jax.jit
def certificate(x, y):
    """<g, z> + psi(z) + psi^*(-g)."""
    g_x, g_y = operator(x, y)
    in_x = jnp.vdot(g_x, x) + LAM * jnp.sum(jnp.abs(x)) + BOX * jnp.sum(jnp.maximum(jnp.abs(g_x) - LAM, 0))
    return in_x + jnp.vdot(g_y, y) + BALL * jnp.linalg.norm(g_y)


if __name__ == "__main__":
    state = (*np.zeros((2, 3)), 0.0, *np.zeros((2, 3)))
    for count in range(10, 210, 10):
        state = advanced(state, 10)
        gap = float(certificate(state[3] / count, state[4] / count))
    assert gap < 0.1
    print(time.process_time())

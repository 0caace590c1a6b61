"""FeDualEx on the paper's games as people write it without this library. Each peer runs some rounds, returns omega.

All use float32, the same step sizes and as many normals; none keeps the averages behind our outputs.
"""

import numpy as np

LAM, RADIUS, SIGMA = 0.1, 0.05, 0.1


def soft_clip(w, weight):
    """The prox of weight * lam |.|_1 in the box."""
    return np.clip(np.sign(w) * np.maximum(np.abs(w) - LAM * weight, 0), -RADIUS, RADIUS)


def svd_prox(w, weight):
    """The same on singular values, of one matrix or a stack."""
    U, s, Vt = np.linalg.svd(w, full_matrices=False)
    return (U * np.clip(s - LAM * weight, 0, RADIUS)[..., None, :]) @ Vt


def numpy_client(A, b, x, y, tau, *, local_steps, eta, rng, sigma=SIGMA, prox=soft_clip):
    """What one client does in a round, from the server's dual point (x, y) to its own."""

    def noise(like):
        return sigma * rng.standard_normal(like.shape, dtype=np.float32)

    for _ in range(local_steps):
        px, py = prox(x, tau), prox(y, tau)
        hx = prox(x - eta * (A.T @ py + noise(x)), tau + eta)
        hy = prox(y - eta * (b - A @ px + noise(y)), tau + eta)
        x, y = x - eta * (A.T @ hy + noise(x)), y - eta * (b - A @ hx + noise(y))
        tau += eta
    return x, y


def numpy_loop(A, b, *, rounds, local_steps, clients, eta, sigma=SIGMA, prox=soft_clip, seed=0):
    """A loop over rounds, clients and steps: what the author of a paper writes."""
    rng = np.random.default_rng(seed)
    x, y = np.zeros((A.shape[1], *b.shape[1:]), np.float32), np.zeros(b.shape, np.float32)
    tau, local = 0.0, {"local_steps": local_steps, "eta": eta, "rng": rng, "sigma": sigma, "prox": prox}
    for _ in range(rounds):
        total_x, total_y = np.zeros_like(x), np.zeros_like(y)
        for _ in range(clients):
            u, v = numpy_client(A, b, x, y, tau, **local)
            total_x, total_y = total_x + u, total_y + v
        x, y, tau = total_x / clients, total_y / clients, tau + eta * local_steps
    return x, y


def numpy_batched(A, b, *, rounds, local_steps, clients, eta, seed=0):
    """Clients as the rows of a matrix (vectors only)."""
    rng = np.random.default_rng(seed)
    x, y, tau = np.zeros(A.shape[1], np.float32), np.zeros(A.shape[0], np.float32), 0.0

    def noise(size):
        return SIGMA * rng.standard_normal((clients, size), dtype=np.float32)

    for _ in range(rounds):
        u, v, weight = np.tile(x, (clients, 1)), np.tile(y, (clients, 1)), tau
        for _ in range(local_steps):
            px, py = soft_clip(u, weight), soft_clip(v, weight)
            hx = soft_clip(u - eta * (py @ A + noise(x.size)), weight + eta)
            hy = soft_clip(v - eta * (b - px @ A.T + noise(y.size)), weight + eta)
            u, v = u - eta * (hy @ A + noise(x.size)), v - eta * (b - hx @ A.T + noise(y.size))
            weight += eta
        x, y, tau = u.mean(0), v.mean(0), tau + eta * local_steps
    return x, y


def plain_jax(A, b, *, rounds, local_steps, clients, eta, seed=0):
    """vmap over clients, scan over steps and rounds, jax.random for the noise."""
    import jax
    import jax.numpy as jnp

    A, b = jnp.asarray(A), jnp.asarray(b)

    def prox(w, weight):
        return jnp.clip(jnp.sign(w) * jnp.maximum(jnp.abs(w) - LAM * weight, 0), -RADIUS, RADIUS)

    def operator(x, y, key):
        left, right = jax.random.split(key)
        gx = A.T @ y + SIGMA * jax.random.normal(left, x.shape)
        return gx, b - A @ x + SIGMA * jax.random.normal(right, y.shape)

    def step(state, key):
        x, y, tau = state
        first, second = jax.random.split(key)
        gx, gy = operator(prox(x, tau), prox(y, tau), first)
        half = prox(x - eta * gx, tau + eta), prox(y - eta * gy, tau + eta)
        gx, gy = operator(*half, second)
        return (x - eta * gx, y - eta * gy, tau + eta), None

    def client(state, key):
        return jax.lax.scan(step, state, jax.random.split(key, local_steps))[0]

    def one_round(state, key):
        local = jax.vmap(client, (None, 0))(state, jax.random.split(key, clients))
        return jax.tree.map(lambda leaf: leaf.mean(0), local), None

    @jax.jit
    def run(key):
        start = jnp.zeros(A.shape[1]), jnp.zeros(A.shape[0]), jnp.zeros(())
        return jax.lax.scan(one_round, start, jax.random.split(key, rounds))[0]

    compiled = run.lower(jax.random.key(seed)).compile()
    return lambda: jax.block_until_ready(compiled(jax.random.key(seed)))[:2]


def torch_batched(A, b, *, rounds, local_steps, clients, eta, sigma=SIGMA, seed=0, after_round=lambda *state: None):
    """Clients as the rows of a tensor, one thread. `after_round` is called with the new dual point."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    A, b = torch.tensor(A), torch.tensor(b)
    x, y, tau = torch.zeros(A.shape[1]), torch.zeros(A.shape[0]), 0.0

    def prox(w, weight):
        return torch.clamp(torch.sign(w) * torch.clamp(w.abs() - LAM * weight, min=0), -RADIUS, RADIUS)

    for _ in range(rounds):
        u, v, weight = x.repeat(clients, 1), y.repeat(clients, 1), tau
        for _ in range(local_steps):
            px, py = prox(u, weight), prox(v, weight)
            hx = prox(u - eta * (py @ A + sigma * torch.randn_like(u)), weight + eta)
            hy = prox(v - eta * (b - px @ A.T + sigma * torch.randn_like(v)), weight + eta)
            gx, gy = hy @ A + sigma * torch.randn_like(u), b - hx @ A.T + sigma * torch.randn_like(v)
            u, v = u - eta * gx, v - eta * gy
            weight += eta
        x, y, tau = u.mean(0), v.mean(0), tau + eta * local_steps
        after_round(x, y)
    return x.numpy(), y.numpy()

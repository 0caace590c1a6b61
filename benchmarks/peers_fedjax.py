"""FeDualEx in FedJAX: a client is `for_each_client`'s three functions, the server's mean its `tree_mean`."""

import fedjax
import jax
import jax.numpy as jnp
from peers import LAM, RADIUS


def build(A, b, eta, sigma):
    """The work of all clients of a round, as FedJAX wants it."""

    def prox(w, weight):
        return jnp.clip(jnp.sign(w) * jnp.maximum(jnp.abs(w) - LAM * weight, 0), -RADIUS, RADIUS)

    def operator(x, y, key):
        left, right = jax.random.split(key)
        gx = A.T @ y + sigma * jax.random.normal(left, x.shape)
        return gx, b - A @ x + sigma * jax.random.normal(right, y.shape)

    def client_init(server, key):
        return {**server, "key": key}

    def client_step(state, batch):
        x, y, tau = state["x"], state["y"], state["tau"]
        key, first, second = jax.random.split(state["key"], 3)
        gx, gy = operator(prox(x, tau), prox(y, tau), first)
        gx, gy = operator(prox(x - eta * gx, tau + eta), prox(y - eta * gy, tau + eta), second)
        return {"x": x - eta * gx, "y": y - eta * gy, "tau": tau + eta, "key": key}

    def client_final(server, state):
        return {name: state[name] for name in server}

    return fedjax.for_each_client(client_init, client_step, client_final)


def run(game_file, A, b, *, rounds, local_steps, clients, eta, sigma, after_round):
    """Run some rounds, return omega. The noise is the data: a batch is empty."""
    train = build(jnp.asarray(A), jnp.asarray(b), eta, sigma)
    state = {"x": jnp.zeros(A.shape[1]), "y": jnp.zeros(A.shape[0]), "tau": jnp.zeros(())}
    key = jax.random.PRNGKey(0)
    for _ in range(rounds):
        key, use = jax.random.split(key)
        cohort = [(m, [{}] * local_steps, one) for m, one in enumerate(jax.random.split(use, clients))]
        state = fedjax.tree_util.tree_mean((dual, 1.0) for _, dual in train(state, cohort))
        after_round(state["x"], state["y"])
    return state["x"], state["y"]

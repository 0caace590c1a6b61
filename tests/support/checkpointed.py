"""Runs with a checkpoint, their digests, and fingerprints that another process must find too."""

import functools
import hashlib
import json

import jax
import jax.numpy as jnp
import numpy as np
from support.games import GAME, PSI

import fedualex as fx
from fedualex.runtime import checkpoint as checkpoints

OPTIONS = {"rounds": 12, "clients": 3, "cohort": 2, "local_steps": 2, "record_every": 2, "noise": fx.GaussianNoise(0.1)}


def simulate(problem=GAME, method=None, **options):
    return fx.simulate(problem, fx.FeDualEx(0.3) if method is None else method, **(OPTIONS | options))


def digest(run):
    """SHA-256 of the final state, and of the history without its clock times."""
    state = hashlib.sha256()
    for leaf in jax.tree.leaves(run.state):
        state.update(np.ascontiguousarray(leaf).tobytes())
    history = {key: column.tolist() for key, column in run.history.items() if "seconds" not in key}
    return state.hexdigest(), hashlib.sha256(json.dumps(history, sort_keys=True).encode()).hexdigest()


def stop_at(round_index):
    def callback(record):
        if record["round"] == round_index:
            raise KeyboardInterrupt

    return callback


def scaled_game(scale, x, y):
    return scale * jnp.vdot(x, y)


def of(f):
    return fx.Problem(f, x=PSI, y=PSI, like=fx.Saddle(np.zeros(2), np.zeros(2)))


def fingerprints():
    """Of a game, a problem with a partial function, and one with data: none of them may depend on addresses."""
    data = [{"a": np.arange(3.0)}, {"a": np.arange(2.0)}]
    like = fx.Saddle(np.zeros(2), np.zeros(2))
    with_data = fx.Problem(lambda x, y, e: e["a"] * jnp.vdot(x, y), x=PSI, y=PSI, like=like, data=data)
    problems = (GAME, of(functools.partial(scaled_game, 2.0)), with_data)
    return [checkpoints.fingerprint(problem, fx.FeDualEx(0.1), jax.random.key(3)) for problem in problems]

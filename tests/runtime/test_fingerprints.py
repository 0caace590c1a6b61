"""Which run a checkpoint is of: what a fingerprint sees of a function, and what it does not."""

import functools
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import rows
from support.checkpointed import fingerprints, of, scaled_game
from support.games import GAME

from fedualex.runtime import checkpoint as checkpoints

FACTOR = 1.0


def helper(x):
    return FACTOR * x


def calls_helper(x):
    return helper(x)


@jax.jit
def compile_by_size(x):
    return FACTOR * x


def calls_compiled(x):
    return compile_by_size(x)


def calls_itself(x):
    return calls_itself(x - 1) if x > 0 else x


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def method(self, x):
        return self.factor * x

    def __call__(self, x):
        return self.method(x)


def test_a_fingerprint_sees_what_a_function_computes(monkeypatch):
    def squared(x):
        inner = lambda t: t**2  # noqa: E731
        return inner(x)

    def fourth(x):
        inner = lambda t: t**4  # noqa: E731
        return inner(x)

    of = checkpoints.fingerprint
    for one, other in [
        (squared, fourth),
        (jax.jit(squared), jax.jit(fourth)),
        (Scaled(1.0), Scaled(2.0)),
        (Scaled(1.0).method, Scaled(2.0).method),
        (np.sin, np.cos),
    ]:
        assert of(one) == of(one) != of(other)
    assert of(calls_itself) == of(calls_itself)
    before = of(calls_helper), of(calls_compiled), of(Scaled(1.0))
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    monkeypatch.setattr(Scaled, "__call__", lambda self, x: x)
    assert all(map(str.__ne__, before, (of(calls_helper), of(calls_compiled), of(Scaled(1.0)))))


class Settings:
    factor = 1.0


helper_of_rows = rows.kinds_first
SETTINGS, LISTED, NAMED = Settings(), [1.0], {"factor": 1.0}


def uses_a_list(x):
    return LISTED[0] * x


def uses_a_dictionary(x):
    return NAMED["factor"] * x


def uses_an_object(x):
    return SETTINGS.factor * x


def uses_a_class(x):
    return Settings.factor * x


def uses_another_module(x):
    return rows.factor * x


def uses_another_modules_function(x):
    return helper_of_rows(x)


class Own(eqx.Module):
    def __call__(self, x):
        return x


UNSEEN = {
    "what a list holds": (uses_a_list, lambda patch: patch.setitem(globals(), "LISTED", [2.0])),
    "what a dictionary holds": (uses_a_dictionary, lambda patch: patch.setitem(NAMED, "factor", 2.0)),
    "an object's attribute": (uses_an_object, lambda patch: patch.setattr(SETTINGS, "factor", 2.0, raising=False)),
    "a class's attribute": (uses_a_class, lambda patch: patch.setattr(Settings, "factor", 2.0)),
    "another module's number": (uses_another_module, lambda patch: patch.setattr(rows, "factor", 2.0, raising=False)),
    "another module's function": (
        uses_another_modules_function,
        lambda patch: patch.setitem(globals(), "helper_of_rows", eqx.filter),
    ),
    "the methods of a class of pytrees": (Own(), lambda patch: patch.setattr(Own, "__call__", lambda self, x: 2 * x)),
    "the methods that a method calls": (
        Scaled(1.0),
        lambda patch: patch.setattr(Scaled, "method", lambda self, x: 2 * x),
    ),
}


@pytest.mark.parametrize("what", UNSEEN)
def test_what_a_fingerprint_does_not_see(what, monkeypatch):
    """The list of docs/simulator.md: a run whose f changed in these ways only is continued. Seeing one is welcome."""
    function, change = UNSEEN[what]
    before = checkpoints.fingerprint(function)
    change(monkeypatch)
    assert checkpoints.fingerprint(function) == before


def test_a_run_is_of_a_version_and_a_schema(monkeypatch):
    before, data = checkpoints.run_id(GAME), checkpoints.fingerprint(GAME)
    for name, value in (("__version__", "0.0.9"), ("SCHEMA", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(checkpoints, name, value)
            assert checkpoints.run_id(GAME) != before
            assert checkpoints.fingerprint(GAME) == data  # of a problem alone: any version can compare it


def test_functions_are_told_apart_by_what_they_compute():
    pairs = [
        (lambda x, y: jnp.vdot(x, y), lambda x, y: 2 * jnp.vdot(x, y)),
        (lambda x, y: jnp.sum(x) * y[0], lambda x, y: jnp.max(x) * y[0]),
        (functools.partial(scaled_game, 2.0), functools.partial(scaled_game, 3.0)),
    ]
    for one, other in pairs:
        assert checkpoints.fingerprint(of(one)) != checkpoints.fingerprint(of(other))


def test_fingerprint_is_the_same_in_another_process():
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from support.checkpointed import fingerprints\nprint(*fingerprints())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == fingerprints()

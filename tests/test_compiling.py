"""Which programs are compiled quickly, and when programs are dropped."""

import jax
import numpy as np
import pytest
from support.games import GAME

from fedualex import compiling
from fedualex.compiling import (
    LARGE,
    MODERATE,
    QUICK,
    SMALL,
    TINY,
    WIDE,
    compile_by_size,
    compile_fully,
    compile_moderately,
    compile_quickly,
)


@pytest.fixture
def used(monkeypatch):
    """The options of the compiler for each call."""
    calls = []

    def jit(function, **options):
        def call(*arguments):
            calls.append(options.get("compiler_options", {}))
            return function(*arguments)

        return call

    monkeypatch.setattr(compiling, "jit", jit)
    return calls


def test_the_size_of_all_arguments_decides(used):
    program = compile_by_size(lambda a, b: a)
    for size, options in ((SMALL // 2, QUICK), (SMALL, MODERATE), (LARGE, WIDE)):
        program({"a": np.zeros(size)}, np.zeros((2, SMALL // 4)))
        assert used.pop() == options
    compile_quickly(lambda a: a)(np.zeros(2 * SMALL))
    assert used.pop() == QUICK
    compile_fully(lambda a: a)(np.zeros(2))
    assert used.pop() == WIDE
    for size, options in ((TINY, QUICK), (TINY + 1, MODERATE), (LARGE, MODERATE), (LARGE + 1, WIDE)):
        compile_moderately(lambda a: a)(np.zeros(size))
        assert used.pop() == options


@pytest.mark.parametrize("kind", [compile_by_size, compile_quickly, compile_moderately, compile_fully])
def test_part_of_another_program_is_compiled_as_that_one(used, kind):
    program = kind(lambda a: a + 1)
    assert jax.jit(lambda a: program(a))(1.0) == 2.0
    assert used == [{}]


@pytest.mark.parametrize("unknown", [True, False])
def test_a_compiler_that_does_not_know_the_options_is_asked_without_them(monkeypatch, unknown):
    reason = "INVALID_ARGUMENT: No such compile option: 'xla_x'" if unknown else "RESOURCE_EXHAUSTED"

    def jit(function, **options):
        def call(*arguments):
            if options:
                raise jax.errors.JaxRuntimeError(reason)
            return function(*arguments)

        return call

    monkeypatch.setattr(compiling, "jit", jit)
    if unknown:
        assert compile_by_size(lambda a: a)(1.0) == 1.0
    else:
        with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE"):
            compile_by_size(lambda a: a)(1.0)


@pytest.mark.parametrize(("allowed", "dropped"), [(1, 1), (10**9, 0)])
def test_certificates_alone_drop_programs_that_are_too_many(monkeypatch, tmp_path, allowed, dropped):
    found = []
    monkeypatch.setattr(jax, "clear_caches", lambda: found.append(1))
    (tmp_path / "limit").write_text(str(allowed))
    (tmp_path / "maps").write_text("one\ntwo\n")
    monkeypatch.setattr(compiling, "LIMIT", tmp_path / "limit")
    monkeypatch.setattr(compiling, "MAPS", tmp_path / "maps")
    monkeypatch.setattr(compiling, "_since_look", [compiling.LOOK])
    for _ in range(2):  # the second time it is too early to look again
        GAME.certificate(GAME.like)
    assert sum(found) == dropped

"""Step sizes, precision, compilation, progress, and memory."""

import io
import os
import subprocess
import sys

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from support.games import GAME, game
from support.plain_rows import rows
from support.simulating import SIZES, few_digits, simulate

import fedualex as fx
from fedualex.runtime import simulator as compilation

# --- step sizes, precision, compilation, progress ------------------------------------------------------------------


@pytest.mark.slow
def test_theory_steps_are_reported():
    assert simulate().steps == ""
    run = fx.simulate(GAME, fx.FeDualEx(), rounds=6, **SIZES, noise=fx.GaussianNoise(0.1))
    constants = fx.theory.constants(GAME, fx.GaussianNoise(0.1))
    best = fx.theory.proposition_b(constants, clients=3, local_steps=2, rounds=6).best_step
    assert run.steps.startswith(f"eta_c={best:.4g} (proposition B; beta=")
    same = simulate(best, noise=fx.GaussianNoise(0.1))
    np.testing.assert_allclose(run.z.x, same.z.x, rtol=1e-13, atol=1e-15)
    heuristic = fx.simulate(few_digits(0.2), fx.FeDualEx(), rounds=2, local_steps=10)
    assert "heuristic: the step of proposition B" in heuristic.steps


COMPILED = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: COMPILED.append(event) if "backend_compile" in event else None
)


def test_new_numbers_never_recompile():
    noise = fx.GaussianNoise(0.1)
    options = {"rounds": 6, "record_every": 2, **SIZES}
    fx.solve(GAME, fx.FeDualEx(0.1, eta_s=0.9), noise=noise, tol=1e-9, **options)
    fx.solve(GAME, fx.FeDualEx(), noise=noise, tol=1e-9, **options)
    COMPILED.clear()
    fx.solve(GAME, fx.FeDualEx(0.2, eta_s=0.8), noise=noise, tol=1e-8, seed=5, **options)
    fx.solve(GAME, fx.FeDualEx(), noise=fx.GaussianNoise(0.2), tol=1e-9, seed=6, **options)
    fx.solve(game(7), fx.FeDualEx(0.2), noise=noise, tol=1e-8, **options)
    fx.solve(GAME, fx.FeDualEx(0.2), noise=noise, tol=1e-8, z0=fx.Saddle(np.ones(5), np.ones(4)), **options)
    fx.simulate(GAME, fx.FeDualEx(0.2), noise=noise, **(options | {"rounds": 9, "record_every": 4}))
    assert COMPILED == []


def test_records_of_a_problem_with_a_known_floor_never_recompile():
    """Their surveys are remembered, with the values of f, which are new numbers at every record."""
    options = {"local_steps": 2, "tol": 1e-9, "record_every": 2}
    fx.solve(rows("logistic"), fx.FeDualExCorrected(0.01), rounds=2, **options)
    COMPILED.clear()
    run = fx.solve(rows("logistic"), fx.FeDualExCorrected(0.01), rounds=8, **options)
    assert "gap_bounds" in run.history
    assert COMPILED == []


def of_readme(seed):
    """The example of README, with data of this seed."""

    def loss(x, y, example):
        feature, label = example
        return jnp.logaddexp(0, -label * (feature + y) @ x) - 5 * jnp.sum(y**2)

    rng = np.random.default_rng(seed)
    data = [(rng.normal(size=(n, 3)), rng.choice([-1.0, 1.0], n)) for n in (40, 25, 90)]
    domain = {"x": fx.L1(0.01) + fx.Box(1.0), "y": fx.L2Ball(0.3), "like": fx.Saddle(np.zeros(3), np.zeros(3))}
    return fx.Problem(loss, **domain, data=data)


def test_a_first_answer_compiles_few_programs():
    jax.clear_caches()
    COMPILED.clear()
    fx.solve(of_readme(0), rounds=6)
    assert 5 <= len(COMPILED) <= 12


def test_nothing_is_computed_outside_of_a_few_programs():
    """Records, the start and the finish included: whatever jax is asked for eagerly is a program of its own."""
    jax.clear_caches()
    COMPILED.clear()
    simulate(noise=fx.GaussianNoise(0.1), rounds=6, record_every=2)
    assert 5 <= len(COMPILED) <= 8


class Counting(fx.problems.AbstractOracle):
    """The exact operator; counts how often it is traced."""

    traces = []  # noqa: RUF012

    def __call__(self, problem, client, z, key):
        Counting.traces.append(1)
        return problem.client_operator(client, z)


def test_a_run_traces_its_rounds_once():
    Counting.traces.clear()
    simulate(rounds=3, record_every=1, noise=Counting())
    once = len(Counting.traces)
    simulate(0.2, rounds=5, record_every=2, noise=Counting(), seed=4)
    assert len(Counting.traces) == once
    assert once <= 4  # two samples in a local step; fori_loop and scan may look at their body twice


def test_the_users_precision_is_untouched():
    before = jax.config.read("jax_enable_x64")
    simulate()
    with pytest.raises(ValueError, match="rounds must be"):
        simulate(rounds=0)
    with pytest.raises(RuntimeError):
        simulate(callback=lambda record: (_ for _ in ()).throw(RuntimeError))
    assert jax.config.read("jax_enable_x64") == before
    assert jnp.zeros(1).dtype == jnp.result_type(float)


def test_the_users_cache_of_programs_is_untouched(tmp_path, monkeypatch):
    """A run keeps its programs in a folder; what is compiled before and after it is the caller's."""
    names = (
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    monkeypatch.setenv("FEDUALEX_CACHE", str(tmp_path))
    before, within = [jax.config.values[name] for name in names], []

    def look(record):
        within.append([jax.config.values[name] for name in names])
        if len(within) == 1:
            simulate(rounds=1)  # a run within a run ends before it

    # Of a size that no other test has: what this process has compiled already is not compiled again.
    odd = fx.problems.bilinear(np.ones((13, 17)), np.ones(13), x=fx.Box(1.0), y=fx.Box(1.0))
    fx.simulate(odd, fx.FeDualEx(0.1), rounds=2, callback=look)
    with pytest.raises(RuntimeError):
        simulate(callback=lambda record: (_ for _ in ()).throw(RuntimeError))
    assert [jax.config.values[name] for name in names] == before
    if before[0] is None:
        assert within == [[str(tmp_path), 0, -1]] * len(within)
        assert any(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_programs_are_dropped_before_a_process_runs_out_of_memory_maps(tmp_path):
    program = """
from pathlib import Path
import numpy as np, fedualex as fx
from fedualex import compiling
compiling.LOOK = 1
def maps_after(size):
    game = fx.problems.bilinear(np.ones((2, size)), np.ones(2), x=fx.Box(1.0), y=fx.Box(1.0))
    fx.simulate(game, fx.FeDualEx(0.1), rounds=2)
    return compiling.MAPS.read_text().count("\\n")
one, two, three = map(maps_after, (3, 4, 5))
compiling.LIMIT = Path("limit")
compiling.LIMIT.write_text(str(three))
print(one < two < three, maps_after(6) < two)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=True
    )
    assert done.stdout.split() == ["True", "True"]


def test_of_too_many_kept_programs_the_half_goes_that_was_not_read_for_longest(tmp_path, monkeypatch):
    monkeypatch.setattr(compilation, "KEPT", 4)
    for age, name in enumerate("abcdef"):
        (tmp_path / f"{name}-cache").write_text("")
        os.utime(tmp_path / f"{name}-cache", (100 - age, 100 - age))
    (tmp_path / "mine").write_text("")
    os.utime(tmp_path / "f-cache", (200, 0))  # the oldest, read since
    for _ in range(2):  # what is left is few enough
        compilation._make_room(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {"a-cache", "b-cache", "f-cache", "mine"}


def test_no_progress_where_there_is_no_terminal(capfd):
    simulate()
    assert capfd.readouterr() == ("", "")


def test_progress_on_a_terminal(monkeypatch):
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=100, color_system=None)
    monkeypatch.setattr("rich.console.Console", lambda **_: terminal)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    simulate(rounds=6)
    assert "6/6" in screen.getvalue()
    assert "gap <= " in screen.getvalue()
    assert "rounds/s" in screen.getvalue()


# --- memory --------------------------------------------------------------------------------------------------------

MEASURE = """
import sys
import fedualex as fx

def mebibytes(name):  # unlike ru_maxrss, VmHWM does not begin with the parent's peak
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024

game, noise = fx.problems.paper_l1(), fx.GaussianNoise(0.1)
baseline = mebibytes("VmRSS")
for clients in map(int, sys.argv[1:]):
    fx.simulate(game, fx.FeDualEx(0.03), clients=clients, local_steps=1, rounds=1, noise=noise)
    print(mebibytes("VmHWM") - baseline)
"""


def peaks(*clients):
    """The peak memory in MiB, above what importing took, of a round with so many clients at d = 900."""
    command = [sys.executable, "-c", MEASURE, *map(str, clients)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(line) for line in result.stdout.split()]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_is_flat_in_clients():
    """All at once, 20,000 clients would take 144 MB for every vector they hold, and they hold at least five."""
    (peak,) = peaks(20_000)
    assert peak < 512


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_of_a_million_clients():
    (few,), (many,) = peaks(10_000), peaks(1_000_000)
    print(f"10,000 clients: {few:.0f} MiB, 1,000,000 clients: {many:.0f} MiB above the baseline")
    assert many < 1024
    assert many < few + 128  # ids, weights and steps: 32 bytes a client, some of them twice

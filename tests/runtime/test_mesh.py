"""Clients split over devices and over processes: the same numbers as on one device, and clear refusals."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from support import mesh_program
from support.mesh_program import CASES, GAME, METHOD

import fedualex as fx

PROGRAM = Path(mesh_program.__file__)
TOLERANCE = {"float32": 1e-6}
FAST = ["float32", "three steps", "data and a cohort"]


def run_together(commands, devices=1, seconds=200):
    """What each process prints last; all are ended when one fails or the time is over."""
    environment = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    processes = [subprocess.Popen([sys.executable, str(PROGRAM), *command], **pipes) for command in commands]
    try:
        results = []
        for process in processes:
            output, errors = process.communicate(timeout=seconds)
            assert process.returncode == 0, errors[-3000:]
            results.append(json.loads(output.splitlines()[-1]))
        return results
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


def assert_the_same(result, cases, devices):
    assert result["same"]["devices"] == devices
    assert list(result["differences"]) == list(cases)
    for case, found in result["differences"].items():
        assert found <= TOLERANCE.get(case, 1e-12), case


@pytest.mark.slow
def test_two_devices_are_as_good_as_one():
    (result,) = run_together([[",".join(FAST)]], devices=2)
    assert_the_same(result, FAST, devices=2)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 4])
def test_all_cases(devices):
    (result,) = run_together([[",".join(CASES)]], devices, seconds=280)
    assert_the_same(result, CASES, devices)


def two_processes(cases, tmp_path, seconds):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    file = str(tmp_path / "run.npz")
    results = run_together([[",".join(cases), port, str(i), file] for i in range(2)], seconds=seconds)
    assert_the_same(results[0], cases, devices=2)
    assert results[0]["same"] == results[1]["same"]  # to the last bit, the times of the records included


@pytest.mark.slow
def test_two_processes_are_as_good_as_one(tmp_path):
    two_processes(["three steps"], tmp_path, seconds=200)


@pytest.mark.slow
def test_all_cases_in_two_processes(tmp_path):
    two_processes(list(CASES), tmp_path, seconds=280)


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_mesh_of_one_device_is_no_mesh():
    mesh = jax.make_mesh((1,), ("clients",))
    one, other = (fx.simulate(GAME, METHOD, rounds=2, clients=3, mesh=m) for m in (mesh, None))
    for u, v in zip(jax.tree.leaves(one.state), jax.tree.leaves(other.state), strict=True):
        np.testing.assert_allclose(u, v, rtol=0, atol=1e-15)
    points = fx.sweep(GAME, METHOD, grid={"eta_c": [0.1]}, rounds=2, clients=3, mesh=mesh)
    assert points[0].run.gap == one.gap


@pytest.mark.parametrize("mesh", [2, "clients", jax.devices()])
def test_a_mesh_that_is_none_is_refused(mesh):
    with pytest.raises(TypeError, match=r"mesh must be a jax.sharding.Mesh such as jax.make_mesh"):
        fx.simulate(GAME, METHOD, rounds=1, mesh=mesh)


def test_a_mesh_with_two_axes_is_refused():
    with pytest.raises(ValueError, match=r"mesh must have one axis, along which clients are split, got \('a', 'b'\)"):
        fx.simulate(GAME, METHOD, rounds=1, mesh=jax.make_mesh((1, 1), ("a", "b")))


SPECTRAL = """
import jax, numpy as np
import fedualex as fx
psi = fx.Spectral(fx.L1(0.1) + fx.Box(0.5))
game = fx.problems.bilinear(np.eye(3), np.eye(3), x=psi, y=psi)
try:
    fx.simulate(game, fx.FeDualEx(0.1), clients=4, rounds=1, mesh=jax.make_mesh((2,), ("clients",)))
except ValueError as error:
    print(error)
"""


@pytest.mark.slow
def test_two_devices_that_would_wait_for_each_other_are_refused():
    """LAPACK calls of two CPU devices of one process hang (docs/scaling.md): two processes do not."""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    command = [sys.executable, "-c", SPECTRAL]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
    assert result.stdout.startswith("mesh must have one CPU device in each process for a problem with Spectral parts")

"""A site and the server of a consortium are killed in the middle of a run by FeDualSlide, under masks: it ends in the
undisturbed model. Whatever a test starts is ended by its process id, even when the test fails.
"""

import os
import signal
import threading
import time

import numpy as np
import psutil
import pytest
from support.consortium import run_in_threads, write_tables
from support.deployments import EXACT, cli, free_port
from support.patients import HOSPITALS

from fedualex import models
from fedualex.deploy import engines, processes
from fedualex.deploy.consortium.kit import write_table_deployment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
VICTIM = "north"
FIT = {"goal": "fair", "target": "outcome", "tol": 0.05}
RUN = {"secure_sums": "on", "timeout": 40.0, "attempts": 100}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    write_tables(folder)
    return folder


def made(place, name, **server):
    sites = {site: {"table": str(place / f"{site}.csv")} for site in HOSPITALS}
    write_table_deployment(place / name, FIT, sites, server, RUN)
    return place / name


@pytest.fixture(scope="module")
def undisturbed(place):
    root = made(place, "undisturbed")
    run_in_threads(root)
    return models.load(root / "server")


def pids_of(root, engine, party):
    if engine == "nvflare":
        return [process.pid for process in processes.members(root, party)]
    server = psutil.Process(int((root / "server" / "server.lock").read_text()))
    if party == "server":
        return [server.pid]
    return [child.pid for child in server.children() if child.cwd() == str((root / "sites" / party).resolve())]


def kill_in_the_middle(root, engine, party, killed):
    """As soon as the first exchange of the run is in the checkpoint."""
    while not (root / "server" / "run" / "checkpoint.npz").exists():
        time.sleep(0.02)
    pids = pids_of(root, engine, party)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    killed.extend(pids)
    if engine == "nvflare":
        from fedualex.deploy.nvflare import control

        psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], 30)
        control.start(root, party)


@pytest.mark.parametrize("party", [VICTIM, "server"])
@pytest.mark.parametrize("engine", ["local", "nvflare"])
def test_a_killed_party_costs_time_alone(place, undisturbed, engine, party):
    root, killed = made(place, f"{engine}-{party}", engine=engine, port=free_port()), []
    try:
        cli("up", root)
        killer = threading.Thread(target=kill_in_the_middle, args=(root, engine, party, killed))
        killer.start()
        ran = cli("run", root, code=1 if party == "server" else 0)
        killer.join()
        assert killed
        if party == "server":
            ran = cli("resume", root)
        print(ran.output)
    finally:
        engines.control_of(engine).down(root)
    for home in (root / "server", *(root / "sites" / name for name in HOSPITALS)):
        model = models.load(home)
        np.testing.assert_allclose(model.weights, undisturbed.weights, rtol=0, atol=EXACT)
        assert model.certificate["gap"] == pytest.approx(undisturbed.certificate["gap"], abs=EXACT)

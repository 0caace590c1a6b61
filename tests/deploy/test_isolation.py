"""Three sites as three users in three network namespaces, each with a table that nobody else can read."""

import os
import shutil
import struct
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from support.command_line import cli
from support.consortium import write_tables
from support.isolation import SERVER, Capture, Isolated, memory_of
from support.patients import HOSPITALS, columns, write

from fedualex import models

CANARY = 7313.3771249
"""A value of one row at one site; it must be found nowhere else."""
GOALS = ("fair", "auc", "logistic", "neyman-pearson")
LIMITS = {"neyman-pearson": ("--limit", "0.6")}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and `ip` for namespaces"),
]


def planted(place):
    """The tables of the hospitals, one value of the north's replaced by one that occurs nowhere."""
    write_tables(place)
    whole = columns(150)
    own = [i for i, hospital in enumerate(whole["hospital"]) if hospital == "north"]
    table = {key: [values[i] for i in own] for key, values in whole.items() if key not in ("hospital", "days")}
    table["dose"][0] = CANARY
    write(place / "north.csv", table)
    everything = {key: list(values) for key, values in whole.items() if key != "days"}
    everything["dose"][own[0]] = CANARY
    write(place / "all.csv", everything)


def holds_canary(content: bytes) -> bool:
    return struct.pack("<d", CANARY) in content or str(CANARY).encode() in content


@pytest.fixture
def place():
    """A folder that every user may enter; pytest's own are closed to all but one."""
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.parametrize("goal", GOALS)
def test_sites_that_cannot_see_each_other_make_the_model_of_the_union(place, goal):
    planted(place)
    more = LIMITS.get(goal, ())
    with Isolated([SERVER, *HOSPITALS]) as isolated:
        kit, host = place / "kit", isolated.address(SERVER)
        options = ("--goal", goal, "--target", "outcome", "--sites", ",".join(HOSPITALS), *more)
        cli("deploy", "init", kit, *options, "--engine", "nvflare", "--host", host)
        homes = {SERVER: place / "at-server"} | {name: place / f"at-{name}" for name in HOSPITALS}
        for home in homes.values():
            home.mkdir()
        for part in ("server", "admin"):
            shutil.move(kit / part, homes[SERVER] / part)
        for name in HOSPITALS:
            shutil.move(kit / "sites" / name, homes[name] / "site")
            shutil.copy(place / f"{name}.csv", homes[name] / "site" / "own.csv")
            text = (homes[name] / "site" / "site.toml").read_text().replace('table = ""', 'table = "own.csv"')
            (homes[name] / "site" / "site.toml").write_text(text)
        for party, home in homes.items():
            isolated.give(party, home)
        spied = isolated.run("east", homes["east"], "cat", str(homes["north"] / "site" / "own.csv"))
        assert "Permission denied" in spied.stderr
        capture = Capture(isolated)
        capture.start()
        isolated.start(SERVER, homes[SERVER], str(homes[SERVER] / "server" / "start.sh"))
        for name in HOSPITALS:
            isolated.start(name, homes[name], str(homes[name] / "site" / "start.sh"))
        time.sleep(20)
        began = isolated.run(SERVER, homes[SERVER], "fedualex", "deploy", "run", str(homes[SERVER]))
        assert "Certified: no model" in began.stdout, began.stdout + began.stderr
        for pid in isolated.pids(SERVER):
            assert not holds_canary(memory_of(pid))
        traffic = capture.end()
        assert len(traffic) > 100_000
        assert not holds_canary(traffic)
        for file in homes[SERVER].rglob("*"):
            assert not (file.is_file() and holds_canary(file.read_bytes())), file
        assert holds_canary((homes["north"] / "site" / "own.csv").read_bytes())
        deployed = models.load(homes[SERVER] / "server")
    fit = ("--target", "outcome", "--clients", "hospital", "--goal", goal, *more, "--out", place / "fit")
    assert cli("fit", place / "all.csv", *fit).exit_code == 0
    pooled = models.load(place / "fit")
    assert deployed.encoder.features == pooled.encoder.features
    assert deployed.certificate["status"] == pooled.certificate["status"] == "OPTIMAL"
    scale = float(np.max(np.abs(pooled.weights)))
    np.testing.assert_allclose(deployed.weights, pooled.weights, rtol=0, atol=1e-3 * scale)

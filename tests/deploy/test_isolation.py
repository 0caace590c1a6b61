"""Sites as users in network namespaces of their own, each with a table that nobody else can read, on NVFlare."""

import os
import shutil
import struct
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from support.command_line import cli
from support.isolation import POSSIBLE, SERVER, Capture, Isolated, Searched
from support.patients import write

from fedualex import models
from fedualex.data import bundled_table, read_csv

SITES = {"east": 250, "north": 200, "west": 119}
"""How many rows of the table of breast cancers each has."""
SPY, OWNER = "east", "north"
PORT = 8002
GOALS = {"fair": (), "auc": (), "logistic": ("--l1", "0.01"), "neyman-pearson": ()}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not POSSIBLE, reason="needs root, `ip` and `setpriv`"),
]


@pytest.fixture
def place():
    """A folder that every user may enter, with a table for each site and one of all; pytest's own are closed to others."""
    table = bundled_table("breast_cancer")
    whole = {name: values.tolist() for name, values in table.items()}
    whole["site"] = [site for site, rows in SITES.items() for _ in range(rows)]
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        place = Path(folder)
        write(place / "all.csv", whole)
        for site in SITES:
            own = [i for i, name in enumerate(whole["site"]) if name == site]
            write(
                place / f"{site}.csv",
                {key: [values[i] for i in own] for key, values in whole.items()},
                without=["site"],
            )
        yield place


@contextmanager
def deployed(place, goal):
    """Each party's folder in its own home, under a name of its own choice, and its process."""
    with Isolated([SERVER, *SITES], place) as isolated:
        kit, homes = place / "kit", isolated.homes
        options = ("--goal", goal, "--target", "target", "--sites", ",".join(SITES), *GOALS[goal])
        assert (
            cli("deploy", "init", kit, *options, "--engine", "nvflare", "--host", isolated.address(SERVER)).exit_code
            == 0
        )
        for part in ("server", "admin"):
            shutil.move(kit / part, homes[SERVER] / part)
        for site in SITES:
            own = homes[site] / "study"
            shutil.move(kit / "sites" / site, own)
            shutil.move(place / f"{site}.csv", own / "own.csv")
            (own / "site.toml").write_text((own / "site.toml").read_text().replace('table = ""', 'table = "own.csv"'))
        for party in homes:
            isolated.give(party)
        isolated.start(SERVER, homes[SERVER] / "server" / "start.sh")
        for site in SITES:
            isolated.start(site, homes[site] / "study" / "start.sh")
        isolated.wait_for_port(PORT)
        yield isolated


def words_of_a_row(model, table):
    """What would give away the first row of a table: its numbers as text, as they are in memory, and as scaled there."""
    row = {name: float(table[name][0]) for name in table if name != "target"}
    telling = [name for name, value in row.items() if len(str(value)) >= 7][:3]
    scaled = dict(zip(model.encoder.features, model.encoder.transform(table)[0], strict=True))
    return [
        *(str(row[name]).encode() for name in telling),
        *(struct.pack("<d", row[name]) for name in telling),
        *(struct.pack("<d", scaled[name]) for name in telling),
    ]


def fitted(place, goal):
    """The model of all rows on one machine."""
    options = ("--target", "target", "--clients", "site", "--goal", goal, *GOALS[goal], "--out", place / "fit")
    assert cli("fit", place / "all.csv", *options).exit_code == 0
    return models.load(place / "fit")


def assert_same_model(model, pooled):
    """Sums over sites and sums over all rows differ in their last digits, and the choice of points amplifies that."""
    assert model.encoder.features == pooled.encoder.features
    assert model.certificate["status"] == pooled.certificate["status"] == "OPTIMAL"
    np.testing.assert_allclose(model.weights, pooled.weights, rtol=0, atol=1e-3 * np.max(np.abs(pooled.weights)))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("goal", GOALS)
def test_sites_that_cannot_see_each_other_make_the_model_of_the_union(place, goal):
    pooled = fitted(place, goal)
    words = words_of_a_row(pooled, read_csv(place / f"{OWNER}.csv"))
    with deployed(place, goal) as isolated:
        homes = isolated.homes
        spied = isolated.run(SPY, "cat", homes[OWNER] / "study" / "own.csv")
        assert "Permission denied" in spied.stderr
        at_server, at_owner = (Searched(isolated, party, words) for party in (SERVER, OWNER))
        with Capture(isolated) as capture:
            with at_server, at_owner:
                ran = isolated.run(SERVER, "fedualex", "deploy", "run", homes[SERVER])
            assert ran.returncode == 0, ran.stdout + ran.stderr
            assert "Certified: no model" in ran.stdout
            assert len(capture.content) > 100_000
            assert not [word for word in words if word in capture.content]
            leak = f"import socket; socket.socket(2, 2).sendto({words[0]!r}, ('{isolated.address(SERVER)}', 9))"
            assert isolated.run(OWNER, sys.executable, "-c", leak).returncode == 0
        assert words[0] in capture.content, "the capture does not see what a site sends"
        assert at_owner.found, "the search does not see what a site has in memory"
        assert at_server.looks > 3
        assert not at_server.found
        for file in homes[SERVER].rglob("*"):
            assert not (file.is_file() and any(word in file.read_bytes() for word in words)), file
        model = models.load(homes[SERVER] / "server")
        copies = [models.load(homes[site] / "study") for site in SITES]
    for copy in copies:
        np.testing.assert_array_equal(copy.weights, model.weights)
    difference = np.max(np.abs(model.weights - pooled.weights)) / np.max(np.abs(pooled.weights))
    print(
        f"{goal}: certified {model.certificate['gap']:.6g} and {pooled.certificate['gap']:.6g} (fit), weights differ by "
        f"{difference:.1e}; {len(capture.content)} bytes of frames; the server's memory was searched "
        f"{at_server.looks} times"
    )
    assert_same_model(model, pooled)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seconds", [20, 100])
def test_a_network_that_is_cut_and_comes_back_costs_time_alone(place, seconds):
    """The longer cut outlasts a site's `timeout` and NVFlare's patience with silent sites, both 60 s."""
    pooled = fitted(place, "fair")
    with deployed(place, "fair") as isolated:
        home = isolated.homes[SERVER]
        run = threading.Thread(target=lambda: ended.append(isolated.run(SERVER, "fedualex", "deploy", "run", home)))
        ended = []
        run.start()
        while not (home / "server" / "run" / "checkpoint.npz").exists():
            assert run.is_alive(), ended
            time.sleep(0.02)
        isolated.plug(OWNER, "down")
        time.sleep(seconds)
        assert run.is_alive(), "the run did not need the site"
        isolated.plug(OWNER, "up")
        run.join()
        [ran] = ended
        print(ran.stdout)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert_same_model(models.load(home / "server"), pooled)

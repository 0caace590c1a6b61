"""The local engine: real processes of this machine, killed and hung, and who may connect.

Whatever a test starts is ended by its process id, even when the test fails.
"""

import json
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from fedualex.deploy import wire as encoding
from fedualex.deploy.engine import NOT_CONNECTED
from fedualex.deploy.local import control
from fedualex.deploy.local.carrier import Link, Processes, introduce, welcome
from fedualex.deploy.party import Layout, read_log, write_file
from fedualex.runtime.status import Code

TOYS = {"serve": "support.nvflare_toys:average", "site": "support.nvflare_toys:load"}
PATIENCE = 120.0


# Who may connect


def pair():
    one, other = socket.socketpair()
    return LocalLink(one), LocalLink(other)


class LocalLink(Link):
    """A link over a pair of sockets, which have no TCP options."""

    def __init__(self, connection):
        self._connection = connection
        connection.settimeout(10.0)


def shake(name: str, key: bytes, keys: dict[str, bytes]):
    """What came of a handshake at the server and at the site."""
    server, site = pair()
    found = {}

    def at_site():
        try:
            introduce(site, name, key)
            found["site"] = "welcome"
        except (OSError, EOFError) as error:
            found["site"] = str(error)

    thread = threading.Thread(target=at_site)
    thread.start()
    try:
        found["server"] = welcome(server, keys)
    except PermissionError as error:
        found["server"] = str(error)
        server.close()
    thread.join()
    for link in (server, site):
        link.close()
    return found


def test_a_site_is_who_has_its_key():
    keys = {"a": b"1" * 32, "b": b"2" * 32}
    assert shake("a", keys["a"], keys) == {"server": "a", "site": "welcome"}
    for name, key in (("a", keys["b"]), ("stranger", keys["a"]), ("a\n" + "x" * 90, b"")):
        found = shake(name, key, keys)
        assert found["server"].startswith(f"somebody who says to be {name[:63]!r} does not have its key")
        assert found["site"] == "the other side has closed the connection"


def test_a_site_refuses_a_server_without_its_key():
    server, site = pair()

    def impostor():
        server.send(bytes(32))
        server.receive()
        server.receive()
        server.send(bytes(32))

    thread = threading.Thread(target=impostor)
    thread.start()
    with pytest.raises(PermissionError, match="the server does not have this site's key"):
        introduce(site, "a", b"1" * 32)
    thread.join()
    for link in (server, site):
        link.close()


def test_a_site_with_the_key_of_another_kit_is_told_to_have_it_until_it_comes_with_its_own(tmp_path):
    own = b"1" * 32
    write_file(tmp_path / "start.sh", "#!/bin/sh\nexec sleep 60\n", 0o700)
    carrier = Processes({"a": tmp_path}, {"a": own})
    links = []

    def come(key: bytes) -> None:
        links.append(Link(socket.create_connection(carrier._listener.getsockname(), 10.0)))
        introduce(links[-1], "a", key)

    try:
        assert carrier.carry(b"x", ["a"], 5.0) == {"a": NOT_CONNECTED}
        with pytest.raises((OSError, EOFError)):
            come(bytes(32))
        end = time.monotonic() + 10
        while carrier.carry(b"x", ["a"], 5.0)["a"] == NOT_CONNECTED and time.monotonic() < end:
            time.sleep(0.01)
        why = carrier.carry(b"x", ["a"], 5.0)["a"]
        assert why.code is Code.WRONG_KEY
        assert why.text == "its key is not the one that the server has in keys"
        come(own)
        while not carrier.sites() and time.monotonic() < end:
            time.sleep(0.01)
        assert carrier.sites() == ["a"]
    finally:
        for link in links:
            link.close()
        carrier.close()


def test_a_few_sites_load_at_a_time_and_one_that_is_slow_holds_up_nobody_for_long(tmp_path, monkeypatch):
    monkeypatch.setattr("fedualex.deploy.local.carrier.AT_ONCE", 2)
    monkeypatch.setattr("fedualex.deploy.local.carrier.LOAD_SECONDS", 0.5)
    monkeypatch.setattr("fedualex.deploy.local.carrier.LEAVE_SECONDS", 0.0)
    homes = {name: tmp_path / name for name in "abcde"}
    for home in homes.values():
        home.mkdir()
        write_file(
            home / "start.sh",
            '#!/bin/sh\ncd "$(dirname "$0")"\ndate +%s.%N > new\nmv new started\nexec sleep 60\n',
            0o700,
        )
    carrier = Processes(homes, dict.fromkeys(homes, b"1" * 32))
    try:
        end = time.monotonic() + 30
        while not all((home / "started").exists() for home in homes.values()) and time.monotonic() < end:
            time.sleep(0.05)
        times = sorted(float((home / "started").read_text()) for home in homes.values())
        assert times[2] - times[0] > 0.4
        assert times[4] - times[0] > 0.8
    finally:
        carrier.close()


def test_a_frame_that_is_too_large_is_refused_before_it_is_read():
    one, other = pair()
    one._connection.sendall(struct.pack("<Q", encoding.LARGEST + 1))
    with pytest.raises(ConnectionError, match="at most 1073741824 bytes, got 1073741825"):
        other.receive()
    one.send(b"ab")
    one.close()
    assert other.receive() == b"ab"
    with pytest.raises(EOFError):
        other.receive()
    other.close()


def test_each_party_has_its_own_key(tmp_path):
    control.provision(tmp_path, ["a", "b"], host="localhost", port=8002, **TOYS)
    layout = Layout(tmp_path)
    keys = [(layout.site(name) / "site.key").read_bytes() for name in "ab"]
    assert len({*keys}) == 2
    assert [(layout.server / "keys" / name).read_bytes() for name in "ab"] == keys
    secrets = [layout.site(name) / "site.key" for name in "ab"] + [layout.server / "keys" / name for name in "ab"]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secrets)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in (layout.server, layout.site("a")))
    assert control.state(tmp_path) == ("none", True)
    with pytest.raises(FileExistsError, match="holds a deployment already"):
        control.provision(tmp_path, ["a"], host="localhost", port=8002, **TOYS)


# Processes


class Trial:
    """Toys in processes, with what the tests do to them."""

    def __init__(self, folder: Path, sites: list[str]) -> None:
        self.layout, self.sites = Layout(folder), sites
        control.provision(folder, sites, host="localhost", port=8002, **TOYS)

    def submit(self, **plan) -> None:
        plan = {"size": 128, "timeout": 60.0, "rounds": 20} | plan
        (self.layout.server / "plan.json").write_text(json.dumps(plan))
        control.submit(self.layout.root, len(self.sites))

    def order(self, site: str, **orders) -> None:
        (self.layout.site(site) / "orders.json").write_text(json.dumps(orders))

    def result(self) -> dict:
        file = self.layout.server / "result.json"
        return json.loads(file.read_text()) if file.exists() else {"rounds": 0}

    def until(self, done, what: str, seconds: float = PATIENCE) -> None:
        end = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < end, f"{what}\n{self.logs()}"
            time.sleep(0.05)

    def until_ended(self, seconds: float = PATIENCE) -> str:
        self.until(lambda: control.state(self.layout.root)[1], "the end of the run", seconds)
        return control.state(self.layout.root)[0]

    def processes(self) -> dict[str, psutil.Process]:
        """The process of each party by its folder."""
        found = {}
        for process in psutil.process_iter():
            try:
                if "fedualex.deploy.local" in " ".join(process.cmdline()):  # which is empty for a zombie
                    found[process.cwd()] = process
            except (psutil.Error, OSError):
                continue
        homes = {name: str(self.layout.party(name).resolve()) for name in ("server", *self.sites)}
        return {name: found[home] for name, home in homes.items() if home in found}

    def logs(self) -> str:
        files = [*self.layout.root.rglob("log.txt"), *self.layout.root.rglob("log.jsonl")]
        return "\n".join(f"{file}:\n{file.read_text(errors='replace')[-3000:]}" for file in files)


@pytest.fixture
def trial(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    made = []

    def make(*sites: str) -> Trial:
        made.append(Trial(tmp_path / f"trial-{len(made)}", list(sites)))
        return made[-1]

    yield make
    for started in made:
        control.down(started.layout.root)


def expected(rounds: int, numbers=(1, 2), faulty=None):
    x = np.linspace(0.0, 1.0, 128)
    for r in range(rounds):
        x = np.mean([(x + number) / 2 for number in ((1,) if r == faulty else numbers)], axis=0)
    return x


def test_a_run_is_a_process_for_each_party_and_leaves_none(trial):
    """What a site says of its error stays in its log; a server that lives is not started twice."""
    started = trial("site-1", "site-2")
    started.order("site-2", **{"raise": 3})
    assert control.state(started.layout.root) == ("none", True)
    started.submit(pause=0.1)
    assert control.state(started.layout.root) == ("running", False)
    with pytest.raises(RuntimeError, match="runs already: `fedualex deploy stop` ends it"):
        control.submit(started.layout.root, 2)
    started.until(lambda: started.result()["rounds"] >= 5, "five rounds")
    alive = started.processes()
    assert set(alive) == {"server", "site-1", "site-2"}
    listening = [c for c in alive["server"].net_connections(kind="inet") if c.status == psutil.CONN_LISTEN]
    assert [c.laddr.ip for c in listening] == ["127.0.0.1"]
    assert started.until_ended() == "finished", started.logs()
    result = started.result()
    assert result["errors"] == [[3, "site-2", "the site raised ValueError (its log says more)"]]
    assert np.array_equal(result["x"], expected(20, faulty=3))
    lines = list(read_log(started.layout.site("site-2")))
    assert {line["party"] for line in lines} == {"site-2"}
    assert ["secret 4711" in line.get("error", "") for line in lines if line["level"] == "ERROR"] == [True]
    server = [file for file in started.layout.server.iterdir() if file.is_file()]
    assert not any("secret 4711" in file.read_text(errors="replace") for file in server)
    started.until(lambda: started.processes() == {}, "all to end")


@pytest.mark.slow
def test_a_killed_site_is_noticed_at_once_and_comes_back(trial):
    started = trial("site-1", "site-2")
    started.submit(rounds=400, pause=0.05)
    started.until(lambda: started.result()["rounds"] >= 5, "five rounds")
    first = started.processes()["site-2"].pid
    os.kill(first, signal.SIGKILL)
    started.until(lambda: started.result()["errors"], "an error")
    assert started.result()["errors"][0][2] in ("the site's process ended", "not connected")
    started.until(
        lambda: started.processes().get("site-2", psutil.Process()).pid not in (first, os.getpid()), "another"
    )
    assert started.until_ended() == "finished", started.logs()
    result = started.result()
    assert max(result["seconds"]) < 30  # nobody waited for the timeout
    missed = [r for r, _, _ in result["errors"]]
    assert missed == list(range(missed[0], missed[-1] + 1))
    assert missed[-1] < 399  # it was back before the end


@pytest.mark.slow
@pytest.mark.parametrize("hangs", [False, True])
def test_after_a_killed_server_no_process_is_left(trial, hangs):
    """Not even a site that hangs in its work."""
    started = trial("site-1", "site-2")
    if hangs:
        started.order("site-2", sleep=7, seconds=10_000.0)
    started.submit(rounds=10_000, pause=0.05)
    started.until(lambda: started.result()["rounds"] >= 7, "seven rounds")
    time.sleep(1.0)
    alive = started.processes()
    alive["server"].kill()
    started.until(lambda: control.state(started.layout.root)[1], "the end")
    assert control.state(started.layout.root) == ("lost", True)
    started.until(lambda: started.processes() == {}, "all to end")


@pytest.mark.slow
def test_a_straggler_is_waited_for_only_so_long_and_ended_with_the_run(trial):
    started = trial("site-1", "site-2")
    started.order("site-2", sleep=4, seconds=10_000.0)
    started.submit(rounds=7, timeout=1.5)
    assert started.until_ended() == "finished", started.logs()
    assert [error[:2] for error in started.result()["errors"]] == [[r, "site-2"] for r in (4, 5, 6)]
    assert {error[2] for error in started.result()["errors"]} == {"timeout"}
    assert started.processes() == {}


@pytest.mark.slow
def test_a_late_answer_is_not_taken_for_the_next(trial):
    started = trial("site-1", "site-2")
    started.order("site-2", sleep=4, seconds=3.0)
    started.submit(rounds=12, timeout=1.5, pause=0.5)
    assert started.until_ended() == "finished", started.logs()
    missed = [r for r, _, _ in started.result()["errors"]]
    assert missed[0] == 4
    assert missed == list(range(4, 4 + len(missed)))
    assert len(missed) < 4
    x = np.linspace(0.0, 1.0, 128)
    for r in range(12):
        x = np.mean([(x + number) / 2 for number in ((1,) if r in missed else (1, 2))], axis=0)
    assert np.array_equal(started.result()["x"], x)


@pytest.mark.slow
def test_stop_and_a_loop_that_raises(trial):
    started = trial("site-1")
    started.submit(rounds=100_000)
    started.until(lambda: started.result()["rounds"] >= 3, "three rounds")
    control.stop(started.layout.root)
    assert control.state(started.layout.root) == ("stopped", True)
    assert started.result()["stopped"] or started.result()["rounds"] < 100_000
    (started.layout.server / "engine.json").write_text(
        '{"name": "server", "entry": "support.nvflare_toys:fail", "sites": ["site-1"]}'
    )
    started.submit()
    assert started.until_ended() == "failed"
    assert "the loop is broken" in (started.layout.server / "outcome.json").read_text()
    assert started.processes() == {}


@pytest.mark.slow
def test_a_site_that_does_not_start_is_not_waited_for(trial):
    started = trial("site-1", "site-2")
    (started.layout.site("site-2") / "start.sh").write_text("#!/bin/sh\nexit 3\n")
    started.submit(rounds=3)
    assert started.until_ended() == "finished", started.logs()
    assert started.result()["sites"] == ["site-1"]
    assert any("site site-2 ended with code 3" in line["message"] for line in read_log(started.layout.server))


@pytest.mark.slow
def test_a_server_that_cannot_start_says_why(trial):
    started = trial("site-1")
    (started.layout.server / "start.sh").write_text("#!/bin/sh\necho no python here\nexit 3\n")
    with pytest.raises(RuntimeError, match=r"does not start; the end of .*: no python here"):
        started.submit()


EXCHANGES = {(3, "1 kB"): 100, (3, "1 MB"): 20, (3, "10 MB"): 8, (3, "100 MB"): 4, (20, "1 kB"): 100, (50, "1 kB"): 100}
"""How many exchanges are measured, by the number of sites and the size of a message."""
LONG = 3000.0
"""Seconds for many processes on few cores."""
NUMBERS = {"1 kB": 128, "1 MB": 131_072, "10 MB": 1_310_720, "100 MB": 13_107_200}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("count", "size"), EXCHANGES)
def test_seconds_an_exchange_and_memory(trial, count, size):
    """Printed with `pytest -s`; benchmarks/results/deployment.md quotes such a run."""
    started = trial(*(f"site-{number}" for number in range(1, count + 1)))
    began = time.monotonic()
    started.submit(rounds=EXCHANGES[count, size], size=NUMBERS[size], pause=0.0, timeout=600.0)
    started.until(lambda: started.result()["rounds"] >= 1, "the first round", LONG)
    first = time.monotonic() - began
    memory = {name: process.memory_full_info() for name, process in started.processes().items()}
    assert started.until_ended(LONG) == "finished", started.logs()
    assert started.result()["errors"] == []
    assert len(started.result()["sites"]) == count
    seconds = np.array(started.result()["seconds"][1:])
    own = [found.uss / 1e6 for name, found in memory.items() if name != "server"]
    total = sum(found.pss for found in memory.values()) / 1e6
    print(
        f"\n{count} sites, {size}: median {np.median(seconds):.4f} s, worst {seconds.max():.3f} s of {len(seconds)}, "
        f"first round after {first:.0f} s; MB of a site's own {np.median(own or [0]):.0f}, of all processes {total:.0f}"
    )


def test_a_site_starts_without_what_it_does_not_need():
    """Each of these takes a tenth of the processor time of a start, and there may be 50 sites on a machine."""
    code = "import fedualex.deploy.consortium.deployment, sys; print(*sorted({'rich', 'scipy', 'sklearn'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []

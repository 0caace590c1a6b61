"""Parties that cannot see each other: a user of its own, a network namespace of its own, a folder that is its own.

Needs root, `ip` and `setpriv`. The namespaces are joined by a bridge in the server's, and by nothing else.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

SERVER = "server"
FIRST_USER = 61000
POSSIBLE = os.geteuid() == 0 and all(map(shutil.which, ("ip", "setpriv")))
_ALL_FRAMES, _NETWORK_NAMESPACE = 3, 0x40000000


class Isolated:
    """The parties of a deployment, the server first; users and addresses are numbered in this order.

    homes: a folder for each party, which is made, and is its home.
    """

    def __init__(self, parties: Sequence[str], place: Path):
        self.parties, self._mark = list(parties), f"fdx{os.getpid()}"
        self.homes = {party: place / f"home-of-{party}" for party in parties}
        self._processes: list[subprocess.Popen] = []

    def __enter__(self) -> "Isolated":
        for number, party in enumerate(self.parties):
            self.homes[party].mkdir()
            _ip("netns", "add", self.space(party))
            self._inside(party, "link", "set", "lo", "up")
            if party == SERVER:
                self._inside(SERVER, "link", "add", "bridge", "type", "bridge")
                self._inside(SERVER, "addr", "add", f"{self.address(SERVER)}/24", "dev", "bridge")
                self._inside(SERVER, "link", "set", "bridge", "up")
                continue
            near, far = f"cable{number}", "cable"
            spaces = self.space(SERVER), self.space(party)
            _ip("link", "add", near, "netns", spaces[0], "type", "veth", "peer", "name", far, "netns", spaces[1])
            self._inside(SERVER, "link", "set", near, "master", "bridge", "up")
            self._inside(party, "addr", "add", f"{self.address(party)}/24", "dev", far)
            self._inside(party, "link", "set", far, "up")
        return self

    def __exit__(self, *exception) -> None:
        for party in self.parties:
            for number in self.pids(party):  # jobs of engines have sessions of their own, but not namespaces
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", self.space(party)], check=False)
        for process in self._processes:
            process.wait()

    def space(self, party: str) -> str:
        return f"{self._mark}-{party}"

    def address(self, party: str) -> str:
        return f"10.77.0.{self.parties.index(party) + 1}"

    def give(self, party: str) -> None:
        """Make all in its home a party's own: nobody else may read it."""
        user = FIRST_USER + self.parties.index(party)
        for path in (self.homes[party], *self.homes[party].rglob("*")):
            os.chown(path, user, user)
            path.chmod(path.stat().st_mode & 0o700)

    def start(self, party: str, *arguments: str | Path) -> subprocess.Popen:
        """A process that goes on; what it says is in log.txt of the party's home."""
        with open(self.homes[party] / "log.txt", "ab") as log:
            process = subprocess.Popen(
                self._command(party, *arguments), stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self._processes.append(process)
        return process

    def run(self, party: str, *arguments: str | Path, timeout: float = 600) -> subprocess.CompletedProcess:
        return subprocess.run(self._command(party, *arguments), capture_output=True, text=True, timeout=timeout)

    def wait_for_port(self, port: int, seconds: float = 300) -> None:
        """Until the server listens."""
        probe, end = f"import socket; socket.create_connection(('{self.address(SERVER)}', {port}), 1)", time.time()
        while self.run(SERVER, sys.executable, "-c", probe).returncode:
            assert time.time() < end + seconds, (self.homes[SERVER] / "log.txt").read_text()
            time.sleep(0.5)

    def pids(self, party: str) -> list[int]:
        found = subprocess.run(["ip", "netns", "pids", self.space(party)], capture_output=True, text=True, check=True)
        return list(map(int, found.stdout.split()))

    def plug(self, party: str, state: str) -> None:
        """The cable between a site and the server, "up" or "down"."""
        self._inside(SERVER, "link", "set", f"cable{self.parties.index(party)}", state)

    def _command(self, party: str, *arguments: str | Path) -> list[str]:
        """As this party's user, in its namespace, with an environment of its own."""
        user, home = FIRST_USER + self.parties.index(party), self.homes[party]
        environment = {
            "HOME": home,
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        words = [f"{key}={value}" for key, value in environment.items()]
        switch = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "env", "-i", *words]
        inside = ["ip", "netns", "exec", self.space(party), "sh", "-c", f'{_interpreter()} exec "$@"', "sh", *switch]
        return [*inside, *map(str, arguments)]

    def _inside(self, party: str, *arguments: str) -> None:
        _ip("-n", self.space(party), *arguments)


class Capture:
    """Every frame on the server's bridge, as one string of bytes."""

    def __init__(self, isolated: Isolated):
        self.content, self._ended = bytearray(), threading.Event()
        with _entered(isolated.space(SERVER)):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_FRAMES))
        self._socket.settimeout(0.2)
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> "Capture":
        self._thread.start()
        return self

    def __exit__(self, *exception) -> None:
        self._ended.set()
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                self.content += self._socket.recv(1 << 17)


class Searched:
    """Looks for words in the memory of a party's processes, again and again while it is entered, until one is found."""

    def __init__(self, isolated: Isolated, party: str, words: Sequence[bytes]):
        self._isolated, self._party, self._words = isolated, party, words
        self.found: set[bytes] = set()
        self.looks = 0
        self._ended, self._thread = threading.Event(), threading.Thread(target=self._look)

    def __enter__(self) -> "Searched":
        self._thread.start()
        return self

    def __exit__(self, *exception) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self.found and not self._ended.wait(0.5):
            for pid in self._isolated.pids(self._party):
                self.found |= {word for area in _memory_of(pid) for word in self._words if word in area}
            self.looks += 1


def _memory_of(pid: int) -> Iterator[bytes]:
    """What a process holds in memory that it can write to, area by area; nothing if it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/mem", "rb", 0) as memory:
        ends, writable = (0, 0), False
        for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
            first, *rest = line.split()
            if "-" in first:
                ends, writable = tuple(int(end, 16) for end in first.split("-")), rest[0].startswith("rw")
            elif first == "Rss:" and writable and int(rest[0]) > 0:  # most of what is mapped was never used
                with contextlib.suppress(OSError):  # not all that is mapped can be read
                    memory.seek(ends[0])
                    yield memory.read(ends[1] - ends[0])


@contextlib.contextmanager
def _entered(space: str):
    """This thread in another network namespace."""
    with open("/proc/thread-self/ns/net") as own, open(f"/run/netns/{space}") as other:
        _set_namespace(other.fileno())
        try:
            yield
        finally:
            _set_namespace(own.fileno())


def _set_namespace(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, _NETWORK_NAMESPACE):
        raise OSError(ctypes.get_errno(), "setns")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _interpreter() -> str:
    """Make the interpreter reachable where it lies in root's home, in this mount namespace alone."""
    base = Path(sys.base_prefix).resolve()
    if not base.is_relative_to("/root"):
        return ""
    top = Path("/root") / base.relative_to("/root").parts[0]
    steps = (
        "mount -t tmpfs -o mode=755 none /mnt",
        "mkdir /mnt/python",
        f"mount --bind {top} /mnt/python",
        "mount -t tmpfs -o mode=755 none /root",
        f"mkdir {top}",
        f"mount --bind /mnt/python {top}",
    )
    return " && ".join(steps) + " &&"

"""Parties that cannot see each other: a user of its own, a network namespace of its own, a folder that is its own.

Needs root and `ip`. The namespaces are joined by a bridge in the server's, and by nothing else; they reach no network.
"""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

SERVER = "server"
FIRST_USER = 61000
ETH_P_ALL = 3


class Isolated:
    """The parties of a deployment, the server first; users and addresses are numbered in this order."""

    def __init__(self, parties: list[str]):
        self.parties, self.mark = parties, f"fdx{os.getpid()}"
        self.processes: list[subprocess.Popen] = []

    def __enter__(self) -> "Isolated":
        for number, party in enumerate(self.parties):
            self._ip("netns", "add", self._space(party))
            self._inside(party, "link", "set", "lo", "up")
            if party == SERVER:
                self._inside(SERVER, "link", "add", "bridge", "type", "bridge")
                self._inside(SERVER, "addr", "add", f"{self.address(SERVER)}/24", "dev", "bridge")
                self._inside(SERVER, "link", "set", "bridge", "up")
                continue
            near, far = f"a{number}", f"b{number}"
            spaces = self._space(SERVER), self._space(party)
            self._ip("link", "add", near, "netns", spaces[0], "type", "veth", "peer", "name", far, "netns", spaces[1])
            self._inside(SERVER, "link", "set", near, "master", "bridge", "up")
            self._inside(party, "addr", "add", f"{self.address(party)}/24", "dev", far)
            self._inside(party, "link", "set", far, "up")
        return self

    def __exit__(self, *exception) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for party in self.parties:
            found = subprocess.run(["ip", "netns", "pids", self._space(party)], capture_output=True, text=True)
            for number in map(int, found.stdout.split()):  # jobs run in sessions of their own
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", self._space(party)], check=False)

    def address(self, party: str) -> str:
        return f"10.77.0.{self.parties.index(party) + 1}"

    def user(self, party: str) -> int:
        return FIRST_USER + self.parties.index(party)

    def give(self, party: str, *paths: Path) -> None:
        """Make files the party's own: nobody else may read them."""
        for path in paths:
            for one in (path, *path.rglob("*")):
                os.chown(one, self.user(party), self.user(party))
                one.chmod(0o700 if one.is_dir() or os.access(one, os.X_OK) else 0o600)

    def command(self, party: str, home: Path, *arguments: str) -> list[str]:
        """A command as this party's user, in its namespace, with an environment of its own."""
        user = str(self.user(party))
        environment = {
            "HOME": home,
            "LOGNAME": party,
            "USER": party,
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "PYTHON": sys.executable,
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "XDG_CACHE_HOME": home,
        }
        words = [f"{key}={value}" for key, value in environment.items()]
        switch = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "env", "-i", *words, *arguments]
        return ["ip", "netns", "exec", self._space(party), "sh", "-c", f'{_interpreter()} exec "$@"', "sh", *switch]

    def start(self, party: str, home: Path, *arguments: str) -> subprocess.Popen:
        with open(home / "log.txt", "wb") as log:
            process = subprocess.Popen(
                self.command(party, home, *arguments),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def run(self, party: str, home: Path, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess:
        return subprocess.run(self.command(party, home, *arguments), capture_output=True, text=True, timeout=timeout)

    def pids(self, party: str) -> list[int]:
        found = subprocess.run(["ip", "netns", "pids", self._space(party)], capture_output=True, text=True, check=True)
        return list(map(int, found.stdout.split()))

    def _space(self, party: str) -> str:
        return f"{self.mark}-{party}"

    def _ip(self, *arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    def _inside(self, party: str, *arguments: str) -> None:
        self._ip("-n", self._space(party), *arguments)


class Capture(threading.Thread):
    """Every frame on the server's bridge, as one string of bytes."""

    def __init__(self, isolated: Isolated):
        super().__init__(daemon=True)
        self.content, self._on = bytearray(), True
        with _entered(isolated._space(SERVER)):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._socket.settimeout(0.5)

    def run(self) -> None:
        while self._on:
            with contextlib.suppress(TimeoutError):
                self.content += self._socket.recv(1 << 17)

    def end(self) -> bytes:
        self._on = False
        self.join()
        self._socket.close()
        return bytes(self.content)


@contextlib.contextmanager
def _entered(space: str):
    """This thread in another network namespace."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    other = os.open(f"/run/netns/{space}", os.O_RDONLY)
    try:
        _setns(other)
        yield
    finally:
        _setns(own)
        os.close(own)
        os.close(other)


def _setns(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0x40000000):
        raise OSError(ctypes.get_errno(), "setns")


def memory_of(pid: int) -> bytes:
    """What a process holds in memory that it can write to."""
    found = bytearray()
    try:
        maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for line in maps:
                area, rights = line.split()[:2]
                if not rights.startswith("rw"):
                    continue
                first, last = (int(end, 16) for end in area.split("-"))
                with contextlib.suppress(OSError, ValueError, OverflowError):
                    memory.seek(first)
                    found += memory.read(last - first)
    except (FileNotFoundError, ProcessLookupError):
        pass
    return bytes(found)


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

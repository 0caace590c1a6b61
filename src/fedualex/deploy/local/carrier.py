"""What carries messages to processes of this machine: started, listened to, started again, ended."""

import contextlib
import hashlib
import hmac
import logging
import os
import queue
import secrets
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...runtime.status import Code, Failure
from ..engine import NOT_CONNECTED, POLL_SECONDS, Inbox, collect
from ..wire import LARGEST

# The two ends of a loopback connection: who is there is proved by a shared key, then frames of bytes follow.


KEY, KEYS = "site.key", "keys"
"""A site's key in its own folder, and the folder of all at the server."""
FRAME = struct.Struct("<Q")
NONCE = PROOF = 32
HANDSHAKE_SECONDS = 30.0


class Link:
    """Frames of bytes over a socket; a closed or broken one raises OSError or EOFError."""

    def __init__(self, connection: socket.socket):
        self._connection = connection
        connection.settimeout(HANDSHAKE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, content: bytes) -> None:
        """One frame."""
        self._connection.sendall(FRAME.pack(len(content)))
        self._connection.sendall(content)

    def receive(self, largest: int = LARGEST) -> bytes:
        """The next frame; one that is too large is refused before it is read."""
        (length,) = FRAME.unpack(self._exactly(FRAME.size))
        if length > largest:
            raise ConnectionError(f"a frame has at most {largest} bytes, got {length}")
        return self._exactly(length)

    def close(self) -> None:
        """Also wakes whoever waits for a frame."""
        with contextlib.suppress(OSError):  # it may be closed already
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def patient(self) -> None:
        """After the handshake one side may be silent for as long as it works."""
        self._connection.settimeout(None)

    def _exactly(self, length: int) -> bytes:
        content = bytearray()
        while len(content) < length:
            part = self._connection.recv(min(length - len(content), 1 << 20))
            if not part:
                raise EOFError("the other side has closed the connection")
            content += part
        return bytes(content)


def welcome(link: Link, keys: Mapping[str, bytes]) -> str:
    """The server's side of a handshake: the name of the site that proved to have its key, or PermissionError."""
    challenge = secrets.token_bytes(NONCE)
    link.send(challenge)
    name = link.receive(100).decode(errors="replace")
    answer = link.receive(NONCE + PROOF)
    counter, proof = answer[:NONCE], answer[NONCE:]
    key = keys.get(name, secrets.token_bytes(PROOF))  # an unknown name takes as long as a wrong key
    if not hmac.compare_digest(proof, _proof(key, b"site", challenge, counter)):
        raise WrongKeyError(name[:63])
    link.send(_proof(key, b"server", challenge, counter))
    link.patient()
    return name


class WrongKeyError(PermissionError):
    """name: of the site that somebody says to be."""

    def __init__(self, name: str):
        super().__init__(f"somebody who says to be {name!r} does not have its key")
        self.name = name


def introduce(link: Link, name: str, key: bytes) -> None:
    """A site's side of a handshake; the server must have the key as well."""
    challenge, counter = link.receive(NONCE), secrets.token_bytes(NONCE)
    link.send(name.encode())
    link.send(counter + _proof(key, b"site", challenge, counter))
    if not hmac.compare_digest(link.receive(PROOF), _proof(key, b"server", challenge, counter)):
        raise PermissionError("the server does not have this site's key")
    link.patient()


def _proof(key: bytes, side: bytes, challenge: bytes, counter: bytes) -> bytes:
    return hmac.digest(key, side + challenge + counter, hashlib.sha256)


log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
ADDRESS = "FEDUALEX_SERVER"
"""The environment variable that tells a site's process where the server listens."""
LONGEST_PAUSE = 30.0
"""Seconds before a process that ends again and again is started once more; the first pause is one second."""
LEAVE_SECONDS = 5.0
AT_ONCE = 2 * (os.cpu_count() or 1)
"""How many sites begin to load at a time: more only wait for each other, and for whoever else works on this machine."""
LOAD_SECONDS = 30.0
"""After which a site that is not connected yet holds up nobody."""
ENDED = Failure(Code.UNREACHABLE, "the site's process ended")
WRONG_KEY = Failure(Code.WRONG_KEY, f"its key is not the one that the server has in {KEYS}")


@dataclass(frozen=True)
class _Errand:
    message: bytes
    deadline: float
    inbox: Inbox


@dataclass
class _Child:
    """A site's process, and its connection once there is one."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    link: Link | None = None
    errands: "queue.SimpleQueue[_Errand | None]" = field(default_factory=queue.SimpleQueue)
    pause: float = 1.0
    start_at: float = 0.0
    started_at: float = 0.0
    ends: int = 0
    """How often its process has ended."""
    away: Failure = NOT_CONNECTED
    """Why it is not connected, while it is not."""


class Processes:
    """Each site's start.sh as a child of this process. A site that ends is started again, after a while.

    homes: the folder of each site. keys: what each site proves to know.
    """

    def __init__(self, homes: Mapping[str, Path], keys: Mapping[str, bytes]):
        self._children = {name: _Child(folder) for name, folder in homes.items()}
        self._keys, self._stopped, self._closed = dict(keys), threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._listener = socket.create_server((LOOPBACK, 0), backlog=len(self._children))
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._accept, self._tend)]
        for thread in self._threads:
            thread.start()

    def sites(self) -> list[str]:
        """The sites that are connected now."""
        return sorted(name for name, child in self._children.items() if child.link is not None)

    def wait(self, timeout: float) -> None:
        """Until each site is connected or has ended once, or the time is up, or the run was stopped."""
        end = time.monotonic() + timeout
        while time.monotonic() < end and not self.stopped():
            missing = [name for name, child in self._children.items() if child.link is None]
            if not any(self._children[name].ends == 0 for name in missing):
                break
            time.sleep(POLL_SECONDS / 4)

    def carry(self, message: bytes, sites: Sequence[str], timeout: float) -> dict[str, bytes | Failure]:
        """The answer of each site. A site that still works on an older message answers that one first, unheard."""
        inbox: Inbox = queue.SimpleQueue()
        deadline = time.monotonic() + timeout
        connected = set(self.sites())
        answers: dict[str, bytes | Failure] = {
            site: self._children[site].away if site in self._children else NOT_CONNECTED
            for site in set(sites) - connected
        }
        waiting = set(sites) - answers.keys()
        for site in waiting:
            self._children[site].errands.put(_Errand(message, deadline, inbox))
        return answers | collect(inbox, waiting, deadline, self.stopped)

    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Ask the loop to end."""
        self._stopped.set()

    def close(self) -> None:
        """End all sites: they see the closed connection; who does not is ended by its process id."""
        self._closed.set()
        self._listener.close()
        self._threads[1].join()
        for child in self._children.values():
            self._drop(child)
        processes = [child.process for child in self._children.values() if child.process is not None]
        end = time.monotonic() + LEAVE_SECONDS
        for process in processes:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("process %d does not end and is killed", process.pid)
                process.kill()
                process.wait()

    def _tend(self) -> None:
        """Start each site, and whoever has ended once more."""
        while not self._closed.wait(POLL_SECONDS):
            for name, child in self._children.items():
                if child.process is not None and child.process.poll() is None:
                    continue
                now = time.monotonic()
                if child.process is not None:
                    log.warning("site %s ended with code %s; it is started again", name, child.process.returncode)
                    self._drop(child)
                    child.process, child.start_at, child.ends = None, now + child.pause, child.ends + 1
                    child.pause = min(2 * child.pause, LONGEST_PAUSE)
                if now >= child.start_at and self._loading(now) < AT_ONCE:
                    child.process, child.started_at = self._start_site(child.folder), now

    def _loading(self, now: float) -> int:
        """How many sites were started a short while ago and are not connected yet."""
        late = now - LOAD_SECONDS
        return sum(c.process is not None and c.link is None and c.started_at > late for c in self._children.values())

    def _start_site(self, folder: Path) -> "subprocess.Popen[bytes]":
        address = "{}:{}".format(*self._listener.getsockname())
        with open(folder / "log.txt", "ab") as output:
            return subprocess.Popen(
                [str((folder / "start.sh").resolve())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHON": sys.executable, ADDRESS: address},
            )

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(Link(connection),), daemon=True).start()

    def _serve(self, link: Link) -> None:
        """One connection: a handshake, then one message after the other."""
        try:
            name = welcome(link, self._keys)
        except (OSError, EOFError) as error:
            log.warning("a connection is refused: %s", error)
            link.close()
            if isinstance(error, WrongKeyError) and error.name in self._children:
                self._children[error.name].away = WRONG_KEY
            return
        child = self._children[name]
        child.away = NOT_CONNECTED
        self._drop(child)
        errands: queue.SimpleQueue[_Errand | None] = queue.SimpleQueue()
        with self._lock:
            child.link, child.errands = link, errands
        while (errand := errands.get()) is not None:
            if time.monotonic() > errand.deadline:
                continue  # it would be work for nobody
            try:
                link.send(errand.message)
                errand.inbox.put((name, link.receive()))
                child.pause = 1.0
            except (OSError, EOFError):
                errand.inbox.put((name, ENDED))
                self._drop(child, link)
                return

    def _drop(self, child: _Child, link: Link | None = None) -> None:
        """Let go of a site's connection, or of this one if it is still the site's; who waits there is told."""
        with self._lock:
            if child.link is None or link not in (None, child.link):
                return
            child.link.close()
            child.link = None
            child.errands.put(None)

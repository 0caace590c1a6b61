"""What left a site: one line for each release, written before it leaves, and chained so that no line can be changed."""

import fcntl
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..storage import write_atomically
from .ledger_lines import ACKNOWLEDGED, BEGINNING, BEGUN, TORN, Line, Reading, digest, read, stamp

LEDGER = "ledger.jsonl"
DAY = 86400.0


class Ledger:
    """The ledger of one site. Several threads and processes may write to it.

    file: where it is; in memory alone if None, for a rehearsal. clock: seconds since 1970.
    """

    def __init__(self, file: Path | None, clock: Callable[[], float] = time.time):
        self.file, self.clock = file, clock
        self._turn = threading.RLock()
        self._handle: int | None = None
        self._size, self._head, self._damage = 0, BEGINNING, ""
        self._torn: bytes | None = None
        self._times: deque[float] = deque()
        self._noises: Counter[float] = Counter()
        self._nonces: set[str] = set()
        if file is None:
            self.append(Line(kind=BEGUN))
        else:
            with self.locked():  # reads it
                pass

    @property
    def damage(self) -> str:
        """What is wrong with the file and was not acknowledged; empty if nothing is."""
        return self._damage

    def lately(self) -> int:
        """Releases within the last 24 hours; those that seem to be of the future count."""
        while self._times and self._times[0] <= self.clock() - DAY:
            self._times.popleft()
        return len(self._times)

    def noises(self) -> Counter[float]:
        """How many releases there were with each multiplier of noise."""
        return Counter(self._noises)

    def knows(self, nonce: str) -> bool:
        """Whether something was released under this word of a server's."""
        return nonce in self._nonces

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Look at the ledger and append to it inside of this: nobody else does so meanwhile."""
        with self._turn:
            if self.file is None or self._handle is not None:
                yield
                return
            self._handle = _open(self.file)
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX)
                self._follow(self.file)
                yield
            finally:
                os.close(self._handle)
                self._handle = None

    def append(self, line: Line) -> None:
        """Write a line, chained to the one before it, and return when it is on the disk. Call within `locked`."""
        line = line.following(self._head, stamp(self.clock()))
        content = line.encoded()
        if self._handle is not None:
            _write(self._handle, content, self._size)
        self._size += len(content)
        self._head = digest(content[:-1])
        self._count(line)

    def recover(self, noise: float | None) -> None:
        """End a line that a crash tore. What it was about may have left the site: it counts as a release.

        noise: the multiplier of the site's noise now, with which it is counted.
        """
        with self.locked():
            if self._torn is None or self._handle is None:
                return
            _write(self._handle, b"\n", self._size)
            self._size, self._head, self._torn = self._size + 1, digest(self._torn), None
            self.append(Line(kind=TORN, noise=noise))

    def acknowledge(self, note: str) -> None:
        """An operator has seen the damage: what can be read counts, and the site answers again."""
        with self.locked():
            if self.file is None or not self._damage:
                raise ValueError("the ledger is not damaged, so there is nothing to acknowledge")
            content = self.file.read_bytes()
            if self._handle is not None and not content.endswith(b"\n"):
                _write(self._handle, b"\n", self._size)
                content += b"\n"
            self._size, self._head = len(content), digest(content.split(b"\n")[-2])
            self.append(Line(kind=ACKNOWLEDGED, note=note, sha256=digest(content)))
            self._damage, self._torn = "", None

    def _follow(self, file: Path) -> None:
        """Read what another process has written; at the start, all."""
        size = os.stat(file).st_size
        if size < self._size:
            self._damage = "it became shorter while the site was running"
        elif size > self._size or not size:
            self._absorb(read(file.read_bytes()))

    def _absorb(self, reading: Reading) -> None:
        """Count all that was read."""
        self._size, self._head, self._damage = reading.size, reading.head, reading.damage
        self._torn = reading.torn
        for counted in (self._times, self._noises, self._nonces):
            counted.clear()
        for line in reading.lines:
            self._count(line)

    def _count(self, line: Line) -> None:
        if not line.released:
            return
        self._times.append(line.seconds)
        if line.noise is not None:
            self._noises[line.noise] += 1
        if line.nonce:
            self._nonces.add(line.nonce)


def begin_ledger(folder: Path) -> None:
    """An empty ledger in a site's folder; one that is there stays as it is."""
    file = folder / LEDGER
    if not file.exists():
        write_atomically(file, Line(kind=BEGUN).following(BEGINNING, stamp(time.time())).encoded())
        file.chmod(0o600)


def _open(file: Path) -> int:
    try:
        return os.open(file, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        raise FileNotFoundError(f"{file} is missing: a site answers only what it can write down there") from None


def _write(handle: int, content: bytes, size: int) -> None:
    """All of it and on the disk, or nothing and an error: a full disk must not leave half a line."""
    try:
        if os.write(handle, content) < len(content):
            raise OSError("the disk of this site is full: its ledger could not be written, so nothing leaves")
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, size)
        raise

"""What left a site: one line for each release, written before it leaves, and chained so that no line can be changed."""

import errno
import fcntl
import hashlib
import io
import json
import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ..storage import Json, read_arrays, write_atomically, write_json
from ..validation import one_of
from .engine import Arrays
from .policy import Policy, composed_epsilon, read_policy
from .secure.sums import is_summed

# The lines of a ledger: JSON, each with the hash of the line before it, and what a whole file of them says.


BEGUN, RELEASE, TORN, ACKNOWLEDGED = "begun", "release", "torn", "acknowledged"
BEGINNING = "0" * 64
"""What the first line is chained to."""


@dataclass(frozen=True)
class Line:
    """One line. A release says what left; the others what happened to the ledger itself."""

    kind: str = RELEASE
    time: str = ""
    run: str = ""
    task: str = ""
    round: int = 0
    nonce: str = ""
    """The word of secure sums; empty where all left in the clear."""
    arrays: Mapping[str, list[int]] = field(default_factory=dict)
    """Names and shapes, before masks."""
    size: int = 0
    """Bytes of its numbers."""
    sha256: str = ""
    """The `content_digest` of what left; the digest of all lines before it where damage was acknowledged."""
    noise: float | None = None
    """The multiplier of the noise in it; None if there is none."""
    epsilon: float | None = None
    """What all noisy releases so far are worth, where the site has a budget."""
    note: str = ""
    kit: str = ""
    """What the site has agreed to, by a word of its own: a server cannot begin a run that counts anew."""
    sums: int = 1
    """Sums over rows in it, one for each point that was asked about; 1 for what is no sum."""
    numbers: int = 0
    """Numbers in it, before masks."""
    subject: str = ""
    """The digest of the model that it measures, if it does."""
    columns: list[int] = field(default_factory=list)
    """The entries of x between which second derivatives are in it, where the request named some."""
    previous: str = BEGINNING

    @property
    def has_left(self) -> bool:
        """Whether something left, or may have left, the site."""
        return self.kind in (RELEASE, TORN)

    @property
    def under_masks(self) -> list[str]:
        """The arrays that left under masks: of an answer in secure sums those that are added up, and no others."""
        return [name for name in self.arrays if self.nonce and is_summed(name)]

    @property
    def in_the_clear(self) -> list[str]:
        """The arrays that left as they are."""
        return [name for name in self.arrays if name not in self.under_masks]

    @property
    def seconds(self) -> float:
        """Its time, in seconds since 1970."""
        return datetime.fromisoformat(self.time).timestamp()

    def with_epsilon(self, epsilon: float | None) -> "Line":
        """The line, with the epsilon of all releases after it."""
        return replace(self, epsilon=epsilon)

    def chain(self, previous: str, time: str) -> "Line":
        """The line at this time, chained to a line with this hash."""
        return replace(self, previous=previous, time=time)

    def encode(self) -> bytes:
        """The line as bytes of the file."""
        return json.dumps(vars(self), allow_nan=False, separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True)
class Reading:
    """A file of lines as it was read."""

    lines: tuple[Line, ...] = ()
    head: str = BEGINNING
    """The hash of the last line."""
    size: int = 0
    torn: bytes | None = None
    """The last line, if it has no end."""
    damage: str = ""
    hashes: frozenset[str] = frozenset()
    """The hashes of all lines."""


def read(content: bytes) -> Reading:
    """All lines, and the first thing that is wrong with them after the last acknowledgment."""
    *rows, tail = content.split(b"\n")
    lines, head, damage, unread, position = list[Line](), BEGINNING, "", 0, 0
    hashes = set[str]()
    first = _parse(rows[0]) if rows else None
    if first is None or first.kind != BEGUN:
        damage = "its beginning is missing"
    for number, row in enumerate(rows, 1):
        line = _parse(row)
        if line is None:
            unread = unread or number
        else:
            if line.previous != head:
                damage = damage or f"line {number} does not follow from the line before it"
            if unread and not (line.kind == TORN and unread == number - 1):
                damage = damage or f"line {unread} cannot be read"
            if line.kind == ACKNOWLEDGED and line.sha256 == digest(content[:position]):
                damage = ""
            unread = 0
            lines.append(line)
        head, position = digest(row), position + len(row) + 1
        hashes.add(head)
    if unread:
        damage = damage or f"line {unread} cannot be read"
    return Reading(tuple(lines), head, len(content), tail or None, damage, frozenset(hashes))


HEAD = "ledger.head"
"""Beside a ledger: the hash of its last line, written after that line; a crash may leave that of an earlier one."""


def read_file(file: Path) -> Reading:
    """A ledger with its head: a last line that was changed or cut off leaves no line with that hash."""
    reading, head = read(file.read_bytes()), file.with_name(HEAD)
    if reading.damage:
        return reading
    if not head.exists():
        return replace(reading, damage=f"its head, {HEAD}, is missing; earlier versions wrote none")
    if head.read_text(errors="replace") not in reading.hashes:
        return replace(reading, damage=f"its last line was changed or cut off: none has the hash in {HEAD}")
    return reading


def _write_head(file: Path, head: str) -> None:
    """In place, which is one write of a block: it is never empty, and need not be on the disk before the answer."""
    handle = os.open(file.with_name(HEAD), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        os.pwrite(handle, head.encode(), 0)
    finally:
        os.close(handle)


def digest(content: bytes) -> str:
    """SHA-256, as a hexadecimal word."""
    return hashlib.sha256(content).hexdigest()


def content_digest(arrays: Arrays) -> str:
    """SHA-256 of names, dtypes, shapes and bytes of arrays."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode() + b"\n")
        total.update(array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def stamp(seconds: float) -> str:
    """A time in UTC as a line has it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


LATER = {"kit", "sums", "numbers", "subject", "columns"}
"""What lines of older ledgers do not say."""


def _parse(row: bytes) -> Line | None:
    try:
        content = json.loads(row)
        if not content.keys() <= (names := {one.name for one in fields(Line)}) or not names - content.keys() <= LATER:
            return None
        if "numbers" not in content:
            content["numbers"] = sum(math.prod(shape) for shape in content["arrays"].values())
        line = Line(**content)
        return line if _is_sound(line) else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _is_sound(line: Line) -> bool:
    """Whether all that is counted by has the right type."""
    noise: Any = line.noise
    words = (line.kind, line.nonce, line.previous, line.sha256, line.task, line.run, line.kit, line.subject)
    return (
        all(isinstance(word, str) for word in words)
        and isinstance(line.columns, list)
        and all(type(count) is int and count >= 0 for count in (line.sums, line.numbers, *line.columns))
        and line.seconds > 0
        and (noise is None or (type(noise) is float and noise > 0))
    )


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
        self._times: deque[tuple[float, int]] = deque()
        self._noises: Counter[float] = Counter()
        self._numbers: Counter[str] = Counter()
        self._nonces: set[str] = set()
        self._subjects: set[tuple[str, str]] = set()
        self._columns: set[tuple[str, int]] = set()
        if file is None:
            self.append(Line(kind=BEGUN))
        else:
            with self.lock():  # reads it
                pass

    @property
    def damage(self) -> str:
        """What is wrong with the file and was not acknowledged; empty if nothing is."""
        return self._damage

    def count_recent(self) -> int:
        """Sums that were released within the last 24 hours; those that seem to be of the future count."""
        while self._times and self._times[0][0] <= self.clock() - DAY:
            self._times.popleft()
        return sum(sums for _, sums in self._times)

    def numbers(self, kit: str) -> int:
        """How many numbers were released for this kit."""
        return self._numbers[kit]

    def subjects(self, kit: str) -> set[str]:
        """The digests of the models that were measured for this kit."""
        return {subject for own, subject in self._subjects if own == kit}

    def columns(self, kit: str) -> set[int]:
        """The entries of x between which second derivatives were asked for by name for this kit."""
        return {column for own, column in self._columns if own == kit}

    def noises(self) -> Counter[float]:
        """How many releases there were with each multiplier of noise."""
        return Counter(self._noises)

    def knows(self, nonce: str) -> bool:
        """Whether something was released under this word of a server's."""
        return nonce in self._nonces

    @contextmanager
    def lock(self) -> Iterator[None]:
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
        """Write a line, chained to the one before it, and return when it is on the disk. Call within `lock`."""
        line = line.chain(self._head, stamp(self.clock()))
        content = line.encode()
        if self._handle is not None:
            _write(self._handle, content, self._size)
        self._size += len(content)
        self._head = digest(content[:-1])
        if self.file is not None:
            _write_head(self.file, self._head)
        self._count(line)

    def approves(self, kit: str) -> bool:
        """Whether a person has said that runs of this kit may begin; looked up each time, as it is said meanwhile."""
        return self.file is not None and kit in read_approvals(self.file.parent)

    def keep_values(self, sha256: str, arrays: Arrays) -> None:
        """Keep what is released, before it is written down that it is: a disk without room for it releases nothing."""
        if self.file is not None:
            keep_values(self.file.parent, sha256, arrays)

    def recover(self, noise: float | None) -> None:
        """End a line that a crash tore. What it was about may have left the site: it counts as a release.

        noise: the multiplier of the site's noise now, with which it is counted.
        """
        with self.lock():
            if self._torn is None or self._handle is None:
                return
            _write(self._handle, b"\n", self._size)
            self._size, self._head, self._torn = self._size + 1, digest(self._torn), None
            self.append(Line(kind=TORN, noise=noise))

    def acknowledge(self, note: str) -> None:
        """An operator has seen the damage: what can be read counts, and the site answers again."""
        with self.lock():
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
            self._absorb(read_file(file))

    def _absorb(self, reading: Reading) -> None:
        """Count all that was read."""
        self._size, self._head, self._damage = reading.size, reading.head, reading.damage
        self._torn = reading.torn
        for counted in (self._times, self._noises, self._numbers, self._nonces, self._subjects, self._columns):
            counted.clear()
        for line in reading.lines:
            self._count(line)

    def _count(self, line: Line) -> None:
        if not line.has_left:
            return
        self._times.append((line.seconds, line.sums))
        self._numbers[line.kit] += line.numbers
        if line.subject:
            self._subjects.add((line.kit, line.subject))
        self._columns.update((line.kit, column) for column in line.columns)
        if line.noise is not None:
            self._noises[line.noise] += 1
        if line.nonce:
            self._nonces.add(line.nonce)


def begin_ledger(folder: Path) -> None:
    """An empty ledger in a site's folder; one that is there stays as it is."""
    file = folder / LEDGER
    if not file.exists():
        line = Line(kind=BEGUN).chain(BEGINNING, stamp(time.time())).encode()
        write_atomically(file, line)
        file.chmod(0o600)
        _write_head(file, digest(line[:-1]))


def _open(file: Path) -> int:
    try:
        return os.open(file, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        raise FileNotFoundError(f"{file} is missing: a site answers only what it can write down there") from None


def _write(handle: int, content: bytes, size: int) -> None:
    """All of it and on the disk, or nothing and an error: a full disk must not leave half a line."""
    try:
        if os.write(handle, content) < len(content):
            raise OSError(
                errno.ENOSPC, "the disk of this site is full: its ledger could not be written, so nothing leaves"
            )
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, size)
        raise


# Beside a ledger: the values that left, before masks, and the kits that a person has approved.


RELEASED, APPROVED = "released", "approved.json"


def keep_values(folder: Path, sha256: str, arrays: Arrays) -> None:
    """Keep arrays by the digest of what left."""
    (folder / RELEASED).mkdir(mode=0o700, exist_ok=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **{f"a/{name}": array for name, array in arrays.items()})
    write_atomically(folder / RELEASED / f"{sha256}.npz", buffer.getvalue())


def read_values(folder: Path, sha256: str) -> Json | None:
    """What left under this digest, texts as texts; None if it was not kept."""
    file = folder / RELEASED / f"{sha256}.npz"
    if not file.exists():
        return None
    arrays = {name.removeprefix("a/"): array for name, array in read_arrays(file).items()}
    return {name: _plain(array) for name, array in arrays.items()}


def _plain(array: Any) -> Any:
    if array.dtype != np.uint8:
        return array.tolist()
    try:
        return json.loads(array.tobytes())
    except ValueError:
        return array.tolist()


def read_approvals(folder: Path) -> list[str]:
    """The kits whose runs may begin."""
    file = folder / APPROVED
    return list(json.loads(file.read_text())["kits"]) if file.exists() else []


def approve(folder: Path, kit: str) -> None:
    """A person's word that runs of this kit may begin."""
    write_json(folder / APPROVED, {"kits": sorted({*read_approvals(folder), kit})})


# What a site's ledger says, for its operator: every release, totals, and whether the file is whole.


def audit(folder: Path, run: str = "", since: str = "", kind: str = "", *, values: bool = False) -> Json:
    """The lines of a ledger as plain data, with their totals. Changes nothing.

    run, since, kind: lines of a run, by how its id begins; from a date on, as 2030-01-31; of one task. values: with
    what left in each, where this site keeps it.
    """
    file = folder / LEDGER
    try:
        reading = read_file(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"{folder} is not the folder of a site: it has no {LEDGER}") from None
    begins = 0.0 if not since else _begin(since)
    kinds = {line.task or line.kind for line in reading.lines}
    if kind and kinds:
        one_of("kind", kind, tuple(sorted(kinds)))
    lines = [
        line
        for line in reading.lines
        if line.run.startswith(run) and line.seconds >= begins and kind in ("", line.task or line.kind)
    ]
    shown = [_row(line) | ({"values": read_values(folder, line.sha256)} if values else {}) for line in lines]
    return {
        "file": str(file),
        "damage": reading.damage,
        "head": reading.head,
        "lines": shown,
        "totals": _totals(replace(reading, lines=tuple(lines)), _delta(folder)),
    }


def _begin(since: str) -> float:
    try:
        begins = datetime.fromisoformat(since)
        return (begins if begins.tzinfo else begins.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        raise ValueError(f"since must be a date such as 2030-01-31, got {since!r}") from None


def _delta(folder: Path) -> float:
    """For which epsilon is counted; rules that cannot be read are no reason not to show what has left."""
    try:
        return read_policy(folder).delta
    except (OSError, ValueError):
        return Policy().delta


def acknowledge(folder: Path, note: str) -> None:
    """An operator's word that damage was seen, after which the site answers again."""
    Ledger(folder / LEDGER).acknowledge(note)


def _row(line: Line) -> Json:
    plain = {name: getattr(line, name) for name in line.__dataclass_fields__ if name != "previous"}
    return {**plain, "under_masks": line.under_masks, "in_the_clear": line.in_the_clear}


TABLES = "-tables"
"""The end of the id under which a run of tables asks before and after its rounds."""


def _count_runs(lines: list[Line]) -> int:
    """A run of tables has two ids, of which the first alone is there until its rounds begin."""
    begun = {(line.kit, line.run) for line in lines if line.run and not line.run.endswith(TABLES)}
    kits = {kit for kit, _ in begun}
    return len(begun) + len({line.run for line in lines if line.run.endswith(TABLES) and line.kit not in kits})


def _totals(reading: Reading, delta: float) -> Json:
    released = [line for line in reading.lines if line.has_left]
    noises = Counter(line.noise for line in released if line.noise is not None)
    return {
        "releases": len(released) + (reading.torn is not None),
        "sums": sum(line.sums for line in released),
        "numbers": sum(line.numbers for line in released),
        "bytes": sum(line.size for line in released),
        "runs": _count_runs(released),
        "tasks": dict(Counter(line.task or line.kind for line in released)),
        "under_masks": sum(bool(line.under_masks) for line in released),
        "in_the_clear": sum(bool(line.in_the_clear) for line in released),
        "with_noise": sum(noises.values()),
        "epsilon": composed_epsilon(noises, delta) if noises else None,
        "delta": delta,
    }

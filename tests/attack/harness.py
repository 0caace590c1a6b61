"""Cases by number, slices of time, and what is kept of a failure."""

import contextlib
import faulthandler
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

BUSY = 10
"""How many times slower than alone a call may be beside other work."""
SHOWN = int(os.environ.get("SHOWN", "5"))
"""Failures of a part that are printed in full; all are counted."""


FULL, MOST = 3 * 2**30, 12 * 2**30
"""Bytes of memory above which compiled programs are dropped, which cases of ever new shapes leave behind; and those at
which the system refuses more, so that a case that wants too much fails by itself and not the machine."""


def limit_memory() -> None:
    """Of this process, for good."""
    resource.setrlimit(resource.RLIMIT_DATA, (MOST, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def memory() -> int:
    """Bytes that are in use now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class BrokenPromiseError(AssertionError):
    """What a case found, with a repro that can be pasted."""

    def __init__(self, what: str, repro: str = ""):
        super().__init__(what)
        self.repro = repro


class HangError(BaseException):
    """A call did not come back in its time; no handler of the library may swallow it."""


class StoppedError(BaseException):
    """Somebody ends the attack, which still tells what it has tried."""


def stop(*_: Any) -> None:
    """What SIGTERM does."""
    raise StoppedError


@dataclass(frozen=True)
class Part:
    """A promise that is attacked: `attack(rng)` is one case, and raises `BrokenPromiseError` where it does not hold."""

    name: str
    promise: str
    share: float
    """Of the time, relative to the other parts."""
    attack: Callable[[np.random.Generator], None]
    counts: dict[str, int] = field(default_factory=dict)
    """What the part itself counts, shown beside its cases."""


@dataclass
class Tally:
    """What became of a part."""

    part: Part
    cases: int = 0
    failures: int = 0
    seconds: float = 0.0
    stopped: bool = False
    memory: int = 0
    """The most bytes that were in use after a case."""
    kinds: dict[str, int] = field(default_factory=dict)
    """How often each sentence of a failure came up."""


def attack(part: Part, number: int, seed: int, seconds: float, case: int | None = None) -> Tally:
    """Cases 0, 1, 2, ... of a part until its time is over; one case alone if its number is given."""
    tally, began = Tally(part), time.monotonic()
    while tally.cases == 0 or (case is None and time.monotonic() - began < seconds):
        index = tally.cases if case is None else case
        tally.cases += 1
        try:
            part.attack(np.random.default_rng([seed, number, index]))
        except StoppedError:
            tally.cases -= 1
            tally.stopped = True
            break
        except (BrokenPromiseError, HangError, Exception) as error:
            _tell(tally, seed, index, error)
        tally.memory = max(tally.memory, used := memory())
        if used > FULL:
            jax.clear_caches()
    tally.seconds = time.monotonic() - began
    return tally


def _tell(tally: Tally, seed: int, index: int, error: BaseException) -> None:
    tally.failures += 1
    what = f"{error}" if isinstance(error, BrokenPromiseError) else f"{type(error).__name__}: {error}"
    kind = what.partition(":")[0][:80]
    tally.kinds[kind] = tally.kinds.get(kind, 0) + 1
    if tally.failures > SHOWN:
        return
    print(f"\nFAILURE in {tally.part.name}: {what}")
    print(f"  again: make attack SEED={seed} PARTS={tally.part.name} CASE={index}")
    if repro := getattr(error, "repro", ""):
        print(f"  repro:\n{repro}")
    sys.stdout.flush()


@contextlib.contextmanager
def within(seconds: float, what: str, repro: str = "") -> Iterator[None]:
    """A limit of processor time for a call, and BUSY times as much by the clock, as other work may be in the way.

    A call that never returns to Python ends the program with a trace of where it is.
    """

    def hang(*_: Any) -> None:
        raise HangError(f"{what} did not come back in {seconds:g} s\n{repro}")

    timers = {signal.SIGPROF: (signal.ITIMER_PROF, seconds), signal.SIGALRM: (signal.ITIMER_REAL, BUSY * seconds)}
    before = {number: signal.signal(number, hang) for number in timers}
    for timer, most in timers.values():
        signal.setitimer(timer, most)
    faulthandler.dump_traceback_later(2 * BUSY * seconds, exit=True)
    try:
        yield
    finally:
        for timer, _ in timers.values():
            signal.setitimer(timer, 0)
        faulthandler.cancel_dump_traceback_later()
        for number, handler in before.items():
            signal.signal(number, handler)


def require(holds: bool, what: str, repro: str = "") -> None:
    """A promise."""
    if not holds:
        raise BrokenPromiseError(what, repro)

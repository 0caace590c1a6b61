"""The engine without an engine: sites in threads of this process, with all that a wire would carry."""

import atexit
import ctypes
import functools
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from weakref import WeakSet

from ..runtime.status import Failure
from .engine import Inbox, collect
from .wire import CarriedEngine, Work, answer

AT_ONCE = 4
"""Requests that a site works on at once: a straggler is still at its own while the next round already asks."""


LEAVE_SECONDS = 20.0
"""How long the end of the process waits for stragglers in all, and after how many seconds it asks them again."""
ASK_AGAIN_SECONDS = 1.0
_threads: WeakSet[threading.Thread] = WeakSet()


class Threads:
    """Carries messages to each site's `work`, in a thread of this process."""

    def __init__(self, works: Mapping[str, Work]):
        self._works = dict(works)
        self._free = {site: threading.Semaphore(AT_ONCE) for site in self._works}
        self._stopped = False

    def sites(self) -> list[str]:
        """All sites: nothing can come between."""
        return sorted(self._works)

    def carry(self, message: bytes, sites: Sequence[str], timeout: float) -> dict[str, bytes | Failure]:
        """The answer of each site; whoever is not done in time has `TIMEOUT`."""
        deadline = time.monotonic() + timeout
        inbox: Inbox = queue.SimpleQueue()
        for site in sites:
            # A daemon: a site that hangs for good must not keep the process from ending.
            arguments = (site, message, deadline, inbox)
            thread = threading.Thread(target=self._work, args=arguments, name=site, daemon=True)
            _dismiss_at_exit()
            _threads.add(thread)
            thread.start()
        return collect(inbox, sites, deadline)

    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    def stop(self) -> None:
        """Ask the loop to end after its round."""
        self._stopped = True

    def close(self) -> None:
        """Nothing: stragglers are dismissed when the process ends."""

    def _work(self, site: str, message: bytes, deadline: float, inbox: Inbox) -> None:
        if not self._free[site].acquire(timeout=max(0.0, deadline - time.monotonic())):
            return  # it still works on older requests
        try:
            inbox.put((site, answer(self._works[site], message)))
        finally:
            self._free[site].release()


def thread_engine(works: Mapping[str, Work]) -> CarriedEngine:
    """Sites in threads of this process: for rehearsals from Python, whose problems cannot be sent to a process.

    works: for each site the function that answers its requests.
    """
    return CarriedEngine(Threads(works))


@functools.cache
def _dismiss_at_exit() -> None:
    atexit.register(_dismiss_stragglers)


def _dismiss_stragglers() -> None:
    """Threads inside jax must be gone before Python ends, which otherwise tears them out of C++ and aborts.

    The end of a straggler's work may be far on a busy machine, so `SystemExit` is raised in it: only the one call of C
    that it is in must return. A thread that hangs for good is left behind all the same.
    """
    end = time.monotonic() + LEAVE_SECONDS
    while (alive := [thread for thread in _threads if thread.is_alive()]) and time.monotonic() < end:
        for thread in alive:  # more than once: Python ignores an exception that happens to hit a finalizer
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
        asked = time.monotonic()
        for thread in alive:
            thread.join(max(0.0, min(end, asked + ASK_AGAIN_SECONDS) - time.monotonic()))

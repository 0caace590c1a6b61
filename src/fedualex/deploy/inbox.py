"""Where the answers of sites arrive, from as many threads as there are sites."""

import queue
import time
from collections.abc import Callable, Iterable

POLL_SECONDS = 0.2
"""How often whoever waits looks whether the run was stopped."""

Inbox = queue.SimpleQueue[tuple[str, bytes | str]]
"""A site's name and its answer, or in words why there is none."""


def collect(
    inbox: Inbox, sites: Iterable[str], deadline: float, stopped: Callable[[], bool] = lambda: False
) -> dict[str, bytes | str]:
    """The first answer of each of these sites; "timeout" of those who are silent until the deadline of the monotonic
    clock, and "stopped" if the run was stopped before."""
    answers: dict[str, bytes | str] = {}
    waiting = set(sites)
    while waiting and (left := deadline - time.monotonic()) > 0 and not stopped():
        try:
            site, answer = inbox.get(timeout=min(left, POLL_SECONDS))
        except queue.Empty:
            continue
        answers[site] = answer
        waiting.discard(site)
    return answers | dict.fromkeys(waiting, "stopped" if stopped() else "timeout")

"""What servers and sites of deployed runs run in their own processes: the real ones, watched and disturbed."""

import errno
import json
import os
import time
from pathlib import Path

import numpy as np

from fedualex.deploy import Request
from fedualex.deploy.consortium import deployment

PATIENCE = 300.0
LATE = 12.0
"""Seconds; more than the tests' timeout."""


WARM_UP = 20
"""How much more time sites have for the first request of a kind, when they compile."""


class WatchedEngine:
    """Notes down when each request is sent, and how much memory the process has by then.

    Its disk is full from round r on if orders.json of the server's folder says {"round": r, "what": "full"}.
    """

    def __init__(self, engine, party: Path) -> None:
        self.engine, self.party, self.file, self.known = engine, party, party / "requests.jsonl", set()
        self.sites, self.stopped, self.close = engine.sites, engine.stopped, engine.close

    def broadcast(self, request: Request, sites, timeout):
        import psutil

        line = [request.task, request.round, time.time(), psutil.Process().memory_info().rss / 1e6]
        with open(self.file, "a") as log:
            log.write(json.dumps(line) + "\n")
        if _order(self.party, request) == "full":
            os.fsync = _full
        first = request.task not in self.known
        self.known.add(request.task)
        return self.engine.broadcast(request, sites, timeout * WARM_UP if first else timeout)


def serve(engine, party: Path):
    return deployment.serve(WatchedEngine(engine, party), party)


def _full(handle):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _order(party: Path, request: Request) -> str | None:
    file = party / "orders.json"
    order = json.loads(file.read_text()) if file.exists() else {}
    return order.get("what") if (request.task, request.round) == ("round", order.get("round")) else None


SPOILED = {
    "nan": lambda array: array * np.nan,
    "shape": lambda array: array[:-1],
    "dtype": lambda array: array.astype(np.float32),
}


class WatchedSite:
    """Obeys orders.json of its folder: {"round": r, "what": ...}.

    What: to hold "before" or "during" its work, to "raise"; or once: an answer with "nan" in it, of a wrong "shape",
    "dtype" or "key", to an "old" round, or "late".
    """

    def __init__(self, party: Path) -> None:
        self.party, self.site = party, deployment.load_site(party)

    def work(self, request: Request):
        what = _order(self.party, request)
        if what == "raise":
            raise ValueError("secret 4711")
        if what == "before":
            self._hold()
        answer = self.site.work(request)
        if what == "during":
            self._hold()
        if what in (*SPOILED, "key", "old", "late"):
            (self.party / "orders.json").unlink()
            (self.party / "obeyed").touch()
        if what in SPOILED:
            answer["message.omega.x"] = SPOILED[what](answer["message.omega.x"])
        if what == "key":
            answer["message"] = answer.pop("message.omega.x")
        if what == "old":
            object.__setattr__(request, "round", request.round - 1)  # what the answer is marked with
        if what == "late":
            time.sleep(LATE)
        if request.task == "round":
            (self.party / f"answered-{request.round}").touch()
        return answer

    def _hold(self) -> None:
        (self.party / "held").touch()
        end = time.monotonic() + PATIENCE
        while (self.party / "orders.json").exists() and time.monotonic() < end:
            time.sleep(0.05)


def load(party: Path) -> WatchedSite:
    return WatchedSite(party)

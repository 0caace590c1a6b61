"""What servers and sites of test_deployed.py run in their own processes: the real ones, watched and disturbed."""

import json
import time
from pathlib import Path

from fedualex.deploy import Request
from fedualex.experiments import deployment

PATIENCE = 300.0


WARM_UP = 20
"""How much more time sites have for the first request of a kind, when they compile."""


class WatchedEngine:
    """Notes down when each request is sent, and how much memory the process has by then."""

    def __init__(self, engine, file: Path) -> None:
        self.engine, self.file, self.known = engine, file, set()
        self.sites, self.stopped, self.close = engine.sites, engine.stopped, engine.close

    def broadcast(self, request: Request, sites, timeout):
        import psutil

        line = [request.task, request.round, time.time(), psutil.Process().memory_info().rss / 1e6]
        with open(self.file, "a") as log:
            log.write(json.dumps(line) + "\n")
        first = request.task not in self.known
        self.known.add(request.task)
        return self.engine.broadcast(request, sites, timeout * WARM_UP if first else timeout)


def serve(engine, party: Path):
    return deployment.serve(WatchedEngine(engine, party / "requests.jsonl"), party)


class WatchedSite:
    """Obeys orders.json of its folder: {"round": r, "what": "before" | "during" | "raise"}."""

    def __init__(self, party: Path) -> None:
        self.party, self.site = party, deployment.load_site(party)

    def work(self, request: Request):
        what = self._order(request)
        if what == "raise":
            raise ValueError("secret 4711")
        if what == "before":
            self._hold()
        answer = self.site.work(request)
        if what == "during":
            self._hold()
        if request.task == "round":
            (self.party / f"answered-{request.round}").touch()
        return answer

    def _order(self, request: Request) -> str | None:
        file = self.party / "orders.json"
        order = json.loads(file.read_text()) if file.exists() else {}
        return order.get("what") if (request.task, request.round) == ("round", order.get("round")) else None

    def _hold(self) -> None:
        (self.party / "held").touch()
        end = time.monotonic() + PATIENCE
        while (self.party / "orders.json").exists() and time.monotonic() < end:
            time.sleep(0.05)


def load(party: Path) -> WatchedSite:
    return WatchedSite(party)

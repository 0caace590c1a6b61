"""A round loop and a site small enough to see through, for the tests of the Flower adapter. Runs in Flower's processes."""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np

from fedualex.deploy.engine import Engine, Request

ADDS = {"a": 1.0, "b": 2.0, "c": 3.0}


class ToySite:
    """Adds its number to x, or does what `fault` says."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name

    def work(self, request: Request):
        fault = int(request.arrays.get("fault", np.asarray(0)))
        if fault == 1 and self.name == "b":
            raise ArithmeticError("no data today")
        if fault == 2 and self.name == "c":
            time.sleep(90)
        if fault == 3 and self.name == "b":
            os.kill(os.getpid(), signal.SIGKILL)
        return {"x": request.arrays["x"] + ADDS[self.name]}


def load(folder: Path) -> ToySite:
    return ToySite(folder)


def serve(engine: Engine, folder: Path) -> None:
    """The rounds of plan.json: [size in floats, fault, timeout] each; one line of log.jsonl for every round."""
    for number, (size, fault, timeout) in enumerate(json.loads((folder.parent / "plan.json").read_text())):
        if engine.stopped():
            return
        x = np.full(size, number / 3)
        began = time.monotonic()
        request = Request("round", number, "toy", {"x": x, "fault": np.asarray(fault)})
        replies = engine.broadcast(request, sorted(ADDS), float(timeout))
        line = {"round": number, "seconds": time.monotonic() - began, "sites": engine.sites(), "pid": os.getpid()}
        for reply in replies:
            if reply.arrays is None:
                line[reply.site] = reply.error
            else:
                y = reply.arrays["x"]
                line[reply.site] = y.dtype == np.float64 and np.array_equal(y, x + ADDS[reply.site])
        with open(folder.parent / "log.jsonl", "a") as log:
            log.write(json.dumps(line) + "\n")


def fail(engine: Engine, folder: Path) -> None:
    raise ValueError("the plan is void")

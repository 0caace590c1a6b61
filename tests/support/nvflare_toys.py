"""Toy server loops and sites, for tests of the NVFlare adapter alone."""

import json
import time
from pathlib import Path

import numpy as np

from fedualex.deploy.engine import Request


class Toy:
    """Answers with (x + number of the site) / 2."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = int(folder.name.rsplit("-", 1)[-1])

    def work(self, request):
        orders = self.folder / "orders.json"
        order = json.loads(orders.read_text()) if orders.exists() else {}
        if order.get("raise") == request.round:
            raise ValueError("secret 4711")
        if order.get("sleep") == request.round:
            time.sleep(order["seconds"])
        if order.get("object") == request.round:
            return {"x": np.array([object()])}
        return {"x": (request.arrays["x"] + self.number) / 2}


def load(folder: Path) -> Toy:
    if (folder / "unloadable").exists():
        raise OSError("no data here")
    return Toy(folder)


def average(engine, folder: Path) -> None:
    """Rounds of averaging; what to do is in plan.json, what happened goes to result.json after every round."""
    plan = json.loads((folder / "plan.json").read_text())
    result_file = folder / "result.json"
    earlier = json.loads(result_file.read_text()) if plan.get("resume") and result_file.exists() else {}
    x = np.asarray(earlier["x"]) if earlier else np.linspace(0.0, 1.0, plan["size"])
    errors, seconds = [], []
    round_ = earlier.get("rounds", 0)
    while round_ < plan["rounds"] and not engine.stopped():
        sites = engine.sites()
        start = time.perf_counter()
        replies = engine.broadcast(Request("round", round_, "run-1", {"x": x}), sites, plan.get("timeout", 60.0))
        seconds.append(time.perf_counter() - start)
        errors += [[round_, reply.site, reply.error] for reply in replies if reply.error is not None]
        good = [reply for reply in replies if reply.error is None]
        assert all((reply.round, reply.run_id) == (round_, "run-1") for reply in replies)
        if plan.get("resume") and len(good) < len(replies):
            continue  # not counted: it is done again, by the next job if not by this one
        if good:
            x = np.mean([reply.arrays["x"] for reply in good], axis=0)
        result = {
            "rounds": round_ + 1,
            "x": x.tolist() if plan["size"] <= 1000 else [float(x[0]), float(x[-1])],
            "sites": sites,
            "errors": errors,
            "seconds": seconds,
            "stopped": engine.stopped(),
            "megabytes": _resident() if round_ % 50 == 49 or round_ == 0 else None,
        }
        memory = earlier.get("memory", [])
        memory += [[round_ + 1, result["megabytes"]]] if result["megabytes"] else []
        earlier["memory"] = result["memory"] = memory
        temporary = result_file.with_suffix(".tmp")
        temporary.write_text(json.dumps(result))
        temporary.replace(result_file)
        (folder / "run").mkdir(exist_ok=True)
        (folder / "run" / "status.json").write_text(json.dumps({"rounds": round_ + 1}))
        round_ += 1
        time.sleep(plan.get("pause", 0.0))


def _resident() -> float:
    import psutil

    return psutil.Process().memory_info().rss / 1e6


def fail(engine, folder: Path) -> None:
    raise RuntimeError("the loop is broken")

"""Many sites, long runs and large messages, deployed on this machine.

    python benchmarks/deployed.py sites ENGINE 50        # a logistic model of so many sites, 40 rows each
    python benchmarks/deployed.py soak ENGINE 2000       # so many rounds of three sites under masks
    python benchmarks/deployed.py messages ENGINE 20     # surveys at points of so many MB, three sites

Each prints the seconds, and the memory of all processes, of which what they share counts once.
"""

import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from faults import make_table_kit, write_tables
from trials import Trial

from fedualex.deploy.consortium.deployment import write_deployment
from fedualex.deploy.consortium.kit import write_table_deployment
from fedualex.deploy.party import SERVER

LONGEST = 3000.0
SAMPLED = 2.0
"""Seconds between two looks at the memory."""
PROBLEM = """
import jax.numpy as jnp
import numpy as np
import fedualex as fx

def load():
    return {{"b": np.full((1, {size}), 1 / 3)}}

def build(data):
    like = fx.Saddle(np.zeros({size}), np.zeros({size}))
    part = fx.L1(0.01) + fx.Box(1.0)
    return fx.Problem(lambda x, y, row: jnp.vdot(x + row["b"], y), x=part, y=part, like=like, data=data)
"""
SETTINGS = """
[problem]
entry = "separable:build"
[method]
name = "FeDualExCorrected"
eta_c = 0.1
[run]
rounds = 2
local_steps = 1
record_every = 2
output = "last"
timeout = 600
secure_sums = "{secure}"
[server]
engine = "{engine}"
port = {port}
[sites.north]
data = "separable:load"
[sites.south]
data = "separable:load"
[sites.west]
data = "separable:load"
"""


@contextmanager
def sampled(trial: Trial, sites: tuple[str, ...]) -> Iterator[list[tuple[int, dict[str, float]]]]:
    """The round and the memory of each party, again and again."""
    ended, samples = threading.Event(), []

    def look() -> None:
        while not ended.wait(SAMPLED):
            samples.append((trial.round(), dict(trial.memory((SERVER, *sites)))))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def followed(trial: Trial, sites: tuple[str, ...]) -> dict[str, Any]:
    """The run from its sending to its end."""
    began = time.monotonic()
    if trial.engine != "local":
        print(trial.deploy("up").strip(), f"after {time.monotonic() - began:.0f} s", flush=True)
    began = time.monotonic()
    with sampled(trial, sites) as samples:
        trial.follow()
        trial.wait(lambda: not trial.is_followed(), LONGEST)
    assert trial.command is not None
    if trial.command.poll() not in (0, 3):
        print("\n".join(line for _, line in trial.said), flush=True)
    history = trial.history()
    return {
        "seconds": time.monotonic() - began,
        "exit code": trial.command.poll(),
        "exchanges": history[-1]["exchanges"] if history else None,
        "seconds of the rounds": history[-1]["seconds"] if history else None,
        "MB down and up": [history[-1][f"bytes_{way}"] / 1e6 for way in ("down", "up")] if history else None,
        "MB at most": max((sum(memory.values()) for _, memory in samples), default=None),
        "MB of each at most": {party: max(memory[party] for _, memory in samples) for party in (SERVER, *sites)},
        "samples": samples,
    }


def many_sites(place: Path, engine: str, count: int) -> dict[str, Any]:
    """A model of so many small tables."""
    rng, sites = np.random.default_rng(0), tuple(f"site-{m:02d}" for m in range(count))
    for site in sites:
        rows = rng.normal(size=(40, 3))
        target = rng.random(40) < 1 / (1 + np.exp(-rows @ [1.0, -0.5, 0.2]))
        lines = [",".join([*map(str, row), str(int(label))]) for row, label in zip(rows, target, strict=True)]
        (place / f"{site}.csv").write_text("\n".join(["a,b,c,y", *lines]) + "\n")

    def make(root: Path, server: dict[str, Any]) -> None:
        tables = {site: {"table": str(place / f"{site}.csv")} for site in sites}
        write_table_deployment(root, {"goal": "logistic", "target": "y", "l1": 0.01}, tables, server, {"timeout": 600})

    trial = Trial(place / "kit", engine, make)
    try:
        found = followed(trial, sites)
        ledgers = [trial.layout.site(site) / "ledger.jsonl" for site in sites]
        found.pop("MB of each at most")
        found["lines of each ledger"] = sorted({len(file.read_text().splitlines()) for file in ledgers})
        events = trial.layout.server / "events.jsonl"
        found["missed"] = len(events.read_text().splitlines()) if events.exists() else 0
        return {**found, "samples": None}
    finally:
        trial.end()


def soak(place: Path, engine: str, rounds: int) -> dict[str, Any]:
    """The memory of each party as rounds go by."""
    write_tables(place)
    trial = Trial(place / "kit", engine, lambda root, server: make_table_kit(root, server, place, rounds))
    try:
        found = followed(trial, ("north", "south", "west"))
        samples = found.pop("samples")
        events = trial.layout.server / "events.jsonl"
        found["missed"] = len(events.read_text().splitlines()) if events.exists() else 0
        marks = [rounds * part // 10 for part in range(11)]
        nearest = [min(samples, key=lambda sample, mark=mark: abs(sample[0] - mark)) for mark in marks]
        return {**found, "MB": {number: {party: round(mb) for party, mb in mbs.items()} for number, mbs in nearest}}
    finally:
        trial.end()


def messages(place: Path, engine: str, megabytes: int) -> dict[str, Any]:
    """Seconds of a survey at one point of so many MB, in the clear, and under masks."""
    (place / "separable.py").write_text(PROBLEM.format(size=megabytes * 1_000_000 // 16))
    found = {}
    for secure in ("off", "auto"):

        def make(root: Path, server: dict[str, Any], secure: str = secure) -> None:
            file = place / f"{secure}.toml"
            file.write_text(SETTINGS.format(secure=secure, **server))
            write_deployment(root, file, engine)

        trial = Trial(place / secure, engine, make)
        try:
            found[secure] = {**followed(trial, ("north", "south", "west")), "samples": None}
        finally:
            trial.end()
    return found


if __name__ == "__main__":
    measure = {"sites": many_sites, "soak": soak, "messages": messages}[sys.argv[1]]
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), sys.argv[2], int(sys.argv[3])), indent=1))

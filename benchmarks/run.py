"""`make bench`: every target that needs no other environment; a table, and results.json.

    python benchmarks/run.py SECTION ...      such as answers or floor (SECTIONS, below)

All of them by default; the results of others are kept. Absolute times on a shared machine are noise: the ratios within
one run, taken in turns, are the result.
"""

import importlib.metadata
import json
import os
import platform
import sys
import time
from pathlib import Path

import table
from answers import answers, defaults, fits
from costs import imports, memory, recording, start, sweep
from floor import floor, many
from large import first_fit, large, stream
from processes import HERE
from scaling import scaling
from speed import speed

SECTIONS = {
    one.__name__: one
    for one in (
        answers,
        defaults,
        fits,
        first_fit,
        large,
        stream,
        speed,
        floor,
        many,
        recording,
        memory,
        sweep,
        start,
        imports,
        scaling,
    )
}


def machine() -> dict[str, str]:
    """What the numbers depend on."""
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    versions = {name: importlib.metadata.version(name) for name in ("jax", "numpy", "equinox")}
    processor = models[0].partition(": ")[2] if models else platform.machine()
    return {"processor": processor, "cores": str(os.cpu_count()), "Python": platform.python_version()} | versions


def main(names: list[str]) -> None:
    """Measure, write after every section, print the table."""
    if unknown := set(names) - set(SECTIONS):
        raise SystemExit(f"sections are {', '.join(SECTIONS)}; got {', '.join(unknown)}")
    for name in names or SECTIONS:
        began = time.perf_counter()
        found = {"machine": machine(), name: SECTIONS[name]()}
        results = (table.load("results.json") or {}) | found
        (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    print(table.report())


if __name__ == "__main__":
    main(sys.argv[1:])

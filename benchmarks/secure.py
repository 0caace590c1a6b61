"""What secure sums, rules and the ledger cost an exchange: `python benchmarks/secure.py`.

One site's work after its numbers are there, and the server's sum, for answers of 1 kB and 1 MB: medians of processor
time in milliseconds, and by the clock in brackets, which waits for the disk and for others.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedualex.deploy.engine import Request
from fedualex.deploy.guard import Guard
from fedualex.deploy.ledger import LEDGER, Ledger, begin_ledger
from fedualex.deploy.policy import Policy
from fedualex.deploy.secure.masks import Masker, SiteKeys, generate_keys
from fedualex.deploy.secure.sums import reveal

SIZES = {"1 kB": 128, "1 MB": 131072}
REPEATS = 31


def milliseconds(work: Callable[[int], object]) -> str:
    """Medians of the processor's time and of the clock's for a call, in milliseconds."""
    times = []
    for number in range(REPEATS):
        began = time.process_time(), time.perf_counter()
        work(number)
        times.append((time.process_time() - began[0], time.perf_counter() - began[1]))
    processor, clock = (1e3 * statistics.median(column) for column in zip(*times, strict=True))
    return f"{processor:.2f} ({clock:.1f})"


def measure(entries: int, sites: int, folder: Path) -> tuple[str, str, str]:
    """The ledger alone, masks and ledger, and the sum at the server."""
    names = [f"site-{m}" for m in range(sites)]
    _, roster, own = generate_keys(names)
    maskings = [Masker(SiteKeys(name, roster, own[name]), lambda task: {"operators": 0.25}) for name in names]
    answer = {"operators.x": np.random.default_rng(0).normal(size=entries)}
    begin_ledger(folder)
    plain, secure = (
        Guard(lambda _: answer, Policy(), Ledger(folder / LEDGER), hide=maskings[0].hide) for _ in range(2)
    )

    def ask(number: int, nonce: str = "") -> Request:
        return Request("survey", number, "run", answer, nonce, roster.digest)

    ledger = milliseconds(lambda number: plain.work(ask(number)))
    both = milliseconds(lambda number: secure.work(ask(number, f"{entries} {sites} {number}")))
    hidden = {masking.keys.site: masking.hide(ask(0, "sum"), answer) for masking in maskings}
    return ledger, both, milliseconds(lambda _: reveal(hidden))


def main() -> None:
    """Print a table of Markdown."""
    print("| answer | sites | rules and ledger | with masks | sum at the server |\n|---|---|---|---|---|")
    for size, entries in SIZES.items():
        for sites in (3, 10, 50):
            with tempfile.TemporaryDirectory(dir=".") as folder:
                times = measure(entries, sites, Path(folder))
            print(f"| {size} | {sites} | " + " | ".join(times) + " |")


if __name__ == "__main__":
    main()

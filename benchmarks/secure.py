"""What secure sums, rules and the ledger cost an exchange: `python benchmarks/secure.py`.

Medians of one site's work after its numbers are there, and of the server's sum, for answers of 1 kB and 1 MB.
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
from fedualex.deploy.secure.keys import SiteKeys, new_keys
from fedualex.deploy.secure.masks import Masking
from fedualex.deploy.secure.totals import revealed

SIZES = {"1 kB": 128, "1 MB": 131072}
REPEATS = 31


def milliseconds(work: Callable[[int], object]) -> float:
    """The median time of a call, in milliseconds."""
    times = []
    for number in range(REPEATS):
        began = time.perf_counter()
        work(number)
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times)


def measure(entries: int, sites: int, folder: Path) -> tuple[float, float, float]:
    """The ledger alone, masks and ledger, and the sum at the server."""
    names = [f"site-{m}" for m in range(sites)]
    _, roster, own = new_keys(names)
    maskings = [Masking(SiteKeys(name, roster, own[name]), lambda task: {"operators": 0.25}) for name in names]
    answer = {"operators.x": np.random.default_rng(0).normal(size=entries)}
    begin_ledger(folder)
    plain, secure = (
        Guard(lambda _: answer, Policy(), Ledger(folder / LEDGER), hide=maskings[0].hide) for _ in range(2)
    )

    def ask(number: int, nonce: str = "") -> Request:
        return Request("survey", number, "run", answer, nonce, roster.digest)

    ledger = milliseconds(lambda number: plain.work(ask(number)))
    both = milliseconds(lambda number: secure.work(ask(number, f"{entries} {sites} {number}")))
    hidden = [masking.hide(ask(0, "sum"), answer) for masking in maskings]
    return ledger, both, milliseconds(lambda _: revealed(hidden))


def main() -> None:
    """Print a table of Markdown."""
    print("| answer | sites | rules and ledger | with masks | sum at the server |\n|---|---|---|---|---|")
    for size, entries in SIZES.items():
        for sites in (3, 10, 50):
            with tempfile.TemporaryDirectory(dir=".") as folder:
                times = measure(entries, sites, Path(folder))
            print(f"| {size} | {sites} | " + " | ".join(f"{ms:.2f} ms" for ms in times) + " |")


if __name__ == "__main__":
    main()

"""The results against their targets, as a markdown table.

python benchmarks/table.py          prints it
python benchmarks/table.py docs     puts it into benchmarks/results/speed.md
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from costs import FEW, MANY
from processes import HERE
from scaling import AXES

# workload, our contender: the least factor to others in rounds per second
FASTER = {
    ("W1 K=10", "fedualex"): {"numpy-loop": 9, "numpy-batched": 3.5, "plain-jax": 1.7, "torch": 1.7},
    ("W1 K=1", "fedualex"): {"numpy-loop": 10, "plain-jax": 2},
    ("W1 K=1", "fedualex-law"): {"numpy-loop": 30, "plain-jax": 5},
    ("W2 K=10", "fedualex"): {"numpy-loop": 3},
    ("W2 K=1", "fedualex-law"): {"numpy-loop": 4},
}
FASTER_THAN_PEERS = {("W1 K=10", "fedualex"): {"torch": 1.7, "flower": 55, "pfl": 9, "fedjax": 12}}
NAMES = {
    "fedualex-law": '`fast="law"`',
    "numpy-loop": "numpy, a loop over clients",
    "numpy-batched": "numpy, clients batched",
    "plain-jax": "plain `vmap` + `scan` + `jax.random`",
    "torch": "torch, clients batched",
    "flower": "Flower's simulation",
    "pfl": "pfl-research",
    "fedjax": "FedJAX",
}
NAMES_OF_RATES = {
    "openblas_gflops": "products by OpenBLAS",
    "xla_gflops": "by XLA",
    "numpy_normals": "normals by numpy",
    "jax_normals": "by `jax.random`",
    "our_single_normals": "ours in one row",
    "our_client_normals": "ours in rows of clients",
    "c_normals": "ours in C",
}
NOISE = 1.05
"""What two equal times may differ by."""
FLAT = 1.2
"""What a hundred times as many clients may add: the clients' weights, steps and ids are arrays of their number."""
SLACK = 0.1
"""What a fitted exponent may be off."""


@dataclass(frozen=True)
class Row:
    """One target: `measured` must not be below (or above) it."""

    work: str
    against: str
    measured: float
    target: float
    at_least: bool = False
    unit: str = "x"
    remark: str = ""

    @property
    def met(self) -> bool:
        """The verdict."""
        return self.measured >= self.target if self.at_least else self.measured <= self.target

    def cells(self) -> list[str]:
        """Of a table."""
        target = f"{'at least' if self.at_least else 'at most'} {self.target:.4g}{self.unit}"
        found = f"{self.measured:.3g}{self.unit}" + (f" ({self.remark})" if self.remark else "")
        return [self.work, self.against, found, target, "met" if self.met else "**not met**"]


def faster(workloads: dict[str, Any], targets: dict[tuple[str, str], dict[str, float]]) -> Iterator[Row]:
    """Rounds per second of ours over those of others; CPU time's ratio as a remark."""
    for (workload, ours), others in targets.items():
        for other, target in others.items():
            if other not in workloads.get(workload, ()):
                continue
            wall, cpu = (
                workloads[workload][other][key] / workloads[workload][ours][key] for key in ("wall_ms", "cpu_ms")
            )
            work = f"{workload}, rounds per second" + (f", {NAMES[ours]}" if ours in NAMES else "")
            yield Row(work, NAMES[other], wall, target, at_least=True, remark=f"CPU {cpu:.3g}x")


LARGE = (
    ("logistic", "l1 logistic regression, 100,000 x 50, to a gap of 1e-6", 0.5),
    ("logistic of 1,000,000", "the same, 1,000,000 x 50", 0.4),
    ("lasso", "lasso, 1,000,000 x 100, to a gap of 1e-6", 1.2),
    ("fair", "the worst of 5 groups, 100,000 x 50, to a gap of 1e-4", 0.1),
)
"""What is measured of many rows, and the most that the ratio of CPU times should be."""


def as_users_see_it(results: dict[str, Any]) -> Iterator[Row]:
    """First answers, defaults, fits."""
    if found := results.get("answers"):
        ours, hand = found["ours"], found["by_hand"]
        for key, work, target in (("cold", "a cold process", 2.0), ("second", "the second process", 1.3)):
            seconds, other = ours[f"{key}_process_s"], hand[f"{key}_process_s"]
            remark = f"CPU {seconds:.2f} s; {other:.2f} by hand"
            yield Row(f"README's example, {work}", "the loop by hand in jax", seconds / other, target, remark=remark)
        remark = f"a second call takes {ours['second_again_s']:.2f} CPU s"
        yield Row("the same, programs", "twelve", ours["cold_programs"], 12, unit="", remark=remark)
    if found := results.get("defaults"):
        ms = {name: one["cpu_ms"] for name, one in found.items()}
        plain, bare = ms["K=10 plain"], ms["K=1 unrecorded"]
        for name, target in (("defaults", 1.7), ("float32", 1.7)):
            work = f"W1 K=10, R=200, 50 records, {name}"
            yield Row(work, NAMES["plain-jax"], plain / ms[f"K=10 {name}"], target, at_least=True, remark="CPU")
        for name in ("defaults", "float32"):
            work = f"W1 K=1, R=500, 50 records, {name}"
            yield Row(work, "float32, unrecorded", bare / ms[f"K=1 {name}"], 0.85, at_least=True, remark="CPU")
        yield Row("a record at d = 900", "1 ms", ms["a record"], 1, unit=" CPU ms")
    if found := results.get("fits"):
        s = found["cpu_s"]
        remark = f"again {s['again']:.2f} s; scikit-learn {s['sklearn first']:.2f} s, again {s['sklearn again']:.2f} s"
        yield Row("5-fold cross-validation of 60 rows, cold", "2 s", s["first"], 2, unit=" CPU s", remark=remark)
        work = "a survey of 60,000 x 419 rows of 20 clients"
        yield Row(work, "two products of numpy", s["survey"] / s["products"], 1.2, remark="CPU")


def beside_scikit_learn(results: dict[str, Any]) -> Iterator[Row]:
    """The first fit of a table, and fits of many rows."""
    if found := results.get("first_fit"):
        ours, peer = found["ours"], found["scikit-learn"]["s"]
        for key, work, target in (("cold_s", "a cold process", 1.5), ("second_s", "the second process", 1.2)):
            remark = f"CPU {ours[key]:.2f} s; {peer:.2f}"
            yield Row(
                f"`fedualex fit`, {work}", "one that fits scikit-learn's", ours[key] / peer, target, remark=remark
            )
    for name, work, target in LARGE:
        if found := results.get("large", {}).get(name):
            peer = min((one["s"], solver) for solver, one in found.items() if solver != "ours")
            remark = f"CPU {found['ours']['s']:.2f} s; {peer[1]} {peer[0]:.2f}"
            yield Row(work, "the fastest peer", found["ours"]["s"] / peer[0], target, remark=remark)
    if found := results.get("stream"):
        work, remark = f"a Parquet file of {found['rows']:,.0f} x 50, a fit", f"{found['cpu_s']:.0f} CPU s"
        yield Row(work, "5 minutes", found["wall_s"] / 60, 5, unit=" min", remark=remark)
        yield Row(f"{work}, peak memory", "1 GiB", found["peak_mib"], 1024, unit=" MiB")


def rows(results: dict[str, Any], peers: dict[str, Any] | None) -> Iterator[Row]:
    """Every target that was measured."""
    yield from as_users_see_it(results)
    yield from beside_scikit_learn(results)
    yield from faster(results.get("speed", {}), FASTER)
    yield from faster(peers["workloads"] if peers else {}, FASTER_THAN_PEERS)
    if found := results.get("floor"):
        ours, products, normals = (found["round"][f"{name}_ms"] for name in ("ours", "products", "normals"))
        shared = found["round"]["ours_on_all_cores_ms"]
        remark = f"{ours:.1f} ms, on all cores {shared:.1f}; {products:.1f} products, {normals:.1f} normals"
        work = "W1 K=10, CPU time a round on one core"
        yield Row(work, "the machine's floor", ours / (products + normals), 1.2, remark=remark)
    if found := results.get("many"):
        ours, least = found["ours_s"], found["floor_s"]
        yield Row(
            "a million clients, K = 1, d = 900, a round", "its floor", ours / least, 1.7, remark=f"CPU {ours:.1f} s"
        )
    if found := results.get("recording"):
        wall, cpu = (found["recorded"][key] / found["unrecorded"][key] for key in ("wall_ms", "cpu_ms"))
        yield Row("W1 K=10, a record every 10 rounds", "unrecorded", wall, 1.1, remark=f"CPU {cpu:.3g}x")
    if found := results.get("memory"):
        few, many = found[str(FEW)]["running_mib"], found[str(MANY)]["running_mib"]
        work = f"{MANY:,} clients, K = 1, d = 900, peak memory"
        yield Row(work, "1 GiB", found[str(MANY)]["compiling_mib"], 1024, unit=" MiB")
        remark = f"{many:.0f} MiB, compiled before"
        yield Row(work, f"{FEW:,} clients", many / few, FLAT, remark=remark)
    if found := results.get("sweep"):
        remark = f"{found['sweep_s']:.0f} s for 350 runs"
        yield Row(
            "35 step sizes x 10 seeds, a sweep",
            "one by one",
            found["sweep_s"] / found["one_by_one_s"],
            NOISE,
            remark=remark,
        )
        yield Row("the same, compilations of the rounds", "one", found["compilations"], 1, unit="")
    if found := results.get("start"):
        first, second = (found[name]["compile_s"] for name in ("first", "second"))
        remark = f"{first:.1f} s, then {second:.2f} s"
        yield Row("second start of a program, compile time", "first start", second / first, 0.1, remark=remark)
    if found := results.get("imports"):
        jax = found["jax"]["import"]
        for name, work in (("fedualex", "`import fedualex`"), ("first-name", "the same and its first name")):
            yield Row(work, "`import jax`", found[name]["import"] / jax, 1.6, remark=f"{found[name]['import']:.2f} s")
        yield Row("`fedualex --help`", "0.5 s", found["help"]["process"], 0.5, unit=" s")
    for axis, found in results.get("scaling", {}).items():
        sizes, smallest, work = AXES[axis]
        remark = f"{smallest:,} to {sizes[-1]:,}"
        yield Row(
            f"growth with {axis}: exponent",
            f"the work's, {work}",
            found["exponent"],
            work + SLACK,
            unit="",
            remark=remark,
        )


def markdown(results: dict[str, Any], peers: dict[str, Any] | None) -> str:
    """The table."""
    lines = [["work", "against", "measured", "target", "verdict"], ["---"] * 5]
    lines += [row.cells() for row in rows(results, peers)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def load(name: str) -> Any:
    """A file of results, or None."""
    file = HERE / name
    return json.loads(file.read_text()) if file.exists() else None


def rates(machine: dict[str, float]) -> str:
    """What one core of this machine does, from the floor's measurement."""
    listed = ", ".join(f"{NAMES_OF_RATES[name]} {rate:.0f}" for name, rate in machine.items())
    return f"Rates of one core: {listed} (GFLOP or million normals a CPU second)."


def report() -> str:
    """The machine, the versions, the table and the rates."""
    results, peers = load("results.json") or {}, load("results-peers.json")
    parts = results.get("machine", {}) | (peers["versions"] if peers else {})
    listed = ", ".join(f"{key} {value}" for key, value in parts.items())
    measured = [rates(results["floor"]["machine"])] if "floor" in results else []
    return "\n\n".join([f"{listed}.", markdown(results, peers), *measured])


def into_docs() -> None:
    """Between the two marks of the page."""
    page = HERE / "results" / "speed.md"
    before, opening, rest = page.read_text().partition("<!-- table -->\n")
    _, closing, after = rest.partition("<!-- end of table -->")
    page.write_text(f"{before}{opening}{report()}\n{closing}{after}")


if __name__ == "__main__":
    into_docs() if sys.argv[1:] == ["docs"] else print(report())

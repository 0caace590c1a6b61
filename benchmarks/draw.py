"""docs/figures/performance.png from results.json, and from results-peers.json if it is there."""

import numpy as np
import table
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from processes import HERE
from scaling import AXES

from fedualex import palette
from fedualex.palette import COLORS, MARKERS

WORKLOADS = ("W1 K=1", "W1 K=10")
NAMES = table.NAMES | {"fedualex": "fedualex", "fedualex-law": "fedualex, fast=law"}
SIZES = {
    "clients": "clients, K = 1, d = 900",
    "local steps": "local steps, 100 clients, d = 900",
    "d, separable": "d, separable problem, 100 clients, K = 1",
    "d, dense": "d, dense game, 100 clients, K = 1",
}


def speeds() -> dict[str, dict[str, float]]:
    """Rounds per second of each contender on each workload."""
    here, peers = table.load("results.json")["speed"], table.load("results-peers.json")
    found: dict[str, dict[str, float]] = {}
    for workload in WORKLOADS:
        everyone = (peers["workloads"][workload] if peers else {}) | here[workload]
        for name, median in everyone.items():
            found.setdefault(name, {})[workload] = 1e3 / median["wall_ms"]
    return dict(sorted(found.items(), key=lambda item: min(item[1].values())))


def draw_speeds(axis: Axes) -> None:
    """Bars; ours are filled, others hatched or light."""
    found = speeds()
    for i, workload in enumerate(WORKLOADS):
        for row, (name, speed) in enumerate(found.items()):
            if workload not in speed:
                continue
            place, ours = row + 0.2 - 0.4 * i, name.startswith("fedualex")
            axis.barh(
                place,
                speed[workload],
                0.36,
                color=COLORS[i],
                alpha=1 if ours else 0.45,
                hatch=("", "///")[i],
                ec="white",
            )
            label = f" {speed[workload]:,.0f}" if speed[workload] >= 10 else f" {speed[workload]:.1f}"
            axis.annotate(label, (speed[workload], place), va="center", fontsize=7)
    for i, workload in enumerate(WORKLOADS):
        axis.barh(0, 0, color=COLORS[i], hatch=("", "///")[i], ec="white", label=workload)
    axis.set(xscale="log", xlabel="rounds per second", title="the paper's l1 game, 100 clients")
    axis.set_yticks(range(len(found)), [NAMES[name].replace("`", "") for name in found])
    axis.margins(x=0.15)
    axis.legend(loc="lower right", fontsize=8)


def draw_scaling(axis: Axes) -> None:
    """CPU time a round against each size, with the fitted range drawn strong."""
    for i, (name, found) in enumerate(table.load("results.json")["scaling"].items()):
        sizes, costs = np.array([int(size) for size in found["cpu_ms"]]), np.array(list(found["cpu_ms"].values()))
        style = {"color": COLORS[i], "marker": MARKERS[i], "ms": 5}
        fitted = sizes >= AXES[name][1]
        axis.plot(sizes, costs, lw=0.7, ls=palette.style(i).linestyle, alpha=0.6, **style)
        label = f"{SIZES[name]}: exponent {found['exponent']:.2f}"
        axis.plot(sizes[fitted], costs[fitted], lw=2, ls=palette.style(i).linestyle, label=label, **style)
    axis.set(
        xscale="log", yscale="log", xlabel="size", ylabel="CPU ms a round", title="growth; fitted where drawn strong"
    )
    axis.grid(which="major", color="0.9")
    axis.legend(fontsize=8)


def main() -> None:
    """Draw both and save."""
    figure = Figure(figsize=(12, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_speeds(left)
    draw_scaling(right)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(HERE.parent / "docs" / "figures" / "performance.png", dpi=150)


if __name__ == "__main__":
    main()

"""Static figures of a panel: gap and density, or gap and ranks, readable in grey and by colour-blind people."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..runtime.drawing import COLORS, X_LABELS, line

X_AXES = {
    "round": X_LABELS["rounds"],
    "exchanges": X_LABELS["exchanges"],
    "seconds": X_LABELS["seconds"],
    "megabytes": "megabytes carried by the network",
}


def draw(panel: Mapping[str, Any], output: str, stem: Path, x: str = "round") -> list[Path]:
    """The paper's figure of a panel for one output: the certified gap, then density or ranks. PNG and PDF."""
    curves = [curve for curve in panel["curves"] if curve["output"] == output]
    blocks = list(curves[0]["structure"])
    figure, axes = _figure(1 + len(blocks), f"{panel['title']}: {output} point")
    _draw_gaps(axes[0], curves, x)
    for axis, block in zip(axes[1:], blocks, strict=True):
        for i, curve in enumerate(curves):
            _band(axis, curve[x], curve["structure"][block], i, curve["method"])
        name = "density (share of nonzeros)" if block == "all" else f"rank of {block.upper()}"
        axis.set(xlabel=X_AXES[x], ylabel=name)
        _exact_line(axis, panel["exact"], block, blocks)
    _legend(figure, axes[0], 4)
    return save(figure, stem)


def draw_gap(panel: Mapping[str, Any], output: str, stem: Path, x: str = "megabytes") -> list[Path]:
    """The certified gap of one output alone."""
    figure, axes = _figure(1, panel["title"])
    _draw_gaps(axes[0], [curve for curve in panel["curves"] if curve["output"] == output], x)
    _legend(figure, axes[0], 2)
    return save(figure, stem)


def draw_averaging(
    series: Mapping[str, Mapping[str, Sequence[int | float]]], exact: float | None, stem: Path
) -> list[Path]:
    """The curse of primal averaging: densities of the clients' points and of the server's point after averaging."""
    figure, axes = _figure(len(series), "What averaging does to sparsity", share_y=True)
    for axis, (method, found) in zip(axes, series.items(), strict=True):
        rounds = found["round"]
        axis.fill_between(rounds, found["lowest"], found["highest"], color=COLORS[0], alpha=0.2, lw=0)
        axis.plot(rounds, found["clients"], color=COLORS[0], marker="o", ms=4, label="clients' points: mean and range")
        axis.plot(rounds, found["server"], color=COLORS[1], ls="--", marker="s", ms=4, label="server's point")
        axis.set(title=method, xlabel=X_AXES["round"], ylim=(0, 1.02))
        if exact is not None:
            axis.axhline(exact, color="0.3", ls=":", lw=1, label="exact saddle point")
    axes[0].set_ylabel("density (share of nonzeros)")
    axes[-1].legend(loc="lower right", fontsize=8)
    return save(figure, stem)


def save(figure: Figure, stem: Path) -> list[Path]:
    """PNG and PDF, without a time stamp: the same runs give the same files."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "pdf")]
    for path in paths:
        metadata = {"CreationDate": None} if path.suffix == ".pdf" else {}
        figure.savefig(path, dpi=150, metadata=metadata)
    return paths


def _figure(columns: int, title: str, share_y: bool = False) -> tuple[Figure, list[Axes]]:
    # An object of its own, without pyplot: nothing global, no display.
    with matplotlib.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(5.2 * columns, 4.4), layout="constrained")
        axes = figure.subplots(1, columns, squeeze=False, sharey=share_y)
    figure.suptitle(title, fontsize=11)
    return figure, list(axes[0])


def _legend(figure: Figure, axis: Axes, columns: int) -> None:
    # Below the axes: no place inside is free for every run.
    figure.legend(
        *axis.get_legend_handles_labels(), loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )


def _draw_gaps(axis: Axes, curves: Sequence[Mapping[str, Any]], x: str) -> None:
    for i, curve in enumerate(curves):
        _band(axis, curve[x], curve["gap"], i, curve["method"], positive=True)
    axis.set(xlabel=X_AXES[x], ylabel="certified duality gap")
    if any(mean is not None and mean > 0 for curve in curves for mean in curve["gap"]["mean"]):
        axis.set_yscale("log")  # which nothing but zeros or missing certificates cannot have
    axis.grid(which="major", color="0.9")


def _band(axis: Axes, x: Any, values: Mapping[str, Any], i: int, label: str, positive: bool = False) -> None:
    mean, std = np.array(values["mean"], float), np.array(values["std"], float)
    low = np.maximum(mean - std, mean / 10) if positive else mean - std  # a logarithmic axis has no room below 0
    line(axis, x, mean, i, label)
    axis.fill_between(x, low, mean + std, color=COLORS[i % len(COLORS)], alpha=0.15, lw=0)


def _exact_line(axis: Axes, exact: Mapping[str, Any] | None, block: str, blocks: Sequence[str]) -> None:
    if exact is None:
        return
    level = exact["density"] if block == "all" else exact["rank"][blocks.index(block)]
    axis.axhline(level, color="0.3", ls=":", lw=1)
    axis.annotate(
        f"exact {level:.3g}", (0.99, level), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=8
    )

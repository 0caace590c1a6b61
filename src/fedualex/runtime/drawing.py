"""Curves of certified gaps, readable in grey and by color-blind people."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..palette import MARKERS, Style, style
from ..validation import one_of
from .frame import numeric

X_LABELS = {
    "exchanges": "exchanges between server and clients",
    "rounds": "communication rounds",
    "seconds": "seconds",
    "bytes": "bytes carried by the network",
}

History = Mapping[str, NDArray[Any]]


def draw_gaps(history: History, x: str, ax: Any, reason: str) -> Any:
    """Draw each output's certified gaps on these axes, or on new ones if None; the axes.

    reason: why there are no certificates, if there are none.
    """
    gaps, x = gaps_of(history), one_of("x", x, tuple(X_LABELS))
    if not any(np.any(np.isfinite(gap)) for gap in gaps.values()):
        raise ValueError(f"there is no certified gap to plot: {reason}")
    ax = new_axes() if ax is None else ax
    for i, (output, gap) in enumerate(gaps.items()):
        line(ax, along(history, x), gap, style(i), output)
    return labeled(ax, x)


def along(history: History, x: str) -> NDArray[Any]:
    """The numbers of all records on this axis; bytes are those up and down."""
    match x:
        case "bytes":
            return np.asarray(history["bytes_up"] + history["bytes_down"], float)
        case "rounds":
            return np.asarray(history["round"], float)
    return np.asarray(history[x], float)


def gaps_of(history: History) -> dict[str, NDArray[Any]]:
    """The certified gaps of each recorded output, NaN where there is none."""
    return {
        name.removeprefix("gap_"): numeric(name, column)[name]
        for name, column in history.items()
        if name.startswith("gap_")
    }


def new_axes() -> Any:
    """The axes of a new figure, which notebooks show by themselves."""
    from matplotlib import pyplot

    with pyplot.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        return pyplot.subplots(figsize=(5.6, 4.2), layout="constrained")[1]


def line(ax: Any, x: Any, y: Any, look: Style, label: str, scale: float = 1.0) -> None:
    """A curve of a figure, with a color, a dash and a marker of its own. scale: how large line and markers are."""
    every = max(1, len(y) // 8)
    first = MARKERS.index(look.marker) % every  # so that markers of different curves do not cover each other
    mark = {"marker": look.marker, "markevery": (first, every)}
    size = {"ms": 4.5 * scale, "lw": 1.6 * scale}
    ax.plot(x, y, **mark, **size, label=label, color=look.color, linestyle=look.linestyle)


def labeled(ax: Any, x: str) -> Any:
    """The axes with what all figures of gaps have: names, a logarithmic scale, a grid and a legend."""
    ax.set(xlabel=X_LABELS[x], ylabel="certified duality gap")
    if any(np.any(np.asarray(one.get_ydata(), float) > 0) for one in ax.lines):
        ax.set_yscale("log")  # which nothing but zeros cannot have
    ax.grid(which="major", color="0.9")
    ax.legend(fontsize=8, frameon=False)
    return ax

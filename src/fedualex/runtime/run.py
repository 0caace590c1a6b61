"""What a run returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Reals
from ..data.columns import require_package
from ..display import html_table, round_up
from ..palette import MARKERS, Style, style
from ..problems.convexity import Disproof
from ..storage import Json
from ..tree import Saddle, Tree
from ..validation import one_of
from .outputs import CELLS, Output
from .status import Status, Stop

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

# Columns of a history as a table of pandas.


def frame_of(history: "History") -> "DataFrame":
    """A pandas.DataFrame with one row for each record, NaN where there is no number."""
    pandas = require_package("pandas", "pandas", "pandas", "to_frame()")
    numbers: dict[str, Reals] = {}
    for name, column in history.items():
        numbers |= numeric_columns(name, column)
    return pandas.DataFrame(numbers)


def numeric_columns(name: str, column: NDArray[Any]) -> dict[str, Reals]:
    """A column as columns of numbers: as it is, with NaN for None, or one for each spectral block."""
    if column.ndim == 1 and column.dtype != object:
        return {name: column}
    blocks = max((len(value) for value in column if isinstance(value, tuple | list | np.ndarray)), default=0)
    if not blocks:
        return {name: np.array([np.nan if value is None else value for value in column], float)}
    whole = np.array([[np.nan] * blocks if value is None else value for value in column], float)
    return {f"{name}_{block}": whole[:, block] for block in range(blocks)}


# Curves of certified gaps, readable in grey and by color-blind people.


X_LABELS = {
    "exchanges": "exchanges between server and clients",
    "rounds": "communication rounds",
    "seconds": "seconds",
    "bytes": "bytes carried by the network",
}

History = Mapping[str, NDArray[Any]]


def draw_gaps(history: History, x: str, ax: "Axes | None", reason: str) -> "Axes":
    """Draw each output's certified gaps on these axes, or on new ones if None; returns the axes.

    reason: why there are no certificates, if there are none.
    """
    gaps, x = gaps_of(history), one_of("x", x, tuple(X_LABELS))
    if not any(np.any(np.isfinite(gap)) for gap in gaps.values()):
        raise ValueError(f"there is no certified gap to plot: {reason}")
    ax = make_axes() if ax is None else ax
    for i, (output, gap) in enumerate(gaps.items()):
        draw_line(ax, axis_values(history, x), gap, style(i), output)
    return label_axes(ax, x)


def axis_values(history: History, x: str) -> NDArray[np.float64]:
    """The numbers of all records on this axis; bytes are those up and down."""
    match x:
        case "bytes":
            return np.asarray(history["bytes_up"] + history["bytes_down"], float)
        case "rounds":
            return np.asarray(history["round"], float)
    return np.asarray(history[x], float)


def gaps_of(history: History) -> dict[str, Reals]:
    """The certified gaps of each recorded output, NaN where there is none."""
    return {
        name.removeprefix("gap_"): numeric_columns(name, column)[name]
        for name, column in history.items()
        if name.startswith("gap_")
    }


def drawing(module: str) -> Any:
    """A module of matplotlib, which only figures need."""
    return require_package(module, "matplotlib", "figures", "a figure")


def make_axes() -> "Axes":
    """The axes of a new figure, which a notebook shows without being asked."""
    pyplot = drawing("matplotlib.pyplot")
    with pyplot.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        axes: Axes = pyplot.subplots(figsize=(5.6, 4.2), layout="constrained")[1]
    return axes


def draw_line(
    ax: "Axes", x: Sequence[float] | Reals, y: Sequence[float] | Reals, look: Style, label: str, scale: float = 1.0
) -> None:
    """Draw a curve with a color, a dash and a marker of its own. scale: how large line and markers are."""
    every = max(1, len(y) // 8)
    first = MARKERS.index(look.marker) % every  # so that markers of different curves do not cover each other
    mark: dict[str, Any] = {"marker": look.marker, "markevery": (first, every)}
    size: dict[str, Any] = {"ms": 4.5 * scale, "lw": 1.6 * scale}
    ax.plot(x, y, **mark, **size, label=label, color=look.color, linestyle=look.linestyle)


def label_axes(ax: "Axes", x: str) -> "Axes":
    """Give axes what all figures of gaps have: names, a logarithmic scale, a grid and a legend; returns them."""
    ax.set(xlabel=X_LABELS[x], ylabel="certified duality gap")
    if any(np.any(np.asarray(one.get_ydata(), float) > 0) for one in ax.lines):
        ax.set_yscale("log")  # which nothing but zeros cannot have
    ax.grid(which="major", color="0.9")
    ax.legend(fontsize=8, frameon=False)
    return ax


@dataclass(frozen=True, repr=False)
class Run:
    """The answer of `solve` and `simulate`: certified outputs, which of them is the answer, and how they came about."""

    stop: Stop
    """Why the run ended."""
    detail: str
    """More about why it ended, in one sentence; empty if `stop` says it all."""
    output: str
    """The name of the output that is the answer: unless one was asked for, the one with the smallest certificate; of
    several that meet tol the sparsest."""
    outputs: dict[str, Output]
    """The outputs of the last state, and "best" if an earlier record had a smaller certificate than all of them."""
    best: Output | None
    """The output with the smallest certificate of all records; None where there are no certificates."""
    history: dict[str, NDArray[Any]]
    """The records as columns, one entry for each record (docs/simulator.md)."""
    rounds: int
    exchanges: int
    """Round trips between server and clients; those for certificates alone are not counted."""
    seconds: float
    steps: str
    """Which step sizes theory chose; empty if all were given."""
    state: Tree
    """The dual state, from which a run is resumed; a point `z0` cannot replace it."""
    convexity: str
    """What was checked of f, or why nothing was. That f is convex-concave is said only where it is by construction."""
    disproof: Disproof | None
    """Two points that a convex-concave f could not have, if they were found: then nothing is certified."""
    chosen: str = ""
    """Which method was chosen and why; empty if one was given."""
    precision: str = ""
    """The precision of the rounds, and why it was chosen; certificates are always float64."""
    epsilon: float | None = None
    """The epsilon of a deployment with clipping and noise, for all increments that sites were asked for."""
    least_violation: float | None = None
    """Where the limits are INFEASIBLE: no model of the domain exceeds them by less, which is proved."""
    unanswered: bool = False
    """Whether clients did not answer when the last outputs were to be certified."""
    server_seconds: float | None = None
    """How many of the seconds the server's own steps took, their compilation included, if the method has such steps."""

    @property
    def answer(self) -> Output:
        """The output that is the answer."""
        return self.outputs[self.output]

    @property
    def z(self) -> Saddle:
        """The point that is the answer."""
        return self.answer.z

    @property
    def gap(self) -> float | None:
        """The certified bound on the duality gap of `z`; None where there is no certificate."""
        return self.answer.gap

    @property
    def violation(self) -> float | None:
        """A bound on how far `z` exceeds the limits of a problem that has some: feasible if <= 0."""
        return self.answer.violation

    @property
    def status(self) -> Status:
        """What the answer is worth."""
        return self.answer.status

    def to_frame(self) -> "DataFrame":
        """The history as a pandas.DataFrame: one row for each record, NaN where there is no number.

        A block that is spectral has a column of its own: rank_last_0, rank_last_1, ...
        """
        return frame_of(self.history)

    def plot(self, x: str = "exchanges", ax: "Axes | None" = None) -> "Axes":
        """Draw the certified gap of each recorded output on a logarithmic scale.

        x: "exchanges", "rounds", "seconds" or "bytes", up and down together. ax: the axes of matplotlib to draw on; new
        ones if None. Returns the axes.
        """
        return draw_gaps(self.history, x, ax, self.answer.certificate.reason)

    def __str__(self) -> str:
        detail = f", {self.detail}" if self.detail else ""
        cost = f"{self.rounds} rounds, {self.exchanges} exchanges, {self.seconds:.1f} s"
        return f"{self.status}, {self.stop}{detail}: {self._claim()}, {cost}"

    def __repr__(self) -> str:
        return f"Run({self.status}: {self._claim()}, {self.exchanges} exchanges, {self.seconds:.1f} s)"

    def _repr_html_(self) -> str:
        """The outputs as a table, for notebooks."""
        rows = [
            (f"{one.label} *" if name == self.output else one.label, *one.cells()) for name, one in self.outputs.items()
        ]
        return html_table(("output, * the answer", *CELLS), rows, str(self))

    def _claim(self) -> str:
        if self.gap is None:
            claim = f"not certifiable: {self.answer.certificate.reason}"
        else:
            claim = f"certified gap <= {round_up(self.gap)} ({self.answer.label})"
        return claim if self.violation is None else f"{claim}, violation <= {round_up(self.violation)}"


def columns(records: list[Json]) -> dict[str, NDArray[Any]]:
    """Records as arrays, one for each key of any record; None where a record has no such number."""
    keys = dict.fromkeys(key for record in records for key in record)
    return {key: _column([record.get(key) for record in records]) for key in keys}


def _column(values: list[object]) -> NDArray[Any]:
    """Numbers, or the ranks of all spectral blocks along a second axis; objects where some of those are missing."""
    if None in values and any(isinstance(value, tuple | list) for value in values):
        mixed = np.empty(len(values), object)
        mixed[:] = values
        return mixed
    return np.array(values)

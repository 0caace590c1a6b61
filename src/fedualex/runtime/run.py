"""What a run returns."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..display import html_table, rounded_up
from ..problems.convexity import Disproof
from ..tree import Saddle
from .drawing import draw_gaps
from .frame import frame_of
from .outputs import CELLS, Output
from .status import Status, Stop


@dataclass(frozen=True, repr=False)
class Run:
    """The answer of `solve` and `simulate`: certified outputs, which of them is the answer, and how they came about.

    rounds, exchanges, seconds: what it took.
    """

    stop: Stop
    """Why the run ended."""
    detail: str
    """More about that, in one sentence; empty if the word says it all."""
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
    state: Any
    """The dual state: what `z0` cannot replace when a run is to be resumed."""
    convexity: str
    """What was checked of f, or why nothing was. That f is convex-concave is said only where it is by construction."""
    disproof: Disproof | None
    """Two points that a convex-concave f could not have, if they were found: then nothing is certified."""
    chosen: str = ""
    """Which method was chosen and why; empty if one was given."""
    precision: str = ""
    """Of the rounds, and why it was chosen; certificates are float64 always."""
    epsilon: float | None = None
    """Of a deployment with clipping and noise: what all increments that sites were asked for are worth."""
    server_seconds: float | None = None
    """Of `FeDualSlide`: how many of the seconds the server's own steps took, their compilation included."""

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
        """By how much `z` exceeds the limits of a problem that has some, at most: feasible if <= 0."""
        return self.answer.violation

    @property
    def status(self) -> Status:
        """What the answer is worth."""
        return self.answer.status

    def to_frame(self) -> Any:
        """The history as a pandas.DataFrame: one row for each record, NaN where there is no number.

        A block that is spectral has a column of its own: rank_last_0, rank_last_1, ...
        """
        return frame_of(self.history)

    def plot(self, x: str = "exchanges", ax: Any = None) -> Any:
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
            claim = f"certified gap <= {rounded_up(self.gap)} ({self.answer.label})"
        return claim if self.violation is None else f"{claim}, violation <= {rounded_up(self.violation)}"


def columns(records: list[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    """Records as arrays, one for each key of any record; None where a record has no such number."""
    keys = dict.fromkeys(key for record in records for key in record)
    return {key: _column([record.get(key) for record in records]) for key in keys}


def _column(values: list[Any]) -> NDArray[Any]:
    """Numbers, or the ranks of all spectral blocks along a second axis; objects where some of those are missing."""
    if None in values and any(isinstance(value, tuple | list) for value in values):
        mixed = np.empty(len(values), object)
        mixed[:] = values
        return mixed
    return np.array(values)

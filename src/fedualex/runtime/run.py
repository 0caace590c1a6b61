"""What a run returns."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..display import rounded_up
from ..problems.disproof import Disproof
from ..tree import Saddle
from .outputs import Output
from .status import Status, Stop


@dataclass(frozen=True)
class Run:
    """The answer of `solve` and `simulate`: certified outputs, which of them is the answer, and how they came about."""

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
    rounds: int
    exchanges: int
    """Round trips between server and clients; those for certificates alone are not counted."""
    seconds: float
    steps: str
    """Which step sizes theory chose; empty if all were given."""
    state: Any = field(repr=False)
    """The dual state: what `z0` cannot replace when a run is to be resumed."""
    convexity: str
    """What was checked of f, or why nothing was. That f is convex-concave is said only where it is by construction."""
    disproof: Disproof | None
    """Two points that a convex-concave f could not have, if they were found: then nothing is certified."""
    chosen: str = ""
    """Which method was chosen and why; empty if one was given."""
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

    def __str__(self) -> str:
        if self.gap is None:
            claim = f"not certifiable: {self.answer.certificate.reason}"
        else:
            claim = f"certified gap <= {rounded_up(self.gap)} ({self.answer.label})"
        if self.violation is not None:
            claim += f", violation <= {rounded_up(self.violation)}"
        detail = f", {self.detail}" if self.detail else ""
        cost = f"{self.rounds} rounds, {self.exchanges} exchanges, {self.seconds:.1f} s"
        return f"{self.status}, {self.stop}{detail}: {claim}, {cost}"


def columns(records: list[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    """Records as arrays, one for each key of any record; None where a record has no such number."""
    keys = dict.fromkeys(key for record in records for key in record)
    return {key: np.array([record.get(key) for record in records]) for key in keys}

"""What a run returns."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tree import Saddle
from .outputs import Output
from .status import Status


@dataclass(frozen=True)
class Run:
    """The answer of `solve` and `simulate`: a status, four certified outputs, and how they came about."""

    status: Status
    output: str
    """The name of the output that `z` is."""
    outputs: dict[str, Output]
    best: Output | None
    """The recorded output with the smallest certificate of the whole run; None where there are no certificates."""
    history: dict[str, NDArray[Any]]
    rounds: int
    seconds: float
    steps: str
    """Which step sizes theory chose; empty if all were given."""
    state: Any = field(repr=False)
    """The dual state: what `z0` cannot replace when a run is to go on."""
    epsilon: float | None = None
    """Of a deployment with clipping and noise: what all increments that sites were asked for are worth."""

    @property
    def z(self) -> Saddle:
        """The answer."""
        return self.outputs[self.output].z

    @property
    def gap(self) -> float | None:
        """The certified bound on the duality gap of `z`; None where the problem has no certificate."""
        return self.outputs[self.output].gap

    def __str__(self) -> str:
        gap = "not certifiable" if self.gap is None else f"certified gap <= {max(self.gap, 0):.4g}"
        return f"{self.status}: {gap} ({self.output}), {self.rounds} rounds, {self.seconds:.1f} s"


def columns(records: list[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    """Records as arrays, one for each key."""
    return {key: np.array([record[key] for record in records]) for key in records[0]} if records else {}

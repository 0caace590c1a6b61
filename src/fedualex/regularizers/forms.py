"""What a regularizer is to a solver that works on numbers alone: one record for the whole calculus."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Numbers = float | NDArray[np.float64]

Coupling = Literal["l1", "l2", "sum"]
"""The one condition that ties the entries of a block together: ||x||_1 <= r, ||x||_2 <= r, or sum x = r."""


@dataclass(frozen=True)
class ModelForm:
    """psi(x) = sum_i phi_i(x_i) + sum_g weight_g ||x_g|| + quadratic/2 ||x||^2 + <linear, x>, and one coupling.

    phi_i(x) = l1 |x| + entropy x log(x / prior_i) on lower_i <= x <= upper_i. With `spectral`, x are the singular
    values of the block. Numbers stand for arrays of the block's shape.
    """

    l1: float = 0.0
    lower: Numbers = -np.inf
    upper: Numbers = np.inf
    entropy: float = 0.0
    prior: Numbers = 1.0
    groups: NDArray[np.integer[Any]] | None = None
    weights: NDArray[np.float64] | None = None
    """One a group, the strength included."""
    coupling: Coupling | None = None
    radius: float = np.inf
    quadratic: float = 0.0
    linear: Numbers = 0.0
    spectral: bool = False

    @property
    def is_polyhedral(self) -> bool:
        """Whether a linear program can hold psi: nothing in it is curved."""
        curved = self.spectral or self.entropy or self.quadratic or self.groups is not None or self.coupling == "l2"
        return not curved

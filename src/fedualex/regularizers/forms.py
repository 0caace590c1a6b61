"""What a regularizer is to a solver that works on numbers alone: one record for the whole calculus."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Coupling = Literal["l1", "l2", "sum"]
"""The one condition that ties the entries of a block together: ||x||_1 <= r, ||x||_2 <= r, or sum x = r."""


@dataclass(frozen=True)
class ModelForm:
    """psi(x) = sum_i phi_i(x_i) + sum_g weight_g ||x_g|| + quadratic/2 ||x||^2 + <linear, x>, and one coupling.

    phi_i(x) = l1 |x| + entropy x log(x / prior_i) on lower_i <= x <= upper_i. With `spectral`, x are the singular
    values of the block. Numbers stand for arrays of the block's shape.
    """

    l1: float = 0.0
    lower: Any = -np.inf
    upper: Any = np.inf
    entropy: float = 0.0
    prior: Any = 1.0
    groups: NDArray[Any] | None = None
    weights: NDArray[Any] | None = None
    """One a group, the strength included."""
    coupling: Coupling | None = None
    radius: float = np.inf
    quadratic: float = 0.0
    linear: Any = 0.0
    spectral: bool = False

    def joined(self, **changes: Any) -> "ModelForm":
        """The same with other parts."""
        return replace(self, **changes)

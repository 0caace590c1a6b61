"""Certificates computed once more, in plain numpy float64.

What computed them is not used here: the formulas are written again, for the data that `description.describe` makes of a
geometry. A quadratic term is an argument of every conjugate, so that no prox is needed.
"""

from .forms import FORMS, CannotRedo
from .gaps import Gap, fenchel_gaps, penalty_size, violation

__all__ = ["FORMS", "CannotRedo", "Gap", "fenchel_gaps", "penalty_size", "violation"]

"""What a server can do alone with the surveys that it remembers: weigh them, and bound the optimal value by them."""

from .bounds import Bounds, Cuts, Known, Side, lower_bound, nearest, no_bounds, no_cuts, upper_bound
from .flat import Flat, scaled_primal
from .improve import improved
from .level import level_weights, pair_of

__all__ = [
    "Bounds",
    "Cuts",
    "Flat",
    "Known",
    "Side",
    "improved",
    "level_weights",
    "lower_bound",
    "nearest",
    "no_bounds",
    "no_cuts",
    "pair_of",
    "scaled_primal",
    "upper_bound",
]

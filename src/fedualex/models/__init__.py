"""Models: what a run on a table leaves behind, to be kept, moved, explained and used on other rows."""

from ..problems.recipe import CLASSES, NUMBERS, RANKING
from .answers import Answers
from .coefficients import Coefficient
from .model import Model
from .store import load, save

__all__ = [
    "CLASSES",
    "NUMBERS",
    "RANKING",
    "Answers",
    "Coefficient",
    "Model",
    "load",
    "save",
]

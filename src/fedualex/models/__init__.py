"""Models: what a run on a table leaves behind, to be kept, moved, explained and used on other rows."""

from .model import Answers, Coefficient, Model
from .store import load, save

__all__ = [
    "Answers",
    "Coefficient",
    "Model",
    "load",
    "save",
]

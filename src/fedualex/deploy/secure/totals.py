"""What the answers of all sites add up to: the server's side of secure sums, which needs no key."""

from collections.abc import Sequence

import numpy as np

from ..engine import Arrays
from .fixed_point import decoded
from .summed import WORDS, first_part, is_summed

CHECK, CHECK_WORDS = "check", 2
"""Zeros under masks: their sum is zero if the masks of all sites cancel, and else is not, but once in 2^128."""


class MaskError(ValueError):
    """Masks that do not cancel, or answers that cannot be added."""


def unmasked(answers: Sequence[Arrays]) -> Arrays:
    """What the answers of ALL sites add up to, as float64; of arrays that travel as they are nothing.

    Raises `MaskError` where masks do not cancel: somebody has other keys, or was asked for something else.
    """
    names = [{name for name in answer if name == CHECK or is_summed(name)} for answer in answers]
    if any(own != names[0] for own in names) or CHECK not in names[0]:
        raise MaskError("sites answered with different arrays")
    for name in names[0]:
        if len({(answer[name].shape, answer[name].dtype.str) for answer in answers}) > 1:
            raise MaskError(f"sites answered with different shapes of {name}")
        if answers[0][name].dtype != np.uint64 or answers[0][name].shape[:1] != (_words(name),):
            raise MaskError(f"{name} must be words of 64 bits")
    totals = {name: np.asarray(sum(answer[name] for answer in answers)) for name in sorted(names[0])}
    if np.any(totals.pop(CHECK)):
        raise MaskError("the masks of the sites do not cancel: one has other keys, or was asked for something else")
    return {name: decoded(total) for name, total in totals.items()}


def _words(name: str) -> int:
    return CHECK_WORDS if name == CHECK else WORDS[first_part(name)]


def revealed(answers: Sequence[Arrays]) -> list[Arrays]:
    """The answers without masks, which add up to the same: the sum is in the first of them, and zeros in the others."""
    totals = unmasked(answers)
    nothing = {name: np.zeros_like(total) for name, total in totals.items()}
    clear = [{name: a for name, a in answer.items() if name != CHECK and not is_summed(name)} for answer in answers]
    return [own | (nothing if m else totals) for m, own in enumerate(clear)]

"""What the answers of all sites add up to: the server's side of secure sums, which needs no key."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..engine import Arrays
from .fixed_point import decoded
from .summed import WORDS, first_part, is_summed

CHECK, CHECK_WORDS = "check", 2
"""Zeros under masks: their sum is zero if the masks of all sites cancel, and else is not, but once in 2^128."""


class MaskError(ValueError):
    """Masks that do not cancel, or answers that cannot be added."""


def unmasked(answers: Mapping[str, Arrays]) -> Arrays:
    """What the answers of ALL sites add up to, as float64; of arrays that travel as they are nothing.

    Raises `MaskError` where masks do not cancel: somebody has other keys, or was asked for something else.
    """
    first, *others = answers
    names = {name for name in answers[first] if name == CHECK or is_summed(name)}
    for name in sorted(names | {CHECK}):
        _check_words(first, name, answers[first].get(name))
    for site in others:
        for name in sorted(names | {name for name in answers[site] if is_summed(name)}):
            _check_words(site, name, answers[site].get(name))
            if name not in names or answers[site][name].shape != answers[first][name].shape:
                raise MaskError(f"{name} of {site} has another shape than that of {first}")
    totals = {name: np.asarray(sum(answer[name] for answer in answers.values())) for name in sorted(names)}
    if np.any(totals.pop(CHECK)):
        raise MaskError("the masks of the sites do not cancel: one has other keys, or was asked for something else")
    return {name: decoded(total) for name, total in totals.items()}


def _check_words(site: str, name: str, array: Any) -> None:
    words = CHECK_WORDS if name == CHECK else WORDS[first_part(name)]
    if array is None or array.dtype != np.uint64 or array.shape[:1] != (words,):
        raise MaskError(f"{name} of {site} must be {words} words of 64 bits for each number")


def revealed(answers: Mapping[str, Arrays]) -> dict[str, Arrays]:
    """The answers without masks, which add up to the same: the sum is in the first of them, and zeros in the others."""
    totals = unmasked(answers)
    nothing = {name: np.zeros_like(total) for name, total in totals.items()}
    clear = {
        site: {name: array for name, array in answer.items() if name != CHECK and not is_summed(name)}
        for site, answer in answers.items()
    }
    return {site: own | (nothing if m else totals) for m, (site, own) in enumerate(clear.items())}

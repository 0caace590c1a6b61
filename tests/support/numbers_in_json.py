"""All numbers in a JSON document, in order."""

from typing import Any

import numpy as np


def numbers_of(document: Any, skip: tuple[str, ...] = ()) -> np.ndarray:
    """Whatever it is nested in. skip: keys that are left out."""
    if isinstance(document, dict):
        parts = [numbers_of(value, skip) for key, value in document.items() if key not in skip]
    elif isinstance(document, list | tuple):
        parts = [numbers_of(value, skip) for value in document]
    else:
        number = isinstance(document, int | float) and not isinstance(document, bool)
        return np.array([document], float) if number else np.zeros(0)
    return np.concatenate([np.zeros(0), *parts])

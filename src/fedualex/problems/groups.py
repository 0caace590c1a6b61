"""Groups of rows with limits on their losses."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..validation import classes, encode_labels, one_of, positive, short


def group_shares(X: NDArray[Any], y: Any, clients: Any, groups: Any, limits: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """The weights of all rows in loss_0 and in each limited group's loss, and the limits."""
    if isinstance(groups, str):
        by_class = one_of("groups", groups, ("clients", "classes")) == "classes"
        names, group = classes("y", y, len(X)) if by_class else encode_labels("clients", clients, len(X))
    else:
        names, group = encode_labels("groups", groups, len(X))
    given = limits if isinstance(limits, Mapping) else dict.fromkeys(names.tolist(), limits)
    if not given:
        raise ValueError("limits must hold at least one limit")
    numbers: dict[int, float] = {}
    for name, limit in given.items():
        number = _group_number(name, names)
        if number in numbers:
            raise ValueError(f"limits must hold one limit for each group, got two for {short(names[number])}")
        numbers[number] = float(positive(f"limits[{name!r}]", limit))
    limited = sorted(numbers)
    free = ~np.isin(group, limited)
    members = np.stack([free if np.any(free) else np.ones(len(X), bool), *(group == g for g in limited)])
    return members / members.sum(axis=1, keepdims=True), np.array([numbers[g] for g in limited])


def _group_number(name: Any, names: NDArray[Any]) -> int:
    """The number of the group of this name: a label, or its text, as a configuration file has it."""

    def texts(known: Any) -> set[str]:
        whole = isinstance(known, float) and known.is_integer()
        return {str(known), str(int(known))} if whole else {str(known)}

    found = [number for number, known in enumerate(names.tolist()) if known == name or name in texts(known)]
    if len(found) != 1:
        raise ValueError(f"limits must be for groups of {short(names.tolist())}, got one for {short(name)}")
    return found[0]

"""Groups of rows with limits on their losses, and bounds of their multipliers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..validation import one_of, positive, short
from .rows import class_column, label_column


def group_column(y: object, clients: object, groups: object, rows: int) -> NDArray[Any]:
    """The group of each row: whose it is, its class, or what was given."""
    if isinstance(groups, str):
        if one_of("groups", groups, ("clients", "classes")) == "classes":
            return class_column(y, rows)
        return np.zeros(rows, int) if clients is None else label_column("clients", clients, rows)
    return label_column("groups", groups, rows)


def check_limits(limits: object) -> None:
    """Refuse limits that are none, whatever groups there are."""
    if not isinstance(limits, Mapping):
        positive("limits", limits)
    elif not limits:
        raise ValueError("limits must hold at least one limit")
    else:
        for name, limit in limits.items():
            positive(f"limits[{name!r}]", limit)


def limited_groups(names: NDArray[Any], limits: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """The numbers of the groups with a limit among the sorted names of all groups, and their limits."""
    if not isinstance(limits, Mapping):
        return np.arange(len(names)), np.full(len(names), float(limits))
    numbers, found = _numbers_by_name(names), dict[int, float]()
    for name, limit in limits.items():
        if len(numbers.get(name, ())) != 1:
            raise ValueError(f"limits must be for groups of {short(names.tolist())}, got one for {short(name)}")
        (number,) = numbers[name]
        if number in found:
            raise ValueError(f"limits must hold one limit for each group, got two for {short(names[number])}")
        found[number] = float(limit)
    limited = sorted(found)
    return np.array(limited), np.array([found[g] for g in limited])


def multiplier_bounds(constant: NDArray[Any], tau: NDArray[Any], multiplier: object) -> NDArray[Any]:
    """The bounds of `constrained`; row c of `constant` holds loss_0 and the groups' losses of one constant score."""
    if multiplier is not None:
        return np.full(tau.size, float(positive("multiplier", multiplier)))
    feasible = constant[np.all(constant[:, 1:] < tau, axis=1)]
    if not len(feasible):
        raise ValueError(
            "multiplier must be given: no constant score meets all limits strictly, so nothing bounds the multipliers"
        )
    with np.errstate(over="ignore"):  # refused below
        bound = np.min(feasible[:, :1] / (tau - feasible[:, 1:]), axis=0)
    if not np.all(np.isfinite(bound)):
        raise ValueError(f"limits must be so large that float64 holds loss / limit, got {tau.min():.3g}")
    return np.asarray(bound)


def _numbers_by_name(names: NDArray[Any]) -> dict[Any, list[int]]:
    """The numbers of the groups of each name: a label, or its text, as a configuration file has it."""
    found: dict[Any, list[int]] = {}
    for number, label in enumerate(names.tolist()):
        whole = isinstance(label, float) and label.is_integer()
        for name in {label, str(label), *([str(int(label))] if whole else [])}:
            found.setdefault(name, []).append(number)
    return found

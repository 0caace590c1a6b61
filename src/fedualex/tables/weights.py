"""The weights of groups and clients where an adversary chooses them: how they are held, and what is said of it."""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Reals, Values
from ..problems.agnostic import ROWS as ROWS_PRIOR
from ..runs.settings import ConfigurationError
from ..storage import Json
from .goals import GOALS, WORST, WORST_HAZARD

HELD = 0.1
"""How strongly the weights of groups are held to their shares of the rows: a group whose share is p counts for no more
than if its loss were lower by HELD log(1 / p). On six tables it served the worst group best (docs/fairness.md)."""


def check_kl(goal: str, groups: str | None, options: Json) -> None:
    """Refuse kl where clients are the groups: their weights are limited, so that sums hide them."""
    if "kl" in options and "kl" in GOALS[goal].structure.options and groups is None:
        raise ConfigurationError("kl is for groups in a column: the weights of clients are limited in another way")


def with_held_weights(arguments: Json) -> Json:
    """The arguments of a goal that weighs groups in a column: without cvar and kl, HELD is kl."""
    kl = arguments.get("kl", HELD if arguments.get("cvar") is None else 0.0)
    rest = {name: value for name, value in arguments.items() if name != "kl"}
    return {**rest, "kl": kl, "prior": ROWS_PRIOR} if kl > 0 else rest


MOST_OF_ONE = 0.5
"""The largest weight of one client where the adversary weighs clients: in a deployment the sum at a weight near 1 would
be that client's own gradient."""
SPREAD = 0.1
"""What all clients share alike there, whatever the adversary does: no sum is one of two clients alone."""
BY_ROWS = 0.6
"""What all clients share by their rows, unless a share that is served worst is asked for. On six tables the worst one
was served best so (docs/fairness.md)."""


def weighs_clients(name: str, grouped: bool) -> bool:
    """Whether the adversary of a goal weighs clients, as it does unless rows have groups."""
    return GOALS[name].structure in (WORST, WORST_HAZARD) and not grouped


def are_merged(rows: Reals, least: int) -> NDArray[np.bool_]:
    """Which groups of so many rows are one group together: the smallest, until it and all others have `least` rows."""
    order = np.argsort(rows, kind="stable")
    sizes = np.round(rows[order])
    count = int(np.sum(sizes < least))
    while 0 < count < len(sizes) and (count == 1 or sizes[:count].sum() < least):
        count += 1
    merged = np.zeros(len(rows), bool)
    merged[order[:count]] = count > 1
    return merged


def held_shares(rows: Reals, hidden: bool) -> Reals:
    """In proportion to rows; where sums are to hide clients none has more than MOST_OF_ONE."""
    share, largest = rows / rows.sum(), int(np.argmax(rows))
    if not hidden or share[largest] <= MOST_OF_ONE:
        return np.asarray(share)
    share = (1 - MOST_OF_ONE) * rows / np.delete(rows, largest).sum()
    share[largest] = MOST_OF_ONE
    return np.asarray(share)


def with_limited_weights(arguments: Json, rows: Reals, merged: Values) -> Json:
    """The arguments of a goal that weighs clients of so many rows: what all share, and MOST_OF_ONE for one of them.

    merged: the numbers of the clients that are one together, the first group.

    A share `cvar` of M clients is a largest weight of 1 / (cvar M). Of two clients that limit would make the mean, so
    that there is none: nothing can be hidden in a sum of two.
    """
    hidden, asked = len(rows) * MOST_OF_ONE > 1, arguments.get("cvar")
    first = np.asarray(merged, int)
    together = rows[first].sum(keepdims=True) if first.size else rows[:0]
    rows = np.concatenate([together, np.delete(rows, first)])
    least = min(1.0, 1 / (MOST_OF_ONE * rows.size)) if hidden else None
    settings = {**arguments, "cvar": least if asked is None or least is None else max(asked, least)}
    if asked is not None:
        return {**settings, "spread": SPREAD} if hidden else dict(arguments)
    if rows.size == 1:
        return settings
    prior = (SPREAD / rows.size + BY_ROWS * held_shares(rows, hidden)) / (SPREAD + BY_ROWS)
    return {**settings, "prior": prior, "spread": SPREAD + BY_ROWS}


def words_of_weights(name: str, clients: int, grouped: bool, cvar: float | None) -> list[str]:
    """What a person should know of the weights, in a sentence; empty if clients are not weighed. cvar: as asked for."""
    if not weighs_clients(name, grouped) or clients < 2:
        return []
    hidden = clients * MOST_OF_ONE > 1
    if cvar is not None and not hidden:
        return [f"of {clients} clients the one that is served worst counts alone"] if cvar * clients <= 1 else []
    by_rows = 0.0 if cvar is not None else BY_ROWS
    worst = f"the clients that are served worst have {1 - SPREAD - by_rows:.2g} of the weight"
    limit = f", one of them at most {MOST_OF_ONE:g} of that" if hidden else ""
    rows = f", all clients share {by_rows:g} by their rows" + " (none more than half of it)" * hidden if by_rows else ""
    return [f"{worst}{limit}{rows}, and all share {SPREAD:g} alike"]

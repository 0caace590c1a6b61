"""Mixtures of clients: a prior, and the simplex of mixtures with its regularizer."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..geometry import EntropicSimplex
from ..regularizers import KL, CappedSimplex
from ..validation import positive, real_array, short


def mixtures(kl: Any, mixture: NDArray[Any], cvar: Any, prior: bool) -> EntropicSimplex:
    """The simplex of mixtures, held to one mixture by kl or capped by cvar; prior: whether the mixture was given."""
    if cvar is None:
        if prior and kl == 0:
            raise ValueError(
                "prior needs kl > 0, the strength that holds the mixture to it: without kl it has no effect"
            )
        return EntropicSimplex(KL(kl, mixture) if kl > 0 else None)
    share = positive("cvar", cvar)
    if share > 1:
        raise ValueError(f"cvar must be a share of the clients, above 0 and at most 1, got {float(share)!r}")
    if kl > 0 or prior:
        raise ValueError("cvar cannot be given together with kl or prior: that mixture has no closed form")
    return EntropicSimplex(CappedSimplex(min(1.0, 1 / (float(share) * mixture.size))))


def checked_prior(prior: Any, count: int) -> NDArray[Any]:
    """The prior divided by its sum; all clients alike without one."""
    p = np.ones(count) if prior is None else real_array("prior", prior, f"{count} numbers > 0")
    if p.shape != (count,) or np.any(p <= 0):
        raise ValueError(f"prior must be {count} numbers > 0, one for each client, got {short(prior)}")
    return p / p.sum()

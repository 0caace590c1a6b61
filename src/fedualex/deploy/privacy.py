"""Clipping and Gaussian noise on what a site sends, and what that is worth."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..geometry import Dual
from ..validation import positive


@dataclass(frozen=True)
class Privacy:
    """A site's increment is cut to length `clip`, and every entry gets noise N(0, (noise * clip)^2).

    This hides a whole site's data, also from a server that follows the protocol: two data sets of one site move the
    clipped increment by at most 2 clip. A server that asks more often than it tells spends more than it tells: a site
    counts for itself if its rules have a budget (`Policy`). The increment is all that leaves the site: no sums of
    points and no operators, which would not be covered, so such a run has the output `last` alone and no certificate.

    clip, noise: numbers > 0. delta: the epsilon of a run is told for this delta.
    """

    clip: float
    noise: float
    delta: float = 1e-5
    """The epsilon of a run is told for this delta."""

    def __post_init__(self) -> None:
        for name in ("clip", "noise", "delta"):
            positive(f"privacy: {name}", getattr(self, name))
        if self.delta >= 1:
            raise ValueError(f"privacy: delta must be below 1, got {self.delta}")

    def applied(self, message: Dual) -> Dual:
        """The message with a clipped and noisy increment; its weight tau is the same for any data.

        An increment that is not finite counts as zero: to send it, or to say so, would be a release without cover.
        The noise is from the operating system, not from the run's seed, which the server knows and could subtract.
        """
        rng = np.random.default_rng(secrets.randbits(256))
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(message.omega)]
        length = float(np.sqrt(sum(np.sum(np.square(leaf, dtype=float)) for leaf in leaves)))
        finite = np.isfinite(length)
        shrink = min(1.0, self.clip / length) if length > 0 else 1.0

        def hide(leaf: Any) -> Any:
            array = np.asarray(leaf) if finite else np.zeros_like(leaf)
            return (shrink * array + rng.normal(0.0, self.noise * self.clip, array.shape)).astype(array.dtype)

        return Dual(jax.tree.map(hide, message.omega), message.tau)

    def epsilon(self, releases: int) -> float:
        """(epsilon, delta)-differential privacy of one site's data after so many increments, by an accountant.

        The sensitivity is 2 clip, so the accountant is told a noise multiplier of noise / 2.
        """
        return composed_epsilon({self.noise: releases}, self.delta)


def composed_epsilon(releases: Mapping[float, int], delta: float) -> float:
    """The same after so many increments with each multiplier of noise, of any number of runs."""
    try:
        from dp_accounting import GaussianDpEvent
        from dp_accounting.rdp import RdpAccountant
    except ImportError:
        raise ImportError("an epsilon needs dp-accounting: pip install 'fedualex[privacy]'") from None
    accountant = RdpAccountant()
    for noise, count in releases.items():
        if count:
            accountant.compose(GaussianDpEvent(noise / 2), count)
    return float(accountant.get_epsilon(delta)) if any(releases.values()) else 0.0

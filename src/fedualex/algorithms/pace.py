"""Step sizes that are found on the way, and which of two ways to go on is the better one."""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

PATIENCE = 8
"""Steps in a row that are short against T_f before the server's own point is surveyed."""
UNTRIED = -1e300
"""A rate that nobody measured."""
SLACK = 2
"""How many times as fast the other way must have been to take over before a phase ends."""
NEAR = 3.0
"""Scales that differ by less are about the same."""
TRIAL = 4
"""Every so many turns the way that was worse is tried again."""


class Pace(NamedTuple):
    """The step sizes of one way to propose."""

    trial: Any
    """T, which is tried next."""
    fresh: Any
    """T_f, which is tried after a survey of the server's own point."""
    unfailed: Any
    poor: Any
    """Short steps in a row; -1 while a proposal from the server's own point is under way."""

    @property
    def exhausted(self) -> bool:
        """Whether it is time to survey the server's own point."""
        return int(self.poor) >= PATIENCE

    def rescaled(self, ratio: float) -> "Pace":
        """Where x's part of ell is multiplied by this ratio, so is a step that moves x as far as before."""
        return self._replace(trial=ratio * float(self.trial), fresh=ratio * float(self.fresh))

    def judged(self, step: float, top: float) -> "Pace":
        """After a proposal of this step, found good up to `top`."""
        good, taken = top >= step, min(top, step)
        if self.poor < 0:
            return self._replace(fresh=1.5 * step if good else step / 2, poor=0)
        trial = step * (3.0 if self.unfailed else 1.5) if good else max(top, step / 2)
        if taken < self.fresh / 4:
            return Pace(trial, self.fresh, self.unfailed and good, self.poor + 1)
        return Pace(trial, max(self.fresh, taken), self.unfailed and good, 0)


class Turns(eqx.Module):
    """Two ways to propose that take turns; the rate of a way is what an exchange takes off log(gap).

    A gap falls at the end of a phase and may stand still before, so a turn lasts as long as its phase. It ends earlier
    where the other way was SLACK times as fast as this one could still be, if it ended the phase right now.
    """

    rates: tuple[Any, Any]
    """Of the last turn of each way; UNTRIED before the first."""
    count: Any
    began: Any
    """Exchanges when the present turn began."""
    gap: Any
    """The gap then."""

    def following(self, way: int, exchanges: int, gap: float, drop: float, *, ended: bool) -> tuple[int, "Turns"]:
        """The way to go on with after so many exchanges, and the turns then.

        drop: the share of its first gap at which a phase ends. ended: whether one just did.
        """
        if float(self.gap) == UNTRIED:
            return way, replace(self, began=exchanges, gap=gap)
        spent = exchanges - int(self.began)
        rate = -math.log(drop) / spent
        if not ended and SLACK * rate >= float(self.rates[1 - way]):
            return way, self
        if ended:
            rate = math.log(float(self.gap) / gap) / spent if min(float(self.gap), gap) > 0 else 0.0
        rates = (rate, self.rates[1]) if way == 0 else (self.rates[0], rate)
        count, better = int(self.count) + 1, int(float(rates[1]) > float(rates[0]))
        untried = float(rates[1 - way]) == UNTRIED
        other = 1 - way if untried else (1 - better if count % TRIAL == 0 else better)
        return other, replace(self, rates=rates, count=count, began=exchanges, gap=gap)


def no_turns() -> Turns:
    """Before the first exchange."""
    nothing, number = jnp.asarray(0), jnp.asarray(UNTRIED)
    return Turns((number, number), nothing, nothing, number)


class Balance(NamedTuple):
    """The scale of x's part of ell, as phases find it: so that x and y have equally far to go.

    How far they went in a phase proposes the next scale. But a smaller scale also lets x go farther, so proposals may
    run away: where a phase ends without success, far from the last successful scale, that one comes back, as a limit.
    """

    scale: Any
    proven: Any
    """The scale of the last phase that was successful, 0 if there is none since one failed at about that scale."""
    least: Any
    most: Any

    def after(self, proposed: float, *, success: bool) -> "Balance":
        """After a phase that proposes another scale; as arrays, because other numbers would be compiled for."""
        scale, proven, least, most = (float(number) for number in self)
        if success:
            proven, scale = scale, min(max(proposed, least), most)
        elif proven == 0 or proven / NEAR < scale < proven * NEAR:  # nothing better is known
            scale, proven, least, most = proposed, 0.0, 0.0, -UNTRIED
        elif scale < proven:
            scale, least = proven, proven
        else:
            scale, most = proven, proven
        return Balance(*(np.asarray(number, np.float64) for number in (scale, proven, least, most)))


def with_pace(paces: tuple[Pace, Pace], way: int, pace: Pace) -> tuple[Pace, Pace]:
    """The paces of both ways, with one in its place."""
    return (pace, paces[1]) if way == 0 else (paces[0], pace)

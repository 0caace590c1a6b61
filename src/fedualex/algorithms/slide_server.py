"""The server of FeDualSlide: what it remembers between two exchanges."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..bundle import Bounds, Cuts, Flat, no_bounds, no_cuts
from ..compiling import compiled
from ..tree import Saddle
from ..validation import real_scalar
from .pace import UNTRIED, Balance, Pace, Turns, no_turns

START, PROBE, FRESH, LOCAL = range(4)
"""What the next exchange is: the first survey, one of a proposal, one of the server's own point, or local steps."""
SURVEY, STEPS = range(2)
"""How proposals are made: by the server alone, or by local steps of the clients."""
ASKED = PROBE, LOCAL
"""The exchange that a proposal of each way begins with."""
SPAN = 10
"""Surveys that the first phase lasts at most."""
PHASES = 6
"""New phases that one survey may begin at most."""


class SlideServer(NamedTuple):
    """Everything that the server remembers, in float64."""

    center: Array
    """The point from which the level problem measures distances."""
    balance: Balance
    cuts: Cuts
    bounds: Bounds
    phase: Any
    """The gap when the phase began."""
    age: Any
    """Surveys since then."""
    span: Any
    """Surveys after which a phase ends in any case; doubled whenever one does."""
    paces: tuple[Pace, Pace]
    way: Any
    """How proposals are made at present."""
    turns: Turns
    omega: Array
    tau: Array
    """(omega, tau) = O(c), where the next proposal starts."""
    row: Any
    """Of the survey whose operator is the reference of that proposal."""
    step: Any
    """T of the proposal that is under way."""
    want: Any
    at: Saddle
    """Where the next survey is, or the last one was."""
    surveys: Any
    local_rounds: Any

    @property
    def scale(self) -> Any:
        """Of x's part of ell."""
        return self.balance.scale

    @property
    def exchanges(self) -> int:
        """Round trips so far."""
        return int(self.surveys) + int(self.local_rounds)

    def in_new_phase(self, center: Array, scale: float, *, success: bool) -> "SlideServer":
        """With another center, the scale that the last phase and its success make, and no weights."""
        balance = self.balance.after(scale, success=success)
        first, second = (pace.rescaled(float(balance.scale) / float(self.scale)) for pace in self.paces)
        cuts = self.cuts.reweighted(np.zeros(self.cuts.weights.shape))
        return self._replace(center=center, balance=balance, cuts=cuts, paces=(first, second))


@compiled
def first_server(flat: Flat, memory: int, z: Saddle, way: int) -> SlideServer:
    """Before the first exchange, which is a survey of the projection of z."""
    z = flat.geometry.project(z)
    center, one, zero, none = flat.interior(flat.vector(z)), jnp.ones(()), jnp.zeros(()), jnp.asarray(0)
    pace = Pace(one, one, jnp.asarray(True), none)
    return SlideServer(
        center=center,
        balance=Balance(one, zero, zero, jnp.asarray(-UNTRIED)),
        cuts=no_cuts(memory, center.size),
        bounds=no_bounds(flat, memory),
        phase=zero,
        age=none,
        span=jnp.asarray(SPAN),
        paces=(pace, pace),
        way=jnp.asarray(way),
        turns=no_turns(),
        omega=flat.dual(center),
        tau=zero,
        row=none,
        step=zero,
        want=jnp.asarray(START),
        at=z,
        surveys=none,
        local_rounds=none,
    )


def share(name: str, default: float) -> Any:
    """The field of a number above 0 and below 1, which is compiled in."""

    def checked(value: Any) -> float:
        number = float(real_scalar(name, value, "a number above 0 and below 1"))
        if not 0 < number < 1:
            raise ValueError(f"{name} must be a number above 0 and below 1, got {number!r}")
        return number

    return eqx.field(static=True, default=default, converter=checked)

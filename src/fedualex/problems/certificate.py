"""An upper bound on the duality gap of one point, with its two parts and its rounding."""

from dataclasses import dataclass

from ..display import rounded_up


@dataclass(frozen=True)
class Certificate:
    """<g, z> + psi(z) + psi^*(-g) at a point z, split over x and y; it bounds the duality gap from above.

    From several surveys with weights (`evidence`), g is their weighted mean, and `shift` is added to the parts.
    x, y: the parts as float64 computed them; each is >= 0 up to rounding. A point outside the domain has infinite
        parts. Where no bound may be claimed there is no number: the parts are None. `reason` says why in both cases.
    rounding: how far x + y may be below the number that exact arithmetic would give.
    estimated: whether `rounding` is an estimate; otherwise it is a bound (docs/problems.md).
    """

    x: float | None
    y: float | None
    reason: str = ""
    rounding: float = 0.0
    estimated: bool = False
    shift: float = 0.0

    @property
    def gap(self) -> float | None:
        """The certified bound, max(x + y + shift, 0) + rounding; None where there is no certificate."""
        return None if self.x is None or self.y is None else max(self.x + self.y + self.shift, 0.0) + self.rounding

    def __str__(self) -> str:
        if self.x is None or self.y is None or self.gap is None:
            return f"not certifiable: {self.reason}"
        bound = f"gap <= {rounded_up(self.gap, 6)}"
        if self.reason:
            return f"{bound}: {self.reason}"
        kind = "an estimate" if self.estimated else "a bound"
        parts = f"x part {rounded_up(self.x, 6)}, y part {rounded_up(self.y, 6)}"
        if self.shift:
            parts += f", shift {self.shift:.6g}"
        return f"{bound} ({parts}, rounding {rounded_up(self.rounding, 2)}, {kind})"

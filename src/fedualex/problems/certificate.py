"""An upper bound on the duality gap of one point, with its two parts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Certificate:
    """<g, z> + psi(z) + psi^*(-g) at a point z, split over x and y; it bounds the duality gap from above.

    Each part is >= 0 up to rounding. A point outside the domain has infinite parts. Where the conjugate of psi is
    not finite everywhere there is no number: the parts are None. `reason` says why in both cases.
    """

    x: float | None
    y: float | None
    reason: str = ""

    @property
    def gap(self) -> float | None:
        """The bound: the sum of the parts, as computed; None where there is no certificate."""
        return None if self.x is None or self.y is None else self.x + self.y

    def __str__(self) -> str:
        if self.x is None or self.y is None:
            return f"not certifiable: {self.reason}"
        if self.reason:
            return f"gap <= {self.x + self.y:.6g}: {self.reason}"
        # Rounding may leave a tiny negative number; it is shown as the zero it stands for.
        return f"gap <= {max(self.x + self.y, 0):.6g} (x part {max(self.x, 0):.6g}, y part {max(self.y, 0):.6g})"

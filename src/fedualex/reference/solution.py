"""An exact answer with its proof."""

from dataclasses import dataclass

from ..problems import Bilinear, Certificate
from ..tree import Saddle


@dataclass(frozen=True)
class Solution:
    """A saddle point z of a game, the value phi(z), and its certificate: the proof, where all domains are bounded."""

    z: Saddle
    value: float
    certificate: Certificate

    @property
    def gap(self) -> float | None:
        """The certified duality gap of z, rounding away from 0; None where a domain is unbounded."""
        return self.certificate.gap

    @staticmethod
    def of(game: Bilinear, z: Saddle) -> "Solution":
        """z projected onto the domain, with its value and its certificate."""
        projected, certificate = game.certify(z)
        return Solution(projected, game.objective(projected), certificate)

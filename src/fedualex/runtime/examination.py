"""Whether f was seen not to be convex in x and concave in y: then no certificate of it is worth anything."""

from collections.abc import Iterable

import jax.numpy as jnp

from .. import tree
from ..problems import AbstractProblem
from ..problems.convexity import CHECKED, Disproof, disproof, unchecked
from ..tree import Saddle

TRUSTED = "f was taken to be convex in x and concave in y, as asked"


class Examination:
    """Looks for a disproof of f at the points whose certificates are to be claimed; call within `double()`.

    trust: look at nothing, and take the user's word.
    """

    def __init__(self, problem: AbstractProblem, trust: bool):
        self.problem = tree.cast_module(problem, jnp.float64)
        self.sentence = TRUSTED if trust else unchecked(problem) or CHECKED
        """What was looked at, for reports; never that f is convex-concave because nothing was found."""
        self.found: Disproof | None = None

    def reason(self, points: Iterable[Saddle], thorough: bool = False) -> str:
        """Why nothing may be certified, if a disproof is found at one of the points; empty otherwise."""
        if self.sentence == CHECKED and self.found is None:
            distinct = {id(z): z for z in points}.values()
            found = (disproof(self.problem, z, thorough=thorough) for z in distinct)
            self.found = next((one for one in found if one is not None), None)
            if self.found is not None:
                self.sentence = self.found.reason
        return "" if self.found is None else self.found.reason

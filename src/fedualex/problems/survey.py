"""What f itself offers besides its domain: values, operators, how far float64 may be from them, a lower bound."""

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
from jaxtyping import Array

from ..tree import Saddle, Tree
from .floor import Floor
from .operator_error import OperatorError
from .smoothness import Smoothness
from .value_error import LossError, unseen_error


class Surveyed(NamedTuple):
    """What all clients together say of one point: g(z) = sum_m p_m g_m(z) and f(z) = sum_m p_m f_m(z), exact.

    operator, value: g(z) and f(z).
    """

    operator: Saddle
    value: Any


class AbstractSurveyed(eqx.Module):
    """f = sum_m p_m f_m, convex in x and concave in y, through its values and operators."""

    floor: ClassVar[Floor | None] = None
    """A known lower bound of f in x at one y, as `Floor` says; None if none is known."""

    smoothness: ClassVar[Smoothness | None] = None
    """What is known of the operators of all clients, where their data is elsewhere; None if nothing was told."""

    @abstractmethod
    def loss(self, z: Saddle) -> Array:
        """f(x, y) = sum_m p_m f_m(x, y), without psi."""

    @abstractmethod
    def operator(self, z: Saddle) -> Saddle:
        """g(z) = sum_m p_m g_m(z), exact."""

    def survey(self, z: Saddle) -> Surveyed:
        """g(z) and f(z) at a point z; a class that has both from one pass says so here."""
        return Surveyed(self.operator(z), self.loss(z))

    @abstractmethod
    def client_operator(self, client: Tree, z: Saddle) -> Saddle:
        """g_m(z), exact; `client` is one client's slice of `data`."""

    @abstractmethod
    def minibatch_operator(self, client: Tree, z: Saddle, size: int, key: Array) -> Saddle:
        """The operator of `size` of the client's examples, drawn uniformly with replacement."""

    @abstractmethod
    def operator_error(self, z: Saddle, g: Saddle) -> OperatorError:
        """How far g, the operator at z as float64 computed it, may be from the exact one."""

    def value_error(self, z: Saddle, found: Surveyed) -> LossError:
        """How far found.value, f(z) as float64 computed it, may be from the exact one.

        found: the survey at z. Where a class knows nothing better, an estimate from its numbers alone (`unseen_error`).
        """
        return unseen_error(z, found.operator, found.value)

"""How a client sees its operator: exactly, with Gaussian noise, or through a few of its examples."""

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax
from jaxtyping import Array

from ..random import normal
from ..tree import Saddle, Tree, cast_like
from ..validation import nonnegative, whole_number
from .base import AbstractProblem


class AbstractOracle(eqx.Module):
    """A stochastic first-order oracle: an unbiased g_m(z; xi)."""

    gaussian: ClassVar[bool] = False
    """Whether a sample is g_m(z) plus Gaussian noise of deviation `sigma` in every entry."""
    noisy: ClassVar[bool] = False
    """Whether samples differ by far more than by rounding: then rounds are in float32 unless another is asked for."""

    @abstractmethod
    def __call__(self, problem: AbstractProblem, client: Tree, z: Saddle, key: Array) -> Saddle:
        """One sample of g_m at z; the key alone decides which."""


class Exact(AbstractOracle):
    """g_m(z) itself."""

    def __call__(self, problem: AbstractProblem, client: Tree, z: Saddle, key: Array) -> Saddle:
        """g_m(z); the key is not used."""
        return problem.client_operator(client, z)


class GaussianNoise(AbstractOracle):
    """g_m(z) + N(0, sigma^2) in every entry; the variance of the whole vector is sigma^2 times its length."""

    sigma: Any
    gaussian = noisy = True

    def __init__(self, sigma: Any):
        self.sigma = nonnegative("GaussianNoise: sigma", sigma)

    def __call__(self, problem: AbstractProblem, client: Tree, z: Saddle, key: Array) -> Saddle:
        """g_m(z) with fresh noise from the key, one stream for each leaf."""
        leaves, structure = jax.tree.flatten(problem.client_operator(client, z))
        noisy = [g + cast_like(self.sigma, g) * normal(key, g.shape, g.dtype, stream=i) for i, g in enumerate(leaves)]
        return jax.tree.unflatten(structure, noisy)


class Minibatch(AbstractOracle):
    """The mean operator of `size` of the client's examples, drawn uniformly with replacement."""

    size: int = eqx.field(static=True)
    noisy = True

    def __init__(self, size: Any):
        self.size = whole_number("Minibatch: size", size)

    def __call__(self, problem: AbstractProblem, client: Tree, z: Saddle, key: Array) -> Saddle:
        """The operator of the examples that the key draws."""
        return problem.minibatch_operator(client, z, self.size, key)

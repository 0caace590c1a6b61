"""What every problem offers: client operators, a geometry, and certificates."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..accepted import Number
from ..arrays import Array, Reals, by_numpy
from ..certificates.certificate import Certificate, Measured, certificate_of, measure
from ..certificates.rounding import LossError, OperatorError, unseen_error
from ..certificates.surveys import Surveyed
from ..compiling import compile_by_size, double, drop_programs
from ..geometry import Product
from ..random import normal
from ..regularizers import for_reports
from ..tree import Saddle, Scalar, Tree, cast_like
from ..validation import nonnegative, of_type, whole_number
from .known import Floor, Smoothness, point_like, why_unbounded

# What f itself offers besides its domain: values, operators, how far float64 may be from them, a lower bound.


class AbstractSurveyed(eqx.Module):
    """f = sum_m p_m f_m, convex in x and concave in y, through its values and operators."""

    floor: ClassVar[Floor | None] = None
    """A known lower bound of f in x at one y, as `Floor` says; None if none is known."""

    smoothness: ClassVar[Smoothness | None] = None
    """What is known of the operators of all clients, where their data is elsewhere; None if nothing was told."""

    metric: ClassVar[Tree] = None
    """How far x has to go, where its columns have scales: as `bundle.Flat` has it. No certificate depends on it."""

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

    def value_error(self, z: Saddle, survey: Surveyed) -> LossError:
        """How far survey.value, f(z) as float64 computed it, may be from the exact one.

        survey: that at z. Where a class knows nothing better, an estimate from its numbers alone (`unseen_error`).
        """
        return unseen_error(z, survey.operator, survey.value)


class AbstractProblem(AbstractSurveyed):
    """min_x max_y sum_m p_m f_m(x, y) + psi_1(x) - psi_2(y), through its operators g_m = (grad_x f_m, -grad_y f_m)."""

    geometry: eqx.AbstractVar[Product]
    like: eqx.AbstractVar[Saddle]
    data: eqx.AbstractVar[Tree]
    """What each client holds, clients along the first axis; None if all clients share one f."""

    uncertified: ClassVar[str] = ""
    """Why no certificate may be claimed for f, such as that it is not convex-concave; empty if one may."""

    by_construction: ClassVar[bool] = False
    """Whether f is convex in x and concave in y by the way it is built, so that nobody need look for a disproof."""

    shared_affine: ClassVar[bool] = False
    """Whether all clients share one f, whose operator is an affine function of z."""

    bilinear: ClassVar[bool] = False
    """Whether f is bilinear in x and y."""

    @property
    @abstractmethod
    def clients(self) -> int | None:
        """How many clients hold data; None if all share one f, so that any number may take part."""

    @abstractmethod
    def client_weights(self, clients: int) -> Reals:
        """p, summing to 1, for this number of clients."""

    @abstractmethod
    def reweighted(self, weights: object) -> "AbstractProblem":
        """The same problem with other client weights p, given as for `Problem`."""

    @abstractmethod
    def of_client(self, m: int) -> "AbstractProblem":
        """The problem as client m sees it: its own data, and nobody else's."""

    @abstractmethod
    def without_data(self) -> "AbstractProblem":
        """The problem as a server sees it: domain and regularizers, and nobody's data."""

    @abstractmethod
    def sampled(self, examples: int, rng: np.random.Generator) -> "AbstractProblem":
        """The problem with about so many examples of all clients together, at random; itself if it has no more."""

    def objective(self, z: Saddle) -> float:
        """phi(x, y) = f(x, y) + psi_1(x) - psi_2(y) in float64, for z in the domain."""
        with double():
            z = self.validate_point(z)
            return self.value(z) + _penalties(self.geometry.parts, z)

    def value(self, z: Saddle) -> float:
        """f(x, y) in float64, outside of programs. Call within `double()`."""
        return float(_loss(self._wide(), z))

    def _wide(self) -> "AbstractProblem":
        """With data in float64: what is stored in float32 would be computed with in float32."""
        return tree.cast_module(self, jnp.float64)

    def _for_reports(self) -> "AbstractProblem":
        """The same with spectral parts on the SVD route, which is chosen here: programs cannot look into their psi."""
        return eqx.tree_at(lambda problem: problem.geometry, self._wide(), for_reports(self.geometry))

    def validate_point(self, z: object, name: str = "z") -> Saddle:
        """z as a float64 point of the problem's shapes; a clear refusal otherwise. Call within `double()`.

        name: what the caller calls z.
        """
        return point_like(self.like, z, name)

    def project(self, z: Saddle) -> Saddle:
        """The point of the domain nearest to z, in float64, as numpy arrays."""
        with double():
            projected = for_reports(self.geometry).project(self.validate_point(z))
            return jax.tree.map(np.asarray, projected)

    def certificate(self, z: Saddle) -> Certificate:
        """The certified upper bound on the duality gap at z, from the exact operator, in float64.

        A point outside the domain gets infinity: project it first if it is meant to be inside.
        """
        drop_programs()
        with double():
            z = self.validate_point(z)
            if reason := self.why_uncertifiable():
                return Certificate(None, None, reason)
            exact = self._for_reports()
            return certificate_of(*exact.measure(z, exact.operator(z)))

    def measure(self, z: Saddle, g: Saddle, sum_error: Scalar = 0.0) -> tuple[Measured, bool]:
        """The numbers of a certificate at z from the operator g there, and whether their rounding is an estimate.

        In float64, with spectral parts on the SVD route; may be compiled. sum_error: by how much each entry of g may be
        off because of the way in which it was added up, beside what `operator_error` says.
        """
        error = self.operator_error(z, g).add(sum_error)
        estimated = error.estimated or not self.geometry.rounding_is_bound
        return measure(self.geometry, z, g, error.size), estimated

    def certify(self, z: Saddle) -> tuple[Saddle, Certificate]:
        """z projected onto the domain in float64, and the certificate of that point."""
        projected = self.project(z)
        return projected, self.certificate(projected)

    def why_uncertifiable(self) -> str:
        """What the problem itself says, or which parts have no finite conjugate; empty if there are certificates."""
        return self.uncertified or why_unbounded(self.geometry)


@compile_by_size
def _loss(problem: AbstractProblem, z: Saddle) -> Array:
    return problem.loss(z)


@by_numpy
def _penalties(parts: Saddle, z: Saddle) -> float:
    """psi_1(x) - psi_2(y)."""
    return float(Product(parts.x).psi(z.x) - Product(parts.y).psi(z.y))


def of_example(f: Callable[..., Any], z: Saddle, *example: Tree) -> Array:
    """f(x, y, example), or without y or an example."""
    value: Array = f(z.x, *example) if z.y is None else f(z.x, z.y, *example)
    return value


def as_problem(value: object, name: str = "problem") -> AbstractProblem:
    """`value`, if it is a problem."""
    return of_type(name, value, AbstractProblem, "a problem such as fx.problems.paper_l1()")


# Whose gradient is nan or infinite at a point, in one sentence.


def where_not_finite(problem: AbstractProblem, z: Saddle, point: str) -> str:
    """Which client's f has a gradient that is not finite at z, and in which array; empty if none has.

    point: what z is, for the sentence, such as "the start".
    """
    with double():
        z = problem.validate_point(z)
        count = problem.clients or 1
        for m in range(count):
            g = tree.cast_module(problem.of_client(m), jnp.float64).operator(z)
            for name, leaf in tree.leaves_with_names(g):
                if not np.all(np.isfinite(leaf)):
                    kind = "nan" if np.any(np.isnan(leaf)) else "infinite"
                    whose = "f" if problem.clients is None else f"client {m}'s f (of {count} clients, from 0)"
                    return f"the gradient of {whose} by {name} is not finite ({kind}) at {point}"
    return ""


class AbstractOracle(eqx.Module):
    """A stochastic first-order oracle: an unbiased g_m(z; xi)."""

    gaussian: ClassVar[bool] = False
    """Whether a sample is g_m(z) plus Gaussian noise of deviation `sigma` in every entry."""
    noisy: ClassVar[bool] = False
    """Whether samples differ by far more than by rounding: then rounds are in float32 unless another is asked for."""

    @abstractmethod
    def __call__(self, problem: AbstractProblem, client: Tree, z: Saddle, key: jax.Array) -> Saddle:
        """One sample of g_m at z; the key alone decides which."""


class Exact(AbstractOracle):
    """g_m(z) itself."""

    def __call__(self, problem: AbstractProblem, client: Tree, z: Saddle, key: jax.Array) -> Saddle:
        """g_m(z); the key is not used."""
        return problem.client_operator(client, z)


class GaussianNoise(AbstractOracle):
    """g_m(z) + N(0, sigma^2) in every entry; the variance of the whole vector is sigma^2 times its length."""

    sigma: Number
    gaussian = noisy = True

    def __init__(self, sigma: object):
        self.sigma = nonnegative("GaussianNoise: sigma", sigma)

    def __call__(self, problem: AbstractProblem, client: Tree, z: Saddle, key: jax.Array) -> Saddle:
        """g_m(z) with fresh noise from the key, one stream for each leaf."""
        leaves, structure = jax.tree.flatten(problem.client_operator(client, z))
        noisy = [g + cast_like(self.sigma, g) * normal(key, g.shape, g.dtype, stream=i) for i, g in enumerate(leaves)]
        return jax.tree.unflatten(structure, noisy)


class Minibatch(AbstractOracle):
    """The mean operator of `size` of the client's examples, drawn uniformly with replacement."""

    size: int = eqx.field(static=True)
    noisy = True

    def __init__(self, size: object):
        self.size = whole_number("Minibatch: size", size)

    def __call__(self, problem: AbstractProblem, client: Tree, z: Saddle, key: jax.Array) -> Saddle:
        """The operator of the examples that the key draws."""
        return problem.minibatch_operator(client, z, self.size, key)

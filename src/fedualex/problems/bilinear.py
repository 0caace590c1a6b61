"""Bilinear games: <A x - b, y> with a regularizer on each side."""

import jax.numpy as jnp
import numpy as np

from .. import tree
from ..accepted import Numbers
from ..arrays import Array, Reals
from ..certificates.certificate import FEASIBLE
from ..certificates.rounding import LossError, OperatorError
from ..certificates.surveys import Surveyed
from ..compiling import double
from ..geometry import EntropicSimplex, Product
from ..regularizers import for_reports
from ..regularizers.fenchel import UNIT
from ..tree import Saddle, Tree, Vector, cast_like
from ..validation import real_array
from .base import AbstractProblem
from .known import build_geometry
from .recipe import built_from


class Bilinear(AbstractProblem):
    """f(x, y) = <A x - b, y>; x and y are vectors, or matrices on whose columns A acts. All clients share f.

    geometry, like, data: as every problem has them; made by `fx.problems.bilinear`.
    """

    A: Vector
    b: Vector
    geometry: Product
    like: Saddle
    data: None
    by_construction = True
    shared_affine = True
    bilinear = True

    @property
    def clients(self) -> None:
        """Any number: all share f."""
        return None

    def client_weights(self, clients: int) -> Reals:
        return np.full(clients, 1 / clients)

    def reweighted(self, weights: object) -> "Bilinear":
        """Refused: all clients share f."""
        raise ValueError("weights weigh clients with data of their own; in a bilinear game all clients share f")

    def of_client(self, m: int) -> "Bilinear":
        """Itself: all clients share f."""
        return self

    def without_data(self) -> "Bilinear":
        """Itself: A and b are everybody's."""
        return self

    def sampled(self, examples: int, rng: np.random.Generator) -> "Bilinear":
        """Itself: it has no examples."""
        return self

    def loss(self, z: Saddle) -> Array:
        """<A x - b, y>."""
        return jnp.vdot(self.A @ z.x - self.b, z.y)

    def operator(self, z: Saddle) -> Saddle:
        """(A^T y, b - A x)."""
        A, b = cast_like(self.A, z.x), cast_like(self.b, z.x)
        return Saddle(_multiply_transposed(A, z.y), b - A @ z.x)

    def operator_error(self, z: Saddle, g: Saddle) -> OperatorError:
        """(n + 8) UNIT |A|^T |y| and (m + 8) UNIT (|A| |x| + |b|) for n rows and m columns, in any order of sums."""
        A, b, x, y = (jnp.abs(cast_like(a, z.x)) for a in (self.A, self.b, z.x, z.y))
        n, m = A.shape
        return OperatorError(Saddle((n + 8) * UNIT * _multiply_transposed(A, y), (m + 8) * UNIT * (A @ x + b)), False)

    def value_error(self, z: Saddle, survey: Surveyed) -> LossError:
        """(m + k + 8) UNIT <|A| |x| + |b|, |y|> for m columns and k entries of y, in any order of sums."""
        A, b, x, y = (jnp.abs(cast_like(a, z.x)) for a in (self.A, self.b, z.x, z.y))
        return LossError((A.shape[1] + y.size + 8) * UNIT * jnp.vdot(A @ x + b, y), False)

    def client_operator(self, client: Tree, z: Saddle) -> Saddle:
        """The operator: every client has the same f."""
        return self.operator(z)

    def minibatch_operator(self, client: Tree, z: Saddle, size: int, key: Array) -> Saddle:
        """Refused: a bilinear game has no examples."""
        raise TypeError("a bilinear game has no examples to draw a Minibatch from; use GaussianNoise or no noise")

    def gap(self, z: Saddle) -> float:
        """The duality gap, max_y phi(x, .) - min_x phi(., y), by its own closed form in float64.

        psi_2^*(A x - b) + psi_1(x) + psi_1^*(-A^T y) + psi_2(y) + <b, y>; infinite outside the domain. The paper's two
        printed formulas are the l1 and the nuclear case of it.
        """
        with double():
            z = self.validate_point(z)
            parts = for_reports(self.geometry).parts
            if float(Product(parts).violation(z)) > FEASIBLE:
                return float("inf")
            worst_y = parts.y.psi_conjugate(self.A @ z.x - self.b)
            best_x = parts.x.psi_conjugate(tree.depend_on(-(jnp.asarray(self.A).T @ z.y), worst_y))
            psi_x = parts.x.psi(tree.depend_on(z.x, best_x))
            psi_y = parts.y.psi(tree.depend_on(z.y, psi_x))
            return float(worst_y + psi_x + best_x + psi_y + jnp.vdot(self.b, z.y))

    def __repr__(self) -> str:
        return f"Bilinear({self.A.shape[0]} x {self.A.shape[1]}, x={self.geometry.parts.x}, y={self.geometry.parts.y})"


def _multiply_transposed(A: Array, y: Array) -> Array:
    """A^T y. For one vector y @ A reads A row by row; A.T @ y is ten times as slow in XLA on a CPU."""
    return y @ A if y.ndim == 1 else A.T @ y


@built_from("A", "b")
def bilinear(A: Numbers, b: Numbers, *, x: Tree, y: Tree) -> Bilinear:
    """The game <A x - b, y> + psi_1(x) - psi_2(y).

    A is n-by-m. With b of n entries, x has m and y has n entries; with b an n-by-p matrix, x is m-by-p and y is
    n-by-p. x= and y= are regularizers or geometries.
    """
    matrix = real_array("A", A, "a real matrix", truth=True)
    offset = real_array("b", b, "a real vector or matrix", truth=True)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"A must be a nonempty matrix, got an array of shape {matrix.shape}")
    rows, columns = matrix.shape
    if offset.ndim not in (1, 2) or offset.shape[0] != rows or offset.size == 0:
        raise ValueError(
            f"b must have {rows} entries or rows, as many as A has rows, got an array of shape {offset.shape}"
        )
    like = Saddle(np.zeros((columns, *offset.shape[1:])), np.zeros(offset.shape))
    return Bilinear(A=matrix, b=offset, geometry=build_geometry(x, y, like), like=like, data=None)


@built_from("A")
def matrix_game(A: Numbers) -> Bilinear:
    """min over x, max over y, of <A x, y> on two simplices, with entropic maps: y picks rows, x picks columns."""
    payoff = real_array("A", A, "a real matrix", truth=True)
    return bilinear(payoff, np.zeros(payoff.shape[:1]), x=EntropicSimplex(), y=EntropicSimplex())

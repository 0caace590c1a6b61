"""Recipes: problems of the catalogue before anybody's data was seen, built from what clients add up to."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..accepted import Numbers
from ..arrays import Reals, Values
from ..summaries import Known, Summary, merge_summaries
from ..tree import Tree
from .general import Problem
from .known import Floor, Smoothness, floor_of_views, smoothness_of, with_metric, with_smoothness
from .readings import Reading
from .rows import Data, Rows, objective_weights, scores_at

# What a problem of the catalogue is built from, said by its own constructor.


F = TypeVar("F", bound=Callable[..., Any])

MARK = "__built_from__"
CONSTANT = 1e-12
"""The share of its mean square at which the variance of a column is rounding."""

Measure = Literal["mean", "worst", "limited"]


@dataclass(frozen=True)
class Sources:
    """The arrays among a constructor's arguments."""

    arrays: tuple[str, ...]
    recipe: type | None
    """What the problem is before anybody's data was seen, if its arrays are rows of clients."""


def built_from(*arrays: str, recipe: type | None = None) -> Callable[[F], F]:
    """Declare a constructor of the catalogue: files can name it, and its arrays then come from data files."""

    def mark(constructor: F) -> F:
        setattr(constructor, MARK, Sources(arrays, recipe))
        return constructor

    return mark


def sources_of(constructor: Callable[..., Any]) -> Sources | None:
    """What a constructor declared; None if it is none of the catalogue."""
    declared: Sources | None = getattr(constructor, MARK, None)
    return declared


class AbstractRecipe(ABC):
    """A problem of the catalogue without data. No method but `summarize` and `examples` sees a row.

    exchanges: how many summaries each client sends, one after the other; `known` is the list of merged ones so far.
    """

    exchanges: ClassVar[int]
    row_groups: ClassVar[bool] = False
    """Whether rows may have groups, other than their clients."""
    row_duals: ClassVar[bool] = False
    """Whether a run has one dual number for each row: whoever sees it can solve for the rows."""

    keeps_rows: ClassVar[bool] = False
    """Whether `examples` has each row as it is, under "row": what it says of other things depends on no feature."""
    bias_is_known: ClassVar[bool] = False
    """Whether `bias` needs what clients have added up to."""
    measure: ClassVar[Measure] = "mean"
    """What is made of the sums of `held_out`: the mean loss, that of the worst part, or that of the first part where
    the others are within their limits."""

    @property
    @abstractmethod
    def reading(self) -> Reading:
        """What a model's scores mean."""

    @property
    def weights(self) -> Numbers | str:
        """As of `Problem`: "samples", which makes it all the same who holds a row, "clients", or a number for each."""
        return "samples"

    @property
    def unlimited(self) -> "AbstractRecipe":
        """The recipe whose null model tells the values of a path of penalties."""
        return self

    @abstractmethod
    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """At client number `client`: its next summary. What may leave it is what stands here."""

    @abstractmethod
    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> Tree:
        """At client number `client`: its rows as the loss wants them."""

    @abstractmethod
    def problem(self, known: Sequence[Known], data: Data) -> Problem:
        """Anywhere: the problem with a list of the examples of all clients or of one, or with data "elsewhere"."""

    def bias(self, known: Sequence[Known], x: Tree) -> Reals:
        """What a model of a solution x = {"weights": w, ...} adds to <w, row>."""
        return np.asarray(x.get("bias", np.zeros(np.shape(x["weights"])[1:])))

    def held_out(self, rows: Rows, known: Sequence[Known], client: int, points: Sequence[Tree]) -> Reals:
        """At client number `client`, of rows that none of the points x was fitted to: for each part of them its weight,
        and the sum of its losses; shape (points, 2, parts).
        """
        sums = np.zeros((len(points), 2, self.held_out_parts(known)))
        if not len(rows.y):
            return sums
        losses_at, masses = self.held_out_losses(rows, known), self.held_out_masses(rows, known, client)
        sums[:, 0] = masses.sum(axis=1)
        for i, (x, scores) in enumerate(zip(points, scores_at(rows.X, points), strict=True)):
            losses = losses_at(scores + self.bias(known, x))
            sums[i, 1] = masses @ (losses if losses.ndim == 1 else losses.sum(axis=1))
        return sums

    def held_out_of(
        self, rows: Rows, left_out: NDArray[np.bool_], known: Sequence[Known], client: int, points: Sequence[Tree]
    ) -> Reals:
        """The same of some of a client's rows, where the points were fitted to the others."""
        return self.held_out(rows.of(left_out), known, client, points)

    def held_out_losses(self, rows: Rows, known: Sequence[Known]) -> Callable[[Reals], Reals]:
        """From the scores of rows to the loss of each; of several targets one each."""
        raise NotImplementedError(f"{type(self).__name__} does not say what a row's loss is")

    def held_out_parts(self, known: Sequence[Known]) -> int:
        """How many parts `held_out` tells apart."""
        return 1

    def held_out_masses(self, rows: Rows, known: Sequence[Known], client: int) -> Reals:
        """The weight of each row in each part, (parts, rows)."""
        return rows.masses(self.weights, client)[None]

    def limits_of(self, known: Sequence[Known]) -> Reals:
        """The limits of all parts but the first, where the measure has some."""
        return np.zeros(0)

    def smoothness(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """At client number `client`, after the last exchange: one more, for methods whose step sizes theory chooses."""
        own = smoothness_of(self.problem(known, [self.examples(rows, known, client)]))
        return Summary(largest={} if own is None else own._asdict())

    def client_weights(self, known: Sequence[Known]) -> Reals:
        """The weight of each client in the objective."""
        return objective_weights("samples", known[0]["mass"])

    def opening(self, rows: Rows, client: int, **parts: Mapping[str, Values]) -> Summary:
        """The first summary, which has the number of rows and the weight of each client beside these parts."""
        own = {"rows": np.array(len(rows.y)), "mass": np.array(rows.mass(self.weights, client))}
        return Summary(each=own, **parts)

    def built(
        self, f: Callable[..., Any], known: Sequence[Known], data: Data, *, floor: Floor | None = None, **parts: Any
    ) -> Problem:
        """The problem with this loss of one example.

        A server has no weights, which belong to its deployment. Neither has one client of several, and of the floor it
        has what holds for its own examples.
        """
        elsewhere = isinstance(data, str)
        alone = not elsewhere and len(data) < known[0]["mass"].size
        weights = "clients" if elsewhere or alone else self.client_weights(known)
        floor = floor_of_views(floor) if alone else floor
        problem = Problem(f, data=data, weights=weights, own_weights=True, floor=floor, **parts)
        if len(known) > self.exchanges:
            problem = with_smoothness(problem, Smoothness(**known[self.exchanges]))
        return problem


def gather(recipe: AbstractRecipe, parts: Sequence[Rows]) -> list[Known]:
    """All merged summaries of clients that are in this process.

    recipe, parts: the recipe, and the `Rows` of each client.
    Returns: one merged summary for each exchange.
    """
    known: list[Known] = []
    for _ in range(recipe.exchanges):
        known.append(merge_summaries(recipe.summarize(rows, known, m) for m, rows in enumerate(parts)))
    return known


def assemble(recipe: AbstractRecipe, parts: Sequence[Rows]) -> Problem:
    """The problem of clients that are in this process, built as it is between parties.

    recipe, parts: the recipe, and the `Rows` of each client.
    """
    objective_weights(recipe.weights, np.ones(len(parts)))  # refused here, where the number of clients is known
    known = gather(recipe, parts)
    problem = recipe.problem(known, [recipe.examples(rows, known, m) for m, rows in enumerate(parts)])
    return with_metric(problem, _squares_of_columns(recipe, parts))


def _squares_of_columns(recipe: AbstractRecipe, parts: Sequence[Rows]) -> Reals:
    """Of each column of all rows the variance; of a constant one the square."""
    masses = [rows.masses(recipe.weights, m) for m, rows in enumerate(parts)]
    total = sum(float(mass.sum()) for mass in masses)
    mean = sum(np.asarray(mass @ rows.X) for mass, rows in zip(masses, parts, strict=True)) / total
    squares = sum(rows.sum_squares(mass) for mass, rows in zip(masses, parts, strict=True)) / total
    variance = squares - mean**2
    return np.asarray(np.where(variance > CONSTANT * squares, variance, squares))

"""Recipes: problems of the catalogue before anybody's data was seen, built from what clients add up to."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..accepted import Number, Numbers
from ..regularizers import L1, AbstractRegularizer, Box, GroupL2, L1Ball, L2Ball, SquaredL2
from ..summaries import Known, Summary, merged
from ..tree import Tree
from ..validation import encode_labels, nonnegative, positive
from .general import Problem
from .known import Smoothness, floor_of_views, smoothness_of, with_smoothness
from .rows import Rows, objective_weights

# What a problem of the catalogue is built from, said by its own constructor.


F = TypeVar("F", bound=Callable[..., Any])

MARK = "__built_from__"


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
    found: Sources | None = getattr(constructor, MARK, None)
    return found


# Sums over the rows of one client that recipes send, and what is read from them once they are added.


def sums_by_class(rows: Rows, labels: NDArray[Any], masses: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """For each class the weight of its rows, and their weighted sum."""
    member = (rows.numbers(rows.y, labels) == np.arange(len(labels))[:, None]) * masses
    return {"class_mass": member.sum(axis=1), "class_rows": member @ rows.X}


def sums_of_means(rows: Rows, masses: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The weighted sums of targets and rows."""
    return {"target_sum": np.asarray(masses @ rows.y), "row_sum": masses @ rows.X}


def total_mass(known: Sequence[Known]) -> float:
    """The weight of all rows, of which each has its share in the objective."""
    return float(known[0]["mass"].sum())


def mean_of(known: Known, name: str, mass: float) -> Any:
    """A sum divided by the weight of its rows; a number if it is one."""
    return (known[name] / mass)[()]


def known_classes(known: Sequence[Known], two: bool = False) -> NDArray[Any]:
    """The labels of all clients, of which there must be two, or at least two."""
    labels = known[0]["classes"]
    if two and len(labels) != 2:
        raise ValueError(f"y must hold two classes, but it holds {len(labels)}")
    if len(labels) < 2:
        rows = int(known[0]["rows"].sum())
        raise ValueError(f"y must hold at least two classes, but all its {rows} labels are alike")
    return labels


def class_means(known: Known) -> NDArray[Any]:
    """The mean row of each class."""
    return np.asarray(known["class_rows"] / known["class_mass"][:, None])


# Penalties of a linear model, and the balls and boxes that hold its solutions.


Ball = L1Ball | L2Ball


def weight_ball(l1: float, l2: float, radius: object, budget: float, group: float = 0.0) -> Ball:
    """L2Ball(radius), or the smallest of the balls that each penalty <= budget makes.

    L1Ball(budget / l1), L2Ball(sqrt(2 budget / l2)), and L2Ball(budget / group) for a sum of norms of groups.
    """
    if radius is not None:
        return L2Ball(positive("radius", radius))
    balls: list[Ball] = [L1Ball(budget / l1)] if l1 > 0 else []
    balls += [L2Ball(np.sqrt(2 * budget / l2))] if l2 > 0 else []
    balls += [L2Ball(budget / group)] if group > 0 else []
    if not balls:
        raise ValueError("radius must be given if no penalty is > 0: nothing else bounds the weights")
    return min(balls, key=lambda ball: float(ball.radius))


def penalized(ball: Ball, l1: Number, l2: Number, groups: GroupL2 | None = None) -> AbstractRegularizer:
    """l1 ||w||_1 or a sum of norms of groups, + l2/2 ||w||^2, in the ball."""
    norm: AbstractRegularizer | None = groups if l1 == 0 else L1(l1)
    weights: AbstractRegularizer = ball if norm is None else norm + ball
    return weights if l2 == 0 else weights + SquaredL2(l2)


def largest_product(ball: Ball, vectors: NDArray[Any]) -> NDArray[Any]:
    """The largest |<w, v>| for w in the ball, for each row v."""
    dual = np.inf if isinstance(ball, L1Ball) else 2
    return np.asarray(ball.radius * np.linalg.norm(np.atleast_2d(vectors), dual, axis=1))


def bias_box(center: Numbers, direction: NDArray[Any], ball: Ball, reach: float) -> Box:
    """All b with |b + <w, direction> - center| <= reach for some w in the ball."""
    spread = largest_product(ball, direction)[0] + reach
    return Box(lower=center - spread, upper=center + spread)


def class_shares(masses: NDArray[Any], total: float) -> NDArray[Any]:
    """The share of each class in the objective, from the weights of their rows and of all rows."""
    if np.any(masses <= 0):
        raise ValueError("weights must be > 0 for some client of every class of y")
    return masses / total


def class_bias_box(shares: NDArray[Any], means: NDArray[Any], ball: Ball, budget: float, binary: bool) -> Box:
    """All biases with which a mean logistic or softmax loss may be within the budget.

    shares: the weight s_c of each class; means: its mean row mu_c. Jensen's inequality and log(1 + e^u) >= u
    give s_c (b_k - b_c + <w_k - w_c, mu_c>) <= budget. With two classes and one score b stands for the difference:
    -S(mu_1) - budget / s_1 <= b <= S(mu_0) + budget / s_0, S(v) the largest |<w, v>| for w in the ball. Otherwise
    biases matter up to a common shift, and no two differ by more than D = max_c S'(mu_c) + budget / s_c, S'(v) the
    largest |<w_k - w_c, v>|: Box(D / 2) keeps one shift of each solution.
    """
    largest = largest_product(ball, means)
    if binary:
        above, below = largest + budget / shares
        return Box(lower=-below, upper=above)
    # Two columns in an l2 ball differ by at most sqrt(2) times its radius, in an l1 ball by the radius.
    longest = np.sqrt(2) if isinstance(ball, L2Ball) else 1.0
    return Box(float(np.max(longest * largest + budget / shares)) / 2)


class Penalty:
    """l1 ||w||_1 + l2/2 ||w||^2 + group sum_g sqrt(d_g) ||w_g||_2, in a ball with every w of penalty <= budget."""

    def __init__(self, l1: Any, l2: Any, radius: Any, group: Any = 0.0, groups: Any = None):
        self.l1, self.l2, self.group = nonnegative("l1", l1), nonnegative("l2", l2), nonnegative("group", group)
        if self.l1 > 0 and self.group > 0:
            raise ValueError("l1 and group cannot both be > 0: their sum has no closed form here")
        if (self.group > 0) != (groups is not None):
            raise ValueError("group > 0 and groups=, one label for each column of X, belong together")
        self.groups, self.radius = groups, radius
        self.ball(1.0)  # refused here, before any data is seen

    def ball(self, budget: float) -> Ball:
        """The ball of `weight_ball`."""
        return weight_ball(float(self.l1), float(self.l2), self.radius, budget, float(self.group))

    def regularizer(self, ball: Ball, shape: tuple[int, ...]) -> AbstractRegularizer:
        """The penalty of weights of this shape, in the ball."""
        norms = _groups(self.group, self.groups, shape) if self.group > 0 else None
        return penalized(ball, self.l1, self.l2, norms)


def _groups(group: Any, groups: Any, shape: tuple[int, ...]) -> GroupL2:
    names, label = encode_labels("groups", groups, shape[0])
    entries = np.broadcast_to(label.reshape(-1, *(1,) * (len(shape) - 1)), shape)
    return GroupL2(group, np.ascontiguousarray(entries), np.sqrt(np.bincount(entries.ravel(), minlength=len(names))))


CLASSES, RANKING, NUMBERS = "classes", "ranking", "numbers"


class AbstractRecipe(ABC):
    """A problem of the catalogue without data. No method but `summarize` and `examples` sees a row.

    exchanges: how many summaries each client sends, one after the other; `known` is the list of merged ones so far.
    """

    exchanges: ClassVar[int]
    row_groups: ClassVar[bool] = False
    """Whether rows may have groups, other than their clients."""
    row_duals: ClassVar[bool] = False
    """Whether a run has one dual number for each row: whoever sees it can solve for the rows."""

    @property
    @abstractmethod
    def answers(self) -> str:
        """What a model's scores mean: CLASSES, RANKING or NUMBERS."""

    @property
    def weights(self) -> Any:
        """As of `Problem`: "samples", which makes it all the same who holds a row, "clients", or a number for each."""
        return "samples"

    @abstractmethod
    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """At client number `client`: its next summary. What may leave it is what stands here."""

    @abstractmethod
    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> Tree:
        """At client number `client`: its rows as the loss wants them."""

    @abstractmethod
    def problem(self, known: Sequence[Known], data: Any) -> Problem:
        """Anywhere: the problem with a list of the examples of all clients or of one, or with data "elsewhere"."""

    def bias(self, known: Sequence[Known], x: Any) -> NDArray[Any]:
        """What a model of a solution x = {"weights": w, ...} adds to <w, row>."""
        return np.asarray(x.get("bias", np.zeros(np.shape(x["weights"])[1:])))

    def smoothness(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """At client number `client`, after the last exchange: one more, for methods whose step sizes theory chooses."""
        own = smoothness_of(self.problem(known, [self.examples(rows, known, client)]))
        return Summary(largest={} if own is None else own._asdict())

    def client_weights(self, known: Sequence[Known]) -> NDArray[Any]:
        """The weight of each client in the objective."""
        return objective_weights("samples", known[0]["mass"])

    def opening(self, rows: Rows, client: int, **parts: Any) -> Summary:
        """The first summary, which has the number of rows and the weight of each client beside these parts."""
        own = {"rows": np.array(len(rows.y)), "mass": np.array(rows.mass(self.weights, client))}
        return Summary(each=own, **parts)

    def built(
        self, f: Callable[..., Any], known: Sequence[Known], data: Any, *, floor: Any = None, **parts: Any
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
        known.append(merged(recipe.summarize(rows, known, m) for m, rows in enumerate(parts)))
    return known


def assemble(recipe: AbstractRecipe, parts: Sequence[Rows]) -> Problem:
    """The problem of clients that are in this process, built as it is between parties.

    recipe, parts: the recipe, and the `Rows` of each client.
    """
    objective_weights(recipe.weights, np.ones(len(parts)))  # refused here, where the number of clients is known
    known = gather(recipe, parts)
    return recipe.problem(known, [recipe.examples(rows, known, m) for m, rows in enumerate(parts)])

"""Rows of clients: checked, split by client, padded and stacked, dense or sparse."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..accepted import Numbers
from ..arrays import Array, RealMatrix, Reals, Values
from ..tree import Tree, is_floating
from ..validation import (
    classes,
    encode_labels,
    issparse,
    plain_array,
    real_array,
    real_csr,
    refuse_sparse,
    row_weights,
    short,
)
from .stored import HeldClients, RowSource, chosen_rows

# Client data: unequal clients stacked into one pytree, and the weights of the objective.


WEIGHTS = "'clients', 'samples' or one number for each client"
"""What is accepted as the weights of the clients."""


Data = Sequence[Tree] | str
"""The examples of each client, or "elsewhere"."""


class Clients(eqx.Module):
    """Examples of shape (clients, length, ...) and how many of them each client really has.

    Clients are padded with copies of their own first example, which is as safe to evaluate as the rest; the padding has
    weight 0. length is `padded_length` of the longest client.
    """

    examples: Tree
    counts: Array

    def shares(self) -> Array:
        """The weight of each example in its client's mean: 1 / count, and 0 for padding."""
        counts = jnp.asarray(self.counts)[..., None]
        length = jax.tree.leaves(self.examples)[0].shape[jnp.ndim(self.counts)]
        return jnp.where(jnp.arange(length) < counts, 1 / counts, 0.0)

    def of(self, m: int) -> "Clients":
        """The examples of client m alone."""
        own: Clients = jax.tree.map(lambda leaf: leaf[m : m + 1], self)
        return own

    def client(self, m: int) -> Tree:
        """The examples of client m without padding, as numpy arrays: entries of those of jax are programs."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[m][: int(self.counts[m])], self.examples)

    def hold(self) -> HeldClients:
        """The same for numpy alone: no row is copied."""
        return HeldClients.of_examples([self.client(m) for m in range(self.counts.size)], np.asarray(self.counts))

    def weigh(self, weights: object) -> tuple[Tree, Array]:
        """The examples by client, and the weight of each in the objective."""
        if not self.counts.size:
            raise TypeError("the data of this problem is elsewhere, so its loss and operator cannot be computed here")
        return self.examples, jnp.asarray(weights)[:, None] * self.shares()

    def pool(self, weights: object) -> tuple[Tree, Array]:
        """The same along one axis."""
        every, share = self.weigh(weights)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), every), share.ravel()

    def minibatch(self, size: int, key: Array) -> Tree:
        """Examples of one client, drawn uniformly with replacement."""
        drawn = jax.random.randint(key, (size,), 0, self.counts)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[drawn], self.examples)

    def sampled(self, examples: int, rng: np.random.Generator) -> "Clients | None":
        """About so many examples, as many of each client, drawn with replacement; None if there are no more."""
        each = max(1, examples // max(1, self.counts.size))
        if jax.tree.leaves(self.examples)[0].shape[1] <= each:
            return None
        drawn = rng.integers(0, np.asarray(self.counts)[:, None], (self.counts.size, each))
        few = jax.tree.map(lambda leaf: np.asarray(leaf)[np.arange(len(drawn))[:, None], drawn], self.examples)
        return Clients(few, np.full(len(drawn), each))


ELSEWHERE = Clients(None, np.zeros(0, int))
"""No examples of no client."""


def objective_weights(weights: object, counts: Array | None) -> Reals:
    """p, summing to 1: from "clients", "samples" or one nonnegative number a client."""
    sizes = np.ones(1) if counts is None else np.asarray(counts)
    if isinstance(weights, str):
        if weights not in ("clients", "samples"):
            raise ValueError(f"weights must be {WEIGHTS}, got {weights!r}")
        p = np.ones(sizes.size) if weights == "clients" else sizes.astype(float)
    else:
        p = real_array("weights", weights, WEIGHTS)
    if p.shape != sizes.shape or np.any(p < 0) or not np.any(p > 0):
        raise ValueError(
            f"weights must be {sizes.size} numbers >= 0 with a positive sum, one for each client, got {short(weights)}"
        )
    p = p / p.max()  # whose sum is finite
    return p / p.sum()


# Rows of which most entries are 0: an example keeps the others and where they are.


STEP = 8
"""Widths are multiples of it, so that tables that differ a little in their fullest row share compiled programs."""


class SparseRow(eqx.Module):
    """A row with the entries `value` in the columns `index`, or many rows along leading axes.

    All rows have one width, that of the fullest. Shorter ones are padded with zeros in column 0, and to add 0 is exact:
    a product rounds as a sum of as many terms as the row has entries, which are no more than it has columns.
    """

    index: Array
    value: Array

    def __matmul__(self, weights: object) -> Array:
        """<row, w>, or one such number for each column of w."""
        return jnp.asarray(self.value) @ jnp.asarray(weights)[self.index]

    def __abs__(self) -> "SparseRow":
        size: Array = abs(self.value)  # type: ignore[assignment]  # of real numbers
        return SparseRow(self.index, size)

    def widen(self, width: int) -> "SparseRow":
        """The same rows with padding up to this width."""
        more = [(0, 0)] * (np.ndim(self.value) - 1) + [(0, width - np.shape(self.value)[-1])]
        return SparseRow(np.pad(self.index, more), np.pad(self.value, more))


def example_rows(X: RealMatrix) -> "Reals | SparseRow":
    """Rows as examples have them: arrays as they are, and sparse matrices as `SparseRow`."""
    if not issparse(X):
        return X
    matrix = real_csr("X", X)
    counts = np.diff(matrix.indptr)
    width = min(-(-max(int(counts.max()), 1) // STEP) * STEP, matrix.shape[1])
    rows = SparseRow(np.zeros((len(counts), width), np.int32), np.zeros((len(counts), width)))
    there = np.arange(width) < counts[:, None]
    rows.index[there], rows.value[there] = matrix.indices, matrix.data
    return rows


def same_width(clients: Sequence[Tree]) -> list[Tree]:
    """The examples of these clients with all sparse rows as wide as the widest."""
    nodes = jax.tree.leaves(clients, is_leaf=is_sparse)
    width = max((np.shape(node.value)[-1] for node in nodes if is_sparse(node)), default=0)

    def widen(node: Any) -> Any:
        return node.widen(width) if is_sparse(node) else node

    return [jax.tree.map(widen, client, is_leaf=is_sparse) if width else client for client in clients]


def is_sparse(node: object) -> bool:
    """Whether this is a `SparseRow`."""
    return isinstance(node, SparseRow)


def holds_sparse(examples: Tree) -> bool:
    """Whether there are `SparseRow`s among them."""
    return any(map(is_sparse, jax.tree.leaves(examples, is_leaf=is_sparse)))


def features(X: object) -> RealMatrix:
    """A nonempty real matrix with one row for each example; a sparse one of scipy stays sparse, stored by rows."""
    return real_csr("X", X) if issparse(X) else matrix(X)


def matrix(values: object, name: str = "X") -> Values:
    """A nonempty real matrix with one row for each example, none of them sparse; the given one where it will do.

    Clients get copies of their rows, so that a problem never holds what the caller may change.
    """
    refuse_sparse(name, values, "a real matrix")
    array = real_array(name, values, "a real matrix", truth=True, copy=False)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name} must be a nonempty matrix with one row for each example, got shape {array.shape}")
    return array


def class_column(y: object, rows: int) -> Values:
    """One class for each row."""
    classes("y", y, rows)
    return np.asarray(y)


def label_column(name: str, values: object, rows: int) -> Values:
    """One label for each row."""
    encode_labels(name, values, rows)
    return np.asarray(values)


def two_classes(y: object, rows: int) -> Reals:
    """-1 for the first of the two labels in sorted order, +1 for the second."""
    names, label = classes("y", y, rows)
    if len(names) != 2:
        raise ValueError(f"y must hold two classes, but it holds {len(names)}")
    return np.where(label == 1, 1.0, -1.0)


def labels_of_model(y: object, rows: int, labels: object, count: int) -> NDArray[np.int32]:
    """The class of each row as a model with this number of classes counts them, all of which y or labels must name."""
    names, number = classes("y", y, rows)
    known = names if labels is None else classes("labels", labels)[0]
    if len(known) != count:
        held = f"{'y' if labels is None else 'labels'} holds {len(known)} labels"
        raise ValueError(f"labels must be the {count} labels that the model was trained on; {held}")
    if not np.all(np.isin(names, known)):
        raise ValueError(f"y must hold labels of {short(known)}, got {short(names[~np.isin(names, known)][0])}")
    return np.searchsorted(known, names)[number].astype(np.int32)


def targets(y: object, rows: int, name: str = "y") -> Reals:
    """One real number for each row."""
    target = real_array(name, y, f"{rows} real numbers", truth=True)
    if target.shape != (rows,):
        raise ValueError(
            f"{name} must hold {rows} numbers, one for each row of X, got an array of shape {target.shape}"
        )
    return np.asarray(target)


TOGETHER = 32
"""Points at which rows are looked at once."""


def scores_at(X: Any, points: Sequence[Tree]) -> Iterator[NDArray[Any]]:
    """<w, row> of all rows at each point {"weights": w, ...}."""
    for start in range(0, len(points), TOGETHER):
        weights = [np.asarray(x["weights"]) for x in points[start : start + TOGETHER]]
        flat = np.concatenate([w.reshape(len(w), -1) for w in weights], axis=1)
        scores = np.ascontiguousarray(np.asarray(X @ flat).T)
        for own, w in zip(np.split(scores, len(weights)), weights, strict=True):
            yield own[0] if w.ndim == 1 else own.T


# The rows of one client, and how much they weigh.


class Rows(NamedTuple):
    """The rows of one client: features, targets, and where they exist weights and groups of the rows.

    X: a matrix, or a sparse one of scipy.
    y: the targets. weight, group: one for each row, or None.
    """

    X: RealMatrix
    y: NDArray[Any]
    weight: Reals | None = None
    group: Values | None = None

    def of(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> "Rows":
        """Some of them."""
        weight = None if self.weight is None else self.weight[chosen]
        group = None if self.group is None else self.group[chosen]
        return Rows(chosen_rows(self.X, chosen), self.y[chosen], weight, group)

    @property
    def features(self) -> Reals | SparseRow:
        """The features as examples have them, with a row for each example."""
        return example_rows(self.X)

    def sum_squares(self, masses: Reals) -> Reals:
        """Of each column, with these weights of rows."""
        if issparse(self.X):
            return np.asarray(masses @ self.X.power(2))
        return np.asarray(np.einsum("n,nj,nj->j", masses, self.X, self.X))

    @property
    def shares(self) -> Reals:
        """The weight of each row; 1 where none was given."""
        return np.ones(len(self.y)) if self.weight is None else self.weight

    @property
    def factors(self) -> Reals:
        """w_i / (mean of w): the plain mean of these times a loss is its weighted mean; 0 if all weights are 0."""
        mean = self.shares.sum() / len(self.y)
        return self.shares / mean if mean > 0 else np.zeros(len(self.y))

    def mass(self, weights: object, client: int) -> float:
        """The weight of this client in the objective, up to a factor that all clients share.

        weights: as of a recipe.
        """
        if _by_rows(weights):
            return float(self.shares.sum())
        if not self.shares.any():
            raise ValueError(f"sample_weight must be > 0 for some row of every client, got only 0 for client {client}")
        return 1.0 if isinstance(weights, str) else _number(weights, client)

    def masses(self, weights: object, client: int) -> Reals:
        """The weight of each row."""
        return self.shares if _by_rows(weights) else self.mass(weights, client) * self.factors / len(self.y)

    def labels(self, values: Values) -> Values:
        """The distinct values of those rows that weigh something: a row of weight 0 is as good as absent."""
        return np.unique(values[self.shares > 0])

    def numbers(self, values: Values, labels: Values) -> NDArray[np.int32]:
        """The number of each row's value among the sorted labels; any number for a row of weight 0 that has another."""
        places = np.minimum(np.searchsorted(labels, values), len(labels) - 1)
        strange = (labels[places] != values) & (self.shares > 0)
        if strange.any():
            raise ValueError(f"labels must be of {short(labels.tolist())}, got {short(values[strange][0])}")
        return places.astype(np.int32)

    def signs(self, labels: Values) -> Reals:
        """-1 for rows of the first of two classes, +1 for those of the second."""
        return np.where(self.numbers(self.y, labels) == 1, 1.0, -1.0)

    def weighed(self, **examples: object) -> dict[str, object]:
        """These examples, with the factor of each row as "weight" where rows have weights."""
        return examples if self.weight is None else {**examples, "weight": self.factors}


def split_rows(
    X: RealMatrix, y: Values, clients: object, weight: Numbers | None = None, group: Values | None = None
) -> list[Rows]:
    """The rows of each client, in the sorted order of their ids; clients None is one client.

    weight: None, or a number >= 0 for each row, not all 0, given as `sample_weight`.
    X, y, clients: rows, targets, and whose each row is. group: None, or the group of each row.
    """
    number = np.zeros(len(y), int) if clients is None else encode_labels("clients", clients, len(y))[1]
    weight = None if weight is None else row_weights(weight, len(y))

    in_order = bool(np.all(number[:-1] <= number[1:]))  # then no row is copied
    order, ends = np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))
    own = [slice(end - rows, end) for end, rows in zip(ends, np.bincount(number), strict=True)]

    def split(values: Any) -> list[Any]:
        if values is None:
            return [None] * len(own)
        sorted_values = values if in_order else values[order]
        return [sorted_values[part] for part in own]

    by_rows = X.tocsr() if issparse(X) else X
    return [Rows(*parts) for parts in zip(*map(split, (by_rows, y, weight, group)), strict=True)]


def checked_weights(weights: object) -> Reals:
    """Weights of clients as a recipe has them, for as many clients as there are numbers."""
    given = weights if isinstance(weights, str) else real_array("weights", weights, WEIGHTS)
    return objective_weights(weights, np.ones(np.size(given)))


def _number(weights: object, client: int) -> float:
    given = checked_weights(weights)
    if client >= given.size:
        raise ValueError(f"weights must hold one number for each client, got {given.size} and a client {client}")
    return float(given[client])


def _by_rows(weights: object) -> bool:
    return isinstance(weights, str) and weights == "samples"


# Unequal clients stacked into one pytree, padded to one of a few lengths.


FEW = 2**12
"""Rows of all clients together whose padding costs next to nothing."""


def problem_data(data: Data | None, weights: object) -> "tuple[Clients | HeldClients | None, Reals]":
    """What `Problem` was given as data= and weights=, checked."""
    if isinstance(data, str) and data == "elsewhere":
        if not (isinstance(weights, str) and weights == "clients"):
            raise ValueError(f"weights={short(weights)} of clients elsewhere: they belong to the deployment")
        return ELSEWHERE, np.zeros(0)
    if isinstance(data, list) and any(isinstance(part, RowSource) for part in jax.tree.leaves(data)):
        held = HeldClients.of_examples(data, np.array([len(examples["target"]) for examples in data]))
        return held, objective_weights(weights, held.counts)
    stacked = None if data is None else stack_clients(data)
    return stacked, objective_weights(weights, None if stacked is None else stacked.counts)


def stack_clients(data: Sequence[Tree] | str) -> Clients:
    """A list of client pytrees as one `Clients`, or a clear refusal."""
    if not isinstance(data, list | tuple) or not data:
        raise TypeError(f"data must be a nonempty list with one pytree of arrays for each client, got {short(data)}")
    structure = jax.tree.structure(data[0])
    if not jax.tree.leaves(data[0]):
        raise TypeError(f"data[0] must be a pytree of arrays, got {short(data[0])}")
    counts = np.array([_count_examples(m, client, structure) for m, client in enumerate(data)])
    data, length = same_width(data), padded_length(int(counts.max()), len(counts))

    def stack(path: tuple[object, ...], *leaves: object) -> Reals:
        name = jax.tree_util.keystr(path)
        arrays = [_check_leaf(f"data[{m}]{name}", leaf) for m, leaf in enumerate(leaves)]
        shapes = {array.shape[1:] for array in arrays}
        if len(shapes) > 1:
            raise ValueError(f"data[m]{name} must have examples of one shape for all clients, got {sorted(shapes)}")
        stacked = np.empty((len(arrays), length, *arrays[0].shape[1:]), np.result_type(*arrays))
        for own, array in zip(stacked, arrays, strict=True):
            own[: len(array)], own[len(array) :] = array, array[:1]
        return stacked

    return Clients(jax.tree_util.tree_map_with_path(stack, data[0], *data[1:]), counts)


def padded_length(longest: int, clients: int) -> int:
    """The next of a few lengths, so that data of almost the same size, as folds are, need not compile again.

    At most an eighth more than the longest client; a multiple of 8 where all clients have few rows together, because
    a program takes longer to compile than the padding to compute.
    """
    step = 2 ** max(0, longest.bit_length() - 4)
    step = max(8, step) if longest >= 8 and clients * longest <= FEW else step
    return -(-longest // step) * step


def _count_examples(m: int, client: Tree, structure: object) -> int:
    if jax.tree.structure(client) != structure or not jax.tree.leaves(client):
        raise ValueError(f"data[{m}] must have the structure of data[0], {short(structure)}, got {short(client)}")
    counts = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(client)}
    if len(counts) != 1 or () in counts:
        raise ValueError(
            f"data[{m}] must hold arrays with its examples along the first axis, as many in each, got shapes "
            f"{[np.shape(leaf) for leaf in jax.tree.leaves(client)]}"
        )
    (count,) = counts.pop()
    if count == 0:
        raise ValueError(f"data[{m}] is empty: every client needs at least one example")
    return int(count)


def _check_leaf(name: str, leaf: object) -> Reals:
    array: NDArray[Any] = plain_array(name, leaf)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be an array of numbers, got dtype {array.dtype}")
    if is_floating(array) and not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, but {int(np.sum(~np.isfinite(array)))} entries are nan or infinite")
    return array

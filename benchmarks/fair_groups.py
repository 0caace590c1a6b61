"""Which sets of weights of groups serve the worst group on rows that nobody has seen.

python benchmarks/fair_groups.py [SPLITS]        # HEART=file TCGA=file add two tables; a few minutes

Six tables, half of the rows of each for training, logistic losses with l2 = 1 / rows. Every set of weights is solved
by itself with numpy and scipy alone: min over w of the largest sum_g q_g (loss_g - a_g), q in the set. Printed is the
mean loss of the group that is served worst on held-out rows (of made surveys on 400 fresh rows of each district), over
splits, and on how many tables the mean is below the ordinary model's.
"""

import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

import fedualex as fx

LEAST_ROWS = 20
Array = NDArray[Any]


class Rows(NamedTuple):
    """Features with a column of ones, signs, and the number of each row's group."""

    X: Array
    y: Array
    group: Array


def losses_of(w: Array, rows: Rows) -> Array:
    """The logistic loss of each row."""
    return np.logaddexp(0.0, -rows.y * (rows.X @ w))


def by_group(values: Array, group: Array, groups: int) -> Array:
    """Their mean in each group."""
    return np.bincount(group, values, groups) / np.maximum(np.bincount(group, minlength=groups), 1)


# Sets of weights: what the adversary picks for these losses, and the value of it.


class Weights(NamedTuple):
    """At most cap_g of the weight for group g; prior: of what all share; adjust: taken off the loss of each group."""

    cap: Array
    prior: Array
    spread: float = 0.0
    adjust: Array | float = 0.0
    kl: float = 0.0

    def value(self, loss: Array, smooth: float) -> tuple[float, Array]:
        """The largest weighted loss, less smooth / 2 ||q - prior||^2, and its weights."""
        loss = loss - self.adjust
        if self.kl > 0:
            q = tilted(loss / self.kl + np.log(self.prior), self.cap)
            there = q > 0
            inner = q @ loss - self.kl * q[there] @ np.log(q[there] / self.prior[there])
            whole = (1 - self.spread) * q + self.spread / q.size
            return float((1 - self.spread) * inner + self.spread * loss.mean()), whole
        wanted = self.prior + loss / smooth
        low, high = wanted.min() - 1, wanted.max()
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if np.clip(wanted - middle, 0, self.cap).sum() > 1 else (low, middle)
        q = np.clip(wanted - high, 0, self.cap)
        inner = q @ loss - smooth / 2 * np.sum((q - self.prior) ** 2)
        whole = (1 - self.spread) * q + self.spread * self.prior
        return float((1 - self.spread) * inner + self.spread * self.prior @ loss), whole


def tilted(power: Array, cap: Array) -> Array:
    """min(cap, c exp(power)), c such that they sum to 1."""
    low, high = -power.max() + np.log(cap.max()) - 50, -power.min() + np.log(cap.max()) + 50
    for _ in range(100):
        middle = (low + high) / 2
        total = np.minimum(cap, np.exp(np.minimum(power + middle, 50))).sum()
        low, high = (middle, high) if total < 1 else (low, middle)
    return np.asarray(np.minimum(cap, np.exp(np.minimum(power + high, 50))))


def fit(rows: Rows, weights: Weights) -> Array:
    """The least value with l2 = 1 / rows, by smoothing that is made smaller."""
    n, d = rows.X.shape
    groups = weights.prior.size
    counts = np.bincount(rows.group, minlength=groups)

    def objective(w: Array, smooth: float) -> tuple[float, Array]:
        margin = rows.y * (rows.X @ w)
        value, q = weights.value(by_group(np.logaddexp(0.0, -margin), rows.group, groups), smooth)
        share = (q / counts)[rows.group] * -rows.y / (1 + np.exp(np.clip(margin, -500, 500)))
        slope = rows.X.T @ share
        slope[1:] += w[1:] / n
        return value + w[1:] @ w[1:] / (2 * n), slope

    w = np.zeros(d)
    for smooth in (1.0,) if weights.kl > 0 else (1.0, 0.1, 0.01, 0.001):
        w = minimize(objective, w, (smooth,), method="L-BFGS-B", jac=True, options={"maxiter": 300}).x
    return np.asarray(w)


def merge(group: Array, groups: int, least: int = LEAST_ROWS) -> tuple[Array, int]:
    """Groups of fewer rows as one."""
    counts = np.bincount(group, minlength=groups)
    small = counts < least
    number = np.where(small, np.sum(~small), np.cumsum(~small) - 1)
    return number[group], int(np.sum(~small) + small.any())


def choices(rows: Rows, groups: int) -> dict[str, tuple[Rows, Weights]]:
    """Every set that is compared, with the groups that it has."""
    own, count = merge(rows.group, groups)
    merged, n = rows._replace(group=own), len(rows.y)
    sizes, found = np.bincount(own, minlength=count) / n, dict[str, tuple[Rows, Weights]]()
    whole = np.bincount(rows.group, minlength=groups)
    alike = np.full(count, 1 / count)
    plain = fit(merged, Weights(np.ones(count), sizes, spread=1.0))
    each = losses_of(plain, merged)
    error = np.sqrt(by_group((each - by_group(each, own, count)[own]) ** 2, own, count) / (sizes * n))
    found["ordinary"] = merged, Weights(np.ones(count), sizes, spread=1.0)
    there = whole > 0
    number = (np.cumsum(there) - 1)[rows.group]
    found["worst, as they are"] = (
        rows._replace(group=number),
        Weights(np.ones(there.sum()), np.full(there.sum(), 1 / there.sum())),
    )
    found["worst, merged"] = merged, Weights(np.ones(count), alike)
    found["merged, cap 1/2, tenth shared"] = merged, Weights(np.full(count, max(0.5, 1 / count)), alike, 0.1)
    for spread in (0.3, 0.5, 0.7):
        half = np.full(count, max(0.5, 1 / count))
        found[f"merged, cap 1/2, {spread} shared by rows"] = merged, Weights(half, sizes, spread)
        held = np.minimum(sizes, half)
        held = 6 / 7 * held / held.sum() + 1 / 7 * alike
        found["merged, cap 1/2, 0.6 shared by rows, a tenth alike"] = merged, Weights(half, held, 0.7)
    for kl in (0.05, 0.1, 0.2):
        found[f"merged, KL {kl}, cap 1/2, a tenth alike"] = merged, Weights(half, sizes, 0.1, kl=kl)
    for share in (0.2, 0.4):
        found[f"merged, CVaR {share} of groups"] = merged, Weights(np.full(count, min(1, 1 / (share * count))), alike)
        cap = np.minimum(1, sizes / share)
        found[f"merged, CVaR {share} of rows"] = merged, Weights(cap, sizes)
    for kl in (0.02, 0.05, 0.1):
        found[f"merged, KL {kl} by size"] = merged, Weights(np.ones(count), sizes, kl=kl)
    for times in (1.0, 2.0):
        found[f"merged, less {times:g} errors"] = merged, Weights(np.ones(count), alike, adjust=times * error)
    both = 1.0 * error
    found["merged, less 1 error, cap, tenth"] = merged, Weights(np.full(count, max(0.5, 1 / count)), alike, 0.1, both)
    return found


# Tables.


Draw = Callable[[np.random.Generator], tuple[Rows, Rows, int]]


def halves(X: Array, y: Array, group: Array) -> Draw:
    """Half of the rows of a table for training, and the others; standardized by the former."""
    names, number = np.unique(group, return_inverse=True)

    def draw(rng: np.random.Generator) -> tuple[Rows, Rows, int]:
        order = rng.permutation(len(y))
        train, test = order[: len(y) // 2], order[len(y) // 2 :]
        mean, spread = X[train].mean(axis=0), X[train].std(axis=0)
        Z = np.column_stack([np.ones(len(y)), (X - mean) / np.where(spread > 0, spread, 1.0)])
        return Rows(Z[train], y[train], number[train]), Rows(Z[test], y[test], number[test]), len(names)

    return draw


def survey(districts: int, smallest: float, largest: float, shift: float, turn: float, seed: int) -> Draw:
    """Districts of very different sizes with levels and slopes of their own; some have a handful of one outcome."""
    made = np.random.default_rng(seed)
    sizes = np.round(np.exp(made.uniform(np.log(smallest), np.log(largest), districts))).astype(int)
    level, slopes = shift * made.normal(size=districts), turn * made.normal(size=(districts, 6))
    common = made.normal(size=6) * 0.7

    def rows(rng: np.random.Generator, counts: Array) -> Rows:
        group = np.repeat(np.arange(districts), counts)
        X = rng.normal(size=(len(group), 6))
        score = np.einsum("nd,nd->n", X, common + slopes[group]) + level[group] - 0.8
        y = np.where(rng.random(len(group)) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
        return Rows(np.column_stack([np.ones(len(y)), X]), y, group)

    return lambda rng: (rows(rng, sizes), rows(rng, np.full(districts, 400)), districts)


def numbers(path: str, target: str, group: str) -> Draw:
    """A file: numbers as they are, holes as means, words as columns."""
    table = dict(fx.data.read_csv(path))
    columns = []
    for name, column in table.items():
        if name in (target, group, "fold", "pid", "T"):
            continue
        if column.dtype.kind in "iuf":
            there = column[np.isfinite(column.astype(float))].astype(float)
            columns.append(np.nan_to_num(column.astype(float), nan=there.mean()))
        elif len(np.unique(column)) < 12:
            columns += [(column == word).astype(float) for word in np.unique(column)[1:]]
    outcome = table[target]
    return halves(
        np.stack(columns, axis=1), np.where(outcome == np.unique(outcome)[-1], 1.0, -1.0), table[group].astype(str)
    )


def tables() -> dict[str, Draw]:
    """Those that there are."""
    X, label = fx.data.bundled("breast_cancer")
    area = np.digitize(X[:, 3], np.quantile(X[:, 3], [0.2, 0.4, 0.6, 0.8]))
    D, days = fx.data.bundled("diabetes")
    parts = np.digitize(D[:, 0], np.quantile(D[:, 0], [1 / 3, 2 / 3])) * 2 + (D[:, 1] > 0)
    found = {
        "breast cancer, 5 areas": halves(np.delete(X, 3, axis=1), np.where(label == 1, 1.0, -1.0), area),
        "diabetes, 6 of age and sex": halves(D, np.where(days > np.median(days), 1.0, -1.0), parts),
        "survey, 60 districts of 3 to 200": survey(60, 3, 200, 0.7, 0.3, 1),
        "survey, 20 districts of 30 to 300": survey(20, 30, 300, 1.0, 0.6, 2),
    }
    for name, target, group in (("HEART", "disease", "center"), ("TCGA", "E", "region")):
        if name in os.environ:
            found[f"{name.lower()}, by {group}"] = numbers(os.environ[name], target, group)
    return found


def main(splits: int) -> None:
    """All sets on all tables."""
    below: dict[str, int] = {}
    for name, draw in tables().items():
        worst: dict[str, list[float]] = {}
        for split in range(splits):
            train, test, groups = draw(np.random.default_rng(split))
            # Groups of a handful of held-out rows cannot be measured; they are one.
            own, count = merge(test.group, groups, 10)
            for choice, (rows, weights) in choices(train, groups).items():
                loss = by_group(losses_of(fit(rows, weights), test), own, count)
                worst.setdefault(choice, []).append(float(loss.max()))
        print(f"\n{name}\n| weights | worst group, held out | less the ordinary | error of that |\n|---|---|---|---|")
        base = np.array(worst["ordinary"])
        for choice, values in worst.items():
            apart = np.array(values) - base
            error = apart.std(ddof=1) / np.sqrt(splits)
            below[choice] = below.get(choice, 0) + int(apart.mean() < 0)
            print(f"| {choice} | {np.mean(values):.3f} | {apart.mean():+.3f} | {error:.3f} |", flush=True)
    print("\nTables on which the worst group is served better than by the ordinary model:")
    for choice, count in below.items():
        print(f"| {choice} | {count} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)

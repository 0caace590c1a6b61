"""How often the intervals of effects hold the truth, in simulated tables.

    python benchmarks/coverage.py [tables]

A cell is a family, a number of rows, a size of effects, and where Newton's method starts: at 0, or at the l1-penalized
model whose penalty scored best on a held-out fifth. Eight columns are equally correlated (0.5); three sites have a
third of the rows each. Counted are the intervals at 95% of all eight effects, in `tables` tables a cell (500); one
Newton step from the same start, the usual debiasing, is shown beside the optimum. The last cells break the rule of ten
events for each parameter on purpose. Results are kept in benchmarks/results/coverage.json, and a table is printed.
"""

import json
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Lasso, LogisticRegression

from fedualex.inference.newton import Estimate, Outcome, estimate
from fedualex.inference.sums import Design, add_up, from_triangle, summarize_effects
from fedualex.problems.families import FAMILIES

RESULTS = Path(__file__).parent / "results" / "coverage.json"
TABLES, SITES, CORRELATION, QUANTILE = 500, 3, 0.5, 1.959963984540054
SHAPE = np.array([1.0, -1.0, 0.5, 0.0, 0.0, 0.0, 0.25, -0.5])
SIZES = {"weak": 0.3, "strong": 1.5}
PENALTIES = np.geomspace(0.3, 0.001, 8)


class Cell(NamedTuple):
    """One setting. start: "0" or "penalized". own: whether sites have intercepts of their own, which differ then."""

    family: str
    rows: int
    effects: str
    start: str
    own: bool = False
    refused: bool = False


class Drawn(NamedTuple):
    """A table: the rows of all sites, whose they are, and the truth."""

    design: Design
    sites: NDArray[Any]
    truth: NDArray[Any]


def draw(cell: Cell, number: int) -> Drawn:
    """The table of this number."""
    chosen = [cell.family == "logistic", cell.effects == "strong", cell.start == "penalized", cell.own]
    rng = np.random.default_rng([number, cell.rows, *chosen])
    common = rng.normal(size=(cell.rows, 1))
    X = np.sqrt(CORRELATION) * common + np.sqrt(1 - CORRELATION) * rng.normal(size=(cell.rows, len(SHAPE)))
    sites, truth = rng.integers(0, SITES, cell.rows), SIZES[cell.effects] * SHAPE
    score = X @ truth - 0.5 + (np.array([-0.7, 0.0, 0.7])[sites] if cell.own else 0.0)
    if cell.family == "logistic":
        target = np.where(rng.random(cell.rows) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
    else:
        target = score + rng.normal(size=cell.rows)
    return Drawn(Design(X, target, np.ones(cell.rows)), sites, truth)


def penalized(family: str, X: NDArray[Any], target: NDArray[Any]) -> NDArray[Any]:
    """Intercept and weights of the l1-penalized model whose penalty is best on the last fifth of the rows."""
    cut = 4 * len(X) // 5

    def fitted(l1: float, rows: int) -> NDArray[Any]:
        if family == "logistic":
            model = LogisticRegression(l1_ratio=1.0, C=1 / (l1 * rows), solver="liblinear", intercept_scaling=100.0)
        else:
            model = Lasso(alpha=l1)
        model.fit(X[:rows], target[:rows])
        return np.concatenate([np.ravel(model.intercept_), np.ravel(model.coef_)])

    def loss(w: NDArray[Any]) -> float:
        return float(np.mean(FAMILIES[family]().loss(X[cut:] @ w[1:] + w[0], target[cut:])))

    best = min(PENALTIES, key=lambda l1: loss(fitted(l1, cut)))
    return fitted(best, len(X))


def intervals_hold(truth: NDArray[Any], values: NDArray[Any], covariance: NDArray[Any]) -> NDArray[np.bool_]:
    """Of each effect, without the intercept."""
    size = len(truth)
    return np.abs(values[-size:] - truth) <= QUANTILE * np.sqrt(np.diag(covariance)[-size:])


def one_table(cell: Cell, number: int) -> dict[str, Any]:
    """What became of one table: the outcome, and by kind of interval whether it holds the truth."""
    drawn, family = draw(cell, number), FAMILIES[cell.family]()
    parts = [Design(*(part[drawn.sites == m] for part in drawn.design)) for m in range(SITES)]
    start = np.zeros(len(SHAPE) + 1)
    if cell.start == "penalized":
        start = penalized(cell.family, drawn.design.rows, drawn.design.target)
    start = start[1:] if cell.own else start

    def ask(beta: NDArray[Any], meat: bool) -> Any:
        return add_up([summarize_effects(family, part, beta, cell.own, meat=meat) for part in parts])

    exact = family.exact_second
    names = [str(j) for j in range(start.size)]
    least = 0 if cell.refused else 10
    found = estimate(ask, start, names=names, exact=exact, self_concordant=not exact, least_events=least)
    if found.outcome is not Outcome.DONE:
        return {"outcome": found.outcome.name}
    return {"outcome": "DONE", "exchanges": found.exchanges} | _held(found, drawn.truth, one_step(ask, start, found))


def one_step(ask: Any, start: NDArray[Any], found: Estimate) -> tuple[NDArray[Any], NDArray[Any]]:
    """The start moved by one Newton step, and the covariance that its own curvature gives."""
    sums = ask(start, False)
    inverse = np.linalg.inv(from_triangle(sums["second"]))
    moved = start - inverse @ sums["slope"]
    degrees = found.degrees
    return moved, inverse if degrees is None else inverse * 2 * float(ask(moved, False)["value"]) / degrees


def _held(found: Estimate, truth: NDArray[Any], step: tuple[NDArray[Any], NDArray[Any]]) -> dict[str, Any]:
    assert found.model_based is not None
    assert found.sandwich is not None
    kinds = {"model-based": (found.beta, found.model_based), "sandwich": (found.beta, found.sandwich), "one step": step}
    return {name: intervals_hold(truth, *kind) for name, kind in kinds.items()}


def cells() -> list[Cell]:
    """All settings, those that the rule of ten refuses last."""
    usual = [
        Cell(family, rows, effects, start)
        for family in ("logistic", "squared")
        for rows in (500, 5000)
        for effects in SIZES
        for start in ("0", "penalized")
    ]
    own = [Cell("logistic", rows, effects, "0", own=True) for rows in (500, 5000) for effects in SIZES]
    return [*usual, *own, *(Cell("logistic", rows, "strong", "0", refused=True) for rows in (60, 100, 200))]


def run_cell(cell: Cell, tables: int) -> dict[str, Any]:
    """Shares of intervals that hold the truth: of all effects, and the least and largest of one effect."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn: a start need not be converged
        seen = [one_table(cell, number) for number in range(tables)]
    done = [one for one in seen if one["outcome"] == "DONE"]
    outcomes = {name: sum(one["outcome"] == name for one in seen) for name in {one["outcome"] for one in seen}}
    result: dict[str, Any] = {**cell._asdict(), "tables": tables, "outcomes": outcomes}
    if done:
        result["exchanges"] = float(np.mean([one["exchanges"] for one in done]))
    for kind in ("model-based", "sandwich", "one step") if done else ():
        held = np.mean([one[kind] for one in done], axis=0)
        result[kind] = [float(held.mean()), float(held.min()), float(held.max())]
    return result


def row_of(result: dict[str, Any]) -> str:
    """A line of the table."""
    where = [result["family"] + (", own intercepts" if result["own"] else ""), result["rows"], result["effects"]]
    where += [result["start"], result["outcomes"].get("DONE", 0), f"{result.get('exchanges', np.nan):.1f}"]
    for kind in ("model-based", "sandwich", "one step"):
        mean, least, largest = (100 * share for share in result.get(kind, [np.nan] * 3))
        where.append(f"{mean:.1f} ({least:.1f} to {largest:.1f})")
    return "| " + " | ".join(map(str, where)) + " |"


def main(tables: int) -> None:
    """All cells; results are written after each."""
    results = []
    print("| family | rows | effects | start | done | exchanges | model-based | sandwich | one step |", flush=True)
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for cell in cells():
        results.append(run_cell(cell, tables))
        print(row_of(results[-1]), flush=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TABLES)

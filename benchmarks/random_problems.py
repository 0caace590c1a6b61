"""Exchanges of FeDualNewton on random problems made to be difficult, and its certificates beside an outside solver.

    python benchmarks/random_problems.py [NUMBER ...]

Problem k is drawn by its number alone. Rows have scales of 1e-6 to 1e6 (one for all columns, or one for each),
duplicates, labels that a plane separates, clients of one row, and 1 to 50 clients. The objective of a model is computed
once more in plain numpy, and a second model comes from Clarabel by cvxpy: a certified gap is wrong if it is below the
difference of the two. Results are kept in benchmarks/results/random_problems.json, and a table is printed. Without
numbers, those of the 200 problems are measured that are missing there.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np

import fedualex as fx

RESULTS = Path(__file__).parent / "results" / "random_problems.json"
COUNT, WITHIN, TARGET = 200, 25, 1e-6
P = fx.problems


@dataclass(frozen=True)
class Objective:
    """The objective of a model in words that numpy and cvxpy both understand.

    shares: a row for each group, by which its mean loss follows from those of the rows. over: how groups' losses become
    one number: "sum", "worst", "kl", "cvar" or "limits", with its number or numbers.
    """

    X: Any
    target: Any
    loss: str
    shares: Any
    over: str = "sum"
    number: Any = None
    delta: float = 1.0
    penalty: dict[str, Any] = field(default_factory=dict)

    def value(self, w: Any, b: Any) -> float:
        """In numpy."""
        groups = self.shares @ self._row_losses(self.X @ w + b)
        return self._over(groups) + self._penalty(w)

    def _row_losses(self, s: Any) -> Any:
        if self.loss == "logistic":
            return np.logaddexp(0, -self.target * s)
        if self.loss == "multiclass":
            top = s.max(axis=1)
            return np.log(np.exp(s - top[:, None]).sum(axis=1)) + top - s[np.arange(len(s)), self.target]
        u = np.abs(s - self.target)
        if self.loss == "huber":
            return np.where(u <= self.delta, u**2 / 2, self.delta * u - self.delta**2 / 2)
        return u**2 / 2 if u.ndim == 1 else (u**2).sum(axis=1) / 2

    def _over(self, groups: Any) -> float:
        if self.over == "sum":
            return float(groups[0])
        if self.over == "worst":
            return float(groups.max())
        if self.over == "kl":
            top = groups.max()
            return float(top + self.number * np.log(np.mean(np.exp((groups - top) / self.number))))
        if self.over == "cvar":
            left, total, cap = 1.0, 0.0, 1 / (self.number * len(groups))
            for loss in np.sort(groups)[::-1]:
                total, left = total + min(cap, left) * loss, left - min(cap, left)
            return float(total)
        limit, bound = self.number
        return float(groups[0] + np.maximum(groups[1:] - limit, 0) @ bound)

    def _penalty(self, w: Any) -> float:
        p = self.penalty
        total = p.get("l1", 0) * np.abs(w).sum() + p.get("l2", 0) / 2 * (w**2).sum()
        if "group" in p:
            parts = [w[p["groups"] == g] for g in np.unique(p["groups"])]
            total += p["group"] * sum(np.sqrt(part.size) * np.linalg.norm(part) for part in parts)
        return float(total + (p["nuclear"] * np.linalg.norm(w, "nuc") if "nuclear" in p else 0.0))

    def outside(self) -> float:
        """The value, in numpy, of the model that Clarabel finds; columns are scaled for it. Infinite if it fails."""
        size = np.abs(self.X).max(axis=0)
        size = np.where(size > 0, size, 1.0)
        width = {"multiclass": int(np.max(self.target)) + 1}.get(self.loss, 0) or (
            self.target.shape[1] if self.target.ndim > 1 else 0
        )
        d = self.X.shape[1]
        v, b = cp.Variable((d, width) if width else d), cp.Variable(width or 1)
        w = cp.multiply(1 / size[:, None] if width else 1 / size, v)
        scores = (self.X / size) @ v + (np.ones((len(self.X), 1)) @ b[None, :] if width else b[0])
        total = self._in_cvxpy(self.shares @ self._row_terms(scores)) + self._penalty_terms(w)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                cp.Problem(cp.Minimize(total)).solve(solver=cp.CLARABEL)
            except cp.SolverError:
                return float("inf")
        return float("inf") if v.value is None else self.value(w.value, b.value if width else b.value[0])

    def _row_terms(self, s: Any) -> Any:
        if self.loss == "logistic":
            return cp.logistic(cp.multiply(-self.target, s))
        if self.loss == "multiclass":
            own = np.eye(s.shape[1])[self.target]
            return cp.log_sum_exp(s, axis=1) - cp.sum(cp.multiply(own, s), axis=1)
        if self.loss == "huber":
            return cp.huber(s - self.target, self.delta) / 2
        squares = cp.square(s - self.target) / 2
        return squares if self.target.ndim == 1 else cp.sum(squares, axis=1)

    def _in_cvxpy(self, groups: Any) -> Any:
        if self.over == "sum":
            return groups[0]
        if self.over == "worst":
            return cp.max(groups)
        if self.over == "kl":
            return self.number * (cp.log_sum_exp(groups / self.number) - np.log(groups.size))
        if self.over == "cvar":
            level, cap = cp.Variable(), 1 / (self.number * groups.size)
            return level + cap * cp.sum(cp.pos(groups - level))
        limit, bound = self.number
        return groups[0] + bound @ cp.pos(groups[1:] - limit)

    def _penalty_terms(self, w: Any) -> Any:
        p = self.penalty
        total = p.get("l1", 0) * cp.sum(cp.abs(w)) + p.get("l2", 0) / 2 * cp.sum_squares(w)
        if "group" in p:
            parts = [np.flatnonzero(p["groups"] == g) for g in np.unique(p["groups"])]
            total += p["group"] * sum(np.sqrt(part.size) * cp.norm(w[part]) for part in parts)
        return total + (p["nuclear"] * cp.normNuc(w) if "nuclear" in p else 0)


@dataclass(frozen=True)
class Table:
    """Rows of one scale or several, with duplicates, tiny clients, and targets of each kind."""

    X: Any
    score: Any
    owner: Any
    about: str

    @property
    def two(self) -> Any:
        """Classes -1 and 1."""
        return np.where(self.score > np.median(self.score), 1, -1)

    @property
    def slope(self) -> float:
        """What an l1 penalty above which all weights vanish is near to, on the geometric mean of the columns."""
        return float(np.exp(np.mean(np.log(np.abs(self.X - self.X.mean(0)).mean(axis=0) + 1e-300))) / 2)


def draw_table(rng: np.random.Generator) -> Table:
    """Rows."""
    n, d = int(rng.integers(12, 300)), int(rng.integers(2, 13))
    X = rng.normal(size=(n, d)) @ (np.eye(d) + rng.uniform(0, 0.5) * rng.normal(size=(d, d)))
    separable = rng.random() < 0.3
    score = X @ rng.normal(size=d) + (0 if separable else 1) * rng.normal(size=n) * np.sqrt(d)
    kind = rng.choice(["plain", "one scale", "scale of each column", "duplicate columns", "duplicate rows", "offset"])
    if kind == "one scale":
        X = X * 10.0 ** rng.uniform(-6, 6)
    elif kind == "scale of each column":
        X = X * 10.0 ** rng.uniform(-6, 6, d)
    elif kind == "duplicate columns":
        X = np.hstack([X, X[:, : max(1, d // 2)]])
    elif kind == "duplicate rows":
        again = rng.integers(0, n, n)
        X, score = X[again], score[again]
    elif kind == "offset":
        X = X + 10.0 ** rng.uniform(0, 2, d)
    clients = int(min(rng.integers(1, 51), n))
    sizes = np.sort(rng.choice(n - 1, clients - 1, replace=False)) + 1 if clients > 1 else []
    owner = np.searchsorted(np.asarray(sizes, int), np.arange(n), side="right")
    about = f"{kind}{', separable' * separable}, {n} x {X.shape[1]}, {clients} clients"
    return Table(X, score / np.std(score), owner, about)


def mean_of(owner: Any) -> Any:
    """A row for each group, by which its mean follows."""
    return np.stack([(owner == m) / np.sum(owner == m) for m in np.unique(owner)])


Drawn = tuple[Any, Objective]


def draw_glm(rng: np.random.Generator, table: Table, loss: str, group: bool = False) -> Drawn:
    """A sum over all rows."""
    X, lam = table.X, table.slope * 10.0 ** rng.uniform(-4, -1)
    target: Any = {"logistic": table.two, "multiclass": np.digitize(table.score, [-0.5, 0.5])}.get(loss, table.score)
    target = np.unique(target, return_inverse=True)[1] if loss == "multiclass" else target
    penalty: dict[str, Any] = {"l1": lam} if rng.random() < 0.6 else {"l1": lam, "l2": lam}
    if group:
        penalty = {"group": lam, "groups": np.arange(X.shape[1]) // 2}
    name = "logistic" if loss == "multiclass" else loss
    made = P.sparse_glm(name, X, target, table.owner, **penalty)
    shares = np.full((1, len(X)), 1 / len(X))
    return made, Objective(X, target, loss, shares, penalty=penalty)


def draw_low_rank(rng: np.random.Generator, table: Table) -> Drawn:
    """Three targets."""
    noise = rng.normal(size=(2, len(table.score)))
    Y = np.stack([table.score, 0.1 * noise[0] - table.score, noise[1]], axis=1)
    lam = table.slope * 10.0 ** rng.uniform(-3, -1)
    shares = np.full((1, len(Y)), 1 / len(Y))
    return P.low_rank(table.X, Y, table.owner, nuclear=lam), Objective(
        table.X, Y, "squared", shares, penalty={"nuclear": lam}
    )


def draw_agnostic(rng: np.random.Generator, table: Table, loss: str, over: str = "worst") -> Drawn:
    """The client that is served worst, or a mean over the bad ones; at most ten groups of rows, spread over clients."""
    groups = np.arange(len(table.X)) % int(rng.integers(2, 11))
    lam = table.slope * 10.0 ** rng.uniform(-4, -1)
    number = {"kl": 10.0 ** rng.uniform(-2, 0), "cvar": rng.uniform(0.2, 0.9)}.get(over)
    options: dict[str, Any] = {over: number} if number else {}
    target = (
        np.unique(np.digitize(table.score, [-0.5, 0.5]), return_inverse=True)[1]
        if loss == "multiclass"
        else (table.two if loss == "logistic" else table.score)
    )
    made = P.agnostic(table.X, target, table.owner, groups=groups, loss=loss, delta=0.5, l1=lam, **options)
    return made, Objective(table.X, target, loss, mean_of(groups), over, number, 0.5, {"l1": lam})


def draw_limits(rng: np.random.Generator, table: Table, classes: bool) -> Drawn:
    """One class, or three groups of rows, with a limit."""
    groups = table.two if classes else np.arange(len(table.X)) % 3
    limit, bound = rng.uniform(0.2, 0.6), 10.0 ** rng.uniform(0, 1.5)
    lam = table.slope * 10.0 ** rng.uniform(-4, -1)
    limited = [1] if classes else [0, 1]
    options: dict[str, Any] = {"limits": dict.fromkeys(limited, limit), "multiplier": bound, "l1": lam}
    made = P.constrained(table.X, table.two, table.owner, groups=groups, **options)
    rest = ~np.isin(groups, limited)
    shares = np.stack([rest / rest.sum(), *((groups == g) / np.sum(groups == g) for g in limited)])
    number = np.full(len(limited), limit), np.full(len(limited), bound)
    return made, Objective(table.X, table.two, "logistic", shares, "limits", number, penalty={"l1": lam})


KINDS: dict[str, Callable[[np.random.Generator, Table], Drawn]] = {
    "logistic": lambda rng, table: draw_glm(rng, table, "logistic"),
    "logistic, groups": lambda rng, table: draw_glm(rng, table, "logistic", group=True),
    "softmax": lambda rng, table: draw_glm(rng, table, "multiclass"),
    "squared": lambda rng, table: draw_glm(rng, table, "squared"),
    "huber": lambda rng, table: draw_glm(rng, table, "huber"),
    "low rank": draw_low_rank,
    "worst logistic": lambda rng, table: draw_agnostic(rng, table, "logistic"),
    "worst softmax": lambda rng, table: draw_agnostic(rng, table, "multiclass"),
    "worst squared": lambda rng, table: draw_agnostic(rng, table, "squared"),
    "worst huber": lambda rng, table: draw_agnostic(rng, table, "huber"),
    "kl logistic": lambda rng, table: draw_agnostic(rng, table, "logistic", "kl"),
    "cvar logistic": lambda rng, table: draw_agnostic(rng, table, "logistic", "cvar"),
    "limits": lambda rng, table: draw_limits(rng, table, classes=False),
    "Neyman-Pearson": lambda rng, table: draw_limits(rng, table, classes=True),
}


def drawn(number: int) -> tuple[str, str, Any, Objective]:
    """Problem number `number`: its kind, its table in words, itself, and its objective."""
    rng = np.random.default_rng(number)
    kind, table = list(KINDS)[number % len(KINDS)], draw_table(rng)
    return kind, table.about, *KINDS[kind](rng, table)


def measured(number: int) -> dict[str, Any]:
    """A run to the target, of WITHIN exchanges at most, and what is known of its objective elsewhere."""
    kind, about, problem, objective = drawn(number)
    method = fx.FeDualNewton()
    options: dict[str, Any] = {"record_every": 1, "output": "bounds"}
    first = float(fx.solve(problem, method, rounds=1, tol=None, **options).history["gap_bounds"][0])
    run = fx.solve(problem, method, rounds=WITHIN, tol=TARGET * first, **options)
    gaps = np.array([np.inf if gap is None else gap for gap in run.history["gap_bounds"]], float)
    output, server = run.outputs["bounds"], run.state.server
    x = output.z.x
    own, outside = objective.value(np.asarray(x["weights"]), np.asarray(x["bias"])), objective.outside()
    rounding = float(output.certificate.rounding)
    return {
        "kind": kind,
        "about": about,
        "first": first,
        "exchanges": _reached(gaps, TARGET * first),
        "with_allowance": _reached(gaps, TARGET * first + rounding),
        "last": float(gaps[-1]),
        "rounding": rounding,
        "stop": f"{run.stop.name}, {output.status.name}",
        "upper": float(server.bounds.upper.bound),
        "lower": float(server.bounds.lower.bound),
        "own": own,
        "outside": outside if np.isfinite(outside) else None,
        "gap": float(output.gap),
    }


def _reached(gaps: Any, level: float) -> int | None:
    there = np.flatnonzero(gaps <= level)
    return int(there[0]) + 1 if len(there) else None


def is_wrong(row: dict[str, Any]) -> bool:
    """Whether the certified gap is below what it must be above, or the upper bound below the objective."""
    best = min(row["own"], row["outside"] if row["outside"] is not None else np.inf)
    slack = 1e-12 * (abs(row["own"]) + row["first"]) + row["rounding"]
    return row["own"] - best > row["gap"] + slack or row["own"] > row["upper"] + slack


def show(rows: dict[str, Any]) -> None:
    """Counts for each kind, and what was missed."""
    print("| kind | problems | 1e-6 within 25 | and the allowance | median exchanges | most | wrong certificates |")
    print("|---|---|---|---|---|---|---|")
    kinds: dict[str, list[Any]] = {}
    for row in rows.values():
        kinds.setdefault(row["kind"], []).append(row)
    for kind, own in [*sorted(kinds.items()), ("all", list(rows.values()))]:
        counts = [sum((row[key] or 1000) <= WITHIN for row in own) for key in ("exchanges", "with_allowance")]
        spent = sorted(row["with_allowance"] or WITHIN + 1 for row in own)
        most = spent[-1] if spent[-1] <= WITHIN else f"> {WITHIN}"
        wrong = sum(map(is_wrong, own))
        print(f"| {kind} | {len(own)} | {counts[0]} | {counts[1]} | {spent[len(spent) // 2]} | {most} | {wrong} |")
    for number, row in rows.items():
        if (row["with_allowance"] or 1000) > WITHIN or is_wrong(row):
            print(
                f"{number}: {row['kind']}, {row['about']}: first {row['first']:.2g}, last {row['last']:.2g}, "
                f"rounding {row['rounding']:.1g}, exchanges {row['with_allowance']}, {row['stop']}"
                f"{', WRONG' * is_wrong(row)}"
            )


def main(*numbers: int) -> None:
    """Measure, write as it goes, and show."""
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for number in numbers or [number for number in range(COUNT) if str(number) not in rows]:
        began = time.perf_counter()
        row = measured(number)
        rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        rows[str(number)] = row
        RESULTS.write_text(json.dumps(dict(sorted(rows.items(), key=lambda item: int(item[0]))), indent=1) + "\n")
        seconds = time.perf_counter() - began
        print(f"{number} {row['kind']}: {row['with_allowance']}, {seconds:.1f} s", file=sys.stderr, flush=True)
    show(rows)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

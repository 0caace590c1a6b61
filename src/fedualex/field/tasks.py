"""What is compared on what: the problems of the field, its methods, and those that a file adds."""

import csv
import runpy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import algorithms as methods, problems
from ..algorithms import Method
from ..arrays import Reals, Values
from ..data import bundled, iid
from ..problems import AbstractProblem, GaussianNoise, Minibatch
from ..regularizers import L1, Box, SquaredL2
from ..tree import Saddle
from ..validation import of_type


@dataclass(frozen=True)
class Task:
    """A problem with what its runs share."""

    make: Callable[[], AbstractProblem]
    clients: int | None = None
    """Of a problem whose clients share one operator."""
    noise: Any = None
    cohort: int | None = None
    quick: bool = False
    """Whether it is small enough for `--quick`."""


@dataclass(frozen=True)
class Entrant:
    """A method, and what is tried for it: step sizes that it was built without, and these numbers of local steps."""

    method: Method
    local_steps: tuple[int, ...] = (1,)
    operators: int | None = None
    """At most so many operators of a client an exchange, of a method that decides on its exchanges; None: counted."""
    other: dict[str, Any] = field(default_factory=dict)
    """Options of its runs, such as `output`."""


def standardize(X: Reals) -> Reals:
    """Columns of mean 0 and deviation 1; constant ones are 0."""
    deviation = X.std(axis=0)
    return np.asarray((X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))


def table(name: str) -> tuple[Any, Values]:
    """A bundled table, its columns scaled, numbers to predict too."""
    X, y = bundled(name)
    return standardize(X), standardize(y[:, None])[:, 0] if name == "diabetes" else y


def by_range(column: Values, clients: int) -> Reals:
    """A client for each part of a column's range: clients that differ."""
    return np.asarray(np.argsort(np.argsort(column, kind="stable")) * clients // len(column))


def sparse(family: str, name: str, clients: int = 5, **penalty: Any) -> AbstractProblem:
    """A sparse model of a bundled table, whose clients differ in its first column."""
    X, y = table(name)
    return problems.sparse_glm(family, X, y, by_range(X[:, 0], clients), **penalty)


def worst(name: str, clients: int = 5, **options: Any) -> AbstractProblem:
    """The client that is served worst; clients by the first column, of digits by the digit."""
    X, y = table(name)
    return problems.agnostic(X, y, y if name == "digits" else by_range(X[:, 0], clients), **options)


def neyman_pearson() -> AbstractProblem:
    """Neyman-Pearson: the loss of one class is at most .05."""
    X, y = table("breast_cancer")
    return problems.constrained(X, y, iid(len(y), 5), groups="classes", limits={0: 0.05}, l1=0.001)


def ranking() -> AbstractProblem:
    """Pairs of rows of breast cancer."""
    X, y = table("breast_cancer")
    return problems.auc(X, y, iid(len(y), 5), l1=0.001, l2=0.01)


def low_rank() -> AbstractProblem:
    """Four columns of diabetes from the others."""
    X, _ = table("diabetes")
    return problems.low_rank(X[:, :6], X[:, 6:], iid(len(X), 5), nuclear=0.05)


def _payoff(x: Any, y: Any, game: Any) -> Any:
    own, shared, a, b = game
    return x @ (own + shared) @ y + a @ x - b @ y + 0.05 * (x @ x - y @ y)


def similar_games(similarity: float, clients: int = 8, size: int = 12) -> AbstractProblem:
    """Quadratic games whose operators differ from their mean by at most `similarity` in the spectral norm."""
    rng = np.random.default_rng(0)
    shared, own = rng.normal(size=(size, size)), rng.normal(size=(clients, size, size))
    own -= own.mean(axis=0)
    own *= similarity / max(np.linalg.norm(one, 2) for one in own)
    a, b = rng.normal(size=(2, 1, size))
    data = [(one[None], shared[None], a, b) for one in own]
    psi = L1(0.05) + SquaredL2(0.05) + Box(1.0)
    return problems.Problem(_payoff, x=psi, y=psi, like=Saddle(np.zeros(size), np.zeros(size)), data=data)


def read_columns(path: Path) -> dict[str, Reals]:
    """The columns of a CSV file, as text."""
    names, *rows = csv.reader(path.read_text().splitlines())
    return {name: np.array([row[index] for row in rows]) for index, name in enumerate(names)}


def numbers(columns: dict[str, Reals], *others: str) -> Reals:
    """All columns but these as numbers, a column each; holes are nan."""
    kept = [column for name, column in columns.items() if name not in others]
    return np.stack([np.where(column == "", "nan", column).astype(float) for column in kept], axis=1)


def heart(path: Path) -> AbstractProblem:
    """Heart disease in four centers, the worst center: columns with holes are left out, as are rows with holes."""
    columns = read_columns(path)
    X = numbers(columns, "center", "disease")
    X = X[:, np.isnan(X).mean(axis=0) < 0.1]
    whole = ~np.isnan(X).any(axis=1)
    return problems.agnostic(standardize(X[whole]), columns["disease"][whole], columns["center"][whole], l1=0.001)


def breast_cancer_times(path: Path) -> AbstractProblem:
    """TCGA-BRCA as FLamby splits it: Cox's regression on the rows for training, a stratum for each region."""
    columns = read_columns(path)
    columns = {name: column[columns["fold"] == "train"] for name, column in columns.items()}
    time, event = (columns[name].astype(float) for name in "TE")
    X = numbers(columns, "pid", "E", "T", "region", "fold")
    return problems.cox(standardize(X), time, event, columns["region"], l2=0.01)


FIELD: dict[str, Task] = {
    "game, l1": Task(problems.paper_l1, clients=10, noise=GaussianNoise(0.1)),
    "game, nuclear norm": Task(problems.paper_nuclear, clients=10, noise=GaussianNoise(0.1)),
    "games, similar (delta .1)": Task(lambda: similar_games(0.1), quick=True),
    "games, different (delta 3)": Task(lambda: similar_games(3.0), quick=True),
    "logistic, breast cancer": Task(lambda: sparse("logistic", "breast_cancer", l1=0.001), quick=True),
    "logistic, breast cancer, minibatches": Task(
        lambda: sparse("logistic", "breast_cancer", l1=0.001), noise=Minibatch(16)
    ),
    "logistic, breast cancer, cohorts": Task(lambda: sparse("logistic", "breast_cancer", 10, l1=0.001), cohort=4),
    "lasso, diabetes": Task(lambda: sparse("squared", "diabetes", l1=0.01)),
    "worst client, breast cancer": Task(lambda: worst("breast_cancer", l1=0.001), quick=True),
    "worst client, digits": Task(lambda: worst("digits", l1=0.001)),
    "Neyman-Pearson, breast cancer": Task(neyman_pearson),
    "ranking, breast cancer": Task(ranking),
    "low rank, diabetes": Task(low_rank),
}
"""The problems by name; those of --quick are marked."""

LOCAL = (1, 10)
METHODS: dict[str, Entrant] = {
    "FeDualEx": Entrant(methods.FeDualEx(), LOCAL),
    "FeDualExCorrected": Entrant(methods.FeDualExCorrected(recenter=True), LOCAL),
    "FeDualSlide": Entrant(methods.FeDualSlide(mode="survey"), operators=1),
    "FeDualNewton": Entrant(methods.FeDualNewton(), operators=3),
    "ProxNewton": Entrant(methods.ProxNewton(), operators=1),
    "FedDualAvg": Entrant(methods.FedDualAvg(), LOCAL),
    "FedMiP": Entrant(methods.FedMiP(server_prox="none"), LOCAL),
    "FedAvgS": Entrant(methods.FedAvgS(), LOCAL),
    "LocalSGDA": Entrant(methods.LocalSGDA(), LOCAL),
    "ExtraStepLocalSGD": Entrant(methods.ExtraStepLocalSGD(), LOCAL),
    "ScaffoldS": Entrant(methods.ScaffoldS(), LOCAL),
    "ProxSkipVIP": Entrant(methods.ProxSkipVIP(), LOCAL),
    "FedGDAGT": Entrant(methods.FedGDAGT(), LOCAL),
    "DRFA": Entrant(methods.DRFA(), LOCAL),
    "ScaffPD": Entrant(methods.ScaffPD(), LOCAL),
    "SDANE": Entrant(methods.SDANE(), (3, 10)),
    "LeadSliding": Entrant(methods.LeadSliding(), (5, 20)),
}
"""The methods by label, with the numbers of local steps that are tried."""


def read_additions(path: Path) -> tuple[dict[str, Task], dict[str, Entrant]]:
    """PROBLEMS and METHODS of a Python file of one's own, which is run: {name: Task or problem}, {label: method}."""
    names = runpy.run_path(str(path))
    if not {"PROBLEMS", "METHODS"} & set(names):
        raise ValueError(f"{path} defines neither PROBLEMS = {{name: problem}} nor METHODS = {{label: method}}")
    return as_tasks(names.get("PROBLEMS", {})), as_entrants(names.get("METHODS", {}))


def as_tasks(given: Any) -> dict[str, Task]:
    """Problems by name, each with what its runs share."""
    given = of_type("problems", given, Mapping, "problems by name")
    return {name: one if isinstance(one, Task) else Task(partial(_itself, one)) for name, one in given.items()}


def _itself(problem: AbstractProblem) -> AbstractProblem:
    return problem


def as_entrants(given: Any) -> dict[str, Entrant]:
    """Methods by label, each with what is tried for it."""
    given = of_type("methods", given, Mapping, "methods by label")
    entrants = {}
    for label, one in given.items():
        method = one.method if isinstance(one, Entrant) else one
        of_type(f"methods[{label!r}]", method, Method, "a method such as fx.FeDualEx(), or an Entrant")
        entrants[label] = one if isinstance(one, Entrant) else Entrant(method)
    return entrants

"""Every goal on every bundled table that it fits, as `fedualex fit` does it: exchanges until the default tolerance.

    python benchmarks/fits.py

Five clients at random, all rows, penalties l1 = 0.01 (nuclear = 0.01 for low-rank), nothing else chosen.
"""

import tempfile
from pathlib import Path
from typing import Any

from fedualex.tables.fit import fit_into, plan_fit

TABLES: dict[str, dict[str, list[str]]] = {
    "breast_cancer": {"target": ["logistic", "fair", "auc", "neyman-pearson"]},
    "wine": {"target": ["logistic", "fair"]},
    "digits": {"target": ["logistic"]},
    "diabetes": {"target": ["lasso", "fair-regression", "robust"], "s1,s2,s3": ["low-rank"]},
}


def fitted(table: str, target: str, goal: str) -> dict[str, Any]:
    """The certificate of a fit."""
    penalty = {"nuclear": 0.01} if goal == "low-rank" else {"l1": 0.01}
    settings = {"table": f"bundled:{table}", "target": target, "goal": goal, "clients": 5, **penalty}
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = fit_into(Path(folder) / "fit", plan_fit(settings, Path(folder))).certificate
        return found


def main() -> None:
    """In Markdown."""
    print("| table | goal | exchanges | certified gap | tolerance |\n|---|---|---|---|---|")
    for table, targets in TABLES.items():
        for target, goals in targets.items():
            for goal in goals:
                found = fitted(table, target, goal)
                row = (table, goal, found["exchanges"], f"{found['gap']:.1e}", f"{found['tol']:.0e}")
                print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main()

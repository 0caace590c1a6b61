"""Every goal on every bundled table that it fits, as `fedualex fit` does it: exchanges and CPU until the tolerance.

    python benchmarks/fits.py [TABLE TARGET GOAL METHOD]

Five clients at random, all rows, penalties l1 = 0.01 (nuclear = 0.01 for low-rank), nothing else chosen. Beside it the
same fit by FeDualSlide, which was the choice before second derivatives were asked for, to the tolerance that it had.
Each run has a process of its own, whose CPU seconds count from the plan to the answer, compilations included. The table
is written to benchmarks/results/fits.md; with four words one run is made, and its numbers are printed.
"""

import json
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import fedualex as fx
from fedualex.tables.fit import plan_fit
from fedualex.tables.goals import GOALS

PAGE = Path(__file__).parent / "results" / "fits.md"
TABLES: dict[str, dict[str, list[str]]] = {
    "breast_cancer": {"target": ["logistic", "fair", "auc", "neyman-pearson"]},
    "wine": {"target": ["logistic", "fair"]},
    "digits": {"target": ["logistic", "fair"]},
    "diabetes": {"target": ["lasso", "fair-regression", "robust"], "s1,s2,s3": ["low-rank"]},
}
CHOICE, BEFORE = "choice", "FeDualSlide"
HEAD = """# Goals of `fedualex fit` on the bundled tables

Measured on {day}, by `python benchmarks/fits.py`.

Bundled tables, five clients at random, l1 (for low-rank nuclear) of .01, default tolerance, in at most 1,000 exchanges.
The exchange after a gap of 1e-6 makes the coefficients' four digits: Newton's method squares what is left.
Rounding is what the proved rounding of all sums has added to the gap.
CPU seconds are those of one process from the plan of the fit to its answer, with all compilations. FeDualSlide, the
choice before second derivatives were asked for, ends at the tolerance that it had then.

| table | goal | to 1e-6 | exchanges | gap | rounding | tolerance | CPU s | FeDualSlide | its gap | tolerance | CPU s |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""


def fitted(table: str, target: str, goal: str, method: str) -> dict[str, Any]:
    """The certificate of a fit, and its cost."""
    penalty = {"nuclear": 0.01} if goal == "low-rank" else {"l1": 0.01}
    settings = {"table": f"bundled:{table}", "target": target, "goal": goal, "clients": 5, **penalty}
    began = time.process_time()
    planned = plan_fit(settings, Path.cwd()).configuration
    tol = planned.options.tol if method == CHOICE else GOALS[goal].structure.tol
    limits = {"rounds": 1000, "tol": tol, "record_every": 1 if method == CHOICE else None}
    run = fx.solve(planned.problem, planned.method if method == CHOICE else fx.FeDualSlide(), **limits)
    seconds = time.process_time() - began
    near = int(run.history["exchanges"][np.argmax(run.history["gap_bounds"] <= 1e-6)])
    rounding = run.outputs["bounds"].certificate.rounding
    cost = {"near": near, "exchanges": run.exchanges, "seconds": seconds}
    return {**cost, "gap": run.gap, "rounding": rounding, "tol": tol}


def in_a_process(*words: str) -> dict[str, Any]:
    """The same in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *words], check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """In Markdown."""
    lines = []
    for table, targets in TABLES.items():
        for target, goals in targets.items():
            for goal in goals:
                cells = [table, goal]
                for method in (CHOICE, BEFORE):
                    found = in_a_process(table, target, goal, method)
                    count = str(found["exchanges"]) if found["gap"] <= found["tol"] else f"{found['exchanges']}, missed"
                    own = [str(found["near"])] if method == CHOICE else []
                    gaps = [found["gap"], *([found["rounding"]] if method == CHOICE else [])]
                    cells += [*own, count, *(f"{gap:.1e}" for gap in gaps)]
                    cells += [f"{found['tol']:.0e}", f"{found['seconds']:.1f}"]
                lines.append(f"| {' | '.join(cells)} |")
                print(lines[-1], flush=True)
    PAGE.write_text(HEAD.format(day=f"{date.today():%B %-d, %Y}") + "\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) == 5:
        print(json.dumps(fitted(*sys.argv[1:])))
    else:
        main()

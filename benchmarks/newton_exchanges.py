"""`make bench-exchanges`, second part: exchanges and bytes of FeDualNewton beside FeDualSlide; a table and a figure.

    python benchmarks/newton_exchanges.py [page | heart_disease.csv | PROBLEM ...]

Each problem of newton_problems.py from zero, nothing tuned. On those of the figure three baselines run as well, with
every step of a grid; they count with the best step and the best output at every record. A gap counts with its
allowance for rounding, which is shown beside it. Bytes are those that one client sends. Problems by name are measured
alone, the others are taken from benchmarks/results/newton_exchanges.json; with "page" all are. A CSV file is the table
of heart disease of four hospitals (UCI; columns center and disease), for the worst hospital and for the mean.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure
from newton_problems import PROBLEMS

import fedualex as fx
from fedualex import palette
from fedualex.tables.fit import plan_fit

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "newton_exchanges.json"
FIGURE = ROOT / "docs" / "figures" / "newton-exchanges.png"
LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)
METHODS = {"FeDualNewton": (fx.FeDualNewton(), 30), "FeDualSlide": (fx.FeDualSlide(), 400)}
BASELINES: dict[str, tuple[int, int, Callable[[float], Any]]] = {
    "FeDualEx": (1, 10, lambda step: fx.FeDualEx(step / 10)),
    "FedDualAvg": (1, 10, lambda step: fx.FedDualAvg(step / 10)),
    "SynchronousMirrorProx": (2, 1, lambda step: fx.SynchronousMirrorProx(step)),
}
"""Exchanges a round, local steps, and the method with a step of a round."""
GRID, LAST, EVERY = (0.1, 1.0, 10.0, 100.0), 200, 20
"""Steps times the smoothness of f, and the exchanges of a baseline and of its records."""
SHOWN = ("logistic, breast cancer, .001", "softmax, wine", "worst client, breast cancer", "Neyman-Pearson")


def measured(problem: Any, method: Any, rounds: int) -> dict[str, Any]:
    """The certified gap and the bytes of one client after every exchange."""
    began = time.perf_counter()
    run = fx.solve(problem, method, rounds=rounds, record_every=1, tol=1e-9, output="bounds")
    gaps = [None if gap is None else float(gap) for gap in run.history["gap_bounds"]]
    return {
        "exchanges": run.history["exchanges"].tolist(),
        "gaps": gaps,
        "bytes": (run.history["bytes_up"] / (problem.clients or 1)).astype(int).tolist(),
        "rounding": float(run.outputs["bounds"].certificate.rounding),
        "seconds": round(time.perf_counter() - began, 1),
    }


def tuned(problem: Any, name: str) -> dict[str, Any]:
    """The smallest certified gap of any step and output until every record."""
    each, steps, made = BASELINES[name]
    beta, best, sent = fx.theory.constants(problem).beta, np.full(LAST // EVERY, np.inf), None
    for factor in GRID:
        options = {"rounds": LAST // each, "local_steps": steps, "record_every": EVERY // each}
        run = fx.simulate(problem, made(factor / beta), **options)
        rows = np.flatnonzero(run.history["round"] > 0)
        gaps = [run.history[key][rows] for key in run.history if key.startswith("gap_")]
        known = [[np.inf if gap is None or not np.isfinite(gap) else float(gap) for gap in own] for own in gaps]
        least = np.minimum.accumulate(np.min(known, axis=0))
        best[: least.size] = np.minimum(best[: least.size], least)  # one that diverged ends before
        if least.size == best.size:
            sent = run.history["bytes_up"][rows] / (problem.clients or 1)
    assert sent is not None
    best = np.minimum.accumulate(best)
    kept = [None if np.isinf(gap) else float(gap) for gap in best]
    exchanges = [EVERY * (k + 1) for k in range(best.size)]
    return {"exchanges": exchanges, "gaps": kept, "bytes": sent.astype(int).tolist(), "rounding": 0.0}


def reached(row: dict[str, Any], level: float) -> str:
    """The first exchange whose gap is at most the level and the allowance for rounding."""
    gaps = np.array([np.inf if gap is None else gap for gap in row["gaps"]])
    there = np.flatnonzero(gaps <= level + row["rounding"])
    return str(row["exchanges"][there[0]]) if len(there) else "-"


def table(results: dict[str, Any]) -> str:
    """In Markdown."""
    lines = [
        "| problem | variables | FeDualNewton: 1e-2 / 1e-4 / 1e-6 / 1e-8 | kB sent by a client to 1e-4 | rounding "
        "| FeDualSlide | kB to 1e-4 | its last gap |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in results.items():
        newton, slide = rows["FeDualNewton"], rows["FeDualSlide"]
        counts = [" / ".join(reached(row, level) for level in LEVELS) for row in (newton, slide)]
        sent = [_sent(row) for row in (newton, slide)]
        lines.append(
            f"| {name} | {rows['variables']} | {counts[0]} | {sent[0]} | {newton['rounding']:.0e} "
            f"| {counts[1]} | {sent[1]} | {min(gap for gap in slide['gaps'] if gap is not None):.1e} |"
        )
    return "\n".join(lines)


def _sent(row: dict[str, Any]) -> str:
    count = reached(row, 1e-4)
    return "-" if count == "-" else f"{row['bytes'][row['exchanges'].index(int(count))] / 1000:,.0f}"


def draw(results: dict[str, Any]) -> None:
    """Gaps against exchanges above, against bytes below."""
    styles = palette.styles({method: method for method in (*METHODS, *BASELINES)})
    looks: dict[str, dict[str, Any]] = {
        name: {"color": look.color, "lw": 1.2, "dashes": look.dash or (None, None)} for name, look in styles.items()
    }
    looks["FeDualNewton"] |= {"marker": "o", "ms": 3, "lw": 1}
    looks["FeDualSlide"]["lw"] = 2
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots(2, len(SHOWN), sharey=True)
    for column, name in enumerate(SHOWN):
        for method in looks:
            row = results[name][method]
            known = [i for i, gap in enumerate(row["gaps"]) if gap is not None]
            gaps = [row["gaps"][i] for i in known]
            for axis, key, factor in ((axes[0, column], "exchanges", 1), (axes[1, column], "bytes", 1e-3)):
                axis.plot([factor * row[key][i] for i in known], gaps, label=method, **looks[method])
                axis.set(xscale="log", yscale="log")
                axis.tick_params(labelsize=8)
                axis.grid(which="major", color="0.9")
                axis.spines[["top", "right"]].set_visible(False)
        axes[0, column].set_title(name, fontsize=8)
        axes[0, column].set_xlabel("exchanges", fontsize=8)
        axes[1, column].set_xlabel("kB sent by a client", fontsize=8)
    figure.supylabel("certified gap", fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=len(looks), fontsize=8, frameon=False, handlelength=3.5
    )
    figure.savefig(FIGURE, dpi=150)


def hospitals(file: str, goal: str) -> Any:
    """The problem of `fedualex fit` on a table of hospitals."""
    columns = {"target": "disease", "clients": "center"}
    return plan_fit({"table": file, "goal": goal, **columns}, Path.cwd()).configuration.problem


def wanted(arguments: tuple[str, ...]) -> dict[str, Callable[[], Any]]:
    """The problems to be measured."""
    files = [argument for argument in arguments if argument.endswith(".csv")]
    from_file = {
        f"{goal}, heart disease by hospital": (lambda goal=goal, file=file: hospitals(file, goal))
        for file in files
        for goal in ("logistic", "fair")
    }
    named = {name: PROBLEMS[name] for name in arguments if name in PROBLEMS}
    return from_file | named if arguments else PROBLEMS


def main(*arguments: str) -> None:
    """Measure what is wanted; nothing, if the page alone is."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if "page" not in arguments:
        for name, make in wanted(arguments).items():
            problem = make()
            size = sum(int(np.size(leaf)) for leaf in jax.tree.leaves(problem.like))
            rows = {label: measured(problem, *how) for label, how in METHODS.items()}
            if name in SHOWN:
                rows |= {label: tuned(problem, label) for label in BASELINES}
            results[name] = {"variables": size, **rows}
            RESULTS.write_text(json.dumps(results) + "\n")
            print(f"{name}: {[reached(row, 1e-8) for row in rows.values()]}", file=sys.stderr, flush=True)
    print(table(results))
    draw(results)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""`make bench-exchanges`, second part: exchanges and bytes of FeDualNewton beside FeDualSlide; a table and a figure.

    python benchmarks/newton_exchanges.py [anew] [page] [heart_disease.csv] [PROBLEM ...]

Each problem of newton_problems.py from zero, nothing tuned, with FeDualNewton and FeDualSlide; and three baselines with
every step of a grid, which count with the best step and the best output at every record. A gap counts with its
allowance for rounding, which is shown beside it. Bytes are those that one client sends. What has been measured is kept
in benchmarks/results/newton_exchanges.json: without a name only problems that it lacks are measured, with "anew" all,
with "page" none. A CSV file is the table of heart disease of four hospitals (UCI; columns center and disease), for the
worst hospital and for the mean. The table is written to benchmarks/results/newton_exchanges.md.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
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
PAGE = RESULTS.with_suffix(".md")
FIGURE = ROOT / "docs" / "figures" / "newton-exchanges.png"
HEAD = """# Exchanges to a certified gap

Measured on {day}, by `python benchmarks/newton_exchanges.py`.

From zero; FeDualNewton, FeDualSlide and ProxNewton have nothing to tune. A gap counts with its allowance for rounding,
which is added to the level where it is more than that. FeDualSlide has at most 400 exchanges, the tuned baselines
(FeDualEx, FedDualAvg, SynchronousMirrorProx; four steps each, best output) 200. A run that stalls ends before. The
survey by which a baseline is certified does not count, but for ProxNewton, whose next exchange it is.

"""
LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)
METHODS = {"FeDualNewton": (fx.FeDualNewton(), 30), "FeDualSlide": (fx.FeDualSlide(), 400)}
GRID = (0.1, 1.0, 10.0, 100.0)
"""Steps of a round times the smoothness of f."""
SHOWN = ("logistic, breast cancer, .001", "softmax, wine", "worst client, breast cancer", "Neyman-Pearson")


@dataclass(frozen=True)
class Baseline:
    """A method with a step of a round, its exchanges a round and local steps, and how long it runs."""

    made: Callable[[float], Any]
    exchanges: int = 1
    local_steps: int = 1
    steps: tuple[float, ...] = GRID
    last: int = 200
    every: int = 20
    """Exchanges of a run, and from one record to the next."""
    certifying: int = 0
    """Exchanges after which a certificate is known, beside those of the run."""

    @property
    def options(self) -> dict[str, Any]:
        """Of a run."""
        rounds, every = self.last // self.exchanges, self.every // self.exchanges
        return {"rounds": rounds, "local_steps": self.local_steps, "record_every": every}


BASELINES = {
    "FeDualEx": Baseline(lambda step: fx.FeDualEx(step / 10), local_steps=10),
    "FedDualAvg": Baseline(lambda step: fx.FedDualAvg(step / 10), local_steps=10),
    "SynchronousMirrorProx": Baseline(lambda step: fx.SynchronousMirrorProx(step), exchanges=2),
    "ProxNewton": Baseline(lambda _: fx.ProxNewton(), steps=(1.0,), last=30, every=1, certifying=1),
}


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


def tuned(problem: Any, baseline: Baseline) -> dict[str, Any]:
    """The smallest certified gap of any step and output until every record."""
    count, sent = baseline.last // baseline.every, np.zeros(0)
    best, beta = np.full(count, np.inf), fx.theory.constants(problem).beta
    for factor in baseline.steps:
        run = fx.simulate(problem, baseline.made(factor / beta), **baseline.options)
        rows = np.flatnonzero(run.history["round"] > 0)
        gaps = [run.history[key][rows] for key in run.history if key.startswith("gap_")]
        known = [[np.inf if gap is None or not np.isfinite(gap) else float(gap) for gap in own] for own in gaps]
        least = np.min(known, axis=0)
        best[: least.size] = np.minimum(best[: least.size], least)  # one that diverged ends before
        if len(rows) > len(sent):
            carried = run.history["bytes_up"][rows] / (problem.clients or 1)
            sent = carried + baseline.certifying * carried[0]
    best = np.minimum.accumulate(best)[: len(sent)]
    kept = [None if np.isinf(gap) else float(gap) for gap in best]
    exchanges = [baseline.every * (k + 1) + baseline.certifying for k in range(best.size)]
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
        "| FeDualSlide | kB to 1e-4 | its last gap | ProxNewton | best tuned baseline, gap after 200 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in results.items():
        newton, slide = rows["FeDualNewton"], rows["FeDualSlide"]
        cells = [name, rows["variables"], _counts(newton), _sent(newton), f"{newton['rounding']:.0e}"]
        cells += [_counts(slide), _sent(slide), f"{_last(slide):.1e}", _counts(rows["ProxNewton"])]
        gap, best = min(
            (_last(row), label) for label, row in rows.items() if label in BASELINES.keys() - {"ProxNewton"}
        )
        lines.append(f"| {' | '.join(map(str, cells))} | {best}, {gap:.1e} |")
    return "\n".join(lines)


def _counts(row: dict[str, Any]) -> str:
    return " / ".join(reached(row, level) for level in LEVELS)


def _last(row: dict[str, Any]) -> float:
    return min((gap for gap in row["gaps"] if gap is not None), default=np.inf)


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
        for method in filter(results[name].__contains__, looks):
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
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False, handlelength=3.5)
    figure.savefig(FIGURE, dpi=150)


def hospitals(file: str, goal: str) -> Any:
    """The problem of `fedualex fit` on a table of hospitals."""
    columns = {"target": "disease", "clients": "center"}
    return plan_fit({"table": file, "goal": goal, **columns}, Path.cwd()).configuration.problem


def wanted(arguments: tuple[str, ...], known: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """The problems to be measured: those that are named, or else all that are not known."""
    files = [argument for argument in arguments if argument.endswith(".csv")]
    from_file = {
        f"{goal}, heart disease by hospital": (lambda goal=goal, file=file: hospitals(file, goal))
        for file in files
        for goal in ("logistic", "fair")
    }
    named = from_file | {name: PROBLEMS[name] for name in arguments if name in PROBLEMS}
    return named or {name: make for name, make in PROBLEMS.items() if name not in known}


def main(*arguments: str) -> None:
    """Measure what is wanted; nothing, if the page alone is."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() and "anew" not in arguments else {}
    if "page" not in arguments:
        for name, make in wanted(arguments, results).items():
            problem = make()
            size = sum(int(np.size(leaf)) for leaf in jax.tree.leaves(problem.like))
            rows = {label: measured(problem, *how) for label, how in METHODS.items()}
            rows |= {label: tuned(problem, baseline) for label, baseline in BASELINES.items()}
            results[name] = {"variables": size, **rows}
            kept = {name: results[name] for name in sorted(results, key=_place)}
            RESULTS.write_text(json.dumps(kept) + "\n")
            print(f"{name}: {[reached(row, 1e-8) for row in rows.values()]}", file=sys.stderr, flush=True)
    if not results.keys() >= {*SHOWN}:
        return
    PAGE.write_text(HEAD.format(day=f"{date.today():%B %-d, %Y}") + table(results) + "\n")
    draw(results)


def _place(name: str) -> int:
    """Where a problem is among those of newton_problems.py; those of files come last."""
    return list(PROBLEMS).index(name) if name in PROBLEMS else len(PROBLEMS)


if __name__ == "__main__":
    main(*sys.argv[1:])

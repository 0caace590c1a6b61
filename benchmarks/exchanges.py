"""`make bench-exchanges`: certified gaps after 10, 30, 100 and 300 exchanges; exchanges.json, a table and a figure.

    python benchmarks/exchanges.py [slide] [q05] [q3] [b5] [cancer] [digits] [cancer5] [digits5]

All problems by default; the results of others are kept, and with "slide" those of all methods but FeDualSlide.
FeDualSlide runs as it is. Every other method runs with all step sizes of a grid, widened where the best one is at an
edge, and counts with the best step and the best output at each mark. Surveys for records are not counted.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import exchange_page
from exchange_problems import PROBLEMS, problem
from exchange_reading import RESULTS, load

import fedualex as fx

LOCAL_STEPS = 10
MARKS = {10: 10, 20: 10, 30: 10, 100: 100, 200: 100, 300: 100}
"""Where baselines are recorded, and the run that it is done in, by its exchanges from record to record."""
GRID, WIDER = range(-3, 4), 6
"""Exponents of sqrt(10), and by how many more on each side at most."""
Curve = dict[int, float]


@dataclass(frozen=True)
class Baseline:
    """A method to tune: its exchanges a round, its local steps, and itself with the step of a round and beta."""

    exchanges: int
    local_steps: int
    made: Callable[[float, float], Any]


def sliding(mode: Any) -> Callable[[float, float], Any]:
    """Lead sliding; the lead's own steps are those that theory takes."""
    return lambda step, beta: fx.LeadSliding(step, step / (1 + step * beta), mode)


def corrected(**options: Any) -> Callable[[float, float], Any]:
    """FeDualExCorrected."""
    return lambda step, _: fx.FeDualExCorrected(step / LOCAL_STEPS, mode="fresh", **options)


BASELINES = {
    "FeDualEx": Baseline(1, LOCAL_STEPS, lambda step, _: fx.FeDualEx(step / LOCAL_STEPS)),
    "FeDualExCorrected": Baseline(2, LOCAL_STEPS, corrected()),
    "FeDualExCorrected, recentered": Baseline(2, LOCAL_STEPS, corrected(recenter=True)),
    "FedGDAGT": Baseline(2, LOCAL_STEPS, lambda step, _: fx.FedGDAGT(step / LOCAL_STEPS)),
    "SynchronousMirrorProx": Baseline(2, 1, lambda step, _: fx.SynchronousMirrorProx(step)),
    # The papers' counts, in which the server itself has the lead's data.
    "LeadSliding, extragradient": Baseline(2, LOCAL_STEPS, sliding("extragradient")),
    "LeadSliding, optimistic": Baseline(1, LOCAL_STEPS, sliding("optimistic")),
}
MODES = ("local", "survey", "auto")


def tuned(game: Any, baseline: Baseline, beta: float, grid: Any = GRID, last: int = 300) -> dict[str, Any]:
    """The smallest gaps over steps and outputs, with ("all") and without ("plain") `bounds`, and the best factors."""
    found: dict[int, dict[str, Curve]] = {}
    waiting = list(grid)
    while waiting:
        for exponent in waiting:
            found[exponent] = smallest_gaps(game, baseline, baseline.made(10 ** (exponent / 2) / beta, beta), last)
        waiting = _beyond(found, grid)
    marks = [mark for mark in MARKS if mark <= last]
    best = {kind: {mark: min(each[kind][mark] for each in found.values()) for mark in marks} for kind in KINDS}
    return best | {"factor": {mark: 10 ** (_best(found, mark) / 2) for mark in marks}}


KINDS = ("all", "plain")


def _best(found: dict[int, dict[str, Curve]], mark: int) -> int:
    return min(found, key=lambda exponent: found[exponent]["plain"][mark])


def _beyond(found: dict[int, dict[str, Curve]], grid: range) -> list[int]:
    """The next exponents beyond an edge that is the best one at some mark."""
    marks = next(iter(found.values()))["plain"]
    best, low, high = {_best(found, mark) for mark in marks}, min(found), max(found)
    below = [low - 1] if low in best and low > grid[0] - WIDER else []
    return below + ([high + 1] if high in best and high < grid[-1] + WIDER else [])


def smallest_gaps(game: Any, baseline: Baseline, method: Any, last: int) -> dict[str, Curve]:
    """The smallest gap of any output in any record up to each mark; infinite before there is one."""
    curves: dict[str, Curve] = {kind: {} for kind in KINDS}
    for every, until in ((10, min(30, last)), (100, last)):
        if until < every:
            continue
        run = fx.simulate(
            game,
            method,
            rounds=until // baseline.exchanges,
            local_steps=baseline.local_steps,
            record_every=every // baseline.exchanges,
            output="client_average",
        )
        rounds = run.history["round"] * baseline.exchanges
        for kind, mark in ((kind, mark) for kind in KINDS for mark in MARKS if MARKS[mark] == every and mark <= until):
            curves[kind][mark] = min([_smallest(run.history, rounds <= mark, kind), *curves[kind].values()])
    return curves


def _smallest(history: Any, until: Any, kind: str) -> float:
    names = [name for name in history if name.startswith("gap_") and (kind == "all" or name != "gap_bounds")]
    gaps = [gap for name in names for gap in history[name][until] if gap is not None]
    return min(gaps, default=float("inf"))


def slid(game: Any, mode: str, last: int = 300) -> dict[str, Curve]:
    """FeDualSlide's gaps, every tenth exchange."""
    run = fx.simulate(game, fx.FeDualSlide(mode), rounds=last, local_steps=LOCAL_STEPS, record_every=10)
    pairs = zip(run.history["exchanges"].tolist(), run.history["gap_bounds"].tolist(), strict=True)
    return {"all": {exchanges: gap for exchanges, gap in pairs if exchanges >= 10}}


def measured(name: str, before: dict[str, Any] | None) -> dict[str, Any]:
    """All methods on one problem; FeDualSlide alone if there are rows from before."""
    game = problem(name)
    slides = {f"FeDualSlide, {mode}": slid(game, mode) for mode in MODES}
    if before is not None:
        return before | {"rows": before["rows"] | slides}
    beta, similarity = fx.theory.constants(game).beta, fx.theory.similarity(game)
    rows = {label: tuned(game, baseline, beta) for label, baseline in BASELINES.items()}
    about = {"beta": beta, "delta": similarity.delta, "how": similarity.how, "wider": WIDER}
    return about | {"rows": rows | slides}


def main(names: list[str]) -> None:
    """Measure, write after every problem, and make table and figure."""
    slide, names = "slide" in names, [name for name in names if name != "slide"]
    if unknown := set(names) - set(PROBLEMS):
        raise SystemExit(f"problems are {', '.join(PROBLEMS)}; got {', '.join(unknown)}")
    for name in names or PROBLEMS:
        began = time.perf_counter()
        results = load()
        results[name] = measured(name, results.get(name) if slide else None)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    exchange_page.write()


if __name__ == "__main__":
    main(sys.argv[1:])

"""The steps of `fedualex demo`: of the paper's grid, those with the smallest certified gap of each output.

    python benchmarks/demo_steps.py

After 100 rounds on seed 1000, of which the demonstration shows another; about ten minutes on one core.
"""

import itertools
from pathlib import Path

import fedualex as fx
from fedualex.paper.demo import METHODS, RUN, STEPS
from fedualex.runs.settings import configure

ETA_S = (1.0, 0.3, 0.1, 0.03, 0.01)
ETA_C = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


def gaps_of(settings: dict[str, object], eta_s: float, eta_c: float) -> dict[str, float | None]:
    """The final certified gap of every output of one run."""
    run = {**RUN, "seed": 1000, "output": "polished", "record_every": RUN["rounds"]}
    steps = {"eta_s": eta_s, "eta_c": eta_c}
    configuration = configure({"problem": {"name": "paper_l1"}, "method": {**settings, **steps}, "run": run}, Path())
    options = {name: getattr(configuration.options, name) for name in ("clients", "noise", "z0", "dtype", "output")}
    found = fx.solve(configuration.problem, configuration.method, **run_of(run), **options)
    return {name: output.gap for name, output in found.outputs.items()}


def run_of(run: dict[str, object]) -> dict[str, object]:
    """The options that a file and Python call alike."""
    return {name: run[name] for name in ("local_steps", "rounds", "seed", "record_every")}


def main() -> None:
    """A row for each method and output: the smallest gap, where, and whether the demonstration has these steps."""
    print("| output | method | gap | eta_s, eta_c | in the demo |\n|---|---|---|---|---|")
    for label, settings in METHODS.items():
        grid = {(s, c): gaps_of(settings, s, c) for s, c in itertools.product(ETA_S, ETA_C)}
        for output, steps in STEPS.items():
            gap, best = min((gaps[output], point) for point, gaps in grid.items() if gaps.get(output) is not None)
            print(f"| {output} | {label} | {gap:.3g} | {best[0]:g}, {best[1]:g} | {best == steps[label]} |", flush=True)


if __name__ == "__main__":
    main()

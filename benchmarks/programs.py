"""What a first run compiles: each program with its seconds, as the tables of benchmarks/results/speed.md.

python benchmarks/programs.py             both runs, one after the other, each in a process without a cache
python benchmarks/programs.py RUN         one of them in this process: readme or rounds
"""

import json
import sys
from collections import defaultdict

from processes import answer

PARTS = {
    "jaxpr_trace_duration": "traced",
    "jaxpr_to_mlir_module_duration": "lowered",
    "backend_compile_duration": "compiled",
}
MEANINGS = {
    "first_server": "the state of FeDualSlide's server before its first exchange",
    "survey_at": "the exact operator and f at a point, of all clients",
    "_look": "f and its operator at points around one, in search of a disproof of convexity",
    "_krylov": "the smallest curvatures of f in x and of -f in y, for the same",
    "add_cut": "a survey becomes a cut, and its proposal is judged",
    "reweigh_cuts": "the level problem, better bounds, scale and center of a phase",
    "propose_point": "where the next survey is",
    "_measure_bounds": "the certificate of a pair whose bounds come from several surveys",
    "_begin": "the state of a method before its first round",
    "advance": "all rounds between two records",
    "_read_points": "the outputs of a state, projected onto the domain",
    "surveys_at": "exact operators and f at two points, to see that the start is finite",
    "_survey_and_measure": "exact operators at two outputs, and their certificates",
    "_polish": "the steps that the polished output is chosen from",
}


def solve_readme():
    """README's example: FeDualSlide."""
    from answers import readme, solve

    solve(readme())


def simulate_rounds():
    """W1: FeDualEx, 100 clients, 50 rounds, noise."""
    import fedualex as fx

    options = {"clients": 100, "local_steps": 10, "noise": fx.GaussianNoise(0.1), "rounds": 50}
    fx.simulate(fx.problems.paper_l1(0), fx.FeDualEx(0.01, 1.0), **options)


RUNS = {"readme": solve_readme, "rounds": simulate_rounds}


def measured(run):
    """Wall seconds of every program in the order of compilation, by what they were spent on."""
    import jax.monitoring

    spent = defaultdict(lambda: dict.fromkeys(PARTS.values(), 0.0))

    def listen(event, seconds, **about):
        if (part := PARTS.get(event.rpartition("/")[2])) is not None:
            spent[about["fun_name"].removeprefix("jit(").removesuffix(")")][part] += seconds

    jax.monitoring.register_event_duration_secs_listener(listen)
    run()
    return {name: parts for name, parts in spent.items() if parts["compiled"]}  # the others are parts of these


def table(title, spent):
    """The programs of a run as Markdown."""
    lines = [f"| {title} | traced | lowered | compiled |", "|---|---|---|---|"]
    for name, parts in spent.items():
        seconds = " | ".join(f"{parts[part]:.2f}" for part in PARTS.values())
        lines.append(f"| `{name}`: {MEANINGS.get(name, '')} | {seconds} |")
    sums = " | ".join(f"{sum(parts[part] for parts in spent.values()):.2f}" for part in PARTS.values())
    return "\n".join([*lines, f"| all {len(spent)} | {sums} |"])


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(measured(RUNS[sys.argv[1]])))
    else:
        for name, run in RUNS.items():
            print(table(run.__doc__.rstrip("."), answer("programs.py", name, FEDUALEX_CACHE="off")), end="\n\n")

"""What a user waits for: first answers, defaults, fits. Every row in turns with what it is held against.

python benchmarks/answers.py PART     one measurement in this process, as JSON
"""

import json
import os
import sys
import tempfile
import time
from typing import Any

from processes import Times, answer, interleaved

README_TOL, FOLDS = 1e-4, 5


def answers(repeats: int = 3) -> dict[str, Times]:
    """README's example beside the same by hand: CPU seconds of a cold process, of the second one, of a second call."""

    def in_turn(script: str, *arguments: str) -> Times:
        with tempfile.TemporaryDirectory() as folder:
            cold, second = (answer(script, *arguments, FEDUALEX_CACHE=folder) for _ in range(2))
        return {f"cold_{key}": value for key, value in _named(cold)} | {f"second_{key}": v for key, v in _named(second)}

    ours = {"ours": lambda: in_turn("answers.py", "readme"), "by_hand": lambda: in_turn("by_hand.py")}
    return interleaved(ours, repeats)


def _named(found: float | Times) -> list[tuple[str, float]]:
    return list(found.items()) if isinstance(found, dict) else [("process_s", found)]


def defaults() -> dict[str, Times]:
    """W1 with the defaults of `fx.simulate`, without records in float32, and by a plain jax program."""
    return answer("answers.py", "defaults")


def fits() -> dict[str, Times]:
    """Cross-validation of 60 rows, beside scikit-learn; a survey of many rows, beside two products of numpy."""
    return answer("answers.py", "fits")


def readme() -> Any:
    """README's example."""
    import jax.numpy as jnp
    import numpy as np

    import fedualex as fx

    def loss(x, y, example):
        feature, label = example
        return jnp.logaddexp(0, -label * (feature + y) @ x) - 5 * jnp.sum(y**2)

    rng = np.random.default_rng(0)
    data = [(rng.normal(size=(n, 3)), rng.choice([-1.0, 1.0], n)) for n in (40, 25, 90)]
    domain = {"x": fx.L1(0.01) + fx.Box(1.0), "y": fx.L2Ball(0.3), "like": fx.Saddle(np.zeros(3), np.zeros(3))}
    return fx.Problem(loss, **domain, data=data)


def solve(problem: Any) -> None:
    """To a certificate."""
    import fedualex as fx

    assert fx.solve(problem, rounds=300, tol=README_TOL).gap <= README_TOL


def measure_readme() -> Times:
    """CPU seconds of this process, of a second call, and how many programs were compiled or read."""
    import jax.monitoring

    programs = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, _, **named: programs.append(1) if event.endswith("backend_compile_duration") else None
    )
    problem = readme()
    solve(problem)
    process, count = time.process_time(), len(programs)
    solve(problem)
    return {"process_s": process, "again_s": time.process_time() - process, "programs": count}


def measure_defaults() -> dict[str, Times]:
    """Whole runs in turns: CPU milliseconds a round; and of a record at d = 900."""
    import measure

    import fedualex as fx

    game, noise = fx.problems.paper_l1(0), fx.GaussianNoise(measure.SIGMA)

    def run(rounds, local_steps, **options):
        shape = {"rounds": rounds, "clients": measure.CLIENTS, "local_steps": local_steps, "noise": noise}
        return lambda: fx.simulate(game, fx.FeDualEx(measure.ETA, 1.0), **shape, **options)

    plain = measure.contender("plain-jax", game, 10)
    runs = {
        "K=10 defaults": (200, run(200, 10)),
        "K=10 float32": (200, run(200, 10, dtype="float32")),
        "K=10 plain": (200, lambda: plain(200)),
        "K=1 defaults": (500, run(500, 1)),
        "K=1 float32": (500, run(500, 1, dtype="float32")),
        "K=1 unrecorded": (500, run(500, 1, dtype="float32", record_every=500)),
    }
    for _, one in runs.values():
        one()
    found = interleaved({name: lambda one=one: measure.times(one) for name, (_, one) in runs.items()}, 3)
    a_record = (found["K=1 float32"]["cpu_ms"] - found["K=1 unrecorded"]["cpu_ms"]) / 48  # 50 records less 2
    rounds = {name: found[name]["cpu_ms"] / count for name, (count, _) in runs.items()}
    return {name: {"cpu_ms": value} for name, value in rounds.items()} | {"a record": {"cpu_ms": a_record}}


def measure_fits() -> dict[str, Times]:
    """CPU seconds."""
    import measure
    import numpy as np
    from sklearn.datasets import make_classification
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score

    import fedualex as fx
    from fedualex.compiling import double
    from fedualex.estimators import FederatedLogisticRegression
    from fedualex.runtime.outputs import exact_problem
    from fedualex.runtime.surveying import survey_at

    X, y = make_classification(60, 5, flip_y=0.2, random_state=0)

    def seconds(work):
        return measure.times(work)["cpu_ms"] / 1e3

    def validated(model):
        return lambda: cross_val_score(model, X, y, cv=FOLDS)

    peer = LogisticRegression(C=1 / (0.01 * 60), solver="saga", max_iter=10_000)
    found = {"first": seconds(validated(FederatedLogisticRegression())), "sklearn first": seconds(validated(peer))}
    again = {"again": validated(FederatedLogisticRegression()), "sklearn again": validated(peer)}
    found |= {name: min(seconds(work) for _ in range(3)) for name, work in again.items()}
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60_000, 419))
    labels = rng.choice([0, 1], len(rows))
    problem = fx.problems.sparse_glm("logistic", rows, labels, rng.integers(0, 20, len(rows)), l1=0.01)
    w = rng.normal(size=419)
    with double():
        exact = exact_problem(problem)
        z = problem.validate_point(problem.project(problem.like))
        works = {
            "survey": lambda: np.asarray(survey_at(exact, z).value),
            "products": lambda: (rows @ w) @ rows,
        }
        for work in works.values():
            work()
        found |= {
            name: value["cpu_ms"] / 1e3
            for name, value in interleaved(
                {name: lambda work=work: measure.times(work) for name, work in works.items()}, 7
            ).items()
        }
    return {"cpu_s": found}


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    parts = {"readme": measure_readme, "defaults": measure_defaults, "fits": measure_fits}
    print(json.dumps(parts[sys.argv[1]]()))

"""The sentences of the paper's Section 6, and the questions that its theorems ask, against what was measured.

Each claim is a condition on the final numbers of stored seeds. It is read in every way that the text leaves open: for
the last server point and for the ergodic average (E6), with the server rule as printed and with plain averaging (E4),
with FedDualAvg's average of the points before and after its steps (E36). A claim that holds in all readings, in all
experiments that it is about as far as they were run, "agrees"; if it holds somewhere, "agrees only if", and the table
says where; if nowhere, "does not agree".
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..runs import folder
from ..runs.folder import StoredRun
from ..storage import Json, write_json

# Finished seeds of an experiment, and their final numbers as mean and standard deviation.


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over seeds."""

    mean: float
    std: float

    @staticmethod
    def of(values: Any) -> "Spread":
        """The spread of these values."""
        return Spread(float(np.mean(values)), float(np.std(values)))

    def __str__(self) -> str:
        return f"{self.mean:.3g} ± {self.std:.1g}"


def seed_runs(path: Path) -> dict[str, list[StoredRun]]:
    """The finished runs of each method of an experiment, in the order of its file."""
    manifest = folder.read_manifest(path, "experiment")
    groups = {}
    for label in manifest["plan"]["settings"]["methods"]:
        root = path / "runs" / label.replace(" ", "-")
        runs = [folder.load(one) for one in sorted(root.glob("seed-*")) if (one / "status.json").exists()]
        if runs:
            groups[label] = runs
    return groups


def complete(path: Path, groups: Mapping[str, Sequence[StoredRun]]) -> bool:
    """Whether every method of the experiment has all its seeds."""
    plan = folder.read_manifest(path, "experiment")["plan"]
    return all(len(groups.get(label, ())) == plan["seeds"] for label in plan["settings"]["methods"])


def is_small(path: Path) -> bool:
    """Whether an experiment is the small instance of its file."""
    return bool(folder.read_manifest(path, "experiment")["plan"].get("quick", False))


def is_case(path: Path) -> bool:
    """Whether an experiment is one case of a study."""
    return folder.read_manifest(path, "experiment")["plan"].get("case") is not None


def final(runs: list[StoredRun], output: str, key: str) -> Spread:
    """The final gap, density or total rank of an output over seeds."""
    return Spread.of([np.sum(run.status["outputs"][output][key]) for run in runs if run.status])


def gaps_at_equal_cost(groups: Mapping[str, Sequence[StoredRun]], output: str) -> dict[str, Spread]:
    """The gap of each method over seeds after as many exchanges as all of them have made.

    A round of a method with a fresh survey has one exchange more. A method without this output is read by its answer.
    """
    common = min(run.history[-1]["exchanges"] for runs in groups.values() for run in runs)

    def gap(run: StoredRun) -> float:
        record = [one for one in run.history if one["exchanges"] <= common][-1]
        key = f"gap_{output}"
        return float(record[key if key in record else f"gap_{(run.status or {})['output']}"])

    return {label: Spread.of([gap(run) for run in runs]) for label, runs in groups.items()}


def theory_of(path: Path, result: str, version: str) -> float:
    """What a theorem promises about the runs of a case at its own best step; infinite where it promises nothing."""
    bounds = json.loads((path / "theory.json").read_text())["bounds"]
    (bound,) = [one for one in bounds if one["result"] == result and one["version"] == version]
    return float("inf") if bound["total"] is None else float(bound["total"])


def steps_text(run: StoredRun) -> str:
    """The numbers of a run's method, which are its step sizes, and the sentence of theory about those not given."""
    method = run.manifest["configuration"]["method"]
    given = [f"{key} {value:g}" for key, value in method.items() if isinstance(value, int | float)]
    chosen = str(run.status["steps"]) if run.status else ""
    return ", ".join(filter(None, [*given, chosen]))


Runs = dict[str, list[StoredRun]]


@dataclass(frozen=True)
class Found:
    """What one reading of a claim gives in one experiment."""

    holds: bool
    text: str


Reading = Callable[[Runs], Found]


@dataclass(frozen=True)
class Claim:
    """A sentence, the experiments it is about, and its readings by name."""

    sentence: str
    experiments: tuple[str, ...]
    readings: dict[str, Reading]
    remark: str = ""


@dataclass(frozen=True)
class Trend:
    """A sentence about all cases of a study together: how a number changes with what the cases differ in."""

    sentence: str
    experiments: tuple[str, ...]
    read: Callable[[dict[str, Runs]], Found]
    remark: str = ""


L1, NUCLEAR = ("l1-k1", "l1-k10"), ("nuclear-k1", "nuclear-k10")
OUTPUTS = {"last point": "last", "ergodic average": "ergodic"}
SERVERS = ("as printed", "plain averaging")
AFTER = "FedDualAvg averaged after the step"
FEDDUALAVG = {
    "last point": ("last", "FedDualAvg"),
    "ergodic average, FedDualAvg's of the points before its steps": ("ergodic", "FedDualAvg"),
    "ergodic average, FedDualAvg's of the points after its steps": ("ergodic", AFTER),
}
"""What may be meant where FedDualAvg is spoken of: its iterates do not depend on the reading, its average does."""
ORDER_TENTH = 10**-0.5
"""Up to here a number is of the order of 10^-1, on a logarithmic scale."""


def gap_reading(label: str, output: str, holds: Callable[[float], bool]) -> Reading:
    """A condition on the mean final gap of a method."""

    def read(runs: Runs) -> Found:
        gap = final(runs[label], output, "gap")
        return Found(holds(gap.mean), f"gap {gap} ({steps_text(runs[label][0])})")

    return read


def density_reading(label: str, output: str, target: float, slack: float) -> Reading:
    """The mean final density of a method is around a number."""

    def read(runs: Runs) -> Found:
        density = final(runs[label], output, "density")
        return Found(abs(density.mean - target) <= slack, f"density {density} ({steps_text(runs[label][0])})")

    return read


def dual_against_primal(server: str, output: str, averaging: str, keys: tuple[str, ...]) -> Reading:
    """Each dual method is better than its primal counterpart in every number named; equal is not better."""
    pairs = [("FeDualEx", f"FedMiP {server}"), (averaging, f"FedMiD {server}")]

    def read(runs: Runs) -> Found:
        holds, texts = True, []
        for key in keys:
            for dual, primal in pairs:
                ours, theirs = final(runs[dual], output, key), final(runs[primal], output, key)
                holds &= ours.mean < theirs.mean
                texts.append(f"{key} {dual.split(' ')[0]} {ours.mean:.3g} against {theirs.mean:.3g}")
        return Found(holds, ", ".join(texts))

    return read


def smaller_gap(first: str, second: str, output: str) -> Reading:
    """The mean final gap of the first method is smaller."""

    def read(runs: Runs) -> Found:
        ours, theirs = final(runs[first], output, "gap"), final(runs[second], output, "gap")
        return Found(ours.mean < theirs.mean, f"gap {ours} against {theirs}")

    return read


def reaches_rank(label: str, output: str, rank: int) -> Reading:
    """Both ranks stay at the optimum from some round of the first half on, in every seed."""

    def read(runs: Runs) -> Found:
        since = [round_of_rank(run, output, [rank, rank]) for run in runs[label]]
        last = runs[label][0].history[-1]["round"]
        ranks = f"final ranks {runs[label][0].history[-1][f'rank_{output}']}"
        if any(start is None for start in since):
            return Found(False, f"not settled at {rank} by round {last}; {ranks}")
        slowest = max(start for start in since if start is not None)
        return Found(slowest <= last / 2, f"from round {slowest} of {last} on, in every seed")

    return read


def round_of_rank(run: StoredRun, output: str, rank: list[int]) -> int | None:
    """The first recorded round from which the ranks stay as given; None if they do not."""
    start = None
    for record in reversed(run.history):
        if record[f"rank_{output}"] != rank:
            break
        start = int(record["round"])
    return start


def smallest_at_equal_cost(label: str, others: Sequence[str], output: str) -> Reading:
    """After as many exchanges, the mean gap of a method is smaller than that of all others."""

    def read(runs: Runs) -> Found:
        gaps = gaps_at_equal_cost({name: runs[name] for name in (label, *others)}, output)
        holds = all(gaps[label].mean < gaps[name].mean for name in others)
        return Found(holds, "gap " + ", ".join(f"{name} {gap}" for name, gap in gaps.items()))

    return read


def below_theory(version: str, output: str, result: str = "Theorem 1") -> Reading:
    """The gap at the best step is below what a theorem promises at its own."""

    def read(runs: Runs) -> Found:
        gap = final(runs["FeDualEx"], output, "gap")
        bound = theory_of(runs["FeDualEx"][0].path.parents[2], result, version)
        return Found(gap.mean <= bound, f"gap {gap} against {bound:.3g}")

    return read


def slope(axis: str, output: str, holds: Callable[[float], bool]) -> Callable[[dict[str, Runs]], Found]:
    """The slope of the gap against what the cases differ in, both as logarithms, by least squares."""

    def read(experiments: dict[str, Runs]) -> Found:
        points = {
            plan["case"]["value"]: final(runs["FeDualEx"], output, "gap").mean
            for runs in experiments.values()
            if (plan := folder.read_manifest(runs["FeDualEx"][0].path.parents[2], "experiment")["plan"])
        }
        values = sorted(points)
        exponent = float(np.polyfit(np.log(values), np.log([points[value] for value in values]), 1)[0])
        gaps = ", ".join(f"{points[value]:.3g}" for value in values)
        return Found(
            holds(exponent), f"slope {exponent:.2f}; gaps {gaps} at {axis} = {', '.join(f'{v:g}' for v in values)}"
        )

    return read


def entropic_against_euclidean(size: int, output: str) -> Callable[[dict[str, Runs]], Found]:
    """The entropic geometry gives FeDualEx a smaller gap than the Euclidean one."""

    def read(experiments: dict[str, Runs]) -> Found:
        ours, theirs = (final(experiments[f"entropic-{kind}-{size}"]["FeDualEx"], output, "gap") for kind in GEOMETRIES)
        return Found(ours.mean < theirs.mean, f"gap {ours} against {theirs}")

    return read


GEOMETRIES = ("entropic", "euclidean")
DOUBLE = (
    "With the server rule as printed psi is applied on the clients and on the server: the method solves 2 psi (E4)."
)
FIGURES = "The text does not say which point its figures show; its theorems are about the ergodic average (E6)."
CHOICE = "What FedDualAvg averages decides (E36)."


def _by_server(name: str, reading: Callable[[str, str], Reading]) -> dict[str, Reading]:
    return {
        f"{server}, {point}": reading(f"{name} {server}", output)
        for server in SERVERS
        for point, output in OUTPUTS.items()
    }


def _of_fedualex(reading: Callable[[str, str], Reading], label: str = "FeDualEx") -> dict[str, Reading]:
    return {point: reading(label, output) for point, output in OUTPUTS.items()}


def _dual_and_primal(keys: tuple[str, ...]) -> dict[str, Reading]:
    return {
        f"{server}, {point}": dual_against_primal(server, output, averaging, keys)
        for server in SERVERS
        for point, (output, averaging) in FEDDUALAVG.items()
    }


STARTS = {"entries in [-1, 1]": "unprojected start", "entries in [-0.05, 0.05]": "unprojected small start"}
PAPER: tuple[Claim, ...] = (
    Claim(
        "l1: FeDualEx converges to the order of 10^-1",
        L1,
        _of_fedualex(lambda label, output: gap_reading(label, output, lambda gap: gap <= ORDER_TENTH)),
    ),
    Claim(
        "l1: FedMiP converges to the order of 10^-1",
        L1,
        _by_server("FedMiP", lambda label, output: gap_reading(label, output, lambda gap: gap <= ORDER_TENTH)),
        DOUBLE,
    ),
    Claim(
        "l1: FedDualAvg stays above 10^0",
        L1,
        {point: gap_reading(label, output, lambda gap: gap > 1) for point, (output, label) in FEDDUALAVG.items()},
        FIGURES,
    ),
    Claim(
        "l1: FedMiD stays above 10^0",
        L1,
        _by_server("FedMiD", lambda label, output: gap_reading(label, output, lambda gap: gap > 1)),
        DOUBLE + " Averaged plainly and with a small step, descent-ascent does converge here.",
    ),
    Claim(
        "l1: dual methods adhere better to regularization (lower density)",
        L1,
        _dual_and_primal(("density",)),
        "Each dual method against its primal counterpart: FeDualEx and FedMiP, FedDualAvg and FedMiD.",
    ),
    Claim(
        "l1: FeDualEx reaches a density ('sparsity', E29) around 0.7",
        L1,
        _of_fedualex(lambda label, output: density_reading(label, output, 0.7, 0.05)),
        FIGURES + " Averages over time fill the zeros.",
    ),
    Claim(
        "l1: FedMiP stays at a density around 0.95",
        L1,
        _by_server("FedMiP", lambda label, output: density_reading(label, output, 0.95, 0.03)),
        DOUBLE,
    ),
    Claim(
        "nuclear: dual methods do better in gap and rank",
        NUCLEAR,
        _dual_and_primal(("gap", "rank")),
        "Each dual method against its primal counterpart: FeDualEx and FedMiP, FedDualAvg and FedMiD; equal ranks are "
        "not better.",
    ),
    Claim(
        "nuclear: dual methods do better in gap",
        NUCLEAR,
        _dual_and_primal(("gap",)),
        "The same without the ranks, which are full in every average. " + CHOICE,
    ),
    Claim(
        "nuclear: FeDualEx converges better than FedDualAvg",
        NUCLEAR,
        {point: smaller_gap("FeDualEx", label, output) for point, (output, label) in FEDDUALAVG.items()}
        | {
            f"unprojected start, {start}, last point": smaller_gap(f"FeDualEx {name}", f"FedDualAvg {name}", "last")
            for start, name in STARTS.items()
        },
    ),
    Claim(
        "nuclear: FeDualEx quickly reaches the optimal rank 10",
        NUCLEAR,
        _of_fedualex(lambda label, output: reaches_rank(label, output, 10)),
        "Averages over time have full rank.",
    ),
    Claim(
        "nuclear: the same from the paper's starts, which are outside the domain, kept unprojected (E5)",
        NUCLEAR,
        {
            f"{start}, {point}": reaches_rank(f"FeDualEx {name}", output, 10)
            for start, name in STARTS.items()
            for point, output in OUTPUTS.items()
        },
        "All singular values stay at their bound until the dual state has forgotten where it began.",
    ),
)
UNEQUAL = ("unequal-0.1", "unequal-0.3", "unequal-1", "unequal-nuclear-0.3", "unequal-nuclear-1")
RIVALS = ("FeDualEx", "FedMiP plain averaging", "FedDualAvg", "SCAFFOLD-S", "FeDualEx corrected")
CONVEX = ("convex-sparse", "convex-dense", "convex-low-rank")
RATES = {
    "R": tuple(f"rates-R-{value}" for value in (50, 100, 200, 400, 800)),
    "K": tuple(f"rates-K-{value}" for value in (1, 3, 10, 30)),
    "M": tuple(f"rates-M-{value}" for value in (1, 3, 10, 30, 100)),
    "sigma": tuple(f"rates-sigma-{value}" for value in ("0.01", "0.03", "0.1", "0.3", "1")),
}
COHORTS = {game: tuple(f"cohorts-{game}-{size}" for size in (10, 30, 100)) for game in ("l1", "nuclear")}
LAST = ("last-point-exact", "last-point-1", "last-point-10", "last-point-100")
QUESTIONS: tuple[Claim | Trend, ...] = (
    Claim(
        "unequal clients: drift correction gives FeDualEx a smaller gap after as many exchanges",
        UNEQUAL,
        {p: smallest_at_equal_cost("FeDualEx corrected", ["FeDualEx"], output) for p, output in OUTPUTS.items()},
        "No theorem covers unequal clients; the certificate does.",
    ),
    Claim(
        "unequal clients: FeDualSlide has the smallest gap of all after as many exchanges",
        UNEQUAL,
        {p: smallest_at_equal_cost("FeDualSlide", RIVALS, output) for p, output in OUTPUTS.items()},
        "Its answer is the pair of its bounds, which is compared with this output of the others.",
    ),
    Claim(
        "convex (Theorem 2): FeDualEx has a smaller gap than FedDualAvg",
        CONVEX,
        {point: smaller_gap("FeDualEx", label, output) for point, (output, label) in FEDDUALAVG.items()},
        "Gaps are certified bounds, which here may exceed the gap itself.",
    ),
    Claim(
        "convex (Theorem 2): FeDualEx has a smaller gap than FedMiD",
        CONVEX,
        _by_server("FedMiD", lambda label, output: smaller_gap("FeDualEx", label, output)),
    ),
    Claim(
        "rates: the ergodic gap is below Theorem 1 as printed",
        tuple(name for names in RATES.values() for name in names),
        {"ergodic average": below_theory("printed", "ergodic")},
    ),
    Claim(
        "rates: the ergodic gap is below Theorem 1 as corrected",
        tuple(name for names in RATES.values() for name in names),
        {"ergodic average": below_theory("corrected", "ergodic")},
    ),
    Trend(
        "rates: the ergodic gap falls with R at least like R^(-1/2)",
        RATES["R"],
        slope("R", "ergodic", lambda exponent: exponent <= -0.5),
        "The term of Theorem 1 that dominates for many rounds.",
    ),
    Trend(
        "rates: the ergodic gap falls with K at least like K^(-1/4)",
        RATES["K"],
        slope("K", "ergodic", lambda exponent: exponent <= -0.25),
        "The dominating term does not fall with K at all, the next one like K^(-1/4).",
    ),
    Trend(
        "rates: the ergodic gap falls with M like M^(-1/2)",
        RATES["M"],
        slope("M", "ergodic", lambda exponent: abs(exponent + 0.5) <= 0.1),
        "The noise term alone has this rate.",
    ),
    Trend(
        "rates: the ergodic gap grows with sigma like sigma",
        RATES["sigma"],
        slope("sigma", "ergodic", lambda exponent: abs(exponent - 1) <= 0.1),
        "The noise term alone has this rate.",
    ),
    *(
        Trend(
            f"non-Euclidean: with {size} strategies the entropic geometry gives a smaller {name} gap",
            tuple(f"entropic-{kind}-{size}" for kind in GEOMETRIES),
            entropic_against_euclidean(size, output),
        )
        for size in (100, 300)
        for name, output in (("last", "last"), ("ergodic", "ergodic"))
    ),
    Claim(
        "partial participation: FeDualEx converges to the order of 10^-1 on the l1 game with every cohort",
        COHORTS["l1"],
        _of_fedualex(lambda label, output: gap_reading(label, output, lambda gap: gap <= ORDER_TENTH)),
        "At steps tuned for the ergodic average.",
    ),
    Claim(
        "partial participation: FeDualEx reaches rank 10 on the nuclear game with every cohort",
        COHORTS["nuclear"],
        {"last point": reaches_rank("FeDualEx", "last", 10)},
    ),
    Claim(
        "last point: FedMiP (plain averaging) is ahead of FeDualEx",
        LAST,
        {"last point": smaller_gap("FedMiP plain averaging", "FeDualEx", "last")},
        "With one client and without noise too, so averaging over clients is not the reason.",
    ),
    Claim(
        "last point: FeDualEx is behind because its dual state forgets nothing",
        LAST,
        {"last point": smaller_gap("FeDualEx recentered", "FeDualEx", "last")},
        "Recentered at its point after every round, and unchanged otherwise.",
    ),
)
CLAIMS = (*PAPER, *QUESTIONS)


def judge(claim: Claim | Trend, experiments: dict[str, Runs]) -> Json | None:
    """One row of the table; None if nothing that the claim is about was run."""
    present = {name: experiments[name] for name in claim.experiments if name in experiments}
    if isinstance(claim, Trend):
        if len(present) < len(claim.experiments):
            return None
        readings = {"all cases": {"together": claim.read(present)}}
    else:
        readings = {reading: results for reading, read in claim.readings.items() if (results := _read(read, present))}
    if not readings:
        return None
    verdict, condition = _verdict(readings)
    measured = "; ".join(
        f"{reading}: " + ", ".join(f"{name} {one.text}" for name, one in results.items())
        for reading, results in readings.items()
    )
    return {
        "claim": claim.sentence,
        "measured": measured,
        "readings": [
            {"reading": reading, "experiment": name, "holds": one.holds, "measured": one.text}
            for reading, results in readings.items()
            for name, one in results.items()
        ],
        "verdict": verdict,
        "why": f"{condition} {claim.remark}".strip(),
    }


def _verdict(readings: dict[str, dict[str, Found]]) -> tuple[str, str]:
    """In how many readings a claim holds, and in which."""
    good = [reading for reading, results in readings.items() if all(one.holds for one in results.values())]
    partly = [
        f"{reading} of {name}"
        for reading, results in readings.items()
        for name, one in results.items()
        if one.holds and reading not in good
    ]
    if len(good) == len(readings):
        return "agrees", "In every reading."
    if good or partly:
        return "agrees only if", f"Only: {'; '.join(good + partly)}."
    return "does not agree", "In no reading."


def _read(read: Reading, experiments: dict[str, Runs]) -> dict[str, Found]:
    """One reading in every experiment that ran the methods it is about."""
    results = {}
    for name, runs in experiments.items():
        with suppress(KeyError):  # a method that this experiment leaves out
            results[name] = read(runs)
    return results


def judge_claims(root: Path) -> list[Json]:
    """Every claim judged on the finished experiments in a folder; a row says if its instances are small."""
    names: Iterable[str] = sorted({name for claim in CLAIMS for name in claim.experiments})
    begun = {name: seed_runs(root / name) for name in names if (root / name / "runs").is_dir()}
    experiments = {name: runs for name, runs in begun.items() if complete(root / name, runs)}
    small = any(is_small(root / name) for name in experiments)
    return [row | {"small": small} for claim in CLAIMS if (row := judge(claim, experiments))]


def write_claims(root: Path) -> list[Json]:
    """The table of all claims, kept beside the experiments."""
    table = judge_claims(root)
    write_json(root / "claims.json", table)
    return table

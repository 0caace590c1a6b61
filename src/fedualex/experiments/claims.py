"""The sentences of the paper's Section 6 against what was measured.

Each claim is a condition on the final numbers of stored seeds. It is read in every way that the text leaves open: for
the last server point and for the ergodic average (E6), with the server rule as printed and with plain averaging (E4).
A claim that holds in all readings, for K = 1 and for K = 10 as far as both were run, "agrees"; if it holds somewhere,
"agrees only if", and the table says where; if nowhere, "does not agree".
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..storage import write_json
from .folder import StoredRun
from .summary import complete, final, seed_runs, steps_text

Runs = dict[str, list[StoredRun]]

ORDER_TENTH = 10**-0.5
"""Up to here a number is of the order of 10^-1, on a logarithmic scale."""


@dataclass(frozen=True)
class Found:
    """What one reading of a claim gives in one experiment."""

    holds: bool
    text: str


@dataclass(frozen=True)
class Claim:
    """A sentence, the experiments it is about, and its readings by name."""

    sentence: str
    experiments: tuple[str, ...]
    readings: dict[str, Callable[[Runs], Found]]
    remark: str = ""


L1, NUCLEAR = ("l1-k1", "l1-k10"), ("nuclear-k1", "nuclear-k10")
OUTPUTS = {"last point": "last", "ergodic average": "ergodic"}
SERVERS = ("as printed", "plain averaging")


def gap_claim(sentence: str, labels: Sequence[str], holds: Callable[[float], bool], remark: str = "") -> Claim:
    """A claim about the final gap of one method, in all its versions and for both outputs."""

    def reading(label: str, output: str) -> Callable[[Runs], Found]:
        def read(runs: Runs) -> Found:
            gap = final(runs[label], output, "gap")
            return Found(holds(gap.mean), f"gap {gap} ({steps_text(runs[label][0])})")

        return read

    return Claim(sentence, L1, _readings(labels, reading), remark)


def density_claim(sentence: str, labels: Sequence[str], target: float, slack: float, remark: str = "") -> Claim:
    """A claim about the final density of one method."""

    def reading(label: str, output: str) -> Callable[[Runs], Found]:
        def read(runs: Runs) -> Found:
            density = final(runs[label], output, "density")
            return Found(abs(density.mean - target) <= slack, f"density {density} ({steps_text(runs[label][0])})")

        return read

    return Claim(sentence, L1, _readings(labels, reading), remark)


def dual_against_primal(sentence: str, experiments: tuple[str, ...], keys: tuple[str, ...], remark: str = "") -> Claim:
    """Each dual method against its primal counterpart, in every number named."""

    def reading(server: str, output: str) -> Callable[[Runs], Found]:
        pairs = [("FeDualEx", f"FedMiP {server}"), ("FedDualAvg", f"FedMiD {server}")]

        def read(runs: Runs) -> Found:
            holds, texts = True, []
            for key in keys:
                for dual, primal in pairs:
                    ours, theirs = final(runs[dual], output, key), final(runs[primal], output, key)
                    holds &= ours.mean < theirs.mean or (key == "rank" and ours.mean == theirs.mean)
                    texts.append(f"{key} {dual} {ours.mean:.3g} against {theirs.mean:.3g}")
            return Found(holds, ", ".join(texts))

        return read

    names = {f"{server}, {name}": reading(server, output) for server in SERVERS for name, output in OUTPUTS.items()}
    return Claim(sentence, experiments, names, remark)


def better_than_dual_averaging(output: str) -> Callable[[Runs], Found]:
    """FeDualEx against FedDualAvg in the gap."""

    def read(runs: Runs) -> Found:
        ours, theirs = final(runs["FeDualEx"], output, "gap"), final(runs["FedDualAvg"], output, "gap")
        return Found(ours.mean < theirs.mean, f"gap {ours} against {theirs}")

    return read


def reaches_rank(label: str, output: str, rank: int) -> Callable[[Runs], Found]:
    """Both ranks stay at the optimum from some round of the first half on, in every seed."""

    def read(runs: Runs) -> Found:
        since = [settled(run, output, [rank, rank]) for run in runs[label]]
        last = runs[label][0].history[-1]["round"]
        ranks = f"final ranks {runs[label][0].history[-1][f'rank_{output}']}"
        if any(start is None for start in since):
            return Found(False, f"not settled at {rank} by round {last}; {ranks}")
        slowest = max(start for start in since if start is not None)
        return Found(slowest <= last / 2, f"from round {slowest} of {last} on, in every seed")

    return read


def settled(run: StoredRun, output: str, rank: list[int]) -> int | None:
    """The first recorded round from which the ranks stay as given; None if they do not."""
    start = None
    for record in reversed(run.history):
        if record[f"rank_{output}"] != rank:
            break
        start = int(record["round"])
    return start


def _readings(
    labels: Sequence[str], reading: Callable[[str, str], Callable[[Runs], Found]]
) -> dict[str, Callable[[Runs], Found]]:
    several = len(labels) > 1
    return {
        (f"{label.split(' ', 1)[1]}, {name}" if several else name): reading(label, output)
        for label in labels
        for name, output in OUTPUTS.items()
    }


FEDMIP, FEDMID = ("FedMiP as printed", "FedMiP plain averaging"), ("FedMiD as printed", "FedMiD plain averaging")
DOUBLE = (
    "With the server rule as printed psi is applied on the clients and on the server: the method solves 2 psi (E4)."
)
FIGURES = "The paper's figures show the last server point, its theorems the ergodic average (E6)."

CLAIMS = (
    gap_claim("l1: FeDualEx converges to the order of 10^-1", ["FeDualEx"], lambda gap: gap <= ORDER_TENTH),
    gap_claim("l1: FedMiP converges to the order of 10^-1", FEDMIP, lambda gap: gap <= ORDER_TENTH, DOUBLE),
    gap_claim("l1: FedDualAvg stays above 10^0", ["FedDualAvg"], lambda gap: gap > 1, FIGURES),
    gap_claim(
        "l1: FedMiD stays above 10^0",
        FEDMID,
        lambda gap: gap > 1,
        DOUBLE + " Averaged plainly and with a small step, descent-ascent does converge here.",
    ),
    dual_against_primal("l1: dual methods adhere better to regularization (lower density)", L1, ("density",)),
    density_claim(
        "l1: FeDualEx reaches a density ('sparsity', E29) around 0.7",
        ["FeDualEx"],
        0.7,
        0.05,
        FIGURES + " Averages over time fill the zeros.",
    ),
    density_claim("l1: FedMiP stays at a density around 0.95", FEDMIP, 0.95, 0.03, DOUBLE),
    dual_against_primal(
        "nuclear: dual methods do better in gap and rank",
        NUCLEAR,
        ("gap", "rank"),
        "Each dual method against its primal counterpart: FeDualEx and FedMiP, FedDualAvg and FedMiD.",
    ),
    Claim(
        "nuclear: FeDualEx converges better than FedDualAvg",
        NUCLEAR,
        {name: better_than_dual_averaging(output) for name, output in OUTPUTS.items()},
    ),
    Claim(
        "nuclear: FeDualEx quickly reaches the optimal rank 10",
        NUCLEAR,
        {name: reaches_rank("FeDualEx", output, 10) for name, output in OUTPUTS.items()},
        "Averages over time have full rank.",
    ),
    Claim(
        "nuclear: the same from the paper's start, which is outside the domain, kept unprojected (E5)",
        ("nuclear-k1",),
        {name: reaches_rank("FeDualEx unprojected start", output, 10) for name, output in OUTPUTS.items()},
        "All singular values stay at their bound until the dual state has forgotten where it began.",
    ),
)


def judge(claim: Claim, experiments: dict[str, Runs]) -> dict[str, Any] | None:
    """One row of the table; None if nothing that the claim is about was run."""
    present = {name: experiments[name] for name in claim.experiments if name in experiments}
    if not present:
        return None
    found = {reading: results for reading, read in claim.readings.items() if (results := _read(read, present))}
    if not found:
        return None
    good = [reading for reading, results in found.items() if all(one.holds for one in results.values())]
    partly = [
        f"{reading} of {name}"
        for reading, results in found.items()
        for name, one in results.items()
        if one.holds and reading not in good
    ]
    if len(good) == len(found):
        verdict, condition = "agrees", "In every reading."
    elif good or partly:
        verdict, condition = "agrees only if", f"Only: {'; '.join(good + partly)}."
    else:
        verdict, condition = "does not agree", "In no reading."
    measured = "; ".join(
        f"{reading}: " + ", ".join(f"{name} {one.text}" for name, one in results.items())
        for reading, results in found.items()
    )
    return {
        "claim": claim.sentence,
        "measured": measured,
        "verdict": verdict,
        "why": f"{condition} {claim.remark}".strip(),
    }


def _read(read: Callable[[Runs], Found], experiments: dict[str, Runs]) -> dict[str, Found]:
    """One reading in every experiment that ran the methods it is about."""
    results = {}
    for name, runs in experiments.items():
        with suppress(KeyError):  # a method that this experiment leaves out
            results[name] = read(runs)
    return results


def write_claims(root: Path) -> list[dict[str, Any]]:
    """Judge every claim on the finished experiments in a folder, and keep the table beside them."""
    names = sorted({name for claim in CLAIMS for name in claim.experiments})
    begun = {name: seed_runs(root / name) for name in names if (root / name / "runs").is_dir()}
    experiments = {name: runs for name, runs in begun.items() if complete(root / name, runs)}
    table = [row for claim in CLAIMS if (row := judge(claim, experiments))]
    write_json(root / "claims.json", table)
    return table

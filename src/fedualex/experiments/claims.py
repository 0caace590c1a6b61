"""The sentences of the paper's Section 6 against what was measured.

Each claim is a condition on the final numbers of stored seeds. It is read in every way that the text leaves open: for
the last server point and for the ergodic average (E6), with the server rule as printed and with plain averaging (E4).
A claim that holds in all readings, for K = 1 and for K = 10 as far as both were run, "agrees"; if it holds somewhere,
"agrees only if", and the table says where; if nowhere, "does not agree".
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..storage import write_json
from .readings import (
    L1,
    NUCLEAR,
    OUTPUTS,
    Claim,
    Found,
    Runs,
    better_than_dual_averaging,
    density_claim,
    dual_against_primal,
    gap_claim,
    reaches_rank,
)
from .summary import complete, is_small, seed_runs

ORDER_TENTH = 10**-0.5
"""Up to here a number is of the order of 10^-1, on a logarithmic scale."""
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
        "readings": [
            {"reading": reading, "experiment": name, "holds": one.holds, "measured": one.text}
            for reading, results in found.items()
            for name, one in results.items()
        ],
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


def judged(root: Path) -> list[dict[str, Any]]:
    """Every claim judged on the finished experiments in a folder; a row says if its instances are small."""
    names = sorted({name for claim in CLAIMS for name in claim.experiments})
    begun = {name: seed_runs(root / name) for name in names if (root / name / "runs").is_dir()}
    experiments = {name: runs for name, runs in begun.items() if complete(root / name, runs)}
    small = any(is_small(root / name) for name in experiments)
    return [row | {"small": small} for claim in CLAIMS if (row := judge(claim, experiments))]


def write_claims(root: Path) -> list[dict[str, Any]]:
    """The table of all claims, kept beside the experiments."""
    table = judged(root)
    write_json(root / "claims.json", table)
    return table

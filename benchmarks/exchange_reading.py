"""What exchanges.json says about FeDualSlide: where it wins and where not."""

import json
from typing import Any

from exchange_problems import PROBLEMS
from processes import HERE

RESULTS = HERE / "exchanges.json"
SHOWN = (10, 30, 100, 300)
SLIDES = {f"FeDualSlide, {mode}": mode for mode in ("local", "survey", "auto")}
# Exchanges a round.
COUNTS = {
    "FeDualEx": "1",
    "FeDualExCorrected": "2",
    "FeDualExCorrected, recentered": "2",
    "FedGDAGT": "2",
    "SynchronousMirrorProx": "2",
    "LeadSliding, extragradient": "2",
    "LeadSliding, optimistic": "1",
    "FeDualSlide, local": "2",
    "FeDualSlide, survey": "1",
    "FeDualSlide, auto": "1 or 2",
}
OLDER = ("FeDualEx", "FeDualExCorrected", "SynchronousMirrorProx")
AGNOSTIC = ("cancer", "digits", "cancer5", "digits5")
# Of a prototype in numpy, with games and domains of its own.
PROTOTYPE = {
    "local": {"q05": 3.5e-4, "q3": 3.4e-4, "b5": 4.9e-3, "cancer": 1.5e-3, "digits": 3.4e-3},
    "survey": {"q05": 0.034, "q3": 0.032, "b5": 0.032, "cancer": 8e-5, "digits": 2e-4},
    "auto": {"q05": 3.1e-3, "q3": 1e-3, "b5": 6.5e-3, "cancer": 6e-5, "digits": 2.4e-3},
}


def load() -> dict[str, Any]:
    """What was measured."""
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


def gap(results: dict[str, Any], name: str, row: str, mark: int, kind: str = "all") -> float:
    """One number."""
    return float(results[name]["rows"][row][kind][str(mark)])


def reading(results: dict[str, Any]) -> str:
    """Where FeDualSlide wins and where not, from the numbers."""
    names = [name for name in PROBLEMS if name in results]
    compared = "\n".join(f"| {' | '.join(against_the_best(results, name))} |" for name in names)
    head = "| problem | the best other at 100 | the best other's gap over that of `auto`, at every mark |"
    parts = [
        "Below 1 the tuned other method is the better one:",
        f"{head}\n| --- | --- | --- |\n{compared}",
        *(against_the_older(results, names)),
    ]
    if still := [
        f"{mode} on {name}" for name in names for row, mode in SLIDES.items() if stands_still(results, name, row)
    ]:
        parts.append(f"Between 200 and 300 exchanges the gap stays the same for {', '.join(still)}.")
    return "\n\n".join([*parts, against_the_prototype(results)])


def against_the_best(results: dict[str, Any], name: str) -> list[str]:
    """The best of the others at each mark over `auto`."""
    others = [row for row in COUNTS if row not in SLIDES]
    gaps = {mark: {row: gap(results, name, row, mark) for row in others} for mark in SHOWN}
    ratios = [min(gaps[mark].values()) / gap(results, name, "FeDualSlide, auto", mark) for mark in SHOWN]
    return [name, min(gaps[100], key=lambda row: gaps[100][row]), " / ".join(f"{ratio:.2g}" for ratio in ratios)]


def against_the_older(results: dict[str, Any], names: list[str]) -> list[str]:
    """On agnostic problems, against what there was before."""
    found = []
    for name in (name for name in names if name in AGNOSTIC):
        older = min(gap(results, name, row, 100, "plain") for row in OLDER)
        ratios = [f"{older / gap(results, name, row, 100):.0f} (`{mode}`)" for row, mode in SLIDES.items()]
        found.append(f"{name} {', '.join(ratios)}")
    words = f"the best of {', '.join(OLDER)} without `bounds`"
    return [f"After 100 exchanges, {words} has so many times the gap: {'; '.join(found)}."] if found else []


def stands_still(results: dict[str, Any], name: str, row: str) -> bool:
    """Whether nothing was gained in the last hundred exchanges."""
    return gap(results, name, row, 300) > 0.9 * gap(results, name, row, 200)


def against_the_prototype(results: dict[str, Any]) -> str:
    """Which gaps at 100 exchanges are within a factor 3 of those of the prototype."""
    found: dict[str, list[str]] = {
        "within a factor 3 of": [],
        "more than 3 times above": [],
        "more than 3 times below": [],
    }
    for mode, gaps in PROTOTYPE.items():
        for name in (name for name in gaps if name in results):
            ratio = gap(results, name, f"FeDualSlide, {mode}", 100) / gaps[name]
            word = (
                "within a factor 3 of"
                if 1 / 3 <= ratio <= 3
                else f"more than 3 times {'above' if ratio > 1 else 'below'}"
            )
            found[word].append(f"{mode} on {name} ({ratio:.2g})")
    listed = "; ".join(f"{word} it: {', '.join(rows)}" for word, rows in found.items() if rows)
    return (
        f"Against a prototype in numpy, on games and domains of its own, after 100 exchanges: {listed}. "
        "The boxes, offsets and ranks of the games here were chosen so that gaps are of about its size: to agree "
        "on games means little."
    )

"""The conditions behind the paper's sentences: what one reading of a claim finds in stored seeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .folder import StoredRun
from .summary import final, steps_text

Runs = dict[str, list[StoredRun]]


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

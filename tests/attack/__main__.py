"""`SECONDS=600 SEED=0 PARTS=points,runs CASE=17 python -m attack`: ends with counts, and with 0 only if nothing failed."""

import os
import signal
import sys

from .harness import Part, Tally, attack, limit_memory, stop


def parts() -> list[Part]:
    """All parts, in the order in which they are numbered: a new one goes to the end."""
    from . import (
        calls,
        configurations,
        convexity,
        folders,
        games,
        identities,
        liars,
        losses,
        models,
        reconstruction,
        rounding,
    )

    return [
        Part("points", "a certificate is never below the gap of a game", 4.0, games.attack_points),
        Part("runs", "outputs, texts and statuses of runs are true", 4.0, games.attack_runs),
        Part("losses", "the same for losses of a linear score", 3.0, losses.attack),
        Part("identities", "prox and conjugate are what they should be", 2.0, identities.attack),
        Part("laws", "every listed regularizer and geometry keeps its laws", 1.0, identities.attack_laws),
        Part("convexity", "only convex-concave f without kinks is certified", 3.0, convexity.attack),
        Part("calls", "a wrong argument is refused in one sentence", 3.0, calls.attack),
        Part("configurations", "a wrong file is refused in one line", 2.0, configurations.attack),
        Part("folders", "a changed run folder is not verified", 2.0, folders.attack),
        Part("reconstruction", "no row follows from all that a server holds", 4.0, reconstruction.attack),
        Part("liars", "a lying server is refused or gets noise", 3.0, liars.attack),
        Part(
            "rounding", "the gap of a fit is proved, however near rounding it is", 4.0, rounding.attack, rounding.COUNTS
        ),
        Part("models", "a changed model is refused in one line, or read right", 2.0, models.attack),
    ]


def main(seconds: float, seed: int, names: str = "", case: int | None = None) -> list[Tally]:
    """Attack all parts, or those of these names, each for its share of the time."""
    every = list(enumerate(parts()))
    chosen = [(number, part) for number, part in every if not names or part.name in names.split(",")]
    total = sum(part.share for _, part in chosen)
    signal.signal(signal.SIGTERM, stop)
    found = list[Tally]()
    for number, part in chosen:
        found.append(attack(part, number, seed, seconds * part.share / total, case))
        if found[-1].stopped:
            break
    return found


def table(tallies: list[Tally]) -> str:
    """Part, cases, failures."""
    lines = [f"{'part':<16}{'cases':>8}{'failures':>10}{'seconds':>9}{'GB':>6}  promise"]
    for tally in tallies:
        part = tally.part
        used = f"{tally.memory / 2**30:.1f}"
        lines.append(
            f"{part.name:<16}{tally.cases:>8}{tally.failures:>10}{tally.seconds:>9.0f}{used:>6}  {part.promise}"
        )
        lines += [f"{'':<16}{count:>18}  {kind}" for kind, count in tally.kinds.items()]
        if tally.part.counts:
            said = ", ".join(f"{name} {count}" for name, count in tally.part.counts.items())
            lines.append(f"{'':<16}{said}")
    return "\n".join(lines)


if __name__ == "__main__":
    options = os.environ
    limit_memory()
    case = options.get("CASE")
    found = main(
        float(options.get("SECONDS", "600")),
        int(options.get("SEED", "0")),
        options.get("PARTS", ""),
        None if case is None else int(case),
    )
    print("\n" + table(found))
    sys.exit(any(tally.failures for tally in found))

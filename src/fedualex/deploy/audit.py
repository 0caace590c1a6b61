"""What a site's ledger says, for its operator: every release, totals, and whether the file is whole."""

from collections import Counter
from pathlib import Path
from typing import Any

from .ledger import LEDGER, Ledger
from .ledger_lines import Line, Reading, read
from .policy import POLICY, read_policy
from .privacy import composed_epsilon


def audit(folder: Path) -> dict[str, Any]:
    """The lines of a ledger as plain data, with their totals. Changes nothing."""
    file = folder / LEDGER
    try:
        found = read(file.read_bytes())
    except FileNotFoundError:
        raise FileNotFoundError(f"{folder} is not the folder of a site: it has no {LEDGER}") from None
    return {
        "file": str(file),
        "damage": found.damage,
        "head": found.head,
        "lines": [_row(line) for line in found.lines],
        "totals": _totals(found, read_policy(folder).delta if (folder / POLICY).exists() else 1e-5),
    }


def acknowledge(folder: Path, note: str) -> None:
    """An operator's word that damage was seen, after which the site answers again."""
    Ledger(folder / LEDGER).acknowledge(note)


def _row(line: Line) -> dict[str, Any]:
    plain = {name: getattr(line, name) for name in line.__dataclass_fields__ if name != "previous"}
    return {**plain, "under_masks": line.under_masks, "in_the_clear": line.in_the_clear}


def _totals(found: Reading, delta: float) -> dict[str, Any]:
    released = [line for line in found.lines if line.released]
    noises = Counter(line.noise for line in released if line.noise is not None)
    return {
        "releases": len(released) + (found.torn is not None),
        "bytes": sum(line.size for line in released),
        "runs": len({line.run for line in released if line.run}),
        "tasks": dict(Counter(line.task or line.kind for line in released)),
        "under_masks": sum(bool(line.under_masks) for line in released),
        "in_the_clear": sum(bool(line.in_the_clear) for line in released),
        "with_noise": sum(noises.values()),
        "epsilon": composed_epsilon(noises, delta) if noises else None,
        "delta": delta,
    }

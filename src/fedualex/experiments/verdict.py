"""What a verification finds: checks, and one verdict over all of them."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

DATA = "data as it was"
"""The one check whose failure has a verdict of its own: the folder may be whole, and the data another."""


class Verdict(IntEnum):
    """From the best to the worst; of several the worst counts."""

    VERIFIED = 0
    NOT_FULLY_CHECKED = 1
    DATA_CHANGED = 2
    CANNOT_BE_READ = 3
    DIFFERS = 4


REASONS = {
    Verdict.NOT_FULLY_CHECKED: "nothing differs",
    Verdict.DATA_CHANGED: "the configuration leads to another problem than the run's; nothing else differs",
}


@dataclass(frozen=True)
class Check:
    """One comparison: what the folder says, what was found again, and whether they agree (None: could not be done)."""

    output: str
    what: str
    stored: Any
    found: Any
    agrees: bool | None


@dataclass(frozen=True)
class Result:
    """What was found in a folder: its own checks, and in a collection what was found in each run."""

    path: Path
    checks: tuple[Check, ...] = ()
    runs: tuple["Result", ...] = ()
    trouble: str = ""
    """Why a run of a collection could not be read."""

    @property
    def verdict(self) -> Verdict:
        """The worst of all."""
        return max([_verdict(self.checks, self.trouble), *(run.verdict for run in self.runs)])

    @property
    def headline(self) -> str:
        """The verdict in words."""
        reason = self.trouble or REASONS.get(self.verdict)
        return self.verdict.name.replace("_", " ") + (f": {reason}" if reason else "")

    def plain(self) -> dict[str, Any]:
        """As plain data; what is not finite as text, because strict JSON has no such numbers."""
        inner = {"runs": [run.plain() for run in self.runs]} if self.runs else {}
        return {
            "folder": str(self.path),
            "verdict": self.verdict.name,
            "headline": self.headline,
            "agrees": self.verdict <= Verdict.NOT_FULLY_CHECKED,
            "complete": self._complete(),
            "checks": [asdict(replace(c, stored=_finite(c.stored), found=_finite(c.found))) for c in self.checks],
            **inner,
        }

    def _complete(self) -> bool:
        checked = all(check.agrees is not None for check in self.checks)
        return checked and not self.trouble and all(run._complete() for run in self.runs)


def _verdict(checks: Iterable[Check], trouble: str) -> Verdict:
    differing = {check.what for check in checks if check.agrees is False}
    if differing - {DATA}:
        return Verdict.DIFFERS
    if trouble:
        return Verdict.CANNOT_BE_READ
    if differing:
        return Verdict.DATA_CHANGED
    complete = all(check.agrees for check in checks)
    return Verdict.VERIFIED if complete else Verdict.NOT_FULLY_CHECKED


def _finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value

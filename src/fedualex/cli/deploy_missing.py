"""The sites that a run waits for: who they are, since when, and what to do, told again and again."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..deploy.engines import Control


AGAIN = 60.0
"""Seconds after which the same is told again."""
SETTLED = 10.0
"""Seconds after which a site that is outside of the run stays so."""
RUNNING, WAITING = "running", "waiting"
SILENT = re.compile(r"nothing from (\S+): (.*)")
BACK = re.compile(r"(\S+) answers again$")
DO = "look at its log, and start it if it is not running: the run then goes on"


@dataclass
class _Silence:
    since: str
    reason: str


class MissingSites:
    """Reads what is new in the server's log, and asks the engine about sites that do not answer.

    sites: all sites of the run.
    """

    def __init__(self, folder: Path, control: "Control", sites: Sequence[str]):
        from ..deploy.layout import Layout
        from ..deploy.logs import LogTail

        self.folder, self.control, self.sites = folder, control, list(sites)
        self._tail = LogTail(Layout(folder).server)
        self._silent: dict[str, _Silence] = {}
        self._said, self._told = "", 0.0
        self._outside: float | None = None

    def look(self, said: str) -> bool:
        """Tell who is missing; whether a site is back that takes part only if the run is sent again.

        said: what the engine says of the run.
        """
        from ..deploy.engines import OUTSIDE

        if said != self._said and said == RUNNING:
            self._silent.clear()  # whoever is in a new job is no longer waited for
        self._said = said
        self._read_log()
        absent: dict[str, str] = {}
        if said == WAITING or (said == RUNNING and self._silent):
            absent = self.control.absent(self.folder, self.sites)
        if said == WAITING:
            self._silent = {name: self._silence(name, reason) for name, reason in absent.items() if reason != OUTSIDE}
        elif self._is_back([name for name in self._silent if absent.get(name) == OUTSIDE]):
            return True
        reasons = {name: absent.get(name, silence.reason) for name, silence in self._silent.items()}
        self._tell({name: reason for name, reason in reasons.items() if reason != OUTSIDE})
        return False

    def _is_back(self, names: list[str]) -> bool:
        """Whether sites have been outside of the run for a while: they also are for an instant when it ends."""
        now = time.monotonic()
        self._outside = (self._outside or now) if names else None
        if self._outside is None or now - self._outside < SETTLED:
            return False
        since = ", ".join(f"{name} has not answered since {self._silent[name].since}" for name in names)
        click.echo(f"{since}, and is back: the run is sent again from its checkpoint", err=True)
        self._silent.clear()
        self._outside = None
        return True

    def _silence(self, name: str, reason: str) -> _Silence:
        return self._silent.get(name) or _Silence(f"{datetime.now():%H:%M:%S}", reason)

    def _read_log(self) -> None:
        from ..deploy.engine import is_final

        for line in self._tail.new():
            message = str(line.get("message", ""))
            if found := SILENT.search(message):
                if found[2] != "stopped" and not is_final(
                    found[2]
                ):  # a refusal ends the run, or is none of its business
                    self._silent.setdefault(found[1], _Silence(_clock(line), found[2]))
            elif found := BACK.search(message):
                self._silent.pop(found[1], None)

    def _tell(self, missing: dict[str, str]) -> None:
        """Say of each of these sites, for its reason, that it is missing, unless that was said lately."""
        if not missing:
            self._told = 0.0
        elif not self._told or time.monotonic() - self._told >= AGAIN:
            self._told = time.monotonic()
            for name, reason in missing.items():
                click.echo(f"{name} has not answered since {self._silent[name].since} ({reason}): {DO}", err=True)


def _clock(line: dict[str, Any]) -> str:
    """The time of a line of a log on this machine's clock."""
    return f"{datetime.fromisoformat(line['time']).astimezone():%H:%M:%S}"

"""A deployment as the command line looks at it: its engine, its run folder, and a run until it has ended."""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import shown
from .deploy_missing import MissingSites

if TYPE_CHECKING:
    from ..deploy.engines import Control
    from ..deploy.layout import Layout

PATIENCE = 180.0
"""Seconds for a server that cannot be reached to come back."""
UNREACHABLE, REJOINED = "unreachable", "rejoined"


class Following:
    """Looks at a run until it has ended, and shows what is new."""

    def __init__(self, folder: Path, control: "Control", sites: Sequence[str], as_json: bool):
        self.folder, self.control, self.quiet = folder, control, as_json
        self.missing = MissingSites(folder, control, sites)
        self.newest, self.said, self.heard = -1, "", time.monotonic()

    def until_ended(self) -> str:
        """The engine's last word, or `REJOINED` if a site is back that takes part only if the run is sent again."""
        ended = False
        while not ended:
            time.sleep(self.control.POLL)
            before, (self.said, ended) = self.said, self.control.state(self.folder)
            if self.said == UNREACHABLE:
                self._wait_for_server(new=before != UNREACHABLE)
            else:
                self.heard = time.monotonic()
                if self.said != before and not ended and not self.quiet:  # "waiting" for sites may last
                    click.echo(f"engine: {self.said}")
            self._show_newest()
            if self.missing.look(self.said):
                return REJOINED
        return self.said

    def _wait_for_server(self, new: bool) -> None:
        silent = time.monotonic() - self.heard
        if silent > PATIENCE:
            raise RuntimeError(f"the server was silent for {silent:.0f} s: start it, then `fedualex deploy resume`")
        if new:
            end = datetime.now() + timedelta(seconds=PATIENCE - silent)
            click.echo(f"server unreachable since {silent:.0f} s, waiting until {end:%H:%M:%S}", err=True)

    def _show_newest(self) -> None:
        history, _ = stored_run(self.folder)
        if history and history[-1]["round"] > self.newest:
            self.newest = history[-1]["round"]
            if not self.quiet:
                _show(history[-1])


def _show(record: dict[str, Any]) -> None:
    gaps = [value for key, value in record.items() if key.startswith("gap_") and value is not None]
    click.echo(f"round {record['round']}: " + (f"certified gap <= {shown(min(gaps))}" if gaps else "no certificate"))


def engine_of(folder: Path) -> tuple["Control", dict[str, Any]]:
    """The functions of the deployment's engine, and the server's settings."""
    from ..deploy.engines import control_of
    from ..experiments.deployment_settings import settings_of

    settings = settings_of(layout_of(folder).server)
    return control_of(settings["server"]["engine"]), settings


def layout_of(folder: Path) -> "Layout":
    """Where the parties' files are."""
    from ..deploy.layout import Layout

    return Layout(folder)


def run_folder(folder: Path) -> Path:
    """Where the server keeps its run."""
    return layout_of(folder).run


def stored_run(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """The history and the status of the run as far as they are written."""
    from ..experiments.folder import load

    if not (run_folder(folder) / "manifest.json").exists():
        return [], None
    stored = load(run_folder(folder))
    return stored.history, stored.status

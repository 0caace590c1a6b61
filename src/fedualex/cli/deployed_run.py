"""A deployment's run as the command line sees it: begun, followed until it ends, and printed."""

import sys
import time
from pathlib import Path
from typing import Any

import click

from .common import exit_code, print_json, shown, status_line
from .model_words import FEW, description, show
from .runs import print_outputs

PATIENCE = 600.0
"""Seconds for a server that cannot be reached to come back."""


def run_deployment(folder: Path, as_json: bool) -> None:
    """Begin or resume the run, wait for its end, print it, and exit with its code."""
    from ..experiments.deployment import failure_of, forget_failure, run_locally, unfinished

    control, settings = engine_of(folder)
    if control is None:
        run_locally(folder, None if as_json else _show)
    else:
        unfinished(folder / "server")
        forget_failure(folder / "server")
        before = _written(folder)
        control.submit(folder, settings["run"]["min_replies"] or len(settings["sites"]))
        said = _follow(folder, control, as_json)
        if failure_of(folder / "server") or _written(folder) in (None, before):
            raise RuntimeError(_without_result(folder, said))
    _, found = stored_run(folder)
    assert found is not None
    tol = settings["run"]["tol"]
    model = kept_model(folder)
    if as_json:
        print_json(
            {"folder": str(run_folder(folder)), **found, **({} if model is None else {"model": description(model)})}
        )
    elif model is not None:
        show(model, FEW)
        click.echo(f"model: {folder / 'server' / 'model'}")
    else:
        print_outputs(found)
    if not as_json:
        click.echo(status_line(found, tol))
        click.echo(f"run: {run_folder(folder)}")
    sys.exit(exit_code(found, tol))


def _written(folder: Path) -> tuple[int, int] | None:
    """Which result the run folder holds; another one is another file."""
    file = run_folder(folder) / "status.json"
    return (file.stat().st_ino, file.stat().st_mtime_ns) if file.exists() else None


def _without_result(folder: Path, said: str) -> str:
    from ..experiments.deployment import failure_of

    if why := failure_of(folder / "server"):
        return f"the server could not go on: {why}"
    if said == "finished" and not run_folder(folder).exists():
        return "the run has finished; its result is in server/run on the server's machine"
    return f"the run has not ended by itself (the engine says {said!r}): the server's log says more, `resume` goes on"


def _follow(folder: Path, control: Any, as_json: bool) -> str:
    """Show records as they come until the engine says that the run has ended; its last word."""
    newest, said = -1, ""
    ended, heard = False, time.monotonic()
    while not ended:
        time.sleep(control.poll)
        before, (said, ended) = said, control.state(folder)
        if said != "unreachable":
            heard = time.monotonic()
        elif time.monotonic() - heard > PATIENCE:
            raise RuntimeError(f"the server was silent for {PATIENCE / 60:g} minutes: start it, then `resume`")
        if said != before and not ended and not as_json:  # "waiting" for sites and "unreachable" may last
            click.echo(f"engine: {said}")
        history, _ = stored_run(folder)
        if history and history[-1]["round"] > newest and not as_json:
            newest = history[-1]["round"]
            _show(history[-1])
    return said


def _show(record: dict[str, Any]) -> None:
    gaps = [value for key, value in record.items() if key.startswith("gap_") and value is not None]
    click.echo(f"round {record['round']}: " + (f"certified gap <= {shown(min(gaps))}" if gaps else "no certificate"))


def engine_of(folder: Path) -> tuple[Any, dict[str, Any]]:
    """The control of the deployment's engine, None for the local one, and the server's settings."""
    from ..deploy.control import control_of
    from ..experiments.deployment_settings import settings_of

    settings = settings_of(folder / "server")
    engine = settings["server"]["engine"]
    return (None if engine == "local" else control_of(engine)), settings


def run_folder(folder: Path) -> Path:
    """Where the server keeps its run."""
    return folder / "server" / "run"


def kept_model(folder: Path) -> Any:
    """The model that the run ended with; None if it has none."""
    from ..models.store import JSON, MODEL, load

    path = folder / "server" / MODEL
    return load(path) if (path / JSON).exists() else None


def stored_run(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """The history and the status of the run as far as they are written."""
    from ..experiments.folder import load

    if not (run_folder(folder) / "manifest.json").exists():
        return [], None
    stored = load(run_folder(folder))
    return stored.history, stored.status

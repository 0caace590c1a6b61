"""`fedualex deploy init | up | run | status | stop | resume`: the same problem, by real servers and sites."""

import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .common import exit_code, json_option, one_line_errors, print_json, shown, writable
from .runs import print_outputs, status_line

folder_argument = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
PATIENCE = 600.0
"""Seconds for a server that cannot be reached to come back."""


def plain_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """One line for bad input (exit code 2), and for what went wrong with an engine (1)."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except (RuntimeError, ConnectionError) as error:
            raise click.ClickException(" ".join(str(error).split())) from None

    return one_line_errors(wrapped)


@click.group()
def deploy() -> None:
    """Run a problem on a federated engine: NVIDIA FLARE, Flower, or all parties in this process."""


@deploy.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), callback=writable)
@click.option("--config", type=click.Path(path_type=Path), help="The deployment's TOML file; an example if left out.")
@click.option("--engine", help="Instead of the file's: local, nvflare or flower.")
@json_option
@plain_errors
def init(folder: Path, config: Path | None, engine: str | None, as_json: bool) -> None:
    """Write a ready deployment: keys, settings and a start script for each party, and a README."""
    from ..experiments.parties import write_deployment

    sites = write_deployment(folder, config, engine)
    line = f"{folder}: server and {len(sites)} sites ({', '.join(sites)}); {folder / 'README.md'} says who runs what"
    _say(line, {"folder": str(folder), "sites": sites}, as_json)


@deploy.command()
@folder_argument
@json_option
@plain_errors
def up(folder: Path, as_json: bool) -> None:
    """Start server and sites on this machine, for a trial."""
    control, settings = _control(folder)
    if control is None:
        _say("engine local needs nothing started: `fedualex deploy run` does it all", {"connected": []}, as_json)
        return
    control.up(folder)
    sites = list(settings["sites"])
    _say(f"server and {len(sites)} sites are connected", {"connected": sites}, as_json)


@deploy.command()
@folder_argument
@json_option
@plain_errors
def run(folder: Path, as_json: bool) -> None:
    """Run all rounds, and print what came out."""
    _run(folder, as_json)


@deploy.command()
@folder_argument
@json_option
@plain_errors
def resume(folder: Path, as_json: bool) -> None:
    """Go on from the last checkpoint, after a stop or a fault."""
    control, _ = _control(folder)
    begun = control is not None and control.state(folder)[0] != "none"  # maybe at the server's own machine
    if not begun and not (_run_folder(folder) / "manifest.json").exists():
        raise ValueError(f"there is nothing to resume in {folder}: `fedualex deploy run` begins")
    _run(folder, as_json)


@deploy.command()
@folder_argument
@json_option
@plain_errors
def status(folder: Path, as_json: bool) -> None:
    """What the engine says, and what the run folder says."""
    control, _ = _control(folder)
    engine = "local" if control is None else control.state(folder)[0]
    history, found = _stored(folder)
    last = history[-1] if history else {}
    if as_json:
        print_json({"engine": engine, "round": last.get("round"), "status": found, "run": str(_run_folder(folder))})
        return
    click.echo(f"engine: {engine}")
    click.echo(f"last record: round {last['round']}" if last else "no record yet")
    click.echo(f"status: {found['status']}, {found['stop']}" if found else "status: not ended")


@deploy.command()
@folder_argument
@json_option
@plain_errors
def stop(folder: Path, as_json: bool) -> None:
    """End the run, keep its checkpoint, and end the processes that `up` started here."""
    control, _ = _control(folder)
    if control is None:
        _say("engine local runs in `fedualex deploy run` alone: Ctrl-C there ends it", {"stopped": False}, as_json)
        return
    try:
        engine, ended = control.state(folder)
        if not ended and engine != "unreachable":  # a server that is gone runs nothing, but its sites may be here
            control.stop(folder)
    finally:
        control.down(folder)
    _say("stopped", {"stopped": True}, as_json)


def _say(line: str, data: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(data)
    else:
        click.echo(line)


def _run(folder: Path, as_json: bool) -> None:
    from ..experiments.deployment import failure_of, forget_failure, run_locally, unfinished

    control, settings = _control(folder)
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
    _, found = _stored(folder)
    assert found is not None
    tol = settings["run"]["tol"]
    if as_json:
        print_json({"folder": str(_run_folder(folder)), **found})
    else:
        print_outputs(found)
        click.echo(status_line(found, tol))
        click.echo(f"run: {_run_folder(folder)}")
    sys.exit(exit_code(found, tol))


def _written(folder: Path) -> tuple[int, int] | None:
    """Which result the run folder holds; another one is another file."""
    file = _run_folder(folder) / "status.json"
    return (file.stat().st_ino, file.stat().st_mtime_ns) if file.exists() else None


def _without_result(folder: Path, said: str) -> str:
    from ..experiments.deployment import failure_of

    if why := failure_of(folder / "server"):
        return f"the server could not go on: {why}"
    if said == "finished" and not _run_folder(folder).exists():
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
        history, _ = _stored(folder)
        if history and history[-1]["round"] > newest and not as_json:
            newest = history[-1]["round"]
            _show(history[-1])
    return said


def _show(record: dict[str, Any]) -> None:
    gaps = [value for key, value in record.items() if key.startswith("gap_") and value is not None]
    click.echo(f"round {record['round']}: " + (f"certified gap <= {shown(min(gaps))}" if gaps else "no certificate"))


def _control(folder: Path) -> tuple[Any, dict[str, Any]]:
    from ..deploy.control import control_of
    from ..experiments.deployment import settings_of

    settings = settings_of(folder / "server")
    engine = settings["server"]["engine"]
    return (None if engine == "local" else control_of(engine)), settings


def _run_folder(folder: Path) -> Path:
    return folder / "server" / "run"


def _stored(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    from ..experiments.folder import load

    if not (_run_folder(folder) / "manifest.json").exists():
        return [], None
    stored = load(_run_folder(folder))
    return stored.history, stored.status

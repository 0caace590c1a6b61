"""`fedualex deploy init | up | run | status | fetch | stop | resume`: the same problem, by real servers and sites."""

from pathlib import Path

import click

from . import deploy_watch
from .audit import audit
from .common import json_option, out_option, plain_errors, print_json, say
from .deploy_follow import engine_of, run_folder, stored_run
from .deploy_init import check, init
from .deploy_members import add_site, remove_site, renew
from .deploy_sending import note_stop
from .deployed_run import run_deployment

folder_argument = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))


@click.group()
def deploy() -> None:
    """Run a problem on a federated engine: NVIDIA FLARE, Flower, or processes of this machine."""


deploy.add_command(audit)
deploy.add_command(init)
deploy.add_command(check)
for command in (add_site, remove_site, renew):
    deploy.add_command(command)


@deploy.command()
@folder_argument
@json_option
@plain_errors
def up(folder: Path, as_json: bool) -> None:
    """Start server and sites on this machine, for a trial."""
    control, _ = engine_of(folder)
    sites = control.up(folder)
    line = f"server and {len(sites)} sites are connected"
    say(line if sites else "nothing to start: `fedualex deploy run` starts all", {"connected": sites}, as_json)


@deploy.command()
@folder_argument
@json_option
@plain_errors
def run(folder: Path, as_json: bool) -> None:
    """Run all rounds, and print what came out."""
    run_deployment(folder, as_json)


@deploy.command()
@folder_argument
@json_option
@plain_errors
def resume(folder: Path, as_json: bool) -> None:
    """Go on from the last checkpoint, after a stop or a fault."""
    control, _ = engine_of(folder)
    begun = control.state(folder)[0] != "none"  # maybe at the server's own machine
    if not begun and not (run_folder(folder) / "manifest.json").exists():
        raise ValueError(f"there is nothing to resume in {folder}: `fedualex deploy run` begins")
    run_deployment(folder, as_json)


@deploy.command()
@folder_argument
@click.option("--watch", is_flag=True, help="Show it as a live page on loopback, with metrics for Prometheus.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of that page; any free one if left out.")
@json_option
@plain_errors
def status(folder: Path, watch: bool, port: int, as_json: bool) -> None:
    """What the engine says, and what the run folder says."""
    if watch:
        deploy_watch.watch(folder, port)
        return
    control, _ = engine_of(folder)
    engine, _ = control.state(folder)
    history, found = stored_run(folder)
    last = history[-1] if history else {}
    if as_json:
        so_far = {key: last.get(key) for key in ("round", "exchanges")}
        print_json({"engine": engine, **so_far, "status": found, "run": str(run_folder(folder))})
        return
    click.echo(f"engine: {engine}")
    click.echo(f"last record: round {last['round']}, {last['exchanges']} exchanges" if last else "no record yet")
    click.echo(f"status: {found['status']}, {found['stop']}" if found else "status: not ended")


@deploy.command()
@folder_argument
@out_option(required=True, help="A new folder for the run and the model.")
@json_option
@plain_errors
def fetch(folder: Path, out: Path, as_json: bool) -> None:
    """Get the run and the model of a run that has ended, through the engine and with the rights of whoever sent it."""
    from ..deploy.results import check_place

    check_place(out)
    control, _ = engine_of(folder)
    control.fetch(folder, out)
    parts = sorted(path.name for path in out.iterdir()) if out.exists() else []
    if not parts:
        raise ValueError(f"the run of {folder} has left no result yet")
    say(f"{out}: {' and '.join(parts)}", {"folder": str(out), "parts": parts}, as_json)


@deploy.command()
@folder_argument
@json_option
@plain_errors
def stop(folder: Path, as_json: bool) -> None:
    """End the run, keep its checkpoint, and end the processes that `up` started here."""
    control, _ = engine_of(folder)
    try:
        engine, ended = control.state(folder)
        if not ended and engine != "unreachable":  # a server that is gone runs nothing, but its sites may be here
            note_stop(folder)
            control.stop(folder)
    finally:
        control.down(folder)
    say("stopped", {"stopped": True}, as_json)

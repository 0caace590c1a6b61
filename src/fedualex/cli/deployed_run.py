"""A deployment's run as the command line sees it: begun, followed until it ends, and printed."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..storage import locked
from .common import exit_code, print_json, status_line
from .deploy_follow import REJOINED, UNREACHABLE, Following, engine_of, layout_of, run_folder, stored_run
from .deploy_sending import STOPPED, detach, heard_interrupts, last_sent, submit
from .model_words import FEW, description, show
from .runs import print_outputs

if TYPE_CHECKING:
    from ..deploy.engines import Control

FINISHED, FAILED = "finished", "failed"
INTERRUPTED = "INTERRUPTED"
BEGIN = "begin.lock"
"""In the server's folder; held by whoever sends the run."""
AGAIN = 5
"""How often a run is sent again that its engine ended, if no round came of it in between."""


def run_deployment(folder: Path, as_json: bool) -> None:
    """Begin or resume the run, or join the one that is live; wait for its end, print it, and exit with its code."""
    from ..experiments.deployment import failure_of

    control, settings = engine_of(folder)
    before = begin(folder, control, settings, as_json)
    said = _followed(folder, control, settings, as_json, before)
    written = _written(folder)
    if failure_of(layout_of(folder).server) or written is None or (written == before and said != FINISHED):
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
        click.echo(f"model: {layout_of(folder).server / 'model'}")
    else:
        print_outputs(found)
    if not as_json:
        click.echo(status_line(found, tol))
        click.echo(f"run: {run_folder(folder)}")
    sys.exit(exit_code(found, tol))


def begin(folder: Path, control: "Control", settings: dict[str, Any], as_json: bool) -> tuple[int, int] | None:
    """Submit the run unless one is live, which is joined and never disturbed; which result there was before.

    Two commands at the same moment take turns, so that one of them begins and the other joins.
    """
    from ..experiments.deployment import unfinished

    server = layout_of(folder).server
    with locked(server / BEGIN):
        before, (said, ended) = _written(folder), control.state(folder)
        if not ended and said != UNREACHABLE:
            if not as_json:
                click.echo(f"a run of {folder} is live ({said}): joined, not begun again")
            return before
        unfinished(server)
        submit(folder, control, settings)
        return before


def _written(folder: Path) -> tuple[int, int] | None:
    """Which result the run folder holds; another one is another file."""
    file = run_folder(folder) / "status.json"
    return (file.stat().st_ino, file.stat().st_mtime_ns) if file.exists() else None


def _without_result(folder: Path, said: str) -> str:
    from ..experiments.deployment import failure_of

    if why := failure_of(layout_of(folder).server):
        return f"the server could not go on: {why}"
    if said == "finished" and not run_folder(folder).exists():
        return (
            f"the run has finished, and its result is on the server's machine: `fedualex deploy fetch {folder} --out "
            "RESULT` gets it"
        )
    return f"the run has not ended by itself (the engine says {said!r}): the server's log says more, `resume` goes on"


def _followed(folder: Path, control: "Control", settings: dict[str, Any], as_json: bool, before: Any) -> str:
    """The engine's last word on the run. One that only the engine or a site's return has ended is sent again."""
    watch, times, newest = Following(folder, control, list(settings["sites"]), as_json), 0, -1
    while True:
        sent = last_sent(folder)
        try:
            with heard_interrupts(control.HERE):
                said = watch.until_ended()
        except KeyboardInterrupt:
            if not control.HERE:
                detach(folder, as_json)
            control.stop(folder)
            return control.state(folder)[0]
        times = 1 if watch.newest > newest else times + 1
        newest = watch.newest
        with locked(layout_of(folder).server / BEGIN):
            if last_sent(folder) != sent:  # another command has sent or stopped it
                continue
            said, again = _judged(folder, control, said, before)
            if not again or times > AGAIN or sent == STOPPED:
                return said
            before = _written(folder)
            submit(folder, control, settings)


def _judged(folder: Path, control: "Control", said: str, before: Any) -> tuple[str, bool]:
    """The engine's last word on a run that ended, or is ended here so that a site rejoins; whether to send it again."""
    from ..experiments.deployment import failure_of

    if said == REJOINED:
        control.stop(folder)
        _, found = stored_run(folder)
        return control.state(folder)[0], found is None or found["stop"] == INTERRUPTED
    _, found = stored_run(folder)
    cut_off = failure_of(layout_of(folder).server) is None and found is not None and found["stop"] == INTERRUPTED
    if again := said == FAILED and _written(folder) != before and cut_off:
        click.echo("the engine ended the run, as when a site's job process dies: it is sent again", err=True)
    return said, again


def kept_model(folder: Path) -> Any:
    """The model that the run ended with; None if it has none."""
    from ..models.store import JSON, MODEL, load

    path = layout_of(folder).server / MODEL
    return load(path) if (path / JSON).exists() else None

"""Deployments run from folders: the server and each site from its own."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from ..deploy import Engine, Guard, RunHooks, Site, SiteFacts
from ..deploy.clients import UNANSWERED
from ..deploy.guard import guarded
from ..deploy.task import FencedError
from ..models.store import JSON, MODEL
from ..problems import AbstractProblem
from ..runtime import Run, Status, Stop
from ..runtime.simulator import keep_compiled_programs
from ..storage import read_arrays, write_json
from ..summaries import Known
from . import folder
from .consortium.facts import facts_of
from .consortium.server import TableServer
from .consortium.settings import has_tables
from .consortium.site import TableSite
from .deployment_settings import party_problem, roster_of, server_problem, settings_of, task_of
from .registry import ConfigurationError, call_entry
from .seal import CHECKPOINT

SERVE, SITE = f"{__name__}:serve", f"{__name__}:load_site"
"""What the server and a site of every engine run, each with its own folder."""
RUN = "run"
FAILURE = "failure.json"
"""Why the round loop was not begun or did not end by itself; gone when it is begun again."""
RESUMABLE = (Stop.INTERRUPTED.name, Stop.CLIENTS_LOST.name, Stop.MAX_TIME.name)
"""Ends of a run that was cut off: by hand, because sites were missing, which may be back, or by the clock."""


def serve(engine: Engine, party: Path) -> Run:
    """The server's side: the round loop, into the run folder beside the server's settings."""
    keep_compiled_programs()
    forget_failure(party)
    try:
        with closing(engine):
            return _serve(engine, party)
    except FencedError:  # another server has taken over: what there is to say is its to say
        raise
    except Exception as error:
        with suppress(OSError):  # the disk may be what is wrong
            write_json(party / FAILURE, {"error": f"{type(error).__name__}: {error}"})
        raise


def forget_failure(party: Path) -> None:
    """What went wrong before is not what goes wrong next."""
    (party / FAILURE).unlink(missing_ok=True)


def failure_of(party: Path) -> str | None:
    """Why the server's last run has no result, if it could say so."""
    file = party / FAILURE
    return json.loads(file.read_text())["error"] if file.exists() else None


def _serve(engine: Engine, party: Path) -> Run:
    settings, path, begun = settings_of(party), party / RUN, unfinished(party)
    roster = roster_of(settings, party)
    tables = TableServer(engine, party, settings, roster) if has_tables(settings) else None
    known = None if tables is None else tables.agree()
    problem = server_problem(settings, party)
    task = task_of(settings, problem, known)
    resolved = {key: settings[key] for key in ("problem", "method", "run", "sites", "privacy", "has_data")} | {
        "folder": str(party.resolve())
    }

    def begin() -> None:
        if begun is None:
            folder.begin(path, problem, resolved)
        else:  # patience may have changed, and the folder may have moved
            folder.reopen(path, begun, resolved)

    hooks = RunHooks(begin, lambda record: folder.append(path, record), lambda run: folder.finish(path, run, problem))
    run = task.serve(engine, problem, path / CHECKPOINT, hooks, roster)
    if tables is not None and known is not None and run.gap is not None and run.stop is not Stop.INTERRUPTED:
        tables.keep_model(known, folder.load(path))
    return run


def load_site(party: Path) -> Guard:
    """A site's side, with its own data, behind its own rules."""
    keep_compiled_programs()  # a site that is started again answers its first request in time
    settings = settings_of(party)
    if has_tables(settings):
        tables = TableSite(party, settings, lambda problem, known: _site(settings, problem, known))
        return guarded(party, tables.name, tables.work, tables.factors, facts_of(tables.table.trained, tables.recipe))
    data = None if settings["data"] is None else [_load_data(settings["data"], party)]
    problem = party_problem(settings, data, party)
    site, rows = _site(settings, problem), None if problem.data is None else int(problem.data.counts.sum())
    goal = settings["problem"].get("name") or settings["problem"].get("entry")
    return guarded(
        party, settings["site"], site.work, lambda _: site.factors, SiteFacts(rows, None, goal, site.privacy)
    )


def _site(settings: Mapping[str, Any], problem: AbstractProblem, known: Sequence[Known] | None = None) -> Site:
    return task_of(settings, problem, known).site(problem, settings["site"])


def unfinished(party: Path) -> folder.StoredRun | None:
    """The run in a server's folder, to go on with; None if there is none, a refusal if it has ended for good."""
    path = party / RUN
    if not (path / "manifest.json").exists():
        return None
    known = folder.load(path)
    lacks_model = has_tables(settings_of(party)) and not (party / MODEL / JSON).exists()
    if known.status is not None and not is_resumable(known.status) and not lacks_model:
        raise ConfigurationError(f"{path} already holds a finished run; move it away to begin another")
    return known


def is_resumable(status: Mapping[str, Any]) -> bool:
    """Whether a run was cut off before its end, or its sites did not answer when its last points were certified."""
    unanswered = any(output["reason"].startswith(UNANSWERED) for output in status["outputs"].values())
    return bool(unanswered or (status["stop"] in RESUMABLE and status["status"] != Status.OPTIMAL.name))


def _load_data(data: str, party: Path) -> Any:
    """A site's examples: the arrays of an .npz file, or what its function "module:function" returns."""
    if data.endswith(".npz"):
        try:
            return read_arrays(party / data)
        except Exception as error:  # a missing, truncated or foreign file can fail in many ways
            raise ConfigurationError(f"data = {data!r} cannot be read as an .npz file: {error}") from None
    return call_entry(data, party, {}, what="data, if not a file ....npz,")

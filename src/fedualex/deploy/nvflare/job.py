"""Jobs: written, sent with the administrator's certificate, watched, stopped, sent again."""

import contextlib
import errno
import io
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from nvflare.apis.fl_exception import FLCommunicationError
from nvflare.fuel.flare_api.api_spec import AuthorizationError, InternalError, JobNotDone, JobNotFound, NoConnection
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

from ...runtime.status import Code, Failure
from ...storage import write_json
from ..engine import NOT_CONNECTED
from ..engines import OUTSIDE
from ..party import RESULT, SECURE, Layout
from .keys import KIT, install_own_key
from .provision import SERVER_CLASSES, SITE_CLASSES

# Sessions with the server: of the administrator or of a viewer, each by its certificate.


CONNECT = 10.0
PAUSE = 0.5

logging.getLogger("nvflare").addHandler(logging.NullHandler())  # what it would print about a lost server, we raise


@contextlib.contextmanager
def session(party: Path) -> Iterator[Session]:
    """A session of the administrator or viewer in this folder; what fails at the server is told in words."""
    if (party / SECURE).exists():
        install_own_key(party, party / SECURE)
    kit = party.resolve() / KIT
    user = json.loads((kit / "startup" / "fed_admin.json").read_text())["admin"]["username"]
    opened = _log_in(user, str(kit))
    try:
        yield opened
    except InternalError as error:
        if os.strerror(errno.ENOSPC) in str(error):
            raise OSError(errno.ENOSPC, "the disk of the server is full") from None
        raise RuntimeError(f"the server fails: {' '.join(str(error).split())}") from None
    finally:
        opened.close()


def _log_in(user: str, kit: str) -> Session:
    end = time.monotonic() + CONNECT
    while True:
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it prints
                return new_secure_session(user, kit, timeout=CONNECT)
        except FLCommunicationError as error:  # a busy server answers a log-in with nothing
            if time.monotonic() > end:
                raise NoConnection(f"the server does not log {user} in: {error}") from None
            time.sleep(PAUSE)


RECORD = "job.json"
POLL = 0.5
GRACE = 20.0
"""Seconds between the end of a job's process and the end of the job, at most; without either it is lost."""
LOAD = 600
"""Seconds for all sites to load their data before the first round."""

WORDS = {"no_reply": Failure(Code.SILENT, "no reply")}
"""What NVFlare says of a site without a process of a job, in our words; any other word is of a site that is there."""

State = Literal["none", "waiting", "running", "finished", "aborted", "failed", "lost", "unreachable"]
"""Of a job, as far as the engine knows: "finished" says that the loop returned, not what it found."""

ENDED: tuple[State, ...] = ("none", "finished", "aborted", "failed", "lost")
STATES: dict[str, State] = {
    "SUBMITTED": "waiting",
    "APPROVED": "waiting",
    "DISPATCHED": "running",
    "RUNNING": "running",
    "FINISHED:COMPLETED": "finished",
    "FINISHED:ABORTED": "aborted",
}


def write_job(path: Path, min_sites: int) -> Path:
    """A job that only names installed classes; what they run is said by each party's own settings."""
    config = path / "app" / "config"
    config.mkdir(parents=True, exist_ok=True)
    common = {"format_version": 2}
    controller, server_role = SERVER_CLASSES
    executor, site_role = SITE_CLASSES
    arguments = {"server_obj_id": "role", "sync_task_timeout": LOAD}
    server = common | {
        "workflows": [{"id": "controller", "path": controller, "args": arguments}],
        "components": [{"id": "role", "path": server_role, "args": {}}],
    }
    work = {"tasks": ["*"], "executor": {"path": executor, "args": {"client_obj_id": "role"}}}
    client = common | {"executors": [work], "components": [{"id": "role", "path": site_role, "args": {}}]}
    write_json(config / "config_fed_server.json", server)
    write_json(config / "config_fed_client.json", client)
    meta = {"name": path.name, "resource_spec": {}, "min_clients": min_sites, "deploy_map": {"app": ["@ALL"]}}
    write_json(path / "meta.json", meta)
    return path


def connected_sites(folder: Path) -> list[str]:
    """The sites that the server hears from; none if the server cannot be reached."""
    try:
        with session(Layout(folder).admin) as opened:
            return sorted(client.name for client in opened.get_system_info().client_info)
    except NoConnection:
        return []


def submit(folder: Path, min_sites: int) -> str:
    """Send the job; it starts as soon as that many sites are there. An earlier one must have ended."""
    admin = Layout(folder).admin
    try:
        with session(admin) as opened:
            earlier = _state(opened, _record(admin))
            if earlier not in ENDED:
                raise RuntimeError(f"job {_record(admin)} is {earlier}: `fedualex deploy stop` ends it")
            job_id: str = opened.submit_job(str(write_job((admin / "job").resolve(), min_sites)))
    except NoConnection:
        raise ConnectionError(f"the server of {folder} cannot be reached: start it, or all with `up`") from None
    write_json(admin / RECORD, {"job_id": job_id})
    return job_id


def state(folder: Path) -> State:
    """Where the last job stands."""
    admin = Layout(folder).admin
    try:
        with session(admin) as opened:
            return _state(opened, _record(admin))
    except NoConnection:
        return "unreachable"


def wait(folder: Path, timeout: float) -> State:
    """The state in which the last job ended, or the one it is in when time is up."""
    admin, end = Layout(folder).admin, time.monotonic() + timeout
    phase: State = "unreachable"
    while phase not in ENDED and time.monotonic() < end:
        try:
            with session(admin) as opened:
                while (phase := _state(opened, _record(admin))) not in ENDED and time.monotonic() < end:
                    time.sleep(POLL)
        except NoConnection:  # the server may come back
            phase = "unreachable"
            time.sleep(POLL)
    return phase


def absent(folder: Path, sites: Sequence[str]) -> dict[str, Failure]:
    """The sites that have no process of the last job, each with why; nobody if the server cannot be reached."""
    admin = Layout(folder).admin
    try:
        with session(admin) as opened:
            statuses = opened.get_client_job_status() or []
    except NoConnection:
        return {}
    there = {one["client_name"] for one in statuses if one.get("job_id") == _record(admin)}
    words = {one["client_name"]: WORDS.get(one["status"], OUTSIDE) for one in statuses}
    return {name: words.get(name, NOT_CONNECTED) for name in sites if name not in there}


def fetch(folder: Path, out: Path) -> None:
    """The result of the last job, which NVFlare gives to its submitter alone, into a new folder."""
    admin = Layout(folder).admin
    if (job_id := _record(admin)) is None:
        raise RuntimeError(f"no run was sent from {admin}: there is nothing to fetch")
    try:
        with session(admin) as opened, TemporaryDirectory() as place:
            result = Path(opened.download_job_result(job_id, place)) / "workspace" / RESULT
            if not result.exists():
                raise RuntimeError(f"job {job_id} has left no result: the server's log says why")
            shutil.copytree(result, out, dirs_exist_ok=True)
    except NoConnection:
        raise ConnectionError(f"the server of {folder} cannot be reached") from None
    except (JobNotDone, JobNotFound, AuthorizationError) as error:
        raise RuntimeError(f"the server does not give the result of job {job_id}: {error}") from None


def abort(folder: Path) -> None:
    """End the last job; the loop sees `stopped()`."""
    admin = Layout(folder).admin
    with session(admin) as opened:
        _end(opened, _record(admin))


def _record(admin: Path) -> str | None:
    file = admin / RECORD
    return json.loads(file.read_text())["job_id"] if file.exists() else None


def _state(opened: Session, job_id: str | None) -> State:
    """NVFlare's word, except that a job which no process works on is lost, whatever the list says."""
    if job_id is None:
        return "none"
    end = time.monotonic() + GRACE
    while (said := _word(opened, job_id)) == "running":
        if job_id in [job.job_id for job in opened.get_system_info().job_info]:
            return said
        if time.monotonic() > end:
            return "lost"
        time.sleep(POLL)
    return said


def _word(opened: Session, job_id: str) -> State:
    try:
        return STATES.get(str(opened.get_job_status(job_id)), "failed")
    except JobNotFound:  # the server was set up anew
        return "lost"


def _end(opened: Session, job_id: str | None, timeout: float = 60.0) -> None:
    end = time.monotonic() + timeout
    while (phase := _state(opened, job_id)) not in ENDED:
        if time.monotonic() > end:
            raise TimeoutError(f"job {job_id} is {phase}, {timeout:g} s after it was aborted")
        with contextlib.suppress(InternalError):  # "is not running": it has ended since we asked
            opened.abort_job(job_id)
        time.sleep(POLL)

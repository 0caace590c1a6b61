"""A deployed run, followed from the command line: sent, watched, what is missing, its end."""

import shutil
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..storage import Json, lock, write_atomically
from .common import STOPS, echo, exit_code, gap_in_short, print_json, status_line
from .runs import print_outputs
from .shown import FEW, description, show

if TYPE_CHECKING:
    from ..deploy.engines import Control
    from ..deploy.party import Layout
    from ..runtime.status import Code, Failure


# The sites that a run waits for: who they are, since when, and what to do, told again and again.


AGAIN = 60.0
"""Seconds after which the same is told again."""
SETTLED = 10.0
"""Seconds after which a site that is outside of the run stays so."""
RUNNING, WAITING = "running", "waiting"


@dataclass
class _Silence:
    """Of a site: since when, the last reason, and for which reasons it was told."""

    since: str
    why: "Failure"
    told: set["Code"] = field(default_factory=set)


class MissingSites:
    """Reads what is new of the server's events, and asks the engine about sites that do not answer.

    sites: all sites of the run.
    """

    def __init__(self, folder: Path, control: "Control", sites: Sequence[str]):
        from ..deploy.party import EventTail, Layout

        self.folder, self.control, self.sites = folder, control, list(sites)
        self._tail = EventTail(Layout(folder).server)
        self._silent: dict[str, _Silence] = {}
        self._refused: set[tuple[str, Code]] = set()
        self._differences: set[str] = set()
        self._said, self._told = "", 0.0
        self._outside: float | None = None

    def look(self, said: str) -> bool:
        """Tell who is missing; whether a site is back that takes part only if the run is sent again.

        said: what the engine says of the run.
        """
        from ..runtime.status import Code

        if said != self._said and said == RUNNING:
            self._silent.clear()  # whoever is in a new job is no longer waited for
        self._said = said
        self._read_events()
        absent: dict[str, Failure] = {}
        if said == WAITING or (said == RUNNING and self._silent):
            absent = self.control.absent(self.folder, self.sites)
        if said == WAITING:
            gone = {name: why for name, why in absent.items() if why.code is not Code.OUTSIDE}
            self._silent = {name: self._silence(name, why) for name, why in gone.items()}
        outside = {name for name, why in absent.items() if why.code is Code.OUTSIDE}
        if said != WAITING and self._is_back([name for name in self._silent if name in outside]):
            return True
        for name in self._silent.keys() & absent.keys() - outside:
            self._silent[name].why = absent[name]
        self._tell({name: silence for name, silence in self._silent.items() if name not in outside})
        return False

    def _is_back(self, names: list[str]) -> bool:
        """Whether sites have been outside of the run for a while: they also are for an instant when it ends."""
        now = time.monotonic()
        self._outside = (self._outside or now) if names else None
        if self._outside is None or now - self._outside < SETTLED:
            return False
        since = ", ".join(f"{name} has not answered since {self._silent[name].since}" for name in names)
        echo(f"{since}, and is back: the run is sent again from its checkpoint", err=True)
        self._silent.clear()
        self._outside = None
        return True

    def _silence(self, name: str, why: "Failure") -> _Silence:
        return self._silent.get(name) or _Silence(f"{datetime.now():%H:%M:%S}", why)

    def _read_events(self) -> None:
        from ..deploy.consortium.differences import DIFFERS
        from ..deploy.consortium.present import LEFT_OUT
        from ..deploy.engine import BACK
        from ..runtime.status import REFUSALS, Code, Failure

        for line in self._tail.new():
            code, site = line["code"], line["party"]
            if code == BACK:
                self._silent.pop(site, None)
            elif code == LEFT_OUT:
                self.sites = [name for name in self.sites if name != site]
                self._silent.pop(site, None)
                echo(line["text"], err=True)
            elif code == DIFFERS:
                self._tell_difference(line["text"])
            elif site in self.sites and code in REFUSALS:  # asked again it would say the same
                self._tell_refusal(site, Code(code), line["text"])
            elif site in self.sites and code != Code.STOPPED:
                why = Failure(Code(code), line["text"])
                self._silent.setdefault(site, _Silence(_last_answer(line), why)).why = why

    def _tell_difference(self, text: str) -> None:
        if text not in self._differences:
            self._differences.add(text)
            echo(text, err=True)

    def _tell_refusal(self, site: str, code: "Code", text: str) -> None:
        """Once for each site and reason: the run ends by it, or goes on without that site."""
        from ..runtime.status import REFUSALS

        if (site, code) not in self._refused:
            self._refused.add((site, code))
            echo(f"{site} ({text}): {REFUSALS[code]}", err=True)

    def _tell(self, missing: dict[str, _Silence]) -> None:
        """Say of each of these sites that it is missing, for a reason that is new at once, else now and then."""
        from ..runtime.status import HEALS, START

        if again := bool(missing) and (not self._told or time.monotonic() - self._told >= AGAIN):
            self._told = time.monotonic()
        for name, silence in missing.items():
            if again or silence.why.code not in silence.told:
                silence.told.add(silence.why.code)
                do = HEALS.get(silence.why.code, START)
                echo(f"{name} has not answered since {silence.since} ({silence.why.text}): {do}", err=True)
        self._told = self._told if missing else 0.0


def _last_answer(line: Json) -> str:
    """When a site that failed had answered last, else when it failed, on this machine's clock."""
    answered, failed = line.get("answered"), datetime.fromisoformat(line["time"])
    moment = failed if answered is None else datetime.fromtimestamp(answered, UTC)
    return f"{moment.astimezone():%H:%M:%S}"


PATIENCE = 180.0
"""Seconds for a server that cannot be reached to come back."""
UNREACHABLE, REJOINED = "unreachable", "rejoined"


class Following:
    """Looks at a run until it has ended, and shows what is new."""

    def __init__(self, folder: Path, control: "Control", sites: Sequence[str], as_json: bool):
        self.folder, self.control, self.quiet = folder, control, as_json
        self.missing = MissingSites(folder, control, sites)
        self.newest, self.said, self.heard = -1, "", time.monotonic()
        self.stopped = last_sent(folder) == STOPPED

    def wait_until_ended(self) -> str:
        """The engine's last word, or `REJOINED` if a site is back that takes part only if the run is sent again."""
        ended = False
        while not ended:
            time.sleep(self.control.POLL)
            self._tell_stop()
            before, (self.said, ended) = self.said, self.control.state(self.folder)
            if self.said == UNREACHABLE:
                self._wait_for_server(new=before != UNREACHABLE)
            else:
                self.heard = time.monotonic()
                if self.said != before and not ended and not self.quiet:  # "waiting" for sites may last
                    echo(f"engine: {self.said}")
            self._show_newest()
            if self.missing.look(self.said):
                return REJOINED
        return self.said

    def _tell_stop(self) -> None:
        if not self.stopped and last_sent(self.folder) == STOPPED:
            self.stopped = True
            echo(f"the run was stopped by hand: `fedualex deploy resume {self.folder}` goes on", err=True)

    def _wait_for_server(self, new: bool) -> None:
        silent = time.monotonic() - self.heard
        if silent > PATIENCE:
            raise RuntimeError(f"the server was silent for {silent:.0f} s: start it, then `fedualex deploy resume`")
        if new:
            end = datetime.now() + timedelta(seconds=PATIENCE - silent)
            echo(f"server unreachable since {silent:.0f} s, waiting until {end:%H:%M:%S}", err=True)

    def _show_newest(self) -> None:
        history, _ = stored_run(self.folder)
        if history and history[-1]["round"] > self.newest:
            self.newest = history[-1]["round"]
            if not self.quiet:
                _show(history[-1])


def _show(record: Json) -> None:
    gaps = [value for key, value in record.items() if key.startswith("gap_") and value is not None]
    echo(f"round {record['round']}: " + (f"certified gap <= {gap_in_short(min(gaps))}" if gaps else "no certificate"))


def engine_of(folder: Path) -> tuple["Control", Json]:
    """The functions of the deployment's engine, and the server's settings."""
    from ..deploy.consortium.settings import settings_of
    from ..deploy.engines import control_of

    settings = settings_of(layout_of(folder).server)
    return control_of(settings["server"]["engine"]), settings


def layout_of(folder: Path) -> "Layout":
    """Where the parties' files are."""
    from ..deploy.party import Layout

    return Layout(folder)


def run_folder(folder: Path) -> Path:
    """Where the server keeps its run."""
    return layout_of(folder).run


def stored_run(folder: Path) -> tuple[list[Json], Json | None]:
    """The history and the status of the run as far as they are written."""
    from ..runs.folder import load

    if not (run_folder(folder) / "manifest.json").exists():
        return [], None
    stored = load(run_folder(folder))
    return stored.history, stored.status


def ending(folder: Path) -> Json | None:
    """How it ended, if it has: the status of the run, or the certificate of a model without penalty, which has none."""
    if run_folder(folder).exists():
        return stored_run(folder)[1]
    model = kept_model(folder)
    return None if model is None else dict(model.certificate)


def ending_words(status: Json) -> str:
    """In a word, or two."""
    return ", ".join(status[key] for key in ("status", "stop") if key in status)


# A run is sent to its engine, and a command that follows it lets go of it.


SENT = "sent"
"""A file of the server with a word that is new whenever the run is sent."""
STOPPED = "stopped"
"""That word after `fedualex deploy stop`."""


def submit(folder: Path, control: "Control", settings: Json) -> None:
    """Send the run, which goes on from its checkpoint."""
    from ..deploy.consortium.deployment import forget_failure

    server = layout_of(folder).server
    forget_failure(server)
    fewest = settings["run"].get("least_sites") or settings["run"]["min_replies"]
    control.submit(folder, fewest or len(settings["sites"]))
    write_atomically(server / SENT, uuid.uuid4().hex.encode())


def note_stop(folder: Path) -> None:
    """Whoever follows the run does not send it again."""
    write_atomically(layout_of(folder).server / SENT, STOPPED.encode())


def last_sent(folder: Path) -> str:
    """Which time the run was sent last, or `STOPPED`; of two commands that follow it, one sends it again."""
    file = layout_of(folder).server / SENT
    return file.read_text() if file.exists() else ""


@contextmanager
def hear_interrupts(here: bool) -> Iterator[None]:
    """Ctrl-C is heard inside of this also by a command that a script has put into the background.

    Shells have those ignore it, so that they are not ended by accident. here: whether it would end the run. Where it
    ends no more than the watching, whoever sends it means it.
    """
    deaf = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if here or not deaf:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def detach(folder: Path, as_json: bool) -> NoReturn:
    """End the watching and not the run, in one sentence."""
    words = (
        f"detached; the run goes on: `fedualex deploy run {folder}` joins it, `fedualex deploy stop {folder}` ends it"
    )
    if as_json:
        print_json({"error": words})
    else:
        echo(words, err=True)
    sys.exit(STOPS["INTERRUPTED"])


# A deployment's run as the command line sees it: begun, followed until it ends, and printed.


FINISHED, FAILED, LOST = "finished", "failed", "lost"
INTERRUPTED = "INTERRUPTED"
BEGIN = "begin.lock"
"""In the server's folder; held by whoever sends the run."""
LEAST_FREE = 1 << 20
"""Bytes without which a disk is full."""
SENT_AGAIN = 5
"""How often a run is sent again that its engine ended, if no round came of it in between."""


def run_deployment(folder: Path, as_json: bool) -> None:
    """Begin or resume the run, or join the one that is live; wait for its end, print it, and exit with its code."""
    from ..deploy.consortium.deployment import failure_of
    from ..runs.folder import load

    control, settings = engine_of(folder)
    with tell_full_disk(folder):
        before = begin(folder, control, settings, as_json)
        said = _read_last_word(folder, control, settings, as_json, before)
    written = _identify_result(folder)
    if failure_of(layout_of(folder).server) or written is None or (written == before and said != FINISHED):
        raise RuntimeError(_without_result(folder, said))
    _, status = stored_run(folder)
    model = kept_model(folder)
    if status is None:
        _tell_model(folder, model, as_json)
        sys.exit(0 if model.certificate["status"] == "OPTIMAL" else 3)
    tol = load(run_folder(folder)).manifest["configuration"]["run"]["tol"]
    if as_json:
        print_json(
            {"folder": str(run_folder(folder)), **status, **({} if model is None else {"model": description(model)})}
        )
    elif model is not None:
        _tell_model(folder, model, as_json)
    else:
        print_outputs(status)
    if not as_json:
        echo(status_line(status, tol))
        echo(f"run: {run_folder(folder)}")
    sys.exit(exit_code(status, tol))


def _tell_model(folder: Path, model: Any, as_json: bool) -> None:
    path = layout_of(folder).server / "model"
    if as_json:
        print_json({"folder": str(path), "model": description(model)})
        return
    show(model, FEW)
    echo(f"model: {path}")


@contextmanager
def tell_full_disk(folder: Path) -> Iterator[None]:
    """A disk on which nothing can be written, in one sentence."""
    from ..storage import is_disk_full

    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise RuntimeError(_full_disk(folder)) from None


def _full_disk(folder: Path) -> str:
    return f"the disk of the server is full: make room, then `fedualex deploy resume {folder}`"


def begin(folder: Path, control: "Control", settings: Json, as_json: bool) -> tuple[int, int] | None:
    """Submit the run unless one is live, which is joined and never disturbed; which result there was before.

    Two commands at the same moment take turns, so that one of them begins and the other joins.
    """
    from ..deploy.consortium.deployment import find_unfinished

    server = layout_of(folder).server
    with lock(server / BEGIN):
        before, (said, ended) = _identify_result(folder), control.state(folder)
        if not ended and said != UNREACHABLE:
            if not as_json:
                echo(f"a run of {folder} is live ({said}): joined, not begun again")
            return before
        find_unfinished(server)
        submit(folder, control, settings)
        return before


FIRST_PAUSE, LONGEST_PAUSE = 5.0, 30.0
"""Seconds after which a run that nobody watches is sent again; doubled while no round comes of it."""


def run_unattended(folder: Path, as_json: bool) -> None:
    """Run to the end for good, whatever cuts it off: for a service, that is started again itself.

    Exit code 0: the run has ended for good, or was stopped by hand. 2: a person must do something first.
    """
    pause = FIRST_PAUSE
    while True:
        before = len(stored_run(folder)[0])
        if last_sent(folder) == STOPPED:
            echo(
                f"the run was stopped by hand: `fedualex deploy resume {folder}` goes on, and this can be started again"
            )
            return
        try:
            if _has_ended(folder):
                echo(f"the run in {run_folder(folder)} has ended")
                return
            run_deployment(folder, as_json)
        except (RuntimeError, OSError) as error:
            _check_heals(folder)
            echo(f"{error}", err=True)
        except SystemExit:
            if _has_ended(folder):
                return
        pause = FIRST_PAUSE if len(stored_run(folder)[0]) > before else min(2 * pause, LONGEST_PAUSE)
        echo(f"sent again in {pause:.0f} s", err=True)
        time.sleep(pause)


def _has_ended(folder: Path) -> bool:
    from ..deploy.consortium.deployment import find_unfinished
    from ..runs.settings import ConfigurationError

    try:
        find_unfinished(layout_of(folder).server)
    except ConfigurationError:
        return True
    return False


def _check_heals(folder: Path) -> None:
    """Refuse to go on after a failure that would come again: tables or settings that a person must correct."""
    from ..deploy.consortium.deployment import failure_of, heals

    if not heals(layout_of(folder).server):
        raise ValueError(f"the server could not go on: {failure_of(layout_of(folder).server)}")


def _identify_result(folder: Path) -> tuple[int, int] | None:
    """Which result there is, the status of a run or a model without penalty: another one is another file."""
    from ..models.store import JSON, MODEL

    run, model = run_folder(folder), layout_of(folder).server / MODEL / JSON
    file = run / "status.json" if run.exists() else model
    return (file.stat().st_ino, file.stat().st_mtime_ns) if file.exists() else None


def _without_result(folder: Path, said: str) -> str:
    from ..deploy.consortium.deployment import failure_of

    if why := failure_of(layout_of(folder).server):
        return f"the server could not go on: {why}"
    if _has_full_disk(folder):  # so that it could not even say so
        return _full_disk(folder)
    if said == "finished" and _identify_result(folder) is None:
        return (
            f"the run has finished, and its result is on the server's machine: `fedualex deploy fetch {folder} --out "
            "RESULT` gets it"
        )
    return f"the run has not ended by itself (the engine says {said!r}): the server's log says more, `resume` goes on"


def _has_full_disk(folder: Path) -> bool:
    return shutil.disk_usage(layout_of(folder).server).free < LEAST_FREE


def _read_last_word(folder: Path, control: "Control", settings: Json, as_json: bool, before: object) -> str:
    """The engine's last word on the run. One that only the engine or a site's return has ended is sent again."""
    watch, times, newest = Following(folder, control, list(settings["sites"]), as_json), 0, -1
    while True:
        sent = last_sent(folder)
        try:
            with hear_interrupts(control.HERE):
                said = watch.wait_until_ended()
        except KeyboardInterrupt:
            if not control.HERE:
                detach(folder, as_json)
            control.stop(folder)
            return control.state(folder)[0]
        times = 1 if watch.newest > newest else times + 1
        newest = watch.newest
        with lock(layout_of(folder).server / BEGIN):
            if last_sent(folder) != sent:  # another command has sent or stopped it
                continue
            said, again = _judge(folder, control, said, before)
            if not again or times > SENT_AGAIN or sent == STOPPED:
                return said
            before = _identify_result(folder)
            submit(folder, control, settings)


def _judge(folder: Path, control: "Control", said: str, before: object) -> tuple[str, bool]:
    """The engine's last word on a run that ended, or is ended here so that a site rejoins; whether to send it again."""
    from ..deploy.consortium.deployment import failure_of

    if said == REJOINED:
        control.stop(folder)
        _, status = stored_run(folder)
        return control.state(folder)[0], status is None or status["stop"] == INTERRUPTED
    _, status = stored_run(folder)
    unsaid, new = failure_of(layout_of(folder).server) is None, _identify_result(folder) != before
    if again := said == FAILED and new and unsaid and status is not None and status["stop"] == INTERRUPTED:
        echo("the engine ended the run, as when a site's job process dies: it is sent again", err=True)
    elif again := said in (LOST, FAILED) and not new and unsaid and not _has_full_disk(folder):
        echo(
            "the server ended without a word, as when it is killed: the run is sent again from its checkpoint", err=True
        )
    return said, again


def kept_model(folder: Path) -> Any:
    """The model that the run ended with; None if it has none."""
    from ..models.store import JSON, MODEL, load

    path = layout_of(folder).server / MODEL
    return load(path) if (path / JSON).exists() else None

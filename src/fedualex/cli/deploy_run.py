"""A deployed run, followed from the command line: sent, watched, what is missing, its end."""

import html
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..storage import Json, locked, write_atomically
from .common import STOPS, echo, exit_code, print_json, shown, status_line
from .fit import FEW, description, show
from .runs import print_outputs

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
DO = "look at its log, and start it if it is not running: the run then goes on"


@dataclass
class _Silence:
    since: str
    reason: str


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
            self._silent = {name: self._silence(name, why.text) for name, why in gone.items()}
        outside = {name for name, why in absent.items() if why.code is Code.OUTSIDE}
        if said != WAITING and self._is_back([name for name in self._silent if name in outside]):
            return True
        texts = {name: silence.reason for name, silence in self._silent.items()}
        texts |= {name: absent[name].text for name in texts.keys() & absent.keys()}
        self._tell({name: text for name, text in texts.items() if name not in outside})
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

    def _silence(self, name: str, reason: str) -> _Silence:
        return self._silent.get(name) or _Silence(f"{datetime.now():%H:%M:%S}", reason)

    def _read_events(self) -> None:
        from ..deploy.consortium.differences import DIFFERS
        from ..deploy.engine import BACK
        from ..runtime.status import REFUSALS, Code

        for line in self._tail.new():
            code, site = line["code"], line["party"]
            if code == BACK:
                self._silent.pop(site, None)
            elif code == DIFFERS:
                self._tell_difference(line["text"])
            elif site in self.sites and code in REFUSALS:  # asked again it would say the same
                self._tell_refusal(site, Code(code), line["text"])
            elif site in self.sites and code != Code.STOPPED:
                self._silent.setdefault(site, _Silence(_last_answer(line), line["text"]))

    def _tell_difference(self, text: str) -> None:
        if text not in self._differences:
            self._differences.add(text)
            echo(text, err=True)

    def _tell_refusal(self, site: str, code: "Code", text: str) -> None:
        """Once for each site and reason: the run ends by it, or goes on without that site."""
        from ..runtime.status import REFUSALS

        if (site, code) not in self._refused:
            self._refused.add((site, code))
            echo(f"{site} takes no part ({text}): {REFUSALS[code]}", err=True)

    def _tell(self, missing: dict[str, str]) -> None:
        """Say of each of these sites, for its reason, that it is missing, unless that was said lately."""
        if not missing:
            self._told = 0.0
        elif not self._told or time.monotonic() - self._told >= AGAIN:
            self._told = time.monotonic()
            for name, reason in missing.items():
                echo(f"{name} has not answered since {self._silent[name].since} ({reason}): {DO}", err=True)


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
                    echo(f"engine: {self.said}")
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
            echo(f"server unreachable since {silent:.0f} s, waiting until {end:%H:%M:%S}", err=True)

    def _show_newest(self) -> None:
        history, _ = stored_run(self.folder)
        if history and history[-1]["round"] > self.newest:
            self.newest = history[-1]["round"]
            if not self.quiet:
                _show(history[-1])


def _show(record: Json) -> None:
    gaps = [value for key, value in record.items() if key.startswith("gap_") and value is not None]
    echo(f"round {record['round']}: " + (f"certified gap <= {shown(min(gaps))}" if gaps else "no certificate"))


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
    control.submit(folder, settings["run"]["min_replies"] or len(settings["sites"]))
    write_atomically(server / SENT, uuid.uuid4().hex.encode())


def note_stop(folder: Path) -> None:
    """Whoever follows the run does not send it again."""
    write_atomically(layout_of(folder).server / SENT, STOPPED.encode())


def last_sent(folder: Path) -> str:
    """Which time the run was sent last, or `STOPPED`; of two commands that follow it, one sends it again."""
    file = layout_of(folder).server / SENT
    return file.read_text() if file.exists() else ""


@contextmanager
def heard_interrupts(here: bool) -> Iterator[None]:
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


# `fedualex deploy status --watch`: a live page on loopback, and the same numbers as Prometheus reads them.


LOOPBACK = "127.0.0.1"
SECONDS = 2.0
"""Between two looks; an engine that is expensive to ask is asked less often."""
LAST = 10
"""How many complaints are shown."""
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="2">
<title>{title}</title><style>body{{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}}
table{{border-collapse:collapse}}td,th{{border:1px solid #999;padding:.2rem .6rem;text-align:left}}</style>
<h1>{title}</h1><table>{rows}</table><h2>Sites</h2>
<table><tr><th>site</th><th>complaints</th><th>the last one</th></tr>{sites}</table>
<h2>Last errors</h2><table><tr><th>time (UTC)</th><th>message</th></tr>{errors}</table>
<p>Read every {every:g} s from the server's folder. <a href="/metrics">Metrics for Prometheus</a></p></html>
"""


def snapshot(folder: Path) -> Json:
    """How a deployment stands: the engine's word, the last record, and what the server's log complains about."""
    from ..deploy.consortium.differences import DIFFERS
    from ..deploy.engine import BACK
    from ..deploy.party import read_events, read_log

    control, settings = engine_of(folder)
    said, ended = control.state(folder)
    history, status = stored_run(folder)
    last = history[-1] if history else {}
    complaints = [line for line in read_log(layout_of(folder).server) if line.get("level") in ("WARNING", "ERROR")]
    failures = [line for line in read_events(layout_of(folder).server) if line["code"] not in (BACK, DIFFERS)]
    of_site = {name: [line for line in failures if line["party"] == name] for name in settings["sites"]}
    gaps = [value for key, value in last.items() if key.startswith("gap_") and value is not None]
    return {
        "folder": str(folder),
        "engine": said,
        "live": not ended and said != "unreachable",
        "status": None if status is None else f"{status['status']}, {status['stop']}",
        **{key: last.get(key) for key in ("round", "exchanges", "seconds", "bytes_up", "bytes_down")},
        "gap": min(gaps, default=None),
        "sites": {
            name: {"complaints": len(found), "last": _complaint(found[-1]) if found else None}
            for name, found in of_site.items()
        },
        "errors": [{"time": c["time"], "message": c["message"]} for c in complaints[-LAST:]],
    }


def _complaint(line: Json) -> str:
    return f"{line['task']} {line['number']}: {line['text']}"


def page(found: Json) -> str:
    """The snapshot for people."""
    gap = "none yet" if found["gap"] is None else f"gap <= {shown(found['gap'])}"
    named = {"engine": found["engine"], "status": found["status"] or "not ended", "certificate": gap}
    named |= {key: found[key] for key in ("round", "exchanges", "bytes_up", "bytes_down")}
    sites = [(name, site["complaints"], site["last"] or "") for name, site in found["sites"].items()]
    return PAGE.format(
        title=html.escape(f"fedualex: {found['folder']}"),
        rows=_rows(named.items()),
        sites=_rows(sites),
        errors=_rows((error["time"], error["message"]) for error in reversed(found["errors"])),
        every=SECONDS,
    )


def metrics(found: Json) -> str:
    """The snapshot in Prometheus's text format; what is not known yet is left out."""
    values = {
        "fedualex_run_live": int(found["live"]),
        "fedualex_round": found["round"],
        "fedualex_exchanges_total": found["exchanges"],
        "fedualex_seconds_total": found["seconds"],
        "fedualex_bytes_up_total": found["bytes_up"],
        "fedualex_bytes_down_total": found["bytes_down"],
        "fedualex_certified_gap": found["gap"],
    }
    lines = [
        line
        for name, value in values.items()
        if value is not None
        for line in (f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}", f"{name} {value}")
    ]
    lines.append("# TYPE fedualex_site_complaints_total counter")
    lines += [f'fedualex_site_complaints_total{{site="{n}"}} {s["complaints"]}' for n, s in found["sites"].items()]
    return "\n".join(lines) + "\n"


def watch(folder: Path, port: int) -> None:
    """Serve the page until Ctrl-C."""
    with Watch(folder, port) as served:
        echo(f"http://{LOOPBACK}:{served.port}/ shows {folder}; Ctrl-C ends this page, not the run")
        served.wait()


class Watch:
    """A page on loopback that is read anew every few seconds, in a thread of its own. port 0: any free one."""

    def __init__(self, folder: Path, port: int):
        self._folder, self._found, self._done = folder, snapshot(folder), threading.Event()
        self._every = max(SECONDS, engine_of(folder)[0].POLL)
        self._server = ThreadingHTTPServer((LOOPBACK, port), self._handler())
        self.port: int = self._server.server_address[1]
        self._threads = [threading.Thread(target=w, daemon=True) for w in (self._server.serve_forever, self._look)]

    def __enter__(self) -> "Watch":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._server.shutdown()
        self._server.server_close()

    def wait(self) -> None:
        """Until Ctrl-C."""
        self._done.wait()

    def _look(self) -> None:
        while not self._done.wait(self._every):
            self._found = snapshot(self._folder)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        watch = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                texts = {"/": (page, "text/html; charset=utf-8"), "/metrics": (metrics, "text/plain; version=0.0.4")}
                if self.path not in texts or self.headers.get("Host", "").partition(":")[0] not in (
                    LOOPBACK,
                    "localhost",
                ):
                    self.send_error(404)
                    return
                make, kind = texts[self.path]
                body = make(watch._found).encode()
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                """The terminal is not for every request."""

        return Handler


def _rows(rows: Any) -> str:
    return "\n".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)


# A deployment's run as the command line sees it: begun, followed until it ends, and printed.


FINISHED, FAILED = "finished", "failed"
INTERRUPTED = "INTERRUPTED"
BEGIN = "begin.lock"
"""In the server's folder; held by whoever sends the run."""
SENT_AGAIN = 5
"""How often a run is sent again that its engine ended, if no round came of it in between."""


def run_deployment(folder: Path, as_json: bool) -> None:
    """Begin or resume the run, or join the one that is live; wait for its end, print it, and exit with its code."""
    from ..deploy.consortium.deployment import failure_of
    from ..runs.folder import load

    control, settings = engine_of(folder)
    before = begin(folder, control, settings, as_json)
    said = _followed(folder, control, settings, as_json, before)
    written = _written(folder)
    if failure_of(layout_of(folder).server) or written is None or (written == before and said != FINISHED):
        raise RuntimeError(_without_result(folder, said))
    _, found = stored_run(folder)
    assert found is not None
    tol = load(run_folder(folder)).manifest["configuration"]["run"]["tol"]
    model = kept_model(folder)
    if as_json:
        print_json(
            {"folder": str(run_folder(folder)), **found, **({} if model is None else {"model": description(model)})}
        )
    elif model is not None:
        show(model, FEW)
        echo(f"model: {layout_of(folder).server / 'model'}")
    else:
        print_outputs(found)
    if not as_json:
        echo(status_line(found, tol))
        echo(f"run: {run_folder(folder)}")
    sys.exit(exit_code(found, tol))


def begin(folder: Path, control: "Control", settings: Json, as_json: bool) -> tuple[int, int] | None:
    """Submit the run unless one is live, which is joined and never disturbed; which result there was before.

    Two commands at the same moment take turns, so that one of them begins and the other joins.
    """
    from ..deploy.consortium.deployment import find_unfinished

    server = layout_of(folder).server
    with locked(server / BEGIN):
        before, (said, ended) = _written(folder), control.state(folder)
        if not ended and said != UNREACHABLE:
            if not as_json:
                echo(f"a run of {folder} is live ({said}): joined, not begun again")
            return before
        find_unfinished(server)
        submit(folder, control, settings)
        return before


def _written(folder: Path) -> tuple[int, int] | None:
    """Which result the run folder holds; another one is another file."""
    file = run_folder(folder) / "status.json"
    return (file.stat().st_ino, file.stat().st_mtime_ns) if file.exists() else None


def _without_result(folder: Path, said: str) -> str:
    from ..deploy.consortium.deployment import failure_of

    if why := failure_of(layout_of(folder).server):
        return f"the server could not go on: {why}"
    if said == "finished" and not run_folder(folder).exists():
        return (
            f"the run has finished, and its result is on the server's machine: `fedualex deploy fetch {folder} --out "
            "RESULT` gets it"
        )
    return f"the run has not ended by itself (the engine says {said!r}): the server's log says more, `resume` goes on"


def _followed(folder: Path, control: "Control", settings: Json, as_json: bool, before: object) -> str:
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
            if not again or times > SENT_AGAIN or sent == STOPPED:
                return said
            before = _written(folder)
            submit(folder, control, settings)


def _judged(folder: Path, control: "Control", said: str, before: object) -> tuple[str, bool]:
    """The engine's last word on a run that ended, or is ended here so that a site rejoins; whether to send it again."""
    from ..deploy.consortium.deployment import failure_of

    if said == REJOINED:
        control.stop(folder)
        _, found = stored_run(folder)
        return control.state(folder)[0], found is None or found["stop"] == INTERRUPTED
    _, found = stored_run(folder)
    cut_off = failure_of(layout_of(folder).server) is None and found is not None and found["stop"] == INTERRUPTED
    if again := said == FAILED and _written(folder) != before and cut_off:
        echo("the engine ended the run, as when a site's job process dies: it is sent again", err=True)
    return said, again


def kept_model(folder: Path) -> Any:
    """The model that the run ended with; None if it has none."""
    from ..models.store import JSON, MODEL, load

    path = layout_of(folder).server / MODEL
    return load(path) if (path / JSON).exists() else None

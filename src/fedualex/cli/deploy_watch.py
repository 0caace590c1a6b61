"""`fedualex deploy status --watch`: a live page on loopback, and the same numbers as Prometheus reads them."""

import html
import json
import math
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path

from ..storage import Json
from .common import echo, gap_in_short
from .deploy_run import ending, ending_words, engine_of, layout_of, stored_run

# How a run stands, from the server's folder alone.


LAST = 10
"""How many repaired complaints and errors are shown."""


def snapshot(folder: Path) -> Json:
    """How a deployment stands: the engine's word, the records, each site, and what the server's log complains about."""
    from ..deploy.consortium.deployment import failure_of
    from ..deploy.consortium.heard import read_heard
    from ..deploy.party import read_events, read_log

    control, settings = engine_of(folder)
    server = layout_of(folder).server
    said, ended = control.state(folder)
    history, status = stored_run(folder)[0], ending(folder)
    last, heard = (history[-1] if history else {}), read_heard(server)
    events = list(read_events(server))
    open_, repaired = _complaints(events, list(settings["sites"]))
    logged = [line for line in read_log(server) if line.get("level") == "ERROR"]
    return {
        "folder": str(folder),
        "engine": said,
        "live": not ended and said != "unreachable",
        "status": None if status is None else ending_words(status),
        "failure": failure_of(server),
        **{key: last.get(key) for key in ("round", "exchanges", "seconds", "bytes_up", "bytes_down")},
        "asked": f"{heard['task']} {heard['number']}" if heard else None,
        "gap": _gap(last),
        "tol": _tolerance(folder),
        "gaps": [(record["seconds"], gap) for record in history if (gap := _gap(record)) is not None],
        "left": None if status is not None else _seconds_left(history, _tolerance(folder)),
        "sites": {
            name: {
                "heard": heard.get("sites", {}).get(name),
                "open": open_.get(name),
                "complaints": sum(line["party"] == name for line in events if _is_complaint(line)),
            }
            for name in settings["sites"]
        },
        "repaired": repaired[-LAST:],
        "columns": _columns(server),
        "errors": [{"time": c["time"], "message": c["message"]} for c in logged[-LAST:]],
    }


def _is_complaint(line: Json) -> bool:
    from ..runtime.status import Code

    return line["code"] in list(Code)


def _complaints(events: Sequence[Json], sites: Sequence[str]) -> tuple[dict[str, Json], list[Json]]:
    """By site what it has not been heard since, and what was said of sites that answered again, each once."""
    from ..deploy.engine import BACK

    open_, repaired = dict[str, Json](), []
    for line in (line for line in events if line["party"] in sites):
        if _is_complaint(line):
            first = open_.get(line["party"], line)
            open_[line["party"]] = {**line, "since": first.get("since", line["time"])}
        elif line["code"] == BACK and (was := open_.pop(line["party"], None)) is not None:
            repaired.append({**was, "repaired": line["time"]})
    return open_, repaired


def _columns(server: Path) -> list[str]:
    """What sites have said of columns that differ from those of the others."""
    from ..deploy.consortium.differences import FILE, tell_column

    file = server / FILE
    differences = json.loads(file.read_text()) if file.exists() else {}
    return [tell_column(name, differences[name]) for name in sorted(differences)]


def _gap(record: Json) -> float | None:
    return min((value for key, value in record.items() if key.startswith("gap_") and value is not None), default=None)


def _tolerance(folder: Path) -> float | None:
    from ..deploy.consortium.settings import settings_of

    manifest = layout_of(folder).run / "manifest.json"
    known = (
        json.loads(manifest.read_text())["configuration"]
        if manifest.exists()
        else settings_of(layout_of(folder).server)
    )
    tol: float | None = known["run"]["tol"]
    return tol


def _seconds_left(history: Sequence[Json], tol: float | None) -> float | None:
    """Until the gap is at the tolerance, if it goes on to shrink as it did over the last half of the records."""
    known = [(record["seconds"], gap) for record in history if (gap := _gap(record)) is not None and gap > 0]
    if tol is None or len(known) < 3:
        return None
    (began, first), (now, last) = known[len(known) // 2 - 1], known[-1]
    if last >= first or now <= began or last <= tol:
        return None
    return (now - began) * math.log(last / tol) / math.log(first / last)


# The same for people, in the look of reports.


LOOPBACK = "127.0.0.1"
SECONDS = 2.0
"""Between two looks; an engine that is expensive to ask is asked less often."""
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="2">
<meta name="viewport" content="width=device-width"><title>{title}</title><style>{style}
.gaps {{ width: 100%; height: 160px; }} .gaps text {{ fill: var(--soft); font-size: 12px; }}
.gaps polyline {{ fill: none; stroke: var(--blue); stroke-width: 2; }}
.gaps .tol {{ stroke: var(--orange); stroke-dasharray: 5 4; }}
td:first-child {{ white-space: nowrap; }}
</style><h1>{title}</h1><p class="answer">{answer}</p><p class="headline">{state}</p>{gaps}
<section><h2>Sites</h2>{sites}</section>{columns}{repaired}{errors}
<p class="small">Read every {every:g} s from the server's folder, at {now}.
<a href="/metrics">Metrics for Prometheus</a></p></html>
"""
WIDTH, HEIGHT, TOP = 900.0, 130.0, 20.0


def page(view: Json) -> str:
    """The snapshot for people."""
    sites = [_site_row(name, site) for name, site in view["sites"].items()]
    repaired = [
        (_clock(one["since"]), _clock(one["repaired"]), one["party"], _words(one)) for one in reversed(view["repaired"])
    ]
    errors = [(_clock(error["time"]), error["message"]) for error in reversed(view["errors"])]
    return PAGE.format(
        style=files("fedualex").joinpath("report/web/page.css").read_text(),
        title=html.escape(f"fedualex: {view['folder']}"),
        answer=html.escape(_answer(view)),
        state=html.escape(_state(view)),
        gaps=_gap_chart(view["gaps"], view["tol"]),
        sites=_table(("site", "last answer", "now", "complaints so far"), sites),
        columns=_section("Columns that differ", _table((), [(text,) for text in view["columns"]])),
        repaired=_section("Repaired", _table(("since", "until", "site", "what was said"), repaired)),
        errors=_section("Errors of the server", _table(("time", "message"), errors)),
        every=SECONDS,
        now=f"{datetime.now():%H:%M:%S}",
    )


def _answer(view: Json) -> str:
    gap = "no certificate yet" if view["gap"] is None else f"certified gap <= {gap_in_short(view['gap'])}"
    return gap if view["tol"] is None else f"{gap}; the run ends at {view['tol']:g}"


def _state(view: Json) -> str:
    if view["failure"]:
        parts = [f"the server could not go on: {view['failure']}"]
    elif view["status"]:
        parts = [f"ended: {view['status']}"]
    else:
        parts = [f"engine: {view['engine']}"] + [f"asked last: {view['asked']}"] * (view["asked"] is not None)
    if view["round"] is not None:
        parts.append(f"round {view['round']}, {view['exchanges']} exchanges in {_duration(view['seconds'])}")
        parts.append(f"{_size(view['bytes_up'])} up, {_size(view['bytes_down'])} down")
    if view["left"] is not None:
        parts.append(f"about {_duration(view['left'])} left if the gap goes on to shrink as it did")
    return "; ".join(parts)


def _site_row(name: str, site: Json) -> tuple[object, ...]:
    heard = "not yet" if site["heard"] is None else _clock(datetime.fromtimestamp(site["heard"], UTC).isoformat())
    if site["open"] is None:
        return name, heard, "answers" if site["heard"] else "not asked yet", site["complaints"]
    from ..runtime.status import HEALS, REFUSALS, START, Code

    code = Code(site["open"]["code"])
    do = REFUSALS.get(code) or HEALS.get(code, START)
    return name, heard, f"since {_clock(site['open']['since'])}: {_words(site['open'])}. Do: {do}", site["complaints"]


def _words(line: Json) -> str:
    return f"{line['task']} {line['number']}: {line['text']}"


def _clock(time: str) -> str:
    return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M:%S}"


def _duration(seconds: float) -> str:
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _size(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"


def _gap_chart(gaps: Sequence[tuple[float, float]], tol: float | None) -> str:
    """The certified gap against time, on a logarithmic scale, with the tolerance as a broken line."""
    known = [(seconds, math.log10(gap)) for seconds, gap in gaps if gap > 0]
    if len(known) < 2:
        return ""
    low = min([value for _, value in known] + ([math.log10(tol)] if tol else []))
    high, last = max(value for _, value in known), known[-1][0] or 1.0

    def height(value: float) -> float:
        return TOP + (HEIGHT - TOP) * (high - value) / max(high - low, 1e-9)

    line = " ".join(f"{WIDTH * seconds / last:.1f},{height(value):.1f}" for seconds, value in known)
    limit = ""
    if tol:
        at = f"{height(math.log10(tol)):.1f}"
        limit = f'<polyline class="tol" points="0,{at} {WIDTH},{at}"/>'
    return (
        f'<svg class="gaps" viewBox="0 0 {WIDTH:.0f} 150" role="img" aria-label="certified gap against time">'
        f'<polyline points="{line}"/>{limit}<text x="0" y="12">certified gap, from 10^{high:.1f} to '
        f'10^{low:.1f}</text><text x="{WIDTH:.0f}" y="147" text-anchor="end">{_duration(last)}</text></svg>'
    )


def _section(title: str, table: str) -> str:
    return f"<section><h2>{title}</h2>{table}</section>" if table else ""


def _table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    body = "\n".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    head = "".join(f"<th>{title}</th>" for title in titles)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if body else ""


# The same for programs.


def metrics(view: Json) -> str:
    """The snapshot in Prometheus's text format; what is not known yet is left out."""
    values = {
        "fedualex_run_live": int(view["live"]),
        "fedualex_round": view["round"],
        "fedualex_exchanges_total": view["exchanges"],
        "fedualex_seconds_total": view["seconds"],
        "fedualex_bytes_up_total": view["bytes_up"],
        "fedualex_bytes_down_total": view["bytes_down"],
        "fedualex_certified_gap": view["gap"],
    }
    lines = [text for name, value in values.items() if value is not None for text in (_kind(name), f"{name} {value}")]
    each: dict[str, Json] = {
        "fedualex_site_complaints_total": {name: site["complaints"] for name, site in view["sites"].items()},
        "fedualex_site_missing": {name: int(site["open"] is not None) for name, site in view["sites"].items()},
        "fedualex_site_last_answer_seconds": {n: site["heard"] for n, site in view["sites"].items() if site["heard"]},
    }
    for name, of_sites in each.items():
        lines += [_kind(name), *(f'{name}{{site="{site}"}} {value}' for site, value in of_sites.items())]
    return "\n".join(lines) + "\n"


def _kind(name: str) -> str:
    return f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"


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

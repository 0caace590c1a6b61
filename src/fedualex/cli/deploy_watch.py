"""`fedualex deploy status --watch`: a live page on loopback, and the same numbers as Prometheus reads them."""

import html
import threading
from collections.abc import Iterable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ..storage import Json
from .common import echo, shown
from .deploy_run import engine_of, layout_of, stored_run

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


def _rows(rows: Iterable[Sequence[object]]) -> str:
    return "\n".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)

"""A party's own files and processes: layout, settings, kits, logs."""

import json
import logging
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from ..storage import Json, write_atomically, write_json

SERVER, ADMIN = "server", "admin"
SECURE = "secure"
"""The folder of keys that no kit replaces where sites make their own."""
RESERVED = (SERVER, ADMIN, "authority", "localhost")
"""Names that a site cannot have."""


@dataclass(frozen=True)
class Layout:
    """A deployment's folder. A party has its own part of it, which may lie on another machine."""

    root: Path

    @property
    def server(self) -> Path:
        """The folder that the server keeps."""
        return self.root / SERVER

    @property
    def run(self) -> Path:
        """The run folder, at the server."""
        return self.server / "run"

    @property
    def admin(self) -> Path:
        """The folder of whoever submits runs, where an engine has such a party."""
        return self.root / ADMIN

    @property
    def authority(self) -> Path:
        """What signs keys and certificates; it belongs on no server."""
        return self.root / "authority"

    def site(self, name: str) -> Path:
        """The folder that this site keeps."""
        return self.root / "sites" / name

    def viewer(self, name: str) -> Path:
        """The folder of somebody who may only look."""
        return self.root / "viewers" / name

    def party(self, name: str) -> Path:
        """The folder of the server, of whoever submits runs, or of a site."""
        return {SERVER: self.server, ADMIN: self.admin}.get(name) or self.site(name)

    def sites(self) -> list[str]:
        """The sites whose folders are here."""
        folder = self.site("")
        return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.exists() else []

    def refuse_existing(self) -> None:
        """Refuse a folder that holds a deployment: whoever has its keys would be locked out by new ones."""
        for path in (self.server, self.site(""), self.admin, self.authority):
            if path.exists():
                raise FileExistsError(f"{self.root} holds a deployment already: {path.name} exists")


def check_name(name: str, what: str = "a site's name") -> str:
    """The name, if it is one that every engine and certificate admits."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,62}", name) or name in RESERVED:
        raise ValueError(
            f"{what} must be a letter, then letters, digits and dashes, at most 63 in all and none of "
            f"{', '.join(RESERVED)}, got {name!r}"
        )
    return name


def check_sites(names: Sequence[str]) -> None:
    """Refuse a list without a site, or with a name twice."""
    for name in names:
        check_name(name)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"sites must be at least one name, each once, got {list(names)!r}")


def check_address(host: str, port: int) -> None:
    """Refuse an address by which sites could not reach the server."""
    if not isinstance(host, str) or not re.fullmatch(r"[A-Za-z0-9.-]{1,253}", host):
        raise ValueError(f"host must be a name or an IPv4 address, got {host!r}")
    if type(port) is not int or not 0 < port < 65536:
        raise ValueError(f"port must be between 1 and 65535, got {port!r}")


# What a run leaves to whoever is entitled to it: the run folder and the model.


RESULT = "result"
"""The folder in which an engine carries it."""
PARTS = ("run", "model")
OWN = ("*.lock", "*.server")
"""Files of a run folder by which servers take turns."""


def copy_result(server: Path, to: Path) -> None:
    """Copy it out of the server's folder, as far as it is there."""
    for name in PARTS:
        if (server / name).exists():
            shutil.copytree(server / name, to / name, ignore=shutil.ignore_patterns(*OWN))


def check_place(out: Path) -> None:
    """Refuse to mix a result with what is there already."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"out must be a new or an empty folder, got {str(out)!r}")


# The functions that a party's own settings name, in packages that are installed there: no message can name another.


SETTINGS = "engine.json"
"""The file in a party's folder, which belongs to the party."""
SERVE, LOAD_SITE = "consortium:serve", "consortium:load_site"
"""What server and sites of a consortium run. No module is named, so that folders outlive a move of the code."""


def write_entry(folder: Path, name: str, entry: str, **more: object) -> None:
    """Name a party, which it keeps wherever its folder goes, and its function, which need not be importable here."""
    check_entry(entry)
    write_json(folder / SETTINGS, {"name": name, "entry": entry, **more})


def read_entry(folder: Path) -> Callable[..., Any]:
    """The function that works for the party of this folder: one of a consortium's own, or a user's by its name."""
    entry: str = read_settings(folder)["entry"]
    if entry not in (SERVE, LOAD_SITE):
        return resolve(entry)
    from .consortium import deployment  # which is built on this module

    return deployment.serve if entry == SERVE else deployment.load_site


def read_settings(folder: Path) -> Json:
    """What the engine must know at this party."""
    settings: Json = json.loads((folder / SETTINGS).read_text())
    return settings


def check_entry(entry: str) -> None:
    """Refuse what cannot be "module:function"."""
    if not all(entry.partition(":")):
        raise ValueError(f"entry={entry!r} must name a function as 'module:function'")


def resolve(entry: str) -> Callable[..., Any]:
    """The function behind "module:function"."""
    check_entry(entry)
    module, _, name = entry.partition(":")
    try:
        function: Any = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"entry={entry!r} must name a function as 'module:function': {error}") from None
    if not callable(function):
        raise ValueError(f"entry={entry!r} must name a function, not {type(function).__name__}")
    return function


# What every engine writes into a party's folder in the same way: private folders, keys and start scripts.


UNIT = """\
# A systemd unit for {who}. It assumes that this folder lies in {place} and belongs to a user `fedualex`, and that
# fedualex is installed in /opt/fedualex. Adapt these three, copy it to /etc/systemd/system/{name}.service, and:
#     systemctl daemon-reload && systemctl enable --now {name}
[Unit]
Description=fedualex, {who}
Wants=network-online.target
After=network-online.target

[Service]
User=fedualex
Environment=PYTHON=/opt/fedualex/bin/python
Environment=PATH=/opt/fedualex/bin:/usr/bin:/bin
ExecStart={place}/start.sh
Restart=on-failure
RestartSec=10
KillMode=control-group
UMask=0077
NoNewPrivileges=true
PrivateTmp=true
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths={place}

[Install]
WantedBy=multi-user.target
"""
"""Whatever a party's process has started ends with it (`control-group`), and only its own folder can be written."""


def write_unit(party: Path, who: str) -> None:
    """Write a systemd unit beside a party's start script."""
    name = f"fedualex-{party.name}"
    write_file(party / f"{name}.service", UNIT.format(who=who, name=name, place=f"/srv/fedualex/{party.name}"))


RUN_UNIT = """\
# A systemd unit for the run, at the server: it begins the run, sends it again whatever cut it off, also after this
# machine was started again, and ends when the run has ended, or was stopped by `fedualex deploy stop`. It assumes that
# the deployment lies in /srv/fedualex. Copy it to /etc/systemd/system/fedualex-run.service, and:
#     systemctl daemon-reload && systemctl enable --now fedualex-run
# Anybody may look meanwhile: `fedualex deploy run /srv/fedualex` joins, and Ctrl-C lets go.
[Unit]
Description=fedualex, the run
Wants=network-online.target
After=network-online.target fedualex-server.service

[Service]
User=fedualex
Environment=PYTHON=/opt/fedualex/bin/python
Environment=PATH=/opt/fedualex/bin:/usr/bin:/bin
ExecStart=/opt/fedualex/bin/fedualex deploy run /srv/fedualex --unattended
Restart=on-failure
RestartPreventExitStatus=2
RestartSec=10
KillMode=control-group
UMask=0077
NoNewPrivileges=true
PrivateTmp=true
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths=/srv/fedualex

[Install]
WantedBy=multi-user.target
"""
"""Exit code 2 says that a person must correct something first."""


def write_run_unit(server: Path) -> None:
    """Write the unit of the run into the server's folder."""
    write_file(server / "fedualex-run.service", RUN_UNIT)


def make_private_folder(path: Path) -> Path:
    """Make a folder that only its owner can read, before anything is in it."""
    path.mkdir(parents=True)
    path.chmod(0o700)
    return path


def write_file(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Write a file of a kit. Keys have mode 600, and lie in folders of mode 700."""
    write_atomically(path, content.encode() if isinstance(content, str) else content)
    path.chmod(mode)


# The log of a party: `log.jsonl` in its folder, one JSON object on a line, the same on every engine.


LOG, EVENTS = "log.jsonl", "events.jsonl"
LARGEST, KEPT = 10_000_000, 3
"""Bytes after which another file is begun, and how many older ones stay."""


class JsonLines(logging.Formatter):
    """A record as {"time", "level", "party", "logger", "message"}, and "error" with the traceback if there is one."""

    def __init__(self, party: str):
        super().__init__()
        self.party = party

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever is in it."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "party": self.party,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def write_log(folder: Path) -> None:
    """Send what the library logs in this process to the log of this party from now on; none of it leaves the party."""
    lines = {LOG: JsonLines(read_settings(folder)["name"]), EVENTS: EventLines()}
    for name, formatter in lines.items():
        handler = _QuietHandler(folder / name, maxBytes=LARGEST, backupCount=KEPT, delay=True)
        handler.setFormatter(formatter)
        if name == EVENTS:
            handler.addFilter(lambda record: hasattr(record, "event"))
        logging.getLogger("fedualex").addHandler(handler)
    logging.getLogger("fedualex").setLevel(logging.INFO)


class _QuietHandler(RotatingFileHandler):
    """A log that cannot be written, as on a full disk, is no reason to fill the screen with it or to end."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Nothing: whoever could be told reads this very file."""


class EventLines(logging.Formatter):
    """What a record is about, as data: {"time", "code", "party", ...}, for programs; the log is for people."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever is in it."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return json.dumps({"time": time, **vars(record)["event"]})


def read_log(folder: Path) -> Iterator[Json]:
    """The lines of a party's log; one that was cut off by a crash is left out."""
    file = folder / LOG
    return _parse_lines(file.read_bytes() if file.exists() else b"")


def read_events(folder: Path) -> Iterator[Json]:
    """The events of a party; one that was cut off by a crash is left out."""
    file = folder / EVENTS
    return _parse_lines(file.read_bytes() if file.exists() else b"")


class EventTail:
    """The events of a party from now on."""

    def __init__(self, folder: Path):
        self._file = folder / EVENTS
        self._read = self._size()

    def new(self) -> list[Json]:
        """The lines since the last look; of a file that was begun anew all."""
        if (size := self._size()) == self._read:
            return []
        with open(self._file, "rb") as log:
            log.seek(self._read if size > self._read else 0)
            content = log.read()
            whole = content[: content.rfind(b"\n") + 1]
            self._read = log.tell() - len(content) + len(whole)
        return list(_parse_lines(whole))

    def _size(self) -> int:
        return self._file.stat().st_size if self._file.exists() else 0


def _parse_lines(content: bytes) -> Iterator[Json]:
    for line in content.decode(errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event

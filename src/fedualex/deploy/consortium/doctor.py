"""Checks of everything that a run needs at one party: `fedualex deploy doctor`."""

import os
import shutil
import socket
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

from ... import __version__
from ...storage import Json
from ...validation import short
from ..ledger import LEDGER, audit
from ..party import SECURE, SERVER, read_settings
from ..policy import POLICY, read_policy
from ..secure.sums import AUTHORITY, KEY, has_keys
from .agreement import agreement, has_tables
from .check import check_site
from .settings import settings_of

GOOD, NOTE, WRONG = "good", "note", "wrong"
PACKAGES = {"nvflare": "nvflare", "flower": "flwr"}
"""The package that each engine needs."""
LEAST_FREE, FEW_FREE = 50 << 20, 1 << 30
"""Free bytes below which nothing can run, and below which a person should know."""
SOON = timedelta(days=30)
CONNECT_SECONDS = 5.0


@dataclass(frozen=True)
class Finding:
    """One check: what was looked at, whether it is in order, and what to know or do."""

    about: str
    state: str
    text: str


Party = tuple[Path, Json]
"""A party's folder and its settings."""


def examine(folder: Path, *, quick: bool = False) -> list[Finding]:
    """All findings. quick: without reading the table, for checks that are repeated often."""
    settings = settings_of(folder)
    looks = {name: look for name, look in LOOKS.items() if not (quick and look in SLOW)}
    findings: list[Finding] = []
    for about, look in looks.items():
        try:
            findings += [Finding(about, state, text) for state, text in look((folder, settings))]
        except Exception as error:  # whatever is wrong there is a finding, and the others are looked at
            findings.append(Finding(about, WRONG, " ".join(str(error).split()) or type(error).__name__))
    return findings


Said = Iterator[tuple[str, str]]


def _versions(party: Party) -> Said:
    python = ".".join(map(str, sys.version_info[:3]))
    yield GOOD, f"fedualex {__version__}, Python {python}: all parties need this version of fedualex"
    engine = party[1]["server"]["engine"]
    if (package := PACKAGES.get(engine)) is not None and find_spec(package) is None:
        yield WRONG, f"the engine {engine} is not installed here: pip install 'fedualex[{engine}]'"


def _kit(party: Party) -> Said:
    folder, settings = party
    name = read_settings(folder)["name"]
    said = settings.get("site", SERVER)
    if said != name:
        yield WRONG, f"engine.json says {name!r}, and deployment.json {said!r}: take the files of one kit"
    elif has_tables(settings):
        yield GOOD, f"{name} of {', '.join(settings['sites'])}; agreement {agreement(settings)}, alike at all parties"
    else:
        yield GOOD, f"{name} of {', '.join(settings['sites'])}"


def _clock(party: Party) -> Said:
    now = datetime.now(UTC)
    newest = max((file.stat().st_mtime for file in party[0].iterdir()), default=0.0)
    if newest > now.timestamp() + 300:
        when = datetime.fromtimestamp(newest, UTC)
        yield WRONG, f"it says {now:%Y-%m-%d %H:%M} UTC, and a file here was written {when:%Y-%m-%d %H:%M}: set it"
    else:
        yield GOOD, f"it says {now:%Y-%m-%d %H:%M:%S} UTC"


def _disk(party: Party) -> Said:
    free = shutil.disk_usage(party[0]).free
    if free < LEAST_FREE:
        yield WRONG, f"{free / 2**20:.0f} MB are free: make room"
    else:
        yield (GOOD if free > FEW_FREE else NOTE), f"{free / 2**30:.1f} GB are free"
    if not os.access(party[0], os.W_OK):
        yield WRONG, f"this user cannot write into {party[0]}"


def _modes(party: Party) -> Said:
    keys = [file for file in party[0].rglob("*") if file.suffix in (".key", ".pem", ".pfx") and _is_private(file)]
    loose = [file for file in keys if stat.S_IMODE(file.stat().st_mode) & 0o077]
    if loose:
        yield WRONG, f"others can read {', '.join(str(file) for file in loose[:3])}: chmod 600"
    else:
        yield GOOD, f"{len(keys)} private keys, for their owner's eyes"


def _is_private(file: Path) -> bool:
    return file.is_file() and (file.suffix != ".pem" or b"PRIVATE KEY" in file.read_bytes()[:200])


def _certificates(party: Party) -> Said:
    folder, settings = party
    engine, is_server = settings["server"]["engine"], "site" not in settings
    has_one = any(folder.glob("server.crt" if engine == "flower" else "kit/startup/*.crt"))
    if not has_one and (engine == "nvflare" or (engine == "flower" and is_server)):
        yield (
            WRONG,
            "this party has no certificate yet: `deploy join`, `deploy admit`, and put the new one in its place",
        )
    files = [file for file in sorted(folder.rglob("*")) if file.suffix in (".crt", ".pem") and file.is_file()]
    files = [file for file in files if b"BEGIN CERTIFICATE" in file.read_bytes()[:4000]]
    if not files:
        yield GOOD, "none are needed"
        return
    from cryptography.x509 import load_pem_x509_certificate

    now = datetime.now(UTC)
    for file in files:
        made = load_pem_x509_certificate(file.read_bytes())
        first, last = made.not_valid_before_utc, made.not_valid_after_utc
        valid = f"{file.relative_to(party[0])} is valid from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"
        if not first <= now <= last:
            yield WRONG, f"{valid}: set the clock, or `fedualex deploy renew`"
        else:
            yield (NOTE if last - now < SOON else GOOD), valid


def _network(party: Party) -> Said:
    settings = party[1]
    server = settings["server"]
    if server["engine"] == "local":
        yield GOOD, "none is needed: all parties are on this machine"
        return
    where = f"{server['host']}:{server['port']}"
    try:
        socket.create_connection((server["host"], server["port"]), CONNECT_SECONDS).close()
        yield GOOD, f"{where} answers"
    except OSError as error:
        if "site" not in settings:
            yield NOTE, f"nothing answers at {where} yet ({error}): start.sh begins to listen"
        else:
            yield (
                WRONG,
                f"{where} does not answer ({error}): is the server started, does a firewall let it through?",
            )


def _masks(party: Party) -> Said:
    folder, settings = party
    if not has_keys(folder):
        waits = (folder / SECURE / AUTHORITY).exists()
        yield (WRONG, "this party has no key yet: `deploy join`, `deploy admit`") if waits else (NOTE, "no secure sums")
        return
    from ..secure.joining import fingerprint, has_joined
    from ..secure.masks import read_keys, read_roster

    site = settings.get("site")
    if site is not None and has_joined(folder) and not (folder / SECURE / "roster.json").exists():
        yield GOOD, "this site has its own key, and gets the list of all keys when a run begins"
        return
    roster = read_roster(folder)
    if site is not None and (folder / SECURE / KEY).exists():
        read_keys(folder, site)
    yield GOOD, "the list of keys is signed by the authority" + ("" if site is None else ", and has this site's own")
    for name, key in roster.keys.items():
        yield GOOD, f"{name}: {fingerprint(key)}"


def _rules(party: Party) -> Said:
    folder = party[0]
    if "site" not in party[1]:
        yield GOOD, "the server has none"
        return
    read_policy(folder)
    yield GOOD, f"{POLICY} can be read"  # else a sentence has come
    damage = audit(folder)["damage"]
    yield (WRONG, f"{LEDGER} is damaged: {damage}") if damage else (GOOD, f"{LEDGER} is whole")


def _table(party: Party) -> Said:
    folder, settings = party
    if "site" not in settings or not has_tables(settings):
        yield GOOD, "none here"
        return
    checked = check_site(folder)
    if checked.short_of:
        yield NOTE, f"it can be read, but {short(checked.short_of)}"
    else:
        yield GOOD, f"{checked.table.rows} rows; `fedualex deploy check` shows what would leave"


LOOKS: Mapping[str, Callable[[Party], Said]] = {
    "versions": _versions,
    "kit": _kit,
    "clock": _clock,
    "disk": _disk,
    "keys": _modes,
    "certificates": _certificates,
    "network": _network,
    "masks": _masks,
    "rules": _rules,
    "table": _table,
}
SLOW = (_table,)


def is_well(findings: list[Finding]) -> bool:
    """Whether no finding is an error."""
    return all(finding.state != WRONG for finding in findings)

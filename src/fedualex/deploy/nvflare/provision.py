"""Start-up kits: a certificate, a key and a policy for each party, made by NVFlare's own provisioner."""

import contextlib
import io
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from cryptography.x509 import load_pem_x509_certificate
from nvflare.lighter.constants import CtxKey
from nvflare.lighter.prov_utils import prepare_builders
from nvflare.lighter.provision import prepare_project
from nvflare.lighter.provisioner import Provisioner

from ...storage import Json, write_json
from ..party import (
    ADMIN,
    SECURE,
    SERVER,
    SETTINGS,
    Layout,
    check_address,
    check_entry,
    check_name,
    check_sites,
    make_private_folder,
    read_settings,
    write_entry,
    write_file,
    write_unit,
)
from .keys import ADMINISTRATOR, KIT, ORGANIZATION, PROJECT, SUBMITTER, install_own_key, take_keys_away

# One party's folder: its kit, its own settings, and the process that runs from it.


def command(folder: Path) -> list[str]:
    """The process of a server or a site; it stays in the foreground."""
    kind = "server" if (folder / KIT / "startup" / "fed_server.json").exists() else "client"
    settings = ["secure_train=true", f"org={ORGANIZATION}", "config_folder=config"]
    if kind == "client":
        settings.append(f"uid={read_settings(folder)['name']}")  # as in its certificate
    module = f"nvflare.private.fed.app.{kind}.{kind}_train"
    kit = str(folder / KIT)
    return [sys.executable, "-u", "-m", module, "-m", kit, "-s", f"fed_{kind}.json", "--set", *settings]


def main(folder: Path) -> None:
    """Become the process of the party in this folder, wherever the folder has been moved to."""
    if " " in str(folder):
        raise SystemExit(f"{folder} has a space in its path, which NVFlare cannot start jobs from")
    try:
        install_own_key(folder, folder / SECURE)
    except PermissionError as error:
        raise SystemExit(str(error)) from None
    check_clock(folder, datetime.now(UTC))
    resources = folder / KIT / "local" / "resources.json"
    if (folder / KIT / "startup" / "fed_server.json").exists():
        config = json.loads(resources.read_text())
        _place_stores(config, folder / "store")
        write_json(resources, config)
    os.environ.setdefault("MALLOC_ARENA_MAX", "4")  # NVFlare's own advice against fragmentation
    arguments = command(folder)
    os.execv(arguments[0], arguments)


def check_clock(folder: Path, now: datetime) -> None:
    """Say so if the party's certificate does not hold yet or any more: engines call that a failed handshake."""
    for file in sorted((folder / KIT / "startup").glob("*.crt")):
        certificate = load_pem_x509_certificate(file.read_bytes())
        first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if not first <= now <= last:
            raise SystemExit(
                f"{file} is valid from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC, and this machine's clock "
                f"says {now:%Y-%m-%d %H:%M} UTC: set the clock, or ask for new keys (`fedualex deploy renew`)"
            )


def _place_stores(resources: Json, store: Path) -> None:
    """NVFlare takes absolute paths only, and by default the system's temporary folder."""
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(store / "snapshots")
    for component in resources["components"]:
        if component["id"] == "job_manager":
            component["args"]["uri_root"] = str(store / "jobs")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())


# Who may do what at a party, and which classes a job may name there.


SERVER_CLASSES = ["nvflare.collab.runtime.controller.CollabController", "fedualex.deploy.nvflare.roles.ServerRole"]
SITE_CLASSES = ["nvflare.collab.runtime.executor.CollabExecutor", "fedualex.deploy.nvflare.roles.SiteRole"]

VIEWER = "member"

PERMISSIONS = {
    "format_version": "1.0",
    "permissions": {
        SUBMITTER: {
            "submit_job": "any",
            "manage_job": "n:submitter",
            "download_job": "n:submitter",
            "clone_job": "none",
            "view": "any",
            "operate": "none",
            "shell_commands": "none",
            "byoc": "none",
        },
        VIEWER: {"view": "any"},
    },
}
"""NVFlare's own policy lets leads bring code ("byoc") and run shell commands; here nobody may, at any party."""

HEARTBEAT = 60
"""Seconds after which a silent site is no longer given jobs; NVFlare's 600 would hold up a job that is sent again."""

LOG_STREAMS = ("site_log_streamer", "log_receiver")

QUIET = ("nvflare.collab", "nvflare.fuel", "Group", "CellDispatcher", "ClientApp", "ServerApp")
"""Loggers that write several lines for every call of every round."""


def write_policy(party: Path) -> None:
    """Replace NVFlare's defaults for a server or a site by the narrow ones."""
    local = party / KIT / "local"
    is_server = (party / KIT / "startup" / "fed_server.json").exists()
    resources = json.loads((local / "resources.json.default").read_text())
    resources["class_allow_list"] = SERVER_CLASSES if is_server else SITE_CLASSES
    resources["class_list_enforcement_mode"] = "enforce"
    if is_server:
        resources["servers"][0]["heart_beat_timeout"] = HEARTBEAT
        _schedule_at_once(resources)
    else:
        resources["allow_log_streaming"] = False  # a site's log may quote its data
    resources["components"] = [c for c in resources["components"] if c["id"] not in LOG_STREAMS]
    write_json(local / "resources.json", resources)
    write_json(local / "authorization.json", PERMISSIONS)
    logging = json.loads((local / "log_config.json.default").read_text())
    logging["loggers"] |= {name: {"level": "WARNING"} for name in QUIET}
    write_json(local / "log_config.json", logging)


def _schedule_at_once(resources: Json) -> None:
    """One job at a time, tried every few seconds until its sites are there, not ten times and never again."""
    for component in resources["components"]:
        if component["id"] == "job_scheduler":
            component["args"] = {
                "max_jobs": 1,
                "max_schedule_count": 1_000_000,
                "min_schedule_interval": 1.0,
                "max_schedule_interval": 5.0,
            }


AUTHORITY_DAYS = 3650
"""The authority outlives the certificates that it signs: one site can have a new one, and no other is stopped."""
UNUSED = (
    *("start.sh", "sub_start.sh", "stop_fl.sh", "fl_admin.sh"),
    *("readme.txt", "system_info.ipynb", "privacy.json.sample"),
)
"""Files of NVFlare's kits that would be a second way to start, or that promise filters which Collab goes around."""

START = """#!/bin/sh
# Starts {who}, in the foreground. PYTHON names the interpreter in which fedualex[nvflare] is installed.
cd "$(dirname "$0")" || exit 1
exec "${{PYTHON:-python3}}" {command}
"""


def provision(
    folder: Path,
    sites: Sequence[str],
    *,
    host: str = "localhost",
    port: int = 8002,
    serve: str,
    site: str,
    viewers: Sequence[str] = (),
    own_keys: bool = False,
) -> None:
    """Lay out `server`, `sites/NAME`, `admin`, `viewers/NAME` and `authority` in a folder: one folder for each party.

    With the host "localhost" the server listens on loopback alone, with any other name on all interfaces. `serve` and
    `site` name what runs there, as "module:function"; they are called with the party's folder. `authority` holds the
    key that signs certificates; whoever has it can make parties, so it belongs on no server. With `own_keys` no party
    has a key or a certificate: it makes the one itself, and asks the authority for the other.
    """
    check_sites(sites)
    for name in viewers:
        check_name(name, "a viewer's name")
    check_address(host, port)
    check_entry(serve)
    check_entry(site)
    layout = Layout(folder)
    layout.refuse_existing()
    authority = make_private_folder(layout.authority)
    project = _project(sites, host, port, viewers)
    write_file(authority / "project.yml", json.dumps(project, indent=1))  # JSON is YAML
    kits = _make_kits(authority, project)
    parties = {host: layout.server, ADMINISTRATOR: layout.admin}
    parties |= {name: layout.site(name) for name in sites}
    parties |= {_viewer(name): layout.viewer(name) for name in viewers}
    _place_kits(kits, parties)
    _keep_root_alone(authority / PROJECT / "state" / "cert.json")
    for name in (SERVER, *sites):
        write_policy(layout.party(name))
        write_entry(layout.party(name), name, serve if name == SERVER else site)
    for party in parties.values():
        _write_start(layout, party)
    write_json(layout.admin / SETTINGS, {"name": ADMIN})
    for name in (SERVER, ADMIN, *sites) if own_keys else ():
        take_keys_away(layout.party(name))
    _protect(layout)


def _project(sites: Sequence[str], host: str, port: int, viewers: Sequence[str]) -> Json:
    def party(name: str, type_: str, **more: object) -> Json:
        return {"name": name, "type": type_, "org": ORGANIZATION, **more}

    impl = "nvflare.lighter.impl"
    return {
        "api_version": 3,
        "name": PROJECT,
        "description": "a deployment of fedualex",
        "participants": [
            party(host, "server", fed_learn_port=port, admin_port=port),
            *(party(name, "client") for name in sites),
            party(ADMINISTRATOR, ADMIN, role=SUBMITTER),
            *(party(_viewer(name), "admin", role=VIEWER) for name in viewers),
        ],
        "builders": [
            {"path": f"{impl}.workspace.WorkspaceBuilder", "args": {}},
            {"path": f"{impl}.static_file.StaticFileBuilder", "args": {"config_folder": "config", "scheme": "grpc"}},
            {"path": f"{impl}.cert.CertBuilder", "args": {"root_valid_days": AUTHORITY_DAYS}},
            {"path": f"{impl}.signature.SignatureBuilder", "args": {}},
        ],
    }


def _make_kits(authority: Path, project: Json) -> Path:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        context = Provisioner(str(authority), prepare_builders(project)).provision(prepare_project(project))
    if context.get(CtxKey.BUILD_ERROR):
        raise RuntimeError(f"NVFlare could not make the start-up kits: {said.getvalue().strip()}")
    return Path(context[CtxKey.CURRENT_PROD_DIR])


def _place_kits(kits: Path, parties: Mapping[str, Path]) -> None:
    for name, party in parties.items():
        shutil.move(kits / name, make_private_folder(party) / KIT)
        for path in [path for path in (party / KIT).rglob("*") if path.name in UNUSED]:
            path.unlink()
    shutil.rmtree(kits)


def _keep_root_alone(record: Path) -> None:
    """The provisioner remembers every party's private key; a party's key is in the party's folder and nowhere else."""
    keys = json.loads(record.read_text())
    write_json(record, {key: keys[key] for key in ("root_cert", "root_pri_key")})


def _viewer(name: str) -> str:
    return f"{name}@{ORGANIZATION}.org"


def _write_start(layout: Layout, party: Path) -> None:
    if (party / KIT / "startup" / "fed_admin.json").exists():
        who, command = "NVFlare's console", f'-m nvflare.fuel.hci.tools.admin -m "$PWD/{KIT}" -s fed_admin.json'
    else:
        who = "the server" if party == layout.server else f"site {party.name}"
        command = '-m fedualex.deploy.nvflare.provision "$PWD"'
        write_unit(party, who)
    write_file(party / "start.sh", START.format(who=who, command=command), 0o755)


def _protect(layout: Layout) -> None:
    """Private keys, and the authority's record that contains its own, are for their owner's eyes."""
    for path in layout.root.rglob("*"):
        if path.suffix in (".key", ".pfx") or path.is_relative_to(layout.authority):
            path.chmod(0o700 if path.is_dir() else 0o600)

"""Start-up kits: a certificate, a key and a policy for each party, made by NVFlare's own provisioner."""

import contextlib
import io
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nvflare.lighter.constants import CtxKey
from nvflare.lighter.prov_utils import prepare_builders
from nvflare.lighter.provision import prepare_project
from nvflare.lighter.provisioner import Provisioner

from ...storage import write_json
from ..entry import check_entry, write_entry
from ..kits import private_folder, write_file, write_unit
from ..layout import SERVER, Layout, check_address, check_name, check_sites
from .party import KIT, ORGANIZATION
from .policy import SUBMITTER, VIEWER, write_policy

PROJECT = "deployment"
ADMIN = f"admin@{ORGANIZATION}.org"
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
) -> None:
    """Lay out `server`, `sites/NAME`, `admin`, `viewers/NAME` and `authority` in a folder: one folder for each party.

    With the host "localhost" the server listens on loopback alone, with any other name on all interfaces. `serve` and
    `site` name what runs there, as "module:function"; they are called with the party's folder. `authority` holds the
    key that signs certificates; whoever has it can make parties, so it belongs on no server.
    """
    check_sites(sites)
    for name in viewers:
        check_name(name, "a viewer's name")
    check_address(host, port)
    check_entry(serve)
    check_entry(site)
    layout = Layout(folder)
    layout.refuse_existing()
    authority = private_folder(layout.authority)
    project = _project(sites, host, port, viewers)
    write_file(authority / "project.yml", json.dumps(project, indent=1))  # JSON is YAML
    kits = _make_kits(authority, project)
    parties = {host: layout.server, ADMIN: layout.admin}
    parties |= {name: layout.site(name) for name in sites}
    parties |= {_viewer(name): layout.viewer(name) for name in viewers}
    for name, party in parties.items():
        shutil.move(kits / name, private_folder(party) / KIT)
        for path in [path for path in (party / KIT).rglob("*") if path.name in UNUSED]:
            path.unlink()
    shutil.rmtree(kits)
    _keep_root_alone(authority / PROJECT / "state" / "cert.json")
    for name in (SERVER, *sites):
        write_policy(layout.party(name))
        write_entry(layout.party(name), name, serve if name == SERVER else site)
    for party in parties.values():
        _write_start(layout, party)
    _protect(layout)


def _project(sites: Sequence[str], host: str, port: int, viewers: Sequence[str]) -> dict[str, Any]:
    def party(name: str, type_: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "type": type_, "org": ORGANIZATION, **more}

    impl = "nvflare.lighter.impl"
    return {
        "api_version": 3,
        "name": PROJECT,
        "description": "a deployment of fedualex",
        "participants": [
            party(host, "server", fed_learn_port=port, admin_port=port),
            *(party(name, "client") for name in sites),
            party(ADMIN, "admin", role=SUBMITTER),
            *(party(_viewer(name), "admin", role=VIEWER) for name in viewers),
        ],
        "builders": [
            {"path": f"{impl}.workspace.WorkspaceBuilder", "args": {}},
            {"path": f"{impl}.static_file.StaticFileBuilder", "args": {"config_folder": "config", "scheme": "grpc"}},
            {"path": f"{impl}.cert.CertBuilder", "args": {}},
            {"path": f"{impl}.signature.SignatureBuilder", "args": {}},
        ],
    }


def _make_kits(authority: Path, project: dict[str, Any]) -> Path:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        context = Provisioner(str(authority), prepare_builders(project)).provision(prepare_project(project))
    if context.get(CtxKey.BUILD_ERROR):
        raise RuntimeError(f"NVFlare could not make the start-up kits: {said.getvalue().strip()}")
    return Path(context[CtxKey.CURRENT_PROD_DIR])


def _keep_root_alone(record: Path) -> None:
    """The provisioner remembers every party's private key; a party's key is in the party's folder and nowhere else."""
    found = json.loads(record.read_text())
    write_json(record, {key: found[key] for key in ("root_cert", "root_pri_key")})


def _viewer(name: str) -> str:
    return f"{name}@{ORGANIZATION}.org"


def _write_start(layout: Layout, party: Path) -> None:
    if (party / KIT / "startup" / "fed_admin.json").exists():
        who, command = "NVFlare's console", f'-m nvflare.fuel.hci.tools.admin -m "$PWD/{KIT}" -s fed_admin.json'
    else:
        who = "the server" if party == layout.server else f"site {party.name}"
        command = '-m fedualex.deploy.nvflare.party "$PWD"'
        write_unit(party, who)
    write_file(party / "start.sh", START.format(who=who, command=command), 0o755)


def _protect(layout: Layout) -> None:
    """Private keys, and the authority's record that contains its own, are for their owner's eyes."""
    for path in layout.root.rglob("*"):
        if path.suffix in (".key", ".pfx") or path.is_relative_to(layout.authority):
            path.chmod(0o700 if path.is_dir() else 0o600)

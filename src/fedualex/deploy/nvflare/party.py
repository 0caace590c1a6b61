"""One party's folder: its kit, its own settings, and the process that runs from it."""

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.x509 import load_pem_x509_certificate

from ...storage import write_json
from ..entry import read_settings

KIT = "kit"
ORGANIZATION = "fedualex"


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
    check_clock(folder, datetime.now(UTC))
    resources = folder / KIT / "local" / "resources.json"
    if (folder / KIT / "startup" / "fed_server.json").exists():
        found = json.loads(resources.read_text())
        _place_stores(found, folder / "store")
        write_json(resources, found)
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


def _place_stores(resources: dict[str, Any], store: Path) -> None:
    """NVFlare takes absolute paths only, and by default the system's temporary folder."""
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(store / "snapshots")
    for component in resources["components"]:
        if component["id"] == "job_manager":
            component["args"]["uri_root"] = str(store / "jobs")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())

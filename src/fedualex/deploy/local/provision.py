"""Folders of a deployment on one machine: a key that server and site share, and a start script."""

import secrets
from collections.abc import Sequence
from pathlib import Path

from ..party import SERVER, Layout, check_entry, check_sites, make_private_folder, write_entry, write_file

KEY, KEYS = "site.key", "keys"
"""A site's key in its own folder, and the folder of all at the server."""
START = """#!/bin/sh
# Starts {who}, in the foreground; the server starts its sites itself. PYTHON names the interpreter with fedualex in it.
cd "$(dirname "$0")" || exit 1
exec "${{PYTHON:-python3}}" -m fedualex.deploy.local.{module} .
"""


def provision(folder: Path, sites: Sequence[str], *, serve: str, site: str) -> None:
    """Write `server` and `sites/NAME`; nothing listens beyond loopback, so there is neither host nor certificate."""
    check_sites(sites)
    check_entry(serve)
    check_entry(site)
    layout = Layout(folder)
    layout.refuse_existing()
    make_private_folder(layout.server)
    make_private_folder(layout.server / KEYS)
    write_entry(layout.server, SERVER, serve, sites=list(sites))
    write_file(layout.server / "start.sh", START.format(who="the server", module="server"), 0o700)
    for name in sites:
        key, home = secrets.token_bytes(32), layout.site(name)
        make_private_folder(home)
        write_file(home / KEY, key, 0o600)
        write_file(layout.server / KEYS / name, key, 0o600)
        write_entry(home, name, site)
        write_file(home / "start.sh", START.format(who=f"site {name}", module="site"), 0o700)

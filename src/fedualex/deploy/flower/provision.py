"""A ready deployment on disk: what the server needs, what each site needs, and nobody's private key but one's own."""

import json
from collections.abc import Sequence
from pathlib import Path

from ..party import (
    SECURE,
    SERVER,
    Layout,
    check_address,
    check_entry,
    check_sites,
    make_private_folder,
    write_entry,
    write_file,
    write_unit,
)
from . import keys
from .layout import ADDRESS, CONNECTION, NODE_KEY, PORT_VARIABLE, QUIET, SERVER_CERTIFICATE, SERVER_KEY

# The texts of a deployment: Flower's app and connection, and the start script of each party.


APP = """\
# The Flower app of this deployment. It holds no code: server and sites run the fedualex that is installed there.
[project]
name = "fedualex-deployment"
version = "1.0.0"
description = "The round loop and the sites of fedualex"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "fedualex"

[tool.flwr.app.components]
serverapp = "fedualex.deploy.flower.app:server"
clientapp = "fedualex.flower_client:client"

[tool.flwr.app.config]
folder = ""
"""

LOOPBACK = ("127.0.0.1", "localhost")


def connection(port: int, authority: Path) -> str:
    """Flower's configuration file on the server's machine. Flower wants an absolute path to the authority."""
    return f"""\
[superlink]
default = "{CONNECTION}"

[superlink.{CONNECTION}]
address = "127.0.0.1:{port}"
root-certificates = {json.dumps(str(authority.resolve()))}
"""


def start_server(host: str, port: int, key: str) -> str:
    """Starts the SuperLink, registers the sites' keys, and stays until it ends.

    key: the file of the server's private key.
    """
    bind = "127.0.0.1" if host in LOOPBACK else "0.0.0.0"
    return f"""\
#!/bin/sh
# The server of this deployment. Needs `fedualex[flower]` on the PATH; end it with Ctrl-C or SIGTERM.
set -eu
cd "$(dirname "$0")"
{_exports()}
flower-superlink --host {bind} --port {port} --database superlink.db --enable-supernode-auth \\
    --ssl-ca-certfile ca.crt --ssl-certfile {SERVER_CERTIFICATE} --ssl-keyfile {key} &
superlink=$!
trap 'kill "$superlink" 2>/dev/null || true; wait' EXIT
trap 'exit 143' INT TERM
python -m fedualex.deploy.flower.trial ..
wait "$superlink"
"""


def start_site(name: str, host: str, port: int, key: str) -> str:
    """Starts a site's worker, and its SuperNode, which starts a process for every message.

    key: the file of the site's private key.
    """
    return f"""\
#!/bin/sh
# Site {name}. Needs `fedualex[flower]` on the PATH; end it with Ctrl-C or SIGTERM.
set -eu
cd "$(dirname "$0")"
{_exports()}
python -m fedualex.deploy.flower.worker . &
worker=$!
flower-supernode --superlink {host}:{port} --root-certificates ca.crt --auth-supernode-private-key {key} \\
    --node-config "folder=\\"$PWD\\"" --host 127.0.0.1 --port "${{{PORT_VARIABLE}:-9094}}" &
node=$!
trap 'kill "$node" "$worker" 2>/dev/null || true; wait' EXIT
trap 'exit 143' INT TERM
wait "$node"
"""


def _exports() -> str:
    quiet = "\n".join(f"export {name}={value}" for name, value in QUIET.items())
    return f'{quiet}\nexport FLWR_HOME="$PWD/flwr"'


def provision(
    folder: Path, sites: Sequence[str], *, host: str, port: int, serve: str, site: str, own_keys: bool = False
) -> None:
    """Write the server's folder, one for each site, and the authority's, which stays where it is made.

    `host` is the name or address by which sites reach the server. `serve` and `site` are entry points "module:name":
    serve(engine, folder) runs the round loop, site(folder).work(request) answers for a site; each gets its own folder.
    With `own_keys` nobody has a key: each party makes its own, and the server is given the public halves.
    """
    check_sites(sites)
    check_address(host, port)
    check_entry(serve)
    check_entry(site)
    layout = Layout(folder)
    layout.refuse_existing()
    authority_key = keys.new_key()
    authority = keys.authority(authority_key)
    certificate = keys.certificate_pem(authority)
    make_private_folder(layout.authority)
    write_file(layout.authority / "ca.key", keys.private_pem(authority_key), 0o600)
    write_file(layout.authority / "ca.crt", certificate)

    server = make_private_folder(layout.server)
    for name in ("app", "keys"):
        (server / name).mkdir()
    write_file(server / "ca.crt", certificate)
    write_file(server / "app" / "pyproject.toml", APP)
    write_file(server / ADDRESS, json.dumps({"host": host, "port": port}))
    private = f"{SECURE}/{SERVER_KEY}" if own_keys else SERVER_KEY
    write_file(server / "start.sh", start_server(host, port, private), 0o700)
    if not own_keys:
        keys.sign(layout, keys.make_public(server, SERVER))
    write_unit(server, "the server")
    write_entry(server, SERVER, serve)

    for name in sites:
        home = make_private_folder(layout.site(name))
        private = f"{SECURE}/{NODE_KEY}" if own_keys else NODE_KEY
        if not own_keys:
            key = keys.new_key()
            write_file(server / "keys" / f"{name}.pub", keys.public_ssh(key))
            write_file(home / NODE_KEY, keys.private_ssh(key), 0o600)
        write_file(home / "ca.crt", certificate)
        write_file(home / "start.sh", start_site(name, host, port, private), 0o700)
        write_unit(home, f"site {name}")
        write_entry(home, name, site)

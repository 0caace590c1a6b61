"""The texts of a deployment: Flower's app and connection, and the start script of each party."""

import json
from pathlib import Path

from .layout import CONNECTION, ENTRY_VARIABLE, FOLDER_VARIABLE, PORT_VARIABLE, QUIET

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
clientapp = "fedualex.deploy.flower.app:client"

[tool.flwr.app.config]
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


def start_server(host: str, port: int, entry: str) -> str:
    """Starts the SuperLink, registers the sites' keys, and stays until it ends."""
    bind = "127.0.0.1" if host in LOOPBACK else "0.0.0.0"
    return f"""\
#!/bin/sh
# The server of this deployment. Needs `fedualex[flower]` on the PATH; end it with Ctrl-C or SIGTERM.
set -eu
cd "$(dirname "$0")"
{_exports(entry)}
export {FOLDER_VARIABLE}="$(dirname "$PWD")"
flower-superlink --host {bind} --port {port} --database superlink.db --enable-supernode-auth \\
    --ssl-ca-certfile ca.crt --ssl-certfile server.crt --ssl-keyfile server.key \\
    --isolation process --superexec-auth-secret-file worker.key &
superlink=$!
{_trap("superlink")}
python -m fedualex.deploy.flower.register ..
{_tend("superlink", 'python -m fedualex.deploy.flower.host "$superlink" ..')}
"""


def start_site(name: str, host: str, port: int, entry: str) -> str:
    """Starts a site's SuperNode and the process that works for it."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"""\
#!/bin/sh
# Site {name}. Needs `fedualex[flower]` on the PATH; end it with Ctrl-C or SIGTERM.
set -eu
cd "$(dirname "$0")"
{_exports(entry)}
export {FOLDER_VARIABLE}="$PWD"
port="${{{PORT_VARIABLE}:-9094}}"
flower-supernode --superlink {address} --root-certificates ca.crt --auth-supernode-private-key node.key \\
    --isolation process --superexec-auth-secret-file worker.key --host 127.0.0.1 --port "$port" &
node=$!
{_trap("node")}
{_tend("node", 'python -m fedualex.deploy.flower.worker "$node" "$port" worker.key')}
"""


def _trap(flower: str) -> str:
    """Whatever ends the script ends what it started."""
    return f"""\
worker=
trap 'kill "${flower}" $worker 2>/dev/null || true; wait' EXIT
trap 'exit 143' INT TERM"""


def _tend(flower: str, work: str) -> str:
    """Keep a process of ours beside Flower's, and end with Flower's."""
    return f"""\
# Flower's process talks to the others; ours works. When it ends or dies, another takes its place.
while kill -0 "${flower}" 2>/dev/null; do
    {work} &
    worker=$!
    wait "$worker" || sleep 1
done"""


def _exports(entry: str) -> str:
    quiet = "\n".join(f"export {name}={value}" for name, value in QUIET.items())
    return f'{quiet}\nexport FLWR_HOME="$PWD/flwr"\nexport {ENTRY_VARIABLE}={entry}'

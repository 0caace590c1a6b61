"""The texts of a deployment: Flower's app and connection, and the start script of each party."""

import json
from pathlib import Path

from .layout import CONNECTION, PORT_VARIABLE, QUIET

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


def start_server(host: str, port: int) -> str:
    """Starts the SuperLink, registers the sites' keys, and stays until it ends."""
    bind = "127.0.0.1" if host in LOOPBACK else "0.0.0.0"
    return f"""\
#!/bin/sh
# The server of this deployment. Needs `fedualex[flower]` on the PATH; end it with Ctrl-C or SIGTERM.
set -eu
cd "$(dirname "$0")"
{_exports()}
flower-superlink --host {bind} --port {port} --database superlink.db --enable-supernode-auth \\
    --ssl-ca-certfile ca.crt --ssl-certfile server.crt --ssl-keyfile server.key &
superlink=$!
trap 'kill "$superlink" 2>/dev/null || true; wait' EXIT
trap 'exit 143' INT TERM
python -m fedualex.deploy.flower.register ..
wait "$superlink"
"""


def start_site(name: str, host: str, port: int) -> str:
    """Starts a site's SuperNode, which starts a process for every message."""
    return f"""\
#!/bin/sh
# Site {name}. Needs `fedualex[flower]` on the PATH; end it with Ctrl-C or SIGTERM.
set -eu
cd "$(dirname "$0")"
{_exports()}
exec flower-supernode --superlink {host}:{port} --root-certificates ca.crt --auth-supernode-private-key node.key \\
    --node-config "folder=\\"$PWD\\"" --host 127.0.0.1 --port "${{{PORT_VARIABLE}:-9094}}"
"""


def _exports() -> str:
    quiet = "\n".join(f"export {name}={value}" for name, value in QUIET.items())
    return f'{quiet}\nexport FLWR_HOME="$PWD/flwr"'

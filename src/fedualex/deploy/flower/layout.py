"""Names of what a deployment's folder holds, and the environment that Flower's programs run in."""

import json
import os
import sys
from pathlib import Path

from ..party import Layout

CONNECTION = "deployment"
"""The SuperLink's name in Flower's own configuration file."""

PORT_VARIABLE = "FEDUALEX_RUNTIME_PORT"

NODE_KEY = "node.key"
"""A site's private key."""
SERVER_KEY, SERVER_CERTIFICATE = "server.key", "server.crt"
ADDRESS = "address.json"
"""The name by which sites reach the SuperLink, and the port that it listens on."""
OUTCOME = "outcome.json"
"""How the ServerApp ended, in its own words."""
SUBMITTED = "submitted.json"
"""Flower's number of the latest run."""
REGISTERED = "registered.json"
"""Flower's node numbers of the sites whose keys are registered."""

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
"""Nothing is reported, looked up or installed over the network."""


def environment(home: Path) -> dict[str, str]:
    """This process's environment for Flower's programs: quiet, at home in the deployment, of this installation."""
    binaries = str(Path(sys.executable).parent)
    path = os.pathsep.join([binaries, os.environ.get("PATH", os.defpath)])
    return {**os.environ, **QUIET, "FLWR_HOME": str((home / "flwr").resolve()), "PATH": path}


def port(folder: Path) -> int:
    """The port that the SuperLink listens on."""
    number: int = json.loads((Layout(folder).server / ADDRESS).read_text())["port"]
    return number


def stop_file(home: Path, run: str) -> Path:
    """Its presence asks the round loop of this run to end, and of no other."""
    return home / f"stop-{run}"


def site_names(folder: Path) -> list[str]:
    """The sites of a deployment, by the public keys that its server knows."""
    keys = sorted((Layout(folder).server / "keys").glob("*.pub"))
    if not keys:
        raise ValueError(f"{folder} has no server/keys/*.pub: it is no Flower deployment, or no site is admitted yet")
    return [key.stem for key in keys]

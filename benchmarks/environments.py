"""One environment for each peer, from its pinned `requirements-PEER.txt`, in `.venvs/`.

Installed without resolving dependencies: the files name all that is needed, so torch brings no CUDA packages.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PEERS = {"torch": "torch", "flower": "flwr", "pfl": "pfl", "fedjax": "fedjax"}  # and the package it measures


class UnavailableError(Exception):
    """A peer cannot be measured here, and why."""


def ran(command: list[str]) -> str:
    """The command's output, or UnavailableError with the last line that says what went wrong."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE)
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if "Error" in line or "ERROR" in line]
        raise UnavailableError(lines[-1] if lines else f"ended with {done.returncode}")
    return done.stdout


def environment(peer: str) -> Path:
    """The Python of the peer's environment; made again when its requirements changed."""
    folder, requirements = HERE / ".venvs" / peer, HERE / f"requirements-{peer}.txt"
    python, installed = folder / "bin" / "python", folder / "installed"
    if not installed.exists() or installed.read_text() != requirements.read_text():
        ran([sys.executable, "-m", "venv", "--clear", str(folder)])
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        ran([*pip, "--no-deps", "--requirement", str(requirements)])
        installed.write_text(requirements.read_text())
    ran([str(python), "-c", f"import peers_{peer}"])
    return python


def version(python: Path, package: str) -> str:
    """What is installed there."""
    return ran([str(python), "-c", f"import importlib.metadata as m; print(m.version({package!r}))"]).strip()

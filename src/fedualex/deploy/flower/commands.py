"""Flower's command line, as seen from the server's machine."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...storage import write_atomically
from ..layout import Layout
from .layout import CONNECTION, environment, port
from .scripts import connection

SECONDS = 120
"""Time limit of one command: each is a Python process with heavy imports."""


class FlowerError(RuntimeError):
    """A command that Flower refused or that did not reach the SuperLink."""


def flwr(folder: Path, *arguments: str, options: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON answer of `flwr ARGUMENTS` to the deployment's SuperLink. Its exit code is not looked at."""
    home = Layout(folder).server
    (home / "flwr").mkdir(exist_ok=True)
    # Written anew each time: it holds an absolute path, and folders move.
    write_atomically(home / "flwr" / "config.toml", connection(port(folder), home / "ca.crt").encode())
    command = ["flwr", *arguments, CONNECTION, *options, "--format", "json"]
    try:
        done = subprocess.run(
            command, cwd=home, env=environment(home), capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise FlowerError(f"`flwr {arguments[0]}` did not answer within {SECONDS} seconds") from None
    answer = _last_object(done.stdout)
    if answer is None:
        said = " ".join((done.stderr or done.stdout).split())
        raise FlowerError(f"`flwr {arguments[0]}` gave no answer: {said[-300:] or 'it said nothing'}")
    if not answer.get("success"):
        raise FlowerError(f"`flwr {arguments[0]}` failed: {answer.get('error-message', answer)}")
    return answer


def _last_object(text: str) -> dict[str, Any] | None:
    """The last JSON object in a text that may have lines of talk before it."""
    decoder, found, position = json.JSONDecoder(), None, text.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError:
            end = position + 1
        else:
            found = value
        position = text.find("{", end)
    return found

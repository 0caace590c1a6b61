"""Deployments on this machine for benchmarks: made, followed by a command whose words are kept, sampled, ended."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from fedualex.deploy import processes
from fedualex.deploy.party import SERVER, Layout

LONGEST = 420.0
"""Seconds after which a run is given up."""
DISK = "24m"


class Trial:
    """A deployment, the command that follows its run, and what that said when.

    make: writes the kit into a folder, given the settings of its server.
    """

    def __init__(self, root: Path, engine: str, make: Callable[[Path, dict[str, Any]], object]):
        self.engine, self.root, self.layout = engine, root, Layout(root)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            make(root, {"engine": engine, "port": free.getsockname()[1]})
        self.said: list[tuple[float, str]] = []
        self.disks: list[Path] = []
        self.kept: dict[Path, bytes] = {}
        self.command: subprocess.Popen[str] | None = None

    def follow(self, *options: str) -> None:
        """Another command that runs or joins."""
        words = [sys.executable, "-m", "fedualex", "deploy", "run", str(self.root), *options]
        self.command = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        threading.Thread(target=self._listen, args=(self.command,), daemon=True).start()

    def _listen(self, command: "subprocess.Popen[str]") -> None:
        assert command.stdout is not None
        for line in command.stdout:
            self.said.append((time.monotonic(), line.rstrip()))

    def deploy(self, *words: str) -> str:
        """A command of the deployment that ends."""
        command = [sys.executable, "-m", "fedualex", "deploy", words[0], str(self.root), *words[1:]]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def is_followed(self) -> bool:
        """Whether the following command has not ended."""
        return self.command is not None and self.command.poll() is None

    def round(self) -> int:
        """The last round of the checkpoint."""
        with contextlib.suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            with np.load(self.layout.run / "checkpoint.npz") as stored:
                leaves = [stored[f"leaf{i}"] for i in range(len(stored.files) - 1)]
            return int(next(leaf for leaf in leaves if leaf.dtype.kind == "i" and leaf.shape == ()))
        return -1

    def wait(self, done: Callable[[], bool], seconds: float = LONGEST) -> bool:
        """Whether it was done in that time."""
        end = time.monotonic() + seconds
        while not done() and time.monotonic() < end:
            time.sleep(0.05)
        return done()

    def pids(self, party: str) -> list[int]:
        """The processes of a party, its own first."""
        if self.engine != "local":
            return [process.pid for process in processes.members(self.root, party)]
        server = psutil.Process(int((self.layout.server / "server.lock").read_text()))
        if party == SERVER:
            return [server.pid]
        home = str(self.layout.site(party).resolve())
        return [child.pid for child in server.children() if _place(child) == home]

    def memory(self, parties: Sequence[str]) -> Mapping[str, float]:
        """MB of each party's processes, what they share with others divided among them."""
        found = dict.fromkeys(parties, 0.0)
        for party in parties:
            with contextlib.suppress(OSError, ValueError, psutil.Error):
                found[party] = sum(psutil.Process(pid).memory_full_info().pss for pid in self.pids(party)) / 1e6
        return found

    def signal(self, number: signal.Signals, party: str, which: slice = slice(None)) -> None:
        """To processes of a party."""
        for pid in self.pids(party)[which]:
            os.kill(pid, number)

    def start(self, party: str) -> None:
        """Again, where the engine does not do it itself."""
        if self.engine == "local":
            return
        self.wait(lambda: not self.pids(party), 30)
        if self.engine == "nvflare":
            from fedualex.deploy.nvflare import control

            control.start(self.root, party)
            return
        from fedualex.deploy.flower import trial

        trial.start_server(self.root) if party == SERVER else trial.start_site(self.root, party)

    def restart(self, party: str) -> None:
        """End what works for a run at a party, which the engine or the following command starts again."""
        self.signal(signal.SIGKILL, party, slice(None) if self.engine == "local" else slice(1, None))

    def replace(self, file: Path, content: bytes | None) -> None:
        """Other content for a file, none to have it gone; `put_back` undoes it."""
        self.kept.setdefault(file, file.read_bytes())
        file.unlink()
        if content is not None:
            file.write_bytes(content)
            file.chmod(0o700 if file.suffix == ".sh" else 0o600)

    def put_back(self) -> None:
        """All files that were replaced."""
        for file, content in self.kept.items():
            file.write_bytes(content)
        self.kept.clear()

    def small_disk(self, party: str) -> None:
        """Move a party's folder to a small file system."""
        home = self.layout.party(party)
        moved = self.root / f"{party}-moved"
        home.rename(moved)
        home.mkdir(mode=0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "tmpfs", str(home)], check=True)
        subprocess.run(["cp", "-a", f"{moved}/.", str(home)], check=True)
        self.disks.append(home)

    def fill(self, party: str) -> None:
        """Leave no byte."""
        with contextlib.suppress(OSError), open(self.layout.party(party) / "filler", "wb", buffering=0) as file:
            while True:
                file.write(b"\0" * 4096)

    def free(self, party: str) -> None:
        """Give the disk back."""
        (self.layout.party(party) / "filler").unlink()

    def weights(self) -> np.ndarray | None:
        """Of the model at the server."""
        from fedualex.models import load

        return load(self.layout.server).weights if (self.layout.server / "model" / "model.json").exists() else None

    def history(self) -> list[dict[str, Any]]:
        """The records of the run so far."""
        file = self.layout.run / "history.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def end(self) -> None:
        """All processes and disks."""
        with contextlib.suppress(Exception):
            self.deploy("stop")
        if self.command is not None and self.command.poll() is None:
            self.command.kill()
        for disk in self.disks:
            subprocess.run(["umount", "-l", str(disk)], check=False)


def _place(process: psutil.Process) -> str:
    """The folder that it works in; none of one that has just ended."""
    with contextlib.suppress(psutil.Error):
        return process.cwd()
    return ""

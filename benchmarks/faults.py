"""Faults in the middle of a deployed run, made one after the other: `python benchmarks/faults.py ENGINE [NAME ...]`.

Three sites on this machine, on the engine `local` or `nvflare`, run 120 rounds under masks. In the middle of a run one
thing goes wrong; where it has a cause that goes away, it does after some seconds. Each line of the table says how long
it took until the command that follows the run said so, in which words, how long after the cause had gone the next
exchange came, and whether the run ended in the numbers of the undisturbed run. Disks are full where a party's folder is
a small file system of its own, which takes root on Linux.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from fedualex.data import bundled_table
from fedualex.deploy import processes
from fedualex.deploy.consortium.deployment import load_site, serve
from fedualex.deploy.consortium.kit import write_table_deployment
from fedualex.deploy.party import Layout
from fedualex.deploy.threads import thread_engine

SITES = ("north", "south", "west")
VICTIM = "north"
COLUMNS = ("mean radius", "mean texture", "mean smoothness", "mean symmetry", "worst concavity")
FIT = {"goal": "logistic", "target": "target", "l1": 0.01, "rounds": 120, "tol": 1e-30}
RUN = {"local_steps": 2, "timeout": 10.0}
METHOD = {"name": "FeDualExCorrected"}
BEGUN = 15
"""The round after which something goes wrong."""
LONGEST = 420.0
"""Seconds after which a run is given up."""
DISK = "24m"
EXACT = 1e-12


def write_tables(folder: Path) -> None:
    """A third of a table of patients for each site."""
    table = bundled_table("breast_cancer")
    names = [name for name in table if name in (*COLUMNS, "target")]
    for m, site in enumerate(SITES):
        rows = [",".join(str(table[name][i]) for name in names) for i in range(m, table.rows, len(SITES))]
        (folder / f"{site}.csv").write_text("\n".join([",".join(names), *rows]) + "\n")


class Trial:
    """A deployment, the command that follows its run, and what that said when."""

    def __init__(self, place: Path, name: str, engine: str):
        self.engine, self.root, self.layout = engine, place / name, Layout(place / name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            server = {"engine": engine, "port": free.getsockname()[1]}
        sites = {site: {"table": str(place / f"{site}.csv")} for site in SITES}
        write_table_deployment(self.root, FIT, sites, server, RUN, METHOD)
        self.said: list[tuple[float, str]] = []
        self.disks: list[Path] = []
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

    def round(self) -> int:
        """The last round of the checkpoint."""
        with contextlib.suppress(OSError, ValueError, KeyError, EOFError):
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
        if party == "server":
            return [server.pid]
        home = str(self.layout.site(party).resolve())
        return [child.pid for child in server.children() if child.cwd() == home]

    def signal(self, number: signal.Signals, party: str, which: slice = slice(None)) -> None:
        """To processes of a party."""
        for pid in self.pids(party)[which]:
            os.kill(pid, number)

    def start(self, party: str) -> None:
        """Again, where the engine does not do it itself."""
        if self.engine == "nvflare":
            from fedualex.deploy.nvflare import control

            self.wait(lambda: not self.pids(party), 30)
            control.start(self.root, party)

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

    def end(self) -> None:
        """All processes and disks."""
        with contextlib.suppress(Exception):
            self.deploy("stop")
        if self.command is not None and self.command.poll() is None:
            self.command.kill()
        for disk in self.disks:
            subprocess.run(["umount", "-l", str(disk)], check=False)


@dataclass(frozen=True)
class Fault:
    """What goes wrong, what the following command must say of it, and how it heals after so many seconds."""

    breaks: Callable[[Trial], None]
    says: str
    heals: Callable[[Trial], None] = lambda trial: None
    after: float = 0.0
    before: Callable[[Trial], None] = lambda trial: None
    options: tuple[str, ...] = ()
    """Of the following command."""


def replace_key(trial: Trial, party: str) -> None:
    """Another key, and the site's process ends, as when it is started again with it."""
    home = trial.layout.site(VICTIM)
    file = home / "site.key" if party == VICTIM else trial.layout.server / "keys" / VICTIM
    file.with_suffix(".kept").write_bytes(file.read_bytes())
    file.write_bytes(os.urandom(32))
    trial.signal(signal.SIGKILL, VICTIM)


def put_back_key(trial: Trial) -> None:
    """The right one."""
    file = trial.layout.site(VICTIM) / "site.key"
    file.write_bytes(file.with_suffix(".kept").read_bytes())


def change_rows(trial: Trial, change: Callable[[list[str]], list[str]]) -> None:
    """Another table, and the site is started again."""
    file = trial.root.parent / f"{VICTIM}.csv"
    own = trial.layout.site(VICTIM) / "own.csv"
    own.write_text("\n".join(change(file.read_text().splitlines())) + "\n")
    settings = trial.layout.site(VICTIM) / "site.toml"
    settings.write_text(re.sub(r"(?m)^table = .*$", 'table = "own.csv"', settings.read_text()))
    trial.signal(signal.SIGKILL, VICTIM)


def restore_rows(trial: Trial) -> None:
    """The table of before; the file of the run that was refused stays."""
    settings = trial.layout.site(VICTIM) / "site.toml"
    table = json.dumps(str(trial.root.parent / f"{VICTIM}.csv"))
    settings.write_text(re.sub(r"(?m)^table = .*$", f"table = {table}", settings.read_text()))
    trial.signal(signal.SIGKILL, VICTIM)


def kill(party: str, which: slice = slice(None)) -> Callable[[Trial], None]:
    """End processes of a party at once."""
    return lambda trial: trial.signal(signal.SIGKILL, party, which)


UNATTENDED = ("--unattended",)
BOTH: dict[str, Fault] = {
    "a site hangs for 20 s": Fault(
        lambda trial: trial.signal(signal.SIGSTOP, VICTIM),
        f"{VICTIM} has not answered since",
        lambda trial: trial.signal(signal.SIGCONT, VICTIM),
        20,
    ),
    "the disk of a site is full for 20 s": Fault(
        lambda trial: trial.fill(VICTIM),
        "the disk of this site is full",
        lambda trial: trial.free(VICTIM),
        20,
        before=lambda trial: trial.small_disk(VICTIM),
    ),
    "the disk of the server is full for 20 s": Fault(
        lambda trial: trial.fill("server"),
        "the disk of the server is full",
        lambda trial: trial.free("server"),
        20,
        before=lambda trial: trial.small_disk("server"),
        options=UNATTENDED,
    ),
}
FAULTS: dict[str, dict[str, Fault]] = {
    "local": {
        "a site is killed": Fault(kill(VICTIM), f"{VICTIM} has not answered since"),
        "the server is killed": Fault(kill("server"), "the server ended without a word"),
        "a site is started again with another key, for 20 s": Fault(
            lambda trial: replace_key(trial, VICTIM), "is not the one that the server has", put_back_key, 20
        ),
        "a site is started again with other rows": Fault(
            lambda trial: change_rows(trial, lambda lines: lines[:-9]), "is not the one that the run began with"
        ),
        **BOTH,
    },
    "nvflare": {
        "a site is killed and started again after 20 s": Fault(
            kill(VICTIM), f"{VICTIM} has not answered since", lambda trial: trial.start(VICTIM), 20
        ),
        "a site's job process is killed": Fault(kill(VICTIM, slice(1, None)), "it is sent again"),
        "the server's job process is killed": Fault(kill("server", slice(1, None)), "is sent again"),
        "the server is killed and started again after 20 s": Fault(
            kill("server"), "server unreachable", lambda trial: trial.start("server"), 20
        ),
        **BOTH,
    },
}


def seconds_until(trial: Trial, began: float, words: str) -> tuple[float | None, str]:
    """When the command first said that after this moment, and in which line."""
    found = [(at - began, line) for at, line in trial.said if at >= began and words in line]
    return found[0] if found else (None, "not said")


def run_fault(place: Path, engine: str, number: int, fault: Fault, undisturbed: np.ndarray) -> list[str]:
    """A line of the table without its name."""
    trial = Trial(place, f"fault-{number}", engine)
    try:
        fault.before(trial)
        if engine != "local":
            trial.deploy("up")
        trial.follow(*fault.options)
        if not trial.wait(lambda: trial.round() >= BEGUN):
            raise RuntimeError(f"no round came: {trial.said}")
        began, lost = time.monotonic(), trial.round()
        fault.breaks(trial)
        time.sleep(fault.after)
        healed, before = time.monotonic(), trial.round()
        fault.heals(trial)
        went_on = trial.wait(lambda: trial.round() > max(before, lost) or not is_alive(trial))
        again = time.monotonic() - healed
        trial.wait(lambda: not is_alive(trial))
        assert trial.command is not None
        code, weights = trial.command.poll(), trial.weights()
        same = weights is not None and bool(np.max(np.abs(weights - undisturbed)) <= EXACT)
        seconds, line = seconds_until(trial, began, fault.says)
        if not same or seconds is None:
            print("\n".join(f"    {at - began:8.1f} {line}" for at, line in trial.said), flush=True)
        heard = "never" if seconds is None else f"{seconds:.1f}"
        other = {6: "CLIENTS_LOST: what was certified before", None: "no end"}.get(code, f"exit code {code}")
        ended = "the undisturbed model" if same else f"{other}{', no model' * (weights is None)}"
        return [heard, line, f"{again:.1f}" if went_on and same else "-", ended]
    finally:
        trial.end()


def is_alive(trial: Trial) -> bool:
    """Whether the following command has not ended."""
    return trial.command is not None and trial.command.poll() is None


def rows_of(engine: str, names: list[str]) -> Iterator[list[str]]:
    """The table."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_tables(place)
        plain = Trial(place, "undisturbed", "local")
        works = {site: load_site(plain.layout.site(site)).work for site in SITES}
        serve(thread_engine(works), plain.layout.server)
        undisturbed = plain.weights()
        assert undisturbed is not None
        for number, (name, fault) in enumerate(FAULTS[engine].items()):
            if not names or any(word in name for word in names):
                yield [name, *run_fault(place, engine, number, fault, undisturbed)]


if __name__ == "__main__":
    titles = ("fault", "seconds until it is said", "the sentence", "seconds until the next round", "ends in")
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for row in rows_of(sys.argv[1], sys.argv[2:]):
        print(f"| {' | '.join(row)} |", flush=True)

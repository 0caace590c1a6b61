"""Faults in the middle of a deployed run, made one after the other: `python benchmarks/faults.py ENGINE [NAME ...]`.

Three sites on this machine run 60 rounds under masks, on the engine `local` or `nvflare`, or 6 on `flower`. One
thing goes wrong in the middle; where it has a cause that goes away, it does after some seconds. Each line of the table
says how long it took until the command that follows the run said so, in which words, how long after the cause had gone
the next exchange came, and whether the run ended in the numbers of the undisturbed run. Disks are full where a party's
folder is a small file system of its own, which takes root on Linux.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from trials import Trial

from fedualex.data import bundled_table
from fedualex.deploy.consortium.deployment import load_site, serve
from fedualex.deploy.consortium.kit import write_table_deployment
from fedualex.deploy.threads import thread_engine

SITES = ("north", "south", "west")
VICTIM = "north"
COLUMNS = ("mean radius", "mean texture", "mean smoothness", "mean symmetry", "worst concavity")
ROUNDS, FEW = 60, 6
"""Of a run; few with Flower, where an exchange takes ten seconds."""
FIT = {"goal": "logistic", "target": "target", "l1": 0.01, "tol": 1e-30}
RUN, SLOW = {"local_steps": 2, "timeout": 10.0}, 60.0
METHOD = {"name": "FeDualExCorrected"}
BEGUN, SOON = 15, 1
"""The round after which something goes wrong."""
NOTICED = 120.0
"""Seconds for which a cause stays at most after its time, until it was said."""
EXACT = 1e-12


def write_tables(folder: Path) -> None:
    """A third of a table of patients for each site."""
    table = bundled_table("breast_cancer")
    names = [name for name in table if name in (*COLUMNS, "target")]
    for m, site in enumerate(SITES):
        rows = [",".join(str(table[name][i]) for name in names) for i in range(m, table.rows, len(SITES))]
        (folder / f"{site}.csv").write_text("\n".join([",".join(names), *rows]) + "\n")


def make_table_kit(root: Path, server: dict[str, Any], place: Path, rounds: int = ROUNDS) -> None:
    """The deployment of all trials, with the tables that are in that place."""
    sites = {site: {"table": str(place / f"{site}.csv")} for site in SITES}
    run = {**RUN, "timeout": SLOW} if server["engine"] == "flower" else RUN
    write_table_deployment(root, {**FIT, "rounds": rounds}, sites, server, run, METHOD)


def trial_of(place: Path, name: str, engine: str) -> Trial:
    """A new deployment."""
    rounds = FEW if engine == "flower" else ROUNDS
    return Trial(place / name, engine, lambda root, server: make_table_kit(root, server, place, rounds))


@dataclass(frozen=True)
class Fault:
    """What goes wrong, what the following command must say of it, and how it heals after so many seconds.

    A cause that goes away stays until it was said.
    """

    breaks: Callable[[Trial], None]
    says: str
    heals: Callable[[Trial], None] = lambda trial: None
    after: float = 0.0
    before: Callable[[Trial], None] = lambda trial: None
    options: tuple[str, ...] = ()
    """Of the following command."""


def kill(party: str, which: slice = slice(None)) -> Callable[[Trial], None]:
    """End processes of a party at once."""
    return lambda trial: trial.signal(signal.SIGKILL, party, which)


def spoil(name: str, change: Callable[[bytes], bytes | None]) -> Callable[[Trial], None]:
    """Other content for a file of the site, and its work begins again."""

    def breaks(trial: Trial) -> None:
        file = trial.layout.site(VICTIM) / name
        trial.replace(file, change(file.read_bytes()))
        trial.restart(VICTIM)

    return breaks


def put_back(trial: Trial) -> None:
    """All files as they were."""
    trial.put_back()


def lose_table(trial: Trial) -> None:
    """As a share that is not mounted."""
    trial.replace(trial.root.parent / f"{VICTIM}.csv", None)
    trial.restart(VICTIM)


def lose_rows(trial: Trial) -> None:
    """The site is started again with a table that has nine rows less."""
    file = trial.root.parent / f"{VICTIM}.csv"
    own = trial.layout.site(VICTIM) / "own.csv"
    own.write_text("\n".join(file.read_text().splitlines()[:-9]) + "\n")
    spoil("site.toml", lambda text: re.sub(rb"(?m)^table = .*$", b'table = "own.csv"', text))(trial)


def other_settings(text: bytes) -> bytes:
    """Those of a kit with another penalty."""
    found = json.loads(text)
    found["problem"]["l1"] *= 2
    return json.dumps(found).encode()


def other_masks(text: bytes) -> bytes:
    """A key that nobody has signed."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    plain = serialization.NoEncryption()
    return X25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain
    )


def acknowledge(trial: Trial) -> None:
    """What a site's operator does after a look at the ledger."""
    words = ["audit", str(trial.layout.site(VICTIM)), "--acknowledge", "looked at"]
    subprocess.run([sys.executable, "-m", "fedualex", "deploy", *words], capture_output=True, check=True)


def other_version(trial: Trial) -> None:
    """The site is started again with the next version of fedualex."""
    other = trial.layout.site(VICTIM) / "other"
    other.mkdir(exist_ok=True)
    (other / "sitecustomize.py").write_text('import fedualex\n\nfedualex.__version__ = "99.0"\n')
    spoil("start.sh", lambda text: text.replace(b"exec ", b'PYTHONPATH="$PWD/other:$PYTHONPATH" exec '))(trial)


def lose_command(trial: Trial) -> None:
    """Whoever watches is gone."""
    assert trial.command is not None
    trial.command.kill()


def change_patience(trial: Trial) -> None:
    """Stopped by hand, and the operator gives sites more time: at the server alone."""
    trial.deploy("stop")
    file = trial.layout.server / "deployment.json"
    found = json.loads(file.read_text())
    found["run"] |= {"timeout": 77.0, "attempts": 9, "patience": 400.0, "max_seconds": 5000.0}
    file.write_text(json.dumps(found))


def go_on(trial: Trial) -> None:
    """`run` again, where `stop` has ended the processes of `up`."""
    if trial.engine != "local":
        trial.deploy("up")
    trial.follow()


def cut_checkpoint(trial: Trial) -> None:
    """Half of it is lost, as on a broken disk, and the server is started again."""
    trial.signal(signal.SIGKILL, "server")
    file = trial.layout.run / "checkpoint.npz"
    trial.replace(file, file.read_bytes()[: file.stat().st_size // 2])


def lose_known(trial: Trial) -> None:
    """What sites add up to is gone, and the server is started again."""
    trial.signal(signal.SIGKILL, "server")
    (trial.layout.server / "known.npz").unlink()


def kill_again_and_again(trial: Trial) -> None:
    """For twenty seconds."""
    for _ in range(7):
        trial.restart(VICTIM)
        time.sleep(3)


def kill_worker(trial: Trial) -> None:
    """Flower's process of a site that has its table loaded."""
    found = [psutil.Process(pid) for pid in trial.pids(VICTIM)]
    next(process for process in found if "fedualex.deploy.flower.worker" in process.cmdline()).kill()


def kill_all(trial: Trial) -> None:
    """As when the power fails."""
    for party in ("server", *SITES):
        trial.signal(signal.SIGKILL, party)


def start_all(trial: Trial) -> None:
    """The server first."""
    for party in ("server", *SITES):
        trial.start(party)


def expire(text: bytes) -> bytes:
    """A certificate that held until yesterday."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    known, now, key = x509.load_pem_x509_certificate(text), datetime.now(UTC), ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateBuilder().subject_name(known.subject).issuer_name(known.issuer).public_key(key.public_key())
    made = made.serial_number(7).not_valid_before(now - timedelta(days=9)).not_valid_after(now - timedelta(days=1))
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def expired(trial: Trial) -> None:
    """The site is started again when its certificate has expired."""
    file = trial.layout.site(VICTIM) / "kit" / "startup" / "client.crt"
    trial.replace(file, expire(file.read_bytes()))
    trial.signal(signal.SIGKILL, VICTIM)
    trial.start(VICTIM)


def renewed(trial: Trial) -> None:
    """The good certificate, and the site is started."""
    trial.put_back()
    trial.start(VICTIM)


MISSED = f"{VICTIM} has not answered since"
UNATTENDED = ("--unattended",)
ANY: dict[str, Fault] = {
    "a site hangs for 20 s": Fault(
        lambda trial: trial.signal(signal.SIGSTOP, VICTIM),
        MISSED,
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
    "a site's table is gone for 20 s": Fault(lose_table, "cannot be loaded", put_back, 20, options=UNATTENDED),
    "a site's policy.toml has a rule that does not exist, for 20 s": Fault(
        spoil("policy.toml", lambda text: text + b"least_row = 9\n"), "refused", put_back, 20, options=UNATTENDED
    ),
    "a site has the settings of another kit for 20 s": Fault(
        spoil("deployment.json", other_settings), "refused", put_back, 20, options=UNATTENDED
    ),
    "a site has another key for masks for 20 s": Fault(
        spoil("secure/key.pem", other_masks), "refused", put_back, 20, options=UNATTENDED
    ),
    "a line of a site's ledger is changed, and acknowledged after 20 s": Fault(
        spoil("ledger.jsonl", lambda text: text.replace(b'"survey"', b'"surveY"', 1)),
        "ledger",
        acknowledge,
        20,
        options=UNATTENDED,
    ),
    "a site's work is ended every 3 s for 20 s": Fault(kill_again_and_again, ""),
    "a site is started again with other rows": Fault(lose_rows, "is not the one that the run began with"),
    "the following command is killed, and another given": Fault(
        lose_command, "joined, not begun again", lambda trial: trial.follow()
    ),
    "stopped by hand, timeout, attempts, patience and max_seconds changed at the server, run again": Fault(
        change_patience, "was stopped by hand", go_on
    ),
    "the checkpoint is cut in half, and the server is killed": Fault(cut_checkpoint, "is not a whole checkpoint"),
    "known.npz is lost, and the server is killed": Fault(lose_known, "is sent again"),
}
"""Of every engine."""
KEYS: dict[str, Fault] = {
    "a site is started again with another key, for 20 s": Fault(
        spoil("site.key", lambda text: os.urandom(32)), "is not the one that the server has", put_back, 20
    ),
    "a site has another version of fedualex for 20 s": Fault(other_version, "99.0", put_back, 20, options=UNATTENDED),
}
FAULTS: dict[str, dict[str, Fault]] = {
    "local": {
        "a site is killed": Fault(kill(VICTIM), MISSED),
        "all sites are killed": Fault(lambda trial: [trial.signal(signal.SIGKILL, site) for site in SITES], MISSED),
        "the server is killed": Fault(kill("server"), "the server ended without a word"),
        **KEYS,
        **ANY,
    },
    "nvflare": {
        "a site is killed and started again after 20 s": Fault(
            kill(VICTIM), MISSED, lambda trial: trial.start(VICTIM), 20
        ),
        "a site is ended politely and started again after 100 s": Fault(
            lambda trial: trial.signal(signal.SIGTERM, VICTIM), MISSED, lambda trial: trial.start(VICTIM), 100
        ),
        "a site's job process is killed": Fault(kill(VICTIM, slice(1, None)), "it is sent again"),
        "the server's job process is killed": Fault(kill("server", slice(1, None)), "is sent again"),
        "the server is killed and started again after 20 s": Fault(
            kill("server"), "server unreachable", lambda trial: trial.start("server"), 20
        ),
        "all parties are killed and started again after 20 s": Fault(kill_all, "server unreachable", start_all, 20),
        "a site's certificate has expired, for 20 s": Fault(expired, MISSED, renewed, 20),
        **ANY,
    },
    "flower": {
        "a site's worker is killed": Fault(kill_worker, MISSED),
        "a site is killed and started again after 70 s": Fault(
            kill(VICTIM), MISSED, lambda trial: trial.start(VICTIM), 70
        ),
        "the server is killed and started again after 20 s": Fault(
            kill("server"), "server unreachable", lambda trial: trial.start("server"), 20
        ),
    },
}


def seconds_until(trial: Trial, began: float, words: str) -> tuple[float | None, str]:
    """When the command first said that after this moment, and in which line."""
    found = [(at - began, line) for at, line in trial.said if at >= began and words in line]
    return found[0] if found else (None, "not said")


def run_fault(place: Path, engine: str, number: int, fault: Fault, undisturbed: np.ndarray) -> list[str]:
    """A line of the table without its name."""
    trial = trial_of(place, f"fault-{number}", engine)
    try:
        fault.before(trial)
        if engine != "local":
            trial.deploy("up")
        trial.follow(*fault.options)
        if not trial.wait(lambda: trial.round() >= (SOON if engine == "flower" else BEGUN)):
            raise RuntimeError(f"no round came: {trial.said}")
        began, lost = time.monotonic(), trial.round()
        fault.breaks(trial)
        time.sleep(fault.after)
        if fault.after:  # a busy machine may not have come to it yet
            trial.wait(lambda: seconds_until(trial, began, fault.says)[0] is not None, NOTICED)
        healed, before = time.monotonic(), trial.round()
        fault.heals(trial)
        went_on = trial.wait(lambda: trial.round() > max(before, lost) or not trial.is_followed())
        again = time.monotonic() - healed
        trial.wait(lambda: not trial.is_followed())
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


def rows_of(engine: str, names: list[str]) -> Iterator[list[str]]:
    """The table."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_tables(place)
        plain = trial_of(place, "undisturbed", engine)
        works = {site: load_site(plain.layout.site(site)).work for site in SITES}
        serve(thread_engine(works), plain.layout.server)
        undisturbed = plain.weights()
        assert undisturbed is not None
        for number, (name, fault) in enumerate(FAULTS[engine].items()):
            if not names or any(word in name for word in names):
                try:
                    yield [name, *run_fault(place, engine, number, fault, undisturbed)]
                except Exception as error:  # the other faults are made all the same
                    yield [name, "", f"could not be made: {error!r}", "", ""]


if __name__ == "__main__":
    titles = ("fault", "seconds until it is said", "the sentence", "seconds until the next round", "ends in")
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for row in rows_of(sys.argv[1], sys.argv[2:]):
        print(f"| {' | '.join(row)} |", flush=True)

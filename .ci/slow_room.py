"""One room of the slow suite, chosen by the commit, so that all of it is run in turn and none of it rots.

    .venv/bin/python .ci/slow_room.py [ROOM]

Only rooms that compute: no engines, no browsers. Files come in an order that the commit decides too, for at most
MINUTES; what is cut off then has not failed. A test that fails is run once more; one that fails twice fails the run.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
ROOMS = (
    "algorithms",
    "bundle",
    "certificates",
    "data",
    "estimators",
    "geometry",
    "inference",
    "models",
    "problems",
    "reference",
    "regularizers",
    "runtime",
    "tables",
    "testing",
    "theory",
    "verification",
)
MINUTES = 15
NOTHING = 5
"""The exit code of pytest when no test is slow."""


def main() -> int:
    """The exit code; the last line counts what was run."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    room = sys.argv[1] if len(sys.argv) > 1 else min(ROOMS, key=lambda name: digest(commit, name))
    files = sorted(slow_files(room), key=lambda file: digest(commit, file.name))
    end, passed, failed = time.monotonic() + 60 * MINUTES, 0, {}
    print(f"slow tests of {room}, {len(files)} files, at most {MINUTES} minutes", flush=True)
    for file in files:
        outcome = run(file, end)
        if outcome is not None and outcome.failed:
            print(f"{file.name}: what failed is run once more", flush=True)
            again = run(file, end, "--last-failed")
            outcome = again and Outcome(outcome.passed + again.passed, again.failed)
        if outcome is None:
            print(f"{file.name}: cut off; what was not run has not failed", flush=True)
            break
        passed += outcome.passed
        if outcome.failed:
            failed[file.name] = outcome.failed
    print(f"failed twice: {', '.join(failed)}" if failed else f"no slow test of {room} that was run failed twice")
    print(f"{passed} passed, {sum(failed.values())} failed")
    return int(bool(failed))


class Outcome(NamedTuple):
    """How many tests of a file passed, and how many failed or could not be run."""

    passed: int
    failed: int


def digest(commit: str, name: str) -> str:
    """A number that the commit decides, as text."""
    return hashlib.sha256(f"{commit} {name}".encode()).hexdigest()


def slow_files(room: str) -> list[Path]:
    """The files of a room that have slow tests."""
    command = [ROOT / ".venv/bin/pytest", "--collect-only", "-qq", "-m", "slow", ROOT / "tests" / room]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode not in (0, NOTHING):
        sys.exit(listed.stdout + listed.stderr)
    return [ROOT / line.split(":")[0] for line in listed.stdout.splitlines() if line.startswith("tests/")]


def run(file: Path, end: float, *more: str) -> Outcome | None:
    """The slow tests of a file, compiled as users compile; None if time ran out."""
    left = end - time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            ROOT / ".venv/bin/pytest",
            "-m",
            "slow",
            "-n",
            "2",
            "--dist",
            "load",
            f"--junit-xml={report}",
            *more,
            file,
        ]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=os.environ | {"COMPILER": "full"}, timeout=max(left, 1), check=False
            )
        except subprocess.TimeoutExpired:
            return None
        if not report.exists():
            return Outcome(0, 1)
        (suite,) = ElementTree.parse(report).getroot().iter("testsuite")
    bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    passed = int(suite.get("tests", 0)) - bad - int(suite.get("skipped", 0))
    return Outcome(passed, max(bad, int(done.returncode not in (0, NOTHING))))


if __name__ == "__main__":
    sys.exit(main())

"""One room of the slow suite, chosen by the commit, so that all of it is run in turn and none of it rots.

    .venv/bin/python .ci/slow_room.py [ROOM]

Only rooms that compute: no engines, no browsers. Files come in an order that the commit decides too, for at most
MINUTES; what is cut off then has not failed. A test that fails is run once more; one that fails twice fails the run.
"""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = (
    "algorithms",
    "bundle",
    "data",
    "estimators",
    "geometry",
    "models",
    "problems",
    "reference",
    "regularizers",
    "runtime",
    "testing",
    "theory",
)
MINUTES = 15
FAILED, NOTHING = 1, 5
"""Exit codes of pytest: some test failed, no test is slow."""


def main() -> int:
    """The exit code."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    room = sys.argv[1] if len(sys.argv) > 1 else min(ROOMS, key=lambda name: digest(commit, name))
    files = sorted((ROOT / "tests" / room).glob("test_*.py"), key=lambda file: digest(commit, file.name))
    end, failed = time.monotonic() + 60 * MINUTES, []
    print(f"slow tests of {room}, {len(files)} files, at most {MINUTES} minutes", flush=True)
    for file in files:
        code = run(file, end)
        if code == FAILED:
            print(f"{file.name}: what failed is run once more", flush=True)
            code = run(file, end, "--last-failed")
        if code is None:
            print(f"{file.name}: cut off; what was not run has not failed", flush=True)
            break
        if code not in (0, NOTHING):
            failed.append(file.name)
    print(f"failed twice: {', '.join(failed)}" if failed else f"no slow test of {room} that was run failed twice")
    return int(bool(failed))


def digest(commit: str, name: str) -> str:
    """A number that the commit decides, as text."""
    return hashlib.sha256(f"{commit} {name}".encode()).hexdigest()


def run(file: Path, end: float, *more: str) -> int | None:
    """The slow tests of a file, compiled as users compile; pytest's exit code, None if time ran out."""
    left = end - time.monotonic()
    command = [ROOT / ".venv/bin/pytest", "-m", "slow", "-n", "2", "--dist", "load", *more, file]
    try:
        return subprocess.run(command, cwd=ROOT, env=os.environ | {"COMPILER": "full"}, timeout=max(left, 1)).returncode
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    sys.exit(main())

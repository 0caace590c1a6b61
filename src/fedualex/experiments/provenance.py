"""What a run's manifest says about where it came from."""

import os
import platform
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("fedualex", "jax", "jaxlib", "equinox", "numpy", "scipy")


def provenance() -> dict[str, Any]:
    """When, by which command, with which versions, on which machine."""
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "versions": versions(),
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "memory_gib": _memory(),
        },
    }


def versions() -> dict[str, str]:
    """Of Python and of what decides the numbers of a run."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from a source tree
            found[package] = "unknown"
    return found


def other_versions(manifest: Mapping[str, Any]) -> str:
    """Which versions of a run are not the ones here, in which the same code need not have the same bits; "" if none."""
    here, there = versions(), manifest["versions"]
    return ", ".join(f"{name} {there.get(name)} (here {here[name]})" for name in here if there.get(name) != here[name])


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):  # not a POSIX system
        return None

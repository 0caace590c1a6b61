"""Compiled programs kept between processes: the second start of a program does not compile again."""

import functools
import os
from contextlib import suppress
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

from ..compiling import drop_programs

SWITCH = "FEDUALEX_CACHE"
"""The environment variable that names another folder, or turns the cache off with "off"."""
KEPT = 8192
"""Programs in the folder, of some 20 kB each, above which the half is removed that was not read for longest."""


def keep_compiled_programs() -> None:
    """Point jax's persistent cache at the user's cache folder, unless the user has chosen one or switched it off.

    In memory, programs are kept until there are too many (`drop_programs`).
    """
    _point_at_folder()
    drop_programs()


@functools.cache
def _point_at_folder() -> None:
    choice = os.environ.get(SWITCH, "")
    if choice == "off" or jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(choice) if choice else home / "fedualex" / "jax"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a cache that cannot be written is no reason to fail
        return
    _make_room(folder)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # Ours are many small programs: by default jax keeps only what took a second to compile.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()  # jax looks for its folder once; it may have looked already


def _make_room(folder: Path) -> None:
    """Remove old programs where there are too many; every version of jax and of ours leaves its own behind."""
    programs = [entry for entry in os.scandir(folder) if entry.name.endswith("-cache")]
    if len(programs) <= KEPT:
        return
    used = []
    for entry in programs:
        with suppress(OSError):  # another process makes room as well
            used.append((max(entry.stat().st_atime, entry.stat().st_mtime), entry.path))
    for _, path in sorted(used)[: len(used) // 2]:
        with suppress(OSError):
            os.unlink(path)

"""Checkpoints: written atomically, checked on reading, never pickled."""

import functools
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..storage import write_atomically

SCHEMA = 1


def fingerprint(*parts: Any) -> str:
    """A hash of all that decides how a run goes on: arrays by content, functions by code, the rest by its text."""
    digest = hashlib.sha256(str(jax.tree.structure(parts)).encode())
    for leaf in jax.tree.leaves(parts):
        digest.update(_content(leaf))
    return digest.hexdigest()


def _content(leaf: Any) -> bytes:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    if eqx.is_array_like(leaf):
        array = np.ascontiguousarray(leaf)
        return f"{array.dtype}{array.shape}".encode() + array.tobytes()
    code = getattr(leaf, "__code__", None)
    if code is not None:
        constants = repr((code.co_names, [c for c in code.co_consts if not hasattr(c, "co_code")])).encode()
        # What a function carries along decides what it computes, as its code does.
        carried = (leaf.__defaults__, leaf.__kwdefaults__, [cell.cell_contents for cell in leaf.__closure__ or ()])
        return b"".join([code.co_code, constants, *map(_content, jax.tree.leaves(carried))])
    if isinstance(leaf, functools.partial):
        return b"".join(map(_content, jax.tree.leaves((leaf.func, leaf.args, leaf.keywords))))
    return str(leaf if isinstance(leaf, str) else type(leaf).__qualname__).encode()


def save(path: Path, state: Any, history: list[dict[str, Any]], run: str, best: str | None) -> None:
    """Write state and history, so that a crash at any moment leaves the old file or the new one."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
    arrays = {f"leaf{index}": leaf for index, leaf in enumerate(leaves)}
    text = json.dumps(
        {"schema": SCHEMA, "run": run, "checksum": _checksum(leaves, history, best), "history": history, "best": best}
    )
    buffer = io.BytesIO()
    np.savez(buffer, header=np.frombuffer(text.encode(), np.uint8), **arrays)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())


def check_folder(path: Path) -> None:
    """Refuse a path that cannot be written to, before a long run finds out."""
    if not path.parent.is_dir():
        raise ValueError(f"checkpoint must be a file in an existing folder, got {str(path)!r}")


def load(path: Path, like: Any, run: str) -> tuple[Any, list[dict[str, Any]], str | None]:
    """State and history, if the file is whole, of this schema, and of this very run."""
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            header = dict(json.loads(bytes(file["header"]).decode()))
            leaves = [file[f"leaf{index}"] for index in range(len(file.files) - 1)]
    except Exception as error:  # a truncated or foreign file can fail in many ways
        raise ValueError(
            f"{path} is not a whole checkpoint ({type(error).__name__}); delete it to start again"
        ) from None
    if header.get("schema") != SCHEMA:
        raise ValueError(f"{path} has checkpoint schema {header.get('schema')!r}; this version reads schema {SCHEMA}")
    if header.get("run") != run:
        raise ValueError(f"{path} belongs to another run: its problem, method, seed or sizes differ from this one's")
    if header.get("checksum") != _checksum(leaves, header.get("history", []), header.get("best")):
        raise ValueError(f"{path} is damaged: its checksum does not match; delete it to start again")
    structure: Any = jax.tree.structure(like)
    if len(leaves) != structure.num_leaves:
        raise ValueError(f"{path} holds {len(leaves)} arrays where this run has {structure.num_leaves}; delete it")
    return jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves]), header["history"], header["best"]


def _checksum(leaves: list[Any], history: list[dict[str, Any]], best: str | None) -> str:
    digest = hashlib.sha256(json.dumps([history, best]).encode())
    for leaf in leaves:
        digest.update(f"{leaf.dtype}{leaf.shape}".encode() + np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()

"""Checkpoints: written atomically, checked on reading, never pickled."""

import functools
import hashlib
import io
import json
import os
import types
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..problems.stored import Held
from ..storage import Json, read_arrays, write_atomically
from ..tree import Tree

SCHEMA = 7
"""The version of the file and of the fingerprint: whoever changes what one of them holds adds 1."""


def run_id(*parts: object) -> str:
    """The fingerprint of a run: of all that decides how it goes on, the version of this library included."""
    return fingerprint(parts, __version__, str(SCHEMA))


def fingerprint(*parts: object) -> str:
    """A hash of what takes part in a computation: arrays by content, functions by code, the rest by its text.

    What it cannot see of a function is listed in docs/simulator.md.
    """
    digest = hashlib.sha256(str(jax.tree.structure(parts)).encode())
    for leaf in jax.tree.leaves(parts):
        digest.update(_content(leaf))
    return digest.hexdigest()


def _content(leaf: object, above: tuple[object, ...] = ()) -> bytes:
    """The bytes of a leaf that decide what is computed with it. above: the functions on the way here."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    if eqx.is_array_like(leaf):
        array = np.ascontiguousarray(leaf)
        return f"{array.dtype}{array.shape}".encode() + array.tobytes()
    if isinstance(leaf, Held):
        return leaf.fingerprint
    if isinstance(leaf, str):
        return leaf.encode()

    def contents(*parts: object) -> bytes:
        return b"".join(_content(part, (*above, leaf)) for part in jax.tree.leaves(parts))

    # The ufuncs of numpy 2.0 have a __name__ alone.
    own = getattr(leaf, "__name__", type(leaf).__qualname__)
    name = str(getattr(leaf, "__qualname__", own)).encode()
    if any(leaf is one for one in above):
        return name
    if isinstance(leaf, functools.partial):
        return contents(leaf.func, leaf.args, leaf.keywords)
    if isinstance(leaf, types.MethodType):
        return contents(leaf.__func__, getattr(leaf.__self__, "__dict__", leaf.__self__))
    if hasattr(leaf, "__wrapped__"):  # by jax.jit, functools.wraps and the like
        return contents(leaf.__wrapped__)
    if isinstance(leaf, types.FunctionType):
        # What a function carries along and what it calls decide what it computes, as its code does.
        carried = (leaf.__defaults__, leaf.__kwdefaults__, [cell.cell_contents for cell in leaf.__closure__ or ()])
        used = {name: leaf.__globals__.get(name) for name in _names(leaf.__code__)}
        return _code(leaf.__code__) + contents(carried, {k: v for k, v in used.items() if _counts(v, leaf)})
    if callable(leaf) and not isinstance(leaf, type):  # an object that a user made
        return name + contents(type(leaf).__call__, dict(sorted(getattr(leaf, "__dict__", {}).items())))
    return name


def _counts(value: object, user: types.FunctionType) -> bool:
    """Whether a global name is part of a computation: a number, an array, or a callable of the same module."""
    own = callable(value) and not isinstance(value, type) and getattr(value, "__module__", None) == user.__module__
    return own or bool(eqx.is_array_like(value))


def _code(code: types.CodeType) -> bytes:
    """The instructions, names and constants of a function, those of functions defined inside of it included."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    plain = [constant for constant in code.co_consts if not isinstance(constant, types.CodeType)]
    return b"".join([code.co_code, repr((code.co_names, plain)).encode(), *map(_code, inner)])


def _names(code: types.CodeType) -> set[str]:
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inner)


def save(path: Path, state: Tree, history: list[Json], run: str, best: str | None) -> None:
    """Write state and history, so that a crash at any moment leaves the old file or the new one."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
    arrays = {f"leaf{index}": leaf for index, leaf in enumerate(leaves)}
    header = {"schema": SCHEMA, "version": __version__, "run": run, "history": history, "best": best}
    text = json.dumps({**header, "checksum": _checksum(leaves, history, best)})
    buffer = io.BytesIO()
    np.savez(buffer, header=np.frombuffer(text.encode(), np.uint8), **arrays)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())


def check_folder(path: Path) -> None:
    """Refuse a path that cannot be written to before a long run begins."""
    if not path.parent.is_dir() or path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise ValueError(f"checkpoint must be a file in an existing folder that can be written to, got {str(path)!r}")


def load(path: Path, like: Tree, run: str) -> tuple[Tree, list[Json], str | None]:
    """State and history; refuses a file that is damaged, of another schema or version, or of another run."""
    header, leaves = read(path)
    if header["version"] != __version__:
        raise ValueError(
            f"{path} was written by fedualex {header['version']}, and this is {__version__}, whose rounds may have "
            "other bits: resume it with that version, or delete it to start again"
        )
    if header["run"] != run:
        raise ValueError(
            f"{path} belongs to another run: its problem, method, seed, precision or sizes differ from this one's"
        )
    structure: Any = jax.tree.structure(like)
    if len(leaves) != structure.num_leaves:
        raise ValueError(f"{path} holds {len(leaves)} arrays where this run has {structure.num_leaves}; delete it")
    return jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves]), header["history"], header["best"]


def read(path: Path) -> tuple[Json, list[NDArray[Any]]]:
    """Header and arrays of a checkpoint of any run; refuses a file that is damaged or of another schema."""
    header: Json = {"version": None, "run": "", "history": [], "best": None}
    try:
        file = read_arrays(path)
        header |= dict(json.loads(bytes(file["header"]).decode()))
        leaves = [file[f"leaf{index}"] for index in range(len(file) - 1)]
    except Exception as error:  # a truncated or foreign file can fail in many ways
        raise ValueError(
            f"{path} is not a whole checkpoint ({type(error).__name__}); delete it to start again"
        ) from None
    if header.get("schema") != SCHEMA:
        raise ValueError(f"{path} has checkpoint schema {header.get('schema')!r}; this version reads schema {SCHEMA}")
    if header.get("checksum") != _checksum(leaves, header["history"], header["best"]):
        raise ValueError(f"{path} is damaged: its checksum does not match; delete it to start again")
    return header, leaves


def _checksum(leaves: list[NDArray[Any]], history: list[Json], best: str | None) -> str:
    digest = hashlib.sha256(json.dumps([history, best]).encode())
    for leaf in leaves:
        digest.update(f"{leaf.dtype}{leaf.shape}".encode() + np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()

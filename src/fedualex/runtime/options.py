"""What a run can be asked for. A new option is one field here: keywords, files, docs and fingerprints follow."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, no_type_check

import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from ..problems import AbstractOracle
from ..tree import Saddle
from ..validation import of_type, one_of, plain_array, positive, short, whole_number
from .keywords import Check, option, options
from .kinds import KINDS


def optional(check: Check) -> Check:
    """None, or what the check accepts."""
    return lambda name, value: None if value is None else check(name, value)


def _positive(name: str, value: Any) -> float:
    return float(positive(name, value))


def anything(name: str, value: object) -> Any:
    """What can be checked only where it is used."""
    return value


def one_word_of(*choices: str) -> Check:
    """One of these words."""
    return lambda name, value: one_of(name, value, choices)


def _local_steps(name: str, value: Any) -> Any:
    steps = plain_array(name, value)
    if steps.dtype.kind not in "iu" or steps.ndim > 1 or np.any(steps < 1):
        raise ValueError(f"{name} must be a whole number >= 1, or one for each client, got {short(value)}")
    return steps.tolist()


def _noise(name: str, value: Any) -> AbstractOracle:
    return of_type(name, value, AbstractOracle, "fx.GaussianNoise(sigma), fx.Minibatch(size) or None")


def _mesh(name: str, value: Any) -> Mesh:
    return of_type(name, value, Mesh, "a jax.sharding.Mesh such as jax.make_mesh((2,), ('clients',))")


def _seed(name: str, value: Any) -> int:
    if (seed := whole_number(name, value, least=0)) >= 2**63:
        raise ValueError(f"{name} must be a whole number below 2^63, got {value}")
    return seed


def _dtype(name: str, value: Any) -> str:
    try:
        kind = str(np.dtype(value))
    except (TypeError, ValueError):
        kind = ""
    if kind not in ("float32", "float64"):
        raise ValueError(f"{name} must be 'float32' or 'float64', got {short(value)}")
    return kind


def a_function(name: str, value: object) -> Any:
    """Something to call with a record."""
    if not callable(value):
        raise TypeError(f"{name} must be a function of one record, got {short(value)}")
    return value


def a_path(name: str, value: object) -> Path:
    """A path, as a text or as it is."""
    if not isinstance(value, str | Path):
        raise TypeError(f"{name} must be the path of a file, got {short(value)}")
    return Path(value)


_count = optional(whole_number)


@no_type_check
@options
class RunOptions:
    """The options of every run, on a simulator or in a deployment. Each checks itself, so run-time types need not."""

    rounds: int | None = option(_count, "R, rounds of communication. Give either rounds or steps.", default=None)
    local_steps: int | Sequence[int] | NDArray[Any] = option(
        _local_steps, "K, the steps of a client in a round: one number, or one for each client.", default=1
    )
    weights: Sequence[float] | NDArray[Any] | str | None = option(
        anything,
        "p, as for `fx.Problem`; the problem's own if None. Refused where all clients share one f.",
        default=None,
    )
    cohort: int | None = option(
        _count,
        "Clients of a round, uniform without replacement, their weights renormalized; all if None.",
        default=None,
    )
    noise: AbstractOracle | None = option(
        optional(_noise),
        "`fx.GaussianNoise` or `fx.Minibatch` at the operators of clients; exact if None.",
        default=None,
        in_files=False,
    )
    seed: int = option(_seed, "Decides noise and cohorts, by counters.", default=0)
    z0: Saddle | None = option(
        anything,
        "`fx.Saddle` of the problem's shapes at which the run starts; 0 if None.",
        default=None,
        in_files=False,
    )
    init: str = option(
        one_word_of("project", "paper"),
        "'project': start at the projection of z0; 'paper': dual methods start at the dual image of z0 itself (E5).",
        default="project",
    )
    record_every: int | None = option(
        _count, "Rounds between records; a fiftieth of all, at least 1, if None.", default=None
    )
    output: str | None = option(
        optional(one_word_of(*KINDS)),
        f"Which output is the answer: {'; '.join(f'{kind.name!r}, {kind.label}' for kind in KINDS.values())}. "
        "If None the one with the smallest gap, with tol the sparsest that meets it.",
        default=None,
    )
    dtype: str | type | np.dtype[Any] | None = option(
        optional(_dtype), "Precision of rounds; if None, float32 where operators are noisy, else float64.", default=None
    )
    convexity: str = option(
        one_word_of("check", "trust"),
        "'check' looks for a disproof of a user's f, and certifies nothing if there is one; 'trust' does not look.",
        default="check",
        decides=False,
    )


@no_type_check
@options
class StoppingOptions:
    """When a run ends before its rounds."""

    tol: float | None = option(
        optional(_positive), "The certified gap at which the run ends; none ends it if None.", default=None
    )
    max_seconds: float | None = option(
        optional(_positive), "Seconds after which the run ends; no limit if None.", default=None, decides=False
    )


@no_type_check
@options
class SimulatorOptions(RunOptions):
    """The options of `fx.simulate`."""

    steps: int | None = option(
        _count, "T: one client, one local step, T rounds; excludes clients, cohort and other local_steps.", default=None
    )
    clients: int | None = option(
        _count, "M, where all clients share one f; a problem with client data fixes it.", default=None
    )
    chunk: int | None = option(
        _count, "Clients that are computed at once; as many as 2^19 numbers of one variable hold if None.", default=None
    )
    fast: str | None = option(
        optional(one_word_of("law")),
        "'law' allows shortcuts whose results are equal in law only; exact ones are always taken.",
        default=None,
    )
    mesh: Mesh | None = option(
        optional(_mesh),
        "A `jax.sharding.Mesh` of one axis: clients are split over its devices, of one process or of several.",
        default=None,
        decides=False,
        in_files=False,
    )
    callback: Callable[[dict[str, Any]], object] | None = option(
        optional(a_function),
        "Is given a copy of every record, after its checkpoint is written; the run ends if it returns True.",
        default=None,
        decides=False,
        in_files=False,
    )
    checkpoint: Path | str | None = option(
        optional(a_path),
        "A file that is written at every record, and from which the run is resumed if it is there.",
        default=None,
        decides=False,
        in_files=False,
    )


@no_type_check
@options
class SolveOptions(SimulatorOptions, StoppingOptions):
    """The options of `fx.solve`."""

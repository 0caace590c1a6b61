"""What a run can be asked for. A new option is one field here: keywords, files, docs and fingerprints follow."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, no_type_check

import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from ..problems import AbstractOracle
from ..tree import Saddle
from ..validation import whole_number
from .accepted import (
    a_function,
    a_mesh,
    a_path,
    a_positive,
    a_precision,
    a_seed,
    an_oracle,
    anything,
    one_word_of,
    optional,
    steps_of_clients,
)
from .keywords import option, options
from .kinds import KINDS

_count = optional(whole_number)
ROUNDS, TOL = 1000, 1e-4
"""What ends a run of `fx.solve` that was given nothing that ends it."""


@no_type_check
@options
class RunOptions:
    """The options of every run, on a simulator or in a deployment. Each checks itself, so run-time types need not."""

    rounds: int | None = option(_count, "R, rounds of communication.", default=None)
    local_steps: int | Sequence[int] | NDArray[Any] = option(
        steps_of_clients, "K, the steps of a client in a round: one number, or one for each client.", default=1
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
        optional(an_oracle),
        "`fx.GaussianNoise` or `fx.Minibatch` at the operators of clients; exact if None.",
        default=None,
        in_files=False,
    )
    seed: int = option(a_seed, "Decides noise and cohorts, by counters.", default=0)
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
        optional(a_precision),
        "Precision of rounds; if None, float32 where operators are noisy, else float64.",
        default=None,
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
        optional(a_positive), "The certified gap at which the run ends; none ends it if None.", default=None
    )
    max_seconds: float | None = option(
        optional(a_positive), "Seconds after which the run ends; no limit if None.", default=None, decides=False
    )


@no_type_check
@options
class SimulatorOptions(RunOptions):
    """The options of `fx.simulate`."""

    steps: int | None = option(
        _count,
        "T, in place of rounds: one client, one local step, T rounds; excludes clients, cohort and other local_steps.",
        default=None,
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
        optional(a_mesh),
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
    """The options of `fx.solve`, which need not say when the run ends."""

    rounds: int | None = option(
        _count, f"R, the most rounds of communication; {ROUNDS} if neither rounds nor steps is given.", default=None
    )
    tol: float | None = option(
        optional(a_positive),
        "The certified gap, in units of the objective, at which the run ends. If None, no gap ends it; where rounds, "
        f"steps and max_seconds are left out as well, it is {TOL}.",
        default=None,
    )

    def implied(self) -> dict[str, Any]:
        """When a run ends of which it was not said."""
        if self.rounds is not None or self.steps is not None:
            return {}
        endless = self.tol is None and self.max_seconds is None
        return {"rounds": ROUNDS, "tol": TOL if endless else self.tol}

"""The options of runs. A new option is one field here; keywords, files, docs and fingerprints follow from it."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, dataclass_transform, no_type_check, overload

import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from ..algorithms import Method
from ..problems import AbstractOracle, AbstractProblem
from ..problems.base import as_problem
from ..storage import Json
from ..tree import Saddle
from ..validation import hint, of_type, one_of, plain_array, positive, short, whole_number
from .outputs import KINDS

# How options are declared, and how functions come to have them as keywords: one definition, many surfaces.


Check = Callable[[str, object], object]
Methods = Mapping[str, Method] | Sequence[Method]
T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
Result = TypeVar("Result", covariant=True)


def option(
    check: Check, meaning: str, *, default: object = MISSING, decides: bool = True, in_files: bool = True
) -> Any:
    """A field of a class of options.

    check: is given its name and value, and returns what is stored, or refuses in one sentence. meaning: one sentence
    for tables and `help`. default: none if it must be given. decides: whether the rounds of a run depend on it; then it
    is part of the fingerprint of a checkpoint. in_files: whether it is a key of [run] in a TOML file.
    """
    metadata = {"check": check, "meaning": meaning, "decides": decides, "in_files": in_files}
    return field(default=default, metadata=metadata)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option,))
def options(cls: type[T]) -> type[T]:
    """A frozen dataclass whose fields are options: given by name, and each checked when it is made.

    A class may have a method `imply`, the values that follow from those that were given and from what was left out.
    """

    def complete(self: Any) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, one.metadata["check"](one.name, getattr(self, one.name)))
        for name, value in (self.imply() if hasattr(self, "imply") else {}).items():
            object.__setattr__(self, name, value)

    cls.__post_init__ = complete  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(cls)


def takes(
    kind: Callable[P, T], *, refused: Mapping[str, str] = MappingProxyType({})
) -> Callable[[Callable[[AbstractProblem, Method, T], R]], Callable[Concatenate[AbstractProblem, Method, P], R]]:
    """Turn a function of (problem, method, options) into one that has the options as keywords of its own.

    Type checkers see the fields of `kind` spelled out as keywords, and `help` lists them with their meanings.
    refused: names that somebody may try, with a sentence about what to do instead.
    """

    return lambda function: _with_keywords(function, kind, refused)


class MethodOptional(Protocol[P, Result]):
    """A function of a problem, of a method that may be left out, and of options."""

    @overload
    def __call__(self, problem: AbstractProblem, method: Method, *args: P.args, **options: P.kwargs) -> Result:
        """Run this method."""
        ...

    @overload
    def __call__(self, problem: AbstractProblem, *args: P.args, **options: P.kwargs) -> Result:
        """Choose the method that fits."""
        ...


def takes_or_chooses(
    kind: Callable[P, T], *, refused: Mapping[str, str] = MappingProxyType({})
) -> Callable[[Callable[[AbstractProblem, Method | None, T], R]], MethodOptional[P, R]]:
    """`takes` for a function that is given None where the caller gives no method."""
    return lambda function: _with_keywords(function, kind, refused, optional=True)


def takes_several(
    kind: Callable[P, T],
) -> Callable[[Callable[[AbstractProblem, Methods, T], R]], Callable[Concatenate[AbstractProblem, Methods, P], R]]:
    """`takes` for a function of several methods, which it checks itself."""

    def decorate(function: Callable[[AbstractProblem, Methods, T], R]) -> Callable[..., R]:
        @functools.wraps(function)
        def call(problem: AbstractProblem, methods: Methods, **given: object) -> R:
            as_problem(problem)
            return function(problem, methods, build_options(kind, given))

        return _describe(call, function, kind)

    return decorate


def _with_keywords(
    function: Callable[..., R], kind: Callable[..., object], refused: Mapping[str, str], *, optional: bool = False
) -> Callable[..., R]:
    @functools.wraps(function)
    def call(problem: object, method: object = None, **given: object) -> R:
        for name in refused.keys() & given.keys():
            raise TypeError(refused[name])
        as_problem(problem)
        if method is not None or not optional:
            of_type("method", method, Method, "a method such as fx.FeDualEx(eta_c=0.03)")
        return function(problem, method, build_options(kind, given))

    return _describe(call, function, kind, optional=optional)


def _describe(
    call: Callable[..., R], function: Callable[..., R], kind: Callable[..., object], *, optional: bool = False
) -> Callable[..., R]:
    """Give the call the signature and the text that `help` shows."""
    first, second, _ = inspect.signature(function).parameters.values()
    keywords = inspect.signature(kind).parameters.values()
    second = second.replace(default=None) if optional else second
    call.__signature__ = inspect.Signature([first, second, *keywords])  # type: ignore[attr-defined]
    call.__doc__ = f"{inspect.getdoc(function)}\n\n{listing(kind)}"
    return call


def build_options(kind: Callable[..., T], given: Mapping[str, object]) -> T:
    """The options given by name; a name that does not exist is refused with the one that was probably meant."""
    known = meanings(kind)
    for name in given:
        if name not in known:
            raise TypeError(f"there is no option {name!r}; {hint(name, known, 'options are')}")
    return kind(**given)


def fields_of(chosen: object, kind: type) -> dict[str, Any]:
    """Those of the chosen options that this kind has as well."""
    return {one.name: getattr(chosen, one.name) for one in fields(kind)}


def meanings(kind: Any) -> dict[str, str]:
    """The names of all options with their meanings."""
    return {one.name: one.metadata["meaning"] for one in fields(kind)}


def listing(kind: Any) -> str:
    """The options with their defaults and meanings, one a line."""
    return "\n".join(
        f"{one.name}: {one.metadata['meaning']}" + ("" if one.default is MISSING else f" Default: {one.default!r}.")
        for one in fields(kind)
    )


def table(kind: type, known: type | None = None) -> str:
    """The options as a table of Markdown, but for those that `known` has with the same default and meaning."""
    theirs = {} if known is None else {one.name: describe_option(one) for one in fields(known)}
    rows = [
        f"| `{one.name}` | {describe_option(one)} |"
        for one in fields(kind)
        if describe_option(one) != theirs.get(one.name)
    ]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])


def describe_option(one: Field[object]) -> str:
    """An option's default and its meaning, as cells of Markdown."""
    return f"{'must be given' if one.default is MISSING else f'`{one.default!r}`'} | {one.metadata['meaning']}"


def file_defaults(kind: type) -> Json:
    """The options that a TOML file can have, with their defaults."""
    return {one.name: one.default for one in fields(kind) if one.metadata["in_files"]}


def decisive_options(chosen: Any) -> dict[str, object]:
    """The options on which the rounds depend, with their values; None as text, so that a fingerprint sees it."""
    values = {one.name: getattr(chosen, one.name) for one in fields(chosen) if one.metadata["decides"]}
    return {name: "None" if value is None else value for name, value in values.items()}


# What an option accepts: each is given the option's name and value, and returns what is kept or refuses it.


def optional(check: Check) -> Check:
    """None, or what the check accepts."""
    return lambda name, value: None if value is None else check(name, value)


def a_positive(name: str, value: object) -> float:
    """A number above 0."""
    return float(positive(name, value))


def anything(name: str, value: object) -> object:
    """Anything: it is checked where it is used."""
    return value


def one_word_of(*choices: str) -> Check:
    """One of these words."""
    return lambda name, value: one_of(name, value, choices)


def steps_of_clients(name: str, value: object) -> int | list[int]:
    """A whole number, or one for each client."""
    steps: NDArray[Any] = plain_array(name, value)
    if steps.dtype.kind not in "iu" or steps.ndim > 1 or np.any(steps < 1):
        raise ValueError(f"{name} must be a whole number >= 1, or one for each client, got {short(value)}")
    return steps.tolist()


def an_oracle(name: str, value: object) -> AbstractOracle:
    """An oracle, such as GaussianNoise(0.1)."""
    return of_type(name, value, AbstractOracle, "fx.GaussianNoise(sigma), fx.Minibatch(size) or None")


def a_mesh(name: str, value: object) -> Mesh:
    """The devices that clients are spread over."""
    return of_type(name, value, Mesh, "a jax.sharding.Mesh such as jax.make_mesh((2,), ('clients',))")


def a_seed(name: str, value: object) -> int:
    """A whole number from 0 to below 2^63."""
    if (seed := whole_number(name, value, least=0)) >= 2**63:
        raise ValueError(f"{name} must be a whole number below 2^63, got {value}")
    return seed


def a_precision(name: str, value: object) -> str:
    """One of the two precisions, by its name."""
    try:
        kind = str(np.dtype(value))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        kind = ""
    if kind not in ("float32", "float64"):
        raise ValueError(f"{name} must be 'float32' or 'float64', got {short(value)}")
    return kind


def a_function(name: str, value: object) -> Callable[..., object]:
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
    callback: Callable[[Json], object] | None = option(
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

    def imply(self) -> dict[str, object]:
        """The rounds and the tolerance of a run for which nothing was given that ends it."""
        if self.rounds is not None or self.steps is not None:
            return {}
        endless = self.tol is None and self.max_seconds is None
        return {"rounds": ROUNDS, "tol": TOL if endless else self.tol}

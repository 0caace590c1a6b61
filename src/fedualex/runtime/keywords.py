"""How options are declared, and how functions come to have them as keywords: one definition, many surfaces."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, dataclass_transform, overload

from ..algorithms import AbstractMethod
from ..problems import AbstractProblem
from ..problems.base import as_problem
from ..validation import hint, of_type

Check = Callable[[str, Any], Any]
Methods = Mapping[str, AbstractMethod] | Sequence[AbstractMethod]
T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
Result = TypeVar("Result", covariant=True)


def option(check: Check, meaning: str, *, default: Any = MISSING, decides: bool = True, in_files: bool = True) -> Any:
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

    A class may have a method `implied`, the values that follow from those that were given and from what was left out.
    """

    def complete(self: Any) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, one.metadata["check"](one.name, getattr(self, one.name)))
        for name, value in (self.implied() if hasattr(self, "implied") else {}).items():
            object.__setattr__(self, name, value)

    cls.__post_init__ = complete  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(cls)


def takes(
    kind: Callable[P, T], *, refused: Mapping[str, str] = MappingProxyType({})
) -> Callable[
    [Callable[[AbstractProblem, AbstractMethod, T], R]], Callable[Concatenate[AbstractProblem, AbstractMethod, P], R]
]:
    """Turn a function of (problem, method, options) into one that has the options as keywords of its own.

    Type checkers see the fields of `kind` spelled out as keywords, and `help` lists them with their meanings.
    refused: names that somebody may try, with a sentence about what to do instead.
    """

    return lambda function: _with_keywords(function, kind, refused)


class MethodOptional(Protocol[P, Result]):
    """A function of a problem, of a method that may be left out, and of options."""

    @overload
    def __call__(self, problem: AbstractProblem, method: AbstractMethod, *args: P.args, **options: P.kwargs) -> Result:
        """With a method."""
        ...

    @overload
    def __call__(self, problem: AbstractProblem, *args: P.args, **options: P.kwargs) -> Result:
        """With the one that fits."""
        ...


def takes_or_chooses(
    kind: Callable[P, T], *, refused: Mapping[str, str] = MappingProxyType({})
) -> Callable[[Callable[[AbstractProblem, AbstractMethod | None, T], R]], MethodOptional[P, R]]:
    """The same as `takes` for a function that is given None where no method is given."""
    return lambda function: _with_keywords(function, kind, refused, optional=True)


def takes_several(
    kind: Callable[P, T],
) -> Callable[[Callable[[AbstractProblem, Methods, T], R]], Callable[Concatenate[AbstractProblem, Methods, P], R]]:
    """The same as `takes` for a function of several methods, which it checks itself."""

    def decorate(function: Callable[[AbstractProblem, Methods, T], R]) -> Any:
        @functools.wraps(function)
        def call(problem: Any, methods: Any, **given: Any) -> R:
            as_problem(problem)
            return function(problem, methods, built(kind, given))

        return _described(call, function, kind)

    return decorate


def _with_keywords(
    function: Callable[..., R], kind: Callable[..., Any], refused: Mapping[str, str], *, optional: bool = False
) -> Any:
    @functools.wraps(function)
    def call(problem: Any, method: Any = None, **given: Any) -> R:
        for name in refused.keys() & given.keys():
            raise TypeError(refused[name])
        as_problem(problem)
        if method is not None or not optional:
            of_type("method", method, AbstractMethod, "a method such as fx.FeDualEx(eta_c=0.03)")
        return function(problem, method, built(kind, given))

    return _described(call, function, kind, optional=optional)


def _described(call: Any, function: Callable[..., Any], kind: Callable[..., Any], *, optional: bool = False) -> Any:
    """The call with the signature and the text that `help` shows."""
    first, second, _ = inspect.signature(function).parameters.values()
    keywords = inspect.signature(kind).parameters.values()
    second = second.replace(default=None) if optional else second
    call.__signature__ = inspect.Signature([first, second, *keywords])
    call.__doc__ = f"{inspect.getdoc(function)}\n\n{listing(kind)}"
    return call


def built(kind: Callable[..., T], given: Mapping[str, Any]) -> T:
    """The options that were given by name; a name that does not exist is refused with the one probably meant."""
    known = meanings(kind)
    for name in given:
        if name not in known:
            raise TypeError(f"there is no option {name!r}; {hint(name, known, 'options are')}")
    return kind(**given)


def fields_of(chosen: object, kind: type) -> dict[str, Any]:
    """Of the options that were chosen those that this kind has as well."""
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


def table(kind: type) -> str:
    """The same as a table of Markdown."""
    rows = [
        f"| `{one.name}` | {'must be given' if one.default is MISSING else f'`{one.default!r}`'} | "
        f"{one.metadata['meaning']} |"
        for one in fields(kind)
    ]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])


def file_defaults(kind: type) -> dict[str, Any]:
    """The options that a TOML file can have, with their defaults."""
    return {one.name: one.default for one in fields(kind) if one.metadata["in_files"]}


def decisive(chosen: Any) -> dict[str, Any]:
    """The options on which the rounds depend, with their values; None as text, for a fingerprint has to see it."""
    values = {one.name: getattr(chosen, one.name) for one in fields(chosen) if one.metadata["decides"]}
    return {name: "None" if value is None else value for name, value in values.items()}

"""Every public function with arguments of every wrong kind: it works, or one sentence names what is wrong."""

import inspect
import math
import re
from typing import Any

import jax
import numpy as np

import fedualex as fx

from . import surface
from .harness import BrokenPromiseError, require, within
from .surface import GIVEN, IMPORTS
from .terms import Rng

CALLS, VALUES = surface.calls(), surface.values()
REFUSALS = (TypeError, ValueError, FloatingPointError)
PATHS = ("cannot be read as",)
"""A file that cannot be read is named itself, not the argument that it was given as."""
LONGEST = 400
SECONDS = 60


def attack(rng: Rng) -> None:
    """One call in which an argument, sometimes two, is of a wrong kind, shape or size."""
    function, right = CALLS[rng.integers(len(CALLS))]
    arguments = dict(right)
    if arguments:
        for name in rng.choice(list(arguments), min(len(arguments), 1 + (rng.random() < 0.2)), replace=False):
            arguments[name] = str(rng.choice(VALUES[: -surface.WHOLE] if name in SIZES else VALUES))
    for name in used(arguments.get("callback", "")):
        given(name)
    if "callback" in arguments and callable(evaluated(arguments["callback"])):
        return  # what a user's own function makes of a record is the user's affair
    text = f"{function}({', '.join(f'{name}={value}' for name, value in arguments.items())})"
    try_call(text, [*arguments, *_parameters(function)])


SIZES = {
    *("rounds", "steps", "local_steps", "clients", "cohort", "sites", "rows", "samples", "pairs", "sweeps", "size"),
    *("max_rounds", "chunk", "record_every", "sizes", "least", "attempts", "grid", "seeds", "timeout", "max_seconds"),
}
"""Arguments for which a large whole number is a wish, and only takes long."""


def try_call(text: str, names: list[str]) -> None:
    """Evaluate a call; whatever it gives or raises is judged."""
    repro = "\n".join([IMPORTS, *(f"{name} = {GIVEN[name]}" for name in used(text)), f"print({text})"])
    for name in used(text):
        given(name)
    with within(SECONDS, "a call", repro):
        try:
            result = evaluated(text)
            shown = repr(result)
        except (*REFUSALS, *_documented(text)) as error:
            if not text.startswith("fx.estimators."):  # where most refusals are scikit-learn's own words
                _check_refusal(error, names, repro)
            return
        except Exception as error:
            raise BrokenPromiseError(
                f"{type(error).__name__} instead of a refusal: {str(error)[:300]}", repro
            ) from None
    require("nan" not in _numbers(shown) and not _has_nan(result), f"nan in the answer: {shown[:200]}", repro)


_names: dict[str, Any] = {}


def evaluated(text: str) -> Any:
    """What an expression gives, with the names that every repro begins with."""
    if not _names:
        exec(IMPORTS, _names)
    return eval(text, _names)


def given(name: str) -> None:
    """Make a name of the surface, once."""
    if name not in _names:
        _names[name] = evaluated(GIVEN[name])


def used(text: str) -> list[str]:
    """The names of the surface that an expression needs, each after those it needs itself."""
    own = [name for name in GIVEN if re.search(rf"\b{name}\b", text)]
    return list(dict.fromkeys(inner for name in own for inner in (*used(GIVEN[name]), name)))


def _documented(text: str) -> tuple[type[Exception], ...]:
    """What a function says that it raises besides: the search for best responses, if they do not settle."""
    return (RuntimeError,) if text.startswith("fx.reference.best_response") else ()


def _check_refusal(error: Exception, names: list[str], repro: str) -> None:
    text = str(error)
    require(bool(text) and "\n" not in text, f"a refusal that is not one line: {text[:300]!r}", repro)
    require(len(text) <= LONGEST, f"a refusal of {len(text)} characters: {text[:200]!r}", repro)
    named = any(re.search(rf"\b{name}\b", text) for name in [*names, *PATHS])
    require(named, f"a refusal that names no argument: {type(error).__name__}: {text!r}", repro)


def _parameters(function: str) -> list[str]:
    """What a refusal may name; "options" would be no name of an argument."""
    for name in used(function):
        given(name)
    return [name for name in inspect.signature(evaluated(function)).parameters if name != "options"]


def _numbers(shown: str) -> str:
    """The text of an answer without the words in which "nan" is three letters of a name."""
    return " ".join(word for word in shown.replace("=", " ").replace("(", " ").split() if word.strip("),[]") == "nan")


def _has_nan(result: Any) -> bool:
    """Whether an array or number in an answer is nan."""
    leaves = jax.tree.leaves(result.z if isinstance(result, fx.Run) else result)
    leaves += [result.gap] if isinstance(result, fx.Run) else []
    return any(_is_nan(leaf) for leaf in leaves)


def _is_nan(leaf: Any) -> bool:
    if isinstance(leaf, float):
        return math.isnan(leaf)
    return isinstance(leaf, np.ndarray | jax.Array) and leaf.dtype.kind == "f" and bool(np.any(np.isnan(leaf)))

"""`fx.compare`: several methods on one problem, each with several seeds."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, no_type_check

from ..algorithms import AbstractMethod
from ..experiments.labels import unique
from ..problems import AbstractProblem
from ..runtime import Stop, solve
from ..runtime.options import SolveOptions, fields_of, option, options, takes_several
from ..runtime.sweeps import not_here
from ..validation import of_type, short, whole_number
from .comparison import Comparison


def _seeds(name: str, value: Any) -> tuple[int, ...]:
    several = isinstance(value, Iterable) and not isinstance(value, str | bytes)
    if not several or getattr(value, "ndim", 1) == 0:  # an array of one number is one
        return tuple(range(whole_number(name, value)))
    seeds = tuple(whole_number(f"each of {name}", seed, least=0) for seed in value)
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"{name} must be a number of seeds, or different seeds such as (0, 1), got {short(value)}")
    return seeds


@no_type_check
@options
class CompareOptions(SolveOptions):
    """The options of `fx.compare`."""

    seeds: int | Iterable[int] = option(_seeds, "How many seeds, from 0 on, or which; each method has each.", default=1)
    seed: None = option(not_here("is of one run: give seeds="), "None: there are seeds.", default=None)  # type: ignore[assignment]
    checkpoint: None = option(
        not_here("is of one run, and a comparison has many: call solve for each"), "None: of one run.", default=None
    )


@takes_several(CompareOptions)
def compare(problem: AbstractProblem, methods: object, chosen: CompareOptions) -> Comparison:
    """`solve` with every method and every seed, for a table, a figure and a report of them side by side.

    methods: {label: method}, or a list of methods, whose labels are the names of their classes. The options:
    """
    labeled = _labeled(methods)
    seeds: Any = chosen.seeds
    settings = SolveOptions(**{**fields_of(chosen, SolveOptions), "seed": 0})
    runs: dict[str, list[Any]] = {label: [] for label in labeled}
    for label, method in labeled.items():
        for seed in seeds:
            run = solve(problem, method, **fields_of(replace(settings, seed=seed), SolveOptions))
            if run.stop is Stop.INTERRUPTED:  # what was not run to its end cannot be compared
                raise KeyboardInterrupt
            runs[label].append(run)
    return Comparison(problem, labeled, settings, seeds, runs)


def _labeled(methods: Any) -> dict[str, AbstractMethod]:
    """The methods by label, each checked."""
    accepted = 'methods by label such as {"ours": fx.FeDualEx()}, or a list of methods'
    if isinstance(methods, Mapping):
        labels, values = list(methods), list(methods.values())
    elif isinstance(methods, list | tuple):
        labels, values = unique([type(method).__name__ for method in methods]), list(methods)
    else:
        raise TypeError(f"methods must be {accepted}, got {short(methods)}")
    if not values:
        raise ValueError(f"methods must be {accepted}, got {short(methods)}")
    for label, method in zip(labels, values, strict=True):
        if not isinstance(label, str) or not label.strip():
            raise TypeError(f"methods must have labels that are text, got {short(label)}")
        of_type(f"methods[{label!r}]", method, AbstractMethod, "a method such as fx.FeDualEx(eta_c=0.03)")
    return dict(zip(labels, values, strict=True))

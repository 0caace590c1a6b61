"""Methods side by side: what `fx.compare` returns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, no_type_check

import numpy as np

from ..algorithms import Method
from ..arrays import Reals
from ..data.columns import require_package
from ..display import gap_text, html_table, round_up, text_table
from ..palette import styles
from ..problems import AbstractProblem
from ..runs import folder, solving as in_python
from ..runs.settings import folder_names, unique
from ..runtime import Run, Stop, solve
from ..runtime.options import SolveOptions, fields_of, option, options, takes_several
from ..runtime.prepare import describe_untuned
from ..runtime.run import X_LABELS, axis_values, draw_line, gaps_of, label_axes, make_axes
from ..runtime.sweeps import not_here
from ..validation import of_type, one_of, short, whole_number
from . import write_report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

HEADER = ("method", "certified gap <=", "exchanges", "status")


@dataclass(frozen=True, repr=False)
class Comparison:
    """Runs of several methods on one problem, each with the same seeds."""

    problem: AbstractProblem
    methods: dict[str, Method]
    """The methods by label."""
    options: SolveOptions
    """What all runs share; their seeds differ."""
    seeds: tuple[int, ...]
    runs: dict[str, list[Run]]
    """The runs of each method by its label, in the order of the seeds."""

    def to_frame(self) -> "DataFrame":
        """All records of all runs as a pandas.DataFrame, with the columns `method` and `seed` first."""
        pandas = require_package("pandas", "pandas", "pandas", "to_frame()")
        frames = []
        for label, runs in self.runs.items():
            for seed, run in zip(self.seeds, runs, strict=True):
                frame = run.to_frame()
                frame.insert(0, "method", label)
                frame.insert(1, "seed", seed)
                frames.append(frame)
        return pandas.concat(frames, ignore_index=True)

    def plot(self, x: str = "exchanges", ax: "Axes | None" = None) -> "Axes":
        """Draw the smallest certified gap of each record: the median over seeds, and a band from least to largest.

        x: "exchanges", "rounds", "seconds" or "bytes", up and down together; its median over seeds. Only records that
        all seeds of a method have are drawn. ax: the axes of matplotlib to draw on; new ones if None. Returns the axes.
        """
        x = one_of("x", x, tuple(X_LABELS))
        curves = {label: _curve(runs, x) for label, runs in self.runs.items()}
        if not any(np.any(np.isfinite(gaps)) for _, gaps in curves.values()):
            reason = next(iter(self.runs.values()))[0].answer.certificate.reason
            raise ValueError(f"there is no certified gap to plot: {reason}")
        ax = make_axes() if ax is None else ax
        looks = styles({label: type(method).__name__ for label, method in self.methods.items()})
        for label, (at, gaps) in curves.items():
            shown = f"{label} (untuned steps)" if self.runs[label][0].steps else label
            draw_line(ax, at, np.median(gaps, axis=0), looks[label], shown)
            if len(gaps) > 1:
                band: dict[str, Any] = {"color": looks[label].color, "alpha": 0.15, "lw": 0}
                ax.fill_between(at, gaps.min(axis=0), gaps.max(axis=0), **band)
        return label_axes(ax, x)

    def report(self, path: Path | str) -> Path:
        """Write a folder for each run and the page that `fedualex compare` writes; the path of the page.

        path: a folder that is new, empty, or holds an earlier comparison. `fedualex verify` checks it.
        """
        root = Path(path)
        folder.check_collection(root, "comparison")
        places = {
            label: [f"{place}/seed-{seed}" for seed in self.seeds] for label, place in folder_names(self.runs).items()
        }
        title, names = f"Runs of {short(self.problem)}", [name for own in places.values() for name in own]
        folder.write_collection(root, "comparison", title=title, runs=names)
        weights = self.options.weights
        problem = self.problem if weights is None else self.problem.reweighted(weights)
        for label, method in self.methods.items():
            for name, seed, run in zip(places[label], self.seeds, self.runs[label], strict=True):
                in_python.store(root / name, problem, method, replace(self.options, seed=seed), run, label=label)
        return write_report(root)

    def __repr__(self) -> str:
        parts = self._sentence(), text_table(HEADER, self._rows()), self._describe_untuned()
        return "\n".join(filter(None, parts))

    def _repr_html_(self) -> str:
        """The same table, for notebooks."""
        return html_table(
            HEADER, self._rows(), " ".join(filter(None, (f"{self._sentence()}.", self._describe_untuned())))
        )

    def _sentence(self) -> str:
        seeds = "1 seed" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds, median (least..largest)"
        return f"Comparison on {self.problem!r}: {seeds}"

    def _describe_untuned(self) -> str:
        return describe_untuned({label: runs[0].steps for label, runs in self.runs.items()})

    def _rows(self) -> list[tuple[str, ...]]:
        return [(label, *_summary(runs)) for label, runs in self.runs.items()]


def _summary(runs: list[Run]) -> tuple[str, ...]:
    """Gap, exchanges and status of a method over its seeds; a gap that is not certified counts as infinite."""
    gaps = [np.inf if run.gap is None else run.gap for run in runs]
    words = [_text(gap) for gap in (float(np.median(gaps)), min(gaps), max(gaps))]
    gap = words[0] if len(set(gaps)) == 1 else f"{words[0]} ({words[1]}..{words[2]})"
    exchanges = f"{np.median([run.exchanges for run in runs]):g}"
    return gap, exchanges, ", ".join(sorted({str(run.status) for run in runs}))


def _text(gap: float) -> str:
    return gap_text(None) if np.isinf(gap) else round_up(gap)


def _curve(runs: list[Run], x: str) -> tuple[Reals, Reals]:
    """The median over runs of where their records are, and the smallest gap of each record, along the first axis."""
    if not all(run.history for run in runs):  # one broke down before its first record
        return np.zeros(0), np.zeros((len(runs), 0))
    length = min(len(run.history["round"]) for run in runs)
    at = np.median([axis_values(run.history, x)[:length] for run in runs], axis=0)
    smallest = [reduce(np.fmin, gaps_of(run.history).values())[:length] for run in runs]
    return at, np.stack(smallest)


# `fx.compare`: several methods on one problem, each with several seeds.


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
    labeled = _label_methods(methods)
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


def _label_methods(methods: object) -> dict[str, Method]:
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
        of_type(f"methods[{label!r}]", method, Method, "a method such as fx.FeDualEx(eta_c=0.03)")
    return dict(zip(labels, values, strict=True))

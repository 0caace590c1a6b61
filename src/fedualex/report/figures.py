"""Figures for papers: as wide as a column, with letters of a caption's size, readable in grey and by everybody."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..palette import Style, style
from ..runs.folder import StoredRun
from ..runtime.outputs import KINDS
from ..runtime.run import X_LABELS, draw_line, drawing
from ..storage import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

# What runs were made with, as a caption says it.


OUTPUT_WORDS = {name: kind.label for name, kind in KINDS.items()} | {
    "best": "an earlier record whose certificate was smaller than that of all outputs at the end"
}
"""Each output in words."""
X_WORDS = {"round": "rounds", "exchanges": "exchanges", "megabytes": "megabytes carried by the network"}


def settings_text(run: StoredRun) -> str:
    """Problem and sizes of a run: "paper_l1; 100 clients, 10 local steps, 500 rounds, noise 0.1"."""
    configuration: Json = run.manifest["configuration"]
    problem, settings = configuration["problem"], configuration["run"]
    numbers = {key: value for key, value in settings.items() if isinstance(value, int | float) and value}
    words = {"clients": "clients", "cohort": "of them each round", "local_steps": "local steps"}
    words |= {"rounds": "rounds", "steps": "steps"}
    parts = [f"{numbers[key]} {text}" for key, text in words.items() if key in numbers]
    parts += [f"{key} {numbers[key]:g}" for key in ("noise", "minibatch") if key in numbers]
    name = problem.get("name") or problem.get("goal") or problem.get("entry") or "a problem made in Python"
    return f"{name}; {', '.join(parts)}" if parts else str(name)


def caption(panel: Json, output: str, x: str, small: str) -> str:
    """What a paper would print below a figure of gaps: what is drawn, of what, with which settings."""
    several = any(value is not None for curve in panel["curves"] for value in curve["gap"]["std"])
    answers = ", ".join(f"{one['method']}: {one['curve']}" for one in panel["answers"])
    which = (
        f"each method's answer ({answers})" if output == "answer" else f"the output {output} ({OUTPUT_WORDS[output]})"
    )
    structure = f", and its {panel['structure']}" if x == "round" else ""
    steps = {row["method"]: f"{row['method']} {row['steps']}" for row in panel["table"] if row["steps"]}
    parts = [
        f"{panel['title']} ({panel['settings']}).",
        f"Certified duality gap of {which} against {X_WORDS[x]}{structure}.",
        f"Steps: {'; '.join(steps.values())}." if steps else "",
        panel["untuned"],
        "Lines are means over seeds, bands one standard deviation." if several else "One run of each method.",
        f"Dotted: the tolerance {panel['tol']:g}." if panel["tol"] is not None else "",
        f"This is {small}." if small else "",
    ]
    return " ".join(filter(None, parts))


X_AXES = {
    "round": X_LABELS["rounds"],
    "exchanges": X_LABELS["exchanges"],
    "seconds": X_LABELS["seconds"],
    "megabytes": "megabytes carried by the network",
}
COUNTED = ("round", "exchanges")
ANSWER = "answer"
"""In the place of an output: of each method the one that is its answer."""
COLUMN, PAGE = 3.35, 6.9
"""Inches that a figure of one panel, and of several, is wide: one and two columns of a paper."""
DPI = 300
LOOK: dict[Any, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
TRUETYPE: dict[Any, Any] = {"pdf.fonttype": 42}
"""Letters stay letters in the PDF; publishers refuse the other kind."""
SMALL_LINES = 0.7

Looks = Mapping[str, Style]


def curves_of(panel: Json, output: str) -> list[Json]:
    """The curves of one output, or with ANSWER of each method's answer."""
    shown = {answer["method"]: answer["curve"] for answer in panel["answers"]}
    return [
        curve
        for curve in panel["curves"]
        if curve["output"] == (shown[curve["method"]] if output == ANSWER else output)
    ]


def draw(panel: Json, output: str, looks: Looks, stem: Path, *, mark: str = "") -> list[Path]:
    """The paper's figure of a panel for one output: the certified gap, then density or ranks. PNG and PDF.

    mark: a few words above the figure, if there is something that no reader may miss.
    """
    curves = curves_of(panel, output)
    blocks = list(curves[0]["structure"])
    figure, axes = new_figure(1 + len(blocks), mark)
    _draw_gaps(axes[0], curves, "round", looks, panel["tol"])
    for axis, block in zip(axes[1:], blocks, strict=True):
        for curve in curves:
            _band(axis, curve["round"], curve["structure"][block], looks[curve["method"]], curve["method"])
        ranks = block != "all"
        axis.set(xlabel=X_AXES["round"], ylabel=f"rank of {block.upper()}" if ranks else "density (share of nonzeros)")
        axis.xaxis.set_major_locator(_ticks(whole=True))
        if ranks:
            axis.yaxis.set_major_locator(_ticks(whole=True))
        _exact_line(axis, panel["exact"], block, blocks)
    _legend(figure, axes[0], len(curves), 4)
    return save(figure, stem)


def draw_gap(panel: Json, output: str, looks: Looks, stem: Path, *, x: str = "megabytes", mark: str = "") -> list[Path]:
    """The certified gap of one output alone."""
    figure, axes = new_figure(1, mark)
    curves = curves_of(panel, output)
    _draw_gaps(axes[0], curves, x, looks, panel["tol"])
    _legend(figure, axes[0], len(curves), 2)
    return save(figure, stem)


def draw_averaging(
    series: Mapping[str, Mapping[str, Sequence[int | float]]], exact: float | None, stem: Path, *, mark: str = ""
) -> list[Path]:
    """The curse of primal averaging: densities of the clients' points and of the server's point after averaging."""
    figure, axes = new_figure(len(series), mark, share_y=True)
    clients, server = style(7), style(6)  # grey and black: not methods, which have colors of their own
    for axis, (method, curves) in zip(axes, series.items(), strict=True):
        rounds = curves["round"]
        axis.fill_between(rounds, curves["lowest"], curves["highest"], color=clients.color, alpha=0.25, lw=0)
        draw_line(axis, rounds, curves["clients"], clients, "clients' points: mean and range", SMALL_LINES)
        draw_line(axis, rounds, curves["server"], server, "server's point", SMALL_LINES)
        axis.set_title(method, fontsize=LOOK["axes.titlesize"])
        axis.set(xlabel=X_AXES["round"], ylim=(0, 1.02))
        axis.xaxis.set_major_locator(_ticks(whole=True))
        if exact is not None:
            axis.axhline(exact, color="0.3", ls=":", lw=0.8, label="exact optimum")
    axes[0].set_ylabel("density (share of nonzeros)")
    _legend(figure, axes[0], 3, 3)
    return save(figure, stem)


def save(figure: "Figure", stem: Path) -> list[Path]:
    """PNG and PDF, without a time stamp: the same runs give the same files."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "pdf")]
    for path in paths:
        metadata = {"CreationDate": None} if path.suffix == ".pdf" else {}
        with drawing("matplotlib").rc_context(TRUETYPE):
            figure.savefig(path, dpi=DPI, metadata=metadata)
    return paths


def new_figure(columns: int, mark: str, share_y: bool = False) -> "tuple[Figure, list[Axes]]":
    """A figure of so many panels side by side, and these."""
    # An object of its own, without pyplot: nothing global, no display.
    with drawing("matplotlib").rc_context(LOOK):
        figure = drawing("matplotlib.figure").Figure(
            figsize=(COLUMN if columns == 1 else PAGE, 2.75), layout="constrained"
        )
        axes = figure.subplots(1, columns, squeeze=False, sharey=share_y)
    if mark:
        figure.suptitle(mark, fontsize=8, color="#8c3200")
    return figure, list(axes[0])


def _ticks(*, whole: bool) -> "MaxNLocator":
    """At most seven round numbers; whole ones where something is counted."""
    locator: MaxNLocator = drawing("matplotlib.ticker").MaxNLocator(6, steps=[1, 2, 5, 10], integer=whole)
    return locator


def _legend(figure: "Figure", axis: "Axes", curves: int, columns: int) -> None:
    # Below the axes: no place inside is free for every run.
    handles, labels = axis.get_legend_handles_labels()
    small = {"fontsize": 7, "frameon": False, "columnspacing": 1.2, "handlelength": 3.2}
    figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, curves), **small)


def _draw_gaps(axis: "Axes", curves: Sequence[Json], x: str, looks: Looks, tol: float | None) -> None:
    for curve in curves:
        _band(axis, curve[x], curve["gap"], looks[curve["method"]], curve["method"], positive=True)
    axis.set(xlabel=X_AXES[x], ylabel="certified duality gap")
    axis.xaxis.set_major_locator(_ticks(whole=x in COUNTED))
    if any(mean is not None and mean > 0 for curve in curves for mean in curve["gap"]["mean"]):
        axis.set_yscale("log")  # which nothing but zeros or missing certificates cannot have
    if tol is not None and tol > 0:
        _level(axis, tol, f"tolerance {tol:g}")
    axis.grid(which="major", color="0.9", lw=0.5)


def _band(axis: "Axes", x: Any, values: Json, look: Style, label: str, positive: bool = False) -> None:
    mean, std = np.array(values["mean"], float), np.array(values["std"], float)
    low = np.maximum(mean - std, mean / 10) if positive else mean - std  # a logarithmic axis has no room below 0
    draw_line(axis, x, mean, look, label, SMALL_LINES)
    axis.fill_between(x, low, mean + std, color=look.color, alpha=0.15, lw=0)


def _exact_line(axis: "Axes", exact: Json | None, block: str, blocks: Sequence[str]) -> None:
    if exact is not None:
        level = exact["density"] if block == "all" else exact["rank"][blocks.index(block)]
        _level(axis, level, f"exact optimum {level:.3g}")


def _level(axis: "Axes", level: float | int, text: str) -> None:
    axis.axhline(level, color="0.3", ls=":", lw=0.8)
    small: Any = {"fontsize": 7, "color": "0.25", "ha": "right", "va": "bottom"}
    axis.annotate(text, (0.99, level), xycoords=("axes fraction", "data"), **small)

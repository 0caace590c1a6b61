"""What a benchmark's folder shows: one page, figures for papers, a table for LaTeX, and CSV."""

import base64
import csv
import io
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..display import escape_html, round_up
from ..palette import styles
from ..runtime.run import draw_line, drawing
from ..storage import write_atomically
from .benchmark import LEVELS, Benchmark, Result

OURS = ("FeDualEx", "FeDualExCorrected", "FeDualSlide", "FeDualNewton")
AXES = {
    "exchanges": "exchanges",
    "bytes": "bytes that a client sends",
    "operators": "operators that a client evaluates",
}


def write_page(benchmark: Benchmark) -> list[Path]:
    """index.html, figures as PNG and PDF, results.tex and results.csv in the benchmark's folder; their paths."""
    folder = benchmark.folder
    (folder / "figures").mkdir(exist_ok=True)
    drawn = [*_save(draw_profiles(benchmark), folder / "figures" / "profile")]
    for number, name in enumerate(benchmark.problems):
        drawn += _save(draw_problem(benchmark, name), folder / "figures" / f"problem-{number + 1}")
    texts = {"results.tex": latex(benchmark), "results.csv": comma_separated(benchmark), "index.html": html(benchmark)}
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
    return [folder / "index.html", *drawn, folder / "results.tex", folder / "results.csv"]


def _save(figure: Any, stem: Path) -> list[Path]:
    """A figure as PNG and as PDF."""
    paths = []
    for kind in ("png", "pdf"):
        content = io.BytesIO()
        figure.savefig(content, format=kind, dpi=160)
        paths.append(stem.with_suffix(f".{kind}"))
        write_atomically(paths[-1], content.getvalue())
    return paths


def draw_profiles(benchmark: Benchmark) -> Any:
    """The share of problems that each method solved within so many exchanges, one panel for each level."""
    looks = styles({label: label for label in benchmark.methods})
    figure = drawing("matplotlib.figure").Figure(figsize=(4.2 * len(LEVELS), 4.4), layout="constrained")
    panels = figure.subplots(1, len(LEVELS), sharey=True)
    for ax, level in zip(panels, LEVELS, strict=True):
        for label, needed in benchmark.profile(level).items():
            at, share = stairs(needed, benchmark.plan.exchanges)
            ax.step(at, share, where="post", color=looks[label].color, ls=looks[label].linestyle, label=label, lw=1.5)
        ax.set(xscale="log", xlabel="exchanges", title=f"gap $\\leq$ {level:g} of the start's", ylim=(-0.02, 1.02))
        ax.grid(color="0.9")
    panels[0].set(ylabel=f"share of {len(benchmark.problems)} problems")
    _add_legend(figure, panels[0])
    return figure


def stairs(needed: NDArray[np.float64], most: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The share of what was needed that is at most x, from 1 to most."""
    finite = np.sort(needed[np.isfinite(needed)])
    at = np.concatenate([[1.0], finite, [float(most)]])
    return at, np.array([np.mean(needed <= x) for x in at])


def _add_legend(figure: Any, panel: Any) -> None:
    """One legend for all panels, below them."""
    drawn = panel.get_legend_handles_labels()
    figure.legend(*drawn, loc="outside lower center", ncols=6, fontsize=8, frameon=False)


def draw_problem(benchmark: Benchmark, name: str) -> Any:
    """The smallest certified gap of each method on a problem, over exchanges and over what a client computes."""
    results = [result for result in benchmark.results if result.problem == name and result.curves]
    looks = styles({result.method: result.method for result in results})
    figure = drawing("matplotlib.figure").Figure(figsize=(12, 4.4), layout="constrained")
    panels = figure.subplots(1, len(AXES), sharey=True)
    for ax, (axis, words) in zip(panels, AXES.items(), strict=True):
        for result in results:
            curve = result.curves[0]
            gaps = np.array([np.nan if gap is None else gap / result.start for gap in curve.gap])
            if np.any(gaps > 0):
                draw_line(ax, getattr(curve, axis), gaps, looks[result.method], result.method, scale=0.7)
        ax.set(xscale="log", yscale="log", xlabel=words)
        ax.xaxis.set_minor_formatter("")
        ax.grid(color="0.9")
    panels[0].set(ylabel="certified gap, share of the start's", title=name)
    _add_legend(figure, panels[0])
    return figure


def _cell(result: Result | None, level: float) -> str:
    """What a table shows of a method on a problem: exchanges to the level, or how far it came."""
    if result is None:
        return ""
    if result.refused:
        return "no"
    needed = result.reach(level)
    if np.isfinite(needed):
        return f"{needed:g}"
    return "-" if not np.isfinite(result.last) else f"({round_up(result.last / result.start, 2)})"


def _rows(benchmark: Benchmark, level: float) -> list[tuple[str, list[str], int | None]]:
    """For each problem the cells of all methods, and the index of the one with the fewest exchanges."""
    by = {(result.problem, result.method): result for result in benchmark.results}
    rows = []
    for name in benchmark.problems:
        results = [by.get((name, label)) for label in benchmark.methods]
        needed = [np.inf if result is None else result.reach(level) for result in results]
        best = int(np.argmin(needed)) if np.isfinite(min(needed)) else None
        rows.append((name, [_cell(result, level) for result in results], best))
    return rows


def latex(benchmark: Benchmark) -> str:
    """A table for a paper, for the middle level: exchanges to it, the fewest in bold."""
    level, columns = LEVELS[1], "l" + "r" * len(benchmark.methods)
    lines = [rf"\begin{{tabular}}{{{columns}}}", " & ".join(["problem", *benchmark.methods]) + r" \\ \hline"]
    for name, cells, best in _rows(benchmark, level):
        shown = [rf"\textbf{{{cell}}}" if index == best else cell for index, cell in enumerate(cells)]
        lines.append(" & ".join([name.replace("_", r"\_"), *shown]) + r" \\")
    return "\n".join([*lines, r"\end{tabular}", ""])


def comma_separated(benchmark: Benchmark) -> str:
    """Every record of every run."""
    content = io.StringIO()
    writer = csv.writer(content)
    writer.writerow(["problem", "method", "seed", "exchanges", "bytes", "operators", "seconds", "gap", "gap_at_start"])
    for result in benchmark.results:
        for curve in result.curves:
            records = zip(curve.exchanges, curve.bytes, curve.operators, curve.seconds, curve.gap, strict=True)
            for record in records:
                writer.writerow([result.problem, result.method, curve.seed, *record, result.start])
    return content.getvalue()


def html(benchmark: Benchmark) -> str:
    """The page: what was done, the profile, a table for each level, each problem, and what was chosen and refused."""
    plan, style = benchmark.plan, (files("fedualex.report") / "web" / "page.css").read_text()
    sections = [_picture(benchmark.folder / "figures" / "profile.png", "Data profile")]
    for level in LEVELS:
        sections.append(f"<h2>Exchanges to a gap of {level:g} of the start's</h2>{_table(benchmark, level)}")
    for number, name in enumerate(benchmark.problems):
        picture = _picture(benchmark.folder / "figures" / f"problem-{number + 1}.png", name)
        sections.append(f"<h2>{escape_html(name)}</h2>{picture}")
    told = (
        f"{len(benchmark.methods)} methods on {len(benchmark.problems)} problems, {plan.exchanges} exchanges each. "
        f"Every method with step sizes had {plan.tries} tries from the grid of .1 to 10 times what theory chooses and "
        "its numbers of local steps, judged by the smallest certified gap on the first seed; methods without step "
        "sizes ran once. A gap is the smallest of all outputs and records so far, from certificates that do not know "
        "the method."
    )
    body = "".join(f"<section>{section}</section>" for section in sections)
    own = "table { font-size: .8rem } img { max-width: 100%; background: #fff } .wide { overflow-x: auto }"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Benchmark</title><style>{style} {own}</style><body><h1>The field's benchmark</h1>"
        f"<p class=answer>{escape_html(headline(benchmark))}</p><p>{told}</p>{body}"
        f"<section>{_describe_chosen(benchmark)}</section></body></html>"
    )


def count_solved(benchmark: Benchmark, level: float) -> dict[str, int]:
    """How many problems each method brought to a level."""
    return {label: int(np.sum(np.isfinite(needed))) for label, needed in benchmark.profile(level).items()}


def headline(benchmark: Benchmark) -> str:
    """Which method solved most problems to the middle level, and where ours did not win."""
    level = LEVELS[1]
    solved = count_solved(benchmark, level)
    needed = {label: float(np.sum(one[np.isfinite(one)])) for label, one in benchmark.profile(level).items()}
    most = max(solved, key=lambda label: (solved[label], -needed[label]))
    lost = [
        name for name, _, best in _rows(benchmark, level) if best is not None and benchmark.methods[best] not in OURS
    ]
    of = len(benchmark.problems)
    words = f"{most} reached {level:g} of the start's gap on {solved[most]} of {of} problems, the most."
    if not lost:
        return words
    return f"{words} A method of others needed the fewest exchanges on: {'; '.join(lost)}."


def _picture(file: Path, words: str) -> str:
    """A picture inside the page, so that it opens offline."""
    content = base64.b64encode(file.read_bytes()).decode()
    return f'<img alt="{escape_html(words)}" src="data:image/png;base64,{content}">'


def _table(benchmark: Benchmark, level: float) -> str:
    """Problems by methods; the fewest exchanges in bold, in brackets how far a method came that did not arrive."""
    head = "".join(f"<th>{escape_html(label)}</th>" for label in benchmark.methods)
    lines = [
        f"<tr><th>{escape_html(name)}</th>"
        + "".join(
            f"<td>{'<b>' * (i == best)}{escape_html(cell)}{'</b>' * (i == best)}</td>" for i, cell in enumerate(cells)
        )
        + "</tr>"
        for name, cells, best in _rows(benchmark, level)
    ]
    note = "In brackets: the share of the start's gap that was reached instead. no: the method does not apply."
    return (
        f"<div class=wide><table><tr><th>problem</th>{head}</tr>{''.join(lines)}</table></div><p class=small>{note}</p>"
    )


def _describe_chosen(benchmark: Benchmark) -> str:
    """What won for each method, and why methods were refused."""
    lines = []
    for result in benchmark.results:
        chosen = ", ".join(f"{name} = {value:.3g}" for name, value in result.chosen.items())
        lines.append(
            f"<tr><td>{escape_html(result.problem)}</td><td>{escape_html(result.method)}</td>"
            f"<td>{escape_html(result.refused or chosen)}</td></tr>"
        )
    table = f"<table><tr><th>problem</th><th>method</th><th>chosen, or why not</th></tr>{''.join(lines)}</table>"
    return f"<details><summary>What was chosen, and what was refused</summary>{table}</details>"

"""The table, the figure and the reading of exchanges.json, for docs/slide.md.

python benchmarks/exchange_page.py     makes them again
"""

import json
from typing import Any

from exchange_problems import PROBLEMS
from matplotlib.figure import Figure
from processes import HERE

from fedualex.report.figures import COLORS, DASHES, MARKERS

RESULTS, DOCS = HERE / "exchanges.json", HERE.parent / "docs"
SHOWN = (10, 30, 100, 300)
SLIDES = {f"FeDualSlide, {mode}": mode for mode in ("local", "survey", "auto")}
# Exchanges a round.
COUNTS = {
    "FeDualEx": "1",
    "FeDualExCorrected": "2",
    "FeDualExCorrected, recentred": "2",
    "FedGDAGT": "2",
    "SynchronousMirrorProx": "2",
    "LeadSliding, extragradient": "2",
    "LeadSliding, optimistic": "1",
    "FeDualSlide, local": "2",
    "FeDualSlide, survey": "1",
    "FeDualSlide, auto": "1 or 2",
}
OLDER = ("FeDualEx", "FeDualExCorrected", "SynchronousMirrorProx")
AGNOSTIC = ("cancer", "digits", "cancer5", "digits5")
# Of a prototype in numpy, with games and domains of its own.
PROTOTYPE = {
    "local": {"q05": 3.5e-4, "q3": 3.4e-4, "b5": 4.9e-3, "cancer": 1.5e-3, "digits": 3.4e-3},
    "survey": {"q05": 0.034, "q3": 0.032, "b5": 0.032, "cancer": 8e-5, "digits": 2e-4},
    "auto": {"q05": 3.1e-3, "q3": 1e-3, "b5": 6.5e-3, "cancer": 6e-5, "digits": 2.4e-3},
}


def load() -> dict[str, Any]:
    """What was measured."""
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


def gap(results: dict[str, Any], name: str, row: str, mark: int, kind: str = "all") -> float:
    """One number."""
    return float(results[name]["rows"][row][kind][str(mark)])


def short(number: float) -> str:
    """Two digits."""
    text = f"{number:.1e}" if number < 1e-3 else f"{number:.2g}"
    return text.replace("e-0", "e-").replace("0.", ".", 1) if number < 1 else text


def table(results: dict[str, Any], rows: list[str], kind: str) -> str:
    """Gaps at all marks, one column a problem."""
    names = [name for name in PROBLEMS if name in results]
    lines = [["method (exchanges a round)", *names], ["---"] * (1 + len(names))]
    for row in rows:
        cells = ["/".join(short(gap(results, name, row, mark, kind)) for mark in SHOWN) for name in names]
        lines.append([f"{row} ({COUNTS[row]})", *cells])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def reading(results: dict[str, Any]) -> str:
    """Where FeDualSlide wins, from the numbers."""
    lines = []
    for name in (name for name in PROBLEMS if name in results):
        others = [row for row in COUNTS if row not in SLIDES]
        best = [min(others, key=lambda row, mark=mark: gap(results, name, row, mark)) for mark in SHOWN]  # type: ignore[misc]
        ratios = [
            gap(results, name, row, mark) / gap(results, name, "FeDualSlide, auto", mark)
            for row, mark in zip(best, SHOWN, strict=True)
        ]
        shown = ", ".join(f"{ratio:.2g}" for ratio in ratios)
        lines.append(
            f"- {name}: the best tuned other method ({best[2]} at 100 exchanges) has {shown} times the gap of `auto`."
        )
    for name in (name for name in AGNOSTIC if name in results):
        older = min(gap(results, name, row, 100, "plain") for row in OLDER)
        ratios = {mode: older / gap(results, name, row, 100) for row, mode in SLIDES.items()}
        verdict = "at least" if max(ratios.values()) >= 50 else "less than"
        shown = ", ".join(f"{ratio:.0f} times (`{mode}`)" for mode, ratio in ratios.items())
        lines.append(
            f"- {name}, 100 exchanges, against the best of {', '.join(OLDER)} without `bounds`: "
            f"the gap is {shown} smaller, {verdict} 50."
        )
    return "\n".join(lines)


def draw(results: dict[str, Any]) -> None:
    """Gap against exchanges, one panel a problem."""
    names = [name for name in PROBLEMS if name in results]
    rows = (len(names) + 2) // 3
    figure = Figure(figsize=(7.2, 2.3 * rows + 0.9), layout="constrained")
    axes = figure.subplots(rows, 3, squeeze=False).ravel()
    for axis, name in zip(axes, names, strict=False):
        for row, style in STYLES.items():
            curve = results[name]["rows"][row]["all"]
            axis.plot([int(mark) for mark in curve], list(curve.values()), label=row, **style)
        axis.set(xscale="log", yscale="log")
        axis.set_title(name, fontsize=9)
        axis.set_xticks(SHOWN, [str(mark) for mark in SHOWN])
        axis.set_xticks([], minor=True)
        axis.tick_params(labelsize=8)
        axis.grid(which="major", color="0.9")
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[len(names) :]:
        axis.axis("off")
    figure.supxlabel("exchanges", fontsize=9)
    figure.supylabel("certified gap", fontsize=9)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(DOCS / "figures" / "exchanges.png", dpi=150)


def style(index: int, row: str) -> dict[str, Any]:
    """FeDualSlide strong and in colours of its own, others thin with markers."""
    if row in SLIDES:
        place = list(SLIDES).index(row)
        return {"color": ("#D55E00", "#0072B2", "#000000")[place], "ls": DASHES[place], "lw": 2}
    return {"color": OTHERS[index], "marker": MARKERS[index], "ms": 3.5, "lw": 0.8}


OTHERS = (*(color for color in COLORS if color not in ("#D55E00", "#0072B2", "#000000")), "#F0E442", "#999933")
STYLES = {row: style(index, row) for index, row in enumerate(COUNTS)}


def page(results: dict[str, Any]) -> str:
    """What stands between the marks of docs/slide.md."""
    others = [row for row in COUNTS if row not in SLIDES]
    names = [name for name in PROBLEMS if name in results]
    problems = "; ".join(
        f"{name}: {PROBLEMS[name]} (beta {found['beta']:.2g}, delta {found['delta']:.2g}, {found['how']})"
        for name, found in ((name, results[name]) for name in names)
    )
    return "\n\n".join(
        [
            INTRODUCTION,
            f"{problems}.",
            "All outputs, `bounds` among them:",
            table(results, list(COUNTS), "all"),
            "The other methods with the certificates at their points alone, without `bounds`:",
            table(results, others, "plain"),
            "![Certified gap against exchanges, one panel for each problem](figures/exchanges.png)",
            reading(results),
        ]
    )


INTRODUCTION = """\
Certified gaps after 10 / 30 / 100 / 300 exchanges; 10 clients, K = 10 (1 for `SynchronousMirrorProx`), by `make
bench-exchanges`. FeDualSlide has one setting for all rows. The others are tuned: at every mark they count with the
best of at least seven step sizes, a factor 10^.5 apart, and with the best output of all records so far. `LeadSliding`
is counted as its papers do, with the lead's data on the server, which is one exchange a round less than the library
takes; its lead is the first client. The surveys for records are not counted; FeDualSlide needs none."""


def write() -> None:
    """The figure, and the rest between the two marks of the page."""
    results = load()
    draw(results)
    file = DOCS / "slide.md"
    before, opening, rest = file.read_text().partition("<!-- the measurements -->\n")
    _, closing, after = rest.partition("<!-- end -->")
    file.write_text(f"{before}{opening}{page(results)}\n{closing}{after}")


if __name__ == "__main__":
    write()

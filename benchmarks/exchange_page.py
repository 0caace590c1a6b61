"""The table, the figure and the reading of exchanges.json, for benchmarks/results/exchanges.md.

python benchmarks/exchange_page.py     makes them again
"""

from typing import Any

from exchange_problems import PROBLEMS
from exchange_reading import COUNTS, SHOWN, SLIDES, gap, load, reading
from matplotlib.figure import Figure
from processes import HERE

from fedualex import palette

DOCS = HERE.parent / "docs"


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


def draw(results: dict[str, Any]) -> None:
    """Gap against exchanges, one panel a problem."""
    names = [name for name in PROBLEMS if name in results]
    rows = (len(names) + 2) // 3
    figure = Figure(figsize=(7.2, 2.3 * rows + 0.9), layout="constrained")
    axes = figure.subplots(rows, 3, squeeze=False).ravel()
    for axis, name in zip(axes, names, strict=False):
        for row, style in looks().items():
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
    for axis in axes[max(0, len(names) - 3) : len(names)]:
        axis.set_xlabel("exchanges", fontsize=9)
    figure.supylabel("certified gap", fontsize=9)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False, handlelength=3.5)
    figure.savefig(DOCS / "figures" / "exchanges.png", dpi=150)


def looks() -> dict[str, dict[str, Any]]:
    """The looks that methods have everywhere; FeDualSlide is strong, the others are thin with markers."""
    found = palette.styles({row: row.partition(",")[0] for row in COUNTS})
    return {
        row: {"color": look.color, "ls": look.linestyle, "lw": 2}
        if row in SLIDES
        else {"color": look.color, "marker": look.marker, "ms": 4.5, "lw": 0.8}
        for row, look in found.items()
    }


def widened(results: dict[str, Any], names: list[str]) -> str:
    """How far grids could grow."""
    groups: dict[int, list[str]] = {}
    for name in names:
        groups.setdefault(results[name]["wider"], []).append(name)
    listed = "; ".join(f"{most} on {', '.join(those)}" for most, those in groups.items())
    return f"Where the best step was at an edge, the grid was widened by more values, on each side at most: {listed}."


def page(results: dict[str, Any]) -> str:
    """What stands between the marks of benchmarks/results/exchanges.md."""
    others = [row for row in COUNTS if row not in SLIDES]
    names = [name for name in PROBLEMS if name in results]
    problems = "\n".join(
        f"- {name}: {PROBLEMS[name]} (clients' beta {found['beta']:.2g}, delta {found['delta']:.2g}, {found['how']})"
        for name, found in ((name, results[name]) for name in names)
    )
    return "\n\n".join(
        [
            INTRODUCTION,
            problems,
            widened(results, names),
            "All outputs, `bounds` among them:",
            table(results, list(COUNTS), "all"),
            "The other methods with the certificates at their points alone, without `bounds`:",
            table(results, others, "plain"),
            "![Certified gap against exchanges, one panel for each problem](../../docs/figures/exchanges.png)",
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
    file = HERE / "results" / "exchanges.md"
    before, opening, rest = file.read_text().partition("<!-- the measurements -->\n")
    _, closing, after = rest.partition("<!-- end -->")
    file.write_text(f"{before}{opening}{page(results)}\n{closing}{after}")


if __name__ == "__main__":
    write()

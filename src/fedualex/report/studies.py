"""Studies: experiments that differ in one thing, as one figure and one table each."""

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..display import escape_html
from ..palette import Style, styles
from ..paper.claims import Spread, gaps_at_equal_cost, seed_runs, theory_of
from ..runs import folder
from ..runtime.run import draw_line
from ..storage import Json
from .figures import LOOK, SMALL_LINES, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PROMISES = {"Theorem 1 as printed": "printed", "Theorem 1 as corrected": "corrected"}

Study = Json


def collect_studies(root: Path, names: Sequence[str]) -> list[Study]:
    """The studies among finished experiments of a folder: along every axis the gap of each method at each value."""
    studies: dict[str, Study] = {}
    for name in names:
        plan = folder.read_manifest(root / name, "experiment")["plan"]
        groups = seed_runs(root / name)
        if (case := plan.get("case")) is None or not groups:
            continue
        title = folder.read_manifest(root / name)["title"].removesuffix(f": {case['axis']} = {case['value']:g}")
        output = plan["settings"]["tuning"]["output"]
        study = studies.setdefault(case["study"], {"name": case["study"], "title": title, "output": output, "axes": {}})
        methods = {label: runs[0].manifest["configuration"]["method"]["name"] for label, runs in groups.items()}
        study["methods"] = study.get("methods", {}) | methods
        gaps = gaps_at_equal_cost(groups, output)
        promised = {}
        if (root / name / "theory.json").exists():
            promised = {text: theory_of(root / name, "Theorem 1", version) for text, version in PROMISES.items()}
        study["axes"].setdefault(case["axis"], []).append({"value": case["value"], "gaps": gaps, "promised": promised})
    return list(studies.values())


def draw_study(study: Study, mark: str = "") -> "Figure":
    """Certified gaps against what the cases differ in: one panel for each axis, one line for each method."""
    axes = study["axes"]
    figure, places = new_figure(len(axes), mark, share_y=True)
    looks = styles(study["methods"])
    for place, (axis, cases) in zip(places, axes.items(), strict=True):
        cases = sorted(cases, key=lambda case: case["value"])
        _draw_axis(place, axis, cases, looks)
    places[0].set_ylabel(f"certified gap ({study['output']})")
    handles, labels = places[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(3, 1 + len(axes)), frameon=False, fontsize=7)
    return figure


def _draw_axis(place: "Axes", axis: str, cases: Sequence[Json], looks: Mapping[str, Style]) -> None:
    for label, look in looks.items():
        means = [(case["value"], case["gaps"][label].mean) for case in cases if label in case["gaps"]]
        draw_line(place, [value for value, _ in means], [gap for _, gap in means], look, label, SMALL_LINES)
    for text, dashes in zip(PROMISES, ("--", ":"), strict=True):
        promised = [(case["value"], case["promised"][text]) for case in cases if text in case["promised"]]
        if promised:
            place.plot(*zip(*promised, strict=True), color="0.45", ls=dashes, lw=1, label=text)
    place.set_yscale("log")
    values = [case["value"] for case in cases]
    if min(values) > 0:
        place.set_xscale("log")
    else:
        place.set_xscale("symlog", linthresh=min(value for value in values if value > 0) if max(values) > 0 else 1)
    place.set_xticks(values, [f"{value:g}" for value in values])
    place.minorticks_off()
    place.set_xlabel(axis, fontsize=LOOK["axes.labelsize"])


def save_study(study: Study, stem: Path, mark: str = "") -> list[Path]:
    """The figure as PNG and PDF."""
    return save(draw_study(study, mark), stem)


def study_section(study: Study, mark: str = "") -> str:
    """A section of the page: title, figure, and a table of all numbers."""
    buffer = io.BytesIO()
    draw_study(study, mark).savefig(buffer, format="png", dpi=150)
    image = base64.b64encode(buffer.getvalue()).decode()
    alt = f"Certified gap of the {study['output']} output against {', '.join(study['axes'])}"
    tables = "".join(_table(axis, cases) for axis, cases in study["axes"].items())
    return (
        f'<section data-name="{escape_html(study["name"])}"><h2>{escape_html(study["title"])}</h2>'
        f'<img class="study" src="data:image/png;base64,{image}" alt="{escape_html(alt)}">'
        f'<p class="small">Certified gaps of the {escape_html(study["output"])} output, mean ± deviation over seeds, '
        f"after as many exchanges as all methods have made.</p>{tables}</section>"
    )


def _table(axis: str, cases: Sequence[Json]) -> str:
    cases = sorted(cases, key=lambda case: case["value"])
    columns: list[str] = list(dict.fromkeys(label for case in cases for label in (*case["gaps"], *case["promised"])))
    head = "".join(f"<th>{escape_html(column)}</th>" for column in (axis, *columns))
    rows = []
    for case in cases:
        cells: Mapping[str, Spread | float] = {**case["gaps"], **case["promised"]}
        shown = [cells.get(column, "") for column in columns]
        texts = [f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in shown]
        rows.append(
            "<tr>" + "".join(f"<td>{escape_html(text)}</td>" for text in (f"{case['value']:g}", *texts)) + "</tr>"
        )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'

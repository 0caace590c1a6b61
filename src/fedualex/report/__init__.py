"""Pages and figures from stored runs."""

import json
from collections.abc import Iterator
from pathlib import Path

from ..palette import Style
from ..storage import Json, write_atomically
from . import figures
from .collect import collect
from .figures import caption
from .page import render
from .studies import save_study

__all__ = ["write_figures", "write_report"]


def write_report(path: Path) -> Path:
    """report.html in the folder of a fit, a model, a run, an experiment, a comparison or a reproduction."""
    page = path / "report.html"
    write_atomically(page, render(collect(path)).encode())
    return page


def write_figures(path: Path) -> list[Path]:
    """figures/ in the same folder: each figure as PNG and PDF, and captions.md with the settings of each."""
    data = collect(path)
    looks = {label: Style(**look) for label, look in data["styles"].items()}
    mark = f"{data['title']}: {data['small']}" if data["small"] else ""
    files, captions = [], []
    for panel in data["panels"]:
        for output, x, stem in _list_figures(panel, path / "figures"):
            draw = figures.draw if x == "round" else figures.draw_gap
            axis = {} if x == "round" else {"x": x}
            files += draw(panel, output, looks, stem, mark=mark, **axis)
            captions.append(f"**{stem.name}**: {caption(panel, output, x, data['small'])}")
    for study in data["studies"]:
        stem = path / "figures" / study["name"]
        files += save_study(study, stem, mark)
        captions.append(
            f"**{stem.name}**: {study['title']}. Certified gaps of the {study['output']} output. {mark}".strip()
        )
    for file in (path / "averaging.json", *sorted(path.glob("*/averaging.json"))):
        averaging = json.loads(file.read_text()) if file.exists() else {}
        if averaging.get("series"):
            stem = path / "figures" / f"{file.parent.resolve().name}-averaging"
            files += figures.draw_averaging(averaging["series"], averaging["exact"], stem, mark=mark)
            captions.append(f"**{stem.name}**: What averaging on the server does to sparsity. {mark}".strip())
    file = path / "figures" / "captions.md"
    file.parent.mkdir(exist_ok=True)
    write_atomically(file, ("\n\n".join(captions) + "\n").encode())
    return [*files, file]


def _list_figures(panel: Json, home: Path) -> Iterator[tuple[str, str, Path]]:
    """Output, horizontal axis and file name of each figure of a panel."""
    recorded = list(dict.fromkeys(curve["output"] for curve in panel["curves"]))
    several = len(panel["answers"]) > 1
    apart = any(curve["exchanges"] != curve["round"] for curve in panel["curves"])
    for output in [*([figures.ANSWER] if several else []), *recorded]:
        for x in ("round", *(["exchanges"] if apart else []), "megabytes"):
            yield output, x, home / f"{panel['name']}-{output}{'' if x == 'round' else f'-{x}'}"

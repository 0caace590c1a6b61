"""Figures and pages from stored runs."""

import json
from pathlib import Path

from ..storage import write_atomically
from . import figures
from .collect import collect
from .page import render

__all__ = ["write_report"]


def write_report(path: Path) -> list[Path]:
    """report.html and figures/ in the folder of a run, an experiment, a comparison or a reproduction."""
    data = collect(path)
    page = path / "report.html"
    write_atomically(page, render(data).encode())
    files = [page]
    for panel in data["panels"]:
        for output in dict.fromkeys(curve["output"] for curve in panel["curves"]):
            stem = path / "figures" / f"{panel['name']}-{output}"
            files += figures.draw(panel, output, stem)
            for x in ("exchanges", "megabytes"):
                files += figures.draw_gap(panel, output, stem.with_name(f"{stem.name}-{x}"), x)
    for file in (path / "averaging.json", *sorted(path.glob("*/averaging.json"))):
        found = json.loads(file.read_text()) if file.exists() else {}
        if found.get("series"):
            stem = path / "figures" / f"{file.parent.resolve().name}-averaging"
            files += figures.draw_averaging(found["series"], found["exact"], stem)
    return files

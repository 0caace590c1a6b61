"""One HTML file that holds a whole report: text, data, style and the script that draws it; it opens offline."""

import json
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from ..runtime import NONZERO
from .shape import check_report
from .studies import study_section

SCRIPTS = ("text.js", "axes.js", "chart.js", "touch.js", "tables.js", "curves.js", "model.js", "panel.js", "page.js")
"""In the order in which they build on each other; together they are one script."""


def render(data: dict[str, Any]) -> str:
    """The page of `data`, which has the shape DATA; nan and infinities become null, which is never drawn."""
    studies = "".join(study_section(study, data["small"]) for study in data.get("studies", ()))
    data = {key: value for key, value in data.items() if key not in ("studies", "findings")}
    check_report(data)
    # nan and infinities are the only constants that Python's JSON has beyond the standard's.
    finite = json.loads(json.dumps(data | {"nonzero": NONZERO}), parse_constant=lambda name: None)
    return Template(_read("page.html")).substitute(
        title=escape(data["title"]),
        headline=escape(data["headline"]),
        small=f'<p class="banner" role="note">This is {escape(data["small"])}.</p>' if data["small"] else "",
        panels="\n".join(_shell(panel, i, data["title"]) for i, panel in enumerate(data["panels"])),
        studies=studies,
        css=_read("page.css"),
        js="\n".join(map(_read, SCRIPTS)),
        # Within a script element only "<" can end it or open a comment; within a JSON string it may be escaped.
        data=json.dumps(finite, allow_nan=False).replace("<", "\\u003c"),
    )


def _shell(panel: dict[str, Any], i: int, title: str) -> str:
    """The section of a panel, with its title where that of the page is another one."""
    heading = "" if panel["title"] == title else f"<h2>{escape(panel['title'])}</h2>"
    attributes = f'id="panel-{i}" data-name="{escape(panel["name"])}" aria-label="{escape(panel["title"])}"'
    return f'<section class="panel" {attributes}>{heading}</section>'


def _read(name: str) -> str:
    return files(__package__).joinpath("web", name).read_text(encoding="utf-8")

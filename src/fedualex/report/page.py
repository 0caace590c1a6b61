"""One HTML file that holds a whole report: text, data, style and the script that draws it; it opens offline."""

import json
from importlib.resources import files
from string import Template
from types import UnionType
from typing import Any

from ..display import escape_html, visible
from ..runtime import NONZERO
from ..storage import Json
from .committee import committee_section
from .studies import study_section

# The shape of the data that the page is made of, and a clear refusal of any other.


Number = int | float
MaybeNumber = int | float | None
SERIES = {"mean": [MaybeNumber], "std": [MaybeNumber]}


class Maybe:
    """A part of the data that may be null."""

    def __init__(self, shape: object):
        self.shape = shape


# A dict needs its keys ({str: shape}: any keys), a list repeats its only element, a set holds the words accepted.
PANEL = {
    "name": str,
    "title": str,
    "headline": str,
    "findings": [str],
    "untuned": str,
    "x": {"round", "megabytes"},
    "tol": MaybeNumber,
    "structure": {"density", "rank"},
    "exact": Maybe({"value": Number, "gap": MaybeNumber, "density": MaybeNumber, "rank": Maybe([int]), "how": str}),
    "curves": [
        {
            "method": str,
            "output": str,
            "round": [Number],
            "exchanges": [MaybeNumber],
            "seconds": [MaybeNumber],
            "megabytes": [MaybeNumber],
            "gap": SERIES,
            "structure": {str: SERIES},
        }
    ],
    "answers": [{"method": str, "output": str, "curve": str}],
    "table": [
        {
            "method": str,
            "steps": str,
            "output": str,
            "gap": MaybeNumber,
            "gap_std": MaybeNumber,
            "structure": str,
            "distance": MaybeNumber,
            "rounds": MaybeNumber,
            "exchanges": MaybeNumber,
            "seconds": MaybeNumber,
            "megabytes": MaybeNumber,
            "status": str,
            "stop": str,
            "answer": bool,
        }
    ],
    "certificates": [
        {
            "method": str,
            "output": str,
            "gap": MaybeNumber,
            "x": MaybeNumber,
            "y": MaybeNumber,
            "shift": Number,
            "rounding": Number,
            "reason": str,
        }
    ],
    "solutions": [
        {
            "method": str,
            "output": str,
            "blocks": [
                {
                    "name": str,
                    "kind": {"entries", "singular values"},
                    "values": [MaybeNumber],
                    "exact": Maybe([MaybeNumber]),
                }
            ],
        }
    ],
    "model": Maybe(
        {
            "target": str,
            "goal": str,
            "meaning": str,
            "scores": [str],
            "coefficients": [{"feature": str, "unit": [Number], "deviation": [Number]}],
            "zeros": int,
            "intercept": [Number],
            "measures": Maybe(
                {
                    "rows": int,
                    "names": [str],
                    "overall": [MaybeNumber],
                    "worst": [MaybeNumber],
                    "clients": [{"name": str, "trained": Maybe(int), "values": [MaybeNumber]}],
                }
            ),
        }
    ),
    "notes": [str],
}
DATA = {
    "title": str,
    "headline": str,
    "small": str,
    "panels": [PANEL],
    "styles": {str: {"color": str, "dark": str, "dash": [Number], "marker": str}},
    "claims": [
        {
            "claim": str,
            "verdict": {"agrees", "agrees only if", "does not agree"},
            "why": str,
            "readings": [{"reading": str, "experiment": str, "holds": bool, "measured": str}],
            "small": bool,
        },
    ],
    "repeat": {"command": str, "versions": {str: str}, "machine": {str: object}, "created": str, "seeds": str},
}


def check_report(data: Json) -> None:
    """Refuse data of another shape than DATA, or curves of unequal lengths, with the place where it is."""
    _check(data, DATA, "data")
    for i, panel in enumerate(data["panels"]):
        for j, curve in enumerate(panel["curves"]):
            _check_lengths(curve, f"data['panels'][{i}]['curves'][{j}]")


def _check(value: Any, shape: Any, where: str) -> None:
    if isinstance(shape, Maybe):
        if value is not None:
            _check(value, shape.shape, where)
    elif isinstance(shape, dict):
        _expect(isinstance(value, dict), where, value, "a dict")
        if str in shape:
            shape = dict.fromkeys(value, shape[str])
        for key, inner in shape.items():
            if key not in value:
                raise ValueError(f"{where} lacks the key {key!r}; it has {', '.join(map(repr, value)) or 'none'}")
            _check(value[key], inner, f"{where}[{key!r}]")
    elif isinstance(shape, list):
        _expect(isinstance(value, list | tuple), where, value, "a list")
        leaf = isinstance(shape[0], type | UnionType)
        for i, element in enumerate(value):
            if not (leaf and isinstance(element, shape[0])):  # long lists of numbers cost no call each
                _check(element, shape[0], f"{where}[{i}]")
    elif isinstance(shape, set):
        _expect(isinstance(value, str) and value in shape, where, value, " or ".join(map(repr, sorted(shape))))
    else:
        _expect(isinstance(value, shape), where, value, getattr(shape, "__name__", str(shape)))


def _expect(holds: bool, where: str, value: object, accepted: str) -> None:
    if not holds:
        raise ValueError(f"{where} must be {accepted}, got {value!r:.60}")


def _check_lengths(curve: Json, where: str) -> None:
    columns = {key: curve[key] for key in ("exchanges", "seconds", "megabytes")}
    for name, series in {"gap": curve["gap"], **curve["structure"]}.items():
        columns |= {f"{name} {key}": values for key, values in series.items()}
    for name, values in columns.items():
        if len(values) != len(curve["round"]):
            raise ValueError(f"{where}: {name} has {len(values)} entries, but round has {len(curve['round'])}")


SCRIPTS = ("text.js", "axes.js", "chart.js", "touch.js", "tables.js", "curves.js", "model.js", "panel.js", "page.js")
"""In the order in which they build on each other; together they are one script."""


def render(data: Json) -> str:
    """The page of `data`, which has the shape DATA; nan and infinities become null, which is never drawn."""
    studies = "".join(study_section(study, data["small"]) for study in data.get("studies", ()))
    model = data.get("fitted")
    data = {key: value for key, value in data.items() if key not in ("studies", "fitted")}
    check_report(data)
    # nan and infinities are the only constants that Python's JSON has beyond the standard's.
    finite = json.loads(json.dumps(data | {"nonzero": NONZERO}), parse_constant=lambda name: None)
    return Template(_read("page.html")).substitute(
        title=escape_html(data["title"]),
        headline=escape_html(data["headline"]),
        small=f'<p class="banner" role="note">This is {escape_html(data["small"])}.</p>' if data["small"] else "",
        committee="" if model is None else committee_section(model),
        lead="" if model is None else " lead",
        panels=_panels(data, folded=model is not None),
        studies=studies,
        css=_read("page.css"),
        js="\n".join(map(_read, SCRIPTS)),
        # Within a script element only "<" can end it or open a comment; within a JSON string it may be escaped.
        data=json.dumps(_visible(finite), allow_nan=False).replace("<", "\\u003c"),
    )


def _panels(data: Json, folded: bool) -> str:
    """The sections of panels; behind a fold where the page is of a model, whose readers ask other things first."""
    sections = "\n".join(_shell(panel, i, data["title"]) for i, panel in enumerate(data["panels"]))
    if not (folded and sections):
        return sections
    summary = "<summary>How the optimization went: certified gaps, density, the parts of the certificate</summary>"
    return f'<section class="committee"><details id="optimization">{summary}{sections}</details></section>'


def _shell(panel: Json, i: int, title: str) -> str:
    """The section of a panel, with its title where that of the page is another one."""
    heading = "" if panel["title"] == title else f"<h2>{escape_html(panel['title'])}</h2>"
    attributes = f'id="panel-{i}" data-name="{escape_html(panel["name"])}" aria-label="{escape_html(panel["title"])}"'
    return f'<section class="panel" {attributes}>{heading}</section>'


def _read(name: str) -> str:
    return files(__package__).joinpath("web", name).read_text(encoding="utf-8")


def _visible(data: object) -> Any:
    """Plain data with every word of it shown as it is."""
    if isinstance(data, dict):
        return {visible(key): _visible(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_visible(value) for value in data]
    return visible(data) if isinstance(data, str) else data

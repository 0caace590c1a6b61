"""Pieces of the page for a committee: sections, sentences, lists and folds, as HTML."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..display import escape_html
from ..models import Model
from ..storage import Json

PERCENT = 95
"""Of intervals, unless they say otherwise."""


def section(name: str, title: str, body: str) -> str:
    """A section of the page; name: of its kind, by which the style and the contents know it."""
    return f'<section class="committee {name}" aria-labelledby="{name}"><h2 id="{name}">{title}</h2>{body}</section>'


def paragraph(text: str, kind: str = "") -> str:
    """A sentence or more."""
    return f'<p class="{kind}">{escape_html(text)}</p>' if kind else f"<p>{escape_html(text)}</p>"


def bullets(texts: Iterable[Any]) -> str:
    """Sentences below one another."""
    return "<ul>" + "".join(f"<li>{escape_html(str(text))}</li>" for text in texts) + "</ul>"


def fold(summary: str, body: str, is_open: bool = False) -> str:
    """What is seen when it is opened."""
    return f"<details{' open' if is_open else ''}><summary>{escape_html(summary)}</summary>{body}</details>"


def end_sentence(text: str) -> str:
    """A sentence with its full stop."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def count(number: int, noun: str) -> str:
    """How many of something."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def part_of(model: Model, name: str) -> Json:
    """A part of what is kept of the training; an empty one where there is none."""
    part = model.training.get(name)
    return dict(part) if isinstance(part, Mapping) else {}


def scroll_table(name: str, head: str, lines: Sequence[str]) -> str:
    """A table that is moved sideways where the page is narrow."""
    table = f"<table><caption>{name}</caption><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">{table}</div>'

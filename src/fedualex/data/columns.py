"""What the columns of a table hold: numbers or text, at one client and at all of them."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..summaries import Known, Summary
from ..validation import missing, plain_array, short
from .moments import sums
from .tables import Table, from_values

CATEGORIES = "categories of "
"""Before the name of a column, the name of its categories in a summary."""
ENOUGH = 20
"""Texts of a client from which on it can be seen whether they are categories."""
MOST_DISTINCT = 0.5
"""The share of different texts above which a column holds no categories: less than two rows have the same."""
MOST_DATES = 0.5
"""The share of dates above which a column is one of dates."""
DATE = re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}([T ].*)?")
"""2026-11-17, 17.11.2026, 11/17/26, each with or without a time."""


def plain_table(table: Mapping[str, Any]) -> Table:
    """The table with columns of numbers, nan where one is missing, and of text, "" where one is."""
    return Table({name: plain_column(name, column) for name, column in table.items()}, "the table")


def plain_column(name: str, values: object) -> NDArray[Any]:
    """A column as numbers with nan or as text with "" where a value is missing."""
    column = plain_array(f"the column {name!r}", values)
    if column.dtype.kind == "O":
        return from_values(column.tolist())
    return column if column.dtype.kind in "fiubU" else np.where(missing(column), "", column.astype(str))


def is_text(column: NDArray[Any]) -> bool:
    """Whether a plain column is one of text."""
    return column.dtype.kind == "U"


def column_of_kind(name: str, column: NDArray[Any], text: bool) -> NDArray[Any]:
    """A plain column as text or as numbers; one in which all is missing can be either, any other is what it is."""
    if missing(column).all():
        return np.full(len(column), "" if text else np.nan)
    if is_text(column) != text:
        fitted, found = ("text", "numbers") if text else ("numbers", "text")
        raise ValueError(f"the column {name!r} must hold {fitted}, as when it was fitted, got {found}")
    return column


def summarize_columns(table: Table, weight: Any = None) -> Summary:
    """What a client says of its columns, in the sorted order of their names, and where they stand in its table.

    text: 2 if there is some, 1 for an empty column of text, else 0. number: 1 if there are some, else 0. count, total:
    how many numbers there are, and their sum, in which rows count by their weights if they have some. empty: how many
    rows of a column of text hold none. texts, distinct, dates: how many texts there are, how many different ones, and
    how many dates, where that says something. No text leaves before it is known which columns are categories.
    """
    names = sorted(table)
    columns = [table[name] for name in names]
    there = [not missing(column).all() for column in columns]
    text = [is_text(column) for column in columns]
    numbers = [np.full(table.rows, np.nan) if is_text(column) else column for column in columns]
    own = sums(np.stack(numbers, axis=1), weight=weight)
    kinds = {
        "text": np.array([is_one * (1 + some) for is_one, some in zip(text, there, strict=True)]),
        "number": np.array([int(some and not is_one) for is_one, some in zip(text, there, strict=True)]),
    }
    texts = [
        column[column != ""] if is_one else np.array([], str) for column, is_one in zip(columns, text, strict=True)
    ]
    told = [values if len(values) >= ENOUGH else values[:0] for values in texts]
    return Summary(
        sums={
            "count": own.count,
            "total": own.total,
            "empty": np.array([is_one * (table.rows - len(t)) for is_one, t in zip(text, texts, strict=True)]),
            "texts": np.array([len(values) for values in told]),
            "distinct": np.array([len(np.unique(values)) for values in told]),
            "dates": np.array([sum(DATE.fullmatch(value) is not None for value in values) for values in told]),
        },
        largest=kinds,
        labels={"columns": np.array(names)},
        each={"place": np.array([list(table).index(name) for name in names])},
    )


def summarize_categories(table: Table, known: Known) -> dict[str, NDArray[Any]]:
    """The texts of a client's columns that hold categories, but not how often they occur."""
    columns = {name: column_of_kind(name, table[name], text=True) for name in known_categories(known)}
    return {CATEGORIES + name: np.unique(column[column != ""]) for name, column in columns.items()}


def known_categories(known: Known) -> list[str]:
    """The columns of text that hold categories."""
    apart = known_no_categories(known)
    return [name for name, text in known_kinds(known).items() if text and name not in apart]


def known_no_categories(known: Known) -> dict[str, str]:
    """The columns of text that hold no categories, each with what it holds instead."""
    found = {}
    for name in (name for name, text in known_kinds(known).items() if text):
        i = known["columns"].tolist().index(name)
        if known["dates"][i] > MOST_DATES * known["texts"][i]:
            found[name] = "dates"
        elif known["distinct"][i] > MOST_DISTINCT * known["texts"][i]:
            found[name] = "texts of which most are different"
    return found


def known_constants(known: Known, categories: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The columns of text with the same text in every row, each with what it holds."""
    full = known["empty"] == 0
    single = [name for name, found in categories.items() if len(found) == 1]
    return {name: "the same text in every row" for name in single if full[known["columns"].tolist().index(name)]}


def known_kinds(known: Known) -> dict[str, bool]:
    """The columns in the order of the first client, each with whether it holds text."""
    names = known["columns"].tolist()
    if len(names) != known["text"].size:
        raise ValueError(f"all clients must have the same {known['text'].size} columns, got {short(names)}")
    both = (known["text"] == 2) & (known["number"] == 1)
    if both.any():
        name = names[np.argmax(both)]
        raise ValueError(f"the column {name!r} must hold text at all clients or numbers at all, got both")
    text = (known["text"] > 0) & (known["number"] == 0)
    return {names[i]: bool(text[i]) for i in np.argsort(known["place"][0])}


def known_moments(known: Known, numbers: tuple[str, ...]) -> Known:
    """Counts and sums of these columns alone."""
    kept = np.searchsorted(known["columns"], numbers)
    return {"count": known["count"][kept], "total": known["total"][kept]}

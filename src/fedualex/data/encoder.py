"""From a table with numbers, categories and holes to a matrix."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..accepted import Columns
from ..arrays import Reals, Values
from ..summaries import Known, Summary, merge_summaries
from ..validation import (
    encode_labels,
    one_of,
    row_weights,
    rows_of,
    short,
)
from .columns import (
    Table,
    code_of,
    column_of_kind,
    complete_rows,
    holes,
    is_text,
    named_columns,
    plain_column,
    plain_table,
    refuse_twins,
)
from .curves import FEWEST_IN_BIN, FEWEST_VALUES, Curve, curve_of, histogram
from .moments import Standardizer, added, sums
from .stored import STRETCH, StoredTable

CATEGORIES, COUNTS = "categories of ", "counts of "
"""Before the name of a column, the names of its categories in a summary, and of how often they occur."""
HISTOGRAM, VALUES = "histogram of ", "values of "
"""Before the name of a column that may bend: how many rows are in each bin, and how many different values there are."""
APART = "missing apart"
"""In a summary, for each two columns with holes: in how many rows one of them is missing alone."""
TIE = 1e-9
"""Counts within this share of each other are equal: under masks, sums of weights are rounded."""
ENOUGH = 20
"""Texts of a client from which on it can be seen whether they are categories."""
MOST_DISTINCT = 0.5
"""The share of different texts above which a column holds no categories: less than two rows have the same."""
MOST_DATES = 0.5
"""The share of dates above which a column is one of dates."""
DATE = re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}([T ].*)?")
"""2026-11-17, 17.11.2026, 11/17/26, each with or without a time."""


POINTS, BEYOND = 41, 0.1
"""Of a curve that is drawn, and how far it goes beyond the outer knots, as a share of what is between them."""
MEAN, INDICATOR, DROP = MISSING = ("mean", "indicator", "drop")
ONCE = "the same text wherever there is one: missing = indicator tells where"
"""What a column holds that tells something by its holes alone."""


@dataclass(frozen=True)
class Coding:
    """How columns become features, as all clients agree before anybody's rows are seen.

    categories: columns of numbers that are codes of categories. smooth: columns of numbers whose effect may bend.
    interact: pairs of columns whose products are features as well. reference: for a column of categories the one that
    the others are compared with, where it is not to be the most frequent. missing: "mean", which missing values count
    as; "indicator", also a 0/1 column that says where they are; or "drop": rows with holes are left out.
    """

    categories: tuple[str, ...] = ()
    reference: Mapping[str, str] = field(default_factory=dict)
    missing: str = MEAN
    smooth: tuple[str, ...] = ()
    interact: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        one_of("missing", self.missing, MISSING)


PLAIN = Coding()


def summarize_columns(table: Table, weight: Any = None) -> Summary:
    """What a client says of its columns, in the sorted order of their names, and where they stand in its table.

    text: 2 if there is some, 1 for an empty column of text, else 0. number: 1 if there are some, else 0. count, total:
    how many numbers there are, and their sum. empty: how many rows of a column hold nothing. In these three rows count
    by their weights if they have some. texts, distinct, dates: how many texts there are, how many different ones, and
    how many dates, where that says something. No text leaves before it is known which columns are categories.
    """
    names, place = sorted(table), {name: i for i, name in enumerate(table)}
    facts = [_facts_of(table[name], weight) for name in names]
    own = added(sums(rows, weight=part) for rows, part in _blocks(table, tuple(names), weight))
    return Summary(
        sums={
            "count": own.count,
            "total": own.total,
            **{key: np.array([one[key] for one in facts]) for key in ("empty", "texts", "distinct", "dates")},
        },
        largest={key: np.array([one[key] for one in facts]) for key in ("text", "number")},
        labels={"columns": np.array(names)},
        each={"place": np.array([place[name] for name in names])},
    )


def _facts_of(column: Values, weight: Any) -> dict[str, Any]:
    """What is said of one column beside its moments."""
    gone, text = holes(column), is_text(column)
    some, values = not gone.all(), column[~gone] if text else np.array([], str)
    told = values if len(values) >= ENOUGH else values[:0]
    return {
        "text": text * (1 + some),
        "number": int(some and not text),
        "empty": _count_rows(gone[:, None], weight)[0],
        "texts": len(told),
        "distinct": len(np.unique(told)),
        "dates": sum(DATE.fullmatch(value) is not None for value in told),
    }


def _blocks(table: Table, names: tuple[str, ...], weight: Any = None) -> Iterator[tuple[Values, Any]]:
    """These columns as matrices of successive rows, nan where one holds text, and the weights of these rows."""
    for start in range(0, max(table.rows, 1), STRETCH):
        part = slice(start, start + STRETCH)
        some = table.take(part)
        columns = [np.full(some.rows, np.nan) if is_text(some[name]) else some[name] for name in names]
        yield np.stack(columns, axis=1), None if weight is None else weight[part]


def _count_rows(flags: NDArray[np.bool_], weight: Any) -> Reals:
    """In how many rows each of these is so, by the weights of rows if they have some."""
    return np.asarray(flags.sum(axis=0) if weight is None else weight @ flags)


def summarize_categories(table: Table, known: Known, coding: Coding) -> dict[str, Values]:
    """The texts of a client's columns that hold categories."""
    columns = {name: column_of_kind(name, table[name], text=True) for name in known_categories(known, coding)}
    return {CATEGORIES + name: np.unique(column[column != ""]) for name, column in columns.items()}


def summarize_counts(table: Table, known: Sequence[Known], coding: Coding, weight: object) -> dict[str, Reals]:
    """In how many rows of a client each category is, and two columns with holes are not missing together."""
    counts = {}
    for name, levels in known_levels(known, coding).items():
        column = column_of_kind(name, table[name], text=True)
        counts[COUNTS + name] = _count_rows(column[:, None] == np.array(levels, str)[None, :], weight)
    if coding.missing == INDICATOR:
        names = known_holes(known, coding)
        gone = np.array([holes(table[name]) for name in names], bool).reshape(len(names), table.rows).T
        apart = [_count_rows(gone ^ gone[:, [i]], weight) for i in range(len(names))]
        counts[APART] = np.array(apart, float).reshape(len(names), len(names))
    return counts


def summarize_histograms(
    table: Table, known: Sequence[Known], coding: Coding, weight: object, fewest: int
) -> tuple[dict[str, Reals], dict[str, Reals]]:
    """Histograms of a client's columns that may bend, and how many different values each has, up to FEWEST_VALUES."""
    moments = _known_standardizer(known, known_numbers(known)) if coding.smooth else None
    bins, values = dict[str, Reals](), dict[str, Reals]()
    for name in coding.smooth:
        if moments is None or name not in known_numbers(known):
            raise ValueError(f"smooth: the column {name!r} must hold numbers")
        column = column_of_kind(name, table[name], text=False)
        at = known_numbers(known).index(name)
        bins[HISTOGRAM + name] = histogram((column - moments.mean[at]) / (moments.deviation[at] or 1), weight, fewest)
        different = np.unique(column[~np.isnan(column)]).size
        values[VALUES + name] = np.array(min(different, FEWEST_VALUES) if moments.deviation[at] else 0)
    return bins, values


def known_levels(known: Sequence[Known], coding: Coding) -> dict[str, tuple[str, ...]]:
    """The columns of categories that take part, each with its categories in sorted order."""
    left_out = known_left_out(known, coding)
    every = {name: tuple(known[1][CATEGORIES + name].tolist()) for name in known_categories(known[0], coding)}
    return {name: levels for name, levels in every.items() if name not in left_out}


def known_left_out(known: Sequence[Known], coding: Coding) -> dict[str, str]:
    """The columns of text that take no part, each with what it holds."""
    every = {name: tuple(known[1][CATEGORIES + name].tolist()) for name in known_categories(known[0], coding)}
    return {**known_no_categories(known[0], coding), **known_constants(known[0], every, coding)}


def known_holes(known: Sequence[Known], coding: Coding) -> tuple[str, ...]:
    """The columns that take part and miss values somewhere, but not everywhere."""
    names, levels = known[0]["columns"].tolist(), known_levels(known, coding)
    empty, count = (dict(zip(names, known[0][key].tolist(), strict=True)) for key in ("empty", "count"))
    numbers = [name for name in known_numbers(known) if count[name] > 0]
    return tuple(name for name in (*numbers, *(name for name in levels if levels[name])) if empty[name] > 0)


def known_indicators(known: Sequence[Known], coding: Coding) -> tuple[tuple[str, ...], ...]:
    """The columns with holes, those together that are missing in the same rows."""
    groups: list[list[int]] = []
    if coding.missing != INDICATOR:
        return ()
    names, apart = known_holes(known, coding), known[2][APART]
    for i in range(len(names)):
        if same := next((group for group in groups if apart[group[0], i] == 0), None):
            same.append(i)
        else:
            groups.append([i])
    return tuple(tuple(names[i] for i in group) for group in groups)


def known_reference(name: str, levels: tuple[str, ...], counts: Reals, coding: Coding) -> str:
    """The category that the others of a column are compared with: the most frequent, if none is chosen."""
    chosen = coding.reference.get(name)
    if chosen is None:
        return levels[int(np.argmax(counts >= (1 - TIE) * counts.max()))] if levels else ""
    chosen = code_of(chosen) if name in coding.categories else chosen
    if chosen not in levels:
        raise ValueError(f"reference: the column {name!r} has no category {chosen!r}; it has {short(list(levels))}")
    return chosen


def known_categories(known: Known, coding: Coding) -> list[str]:
    """The columns of text that hold categories."""
    apart = known_no_categories(known, coding)
    return [name for name, text in known_kinds(known).items() if text and name not in apart]


def known_no_categories(known: Known, coding: Coding) -> dict[str, str]:
    """The columns of text that hold no categories, each with what it holds instead; none that is named as one."""
    reasons, place = {}, {name: i for i, name in enumerate(known["columns"].tolist())}
    for name in (name for name, text in known_kinds(known).items() if text and name not in coding.categories):
        i = place[name]
        if known["dates"][i] > MOST_DATES * known["texts"][i]:
            reasons[name] = "dates"
        elif known["distinct"][i] > MOST_DISTINCT * known["texts"][i]:
            reasons[name] = "texts of which most are different"
    return reasons


def known_constants(known: Known, categories: Mapping[str, tuple[str, ...]], coding: Coding) -> dict[str, str]:
    """The columns with one category, each with what it holds; with holes that have an indicator they take part."""
    full = dict(zip(known["columns"].tolist(), (known["empty"] == 0).tolist(), strict=True))
    single = [name for name, values in categories.items() if len(values) == 1]
    kept = [name for name in single if full[name] or coding.missing != INDICATOR]
    return {name: "the same text in every row" if full[name] else ONCE for name in kept}


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


@dataclass(frozen=True, eq=False)
class Encoder:
    """Numbers are standardized by federated moments; categories become 0/1 columns, one for each but the reference.

    So a coefficient of a category is its difference from the reference, which is the most frequent category over all
    clients unless another was chosen. What is missing, and a category that was not there in training, counts as the
    mean: 0 for a number, the shares of the categories for a category. Constant columns become 0 (`Standardizer`). 0/1
    columns are not rescaled.

    standardizer: the moments of the columns of numbers. Make an encoder with `Encoder.fit`.
    """

    numbers: tuple[str, ...]
    categories: dict[str, tuple[str, ...]]
    standardizer: Standardizer | None
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The columns of text that take no part, each with what it holds instead of categories."""
    references: Mapping[str, str] = field(default_factory=dict)
    """For each column of categories the one that the others are compared with."""
    shares: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """For each column of categories the share of each among the rows where it is known."""
    indicators: tuple[tuple[str, ...], ...] = ()
    """The columns whose holes have a 0/1 column, those together that are missing in the same rows. Of several, a row
    has the share of them that it misses."""
    codes: tuple[str, ...] = ()
    """The columns of numbers that are categories."""
    missing: str = MEAN
    """One of "mean", "indicator", "drop"."""
    curves: Mapping[str, Curve] = field(default_factory=dict)
    """For each column of numbers that may bend, its curved part, which counts as 0 where a value is missing."""
    products: tuple[tuple[str, str], ...] = ()
    """Pairs of columns whose encoded columns are multiplied, each with each; of numbers that bend the straight part."""

    exchanges: ClassVar[int] = 3

    @classmethod
    def fit(
        cls,
        table: Columns,
        clients: object = None,
        sample_weight: object = None,
        coding: Coding = PLAIN,
    ) -> "Encoder":
        """What the columns hold, from the summaries of each client; clients None is one client.

        sample_weight: None, or a number >= 0 for each row, in proportion to which it counts in means, deviations and
        counts. coding: how columns become features; with missing="drop" only rows without holes count.
        """
        whole = plain_table(table)
        number = np.zeros(whole.rows, int) if clients is None else encode_labels("clients", clients, whole.rows)[1]
        weight = None if sample_weight is None else row_weights(sample_weight, whole.rows)
        kept = complete_rows(whole) if coding.missing == DROP else np.ones(whole.rows, bool)
        owned = [rows[kept[rows]] for rows in rows_of(number)]
        parts = [(whole.take(rows), None if weight is None else weight[rows]) for rows in owned]
        known: list[Known] = []
        for _ in range(cls.exchanges):
            known.append(merge_summaries(cls.summarize(part, known, own, coding) for part, own in parts))
        return cls.from_known(known, coding)

    @classmethod
    def summarize(
        cls,
        table: Columns,
        known: Sequence[Known],
        weight: object = None,
        coding: Coding = PLAIN,
        fewest: int = FEWEST_IN_BIN,
    ) -> Summary:
        """At one client: what its columns hold; its categories and squared deviations from the mean of all; counts.

        fewest: rows of a bin of its histograms at least.
        """
        own = (
            table.read_as_codes(coding.categories)
            if isinstance(table, StoredTable)
            else plain_table(table, coding.categories)
        )
        if not known:
            return summarize_columns(own, weight)
        if len(known) == 2:
            counts, (bins, values) = (
                summarize_counts(own, known, coding, weight),
                summarize_histograms(own, known, coding, weight, fewest),
            )
            return Summary(sums=counts | bins, largest=values)
        numbers, words = known_numbers(known), summarize_categories(own, known[0], coding)
        if not numbers:
            return Summary(sums={"squares": np.zeros(0)}, labels=words)
        moments = [known_moments(known[0], numbers)]
        parts = [Standardizer.summarize(rows, moments, part) for rows, part in _blocks(own, numbers, weight)]
        return Summary(sums={"squares": np.sum([part.sums["squares"] for part in parts], axis=0)}, labels=words)

    @classmethod
    def from_known(cls, known: Sequence[Known], coding: Coding = PLAIN) -> "Encoder":
        """From the merged summaries of all exchanges."""
        numbers, categories, left_out = known_numbers(known), known_levels(known, coding), known_left_out(known, coding)
        for name, levels in categories.items():
            refuse_twins(f"the column {name!r}", levels)
        counts = {name: np.asarray(known[2][COUNTS + name], float) for name in categories}
        chosen = {name: known_reference(name, levels, counts[name], coding) for name, levels in categories.items()}
        if other := [name for name in coding.reference if name not in categories]:
            raise ValueError(
                f"reference: the column {other[0]!r} holds no categories; columns of numbers are named in categories"
            )
        shares = {name: tuple((own / max(own.sum(), np.finfo(float).tiny)).tolist()) for name, own in counts.items()}
        moments = _known_standardizer(known, numbers)
        encoder = cls(
            numbers,
            categories,
            moments,
            left_out,
            chosen,
            shares,
            known_indicators(known, coding),
            tuple(name for name in categories if name in coding.categories),
            coding.missing,
            {
                name: curve_of(known[2][HISTOGRAM + name], float(known[2][VALUES + name]), name)
                for name in coding.smooth
            },
            _known_products(coding, (*numbers, *categories), left_out),
        )
        if not encoder.features:
            held = ", ".join(f"{name} holds {what}" for name, what in left_out.items())
            raise ValueError(f"a table must have columns of numbers or categories; {held}")
        return encoder

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the matrix's columns."""
        contrasts = (f"{name}={c} (against {self.references[name]})" for name, c in self.contrasts)
        bent = (f"{name} (curve {j + 1})" for name, curve in self.curves.items() for j in range(curve.size))
        missing = (f"{', '.join(group)} missing" for group in self.indicators)
        return (*self.numbers, *contrasts, *missing, *bent, *self.product_names)

    @property
    def product_names(self) -> list[str]:
        """The names of the products of columns."""
        return [f"{a}:{b}" for a, b in self._factors]

    @property
    def _factors(self) -> list[tuple[str, str]]:
        """Of each product the two columns that are multiplied."""
        names = [*self.numbers, *(f"{name}={c}" for name, c in self.contrasts)]
        return [(a, b) for one, other in self.products for a in names[self._of(one)] for b in names[self._of(other)]]

    @property
    def bent(self) -> dict[str, slice]:
        """Where the curves are among the features."""
        place = len(self.numbers) + len(self.contrasts) + len(self.indicators)
        places: dict[str, slice] = {}
        for name, curve in self.curves.items():
            places[name] = slice(place, place + curve.size)
            place += curve.size
        return places

    @property
    def together(self) -> NDArray[np.intp]:
        """For each feature a number, one for all of a curve: what a penalty makes zero together."""
        firsts = np.arange(len(self.features))
        for place in self.bent.values():
            firsts[place] = place.start
        return firsts

    @property
    def scales(self) -> NDArray[np.float64]:
        """For each feature by what its columns were divided; 1 for what is no number, 0 for what does not vary."""
        scale = np.ones(len(self.features))
        if self.standardizer is not None:
            scale[: len(self.numbers)] = self.standardizer.deviation
        own = [np.outer(scale[self._of(one)], scale[self._of(other)]).ravel() for one, other in self.products]
        scale[len(scale) - sum(map(len, own)) :] = np.concatenate([np.zeros(0), *own])
        return scale

    @property
    def origin(self) -> NDArray[np.float64]:
        """The encoded row of zeros that is in the reference of all categories."""
        row = np.zeros((1, len(self.numbers) + len(self.contrasts) + len(self.indicators)))
        if (scale := self.standardizer) is not None:
            row[0, : len(self.numbers)] = -scale.mean / np.where(scale.deviation > 0, scale.deviation, np.inf)
        return self._with_curves_and_products(row, {name: np.zeros(1, bool) for name in self.curves})[0]

    def curve_at(self, name: str, values: Values) -> NDArray[np.float64]:
        """Rows whose column of this name, which bends, has these values, less a row that has its middle knot."""
        assert self.standardizer is not None
        knots, at = self.knots(name), self.numbers.index(name)
        every, rows = np.append(values, knots[len(knots) // 2]), np.zeros((len(values) + 1, len(self.features)))
        rows[:, at] = (every - self.standardizer.mean[at]) / self.standardizer.deviation[at]
        rows[:, self.bent[name]] = self.curves[name].values(rows[:, at])
        return np.asarray(rows[:-1] - rows[-1])

    @property
    def squares(self) -> NDArray[np.float64]:
        """For each feature a bound of the mean of its squares in training; inf of curves and of products of numbers."""
        ends = np.ones(len(self.features))
        for place in self.bent.values():
            ends[place] = np.inf
        both = [np.isin([one, other], self.numbers).all() for one, other in self._factors]
        ends[len(ends) - len(both) :][both] = np.inf
        return ends

    def knots(self, name: str) -> NDArray[np.float64]:
        """Those of a column that bends, in its units."""
        assert self.standardizer is not None
        at = self.numbers.index(name)
        return self.standardizer.mean[at] + self.standardizer.deviation[at] * np.array(self.curves[name].knots)

    def curve_grid(self, name: str) -> NDArray[np.float64]:
        """Values of a column that bends at which its curve is drawn, some of them beyond the outer knots."""
        knots = self.knots(name)
        room = BEYOND * (knots[-1] - knots[0])
        return np.linspace(knots[0] - room, knots[-1] + room, POINTS)

    def _of(self, name: str) -> slice:
        """Where the features of one column are: a number, or categories but the reference."""
        if name in self.numbers:
            return slice(self.numbers.index(name), self.numbers.index(name) + 1)
        place = len(self.numbers) + next((i for i, (own, _) in enumerate(self.contrasts) if own == name), 0)
        return slice(place, place + sum(own == name for own, _ in self.contrasts))

    @property
    def contrasts(self) -> list[tuple[str, str]]:
        """The columns of categories, each with its categories but the reference."""
        return [(name, c) for name, levels in self.categories.items() for c in levels if c != self.references[name]]

    def transform(self, table: Columns) -> Reals:
        """The matrix of a table with the columns that were fitted; it may have more."""
        table = named_columns(table)
        gone = [name for name in (*self.numbers, *self.categories) if name not in table]
        if gone:
            raise ValueError(f"the table must have the column {gone[0]!r}, which was there when it was fitted")
        kinds = dict.fromkeys(self.numbers, False) | dict.fromkeys(self.categories, True)
        whole = Table({name: self.column(table, name, text) for name, text in kinds.items()}, "the table")
        blocks: list[Reals] = []
        if self.standardizer is not None:
            blocks.append(self.standardizer.transform(_matrix(whole, self.numbers)))
        for name, levels in self.categories.items():
            member = whole[name][:, None] == np.array(levels, str)[None, :]
            block = np.where(member.any(axis=1)[:, None], member, np.array(self.shares[name]))
            blocks.append(block[:, [level != self.references[name] for level in levels]])
        for group in self.indicators:
            blocks.append(np.mean([holes(whole[name]) for name in group], axis=0)[:, None])
        gone_rows = {name: np.isnan(whole[name]) for name in self.curves}
        return self._with_curves_and_products(np.concatenate(blocks, axis=1), gone_rows)

    def _with_curves_and_products(self, rows: Reals, gone: Mapping[str, NDArray[np.bool_]]) -> NDArray[np.float64]:
        """The whole matrix from the columns before them. gone: where a column that bends is missing."""
        bent = [
            np.where(gone[name][:, None], 0.0, curve.values(rows[:, self.numbers.index(name)]))
            for name, curve in self.curves.items()
        ]
        products = [
            (rows[:, self._of(one), None] * rows[:, None, self._of(other)]).reshape(len(rows), -1)
            for one, other in self.products
        ]
        return np.concatenate([rows, *bent, *products], axis=1)

    def column(self, table: Columns, name: str, text: bool) -> NDArray[Any]:
        """A column of a table, as it was when it was fitted."""
        return column_of_kind(name, plain_column(name, table[name], name in self.codes), text)


def _known_products(
    coding: Coding, columns: tuple[str, ...], left_out: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """The pairs, of columns that take part."""
    for name in (name for pair in coding.interact for name in pair if name not in columns):
        why = f"takes no part: it holds {left_out[name]}" if name in left_out else "is none of the features"
        raise ValueError(f"interact: the column {name!r} {why}")
    return coding.interact


def _known_standardizer(known: Sequence[Known], numbers: tuple[str, ...]) -> Standardizer | None:
    if not numbers:
        return None
    moments = Standardizer.from_known([known_moments(known[0], numbers), known[1]])
    if np.any(large := ~np.isfinite(moments.mean + moments.deviation)):
        name = numbers[int(np.argmax(large))]
        raise ValueError(f"the column {name!r} must have a variance that float64 can hold: divide it by its size")
    return moments


def known_numbers(known: Sequence[Known]) -> tuple[str, ...]:
    """The columns of numbers."""
    return tuple(name for name, text in known_kinds(known[0]).items() if not text)


def _matrix(table: Table, names: tuple[str, ...]) -> Reals:
    return np.stack([column_of_kind(name, table[name], text=False) for name in names], axis=1)

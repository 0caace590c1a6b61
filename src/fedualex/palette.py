"""How methods look in every figure and on every page: the one table of colors, dashes and markers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

COLORS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F"),
    *("#882255", "#999933", "#332288", "#44AA99"),
)
"""Okabe and Ito's colors, which stay apart for color-blind readers, without their yellow; a grey; and four of Tol's."""
ON_DARK = (
    *("#4BA6E8", "#FF8A45", "#35C79B", "#E8A0C8", "#F2B632", "#9AD6F7", "#F2F4F6", "#9AA3AB"),
    *("#F0647F", "#C8C85A", "#A79BF5", "#7FDCCB"),
)
"""The same hues, light enough for a dark page."""
DASHES: tuple[tuple[float, ...], ...] = (
    *((), (3.7, 1.6), (6.4, 1.6, 1, 1.6), (1, 1.65), (5, 1), (3, 1, 1, 1), (1, 1), (7, 3)),
    *((), (4, 1.6), (1.2, 1.2), (6, 1.6, 1, 1.6, 1, 1.6)),
)
"""Lengths of strokes and breaks, in widths of the line."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "h", "<", ">")

PLACES = {
    "FeDualEx": 0,
    "FedDualAvg": 1,
    "FedMiP as printed": 2,
    "FedMiP": 3,
    "FedMiP plain averaging": 3,
    "FedMiD as printed": 4,
    "FedMiD": 5,
    "FedMiD plain averaging": 5,
    "ExtraStepLocalSGD": 6,
    "Extra Step Local SGD": 6,
    "FeDualEx unprojected start": 7,
    "LeadSliding": 7,
    "LeadSliding, optimistic": 7 + len(COLORS),
    "FeDualSlide": 8,
    "FeDualSlide, survey": 8 + len(COLORS),
    "FeDualSlide, auto": 8 + 2 * len(COLORS),
    "FeDualExCorrected": 9,
    "FeDualExCorrected, recentered": 9 + len(COLORS),
    "FedGDAGT": 10,
    "SynchronousMirrorProx": 11,
}
"""The place in the tables above that a label has, or else the method behind it; all others take what is free.

A place beyond the tables has a color again, with another dash and another marker: settings of one method.
"""


class Style(NamedTuple):
    """The look of one curve."""

    color: str
    dark: str
    """The color on a dark page."""
    dash: tuple[float, ...]
    marker: str
    """As matplotlib names it."""

    @property
    def linestyle(self) -> Any:
        """The dash as matplotlib takes it."""
        return (0, self.dash) if self.dash else "-"


def style(place: int) -> Style:
    """The look of this place; where the table ends a color returns, with another dash and another marker."""
    turn, color = divmod(place, len(COLORS))
    other = (color + turn) % len(DASHES)
    return Style(COLORS[color], ON_DARK[color], DASHES[other], MARKERS[other])


def styles(methods: Mapping[str, str]) -> dict[str, Style]:
    """A look for each label, no two alike. methods: the name of the method behind each label.

    What has a place of its own in PLACES has it in every figure; who comes second there, or has none, takes the first
    that nobody of this figure has.
    """
    places: dict[str, int] = {}
    for label, method in methods.items():
        own = PLACES.get(label, PLACES.get(method))
        if own is not None and own not in places.values():
            places[label] = own
    for label in methods:
        if label not in places:
            places[label] = next(place for place in range(len(methods)) if place not in places.values())
    return {label: style(places[label]) for label in methods}

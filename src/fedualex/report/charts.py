"""Charts of a fitted model as SVG within the page: drawn here, so that they print and need no script.

A chart's own box is its plot: places in it are percentages, so that it takes any width, while letters and marks keep
their size; ticks and titles stand outside of the box, where the style leaves room for them. Every chart has a title and
a description, which screen readers say.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..display import escape_html
from ..storage import Json
from .numbers import number_text

SQUARE, DIAMOND = "M-4-4H4V4H-4Z", "M0-5.5L5.5 0L0 5.5L-5.5 0Z"
ARROWS = {"left": "M-1 0L6-4V4Z", "right": "M1 0L-6-4V4Z"}
STEPS = (1.0, 2.0, 5.0)
PLOT, SMALL = 280, 190
"""Heights of a chart, and of one of many, in pixels."""
FAR, FAR_LOG, NEAR = 1e300, 690.0, 1e-300
"""How far an axis goes, in numbers and in natural logarithms, and the shortest one: with more, sums and powers are no
numbers. What is beyond has an arrow at the end."""
PLAIN = 1e6
"""Steps between 1 / PLAIN and PLAIN are written out."""


class Axis(NamedTuple):
    """From numbers to percentages; of a logarithmic one, low, high and ticks are logarithms."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]

    def place(self, value: float) -> float:
        """From 0 at low to 100 at high; what is outside is put at the end."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return 100 * min(max(share, 0.0), 1.0)

    def has(self, value: float) -> bool:
        """Whether a number is between the ends, up to rounding."""
        slack = 1e-9 * (self.high - self.low)
        return self.low - slack <= value <= self.high + slack


def linear_axis(low: float, high: float, count: int = 5) -> Axis:
    """Ends as given, with ticks at round numbers between them."""
    low, high = max(low, -FAR), min(high, FAR)
    if not high - low > NEAR:
        low, high = low - 0.5, high + 0.5
    step = _round_step((high - low) / count)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    form = f".{max(0, -math.floor(math.log10(step)))}f" if 1 / PLAIN <= step <= PLAIN else ".3g"
    return Axis(low, high, [(step * k, f"{step * k:{form}}".replace("-", "−")) for k in range(first, last + 1)])


def log_axis(low: float, high: float, count: int = 6) -> Axis:
    """Of numbers whose natural logarithms are between low and high; ticks at 1, 2, 5 times a power of ten, or rarer."""
    low, high = max(low, -FAR_LOG), min(high, FAR_LOG)
    if not high > low:
        low, high = low - 0.5, high + 0.5
    powers = range(math.floor(low / math.log(10)), math.ceil(high / math.log(10)) + 1)
    for steps, every in ((STEPS, 1), ((1.0, 3.0), 1), *(((1.0,), 2**k) for k in range(8))):
        values = [step * 10.0**power for power in powers if power % every == 0 for step in steps]
        ticks = [(math.log(value), f"{value:g}") for value in values if low <= math.log(value) <= high]
        if len(ticks) <= count:
            break
    if len(ticks) < 2:  # a narrow range, within which numbers and their logarithms are nearly in proportion
        ticks = [(math.log(value), text) for value, text in linear_axis(math.exp(low), math.exp(high), 4).ticks]
    return Axis(low, high, ticks)


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next((part * power for part in STEPS if part * power >= step * (1 - 1e-9)), 10 * power)


# Marks and lines.


def mark(path: str, x: float, y: float, kind: str, title: str = "") -> str:
    """A mark whose middle is at these percentages; title: what a pointer over it is told."""
    words = f"<title>{escape_html(title)}</title>" if title else ""
    return f'<svg x="{x:.2f}%" y="{y:.2f}%" class="{kind}"><path d="{path}">{words}</path></svg>'


def dot(x: float, y: float, kind: str, radius: float = 4, title: str = "") -> str:
    """A circle."""
    words = f"<title>{escape_html(title)}</title>" if title else ""
    return f'<circle cx="{x:.2f}%" cy="{y:.2f}%" r="{radius:.1f}" class="{kind}">{words}</circle>'


def segment(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line."""
    return f'<line x1="{x1:.2f}%" y1="{y1:.2f}%" x2="{x2:.2f}%" y2="{y2:.2f}%" class="{kind}"/>'


def shape(points: Sequence[tuple[float, float]], kind: str, closed: bool = False) -> str:
    """A curve, or an area: its box is stretched with the chart, its stroke is not."""
    path = "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in points) + ("Z" if closed else "")
    return f'<svg viewBox="0 0 100 100" preserveAspectRatio="none"><path d="{path}" class="{kind}"/></svg>'


def label(x: float, y: float, text: str, anchor: str, dx: float = 0, dy: float = 0, kind: str = "") -> str:
    """Text at percentages, moved by pixels."""
    place = f'x="{x:.2f}%" y="{y:.2f}%" dx="{dx:g}" dy="{dy:g}" text-anchor="{anchor}"'
    return f'<text {place} class="{kind}">{escape_html(text)}</text>'


def picture(title: str, description: str, body: str, kind: str = "plot", height: float = PLOT) -> str:
    """The chart with its title and description."""
    words = f"<title>{escape_html(title)}</title><desc>{escape_html(description)}</desc>"
    return f'<svg class="{kind}" role="img" height="{height:g}">{words}{body}</svg>'


def frame(x: Axis, y: Axis, x_title: str, y_title: str) -> str:
    """Grid, ticks and the titles of both axes."""
    parts = []
    for value, text in x.ticks:
        at = x.place(value)
        parts += [segment(at, 0, at, 100, "grid"), label(at, 100, text, "middle", dy=17)]
    for value, text in y.ticks:
        at = 100 - y.place(value)
        parts += [segment(0, at, 100, at, "grid"), label(0, at, text, "end", dx=-7, dy=4)]
    parts += [segment(0, 100, 100, 100, "axis"), segment(0, 0, 0, 100, "axis")]
    turned = '<svg x="0" y="50%"><text transform="translate(-46 0) rotate(-90)" text-anchor="middle">{}</text></svg>'
    return "".join([*parts, label(50, 100, x_title, "middle", dy=37), turned.format(escape_html(y_title))])


# The charts.


def whisker(axis: Axis, lower: float, upper: float, y: float, kind: str) -> str:
    """The interval as a line, with an arrow where it goes beyond the axis."""
    ends = segment(axis.place(lower), y, axis.place(upper), y, f"whisker {kind}")
    ends += "" if axis.has(lower) else mark(ARROWS["left"], 0, y, f"full {kind}")
    return ends + ("" if axis.has(upper) else mark(ARROWS["right"], 100, y, f"full {kind}"))


def row_picture(title: str, axis: Axis, body: str, neutral: float | None = None) -> str:
    """A row of a table that is a chart: marks over the axis that `row_axis` draws once for all rows."""
    line = "" if neutral is None else segment(axis.place(neutral), 0, axis.place(neutral), 100, "neutral")
    grid = "".join(segment(axis.place(value), 0, axis.place(value), 100, "grid") for value, _ in axis.ticks)
    words = f"<title>{escape_html(title)}</title>"
    return f'<svg class="row" role="img" height="32">{words}{grid}{line}{body}</svg>'


def row_axis(axis: Axis) -> str:
    """Ticks below the rows; the numbers of every row are in its other cells."""
    parts = [segment(0, 0, 100, 0, "axis")]
    parts += [label(axis.place(value), 0, text, "middle", dy=16) for value, text in axis.ticks]
    return f'<svg class="row" height="22" aria-hidden="true">{"".join(parts)}</svg>'


def draw_roc(
    points: Sequence[Sequence[float]],
    others: Mapping[str, Sequence[Sequence[float]]],
    title: str,
    height: float = PLOT,
) -> str:
    """The ROC curve over those of clients, which are thin."""
    small = height < PLOT
    axis = linear_axis(0.0, 1.0, 2 if small else 5)
    body = frame(axis, axis, "false positive rate", "true positive rate") + segment(0, 100, 100, 0, "neutral")
    body += "".join(shape(_roc_shape(own), "thin") for own in others.values() if own)
    body += shape(_roc_shape(points), "curve")
    words = f"{title}: at a false positive rate of {{}} the true positive rate is {{}}"
    told = [words.format(at, number_text(_rate_at(points, at))) for at in (0.1, 0.2, 0.5)]
    return picture(f"ROC curve, {title}", ". ".join(told) + ".", body, "plot small" if small else "plot", height)


def _roc_shape(points: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """From (0, 0) to (1, 1), by falling thresholds."""
    ordered = sorted((point[1], point[2]) for point in points)
    return [(100 * x, 100 - 100 * y) for x, y in ((0.0, 0.0), *ordered, (1.0, 1.0))]


def _rate_at(points: Sequence[Sequence[float]], rate: float) -> float:
    """The largest true positive rate at which the false positive rate is at most this."""
    return max((point[2] for point in points if point[1] <= rate), default=0.0)


def draw_calibration(bins: Sequence[Sequence[float]], title: str, height: float = PLOT) -> str:
    """Observed shares over predicted risks with intervals; the area of a mark is the number of its rows."""
    small, most = height < PLOT, max((row[0] for row in bins), default=1)
    axis = linear_axis(0.0, 1.0, 2 if small else 5)
    body = frame(axis, axis, "predicted risk", "observed share") + segment(0, 100, 100, 0, "neutral")
    told = []
    for rows, predicted, observed, lower, upper in bins:
        x = axis.place(predicted)
        words = f"predicted {number_text(predicted)}, observed {number_text(observed)} of {rows:g} rows"
        body += segment(x, 100 - axis.place(lower), x, 100 - axis.place(upper), "whisker first")
        radius = (2 if small else 2.5) + (3 if small else 5) * math.sqrt(rows / most)
        body += dot(x, 100 - axis.place(observed), "full first", radius, words)
        told.append(words)
    kind = "plot small" if small else "plot"
    return picture(f"Calibration curve, {title}", "; ".join(told) + ".", body, kind, height)


def draw_path(curve: Json) -> str:
    """The measure with its band of one standard error over the penalty, with the numbers of coefficients on top."""
    values = [math.log(value) for value in curve["values"]]
    measure, error = curve["measure"], curve["error"]
    x = log_axis(min(values), max(values))
    highs = [m + e for m, e in zip(measure, error, strict=True)]
    lows = [m - e for m, e in zip(measure, error, strict=True)]
    room = 0.06 * ((max(highs) - min(lows)) or 1.0)
    y = linear_axis(min(lows) - room, max(highs) + room)
    xs = [x.place(value) for value in values]
    down = [(at, 100 - y.place(low)) for at, low in zip(xs, lows, strict=True)]
    up = [(at, 100 - y.place(high)) for at, high in zip(xs, highs, strict=True)]
    body = frame(x, y, f"penalty {curve['name']}, larger to the right", f"{curve['what']} on held-out rows")
    body += shape([*up, *reversed(down)], "band", closed=True)
    body += shape([(at, 100 - y.place(m)) for at, m in zip(xs, measure, strict=True)], "curve")
    body += _choices(curve, xs, [100 - y.place(m) for m in measure]) + _nonzeros(xs, curve["nonzeros"])
    best, chosen = curve["best"], curve["chosen"]
    said = (
        f"{curve['what']} is least, {number_text(measure[best])}, at {number_text(curve['values'][best])} with "
        f"{curve['nonzeros'][best]} nonzero coefficients; chosen is {number_text(curve['values'][chosen])} with "
        f"{number_text(measure[chosen])} and {curve['nonzeros'][chosen]} nonzero coefficients."
    )
    return picture("The penalty and held-out rows", said, body, "plot path", 300)


def draw_effect(band: Json, model: Sequence[float], knots: Sequence[float], name: str, effect: str, ratio: bool) -> str:
    """An effect over the values of its column: the estimate with its band, the model's own curve, and ticks at knots.

    band: as a model keeps it; without an estimate the model's curve is alone. model: at the same values. effect: what
    the numbers, or if they are logarithms their exponentials, are called.
    """
    parts = [band.get(key) or [] for key in ("estimate", "lower", "upper")]
    whole = not any(value is None for part in parts for value in part) and parts[0]
    estimate, lower, upper = parts if whole else ([], [], [])
    x = linear_axis(band["at"][0], band["at"][-1])
    ends = [0.0, *model, *lower, *upper]
    room = 0.05 * ((max(ends) - min(ends)) or 1.0)
    y = (log_axis if ratio else linear_axis)(min(ends) - room, max(ends) + room)

    def line(values: Sequence[float]) -> list[tuple[float, float]]:
        return [(x.place(at), 100 - y.place(value)) for at, value in zip(band["at"], values, strict=True)]

    body = frame(x, y, name, effect) + segment(0, 100 - y.place(0.0), 100, 100 - y.place(0.0), "neutral")
    if whole:
        body += shape([*line(upper), *reversed(line(lower))], "band", closed=True) + shape(line(estimate), "curve")
    body += shape(line(model), "curve own")
    body += "".join(segment(x.place(knot), 96, x.place(knot), 100, "axis") for knot in knots)
    told = [f"at {number_text(at)} {number_text(value)}" for at, value in zip(band["at"], model, strict=True)][::10]
    return picture(f"The effect of {name}", f"The model adds {', '.join(told)}.", body)


def _choices(curve: Json, xs: Sequence[float], ys: Sequence[float]) -> str:
    """The best value, hollow, and the chosen one; one mark where they are the same."""
    best, chosen = curve["best"], curve["chosen"]
    both = best == chosen
    names = {chosen: ("full first", "best and chosen" if both else "chosen")}
    names |= {} if both else {best: ("hollow first", "best")}
    parts = []
    for index, (kind, word) in names.items():
        anchor, dx = ("end", -6) if xs[index] > 60 else ("start", 6)
        parts += [segment(xs[index], 0, xs[index], 100, "choice"), dot(xs[index], ys[index], kind, 5, word)]
        dy = 14 if index == chosen else 30
        parts.append(label(xs[index], 0, word, anchor, dx, dy, "halo"))
    return "".join(parts)


def _nonzeros(xs: Sequence[float], counts: Sequence[int]) -> str:
    """Numbers of coefficients above the chart, as many as have room on a narrow page."""
    parts = [label(0, 0, "nonzero coefficients", "start", dy=-24, kind="soft")]
    last = math.inf
    for at, count in sorted(zip(xs, counts, strict=True), reverse=True):
        if last - at >= 11:
            parts.append(label(at, 0, str(count), "middle", dy=-7))
            last = at
    return "".join(parts)

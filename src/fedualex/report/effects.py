"""What a committee reads of effects: a table with its forest plot, and a chart of each effect that bends."""

from collections.abc import Collection, Sequence
from typing import Any

from ..display import apart, escape_html
from ..inference.table import shown_rows, unit_text
from ..models import Model
from ..storage import Json
from . import charts
from .charts import Axis
from .numbers import chance_text, coefficient_text, estimate_texts, number_text, ratio_texts
from .parts import PERCENT, bullets, end_sentence, fold, paragraph, part_of, scroll_table, section

MOST_EFFECTS = 40
"""How many effects have a row in the forest plot."""
OWN_INTERCEPTS = "In these effects each client has an intercept of its own; the model that predicts has one for all."


# Effects: a table whose last column is the forest plot.


def effects_part(model: Model) -> str:
    """Effects with intervals, or the model's coefficients and why they have none."""
    effects = part_of(model, "effects")
    if not effects.get("rows"):
        reason = effects.get("refused") or "This model was kept without estimates that have intervals."
        body = paragraph(f"There are no intervals. {end_sentence(str(reason))}", "note") + _coefficients(model)
        return section("effects", "Effects", body)
    rows = shown_rows(effects)
    columns = {*model.encoder.features, *(f"{name}={level}" for name, level in model.encoder.contrasts)}
    columns |= {*_knots_of(model)}
    shown = [row for row in rows if row["name"] in columns and row["estimate"] is not None]
    chosen = sorted(shown, key=lambda row: -abs(row["z"] or 0.0))[:MOST_EFFECTS]
    names = {row["name"] for row in chosen}
    first = [row for row in rows if row["name"] in names]
    axis, body = _effects_axis(effects, first), _legend(model, effects)
    if len(shown) <= MOST_EFFECTS:
        body += _effects_table(model, effects, rows, axis, names)
    else:
        rest = [row for row in rows if row["name"] not in names]
        body += _effects_table(model, effects, first, axis, names)
        body += paragraph(
            f"The plot shows the {MOST_EFFECTS} effects of {len(shown)} that are largest beside their errors "
            f"({'t' if effects.get('degrees') is not None else 'z'}).",
            "note",
        )
        body += fold(f"The other {len(rest)}", _effects_table(model, effects, rest, None))
    words = [*(effects.get("words") or ()), *[OWN_INTERCEPTS] * bool(effects.get("own_intercepts"))]
    return section("effects", "Effects", body + bullets(words))


def _is_ratio(effects: Json) -> bool:
    return effects.get("effect") not in ("", "difference", None)


def _effect_name(effects: Json) -> str:
    return effects.get("effect") or "coefficient"


def _legend(model: Model, effects: Json) -> str:
    neutral = "1, where there is no effect" if _is_ratio(effects) else "0, where there is no effect"
    scale = " The scale is logarithmic." if _is_ratio(effects) else ""
    penalized = "exp of the penalized coefficient" if _is_ratio(effects) else "the penalized coefficient"
    labels = model.classes.tolist()
    on = f" of {model.target} = {labels[1]}" if len(labels) == 2 else ""
    key = {"square": f"{_effect_name(effects)}{on}, with its {_effects_percent(effects)}% interval"}
    key |= {"hollow": penalized} if _has_penalized(effects) else {}
    marks = "".join(f'<span><i class="key {kind}"></i>{escape_html(text)}</span>' for kind, text in key.items())
    return f'<p class="keys">{marks}<span>The upright line is at {neutral}.{scale}</span></p>'


def _effects_percent(effects: Json) -> str:
    return f"{100 * effects.get('confidence', PERCENT / 100):g}"


def _effects_axis(effects: Json, rows: Sequence[Json]) -> Axis | None:
    """Wide enough for all estimates; intervals that are much longer than the others go beyond it."""
    if not rows:
        return None
    values = [abs(row[name]) for row in rows for name in ("estimate", "penalized") if row[name] is not None]
    ends = sorted(abs(row[name]) for row in rows for name in ("lower", "upper") if row[name] is not None)
    largest, usual = max(ends, default=1.0), max(1.2 * max(values), 4 * ends[len(ends) // 2] if ends else 0.0)
    reach = largest if largest <= 1.5 * usual else usual
    numbers = [row[name] for row in rows for name in ("lower", "upper", "penalized") if row[name] is not None]
    low, high = (min(max(limit, -reach), reach) for limit in (min(0.0, *numbers), max(0.0, *numbers)))
    room = 0.04 * ((high - low) or 1.0)
    return (charts.log_axis if _is_ratio(effects) else charts.linear_axis)(low - room, high + room)


def _effects_table(
    model: Model, effects: Json, rows: Sequence[Json], axis: Axis | None, plotted: Collection[str] = ()
) -> str:
    """plotted: the names of those that are in the plot."""
    percent, effect = _effects_percent(effects), _effect_name(effects)
    proved = ["proved"] if _tells_of_penalized(effects) else []
    penalized = ["penalized coefficient"] * _has_penalized(effects)
    names = ["", *penalized, *proved, effect, f"{percent}% interval", "p", *([""] if axis else [])]
    head = "".join(f'<th scope="col" class="{"number" if name else ""}">{escape_html(name)}</th>' for name in names)
    levels = {f"{name}={c}": (name, c) for name, known in model.encoder.categories.items() for c in known}
    levels |= _knots_of(model)
    lines, group = [], None
    for row in rows:
        column, level = levels.get(row["name"], (None, row["name"]))
        if column is not None and column != group:
            lines.append(_group_row(column, row.get("reference"), len(names)))
        group = column
        level = f"{level} (per {unit_text(row['shown_per'])})" if row["shown_per"] != 1 else level
        lines.append(_effect_row(effects, row, level, column is not None, axis, row["name"] in plotted))
    foot = ""
    if axis:
        below = f'<td colspan="{len(names) - 1}"></td><td class="plotted">{charts.row_axis(axis)}</td>'
        foot = f"<tfoot><tr>{below}</tr></tfoot>"
    caption = f"<caption>{escape_html(effect)} of each column, with intervals</caption>"
    table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>{foot}</table>"
    return f'<div class="forest{"" if axis else " bare"}">{table}</div>'


def _has_penalized(effects: Json) -> bool:
    return any(row["penalized"] is not None for row in effects["rows"])


def _tells_of_penalized(effects: Json) -> bool:
    return any(row["penalized_proved"] for row in effects["rows"])


def _group_row(column: str, reference: str | None, width: int) -> str:
    against = f' <span class="muted">against {escape_html(reference)}</span>' if reference else ""
    return f'<tr class="group"><th scope="rowgroup" colspan="{width}">{escape_html(column)}{against}</th></tr>'


def _effect_row(effects: Json, row: Json, name: str, is_level: bool, axis: Axis | None, is_plotted: bool) -> str:
    if row["estimate"] is None:
        value, interval, chance = "dropped", "", ""
    else:
        if _is_ratio(effects):
            value, interval = ratio_texts(row["ratio"], row["ratio_lower"], row["ratio_upper"])
        else:
            value, interval = estimate_texts(row["estimate"], (row["lower"], row["upper"]))
        chance = chance_text(row["p"])
    penalized = ("penalized coefficient", coefficient_text(row["penalized"], row["penalized_bound"]))
    cells = [penalized] * _has_penalized(effects)
    cells += [("proved", row["penalized_proved"])] if _tells_of_penalized(effects) else []
    cells += [(_effect_name(effects), value), ("interval", interval), ("p", chance)]
    numbers = "".join(
        f'<td class="number" data-label="{escape_html(key)}">{escape_html(text)}</td>' for key, text in cells
    )
    drawn = _effect_picture(effects, row, axis, value, interval) if axis and is_plotted else ""
    plotted = f'<td class="plotted">{drawn}</td>' if axis else ""
    kind = ' class="level"' if is_level else ""
    return f'<tr><th scope="row"{kind}>{escape_html(name)}</th>{numbers}{plotted}</tr>'


def _effect_picture(effects: Json, row: Json, axis: Axis, value: str, interval: str) -> str:
    body, title = "", f"{row['name']}: {_effect_name(effects)} {value}, {interval}"
    if row["lower"] is not None and row["upper"] is not None:
        body += charts.whisker(axis, row["lower"], row["upper"], 50, "first")
    body += charts.mark(charts.SQUARE, axis.place(row["estimate"]), 50, "full first", title)
    if row["penalized"] is not None:
        body += charts.dot(axis.place(row["penalized"]), 50, "hollow second", 4.5)
    return charts.row_picture(title, axis, body, 0.0)


def _coefficients(model: Model) -> str:
    """What each feature adds, where nothing else is known of it."""
    used = [one for one in model.coefficients if one.size > 0]
    zeros = len(model.encoder.features) - len(used)
    scores = [str(label) for label in (model.classes.tolist() or model.targets)] if model.weights.ndim > 1 else [""]
    head = "".join(
        f'<th scope="col" class="number">{escape_html(f"{word} {score}".strip())}</th>'
        for word in ("per unit", "per deviation")
        for score in scores
    )

    def table(some: Sequence[Any]) -> str:
        lines = []
        for one in some:
            cells = "".join(f'<td class="number">{number_text(x)}</td>' for x in (*one.per_unit, *one.per_deviation))
            lines.append(f'<tr><th scope="row">{escape_html(one.feature)}</th>{cells}</tr>')
        return scroll_table("Coefficients", f"<tr><th></th>{head}</tr>", lines)

    said = f"What each column adds to {model.adds_to}; {zeros} of {len(model.encoder.features)} columns add nothing."
    rest = used[MOST_EFFECTS:]
    return (
        paragraph(said)
        + (table(used[:MOST_EFFECTS]) if used else "")
        + (fold(f"The other {len(rest)}", table(rest)) if rest else "")
    )


def _knots_of(model: Model) -> dict[str, tuple[str, str]]:
    """For each knot of a column that bends, as effects name it: the column and the knot."""
    each = ((name, apart(model.encoder.knots(name).tolist())) for name in model.encoder.curves)
    return {f"{name}={knot}": (name, knot) for name, knots in each for knot in knots}


# Effects that bend.


def curves_part(model: Model) -> str:
    """A chart of each effect that bends, with its band where there is one."""
    if not model.encoder.curves or model.weights.ndim > 1:
        return ""
    effects, figures = part_of(model, "effects"), list[str]()
    for name in model.encoder.curves:
        knots = model.encoder.knots(name).tolist()
        band = (effects.get("curves") or {}).get(name) or {"at": model.encoder.curve_grid(name).tolist()}
        against = apart(knots)[len(knots) // 2]
        told = f"{name}, against {against}"
        if (chance := band.get("bends")) is not None:
            told += f"; p of a straight line: {chance_text(chance)}"
        kind = _effect_name(effects) if band.get("estimate") else "added to the score"
        drawn = charts.draw_effect(
            band, model.curve(name, band["at"]).tolist(), knots, name, kind, _is_ratio(effects) and "estimate" in band
        )
        figures.append(f"<figure><figcaption>{escape_html(told)}</figcaption>{drawn}</figure>")
    key = {"estimate": "without penalty, with its band", "own": "the penalized model"}
    marks = "".join(f'<span><i class="key {kind}"></i>{escape_html(text)}</span>' for kind, text in key.items())
    said = "Beyond the outer knots, which are marked on the axis, an effect is a straight line."
    body = f'<p class="keys">{marks}</p><div class="pair">{"".join(figures)}</div>' + paragraph(said, "small")
    return section("curves", "Effects that bend", body)

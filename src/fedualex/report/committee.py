"""What a committee reads of a fitted model: the sentence, effects, held-out rows, the penalty, and who is served worst.

Everything is from the model and what it keeps of its training; a part that is not kept is left out, or one sentence
says why it is not there.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..display import escape_html, round_up
from ..models import Model
from ..models.words import MAIN, SERVED, count_text, first_measure, measure_name, what_it_predicts
from ..problems.readings import OF, SMALLER_IS_BETTER
from ..storage import Json
from . import charts
from .charts import Axis
from .effects import curves_part, effects_part
from .numbers import estimate_texts, number_text
from .parts import PERCENT, bullets, end_sentence, fold, paragraph, part_of, scroll_table, section

MOST_CLIENTS, MOST_CURVES = 20, 12
"""How many clients are shown before the fold, and how many there may be for their curves to be unfolded."""
CALIBRATED = (
    "Risks that are right have the intercept 0 and the slope 1; a slope below 1 says that they are too extreme."
)


def committee_section(model: Model) -> str:
    """All sections, as HTML."""
    parts = (
        effects_part,
        curves_part,
        measures_part,
        path_part,
        served_part,
        coding_part,
        certificate_part,
        settings_part,
    )
    return "\n".join(filter(None, (part(model) for part in parts)))


# The first sentence.


def first_sentence(model: Model) -> str:
    """What is predicted from what, how well, with what penalty, and that it is certified."""
    sentences = [what_it_predicts(model), _how_good(model), _penalty(model)]
    gap = model.certificate.get("gap")
    if gap is None:
        sentences.append("It is not certified.")
    else:
        sentences.append(f"Its objective is certified to be within {round_up(gap, 2)} of the best possible one.")
    return " ".join(filter(None, sentences))


def _how_good(model: Model) -> str:
    held = part_of(model, "held_out")
    overall = held.get("overall") or {}
    name = first_measure(MAIN, overall)
    if not name:
        return "Nothing was measured on held-out rows."
    value, interval = estimate_texts(overall[name], _ends(held, name))
    interval = f" ({_percent(held)}% interval {interval})" if interval else ""
    rows = count_text(held["rows"], "row")
    return f"On {rows} that took no part in the fit, its {measure_name(name)} is {value}{interval}."


def _penalty(model: Model) -> str:
    short = part_of(model, "penalty").get("short")  # the rest is below
    return f"Penalty: {end_sentence(short)}" if short else ""


def _percent(held: Json) -> str:
    return f"{100 * held['confidence']:g}" if "confidence" in held else str(PERCENT)


def _ends(held: Json, measure: str, client: str | None = None) -> Sequence[float] | None:
    """The interval of a measure, of all rows or of a client's; None where there is none."""
    intervals = held.get("intervals") or {}
    own = intervals.get("overall") if client is None else (intervals.get("clients") or {}).get(client)
    return (own or {}).get(measure)


# Held-out rows: discrimination and calibration, in all and of each client.


def measures_part(model: Model) -> str:
    """Measures with intervals and their curves, in all and for each client."""
    held = part_of(model, "held_out")
    if not held.get("overall"):
        body = paragraph("No rows were held out of the fit, so nothing is known of how well this model does.", "note")
        return section("measures", "Discrimination and calibration", body)
    clients = held.get("clients") or {}
    said = f"On {count_text(held['rows'], 'row')} that took no part in the fit" + (
        f", with {_percent(held)}% intervals." if held.get("intervals") else "."
    )
    if not clients:
        said += " Numbers are of all clients together: those of single clients were not revealed."
    body = paragraph(said) + _measures_tables(model, held) + _curves(held)
    return section("measures", "Discrimination and calibration", body)


def _measures_tables(model: Model, held: Json) -> str:
    clients = held.get("clients") or {}
    names = [name for name in held["overall"] if name != "rows"]
    calibration = held.get("calibration") or {}
    trained = part_of(model, "clients")
    parts = [("calibration intercept", "intercept"), ("calibration slope", "slope")] if calibration else []
    named = [f"share of {model.classes.tolist()[1]}" if name == "positives" else measure_name(name) for name in names]
    titles = ["rows trained on", "rows held out", *named, *(title for title, _ in parts)]
    head = (
        "<tr><th></th>" + "".join(f'<th scope="col" class="number">{escape_html(one)}</th>' for one in titles) + "</tr>"
    )

    def line(client: str | None) -> str:
        values = held["overall"] if client is None else clients[client]
        rows = model.training.get("rows") if client is None else trained.get(client)
        cells = [_cell(_whole(rows), ""), _cell(_whole(held["rows"] if client is None else values.get("rows")), "")]
        for name in names:
            value = values.get(name)
            cells.append(_cell("–", "") if value is None else _cell(*estimate_texts(value, _ends(held, name, client))))
        own = calibration.get("overall") if client is None else (calibration.get("clients") or {}).get(client)
        for _, key in parts:
            ends = (own or {}).get(key)
            cells.append(_cell(*estimate_texts(ends[0], ends[1:])) if ends else _cell("–", ""))
        title, kind = ("all clients", ' class="all"') if client is None else (client, "")
        return f'<tr{kind}><th scope="row">{escape_html(title)}</th>{"".join(cells)}</tr>'

    listed = list(clients) if len(clients) > 1 else []
    body = scroll_table("Held-out rows", head, [line(client) for client in (None, *listed[:MOST_CLIENTS])])
    if rest := listed[MOST_CLIENTS:]:
        body += fold(
            f"The other {count_text(len(rest), 'client')}", scroll_table("More clients", head, list(map(line, rest)))
        )
    body += paragraph(CALIBRATED, "small") if parts else ""
    return body + _why_not_calibrated(calibration)


def _whole(count: Any) -> str:
    return "–" if count is None else f"{int(count):,}"


def _cell(value: str, interval: str) -> str:
    below = f'<br><span class="muted">{escape_html(interval)}</span>' if interval else ""
    return f'<td class="number">{escape_html(value)}{below}</td>'


def _why_not_calibrated(calibration: Json) -> str:
    own = {"All clients": calibration.get("overall"), **(calibration.get("clients") or {})}
    said = [f"{name}: {end_sentence(one['sentence'])}" for name, one in own.items() if one and one.get("sentence")]
    return bullets(said) if said else ""


def _curves(held: Json) -> str:
    curves = held.get("curves") or {}
    overall, clients = curves.get("overall") or {}, curves.get("clients") or {}
    clients = clients if len(clients) > 1 else {}
    others = {name: own.get("roc") or [] for name, own in clients.items()}
    body = _pair(overall, others, "all clients", charts.PLOT)
    figures = [_pair(own, {}, name, charts.SMALL) for name, own in clients.items()]
    figures = [f"<h3>{escape_html(name)}</h3>{one}" for name, one in zip(clients, figures, strict=True) if one]
    if not figures:
        return body
    grid = '<div class="sites">' + "".join(f"<div>{figure}</div>" for figure in figures) + "</div>"
    return body + fold("The curves of each client", grid, is_open=len(figures) <= MOST_CURVES)


def _pair(own: Json, others: Json, title: str, height: float) -> str:
    """The ROC curve and the calibration curve side by side, those that there are."""
    figures = []
    if own.get("roc"):
        text = "ROC curve" + (", thin lines: of each client" if any(others.values()) else "")
        figures.append((text, charts.draw_roc(own["roc"], others, title, height)))
    if own.get("bins"):
        text = "Calibration, with intervals; larger marks are of more rows"
        text = text if height == charts.PLOT else "Calibration"
        figures.append((text, charts.draw_calibration(own["bins"], title, height)))
    drawn = "".join(f"<figure><figcaption>{text}</figcaption>{figure}</figure>" for text, figure in figures)
    return f'<div class="pair">{drawn}</div>' if drawn else ""


# The penalty.


def path_part(model: Model) -> str:
    """What held-out rows said at every value of the penalty."""
    penalty = part_of(model, "penalty")
    if not penalty:
        return ""
    sentence = penalty.get("sentence") or f"{penalty.get('name')} = {number_text(penalty.get('value'))}"
    body = paragraph(end_sentence(sentence))
    curve = penalty.get("curve")
    if curve and len(curve["values"]) > 1:
        key = "Line: the mean over folds; band: one standard error of it to both sides."
        gap = f"Every value was solved to a certified gap of at most {round_up(max(curve['gaps']), 2)}."
        body += f"<figure>{charts.draw_path(curve)}</figure>" + paragraph(f"{key} {gap}", "small")
    elif curve is None:
        body += paragraph("The penalty was given and not chosen from the data, so there is no path to show.", "note")
    return section("path", "The penalty", body)


# Who is served worst.


def served_part(model: Model) -> str:
    """Each client's measure, the worst first, beside the ordinary model."""
    held, ordinary = part_of(model, "held_out"), part_of(model, "ordinary")
    other = ordinary.get("held_out") or {}
    name = first_measure(SERVED, held.get("overall") or {})
    known, beside = _of_clients(held, name), _of_clients(other, name)
    said = [
        *model.training.get("weighs", ()),
        *([end_sentence(ordinary["sentence"])] if ordinary.get("sentence") else []),
    ]
    if len(known) < 2:
        body = bullets(said) if said else ""
        return section("served", "Who is served worst", body) if body else ""
    sign = 1 if name.partition(OF)[0] in SMALLER_IS_BETTER else -1
    order = sorted(known, key=lambda client: -sign * known[client])
    body = paragraph(_worst_sentence(name, known, beside, sign)) + _served_table(name, order, held, other)
    return section("served", "Who is served worst", body + (bullets(said) if said else ""))


def _of_clients(held: Json, name: str) -> dict[str, float]:
    clients = held.get("clients") or {}
    return {client: values[name] for client, values in clients.items() if values.get(name) is not None}


def _worst_sentence(name: str, known: Mapping[str, float], beside: Mapping[str, float], sign: int) -> str:
    """Both worst values, and which is better."""
    worst = max(known, key=lambda client: sign * known[client])
    best = min(known, key=lambda client: sign * known[client])
    text = (
        f"Served worst is {worst}, with the {measure_name(name)} {number_text(known[worst])} on held-out rows; "
        f"served best is {best}, with {number_text(known[best])}."
    )
    if not beside:
        return text
    other = max(beside, key=lambda client: sign * beside[client])
    change = sign * (beside[other] - known[worst])
    verdict = "better" if change > 0 else "worse"
    difference = f"the worst is {verdict} by {number_text(abs(change), 2)} here" if change else "the worst is the same"
    return f"{text} With the ordinary model the worst is {other}, with {number_text(beside[other])}: {difference}."


def _served_table(name: str, order: Sequence[str], held: Json, other: Json) -> str:
    """Rows with a mark of this model and one of the ordinary model over one axis."""
    models = {"this model": held, **({"ordinary model": other} if other.get("clients") else {})}
    axis = _served_axis(name, order, models.values())
    titles = [f"{measure_name(name)}, {title}" for title in models]
    head = "".join(f'<th scope="col" class="number">{escape_html(title)}</th>' for title in titles)
    head = f'<tr><th scope="col">client</th>{head}<th></th></tr>'
    foot = (
        f'<tfoot><tr><td colspan="{1 + len(models)}"></td><td class="plotted">{charts.row_axis(axis)}</td></tr></tfoot>'
    )

    def table(clients: Sequence[str]) -> str:
        lines = "".join(_served_row(name, client, models, axis, client == order[0]) for client in clients)
        caption = f"<caption>{escape_html(measure_name(name))} of each client, the worst first</caption>"
        rows = f"<thead>{head}</thead><tbody>{lines}</tbody><tfoot><tr>{foot}</tr></tfoot>"
        return f'<div class="forest"><table>{caption}{rows}</table></div>'

    marks = {"dotted": "this model", **({"diamond": "the ordinary model"} if len(models) > 1 else {})}
    keys = "".join(f'<span><i class="key {kind}"></i>{text}</span>' for kind, text in marks.items())
    lines = f"<span>Lines: {_percent(held)}% intervals.</span>" if _ends(held, name, order[0]) else ""
    body = f'<p class="keys">{keys}{lines}</p>' + table(order[:MOST_CLIENTS])
    rest = order[MOST_CLIENTS:]
    return body + (fold(f"The other {count_text(len(rest), 'client')}", table(rest)) if rest else "")


def _served_axis(name: str, order: Sequence[str], models: Iterable[Json]) -> Axis:
    numbers: list[float] = []
    for held in models:
        for client in order:
            value = held["clients"].get(client, {}).get(name)
            numbers += [x for x in (value, *(_ends(held, name, client) or ())) if x is not None and math.isfinite(x)]
    room = 0.05 * ((max(numbers) - min(numbers)) or 1.0)
    return charts.linear_axis(min(numbers) - room, max(numbers) + room, 4)


def _served_row(name: str, client: str, models: Mapping[str, Json], axis: Axis, is_worst: bool) -> str:
    cells, body = "", ""
    for place, (title, held) in enumerate(models.items()):
        value, ends = held["clients"].get(client, {}).get(name), _ends(held, name, client)
        text, interval = ("–", "") if value is None else estimate_texts(value, ends)
        shown = f'{text} <span class="muted">{escape_html(interval)}</span>' if interval else text
        cells += f'<td class="number" data-label="{title}">{shown}</td>'
        if value is None:
            continue
        y, kind = (50.0, "first") if len(models) == 1 else ((32.0, "first"), (70.0, "second"))[place]
        if ends and None not in ends:
            lower, upper = ends
            body += charts.whisker(axis, lower, upper, y, kind)
        words = f"{client}, {title}: {text}"
        at = axis.place(value)
        body += (
            charts.mark(charts.DIAMOND, at, y, "hollow second", words)
            if place
            else charts.dot(at, y, "full first", 4.5, words)
        )
    worst = ' <span class="worst">worst</span>' if is_worst else ""
    plotted = charts.row_picture(f"{measure_name(name)} of {client}", axis, body)
    return f'<tr><th scope="row">{escape_html(client)}{worst}</th>{cells}<td class="plotted">{plotted}</td></tr>'


# What was done to the rows, what is certified, and the settings.


def coding_part(model: Model) -> str:
    """Missing values and categories, as they were told."""
    said = model.training.get("done")
    return section("coding", "Missing values and categories", bullets(said)) if said else ""


def certificate_part(model: Model) -> str:
    """Three sentences: what is certified, what is proved, and what is neither."""
    sentences = {
        "Certified": _certificate_sentence(model.certificate),
        "Proved": _proofs_sentence(part_of(model, "effects")),
        "Neither": "Intervals and p-values rest on assumptions that no computation can certify: that rows, or clients, "
        "are independent draws, and that the model is right as far as its errors need it; measures on held-out rows "
        "speak of rows like these, and of no others.",
    }
    lines = "".join(f"<dt>{name}</dt><dd>{escape_html(text)}</dd>" for name, text in sentences.items())
    return section("certified", "How the numbers were certified", f"<dl>{lines}</dl>")


def _certificate_sentence(certificate: Json) -> str:
    gap, tol, violation = (certificate.get(name) for name in ("gap", "tol", "violation"))
    if gap is None:
        return f"Nothing: {certificate.get('meaning') or 'this model was kept without a certificate'}."
    exchanges = certificate.get("exchanges")
    text = (
        f"The objective of this model is at most {round_up(gap, 2)} above the least that any choice of its "
        "coefficients could reach on these rows with these settings, a bound computed outside the method that found "
        "them, with the errors of rounding added"
    )
    text += f", after {count_text(exchanges, 'exchange')} with the clients" if exchanges else ""
    text += f"; limits are exceeded by at most {round_up(violation, 2)}" if violation is not None else ""
    text += f"; the tolerance {tol:g} was not reached" if tol is not None and gap > tol else ""
    return f"{text}."


def _proofs_sentence(effects: Json) -> str:
    rows = [row for row in effects.get("rows") or () if row["estimate"] is not None]
    bounds = [row["bound"] for row in rows if row.get("bound") is not None]
    told = (effects.get("coefficients") or {}).values()
    signs, zeros = (sum(one["proved"] == word for one in told) for word in ("sign", "zero"))
    texts = []
    if signs or zeros:
        best = f"Of the best penalized coefficients {zeros} are proved to be zero and {signs} to have the sign shown"
        texts.append(f"{best}, intercept included; only digits are shown that the bounds of all of them determine.")
    if bounds:
        whose = "Every estimate" if len(bounds) == len(rows) else f"Each of {len(bounds)} of the {len(rows)} estimates"
        texts.append(
            f"{whose} without penalty is within a bound of its own of the exact one, and none of these bounds is "
            f"larger than {round_up(max(bounds), 2)}."
        )
    nothing = "Nothing is proved of single coefficients, beyond what the certificate of all of them together says."
    return " ".join(texts) or nothing


def settings_part(model: Model) -> str:
    """All settings, behind a fold."""
    settings = list(_flat(part_of(model, "configuration")))
    if not settings:
        return ""
    lines = "".join(f"<dt>{escape_html(name)}</dt><dd>{escape_html(text)}</dd>" for name, text in settings)
    body = f'<dl class="settings">{lines}</dl>'
    return f'<section class="committee settings">{fold("Settings", body)}</section>'


def _flat(settings: Mapping[str, object], before: str = "") -> Iterable[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", "none" if value is None else str(value)

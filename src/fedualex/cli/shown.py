"""A model on the screen: the answer first, then how sure it is, how it fares, and how it was made."""

import csv
import io
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..display import apart, round_up, sure_digits
from ..storage import Json
from .common import in_one_line, print_paragraph, print_table

if TYPE_CHECKING:
    from ..models import Model

POSITIVES = "positives"
"""The measure that is the share of the second class, whose name people see instead."""
INTERCEPT = "(intercept)"
FEW = 20
"""Effects, coefficients and clients that a fit shows; `explain` shows all."""


def predictions(model: "Model", table: Any) -> dict[str, list[Any]]:
    """The columns of the file that `predict` writes."""
    scores = model.decision_function(table)
    if model.several:
        targets = zip(model.target, model.answers.of(scores).T.tolist(), strict=True)
        return {f"prediction of {name}": column for name, column in targets}
    columns = {"prediction": model.answers.of(scores).tolist()}
    beside = model.answers.reading.columns(scores, model.answers)
    return columns | {name: column.tolist() for name, column in beside.items()}


def as_text(columns: dict[str, list[Any]], as_json: bool) -> str:
    """Columns as a CSV file or as one JSON document."""
    if as_json:
        return json.dumps(columns, indent=1, allow_nan=False) + "\n"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def description(model: "Model") -> Json:
    """A model as JSON."""
    return {
        "target": model.target,
        "answers": model.answers.reading.name,
        "classes": model.classes.tolist(),
        "certificate": model.certificate,
        "intercept": model.intercept.tolist(),
        "coefficients": {c.feature: c.per_unit.tolist() for c in model.coefficients if c.size > 0},
        "curves": {name: _curve_at_knots(model, name) for name in model.encoder.curves},
        "proved": _proofs_of(model),
        "training": model.training,
    }


def show(model: "Model", most: int | None) -> None:
    """A model for people. most: rows of a table; None is all of them, with the coefficients of the model itself."""
    training = model.training
    print_paragraph(_answer(model))
    ordinary, effects = training.get("ordinary") or {}, training.get("effects") or {}
    if sentence := training.get("verdict") or ordinary.get("worst_group"):
        print_paragraph(sentence)
    if effects:
        show_effects(model, effects, most)
    estimated = "proof" in model.certificate and "rows" in effects  # without penalty, effects are the coefficients
    if most is None or (not estimated and all(row["penalized"] is None for row in effects.get("rows", ()))):
        for part in model.parts():
            _show_coefficients(part, most)
    else:
        print_paragraph(_own_coefficients(model))
    show_measures(model, training.get("held_out"), most)
    if ordinary:
        print_paragraph(f"{ordinary['sentence']}.")
    print_paragraph(claim(model))
    _show_how(training, model.certificate.get("tol"))


def _answer(model: "Model") -> str:
    """What it predicts from what, and how well on held-out rows."""
    from ..models.words import MAIN, first_measure, measure_name, what_it_predicts

    held = model.training.get("held_out") or {}
    overall = held.get("overall") or {}
    name = first_measure(MAIN, overall)
    if not name:
        return what_it_predicts(model)
    ends = (held.get("intervals", {}).get("overall") or {}).get(name)
    interval = f" ({_percent(held)} interval {_ends(ends)})" if ends else ""
    good = f"its {measure_name(name)} is {_number(overall[name])}{interval}"
    return f"{what_it_predicts(model)} On {held['rows']} rows that were held out, {good}."


def _show_how(training: Json, tol: float | None) -> None:
    """How the model was made: its goal and tolerance, its penalty, and what was done with the columns."""
    from ..tables.goals import GOALS

    if goal := training.get("goal"):
        until = "" if tol is None else f", to a certified gap of {tol:g}"
        print_paragraph(f"Goal: {goal}, {GOALS[goal].words}{until}.")
    if (penalty := training.get("penalty")) is not None:
        print_paragraph(f"Penalty: {penalty['sentence']}")
    for sentence in training.get("weighs", ()):
        print_paragraph(f"In its objective {sentence}.")
    if (rate := training.get("rate")) is not None:
        print_paragraph(rate["sentence"])
    for sentence in training.get("done", ()):
        print_paragraph(sentence)


def claim(model: "Model") -> str:
    """The certificate in words."""
    certificate, gap, tol = model.certificate, model.certificate.get("gap"), model.certificate.get("tol")
    clients = len(model.training.get("clients", ()))
    cost = f"{certificate.get('exchanges')} exchanges with {clients} client{'s' * (clients != 1)}"
    if gap is None:
        return f"Nothing is certified ({certificate.get('meaning')}) after {cost}."
    above = certificate.get("violation")
    limit = "" if above is None else f" Its limit is exceeded by at most {round_up(above, 3)}."
    known = f"no model of this kind has an objective lower by more than {round_up(gap, 3)}, known after {cost}.{limit}"
    if tol is None or gap <= tol:
        return f"Certified: {known}"
    return f"Tolerance {tol:g} not reached: {known}"


# Effects.


def show_effects(model: "Model", effects: Json, most: int | None = None) -> None:
    """The table of effects, the surest first, and what is to be said of it; or why there is none."""
    if (why := effects.get("refused")) is not None:
        print_paragraph(f"{why[:1].upper()}{why[1:].rstrip('.')}.")
        return
    import numpy as np

    from ..inference.table import Effects

    table = Effects.read(effects)
    rows = table.rows
    order = sorted(range(len(rows)), key=lambda j: (rows[j].name.startswith(INTERCEPT), -abs(np.nan_to_num(rows[j].z))))
    kept, names = order[:most], table.header()
    own = ", with an intercept for each client" if effects.get("own_intercepts") else ""
    print_paragraph(f"Effects on {_outcome(model)} (without penalty{own}), the surest first:")
    first = names.index(table.effect) if table.effect in names else names.index("estimate")
    interval = next(j for j, name in enumerate(names[first:], first) if name.endswith("interval"))
    shown = [*range(names.index("estimate")), first, interval, names.index("p")]
    cells, heads = table.cells(), [names[j].removeprefix("its ") for j in shown]
    lines = [[cells[j][column] for column in shown] for j in kept]
    for line, j in zip(lines, kept, strict=True):
        if np.isnan(rows[j].estimate):
            line[heads.index(names[first])] = "dropped"
    _print_rows(heads, lines)
    if len(kept) < len(order):
        print_paragraph(f"{len(order) - len(kept)} more: fedualex summary")
    for name, curve in (effects.get("curves") or {}).items():
        if (chance := curve["bends"]) is not None:
            print_paragraph(f"The effect of {name} bends with p = {chance:.2g} (Wald's test of a straight line).")
    for sentence in table.words:
        print_paragraph(sentence)


def _outcome(model: "Model") -> str:
    """What effects are on: of two classes the second, whose odds or probability they raise."""
    labels = model.classes.tolist()
    if model.answers.reading.timed:
        return f"the hazard of {model.targets[1]}"
    return f"{model.target} = {labels[1]}" if len(labels) == 2 else str(model.target)


# The penalties that were tried.


def path_columns(model: Any) -> dict[str, list[Any]]:
    """What held-out rows said of each; refused where none were tried."""
    penalty = model.training.get("penalty") or {}
    if not (curve := penalty.get("curve")):
        raise ValueError(f"this model has no path of penalties: {penalty.get('sentence', 'none is kept')}")
    marks = [" ".join(word for word in ("best", "chosen") if curve[word] == k) for k in range(len(curve["values"]))]
    named = {"measure": curve["measure"], "standard_error": curve["error"], "nonzeros": curve["nonzeros"]}
    return {curve["name"]: curve["values"], **named, "certified_gap": curve["gaps"], "mark": marks}


def show_path(model: Any, columns: dict[str, list[Any]]) -> None:
    """As a table, and how the choice was made."""
    names = [name.replace("_", " ") for name in columns]
    names[1] = model.training["penalty"]["curve"]["what"]
    lines = zip(*columns.values(), strict=True)
    _print_rows(
        names, [[_number(value) if isinstance(value, float) else str(value) for value in line] for line in lines]
    )
    print_paragraph(model.training["penalty"]["sentence"])


# Measures.


def show_measures(model: "Model", measures: Json | None, most: int | None = None, title: str = "") -> None:
    """Of all rows with intervals and of the client that is worst off, then of each client, then calibration."""
    if measures is None:
        return
    overall, clients = measures["overall"], measures["clients"]
    print_paragraph(title or f"On {measures['rows']} rows that were held out:")
    _show_overall(model, measures)
    if overall.get("auc") in (0.0, 1.0) and measures.get("intervals", {}).get("overall"):
        print_paragraph(
            f"An auc of {overall['auc']:g} has the exact interval (Clopper, Pearson) of pairs without a common row."
        )
    if len(clients) > 1:
        names = [name for name in overall if name != "rows"]
        print_paragraph("Of each client:")
        lines = measures.get("calibration", {}).get("clients") or {}
        parts = ("slope", "intercept") if any(lines.values()) else ()
        rows = [
            [
                str(who),
                *(_number(own.get(name)) for name in ("rows", *names)),
                *(_calibration_text(lines.get(who), part) for part in parts),
            ]
            for who, own in clients.items()
        ]
        _print_rows(["client", "rows", *(_measure_title(model, name) for name in names), *parts], rows[:most])
        if len(rows) > len(rows[:most]):
            print_paragraph(f"{len(rows) - len(rows[:most])} more clients: fedualex explain")
    _show_calibration(measures.get("calibration", {}).get("overall"))
    share, accuracy = overall.get(POSITIVES), overall.get("accuracy")
    if share is not None and accuracy is not None and accuracy <= max(share, 1 - share):
        often = model.classes.tolist()[int(share >= 0.5)]
        print_paragraph(
            f"Its accuracy is not above that of the answer {often} for every row; auc says how well it orders rows."
        )


def _show_overall(model: "Model", measures: Json) -> None:
    from ..tables.measures import worst_client

    overall, clients = measures["overall"], measures["clients"]
    ends = measures.get("intervals", {}).get("overall", {})
    heads = ["", "all clients", *([f"{_percent(measures)} interval"] if ends else [])]
    heads += ["worst client"] if len(clients) > 1 else []
    rows = []
    for name, value in overall.items():
        if name == "rows":
            continue
        cells = [_measure_title(model, name), _number(value), *([_ends(ends.get(name))] if ends else [])]
        who = worst_client(name, clients)
        rows.append([*cells, "" if who is None else f"{_number(clients[who][name])} ({who})"][: len(heads)])
    _print_rows(heads, rows)


def _measure_title(model: "Model", name: str) -> str:
    return f"share of {model.classes.tolist()[1]}" if name == POSITIVES else name.replace("/", " / ")  # may be wrapped


def _percent(measures: Json) -> str:
    return f"{100 * measures.get('confidence', 0.95):g}%"


def _calibration_text(line: Json | None, part: str) -> str:
    """The slope or the intercept of a client's calibration, without its ends."""
    ends = (line or {}).get(part)
    return "-" if ends is None else f"{ends[0]:.3g}"


def _show_calibration(line: Json | None) -> None:
    if line is None:
        return
    if line["slope"] is None:
        print_paragraph(f"Calibration: {line['sentence']}.")
        return
    slope, start = ([f"{value:.3g}" for value in line[name]] for name in ("slope", "intercept"))
    of_slope, of_start = (f"{value} ({lower} to {upper})" for value, lower, upper in (slope, start))
    print_paragraph(f"Calibration: slope {of_slope}, 1 if right; intercept {of_start}, 0 if right.")


def _ends(ends: Sequence[float] | None) -> str:
    return "-" if ends is None else f"{ends[0]:.3g} to {ends[1]:.3g}"


# Coefficients of the model itself.


def _proofs_of(model: "Model") -> Json:
    """What is proved of the distance of each coefficient, per unit, from the best one; empty where nothing is."""
    coefficients: Json = (model.training.get("effects") or {}).get("coefficients", {})
    proved = any(told.get("within") is not None or told.get("proved") for told in coefficients.values())
    return coefficients if proved else {}


def _own_coefficients(model: "Model") -> str:
    """Where the table of effects has them already, how many there are."""
    used, features = sum(c.size > 0 for c in model.coefficients), len(model.encoder.features)
    own = model.training["effects"].get("own_intercepts")
    one = "The model that predicts has one intercept for all clients. " if own else ""
    return f"{one}{used} of its {features} coefficients are not 0 (fedualex explain lists them)."


def _show_coefficients(model: "Model", most: int | None) -> None:
    bent = {model.encoder.features[j] for place in model.encoder.bent.values() for j in range(place.start, place.stop)}
    used = [c for c in model.coefficients if c.size > 0 and c.feature not in bent]
    several, proved = model.weights.ndim > 1, _proofs_of(model)
    names = [f"per unit, {label}" for label in model.classes.tolist()] if several else ["per unit"]
    names += ["within"] * bool(proved) + ["per deviation"] * (not several) + ["proved"] * bool(proved)
    numbers = set(model.encoder.numbers)
    rows = []
    for c in used[:most]:
        told = proved.get(c.feature, {})
        within = _within(told)
        cells = [sure_digits(value, within, sign=True) for value in c.per_unit]
        cells += [round_up(within, 2) if math.isfinite(within) else "-"] * bool(proved)
        if not several:
            ratio = c.per_deviation[0] / c.per_unit[0]
            cells += ["-" if c.feature not in numbers else sure_digits(c.per_deviation[0], ratio * within, sign=True)]
        rows.append([c.feature, *cells, *[told.get("proved", "")] * bool(proved)])
    within = _within(proved.get(INTERCEPT, {}))
    alone = [sure_digits(value, within, sign=True) for value in model.intercept.reshape(-1).tolist()]
    beside = [round_up(within, 2) if math.isfinite(within) else "-", "-", ""] if proved else ["-"] * (not several)
    # a baseline hazard takes the place of an intercept
    shown = rows if model.answers.reading.timed else [*rows, [INTERCEPT, *alone, *beside]]
    features = len(model.encoder.features) - len(bent)
    print_paragraph(f"Coefficients of {model.adds_to}: {len(used)} of {features} are not 0, the largest first:")
    _print_rows(["feature", *names], shown)
    if len(used) > len(rows):
        print_paragraph(f"{len(used) - len(rows)} more: fedualex explain")
    _show_zeros([c.feature for c in model.coefficients if c.size == 0 and c.feature not in bent], proved)
    for name in model.encoder.curves:
        _show_curve(model, name)


def _show_curve(model: "Model", name: str) -> None:
    """What a column that bends adds, at its knots; where the penalty left nothing of it, that."""
    curve = _curve_at_knots(model, name)
    words = apart(curve["knots"])
    against = words[len(words) // 2]
    if not model.weights[model.encoder.bent[name]].any():
        straight = "zero" if not model.weights[model.encoder.numbers.index(name)].any() else "straight"
        print_paragraph(f"The effect of {name} does not bend at this penalty: it is {straight}.")
        return
    told = [f"{_each(adds)} at {word}" for word, adds in zip(words, curve["adds"], strict=True) if word != against]
    print_paragraph(
        f"The effect of {name} bends between {words[0]} and {words[-1]}, and is straight beyond. Against {against} it "
        f"adds {', '.join(told)}; its coefficient above is of the straight part alone."
    )


def _curve_at_knots(model: "Model", name: str) -> Json:
    """What a column that bends adds to the answer at its knots, against the middle one."""
    knots = model.encoder.knots(name)
    return {
        "knots": knots.tolist(),
        "against": float(knots[len(knots) // 2]),
        "adds": model.curve(name, knots).tolist(),
    }


def _each(adds: Any) -> str:
    """A number, or one for each score."""
    return ", ".join(f"{value:+.4g}" for value in (adds if isinstance(adds, list) else [adds]))


def _within(told: Json) -> float:
    """The bound that is proved of a coefficient, infinite if none is."""
    bound = told.get("within")
    return math.inf if bound is None else float(bound)


def _show_zeros(zeros: list[str], proved: Json) -> None:
    """Which coefficients are 0 in the best model too."""
    known = [name for name in zeros if proved.get(name, {}).get("proved") == "zero"]
    if known:
        print_paragraph(f"Proved to be 0 in the best model at this penalty: {_some(known)}.")
    if known and (rest := [name for name in zeros if name not in known]):
        print_paragraph(f"Not proved of {_some(rest)}.")


def _some(names: list[str]) -> str:
    return ", ".join(names[:FEW]) + (f", and {len(names) - FEW} more" if len(names) > FEW else "")


def _print_rows(names: list[str], rows: list[list[str]]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(*map(in_one_line, names), box=box.SIMPLE_HEAD, collapse_padding=True)
    for row in rows:
        table.add_row(*map(in_one_line, row))
    print_table(table)


def _number(value: float | str | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:.4g}"

"""A model on the screen: its certificate in words, its test, its coefficients; and its predictions as text."""

import csv
import io
import json
import math
from typing import Any

from ..display import apart, determined, rounded_up
from ..storage import Json
from .common import echo_line, in_one_line, print_table

POSITIVES = "positives"
"""The measure that is the share of the second class, whose name people see instead."""
INTERCEPT = "(intercept)"
FEW = 12
"""Coefficients that a fit shows; `explain` shows all that are not 0."""


def predictions(model: Any, table: Any) -> dict[str, list[Any]]:
    """The columns of the file that `predict` writes."""
    scores = model.decision_function(table)
    if model.several:
        found = zip(model.target, model.answers.of(scores).T.tolist(), strict=True)
        return {f"prediction of {name}": column for name, column in found}
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


def description(model: Any) -> Json:
    """A model as JSON."""
    return {
        "target": model.target,
        "answers": model.answers.reading.name,
        "classes": model.classes.tolist(),
        "certificate": model.certificate,
        "intercept": model.intercept.tolist(),
        "coefficients": {c.feature: c.per_unit.tolist() for c in model.coefficients if c.size > 0},
        "curves": {name: _curve_at_knots(model, name) for name in model.encoder.curves},
        "proved": proved_of(model),
        "training": model.training,
    }


def _curve_at_knots(model: Any, name: str) -> dict[str, Any]:
    """What a column that bends adds to the answer at its knots, against the middle one."""
    knots = model.encoder.knots(name)
    return {
        "knots": knots.tolist(),
        "against": float(knots[len(knots) // 2]),
        "adds": model.curve(name, knots).tolist(),
    }


def proved_of(model: Any) -> dict[str, Any]:
    """What is proved of the distance of each coefficient, per unit, from the best one; empty where nothing is."""
    found: dict[str, Any] = (model.training.get("effects") or {}).get("coefficients", {})
    return found


def show(model: Any, most: int | None) -> None:
    """A model for people: what is certified, how it fares, and its coefficients."""
    if verdict := model.training.get("verdict"):
        echo_line(verdict)
    echo_line(claim(model))
    if (penalty := model.training.get("penalty")) is not None:
        echo_line(f"Penalty: {penalty['sentence']}.")
    for sentence in model.training.get("weighs", ()):
        echo_line(f"In its objective {sentence}.")
    if (rate := model.training.get("rate")) is not None:
        echo_line(rate["sentence"])
    show_measures(model, model.training.get("held_out"))
    if (ordinary := model.training.get("ordinary")) is not None:
        echo_line(f"{ordinary['sentence']}.")
        if worst := ordinary.get("worst_group"):
            echo_line(worst)
    for part in model.parts():
        _show_coefficients(part, most)
    if (effects := model.training.get("effects")) is not None:
        show_effects(model, effects, most)
    for sentence in model.training.get("done", ()):
        echo_line(sentence)


def claim(model: Any) -> str:
    """The certificate in words."""
    found, gap, tol = model.certificate, model.certificate.get("gap"), model.certificate.get("tol")
    clients = len(model.training.get("clients", ()))
    cost = f"{found.get('exchanges')} exchanges with {clients} client{'s' * (clients != 1)}"
    if gap is None:
        return f"Nothing is certified ({found.get('meaning')}) after {cost}."
    above = found.get("violation")
    limit = "" if above is None else f" Its limit is exceeded by at most {rounded_up(above, 3)}."
    known = (
        f"no model of this kind has an objective lower by more than {rounded_up(gap, 3)}, known after {cost}.{limit}"
    )
    if tol is None or gap <= tol:
        return f"Certified: {known}"
    return f"Tolerance {tol:g} not reached: {known}"


def show_effects(model: Any, effects: Json, most: int | None = None) -> None:
    """The table of effects, the surest first, and what is to be said of it; or why there is none."""
    if (why := effects.get("refused")) is not None:
        echo_line(f"{why[:1].upper()}{why[1:].rstrip('.')}.")
        return
    import numpy as np

    from ..inference.table import Effects

    found = Effects.read(effects)
    order = sorted(range(len(found.rows)), key=lambda j: -abs(np.nan_to_num(found.rows[j].z)))
    kept, names = order[:most], found.header()
    own = ", an intercept for each client" if effects.get("own_intercepts") else ""
    echo_line(f"Effects on {_outcome(model)} without penalty{own}, the surest first:")
    first = names.index(found.effect) if found.effect in names else names.index("estimate")
    interval = next(j for j, name in enumerate(names[first:], first) if name.endswith("interval"))
    shown = [*range(names.index("estimate")), first, interval, names.index("p")]
    cells, heads = found.cells(), [names[j].removeprefix("its ") for j in shown]
    _print_rows(heads, [[cells[j][column] for column in shown] for j in kept])
    if len(kept) < len(order):
        echo_line(f"{len(order) - len(kept)} more: fedualex summary")
    for name, curve in (effects.get("curves") or {}).items():
        if (chance := curve["bends"]) is not None:
            echo_line(f"The effect of {name} bends with p = {chance:.2g} (Wald's test of a straight line).")
    for sentence in found.words:
        echo_line(sentence)


def _outcome(model: Any) -> str:
    """What effects are on: of two classes the second, whose odds or probability they raise."""
    labels = model.classes.tolist()
    if model.answers.reading.timed:
        return f"the hazard of {model.targets[1]}"
    return f"{model.target} = {labels[1]}" if len(labels) == 2 else str(model.target)


def show_measures(model: Any, measures: Json | None, title: str = "") -> None:
    """How it fares on rows that it was not fitted to, in all and for each client; nothing where that is not known."""
    if measures is None:
        return
    from ..tables.measures import worst

    overall, clients = measures["overall"], measures["clients"]
    rows = {"all clients": overall}
    ends = measures.get("intervals", {}).get("overall", {})
    if ends:
        percent = 100 * measures.get("confidence", 0.95)
        rows |= {f"{percent:g}% interval": {name: _ends(ends.get(name)) for name in overall}}
    if len(clients) > 1:
        rows |= {"worst of each": {name: worst(name, clients) for name in overall}, **clients}
    echo_line(title or f"On {measures['rows']} rows that were held out:")
    names = [f"share of {model.classes.tolist()[1]}" if name == POSITIVES else name for name in overall]
    _print_rows(["", *names], [[who, *(_number(found.get(name)) for name in overall)] for who, found in rows.items()])
    if ends and overall.get("auc") in (0.0, 1.0):
        echo_line(
            f"An auc of {overall['auc']:g} has the exact interval (Clopper, Pearson) of pairs without a common row."
        )
    _show_calibration(measures.get("calibration", {}).get("overall"))
    share, accuracy = overall.get(POSITIVES), overall.get("accuracy")
    if share is not None and accuracy is not None and accuracy <= max(share, 1 - share):
        often = model.classes.tolist()[int(share >= 0.5)]
        echo_line(
            f"Its accuracy is not above that of the answer {often} for every row; auc says how well it orders rows."
        )


def _show_calibration(found: Json | None) -> None:
    if found is None:
        return
    if found["slope"] is None:
        echo_line(f"Calibration: {found['sentence']}.")
        return
    slope, start = ([f"{value:.3g}" for value in found[name]] for name in ("slope", "intercept"))
    of_slope, of_start = (f"{value} ({lower} to {upper})" for value, lower, upper in (slope, start))
    echo_line(f"Calibration: slope {of_slope}, 1 if right; intercept {of_start}, 0 if right.")


def _ends(ends: list[float] | None) -> str:
    return "-" if ends is None else f"{ends[0]:.3g} to {ends[1]:.3g}"


def _show_coefficients(model: Any, most: int | None) -> None:
    bent = {model.encoder.features[j] for place in model.encoder.bent.values() for j in range(place.start, place.stop)}
    used = [c for c in model.coefficients if c.size > 0 and c.feature not in bent]
    several, proved = model.weights.ndim > 1, proved_of(model)
    names = [f"per unit, {label}" for label in model.classes.tolist()] if several else ["per unit"]
    names += ["within"] * bool(proved) + ["per deviation"] * (not several) + ["proved"] * bool(proved)
    numbers = set(model.encoder.numbers)
    rows = []
    for c in used[:most]:
        told = proved.get(c.feature, {})
        within = _within(told)
        cells = [determined(value, within, sign=True) for value in c.per_unit]
        cells += [rounded_up(within, 2) if math.isfinite(within) else "-"] * bool(proved)
        if not several:
            ratio = c.per_deviation[0] / c.per_unit[0]
            cells += ["-" if c.feature not in numbers else determined(c.per_deviation[0], ratio * within, sign=True)]
        rows.append([c.feature, *cells, *[told.get("proved", "")] * bool(proved)])
    within = _within(proved.get(INTERCEPT, {}))
    alone = [determined(value, within, sign=True) for value in model.intercept.reshape(-1).tolist()]
    beside = [rounded_up(within, 2) if math.isfinite(within) else "-", "-", ""] if proved else ["-"] * (not several)
    # a baseline hazard takes the place of an intercept
    shown = rows if model.answers.reading.timed else [*rows, [INTERCEPT, *alone, *beside]]
    features = len(model.encoder.features) - len(bent)
    echo_line(f"Coefficients of {model.adds_to}: {len(used)} of {features} are not 0, the largest first:")
    _print_rows(["feature", *names], shown)
    if len(used) > len(rows):
        echo_line(f"{len(used) - len(rows)} more: fedualex explain")
    _show_zeros([c.feature for c in model.coefficients if c.size == 0 and c.feature not in bent], proved)
    for name in model.encoder.curves:
        _show_curve(model, name)


def _show_curve(model: Any, name: str) -> None:
    """What a column that bends adds, at its knots; where the penalty left nothing of it, that."""
    found = _curve_at_knots(model, name)
    words = apart(found["knots"])
    against = words[len(words) // 2]
    if not model.weights[model.encoder.bent[name]].any():
        straight = "zero" if not model.weights[model.encoder.numbers.index(name)].any() else "straight"
        echo_line(f"The effect of {name} does not bend at this penalty: it is {straight}.")
        return
    told = [f"{_each(adds)} at {word}" for word, adds in zip(words, found["adds"], strict=True) if word != against]
    echo_line(
        f"The effect of {name} bends between {words[0]} and {words[-1]}, and is straight beyond. Against {against} it "
        f"adds {', '.join(told)}; its coefficient above is of the straight part alone."
    )


def _each(adds: Any) -> str:
    """A number, or one for each score."""
    return ", ".join(f"{value:+.4g}" for value in (adds if isinstance(adds, list) else [adds]))


def _within(told: dict[str, Any]) -> float:
    """The bound that is proved of a coefficient, infinite if none is."""
    bound = told.get("within")
    return math.inf if bound is None else float(bound)


def _show_zeros(zeros: list[str], proved: dict[str, Any]) -> None:
    """Which coefficients are 0 in the best model too."""
    known = [name for name in zeros if proved.get(name, {}).get("proved") == "zero"]
    if known:
        more = f", and {len(known) - FEW} more" if len(known) > FEW else ""
        echo_line(f"Proved to be 0 in the best model at this penalty: {', '.join(known[:FEW])}{more}.")
    if known and (rest := [name for name in zeros if name not in known]):
        echo_line(f"Not proved of {', '.join(rest[:FEW])}{f', and {len(rest) - FEW} more' if len(rest) > FEW else ''}.")


def _print_rows(names: list[str], rows: list[list[str]]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(*map(in_one_line, names), box=box.SIMPLE_HEAD, collapse_padding=True)
    for row in rows:
        table.add_row(*map(in_one_line, row))
    print_table(table)


def _number(value: float | str | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:.4g}"

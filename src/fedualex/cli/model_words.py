"""A model on the screen: its certificate in words, its test, its coefficients; and its predictions as text."""

import csv
import io
import json
from typing import Any

import click

from ..display import rounded_up
from .common import print_table


def predictions(model: Any, table: Any) -> dict[str, list[Any]]:
    """The columns of the file that `predict` writes."""
    scores = model.decision_function(table)
    columns = {"prediction": model.answers.of(scores).tolist()}
    if model.answers.kind == "numbers":
        return columns
    if scores.ndim == 1:
        columns["score"] = scores.tolist()
    if model.answers.kind == "classes":
        for label, share in zip(model.classes.tolist(), model.answers.probabilities(scores).T, strict=True):
            columns[f"probability of {label}"] = share.tolist()
    return columns


def as_text(columns: dict[str, list[Any]], as_json: bool) -> str:
    """Columns as a CSV file or as one JSON document."""
    if as_json:
        return json.dumps(columns, indent=1, allow_nan=False) + "\n"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def description(model: Any) -> dict[str, Any]:
    """A model as JSON."""
    return {
        "target": model.target,
        "answers": model.answers.kind,
        "classes": model.classes.tolist(),
        "certificate": model.certificate,
        "intercept": model.intercept.tolist(),
        "coefficients": {c.feature: c.per_unit.tolist() for c in model.coefficients if c.size > 0},
        "training": model.training,
    }


def show(model: Any, most: int | None) -> None:
    """A model for people: what is certified, how it fares, and its coefficients."""
    click.echo(claim(model))
    _show_measures(model.training.get("held_out"))
    _show_coefficients(model, most)


def claim(model: Any) -> str:
    """The certificate in words."""
    found, gap, tol = model.certificate, model.certificate.get("gap"), model.certificate.get("tol")
    cost = f"{found.get('exchanges')} exchanges with {len(model.training.get('clients', ()))} clients"
    if gap is None:
        return f"Nothing is certified ({found.get('meaning')}) after {cost}."
    above = found.get("violation")
    limit = "" if above is None else f" Its limit is exceeded by at most {rounded_up(above, 3)}."
    short = "" if tol is None or gap <= tol else f" The tolerance {tol:g} was not reached: raise --rounds or --tol."
    return (
        f"Certified: no model of this kind has an objective lower by more than {rounded_up(gap, 3)}, "
        f"known after {cost}.{limit}{short}"
    )


def _show_measures(measures: dict[str, Any] | None) -> None:
    from rich import box
    from rich.table import Table

    if measures is None:
        return
    names = list(measures["overall"])
    table = Table("", *names, title=f"on {measures['rows']} held-out rows", box=box.SIMPLE_HEAD, collapse_padding=True)
    table.add_row("all clients", *(_number(measures["overall"][name]) for name in names))
    if len(measures["clients"]) > 1:
        for client, found in measures["clients"].items():
            table.add_row(client, *(_number(found[name]) for name in names))
    print_table(table)


def _show_coefficients(model: Any, most: int | None) -> None:
    from rich import box
    from rich.table import Table

    used = [c for c in model.coefficients if c.size > 0]
    scores = [""] if model.weights.ndim == 1 else [f" {label}" for label in model.classes.tolist()]
    names = [f"per unit{score}" for score in scores] + ([] if len(scores) > 1 else ["per deviation"])
    title = f"coefficients: {len(used)} of {len(model.encoder.features)} are not 0, the largest first"
    table = Table("feature", *names, title=title, box=box.SIMPLE_HEAD, collapse_padding=True)
    for found in used[:most]:
        extra = [] if len(scores) > 1 else [f"{found.per_deviation[0]:+.4g}"]
        table.add_row(found.feature, *(f"{value:+.4g}" for value in found.per_unit), *extra)
    print_table(table)
    if most is not None and len(used) > most:
        click.echo(f"{len(used) - most} more: fedualex explain")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"

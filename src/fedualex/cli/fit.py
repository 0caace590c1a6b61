"""`fedualex fit`, `predict`, `explain`: from a table to a certified model, and what it is good for."""

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ..display import rounded_up, visible
from .common import echo, json_option, one_line_errors, out_option, print_json, print_table, resumable

# A model on the screen: its certificate in words, its test, its coefficients; and its predictions as text.


POSITIVES = "positives"
"""The measure that is the share of the second class, whose name people see instead."""
FEW = 12
"""Coefficients that a fit shows; `explain` shows all that are not 0."""


def predictions(model: Any, table: Any) -> dict[str, list[Any]]:
    """The columns of the file that `predict` writes."""
    scores = model.decision_function(table)
    if not isinstance(model.target, str):
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


def description(model: Any) -> dict[str, Any]:
    """A model as JSON."""
    return {
        "target": model.target,
        "answers": model.answers.reading.name,
        "classes": model.classes.tolist(),
        "certificate": model.certificate,
        "intercept": model.intercept.tolist(),
        "coefficients": {c.feature: c.per_unit.tolist() for c in model.coefficients if c.size > 0},
        "training": model.training,
    }


def show(model: Any, most: int | None) -> None:
    """A model for people: what is certified, how it fares, and its coefficients."""
    echo(claim(model))
    for sentence in model.training.get("weighs", ()):
        echo(f"In its objective {sentence}.")
    _show_measures(model, model.training.get("held_out"))
    for part in model.parts():
        _show_coefficients(part, most)


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


def _show_measures(model: Any, measures: dict[str, Any] | None) -> None:
    if measures is None:
        return
    from ..tables.measures import worst

    overall, clients = measures["overall"], measures["clients"]
    rows = {"all clients": overall}
    if len(clients) > 1:
        rows |= {"worst of each": {name: worst(name, clients) for name in overall}, **clients}
    echo(f"On {measures['rows']} rows that were held out:")
    names = [f"share of {model.classes.tolist()[1]}" if name == POSITIVES else name for name in overall]
    _print_rows(["", *names], [[who, *(_number(found.get(name)) for name in overall)] for who, found in rows.items()])
    share, accuracy = overall.get(POSITIVES), overall.get("accuracy")
    if share is not None and accuracy is not None and accuracy <= max(share, 1 - share):
        often = model.classes.tolist()[int(share >= 0.5)]
        echo(f"Its accuracy is not above that of the answer {often} for every row; auc says how well it orders rows.")


def _show_coefficients(model: Any, most: int | None) -> None:
    used = [c for c in model.coefficients if c.size > 0]
    several = model.weights.ndim > 1
    names = [f"per unit, {label}" for label in model.classes.tolist()] if several else ["per unit", "per deviation"]
    words = {f"{name}={word}" for name, known in model.encoder.categories.items() for word in known}
    rows = []
    for c in used[:most]:
        deviation = ["-" if c.feature in words else f"{c.per_deviation[0]:+.4g}"] * (not several)
        rows.append([c.feature, *(f"{value:+.4g}" for value in c.per_unit), *deviation])
    alone = [f"{value:+.4g}" for value in model.intercept.reshape(-1).tolist()]
    shown = [*rows, ["(intercept)", *alone, *["-"] * (not several)]]
    features = len(model.encoder.features)
    echo(f"Coefficients of {model.adds_to}: {len(used)} of {features} are not 0, the largest first:")
    _print_rows(["feature", *names], shown)
    if len(used) > len(rows):
        echo(f"{len(used) - len(rows)} more: fedualex explain")


def _print_rows(names: list[str], rows: list[list[str]]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(*names, box=box.SIMPLE_HEAD, collapse_padding=True)
    for row in rows:
        table.add_row(*row)
    print_table(table)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


# What a person can choose about a model of a table, whether the table is here or at several sites.


OPTIONS = (
    click.option("--target", help="The column to predict; low-rank: several, with commas between them."),
    click.option("--groups", help="fair: the column whose groups are served, whoever holds their rows; no feature."),
    click.option("--weights", help="The column that says how much a row counts, a number >= 0; no feature."),
    click.option("--goal", help="logistic, fair, auc, neyman-pearson, lasso, fair-regression, robust or low-rank."),
    click.option("--l1", type=float, help="Weight of the l1 penalty; larger is sparser."),
    click.option("--l2", type=float, help="Weight of the squared l2 penalty."),
    click.option(
        "--cvar", type=float, help="fair: the share of clients that is served worst, not the worst one alone."
    ),
    click.option("--nuclear", type=float, help="low-rank: weight of the nuclear norm; larger has fewer directions."),
    click.option("--limit", type=float, help="neyman-pearson: the largest mean loss of the limited class."),
    click.option("--limited", help="neyman-pearson: the class whose loss is limited; the first in sorted order."),
    click.option("--tol", type=float, help="The certified gap at which the fit ends."),
    click.option("--rounds", type=int, help="The most exchanges with the clients."),
    click.option("--holdout", type=float, help="The share of rows kept for the test; 0.2."),
)


def goal_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with all of them, in this order."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("table")
@goal_options
@click.option("--clients", help="The column that says whose row it is; a number makes as many random clients.")
@click.option("--ignore", help="Columns that take no part, such as ids, with commas between them.")
@out_option(default=None, help="The fit's folder; fits/TABLE-GOAL. An unfinished fit in it is resumed.")
@json_option
@one_line_errors
def fit(table: str, out: Path | None, as_json: bool, **options: Any) -> None:
    """Fit a model to a TABLE (.csv, .parquet, .npz, bundled:NAME, or a .toml file with a table [fit]) and keep it.

    Numbers are standardized, categories become columns, missing values are filled in, all from sums of the clients.
    """
    from ..models.store import MODEL
    from ..runs.settings import check_tables, read_toml
    from ..tables.fit import fit_into, plan_fit

    given = {key: value for key, value in options.items() if value is not None}
    if "ignore" in given:
        given["ignore"] = given["ignore"].split(",")
    folder, settings = Path(), {"table": table, **given}
    if table.endswith(".toml"):
        document = read_toml(Path(table))
        check_tables(document, ("fit",))
        folder, settings = Path(table).parent, {**document["fit"], **given}
    planned = plan_fit(settings, folder)
    path = out or Path("fits") / f"{Path(table.removeprefix('bundled:')).stem}-{planned.goal}"
    if not as_json:
        echo("\n".join([planned.words, *(f"note: {note}" for note in planned.notes)]))
    with resumable("the fit", as_json):
        model = fit_into(path, planned)
    if as_json:
        print_json({"folder": str(path), "goal": planned.goal, "notes": planned.notes, **description(model)})
    else:
        show(model, FEW)
        echo(f"model: {path / MODEL}")
    reached = model.certificate["status"] == "OPTIMAL"
    if not reached and not as_json:
        echo("To come nearer, raise --rounds, or accept a larger --tol; with another --out.")
    sys.exit(0 if reached else 3)


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("table", type=click.Path())
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="The file to write; the screen if left out."
)
@json_option
@one_line_errors
def predict(model: Path, table: str, out: Path | None, as_json: bool) -> None:
    """Predict the rows of a TABLE by a MODEL: a CSV file with the prediction, the score and the probabilities."""
    from ..data.files import read_table
    from ..models import load
    from ..storage import write_atomically

    found = load(model)
    rows = read_table(table, Path(), found.encoder.categories)
    for name, unseen in found.unseen(rows).items():
        shown = ", ".join(unseen[:3]) + (", ..." if len(unseen) > 3 else "")
        echo(f"note: {name} holds categories that were not there in training: {shown}", err=True)
    text = as_text(predictions(found, rows), as_json)
    if out is None:
        click.echo(visible(text) if sys.stdout.isatty() else text, nl=False)
    else:
        write_atomically(out, text.encode())
        echo(f"{rows.rows} predictions: {out}")


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@json_option
@one_line_errors
def explain(model: Path, as_json: bool) -> None:
    """What a MODEL predicts from what, what is certified about it, and how it fared on held-out rows."""
    from ..models import load

    found = load(model)
    if as_json:
        print_json(description(found))
    else:
        show(found, None)

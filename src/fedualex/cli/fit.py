"""`fedualex fit`, `predict`, `explain`: from a table to a certified model, and what it is good for."""

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import click

from ..display import rounded_up
from .common import json_option, one_line_errors, out_option, print_json, print_table

FEW = 12
"""Coefficients that `fit` shows; `explain` shows all that are not 0."""


@click.command()
@click.argument("table")
@click.option("--target", help="The column to predict.")
@click.option("--clients", help="The column that says whose row it is; a number makes as many random clients.")
@click.option("--goal", help="logistic, fair, auc, neyman-pearson, lasso, fair-regression or robust.")
@click.option("--l1", type=float, help="Weight of the l1 penalty; larger is sparser.")
@click.option("--l2", type=float, help="Weight of the squared l2 penalty.")
@click.option("--cvar", type=float, help="fair: the share of clients that is served worst, not the worst one alone.")
@click.option("--limit", type=float, help="neyman-pearson: the largest mean loss of the limited class.")
@click.option("--limited", help="neyman-pearson: the class whose loss is limited; the first in sorted order.")
@click.option("--tol", type=float, help="The certified gap at which the fit ends.")
@click.option("--rounds", type=int, help="The most exchanges with the clients.")
@click.option("--holdout", type=float, help="The share of rows kept for the test; 0.2.")
@out_option(default=None, help="The fit's folder; fits/NAME of the table. An unfinished fit in it is resumed.")
@json_option
@one_line_errors
def fit(table: str, out: Path | None, as_json: bool, **options: Any) -> None:
    """Fit a model to a TABLE (.csv, .parquet, .npz, bundled:NAME, or a .toml file with a table [fit]) and keep it.

    Numbers are standardized, categories become columns, missing values are filled in, all from sums of the clients.
    """
    from ..experiments.configuration import check_tables, read_toml
    from ..experiments.fitting import MODEL, fit_into, plan_fit

    given = {key: value for key, value in options.items() if value is not None}
    folder, settings = Path(), {"table": table, **given}
    if table.endswith(".toml"):
        document = read_toml(Path(table))
        check_tables(document, ("fit",))
        folder, settings = Path(table).parent, {**document["fit"], **given}
    path = out or Path("fits") / Path(table.removeprefix("bundled:")).stem
    planned = plan_fit(settings, folder)
    if not as_json:
        click.echo("\n".join([planned.words, *(f"note: {note}" for note in planned.notes)]))
    model = fit_into(path, planned)
    if as_json:
        print_json({"folder": str(path), "goal": planned.goal, "notes": planned.notes, **description(model)})
    else:
        show(model, FEW)
        click.echo(f"model: {path / MODEL}")
    sys.exit(0 if model.certificate["status"] == "OPTIMAL" else 3)


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
    from ..experiments.fitting import read_table
    from ..storage import write_atomically

    found, rows = load(model), read_table(table, Path())
    for name, unseen in found.unseen(rows).items():
        shown = ", ".join(unseen[:3]) + (", ..." if len(unseen) > 3 else "")
        click.echo(f"note: {name} holds categories that were not there in training: {shown}", err=True)
    text = _as_text(predictions(found, rows), as_json)
    if out is None:
        click.echo(text, nl=False)
    else:
        write_atomically(out, text.encode())
        click.echo(f"{rows.rows} predictions: {out}")


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@json_option
@one_line_errors
def explain(model: Path, as_json: bool) -> None:
    """What a MODEL predicts from what, what is certified about it, and how it fared on held-out rows."""
    found = load(model)
    if as_json:
        print_json(description(found))
    else:
        show(found, None)


def load(path: Path) -> Any:
    """The model of a folder, or of the folder of a fit."""
    from ..experiments.fitting import MODEL
    from ..models import load as load_model

    inner = path / MODEL
    return load_model(inner if inner.is_dir() else path)


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


def _as_text(columns: dict[str, list[Any]], as_json: bool) -> str:
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

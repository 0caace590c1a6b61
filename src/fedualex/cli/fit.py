"""`fedualex fit`, `predict`, `explain`: from a table to a certified model, and what it is good for."""

import sys
from pathlib import Path
from typing import Any

import click

from .common import json_option, one_line_errors, out_option, print_json, resumable
from .goal_options import goal_options
from .model_words import FEW, as_text, description, predictions, show


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
    from ..experiments.configuration import check_tables, read_toml
    from ..experiments.fitting import fit_into, plan_fit
    from ..models.store import MODEL

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
        click.echo("\n".join([planned.words, *(f"note: {note}" for note in planned.notes)]))
    with resumable("the fit", as_json):
        model = fit_into(path, planned)
    if as_json:
        print_json({"folder": str(path), "goal": planned.goal, "notes": planned.notes, **description(model)})
    else:
        show(model, FEW)
        click.echo(f"model: {path / MODEL}")
    reached = model.certificate["status"] == "OPTIMAL"
    if not reached and not as_json:
        click.echo("To come nearer, raise --rounds, or accept a larger --tol; with another --out.")
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
    from ..experiments.fitting import read_table
    from ..models import load
    from ..storage import write_atomically

    found, rows = load(model), read_table(table, Path())
    for name, unseen in found.unseen(rows).items():
        shown = ", ".join(unseen[:3]) + (", ..." if len(unseen) > 3 else "")
        click.echo(f"note: {name} holds categories that were not there in training: {shown}", err=True)
    text = as_text(predictions(found, rows), as_json)
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
    from ..models import load

    found = load(model)
    if as_json:
        print_json(description(found))
    else:
        show(found, None)

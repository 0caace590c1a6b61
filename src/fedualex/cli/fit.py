"""`fedualex fit`, `predict`, `explain`: from a table to a certified model, and what it is good for."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..display import visible
from .common import (
    BadInput,
    echo,
    echo_line,
    json_option,
    one_line_errors,
    out_option,
    print_json,
    print_paragraph,
    resumable,
)
from .shown import (
    FEW,
    as_text,
    description,
    path_columns,
    predictions,
    show,
    show_effects,
    show_measures,
    show_path,
)

if TYPE_CHECKING:
    from ..models import Model

# What a person can choose about a model of a table, whether the table is here or at several sites.


def names(context: click.Context, option: click.Parameter, given: str | None) -> list[str] | None:
    """The names of columns with commas between them."""
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


def _references(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str] | None:
    """COLUMN=LEVEL, as often as it is given."""
    parts = [one.partition("=") for one in given]
    if wrong := [one for one, part in zip(given, parts, strict=True) if not part[0] or not part[2]]:
        raise BadInput(f"--reference must be COLUMN=LEVEL, such as thal=3, got {wrong[0]!r}")
    return {name: level for name, _, level in parts} or None


def _limits(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> float | dict[str, float] | None:
    """A number, or GROUP=NUMBER as often as it is given."""
    limits = dict[str, float]()
    for one in given:
        name, _, number = one.rpartition("=")
        try:
            limit = float(number)
        except ValueError:
            limit = -1.0
        if not 0 < limit < float("inf") or (not name and ("=" in one or len(given) > 1)):
            raise BadInput(f"--limit must be GROUP=NUMBER, such as north=0.4, or one NUMBER, above 0, got {one!r}")
        if not name:
            return limit
        if name in limits:
            raise BadInput(f"--limit must name every group once, got {name!r} twice")
        limits[name] = limit
    return limits or None


class NumberOr(click.ParamType):  # type: ignore[type-arg]  # older versions have no argument
    """A number, or one word."""

    def __init__(self, kind: Callable[[str], Any], word: str):
        self.kind, self.word, self.name = kind, word, f"number|{word}"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """As it is read."""
        if value == self.word or not isinstance(value, str):
            return value
        try:
            return self.kind(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor {self.word!r}.", param, ctx)


PENALTY, FOLDS = NumberOr(float, "auto"), NumberOr(int, "sites")
OPTIONS = (
    click.option("--target", help="The column to predict; low-rank: several, with commas between them."),
    click.option("--time", help="cox, fair-cox, limits-cox: the column of times, in place of a target."),
    click.option("--event", help="Beside --time: the column that is 1 if the event happened at that time, else 0."),
    click.option("--groups", help="fair: the column whose groups are served, whoever holds their rows; no feature."),
    click.option("--weights", help="The column that says how much a row counts, a number >= 0; no feature."),
    click.option(
        "--least-rows", type=int, help="fair: groups of fewer rows are one group together; 20, 0 merges none."
    ),
    click.option("--exposure", help="poisson: the column of what counts are over, as days or persons; no feature."),
    click.option("--categories", callback=names, help="Columns of numbers that are categories, with commas between."),
    click.option(
        "--reference",
        multiple=True,
        callback=_references,
        help="COLUMN=LEVEL: the category that others are compared with; the most frequent. May be repeated.",
    ),
    click.option("--smooth", callback=names, help="Columns of numbers whose effects may bend, with commas between."),
    click.option("--interact", callback=names, help="Products of columns as features, as dose:sex,age:sex."),
    click.option("--missing", help="mean, indicator (a 0/1 column more) or drop (rows with holes are left out); mean."),
    click.option("--id", help="The column that names rows, in errors; no feature."),
    click.option(
        "--goal",
        help="logistic, fair, auc, neyman-pearson, limits, lasso, fair-regression, limits-regression, robust, poisson, "
        "fair-counts, limits-counts, low-rank, cox, fair-cox or limits-cox.",
    ),
    click.option(
        "--l1", type=PENALTY, help="Weight of the l1 penalty, larger is sparser; auto: what held-out rows choose."
    ),
    click.option("--l2", type=PENALTY, help="Weight of the squared l2 penalty; auto, as for l1."),
    click.option(
        "--cvar", type=float, help="fair: the share of clients that is served worst, not the worst one alone."
    ),
    click.option(
        "--kl", type=float, help="fair with --groups: how weights are held to shares of rows; 0.1, 0 not at all."
    ),
    click.option(
        "--nuclear", type=PENALTY, help="low-rank: weight of the nuclear norm, larger has fewer directions; or auto."
    ),
    click.option(
        "--limit",
        multiple=True,
        callback=_limits,
        help="GROUP=NUMBER: the largest mean loss of a group (--groups, or a client), of times to an event as a share "
        "of that without a model. May be repeated. neyman-pearson: NUMBER, of the limited class.",
    ),
    click.option("--limited", help="neyman-pearson: the class whose loss is limited; the first in sorted order."),
    click.option(
        "--rate", type=float, help="neyman-pearson: the largest share of the limited class on the wrong side."
    ),
    click.option("--folds", type=FOLDS, help="Parts of each client's rows that choose a penalty, 5; or sites."),
    click.option("--choose", help="The rule that chooses a penalty: one-standard-error, or best, as for l2."),
    click.option("--confidence", type=float, help="Of intervals; 0.95."),
    click.option(
        "--site-intercepts",
        type=bool,
        help="Whether each client has an intercept in the table of effects; yes where clients are a column.",
    ),
    click.option("--collinear", help="Columns that are combinations of others, without penalty: drop, or refuse."),
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
@click.option("--ignore", callback=names, help="Columns that take no part, such as ids, with commas between them.")
@out_option(default=None, help="The fit's folder; fits/TABLE-GOAL. An unfinished fit in it is resumed.")
@json_option
@one_line_errors
def fit(table: str, out: Path | None, as_json: bool, **options: object) -> None:
    """Fit a model to a TABLE (.csv, .parquet, .npz, bundled:NAME, or a .toml file with a table [fit]) and keep it.

    Numbers are standardized, categories become columns, missing values are filled in, all from sums of the clients.
    """
    from ..models.store import MODEL
    from ..runs.settings import check_tables, read_toml
    from ..tables.fit import fit_into, plan_fit

    given = {key: value for key, value in options.items() if value is not None}
    folder, settings = Path(), {"table": table, **given}
    if table.endswith(".toml"):
        document = read_toml(Path(table))
        check_tables(document, ("fit",))
        folder, settings = Path(table).parent, {**document["fit"], **given}
    planned = plan_fit(settings, folder)
    path = out or Path("fits") / f"{Path(table.removeprefix('bundled:')).stem}-{planned.goal}"
    _tell(planned.words)
    with resumable("the fit", as_json):
        model = fit_into(path, planned, _tell)
    if as_json:
        print_json({"folder": str(path), "goal": planned.goal, "notes": planned.notes, **description(model)})
    else:
        show(model, FEW)
        for note in planned.notes:
            print_paragraph(f"note: {note}")
        echo(f"model: {path / MODEL}")
        echo(f"next: fedualex report {path}, a page; fedualex predict {path} NEW.csv")
    reached = model.certificate["status"] == "OPTIMAL"
    if not reached and not as_json:
        echo("To come nearer, raise --rounds, or accept a larger --tol; with another --out.")
    sys.exit(0 if reached else 3)


def _tell(text: str) -> None:
    """What is done, for somebody who waits."""
    if sys.stderr.isatty():
        echo(text, err=True)


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("table", type=click.Path())
@click.option("--keep", callback=names, help="Columns of the table that come first in the file, such as an id.")
@click.option("--id", "key", help="The column that names rows in errors; that of the fit.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="The file to write; the screen if left out."
)
@click.option("--survival", callback=names, help="cox: times, with commas between, up to which to tell survival.")
@click.option("--clients", help="With --survival: the column that says whose baseline hazard is a row's.")
@click.option("--calibrated", is_flag=True, help="Probabilities by the line of calibration of the rows held out.")
@json_option
@one_line_errors
def predict(
    model: Path,
    table: str,
    keep: list[str] | None,
    key: str | None,
    out: Path | None,
    survival: list[str] | None,
    clients: str | None,
    calibrated: bool,
    as_json: bool,
) -> None:
    """Predict the rows of a TABLE by a MODEL: a CSV file with the prediction, the score and the probabilities."""
    from ..data.columns import name_rows
    from ..models import load
    from ..storage import write_atomically

    fitted = load(model).calibrated() if calibrated else load(model)
    rows = _rows_for(fitted, table, [*(keep or []), *([clients] if clients else [])], key)
    for sentence in (*_describe_unseen(fitted, rows), *_beyond(fitted, rows)):
        echo_line(f"note: {sentence}", err=True)
    with name_rows(rows, key or fitted.training.get("id")):
        columns = predictions(fitted, rows)
    if survival:
        columns |= _survival(model, fitted, rows, clients, survival)
    if twice := [name for name in keep or () if name in columns]:
        raise ValueError(f"keep must name columns that predict does not write, got {twice[0]!r}")
    text = as_text(kept_columns(rows, keep or []) | columns, as_json)
    if out is None:
        click.echo(visible(text) if sys.stdout.isatty() else text, nl=False)
    else:
        write_atomically(out, text.encode())
        echo(f"{rows.rows} predictions: {out}")


def _survival(path: Path, model: "Model", rows: Any, clients: str | None, times: list[str]) -> dict[str, list[Any]]:
    """For each time the probability of no event up to it."""
    from ..tables.baselines import read_baselines, survival

    if not model.answers.reading.timed:
        raise BadInput(
            f"--survival is for models of times to an event, and this one is a {model.answers.reading.title}"
        )
    try:
        until = [float(time) for time in times]
    except ValueError:
        raise BadInput(f"--survival must be times such as 365,730, got {','.join(times)}") from None
    owners = None if clients is None else rows[clients]
    return survival(read_baselines(path), model.decision_function(rows), owners, until)


def _rows_for(model: "Model", table: str, beside: list[str], key: str | None) -> Any:
    """The table with the columns of a model as they were in training, and with others as the file has them."""
    from ..data.files import read_table
    from ..validation import hint

    encoder = model.encoder
    words = {name for name in encoder.categories if name not in encoder.codes}
    targets = set(model.targets) if model.classes.dtype.kind == "U" else set()
    free = {*beside, *([key] if key else [])} - {*model.columns, *model.targets}
    rows = read_table(table, Path(), words | targets | free)
    for option, name in (*(("keep", name) for name in beside), *([("id", key)] if key else [])):
        if name not in rows:
            raise ValueError(f"{option}: {rows.source} has no column {name!r}; {hint(name, rows)}")
    return rows


def _describe_unseen(model: "Model", rows: Any) -> list[str]:
    """What a table has that training had not, in sentences."""
    said = []
    for name, unseen in model.unseen(rows).items():
        shown = ", ".join(unseen[:3]) + (", ..." if len(unseen) > 3 else "")
        said.append(f"{name} holds categories that were not there in training: {shown}")
    return said


def _holes(model: "Model", rows: Any, dropped: int) -> list[str]:
    """What was done with the rows of a table that miss values, in a sentence; none if no row does."""
    if dropped:
        return [f"rows with missing values are left out, as they were in training: {dropped}"]
    gone = [f"{name} ({count})" for name, count in model.holes(rows).items()]
    shown = ", ".join(gone[:5]) + (f" and {len(gone) - 5} more" if len(gone) > 5 else "")
    return [f"missing values count as the mean of training: {shown}"] if gone else []


def _beyond(model: "Model", rows: Any) -> list[str]:
    """Where effects are straight lines beyond what they were fitted to bend in, in sentences."""
    return [
        f"{name} is below {low:.4g} or above {high:.4g}, its outer knots, in {count} of {rows.rows} rows: its effect "
        "is straight there"
        for name, (count, low, high) in model.beyond(rows).items()
    ]


def kept_columns(table: Any, names: list[str]) -> dict[str, list[Any]]:
    """Columns of a table as a file has them; None where a value is missing."""
    columns = {name: table[name].tolist() for name in names}
    return {name: [None if value != value else value for value in column] for name, column in columns.items()}


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("table", type=click.Path())
@click.option("--clients", help="The column that says whose row it is; all rows are one client's if left out.")
@click.option("--id", "key", help="The column that names rows in errors; that of the fit.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="A CSV file to write the measures to.")
@json_option
@one_line_errors
def evaluate(model: Path, table: str, clients: str | None, key: str | None, out: Path | None, as_json: bool) -> None:
    """Measure a MODEL on a TABLE with its target that it was not fitted to: of all rows, and of each client."""
    from ..data.columns import name_rows
    from ..models import load
    from ..storage import write_atomically
    from ..tables.measures import evaluate_model

    fitted = load(model)
    rows = _rows_for(fitted, table, [], key)
    with name_rows(rows, key or fitted.training.get("id")):
        measures = evaluate_model(fitted, rows, clients)
    notes = [*_describe_unseen(fitted, rows), *_holes(fitted, rows, measures.dropped), *_beyond(fitted, rows)]
    for note in notes:
        echo_line(f"note: {note}", err=True)
    if out is not None:
        write_atomically(out, as_text(measures.columns(), False).encode())
    if as_json:
        print_json({"notes": notes, **measures.plain()})
        return
    show_measures(fitted, measures.plain(), title=f"On {rows.rows - measures.dropped} rows of {rows.source}:")
    if out is not None:
        echo(f"measures: {out}")


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--errors", help="model-based, sandwich or clustered; the first that the model has.")
@click.option("--path", is_flag=True, help="In place of effects the penalties that were tried, with held-out losses.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="A CSV file to write the table to.")
@json_option
@one_line_errors
def summary(model: Path, errors: str | None, path: bool, out: Path | None, as_json: bool) -> None:
    """The table of effects of a MODEL: estimates, standard errors, intervals, ratios and p."""
    from ..models import load
    from ..storage import write_atomically
    from ..tables.effects import effect_columns

    kept = load(model)
    if path:
        columns = path_columns(kept)
        if out is not None:
            write_atomically(out, as_text(columns, False).encode())
        if as_json:
            print_json(columns)
        else:
            show_path(kept, columns)
        return
    effects = kept.effects(errors)
    if out is not None and "refused" not in effects:
        write_atomically(out, as_text(effect_columns(effects), False).encode())
    if as_json:
        print_json(effects)
        return
    show_effects(kept, effects)
    if out is not None:
        echo(f"effects: {out}")


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@json_option
@one_line_errors
def explain(model: Path, as_json: bool) -> None:
    """What a MODEL predicts from what, what is certified about it, and how it fared on held-out rows."""
    from ..models import load

    fitted = load(model)
    if as_json:
        print_json(description(fitted))
    else:
        show(fitted, None)

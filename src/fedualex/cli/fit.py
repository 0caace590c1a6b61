"""`fedualex fit`, `predict`, `explain`: from a table to a certified model, and what it is good for."""

import csv
import io
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ..display import determined, rounded_up, visible
from ..storage import Json
from .common import (
    BadInput,
    echo,
    echo_line,
    in_one_line,
    json_option,
    one_line_errors,
    out_option,
    print_json,
    print_table,
    resumable,
)

# A model on the screen: its certificate in words, its test, its coefficients; and its predictions as text.


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
        "proved": proved_of(model),
        "training": model.training,
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
    _show_measures(model, model.training.get("held_out"))
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
    for sentence in found.words:
        echo_line(sentence)


def _outcome(model: Any) -> str:
    """What effects are on: of two classes the second, whose odds or probability they raise."""
    labels = model.classes.tolist()
    if model.answers.reading.timed:
        return f"the hazard of {model.targets[1]}"
    return f"{model.target} = {labels[1]}" if len(labels) == 2 else str(model.target)


def _show_measures(model: Any, measures: Json | None, title: str = "") -> None:
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
    used = [c for c in model.coefficients if c.size > 0]
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
    features = len(model.encoder.features)
    echo_line(f"Coefficients of {model.adds_to}: {len(used)} of {features} are not 0, the largest first:")
    _print_rows(["feature", *names], shown)
    if len(used) > len(rows):
        echo_line(f"{len(used) - len(rows)} more: fedualex explain")
    _show_zeros([c.feature for c in model.coefficients if c.size == 0], proved)


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
    click.option("--time", help="cox, fair-cox: the column of times, in place of a target."),
    click.option("--event", help="cox, fair-cox: the column that is 1 if the event happened at that time, else 0."),
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
    click.option("--missing", help="mean, indicator (a 0/1 column more) or drop (rows with holes are left out); mean."),
    click.option("--id", help="The column that names rows, in errors; no feature."),
    click.option(
        "--goal",
        help="logistic, fair, auc, neyman-pearson, lasso, fair-regression, robust, poisson, fair-counts, low-rank, cox "
        "or fair-cox.",
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
    click.option("--limit", type=float, help="neyman-pearson: the largest mean loss of the limited class."),
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
    if not as_json:
        echo_line(planned.words)
        for note in planned.notes:
            echo_line(f"note: {note}")
    with resumable("the fit", as_json):
        model = fit_into(path, planned, _tell)
    if as_json:
        print_json({"folder": str(path), "goal": planned.goal, "notes": planned.notes, **description(model)})
    else:
        show(model, FEW)
        echo(f"model: {path / MODEL}")
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
    as_json: bool,
) -> None:
    """Predict the rows of a TABLE by a MODEL: a CSV file with the prediction, the score and the probabilities."""
    from ..data.columns import naming_rows
    from ..models import load
    from ..storage import write_atomically

    found = load(model)
    rows = _rows_for(found, table, [*(keep or []), *([clients] if clients else [])], key)
    for sentence in _unseen(found, rows):
        echo_line(f"note: {sentence}", err=True)
    with naming_rows(rows, key or found.training.get("id")):
        columns = predictions(found, rows)
    if survival:
        columns |= _survival(model, found, rows, clients, survival)
    if twice := [name for name in keep or () if name in columns]:
        raise ValueError(f"keep must name columns that predict does not write, got {twice[0]!r}")
    text = as_text(kept_columns(rows, keep or []) | columns, as_json)
    if out is None:
        click.echo(visible(text) if sys.stdout.isatty() else text, nl=False)
    else:
        write_atomically(out, text.encode())
        echo(f"{rows.rows} predictions: {out}")


def _survival(path: Path, model: Any, rows: Any, clients: str | None, times: list[str]) -> dict[str, list[Any]]:
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


def _rows_for(model: Any, table: str, beside: list[str], key: str | None) -> Any:
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


def _unseen(model: Any, rows: Any) -> list[str]:
    """What a table has that training had not, in sentences."""
    said = []
    for name, unseen in model.unseen(rows).items():
        shown = ", ".join(unseen[:3]) + (", ..." if len(unseen) > 3 else "")
        said.append(f"{name} holds categories that were not there in training: {shown}")
    return said


def _holes(model: Any, rows: Any, dropped: int) -> list[str]:
    """What was done with the rows of a table that miss values, in a sentence; none if no row does."""
    if dropped:
        return [f"rows with missing values are left out, as they were in training: {dropped}"]
    gone = [f"{name} ({count})" for name, count in model.holes(rows).items()]
    shown = ", ".join(gone[:5]) + (f" and {len(gone) - 5} more" if len(gone) > 5 else "")
    return [f"missing values count as the mean of training: {shown}"] if gone else []


def kept_columns(table: Any, names: list[str]) -> dict[str, list[Any]]:
    """Columns of a table as a file has them; None where a value is missing."""
    found = {name: table[name].tolist() for name in names}
    return {name: [None if value != value else value for value in column] for name, column in found.items()}


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
    from ..data.columns import naming_rows
    from ..models import load
    from ..storage import write_atomically
    from ..tables.measures import evaluated

    found = load(model)
    rows = _rows_for(found, table, [], key)
    with naming_rows(rows, key or found.training.get("id")):
        measures = evaluated(found, rows, clients)
    notes = [*_unseen(found, rows), *_holes(found, rows, measures.dropped)]
    for note in notes:
        echo_line(f"note: {note}", err=True)
    if out is not None:
        write_atomically(out, as_text(measures.columns(), False).encode())
    if as_json:
        print_json({"notes": notes, **measures.plain()})
        return
    _show_measures(found, measures.plain(), f"On {rows.rows - measures.dropped} rows of {rows.source}:")
    if out is not None:
        echo(f"measures: {out}")


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--errors", help="model-based, sandwich or clustered; the first that the model has.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="A CSV file to write the table to.")
@json_option
@one_line_errors
def summary(model: Path, errors: str | None, out: Path | None, as_json: bool) -> None:
    """The table of effects of a MODEL: estimates, standard errors, intervals, ratios and p."""
    from ..models import load
    from ..storage import write_atomically
    from ..tables.effects import effect_columns, effects_of

    kept = load(model)
    found = effects_of(kept, errors)
    if out is not None and "refused" not in found:
        write_atomically(out, as_text(effect_columns(found), False).encode())
    if as_json:
        print_json(found)
        return
    show_effects(kept, found)
    if out is not None:
        echo(f"effects: {out}")


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

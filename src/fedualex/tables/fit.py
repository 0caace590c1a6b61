"""From a table to a model: a consortium whose parties are in this process, a certified run, and the model to keep."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Values
from ..data import Encoder, Table, iid
from ..data.columns import refuse_twins
from ..data.moments import LEAST_SPREAD
from ..data.partitions import choose_held_out
from ..data.stored import StoredTable, open_table
from ..models import Model, save
from ..models.store import MODEL
from ..problems import Problem
from ..runs.folder import RUN_OF_FIT, load
from ..runs.settings import Configuration, ConfigurationError
from ..runs.solving import CONTENT, describe_difference, describe_method, describe_options, is_finished, solve_into
from ..runtime import Stop, solve
from ..runtime.options import SolveOptions
from ..runtime.prepare import check_simulation, choose_method
from ..storage import Json, write_json
from ..summaries import Known, merge_summaries
from ..validation import encode_labels, hint, missing, row_weights, rows_of, short
from .baselines import baseline_of, keep_baselines
from .choosing import PartiesHere
from .effects import Wanted, find_effects, find_unpenalized
from .goals import (
    GOALS,
    LIMITED_ONES,
    WORST,
    FitSettings,
    Selection,
    check_exposure,
    check_groups,
    check_limit,
    check_target,
    choose_goal,
    default_tolerance,
    limiting_goal,
    names_of,
    read_fit,
    read_least_rows,
)
from .kept_model import Answer, Calibrate, Findings, make_model, read_answer
from .large import check_large, sort_by_party
from .measures import measure_table
from .ordinary import Ordinary, fit_ordinary, judge_fairness, judge_limits, judge_shares, penalties_of, with_ordinary
from .party import Party, agree, pooled_problem
from .penalty import PENALTY, choose_penalty, chosen_known, told_penalty
from .rates import calibrate_threshold, check_rate
from .recipe import TableRecipe, read_recipe
from .weights import check_kl, words_of_weights

TABLE_KEYS = ("table", "clients", "ignore")
"""The keys of [fit] that say which rows there are, and whose; all others are those of `FIT_KEYS`."""
Announce = Callable[[str], None]
GOAL = "goal"
"""The key by which settings of a fit are told from those of a problem of the catalogue."""
ORDINARY_TOL = 1e-6
MANY = 30
"""Categories of a column from which on a person should know of them, and rows from which on ids can be told."""
FEW_CODES = 10
"""Whole numbers of a column may be codes if there are at most so many different ones."""
SOME = 1000
"""Rows that show that a column has more."""


# The parties: the rows of one table by whose they are.


@dataclass(frozen=True)
class Source:
    """Which table it is, whose rows they are, and which take no part, as a run folder keeps it.

    clients: the column that says so, or how many clients get rows at random. ignore: columns that take no part.
    """

    table: str
    clients: str | int
    ignore: Sequence[str]
    holdout: float

    def split(self, table: Table, recipe: TableRecipe) -> "Parties":
        """The rows of each party, in the sorted order of their names. Each holds out what it would choose alone."""
        if isinstance(table, StoredTable):
            return self._sort(table, recipe)
        whose = table[self.clients] if isinstance(self.clients, str) else iid(table.rows, self.clients)
        named, number = encode_labels(f"the column of clients {self.clients!r}", whose)
        refuse_twins(f"the column of clients {self.clients!r}", named.tolist())
        said = [self.clients] if isinstance(self.clients, str) else []
        dropped = [name for name in (*self.ignore, *said) if name not in recipe.beside]
        kept = table.without(*dropped)
        recipe.check_columns(kept, whose.tolist() if said else None)
        labels = recipe.kinds(kept)
        used, every = recipe.used_rows(kept), rows_of(number)
        own = [rows[used[rows]] for rows in every]
        if gone := [str(name) for name, rows in zip(named, own, strict=True) if not len(rows)]:
            raise ConfigurationError(f"every row of {_some(gone)} misses a value, so that missing = drop leaves none")
        held = [rows[choose_held_out(labels[rows], self.holdout, recipe.has_kinds)] for rows in own]
        test = np.sort(np.concatenate(held))
        left = [np.setdiff1d(rows, out) for rows, out in zip(own, held, strict=True)]
        trained = [kept.take(rows) for rows in left]
        places = [np.searchsorted(rows, some) for rows, some in zip(own, left, strict=True)]
        lost = [len(rows) - len(some) for rows, some in zip(every, own, strict=True)]
        tables = [replace(part, dropped=count) for part, count in zip(trained, lost, strict=True)]
        return Parties(
            tuple(map(str, named)),
            tuple(Party(recipe, m, *part) for m, part in enumerate(zip(tables, map(str, named), places, strict=True))),
            kept.take(test) if len(test) else None,
            whose[test],
        )

    def _sort(self, table: StoredTable, recipe: TableRecipe) -> "Parties":
        """`split` for a table that is larger than the memory."""
        check_large(recipe, table)
        kept = table.without(*(name for name in self.ignore if name not in recipe.beside))
        named, trained, held_out, owners = sort_by_party(kept, recipe, self.clients, self.holdout)
        refuse_twins(f"the column of clients {self.clients!r}", named.tolist())
        names = tuple(map(str, named))
        members = (Party(recipe, m, *part) for m, part in enumerate(zip(trained, names, strict=True)))
        return Parties(names, tuple(members), held_out, owners)


@dataclass(frozen=True, eq=False)
class Parties:
    """The parties, and the rows that they hold out, with the name of whose each is."""

    names: tuple[str, ...]
    members: tuple[Party, ...]
    held_out: Table | None
    owners: Values

    def column(self, name: str) -> Values:
        """A column of all rows to train on."""
        return np.concatenate([own.trained[name] for own in self.members])


def stored_parties(settings: Json, folder: Path) -> tuple["Parties", str]:
    """The parties of a stored fit, from the settings that it keeps, and the present checksum of their table."""
    recipe, source = read_recipe(settings), Source(*(settings[key] for key in (*TABLE_KEYS, "holdout")))
    table = open_table(source.table, folder)
    return source.split(table, recipe), table.checksum


def stored_problem(settings: Json, folder: Path) -> Problem:
    """The problem of a stored fit, from the settings that its run folder keeps."""
    parties, _ = stored_parties(settings, folder)
    return pooled_problem(parties.members, agree(parties.members))


# What will be fitted, before anything is solved.


@dataclass(frozen=True)
class PlannedFit:
    """What will be fitted, before anything is computed but the summaries of the parties.

    checksum: of the table. folder: from which relative paths start. why: this goal, where none was asked for.
    """

    recipe: TableRecipe
    source: Source
    parties: Parties
    known: Sequence[Known]
    wanted: FitSettings
    checksum: str
    folder: Path
    why: str = ""

    @cached_property
    def configuration(self) -> Configuration:
        """The run, of the penalty that has been chosen."""
        wanted, problem = self.wanted, pooled_problem(self.parties.members, self.known)
        method, _ = choose_method(problem, SolveOptions(rounds=wanted.rounds))
        rows = int(self.recipe.counts(self.known).sum())
        tol = default_tolerance(self.goal, method, rows) if wanted.tol is None else wanted.tol
        options = SolveOptions(rounds=wanted.rounds, tol=tol)
        check_simulation(problem, method, options)
        resolved = {
            "problem": {**self.recipe.settings(self.known), **vars(self.source), CONTENT: self.checksum},
            "method": describe_method(method),
            "run": describe_options(options),
            "folder": str(self.folder.resolve()),
        }
        return Configuration(problem, method, options, resolved)

    def ask_effects(self, asked: Known) -> Known:
        """The sums of all parties for the table of effects."""
        return merge_summaries(party.effects(self.known, asked) for party in self.parties.members)

    @property
    def calibrate(self) -> Calibrate | None:
        """What bounds the rate of errors on the limited class by held-out rows; None if no rate was asked for."""
        rate, table = self.wanted.rate, self.parties.held_out
        if rate is None or table is None:
            return None
        limited, confidence = self.recipe.settings(self.known)["limited"], self.wanted.confidence
        return lambda model: calibrate_threshold(model, table, limited, rate, confidence)

    @property
    def encoder(self) -> Encoder:
        """The encoder that takes columns to features."""
        return self.recipe.encoder(self.known)

    @property
    def goal(self) -> str:
        """The name of the goal."""
        return self.recipe.goal

    @property
    def weighs(self) -> list[str]:
        """How parties are weighed, where the adversary weighs them."""
        return words_of_weights(self.goal, len(self.parties.names), *self.recipe.weighs)

    @property
    def words(self) -> str:
        """The goal and the size of the data, in one line."""
        held = 0 if self.parties.held_out is None else self.parties.held_out.rows
        clients, rows = len(self.parties.names), sum(own.trained.rows for own in self.parties.members)
        features = len(self.encoder.features)
        size = f"{rows} rows of {clients} client{'s' * (clients != 1)}, {features} features, {held} rows held out"
        return f"{self.goal} ({GOALS[self.goal].words}): {size}"

    @property
    def notes(self) -> list[str]:
        """What a person should know of the data before the fit: limits, odd columns, clients too small."""
        problem = self.recipe.settings(self.known)
        limited = (
            [f"the mean loss of {self.recipe.target} = {problem['limited']} is limited to {problem['limit']:g}"]
            if self.recipe.limits_classes
            else []
        )
        if self.recipe.limits_by_name:
            limited = [self.recipe.words_of_limits]
        chosen = [self.why] if self.why else []
        return [
            *chosen,
            *limited,
            *_column_notes(self.encoder, self.parties),
            *_client_notes(self.recipe, self.parties),
            *_group_notes(self.recipe, self.parties, self.known),
        ]


def plan_fit(settings: Json, folder: Path) -> PlannedFit:
    """The fit that the settings of [fit] describe; relative paths start from the folder."""
    if not isinstance(name := settings.get("table"), str):
        raise ConfigurationError("[fit] needs table, the name of a file")
    wanted = read_fit(settings, TABLE_KEYS)
    table, target = open_table(name, folder), wanted.target
    clients, ignore = _clients(settings.get("clients")), settings.get("ignore") or []
    beside = {"clients": clients, **{key: getattr(wanted, key) for key in ("groups", "weights", "exposure", "id")}}
    _check_columns(table, target, beside, ignore)
    goal, why = (wanted.goal, "") if wanted.goal is not None else choose_goal(str(target), table.pick(target))
    if wanted.goal is None and isinstance(wanted.options.get("limit"), Mapping):
        goal, why = limiting_goal(goal), ""
    groups = wanted.groups
    if GOALS[goal].structure in LIMITED_ONES and groups is None and isinstance(clients, str):
        groups = clients
    check_limit(goal, wanted.options)
    check_groups(goal, groups)
    check_exposure(goal, wanted.exposure)
    check_kl(goal, wanted.groups, wanted.options)
    for column in names_of(target):
        check_target(goal, column, table[column])
    columns = target if isinstance(target, str) else tuple(target)
    coding = wanted.coding
    selection = Selection(wanted.folds, wanted.choose)
    told = (goal, columns, groups, wanted.weights, wanted.exposure, wanted.options)
    least = read_least_rows(goal, wanted.least_rows)
    recipe = TableRecipe(*told, coding=coding, id=wanted.id, selection=selection, least_rows=least)
    source = Source(name, clients, ignore, wanted.holdout)
    parties = source.split(table, recipe)
    if wanted.weights is not None:
        weights = parties.column(wanted.weights)
        row_weights(weights, len(weights), f"the column {wanted.weights!r}")
    planned = PlannedFit(recipe, source, parties, agree(parties.members), wanted, table.checksum, folder, why)
    _ = planned.configuration  # refuses what cannot be run
    if wanted.rate is not None:
        check_rate(recipe, planned.known, parties.held_out, wanted.rate, wanted.confidence)
    return planned


def _clients(given: Any) -> str | int:
    """The column that says whose a row is; a number makes so many clients of rows at random, nothing is one client."""
    if given is None:
        return 1
    return int(given) if isinstance(given, int) or str(given).isdigit() else str(given)


def _check_columns(table: Table, target: str | list[str], beside: Json, ignore: object) -> None:
    """Refuse columns that the table does not have, and targets that are also something else."""
    for name in names_of(target):
        if name not in table:
            several = all(part in table for part in name.split(","))
            other = "several targets are for the goal low-rank" if several else hint(name, table)
            raise ConfigurationError(f"{table.source} has no column {name!r}; {other}")
    for key, name in beside.items():
        if name in names_of(target):
            raise ConfigurationError(f"{key} must be another column than the target, got {name!r}")
    if not isinstance(ignore, list) or not all(isinstance(name, str) for name in ignore):
        raise ConfigurationError(f'ignore must be a list of columns such as ["patient_id"], got {short(ignore)}')
    if both := [name for name in names_of(target) if name in ignore]:
        raise ConfigurationError(f"ignore must not name the target, got {both[0]!r}")
    for name in (*beside.values(), *ignore):
        if name is not None and not isinstance(name, int) and name not in table:
            raise ConfigurationError(f"{table.source} has no column {name!r}; {hint(name, table)}")


def _column_notes(encoder: Encoder, parties: Parties) -> list[str]:
    """Columns that perhaps should take part in another way; what was done with the others the model says."""
    notes = []
    if encoder.standardizer is not None:
        still = [n for n, d in zip(encoder.numbers, encoder.standardizer.deviation, strict=True) if d == 0]
        little = [name for name in still if not _is_constant(parties.column(name))]
        why = f"vary by less than {LEAST_SPREAD:g} of their size, or by too little for float64, and have no coefficient"
        notes += [f"columns {why}; subtract what is common, or multiply them: {_some(little)}"] if little else []
    numbered = [name for name in encoder.numbers if _may_number_rows(parties.column(name))]
    notes += [f"if these columns number the rows, leave them out by ignore: {_some(numbered)}"] if numbered else []
    many = [f"{name} ({len(words)})" for name, words in encoder.categories.items() if len(words) > MANY]
    notes += [f"columns with many categories, each of which is a feature: {_some(many)}"] if many else []
    few = [f"{name} ({values})" for name in encoder.numbers if (values := _few_whole_numbers(parties.column(name)))]
    whole = "columns of few whole numbers count as numbers; those that are codes should be named in categories"
    return [*notes, *([f"{whole}: {_some(few)}"] if few else [])]


def _group_notes(recipe: TableRecipe, parties: Parties, known: Sequence[Known]) -> list[str]:
    """Groups of few rows, which are one group together."""
    merged = recipe.merged_groups(known)
    if not len(merged):
        return []
    names = [parties.names[m] for m in merged] if recipe.weighs_parties else list(map(str, merged.tolist()))
    kind = "clients" if recipe.weighs_parties else "groups"
    return [f"{kind} of few rows (under {recipe.least_rows}, or too few together) count as one: {_some(names)}"]


def _client_notes(recipe: TableRecipe, parties: Parties) -> list[str]:
    """Clients too small or too uniform to be judged alone."""
    owned = {name: own.trained.pick(recipe.target) for name, own in zip(parties.names, parties.members, strict=True)}
    single = [name for name, labels in owned.items() if len(labels) == 1]
    notes = [f"clients with one row: {_some(single)}"] if single else []
    if recipe.reading.timed:
        calm = [name for name, labels in owned.items() if not np.any(labels[:, 1])]
        return [*notes, *([f"clients without an event add nothing to the loss: {_some(calm)}"] if calm else [])]
    if not recipe.reading.labelled:
        return notes
    uniform = [name for name, labels in owned.items() if len(labels) > 1 and len(np.unique(labels)) == 1]
    return [*notes, *([f"clients with one class: {_some(uniform)}"] if uniform else [])]


def _is_constant(column: Values) -> bool:
    """Whether all values that are not missing are the same."""
    there = column[~missing(column)]
    return bool(np.all(there == there[:1]))


def _may_number_rows(column: NDArray[Any]) -> bool:
    """Whether a column holds a different whole number in every row, as an id does."""
    whole = len(column) >= MANY and bool(np.all(column == np.floor(column)))
    return whole and len(np.unique(column)) == len(column)


def _few_whole_numbers(column: NDArray[Any]) -> str:
    """The values of a column of 3 to FEW_CODES whole numbers, which may be codes of categories; else empty."""
    if np.unique(column[:SOME]).size > FEW_CODES + 1:  # nan is one of them
        return ""
    values = np.unique(column[~missing(column)])
    if not 2 < len(values) <= FEW_CODES or np.any(values != np.round(values)):
        return ""
    return ", ".join(f"{value:g}" for value in values.tolist())


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def fit_into(path: Path, planned: PlannedFit, announce: Announce = lambda text: None) -> Model:
    """Choose the penalty if it is to be chosen, run what was planned, and keep run and model below `path`.

    An unfinished run of the same settings in it is resumed, and a finished one is not run again; nor is a choice made
    again. announce: is told what is done.
    """
    planned = _with_penalty(path, planned, announce)
    answer = _without_penalty(path, planned) if planned.recipe.is_unpenalized else _answer_of_run(path, planned)
    recipe, parties = planned.recipe, planned.parties
    penalty, wanted = told_penalty(recipe, planned.known, path / PENALTY), planned.wanted

    def measure(model: Model) -> Json | None:
        if parties.held_out is None:
            return None
        measures = measure_table(model, parties.held_out, parties.owners, recipe.limits_classes, wanted.confidence)
        return measures.plain()

    own = wanted.site_intercepts
    own = isinstance(planned.source.clients, str) and len(parties.names) > 1 if own is None else own
    about = Wanted(wanted.confidence, own, wanted.collinear)
    gap = answer.certificate["gap"]
    effects = find_effects(recipe, planned.known, answer.x, answer.y, planned.ask_effects, about, gap)
    findings = Findings(penalty, effects, measure, planned.calibrate)
    model = make_model(recipe, planned.known, answer, parties.names, findings)
    fit_other = _fit_ordinary_hazards if recipe.reading.timed else _fit_ordinary
    if parties.held_out is not None and (other := fit_other(planned, penalty)) is not None:
        model, verdict = with_ordinary(model, measure(other.model), other.how), ""
        if (judged := _judge(planned, model, other.model, parties.held_out)) is not None:
            verdict, worst = judged
            model = replace(
                model, training={**model.training, "ordinary": {**model.training["ordinary"], "worst_group": worst}}
            )
        verdict = " ".join(filter(None, (model.training.get("verdict"), verdict)))
        model = replace(model, training={**model.training, "verdict": verdict})
    save(model, path / MODEL)
    if recipe.reading.timed:
        each = zip(parties.names, parties.members, strict=True)
        keep_baselines(path, {name: baseline_of(model, own.trained, recipe.weights) for name, own in each})
    return model


def _judge(planned: PlannedFit, model: Model, ordinary: Model, table: Table) -> tuple[str, str] | None:
    """What is wrong with the model on held-out rows and what its groups lose, of goals that are about groups."""
    recipe, confidence = planned.recipe, planned.wanted.confidence
    if recipe.limits_by_name and recipe.reading.timed:
        return judge_shares(model, ordinary, table, planned.parties.owners, str(recipe.groups), recipe.limits_by_name)
    if recipe.limits_by_name:
        return judge_limits(model, ordinary, table, str(recipe.groups), recipe.limits_by_name, confidence)
    if GOALS[recipe.goal].structure is not WORST:
        return None
    groups = planned.parties.owners if recipe.groups is None else table[recipe.groups]
    return judge_fairness(model, ordinary, table, groups, confidence)


def _fit_ordinary(planned: PlannedFit, penalty: Json) -> Ordinary | None:
    """The ordinary model of the same rows, by sums as between sites."""
    return fit_ordinary(planned.recipe, planned.known, penalty, planned.ask_effects)


def _fit_ordinary_hazards(planned: PlannedFit, penalty: Json) -> Ordinary | None:
    """The ordinary model of times, whose losses are sums over rows at risk together, by a run of its own."""
    plain, recipe = planned.recipe.ordinary, planned.recipe
    options = penalties_of(recipe, planned.known)
    if plain is None or not sum(options.values()) > 0:
        return None
    plain = replace(plain, options=options)
    dropped = [] if recipe.groups is None else [recipe.groups]
    own = [Party(plain, one.client, one.trained.without(*dropped), one.name) for one in planned.parties.members]
    known = agree(own)
    run = solve(pooled_problem(own, known), tol=ORDINARY_TOL, rounds=100)
    return Ordinary(plain.model(known, run.z.x), "at the same penalty")


def _answer_of_run(path: Path, planned: PlannedFit) -> Answer:
    """The answer of a run, which is solved unless the folder holds it already."""
    if not is_finished(path / RUN_OF_FIT, planned.configuration):
        run = solve_into(path / RUN_OF_FIT, planned.configuration)
        if run.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
    stored = load(path / RUN_OF_FIT)
    status: Json = stored.status or {}
    if status["stop"] == Stop.INFEASIBLE.name:
        raise ConfigurationError(planned.recipe.why_infeasible(status["stop_meaning"]))
    return read_answer(stored)


def _without_penalty(path: Path, planned: PlannedFit) -> Answer:
    """The answer by Newton's method on sums, which leaves no run folder."""
    if (path / RUN_OF_FIT).exists():
        raise ConfigurationError(f"{path / RUN_OF_FIT} holds a run of other settings: choose another --out")
    options, wanted = planned.configuration.options, planned.wanted
    about = {key: planned.configuration.resolved[key] for key in ("problem", "run", "folder")}
    ask, until = planned.ask_effects, (options.tol, wanted.rounds, wanted.collinear)
    return find_unpenalized(planned.recipe, planned.known, ask, about, *until)


def _with_penalty(path: Path, planned: PlannedFit, announce: Announce) -> PlannedFit:
    """The fit with its penalty, which is kept: a fit that is resumed has the same."""
    if not planned.recipe.penalties:
        return planned
    recipe, known, file = planned.recipe, planned.known, path / PENALTY
    asked = json.loads(json.dumps({"problem": planned.configuration.resolved["problem"]}))
    kept = json.loads(file.read_text()) if file.exists() else {}
    if kept.get("asked") != asked:
        if (path / RUN_OF_FIT / "manifest.json").exists() and kept:
            other = describe_difference(kept["asked"], asked)
            raise ConfigurationError(f"{path / RUN_OF_FIT} already holds a finished run{other}: choose another --out")
        announce(f"{' or '.join(recipe.penalties)} is being chosen by held-out rows")
        members = planned.parties.members
        penalty = choose_penalty(
            recipe, known, lambda: PartiesHere([own.fold(known) for own in members]), announce=announce
        )
        kept = {**penalty.plain(), "asked": asked}
        path.mkdir(parents=True, exist_ok=True)
        write_json(file, kept)
    announce(kept["sentence"])
    return replace(planned, known=[*known, chosen_known(kept)])

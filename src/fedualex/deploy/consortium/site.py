"""A site with a table of its own: what it answers before a run, during it, and after it."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ...arrays import Reals, Values
from ...compiling import double
from ...data import Encoder, Table
from ...data.columns import holes, is_text, plain_column
from ...data.curves import FEWEST_IN_BIN
from ...data.encoder import INDICATOR
from ...data.files import read_table
from ...data.partitions import choose_held_out
from ...models import Model, save
from ...models.store import MODEL
from ...regularizers import for_reports
from ...runs.settings import ConfigurationError, check_keys, read_toml
from ...runtime.status import Code
from ...storage import Json
from ...summaries import Known, Summary
from ...tables.baselines import baseline_of, keep_baselines
from ...tables.folds import FoldedRows, known_by_fold
from ...tables.goals import SITES, names_of
from ...tables.measures import sum_calibration, sum_measures
from ...tables.party import Party
from ...tables.recipe import TableRecipe
from ...validation import hint, missing, row_weights, short
from .. import Arrays, Request, Site, SiteFacts
from ..engine import RefusedError
from ..policy import BEGIN, CALIBRATE, CURVATURE, EFFECTS, FOLD_LOSSES, MEASURE, PATH, PLACE, Policy, Release
from ..site import DisagreementError
from ..wire import pack_json, pack_summary, unpack_known
from .agreement import agreement, is_of_run, recipe_of_goal, why_no_penalty, why_not_merged, why_not_spread
from .differences import TELL
from .folds import FOLD_SUMMARY, FOLDS, summarize_surveys, unpack_points, unpack_surveys
from .messages import KNOWN, digest_known, digest_model, read_known, unpack_model, unpack_place, write_known

log = logging.getLogger(__name__)

# A site's own table: which file it is, and how its columns are called elsewhere. Nobody else is told.


SITE_FILE = "site.toml"
KEYS: Mapping[str, type] = {"table": str, "columns": dict, "ignore": list}
TEMPLATE = """# What this site alone knows. Nothing in this file is sent to anybody.

table = {table}      # your own file: .csv, .parquet or .npz, from this folder or by its whole path
ignore = []              # columns of it that take no part, such as ids

[columns]                # only where your table calls a column otherwise than the other sites do:
# {target} = "your name for it"
"""


class Rare(NamedTuple):
    """Values of a column that stand in few rows, what they are told as, and in how many rows each stands."""

    told: str
    rows: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class OwnTable:
    """The rows that a site trains on, and those that it holds out.

    places: where the former stand among all. rare: by column, the values that are told as another one.
    """

    trained: Table
    held_out: Table | None
    places: Reals
    rare: Sequence[tuple[str, Rare]]

    @property
    def rows(self) -> int:
        """How many rows the table has, held-out ones included."""
        return self.trained.rows + (0 if self.held_out is None else self.held_out.rows)


OTHER, NOTHING = "other", "missing"
"""What categories of too few rows are called before anything is told of them; the word for no value."""


def merge_rare(table: Table, told: "Counted", recipe: TableRecipe, least: int) -> tuple[Table, list[tuple[str, Rare]]]:
    """The table in which no column of a feature sets fewer than `least` of the rows that count apart from all others.

    What a column adds to a slope is a sum over the rows that it sets apart. Of one row it is that row's own slope, and
    as many of these as a row has entries lead to the row itself. So rare categories become OTHER; where that is rare as
    well, and where a number stands in nearly all rows, the few are told as the others. Numbers that are codes of
    categories become text.
    """
    columns, merged = dict[str, Values](), list[tuple[str, Rare]]()
    for name in table:
        column = table[name]
        if name not in recipe.beside:
            code = name in recipe.coding.categories
            text = code or is_text(plain_column(name, column))
            column = plain_column(name, column, code) if text else column
            column, rare = (_merge_words if text else _merge_numbers)(column, told, least)
            marked = text or recipe.coding.missing == INDICATOR  # otherwise a hole is the mean of all, among others
            column, filled = _fill_few(column, told, least if marked else 0)
            merged += [(name, one) for one in (rare, filled) if one is not None]
        columns[name] = column
    return replace(table, columns=columns), merged


class Counted(NamedTuple):
    """The rows that are counted, and whether each has weight."""

    rows: NDArray[np.intp]
    weighs: NDArray[np.bool_]

    def values(self, column: Values) -> tuple[Values, NDArray[np.intp]]:
        """The different values in these rows, a missing one included, and in how many rows with weight each stands."""
        values, number = np.unique(column[self.rows], return_inverse=True)
        return values, np.bincount(number, self.weighs, len(values)).astype(int)

    def among(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which rows of a table are both counted and chosen."""
        mask = np.zeros(len(chosen), bool)
        mask[self.rows] = chosen[self.rows]
        return mask


def _merge_words(column: Values, told: Counted, least: int) -> tuple[Values, Rare | None]:
    """Rare ones as OTHER, or as the most frequent word, if together they are rare too; which may be no word."""
    values, counts = told.values(column)
    few = (counts < least) & (values != "")
    if not few.any():
        return column, None
    enough = int(counts[few | (values == OTHER)].sum()) >= least
    word = OTHER if enough else str(np.where(few, "", values)[np.argmax(np.where(few, 0, counts))])
    rare = Rare(word or NOTHING, dict(zip(values[few].tolist(), counts[few].tolist(), strict=True)))
    return np.where(np.isin(column, values[few]), word, column), rare


def _merge_numbers(column: Values, told: Counted, least: int) -> tuple[Values, Rare | None]:
    """The few rows that differ from all others as these, which may miss a value."""
    values, counts = told.values(column)
    usual = values[np.argmax(counts)]
    others = (values != usual) & ~(np.isnan(values) & np.isnan(usual))
    if not 0 < counts[others].sum() < least:
        return column, None
    apart = told.among((column != usual) & ~(np.isnan(column) & np.isnan(usual)))
    rows = dict(zip(map(_word_of, values[others].tolist()), counts[others].tolist(), strict=True))
    return np.where(apart, usual, column), Rare(_word_of(usual), rows)


def _fill_few(column: NDArray[Any], told: Counted, least: int) -> tuple[Values, Rare | None]:
    """Few rows that miss a value have the most frequent one, or the mean of numbers."""
    values, counts = told.values(column)
    none = holes(values)
    if not 0 < (gone := int(counts[none].sum())) < least:
        return column, None
    usual = values[np.argmax(np.where(none, 0, counts))]
    value = usual if is_text(column) else float(np.mean(column[told.among(~holes(column))]))
    word = str(usual) if is_text(column) else f"the mean {value:g}"
    return np.where(told.among(holes(column)), value, column), Rare(word, {NOTHING: gone})


def _word_of(value: float | int) -> str:
    return NOTHING if np.isnan(value) else f"{float(value):g}"


def read_own_table(party: Path, recipe: TableRecipe, holdout: float, least_category: int | None = None) -> OwnTable:
    """The table that a site's file names, with the columns' common names, split by the site's labels alone.

    least_category: the rule of this site about rare categories.
    """
    settings = _settings(party / SITE_FILE)
    table = _rename_columns(read_table(settings["table"], party), settings["columns"], settings["ignore"])
    for name in recipe.beside:
        if name not in table:
            where = f"name yours in [columns] of {SITE_FILE}"
            raise ConfigurationError(f"{table.source} has no column {name!r}, which all sites need: {where}")
    if recipe.weights is not None:  # a site none of whose rows count has nothing to say
        row_weights(table[recipe.weights], table.rows, f"the column {recipe.weights!r}")
    recipe.check_columns(table)
    used = np.flatnonzero(recipe.used_rows(table))
    if not len(used):
        raise ConfigurationError(f"every row of {table.source} misses a value, so that missing = drop leaves none")
    whole = replace(table.take(used), dropped=table.rows - len(used))
    test = choose_held_out(recipe.kinds(whole), holdout, recipe.has_kinds)
    train: NDArray[np.intp] = np.setdiff1d(np.arange(whole.rows), test)
    weighs = np.ones(len(train), bool) if recipe.weights is None else whole[recipe.weights][train] > 0
    whole, rare = merge_rare(whole, Counted(train, weighs), recipe, least_category or 0)
    refuse_rare_pairs(whole.take(train[weighs]), recipe, least_category or 0)
    for name, (word, rows) in rare:
        log.info("told as %r: %s", word, ", ".join(f"{name} = {value}" for value in rows))
    return OwnTable(whole.take(train), whole.take(test) if len(test) else None, train, rare)


def refuse_rare_pairs(told: Table, recipe: TableRecipe, least: int) -> None:
    """Refuse products of categories that few of these rows are in, which would set them apart from all others.

    A column of two numbers is one of categories in this.
    """
    for pair in recipe.coding.interact:
        both = [plain_column(name, told[name], name in recipe.coding.categories) for name in pair]
        there = ~np.any([holes(column) for column in both], axis=0)
        if any(not is_text(column) and len(np.unique(column[there])) > 2 for column in both):
            continue
        both = [column.astype(str) for column in both]
        cells, counts = np.unique(np.stack(both)[:, there], axis=1, return_counts=True)
        if np.any(few := counts < least):
            named = ", ".join(f"{name} = {value}" for name, value in zip(pair, cells[:, np.argmax(few)], strict=True))
            raise ConfigurationError(
                f"interact: fewer than {least} rows of {told.source} have {named}, which their product would tell of "
                "(least_category): merge categories, or leave the pair out"
            )


def _settings(file: Path) -> Json:
    given = read_toml(file)
    check_keys(SITE_FILE, given, KEYS)
    if not given.get("table"):
        raise ConfigurationError(f'{file} must name this site\'s table, as table = "patients.csv"')
    for key, value in given.items():
        if not isinstance(value, KEYS[key]):
            raise ConfigurationError(f"{file}: {key} must be a {KEYS[key].__name__}, got {short(value)}")
    return {"columns": {}, "ignore": [], **given}


def _rename_columns(table: Table, names: Mapping[str, Any], ignored: list[Any]) -> Table:
    """The table without some columns, the others by their common names; what it does not have need not be left out."""
    if absent := [name for name in ignored if name not in table]:
        log.info("%s has no column %s, which %s would leave out", table.source, short(absent), SITE_FILE)
    for own in names.values():
        if own not in table:
            raise ConfigurationError(
                f"{table.source} has no column {short(own)}, which {SITE_FILE} names; {hint(own, table)}"
            )
    common = {own: name for name, own in names.items()}
    kept = [name for name in table if name not in ignored]
    called = [common.get(name, name) for name in kept]
    if len(set(called)) < len(called):
        raise ConfigurationError(
            f"{SITE_FILE} must give different names to different columns, got {short(dict(names))}"
        )
    return Table({common.get(name, name): table[name] for name in kept}, table.source)


# What a site's own rules may be about, from its table.


def facts_of(table: Table, recipe: TableRecipe, kit: str) -> SiteFacts:
    """The rows that a site trains on, and how many of them its smallest class, group or category has.

    kit: what the site has agreed to, by one word.
    """
    least = min([table.rows, *smallest_groups(table, recipe).values()])
    return SiteFacts(table.rows, least, recipe.goal, weighs_sites=recipe.weighs_parties, kit=kit)


def smallest_groups(table: Table, recipe: TableRecipe) -> dict[str, int]:
    """For the target's classes or events, for groups and each column of categories: the rows of its rarest value.

    An id counts as well, whose every value has one row: whether it is one is seen by all sites together. `ignore` in
    site.toml takes it out.
    """
    named = {recipe.groups, recipe.target} if recipe.reading.labelled else {recipe.groups}
    if recipe.reading.timed:
        named.add(names_of(recipe.target)[1])
    used = [name for name in table if name in named or name not in recipe.beside]
    columns = {name: plain_column(name, table[name], name in recipe.coding.categories) for name in used}
    return {name: _smallest(column) for name, column in columns.items() if name in named or is_text(column)}


def _smallest(column: NDArray[np.generic]) -> int:
    """The rows of the rarest value of a column; a missing value is none."""
    counts = np.unique(column[~missing(column)], return_counts=True)[1]
    return int(counts.min()) if counts.size else 0


ALL = Policy(least_held_out=1)
"""A policy by which everything leaves."""
MakeSite = Callable[[Any, Sequence[Known]], Site]
"""From the problem with the site's own examples, and what is known, to its side of the run."""


class TableSite:
    """Site number `client` of a deployment of tables.

    Before a run it is asked for the names of its columns, then for summaries of its rows, and is told what those of all
    sites have become, which it keeps: a site that is started again in the middle of a run answers as before. During the
    run it is a `Site`. After it the model comes, is measured on the rows that the site held out, and is kept.

    policy: what it does with rare categories, and with few rows that were held out.
    """

    def __init__(self, party: Path, settings: Json, make_site: MakeSite, policy: Policy = ALL):
        self.party, self.make_site = party, make_site
        self.recipe, self.agreed = recipe_of_goal(settings), agreement(settings)
        self.name, self.sites = settings["site"], list(settings["sites"])
        self.client, self.holdout = self.sites.index(self.name), settings["problem"]["holdout"]
        self.calibrates = settings["problem"].get("rate") is not None
        self.table = read_own_table(party, self.recipe, self.holdout, policy.least_category)
        self.least_held_out = policy.least_held_out
        fewest = max(FEWEST_IN_BIN, policy.least_category or 0)
        self.answers = Party(self.recipe, self.client, self.table.trained, self.name, self.table.places, fewest)
        self._site: Site | None = None
        self._told: dict[str, list[Known]] = {}
        self._settled: FoldedRows | None = None
        self._believed: set[str] = set()

    def work(self, request: Request) -> Arrays:
        """The answer to a request."""
        if (answer := ANSWERS.get(request.task)) is None:
            return self.site().work(request)
        if request.run_id.partition("-")[0] != self.agreed:
            raise DisagreementError("the server and this site were told different goals, sites or options")
        return answer(self, request)

    def declare(self, request: Request) -> Release:
        """What would leave if this were answered; of a loss that weighs sites, with what each counts at each point."""
        if request.task in DECLARED:
            return DECLARED[request.task](self, request)
        if request.task in ANSWERS:
            return Release(request.task)
        asked = self.site().declare(request)
        if not self.recipe.weighs_parties or request.task not in ("survey", CURVATURE, "round"):
            return asked
        return self._add_weights(asked, self.site().asked_y(request))

    def declare_model(self, request: Request) -> Release:
        """One model, on the rows of the sites that hold out enough; its calibration at one place."""
        subject, held = digest_model(unpack_model(request.arrays)), self._have_enough_held_out()
        if request.task == CALIBRATE:
            beta, _ = unpack_place(request.arrays)
            subject = f"{subject}{PLACE}{beta.tolist()}"
        return Release(request.task, 1, weights=(tuple(map(float, held)),), subject=subject)

    def declare_path(self, request: Request) -> Release:
        """A survey of each point, with second derivatives; weighed as the points say where they weigh sites."""
        folded = self.settled_folds()
        places = [(f, point) for f, survey in unpack_surveys(request.arrays, folded.like) for point in survey.points]
        parameters = max((np.size(x) for f, _ in places for x in folded.like(f).x.values()), default=0)
        asked = Release(PATH, len(places), parameters=parameters, rows=folded.fewest_trained)
        asked = self._of_folds(asked, folded, self._read_joined())
        if not self.recipe.weighs_parties:
            return asked
        return self._add_weights(asked, np.stack([point.y for _, point in places]))

    def declare_summary(self, request: Request) -> Release:
        """One sum; from the goal's own summaries on, sums of classes and groups."""
        known = unpack_known(request.arrays)
        self._check_known(known)
        apart = len(known) >= Encoder.exchanges
        return Release("summary", parts=self.answers.fewest_of_parts(known) if apart else None)

    def declare_begin(self, request: Request) -> Release:
        """Names of columns, by a comparison with what the summaries of all have become."""
        known = unpack_known(request.arrays)[: self.recipe.exchanges]
        return Release(BEGIN, subject=f"{BEGIN} {digest_known(self.agreed, known)}")

    def declare_summary_of_folds(self, request: Request) -> Release:
        """One for the rows without each fold, and one for all; the first ones tell how few rows others would be of."""
        folded, joined = self._folds(), unpack_known(request.arrays)
        asked = self._of_folds(Release(FOLD_SUMMARY, folded.folds + 1), folded, joined)
        return replace(asked, parts=asked.parts if joined else None)

    def declare_losses_of_folds(self, request: Request) -> Release:
        """One sum for each point."""
        folded = self.settled_folds()
        points = unpack_points(request.arrays, folded.like)
        return self._of_folds(Release(FOLD_LOSSES, len(points)), folded, self._read_joined())

    def _of_folds(self, asked: Release, folded: FoldedRows, joined: Sequence[Known]) -> Release:
        """Two sums, with a fold and without it, tell of the fold alone; where sites are weighed, of each site's."""
        whole = self.recipe.selection.folds == SITES or self.recipe.weighs_parties
        parts = folded.fewest_of_parts(known_by_fold(joined[0], folded.folds + 1)) if joined else None
        return replace(asked, fold=folded.least, whole_sites=whole, parts=parts)

    def declare_effects(self, request: Request) -> Release:
        """One sum at a point, with second derivatives; rows are weighed as a solution weighs them, or alike."""
        (asked,) = unpack_known(request.arrays)
        release = Release(EFFECTS, 1, parameters=int(np.size(asked["beta"])))
        if not self.recipe.weighs_parties or "y" not in asked:  # the ordinary model counts rows alike
            return release
        return self._add_weights(replace(release, mixed=False), np.asarray(asked["y"])[None])

    def _add_weights(self, asked: Release, y: NDArray[Any]) -> Release:
        """With what each site counts with at these points, and how far they are out of the domain."""
        problem = cast(Any, self.site().problem)
        with double():
            shares, sets = np.asarray(problem.f.shares(y)), for_reports(problem.geometry).parts.y
            outside = max(float(sets.violation(np.asarray(point, float))) for point in y)
        weights = tuple(map(tuple, self.recipe.shares_of_parties(self._known(), shares).tolist()))
        return replace(asked, weights=weights, outside=outside)

    def factors(self, task: str) -> Mapping[str, float]:
        """What its arrays are multiplied by in sums over all sites; those of summaries and measures by nothing."""
        return {} if task in ANSWERS else self.site().factors(task)

    def told(self, task: str) -> str:
        """The goal, the sites and all options; once the parties have agreed, also what their summaries have become.

        Before that it is part of the requests themselves.
        """
        known = None if task in BEFORE else self._read(KNOWN)
        return self.agreed if known is None else digest_known(self.agreed, known)

    def site(self) -> Site:
        """Its side of the run, once the parties have agreed."""
        if self._site is None:
            self._site = self._make_site(self._known())
        return self._site

    def columns(self, request: Request) -> Arrays:
        """The names of its columns that are features, by which the parties find out whether they have the same."""
        return pack_json(columns=[name for name in self.table.trained if name not in self.recipe.beside])

    def summary(self, request: Request) -> Arrays:
        """Its next summary, given the merged ones so far."""
        known = unpack_known(request.arrays)
        self._check_known(known)
        return pack_summary(self.answers.summarize(known))

    def begin(self, request: Request) -> Arrays:
        """Take what all summaries have become, if it is made of this site's own too, and get ready for the run."""
        known = unpack_known(request.arrays)
        self._check_known(known)
        if reason := why_not_spread(self.recipe.party_weights(known)):
            raise DisagreementError(reason)
        self._site = self._make_site(known)
        self._keep(known, KNOWN)
        differences = self.answers.differences(known)
        for kind, columns in differences.items():
            log.warning("%s: %s", TELL[kind].format(sites="this site"), short(columns))
        return pack_json(ready=True, differences=differences)

    def measure(self, request: Request) -> Arrays:
        """Sums by which a model of this run is measured on the rows that this site held out."""
        return pack_summary(Summary(sums=sum_measures(self._own_model(request), self._count_measured_rows())))

    def calibrate(self, request: Request) -> Arrays:
        """Sums by which such a model is calibrated, at one (intercept, slope)."""
        model, (beta, meat) = self._own_model(request), unpack_place(request.arrays)
        return pack_summary(Summary(sums=sum_calibration(model, self._count_measured_rows(), beta, meat)))

    def _own_model(self, request: Request) -> Model:
        model = unpack_model(request.arrays)
        if not is_of_run(model, self.recipe, self._known(), self.calibrates):
            raise DisagreementError("this site measures models with the encoder and the answers of its own run")
        return model

    def _count_measured_rows(self) -> Table | None:
        held_out = self.table.held_out
        return None if held_out is None or held_out.rows < self.least_held_out else held_out

    def _known(self) -> list[Known]:
        """What the parties agreed on; refused if the table has changed since, as while this site was down."""
        if (known := self._read(KNOWN)) is None:
            raise DisagreementError("this site has not been told what the parties have agreed on")
        if reason := self._why_not_believed(known):
            raise RefusedError(f"this site's table is not the one that the run began with: {reason}", Code.OTHER_ROWS)
        return known

    def _read(self, what: str) -> list[Known] | None:
        """What it was told, from its folder; read once, as every request needs it."""
        if what not in self._told and (known := read_known(self.party, what)) is not None:
            self._told[what] = known
        return self._told.get(what)

    def _keep(self, known: list[Known], what: str) -> None:
        write_known(self.party, known, what)
        self._told[what] = known

    # The choice of a penalty: summaries without each fold, surveys of all losses, losses of held-out folds.

    def summarize_folds(self, request: Request) -> Arrays:
        """Its next summary of the rows without each fold, and of all."""
        return pack_summary(self._folds().summarize(self._known_by_fold(unpack_known(request.arrays))))

    def keep_folds(self, request: Request) -> Arrays:
        """Take what these summaries have become, and keep it until the penalty is chosen."""
        joined = unpack_known(request.arrays)
        folded = self._folds()
        for number, part in enumerate(joined):
            own, merged = folded.summaries(self._known_by_fold(joined[:number])), known_by_fold(part, folded.folds + 1)
            reasons = [why_not_merged(*both, self.client, len(self.sites)) for both in zip(own, merged, strict=True)]
            reasons += ["it has other parts"] if sum(map(len, merged)) != len(part) else []
            if reason := next(filter(None, reasons), ""):
                raise DisagreementError(f"what the server has merged is not made of this site's rows: {reason}")
        self._keep(joined, FOLDS)
        self._settled = None
        return pack_json(ready=True)

    def survey_folds(self, request: Request) -> Arrays:
        """Its part of surveys of several losses."""
        folded = self.settled_folds()
        requests = unpack_surveys(request.arrays, folded.like)
        with double():
            return pack_summary(summarize_surveys(requests, folded.survey(requests)))

    def measure_folds(self, request: Request) -> Arrays:
        """Sums of losses of held-out folds."""
        folded = self.settled_folds()
        return pack_summary(folded.measure_held_out(unpack_points(request.arrays, folded.like)))

    def settled_folds(self) -> FoldedRows:
        """Its rows in folds, with what all parties know of each."""
        if self._settled is None:
            folded = self._folds()
            folded.settle(self._known_by_fold(self._read_joined()))
            self._settled = folded
        return self._settled

    def _read_joined(self) -> list[Known]:
        if (joined := self._read(FOLDS)) is None:
            raise DisagreementError("this site has not been told what the parties know of the folds")
        return joined

    def _folds(self) -> FoldedRows:
        return self.answers.fold(self._known())

    def _known_by_fold(self, joined: Sequence[Known]) -> list[list[Known]]:
        count = self._folds().folds + 1
        parts = [known_by_fold(part, count) for part in joined]
        return [[part[k] for part in parts] for k in range(count)]

    def effects(self, request: Request) -> Arrays:
        """Sums over its rows for the table of effects."""
        (asked,) = unpack_known(request.arrays)
        with double():
            return pack_summary(self.answers.effects(self._known(), asked))

    def keep(self, request: Request) -> Arrays:
        """Keep the model in this site's folder."""
        model = unpack_model(request.arrays)
        save(model, self.party / MODEL)
        if model.answers.reading.timed:
            own = baseline_of(model, self.table.trained, self.recipe.weights)
            keep_baselines(self.party, {self.party.name: own})
        return pack_json(kept=True)

    def _check_known(self, known: Sequence[Known]) -> None:
        """Refuse merged summaries that this site's own are no part of."""
        if reason := self._why_not_believed(known):
            raise DisagreementError(f"what the server has merged is not made of this site's rows: {reason}; begin anew")

    def _why_not_believed(self, known: Sequence[Known]) -> str:
        """Why these merged summaries cannot be those of all sites with this one; empty if they can."""
        last = self.recipe.exchanges
        for number, part in enumerate(known):
            if (seen := digest_known(self.agreed, known[: number + 1])) in self._believed:
                continue
            if number < last:
                own = self.answers.summarize(known[:number])
                reason = why_not_merged(own, part, self.client, len(self.sites))
            else:
                reason = why_no_penalty(self.recipe, known[:number], part) if number == last else "it has other parts"
            if reason:
                return reason
            self._believed.add(seen)
        return ""

    def _have_enough_held_out(self) -> list[bool]:
        """Which sites hold out enough rows to be measured on, as far as can be told from the rows they train on."""
        held = self.recipe.counts(self._known()) * self.holdout / (1 - self.holdout)
        return [bool(count >= self.least_held_out) for count in np.round(held)]

    def _make_site(self, known: Sequence[Known]) -> Site:
        return self.make_site(self.recipe.problem(known, [self.answers.examples(known)]), known)


ANSWERS: dict[str, Callable[[TableSite, Request], Arrays]] = {
    "columns": TableSite.columns,
    "summary": TableSite.summary,
    BEGIN: TableSite.begin,
    FOLD_SUMMARY: TableSite.summarize_folds,
    FOLDS: TableSite.keep_folds,
    PATH: TableSite.survey_folds,
    FOLD_LOSSES: TableSite.measure_folds,
    EFFECTS: TableSite.effects,
    MEASURE: TableSite.measure,
    CALIBRATE: TableSite.calibrate,
    "model": TableSite.keep,
}
"""What is asked of a site outside of a run's rounds and surveys."""
DECLARED: dict[str, Callable[[TableSite, Request], Release]] = {
    "summary": TableSite.declare_summary,
    BEGIN: TableSite.declare_begin,
    MEASURE: TableSite.declare_model,
    CALIBRATE: TableSite.declare_model,
    FOLD_SUMMARY: TableSite.declare_summary_of_folds,
    PATH: TableSite.declare_path,
    FOLD_LOSSES: TableSite.declare_losses_of_folds,
    EFFECTS: TableSite.declare_effects,
}
"""What would leave in answer to each task, where that is more than one sum."""
BEFORE = ("columns", "summary", BEGIN)
"""What is asked before the parties have agreed."""

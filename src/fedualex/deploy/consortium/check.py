"""What a site would send, shown at the site, before anything is connected."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from ...algorithms.base import Survey
from ...algorithms.cuts import are_too_many
from ...algorithms.newton import count_asked
from ...compiling import double
from ...data import Encoder
from ...display import text_table
from ...runs.settings import ConfigurationError, build_method
from ...storage import Json
from ...summaries import Known, Summary, merge_summaries
from ...tables.effects import WHY_NONE, Layout
from ...tables.folds import FoldedRows, FoldsError, known_by_fold
from ...tables.goals import GOALS, SITES, names_of
from ...tables.measures import has_calibration, sum_calibration, sum_measures
from ...tables.ordinary import first_question, ordinary_model
from ...tables.party import Party
from ...tables.penalty import default_penalty, why_not_chosen
from ...tables.recipe import OWN_ROWS, ROWS_OF_GROUPS, TableRecipe
from ..party import SECURE
from ..policy import CALIBRATE, EFFECTS, FOLD_LOSSES, MEASURE, PATH, Policy, Release, read_policy
from ..secure.sums import OFF, ROSTER, has_keys
from ..site import ALL, declare_curvature, declare_round, declare_survey, reply_like, sizes_of
from ..wire import pack_summary
from .agreement import has_tables, recipe_of_goal
from .folds import FOLD_SUMMARY, summarize_surveys
from .settings import settings_of, task_of
from .site import OwnTable, facts_of, read_own_table, smallest_groups

FEW = 4
"""How many numbers of an array are shown."""
UNDER_MASKS = "With secure sums (this folder has keys) what is merged by sum leaves under masks, the rest in the clear"
IN_THE_CLEAR = "All of it leaves in the clear: this run has no secure sums"
MERGED_BY = {"sums": "sum", "largest": "largest", "labels": "union", "each": "kept apart"}


class Announced(NamedTuple):
    """The numbers that leave in answer to one kind of request, and what for. refused: why they would stay."""

    task: str
    what: str
    numbers: int
    refused: str = ""


@dataclass(frozen=True)
class Checked:
    """A site's table, and what it would send if the other sites had the same one."""

    table: OwnTable
    recipe: TableRecipe
    summaries: list[Summary]
    survey: Release | None
    """What leaves in a survey of one point; None without a run, or if this site has too little for the problem."""
    round: Release | None
    """What leaves in a round; None if the method takes no steps at sites, or as before."""
    curvature: Release | None
    """What leaves with second derivatives at one point; None if the method asks for none, or as before."""
    no_curvature: str
    """Why this site would not release second derivatives; empty if it would."""
    short_of: str
    """Why this site has too little for the problem; empty if it has enough."""
    rules: Json
    """The site's rules that differ from the defaults."""
    keys: bool
    """Whether its folder has keys for secure sums, which the agreed options do not switch off."""
    beside: Sequence[Announced] = ()
    """What leaves for the choice of a penalty, the table of effects, the ordinary model, measures and calibration."""

    @property
    def words(self) -> str:
        """What the site would send, as text for people."""
        own = self.table
        held = 0 if self.table.held_out is None else self.table.held_out.rows
        features = ", ".join(name for name in own.trained if name not in self.recipe.beside)
        rows = [
            [str(number), name, rule, _shape(value), _preview(value)]
            for number, summary in enumerate(self.summaries, 1)
            for rule, name, value in entries(summary)
        ]
        table = text_table(["exchange", "name", "merged by", "shape", "as this site has it"], rows)
        return "\n".join(
            [
                f"{own.trained.source}: {own.rows} rows, of which {held} are held out and never summarized",
                f"goal {self.recipe.goal}, target {', '.join(names_of(self.recipe.target))}, features: {features}",
                f"rules in force: {', '.join(f'{name} = {value}' for name, value in self.rules.items()) or 'none'}",
                *self._rare,
                f"Before a run this site sends the names of its features, then {self.recipe.exchanges} summaries of "
                f"{', '.join(map(str, self.numbers_of_summaries))} numbers:",
                table,
                f"{UNDER_MASKS if self.keys else IN_THE_CLEAR}. {self._then}",
            ]
        )

    @property
    def _rare(self) -> list[str]:
        told: dict[str, list[str]] = {}
        for name, (word, rows) in self.table.rare:
            told.setdefault(word, []).append(f"{name} {', '.join(f'{value} ({n})' for value, n in rows.items())}")
        return [f"told as {word!r}, by least_category: {'; '.join(columns)}" for word, columns in told.items()]

    @property
    def numbers_of_summaries(self) -> list[int]:
        """How many numbers leave in each summary, as rules and ledger count them."""
        return [Release("summary").count_numbers(pack_summary(one)).numbers or 0 for one in self.summaries]

    @property
    def _then(self) -> str:
        if self.short_of:
            return f"What it sends in a run cannot be shown without the other sites' summaries: {self.short_of}."
        beside = text_table(["task", "for", "numbers", "but"], [[*map(str, one)] for one in self.beside])
        if self.survey is None:
            return f"A model without penalty takes no run. Each step to it takes one answer to `effects`:\n{beside}"
        steps, where = "", "every exchange of a run"
        if self.round is not None:
            steps = f"In every round it sends what its local steps changed, {self.round.numbers} numbers. "
            where = "exchanges for a certificate or a correction"
        return (
            f"{steps}In {where} it sends {self.survey.numbers} numbers for a point: its mean loss there and the "
            f"gradient of it, if the other sites have the same categories and classes. {self._curvature_sentence}"
            f"Beside the run:\n{beside}"
        )

    @property
    def _curvature_sentence(self) -> str:
        if self.curvature is None:
            return ""
        what = "weighted second moments of its rows" + ", at fixed weights of sites" * (not self.curvature.mixed)
        but = f"; but {self.no_curvature}, so that the run goes on without them" if self.no_curvature else ""
        return (
            f"With second derivatives, which are {what}, and a cut of the last step it is "
            f"{self.curvature.numbers} numbers for a point{but}. "
        )

    def plain(self) -> Json:
        """Everything that would leave, in full, as JSON data."""
        sent = [{name: np.asarray(value).tolist() for _, name, value in entries(one)} for one in self.summaries]
        return {
            "table": self.table.trained.source,
            "rows": self.table.rows,
            "columns": list(self.table.trained),
            "rules": self.rules,
            "summaries": sent,
            "numbers_in_summaries": self.numbers_of_summaries,
            "numbers_in_an_exchange": None if self.survey is None else self.survey.numbers,
            "numbers_in_a_round": None if self.round is None else self.round.numbers,
            "numbers_with_curvature": None if self.curvature is None else self.curvature.numbers,
            "no_curvature": self.no_curvature,
            "beside": [one._asdict() for one in self.beside],
        }


def check_site(party: Path) -> Checked:
    """What the folder of a site holds and would send; refuses in one sentence what a run would refuse."""
    settings = settings_of(party)
    if "site" not in settings or not has_tables(settings):
        raise ConfigurationError(f"{party} is not the folder of a site with a table of its own")
    _check_key(party, settings["site"])
    recipe = recipe_of_goal(settings)
    policy = read_policy(party)
    table = read_own_table(party, recipe, settings["problem"]["holdout"], policy.least_category)
    if why := policy.why_not(facts_of(table.trained, recipe, "")):
        rarest = sorted(smallest_groups(table.trained, recipe).items(), key=lambda item: item[1])[:FEW]
        few = ", ".join(f"{name} ({count})" for name, count in rarest)
        raise ConfigurationError(
            f"by its own rules nothing leaves this site: {why.text}; rows of the rarest value: {few}"
        )
    plain = Policy()
    rules = {f.name: value for f in fields(plain) if (value := getattr(policy, f.name)) != getattr(plain, f.name)}
    keys = has_keys(party) and settings["run"]["secure_sums"] != OFF
    summaries: list[Summary] = []
    try:
        known = _summarize_elsewhere(recipe, table, settings, summaries)
        survey, steps, bent = _declare_run(recipe, known, settings)
    except ValueError as error:  # one class, as a rule: the other sites have the other
        if len(summaries) < Encoder.exchanges:
            raise
        return Checked(table, recipe, summaries, None, None, None, "", str(error), rules, keys)
    _refuse_few(policy, table, recipe, known, keys)
    why = None if bent is None else policy.why_not_released(bent, facts_of(table.trained, recipe, ""), keys)
    refusal = "" if why is None else why.text
    asked = _Beside(recipe, known, table, settings, policy, keys)
    beside = [*asked.path(), *asked.effects(), *asked.measures()]
    return Checked(table, recipe, summaries, survey, steps, bent, refusal, "", rules, keys, beside)


def _check_key(party: Path, name: str) -> None:
    """Refuse a key for masks that is not the one of this site in the list that came with the kit."""
    if not (party / SECURE / ROSTER).exists():
        return
    from ..secure.joining import has_joined
    from ..secure.masks import read_keys  # which needs cryptography

    if not has_joined(party):  # else a new key of its own may wait for its list
        read_keys(party, name)


def _refuse_few(policy: Policy, table: OwnTable, recipe: TableRecipe, known: Sequence[Known], keys: bool) -> None:
    """Refuse a table whose summaries would not leave in the clear; how many rows all sites have nobody knows yet."""
    few, _ = Party(recipe, 0, table.trained).fewest_of_parts(known)
    asked = Release("summary", parts=(few, np.inf))
    if why := policy.why_not_released(asked, facts_of(table.trained, recipe, ""), keys):
        raise ConfigurationError(f"no summary of its rows would leave this site: {why.text}")


def _summarize_elsewhere(recipe: TableRecipe, table: OwnTable, settings: Json, summaries: list[Summary]) -> list[Known]:
    """What would be known if all sites had this table, by which shapes are those of the run; its own summaries too."""
    known: list[Known] = []
    sites = list(settings["sites"])
    everybody = [Party(recipe, m, table.trained) for m in range(len(sites))]
    for _ in range(recipe.exchanges):
        own = everybody[sites.index(settings["site"])].summarize(known)
        summaries.append(own)
        sent = [party.summarize(known) for party in everybody] if recipe.weighs_parties else [own] * len(sites)
        known.append(_all_apart(merge_summaries(sent), recipe))
    return known


class _Beside:
    """What requests beside a run would be answered with, by those functions that answer them."""

    def __init__(
        self,
        recipe: TableRecipe,
        known: list[Known],
        table: OwnTable,
        settings: Json,
        policy: Policy,
        keys: bool,
    ):
        self.recipe, self.known, self.table, self.policy, self.keys = recipe, known, table, policy, keys
        self.sites, self.settings = list(settings["sites"]), settings["problem"]
        self.parties = [Party(recipe, m, table.trained, settings["site"], table.places) for m in range(len(self.sites))]
        self.own = self.parties[self.sites.index(settings["site"])]
        self.settled = [*known, default_penalty(recipe, known, "").as_known] if recipe.penalties else known
        self.like = recipe.problem(known, "elsewhere").like
        self.zero = {name: np.zeros(np.shape(leaf)) for name, leaf in self.like.x.items()}

    def path(self) -> list[Announced]:
        """Of the choice of a penalty: summaries without each fold, surveys of points, losses of folds."""
        if not self.recipe.penalties or why_not_chosen(self.recipe, self.known):
            return []
        try:
            folded = [party.fold(self.known) for party in self.parties]
            return self._of_folds(folded, folded[self.sites.index(self.own.name)])
        except FoldsError:  # then nothing is asked
            return []

    def _of_folds(self, folded: list[FoldedRows], own: FoldedRows) -> list[Announced]:
        whole = self.recipe.selection.folds == SITES or self.recipe.weighs_parties
        of_folds = Release(FOLD_SUMMARY, fold=own.least, whole_sites=whole)
        told: list[list[Known]] = [[] for _ in range(own.folds + 1)]
        announced = list[Announced]()
        for number in range(own.recipe.exchanges):
            total = known_by_fold(merge_summaries([party.summarize(told) for party in folded]), own.folds + 1)
            announced.append(
                self._announce(of_folds, f"summary {number + 1} with and without folds", own.summarize(told))
            )
            told = [[*each, part] for each, part in zip(told, total, strict=True)]
        fewest = own.fewest_of_parts([each[0] for each in told])
        own.settle(told)
        point = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf)), own.like(own.folds))
        asked = Release(PATH, 1, parameters=sizes_of(point)[0], rows=own.fewest_trained, fold=own.least)
        asked = replace(asked, whole_sites=whole, parts=fewest)
        for what, survey in {
            "a point": Survey((point,), (False,), (None,)),
            "a point with second derivatives": Survey((point,), (True,), (None,)),
            "a point with the cut of a step": Survey((point,), (False,), (point,)),
        }.items():
            with double():
                answer = summarize_surveys([(own.folds, survey)], own.survey([(own.folds, survey)]))
            announced.append(self._announce(asked, what, answer))
        losses = own.measure_held_out([(0, point.x)])
        return [*announced, self._announce(replace(asked, kind=FOLD_LOSSES), "a model without a fold", losses)]

    def effects(self) -> list[Announced]:
        """Of the table of effects, and of the ordinary model, which is found in the same way."""
        asked = dict[str, Known]()
        if GOALS[self.recipe.goal].structure.recipe not in WHY_NONE:
            own = self.settings["site_intercepts"] is not False
            common = "the model" if self.recipe.is_unpenalized else "the proof of coefficients"
            for intercepts, what in ((own, "the table of effects"), (False, common)):
                layout = Layout(self.recipe, self.settled, self.zero, intercepts)
                y = np.concatenate([np.zeros(0), *(np.ravel(leaf) for leaf in jax.tree.leaves(self.like.y))])
                y = np.full(y.size, 1 / max(y.size, 1))
                asked |= {what: layout.question(y, layout.start, meat=False)}
                asked |= {f"{what}, at its end": layout.question(y, layout.start, meat=True)}
        if (beside := first_question(self.recipe, self.settled)) is not None:
            asked["the ordinary model"] = beside
        with double():
            return [self._effect(what, question) for what, question in asked.items()]

    def _effect(self, what: str, question: Known) -> Announced:
        asked = Release(EFFECTS, 1, parameters=int(np.size(question["beta"])), mixed=False)
        return self._announce(asked, what, self.own.effects(self.settled, question))

    def measures(self) -> list[Announced]:
        """Of the model, and of the ordinary one beside it, on held-out rows."""
        own, held = self.recipe.model(self.settled, self.zero), self.table.held_out
        other = ordinary_model(self.recipe, self.settled, own.weights, own.bias)
        announced = list[Announced]()
        for model, who in ((own, "the model"), (other, "the ordinary model")):
            if model is None:
                continue
            announced.append(self._announce(Release(MEASURE), who, Summary(sums=sum_measures(model, held))))
            for meat in (False, True) if has_calibration(model) else ():
                sums = sum_calibration(model, held, np.array([0.0, 1.0]), meat)
                what = f"{who} at a place" + ", the last one" * meat
                announced.append(self._announce(Release(CALIBRATE), what, Summary(sums=sums)))
        return announced

    def _announce(self, asked: Release, what: str, answer: Summary) -> Announced:
        why = self.policy.why_not_released(asked, facts_of(self.table.trained, self.recipe, ""), self.keys)
        numbers = replace(asked, numbers=None).count_numbers(pack_summary(answer)).numbers or 0
        return Announced(asked.kind, what, numbers, "" if why is None else why.text)


def _all_apart(known: Known, recipe: TableRecipe) -> Known:
    """The summary with enough rows in each group: which groups are merged depends on the other sites."""
    counted = (OWN_ROWS, ROWS_OF_GROUPS)
    return {name: np.maximum(value, recipe.least_rows) if name in counted else value for name, value in known.items()}


def _declare_run(
    recipe: TableRecipe, known: list[Known], settings: Json
) -> tuple[Release | None, Release | None, Release | None]:
    """What leaves in a survey of one point, in a round of steps at sites, and with second derivatives, as declared."""
    if recipe.is_unpenalized:
        return None, None, None
    view, method = recipe.problem(known, "elsewhere"), build_method(settings["method"])
    survey, one = declare_survey(view, 1), np.array([True])
    if method.asks_curvature:
        if method.asks_alike and are_too_many(view):
            return survey, None, None
        asked = count_asked(view)  # which ones is decided by the first survey
        named = ALL if asked == sizes_of(view.like)[0] else np.arange(asked)
        return survey, None, declare_curvature(view, one, one, named, method.asks_alike)
    if method.outputs:  # it asks for losses and gradients alone
        return survey, None, None
    task = task_of(settings, view, known)
    with double():
        return survey, declare_round(reply_like(task.prepare(view).setup, task.averages)), None


def entries(summary: Summary) -> Iterator[tuple[str, str, Any]]:
    """How each part of a summary is merged, its name and what it is."""
    for part, rule in MERGED_BY.items():
        for name, value in getattr(summary, part).items():
            yield rule, name, value


def _shape(value: Any) -> str:
    return " x ".join(map(str, np.shape(value))) or "1"


def _preview(value: object) -> str:
    array = np.asarray(value).ravel()
    text = [str(item) if isinstance(item, str) else f"{item:.6g}" for item in array[:FEW].tolist()]
    return ", ".join(text) + (", ..." if array.size > FEW else "")

"""What a site would send, shown at the site, before anything is connected."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from ...algorithms.newton import count_asked
from ...compiling import double
from ...data import Encoder
from ...display import text_table
from ...runs.settings import ConfigurationError, build_method
from ...summaries import Known, Summary, merged
from ...tables.goals import names_of
from ...tables.party import Party
from ...tables.recipe import OWN_ROWS, ROWS_OF_GROUPS, TableRecipe
from ..policy import Policy, Release, read_policy
from ..secure.sums import OFF, has_keys
from ..site import ALL, declare_curvature, declare_round, declare_survey, reply_like, sizes_of
from ..wire import pack_summary
from .agreement import has_tables, recipe_of_goal
from .settings import settings_of, task_of
from .site import OwnTable, facts_of, read_own_table, smallest_groups

FEW = 4
"""Numbers that are shown one by one."""
UNDER_MASKS = "With secure sums (this folder has keys) what is merged by sum leaves under masks, the rest in the clear"
IN_THE_CLEAR = "All of it leaves in the clear: this run has no secure sums"
MERGED_BY = {"sums": "sum", "largest": "largest", "labels": "union", "each": "kept apart"}


@dataclass(frozen=True)
class Checked:
    """A site's table, and what it would send if the other sites had the same one."""

    table: OwnTable
    recipe: TableRecipe
    summaries: list[Summary]
    survey: Release | None
    """What leaves in a survey of one point; None if this site alone has too little for the problem."""
    round: Release | None
    """What leaves in a round; None if the method takes no steps at sites, or as before."""
    curvature: Release | None
    """What leaves with second derivatives at one point; None if the method asks for none, or as before."""
    no_curvature: str
    """Why this site would not release these."""
    short_of: str
    """Why so."""
    rules: dict[str, Any]
    """Of the site, those that are in force."""
    keys: bool
    """Whether its folder has keys for secure sums, which the agreed options do not switch off."""

    @property
    def words(self) -> str:
        """For people."""
        own, held = self.table, 0 if self.table.held_out is None else self.table.held_out.rows
        features = ", ".join(name for name in own.trained if name not in self.recipe.beside)
        rows = [
            [str(number), name, rule, _shape(value), _shown(value)]
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
                f"{', '.join(map(str, self.summarized))} numbers:",
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
    def summarized(self) -> list[int]:
        """How many numbers leave in each summary, by the count of rules and ledger."""
        return [Release("summary").count_numbers(pack_summary(one)).numbers or 0 for one in self.summaries]

    @property
    def _then(self) -> str:
        if self.survey is None:
            return f"What it sends in a run cannot be shown without the other sites' summaries: {self.short_of}."
        steps, where = "", "every exchange of a run"
        if self.round is not None:
            steps = f"In every round it sends what its local steps changed, {self.round.numbers} numbers. "
            where = "exchanges for a certificate or a correction"
        return (
            f"{steps}In {where} it sends {self.survey.numbers} numbers for a point: its mean loss there and the "
            f"gradient of it, if the other sites have the same categories and classes. {self._bent}After the run it "
            "sends measures of the model on its held-out rows."
        )

    @property
    def _bent(self) -> str:
        if self.curvature is None:
            return ""
        but = f"; but {self.no_curvature}, so that the run goes on without them" if self.no_curvature else ""
        return (
            "With second derivatives, which are weighted second moments of its rows, and a cut of the last step it is "
            f"{self.curvature.numbers} numbers for a point{but}. "
        )

    def plain(self) -> dict[str, Any]:
        """For programs: everything that would leave, in full."""
        sent = [{name: np.asarray(value).tolist() for _, name, value in entries(one)} for one in self.summaries]
        return {
            "table": self.table.trained.source,
            "rows": self.table.rows,
            "columns": list(self.table.trained),
            "rules": self.rules,
            "summaries": sent,
            "numbers_in_summaries": self.summarized,
            "numbers_in_an_exchange": None if self.survey is None else self.survey.numbers,
            "numbers_in_a_round": None if self.round is None else self.round.numbers,
            "numbers_with_curvature": None if self.curvature is None else self.curvature.numbers,
            "no_curvature": self.no_curvature,
        }


def checked(party: Path) -> Checked:
    """What the folder of a site holds; a refusal in one sentence of what would be refused in a run."""
    settings = settings_of(party)
    if "site" not in settings or not has_tables(settings):
        raise ConfigurationError(f"{party} is not the folder of a site with a table of its own")
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
        known = _summarized(recipe, table, settings, summaries)
        survey, steps, bent = _declared(recipe, known, settings)
    except ValueError as error:  # one class, as a rule: the other sites have the other
        if len(summaries) < Encoder.exchanges:
            raise
        return Checked(table, recipe, summaries, None, None, None, "", str(error), rules, keys)
    _refuse_few(policy, table, recipe, known, keys)
    why = None if bent is None else policy.why_not_released(bent, facts_of(table.trained, recipe, ""), keys)
    refusal = "" if why is None else why.text
    return Checked(table, recipe, summaries, survey, steps, bent, refusal, "", rules, keys)


def _refuse_few(policy: Policy, table: OwnTable, recipe: TableRecipe, known: Sequence[Known], keys: bool) -> None:
    """Refuse a table whose summaries would not leave in the clear; how many rows all sites have nobody knows yet."""
    few, _ = Party(recipe, 0, table.trained).fewest_of_parts(known)
    asked = Release("summary", parts=(few, np.inf))
    if why := policy.why_not_released(asked, facts_of(table.trained, recipe, ""), keys):
        raise ConfigurationError(f"no summary of its rows would leave this site: {why.text}")


def _summarized(
    recipe: TableRecipe, table: OwnTable, settings: Mapping[str, Any], summaries: list[Summary]
) -> list[Known]:
    """What would be known if all sites had this table, by which shapes are those of the run; its own summaries too."""
    known: list[Known] = []
    sites = list(settings["sites"])
    everybody = [Party(recipe, m, table.trained) for m in range(len(sites))]
    for _ in range(recipe.exchanges):
        own = everybody[sites.index(settings["site"])].summarize(known)
        summaries.append(own)
        sent = [party.summarize(known) for party in everybody] if recipe.weighs_parties else [own] * len(sites)
        known.append(_all_apart(merged(sent), recipe))
    return known


def _all_apart(known: Known, recipe: TableRecipe) -> Known:
    """With rows enough in each group: of those that are one together less leaves, and the other sites decide which."""
    counted = (OWN_ROWS, ROWS_OF_GROUPS)
    return {name: np.maximum(value, recipe.least_rows) if name in counted else value for name, value in known.items()}


def _declared(
    recipe: TableRecipe, known: list[Known], settings: Mapping[str, Any]
) -> tuple[Release, Release | None, Release | None]:
    """What leaves in a survey of one point, in a round of steps at sites, and with second derivatives, as declared."""
    view, method = recipe.problem(known, "elsewhere"), build_method(settings["method"])
    survey, one = declare_survey(view.like, 1), np.array([True])
    if method.asks_curvature:
        asked = count_asked(view)  # which ones is decided by the first survey
        named = ALL if asked == sizes_of(view.like)[0] else np.arange(asked)
        return survey, None, declare_curvature(view.like, one, one, named)
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


def _shown(value: object) -> str:
    array = np.asarray(value).ravel()
    text = [str(item) if isinstance(item, str) else f"{item:.6g}" for item in array[:FEW].tolist()]
    return ", ".join(text) + (", ..." if array.size > FEW else "")

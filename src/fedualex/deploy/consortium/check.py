"""What a site would send, shown at the site, before anything is connected."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ...data import Encoder
from ...display import text_table
from ...runs.settings import ConfigurationError, build_method
from ...summaries import Known, Summary, merged
from ...tables.goals import names_of
from ...tables.recipe import TableRecipe
from ..policy import Policy, read_policy
from ..secure.masks import OFF, has_keys
from .agreement import has_tables, recipe_of_goal
from .settings import settings_of
from .site import OwnTable, facts_of, read_own_table, smallest_groups

FEW = 4
"""Numbers that are shown one by one."""
UNDER_MASKS = "With secure sums (this folder has keys) what is merged by sum leaves under masks, the rest in the clear"
IN_THE_CLEAR = "All of it leaves in the clear: this run has no secure sums"
MERGED_BY = {"sums": "sum", "largest": "largest", "labels": "union", "each": "kept apart"}


@dataclass(frozen=True)
class Checked:
    """A site's table, and its summaries as if it were the only site."""

    table: OwnTable
    recipe: TableRecipe
    summaries: list[Summary]
    numbers: int | None
    """How many numbers an answer to a survey has; None if this site alone has too little for the problem."""
    short_of: str
    """Why so."""
    rules: dict[str, Any]
    """Of the site, those that are in force."""
    surveyed: bool
    """Whether the method asks for losses and gradients alone, and takes no steps at sites."""
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
        table = text_table(["exchange", "name", "merged by", "shape", "as this site alone has it"], rows)
        return "\n".join(
            [
                f"{own.trained.source}: {own.rows} rows, of which {held} are held out and never summarized",
                f"goal {self.recipe.goal}, target {', '.join(names_of(self.recipe.target))}, features: {features}",
                f"rules in force: {', '.join(f'{name} = {value}' for name, value in self.rules.items()) or 'none'}",
                f"Before a run this site sends the names of its features, then {self.recipe.exchanges} summaries:",
                table,
                f"{UNDER_MASKS if self.keys else IN_THE_CLEAR}. {self._then}",
            ]
        )

    @property
    def _then(self) -> str:
        if self.numbers is None:
            return f"What it sends in a run cannot be shown without the other sites' summaries: {self.short_of}."
        steps = (
            ""
            if self.surveyed
            else f"In every round it sends what its local steps changed, 2 x {self.numbers} numbers. "
        )
        where = "every exchange of a run" if self.surveyed else "exchanges for a certificate or a correction"
        return (
            f"{steps}In {where} it sends {self.numbers} numbers for a point: its mean loss there and the gradient "
            "of it. After the run it sends measures of the model on its held-out rows."
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
            "numbers_in_an_exchange": self.numbers,
        }


def checked(party: Path) -> Checked:
    """What the folder of a site holds; a refusal in one sentence of what would be refused in a run."""
    settings = settings_of(party)
    if "site" not in settings or not has_tables(settings):
        raise ConfigurationError(f"{party} is not the folder of a site with a table of its own")
    recipe = recipe_of_goal(settings)
    table, policy = read_own_table(party, recipe, settings["problem"]["holdout"]), read_policy(party)
    if why := policy.why_not(facts_of(table.trained, recipe)):
        rarest = sorted(smallest_groups(table.trained, recipe).items(), key=lambda item: item[1])[:FEW]
        few = ", ".join(f"{name} ({count})" for name, count in rarest)
        raise ConfigurationError(f"by its own rules nothing leaves this site: {why}; rows of the rarest value: {few}")
    plain, surveyed = Policy(), bool(build_method(settings["method"]).outputs)
    rules = {f.name: value for f in fields(plain) if (value := getattr(policy, f.name)) != getattr(plain, f.name)}
    keys = has_keys(party) and settings["run"]["secure_sums"] != OFF
    summaries: list[Summary] = []
    known: list[Known] = []
    try:
        for _ in range(recipe.exchanges):
            summaries.append(recipe.summarize(table.trained, known, 0))
            known.append(merged(summaries[-1:]))
        like = recipe.problem(known, "elsewhere").like
    except ValueError as error:  # one class, as a rule: the other sites have the other
        if len(summaries) < Encoder.exchanges:
            raise
        return Checked(table, recipe, summaries, None, str(error), rules, surveyed, keys)
    count = sum(np.size(leaf) for leaf in jax.tree.leaves(like))
    return Checked(table, recipe, summaries, count + 1, "", rules, surveyed, keys)


def entries(summary: Summary) -> Iterator[tuple[str, str, Any]]:
    """How each part of a summary is merged, its name and what it is."""
    for part, rule in MERGED_BY.items():
        for name, value in getattr(summary, part).items():
            yield rule, name, value


def _shape(value: Any) -> str:
    return " x ".join(map(str, np.shape(value))) or "1"


def _shown(value: Any) -> str:
    array = np.asarray(value).ravel()
    text = [str(item) if isinstance(item, str) else f"{item:.6g}" for item in array[:FEW].tolist()]
    return ", ".join(text) + (", ..." if array.size > FEW else "")

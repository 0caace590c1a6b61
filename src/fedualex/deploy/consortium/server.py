"""The server of a deployment of tables: what it asks of sites before a run, and the model after it."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import Reals
from ...inference.sums import add_up
from ...models import Model, save
from ...models.store import MODEL
from ...problems import AbstractProblem, Problem
from ...problems.constrained import exceeds, is_doubtful
from ...runs.settings import ConfigurationError
from ...runtime import Run
from ...runtime.driver import settle
from ...storage import Json, write_json
from ...summaries import Known, merge_summaries
from ...tables.effects import Wanted, find_effects, find_unpenalized
from ...tables.kept_model import Answer, Findings, make_model
from ...tables.measures import Measures, calibration_by, has_calibration
from ...tables.ordinary import fit_ordinary, with_ordinary
from ...tables.penalty import PENALTY, choose_penalty, default_penalty, told_penalty
from ...tables.rates import threshold_from_counts
from ...tables.recipe import merge_named
from .. import Arrays, Engine
from ..clients import Exchange, SilentSitesError
from ..ledger import TABLES
from ..policy import CALIBRATE, EFFECTS, MEASURE
from ..secure.sums import quantization
from ..wire import MessageError, pack_known, unpack_json, unpack_summary
from .agreement import agreement, recipe_of_goal
from .differences import STOP, read_ready, tell_differences
from .folds import SitesWithFolds
from .messages import check_columns, forget_known, pack_model, read_known, write_known
from .settings import PATIENCE

log = logging.getLogger(__name__)


class TableServer:
    """What a server asks of sites outside of a run's rounds and surveys.

    roster: the digest of the sites' list of keys, for secure sums. wanted: all sites of the kit, of which some may have
    stayed away.
    """

    def __init__(self, engine: Engine, party: Path, settings: Json, roster: str = "", wanted: Sequence[str] = ()):
        self.party, self.settings, self.recipe = party, settings, recipe_of_goal(settings)
        sites, run = list(settings["sites"]), settings["run"]
        self.absent = [name for name in wanted if name not in sites]
        problem = settings["problem"]
        own = problem["site_intercepts"] is not False  # the sites are whose rows they are
        self.wanted = Wanted(problem["confidence"], own, problem["collinear"])
        self._asked = 0
        self._why_unmeasured = ""
        patience = run.get("patience", PATIENCE)
        self.exchange = Exchange(engine, sites, f"{agreement(settings)}{TABLES}", run["timeout"], roster, patience)

    def agree(self) -> list[Known]:
        """What all parties know when the run begins: from the folder if it is there, else from the sites.

        No number leaves a site before all have the same columns: under masks, sums over other columns have no meaning.
        """
        if self.exchange.roster:
            self._send_roster()
        known = read_known(self.party)
        if known is None:
            known = []
            check_columns(self.exchange.ask_all("columns", {}, 0, _column_names))
            for number in range(self.recipe.exchanges):
                parts = self.exchange.ask_all("summary", pack_known(known), number, unpack_summary)
                known.append(merge_named(parts))
                self.recipe.check_known(known)
                log.info("summary %d of %d: all sites have answered", number + 1, self.recipe.exchanges)
            write_known(self.party, known)
        said = self.exchange.ask_all("begin", pack_known(known), 0, read_ready)
        try:
            tell_differences(self.party, said, self.settings["run"].get("on_warning", STOP))
        except ConfigurationError:
            forget_known(self.party)  # they are of tables that will change
            raise
        return known

    def _send_roster(self) -> None:
        """Where sites make their own keys, give all of them the list that the authority has signed last."""
        from ..secure.joining import TASK, pack_roster  # which needs cryptography

        if (packed := pack_roster(self.party)) is not None:
            self.exchange.ask_all(TASK, packed, 0, _reader_of_word("taken"))

    def choose(self, known: Sequence[Known]) -> list[Known]:
        """What all parties know once held-out rows have chosen the penalty; the curve is kept beside it."""
        if not self.recipe.penalties or len(known) > self.recipe.exchanges:
            return list(known)
        error = quantization(len(self.exchange.order)) if self.exchange.roster else 0.0
        try:
            penalty = choose_penalty(
                self.recipe, known, lambda: SitesWithFolds(self.exchange, self.recipe), sum_error=error
            )
        except SilentSitesError as silent:
            penalty = default_penalty(self.recipe, known, str(silent))
        log.info("penalty: %s", penalty.sentence)
        known = [*known, penalty.as_known]
        write_json(self.party / PENALTY, penalty.plain())
        write_known(self.party, known)
        self.exchange.ask_all("begin", pack_known(known), 1, read_ready)
        return known

    def find_unpenalized(self, known: Sequence[Known], configuration: Json) -> Answer:
        """The optimum without penalty, as in a fit. configuration: what the model keeps of its settings."""
        tol, rounds = configuration["run"]["tol"], self.settings["run"]["rounds"]
        until = tol, rounds, self.wanted.collinear
        return find_unpenalized(self.recipe, known, self._ask_effects, configuration, *until)

    def conclude(self, known: Sequence[Known], run: Run, problem: AbstractProblem, answer: Answer) -> Run:
        """The run, ended as INFEASIBLE if sums of all sites prove that no model meets the limits."""
        if not (isinstance(problem, Problem) and is_doubtful(problem) and exceeds(problem, run.violation)):
            return run
        from ...tables.unmet import bound_violation  # it brings scipy, without which a site starts

        error = quantization(len(self.exchange.order)) if self.exchange.roster else 0.0
        try:
            return settle(run, bound_violation(self.recipe, known, problem, answer, self._ask_effects, error))
        except SilentSitesError as silent:
            log.warning("nobody knows whether the limits can be met: %s", silent)
            return run

    def keep_model(self, known: Sequence[Known], answer: Answer) -> Model:
        """The model of an answer, measured at the sites, and kept here and where a site wants it."""
        penalty = told_penalty(self.recipe, known, self.party / PENALTY)
        rate = self.settings["problem"].get("rate")
        calibrate = None if rate is None else lambda model: self._calibrate_rate(known, model, rate)
        findings = Findings(penalty, self._effects(known, answer), self._measures, calibrate)
        model = make_model(self.recipe, known, answer, self.exchange.order, findings)
        if model.training["held_out"]:
            model = self._with_ordinary(model, known, penalty)
        said = list(model.training.get("done", ()))
        if self.absent:
            said.append(f"The rows of {', '.join(self.absent)} are not in it: this run began without them.")
        if self.settings["problem"]["holdout"] and not model.training["held_out"]:
            said.append(f"It was not tested on held-out rows: {self._why_unmeasured}.")
        model = replace(model, training={**model.training, "done": said})
        save(model, self.party / MODEL)
        sites = list(self.exchange.order)  # all of them, whatever one has refused before
        kept = self.exchange.ask("model", pack_model(model), 0, sites, len(sites), _reader_of_word("kept"))
        log.info("the model is kept at the server and at %d sites", len(kept))
        return model

    def _effects(self, known: Sequence[Known], answer: Answer) -> Json:
        try:
            gap = answer.certificate["gap"]
            return find_effects(self.recipe, known, answer.x, answer.y, self._ask_effects, self.wanted, gap)
        except SilentSitesError as error:
            log.warning("there is no table of effects: %s", error)
            return {"refused": f"there is no table of effects: {error}"}

    def _ask_effects(self, asked: Known) -> Known:
        """The sums of all sites: one exchange."""
        self._asked += 1
        parts = self.exchange.ask_all(EFFECTS, pack_known([asked]), self._asked, unpack_summary)
        log.info("sums for effects, exchange %d: all sites have answered", self._asked)
        return merge_summaries(parts.values())

    def _with_ordinary(self, model: Model, known: Sequence[Known], penalty: Json) -> Model:
        """The model with the measures of the ordinary model at the sites, if there is one and all sites answer."""
        try:
            other = fit_ordinary(self.recipe, known, penalty, self._ask_effects)
        except SilentSitesError as error:
            log.warning("there is no ordinary model beside this one: %s", error)
            return model
        return model if other is None else with_ordinary(model, self._measures(other.model), other.how)

    def _calibrate_rate(self, known: Sequence[Known], model: Model, rate: float) -> tuple[Model, Json]:
        """A threshold from counts by predicted risk; where there is none, the model as it is, and why."""
        limited = self.recipe.settings(known)["limited"]
        try:
            total = add_up(list(self.exchange.ask_all(MEASURE, pack_model(model), 0, _read_sums).values()))
            return threshold_from_counts(model, total, limited, rate, self.wanted.confidence)
        except (SilentSitesError, ValueError) as error:
            log.warning("no rate is promised: %s", error)
            return model, {"sentence": f"no rate of errors is promised: {error}"}

    def _measures(self, model: Model) -> Json | None:
        """The measures of all sites, and of each where sums come in the clear; None if some site does not answer."""
        try:
            sums = self.exchange.ask_all(MEASURE, pack_model(model), 0, _read_sums)
            total = add_up(list(sums.values()))
            if not total["rows"]:
                self._why_unmeasured = "no site holds out as many as its rules want for that (least_held_out)"
                return None
            each = {} if self.exchange.roster else {site: own for site, own in sums.items() if own["rows"]}
            calibration = self._calibration(model, list(each)) if has_calibration(model) else {}
        except SilentSitesError as error:
            log.warning("there is no test on held-out rows: %s", error)
            self._why_unmeasured = f"{error}, where sites with fewer held-out rows than least_held_out have no weight"
            return None
        by_class, confidence = self.recipe.limits_classes, self.wanted.confidence
        return Measures(model, total, each, calibration, by_class, confidence).plain()

    def _calibration(self, model: Model, each: Sequence[str]) -> Json:
        """Of all sites together, and of each of these alone."""

        def of(sites: Sequence[str]) -> Json:
            def ask(beta: Reals, meat: bool) -> Any:
                self._asked += 1
                arrays = pack_model(model, beta=beta, meat=np.asarray(int(meat)))
                return add_up(list(self.exchange.ask_all(CALIBRATE, arrays, self._asked, _read_sums, sites).values()))

            return calibration_by(model, ask, self.wanted.confidence)

        return {"overall": of(list(self.exchange.order)), "clients": {site: of([site]) for site in each}}


def _read_sums(arrays: Arrays) -> dict[str, Reals]:
    return dict(unpack_summary(arrays).sums)


def _column_names(arrays: Arrays) -> list[str]:
    """A reader of replies that name columns."""
    (names,) = unpack_json(arrays, "columns")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise MessageError("the columns of a table must be a list of names")
    return names


def _reader_of_word(word: str) -> Any:
    """A reader of replies that only confirm that something is done, under this key."""

    def read(arrays: Arrays) -> bool:
        return bool(unpack_json(arrays, word)[0])

    return read

"""The last door of a site: what its own rules allow is written to its ledger, and only then leaves."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import numpy as np

from ..runtime.status import Code
from .engine import Arrays, RefusedError, Request
from .ledger import LEDGER, Ledger, Line, begin_ledger, content_digest
from .policy import (
    BEGIN,
    CURVATURE,
    FIRST,
    MOST_BEGUN,
    MOST_MODELS,
    MOST_PLACES,
    PLACE,
    Policy,
    Release,
    SiteFacts,
    composed_epsilon,
    read_policy,
    write_policy,
)
from .secure.sums import ON, first_part, has_keys, is_summed
from .site import Site
from .task import Task
from .wire import Work, size_of

NOISY = "round"
"""The task whose answers have noise in them, where a run has privacy."""
MODEL = "model"
"""The task that brings a model to a site."""

Hide = Callable[[Request, Arrays], Arrays]
Declare = Callable[[Request], Release]
"""What would leave if a request were answered."""


def declare_task(request: Request) -> Release:
    """The release of a request of which nothing is known but its task."""
    return Release(request.task)


class Guard:
    """A site's work behind its rules. `work` may be called from several threads at once.

    work: the site's answer to a request. policy, ledger: its rules, and its record of what left. about: what rules may
    be about. hide: puts masks on an answer, for secure sums; None at a site without keys. declare: what would leave if
    a request were answered, which is what rules and budgets see of it.
    """

    def __init__(
        self,
        work: Work,
        policy: Policy,
        ledger: Ledger,
        about: SiteFacts = SiteFacts(),  # noqa: B008, which is frozen
        hide: Hide | None = None,
        declare: Declare = declare_task,
    ):
        self._work, self.policy, self.ledger, self.about, self._hide = work, policy, ledger, about, hide
        self._declare = declare
        if not ledger.damage:
            ledger.recover(None if about.privacy is None else about.privacy.noise)

    def work(self, request: Request) -> Arrays:
        """The answer, which is in the ledger when this returns; a `RefusedError` with the rule that is in its way."""
        self._check_request(request)
        asked = self._declare(request)
        if why := self.policy.why_not_released(asked, self.about, bool(request.nonce)):
            raise RefusedError(why.text, why.code)
        self._check_limits(request, asked)  # before anything is computed in vain
        plain = self._work(request)
        self._check_arrays(request, plain)
        asked = asked.count_numbers(plain)
        noise = self._noise(request, plain)
        answer = plain if not request.nonce or self._hide is None else self._hide(request, plain)
        line = Line(
            run=request.run_id,
            task=request.task,
            round=request.round,
            nonce=request.nonce,
            arrays={name: list(np.shape(array)) for name, array in plain.items()},
            size=size_of(answer),
            sha256=content_digest(answer),
            noise=noise,
            kit=self.about.kit,
            sums=asked.sums,
            numbers=asked.numbers or 0,
            subject=asked.subject,
            columns=list(asked.columns),
        )
        with self.ledger.lock():
            self._check_limits(request, asked)  # again: other threads and processes have answered meanwhile
            if self.policy.keep_values:
                self.ledger.keep_values(line.sha256, plain)
            self.ledger.append(line.with_epsilon(self._epsilon(noise)))
        return answer

    def _check_request(self, request: Request) -> None:
        policy = self.policy
        if why := policy.why_not(self.about):
            raise RefusedError(why.text, why.code)
        if policy.tasks is not None and request.task not in policy.tasks:
            code = Code.NO_CURVATURE if request.task == CURVATURE else Code.NOT_RELEASED
            raise RefusedError(f"this site answers {_list_words(policy.tasks)}, not {request.task!r}", code)
        if request.task == MODEL and not policy.keep_model:
            raise RefusedError("this site keeps no model", Code.NOT_RELEASED)
        if policy.approve == FIRST and not self.ledger.approves(self.about.kit):
            raise RefusedError("this site waits for the approval of a person there", Code.AWAITS_APPROVAL)
        if request.nonce and self._hide is None:
            raise RefusedError("this site has no keys for secure sums", Code.KEYS_DIFFER)

    def _check_limits(self, request: Request, asked: Release) -> None:
        if self.ledger.damage:
            text = "the ledger of this site is damaged, and its operator has not acknowledged it"
            raise RefusedError(text, Code.LEDGER_DAMAGED)
        most, given = self.policy.exchanges_per_day, self.ledger.count_recent()
        if most is not None and given + asked.sums > most:
            rest = "has given them" if asked.sums == 1 else f"has given {given}: {asked.sums} points are as many"
            raise RefusedError(f"this site gives {most} answers in 24 hours, and {rest}", Code.DAY_SPENT)
        most = self.policy.numbers_per_run
        if most is not None and self.ledger.numbers(self.about.kit) + (asked.numbers or 0) > most:
            text = f"this site releases {most} numbers for one kit, and this would be more"
            raise RefusedError(text, Code.NOT_RELEASED)
        if asked.columns:
            # Second derivatives between other columns each time would be those of all in the end.
            named = self.ledger.columns(self.about.kit).union(asked.columns)
            together = replace(asked, parameters=len(named))
            if why := self.policy.why_no_curvature(together, self.about, bool(request.nonce)):
                raise RefusedError(why, Code.NO_CURVATURE)
        if why := _why_not_asked_about(asked, self.ledger.subjects(self.about.kit)):
            raise RefusedError(why, Code.NOT_RELEASED)
        if request.nonce and self.ledger.knows(request.nonce):
            raise RefusedError("masks are used once, and this site has answered under this nonce", Code.ANSWERED)

    def _check_arrays(self, request: Request, arrays: Arrays) -> None:
        allowed = self.policy.arrays
        for name in arrays:
            if allowed is not None and first_part(name) not in allowed:
                text = f"{first_part(name)!r} does not leave this site, which releases {_list_words(allowed)}"
                raise RefusedError(text, Code.NOT_RELEASED)
            if self.policy.secure_sums and not request.nonce and is_summed(name):
                raise RefusedError(f"{first_part(name)!r} leaves this site in secure sums only", Code.MASKS_ONLY)

    def _noise(self, request: Request, arrays: Arrays) -> float | None:
        """The multiplier of the noise in an answer."""
        if self.about.privacy is not None and request.task == NOISY:
            return self.about.privacy.noise
        if self.policy.epsilon is not None and any(np.size(array) for array in arrays.values()):
            text = f"this site releases nothing without noise, and {request.task!r} has none"
            raise RefusedError(text, Code.NOISE_ONLY)
        return None

    def _epsilon(self, noise: float | None) -> float | None:
        """What all noisy releases are worth after the next one, which must be within the budget."""
        budget = self.policy.epsilon
        if budget is None or noise is None:
            return None
        spent = composed_epsilon(self.ledger.noises() + Counter([noise]), self.policy.delta)
        if spent > budget:
            text = f"the privacy budget of this site, epsilon = {budget:g}, does not cover another release"
            raise RefusedError(text, Code.BUDGET_SPENT)
        return spent


def _why_not_asked_about(asked: Release, before: set[str]) -> str:
    """Why columns are not compared, or a model not measured or calibrated on held-out rows, after these.

    The same may be asked for again.
    """
    if not asked.subject or asked.subject in before:
        return ""
    begun = {subject for subject in before if subject.startswith(BEGIN)}
    if asked.kind == BEGIN:
        few = len(begun) < MOST_BEGUN
        return "" if few else f"this site compares its columns with {MOST_BEGUN} merged summaries for one kit, and has"
    places = {subject for subject in before if PLACE in subject}
    if PLACE in asked.subject:
        if len(places) >= MOST_PLACES:
            return f"this site calibrates at {MOST_PLACES} places for one kit, and has done so"
        known = asked.subject.partition(PLACE)[0] in before
        return "" if known else "this site calibrates models that it has measured"
    if len(before - places - begun) >= MOST_MODELS:
        return f"this site measures {MOST_MODELS} models for one kit, and has measured them"
    return ""


def _list_words(words: tuple[str, ...]) -> str:
    return ", ".join(map(repr, words)) or "nothing"


# A site as it stands in its folder: its work behind its own rules, its ledger and its keys.


@runtime_checkable
class SiteSide(Protocol):
    """What a site would answer without rules of its own."""

    def work(self, request: Request) -> Arrays:
        """The answer to a request."""
        ...

    def declare(self, request: Request) -> Release:
        """What would leave if it were answered."""
        ...

    def factors(self, task: str) -> Mapping[str, float]:
        """What its arrays are multiplied by in secure sums, by the first parts of their names."""
        ...

    def told(self, task: str) -> str:
        """A digest of what it was told of the other sites, on which masks depend."""
        ...

    def added_up(self) -> Collection[str] | None:
        """The sites whose answers are added up in secure sums; None for all that have keys."""
        ...


def guard_site(party: Path, name: str, site: SiteSide, about: SiteFacts) -> Guard:
    """The site of this name behind the rules, the ledger and the keys in its folder. about: what rules may be about."""
    hide, work, declare = None, site.work, site.declare
    if has_keys(party):
        from .secure.joining import TASK, OwnKeys, has_joined
        from .secure.masks import Masker, read_keys

        if has_joined(party):
            keys = OwnKeys(party, name, site.factors, site.told, site.added_up)

            def work(request: Request) -> Arrays:
                return keys.take(request) if request.task == TASK else site.work(request)

            def declare(request: Request) -> Release:
                return Release(TASK) if request.task == TASK else site.declare(request)

            hide = keys.hide
        else:
            hide = Masker(read_keys(party, name), site.factors, site.told, site.added_up).hide
    return Guard(work, read_policy(party), Ledger(party / LEDGER), about, hide, declare)


def rehearse_sites(task: Task, sites: Mapping[str, Site]) -> tuple[dict[str, Work], str]:
    """The work of each site in one process, and the digest of their list of keys, made here if sums are secure."""
    if task.options.secure_sums != ON:
        return {name: site.work for name, site in sites.items()}, ""
    from .secure.masks import Masker, SiteKeys, generate_keys

    _, roster, own = generate_keys(list(sites))

    def guard(name: str, site: Site) -> Guard:
        masker = Masker(SiteKeys(name, roster, own[name]), site.factors, site.told)
        return Guard(site.work, Policy(), Ledger(None), hide=masker.hide, declare=site.declare)

    return {name: guard(name, site).work for name, site in sites.items()}, roster.digest


def prepare_site(party: Path, in_force: Mapping[str, str] = MappingProxyType({})) -> None:
    """The files that a site's folder must have: rules to be edited, some of them in force, and an empty ledger."""
    party.mkdir(parents=True, exist_ok=True)
    write_policy(party, in_force)
    begin_ledger(party)

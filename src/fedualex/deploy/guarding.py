"""A site as it stands in its folder: its work behind its own rules, its ledger and its keys."""

from collections.abc import Mapping
from pathlib import Path

from .adding import Factors
from .guard import Guard
from .ledger import LEDGER, Ledger, begin_ledger
from .messages import Work
from .policy import Policy, SiteFacts, read_policy, write_policy
from .secure.layout import ON, has_keys
from .site import Site
from .task import Task


def guarded(party: Path, site: str, work: Work, factors: Factors, about: SiteFacts) -> Guard:
    """The site's work behind what its folder holds.

    factors: what its arrays are multiplied by in secure sums. about: what its rules may be about.
    """
    hide = None
    if has_keys(party):
        from .secure.keys import read_keys
        from .secure.masks import Masking

        hide = Masking(read_keys(party, site), factors).hide
    return Guard(work, read_policy(party), Ledger(party / LEDGER), about, hide)


def rehearsed(task: Task, sites: Mapping[str, Site]) -> tuple[dict[str, Work], str]:
    """The works of sites in one process, and the digest of their list of keys, which are made here for secure sums."""
    if task.options.secure_sums != ON:
        return {name: site.work for name, site in sites.items()}, ""
    from .secure.keys import SiteKeys, new_keys
    from .secure.masks import Masking

    _, roster, own = new_keys(list(sites))

    def door(name: str, site: Site) -> Guard:
        masking = Masking(SiteKeys(name, roster, own[name]), lambda task: site.factors)
        return Guard(site.work, Policy(), Ledger(None), hide=masking.hide)

    return {name: door(name, site).work for name, site in sites.items()}, roster.digest


def prepare_site(party: Path) -> None:
    """The files that a site's folder must have: rules to be edited, and an empty ledger."""
    party.mkdir(parents=True, exist_ok=True)
    write_policy(party)
    begin_ledger(party)

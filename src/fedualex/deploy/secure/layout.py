"""Where the keys of secure sums are in a party's folder, and whether a run uses them."""

import logging
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ...algorithms import AbstractMethod
from .fixed_point import MOST_SITES
from .summed import FEWEST

log = logging.getLogger(__name__)

SECURE, ROSTER, AUTHORITY, KEY = "secure", "roster.json", "authority.pub", "key.pem"
"""A folder with the list of all public keys, the public key of whoever signed it, and the party's own private key."""
AUTO, ON, OFF = "auto", "on", "off"
"""Secure sums where they are possible; or a refusal where they are not; or never."""


def can_make_keys() -> bool:
    """Whether the package that has all the cryptography is installed here."""
    return find_spec("cryptography") is not None


def has_keys(party: Path) -> bool:
    """Whether a party's folder has a list of keys."""
    return (party / SECURE / ROSTER).exists()


def why_not_secure(method: AbstractMethod, sites: int, cohort: int | None, min_replies: int | None) -> str:
    """Why a run cannot have secure sums, in which all sites take part or nobody; empty if it can."""
    if not FEWEST <= sites <= MOST_SITES:
        return f"they are of {FEWEST} to {MOST_SITES} sites, got {sites}"
    if method.lead is not None:
        return f"{type(method).__name__} has local steps of one site, and a sum of one hides nothing"
    if (cohort or sites) < sites or (min_replies or sites) < sites:
        return "all sites are in every sum, so that cohort and min_replies must be left out"
    return ""


def check_choice(choice: str, method: AbstractMethod, sites: int, cohort: int | None, min_replies: int | None) -> None:
    """Refuse secure sums where they were asked for and cannot be."""
    if choice == ON and (reason := why_not_secure(method, sites, cohort, min_replies)):
        raise ValueError(f"secure_sums = {ON!r}: {reason}")


def chosen_roster(party: Path, sites: Sequence[str], choice: str, why_not: str) -> str:
    """The digest of the server's list of keys, if a run of these sites has secure sums; else nothing.

    why_not: why such a run cannot have them; empty if it can.
    """
    if choice == OFF:
        return ""
    missing = "" if has_keys(party) else f"{party} has no keys; `deploy init` makes them for {FEWEST} sites or more"
    if reason := why_not or missing:
        if choice == ON:
            raise ValueError(f"secure_sums = {ON!r}: {reason}")
        log.info("no secure sums, so that the server sees each site's numbers: %s", reason)
        return ""
    from .roster import read_roster

    roster = read_roster(party)
    if set(roster.keys) != set(sites):
        others = ", ".join(sorted(roster.keys))
        raise ValueError(f"the list of keys in {party / SECURE} must be of the sites of the run, got {others}")
    return roster.digest

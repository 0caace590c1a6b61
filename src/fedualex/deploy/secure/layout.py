"""Where the keys of secure sums are in a party's folder, and whether a run uses them."""

import logging
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

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

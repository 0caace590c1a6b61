"""Sums in fixed point, of which nobody learns the summands, and whether a run can have them. Needs no cryptography."""

import logging
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algorithms import Method
from ...arrays import Values
from ..engine import Arrays
from ..party import SECURE

UNITS = (2.0**44, 2.0**-8, 2.0**-60)
"""What the words of a number count; two words are the last two of these."""
STEP = 52
"""Each unit is 2^52 times the next."""
MOST = 2.0**52
"""The largest first word of one site."""
MOST_SITES = 1024


class RangeError(ValueError):
    """A number that does not fit. Says which array, and nothing of the number."""


def quantization(sites: int) -> float:
    """M 2^-61: how far a sum over so many sites may be from the exact one, beyond float64's own rounding."""
    return sites * UNITS[-1] / 2


def encode_words(name: str, values: Values, words: int) -> NDArray[np.uint64]:
    """The words of each number along a new first axis; a refusal by name where one does not fit."""
    units, rest = UNITS[-words:], np.asarray(values, np.float64)
    encoded = np.empty((words, *rest.shape), np.int64)
    if not np.all(np.abs(rest) <= MOST * units[0]):
        raise RangeError(f"{name} has entries beyond 2^{int(np.log2(MOST * units[0]))}, which secure sums cannot hold")
    for word, unit in enumerate(units):
        whole = np.rint(rest / unit)
        rest = rest - whole * unit
        encoded[word] = whole
    return encoded.view(np.uint64)


def decode_words(total: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The numbers that words, added up over sites modulo 2^64, stand for."""
    words = total.view(np.int64).copy()
    for word in range(len(words) - 1, 0, -1):  # what is too much for a word belongs to the one above
        above = (words[word] + 2 ** (STEP - 1)) >> STEP
        words[word] -= above << STEP
        words[word - 1] += above
    value = np.zeros(words.shape[1:])
    for count, unit in zip(reversed(words), reversed(UNITS[-len(words) :]), strict=True):
        value = value + count.astype(np.float64) * unit
    return np.asarray(value)


# Which arrays of an answer are only ever added up over sites, and so can leave under masks.


WORDS = {
    "message": 2,
    "points": 2,
    "point_weight": 2,
    "probes": 2,
    "probe_weights": 2,
    "shares": 2,
    "operators": 2,
    "values": 2,
    "curvature": 2,
    "cuts": 2,
    "errors": 2,
    "sums": 3,
}
"""By the first part of their names, and how many words of 64 bits each number takes: sums over the rows of a table may
be large. What is not here (maxima, labels and what is kept for each site apart) travels as it is."""

SUMMED = (
    "summary",
    "survey",
    "curvature",
    "round",
    "fold-summary",
    "path",
    "fold-losses",
    "effects",
    "measure",
    "calibrate",
)
"""The tasks whose answers are added up; to others a site answers as it is."""
FEWEST = 3
"""With two sites each knows the other's numbers from the sum, so that masks would hide nothing from it."""


def first_part(name: str) -> str:
    """`operators` of `operators.x.weights`: what docs/deployment.md calls an array."""
    return name.partition(".")[0]


def is_summed(name: str) -> bool:
    """Whether this array is added up over sites."""
    return first_part(name) in WORDS


# What the answers of all sites add up to: the server's side of secure sums, which needs no key.


CHECK, CHECK_WORDS = "check", 2
"""Zeros under masks: their sum is zero if the masks of all sites cancel, and else is not, but once in 2^128."""


class MaskError(ValueError):
    """Masks that do not cancel, or answers that cannot be added."""


def unmask(answers: Mapping[str, Arrays]) -> Arrays:
    """What the answers of ALL sites add up to, as float64; of arrays that travel as they are nothing.

    Raises `MaskError` where masks do not cancel: somebody has other keys, or was asked for something else.
    """
    first, *others = answers
    names = {name for name in answers[first] if name == CHECK or is_summed(name)}
    for name in sorted(names | {CHECK}):
        _check_words(first, name, answers[first].get(name))
    for site in others:
        for name in sorted(names | {name for name in answers[site] if is_summed(name)}):
            _check_words(site, name, answers[site].get(name))
            if name not in names or answers[site][name].shape != answers[first][name].shape:
                raise MaskError(f"{name} of {site} has another shape than that of {first}")
    totals = {name: np.asarray(sum(answer[name] for answer in answers.values())) for name in sorted(names)}
    if np.any(totals.pop(CHECK)):
        raise MaskError("the masks of the sites do not cancel: one has other keys, or was asked for something else")
    return {name: decode_words(total) for name, total in totals.items()}


def _check_words(site: str, name: str, array: Any) -> None:
    words = CHECK_WORDS if name == CHECK else WORDS[first_part(name)]
    if array is None or array.dtype != np.uint64 or array.shape[:1] != (words,):
        raise MaskError(f"{name} of {site} must be {words} words of 64 bits for each number")


def reveal(answers: Mapping[str, Arrays]) -> dict[str, Arrays]:
    """Answers without masks that add up to the same: the sum is in the first of them, and zeros in the others."""
    totals = unmask(answers)
    nothing = {name: np.zeros_like(total) for name, total in totals.items()}
    clear = {
        site: {name: array for name, array in answer.items() if name != CHECK and not is_summed(name)}
        for site, answer in answers.items()
    }
    return {site: own | (nothing if m else totals) for m, (site, own) in enumerate(clear.items())}


# Where the keys of secure sums are in a party's folder, and whether a run uses them.


log = logging.getLogger(__name__)

ROSTER, AUTHORITY, KEY = "roster.json", "authority.pub", "key.pem"
"""A folder with the list of all public keys, the public key of whoever signed it, and the party's own private key."""
AUTO, ON, OFF = "auto", "on", "off"
"""Secure sums where they are possible; or a refusal where they are not; or never."""


def can_make_keys() -> bool:
    """Whether the package that has all the cryptography is installed here."""
    return find_spec("cryptography") is not None


def has_keys(party: Path) -> bool:
    """Whether a party's folder has a list of keys, or a site's the key that it has made itself."""
    return (party / SECURE / ROSTER).exists() or (party / SECURE / KEY).exists()


def why_not_secure(method: Method, sites: int, cohort: int | None, min_replies: int | None) -> str:
    """Why a run cannot have secure sums, in which all sites take part or nobody; empty if it can."""
    if not FEWEST <= sites <= MOST_SITES:
        return f"they are of {FEWEST} to {MOST_SITES} sites, got {sites}"
    if method.rounds.lead is not None:
        return f"{type(method).__name__} has local steps of one site, and a sum of one hides nothing"
    if (cohort or sites) < sites or (min_replies or sites) < sites:
        return "all sites are in every sum, so that cohort and min_replies must be left out"
    return ""


def check_choice(choice: str, method: Method, sites: int, cohort: int | None, min_replies: int | None) -> None:
    """Refuse secure sums where they were asked for and cannot be."""
    if choice == ON and (reason := why_not_secure(method, sites, cohort, min_replies)):
        raise ValueError(f"secure_sums = {ON!r}: {reason}")


def choose_roster(party: Path, sites: Sequence[str], choice: str, why_not: str) -> str:
    """The digest of the server's list of keys, if a run of these sites has secure sums; else nothing.

    why_not: why such a run cannot have them; empty if it can.
    """
    if choice == OFF:
        return ""
    if (party / SECURE / AUTHORITY).exists() and not has_keys(party):
        raise ValueError("not all sites have joined: `fedualex deploy admit` says who is missing, and signs their list")
    missing = "" if has_keys(party) else f"{party} has no keys; `deploy init` makes them for {FEWEST} sites or more"
    if reason := why_not or missing:
        if choice == ON:
            raise ValueError(f"secure_sums = {ON!r}: {reason}")
        log.info("no secure sums, so that the server sees each site's numbers: %s", reason)
        return ""
    from .masks import read_roster  # which needs cryptography

    roster = read_roster(party)
    if set(roster.keys) != set(sites):
        others = ", ".join(sorted(roster.keys))
        raise ValueError(f"the list of keys in {party / SECURE} must be of the sites of the run, got {others}")
    return roster.digest

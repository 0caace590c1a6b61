"""Masks of a site's answer: for every pair of sites a stream of random words that one adds and the other subtracts."""

import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numpy.typing import NDArray

from ..engine import Arrays, RefusedError, Request
from ..ledger_lines import content_digest, digest
from .fixed_point import RangeError, decoded, encoded
from .keys import SiteKeys
from .summed import WORDS, first_part, is_summed

Words = NDArray[np.uint64]
CHECK, CHECK_WORDS = "check", 2
"""Zeros under masks: their sum is zero if the masks of all sites cancel, and else is not, but once in 2^128."""
FEWEST = 3
"""With two sites each knows the other's numbers from the sum, so that masks hide nothing from it."""
NOT_FINITE = "is not finite"


class MaskError(ValueError):
    """Masks that do not cancel, or answers that cannot be added."""


class Masking:
    """Puts masks on the answers of one site.

    keys: the site's. factors: of a task, what the site's arrays are multiplied by before they are added, by the first
    parts of their names; 1 where there is none.
    """

    def __init__(self, keys: SiteKeys, factors: Callable[[str], Mapping[str, float]]):
        self.keys, self.factors = keys, factors

    def hide(self, request: Request, arrays: Arrays) -> Arrays:
        """The answer with all that is added up under masks, two or three words for a number, and the rest as it is."""
        roster = self.keys.roster
        if request.roster != roster.digest:
            raise RefusedError("the server has another list of keys than this site")
        if len(roster.keys) < FEWEST:
            raise RefusedError(f"secure sums are of at least {FEWEST} sites: of two, each would know the other's numbers")
        factors = self.factors(request.task)
        plain = {CHECK: np.zeros(CHECK_WORDS, np.uint64)}
        for name in sorted(filter(is_summed, arrays)):
            plain[name] = _weighted(name, arrays[name], factors.get(first_part(name), 1.0))
        clear = {name: array for name, array in arrays.items() if not is_summed(name)}
        return clear | self._masked(request, plain)

    def _masked(self, request: Request, plain: dict[str, Words]) -> Arrays:
        total = np.concatenate([array.reshape(-1) for array in plain.values()])
        about = context_of(self.keys.roster.deployment, request)
        for other, secret in self.keys.shared.items():
            words = stream(secret, about, total.size)
            total = total + words if self.keys.site < other else total - words
        ends = np.cumsum([array.size for array in plain.values()])[:-1]
        parts = zip(plain.items(), np.split(total, ends), strict=True)
        return {name: part.reshape(array.shape) for (name, array), part in parts}


def unmasked(answers: Sequence[Arrays]) -> Arrays:
    """What the answers of ALL sites add up to, as float64; of arrays that travel as they are nothing.

    Raises `MaskError` where masks do not cancel: somebody has other keys, or was asked for something else.
    """
    names = [{name for name in answer if name == CHECK or is_summed(name)} for answer in answers]
    if any(own != names[0] for own in names) or CHECK not in names[0]:
        raise MaskError("sites answered with different arrays")
    for name in names[0]:
        if len({(answer[name].shape, answer[name].dtype.str) for answer in answers}) > 1:
            raise MaskError(f"sites answered with different shapes of {name}")
        if answers[0][name].dtype != np.uint64 or not answers[0][name].ndim:
            raise MaskError(f"{name} must be words of 64 bits")
    totals = {name: np.sum([answer[name] for answer in answers], axis=0, dtype=np.uint64) for name in sorted(names[0])}
    if np.any(totals.pop(CHECK)):
        raise MaskError("the masks of the sites do not cancel: one has other keys, or was asked for something else")
    return {name: decoded(total) for name, total in totals.items()}


def context_of(deployment: str, request: Request) -> bytes:
    """What masks are for: they differ if anything in a request differs, so that none is ever used twice.

    The content of the request is part of it. A server that asks two sites for different things, or one site twice under
    one nonce, gets masks that do not cancel.
    """
    words = [deployment, request.roster, request.run_id, request.task, request.round, request.nonce]
    return digest(json.dumps([*words, content_digest(request.arrays)]).encode()).encode()


def stream(secret: bytes, about: bytes, count: int) -> Words:
    """Words that two sites share and nobody else can tell from random ones: ChaCha20 under a key of their own."""
    key = HKDFExpand(hashes.SHA256(), 32, about).derive(secret)
    content = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * count))
    return np.frombuffer(content, "<u8").astype(np.uint64, copy=False)


def _weighted(name: str, array: NDArray[np.generic], factor: float) -> Words:
    """A site's share of the sum, multiplied as the server would multiply it."""
    plain = np.asarray(array)
    if not np.all(np.isfinite(plain)):
        raise RefusedError(f"{name} {NOT_FINITE}")
    try:
        share = plain.dtype.type(factor) * plain if plain.dtype.kind == "f" else factor * plain
        return encoded(name, share, WORDS[first_part(name)])
    except RangeError as error:
        raise RefusedError(str(error)) from None

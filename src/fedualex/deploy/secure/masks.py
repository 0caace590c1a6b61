"""Masks of a site's answer: for every pair of sites a stream of random words that one adds and the other subtracts."""

import json

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numpy.typing import NDArray

from ..adding import Factors
from ..engine import NOT_FINITE, Arrays, RefusedError, Request
from ..ledger_lines import content_digest, digest
from .fixed_point import RangeError, encoded
from .keys import SiteKeys
from .summed import FEWEST, WORDS, first_part, is_summed
from .totals import CHECK, CHECK_WORDS

Words = NDArray[np.uint64]


class Masking:
    """Puts masks on the answers of one site.

    keys: the site's. factors: what its arrays are multiplied by before they are added; 1 where there is none.
    """

    def __init__(self, keys: SiteKeys, factors: Factors):
        self.keys, self.factors = keys, factors

    def hide(self, request: Request, arrays: Arrays) -> Arrays:
        """The answer with all that is added up under masks, two or three words for a number, and the rest as it is."""
        roster = self.keys.roster
        if request.roster != roster.digest:
            raise RefusedError("the server has another list of keys than this site")
        if len(roster.keys) < FEWEST:
            raise RefusedError(f"secure sums are of {FEWEST} sites or more: of two, each knows the other's numbers")
        factors = self.factors(request.task)
        plain = {CHECK: np.zeros(CHECK_WORDS, np.uint64)}
        for name in sorted(filter(is_summed, arrays)):
            plain[name] = _weighted(name, arrays[name], factors.get(first_part(name), 1.0))
        clear = {name: array for name, array in arrays.items() if not is_summed(name)}
        return clear | self._masked(request, plain)

    def _masked(self, request: Request, plain: dict[str, Words]) -> Arrays:
        total = np.concatenate([array.reshape(-1) for array in plain.values()])
        about = context_of(self.keys.roster.deployment, request)
        zeros = bytes(total.nbytes)
        for other, secret in self.keys.shared.items():
            add = np.add if self.keys.site < other else np.subtract
            add(total, stream(secret, about, zeros), out=total)
        ends = np.cumsum([array.size for array in plain.values()])[:-1]
        parts = zip(plain.items(), np.split(total, ends), strict=True)
        return {name: part.reshape(array.shape) for (name, array), part in parts}


def context_of(deployment: str, request: Request) -> bytes:
    """What masks are for: they differ if anything in a request differs, so that none is ever used twice.

    The content of the request is part of it. A server that asks two sites for different things, or one site twice under
    one nonce, gets masks that do not cancel.
    """
    words = [deployment, request.roster, request.run_id, request.task, request.round, request.nonce]
    return digest(json.dumps([*words, content_digest(request.arrays)]).encode()).encode()


def stream(secret: bytes, about: bytes, zeros: bytes) -> Words:
    """Words that two sites share and nobody else can tell from random ones: AES-256 as a counter, under a fresh key.

    zeros: as many bytes as are wanted.
    """
    key = HKDFExpand(hashes.SHA256(), 32, about).derive(secret)
    content = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update(zeros)
    return np.frombuffer(content, "<u8")


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

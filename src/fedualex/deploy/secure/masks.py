"""Masks of a site's answer: for every pair of sites a stream of random words that one adds and the other subtracts."""

import json
import os
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from numpy.typing import NDArray

from ...runtime.status import Code
from ...storage import write_atomically, write_json
from ..engine import Arrays, RefusedError, Request
from ..ledger import content_digest, digest
from ..party import SECURE, Layout
from ..wire import Factors
from .sums import (
    AUTHORITY,
    CHECK,
    CHECK_WORDS,
    FEWEST,
    KEY,
    MOST_SITES,
    ROSTER,
    WORDS,
    RangeError,
    encode_words,
    first_part,
    is_summed,
)

# Who adds up: the public keys of all sites, signed by the authority of the deployment.


class UntrustedKeysError(ValueError):
    """Keys that are not there or not to be trusted; says in one sentence why."""


@dataclass(frozen=True)
class Roster:
    """The public keys of all sites. New keys come with a new authority: a list that was replaced is void."""

    deployment: str
    keys: dict[str, str]
    """X25519, as hexadecimal words, by the names of the sites."""
    signature: str = ""
    number: int = 0
    """Of the lists of sites that make their own keys, from 1 on; 0 where keys came with the kit."""

    @property
    def digest(self) -> str:
        """The word by which two parties compare their lists."""
        return digest(self._content())

    def sign(self, authority: Ed25519PrivateKey) -> "Roster":
        """The list with the authority's signature."""
        return replace(self, signature=authority.sign(self._content()).hex())

    def check(self, authority: Ed25519PublicKey) -> None:
        """Refuse a list that the authority has not signed, to the letter."""
        try:
            authority.verify(bytes.fromhex(self.signature), self._content())
        except (InvalidSignature, ValueError):
            raise UntrustedKeysError("the list of keys is not signed by the authority of this deployment") from None

    def _content(self) -> bytes:
        words: list[Any] = ["fedualex secure sums 1", self.deployment, sorted(self.keys.items())]
        words += [self.number] * bool(self.number)
        return json.dumps(words, separators=(",", ":")).encode()


def read_roster(party: Path) -> Roster:
    """The list of keys in a party's folder, which its authority must have signed."""
    folder = party / SECURE
    try:
        roster = parse_roster((folder / ROSTER).read_bytes())
        roster.check(read_authority(folder))
    except (OSError, ValueError) as error:
        raise UntrustedKeysError(f"{folder / ROSTER}: {error}") from None
    return roster


def write_roster(party: Path, roster: Roster, authority: Ed25519PublicKey) -> None:
    """Give a party its first list of keys, and whom to believe from now on."""
    write_authority(party, authority)
    write_json(party / SECURE / ROSTER, asdict(roster))


def write_authority(party: Path, authority: Ed25519PublicKey) -> None:
    """Tell a party whom to believe."""
    (party / SECURE).mkdir(parents=True, exist_ok=True)
    write_atomically(party / SECURE / AUTHORITY, authority.public_bytes_raw().hex().encode())


def read_authority(folder: Path) -> Ed25519PublicKey:
    """Whom a party believes. folder: its `secure`."""
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex((folder / AUTHORITY).read_text()))


def parse_roster(content: bytes) -> Roster:
    """The list in a file or a message, signed or not."""
    table: Any = json.loads(content)
    names = {one.name for one in fields(Roster)}
    if not isinstance(table, dict) or not names - {"number"} <= table.keys() <= names:
        raise UntrustedKeysError(f"a list of keys has {', '.join(one.name for one in fields(Roster))}, and no more")
    roster = Roster(**table)
    if type(roster.number) is not int or roster.number < 0 or not isinstance(roster.keys, dict):
        raise UntrustedKeysError("a list of keys has a number, and a table of keys")
    words = [roster.deployment, roster.signature, *roster.keys, *roster.keys.values()]
    if not all(isinstance(word, str) for word in words):
        raise UntrustedKeysError("a list of keys has words, and nothing else")
    return roster


# Keys of sites: made with a deployment, each site's own in its folder, and the secrets that two sites share.


def make_keys(layout: Layout, sites: Sequence[str]) -> None:
    """A key for each site and the authority's, each in its own folder, and everywhere the list that it signed."""
    authority, roster, own = generate_keys(sites)
    for party in (layout.authority, layout.server, *map(layout.site, sites)):
        write_roster(party, roster, authority.public_key())
    write_key(layout.authority, authority)
    for site, key in own.items():
        write_key(layout.site(site), key)


def generate_keys(sites: Sequence[str]) -> tuple[Ed25519PrivateKey, Roster, dict[str, X25519PrivateKey]]:
    """An authority, the list that it signed, and the private key of each site."""
    if len(sites) > MOST_SITES:
        raise ValueError(f"secure sums are of at most {MOST_SITES} sites, got {len(sites)}")
    authority, own = Ed25519PrivateKey.generate(), {site: X25519PrivateKey.generate() for site in sites}
    public = {site: key.public_key().public_bytes_raw().hex() for site, key in own.items()}
    return authority, Roster(secrets.token_hex(16), public).sign(authority), own


class SiteKeys:
    """A site among the others: its list of keys, and the secret that it shares with each of them."""

    def __init__(self, site: str, roster: Roster, key: X25519PrivateKey):
        if roster.keys.get(site) != key.public_key().public_bytes_raw().hex():
            raise UntrustedKeysError(f"the list of keys has another key than this site's own under the name {site!r}")
        self.site, self.roster = site, roster
        self.shared = {other: self._secret(key, other) for other in sorted(roster.keys) if other != site}
        """Pseudorandom keys, by the other's name; nobody but the two has them."""

    def _secret(self, key: X25519PrivateKey, other: str) -> bytes:
        public = X25519PublicKey.from_public_bytes(bytes.fromhex(self.roster.keys[other]))
        pair = "/".join(sorted((self.site, other)))
        derive = HKDF(hashes.SHA256(), 32, bytes.fromhex(self.roster.deployment), f"fedualex pair {pair}".encode())
        return derive.derive(key.exchange(public))


def read_keys(party: Path, site: str) -> SiteKeys:
    """The keys in a site's folder."""
    roster = read_roster(party)
    try:
        key = private_key(party / SECURE / KEY)
        if not isinstance(key, X25519PrivateKey):
            raise UntrustedKeysError("this is no key of X25519")
        return SiteKeys(site, roster, key)
    except (OSError, ValueError) as error:
        raise UntrustedKeysError(f"{party / SECURE / KEY}: {error}") from None


def private_key(file: Path) -> Any:
    """The private key in a file."""
    return serialization.load_pem_private_key(file.read_bytes(), None)


def write_key(party: Path, key: X25519PrivateKey | Ed25519PrivateKey) -> None:
    """Write a private key for its owner's eyes, where none may be yet."""
    folder = party / SECURE
    folder.mkdir(parents=True, exist_ok=True)
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    content = key.private_bytes(pem, pkcs8, serialization.NoEncryption())
    with open(os.open(folder / KEY, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(content)


Words = NDArray[np.uint64]


AddedUp = Callable[[], Collection[str] | None]
"""The sites whose answers are added up; None for all that are in the list of keys."""


class Masker:
    """Puts masks on the answers of one site.

    keys: the site's. factors: what its arrays are multiplied by before they are added; 1 where there is none. told: of
    a task, a digest of what this site was told of the others: sites that were told different things have other masks.
    added_up: the sites of a sum, if not all in the list.
    """

    def __init__(
        self,
        keys: SiteKeys,
        factors: Factors,
        told: Callable[[str], str] = lambda task: "",
        added_up: AddedUp = lambda: None,
    ):
        self.keys, self.factors, self.told, self.added_up = keys, factors, told, added_up

    def hide(self, request: Request, arrays: Arrays) -> Arrays:
        """The answer with all that is added up under masks, two or three words for a number, and the rest as it is."""
        roster = self.keys.roster
        if request.roster != roster.digest:
            raise RefusedError("the server has another list of keys than this site", Code.KEYS_DIFFER)
        if len(self._others()) + 1 < FEWEST:
            raise RefusedError(f"secure sums are of {FEWEST} sites or more: of two, each knows the other's numbers")
        factors = self.factors(request.task)
        plain = {CHECK: np.zeros(CHECK_WORDS, np.uint64)}
        for name in sorted(filter(is_summed, arrays)):
            plain[name] = _weigh(name, arrays[name], factors.get(first_part(name), 1.0))
        clear = {name: array for name, array in arrays.items() if not is_summed(name)}
        return clear | self._mask(request, plain)

    def _others(self) -> Mapping[str, bytes]:
        """The secrets that it shares with the other sites of a sum."""
        among = self.added_up()
        return {name: secret for name, secret in self.keys.shared.items() if among is None or name in among}

    def _mask(self, request: Request, plain: dict[str, Words]) -> Arrays:
        total = np.concatenate([array.reshape(-1) for array in plain.values()])
        about = context_of(self.keys.roster.deployment, request, self.told(request.task))
        zeros = bytes(total.nbytes)
        for other, secret in self._others().items():
            add = np.add if self.keys.site < other else np.subtract
            add(total, stream(secret, about, zeros), out=total)
        ends = np.cumsum([array.size for array in plain.values()])[:-1]
        parts = zip(plain.items(), np.split(total, ends), strict=True)
        return {name: part.reshape(array.shape) for (name, array), part in parts}


def context_of(deployment: str, request: Request, told: str) -> bytes:
    """What masks are for: they differ if anything in a request or in what a site was told before it differs.

    The content of the request is part of it. A server that asks two sites for different things, or one site twice under
    one nonce, gets masks that do not cancel.
    """
    words = [deployment, request.roster, request.run_id, request.task, request.round, request.nonce, told]
    return digest(json.dumps([*words, content_digest(request.arrays)]).encode()).encode()


def stream(secret: bytes, about: bytes, zeros: bytes) -> Words:
    """Words that two sites share and nobody else can tell from random ones: AES-256 as a counter, under a fresh key.

    zeros: as many bytes as are wanted.
    """
    key = HKDFExpand(hashes.SHA256(), 32, about).derive(secret)
    content = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update(zeros)
    return np.frombuffer(content, "<u8")


def _weigh(name: str, array: NDArray[np.generic], factor: float) -> Words:
    """A site's share of the sum, multiplied as the server would multiply it."""
    plain = np.asarray(array)
    if not np.all(np.isfinite(plain)):
        raise RefusedError(f"{name} is not finite", Code.NOT_FINITE)
    try:
        share = plain.dtype.type(factor) * plain if plain.dtype.kind == "f" else factor * plain
        return encode_words(name, share, WORDS[first_part(name)])
    except RangeError as error:
        raise RefusedError(str(error), Code.TOO_LARGE) from None

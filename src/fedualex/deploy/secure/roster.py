"""Who adds up: the public keys of all sites, signed by the authority of the deployment."""

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ...storage import write_atomically, write_json
from ..ledger_lines import digest
from .layout import AUTHORITY, ROSTER, SECURE


class UntrustedKeysError(ValueError):
    """Keys that are not there or not to be trusted; says in one sentence why."""


@dataclass(frozen=True)
class Roster:
    """The public keys of all sites. New keys come with a new authority: a list that was replaced is void."""

    deployment: str
    keys: dict[str, str]
    """X25519, as hexadecimal words, by the names of the sites."""
    signature: str = ""

    @property
    def digest(self) -> str:
        """What two parties compare."""
        return digest(self._content())

    def signed(self, authority: Ed25519PrivateKey) -> "Roster":
        """The same, with the authority's word for it."""
        return replace(self, signature=authority.sign(self._content()).hex())

    def check(self, authority: Ed25519PublicKey) -> None:
        """Refuse a list that the authority has not signed, to the letter."""
        try:
            authority.verify(bytes.fromhex(self.signature), self._content())
        except (InvalidSignature, ValueError):
            raise UntrustedKeysError("the list of keys is not signed by the authority of this deployment") from None

    def _content(self) -> bytes:
        words = ["fedualex secure sums 1", self.deployment, sorted(self.keys.items())]
        return json.dumps(words, separators=(",", ":")).encode()


def read_roster(party: Path) -> Roster:
    """The list of keys in a party's folder, which its authority must have signed."""
    folder = party / SECURE
    try:
        roster = _parsed((folder / ROSTER).read_bytes())
        roster.check(_authority(folder))
    except (OSError, ValueError) as error:
        raise UntrustedKeysError(f"{folder / ROSTER}: {error}") from None
    return roster


def write_roster(party: Path, roster: Roster, authority: Ed25519PublicKey) -> None:
    """Give a party its first list of keys, and whom to believe from now on."""
    folder = party / SECURE
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / AUTHORITY, authority.public_bytes_raw().hex().encode())
    write_json(folder / ROSTER, asdict(roster))


def _authority(folder: Path) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex((folder / AUTHORITY).read_text()))


def _parsed(content: bytes) -> Roster:
    found: Any = json.loads(content)
    if not isinstance(found, dict) or found.keys() != {one.name for one in fields(Roster)}:
        raise UntrustedKeysError(f"a list of keys has {', '.join(one.name for one in fields(Roster))}, and no more")
    roster = Roster(**found)
    words = [roster.deployment, roster.signature, *roster.keys, *roster.keys.values()]
    if not all(isinstance(word, str) for word in words):
        raise UntrustedKeysError("a list of keys has words, and nothing else")
    return roster

"""Keys that each site makes itself: a request to the authority, its list of all keys, and how a new list reaches sites.

The authority signs public keys and has nobody's private key. A list has a number; a site takes one from the server only
if the authority has signed it, its number is not lower than that of its own list, and it has the site's own key.
"""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from ...runtime.status import Code
from ...storage import write_json
from ...validation import short
from ..engine import Arrays, RefusedError, Request
from ..ledger import digest
from ..party import RESERVED, SECURE, SERVER, Layout, make_private_folder
from ..wire import pack_json, unpack_json
from .masks import (
    AddedUp,
    Masker,
    Roster,
    UntrustedKeysError,
    parse_roster,
    private_key,
    read_authority,
    read_keys,
    read_roster,
    write_authority,
    write_key,
    write_roster,
)
from .sums import AUTHORITY, KEY, ROSTER

TASK = "roster"
"""What a site is asked when a run begins: to take the list of keys that the authority has signed last."""
ADMITTED = "admitted.json"
"""At the authority: the public keys of the sites that have joined so far, and the number of the last list."""
LETTERS = 4
MakePublic = Callable[[Path, str], str]
"""The engine's `make_public` at a site."""
Admit = Callable[[str, str], str]
"""The engine's `admit` of a site's name and what `make_public` gave."""


def fingerprint(key: str, transport: str = "") -> str:
    """Public keys in eight words of four letters, which two people compare by telephone."""
    word = digest(bytes.fromhex(key) + transport.encode())[:32]
    return " ".join(word[i : i + LETTERS] for i in range(0, len(word), LETTERS))


def begin_authority(layout: Layout, sites: Sequence[str], beside: Sequence[str] = ()) -> None:
    """The authority's key, and whom to believe in the folder of every party. Nobody has a key yet.

    beside: the parties without rows that make a key for the engine.
    """
    authority = Ed25519PrivateKey.generate()
    if not layout.authority.exists():
        make_private_folder(layout.authority)
    for party in (layout.authority, layout.server, *map(layout.party, {*sites, *beside} - {SERVER})):
        write_authority(party, authority.public_key())
    write_key(layout.authority, authority)
    state = {"number": 0, "sites": sorted(sites), "beside": list(beside), "keys": {}, "transport": {}}
    write_json(layout.authority / SECURE / ADMITTED, state)


def join(party: Path, name: str, make_public: MakePublic, *, renew: bool = False) -> tuple[Path, str]:
    """At a party: make its own keys, unless it has them, and a request for the authority; its file and fingerprint.

    make_public: makes the key by which others know the party on the network; a site has one for masks as well. renew:
    make others in their place. Only the public halves are in the request.
    """
    own = party / SECURE
    read_authority(own)  # a folder of another kind is refused here
    if renew:
        for file in (file for file in own.iterdir() if file.name not in (AUTHORITY, ROSTER)):
            file.unlink()
    public = "" if name in RESERVED else _make_mask_key(party)
    transport = make_public(own, name)
    request = party / f"join-{name}.json"
    write_json(request, {"site": name, "key": public, "transport": transport})
    return request, fingerprint(public, transport)


def _make_mask_key(party: Path) -> str:
    if not (party / SECURE / KEY).exists():
        write_key(party, X25519PrivateKey.generate())
    return private_key(party / SECURE / KEY).public_key().public_bytes_raw().hex()


class JoinRequest(NamedTuple):
    """A party's public keys, of masks, which is empty but for sites, and for the engine."""

    name: str
    key: str
    transport: str


def read_request(file: Path) -> JoinRequest:
    """What a party has asked the authority for."""
    try:
        plain = json.loads(file.read_text())
        asked = JoinRequest(plain["site"], plain["key"], plain["transport"])
        if asked.name not in RESERVED or asked.key:
            X25519PublicKey.from_public_bytes(bytes.fromhex(asked.key))
        if not isinstance(asked.transport, str):
            raise ValueError("transport must be a text")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UntrustedKeysError(f"{file} is no request of `fedualex deploy join`: {error}") from None
    return asked


def admit(
    layout: Layout, requests: Sequence[Path], admit_transport: Admit
) -> tuple[dict[str, str], list[str], list[str]]:
    """At the authority: take these public keys; once all sites' are there, sign their list and give it to the server.

    Returns: the fingerprint of each request that was taken, what is to be given to whom, and the parties that have not
    joined yet.
    """
    file = layout.authority / SECURE / ADMITTED
    try:
        state = json.loads(file.read_text())
        authority = private_key(layout.authority / SECURE / KEY)
    except OSError as error:
        raise UntrustedKeysError(f"{layout.authority} has no key that signs requests: {error}") from None
    assert isinstance(authority, Ed25519PrivateKey)
    taken, given = {}, []
    for name, key, transport in map(read_request, requests):
        if name not in (parties := [*state["sites"], *state["beside"]]):
            raise UntrustedKeysError(f"there is no {short(name)} in this deployment, which has {', '.join(parties)}")
        if key and key in (other for site, other in state["keys"].items() if site != name):
            raise UntrustedKeysError(f"the key of {name} is that of another site")
        try:
            given.append(admit_transport(name, transport))
        except (ValueError, TypeError) as error:
            raise UntrustedKeysError(f"the request of {name} cannot be signed: {error}") from None
        state["transport"][name] = transport
        if name in state["sites"]:
            state["keys"][name] = key
        taken[name] = fingerprint(key, transport)
    return taken, given, _sign(layout, state, authority)


def change_sites(layout: Layout, sites: Sequence[str], admit_transport: Admit) -> None:
    """After a site was added or removed, or certificates were renewed: new sites must join, keys of former ones are
    void, and those of the others are signed again, by the engine's new authority."""
    state = json.loads((layout.authority / SECURE / ADMITTED).read_text())
    authority = private_key(layout.authority / SECURE / KEY)
    for party in map(layout.party, (*sites, *state["beside"])):
        write_authority(party, authority.public_key())
    stay = {*sites, *state["beside"]}
    kept = {part: {n: key for n, key in state[part].items() if n in stay} for part in ("keys", "transport")}
    for name, transport in kept["transport"].items():
        admit_transport(name, transport)
    (layout.server / SECURE / ROSTER).unlink(missing_ok=True)
    _sign(layout, {**state, "sites": sorted(sites), **kept}, authority)


def _sign(layout: Layout, state: dict[str, Any], authority: Ed25519PrivateKey) -> list[str]:
    """The parties that have not joined yet; if all sites have, their list is signed and given to the server."""
    missing = [name for name in (*state["sites"], *state["beside"]) if name not in state["transport"]]
    if not set(missing) & set(state["sites"]):
        state["number"] += 1
        state.setdefault("deployment", secrets.token_hex(16))
        roster = Roster(state["deployment"], dict(sorted(state["keys"].items())), number=state["number"])
        for party in (layout.authority, layout.server):
            write_roster(party, roster.sign(authority), authority.public_key())
    write_json(layout.authority / SECURE / ADMITTED, state)
    return missing


def pack_roster(server: Path) -> Arrays | None:
    """The server's list for sites that make their own keys; None if keys came with the kit."""
    roster = read_roster(server)
    return pack_json(roster=asdict(roster)) if roster.number else None


class OwnKeys:
    """A site whose keys are its own: it takes new lists from the server, and masks by the last one.

    factors, told, added_up: as of `Masker`.
    """

    def __init__(
        self,
        party: Path,
        name: str,
        factors: Callable[[str], Mapping[str, float]],
        told: Callable[[str], str],
        added_up: AddedUp = lambda: None,
    ):
        self.party, self.name, self._factors, self._told, self._added_up = party, name, factors, told, added_up
        self._roster = read_roster(party) if (party / SECURE / ROSTER).exists() else None
        fits = self._roster is not None and self._roster.keys.get(name) == self._public()
        self._masker = self._read() if fits else None  # a new key waits for the list that has it

    def take(self, request: Request) -> Arrays:
        """Keep the list in a request, if it is to be believed."""
        (content,) = unpack_json(request.arrays, "roster")
        try:
            roster = parse_roster(json.dumps(content).encode())
            authority = read_authority(self.party / SECURE)
            roster.check(authority)
            if roster.keys.get(self.name) != self._public():
                raise UntrustedKeysError("it has another key than this site's own")
            if self._roster is not None and roster.number < self._roster.number:
                raise UntrustedKeysError("it is older than the one that this site has")
        except (OSError, ValueError) as error:
            raise RefusedError(f"this site does not take the list of keys: {error}", Code.KEYS_DIFFER) from None
        if self._masker is None or roster != self._roster:
            write_roster(self.party, roster, authority)
            self._roster, self._masker = roster, self._read()
        return pack_json(taken=True)

    def hide(self, request: Request, arrays: Arrays) -> Arrays:
        """The answer under masks."""
        if self._masker is None:
            raise RefusedError("this site has not been given the list of keys", Code.KEYS_DIFFER)
        return self._masker.hide(request, arrays)

    def _public(self) -> str:
        own = private_key(self.party / SECURE / KEY)
        assert isinstance(own, X25519PrivateKey)
        return own.public_key().public_bytes_raw().hex()

    def _read(self) -> Masker:
        return Masker(read_keys(self.party, self.name), self._factors, self._told, self._added_up)


def has_joined(party: Path) -> bool:
    """Whether a site's folder is of a deployment in which sites make their own keys, and it has made one."""
    folder = party / SECURE
    return (folder / KEY).exists() and (not (folder / ROSTER).exists() or read_roster(party).number > 0)

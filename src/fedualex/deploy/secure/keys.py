"""Keys of sites: made with a deployment, each site's own in its folder, and the secrets that two sites share."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ..layout import Layout
from .fixed_point import MOST_SITES
from .layout import KEY, SECURE
from .roster import Roster, UntrustedKeysError, read_roster, write_roster


def make_keys(layout: Layout, sites: Sequence[str]) -> None:
    """A key for each site and the authority's, each in its own folder, and everywhere the list that it signed."""
    authority, roster, own = new_keys(sites)
    for party in (layout.authority, layout.server, *map(layout.site, sites)):
        write_roster(party, roster, authority.public_key())
    _write_key(layout.authority, authority)
    for site, key in own.items():
        _write_key(layout.site(site), key)


def new_keys(sites: Sequence[str]) -> tuple[Ed25519PrivateKey, Roster, dict[str, X25519PrivateKey]]:
    """An authority, the list that it signed, and the private key of each site."""
    if len(sites) > MOST_SITES:
        raise ValueError(f"secure sums are of at most {MOST_SITES} sites, got {len(sites)}")
    authority, own = Ed25519PrivateKey.generate(), {site: X25519PrivateKey.generate() for site in sites}
    public = {site: key.public_key().public_bytes_raw().hex() for site, key in own.items()}
    return authority, Roster(secrets.token_hex(16), public).signed(authority), own


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
        key = serialization.load_pem_private_key((party / SECURE / KEY).read_bytes(), None)
        if not isinstance(key, X25519PrivateKey):
            raise UntrustedKeysError("this is no key of X25519")
        return SiteKeys(site, roster, key)
    except (OSError, ValueError) as error:
        raise UntrustedKeysError(f"{party / SECURE / KEY}: {error}") from None


def _write_key(party: Path, key: X25519PrivateKey | Ed25519PrivateKey) -> None:
    folder = party / SECURE
    folder.mkdir(parents=True, exist_ok=True)
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    content = key.private_bytes(pem, pkcs8, serialization.NoEncryption())
    with open(os.open(folder / KEY, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(content)

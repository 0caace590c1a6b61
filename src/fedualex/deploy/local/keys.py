"""Keys of the local engine that each site makes itself: two halves that only together give the key of a connection."""

import secrets
from pathlib import Path

from ..party import SERVER, write_file
from .carrier import KEY, KEYS

PRIVATE, SERVERS = "transport.key", "server.pub"
"""The private half of a party that makes its own, and the server's public one at each site."""


def make_server_key(server: Path, sites: list[Path]) -> None:
    """The server's own, whose public half every site is given."""
    public = make_half(server)
    for home in sites:
        write_file(home / SERVERS, public)


def make_half(folder: Path) -> str:
    """A private half in this folder, unless it is there; its public one."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / PRIVATE).exists():
        write_file(folder / PRIVATE, X25519PrivateKey.generate().private_bytes_raw(), 0o600)
    own = X25519PrivateKey.from_private_bytes((folder / PRIVATE).read_bytes())
    return own.public_key().public_bytes_raw().hex()


def check_half(public: str) -> None:
    """Refuse what is no public half."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    X25519PublicKey.from_public_bytes(bytes.fromhex(public))


def keys_of_sites(server: Path, names: list[str]) -> dict[str, bytes]:
    """The key of each connection at the server; of a site that is not admitted yet one that nobody has."""
    return {name: _key_of(server, name) for name in names}


def _key_of(server: Path, name: str) -> bytes:
    if (server / KEYS / name).exists():
        return (server / KEYS / name).read_bytes()
    if (server / KEYS / f"{name}.pub").exists():
        return _agree(server / PRIVATE, (server / KEYS / f"{name}.pub").read_text())
    return secrets.token_bytes(32)


def key_of_site(home: Path, own: Path) -> bytes:
    """The key of its connection at a site. own: the folder of keys that it made itself."""
    if (home / KEY).exists():
        return (home / KEY).read_bytes()
    if not (own / PRIVATE).exists():
        raise PermissionError(f"{home} has no key yet: `fedualex deploy join`, then `fedualex deploy admit`")
    return _agree(own / PRIVATE, (home / SERVERS).read_text())


def _agree(private: Path, public: str) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    own = X25519PrivateKey.from_private_bytes(private.read_bytes())
    shared = own.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(public)))
    return HKDF(hashes.SHA256(), 32, None, f"fedualex local {SERVER}".encode()).derive(shared)

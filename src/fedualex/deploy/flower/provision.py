"""A ready deployment on disk: what the server needs, what each site needs, and nobody's private key but one's own."""

import json
import re
import secrets
import shlex
from collections.abc import Sequence
from pathlib import Path

from ...storage import write_atomically
from . import keys, scripts
from .layout import ADDRESS, WORKER_KEY


def provision(folder: Path, sites: Sequence[str], *, host: str, port: int, serve: str, site: str) -> None:
    """Write `folder/server`, `folder/sites/NAME` for each site, and `folder/authority`, which stays where it is made.

    `host` is the name or address by which sites reach the server. `serve` and `site` are entry points "module:name":
    serve(engine, folder) runs the round loop, site(folder).work(request) answers for a site; each gets its own folder.
    """
    _check(folder, sites, host, port)
    authority_key, server_key = keys.new_key(), keys.new_key()
    authority = keys.authority(authority_key)
    certificate = keys.certificate_pem(authority)
    server_certificate = keys.server_certificate(server_key, host, authority, authority_key)

    _private_folder(folder / "authority")
    _write(folder / "authority" / "ca.key", keys.private_pem(authority_key), 0o600)
    _write(folder / "authority" / "ca.crt", certificate)

    server = folder / "server"
    _private_folder(server)
    for name in ("app", "keys"):
        (server / name).mkdir()
    _write(server / "ca.crt", certificate)
    _write(server / "server.crt", keys.certificate_pem(server_certificate))
    _write(server / "server.key", keys.private_pem(server_key), 0o600)
    _write(server / WORKER_KEY, secrets.token_bytes(32), 0o600)
    _write(server / "app" / "pyproject.toml", scripts.APP.encode())
    _write(server / ADDRESS, json.dumps({"port": port}).encode())
    _write(server / "start.sh", scripts.start_server(host, port, shlex.quote(serve)).encode(), 0o700)

    (folder / "sites").mkdir(exist_ok=True)
    for name in sites:
        key, home = keys.new_key(), folder / "sites" / name
        _private_folder(home)
        _write(server / "keys" / f"{name}.pub", keys.public_ssh(key))
        _write(home / "node.key", keys.private_ssh(key), 0o600)
        _write(home / WORKER_KEY, secrets.token_bytes(32), 0o600)
        _write(home / "ca.crt", certificate)
        _write(home / "start.sh", scripts.start_site(name, host, port, shlex.quote(site)).encode(), 0o700)


def _check(folder: Path, sites: Sequence[str], host: str, port: int) -> None:
    if not sites or len(set(sites)) < len(sites):
        raise ValueError(f"sites must be at least one name, each once, got {list(sites)!r}")
    for name in sites:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", name):
            raise ValueError(f"a site's name must be letters, digits, - and _, at most 63 of them, got {name!r}")
    if not re.fullmatch(r"[A-Za-z0-9.:-]{1,253}", host):
        raise ValueError(f"host must be a name or an address, got {host!r}")
    if not 0 < port < 65536:
        raise ValueError(f"port must be between 1 and 65535, got {port}")
    for part in ("server", "authority", *(f"sites/{name}" for name in sites)):
        if (folder / part).exists():
            raise ValueError(f"{folder} has a deployment already: {part} exists; new keys would lock its sites out")


def _private_folder(path: Path) -> None:
    path.mkdir(parents=True)
    path.chmod(0o700)  # before anything is in it


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    write_atomically(path, content)
    path.chmod(mode)

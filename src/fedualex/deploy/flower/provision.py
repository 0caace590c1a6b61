"""A ready deployment on disk: what the server needs, what each site needs, and nobody's private key but one's own."""

import json
from collections.abc import Sequence
from pathlib import Path

from ..entry import check_entry, write_entry
from ..kits import private_folder, write_file, write_unit
from ..layout import SERVER, Layout, check_address, check_sites
from . import keys, scripts
from .layout import ADDRESS


def provision(folder: Path, sites: Sequence[str], *, host: str, port: int, serve: str, site: str) -> None:
    """Write the server's folder, one for each site, and the authority's, which stays where it is made.

    `host` is the name or address by which sites reach the server. `serve` and `site` are entry points "module:name":
    serve(engine, folder) runs the round loop, site(folder).work(request) answers for a site; each gets its own folder.
    """
    check_sites(sites)
    check_address(host, port)
    check_entry(serve)
    check_entry(site)
    layout = Layout(folder)
    layout.refuse_existing()
    authority_key, server_key = keys.new_key(), keys.new_key()
    authority = keys.authority(authority_key)
    certificate = keys.certificate_pem(authority)
    server_certificate = keys.server_certificate(server_key, host, authority, authority_key)

    private_folder(layout.authority)
    write_file(layout.authority / "ca.key", keys.private_pem(authority_key), 0o600)
    write_file(layout.authority / "ca.crt", certificate)

    server = private_folder(layout.server)
    for name in ("app", "keys"):
        (server / name).mkdir()
    write_file(server / "ca.crt", certificate)
    write_file(server / "server.crt", keys.certificate_pem(server_certificate))
    write_file(server / "server.key", keys.private_pem(server_key), 0o600)
    write_file(server / "app" / "pyproject.toml", scripts.APP)
    write_file(server / ADDRESS, json.dumps({"port": port}))
    write_file(server / "start.sh", scripts.start_server(host, port), 0o700)
    write_unit(server, "the server")
    write_entry(server, SERVER, serve)

    for name in sites:
        key, home = keys.new_key(), private_folder(layout.site(name))
        write_file(server / "keys" / f"{name}.pub", keys.public_ssh(key))
        write_file(home / "node.key", keys.private_ssh(key), 0o600)
        write_file(home / "ca.crt", certificate)
        write_file(home / "start.sh", scripts.start_site(name, host, port), 0o700)
        write_unit(home, f"site {name}")
        write_entry(home, name, site)

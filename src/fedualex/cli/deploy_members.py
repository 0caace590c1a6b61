"""`fedualex deploy add-site | remove-site | renew`: who takes part, and with which keys."""

from pathlib import Path

import click

from .common import json_option, plain_errors, say

folder_argument = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
DISTRIBUTE = "all parties have new keys: stop them, give each its new folder, and start them again"


@click.command("add-site")
@folder_argument
@click.argument("name")
@click.option("--data", help="The new site's own data or table; it can be named later in the site's folder.")
@json_option
@plain_errors
def add_site(folder: Path, name: str, data: str | None, as_json: bool) -> None:
    """Add a site, with new keys for everybody; the earlier run is set aside."""
    from ..experiments import membership

    _told(f"{name} is a site now", membership.add_site(folder, name, data), as_json)


@click.command("remove-site")
@folder_argument
@click.argument("name")
@json_option
@plain_errors
def remove_site(folder: Path, name: str, as_json: bool) -> None:
    """Remove a site, whose keys become worthless; the earlier run is set aside."""
    from ..experiments import membership

    _told(f"{name} is no site any more", membership.remove_site(folder, name), as_json)


@click.command()
@folder_argument
@json_option
@plain_errors
def renew(folder: Path, as_json: bool) -> None:
    """Make new keys and certificates for everybody; a run that was cut off can be resumed with them."""
    from ..experiments import membership

    _told("keys and certificates are renewed", membership.renew(folder), as_json)


def _told(what: str, parties: list[str], as_json: bool) -> None:
    say(f"{what}; {DISTRIBUTE} ({', '.join(parties)})", {"parties": parties}, as_json)

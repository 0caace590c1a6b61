"""`fedualex deploy init | check`: a kit for each party, and what a site would send, before anybody is connected."""

from pathlib import Path
from typing import Any

import click

from .common import json_option, plain_errors, print_json, say, writable
from .goal_options import goal_options


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), callback=writable)
@click.option("--sites", help="The names of the sites, with commas between them; each brings its own table.")
@goal_options
@click.option(
    "--config", type=click.Path(path_type=Path), help="A TOML file with [fit], or with [problem]; an example."
)
@click.option("--engine", help="local, nvflare or flower.")
@click.option("--host", help="The name by which sites reach the server; localhost.")
@click.option("--port", type=int, help="The port at which they do; 8002.")
@json_option
@plain_errors
def init(
    folder: Path,
    sites: str | None,
    config: Path | None,
    engine: str | None,
    host: str | None,
    port: int | None,
    as_json: bool,
    **fit: Any,
) -> None:
    """Write a ready deployment: keys, settings and a start script for each party, and a README.

    With --goal, --target and --sites every site brings a table of its own, and the run ends with a model. Without any
    of them the problem is that of --config.
    """
    from ..experiments.consortium.init import init_deployment

    server = {"engine": engine, "host": host, "port": port}
    names = init_deployment(
        folder, config, sites, fit, {key: value for key, value in server.items() if value is not None}
    )
    line = f"{folder}: server and {len(names)} sites ({', '.join(names)}); {folder / 'README.md'} says who runs what"
    say(line, {"folder": str(folder), "sites": names}, as_json)


@click.command()
@click.argument("site", type=click.Path(path_type=Path, file_okay=False, exists=True))
@json_option
@plain_errors
def check(site: Path, as_json: bool) -> None:
    """Read a site's table and rules, in its folder SITE, and show what would leave it; needs no network."""
    from ..experiments.consortium.check import checked

    found = checked(site)
    if as_json:
        print_json(found.plain())
        return
    click.echo(found.words)

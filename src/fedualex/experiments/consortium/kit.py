"""A deployment of tables on disk: each party's keys, what all agree on, and the files that are a site's own."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...deploy.party import SERVER, Layout
from ...storage import write_atomically, write_json
from ..configuration import read_toml
from ..deployment_files import provision, write_readme
from ..deployment_settings import SETTINGS
from ..goals import names_of
from ..registry import ConfigurationError, check_keys
from .own_table import SITE_FILE, TEMPLATE
from .plan import plan_deployment
from .settings import recipe_of_goal

TABLES = ("fit", "method", "server", "run", "sites")
"""The tables of a file; all but [fit] may be left out."""
LEAVES = """First the names of its columns; if all sites have the same, {exchanges} summaries of its rows: which
categories and classes there are, counts, sums and sums of squares, sums of the rows of each class (the page on recipes
lists them all). Then, in every exchange, its mean loss and the gradient of it at a point: as many numbers as the model
has coefficients, and two; with a method of local steps also what these changed. At the end a few measures on the rows
that it held out. Nothing else: no row. This is not anonymous: sums over few rows can reveal them.
Where the parties' folders have keys in `secure/`, sums, losses and gradients leave under masks: the server sees what
all sites add up to. What a site lets leave is its own decision, in `policy.toml`; what left is in `ledger.jsonl`."""
DATA = """Each site names its own table in its `site.toml`, and there gives columns the names that all sites use. Nobody
else sees this file. `fedualex deploy check sites/NAME` reads the table and shows what would leave, without network."""


def read_file(file: Path) -> dict[str, Any]:
    """The tables of a TOML file with [fit]; every one that was left out is empty."""
    given = read_toml(file)
    check_keys("the file", given, TABLES)
    for name, table in given.items():
        if not isinstance(table, dict):
            raise ConfigurationError(f"the file must have [{name}] as a table")
    return {**{name: {} for name in TABLES}, **given}


def write_table_deployment(
    root: Path,
    fit: Mapping[str, Any],
    sites: Mapping[str, Any],
    server: Mapping[str, Any],
    run: Mapping[str, Any],
    method: Mapping[str, Any] | None = None,
) -> list[str]:
    """Make the folder of a deployment of tables; the names of its sites.

    sites: for each site its table, {} or {"table": file} for a trial on one machine. method: FeDualSlide if None.
    """
    for name, own in sites.items():
        if not isinstance(own, dict):
            raise ConfigurationError(f"[sites.{name}] must be a table, which may have table, a file")
        check_keys(f"[sites.{name}]", own, ("table",))
    settings = plan_deployment(fit, list(sites), server, run, method)
    provision(root, settings)
    for name in (SERVER, *settings["sites"]):
        party = Layout(root).party(name)
        write_json(party / SETTINGS, settings if name == SERVER else {**settings, "site": name})
        if name != SERVER:
            table, target = json.dumps(sites[name].get("table", "")), names_of(settings["problem"]["target"])[0]
            text = TEMPLATE.format(table=table, target=target)
            write_atomically(party / SITE_FILE, text.encode())
    write_readme(root, settings, LEAVES.format(exchanges=recipe_of_goal(settings).exchanges), DATA)
    return list(settings["sites"])

"""The folder of a deployment, from a command line with or without a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..configuration import read_toml
from ..deployment_files import write_deployment
from ..registry import ConfigurationError
from .kit import TABLES, read_file, write_table_deployment


def init_deployment(
    root: Path, config: Path | None, sites: str | None, fit: Mapping[str, Any], server: Mapping[str, Any]
) -> list[str]:
    """Make it; the names of its sites. Sites bring tables if there is a goal, in the file or here.

    fit, server: what was given beside the file, over which it has precedence; nothing for None.
    """
    given = {key: value for key, value in fit.items() if value is not None}
    if not given and sites is None and (config is None or "fit" not in read_toml(config)):
        if others := [key for key in server if key != "engine"]:
            raise ConfigurationError(f"{others[0]} belongs into [server] of the file of a problem")
        return write_deployment(root, config, server.get("engine"))
    file = {key: {} for key in TABLES} if config is None else read_file(config)
    named = file["sites"] if sites is None else {name: {} for name in _names(sites)}
    if not named:
        raise ConfigurationError("a deployment of tables needs sites, as --sites north,south,east or [sites.NAME]")
    own = {name: _placed(site, Path() if config is None else config.parent) for name, site in named.items()}
    chosen = {**file["fit"], **given}
    return write_table_deployment(root, chosen, own, {**file["server"], **server}, file["run"], file["method"])


def _names(sites: str) -> list[str]:
    names = [name.strip() for name in sites.split(",") if name.strip()]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"sites must have different names, got {', '.join(names)}")
    return names


def _placed(site: Any, folder: Path) -> Any:
    """A site's table as its own folder names it: a file that is here by its whole path, anything else as it is."""
    if isinstance(site, dict) and isinstance(table := site.get("table"), str) and (folder / table).is_file():
        return {**site, "table": str((folder / table).resolve())}
    return site

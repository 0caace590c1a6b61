"""The life of a deployment: a site is added or removed, keys are renewed. Each makes new keys for everybody.

The list of sites is part of what all parties agree on, so whoever comes or goes, every party needs new files; with new
keys at the same time, whoever was removed is locked out, and there is one way for every engine.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...models.store import MODEL
from ...runs.settings import ConfigurationError
from ...storage import Json, write_atomically, write_json
from ...tables.goals import names_of
from .. import engines
from ..ledger import HEAD, LEDGER
from ..party import ADMIN, SECURE, SERVER, Layout, check_name, read_settings
from ..policy import POLICY
from .agreement import has_tables
from .deployment import provision
from .messages import known_file
from .present import FILE as PRESENT
from .settings import SETTINGS, settings_of
from .site import SITE_FILE, TEMPLATE

NEW, EARLIER, REMOVED = ".new", "earlier", "removed"
"""Where keys are made before they take the old ones' place; runs of other sites, at the server; folders of former
sites."""
OWN = (POLICY, LEDGER, HEAD, SITE_FILE)
"""What a site wrote itself or must keep; new keys leave it as it is."""


def add_site(root: Path, name: str, data: str | None) -> list[str]:
    """Add a site, with its data or table if it is named here. Returns the parties that get new files.

    The earlier run is set aside: with another site the objective is another one.
    """
    layout, settings = Layout(root), settings_of(Layout(root).server)
    _check_new(name, settings)
    if settings["has_data"] and not has_tables(settings) and data is None:
        raise ConfigurationError(
            f"the other sites have data: name that of {name} with --data, a file or module:function"
        )
    data = None if data is None else _locate(data, has_tables(settings))
    after = {**settings, "sites": {**settings["sites"], name: {"weight": 1.0}}}
    if has_tables(settings):
        after["sites"] = dict(sorted(after["sites"].items()))
    _rekey(layout, after)
    _set_aside(layout, after)
    party = layout.site(name)
    if has_tables(settings):
        text = TEMPLATE.format(table=json.dumps(data or ""), target=names_of(settings["problem"]["target"])[0])
        write_atomically(party / SITE_FILE, text.encode())
        _write_settings(layout, after, {name: {"site": name}})
    else:
        _copy_problem(layout.server, party, settings)
        _write_settings(layout, after, {name: {"site": name, "data": data}})
    return [SERVER, *after["sites"]]


def remove_site(root: Path, name: str) -> list[str]:
    """Remove a site, whose keys become worthless and whose folder moves to `removed`. Returns who gets new files."""
    layout, settings = Layout(root), settings_of(Layout(root).server)
    if name not in settings["sites"]:
        raise ConfigurationError(f"there is no site {name!r}; there are {', '.join(settings['sites'])}")
    if len(settings["sites"]) == 1:
        raise ConfigurationError(f"{name} is the last site: a deployment needs one")
    after = {**settings, "sites": {site: own for site, own in settings["sites"].items() if site != name}}
    _rekey(layout, after)
    _set_aside(layout, after)
    _write_settings(layout, after, {})
    if layout.site(name).exists():
        shutil.move(layout.site(name), _free(root / REMOVED / name))
    return [SERVER, *after["sites"]]


def renew(root: Path) -> list[str]:
    """New keys and certificates for everybody, with the validity of new ones; runs and settings stay as they are."""
    layout, settings = Layout(root), settings_of(Layout(root).server)
    _rekey(layout, settings)
    return [SERVER, *settings["sites"]]


def join(party: Path, *, renew: bool = False) -> tuple[Path, str]:
    """At a party: its own keys and a request for the authority; the file, and the words to compare by telephone."""
    from ..secure import joining  # which needs cryptography

    name = read_settings(party)["name"]
    engine = "nvflare" if name == ADMIN else settings_of(party)["server"]["engine"]  # no other has such a party
    return joining.join(party, name, engines.control_of(engine).make_public, renew=renew)


def admit(root: Path, requests: Sequence[Path]) -> tuple[dict[str, str], list[str], list[str]]:
    """At the authority: the words of each request, what is to be given to whom, and who has not joined yet."""
    from ..secure import joining

    layout = Layout(root)
    control = engines.control_of(settings_of(layout.server)["server"]["engine"])
    return joining.admit(layout, requests, partial(control.admit, root))


def _check_new(name: str, settings: Json) -> None:
    try:
        check_name(name)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    if name in settings["sites"] or name == settings["server"]["host"]:
        raise ConfigurationError(f"the name {name!r} is taken; the sites are {', '.join(settings['sites'])}")


def _locate(data: str, table: bool) -> str:
    """Data as they were named where the command was given: a file by its whole path, a function as it is."""
    if (file := Path(data)).is_file():
        return str(file.resolve())
    if table or ":" not in data:
        own = "leave --data out, and name the table in site.toml at the site" if table else 'or give "module:function"'
        raise ConfigurationError(f"--data must name a file that is here, got {data!r}: {own}")
    return data


def _rekey(layout: Layout, settings: Json) -> None:
    """Keys, certificates and scripts as `init` makes them, in place of the old ones. Done again it mends a half."""
    control = engines.control_of(settings["server"]["engine"])
    said, ended = control.state(layout.root)
    if not ended and said != "unreachable":
        raise ConfigurationError(f"a run is live ({said}): `fedualex deploy stop {layout.root}` ends it first")
    new = Layout(layout.root / NEW)
    shutil.rmtree(new.root, ignore_errors=True)
    own_keys = settings["server"].get("own_keys", False)
    provision(new.root, settings, masks=not own_keys)
    for name in control.KEYED:
        (layout.server / name).unlink(missing_ok=True)
    pairs = [(new.authority, layout.authority), (new.admin, layout.admin)]
    pairs += [(new.party(name), layout.party(name)) for name in (SERVER, *settings["sites"])]
    for source, party in pairs:
        if not own_keys and not (source / SECURE).exists():  # too few sites are left for secure sums
            shutil.rmtree(party / SECURE, ignore_errors=True)
        for entry in source.iterdir() if source.exists() else ():
            target = party / entry.name
            if entry.name in OWN and target.exists():
                continue
            party.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
            shutil.move(entry, target)
    shutil.rmtree(new.root)
    if own_keys:
        from ..secure.joining import change_sites

        change_sites(layout, list(settings["sites"]), partial(control.admit, layout.root))


def _set_aside(layout: Layout, settings: Json) -> None:
    """Set aside what belongs to a run of other sites: run, model and summaries of the server, summaries of sites."""
    kept = [
        path
        for path in (layout.run, layout.server / MODEL, known_file(layout.server), layout.server / PRESENT)
        if path.exists()
    ]
    if kept:
        place = _free(layout.server / EARLIER / "run")
        place.mkdir()
        for path in kept:
            shutil.move(path, place / path.name)
    for name in settings["sites"]:
        for file in (known_file(layout.site(name)), layout.site(name) / PRESENT):
            file.unlink(missing_ok=True)


def _write_settings(layout: Layout, settings: Json, more: Mapping[str, Any]) -> None:
    for name in (SERVER, *settings["sites"]):
        party = layout.party(name)
        own = {**settings, **more[name]} if name in more else {**settings_of(party), "sites": settings["sites"]}
        write_json(party / SETTINGS, own)


def _copy_problem(source: Path, party: Path, settings: Json) -> None:
    """The modules and arrays that the problem names, which every party has at home."""
    problem = settings["problem"]
    module = str(problem.get("entry") or "").partition(":")[0]
    for name in (f"{module}.py", str(problem.get("file") or "")):
        if name and (source / name).is_file():
            shutil.copy(source / name, party / name)


def _free(path: Path) -> Path:
    """The path, or with a number behind it the first that is free."""
    path.parent.mkdir(exist_ok=True)
    numbered = (path.with_name(f"{path.name}-{number}") for number in range(2, 10**6))
    return path if not path.exists() else next(other for other in numbered if not other.exists())

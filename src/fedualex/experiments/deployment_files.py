"""A deployment's folder from its TOML file: keys, settings and start scripts for each party, and a README."""

import shutil
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from ..deploy.engines import ENGINES, control_of
from ..deploy.guard import prepare_site
from ..deploy.party import SERVER, Layout
from ..deploy.secure.masks import can_make_keys
from ..deploy.secure.sums import FEWEST
from ..storage import write_atomically, write_json
from .deployment import SERVE, SITE
from .deployment_settings import SETTINGS, read
from .registry import ConfigurationError, build_method, named

EXAMPLE = Path(str(resources.files(__package__) / "deployment-example.toml"))
README = """# A deployment of fedualex

Engine: {engine}. Sites: {sites}. Server: {host}:{port}.

{parties}
`run`, `status`, `stop` and `resume` are for whoever has this folder with the live `server/` in it: results are read
there. A run that was stopped or interrupted, or that lost its sites or its server, goes on from its last round after
`fedualex deploy resume FOLDER`.

## What leaves a site

{leaves}

## Data

{data}
"""
DATA = """Each site names its own data in its `deployment.json`, as a file `....npz` in its folder or a Python function
"module:function". The server is told of none."""
REHEARSAL = """Each party is a process of this machine with a folder of its own: `server/`, {folders}.

    fedualex deploy run FOLDER

Ctrl-C ends it.
"""
PARTIES = """| folder | belongs to | who runs what there |
|---|---|---|
| `server/` | the machine that sites can reach as {host} | `server/start.sh`; the run is kept in `server/run` |
{rows}
| `authority/` | whoever made this deployment, on no server | its key signs certificates; keep it offline |
{admin}
Give each party its own folder and nothing else: the private keys in it are its own. Every party needs Python 3.11 or
later with `fedualex[{engine}]`, the same version everywhere.

A trial with all parties on one machine:

    fedualex deploy up FOLDER
    fedualex deploy run FOLDER
    fedualex deploy stop FOLDER
"""
ADMIN = "| `admin/` | who submits runs | `fedualex deploy run`, beside `server/` |\n"
LEAVES = """In every round its increment of the dual state (as many numbers as the model has) with its weight, and the
weighted sum of its local points.{survey} When a certificate is due: its full-batch operator at the points it is asked
for.{ergodic} Nothing else: no examples, no labels, no counts. This is not anonymous: an operator is a function of the
data. Where the parties' folders have keys in `secure/`, all of this leaves under masks and the server sees the sum over
all sites; elsewhere it sees each site's arrays one by one. What a site lets leave is its own decision, in its
`policy.toml`; what has left is in its `ledger.jsonl` (`fedualex deploy audit`)."""
PRIVATE = """In every round its increment of the dual state, clipped to length {clip} and with noise of {noise} times
that in every entry. Nothing else: no points and no operators, so there is no certificate. The privacy that this buys
grows worse with every round; the run tells its epsilon for delta = {delta}."""


def write_deployment(root: Path, config: Path | None, engine: str | None) -> list[str]:
    """Make the folder of a problem that a TOML file names; the names of its sites."""
    file = config or EXAMPLE
    settings = read(file)
    if engine is not None:
        named("engine", engine, dict.fromkeys(ENGINES))
        settings["server"]["engine"] = engine
    provision(root, settings)
    write_parties(root, settings, file.parent)
    write_atomically(root / "deployment.toml", file.read_bytes())
    surveys = build_method(settings["method"]).surveys
    at = "one point" if surveys == 1 else f"{surveys} points, one after the other"
    survey = f" Before it, as this method needs it, its full-batch operator at {at}." * bool(surveys)
    ergodic = " With `ergodic = true` also the K probes of a round." * bool(settings["run"]["ergodic"])
    private = settings["privacy"] and PRIVATE.format(**{"delta": 1e-5, **settings["privacy"]})
    write_readme(root, settings, private or LEAVES.format(ergodic=ergodic, survey=survey), DATA)
    return list(settings["sites"])


def provision(root: Path, settings: Mapping[str, Any]) -> None:
    """Keys, certificates, start scripts, rules and ledgers of all parties, in a folder that is new or empty."""
    if root.exists() and any(root.iterdir()):
        raise ConfigurationError(f"{root} is not empty: a deployment needs a folder of its own")
    root.mkdir(parents=True, exist_ok=True)
    server, sites = settings["server"], list(settings["sites"])
    control_of(server["engine"]).provision(
        root, sites, host=server["host"], port=server["port"], serve=SERVE, site=SITE
    )
    for name in sites:
        prepare_site(Layout(root).site(name))
    if len(sites) >= FEWEST and can_make_keys():
        from ..deploy.secure.masks import make_keys

        make_keys(Layout(root), sites)


def write_readme(root: Path, settings: Mapping[str, Any], leaves: str, data: str) -> None:
    """What each party does with its folder, what leaves a site, and how a site names its data."""
    server, sites = settings["server"], list(settings["sites"])
    rows = "\n".join(f"| `sites/{name}/` | {name} | `sites/{name}/start.sh` |" for name in sites)
    admin = ADMIN if server["engine"] == "nvflare" else ""
    if server["engine"] == "local":
        parties = REHEARSAL.format(folders=", ".join(f"`sites/{name}/`" for name in sites))
    else:
        parties = PARTIES.format(rows=rows, admin=admin, **server)
    text = README.format(sites=", ".join(sites), parties=parties, leaves=leaves, data=data, **server)
    write_atomically(root / "README.md", text.encode())


def write_parties(root: Path, settings: Mapping[str, Any], source: Path) -> None:
    """The settings of each party in its folder: a site is told of its own data alone, the server of nobody's.

    source: the folder of the TOML file, from which files are named and the modules of entry points copied.
    """
    public = {**settings, "sites": {name: {"weight": site["weight"]} for name, site in settings["sites"].items()}}
    public["has_data"] = any(site["data"] is not None for site in settings["sites"].values())
    if (arrays := settings["problem"].get("file")) is not None:  # wherever it lies, each party has it at home
        public["problem"] = {**settings["problem"], "file": Path(arrays).name}
    for name in (SERVER, *settings["sites"]):
        party = Layout(root).party(name)
        own = {} if name == SERVER else {"site": name, "data": _placed(settings["sites"][name]["data"], source)}
        write_json(party / SETTINGS, {**public, **own})
        entries = [settings["problem"].get("entry"), own.get("data")]
        for module in {str(entry).partition(":")[0] for entry in entries if entry and ":" in str(entry)}:
            if (source / f"{module}.py").exists():
                shutil.copy(source / f"{module}.py", party / f"{module}.py")
        if arrays is not None:
            write_atomically(party / public["problem"]["file"], (source / arrays).read_bytes())


def _placed(data: str | None, source: Path) -> str | None:
    """A site's data as its own settings name it: an existing file by its whole path, anything else as it is."""
    return str((source / data).resolve()) if data is not None and (source / data).is_file() else data

"""Deployments run from folders: the server and each site from its own."""

import json
import shutil
from collections.abc import Sequence
from contextlib import closing, suppress
from importlib import resources
from pathlib import Path
from typing import Any

from ...models.store import JSON, MODEL
from ...problems import AbstractProblem
from ...runs import folder
from ...runs.folder import CHECKPOINT, RUN_OF_FIT
from ...runs.settings import ConfigurationError, build_method, call_entry, find_named
from ...runtime import Run, Status, Stop
from ...runtime.simulator import keep_compiled_programs
from ...storage import Json, is_disk_full, read_arrays, write_atomically, write_json
from ...summaries import Known
from ...tables.effects import read_unpenalized
from ...tables.kept_model import read_answer
from .. import Engine, Guard, RunHooks, Site, SiteFacts
from ..engines import ENGINES, control_of
from ..guard import guard_site, prepare_site
from ..party import LOAD_SITE, SERVE, SERVER, Layout, write_run_unit
from ..policy import REQUIRED, THRESHOLDS, read_policy
from ..secure.sums import FEWEST, OFF, can_make_keys, why_not_secure
from ..task import FencedError
from .agreement import has_tables
from .heard import HeardEngine
from .present import AttendingSite, gather
from .server import TableServer
from .settings import LOOPBACK, SETTINGS, party_problem, read, roster_of, server_problem, settings_of, task_of
from .site import TableSite

FAILURE = "failure.json"
"""Why the round loop was not begun or did not end by itself; gone when it is begun again."""
RESUMABLE = (Stop.INTERRUPTED.name, Stop.CLIENTS_LOST.name, Stop.MAX_TIME.name)
"""Ends of a run that was cut off: by hand, because sites were missing, which may be back, or by the clock."""


def serve(engine: Engine, party: Path) -> Run | None:
    """The server's side: the round loop, into the run folder beside the server's settings.

    A model without penalty has no round loop and no run: None.
    """
    keep_compiled_programs()
    forget_failure(party)
    try:
        with closing(engine):
            return _serve(HeardEngine(engine, party), party)
    except FencedError:  # another server has taken over: what there is to say is its to say
        raise
    except Exception as error:
        with suppress(OSError):  # the disk may be what is wrong
            write_json(
                party / FAILURE, {"error": tell_error(error), "heals": not isinstance(error, ValueError | TypeError)}
            )
        raise


def tell_error(error: BaseException) -> str:
    """The error that ended a server, in one line."""
    if is_disk_full(error):
        return "the disk of the server is full; what it has written is whole"
    return f"{type(error).__name__}: {error}"


def forget_failure(party: Path) -> None:
    """Remove the note of why the last run had no result."""
    (party / FAILURE).unlink(missing_ok=True)


def failure_of(party: Path) -> str | None:
    """Why the server's last run has no result; None if it did not say."""
    file = party / FAILURE
    return json.loads(file.read_text())["error"] if file.exists() else None


def heals(party: Path) -> bool:
    """Whether the server's last run may succeed if it is sent again, without a correction by a person."""
    file = party / FAILURE
    return not file.exists() or bool(json.loads(file.read_text()).get("heals", True))


def _serve(engine: Engine, party: Path) -> Run | None:
    settings, path, begun = settings_of(party), party / RUN_OF_FIT, find_unfinished(party)
    roster = roster_of(settings, party)
    wanted = list(settings["sites"])
    settings = gather(engine, party, settings) if has_tables(settings) else settings
    tables = TableServer(engine, party, settings, roster, wanted) if has_tables(settings) else None
    known = None if tables is None else tables.choose(tables.agree())
    problem = server_problem(settings, party)
    task = task_of(settings, problem, known)
    resolved = {key: settings[key] for key in ("problem", "method", "sites", "privacy", "has_data")} | {
        "run": {**settings["run"], "tol": task.options.tol},
        "folder": str(party.resolve()),
    }
    if tables is not None and known is not None and tables.recipe.is_unpenalized:
        tables.keep_model(known, tables.find_unpenalized(known, resolved))
        return None

    def begin() -> None:
        if begun is None:
            folder.begin(path, problem, resolved)
        else:  # patience may have changed, and the folder may have moved
            folder.reopen(path, begun, resolved)

    hooks = RunHooks(begin, lambda record: folder.append(path, record), lambda run: folder.finish(path, run, problem))
    run = task.serve(engine, problem, path / CHECKPOINT, hooks, roster)
    if tables is not None and known is not None and run.gap is not None and run.stop is not Stop.INTERRUPTED:
        answer = read_answer(folder.load(path))
        run = tables.conclude(known, run, problem, answer)
        if run.stop is Stop.INFEASIBLE:
            folder.finish(path, run, problem)
            raise ConfigurationError(tables.recipe.why_infeasible(run.detail))
        tables.keep_model(known, answer)
    return run


def load_site(party: Path) -> Guard:
    """A site's side, with its own data, behind its own rules."""
    keep_compiled_programs()  # a site that is started again answers its first request in time
    settings = settings_of(party)
    if has_tables(settings):
        rules = read_policy(party)

        def make(told: Json) -> TableSite:
            return TableSite(party, told, lambda problem, known: _site(told, problem, known), rules)

        tables = AttendingSite(party, settings, make)
        return guard_site(party, settings["site"], tables, tables.facts)
    data = None if settings["data"] is None else [_load_data(settings["data"], party)]
    problem = party_problem(settings, data, party)
    site = _site(settings, problem)
    rows = None if problem.data is None else int(problem.data.counts.sum())
    goal = settings["problem"].get("name") or settings["problem"].get("entry")
    return guard_site(party, settings["site"], site, SiteFacts(rows, None, goal, site.privacy, kit=site.agreed))


def _site(settings: Json, problem: AbstractProblem, known: Sequence[Known] | None = None) -> Site:
    return task_of(settings, problem, known).site(problem, settings["site"])


def find_unfinished(party: Path) -> folder.StoredRun | None:
    """The run in a server's folder, to go on with; None if there is none, a refusal if it has ended for good."""
    path = party / RUN_OF_FIT
    if not (path / "manifest.json").exists():
        if read_unpenalized(party) is not None:
            raise ConfigurationError(f"{party / MODEL} already holds a model; move it away to begin another run")
        return None
    known = folder.load(path)
    lacks_model = has_tables(settings_of(party)) and not (party / MODEL / JSON).exists()
    if known.status is not None and not is_resumable(known.status) and not lacks_model:
        raise ConfigurationError(f"{path} already holds a finished run; move it away to begin another")
    return known


def is_resumable(status: Json) -> bool:
    """Whether a run was cut off before its end, or its sites did not answer when its last points were certified."""
    return bool(status["unanswered"] or (status["stop"] in RESUMABLE and status["status"] != Status.OPTIMAL.name))


def _load_data(data: str, party: Path) -> Any:
    """A site's examples: the arrays of an .npz file, or what its function "module:function" returns."""
    if data.endswith(".npz"):
        try:
            return read_arrays(party / data)
        except Exception as error:  # a missing, truncated or foreign file can fail in many ways
            raise ConfigurationError(f"data = {data!r} cannot be read as an .npz file: {error}") from None
    return call_entry(data, party, {}, what="data, if not a file ....npz,")


# A deployment's folder from its TOML file: keys, settings and start scripts for each party, and a README.


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
Give each party its own folder and nothing else. Every party needs Python 3.11 or
later with `fedualex[{engine}]`, the same version everywhere.
"""
TRIAL = """
A trial with all parties on one machine:

    fedualex deploy up FOLDER
    fedualex deploy run FOLDER
    fedualex deploy stop FOLDER
"""
OWN_KEYS = """
The folders hold no private key: each party makes its own before the first run, by `fedualex deploy join` with its
folder, and sends the request to whoever has `authority/`, who runs `fedualex deploy admit FOLDER REQUEST`. That says
eight words, to be compared by telephone, and which file goes to whom.
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
        find_named("engine", engine, dict.fromkeys(ENGINES))
        settings["server"]["engine"] = engine
    provision(root, settings)
    write_parties(root, settings, file.parent)
    write_atomically(root / "deployment.toml", file.read_bytes())
    surveys = build_method(settings["method"]).rounds.surveys
    at = "one point" if surveys == 1 else f"{surveys} points, one after the other"
    survey = f" Before it, as this method needs it, its full-batch operator at {at}." * bool(surveys)
    ergodic = " With `ergodic = true` also the K probes of a round." * bool(settings["run"]["ergodic"])
    private = settings["privacy"] and PRIVATE.format(**{"delta": 1e-5, **settings["privacy"]})
    write_readme(root, settings, private or LEAVES.format(ergodic=ergodic, survey=survey), DATA)
    return list(settings["sites"])


def rules_in_force(settings: Json) -> dict[str, str]:
    """The rules of every site until it changes them: thresholds for tables, and masks wherever runs can have them.

    So a server cannot decide that sums leave without masks.
    """
    run, sites = settings["run"], list(settings["sites"])
    rules = dict(THRESHOLDS) if has_tables(settings) else {}
    why_not = why_not_secure(build_method(settings["method"]), len(sites), run["cohort"], run["min_replies"])
    if run["secure_sums"] != OFF and not why_not and can_make_keys():
        rules["secure_sums"] = f'"{REQUIRED}"'
    return rules


def provision(root: Path, settings: Json, *, masks: bool = True) -> None:
    """Keys, certificates, start scripts, rules and ledgers of all parties, in a folder that is new or empty.

    masks: whether the keys of secure sums, or the authority of sites that make their own, are begun as well.
    """
    if root.exists() and any(root.iterdir()):
        raise ConfigurationError(f"{root} is not empty: a deployment needs a folder of its own")
    root.mkdir(parents=True, exist_ok=True)
    server, sites = settings["server"], list(settings["sites"])
    control = control_of(server["engine"])
    control.provision(
        root,
        sites,
        host=server["host"],
        port=server["port"],
        serve=SERVE,
        site=LOAD_SITE,
        own_keys=server.get("own_keys", False),
    )
    write_run_unit(Layout(root).server)
    for name in sites:
        prepare_site(Layout(root).site(name), rules_in_force(settings))
    if masks:
        _begin_masks(Layout(root), sites, control.BESIDE, own_keys=server.get("own_keys", False))


def _begin_masks(layout: Layout, sites: Sequence[str], beside: Sequence[str], *, own_keys: bool) -> None:
    if own_keys and not can_make_keys():
        raise ConfigurationError("own_keys take fedualex[secure] here")
    if own_keys:
        from ..secure.joining import begin_authority

        begin_authority(layout, sites, beside)
    elif len(sites) >= FEWEST and can_make_keys():
        from ..secure.masks import make_keys

        make_keys(layout, sites)


def write_readme(root: Path, settings: Json, leaves: str, data: str) -> None:
    """What each party does with its folder, what leaves a site, and how a site names its data."""
    server, sites = settings["server"], list(settings["sites"])
    rows = "\n".join(f"| `sites/{name}/` | {name} | `sites/{name}/start.sh` |" for name in sites)
    admin = ADMIN if server["engine"] == "nvflare" else ""
    if server["engine"] == "local":
        parties = REHEARSAL.format(folders=", ".join(f"`sites/{name}/`" for name in sites))
    else:
        parties = PARTIES.format(rows=rows, admin=admin, **server) + TRIAL * (server["host"] in LOOPBACK)
    parties += OWN_KEYS if server.get("own_keys") else ""
    text = README.format(sites=", ".join(sites), parties=parties, leaves=leaves, data=data, **server)
    write_atomically(root / "README.md", text.encode())


def write_parties(root: Path, settings: Json, source: Path) -> None:
    """The settings of each party in its folder: a site is told of its own data alone, the server of nobody's.

    source: the folder of the TOML file, from which files are named and the modules of entry points copied.
    """
    public = {**settings, "sites": {name: {"weight": site["weight"]} for name, site in settings["sites"].items()}}
    public["has_data"] = any(site["data"] is not None for site in settings["sites"].values())
    if (arrays := settings["problem"].get("file")) is not None:  # wherever it lies, each party has it at home
        public["problem"] = {**settings["problem"], "file": Path(arrays).name}
    for name in (SERVER, *settings["sites"]):
        party = Layout(root).party(name)
        own = {} if name == SERVER else {"site": name, "data": _locate(settings["sites"][name]["data"], source)}
        write_json(party / SETTINGS, {**public, **own})
        entries = [settings["problem"].get("entry"), own.get("data")]
        for module in {str(entry).partition(":")[0] for entry in entries if entry and ":" in str(entry)}:
            if (source / f"{module}.py").exists():
                shutil.copy(source / f"{module}.py", party / f"{module}.py")
        if arrays is not None:
            write_atomically(party / public["problem"]["file"], (source / arrays).read_bytes())


def _locate(data: str | None, source: Path) -> str | None:
    """A site's data as its own settings name it: an existing file by its whole path, anything else as it is."""
    return str((source / data).resolve()) if data is not None and (source / data).is_file() else data

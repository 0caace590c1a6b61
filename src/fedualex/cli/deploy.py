"""`fedualex deploy init | up | run | status | fetch | stop | resume`: the same problem, by real servers and sites."""

import json
from pathlib import Path

import click

from ..storage import Json
from . import deploy_watch
from .common import echo, json_option, one_line_errors, out_option, plain_errors, print_json, say, writable
from .deploy_run import (
    ending,
    ending_words,
    engine_of,
    layout_of,
    note_stop,
    run_deployment,
    run_folder,
    run_unattended,
    stored_run,
)
from .fit import goal_options

# `fedualex deploy audit`: what left a site, from its own ledger.


@click.command()
@click.argument("site_folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--acknowledge", metavar="NOTE", help="Note that the damage was seen, so that the site answers again.")
@click.option("--run", default="", metavar="ID", help="Only lines of the run whose id begins so.")
@click.option("--since", default="", metavar="DATE", help="Only lines from this date on, such as 2030-01-31 (UTC).")
@click.option("--kind", default="", metavar="TASK", help="Only releases of one kind, such as summary.")
@click.option("--values", is_flag=True, help="Also the values that left, before masks, where this site keeps them.")
@json_option
@one_line_errors
def audit(
    site_folder: Path, acknowledge: str | None, run: str, since: str, kind: str, values: bool, as_json: bool
) -> None:
    """Print every release of a site, and its totals. Exit code 1: the ledger is damaged."""
    from ..deploy import ledger as ledgers

    if acknowledge is not None:
        ledgers.acknowledge(site_folder, acknowledge)
    report = ledgers.audit(site_folder, run, since, kind, values=values)
    if as_json:
        print_json(report)
    else:
        _show(report)
    if report["damage"]:
        raise SystemExit(1)


def _show(report: Json) -> None:
    for line in report["lines"]:
        what = [_arrays(line, "in_the_clear"), _arrays(line, "under_masks"), line["note"]]
        if line["epsilon"] is not None:
            what.append(f"epsilon {line['epsilon']:.3g}")
        task = f"{line['task']} {line['round']}" if line["task"] else line["kind"]
        head = f"{line['time'][:19]}Z  {line['run'][:8]:8}  {task:12}  {line['size']:>9} bytes"
        echo("  ".join([head, *filter(None, what)]))
        if "values" in line and line["sha256"]:
            kept = line["values"]
            echo("    not kept" if kept is None else "\n".join(f"    {n} = {json.dumps(v)}" for n, v in kept.items()))
    totals = report["totals"]
    tasks = ", ".join(f"{count} {task}" for task, count in totals["tasks"].items()) or "none"
    echo(f"releases: {totals['releases']} ({tasks}) in {totals['runs']} runs, {totals['bytes']} bytes")
    masked, clear = totals["under_masks"], totals["in_the_clear"]
    echo(f"with something in the clear: {clear}; under masks: {masked}; with noise: {totals['with_noise']}")
    if totals["epsilon"] is not None:
        echo(f"epsilon spent: {totals['epsilon']:.4g} (delta {totals['delta']:g})")
    echo(f"head: {report['head']}")
    echo(f"ledger: DAMAGED, {report['damage']}" if report["damage"] else "ledger: whole")


def _arrays(line: Json, how: str) -> str:
    """The arrays of a line that left in this way, each with its shape; nothing if there are none."""
    named = " ".join(f"{name}{line['arrays'][name]}" for name in line[how])
    return f"{how.replace('_', ' ')}: {named}" if named else ""


# `fedualex deploy init | check`: a kit for each party, and what a site would send, before anybody is connected.


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
@click.option(
    "--own-keys/--made-keys",
    default=None,
    help="Each party makes its own keys: join, then admit; as with a --host, unless keys are made here.",
)
@json_option
@plain_errors
def init(
    folder: Path,
    sites: str | None,
    config: Path | None,
    engine: str | None,
    host: str | None,
    port: int | None,
    own_keys: bool | None,
    as_json: bool,
    **fit: object,
) -> None:
    """Write a ready deployment: keys, settings and a start script for each party, and a README.

    With --goal, --target and --sites every site brings a table of its own, and the run ends with a model. Without any
    of them the problem is that of --config.
    """
    from ..deploy.consortium.kit import init_deployment

    server = {"engine": engine, "host": host, "port": port, "own_keys": own_keys}
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
    from ..deploy.consortium.check import check_site

    checked = check_site(site)
    if as_json:
        print_json(checked.plain())
        return
    echo(checked.words)


@click.command()
@click.argument("party", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--quick", is_flag=True, help="Without reading the table, as for a health check.")
@json_option
@plain_errors
def doctor(party: Path, quick: bool, as_json: bool) -> None:
    """Look at everything that a run needs at one party, in its folder PARTY. Exit code 1: something is wrong."""
    from ..deploy.consortium.doctor import examine, is_well

    findings = examine(party, quick=quick)
    if as_json:
        print_json({"well": is_well(findings), "findings": [vars(finding) for finding in findings]})
    else:
        for finding in findings:
            echo(f"{finding.state:5}  {finding.about:12}  {finding.text}")
    if not is_well(findings):
        raise SystemExit(1)


@click.command()
@click.argument("party", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--renew", is_flag=True, help="Make new keys in place of those that are there.")
@json_option
@plain_errors
def join(party: Path, renew: bool, as_json: bool) -> None:
    """Make a party's own keys, in its folder PARTY, and a request for the authority."""
    from ..deploy.consortium import membership

    request, words = membership.join(party, renew=renew)
    line = f"{request}: send it to the authority, and tell these words by telephone: {words}"
    say(line, {"request": str(request), "fingerprint": words}, as_json)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.argument("requests", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@json_option
@plain_errors
def admit(folder: Path, requests: tuple[Path, ...], as_json: bool) -> None:
    """Take the public keys of parties, where `init` was run; once all are there, sign their list for the server."""
    from ..deploy.consortium import membership

    taken, given, missing = membership.admit(folder, requests)
    if as_json:
        print_json({"fingerprints": taken, "given": given, "missing": missing})
        return
    for name, words in taken.items():
        echo(f"{name}: {words}; it must be what {name} tells by telephone")
    for what in given:
        echo(what)
    signed = (
        f"the list is signed: {layout_of(folder).server / 'secure' / 'roster.json'} goes to the server, which gives it "
        "to all sites"
    )
    echo(f"not joined yet: {', '.join(missing)}" if missing else signed)


@click.command()
@click.argument("site", type=click.Path(path_type=Path, file_okay=False, exists=True))
@json_option
@plain_errors
def approve(site: Path, as_json: bool) -> None:
    """Say, at a site whose rules have approve = "first", that runs of its kit may begin."""
    from ..deploy import ledger as ledgers
    from ..deploy.consortium.deployment import load_site

    kit = load_site(site).about.kit
    ledgers.approve(site, kit)
    say(f"{site.name}: runs of this kit ({kit}) may begin", {"site": str(site), "kit": kit}, as_json)


# `fedualex deploy add-site | remove-site | renew`: who takes part, and with which keys.


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
    from ..deploy.consortium import membership

    _say_members(f"{name} is a site now", membership.add_site(folder, name, data), as_json)


@click.command("remove-site")
@folder_argument
@click.argument("name")
@json_option
@plain_errors
def remove_site(folder: Path, name: str, as_json: bool) -> None:
    """Remove a site, whose keys become worthless; the earlier run is set aside."""
    from ..deploy.consortium import membership

    _say_members(f"{name} is no site any more", membership.remove_site(folder, name), as_json)


@click.command()
@folder_argument
@json_option
@plain_errors
def renew(folder: Path, as_json: bool) -> None:
    """Make new keys and certificates for everybody; a run that was cut off can be resumed with them."""
    from ..deploy.consortium import membership

    _say_members("keys and certificates are renewed", membership.renew(folder), as_json)


def _say_members(what: str, parties: list[str], as_json: bool) -> None:
    say(f"{what}; {DISTRIBUTE} ({', '.join(parties)})", {"parties": parties}, as_json)


@click.group()
def deploy() -> None:
    """Run a problem on a federated engine: NVIDIA FLARE, Flower, or processes of this machine."""


deploy.add_command(audit)
deploy.add_command(init)
deploy.add_command(check)
for command in (join, admit, approve, doctor):
    deploy.add_command(command)
for command in (add_site, remove_site, renew):
    deploy.add_command(command)


@deploy.command()
@folder_argument
@json_option
@plain_errors
def up(folder: Path, as_json: bool) -> None:
    """Start server and sites on this machine, for a trial."""
    control, _ = engine_of(folder)
    sites = control.up(folder)
    line = f"server and {len(sites)} sites are connected"
    say(line if sites else "nothing to start: `fedualex deploy run` starts all", {"connected": sites}, as_json)


@deploy.command()
@folder_argument
@click.option(
    "--unattended", is_flag=True, help="Send the run again whatever cut it off, until it has ended: for a service."
)
@json_option
@plain_errors
def run(folder: Path, unattended: bool, as_json: bool) -> None:
    """Run all rounds, and print what came out."""
    (run_unattended if unattended else run_deployment)(folder, as_json)


@deploy.command()
@folder_argument
@json_option
@plain_errors
def resume(folder: Path, as_json: bool) -> None:
    """Go on from the last checkpoint, after a stop or a fault."""
    control, _ = engine_of(folder)
    begun = control.state(folder)[0] != "none"  # maybe at the server's own machine
    if not begun and not (run_folder(folder) / "manifest.json").exists():
        raise ValueError(f"there is nothing to resume in {folder}: `fedualex deploy run` begins")
    run_deployment(folder, as_json)


@deploy.command()
@folder_argument
@click.option("--watch", is_flag=True, help="Show it as a live page on loopback, with metrics for Prometheus.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of that page; any free one if left out.")
@json_option
@plain_errors
def status(folder: Path, watch: bool, port: int, as_json: bool) -> None:
    """What the engine says, and what the run folder says."""
    if watch:
        deploy_watch.watch(folder, port)
        return
    from ..deploy.consortium.deployment import failure_of

    control, _ = engine_of(folder)
    engine, _ = control.state(folder)
    history, end = stored_run(folder)[0], ending(folder)
    failure = failure_of(layout_of(folder).server)
    last = history[-1] if history else {}
    if as_json:
        so_far = {key: last.get(key) for key in ("round", "exchanges")}
        print_json({"engine": engine, **so_far, "status": end, "failure": failure, "run": str(run_folder(folder))})
        return
    echo(f"engine: {engine}")
    if failure is not None:
        echo(f"the server could not go on: {failure}")
    echo(f"last record: round {last['round']}, {last['exchanges']} exchanges" if last else "no record yet")
    echo(f"status: {ending_words(end)}" if end else "status: not ended")


@deploy.command()
@folder_argument
@out_option(required=True, help="A new folder for the run and the model.")
@json_option
@plain_errors
def fetch(folder: Path, out: Path, as_json: bool) -> None:
    """Get the run and the model of a run that has ended, through the engine and with the rights of whoever sent it."""
    from ..deploy.party import check_place

    check_place(out)
    control, _ = engine_of(folder)
    control.fetch(folder, out)
    parts = sorted(path.name for path in out.iterdir()) if out.exists() else []
    if not parts:
        raise ValueError(f"the run of {folder} has left no result yet")
    say(f"{out}: {' and '.join(parts)}", {"folder": str(out), "parts": parts}, as_json)


@deploy.command()
@folder_argument
@json_option
@plain_errors
def stop(folder: Path, as_json: bool) -> None:
    """End the run, keep its checkpoint, and end the processes that `up` started here."""
    control, _ = engine_of(folder)
    try:
        engine, ended = control.state(folder)
        if not ended and engine != "unreachable":  # a server that is gone runs nothing, but its sites may be here
            note_stop(folder)
            control.stop(folder)
    finally:
        control.down(folder)
    say("stopped", {"stopped": True}, as_json)

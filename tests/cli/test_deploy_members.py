"""`fedualex deploy add-site | remove-site | renew`: other sites and new keys, without starting over."""

import json

import pytest
from support.deployments import AT_SITES, SITES, cli, deploy, one_sentence, simulate, the_game  # noqa: F401
from support.in_threads import threads  # noqa: F401

from fedualex.deploy.party import Layout


def keys_of(folder) -> dict[str, bytes]:
    layout = Layout(folder)
    return {name: (layout.site(name) / "site.key").read_bytes() for name in layout.sites()}


def sites_told(folder) -> list[list[str]]:
    """The sites that each party was told of."""
    layout = Layout(folder)
    parties = [layout.server, *map(layout.site, layout.sites())]
    return [list(json.loads((party / "deployment.json").read_text())["sites"]) for party in parties]


def test_a_site_comes_and_another_goes(deploy):
    made = deploy("local", run={"rounds": 2})
    made.run_folder.mkdir()
    (made.run_folder / "status.json").write_text("of the earlier sites")
    before = keys_of(made.folder)
    own = [made.folder / "sites" / "site-1" / name for name in ("policy.toml", "ledger.jsonl")]
    own[0].write_text(own[0].read_text() + "# mine\n")
    kept = [file.read_bytes() for file in own]
    done = cli("add-site", made.folder, "site-4")
    assert "site-4 is a site now; all parties have new keys" in done.stdout
    assert sites_told(made.folder) == [[*SITES, "site-4"]] * 5
    after = keys_of(made.folder)
    assert set(after) == {*SITES, "site-4"}
    assert not set(before.values()) & set(after.values())
    assert [file.read_bytes() for file in own] == kept
    assert (made.folder / "server" / "earlier" / "run" / "run" / "status.json").exists()
    cli("remove-site", made.folder, "site-2")
    assert sites_told(made.folder) == [["site-1", "site-3", "site-4"]] * 4
    assert set(keys_of(made.folder)) == {"site-1", "site-3", "site-4"}
    assert sorted(path.name for path in (made.folder / "server" / "keys").iterdir()) == ["site-1", "site-3", "site-4"]
    assert (made.folder / "removed" / "site-2" / "deployment.json").exists()
    assert json.loads((made.folder / "server" / "engine.json").read_text())["sites"] == ["site-1", "site-3", "site-4"]
    assert made.run()["stop"] == "MAX_ROUNDS"
    assert not (made.folder / ".new").exists()


@pytest.mark.slow
def test_a_run_that_was_cut_off_goes_on_with_new_keys(deploy, tmp_path):
    made = deploy("local", run={"max_seconds": 1e-6})
    assert made.run(code=3)["stop"] == "MAX_TIME"
    before = keys_of(made.folder)
    cli("renew", made.folder)
    assert not set(before.values()) & set(keys_of(made.folder).values())
    file = made.folder / "server" / "deployment.json"
    known = json.loads(file.read_text())
    known["run"]["max_seconds"] = None
    file.write_text(json.dumps(known))
    assert made.run("resume")["stop"] == "MAX_ROUNDS"


def test_refusals(deploy, monkeypatch):
    made = deploy("local")
    before = keys_of(made.folder)
    one_sentence(cli("add-site", made.folder, "site-1", code=2), "the name 'site-1' is taken")
    one_sentence(cli("add-site", made.folder, "../x", code=2), "a site's name must be a letter")
    one_sentence(cli("remove-site", made.folder, "nobody", code=2), "there is no site 'nobody'")
    with monkeypatch.context() as patch:
        patch.setattr(made.control, "state", lambda folder: ("running", False))
        for command in (("add-site", "site-9"), ("remove-site", "site-1"), ("renew",)):
            done = cli(command[0], made.folder, *command[1:], code=2)
            one_sentence(done, "a run is live (running): `fedualex deploy stop")
    assert keys_of(made.folder) == before
    for name in SITES[:2]:
        cli("remove-site", made.folder, name)
    one_sentence(cli("remove-site", made.folder, SITES[2], code=2), "is the last site")
    own = deploy("local", **AT_SITES)
    one_sentence(cli("add-site", own.folder, "site-4", code=2), "name that of site-4 with --data")
    missing = cli("add-site", own.folder, "site-4", "--data", "no-such.npz", code=2)
    one_sentence(missing, "--data must name a file that is here, got 'no-such.npz'")
    monkeypatch.chdir(own.source)
    cli("add-site", own.folder, "site-4", "--data", "site-1.npz")
    told = json.loads((own.folder / "sites" / "site-4" / "deployment.json").read_text())["data"]
    assert told == str((own.source / "site-1.npz").resolve())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_with_nvflare_a_new_site_takes_part_and_a_removed_one_cannot_connect(deploy):
    """Real processes, before and after."""
    made = deploy("nvflare", run={"rounds": 2})
    assert made.run()["stop"] == "MAX_ROUNDS"
    cli("stop", made.folder)
    cli("add-site", made.folder, "site-4")
    cli("remove-site", made.folder, "site-1")
    cli("up", made.folder)
    assert made.run()["stop"] == "MAX_ROUNDS"
    assert sites_told(made.folder) == [["site-2", "site-3", "site-4"]] * 4
    roots = {
        (made.folder / kind / "kit/startup/rootCA.pem").read_text()
        for kind in ("server", "sites/site-2", "sites/site-4")
    }
    assert len(roots) == 1
    assert (made.folder / "removed/site-1/kit/startup/rootCA.pem").read_text() not in roots  # its authority is no more

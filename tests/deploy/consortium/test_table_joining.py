"""Sites that make their own keys: whoever makes the kit has none of them, and a server cannot give sites other lists."""

import json
import shutil
from dataclasses import asdict, replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from support.command_line import cli
from support.consortium import deployment, run_in_threads, write_tables
from support.patients import HOSPITALS

from fedualex.deploy.consortium.doctor import WRONG, examine
from fedualex.deploy.consortium.kit import write_table_deployment
from fedualex.deploy.consortium.membership import add_site, admit, join, remove_site, renew
from fedualex.deploy.engine import RefusedError, Request
from fedualex.deploy.ledger import audit
from fedualex.deploy.party import Layout
from fedualex.deploy.secure.joining import TASK, OwnKeys, pack_roster
from fedualex.deploy.secure.masks import UntrustedKeysError, private_key, read_roster, write_key
from fedualex.deploy.secure.sums import reveal
from fedualex.deploy.wire import pack_json
from fedualex.runs.settings import ConfigurationError
from fedualex.runtime.status import Code

FIT = {"goal": "logistic", "l1": 0.004, "l2": 0.008}


@pytest.fixture
def root(tmp_path):
    write_tables(tmp_path)
    return deployment(tmp_path, "auto", server={"own_keys": True}, **FIT)


def joined(root, *names, **options):
    """The requests of these sites, as they come to the authority."""
    return [join(Layout(root).site(name), **options)[0] for name in names]


def private_files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in (folder).rglob("secure/key.pem"))


def masks_of(root, name):
    return OwnKeys(Layout(root).site(name), name, lambda task: {}, lambda task: "")


def taking(arrays):
    return Request(TASK, 0, "run", arrays)


def test_whoever_makes_a_kit_has_the_key_of_no_site_and_nothing_runs_before_all_have_joined(root):
    assert private_files(root) == ["authority/secure/key.pem"]
    with pytest.raises(ConfigurationError, match="not all sites have joined: `fedualex deploy admit` says who"):
        run_in_threads(root)
    requests = joined(root, *HOSPITALS[:2])
    assert admit(root, requests)[2] == ["west"]
    for request in requests:  # it has the public half alone
        assert json.loads(request.read_text()).keys() == {"site", "key", "transport"}
        own = private_key(request.parent / "secure" / "key.pem").private_bytes_raw().hex()
        transport = (request.parent / "secure" / "transport.key").read_bytes().hex()
        assert own not in request.read_text()
        assert transport not in request.read_text()
        assert not (request.parent / "site.key").exists()  # nobody else made one
    assert not (root / "server" / "secure" / "roster.json").exists()


def test_a_run_of_sites_with_keys_of_their_own_is_under_masks(root):
    for name in HOSPITALS:
        told = cli("deploy", "join", root / "sites" / name).output
        assert f"join-{name}.json: send it to the authority" in told
        words = told.rpartition("telephone: ")[2].strip()
        assert words in cli("deploy", "admit", root, root / "sites" / name / f"join-{name}.json").output
    run = run_in_threads(root)
    assert run.gap is not None
    for name in HOSPITALS:
        assert not any(
            "operators" in word for line in audit(root / "sites" / name)["lines"] for word in line["in_the_clear"]
        )
    assert audit(root / "sites" / "west")["totals"]["tasks"]["roster"] == 1


def test_a_new_key_of_one_site_reaches_the_others_without_their_doing_anything(root):
    admit(root, joined(root, *HOSPITALS))
    sites = {name: masks_of(root, name) for name in HOSPITALS}
    first = pack_roster(root / "server")
    for site in sites.values():
        site.take(taking(first))
    admit(root, joined(root, "west", renew=True))
    sites["west"] = masks_of(root, "west")  # who made a new key is started again; the others are not
    second = pack_roster(root / "server")
    for site in sites.values():
        site.take(taking(second))
    roster = read_roster(root / "server")
    assert roster.number == 2
    request = Request("survey", 1, "run", {}, "n1", roster.digest)
    answers = {
        name: site.hide(request, {"values": np.array([m + 0.5])}) for m, (name, site) in enumerate(sites.items())
    }
    assert reveal(answers)["east"]["values"].tolist() == [4.5]
    with pytest.raises(RefusedError, match="older than the one that this site has") as error:
        sites["east"].take(taking(first))
    assert error.value.code is Code.KEYS_DIFFER


def test_a_list_that_the_authority_has_not_signed_is_not_taken(root):
    admit(root, joined(root, *HOSPITALS))
    site, roster = masks_of(root, "west"), read_roster(root / "server")
    others = {**roster.keys, "east": roster.keys["north"]}
    thief = Ed25519PrivateKey.generate()
    for wrong, why in (
        (replace(roster, keys=others), "not signed by the authority"),
        (replace(roster, number=9), "not signed by the authority"),
        (replace(roster, keys=others).sign(thief), "not signed by the authority"),
    ):
        with pytest.raises(RefusedError, match=why):
            site.take(taking(pack_json(roster=asdict(wrong))))
    for nonsense in (3, [], {"keys": {}}, {**asdict(roster), "number": "1"}, {**asdict(roster), "keys": 3}):
        with pytest.raises(RefusedError, match="does not take the list of keys"):
            site.take(taking(pack_json(roster=nonsense)))
    authority = private_key(root / "authority" / "secure" / "key.pem")
    without = replace(roster, keys={**roster.keys, "west": roster.keys["east"]}).sign(authority)
    with pytest.raises(RefusedError, match="another key than this site's own"):
        site.take(taking(pack_json(roster=asdict(without))))


def test_requests_that_are_none_and_keys_of_others_are_refused(root, tmp_path):
    [request] = joined(root, "west")
    known = json.loads(request.read_text())
    for wrong, why in (
        ({**known, "site": "nobody"}, "there is no 'nobody' in this deployment"),
        ({**known, "key": "12"}, "is no request of"),
        ({"site": "west"}, "is no request of"),
    ):
        (tmp_path / "wrong.json").write_text(json.dumps(wrong))
        with pytest.raises(UntrustedKeysError, match=why):
            admit(root, [tmp_path / "wrong.json"])
    admit(root, [request])
    (tmp_path / "wrong.json").write_text(json.dumps({**known, "site": "east"}))
    with pytest.raises(UntrustedKeysError, match="the key of east is that of another site"):
        admit(root, [tmp_path / "wrong.json"])
    with pytest.raises(FileExistsError):
        write_key(Layout(root).site("west"), private_key(Layout(root).site("west") / "secure" / "key.pem"))
    before = (Layout(root).site("west") / "secure" / "key.pem").read_bytes()
    joined(root, "west")  # again, without renew: the same key
    assert (Layout(root).site("west") / "secure" / "key.pem").read_bytes() == before


def test_sites_come_and_go_and_certificates_are_renewed_while_the_keys_for_masks_stay(root, tmp_path):
    admit(root, joined(root, *HOSPITALS))
    keys = {name: (Layout(root).site(name) / "secure" / "key.pem").read_bytes() for name in HOSPITALS}
    renew(root)
    assert {name: (Layout(root).site(name) / "secure" / "key.pem").read_bytes() for name in HOSPITALS} == keys
    shutil.copy(tmp_path / "west.csv", tmp_path / "north-2.csv")
    add_site(root, "rome", str(tmp_path / "west.csv"))
    assert not (root / "server" / "secure" / "roster.json").exists()
    assert private_files(root / "sites" / "rome") == []
    assert admit(root, joined(root, "rome"))[2] == []
    assert set(read_roster(root / "server").keys) == {*HOSPITALS, "rome"}
    remove_site(root, "west")
    roster = read_roster(root / "server")
    assert set(roster.keys) == {"east", "north", "rome"}
    assert masks_of(root, "east").take(taking(pack_roster(root / "server")))


def test_parties_on_several_machines_make_their_own_keys_unless_they_are_made_for_them(tmp_path):
    def private(name, sites, *words):
        nonlocal readme
        root, fit = tmp_path / name, ("--goal", "logistic", "--target", "y", "--sites", sites)
        cli("deploy", "init", root, *fit, *words)
        readme = (root / "README.md").read_text()
        files = [path for path in root.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]
        return {path.relative_to(root).parts[0] for path in files}, {path.name for path in root.rglob("*.key")}

    readme = ""
    elsewhere, three = ("--engine", "flower", "--host", "fl.example.org"), "north,south,west"
    assert private("real", three, *elsewhere) == ({"authority"}, {"ca.key"})
    assert "fedualex deploy join" in readme
    assert "on one machine" not in readme  # its sites look for the server elsewhere
    assert private("pair", "north,south", *elsewhere) == ({"authority"}, {"ca.key"})
    assert private("made", three, *elsewhere, "--made-keys")[0] == {"authority", "server", "sites"}
    assert private("trial", three, "--engine", "flower")[0] == {"authority", "server", "sites"}
    assert "on one machine" in readme


def test_two_sites_with_keys_of_their_own_run_in_the_clear(tmp_path):
    write_tables(tmp_path)
    root, two = tmp_path / "pair", HOSPITALS[:2]
    tables = {name: {"table": str(tmp_path / f"{name}.csv")} for name in two}
    write_table_deployment(root, {**FIT, "target": "outcome"}, tables, {"own_keys": True}, {})
    assert admit(root, joined(root, *two))[2] == []
    assert run_in_threads(root).gap is not None


@pytest.mark.slow
def test_all_parties_of_an_nvflare_kit_join(tmp_path):
    """The server and whoever submits runs as well; new certificates leave every key where it is."""
    write_tables(tmp_path)
    root = deployment(tmp_path, "auto", server={"own_keys": True, "engine": "nvflare"}, **FIT)
    parties = [root / "server", root / "admin", *(root / "sites" / name for name in HOSPITALS)]
    assert [party for party in parties if list(party.rglob("*.key"))] == []
    requests = [join(party)[0] for party in parties]
    assert admit(root, requests[2:])[2] == ["server", "admin"]
    assert (root / "server" / "secure" / "roster.json").exists()  # which has keys of sites alone
    taken, given, missing = admit(root, requests[:2])
    assert (list(taken), missing) == (["server", "admin"], [])
    assert [words.partition(" goes to ")[2].split(",")[0] for words in given] == ["server", "admin"]
    certificates = {party: next((party / "kit" / "startup").glob("*.crt")).read_bytes() for party in parties}
    own = {party: (party / "secure" / "transport.key").read_bytes() for party in parties}
    renew(root)
    for party in parties:
        assert (party / "secure" / "transport.key").read_bytes() == own[party]
        assert next((party / "kit" / "startup").glob("*.crt")).read_bytes() != certificates[party]
        assert list((party / "kit").rglob("*.key")) == []
    (tmp_path / "wrong.json").write_text(json.dumps({"site": "admin", "key": "zz", "transport": ""}))
    with pytest.raises(UntrustedKeysError, match="is no request of"):
        admit(root, [tmp_path / "wrong.json"])


def test_the_doctor_and_the_readme_of_an_nvflare_kit_say_that_a_site_has_to_join(tmp_path):
    write_tables(tmp_path)
    root = deployment(tmp_path, "auto", server={"own_keys": True, "engine": "nvflare"}, **FIT)
    assert "by `fedualex deploy join` with its folder" in " ".join((root / "README.md").read_text().split())
    home = root / "sites" / "west"

    def wrong():
        return [finding.text for finding in examine(home, quick=True) if finding.state == WRONG]

    assert any("this party has no certificate yet" in text for text in wrong())
    admit(root, joined(root, "west"))
    assert not any("certificate" in text for text in wrong())

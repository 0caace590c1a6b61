"""What `deploy doctor` sees at a party: each fault by its own line, and nothing where nothing is wrong."""

import json
import os
import shutil
import socket
import time
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from support.command_line import cli
from support.consortium import deployment, write_tables

from fedualex.deploy.consortium import doctor
from fedualex.deploy.consortium.doctor import WRONG, examine, is_well


@pytest.fixture
def root(tmp_path):
    write_tables(tmp_path)
    return deployment(tmp_path, "auto", goal="logistic")


def wrong(folder, **options):
    """The lines of what is wrong, by what was looked at."""
    return {finding.about: finding.text for finding in examine(folder, **options) if finding.state == WRONG}


def test_a_new_kit_is_well_at_every_party(root):
    for party in ("server", "sites/north", "sites/west"):
        assert wrong(root / party) == {}
    said = cli("deploy", "doctor", root / "sites" / "west").output
    assert "the list of keys is signed by the authority, and has this site's own" in said
    assert "rows; `fedualex deploy check` shows what would leave" in said
    assert json.loads(cli("deploy", "doctor", root / "server", "--json").stdout)["well"]


def with_wrong_key(site):
    shutil.copy(site.parent / "north" / "secure" / "key.pem", site / "secure" / "key.pem")


def with_open_key(site):
    (site / "secure" / "key.pem").chmod(0o644)


def without_table(site):
    (site.parents[2] / "west.csv").unlink()


def with_another_rule(site):
    (site / "policy.toml").write_text("least_row = 3\n")


def with_a_changed_ledger(site):
    (site / "ledger.jsonl").write_text("{}\n")


def with_the_name_of_another(site):
    shutil.copy(site.parent / "north" / "engine.json", site / "engine.json")


def with_a_clock_that_is_behind(site):
    later = time.time() + 86400
    os.utime(site / "policy.toml", (later, later))


def with_an_old_certificate(site):
    key, name = generate_private_key(SECP256R1()), x509.Name([])
    then = datetime.now(UTC) - timedelta(days=400)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(then).not_valid_after(then + timedelta(days=360))
    (site / "client.crt").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


FAULTS = {
    with_wrong_key: ("masks", "has another key than this site's own"),
    with_open_key: ("keys", "chmod 600"),
    without_table: ("table", "west.csv"),
    with_another_rule: ("rules", "did you mean 'least_rows'"),
    with_a_changed_ledger: ("rules", "is damaged"),
    with_the_name_of_another: ("kit", "take the files of one kit"),
    with_a_clock_that_is_behind: ("clock", "set it"),
    with_an_old_certificate: ("certificates", "`fedualex deploy renew`"),
}


def test_check_looks_at_the_key_as_well(root):
    with_wrong_key(root / "sites" / "west")
    done = cli("deploy", "check", root / "sites" / "west")
    assert (done.exit_code, "has another key than this site's own" in " ".join(done.output.split())) == (2, True)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_fault_has_a_line_of_its_own(root, fault):
    site = root / "sites" / "west"
    fault(site)
    about, text = FAULTS[fault]
    assert text in wrong(site)[about]
    if about != "table":
        assert text in wrong(site, quick=True)[about]
    assert not is_well(examine(site, quick=about != "table"))


def test_a_full_disk_and_a_server_that_does_not_answer(root, monkeypatch):
    site = root / "sites" / "west"
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 1000))
    assert "make room" in wrong(site, quick=True)["disk"]
    settings = json.loads((site / "deployment.json").read_text())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        settings["server"] |= {"engine": "nvflare", "host": "127.0.0.1", "port": port}
        (site / "deployment.json").write_text(json.dumps(settings))
        assert "network" not in wrong(site, quick=True)
    assert "does a firewall let it through?" in wrong(site, quick=True)["network"]
    assert not is_well(examine(site, quick=True))

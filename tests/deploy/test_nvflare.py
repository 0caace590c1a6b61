"""The NVFlare adapter: real servers and sites as processes on loopback, with mutual TLS.

Whatever a test starts is ended by its process id, even when the test fails.
"""

import importlib
import importlib.util
import json
import logging
import os
import shutil
import signal
import socket
import ssl
import stat
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from cryptography.x509 import DNSName, SubjectAlternativeName, load_pem_x509_certificate, load_pem_x509_csr
from nvflare.apis.fl_exception import FLCommunicationError
from nvflare.fuel.flare_api.api_spec import AuthorizationError, InternalError, NoConnection
from support.deployments import free_port

from fedualex.deploy import processes
from fedualex.deploy.nvflare import control, control as local, job, job as sessions, keys, provision as party, roles
from fedualex.deploy.nvflare.provision import provision
from fedualex.deploy.party import Layout, read_log, write_entry
from fedualex.storage import is_disk_full

SITES = ["site-1", "site-2", "site-3"]
ENTRIES = {"serve": "support.nvflare_toys:average", "site": "support.nvflare_toys:load"}
PATIENCE = 240.0


class Trial:
    """A deployment of toys, with what the tests do to it."""

    def __init__(self, folder: Path, sites: list[str]) -> None:
        self.folder, self.sites = folder, sites
        self.port = free_port()
        provision(folder, sites, port=self.port, viewers=["guest"], **ENTRIES)

    def plan(self, **settings) -> None:
        (self.folder / "server" / "result.json").unlink(missing_ok=True)
        (self.folder / "server" / "plan.json").write_text(json.dumps({"size": 128, "timeout": 60.0} | settings))

    def order(self, site: str, **settings) -> None:
        (self.folder / "sites" / site / "orders.json").write_text(json.dumps(settings))

    def run(self, **settings) -> dict:
        self.plan(**settings)
        job.submit(self.folder, len(self.sites))
        assert job.wait(self.folder, PATIENCE) == "finished", self.logs()
        return self.result()

    def result(self) -> dict:
        file = self.folder / "server" / "result.json"
        return json.loads(file.read_text()) if file.exists() else {"rounds": 0}

    def until(self, done, what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < end, f"{what}\n{self.logs()}"
            time.sleep(0.2)

    def kill(self, *ids: int) -> None:
        assert ids
        for pid in ids:
            os.kill(pid, signal.SIGKILL)

    def pid(self, name: str) -> int:
        return json.loads((self.folder / "processes.json").read_text())["parties"][name]["pid"]

    def logs(self) -> str:
        return "\n".join(f"{file}:\n{file.read_text()[-3000:]}" for file in self.folder.rglob("log.txt"))


@pytest.fixture
def trial(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    trials = []

    def start(sites=SITES, up=True) -> Trial:
        trials.append(Trial(tmp_path / f"trial-{len(trials)}", list(sites)))
        if up:
            local.up(trials[-1].folder, timeout=PATIENCE)
        return trials[-1]

    yield start
    for started in trials:
        processes.down(started.folder)


def job_processes(folder, name) -> list[int]:
    """The ids of what a party has started for a job."""
    return [process.pid for process in processes.members(folder, name)][1:]


def expected(rounds: int, numbers=(1, 2, 3), size: int = 128):
    x = np.linspace(0.0, 1.0, size)
    for _ in range(rounds):
        x = np.mean([(x + number) / 2 for number in numbers], axis=0)
    return x


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'fedualex\[nvflare\]'"):
        importlib.reload(sys.modules["fedualex.deploy.nvflare"])


# Start-up kits


def test_a_log_in_that_a_busy_server_does_not_answer_is_repeated(tmp_path, monkeypatch):
    (tmp_path / "kit" / "startup").mkdir(parents=True)
    (tmp_path / "kit" / "startup" / "fed_admin.json").write_text('{"admin": {"username": "lead"}}')
    answers = [FLCommunicationError("error:client_registration"), Mock(spec=job.Session)]

    def log_in(*_, **__):
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(sessions, "new_secure_session", log_in)
    with job.session(tmp_path) as opened:
        assert opened is answers[0]
    monkeypatch.setattr(sessions, "CONNECT", 0.0)
    answers[:] = [FLCommunicationError("error:client_registration")]
    with pytest.raises(NoConnection, match="does not log lead in: error:client_registration"), job.session(tmp_path):
        pass


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kits") / "deployment"
    provision(folder, SITES, port=8002, viewers=["guest"], **ENTRIES)
    return folder


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        (
            "error: Exception Occurred: OSError: [Errno 28] No space left on device",
            OSError,
            "disk of the server is full",
        ),
        ("error: Exception Occurred: KeyError: 'x'", RuntimeError, "the server fails: error: Exception Occurred"),
    ],
)
def test_what_fails_at_the_server_is_told_in_words(tmp_path, monkeypatch, said, kind, sentence):
    """As a full disk, which it finds when it is asked how a job stands."""
    (tmp_path / "admin").mkdir()
    (tmp_path / "admin" / "job.json").write_text('{"job_id": "1"}')
    startup = tmp_path / "admin" / "kit" / "startup"
    startup.mkdir(parents=True)
    (startup / "fed_admin.json").write_text('{"admin": {"username": "admin"}}')
    opened = Mock()
    opened.get_job_status.side_effect = InternalError(said)
    monkeypatch.setattr(sessions, "_log_in", lambda user, kit: opened)
    with pytest.raises(kind, match=sentence) as error:
        sessions.state(tmp_path)
    assert is_disk_full(error.value) == (kind is OSError)
    opened.close.assert_called_once_with()


def test_a_site_keeps_its_name_in_a_folder_of_another(kits, tmp_path):
    """NVFlare logs nobody in whose name is not the one in its certificate."""
    moved = shutil.copytree(kits / "sites" / "site-1", tmp_path / "study")
    assert party.command(moved)[-1] == "uid=site-1"


def test_a_clock_that_is_wrong_is_one_sentence(kits):
    site = kits / "sites" / "site-1"
    now = datetime.now(UTC)
    party.check_clock(site, now)
    for wrong in (now - timedelta(hours=1), now + timedelta(days=400)):
        with pytest.raises(
            SystemExit, match=rf"client.crt is valid from .* clock says {wrong:%Y-%m-%d %H:%M} UTC: set"
        ):
            party.check_clock(site, wrong)


def test_a_site_has_a_log_as_soon_as_a_run_begins(tmp_path, monkeypatch):
    tmp_path = tmp_path / "site-1"
    tmp_path.mkdir()
    write_entry(tmp_path, "north", "support.nvflare_toys:load")
    monkeypatch.setattr(roles, "_folder", lambda: tmp_path)
    known = list(logging.getLogger("fedualex").handlers)
    try:
        roles.SiteRole().load()
    finally:
        for handler in set(logging.getLogger("fedualex").handlers) - set(known):
            logging.getLogger("fedualex").removeHandler(handler)
            handler.close()
    assert [(line["party"], line["message"].split(",")[0]) for line in read_log(tmp_path)] == [
        ("north", "a run begins")
    ]


def test_server_and_submitter_make_their_own_keys_and_are_who_the_provisioner_would_make_them(kits, tmp_path):
    provision(tmp_path, SITES, host="fl.example.org", own_keys=True, **ENTRIES)
    layout = Layout(tmp_path)
    assert not list(tmp_path.rglob("*.key"))
    for name, file in (("server", "server.crt"), ("admin", "client.crt")):
        home = layout.party(name)
        assert f"{file} goes to {name}" in control.admit(tmp_path, name, control.make_public(home / "secure", name))
        keys.install_own_key(home, home / "secure")
        made = load_pem_x509_certificate((home / "kit" / "startup" / file).read_bytes())
        theirs = load_pem_x509_certificate((Layout(kits).party(name) / "kit" / "startup" / file).read_bytes())
        told, expected = ([(part.oid, part.value) for part in one.subject] for one in (made, theirs))
        assert told == [(oid, "fl.example.org" if value == "localhost" else value) for oid, value in expected]
        assert [extension.oid for extension in made.extensions] == [extension.oid for extension in theirs.extensions]
    names = load_pem_x509_certificate((layout.server / "kit" / "startup" / "server.crt").read_bytes())
    alternatives = names.extensions.get_extension_for_class(SubjectAlternativeName).value
    assert "fl.example.org" in alternatives.get_values_for_type(DNSName)
    with pytest.raises(ValueError, match="the signing request of server is not its own"):
        control.admit(tmp_path, "server", control.make_public(layout.admin / "secure", "admin"))


def test_a_site_makes_its_own_key_and_the_authority_signs_it(tmp_path):
    provision(tmp_path, SITES, port=8002, own_keys=True, **ENTRIES)
    layout = Layout(tmp_path)
    home = layout.site(SITES[0])
    startup, own = home / "kit" / "startup", home / "secure"
    assert not list(layout.site("").rglob("*.key"))  # nobody made one for a site
    with pytest.raises(PermissionError, match=r"has no client.crt yet: `fedualex deploy join`"):
        keys.install_own_key(home, own)
    asked = control.make_public(own, SITES[0])
    assert load_pem_x509_csr(asked.encode()).is_signature_valid
    with pytest.raises(ValueError, match=f"the signing request of {SITES[1]} is not its own"):
        control.admit(tmp_path, SITES[1], asked)
    assert "client.crt goes to" in control.admit(tmp_path, SITES[0], asked)
    made = load_pem_x509_certificate((startup / "client.crt").read_bytes())
    made.verify_directly_issued_by(load_pem_x509_certificate((startup / "rootCA.pem").read_bytes()))
    control.admit(tmp_path, "server", control.make_public(layout.server / "secure", "server"))
    other = load_pem_x509_certificate((layout.server / "kit" / "startup" / "server.crt").read_bytes())
    assert made.issuer == other.issuer
    keys.install_own_key(home, own)
    private = (startup / "client.key").read_bytes()
    assert private == (own / "transport.key").read_bytes()
    assert stat.S_IMODE((startup / "client.key").stat().st_mode) == 0o600

    (own / "transport.key").unlink()  # a new key: until its certificate comes, the site goes on with the former one
    again = control.make_public(own, SITES[0])
    keys.install_own_key(home, own)
    assert (startup / "client.key").read_bytes() == private
    control.admit(tmp_path, SITES[0], again)
    keys.install_own_key(home, own)
    assert (startup / "client.key").read_bytes() == (own / "transport.key").read_bytes() != private
    (own / "transport.key").unlink()
    (startup / "client.key").unlink()
    with pytest.raises(PermissionError, match="is of another key than this party's own"):
        keys.install_own_key(home, own)


def test_each_party_gets_its_own_key_and_a_narrow_policy(kits):
    parties = [
        kits / "server",
        kits / "admin",
        kits / "viewers" / "guest",
        *(kits / "sites" / s for s in SITES),
    ]
    keys = [key for own in parties for key in own.rglob("*.key")]
    assert len(keys) == len(parties) == len({key.read_text() for key in keys})
    assert all(stat.S_IMODE(key.stat().st_mode) == 0o600 for key in keys)
    secrets = [file for file in kits.rglob("*") if file.is_file() and "PRIVATE KEY" in file.read_text()]
    assert set(secrets) == {*keys, kits / "authority/deployment/state/cert.json"}
    assert stat.S_IMODE((kits / "authority/deployment/state/cert.json").stat().st_mode) == 0o600
    authority = json.loads((kits / "authority/deployment/state/cert.json").read_text())
    assert set(authority) == {"root_cert", "root_pri_key"}
    for own in (kits / "server", kits / "sites" / "site-1"):
        rights = json.loads((own / "kit/local/authorization.json").read_text())["permissions"]
        assert set(rights) == {"lead", "member"}
        assert rights["member"] == {"view": "any"}
        assert rights["lead"]["byoc"] == rights["lead"]["shell_commands"] == "none"
        assert len(json.loads((own / "kit/local/resources.json").read_text())["class_allow_list"]) == 2
    assert all(os.access(own / "start.sh", os.X_OK) for own in parties)
    with pytest.raises(FileExistsError, match="holds a deployment already"):
        provision(kits, SITES, **ENTRIES)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"sites": []}, "sites must be at least one name"),
        ({"sites": ["a b"]}, "a site's name must be a letter"),
        ({"sites": ["server"]}, "none of server"),
        ({"sites": ["a", "a"]}, "each once"),
        ({"sites": ["a"], "port": 0}, "port must be between"),
        ({"sites": ["a"], "serve": "nothing"}, "entry='nothing' must name a function"),
    ],
)
def test_provision_refuses(tmp_path, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        provision(tmp_path / "deployment", **(ENTRIES | arguments))


# Runs


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_smoke(trial):
    """Two sites, twenty rounds, one of them with a failure; the smoke test of `make test` is in test_deployed.py."""
    started = trial(SITES[:2])
    started.order("site-2", **{"raise": 3})
    result = started.run(rounds=20)
    assert result["sites"] == SITES[:2]
    assert result["errors"] == [[3, "site-2", "the site raised ValueError (its log says more)"]]
    assert np.array_equal(result["x"], _with_a_gap(20, 3))
    assert "secret 4711" in (started.folder / "sites/site-2/log.txt").read_text()
    assert "secret 4711" not in "".join(
        file.read_text(errors="replace") for file in (started.folder / "server").rglob("*") if file.is_file()
    )
    job.fetch(started.folder, started.folder / "fetched")
    assert json.loads((started.folder / "fetched/run/status.json").read_text()) == {"rounds": 20}
    submitted = json.loads((started.folder / "admin/job.json").read_text())["job_id"]
    with job.session(started.folder / "viewers/guest") as opened, pytest.raises(AuthorizationError):
        opened.download_job_result(submitted, str(started.folder / "spied"))
    assert processes.alive_parties(started.folder) == {"server": True, "site-1": True, "site-2": True}
    pids = [started.pid(name) for name in ("server", *started.sites)]
    processes.down(started.folder)
    assert not any(Path(f"/proc/{pid}/cmdline").exists() and _is_ours(pid, started) for pid in pids)


def _with_a_gap(rounds: int, gap: int):
    x = np.linspace(0.0, 1.0, 128)
    for r in range(rounds):
        x = np.mean([(x + number) / 2 for number in ((1,) if r == gap else (1, 2))], axis=0)
    return x


def _is_ours(pid: int, started: Trial) -> bool:
    return str(started.folder) in Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_three_sites_faulty_answers_and_stragglers(trial):
    started = trial()
    started.order("site-2", **{"raise": 5})
    started.order("site-3", sleep=7, seconds=12.0, object=9)
    result = started.run(rounds=50, timeout=6.0)
    more = "(its log says more)"
    assert result["errors"] == [
        [5, "site-2", f"the site raised ValueError {more}"],
        [7, "site-3", "timeout"],
        [9, "site-3", f"the site raised TypeError {more}"],
    ]
    assert result["sites"] == SITES
    assert result["rounds"] == 50
    x = np.linspace(0.0, 1.0, 128)
    for r in range(50):
        numbers = {5: (1, 3), 7: (1, 2), 9: (1, 2)}.get(r, (1, 2, 3))
        x = np.mean([(x + number) / 2 for number in numbers], axis=0)
    assert np.array_equal(result["x"], x)
    assert sorted(result["seconds"])[-2] < 6.0  # only the straggler's round waited
    assert list((started.folder / "server/store/jobs").iterdir())

    (started.folder / "sites/site-1/unloadable").touch()  # the next job goes on without it
    for site in SITES[1:]:
        started.order(site)
    result = started.run(rounds=10)
    assert {(site, error) for _, site, error in result["errors"]} == {
        ("site-1", f"refused: the site cannot be loaded: OSError {more}")
    }
    assert np.array_equal(result["x"], expected(10, (2, 3)))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_site_is_silent_until_the_next_job(trial):
    started = trial()
    started.plan(rounds=15, timeout=5.0, pause=0.3)
    job.submit(started.folder, 3)
    started.until(lambda: started.result()["rounds"] >= 4, "four rounds")
    started.kill(started.pid("site-3"), *job_processes(started.folder, "site-3"))
    # The loop goes on to its end; NVFlare calls the job failed if it has missed a site for a minute by then.
    assert job.wait(started.folder, PATIENCE) in ("finished", "failed"), started.logs()
    result = started.result()
    assert result["rounds"] == 15
    first = result["errors"][0][0]
    assert result["errors"] == [[r, "site-3", "timeout"] for r in range(first, 15)]
    assert processes.alive_parties(started.folder)["site-3"] is False
    local.start(started.folder, "site-3")
    started.until(lambda: job.connected_sites(started.folder) == SITES, "site-3 to come back")
    result = started.run(rounds=10)
    assert result["errors"] == []
    assert np.array_equal(result["x"], expected(10))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("victim", ["server", "site-1"])
def test_a_killed_job_is_sent_again(trial, victim):
    started = trial()
    started.plan(rounds=40, timeout=10.0, pause=0.2, resume=True)
    first = job.submit(started.folder, 3)
    started.until(lambda: started.result()["rounds"] >= 4, "four rounds")
    with pytest.raises(RuntimeError, match="is running: `fedualex deploy stop` ends it"):
        job.submit(started.folder, 3)
    started.kill(*job_processes(started.folder, victim))
    assert job.wait(started.folder, PATIENCE) in ("failed", "lost", "aborted"), started.logs()
    assert started.result()["rounds"] < 40
    assert job.submit(started.folder, 3) != first
    assert job.wait(started.folder, PATIENCE) == "finished", started.logs()
    assert np.array_equal(started.result()["x"], expected(40))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_killed_server_comes_back_and_the_job_is_sent_again(trial):
    started = trial()
    started.plan(rounds=40, timeout=10.0, pause=0.2, resume=True)
    job.submit(started.folder, 3)
    started.until(lambda: started.result()["rounds"] >= 4, "four rounds")
    started.kill(started.pid("server"), *job_processes(started.folder, "server"))
    assert job.state(started.folder) == "unreachable"
    local.start(started.folder, "server")
    started.until(lambda: job.connected_sites(started.folder) == SITES, "the sites to come back")
    assert job.wait(started.folder, PATIENCE) == "lost"
    job.submit(started.folder, 3)
    assert job.wait(started.folder, PATIENCE) == "finished", started.logs()
    assert np.array_equal(started.result()["x"], expected(40))
    started.until(lambda: not any(job_processes(started.folder, s) for s in SITES), "old job processes to end")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_abort_and_a_broken_loop(trial):
    started = trial(SITES[:1])
    started.plan(rounds=10_000, pause=0.1)
    job.submit(started.folder, 1)
    started.until(lambda: started.result()["rounds"] >= 3, "three rounds")
    job.abort(started.folder)
    assert job.state(started.folder) == "aborted"
    started.until(lambda: not job_processes(started.folder, "server"), "the job to end")
    assert started.result()["rounds"] < 10_000
    (started.folder / "server/engine.json").write_text('{"name": "server", "entry": "support.nvflare_toys:fail"}')
    job.submit(started.folder, 1)
    assert job.wait(started.folder, PATIENCE) == "failed"


# Who is refused


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_strangers_wrong_certificates_and_people_without_rights_are_refused(trial):
    started, other = trial(SITES[:2], up=False), trial(["stranger"], up=False)
    folder = started.folder
    _allow_code_at_the_server(folder)
    local.start(folder, "server", "site-1")
    started.until(lambda: job.connected_sites(folder) == ["site-1"], "site-1")

    # A site of another authority, and a site that shows another site's certificate.
    target = other.folder / "sites/stranger/kit/startup/fed_client.json"
    target.write_text(target.read_text().replace(str(other.port), str(started.port)))
    local.start(other.folder, "stranger")
    for name in ("client.crt", "client.key"):
        shutil.copy(folder / "sites/site-1/kit/startup" / name, folder / "sites/site-2/kit/startup" / name)
    local.start(folder, "site-2")
    own, strange = folder / "sites/site-1/kit/startup", other.folder / "sites/stranger/kit/startup"
    assert _handshake(started.port, own, own)
    with pytest.raises(ssl.SSLCertVerificationError):  # the stranger refuses the server
        _handshake(started.port, strange, strange)
    assert _handshake(started.port, own, strange) == b""  # and the server has no word for the stranger
    refusal = "authenticated as 'site-1' but claimed endpoint 'site-2'"
    started.until(lambda: refusal in (folder / "server/log.txt").read_text(), "the false site-2's refusal")
    time.sleep(10.0)
    assert job.connected_sites(folder) == ["site-1"]

    # People: one who may only look, and an administrator of another authority.
    with job.session(folder / "viewers/guest") as opened:
        assert [client.name for client in opened.get_system_info().client_info] == ["site-1"]
        with pytest.raises(AuthorizationError):
            opened.submit_job(str(job.write_job(folder / "viewers/guest/job", 1)))
    kit = other.folder / "admin/kit/startup/fed_admin.json"
    kit.write_text(kit.read_text().replace(str(other.port), str(started.port)))
    with pytest.raises(NoConnection), job.session(other.folder / "admin"):
        pass

    # The submitter: no code of his own, no other class, no shell, even if the server would let him.
    with job.session(folder / "admin") as opened:
        with pytest.raises(AuthorizationError):
            opened.ls_target("site-1")
        code = job.write_job(folder / "admin/code", 1)
        (code / "app/custom").mkdir()
        (code / "app/custom/own.py").write_text("")
        meta = opened.get_job_meta(_ended(opened, opened.submit_job(str(code))))
        assert meta["status"] == "FINISHED:FAILED_TO_RUN"
        assert any("site-1" in line and "BYOC not permitted" in line for line in meta["job_deploy_detail"])
        other_class = job.write_job(folder / "admin/class", 1)
        config = other_class / "app/config/config_fed_client.json"
        found = json.loads(config.read_text())
        arguments = {"args": ["touch", str(folder / "touched")]}
        found["components"].append({"id": "x", "path": "subprocess.Popen", "args": arguments})
        config.write_text(json.dumps(found))
        meta = opened.get_job_meta(_ended(opened, opened.submit_job(str(other_class))))
        assert meta["status"] != "FINISHED:COMPLETED"
        assert "'subprocess.Popen' at config path" in (folder / "sites/site-1/log.txt").read_text()
        assert not (folder / "touched").exists()


def _handshake(port: int, authority: Path, party: Path) -> bytes:
    """The first word of the server to this party, which holds its certificate against this authority."""
    context = ssl.create_default_context(cafile=str(authority / "rootCA.pem"))
    context.load_cert_chain(party / "client.crt", party / "client.key")
    context.set_alpn_protocols(["h2"])
    raw = socket.create_connection(("127.0.0.1", port), timeout=30.0)
    with raw, context.wrap_socket(raw, server_hostname="localhost") as connection:
        try:
            return connection.recv(1)
        except (ssl.SSLError, ConnectionError):  # an alert, or cut off
            return b""


def _allow_code_at_the_server(folder: Path) -> None:
    file = folder / "server/kit/local/authorization.json"
    file.write_text(file.read_text().replace('"byoc": "none"', '"byoc": "any"'))


def _ended(opened, job_id: str) -> str:
    end = time.monotonic() + PATIENCE
    while not opened.get_job_status(job_id).startswith("FINISHED"):
        assert time.monotonic() < end
        time.sleep(0.5)
    return job_id


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_server_listens_on_loopback_alone(trial):
    import psutil

    started = trial(SITES[:1])
    connections = psutil.Process(started.pid("server")).net_connections(kind="inet")
    listening = {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}
    assert listening
    assert listening <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


# What a round costs


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_round_overhead_and_memory(trial, record_property):
    """Printed with `pytest -s`; benchmarks/results/deployment.md quotes such a run."""
    started = trial()
    for size, rounds in ((128, 200), (131_072, 30), (1_310_720, 12)):
        seconds = np.array(started.run(rounds=rounds, size=size)["seconds"][2:])
        median, worst = float(np.median(seconds)), float(seconds.max())
        record_property(f"seconds_at_{8 * size}_bytes", median)
        print(f"\n{8 * size:>10} bytes: median {median:.4f} s a round, worst {worst:.3f} s")
        if size == 128:
            assert median <= 0.1
    result = started.run(rounds=500)
    assert result["rounds"] == 500
    assert result["errors"] == []
    assert np.array_equal(result["x"], expected(500))
    memory = dict(map(tuple, result["memory"]))
    record_property("memory", memory)
    print("MB of the server's job process after rounds:", {r: round(mb) for r, mb in memory.items()})
    assert memory[500] - memory[50] < 150


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twelve_sites(trial):
    """Seconds and memory are printed with `pytest -s`; benchmarks/results/deployment.md quotes such a run."""
    names = [f"site-{number}" for number in range(1, 13)]
    began = time.monotonic()
    started = trial(names)
    up = time.monotonic() - began
    started.plan(rounds=100, pause=0.1)
    job.submit(started.folder, len(names))
    started.until(lambda: started.result()["rounds"] >= 5, "five rounds")
    members = {name: processes.members(started.folder, name) for name in ("server", *names)}
    memory = {name: sum(one.memory_full_info().pss for one in found) / 1e6 for name, found in members.items()}
    assert job.wait(started.folder, PATIENCE) == "finished", started.logs()
    result = started.result()
    assert result["errors"] == []
    assert result["sites"] == sorted(names)
    seconds = np.array(result["seconds"][2:])
    print(
        f"\n12 sites: up after {up:.0f} s, median {np.median(seconds):.4f} s, worst {seconds.max():.3f} s of {len(seconds)}; "
        f"MB of all processes {sum(memory.values()):.0f}, of a site {np.median([memory[name] for name in names]):.0f}"
    )

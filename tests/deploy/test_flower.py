"""The Flower adapter: its mapping in process, and real SuperLink and SuperNodes with TLS and keys on loopback."""

import configparser
import json
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity
from support.flower_toy import ADDS

from fedualex import flower_client
from fedualex.deploy import party, processes
from fedualex.deploy.engine import Request
from fedualex.deploy.flower import app, app as carrier, control, keys, layout, runs, runs as commands, trial, worker
from fedualex.deploy.flower.provision import provision
from fedualex.deploy.party import resolve, write_entry
from fedualex.deploy.wire import CarriedEngine, request_to_bytes

TOY = {"serve": "support.flower_toy:serve", "site": "support.flower_toy:load"}
NODES = {"a": 11, "b": 12, "c": 13}
NAMES = {name.encode(): name for name in NODES}
"""What `names_by_key` says in these tests, in which a node's key is its name."""
X = np.array([1 / 3, np.pi, 1e-300])


class Board(Grid):
    """Flower's message board in this process: what a node sends back is up to the test."""

    def __init__(self, answer: Callable[[str, Message], Message | None]) -> None:
        self.answer = answer
        self.nodes = dict(NODES)
        self.posted: dict[str, Message] = {}
        self.one_at_a_time = threading.Lock()

    def set_run(self, run: Any) -> None: ...

    @property
    def run(self) -> Any: ...

    def create_message(self, *arguments: Any, **options: Any) -> Any: ...

    def get_node_ids(self) -> list[int]:
        return list(self.nodes.values())

    def get_nodes(self) -> list[Any]:
        nodes = [SimpleNamespace(node_id=number, public_key=name.encode()) for name, number in self.nodes.items()]
        return [*nodes, SimpleNamespace(node_id=99, public_key=b"a stranger's")]

    def push_messages(self, messages: Any) -> list[str]:
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"m{len(self.posted)}"
            self.posted[message.metadata.message_id] = message
        return [message.metadata.message_id for message in messages]

    def pull_messages(self, message_ids: Any) -> list[Message]:
        numbers = {number: name for name, number in self.nodes.items()}
        posted = [self.posted[number] for number in message_ids]
        with self.one_at_a_time:
            answers = [self.answer(numbers[message.metadata.dst_node_id], message) for message in posted]
        return [answer for answer in answers if answer is not None]

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Message]:
        raise NotImplementedError


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, Message], Message]:
    """The real ClientApp, as a node of this name, whose folder is told by its node's configuration."""
    monkeypatch.setattr(TaskIdentity, "_run_id", 7)
    monkeypatch.setattr(TaskIdentity, "_task_id", 8)
    monkeypatch.setattr(TaskIdentity, "_node_id", 1)
    monkeypatch.setattr(carrier, "names_by_key", lambda folder: NAMES)
    monkeypatch.setattr(party, "write_log", lambda party: None)
    flower_client._answerer_of.cache_clear()
    for name in NODES:
        (tmp_path / "sites" / name).mkdir(parents=True)
        write_entry(tmp_path / "sites" / name, name, TOY["site"])

    def answer(name: str, message: Message) -> Message:
        monkeypatch.setattr(TaskIdentity, "_node_id", NODES[name])
        try:
            return flower_client.client(message=message, context=context_of({"folder": str(tmp_path / "sites" / name)}))
        finally:
            monkeypatch.setattr(TaskIdentity, "_node_id", 1)

    return answer


def context_of(node: dict[str, Any], run: dict[str, Any] | None = None) -> Context:
    return Context(run_id=7, node_id=1, node_config=node, state=RecordDict(), run_config=run or {})


def flower_engine_of(*arguments):
    return CarriedEngine(carrier.Board(*arguments))


def request(number: int = 4, **arrays: Any) -> Request:
    return Request("round", number, "run", {"x": X, **arrays})


def test_numbers_arrive_bit_for_bit_and_a_name_follows_from_the_key(work, tmp_path):
    board = Board(work)
    engine = flower_engine_of(board, tmp_path, tmp_path / "stop")
    assert engine.sites() == ["a", "b", "c"]
    replies = engine.broadcast(request(), ["c", "a"], timeout=30.0)
    assert [reply.site for reply in replies] == ["c", "a"]
    for reply in replies:
        assert reply.error is None
        assert (reply.round, reply.run_id) == (4, "run")
        assert reply.arrays["x"].tobytes() == (X + ADDS[reply.site]).tobytes()
    assert {message.metadata.dst_node_id for message in board.posted.values()} == {11, 13}


def test_a_site_that_raises_is_an_error_and_the_others_count(work, tmp_path):
    replies = flower_engine_of(Board(work), tmp_path, tmp_path / "stop").broadcast(
        request(fault=1), ["a", "b", "c"], 30.0
    )
    assert [reply.error for reply in replies] == [None, "the site raised ArithmeticError (its log says more)", None]


@pytest.mark.slow
def test_silent_and_absent_sites_are_named(work, tmp_path):
    board = Board(lambda name, message: None if name == "b" else work(name, message))
    del board.nodes["c"]
    replies = flower_engine_of(board, tmp_path, tmp_path / "stop").broadcast(request(), ["a", "b", "c"], 3.0)
    assert [reply.error for reply in replies] == [None, "timeout", "not connected"]
    assert all((reply.arrays is None) == (reply.error is not None) for reply in replies)


@pytest.mark.slow
def test_a_pull_that_blocks_holds_up_nobody(work, tmp_path):
    """As when a site dies while it replies: Flower's pull then waits for minutes."""
    released = threading.Event()

    class Blocking(Board):
        def pull_messages(self, message_ids: Any) -> list[Message]:
            if any(self.posted[number].metadata.dst_node_id == NODES["b"] for number in message_ids):
                released.wait(60)
                return []
            return super().pull_messages(message_ids)

    began = time.monotonic()
    replies = flower_engine_of(Blocking(work), tmp_path, tmp_path / "stop").broadcast(request(), ["a", "b", "c"], 3.0)
    took = time.monotonic() - began
    released.set()
    assert [reply.error for reply in replies] == [None, "timeout", None]
    assert took < 20


@pytest.mark.parametrize("broken", ["push_messages", "pull_messages", "get_nodes"])
def test_an_overloaded_superlink_costs_a_round_and_not_the_run(tmp_path, work, monkeypatch, broken):
    def refuse(*arguments: Any) -> Any:
        raise ConnectionError("500 Internal Server Error")

    board = Board(work)
    engine = flower_engine_of(board, tmp_path, tmp_path / "stop")
    with monkeypatch.context() as patch:
        patch.setattr(board, broken, refuse)
        errors = {reply.error for reply in engine.broadcast(request(), ["a", "b"], 0.3)}
    words = {"push_messages": "not sent: the SuperLink's log says why", "pull_messages": "timeout"}
    assert errors == {words.get(broken, "not connected")}
    assert [reply.error for reply in engine.broadcast(request(), ["a", "b"], 30.0)] == [None, None]


def test_without_keys_nodes_say_who_they_are(work, tmp_path):
    """As in Flower's simulation."""

    class Simulation(Board):
        def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Message]:
            return self.pull_messages(self.push_messages(messages))

    board = Simulation(work)
    engine = flower_engine_of(board, tmp_path / "no keys", tmp_path / "stop")
    assert engine.sites() == ["a", "b", "c"]
    assert len(board.posted) == 3
    assert [reply.error for reply in engine.broadcast(request(), ["c", "a"], 30.0)] == [None, None]
    assert len(board.posted) == 5  # nobody was asked again


def test_a_nodes_folder_is_its_own_word_or_its_number_in_a_simulation(tmp_path):
    for name in ("b", "a"):
        (tmp_path / "sites" / name).mkdir(parents=True)
    run = {"folder": str(tmp_path / "server")}
    assert flower_client.site_folder(context_of({"folder": "/somewhere/x"}, run)) == Path("/somewhere/x")
    for number, name in enumerate("ab"):
        assert flower_client.site_folder(context_of({"partition-id": number}, run)) == tmp_path / "sites" / name
    with pytest.raises(ValueError, match="--node-config must have folder"):
        flower_client.site_folder(context_of({}, run))


def test_the_server_app_leaves_word_of_how_it_ended(work, tmp_path, monkeypatch):
    home = tmp_path / "server"
    home.mkdir()
    (home / "keys").mkdir()
    write_entry(home, "server", TOY["serve"])
    (tmp_path / "plan.json").write_text(json.dumps([(3, 0, 30.0)] * 2))
    app.serve(Board(work), context_of({}, {"folder": str(home)}))
    assert [line["a"] for line in lines(tmp_path)] == [True, True]
    assert json.loads((home / "outcome.json").read_text())["phase"] == "finished"
    (tmp_path / "plan.json").write_text("void")
    with pytest.raises(json.JSONDecodeError):
        app.serve(Board(work), context_of({}, {"folder": str(home)}))
    assert json.loads((home / "outcome.json").read_text())["error"].startswith("JSONDecodeError")


def test_a_worker_has_the_site_loaded_for_all_messages_of_a_run(work, tmp_path, monkeypatch):
    home, loads = tmp_path / "sites" / "a", []

    def load(folder):
        loads.append(folder)
        if len(loads) == 1:
            raise OSError("no table yet")
        return resolve(TOY["site"])(folder)

    monkeypatch.setattr(worker, "read_entry", lambda folder: load)
    started = worker.SiteWorker(home)
    thread = threading.Thread(target=started.serve)
    thread.start()
    try:
        engine = flower_engine_of(Board(work), tmp_path, tmp_path / "stop")
        [reply] = engine.broadcast(request(), ["a"], 30.0)
        assert "the site cannot be loaded: OSError" in reply.error  # the next message tries again
        for _ in range(3):
            [reply] = engine.broadcast(request(), ["a"], 30.0)
            assert reply.arrays["x"].tobytes() == (X + ADDS["a"]).tobytes()
        assert len(loads) == 2
        message = request_to_bytes(request())
        assert flower_client.ask_worker(home, "another run", message)
        assert len(loads) == 3  # its table may have been corrected
        place = json.loads((home / flower_client.WORKER).read_text())
        assert stat.S_IMODE((home / flower_client.WORKER).stat().st_mode) == 0o600
        (home / flower_client.WORKER).write_text(json.dumps({**place, "word": "guessed"}))
        assert flower_client.ask_worker(home, "7", message) is None
    finally:
        started.close()
        thread.join()
    [reply] = flower_engine_of(Board(work), tmp_path, tmp_path / "stop").broadcast(request(), ["a"], 30.0)
    assert reply.arrays["x"].tobytes() == (X + ADDS["a"]).tobytes()  # without a worker the message's process does it


def test_what_a_message_starts_does_not_wait_for_what_it_does_not_need():
    heavy = "import sys, fedualex.flower_client; print([m for m in ('jax', 'fedualex.deploy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_late_and_forged_replies_are_not_taken(work, tmp_path):
    late: list[Message] = []

    def answer(name: str, message: Message) -> Message | None:
        reply = work(name, message)
        if name == "a":  # the reply to this round comes in the next one
            late.append(reply)
            return late[0] if message.metadata.message_id != late[0].metadata.reply_to_message_id else None
        if name == "b":  # somebody who knows everything but the ticket
            reply.content.config_records["fedualex"]["ticket"] = "guess"
        if name == "c":
            reply.metadata.__dict__["_src_node_id"] = NODES["b"]
        return reply

    engine = flower_engine_of(Board(answer), tmp_path, tmp_path / "stop")
    engine.broadcast(request(4), ["a"], 0.05)
    replies = engine.broadcast(request(5), ["a", "b", "c"], 3.0)
    assert replies[0].error == "timeout"
    assert replies[1].error == "reply to another request"
    assert replies[2].error == "reply from another node"


def test_an_error_of_the_superlink_is_mapped_by_the_message_it_answers(work, tmp_path):
    def answer(name: str, message: Message) -> Message:
        if name != "b":
            return work(name, message)
        reply = Message(Error(5, "gone"), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = 1
        return reply

    replies = flower_engine_of(Board(answer), tmp_path, tmp_path / "stop").broadcast(request(), ["a", "b", "c"], 30.0)
    assert [reply.error for reply in replies] == [None, "the site is gone: gone", None]


@pytest.mark.parametrize("record", ["message", "ticket", None])
def test_a_reply_that_lacks_a_part_is_malformed(work, tmp_path, record):
    def answer(name: str, message: Message) -> Message:
        reply = work(name, message)
        if record is None:
            del reply.content["fedualex"]
        else:
            reply.content.config_records["fedualex"][record] = 3
        return reply

    [reply] = flower_engine_of(Board(answer), tmp_path, tmp_path / "stop").broadcast(request(), ["a"], 30.0)
    assert reply.error.startswith("malformed reply")


def test_a_stop_ends_the_wait(tmp_path, work):
    engine = flower_engine_of(Board(lambda name, message: None), tmp_path, tmp_path / "stop")
    assert not engine.stopped()
    (tmp_path / "stop").touch()
    assert engine.stopped()
    assert [reply.error for reply in engine.broadcast(request(), ["a"], 600.0)] == ["stopped"]


def test_only_public_modules_of_flower_are_used():
    files = [*Path(app.__file__).parent.glob("*.py"), Path(flower_client.__file__)]
    sources = [file.read_text() for file in files]
    used = {module for source in sources for module in re.findall(r"^\s*(?:from|import) (flwr[\w.]*)", source, re.M)}
    assert used == {"flwr.app", "flwr.serverapp", "flwr.clientapp"}


def test_entry_points():
    assert resolve("support.flower_toy:load").__name__ == "load"
    for bad in ("support.flower_toy", "support.flower_toy:nothing", "support.flower_toy:ADDS"):
        with pytest.raises(ValueError, match=f"entry='{bad}' must name a function"):
            resolve(bad)


def test_a_missing_extra_is_one_sentence():
    code = "import sys; sys.modules['flwr'] = None; import fedualex.deploy; import fedualex.deploy.flower"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip().splitlines()[-1] == (
        "ModuleNotFoundError: fedualex.deploy.flower needs Flower, which is not installed: pip install 'fedualex[flower]'"
    )


def test_everybody_gets_what_he_needs_and_no_key_of_another(tmp_path):
    provision(tmp_path, ["a", "b"], host="example.org", port=9000, **TOY)
    files = {str(path.relative_to(tmp_path)): path for path in tmp_path.rglob("*") if path.is_file()}
    site = ("ca.crt", "engine.json", "node.key", "start.sh")
    units = {"server/fedualex-server.service", "sites/a/fedualex-a.service", "sites/b/fedualex-b.service"}
    assert set(files) - units == {
        *("authority/ca.crt", "authority/ca.key"),
        *(f"server/{name}" for name in ("address.json", "app/pyproject.toml", "ca.crt", "keys/a.pub", "keys/b.pub")),
        *(f"server/{name}" for name in ("engine.json", "server.crt", "server.key", "start.sh")),
        *(f"sites/{name}/{file}" for name in "ab" for file in site),
    }
    for name in units:
        unit = configparser.ConfigParser(strict=False)
        unit.read_string(files[name].read_text())
        place = f"/srv/fedualex/{Path(name).parent.name}"
        assert (unit["Service"]["ExecStart"], unit["Service"]["ReadWritePaths"]) == (f"{place}/start.sh", place)
    private = {name for name, path in files.items() if b"PRIVATE KEY" in path.read_bytes()}
    assert private == {"authority/ca.key", "server/server.key", "sites/a/node.key", "sites/b/node.key"}
    assert len({files[name].read_bytes() for name in private}) == 4
    assert all(stat.S_IMODE(files[name].stat().st_mode) == 0o600 for name in private)
    for home in ("authority", "server", "sites/a", "sites/b"):
        assert stat.S_IMODE((tmp_path / home).stat().st_mode) == 0o700
    assert sorted(keys.names_by_key(tmp_path / "server/keys").values()) == ["a", "b"]
    assert "--superlink example.org:9000" in files["sites/a/start.sh"].read_text()
    context = ssl.create_default_context(cafile=str(files["sites/a/ca.crt"]))
    assert len(context.get_ca_certs()) == 1
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files["server/server.crt"], files["server/server.key"])
    with pytest.raises(FileExistsError, match="holds a deployment already"):
        provision(tmp_path, ["a"], host="example.org", port=9000, **TOY)


@pytest.mark.parametrize(
    ("sites", "host", "port", "sentence"),
    [
        ([], "h", 1, "sites must be at least one name"),
        (["a", "a"], "h", 1, "each once"),
        (["../a"], "h", 1, "a site's name must be a letter"),
        (["a"], "h; rm", 1, "host must be a name or an IPv4 address, got 'h; rm'"),
        (["a"], "h", 0, "port must be between 1 and 65535, got 0"),
    ],
)
def test_a_bad_deployment_is_refused_before_anything_is_written(tmp_path, sites, host, port, sentence):
    with pytest.raises(ValueError, match=sentence):
        provision(tmp_path / "new", sites, host=host, port=port, **TOY)
    assert not (tmp_path / "new").exists()


def a_request_of(name: str) -> str:
    request = x509.CertificateSigningRequestBuilder().subject_name(keys._name(name))
    return request.sign(keys.new_key(), hashes.SHA384()).public_bytes(serialization.Encoding.PEM).decode()


def test_a_site_makes_its_own_key_and_the_server_registers_it_in_place_of_a_former_one(tmp_path, monkeypatch):
    provision(tmp_path, ["a", "b"], host="example.org", port=9000, own_keys=True, **TOY)
    server, home = tmp_path / "server", tmp_path / "sites" / "a"
    assert {path.name for path in tmp_path.rglob("*.key")} == {"ca.key"}  # nobody made one for a party
    assert "--ssl-keyfile secure/server.key" in (server / "start.sh").read_text()
    asked = control.make_public(server / "secure", "server")
    assert control.admit(tmp_path, "server", asked) == f"{server / 'server.crt'} goes to the server"
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(server / "server.crt", server / "secure" / "server.key")
    with pytest.raises(ValueError, match="signing request of the server is not its own"):
        control.admit(tmp_path, "server", a_request_of("thief"))
    assert not list((server / "keys").iterdir())
    assert "--auth-supernode-private-key secure/node.key" in (home / "start.sh").read_text()
    public = control.make_public(home / "secure", "a")
    assert control.make_public(home / "secure", "a") == public
    assert stat.S_IMODE((home / "secure" / "node.key").stat().st_mode) == 0o600
    assert control.admit(tmp_path, "a", public) == f"{server / 'keys' / 'a.pub'} goes to the server"
    assert list(keys.names_by_key(server / "keys").values()) == ["a"]
    with pytest.raises(ValueError, match="Invalid line format"):
        control.admit(tmp_path, "a", "nonsense")
    asked = []

    def flwr(folder, *words, options=()):
        asked.append(words[:2] + words[-1:])
        return {"success": True, "node-id": len(asked)}

    monkeypatch.setattr(trial, "flwr", flwr)
    monkeypatch.setattr(trial, "wait_for_port", lambda folder: None)
    assert trial.register(tmp_path) == trial.register(tmp_path) == {"a": "1"}
    (home / "secure" / "node.key").unlink()
    control.admit(tmp_path, "a", control.make_public(home / "secure", "a"))
    assert trial.register(tmp_path) == {"a": "3"}
    register, unregister = ("supernode", "register", "keys/a.pub"), ("supernode", "unregister", "1")
    assert asked == [register, unregister, register]


def test_json_is_found_behind_talk():
    assert commands._last_object('hello {x} {"a": {"b": 1}}\n{"success": true}\n') == {"success": True}
    assert commands._last_object("nothing") is None


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """SuperLink and three SuperNodes in processes of their own; ended by their ids, whatever the test does."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    folder = tmp_path / "deployment"
    provision(folder, ["a", "b", "c"], host="127.0.0.1", port=trial._free_port(), **TOY)
    try:
        trial.up(folder)
        yield folder
    finally:
        trial.down(folder)


def lines(folder: Path) -> list[dict[str, Any]]:
    log = folder / "log.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def wait_for_line(folder: Path, condition: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
    deadline = time.monotonic() + seconds
    while not (found := [line for line in lines(folder) if condition(line)]):
        assert time.monotonic() < deadline, lines(folder)
        time.sleep(0.5)
    return found[0]


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_rounds_of_three_sizes_and_sites_that_fail(deployment):
    sizes = [(125, 0, 600), (125, 0, 600), (125_000, 0, 600), (1_250_000, 0, 600)]
    faults = [(125, 1, 600), (125, 0, 600), (125, 3, 600), (125, 0, 600), (125, 2, 60), (125, 0, 600)]
    (deployment / "plan.json").write_text(json.dumps(sizes + faults))
    number = runs.submit(deployment)
    with pytest.raises(RuntimeError, match="`fedualex deploy stop` ends it"):
        runs.submit(deployment)
    assert runs.wait(deployment, 2400.0) == runs.State("finished", number, "the round loop returned")
    log = lines(deployment)
    print("\n".join(map(str, log)))
    good = {"a": True, "b": True, "c": True}
    found = [{name: line[name] for name in good} for line in log]
    assert found[:4] == [good] * 4
    assert found[4] == {**good, "b": "the site raised ArithmeticError (its log says more)"}
    assert "no data today" in (deployment / "sites" / "b" / "log.jsonl").read_text()
    assert found[5] == good
    assert isinstance(found[6].pop("b"), str)  # killed while it worked
    assert found[6] == {"a": True, "c": True}
    assert found[7] == good
    assert found[8]["c"] == "timeout"
    assert found[9] == good


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_strangers_are_refused_and_a_killed_node_comes_back(deployment, tmp_path):
    home = deployment / "sites" / "stranger"
    shutil.copytree(deployment / "sites" / "a", home, ignore=shutil.ignore_patterns("flwr", "log.txt"))
    (home / "node.key").write_bytes(keys.private_ssh(keys.new_key()))
    trial.start_site(deployment, "stranger")

    other = keys.authority(keys.new_key())
    (tmp_path / "other.crt").write_bytes(keys.certificate_pem(other))
    context = ssl.create_default_context(cafile=str(tmp_path / "other.crt"))
    address = ("127.0.0.1", layout.port(deployment))
    with pytest.raises(ssl.SSLCertVerificationError), socket.create_connection(address, 30) as plain:
        context.wrap_socket(plain, server_hostname="127.0.0.1")

    (deployment / "plan.json").write_text(json.dumps([(125, 0, 120.0)] * 200))
    runs.submit(deployment)
    first = wait_for_line(deployment, lambda line: True, 600.0)
    assert first["sites"] == ["a", "b", "c"]
    deadline = time.monotonic() + 300
    while processes.alive_parties(deployment)["stranger"]:
        assert time.monotonic() < deadline
        time.sleep(1)
    assert "Failed to activate SuperNode" in (home / "log.txt").read_text()

    for process in processes.members(deployment, "c"):  # as if the power went off
        process.kill()
    killed = time.monotonic()
    hurt = wait_for_line(deployment, lambda line: line["c"] is not True, 600.0)
    print("killed:", time.monotonic() - killed, hurt)
    assert (hurt["a"], hurt["b"]) == (True, True)
    gone = wait_for_line(deployment, lambda line: line["sites"] == ["a", "b"], 600.0)
    print("noticed:", time.monotonic() - killed, gone)

    trial.start_site(deployment, "c")
    back = wait_for_line(deployment, lambda line: line["round"] > gone["round"] and line["c"] is True, 600.0)
    assert (back["a"], back["b"]) == (True, True)

    stopped = runs.stop(deployment)
    assert stopped.phase == "stopped"
    assert len(lines(deployment)) < 200
    print("stopped after", len(lines(deployment)), "rounds")

    (deployment / "plan.json").write_text("void")
    runs.submit(deployment)
    failed = runs.wait(deployment, 600.0)
    assert failed.phase == "failed"
    assert failed.detail.startswith("JSONDecodeError")

    (deployment / "log.jsonl").unlink()
    (deployment / "plan.json").write_text(json.dumps([(125, 0, 600.0)] * 200))
    runs.submit(deployment)
    wait_for_line(deployment, lambda line: True, 600.0)
    started = processes.members(deployment, "server")
    [superlink] = [process for process in started if "flower-superlink" in " ".join(process.cmdline())]
    superlink.kill()
    while processes.alive_parties(deployment)["server"]:
        time.sleep(1)
    processes.down(deployment, "server")  # with whatever is left of the run
    assert runs.state(deployment).phase in ("lost", "failed")  # the loop may have had the time to say so itself
    (deployment / "log.jsonl").unlink()
    trial.start_server(deployment)
    trial.wait_until_connected(deployment, ["a", "b", "c"])
    runs.submit(deployment)
    again = wait_for_line(deployment, lambda line: line["sites"] == ["a", "b", "c"], 600.0)
    assert (again["a"], again["b"], again["c"]) == (True, True, True)

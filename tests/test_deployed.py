"""Deployments from the command line: the simulator's iterates from real servers and sites, and all that can go wrong.

Whatever a test starts is ended by its process id, even when the test fails.
"""

import json
import os
import shutil
import signal
import socket
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import fedualex as fx
from fedualex.cli import main
from fedualex.deploy import control, processes
from fedualex.deploy.control import control_of
from fedualex.display import rounded_up
from fedualex.experiments import deployment, parties

SITES = ("site-1", "site-2", "site-3")
PATIENCE = 800.0
EXACT = 1e-12
GAME = 'name = "bilinear"\nfile = "game.npz"\nx = { L1 = 0.1, Box = 0.5 }\ny = { L1 = 0.1, Box = 0.5 }'
RUN = {
    "rounds": 6,
    "local_steps": 3,
    "noise": 0.1,
    "seed": 7,
    "record_every": 3,
    "output": "polished",
    "timeout": 120.0,
}
METHODS = {"FeDualEx": "eta_c = 0.1\neta_s = 1.0", "FeDualExCorrected": "eta_c = 0.1\neta_s = 1.0"}

OWN = """
import jax.numpy as jnp
import numpy as np
import fedualex as fx

def build(data):
    if data != "elsewhere" and "broken" in data[0]:
        raise RuntimeError("secret " + "4711")  # so that the module itself does not say it
    like = fx.Saddle(np.zeros(4), np.zeros(3))
    return fx.Problem(loss, x=fx.L1(0.05) + fx.Box(1.0), y=fx.SquaredL2(0.5) + fx.Box(1.0), like=like, data=data)

def loss(x, y, example):
    nothing = 0.0 * y[0] * jnp.sqrt(example["b"][0] + 1e6)  # nan for data that is far off
    return y @ (example["A"] @ x - example["b"]) + jnp.sum((x - example["c"]) ** 2) / 2 + nothing

def separable(size):
    like = fx.Saddle(np.zeros(size), np.zeros(size))
    regularizer = fx.L1(0.01) + fx.Box(1.0)
    return fx.Problem(coupled, x=regularizer, y=regularizer, like=like)

def coupled(x, y):
    return jnp.vdot(x, y) + jnp.sum(x) / 3 - jnp.sum(y) / 5
"""


def toml(
    problem=GAME,
    method="FeDualEx",
    engine="local",
    host="localhost",
    port=8002,
    sites=SITES,
    run=(),
    data=False,
    more="",
) -> str:
    def text(value) -> str:
        return json.dumps(value)

    options = "\n".join(f"{key} = {text(value)}" for key, value in {**RUN, **dict(run)}.items() if value is not None)
    own = {site: f"data = {text(site + '.npz')}" if data else "" for site in sites}
    tables = [f"[sites.{text(site)}]\n{own[site]}" for site in sites] or ["[sites]"]
    server = f'engine = "{engine}"\nhost = "{host}"\nport = {port}'
    head = f'[problem]\n{problem}\n[method]\nname = "{method}"\n{METHODS.get(method, "")}'
    return f"{head}\n[run]\n{options}\n[server]\n{server}\n" + "\n".join(tables) + f"\n{more}\n"


def write_source(folder: Path) -> None:
    """The files that configurations here name."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    np.savez(folder / "game.npz", A=rng.normal(size=(12, 9)), b=rng.normal(size=12))
    for site in SITES:
        np.savez(folder / f"{site}.npz", **examples(int(site[-1])))
    (folder / "own_deployed.py").write_text(OWN)


def examples(number: int) -> dict:
    """Unequal sizes, other numbers at each site."""
    rng = np.random.default_rng(number)
    count = 3 + number
    return {"A": rng.normal(size=(count, 3, 4)), "b": rng.normal(size=(count, 3)), "c": rng.normal(size=(count, 4))}


def cli(*arguments, code: int | None = 0):
    done = CliRunner().invoke(main, ["deploy", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert code is None or done.exit_code == code, done.output
    return done


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Deployment:
    """A deployment's folder, made by `fedualex deploy init`, with what the tests do to it."""

    def __init__(self, root: Path, engine: str, **settings) -> None:
        self.folder, self.engine, self.source = root / "deployment", engine, root / "source"
        write_source(self.source)
        self.configuration = self.source / "deployment.toml"
        self.settings = {"engine": engine, "port": free_port(), **settings}
        self.configuration.write_text(toml(**self.settings))
        cli("init", self.folder, "--config", self.configuration)
        self.run_folder = self.folder / "server" / "run"
        self.control = None if engine == "local" else control_of(engine)

    def run(self, command: str = "run", code: int | None = 0) -> dict:
        done = cli(command, self.folder, "--json", code=None)
        assert code in (None, done.exit_code), f"{done.output}\n{self.logs()}"
        return json.loads(done.stdout)

    def again(self, **settings) -> None:
        """Another run of the parties that are up: new settings, no run folder, no orders."""
        if self.run_folder.exists():
            shutil.rmtree(self.run_folder)
        for file in [*self.folder.glob("sites/*/*"), *self.folder.glob("server/*")]:
            if file.name in ("orders.json", "held", "obeyed", "requests.jsonl") or file.name.startswith("answered-"):
                file.unlink()
        self.settings |= settings
        self.configuration.write_text(toml(**self.settings))
        deployment.write_parties(self.folder, deployment.read(self.configuration), self.source)

    def order(self, site: str, **order) -> None:
        (self.folder / "sites" / site / "orders.json").write_text(json.dumps(order))

    def release(self, site: str) -> None:
        (self.folder / "sites" / site / "orders.json").unlink()

    def until(self, done, what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < end, f"{what}\n{self.logs()}"
            time.sleep(0.1)

    def until_round(self, number: int) -> None:
        self.until(lambda: self.round() >= number, f"round {number}")

    def until_site(self, site: str, file: str) -> None:
        self.until((self.folder / "sites" / site / file).exists, f"{file} of {site}")

    def until_ended(self) -> str:
        self.until(lambda: self.control.state(self.folder)[1], "the end of the run")
        return self.control.state(self.folder)[0]

    def round(self) -> int:
        file = self.run_folder / "checkpoint.npz"
        return int(self.checkpoint()[-1]) if file.exists() else -1

    def checkpoint(self) -> list:
        return checkpoint(self.run_folder / "checkpoint.npz")

    def submit(self) -> None:
        self.control.submit(self.folder, len(SITES))

    def kill(self, *names: str, job: bool = True, party: bool = True) -> None:
        members = [[process.pid for process in processes.members(self.folder, name)] for name in names]
        ids = [pid for own, *others in members for pid in [own] * party + others * job]
        assert ids
        for pid in ids:
            os.kill(pid, signal.SIGKILL)

    def start_all(self) -> None:
        """Whoever is not there, and until everybody is connected."""
        from fedualex.deploy.nvflare import job, trial

        trial.start(self.folder, "server", *SITES)
        self.until(lambda: job.connected(self.folder) == list(SITES), "all sites")

    def requests(self, task: str = "round") -> list:
        lines = (self.folder / "server" / "requests.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line[0] == task]

    def logs(self) -> str:
        files = self.folder.rglob("log.txt")
        return "\n".join(f"{file}:\n{file.read_text(errors='replace')[-3000:]}" for file in files)

    def down(self) -> None:
        if self.control is not None:
            self.control.down(self.folder)


def checkpoint(file: Path) -> list:
    """The leaves of the server's state that a simulator's and a deployment's checkpoint share, and the round."""
    with np.load(file) as stored:
        leaves = [stored[f"leaf{i}"] for i in range(len(stored.files) - 1)]
    integers = [i for i, leaf in enumerate(leaves) if leaf.dtype.kind == "i" and leaf.shape == ()]
    return [*leaves[:3], leaves[integers[0]]]


def simulate(root: Path, problem, method: str, **options) -> tuple[list, fx.Run]:
    settings = {**RUN, **options}
    noise = settings.pop("noise")
    settings.pop("timeout")
    made = getattr(fx, method)(eta_c=0.1, eta_s=1.0)
    file = root / f"{method}.npz"
    file.unlink(missing_ok=True)
    run = fx.solve(problem, made, clients=3, noise=noise and fx.GaussianNoise(noise), checkpoint=file, **settings)
    return checkpoint(file), run


def assert_same(found: Deployment, expected: list, run: fx.Run, outputs=("last", "clients", "polished")) -> None:
    """State and gaps, as the run folder has them."""
    state = found.checkpoint()
    assert len(state) == len(expected) == 4
    for ours, theirs in zip(state, expected, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=EXACT)
    status = json.loads((found.run_folder / "status.json").read_text())
    assert status["stop"] == "MAX_ROUNDS"
    for name in outputs:
        assert status["outputs"][name]["gap"] == pytest.approx(run.outputs[name].gap, abs=EXACT)
    records = [json.loads(line) for line in (found.run_folder / "history.jsonl").read_text().splitlines()]
    assert [record["round"] for record in records] == list(run.history["round"])
    for name in outputs:
        np.testing.assert_allclose([r[f"gap_{name}"] for r in records], run.history[f"gap_{name}"], rtol=0, atol=EXACT)


def the_game(source: Path):
    with np.load(source / "game.npz") as arrays:
        regularizer = fx.L1(0.1) + fx.Box(0.5)
        return fx.problems.bilinear(arrays["A"], arrays["b"], x=regularizer, y=regularizer)


@pytest.fixture
def deploy(tmp_path, monkeypatch):
    """Makes deployments, and ends all that was started for them."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    made = []

    def make(engine: str, *, watched=False, up=True, **settings) -> Deployment:
        if watched:
            monkeypatch.setattr(parties, "SERVE", "support.deployed_parts:serve")
            monkeypatch.setattr(parties, "SITE", "support.deployed_parts:load")
        root = tmp_path / f"{engine}-{len(made)}"
        root.mkdir()
        made.append(Deployment(root, engine, **settings))
        if up:
            cli("up", made[-1].folder)
        return made[-1]

    yield make
    for started in made:
        started.down()


# The same iterates


@pytest.mark.slow
def test_nvflare_smoke(deploy, tmp_path):
    """Three sites, mutual TLS: the simulator's numbers. The one real deployment of `make test`."""
    made = deploy("nvflare")
    made.submit()
    expected = simulate(tmp_path, the_game(made.source), "FeDualEx")  # while the job starts
    assert made.until_ended() == "finished", made.logs()
    assert_same(made, *expected)
    told = json.loads(cli("status", made.folder, "--json").stdout)
    assert (told["engine"], told["round"], told["status"]["stop"]) == ("finished", 6, "MAX_ROUNDS")
    cli("stop", made.folder)
    assert processes.running(made.folder) == {}


@pytest.mark.parametrize("method", [pytest.param("FeDualEx", marks=pytest.mark.slow), "FeDualExCorrected"])
def test_local_gives_the_simulators_iterates(deploy, tmp_path, method):
    made = deploy("local", method=method)
    made.run()
    assert_same(made, *simulate(tmp_path, the_game(made.source), method))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["FeDualEx", "FeDualExCorrected"])
def test_local_with_data_at_sites(deploy, tmp_path, method):
    """The simulator's numbers; and `verify` says what it cannot check where the data is elsewhere."""
    made = deploy("local", method=method, **AT_SITES)
    assert_data_stays(made)
    made.run()
    assert_same(made, *simulate_own(tmp_path, made.source, method), outputs=("last", "clients"))
    checks = json.loads(command("verify", made.run_folder, "--json", code=3).stdout)
    assert checks["agrees"]
    assert any("as reported by sites" in check["what"] for check in checks["checks"])
    assert any("part of the certificate" in check["what"] and check["agrees"] for check in checks["checks"])
    command("report", made.run_folder)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nvflare_gives_the_simulators_iterates(deploy, tmp_path):
    """Both methods, then a problem whose data is at its sites, each a job of the same parties."""
    made = deploy("nvflare", method="FeDualExCorrected")
    made.run()
    assert_same(made, *simulate(tmp_path, the_game(made.source), "FeDualExCorrected"))
    made.again(method="FeDualEx")
    made.run()
    assert_same(made, *simulate(tmp_path, the_game(made.source), "FeDualEx"))
    for method in METHODS:
        made.again(method=method, **AT_SITES)
        assert_data_stays(made)
        made.run()
        assert_same(made, *simulate_own(tmp_path, made.source, method), outputs=("last", "clients"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("method", METHODS)
def test_flower_gives_the_simulators_iterates(deploy, tmp_path, method):
    few = {"rounds": 3, "record_every": 3}
    made = deploy("flower", method=method, run=few)
    made.run()
    assert_same(made, *simulate(tmp_path, the_game(made.source), method, **few))


AT_SITES = {"problem": 'entry = "own_deployed:build"', "data": True, "run": {"noise": 0.2}}


def simulate_own(root: Path, source: Path, method: str):
    scope: dict = {}
    exec(compile(OWN, "own", "exec"), scope)
    data = [examples(int(site[-1])) for site in SITES]
    return simulate(root, scope["build"](data), method, noise=0.2)


def assert_data_stays(made: Deployment) -> None:
    """A site is told of its own data alone, the server of nobody's."""
    for site in SITES:
        told = json.loads((made.folder / "sites" / site / "deployment.json").read_text())
        assert told["data"] == str(made.source / f"{site}.npz")
        assert not any(f"{other}.npz" in json.dumps(told) for other in SITES if other != site)
    assert ".npz" not in (made.folder / "server" / "deployment.json").read_text()


# Folders of deployed runs


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Deployment:
    made = Deployment(tmp_path_factory.mktemp("finished"), "local")
    made.run()
    return made


def command(*arguments, code=0):
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done


def test_records_are_shown_as_they_come(deploy):
    made = deploy("local")
    lines = cli("run", made.folder).stdout.splitlines()
    records = map(json.loads, (made.run_folder / "history.jsonl").read_text().splitlines())
    gaps = [min(v for k, v in record.items() if k.startswith("gap_") and v is not None) for record in records]
    shown = [rounded_up(gap, 3) for gap in gaps]
    assert lines[:3] == [f"round {r}: certified gap <= {gap}" for r, gap in zip((0, 3, 6), shown, strict=True)]


def test_status_and_a_second_run(finished):
    told = json.loads(cli("status", finished.folder, "--json").stdout)
    assert told["engine"] == "local"
    assert told["round"] == 6
    assert told["run"] == str(finished.run_folder)
    assert told["status"] == json.loads((finished.run_folder / "status.json").read_text())
    assert "status: CERTIFIED, MAX_ROUNDS" in cli("status", finished.folder).stdout
    for again in ("run", "resume"):
        one_sentence(cli(again, finished.folder, code=2), "already holds a finished run; move it away")


@pytest.mark.slow
def test_verify_report_and_compare(finished, deploy, tmp_path):
    checks = json.loads(command("verify", finished.run_folder, "--json").stdout)
    assert checks["agrees"]
    assert checks["complete"]
    assert {check["output"] for check in checks["checks"]} >= {"last", "clients", "polished"}
    command("report", finished.run_folder)
    assert (finished.run_folder / "report.html").stat().st_size > 1000
    other = deploy("local", method="FeDualExCorrected")
    other.run()
    table = json.loads(command("compare", finished.run_folder, other.run_folder, "--json").stdout)
    assert {row["method"] for row in table} == set(METHODS)
    command("compare", finished.run_folder, other.run_folder, "--out", tmp_path / "both")
    assert (tmp_path / "both" / "report.html").exists()


def test_exit_codes(deploy):
    reached = deploy("local", run={"rounds": 40, "record_every": 5, "noise": 1e-3, "tol": 5.0})
    assert reached.run()["status"] == "OPTIMAL"
    short = deploy("local", run={"rounds": 2, "tol": 1e-9})
    assert short.run(code=3)["stop"] == "MAX_ROUNDS"


def test_a_local_run_goes_on_from_its_checkpoint(deploy, tmp_path):
    made = deploy("local", run={"max_seconds": 1e-6})
    one_sentence(cli("resume", made.folder, code=2), "there is nothing to resume")
    assert made.run(code=3)["stop"] == "MAX_TIME"
    assert made.round() == 1
    settings = made.folder / "server" / "deployment.json"
    known = json.loads(settings.read_text())
    known["run"]["max_seconds"] = None
    settings.write_text(json.dumps(known))
    made.run("resume")
    assert_same(made, *simulate(tmp_path, the_game(made.source), "FeDualEx"))


def change_run(made: Deployment, **options) -> None:
    file = made.folder / "server" / "deployment.json"
    known = json.loads(file.read_text())
    known["run"].update(options)
    file.write_text(json.dumps(known))


@pytest.mark.parametrize(
    ("settings", "ends"),
    [({"more": "[privacy]\nclip = 1.0\nnoise = 8.0"}, "UNCERTIFIED"), ({"run": {"tol": 1.0}}, "OPTIMAL_INACCURATE")],
)
def test_what_the_clock_cut_off_goes_on_whatever_its_last_point_is_worth(deploy, settings, ends):
    limit = {"max_seconds": 1e-6, "output": None, "record_every": 1}
    made = deploy("local", **{**settings, "run": {**limit, **settings.get("run", {})}})
    assert made.run(code=None)["status"] == ends
    assert made.round() == 1
    change_run(made, max_seconds=None)
    made.run("resume", code=None)
    assert made.round() > 1
    if ends == "UNCERTIFIED":
        one_sentence(cli("resume", made.folder, code=2), "already holds a finished run")


class InProcess(control.FlowerControl):
    """An engine's control whose jobs run here; like an engine, it knows of a failed job only that it failed."""

    poll, said = 0.0, "none"

    def submit(self, folder: Path, sites: int) -> None:
        InProcess.said = "finished"
        try:
            deployment.run_locally(folder)
        except Exception:
            InProcess.said = "failed"

    def state(self, folder: Path) -> tuple[str, bool]:
        return self.said, True


def test_the_result_of_an_earlier_run_is_not_told_as_a_new_one(deploy, monkeypatch):
    monkeypatch.setitem(control.CONTROLS, "flower", InProcess)
    monkeypatch.setattr(InProcess, "said", "none")
    made = deploy("local", run={"max_seconds": 1e-6})
    file = made.folder / "server" / "deployment.json"
    file.write_text(file.read_text().replace('"local"', '"flower"'))
    one_sentence(cli("resume", made.folder, code=2), "there is nothing to resume")
    assert made.run(code=3)["stop"] == "MAX_TIME"
    change_run(made, max_seconds=None, rounds=7)
    done = cli("resume", made.folder, code=1)
    assert "the server could not go on: ValueError: " in done.stderr
    assert "belongs to another run" in done.stderr
    assert "MAX_TIME" not in done.output
    change_run(made, rounds=6)
    assert made.run("resume")["stop"] == "MAX_ROUNDS"
    assert not (made.folder / "server" / "failure.json").exists()
    monkeypatch.setattr(InProcess, "submit", lambda *_: pytest.fail("it was sent all the same"))
    one_sentence(cli("run", made.folder, code=2), "already holds a finished run; move it away")


def test_a_result_on_another_machine_is_said_to_be_there(deploy, monkeypatch):
    monkeypatch.setitem(control.CONTROLS, "flower", InProcess)
    monkeypatch.setattr(InProcess, "said", "none")
    made = deploy("local")
    file = made.folder / "server" / "deployment.json"
    file.write_text(file.read_text().replace('"local"', '"flower"'))
    monkeypatch.setattr(deployment, "run_locally", lambda folder: None)
    done = cli("run", made.folder, code=1)
    assert "its result is in server/run on the server's machine" in done.stderr


def test_arrays_from_anywhere_are_at_home_in_each_party(tmp_path):
    write_source(tmp_path / "data")
    (tmp_path / "source").mkdir()
    before = (tmp_path / "data" / "game.npz").read_bytes()
    for number, path in enumerate((tmp_path / "data" / "game.npz", "../data/game.npz")):
        problem = GAME.replace("game.npz", str(path))
        (tmp_path / "source" / "far.toml").write_text(toml(problem=problem, run={"rounds": 2}))
        folder = tmp_path / f"made-{number}"
        cli("init", folder, "--config", tmp_path / "source" / "far.toml")
        assert sorted(file.parent.name for file in folder.rglob("game.npz")) == ["server", *SITES]
        assert (tmp_path / "data" / "game.npz").read_bytes() == before
        (tmp_path / "data" / "game.npz").rename(tmp_path / "away.npz")
        cli("run", folder)
        (tmp_path / "away.npz").rename(tmp_path / "data" / "game.npz")


# Bad input


def one_sentence(done, sentence: str) -> None:
    [line] = [line for line in done.stderr.splitlines() if line]
    assert line.startswith("Error: ")
    assert sentence in line


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"engine": "nvflair"}, "there is no engine 'nvflair'; did you mean 'nvflare'?"),
        ({"sites": ()}, "[sites] must name at least one site"),
        ({"data": True}, '[sites] have data, so [problem] needs entry = "module:function"'),
        ({"problem": 'name = "agnostic"\nfile = "game.npz"'}, 'name = "agnostic" is made from pooled data'),
        ({"problem": 'entry = "nowhere:build"'}, "No module named 'nowhere'"),
        ({"problem": 'name = "bilinear"\nfile = "none.npz"'}, "none.npz cannot be read as an .npz file"),
        ({"method": "FeDualExx"}, "there is no method 'FeDualExx'"),
        ({"method": "ScaffoldSMemory"}, "ScaffoldSMemory keeps a memory at its clients, which sites do not have"),
        ({"run": {"rounds": 0}}, "[run]: rounds must be"),
        ({"run": {"round": 5}}, "[run] has no key 'round'"),
        ({"run": {"min_replies": 4}}, "min_replies must be at most the sites of a round, 3"),
        ({"run": {"timeout": 0}}, "timeout"),
        ({"engine": "nvflare", "sites": ("a b",)}, "[sites."),
        ({"engine": "flower", "sites": ("../a",)}, "[sites."),
        ({"engine": "local", "sites": ("../a",)}, "[sites."),
        ({"engine": "nvflare", "port": 0}, "port"),
        ({"problem": ""}, '[problem] needs either name = "..." or entry'),
        ({"more": "[privacy]"}, "[privacy] must be a table with clip and noise, got {}"),
        ({"more": "[privacy]\nclip = 1.0\nnoise = -1.0"}, "privacy: noise must be a number > 0"),
        ({"host": "::1"}, "[server] host must be a name or an IPv4 address, got '::1'"),
        ({"sites": (), "more": "a = {}\nb = 5"}, "[sites.b] must be a table, such as data"),
        ({"data": True, "more": "[sites.new]"}, "[sites.new] has no data, and another site has: give data to all or"),
        (
            {"problem": 'entry = "own_deployed:build"', "method": "FedMiP", "data": True},
            "give eta_c: theory needs the data of all sites",
        ),
        ({"more": '[sites.new]\nweight = "x"'}, "[sites.new] weight must be a number >= 0, got 'x'"),
        ({"engine": "nvflare", "host": "a b/../c"}, "[server] host must be a name or an IPv4 address, got 'a b/../c'"),
    ],
)
def test_init_refuses_in_one_sentence_and_writes_nothing(tmp_path, settings, sentence):
    write_source(tmp_path / "source")
    (tmp_path / "source" / "bad.toml").write_text(toml(**settings))
    one_sentence(cli("init", tmp_path / "new", "--config", tmp_path / "source" / "bad.toml", code=2), sentence)
    assert not (tmp_path / "new").exists()


def test_commands_refuse_in_one_sentence(tmp_path, finished):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    one_sentence(cli("init", tmp_path / "full", code=2), "is not empty: a deployment needs a folder of its own")
    one_sentence(cli("init", tmp_path / "new", "--engine", "ray", code=2), "there is no engine 'ray'")
    one_sentence(cli("init", tmp_path / "new", "--config", tmp_path / "none.toml", code=2), "there is no file")
    assert not (tmp_path / "new").exists()
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]
    for name in ("up", "run", "status", "stop", "resume"):
        one_sentence(cli(name, tmp_path / "none", code=2), "none")
    assert "engine local needs nothing started" in cli("up", finished.folder).stdout
    assert "Ctrl-C there ends it" in cli("stop", finished.folder).stdout


@pytest.mark.slow
def test_a_server_that_is_not_up_is_one_sentence(deploy):
    made = deploy("nvflare", up=False)
    told = json.loads(cli("status", made.folder, "--json").stdout)
    assert told == {"engine": "unreachable", "round": None, "status": None, "run": str(made.run_folder)}
    one_sentence(cli("run", made.folder, code=1), "cannot be reached: start it, or all with `up`")


def test_the_readme_of_a_deployment_names_everybody(tmp_path):
    cli("init", tmp_path / "local", "--engine", "local")
    text = (tmp_path / "local" / "README.md").read_text()
    assert all(f"sites/{site}/" in text for site in SITES)
    assert "What leaves a site" in text
    assert "{" not in text
    assert "start.sh" not in text
    assert "private keys" not in text
    private = tmp_path / "private.toml"
    private.write_text(parties.EXAMPLE.read_text() + "\n[privacy]\nclip = 1.0\nnoise = 8.0\n")
    cli("init", tmp_path / "private", "--config", private, "--engine", "local")
    text = (tmp_path / "private" / "README.md").read_text()
    assert "clipped to length 1.0 and with noise of 8.0 times" in text
    assert "local points" not in text


# Faults: NVFlare, processes killed by their ids

FAULTY = {"rounds": 8, "record_every": 8, "timeout": 8.0, "attempts": 2}
STAGES = ("before", "during", "after")
HELD = 3
LOOP_ENDED = ("finished", "failed")
"""NVFlare calls a job failed if it notices a dead site before the job is closed, although the loop ended by itself."""


@pytest.fixture(scope="module")
def nvflare(tmp_path_factory):
    """Server and three sites for all faults; each test begins with everybody there, and a run of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        patch.setattr(parties, "SERVE", "support.deployed_parts:serve")
        patch.setattr(parties, "SITE", "support.deployed_parts:load")
        made = Deployment(tmp_path_factory.mktemp("nvflare"), "nvflare", run=FAULTY)
        try:
            cli("up", made.folder)
            yield made
        finally:
            made.down()


@pytest.fixture
def trial(nvflare):
    nvflare.start_all()
    if not nvflare.control.state(nvflare.folder)[1]:
        nvflare.control.stop(nvflare.folder)
    nvflare.again(problem=GAME, method="FeDualEx", data=False, run=FAULTY)
    return nvflare


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    root = tmp_path_factory.mktemp("undisturbed")
    write_source(root)
    return simulate(root, the_game(root), "FeDualEx", **{key: FAULTY[key] for key in ("rounds", "record_every")})


def two_sites_from(root: Path, rounds, **run) -> list:
    """The checkpoint of a local run in which site-3 fails in these rounds."""
    made = Deployment(root, "local", run={**FAULTY, **run})
    works = {site: deployment.load_site(made.folder / "sites" / site).work for site in SITES}

    def failing(request, work=works["site-3"]):
        if request.task == "round" and request.round in rounds:
            raise ValueError("no")
        return work(request)

    deployment.serve(deployment.LocalEngine({**works, "site-3": failing}), made.folder / "server")
    return made.checkpoint()


def assert_close(found: list, expected: list, atol=EXACT) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)


def kill_site_3(trial: Deployment, stage: str) -> None:
    """Before: it has the request. During: it has computed. After: it has answered, and another is still at work."""
    holder = "site-1" if stage == "after" else "site-3"
    trial.order(holder, round=HELD, what="before" if stage == "after" else stage)
    trial.submit()
    trial.until_site(holder, "held")
    if stage == "after":
        trial.until_site("site-3", f"answered-{HELD}")
        time.sleep(1.0)
    trial.kill("site-3")
    trial.release(holder)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("stage", STAGES)
def test_two_of_three_go_on_without_a_killed_site(trial, tmp_path, stage):
    trial.again(run={**FAULTY, "min_replies": 2})
    kill_site_3(trial, stage)
    assert trial.until_ended() in LOOP_ENDED, trial.logs()
    missed = range(HELD + (stage == "after"), FAULTY["rounds"])
    assert_close(trial.checkpoint(), two_sites_from(tmp_path, missed, min_replies=2))
    status = json.loads((trial.run_folder / "status.json").read_text())
    outputs = {name: output["gap"] for name, output in status["outputs"].items() if name != "best"}
    assert set(outputs.values()) == {None}  # a certificate needs everybody; an earlier record may have had one


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_site_that_is_needed_comes_back(trial, undisturbed, stage):
    kill_site_3(trial, stage)
    assert trial.until_ended() in LOOP_ENDED, trial.logs()
    told = json.loads(cli("status", trial.folder, "--json").stdout)
    assert told["status"]["stop"] == "CLIENTS_LOST"
    assert trial.round() == HELD + (stage == "after")
    trial.start_all()
    trial.run("resume")
    assert_same(trial, *undisturbed)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("victim", ["server", "site-1"])
def test_a_killed_job_is_resumed(trial, undisturbed, victim):
    trial.order("site-2", round=HELD, what="before")
    trial.submit()
    trial.until_site("site-2", "held")
    trial.kill(victim, party=False)
    trial.release("site-2")
    assert trial.until_ended() != "running", trial.logs()
    assert trial.round() < FAULTY["rounds"]
    trial.run("resume")
    assert_same(trial, *undisturbed)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_server_is_resumed(trial, undisturbed):
    trial.order("site-2", round=HELD, what="before")
    trial.submit()
    trial.until_site("site-2", "held")
    trial.kill("server")
    trial.release("site-2")
    assert json.loads(cli("status", trial.folder, "--json").stdout)["engine"] == "unreachable"
    trial.start_all()
    trial.run("resume")
    assert_same(trial, *undisturbed)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_stop_ends_the_sites_of_a_dead_server(trial):
    trial.kill("server", job=False)
    cli("stop", trial.folder)
    assert processes.running(trial.folder) == {}
    cli("up", trial.folder)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_stopped_deployment_is_resumed(trial, undisturbed):
    trial.order("site-2", round=HELD, what="before")
    trial.submit()
    trial.until_site("site-2", "held")
    cli("stop", trial.folder)
    assert processes.running(trial.folder) == {}
    assert trial.round() == HELD
    trial.release("site-2")
    cli("up", trial.folder)
    trial.run("resume")
    assert_same(trial, *undisturbed)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("what", ["nan", "shape", "dtype", "key", "old", "late"])
def test_a_bad_answer_costs_a_round_and_changes_nothing(trial, undisturbed, what):
    trial.order("site-3", round=HELD, what=what)
    assert trial.run()["stop"] == "MAX_ROUNDS"
    trial.until_site("site-3", "obeyed")
    assert [number for task, number, *_ in trial.requests() if task == "round"].count(HELD) == 2
    assert_same(trial, *undisturbed)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_of_two_servers_the_older_one_ends_and_spoils_nothing(trial, undisturbed):
    trial.order("site-2", round=HELD, what="before")
    trial.submit()
    trial.until_site("site-2", "held")
    deployment.run_locally(trial.folder)  # the newer one, on the same checkpoint, to its end
    trial.release("site-2")
    assert trial.until_ended() == "failed", trial.logs()
    assert not (trial.folder / "server" / "failure.json").exists()
    assert_same(trial, *undisturbed)
    assert "FencedError" in trial.logs()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_full_disk_is_loud_and_the_checkpoint_goes_on(trial, undisturbed):
    orders = trial.folder / "server" / "orders.json"
    orders.write_text(json.dumps({"round": HELD, "what": "full"}))
    one_sentence(cli("run", trial.folder, code=1), "the run has not ended by itself (the engine says 'failed')")
    assert "No space left on device" in trial.logs()
    assert trial.round() == HELD
    orders.unlink()
    trial.run("resume")
    assert_same(trial, *undisturbed)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_site_that_raises_misses_its_round(trial, tmp_path):
    trial.again(run={**FAULTY, "min_replies": 2})
    trial.order("site-3", round=HELD, what="raise")
    assert trial.run()["stop"] == "MAX_ROUNDS"
    assert_close(trial.checkpoint(), two_sites_from(tmp_path, [HELD], min_replies=2))
    assert_secret_stays(trial, "site-3")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", ["nan", "load"])
def test_a_site_that_never_answers_well_loses_the_run(trial, fault):
    trial.again(**AT_SITES | {"run": {**FAULTY, "noise": None}})
    data = examples(3)
    faulty = {**data, "b": data["b"] - 2e6} if fault == "nan" else {"broken": np.ones(1)}
    np.savez(trial.source / "site-3.npz", **faulty)
    try:
        found = trial.run(code=6)
    finally:
        write_source(trial.source)
    assert found["stop"] == "CLIENTS_LOST"
    assert found["gap"] is None
    assert trial.round() == 0
    if fault == "load":
        assert_secret_stays(trial, "site-3")
    trial.run("resume")  # after the repair
    assert json.loads((trial.run_folder / "status.json").read_text())["stop"] == "MAX_ROUNDS"


def assert_secret_stays(trial: Deployment, site: str) -> None:
    """What a site's error says is in its own log alone."""
    assert "secret 4711" in (trial.folder / "sites" / site / "log.txt").read_text()
    files = [file for file in (trial.folder / "server").rglob("*") if file.is_file()]
    assert not any("secret 4711" in file.read_text(errors="replace") for file in files)


# Length and speed


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_soak(trial, tmp_path, record_property):
    """500 rounds, each asked for once; printed with `pytest -s`."""
    length = {"rounds": 500, "record_every": 100}
    trial.again(run={**RUN, **length})
    began = time.monotonic()
    trial.run()
    seconds = time.monotonic() - began
    requests = trial.requests()
    assert [number for _, number, _, _ in requests] == list(range(500))
    expected, _ = simulate(tmp_path, the_game(trial.source), "FeDualEx", **length)
    assert_close(trial.checkpoint(), expected)
    memory = {number: round(requests[number][3]) for number in (0, 50, 100, 200, 300, 400, 499)}
    record_property("memory", memory)
    gaps = np.diff([moment for _, _, moment, _ in requests])
    print(f"\n500 rounds in {seconds:.0f} s, median {np.median(gaps):.4f} s a round; MB of the server's job: {memory}")
    assert memory[499] - memory[50] < 200


SIZES = {"1 kB": (64, 30), "1 MB": (64_000, 12), "10 MB": (640_000, 6)}


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("engine", ["local", "nvflare", "flower"])
def test_seconds_a_round(deploy, monkeypatch, record_property, engine):
    """FeDualEx with one local step of a cheap operator, checkpoint included; printed with `pytest -s`."""
    if engine != "local":
        pytest.importorskip("nvflare" if engine == "nvflare" else "flwr")
    made = None
    for name, (size, rounds) in SIZES.items():
        rounds = rounds if engine != "flower" else 4
        settings = {
            "problem": f'entry = "own_deployed:separable"\nsize = {size}',
            "run": {"rounds": rounds, "record_every": rounds, "noise": None, "local_steps": 1, "output": "last"},
        }
        if made is None:
            made = deploy(engine, watched=True, **settings)
        else:
            made.again(**settings)
            if engine == "flower":  # a worker loads its site once
                made.down()
                cli("up", made.folder)
        if engine == "local":
            local_run(made)
        else:
            made.run()
        gaps = np.diff([moment for _, _, moment, _ in made.requests()][1:])
        median = float(np.median(gaps))
        record_property(name, median)
        print(f"\n{engine}, {name}: median {median:.4f} s, worst {gaps.max():.3f} s of {len(gaps)} rounds")


def local_run(made: Deployment) -> None:
    from support import deployed_parts

    works = {site: deployment.load_site(made.folder / "sites" / site).work for site in SITES}
    deployed_parts.serve(deployment.LocalEngine(works), made.folder / "server")

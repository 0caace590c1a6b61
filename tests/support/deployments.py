"""Deployments from the command line, and the simulator's runs that they must equal.

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
from fedualex.deploy import engines, processes
from fedualex.deploy.consortium import deployment as deployment_files, settings as deployment_settings

SITES = ("site-1", "site-2", "site-3")
PATIENCE = 800.0
EXACT = 1e-12
GAME = 'name = "bilinear"\nfile = "game.npz"\nx = { L1 = 0.1, Box = 0.5 }\ny = { L1 = 0.1, Box = 0.5 }'
RUN = {
    "rounds": 6,
    "local_steps": 3,
    "noise": 0.1,
    "dtype": "float64",
    "seed": 7,
    "record_every": 3,
    "output": "polished",
    "timeout": 120.0,
    "patience": 0.1,
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

def agnostic(data):
    like = fx.Saddle(np.zeros(4), np.zeros(3))
    x, mixture = fx.L1(0.05) + fx.L1Ball(14.0), np.ones(3) / 3
    floor = fx.problems.Floor(mixture, 0.0, each=True)
    return fx.Problem(weighted, x=x, y=fx.Simplex(), like=like, data=data, by_construction=True, floor=floor)

def weighted(x, y, example):
    row, client = example["c"] + example["client"], example["client"]
    sign = jnp.where(row @ jnp.array([1.0, -1.0, 0.5, 0.0]) + example["b"][0] > 0, 1.0, -1.0)
    return 3 * y[client] * jnp.logaddexp(0.0, -sign * (row @ x))

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
    """Unequal sizes, other numbers at each site, and which client it is."""
    rng = np.random.default_rng(number)
    count = 20 + number
    arrays = {"A": rng.normal(size=(count, 3, 4)), "b": rng.normal(size=(count, 3)), "c": rng.normal(size=(count, 4))}
    return arrays | {"client": np.full(count, number - 1)}


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
        self.control = engines.control_of(engine)

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
        deployment_files.write_parties(self.folder, deployment_settings.read(self.configuration), self.source)

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
        from fedualex.deploy.nvflare import control, job

        control.start(self.folder, "server", *SITES)
        self.until(lambda: job.connected_sites(self.folder) == list(SITES), "all sites")

    def requests(self, task: str = "round") -> list:
        lines = (self.folder / "server" / "requests.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line[0] == task]

    def logs(self) -> str:
        files = self.folder.rglob("log.txt")
        return "\n".join(f"{file}:\n{file.read_text(errors='replace')[-3000:]}" for file in files)

    def down(self) -> None:
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
    for of_deployments in ("timeout", "patience"):
        settings.pop(of_deployments, None)
    made = getattr(fx, method)(eta_c=0.1, eta_s=1.0)
    file = root / f"{method}.npz"
    file.unlink(missing_ok=True)
    run = fx.solve(problem, made, clients=3, noise=noise and fx.GaussianNoise(noise), checkpoint=file, **settings)
    return checkpoint(file), run


def assert_same(found: Deployment, expected: list, run: fx.Run, outputs=("last", "client_average", "polished")) -> None:
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
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    made = []

    def make(engine: str, *, watched=False, up=True, **settings) -> Deployment:
        if watched:
            monkeypatch.setattr(deployment_files, "SERVE", "support.deployed_parts:serve")
            monkeypatch.setattr(deployment_files, "LOAD_SITE", "support.deployed_parts:load")
        root = tmp_path / f"{engine}-{len(made)}"
        root.mkdir()
        made.append(Deployment(root, engine, **settings))
        if up:
            cli("up", made[-1].folder)
        return made[-1]

    yield make
    for started in made:
        started.down()


AT_SITES = {"problem": 'entry = "own_deployed:build"', "data": True, "run": {"noise": 0.2}}


def command(*arguments, code=0):
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done


def one_sentence(done, sentence: str) -> None:
    [line] = [line for line in done.stderr.splitlines() if line]
    assert line.startswith("Error: ")
    assert sentence in line

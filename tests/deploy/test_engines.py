"""The simulator's iterates from real servers and sites of every engine, and what a round takes.

Whatever a test starts is ended by its process id, even when the test fails.
"""

import inspect
import json
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from support.deployments import (
    AT_SITES,
    EXACT,
    METHODS,
    OWN,
    SITES,
    Deployment,
    assert_same,
    cli,
    command,
    deploy,  # noqa: F401
    examples,
    simulate,
    the_game,
)
from support.interrupting import start_interruptible

import fedualex as fx
from fedualex.deploy import engines, processes


@pytest.mark.parametrize("name", engines.ENGINES)
def test_every_engine_has_the_same_functions(name):
    control = engines.control_of(name)
    for function in ("provision", "up", "down", "submit", "state", "stop"):
        wanted = inspect.signature(getattr(engines.Control, function)).parameters.values()
        found = inspect.signature(getattr(control, function)).parameters
        for parameter in list(wanted)[1:]:  # without self
            assert found[parameter.name].kind is parameter.kind
        required = {p.name for p in found.values() if p.default is inspect.Parameter.empty}
        assert required <= {p.name for p in wanted}
    assert isinstance(control.POLL, float)
    assert isinstance(control.HERE, bool)
    assert isinstance(control.KEYED, tuple)


def test_an_unknown_engine_is_named():
    with pytest.raises(ValueError, match=r"engine must be one of .*'nvflair'"):
        engines.control_of("nvflair")


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
    assert processes.alive_parties(made.folder) == {}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["FeDualEx", "FeDualExCorrected"])
def test_local_gives_the_simulators_iterates(deploy, tmp_path, method):
    made = deploy("local", method=method)
    made.run()
    assert_same(made, *simulate(tmp_path, the_game(made.source), method))


@pytest.mark.slow
def test_ctrl_c_ends_a_local_run_in_good_order(deploy, tmp_path):
    """The command stops the server's process, which keeps its checkpoint; what was cut off is resumed."""
    made = deploy("local", run={"record_every": 1}, watched=True)
    made.order("site-2", round=3, what="before")
    command_line = [sys.executable, "-m", "fedualex", "deploy", "run", str(made.folder)]
    with start_interruptible(command_line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        made.until_site("site-2", "held")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=600)
    assert "INTERRUPTED" in said
    assert made.control.state(made.folder) == ("stopped", True)
    assert made.round() == 3
    made.release("site-2")
    made.run("resume")
    assert_same(made, *simulate(tmp_path, the_game(made.source), "FeDualEx", record_every=1))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["FeDualEx", "FeDualExCorrected"])
def test_local_with_data_at_sites(deploy, tmp_path, method):
    """The simulator's numbers; and `verify` says what it cannot check where the data is elsewhere."""
    made = deploy("local", method=method, **AT_SITES)
    assert_data_stays(made)
    made.run()
    assert_same(made, *simulate_own(tmp_path, made.source, method), outputs=("last", "client_average"))
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
        assert_same(made, *simulate_own(tmp_path, made.source, method), outputs=("last", "client_average"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("method", METHODS)
def test_flower_gives_the_simulators_iterates(deploy, tmp_path, method):
    few = {"rounds": 3, "record_every": 3}
    made = deploy("flower", method=method, run=few)
    made.run()
    assert_same(made, *simulate(tmp_path, the_game(made.source), method, **few))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nvflare_slides_as_the_simulator_does(deploy, record_property):
    """Agnostic learning, the rows of each site at the site: every surveyed point, and no exchange for certificates."""
    options = {"rounds": 12, "local_steps": 3, "record_every": 1, "noise": None, "output": None}
    problem = 'entry = "own_deployed:agnostic"'
    made = deploy("nvflare", method="FeDualSlide", problem=problem, data=True, run=options, watched=True)
    assert_data_stays(made)
    made.run()
    options = {key: options[key] for key in ("rounds", "local_steps", "record_every")}
    same = fx.simulate(own("agnostic"), fx.FeDualSlide(), **options)
    leaves, structure = jax.tree.flatten(same.state)
    with np.load(made.run_folder / "checkpoint.npz") as stored:
        server = jax.tree.unflatten(structure, [stored[f"leaf{i}"] for i in range(len(leaves))]).server
    expected = same.state.server
    surveys = int(server.surveys)
    assert np.sum(server.cuts.used) == surveys == int(expected.surveys)  # none is forgotten
    for found, point in ((server.cuts.points, expected.cuts.points), (server.at.x, expected.at.x)):
        np.testing.assert_allclose(found, point, rtol=0, atol=EXACT)
    requests = made.requests("survey") + made.requests("round")
    assert (len(made.requests("survey")), len(requests)) == (surveys, 12)
    status = json.loads((made.run_folder / "status.json").read_text())
    assert status["exchanges"] == 12
    records = [json.loads(line) for line in (made.run_folder / "history.jsonl").read_text().splitlines()]
    gaps = [record["gap_bounds"] for record in records]
    np.testing.assert_allclose(gaps, same.history["gap_bounds"], rtol=0, atol=1e-10)
    waits = np.diff(sorted(moment for _, _, moment, _ in requests))[4:]
    record_property("seconds an exchange", float(np.median(waits)))
    print(f"\nmedian {np.median(waits):.3f} s, worst {waits.max():.3f} s of {len(waits)} exchanges; gap {gaps[-1]:.3g}")


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_soak_of_slides(deploy, record_property):
    """500 exchanges of FeDualSlide on the local engine; what is printed with `pytest -s` is in benchmarks/results/deployment.md."""
    options = {"rounds": 500, "local_steps": 3, "record_every": 50, "noise": None, "output": None}
    problem = 'entry = "own_deployed:agnostic"'
    made = deploy("local", method="FeDualSlide", problem=problem, data=True, run=options, watched=True)
    made.run()
    assert json.loads((made.run_folder / "status.json").read_text())["exchanges"] == 500
    requests = sorted(made.requests("survey") + made.requests("round"), key=lambda request: request[2])
    assert len(requests) == 500  # each was asked for once
    memory = {number: round(requests[number][3]) for number in (0, 50, 100, 250, 499)}
    waits = np.diff([moment for _, _, moment, _ in requests])
    early, late = np.median(waits[50:150]), np.median(waits[-100:])
    record_property("memory", memory)
    print(
        f"\n500 exchanges: MB of the server {memory}; medians of seconds {early:.4f} (50 to 150), {late:.4f} (last 100)"
    )
    assert memory[499] - memory[50] < 100


def simulate_own(root: Path, source: Path, method: str):
    return simulate(root, own("build"), method, noise=0.2)


def own(name: str):
    """A problem of the module that deployments here name, with the data of all sites."""
    scope: dict = {}
    exec(compile(OWN, "own", "exec"), scope)
    return scope[name]([examples(int(site[-1])) for site in SITES])


def assert_data_stays(made: Deployment) -> None:
    """A site is told of its own data alone, the server of nobody's."""
    for site in SITES:
        told = json.loads((made.folder / "sites" / site / "deployment.json").read_text())
        assert told["data"] == str(made.source / f"{site}.npz")
        assert not any(f"{other}.npz" in json.dumps(told) for other in SITES if other != site)
    assert ".npz" not in (made.folder / "server" / "deployment.json").read_text()


SIZES = {"1 kB": (64, 30), "1 MB": (64_000, 12), "10 MB": (640_000, 6)}


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("engine", ["local", "nvflare", "flower"])
def test_seconds_a_round(deploy, monkeypatch, record_property, engine):
    """FeDualEx with one local step of a cheap operator, checkpoint included: each round is asked for once, and replies
    are twice as long as the message; how long that takes is printed with `pytest -s`."""
    if engine != "local":
        pytest.importorskip("nvflare" if engine == "nvflare" else "flwr")
    made = None
    for name, (size, rounds) in SIZES.items():
        rounds = rounds if engine != "flower" else 4
        settings = {
            "problem": f'entry = "own_deployed:separable"\nsize = {size}',
            "run": {"rounds": rounds, "record_every": rounds, "noise": None, "local_steps": 1, "output": "last"}
            | {"secure_sums": "off"},  # masks need 16 bytes for a number: benchmarks/secure.py measures them
        }
        if made is None:
            made = deploy(engine, watched=True, **settings)
        else:
            made.again(**settings)
        made.run()
        requests = made.requests()
        assert [number for _, number, _, _ in requests] == list(range(rounds))
        record = json.loads((made.run_folder / "history.jsonl").read_text().splitlines()[-1])
        survey = 2 * 8 * size  # of the first record: x and y
        message = survey + 8  # and tau
        assert record["bytes_down"] == len(SITES) * (rounds * message + survey)
        assert record["bytes_up"] == len(SITES) * (rounds * 2 * message + survey + 8)  # and its value
        gaps = np.diff([moment for _, _, moment, _ in requests][1:])
        median = float(np.median(gaps))
        record_property(name, median)
        print(f"\n{engine}, {name}: median {median:.4f} s, worst {gaps.max():.3f} s of {len(gaps)} rounds")

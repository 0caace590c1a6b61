"""Faults of a deployment on NVFlare, whose processes are killed by their ids, and 500 rounds.

Whatever a test starts is ended by its process id, even when the test fails.
"""

import json
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support.deployments import (
    AT_SITES,
    EXACT,
    GAME,
    RUN,
    SITES,
    Deployment,
    assert_same,
    cli,
    examples,
    one_sentence,
    simulate,
    the_game,
    write_source,
)
from support.in_threads import run_in_threads

from fedualex.deploy import processes, thread_engine
from fedualex.deploy.consortium import deployment, deployment as deployment_files

FAULTY = {"rounds": 8, "record_every": 8, "timeout": 8.0, "attempts": 2}
STAGES = ("before", "during", "after")
HELD = 3
LOOP_ENDED = ("finished", "failed")
"""NVFlare calls a job failed if it notices a dead site before the job is closed, although the loop ended by itself."""


@pytest.fixture(scope="module")
def nvflare(tmp_path_factory):
    """Server and three sites for all faults; each test begins with everybody there, and a run of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
        patch.setattr(deployment_files, "SERVE", "support.deployed_parts:serve")
        patch.setattr(deployment_files, "LOAD_SITE", "support.deployed_parts:load")
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

    deployment.serve(thread_engine({**works, "site-3": failing}), made.folder / "server")
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
def test_a_killed_job_of_a_site_does_not_end_deploy_run(trial, undisturbed):
    """NVFlare ends the whole job then; the command sends it again, and the run goes on from its checkpoint."""
    trial.order("site-2", round=HELD, what="before")

    def kill() -> None:
        trial.until_site("site-2", "held")
        trial.kill("site-1", party=False)
        trial.release("site-2")

    killer = threading.Thread(target=kill)
    killer.start()
    done = cli("run", trial.folder, code=None)
    killer.join()
    assert done.exit_code == 0, f"{done.output}\n{trial.logs()}"
    assert "the engine ended the run" in done.stderr
    assert_same(trial, *undisturbed)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_site_that_is_killed_and_started_again_rejoins_under_deploy_run(trial, undisturbed):
    """NVFlare does not take it back into the running job; the command says so, and sends the run again."""
    trial.again(run={**FAULTY, "attempts": 100})
    trial.order("site-3", round=HELD, what="before")

    def kill() -> None:
        trial.until_site("site-3", "held")
        trial.kill("site-3")
        trial.release("site-3")
        trial.until(lambda: not processes.alive_parties(trial.folder)["site-3"], "the end of site-3")
        trial.start_all()

    killer = threading.Thread(target=kill)
    killer.start()
    done = cli("run", trial.folder, code=None)
    killer.join()
    assert done.exit_code == 0, f"{done.output}\n{trial.logs()}"
    assert "site-3 has not answered since" in done.stderr
    assert "is back: the run is sent again from its checkpoint" in done.stderr
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
    assert processes.alive_parties(trial.folder) == {}
    cli("up", trial.folder)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_stopped_deployment_is_resumed(trial, undisturbed):
    trial.order("site-2", round=HELD, what="before")
    trial.submit()
    trial.until_site("site-2", "held")
    cli("stop", trial.folder)
    assert processes.alive_parties(trial.folder) == {}
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
    run_in_threads(trial.folder)  # the newer one, on the same checkpoint, to its end
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

"""`fedualex deploy`: folders of deployed runs, and what is refused in one sentence.

Whatever a test starts is ended by its process id, even when the test fails.
"""

import json
import os
import re
import shutil
import signal
import time
from contextlib import nullcontext
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from support.deployments import (
    GAME,
    METHODS,
    SITES,
    Deployment,
    assert_same,
    cli,
    command,
    deploy,  # noqa: F401
    one_sentence,
    simulate,
    the_game,
    toml,
    write_source,
)
from support.in_threads import run_in_threads, threads  # noqa: F401

from fedualex.cli import deploy_run, deploy_watch
from fedualex.deploy import engines
from fedualex.deploy.consortium import deployment as deployment_files
from fedualex.deploy.engine import NOT_CONNECTED
from fedualex.deploy.local import control
from fedualex.display import round_up
from fedualex.runtime.status import REFUSALS, Code

# Folders of deployed runs


@pytest.fixture(scope="module")
def finished(tmp_path_factory, threads) -> Deployment:
    made = Deployment(tmp_path_factory.mktemp("finished"), "local")
    made.run()
    return made


@pytest.mark.slow
def test_records_are_shown_as_they_come(deploy):
    """The newest one whenever the command looks, so how many depends on the time that a round takes; the last one always."""
    made = deploy("local")
    shown = [line for line in cli("run", made.folder).stdout.splitlines() if line.startswith("round ")]
    written = []
    for record in map(json.loads, (made.run_folder / "history.jsonl").read_text().splitlines()):
        gap = min(v for k, v in record.items() if k.startswith("gap_") and v is not None)
        written.append(f"round {record['round']}: certified gap <= {round_up(gap, 3)}")
    assert [line.split(":")[0] for line in written] == ["round 0", "round 3", "round 6"]
    assert shown == [line for line in written if line in shown]
    assert shown[-1] == written[-1]


def test_status_and_a_second_run(finished):
    told = json.loads(cli("status", finished.folder, "--json").stdout)
    assert told["engine"] == "finished"
    assert told["round"] == 6
    assert told["run"] == str(finished.run_folder)
    assert told["status"] == json.loads((finished.run_folder / "status.json").read_text())
    assert "status: CERTIFIED, MAX_ROUNDS" in cli("status", finished.folder).stdout
    for again in ("run", "resume"):
        one_sentence(cli(again, finished.folder, code=2), "already holds a finished run; move it away")


def test_status_and_the_live_page_say_why_a_server_could_not_go_on(finished, tmp_path):
    copy = shutil.copytree(finished.folder, tmp_path / "copy")
    (copy / "server" / "failure.json").write_text('{"error": "the columns of <site-1> differ"}')
    assert "the server could not go on: the columns of <site-1> differ" in cli("status", copy).stdout
    assert json.loads(cli("status", copy, "--json").stdout)["failure"] == "the columns of <site-1> differ"
    assert "could not go on: the columns of &lt;site-1&gt; differ" in deploy_watch.page(deploy_watch.snapshot(copy))


COMPLAINT = {"level": "WARNING", "party": "server", "logger": "fedualex.deploy.clients"}


def test_a_live_page_and_metrics_on_loopback(finished):
    lines = [
        {"time": f"2026-01-0{day}", **COMPLAINT, "message": f"round {day}: nothing from {site}: <b>timeout</b>"}
        for day, site in ((1, "site-2"), (2, "site-2"), (3, "site-3"))
    ]
    text = "\n".join(map(json.dumps, lines)) + '\n{"cut off'
    (finished.folder / "server" / "log.jsonl").write_text(text)
    (finished.folder / "server" / "events.jsonl").unlink(missing_ok=True)
    for site in ("site-2", "site-2", "site-3"):
        happens(finished.folder, "timeout", site, "<b>timeout</b>")
    happens(finished.folder, "answers", "site-1")
    happens(finished.folder, "answers", "site-3")
    (finished.folder / "server" / "differences.json").write_text('{"<age>": {"wider": ["site-1"]}}')
    with deploy_watch.Watch(finished.folder, 0) as watch:
        found = read(watch.port, "/")
        for part in ("CERTIFIED, MAX_ROUNDS", "survey 7: &lt;b&gt;timeout&lt;/b&gt;", "gap &lt;= ", "&lt;age&gt;"):
            assert part in found
        sites, repaired = found.split("<h2>Repaired</h2>")
        assert "raise `timeout`" in sites.split("<h2>Sites</h2>")[1]  # what helps site-2, which is open
        assert [name for name in SITES if f"<td>{name}</td>" in repaired] == ["site-3"]
        values = dict(line.rsplit(" ", 1) for line in read(watch.port, "/metrics").splitlines() if line[0] != "#")
        assert values['fedualex_site_complaints_total{site="site-2"}'] == "2"
        assert values['fedualex_site_complaints_total{site="site-1"}'] == "0"
        assert [values[f'fedualex_site_missing{{site="{name}"}}'] for name in SITES] == ["0", "1", "0"]
        assert float(values['fedualex_site_last_answer_seconds{site="site-1"}']) <= time.time()
        assert (values["fedualex_run_live"], values["fedualex_round"]) == ("0", "6")
        status = json.loads((finished.run_folder / "status.json").read_text())
        assert float(values["fedualex_certified_gap"]) == pytest.approx(status["gap"])
        for path, host in (("/etc/passwd", "localhost"), ("/", "attacker.example")):
            with pytest.raises(HTTPError, match="404"):
                read(watch.port, path, host)


def test_the_end_of_a_run_is_expected_where_its_gap_goes_on_to_shrink():
    def history(*gaps):
        return [{"seconds": 10.0 * i, "gap_last": gap} for i, gap in enumerate(gaps)]

    assert deploy_watch._seconds_left(history(1, 0.1, 0.01), 1e-4) == pytest.approx(20.0)
    for gaps, tol in (((1, 0.1, 0.01), None), ((1, 0.1), 1e-4), ((1, 1, 1), 1e-4), ((1, 0.1, 0.01), 0.1)):
        assert deploy_watch._seconds_left(history(*gaps), tol) is None


def read(port: int, path: str, host: str = "localhost") -> str:
    with urlopen(Request(f"http://127.0.0.1:{port}{path}", headers={"Host": host}), timeout=300) as answer:
        return answer.read().decode()


@pytest.mark.slow
def test_verify_report_and_compare(finished, deploy, tmp_path):
    checks = json.loads(command("verify", finished.run_folder, "--json").stdout)
    assert checks["agrees"]
    assert checks["complete"]
    assert {check["output"] for check in checks["checks"]} >= {"last", "client_average", "polished"}
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


@pytest.mark.slow
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


def test_the_result_of_an_earlier_run_is_not_told_as_a_new_one(deploy, monkeypatch):
    made = deploy("local", run={"max_seconds": 1e-6})
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
    monkeypatch.setattr(made.control, "submit", lambda *_: pytest.fail("it was sent all the same"))
    one_sentence(cli("run", made.folder, code=2), "already holds a finished run; move it away")


def test_a_result_on_another_machine_is_said_to_be_there(deploy, monkeypatch):
    made = deploy("local")
    monkeypatch.setattr(made.control, "submit", lambda folder, sites: made.control.said.update({folder: "finished"}))
    done = cli("run", made.folder, code=1)
    assert "its result is on the server's machine: `fedualex deploy fetch" in done.stderr


def test_a_result_is_fetched_into_a_folder_of_its_own(finished, tmp_path, deploy, monkeypatch):
    assert "fetched: run" in cli("fetch", finished.folder, "--out", tmp_path / "fetched").stdout
    checks = json.loads(command("verify", tmp_path / "fetched" / "run", "--json").stdout)
    assert checks["agrees"]
    assert not list((tmp_path / "fetched").rglob("*.lock"))
    one_sentence(
        cli("fetch", finished.folder, "--out", tmp_path / "fetched", code=2), "out must be a new or an empty folder"
    )
    made = deploy("local")
    one_sentence(cli("fetch", made.folder, "--out", tmp_path / "none", code=2), "has left no result yet")
    monkeypatch.setattr(control, "state", lambda folder: ("running", False))
    one_sentence(
        cli("fetch", finished.folder, "--out", tmp_path / "live", code=1), "has not ended: fetch it afterwards"
    )


class Scripted:
    """An engine whose words are given, one for each look; `submit` does as it is told, or nothing.

    A word may be a function, which is called with the folder and gives the word.
    """

    POLL, HERE = 0.0, False

    def __init__(self, *words, submit=lambda folder: None) -> None:
        self.words, self.submitted, self.stopped, self._submit = list(words), 0, 0, submit
        self.away: dict[str, str] = {}

    def state(self, folder: Path) -> tuple[str, bool]:
        word = self.words.pop(0) if len(self.words) > 1 else self.words[0]
        said = word(folder) if callable(word) else word
        return said, said in ("none", "finished", "failed", "aborted", "lost")

    def absent(self, folder: Path, sites) -> dict[str, str]:
        return self.away

    def stop(self, folder: Path) -> None:
        self.stopped += 1

    def submit(self, folder: Path, sites: int) -> None:
        self.submitted += 1
        self._submit(folder)


def scripted(monkeypatch, *words: str, **options) -> Scripted:
    found = Scripted(*words, **options)
    monkeypatch.setattr(engines, "control_of", lambda name: found)
    return found


def test_a_live_run_is_joined_and_not_begun_again(deploy, monkeypatch):
    made = deploy("local")
    run_in_threads(made.folder)
    engine = scripted(monkeypatch, "running", "running", "finished")
    done = cli("run", made.folder)
    assert "a run of" in done.stdout
    assert "is live (running): joined, not begun again" in done.stdout
    assert engine.submitted == 0
    assert "CERTIFIED" in done.stdout


@pytest.mark.parametrize("word", ["lost", "failed"])
def test_a_run_whose_server_died_without_a_word_is_sent_again(deploy, monkeypatch, word):
    """As when the server's process is killed, or with NVFlare the server's job process."""
    made, times = deploy("local"), []

    def submit(folder):
        times.append(folder)
        if len(times) == 2:
            run_in_threads(folder)

    engine = scripted(monkeypatch, "none", "running", word, "running", "finished", submit=submit)
    done = cli("run", made.folder)
    assert "the server ended without a word, as when it is killed: the run is sent again" in done.stderr
    assert engine.submitted == 2
    assert "CERTIFIED" in done.stdout


def test_a_run_that_its_engine_ended_is_sent_again(deploy, monkeypatch):
    """As NVFlare does when the job process of one site dies: the loop keeps its checkpoint and ends as INTERRUPTED."""
    made = deploy("local", run={"record_every": 1})
    stops = [True, False]

    def submit(folder):
        run_in_threads(folder, stop_after=2 if stops.pop(0) else None)

    engine = scripted(monkeypatch, "none", "running", "failed", "running", "finished", submit=submit)
    done = cli("run", made.folder)
    assert engine.submitted == 2
    assert "the engine ended the run" in done.stderr
    assert json.loads((made.run_folder / "status.json").read_text())["stop"] == "MAX_ROUNDS"
    made.again()
    engine = scripted(
        monkeypatch, "none", "aborted", submit=lambda folder: run_in_threads(folder, stop_after=2)
    )  # by hand: it stays so
    cli("run", made.folder, code=None)
    assert engine.submitted == 1
    assert json.loads((made.run_folder / "status.json").read_text())["stop"] == "INTERRUPTED"


def happens(folder: Path, code: str, party: str, text: str = "") -> None:
    time = "2030-01-02T03:04:05.000+00:00"
    line = {"time": time, "code": code, "party": party, "task": "survey", "number": 7, "text": text}
    with open(folder / "server" / "events.jsonl", "a") as events:
        events.write(json.dumps(line) + "\n")


def test_a_missing_site_is_told_again_and_again_until_it_is_back(deploy, monkeypatch):
    made, clock = deploy("local"), [0.0]
    monkeypatch.setattr(deploy_run.time, "monotonic", lambda: clock[0])

    def silent(folder):
        clock[0] += 40
        happens(folder, "timeout", "site-2", "timeout")
        return "running"

    def heard(folder):
        happens(folder, "answers", "site-2")
        happens(folder, "refused", "site-1", "refused: this site takes no part")
        return "running"

    def waiting(folder):
        engine.away = {"site-3": NOT_CONNECTED}
        return "waiting"

    words = ("none", "running", silent, silent, silent, silent, heard, "running", waiting, "running")
    engine = scripted(monkeypatch, *words, lambda folder: run_in_threads(folder) and "finished")
    done = cli("run", made.folder)
    lines = [line for line in done.stderr.splitlines() if "has not answered since" in line]
    assert [line.split()[0] for line in lines] == ["site-2", "site-2", "site-3"]
    assert re.fullmatch(
        r"site-2 has not answered since \d\d:04:05 \(timeout\): look at its log, and start it if it is not running: "
        "the run then goes on; if it is only slow, raise `timeout` in server/deployment.json",
        lines[0],
    )
    assert "(not connected)" in lines[2]
    assert engine.submitted == 1


@pytest.mark.parametrize("text", ["refused: this site gives 5 answers in 24 hours", ""])
def test_what_can_be_done_about_a_refusal_is_told_once_by_its_code(deploy, monkeypatch, text):
    made = deploy("local")

    def refused(folder):
        happens(folder, "day_spent", "site-1", text)
        return "running"

    scripted(monkeypatch, "none", "running", refused, refused, lambda folder: run_in_threads(folder) and "finished")
    lines = [line for line in cli("run", made.folder).stderr.splitlines() if line.startswith("site-1 (")]
    assert lines == [f"site-1 ({text}): {REFUSALS[Code.DAY_SPENT]}"]


def test_a_site_that_is_back_but_outside_of_the_run_has_it_sent_again(deploy, monkeypatch):
    """As with NVFlare, which fixes the sites of a job when it starts."""
    made = deploy("local", run={"record_every": 1})
    stops = [True, False]

    def submit(folder):
        engine.away = {}
        run_in_threads(folder, stop_after=2 if stops.pop(0) else None)

    def back(folder):
        happens(folder, "timeout", "site-2", "timeout")
        engine.away = {"site-2": engines.OUTSIDE}
        return "running"

    monkeypatch.setattr(deploy_run, "SETTLED", 0.0)
    engine = scripted(monkeypatch, "none", "running", back, "aborted", "running", "finished", submit=submit)
    done = cli("run", made.folder)
    assert (engine.submitted, engine.stopped) == (2, 1)
    assert "site-2 has not answered since" in done.stderr
    assert "and is back: the run is sent again from its checkpoint" in done.stderr
    assert json.loads((made.run_folder / "status.json").read_text())["stop"] == "MAX_ROUNDS"


def test_of_two_commands_one_sends_the_run_again(deploy, monkeypatch):
    made = deploy("local")

    def sent_by_another(folder):
        run_in_threads(folder)
        (folder / "server" / "sent").write_text("by another")
        return "failed"

    engine = scripted(monkeypatch, "none", "running", sent_by_another, "running", "finished")
    cli("run", made.folder)
    assert (engine.submitted, engine.stopped) == (1, 0)


@pytest.mark.parametrize("outside", [True, False])
def test_a_run_that_was_stopped_by_hand_is_not_sent_again(deploy, monkeypatch, outside):
    made = deploy("local")

    def stopped(folder):
        cli("stop", folder)
        if outside:
            happens(folder, "raised", "site-2", "the runtime is shutting down")
            engine.away = {"site-2": engines.OUTSIDE}
        return "running"

    monkeypatch.setattr(deploy_run, "SETTLED", 0.0)
    monkeypatch.setattr(Scripted, "down", lambda self, folder: None, raising=False)
    words = ("none", "running", stopped, "running", "aborted" if outside else "failed")
    engine = scripted(monkeypatch, *words, submit=lambda folder: run_in_threads(folder, stop_after=2))
    cli("run", made.folder, code=130)
    assert engine.submitted == 1


def interrupt(folder):
    raise KeyboardInterrupt


@pytest.mark.parametrize("command", ["run", "resume"])
def test_ctrl_c_lets_go_of_a_run_elsewhere_in_one_sentence(deploy, monkeypatch, command):
    made = deploy("local")
    engine = scripted(monkeypatch, "running", "running", "running", interrupt)
    done = cli(command, made.folder, code=130)
    [line] = done.stderr.splitlines()
    assert line.startswith("detached; the run goes on: `fedualex deploy run ")
    assert (engine.submitted, engine.stopped) == (0, 0)


@pytest.mark.parametrize("here", [False, True])
def test_ctrl_c_is_heard_in_the_background_where_it_ends_the_watching_alone(here):
    """Shells have commands that scripts put into the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with nullcontext() if here else pytest.raises(KeyboardInterrupt), deploy_run.hear_interrupts(here):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_server_that_is_gone_is_said_at_once_and_waited_for_a_while(deploy, monkeypatch):
    made = deploy("local")
    scripted(monkeypatch, "none", "running", "unreachable")
    monkeypatch.setattr(deploy_run, "PATIENCE", 0.2)
    done = cli("run", made.folder, code=1)
    assert re.search(r"server unreachable since 0 s, waiting until \d\d:\d\d:\d\d", done.stderr)
    assert "the server was silent for 0 s: start it, then `fedualex deploy resume`" in done.stderr


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


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"engine": "nvflair"}, "there is no engine 'nvflair'; did you mean 'nvflare'?"),
        ({"sites": ()}, "[sites] must name at least one site"),
        ({"data": True}, '[sites] have data, so [problem] needs entry = "module:function"'),
        (
            {"problem": 'name = "agnostic"\nfile = "game.npz"'},
            'name = "agnostic" is made from rows of tables: deploy a goal',
        ),
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
    assert "nothing to start: `fedualex deploy run` starts all" in cli("up", finished.folder).stdout
    assert "stopped" in cli("stop", finished.folder).stdout


@pytest.mark.slow
def test_a_server_that_is_not_up_is_one_sentence(deploy):
    made = deploy("nvflare", up=False)
    told = json.loads(cli("status", made.folder, "--json").stdout)
    nothing = {"round": None, "exchanges": None, "status": None, "failure": None}
    assert told == {"engine": "unreachable", **nothing, "run": str(made.run_folder)}
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
    private.write_text(deployment_files.EXAMPLE.read_text() + "\n[privacy]\nclip = 1.0\nnoise = 8.0\n")
    cli("init", tmp_path / "private", "--config", private, "--engine", "local")
    text = (tmp_path / "private" / "README.md").read_text()
    assert "clipped to length 1.0 and with noise of 8.0 times" in text
    assert "local points" not in text


def test_a_run_that_is_stopped_elsewhere_is_said_to_be_at_once(deploy, monkeypatch):
    made = deploy("local")

    def stopped(folder):
        deploy_run.note_stop(folder)
        return "running"

    engine = scripted(monkeypatch, "running", stopped, "running", "running", "aborted")
    done = cli("run", made.folder, code=1)
    assert done.stderr.count("the run was stopped by hand: `fedualex deploy resume") == 1
    assert engine.submitted == 0


def test_a_run_whose_server_was_killed_is_sent_again(deploy, monkeypatch):
    made = deploy("local")
    sent = []

    def submit(folder):
        sent.append(1)
        if len(sent) > 1:
            run_in_threads(folder)

    scripted(monkeypatch, "none", "running", "lost", "running", "finished", submit=submit)
    assert "the server ended without a word" in cli("run", made.folder).stderr
    assert len(sent) == 2

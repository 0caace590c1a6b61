"""Three hospitals with a table each: what leaves them, the model that they end with, and what can go wrong."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from support.command_line import cli, refused
from support.consortium import deployment, measure_few, noting, run_in_threads, write_tables
from support.patients import HOSPITALS, columns, write

from fedualex import models, theory
from fedualex.certificates.surveys import SurveyErrors
from fedualex.data import read_csv
from fedualex.deploy import Request
from fedualex.deploy.clients import SilentSitesError
from fedualex.deploy.consortium import messages
from fedualex.deploy.consortium.agreement import agreement, recipe_of_goal
from fedualex.deploy.consortium.deployment import find_unfinished, load_site
from fedualex.deploy.consortium.messages import read_known
from fedualex.deploy.consortium.settings import settings_of
from fedualex.deploy.consortium.site import read_own_table
from fedualex.deploy.engine import RefusedError
from fedualex.deploy.ledger import audit
from fedualex.deploy.policy import read_policy
from fedualex.deploy.wire import pack_known, unpack_summary
from fedualex.runs.settings import ConfigurationError
from fedualex.runtime import Status
from fedualex.runtime.status import Code
from fedualex.storage import read_arrays
from fedualex.tables.party import Party


@pytest.fixture
def place(tmp_path):
    write_tables(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The folder of a run that has ended, the run, and all that sites were asked and answered."""
    place = tmp_path_factory.mktemp("consortium")
    write_tables(place)
    root, seen = deployment(place), []
    measure_few(root)
    run = run_in_threads(root, noting(seen))
    return root, run, seen


def request_to(root, task, arrays, number=0):
    return Request(task, number, f"{agreement(settings_of(root / 'server'))}-tables", arrays)


def test_a_run_ends_with_a_certified_model_at_the_server_and_at_every_site(ended):
    root, run, _ = ended
    assert run.status is Status.OPTIMAL
    model = models.load(root / "server")
    assert model.certificate["gap"] <= model.certificate["tol"] == 1e-2
    assert model.classes.tolist() == ["sick", "well"]
    assert {c.feature for c in model.coefficients} >= {"age", "ward=B (against A)"}
    assert set(model.training["held_out"]["clients"]) == set(HOSPITALS)
    assert 0.6 < model.training["held_out"]["overall"]["accuracy"] <= 1
    for name in HOSPITALS:
        own = models.load(root / "sites" / name)
        np.testing.assert_array_equal(own.weights, model.weights)
        table = read_csv(root.parent / f"{name}.csv")
        np.testing.assert_array_equal(own.predict(table), model.predict(table))
    assert "NOT FULLY CHECKED: nothing differs" in cli("verify", root / "server" / "run").output  # rows are elsewhere


FIXED = (64, 101)
"""The lengths of what says nothing of rows: powers of two that bound a row, and thresholds of a ROC curve."""


def test_nothing_leaves_a_site_but_summaries_one_gradient_an_exchange_and_measures(ended):
    root, run, seen = ended
    model = models.load(root / "server")
    numbers = model.weights.size + 1 + len(HOSPITALS)
    rows = model.training["rows"]
    for _, request, arrays in seen:
        sizes = {name: np.size(array) for name, array in arrays.items() if array.dtype != np.uint8}
        assert all(size < rows / len(HOSPITALS) or size in FIXED for size in sizes.values()), request.task
        if request.task == "survey":
            assert sum(sizes.values()) == numbers + 1 + len(SurveyErrors._fields)
    tasks = [request.task for name, request, _ in seen if name == HOSPITALS[0]]
    assert tasks[:8] == ["columns", *["summary"] * 6, "begin"]
    after = tasks[tasks.index("effects") :]
    assert list(dict.fromkeys(after)) == ["effects", "measure", "calibrate", "model"]
    assert after[-1] == "model"
    assert after.count("model") == 1
    assert tasks.count("survey") + tasks.count("round") >= run.exchanges


def test_a_finished_run_is_not_run_again_but_one_without_its_model_gets_it(ended, tmp_path):
    root, _, _ = ended
    with pytest.raises(ConfigurationError, match="already holds a finished run"):
        find_unfinished(root / "server")
    again = shutil.copytree(root, tmp_path / "copy")
    before = models.load(again / "server")
    shutil.rmtree(again / "server" / "model")
    run_in_threads(again)
    np.testing.assert_array_equal(models.load(again / "server").weights, before.weights)


def test_a_site_that_was_started_again_knows_what_was_agreed_on(ended):
    root, _, seen = ended
    name, request, arrays = next(one for one in seen if one[1].task == "survey")
    for key, array in load_site(root / "sites" / name).work(request).items():
        np.testing.assert_array_equal(array, arrays[key])


def test_a_site_reads_what_it_was_told_once(ended, monkeypatch):
    """Every request needs it; and numbers of files cost syntax trees, of which threads of one process can make one."""
    root, _, seen = ended
    asked = [request for name, request, _ in seen if name == "north" and request.task in ("survey", "effects")]
    site, read = load_site(root / "sites" / "north"), []
    monkeypatch.setattr(messages, "read_arrays", lambda path: (read.append(path.name), read_arrays(path))[1])
    for request in asked[:4]:
        site.work(request)
    assert len(asked) >= 4
    assert read == ["known.npz"]


def test_sites_refuse_another_goal_and_summaries_that_are_not_of_their_rows(ended, tmp_path):
    root, _, _ = ended
    copy = shutil.copytree(root, tmp_path / "copy")
    site, known = load_site(copy / "sites" / "north"), read_known(copy / "server")
    with pytest.raises(RuntimeError, match="told different goals"):
        site.work(replace(request_to(copy, "summary", pack_known([])), run_id="0123456789abcdef-tables"))
    wrong = [dict(part) for part in known]
    wrong[3]["rows"] = wrong[3]["rows"] + 1
    with pytest.raises(RuntimeError, match="not made of this site's rows"):
        site.work(request_to(copy, "begin", pack_known(wrong)))
    (copy / "sites" / "north" / "known.npz").unlink()
    with pytest.raises(RuntimeError, match="has not been told"):
        load_site(copy / "sites" / "north").work(Request("survey", 1, "x", {}))


def test_a_site_that_was_started_again_with_other_rows_takes_no_part_in_the_run_of_before(ended, tmp_path):
    root, _, seen = ended
    copy = shutil.copytree(root, tmp_path / "copy")
    home, lines = copy / "sites" / "north", (root.parent / "north.csv").read_text().splitlines()
    (home / "fewer.csv").write_text("\n".join(lines[:-9]) + "\n")
    (home / "site.toml").write_text('table = "fewer.csv"\n')
    site = load_site(home)
    for task in ("survey", "effects", "measure"):
        request = next(one for name, one, _ in seen if one.task == task and name == "north")
        with pytest.raises(
            RefusedError, match="table is not the one that the run began with: own rows of this"
        ) as refusal:
            site.work(request)
        assert refusal.value.code is Code.OTHER_ROWS


def test_what_a_site_leaves_out_need_not_be_in_its_table(ended, tmp_path):
    root, _, _ = ended
    home = shutil.copytree(root, tmp_path / "copy") / "sites" / "north"
    (home / "site.toml").write_text((home / "site.toml").read_text().replace("ignore = []", 'ignore = ["nobody"]'))
    assert "nobody" not in load_site(home).work(request_to(root, "columns", {}))
    assert "rows" in cli("deploy", "check", home).output


def test_a_model_is_measured_on_rows_that_were_held_out(ended):
    root, _, seen = ended
    sent = next(request for _, request, _ in seen if request.task == "measure")
    found = unpack_summary(load_site(root / "sites" / "west").work(sent)).sums
    lines = [line for line in audit(root / "sites" / "west")["lines"] if line.get("task") == "measure"]
    assert {line["numbers"] for line in lines} == {sum(np.size(value) for value in found.values())}
    settings = settings_of(root / "sites" / "west")
    own = read_own_table(root / "sites" / "west", recipe_of_goal(settings), settings["problem"]["holdout"])
    assert found["rows"] == own.held_out.rows
    told = models.load(root / "server").training["held_out"]["clients"]["west"]
    assert found["right"] / found["rows"] == told["accuracy"]


def test_a_model_that_no_site_measures_says_why(tmp_path):
    write_tables(tmp_path)
    root = deployment(tmp_path)
    run_in_threads(root)
    model = models.load(root / "server")
    assert model.training["held_out"] is None
    why = "no site holds out as many as its rules want for that (least_held_out)"
    assert f"It was not tested on held-out rows: {why}." in model.training["done"]


def test_columns_with_other_names_are_mapped_and_some_are_left_out(place):
    root = deployment(place)
    table = columns(60, seed=4)
    other = {"id": list(range(60)), "Alter": table["age"], "died": table["outcome"]}
    other |= {name: table[name] for name in ("dose", "unit", "town", "ward")}
    write(place / "own.csv", other, delimiter=";", decimal=",")
    site = root / "sites" / "west"
    (site / "site.toml").write_text(
        'table = "../../../own.csv"\nignore = ["id"]\n[columns]\nage = "Alter"\noutcome = "died"\n'
    )
    sent = unpack_summary(load_site(site).work(request_to(root, "summary", pack_known([]))))
    assert sent.labels["columns"].tolist() == ["age", "dose", "town", "unit", "ward"]
    (site / "site.toml").write_text('table = "../../../own.csv"\n')
    message = refused("deploy", "check", site)
    assert "has no column 'outcome', which all sites need: name yours in [columns] of site.toml" in message
    (site / "site.toml").write_text('table = "../../../own.csv"\n[columns]\noutcome = "dead"\n')
    assert "has no column 'dead', which site.toml names" in refused("deploy", "check", site)
    (site / "site.toml").write_text('table = ""\n')
    assert "must name this site's table" in refused("deploy", "check", site)


@pytest.mark.parametrize("secure_sums", ["off", "on"])
def test_sites_with_other_columns_are_named_before_any_number_leaves(place, secure_sums):
    table = columns(60, seed=4)
    write(place / "west.csv", {name: table[name] for name in table if name not in ("hospital", "dose", "days")})
    north = read_csv(place / "north.csv")
    write(place / "north.csv", {"Alter" if name == "age" else name: north[name].tolist() for name in north})
    root = deployment(place, secure_sums)
    with pytest.raises(ConfigurationError) as refusal:
        run_in_threads(root)
    assert (
        "all sites must have the same columns: north alone with ['Alter']; north without ['age']; west without ['dose']"
    ) in str(refusal.value)
    for name in HOSPITALS:
        assert audit(root / "sites" / name)["totals"]["tasks"] == {"columns": 1}


def test_a_site_that_does_not_answer_ends_the_summaries_with_its_reason(place):
    def broken(works):
        def fails(request):
            raise OSError("secret")

        return {**works, "west": fails}

    root = deployment(place)
    with pytest.raises(SilentSitesError, match=r"no valid answer of west \(the site raised OSError"):
        run_in_threads(root, broken)
    assert read_known(root / "server") is None


def test_check_shows_what_would_leave_and_needs_nobody(place):
    site = deployment(place) / "sites" / "north"
    text = cli("deploy", "check", site).output
    assert "rows, of which" in text
    assert "categories of town  union" in text
    assert "All of it leaves in the clear: this run has no secure sums. In every exchange of a run it sends" in text
    masked = cli("deploy", "check", deployment(place, "auto", "masked") / "sites" / "north").output
    assert "what is merged by sum leaves under masks, the rest in the clear. In every exchange" in masked
    found = json.loads(cli("deploy", "check", site, "--json").output)
    assert len(found["summaries"]) == 6
    assert found["summaries"][0]["target classes"] == ["sick", "well"]
    assert found["numbers_in_an_exchange"] == len(found["summaries"][5]["class_rows"][0]) + 2 + len(HOSPITALS) + 3
    assert "rules in force: least_rows = 10, least_category = 5, numbers_per_run = 10000000, keep_values = True" in text
    (site / "policy.toml").write_text("")
    assert "rules in force: none" in cli("deploy", "check", site).output
    (site / "policy.toml").write_text("least_rows = 30\nsecure_sums = true\n")
    assert "rules in force: least_rows = 30, secure_sums = True" in cli("deploy", "check", site).output
    (site / "policy.toml").write_text("least_rows = 5000\n")
    assert "by its own rules nothing leaves this site: this site answers from at least 5000 rows" in refused(
        "deploy", "check", site
    )
    (site / "policy.toml").write_text("least_group = 500\n")
    assert "rows of the rarest value: town (" in refused("deploy", "check", site)
    (site / "policy.toml").write_text("")
    table = columns(20, seed=4)
    one_class = {name: table[name] for name in table if name not in ("hospital", "days")} | {"outcome": ["well"] * 20}
    write(place / "north.csv", one_class)
    assert "cannot be shown without the other sites' summaries: " in cli("deploy", "check", site).output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--goal", "fare", "--target", "y", "--sites", "a,b"), "there is no goal 'fare'; did you mean 'fair'"),
        (("--goal", "fair", "--sites", "a,b"), "a deployment of tables needs target, the name of a column"),
        (("--target", "y", "--sites", "a,b"), "a deployment of tables needs goal, one of logistic, fair"),
        (("--goal", "fair", "--target", "y"), "a deployment of tables needs sites, as --sites north,south,east"),
        (("--goal", "fair", "--target", "y", "--sites", "a,a"), "sites must have different names, got a, a"),
        (("--goal", "fair", "--target", "y", "--sites", "a b"), "a site's name must be a letter, then letters, digits"),
        (("--goal", "auc", "--target", "y", "--sites", "a,b", "--groups", "g"), "groups are for the goals fair"),
        (("--goal", "auc", "--target", "y", "--sites", "a,b", "--cvar", "0.5"), "cvar is no option of the goal auc"),
        (("--goal", "fair", "--target", "y", "--sites", "a,b", "--l1", "-1"), "l1 must be"),
        (
            ("--goal", "fair", "--target", "y", "--sites", "a,b", "--l1", "0", "--l2", "0"),
            "l1 or l2 must be > 0 for the goal fair, whose weights nothing else bounds",
        ),
        (("--port", "99"), "port belongs into [server] of the file of a problem"),
    ],
)
def test_wrong_deployments_are_refused_in_one_sentence(tmp_path, arguments, words):
    assert words in refused("deploy", "init", tmp_path / "kit", *arguments)
    assert not (tmp_path / "kit").exists()


@pytest.mark.slow
def test_a_method_with_step_sizes_finds_them_from_what_sites_tell(place):
    """The step is that of all rows in one place, and every site has the same one, or it would not answer."""
    root = deployment(place, run={"local_steps": 5}, method={"name": "FeDualExCorrected"}, goal="logistic", tol=0.05)
    site = root / "sites" / "north"
    assert json.loads(cli("deploy", "check", site, "--json").output)["summaries"][-1].keys() == {"beta", "slope"}
    assert "In every round it sends what its local steps changed" in cli("deploy", "check", site).output
    run = run_in_threads(root)
    assert run.status is Status.OPTIMAL
    assert "proposition B" in run.steps
    known, recipe = read_known(root / "server"), recipe_of_goal(settings_of(root / "server"))
    homes = [root / "sites" / name for name in sorted(HOSPITALS)]
    parts = [read_own_table(home, recipe, 0.2, read_policy(home).least_category).trained for home in homes]
    whole = recipe.problem(known[:-1], [Party(recipe, m, table).examples(known) for m, table in enumerate(parts)])
    assert float(known[-1]["beta"]) == theory.constants(whole).beta
    assert f"beta={theory.constants(whole).beta:.4g}" in run.steps


def test_the_file_of_a_fit_deploys(place):
    (place / "fit.toml").write_text(
        '[fit]\ntable = "all.csv"\nclients = "hospital"\ngoal = "lasso"\ntarget = "outcome"\nl1 = 0.01\n'
        '[sites.east]\ntable = "east.csv"\n[sites.west]\n[run]\ntimeout = 30\n'
    )
    cli("deploy", "init", place / "kit", "--config", place / "fit.toml")
    settings = settings_of(place / "kit" / "server")
    assert settings["problem"]["goal"] == "lasso"
    assert settings["problem"]["l1"] == 0.01
    assert settings["run"]["timeout"] == 30
    assert str(place / "east.csv") in (place / "kit" / "sites" / "east" / "site.toml").read_text()
    assert 'table = ""' in (place / "kit" / "sites" / "west" / "site.toml").read_text()
    for party in ("server", "sites/west"):
        files = [file for file in (place / "kit" / party).rglob("*") if file.is_file()]
        assert all(b"east.csv" not in file.read_bytes() for file in files)

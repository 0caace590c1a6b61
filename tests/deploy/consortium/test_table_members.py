"""Tables and secure sums while sites come and go and keys are renewed."""

import json
import shutil
import stat

import numpy as np
import pytest
from support.command_line import cli
from support.consortium import deployment, run_in_threads, write_tables
from support.patients import HOSPITALS, columns, write

from fedualex import models
from fedualex.deploy import Request, clients, task
from fedualex.deploy.consortium.agreement import agreement
from fedualex.deploy.consortium.deployment import load_site
from fedualex.deploy.consortium.settings import settings_of
from fedualex.deploy.engine import RefusedError
from fedualex.deploy.ledger import audit
from fedualex.deploy.wire import pack_known
from fedualex.runtime import Stop

pytestmark = pytest.mark.slow
FEW = {"tol": 0.1}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(clients, "PAUSE", 0.0)
    write_tables(tmp_path)
    table = columns(60, seed=4)
    write(tmp_path / "south.csv", {name: table[name] for name in table if name not in ("hospital", "days")})
    return tmp_path


def members_of(root):
    """The sites whose keys the authority has signed, as the server has them."""
    return sorted(json.loads((root / "server" / "secure" / "roster.json").read_text())["keys"])


def releases_of(root, name):
    return audit(root / "sites" / name)["totals"]["releases"]


def test_a_table_more_and_a_table_less(place):
    root = deployment(place, "on", **FEW)
    run_in_threads(root)
    before, released = models.load(root / "server"), releases_of(root, "east")
    assert set(before.training["clients"]) == set(HOSPITALS)

    assert cli("deploy", "add-site", root, "south", "--data", place / "south.csv").exit_code == 0
    assert not (root / "server" / "model").exists()
    np.testing.assert_array_equal(models.load(root / "server" / "earlier" / "run").weights, before.weights)
    run_in_threads(root)
    after = models.load(root / "server")
    assert set(after.training["clients"]) == {*HOSPITALS, "south"} == set(members_of(root))
    assert after.training["rows"] > before.training["rows"]
    assert after.certificate["gap"] <= after.certificate["tol"]
    assert releases_of(root, "east") > released  # its ledger goes on

    assert cli("deploy", "remove-site", root, "west").exit_code == 0
    run_in_threads(root)
    assert set(models.load(root / "server").training["clients"]) == {"east", "north", "south"}
    assert members_of(root) == ["east", "north", "south"]
    roster = (root / "sites" / "east" / "secure" / "roster.json").read_bytes()
    assert (root / "removed" / "west" / "secure" / "roster.json").read_bytes() != roster


def test_a_run_that_was_cut_off_goes_on_with_new_keys_and_ends_in_the_same_model(place):
    undisturbed = deployment(place, "on", "undisturbed", **FEW)
    run_in_threads(undisturbed)
    root = deployment(place, "on", **FEW)
    assert run_in_threads(root, failing_at_the_fourth_survey()).stop is Stop.CLIENTS_LOST
    old = shutil.copytree(root / "sites" / "west", place / "old")
    assert cli("deploy", "renew", root).exit_code == 0
    settings = settings_of(root / "server")
    request = Request("summary", 0, f"{agreement(settings)}-tables", pack_known([]), "0" * 32, "0" * 64)
    with pytest.raises(RefusedError, match="keys"):
        load_site(old).work(request)
    run_in_threads(root)
    assert_same_model(root, undisturbed)


def test_a_backup_is_restored_in_the_words_of_the_runbook(place):
    undisturbed = deployment(place, "on", "undisturbed", **FEW)
    run_in_threads(undisturbed)
    root = deployment(place, "on", **FEW)
    assert run_in_threads(root, failing_at_the_fourth_survey()).stop is Stop.CLIENTS_LOST
    left = shutil.ignore_patterns("store", "flwr", "log.jsonl*", "events.jsonl*", "log.txt")
    backup = shutil.copytree(root, place / "backup", ignore=left)  # with server/run, and without what engines make anew
    shutil.rmtree(root)
    shutil.copytree(backup, root)
    for key in root.rglob("key.pem"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert cli("deploy", "doctor", root / "sites" / "east", "--quick").exit_code == 0
    run_in_threads(root)
    assert_same_model(root, undisturbed)


def test_an_upgrade_in_the_words_of_the_runbook(place, monkeypatch):
    undisturbed = deployment(place, "on", "undisturbed", **FEW)
    run_in_threads(undisturbed)
    root = deployment(place, "on", **FEW)
    assert run_in_threads(root, failing_at_the_fourth_survey()).stop is Stop.CLIENTS_LOST
    monkeypatch.setattr(task, "__version__", "99.0")  # all parties have the new version
    with pytest.raises(ValueError, match="belongs to another run"):
        run_in_threads(root)
    shutil.move(root / "server" / "run", place / "finished-before")
    run_in_threads(root)
    assert_same_model(root, undisturbed)


def failing_at_the_fourth_survey():
    """For `run_in_threads`: one site does from then on."""
    asked = []

    def wrapped(works):
        def work(request):
            asked.append(request.task)
            if asked.count("survey") > 3:
                raise OSError("gone")
            return works["west"](request)

        return {**works, "west": work}

    return wrapped


def assert_same_model(root, undisturbed):
    found, expected = (models.load(folder / "server") for folder in (root, undisturbed))
    np.testing.assert_allclose(found.weights, expected.weights, rtol=0, atol=1e-12)
    assert found.certificate["gap"] == pytest.approx(expected.certificate["gap"], abs=1e-12)

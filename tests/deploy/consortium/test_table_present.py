"""A run that begins without a site that stays away: who decides that, what sites refuse, and what the model says."""

import json
import shutil

import numpy as np
import pytest
from support.command_line import cli
from support.consortium import run_in_threads, write_tables
from support.patients import HOSPITALS

from fedualex import models
from fedualex.deploy.clients import SilentSitesError
from fedualex.deploy.consortium.agreement import agreement
from fedualex.deploy.consortium.deployment import load_site
from fedualex.deploy.consortium.kit import plan_deployment, write_table_deployment
from fedualex.deploy.consortium.present import FILE, TASK
from fedualex.deploy.consortium.settings import settings_of
from fedualex.deploy.engine import RefusedError, Request
from fedualex.deploy.ledger import audit
from fedualex.deploy.wire import pack_json, pack_known
from fedualex.runs.settings import ConfigurationError

SITES = (*HOSPITALS, "rome")
AWAY = "west"
FIT = {"goal": "logistic", "target": "outcome", "l1": 0.004, "l2": 0.008}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("present")
    write_tables(folder)
    lines = (folder / "west.csv").read_text().splitlines()
    (folder / "rome.csv").write_text("\n".join(lines[:30]) + "\n")
    return folder


def made(place, name, sites=SITES, **run):
    tables = {site: {"table": str(place / f"{site}.csv")} for site in sites}
    write_table_deployment(place / name, FIT, tables, {}, {"timeout": 300.0, "patience": 0.1, **run})
    return place / name


def without(*names):
    """For `run_in_threads`: these sites fail at whatever they are asked."""

    def failing(request):
        raise OSError("away")

    return lambda works: {name: failing if name in names else work for name, work in works.items()}


@pytest.fixture(scope="module")
def ended(place):
    root = made(place, "three-of-four", least_sites=3)
    run_in_threads(root, without(AWAY))
    return root


def present(root, names, run_id=None):
    run_id = run_id or f"{agreement(settings_of(root / 'server'))}-tables"
    return Request(TASK, 0, run_id, pack_json(sites=names))


def test_a_run_begins_without_a_site_that_stays_away_and_its_model_says_whose_rows_it_has(ended, place):
    there = [name for name in sorted(SITES) if name != AWAY]
    model = models.load(ended / "server")
    assert list(model.training["clients"]) == there
    assert f"The rows of {AWAY} are not in it: this run began without them." in model.training["done"]
    alone = made(place, "three", there)
    run_in_threads(alone)
    np.testing.assert_allclose(model.weights, models.load(alone / "server").weights, rtol=0, atol=1e-12)
    for name in there:
        assert json.loads((ended / "sites" / name / FILE).read_text()) == there
        assert not any(
            "operators" in word for line in audit(ended / "sites" / name)["lines"] for word in line["in_the_clear"]
        )
    assert audit(ended / "sites" / AWAY)["totals"]["releases"] == 0
    assert "NOT FULLY CHECKED: nothing differs" in cli("verify", ended / "server" / "run").output


def test_a_run_that_was_cut_off_goes_on_with_the_same_sites(ended, tmp_path):
    again = shutil.copytree(ended, tmp_path / "copy")
    before = models.load(again / "server")
    shutil.rmtree(again / "server" / "model")
    run_in_threads(again)  # the other one is back, and takes no part
    np.testing.assert_array_equal(models.load(again / "server").weights, before.weights)
    assert AWAY not in models.load(again / "server").training["clients"]


def test_a_site_that_has_answered_for_some_sites_answers_for_no_others(ended, place, tmp_path):
    copy = shutil.copytree(ended, tmp_path / "copy")
    there = [name for name in sorted(SITES) if name != AWAY]
    site = load_site(copy / "sites" / "east")
    for names, why in (
        (sorted(SITES), "two sums that differ by a site show that site's"),
        (there[:2], "they are fewer than least_sites"),
        ([*there[1:], AWAY], "it is none of them"),
        ([*there[::-1]], "in their order"),
        ("east", "in their order"),
    ):
        with pytest.raises(RefusedError, match=why):
            site.work(present(copy, names))
    with pytest.raises(RefusedError, match="told another goal, other sites or options"):
        site.work(present(copy, there, "0123456789abcdef-tables"))
    site.work(present(copy, there))  # the same again

    whole = made(place, "asked-for-all", least_sites=3)
    site = load_site(whole / "sites" / "east")
    site.work(Request("columns", 0, present(whole, []).run_id, {}))
    nonce = Request("summary", 0, present(whole, []).run_id, pack_known([]), "n1", roster_of(whole))
    site.work(nonce)
    with pytest.raises(RefusedError, match="it has answered for others"):
        load_site(whole / "sites" / "east").work(present(whole, there))
    none = made(place, "all-needed")
    with pytest.raises(RefusedError, match="they are fewer than least_sites"):
        load_site(none / "sites" / "east").work(present(none, there))


def roster_of(root):
    from fedualex.deploy.secure.masks import read_roster

    return read_roster(root / "server").digest


def test_too_few_sites_begin_nothing(place):
    root = made(place, "two-of-four", least_sites=3)
    with pytest.raises(SilentSitesError, match=f"2 of at least 3 sites are there; no valid answer of .*{AWAY}"):
        run_in_threads(root, without(AWAY, "rome"))
    assert audit(root / "sites" / "east")["totals"]["tasks"].keys() == {"columns"}


@pytest.mark.parametrize(
    ("least", "run"), [(2, {}), (5, {}), (True, {}), (0, {"secure_sums": "off"}), ("3", {"secure_sums": "off"})]
)
def test_least_sites_are_as_many_as_masks_take_and_no_more_than_there_are(least, run):
    with pytest.raises(ConfigurationError, match="least_sites must be a whole number from"):
        plan_deployment(FIT, SITES, {}, {"least_sites": least, **run})
    assert plan_deployment(FIT, SITES, {}, {"least_sites": 1, "secure_sums": "off"})["run"]["least_sites"] == 1

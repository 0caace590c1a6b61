"""What is in force at a site of a new kit: thresholds, masks, a person's approval, and the values that it keeps."""

import csv
import re
import tomllib
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from support.command_line import cli
from support.consortium import deployment, noting, run_in_threads, write_tables
from support.patients import HOSPITALS

from fedualex.deploy.consortium.agreement import agreement
from fedualex.deploy.consortium.deployment import load_site, rules_in_force
from fedualex.deploy.consortium.kit import plan_deployment
from fedualex.deploy.consortium.settings import settings_of
from fedualex.deploy.engine import RefusedError, Request
from fedualex.deploy.ledger import audit
from fedualex.deploy.policy import THRESHOLDS, read_policy
from fedualex.deploy.wire import unpack_summary
from fedualex.runtime.status import Code

FIT = {"goal": "logistic", "l1": 0.004, "l2": 0.008}


def rules_of(root, name="west"):
    return tomllib.loads((root / "sites" / name / "policy.toml").read_text())


def test_a_new_kit_has_thresholds_and_masks_in_force_at_every_site(tmp_path):
    write_tables(tmp_path)
    root = deployment(tmp_path, "auto", **FIT)
    for name in HOSPITALS:
        assert rules_of(root, name) == {
            "least_rows": 10,
            "least_category": 5,
            "numbers_per_run": 10_000_000,
            "keep_values": True,
            "secure_sums": "required",
        }
        assert read_policy(root / "sites" / name).secure_sums
    assert "least_rows = 10, least_category = 5" in cli("deploy", "check", root / "sites" / "west").output


@pytest.mark.parametrize(
    ("sites", "run", "masks"),
    [(3, {}, True), (2, {}, False), (3, {"secure_sums": "off"}, False), (4, {"secure_sums": "on"}, True)],
)
def test_masks_are_in_force_where_a_run_can_have_them_and_nobody_chose_otherwise(sites, run, masks):
    fit = {"goal": "logistic", "target": "outcome"}
    settings = plan_deployment(fit, ["north", "south", "east", "west"][:sites], {}, run)
    assert (rules_in_force(settings).get("secure_sums") == '"required"') is masks
    assert THRESHOLDS.items() <= rules_in_force(settings).items()


def test_a_server_that_leaves_out_the_nonce_gets_no_sum_of_a_new_kit(tmp_path):
    write_tables(tmp_path)
    root = deployment(tmp_path, "auto", **FIT)
    site, run_id = load_site(root / "sites" / "west"), f"{agreement(settings_of(root / 'server'))}-tables"
    assert site.work(Request("columns", 0, run_id, {}))
    with pytest.raises(RefusedError, match="leaves this site in secure sums only") as error:
        site.work(Request("summary", 0, run_id, {"names": np.frombuffer(b"{}", "u1")}))
    assert error.value.code is Code.MASKS_ONLY


def rewrite(file, column, change):
    with open(file, newline="") as lines:
        header, *rows = csv.reader(lines)
    place = header.index(column)
    for i, row in enumerate(rows):
        row[place] = change(i, row[place])
    with open(file, "w", newline="") as lines:
        csv.writer(lines).writerows([header, *rows])


def test_rare_categories_are_told_as_other_and_named_to_the_site_alone(tmp_path, caplog):
    write_tables(tmp_path)
    rewrite(tmp_path / "west.csv", "town", lambda i, value: "Tuvalu" if i < 3 else "Nauru" if i < 7 else value)
    root, seen = deployment(tmp_path, **FIT), []
    caplog.set_level("INFO", "fedualex")
    said = cli("deploy", "check", root / "sites" / "west").output
    assert re.search(r"told as 'other', by least_category: town Nauru \(\d\), Tuvalu \(\d\)", said)
    run_in_threads(root, noting(seen))
    assert "told as 'other': town = Nauru, town = Tuvalu" in caplog.text
    sent = [arrays for name, request, arrays in seen if (name, request.task) == ("west", "summary")]
    [towns] = [
        part.labels["categories of town"].tolist()
        for part in map(unpack_summary, sent)
        if "categories of town" in part.labels
    ]
    assert towns == ["Lima", "Oslo", "Rome", "other"]
    assert not any(b"Tuvalu" in array.tobytes() for arrays in sent for array in arrays.values())
    assert not any(b"Nauru" in array.tobytes() for arrays in sent for array in arrays.values())


def test_nothing_leaves_before_a_person_has_approved_the_kit(tmp_path):
    write_tables(tmp_path)
    root = deployment(tmp_path, **FIT)
    party = root / "sites" / "west"
    (party / "policy.toml").write_text('approve = "first"\n')
    request = Request("columns", 0, f"{agreement(settings_of(root / 'server'))}-tables", {})
    site = load_site(party)
    with pytest.raises(RefusedError, match="waits for the approval") as error:
        site.work(request)
    assert error.value.code is Code.AWAITS_APPROVAL
    assert "may begin" in cli("deploy", "approve", party).output
    assert site.work(request)  # the same process: nobody has to start it again


def test_a_site_can_print_the_values_that_it_released(tmp_path):
    write_tables(tmp_path)
    root = deployment(tmp_path, **FIT)
    seen: list = []
    run_in_threads(root, noting(seen))
    party = root / "sites" / "west"
    found = audit(party, values=True)
    answers = [arrays for name, _, arrays in seen if name == "west"]
    kept = [line["values"] for line in found["lines"] if line["kind"] == "release"]
    assert len(kept) == len(answers)
    for line, arrays in zip(kept, answers, strict=True):
        assert line.keys() == arrays.keys()
    at = next(i for i, (_, request, _) in enumerate(x for x in seen if x[0] == "west") if request.task == "survey")
    assert kept[at]["values"] == answers[at]["values"].tolist()
    shown = cli("deploy", "audit", party, "--values", "--kind", "survey").output
    assert "    values = [" in shown
    assert "summary" not in shown
    assert found["totals"]["runs"] == 1
    assert audit(party, since="2999-01-01")["lines"] == []
    moment = datetime.fromisoformat(found["lines"][3]["time"])
    for zone in (UTC, timezone(timedelta(hours=9))):
        assert len(audit(party, since=moment.astimezone(zone).isoformat())["lines"]) == len(found["lines"]) - 3
    with pytest.raises(ValueError, match=r"kind must be one of .*'summary', 'survey', got 'sumary'"):
        audit(party, kind="sumary")
    assert audit(party, run=found["lines"][-1]["run"])["lines"]
    (party / "policy.toml").write_text("least_rows = 0\nnonsense")
    assert audit(party)["totals"]["releases"] == found["totals"]["releases"]

"""One release policy: what is asked is declared, and rules and ledger count its sums and numbers."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fedualex.deploy.engine import RefusedError, Request
from fedualex.deploy.guard import Guard
from fedualex.deploy.ledger import LATER, LEDGER, Ledger, audit, begin_ledger, digest
from fedualex.deploy.policy import MOST_MODELS, MOST_POINTS, Policy, Release, SiteFacts
from fedualex.deploy.site import declare_curvature
from fedualex.runtime.status import Code
from fedualex.tree import Saddle

FACTS = SiteFacts(rows=60, kit="kit")


def ask(task="survey", run="run-1", **changes):
    return Request(**{"task": task, "round": 0, "run_id": run, "arrays": {}} | changes)


def problem_like(entries):
    """A problem of so many variables, of whose rounding sites say nothing."""
    return SimpleNamespace(like=Saddle(np.zeros(entries)))


def door(policy=None, asked=None, numbers=3, about=FACTS, ledger=None):
    """A guard before a site whose request is declared like this."""
    declared = asked or Release("survey")
    answer = {"operators.x": np.zeros(numbers)}
    return Guard(lambda request: answer, policy or Policy(), ledger or Ledger(None), about, None, lambda _: declared)


def test_a_request_for_many_points_counts_as_many_exchanges():
    guard = door(Policy(exchanges_per_day=10), Release("survey", sums=4))
    guard.work(ask())
    guard.work(ask())
    with pytest.raises(RefusedError, match="gives 10 answers in 24 hours, and has given 8: 4 points are as many"):
        guard.work(ask())
    assert guard.ledger.count_recent() == 8


def test_the_points_of_a_request_are_bounded():
    door(asked=Release("survey", sums=MOST_POINTS)).work(ask())
    with pytest.raises(RefusedError, match=f"answers at {MOST_POINTS} points in one request, got 5000"):
        door(asked=Release("survey", sums=5000)).work(ask())


def test_numbers_of_a_kit_are_counted_whatever_the_server_calls_its_run():
    guard = door(Policy(numbers_per_run=10))
    for number in range(3):
        guard.work(ask(run=f"run-{number}"))
    with pytest.raises(RefusedError, match="releases 10 numbers for one kit, and this would be more"):
        guard.work(ask(run="another"))
    assert guard.ledger.numbers("kit") == 9


def test_numbers_that_were_declared_are_refused_before_they_are_computed():
    def work(request):
        raise AssertionError("computed in vain")

    guard = Guard(work, Policy(numbers_per_run=10), Ledger(None), FACTS, None, lambda _: Release("survey", 1, 11))
    with pytest.raises(RefusedError, match="10 numbers for one kit"):
        guard.work(ask())


def test_the_ledger_has_sums_and_numbers_of_each_release(tmp_path):
    begin_ledger(tmp_path)
    door(asked=Release("survey", sums=5), numbers=35, ledger=Ledger(tmp_path / LEDGER)).work(ask())
    found = audit(tmp_path)
    assert (found["lines"][-1]["sums"], found["lines"][-1]["numbers"], found["lines"][-1]["kit"]) == (5, 35, "kit")
    assert (found["totals"]["sums"], found["totals"]["numbers"], found["totals"]["releases"]) == (5, 35, 1)


def test_texts_are_no_numbers():
    arrays = {"names": np.zeros(90, np.uint8), "sums.0": np.zeros((2, 3)), "labels.0": np.arange(4)}
    assert Release("summary").count_numbers(arrays).numbers == 10


WEIGHTS = [
    ((1.0, 0.0, 0.0), "sums of 3 sites or more"),
    ((0.5, 0.5, 0.0), "sums of 3 sites or more"),
    ((0.81, 0.1, 0.09), "no site has more than 0.8 of the weight"),
    ((1.0, 1e-250, 1e-250), "no site has more than 0.8 of the weight"),
]


@pytest.mark.parametrize(("weights", "match"), WEIGHTS)
def test_under_masks_a_sum_is_of_three_sites_and_of_none_alone(weights, match):
    even = (0.4, 0.3, 0.3)
    asked = Release("survey", 2, weights=(even, weights))
    assert match in Policy().why_not_released(asked, FACTS, masked=True).text
    assert Policy().why_not_released(asked, FACTS, masked=False) is None, "without masks there is nothing to protect"
    assert Policy().why_not_released(Release("survey", weights=(even,)), FACTS, masked=True) is None


def test_a_site_may_take_no_part_where_sites_are_weighed():
    about = SiteFacts(rows=60, goal="fair", weighs_sites=True)
    assert "no part where sites are weighed" in Policy(fair_by_site="refuse").why_not(about).text
    assert Policy().why_not(about) is None
    assert Policy(fair_by_site="refuse").why_not(SiteFacts(goal="fair")) is None, "groups are spread over sites"


@pytest.mark.parametrize(
    ("policy", "rows", "match"),
    [
        (Policy(), 60, ""),
        (Policy(), 59, "second derivatives of 5 rows or more for each parameter"),
        (Policy(rows_per_parameter=10), 119, "of 10 rows or more for each parameter"),
        (Policy(rows_per_parameter=10), 120, ""),
        (Policy(curvature="refuse"), 10**6, "releases no second derivatives"),
        (Policy(), None, "5 rows or more for each parameter"),
    ],
)
def test_second_derivatives_need_rows_for_each_parameter_and_a_site_that_allows_them(policy, rows, match):
    asked = declare_curvature(problem_like(12), np.array([True]), np.array([True]))
    assert (asked.sums, asked.numbers) == (1, 13 + 78 + 13)  # a survey, a triangle, a dual cut
    guard = door(policy, asked, 104, SiteFacts(rows=rows, kit="kit"))
    if not match:
        guard.work(ask("curvature"))
        assert guard.ledger.numbers("kit") == 104
        return
    with pytest.raises(RefusedError, match=match) as refusal:
        guard.work(ask("curvature"))
    assert refusal.value.code == Code.NO_CURVATURE


def test_columns_that_a_request_names_are_counted_with_those_of_all_requests_before(tmp_path):
    """Else X'WX of a wide table of few rows would leave block by block."""

    def asked(*columns):
        return declare_curvature(problem_like(1000), np.array([True]), np.array([False]), np.array(columns))

    begin_ledger(tmp_path)
    ledger, about = Ledger(tmp_path / LEDGER), SiteFacts(rows=30, kit="kit")
    for columns in ([0, 1, 2, 3], [2, 3, 4], [900], [0, 4, 900]):
        door(Policy(), asked(*columns), about=about, ledger=ledger).work(ask("curvature"))
    assert Ledger(tmp_path / LEDGER).columns("kit") == {0, 1, 2, 3, 4, 900}
    with pytest.raises(RefusedError, match="of 5 rows or more for each parameter") as refusal:
        door(Policy(), asked(7), about=about, ledger=Ledger(tmp_path / LEDGER)).work(ask("curvature"))
    assert refusal.value.code == Code.NO_CURVATURE
    door(Policy(), asked(7), about=SiteFacts(rows=35, kit="kit"), ledger=ledger).work(ask("curvature"))


def test_second_derivatives_of_a_loss_that_weighs_sites_are_not_hidden_by_masks():
    asked = Release("curvature", 1, 90, weights=((0.4, 0.3, 0.3),), parameters=3)
    plain, masked = Policy().why_not_released(asked, FACTS, False), Policy().why_not_released(asked, FACTS, True)
    assert plain is None
    assert masked.code == Code.NO_CURVATURE
    assert "weighs sites" in masked.text
    alike = replace(asked, mixed=False)
    assert Policy().why_not_released(alike, FACTS, True) is None, "in x alone each entry is a sum over sites"


def test_second_derivatives_of_all_alike_are_those_in_x_alone():
    problem = SimpleNamespace(like=Saddle(np.zeros(12), np.zeros(3)))
    flags = np.array([True]), np.array([False])
    asked, every = (declare_curvature(problem, *flags, alike=alike) for alike in (True, False))
    assert (asked.numbers, every.numbers) == (16 + 78, 16 + 78 + 36 + 6)
    assert (asked.mixed, every.mixed) == (False, True)


@pytest.mark.parametrize("rule", [{"tasks": ("survey",)}, {"arrays": ("operators", "values")}])
def test_a_site_that_names_what_leaves_names_second_derivatives_too(rule):
    found = Policy(**rule).why_not_released(Release("curvature", 1, 9, parameters=1), FACTS, False)
    assert found.code == Code.NO_CURVATURE


def test_three_models_are_measured_and_each_of_them_again(tmp_path):
    begin_ledger(tmp_path)
    for _ in range(2):  # after a lost reply, and a restart of the site
        for model in range(MOST_MODELS):
            ledger = Ledger(tmp_path / LEDGER)
            door(asked=Release("measure", subject=f"model {model}"), ledger=ledger).work(ask("measure"))
    guard = door(asked=Release("measure", subject="another"), ledger=Ledger(tmp_path / LEDGER))
    with pytest.raises(RefusedError, match="measures 3 models for one kit, and has measured them"):
        guard.work(ask("measure", run="run-2"))


def test_a_ledger_of_an_older_version_is_read_and_counted(tmp_path):
    begin_ledger(tmp_path)
    door(ledger=Ledger(tmp_path / LEDGER)).work(ask())
    previous, rows = "0" * 64, []
    for line in (tmp_path / LEDGER).read_bytes().splitlines():
        old = {key: value for key, value in json.loads(line).items() if key not in LATER} | {"previous": previous}
        rows.append(json.dumps(old, separators=(",", ":")).encode())
        previous = digest(rows[-1])
    (tmp_path / LEDGER).write_bytes(b"\n".join(rows) + b"\n")
    found = audit(tmp_path)["totals"]
    assert (found["releases"], found["sums"], found["numbers"]) == (1, 1, 3)

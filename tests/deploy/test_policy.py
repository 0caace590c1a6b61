"""A site's own rules: read strictly, and enforced whatever the server says."""

from dataclasses import fields

import numpy as np
import pytest

import fedualex as fx
from fedualex.deploy.engine import RefusedError, Request
from fedualex.deploy.guard import Guard
from fedualex.deploy.ledger import LEDGER, Ledger, audit, begin_ledger
from fedualex.deploy.policy import EXAMPLES, POLICY, Policy, SiteFacts, read_policy, write_policy
from fedualex.runtime.status import REFUSALS, Code

PRIVATE = fx.deploy.Privacy(clip=1.0, noise=4.0)
OPERATORS = {"operators.x": np.ones(3), "values": np.ones(1)}
INCREMENT = {"message.omega.x": np.ones(3), "message.tau": np.ones(())}


def ask(task="survey", **changes):
    return Request(**{"task": task, "round": 0, "run_id": "run", "arrays": {}} | changes)


def guard(policy, about=None, answer=OPERATORS, ledger=None, hide=None):
    return Guard(lambda request: answer, policy, ledger or Ledger(None), about or SiteFacts(), hide)


def test_the_file_that_is_written_has_no_rules_and_shows_them_all(tmp_path):
    write_policy(tmp_path)
    assert read_policy(tmp_path) == Policy()
    text = (tmp_path / POLICY).read_text()
    assert EXAMPLES.keys() == {field.name for field in fields(Policy)}
    for field in fields(Policy):
        assert f"# {field.name} = " in text
        assert field.metadata["meaning"] in text
    (tmp_path / POLICY).write_text("".join(line[2:] + "\n" for line in text.splitlines() if " = " in line))
    rules = read_policy(tmp_path)
    assert (rules.least_rows, rules.epsilon, rules.secure_sums, rules.keep_model) == (100, 4.0, True, False)
    write_policy(tmp_path)
    assert read_policy(tmp_path) == rules  # what a site wrote stays


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("least_row = 3", "no option 'least_row'; did you mean 'least_rows'"),
        ("least_rows = 0", "least_rows must be a whole number >= 1, got 0"),
        ("least_rows = true", "least_rows must be a whole number"),
        ("least_group = 2.5", "least_group must be a whole number"),
        ("exchanges_per_day = -1", "exchanges_per_day must be a whole number"),
        ('goals = "fair"', "goals must be a list of words"),
        ("tasks = [1]", "tasks must be a list of words"),
        ("secure_sums = 1", "secure_sums must be one of 'required', 'allowed', got 1"),
        ("epsilon = 0", "epsilon must be a number > 0"),
        ("epsilon = nan", "epsilon must not contain nan"),
        ("delta = 1.0", "delta must be a number between 0 and 1"),
        ("least_rows =", "cannot be read as TOML"),
    ],
)
def test_a_wrong_rule_is_refused_by_name(tmp_path, text, match):
    (tmp_path / POLICY).write_text(text)
    with pytest.raises(ValueError, match=match) as refused:
        read_policy(tmp_path)
    assert str(tmp_path / POLICY) in str(refused.value)


def test_a_site_without_the_file_does_not_start(tmp_path):
    with pytest.raises(FileNotFoundError, match="is missing: a site has its own rules"):
        read_policy(tmp_path)


REFUSED = [
    (Policy(least_rows=20), SiteFacts(rows=19), ask(), "answers from at least 20 rows$", Code.TOO_FEW_ROWS),
    (Policy(least_rows=20), SiteFacts(), ask(), "at least 20 rows, and their number is not known", Code.TOO_FEW_ROWS),
    (
        Policy(least_group=5),
        SiteFacts(rows=90, least_group=4),
        ask(),
        "at least 5 rows in each class and category$",
        Code.TOO_FEW_ROWS,
    ),
    (Policy(goals=("fair",)), SiteFacts(goal="auc"), ask(), "takes part in fair, not in 'auc'", Code.NO_PART),
    (Policy(goals=("fair",)), SiteFacts(), ask(), "takes part in fair, not in None", Code.NO_PART),
    (Policy(goals=()), SiteFacts(goal="auc"), ask(), "takes part in nothing", Code.NO_PART),
    (Policy(tasks=("summary",)), SiteFacts(), ask(), "answers 'summary', not 'survey'", Code.NOT_RELEASED),
    (
        Policy(arrays=("operators",)),
        SiteFacts(),
        ask(),
        "'values' does not leave this site, which releases 'operators'",
        Code.NOT_RELEASED,
    ),
    (Policy(secure_sums=True), SiteFacts(), ask(), "'operators' leaves this site in secure sums only", Code.MASKS_ONLY),
    (Policy(epsilon=1.0), SiteFacts(), ask(), "nothing without noise, and the run has no privacy", Code.NOISE_ONLY),
    (
        Policy(epsilon=1.0),
        SiteFacts(privacy=PRIVATE),
        ask(),
        "nothing without noise, and 'survey' has none",
        Code.NOISE_ONLY,
    ),
    (Policy(keep_model=False), SiteFacts(), ask("model"), "keeps no model", Code.NOT_RELEASED),
    (Policy(), SiteFacts(), ask(nonce="a"), "no keys for secure sums", Code.KEYS_DIFFER),
]


@pytest.mark.parametrize(("policy", "about", "request_", "match", "code"), REFUSED, ids=[row[3] for row in REFUSED])
def test_what_a_rule_forbids_is_refused_with_its_reason_and_not_released(policy, about, request_, match, code):
    door = guard(policy, about)
    with pytest.raises(RefusedError, match=match) as refused:
        door.work(request_)
    assert refused.value.code is code in REFUSALS
    assert door.ledger.count_recent() == 0


def test_what_the_rules_allow_is_answered():
    policy = Policy(
        least_rows=20, least_group=5, goals=("fair", "auc"), tasks=("survey",), arrays=("operators", "values")
    )
    about = SiteFacts(rows=20, least_group=5, goal="auc")
    assert guard(policy, about).work(ask()) is OPERATORS


def test_a_budget_is_spent_once_whatever_the_server_says(tmp_path):
    """It asks for the same round again, begins a new run, and the site is started anew: releases are counted here."""
    begin_ledger(tmp_path)
    budget = PRIVATE.epsilon(5) + 1e-9
    policy, about = Policy(epsilon=budget), SiteFacts(privacy=PRIVATE)
    for number in range(5):
        door = guard(policy, about, INCREMENT, Ledger(tmp_path / LEDGER))
        door.work(ask("round", run_id=f"run-{number}"))
    with pytest.raises(RefusedError, match=r"budget of this site, epsilon = .*, does not cover another release") as no:
        guard(policy, about, INCREMENT, Ledger(tmp_path / LEDGER)).work(ask("round"))
    assert no.value.code is Code.BUDGET_SPENT
    found = audit(tmp_path)
    assert found["totals"]["releases"] == found["totals"]["with_noise"] == 5
    assert found["lines"][-1]["epsilon"] == pytest.approx(PRIVATE.epsilon(5))
    assert found["totals"]["epsilon"] == pytest.approx(PRIVATE.epsilon(5))


def test_runs_with_different_noise_are_added_up():
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    ledger = Ledger(None)
    for noise, count in ((4.0, 3), (2.0, 1)):
        about = SiteFacts(privacy=fx.deploy.Privacy(1.0, noise))
        for _ in range(count):
            guard(Policy(epsilon=100.0), about, INCREMENT, ledger).work(ask("round"))
    expected = RdpAccountant().compose(GaussianDpEvent(2.0), 3).compose(GaussianDpEvent(1.0), 1).get_epsilon(1e-5)
    from fedualex.deploy.policy import composed_epsilon

    assert composed_epsilon(ledger.noises(), 1e-5) == pytest.approx(expected)


def test_an_answer_without_numbers_costs_no_budget():
    door = guard(Policy(epsilon=1.0), SiteFacts(privacy=PRIVATE), answer={})
    assert door.work(ask("begin")) == {}

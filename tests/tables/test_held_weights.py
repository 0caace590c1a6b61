"""The weights of groups, in a column or clients, are held to their shares of the rows."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.patients import columns, write

import fedualex as fx
from fedualex import models
from fedualex.regularizers import KL
from fedualex.runs.settings import ConfigurationError
from fedualex.tables.fit import fit_into, plan_fit
from fedualex.tables.weights import held_shares, with_limited_weights

FIT = {"table": "t.csv", "target": "outcome", "goal": "fair", "groups": "ward", "clients": "hospital", "holdout": 0.0}
GIVEN = {"l1": 0.02, "l2": 0.0, "tol": 1e-8}


def planned(folder, **options):
    write(folder / "t.csv", columns(150))
    return plan_fit({**FIT, **GIVEN, **options}, folder)


def psi_of(plan):
    return plan.configuration.problem.geometry.parts.y.regularizer


def test_the_objective_is_a_soft_maximum_by_the_shares_of_rows(tmp_path):
    """kl log sum_g p_g exp(loss_g / kl) + l1 ||w||_1, whose value the certificate bounds."""
    plan = planned(tmp_path)
    psi = psi_of(plan)
    wards = np.unique(columns(150)["ward"], return_counts=True)[1]
    assert isinstance(psi, KL)
    assert float(psi.lam) == 0.1
    np.testing.assert_allclose(psi.q, wards / 150, rtol=1e-12)
    model = fit_into(tmp_path / "fit", plan)
    rows = plan.parties.members
    table = {name: np.concatenate([own.trained[name] for own in rows]) for name in rows[0].trained}
    sign = np.where(table["outcome"] == "well", 1.0, -1.0)
    each = np.logaddexp(0.0, -sign * model.decision_function(table))
    losses = np.array([each[table["ward"] == name].mean() for name in np.unique(table["ward"])])
    value = 0.1 * np.log(np.sum(wards / 150 * np.exp(losses / 0.1)))
    assert losses.max() <= value + 0.1 * np.log(150 / wards.min())
    assert model.certificate["gap"] <= 1e-8
    assert models.load(tmp_path / "fit").training["configuration"]["problem"]["kl"] is None


def test_other_weights_can_be_asked_for(tmp_path):
    assert not isinstance(psi_of(planned(tmp_path, kl=0.0)), KL)
    assert float(psi_of(planned(tmp_path, kl=0.5)).lam) == 0.5
    assert not isinstance(psi_of(planned(tmp_path, cvar=0.9)), KL)
    with pytest.raises(ValueError, match="cvar cannot be given together with kl"):
        planned(tmp_path, cvar=0.9, kl=0.1)
    with pytest.raises(ConfigurationError, match="kl is for groups in a column"):
        planned(tmp_path, kl=0.1, groups=None)


def test_clients_share_most_of_the_weight_by_their_rows(tmp_path):
    plan = planned(tmp_path, groups=None)
    own, rows = plan.recipe.recipe(plan.known), np.array([party.trained.rows for party in plan.parties.members])
    assert rows.max() < rows.sum() / 2
    np.testing.assert_allclose(own.spread * own.prior, 0.6 * rows / rows.sum() + 0.1 / 3, rtol=1e-12)
    model = fit_into(tmp_path / "fit", plan)
    each = []
    for party in plan.parties.members:
        sign = np.where(party.trained["outcome"] == "well", 1.0, -1.0)
        each.append(np.logaddexp(0.0, -sign * model.decision_function(party.trained)).mean())
    best, problem = np.sort(each), plan.configuration.problem
    z = fx.solve(problem, tol=1e-8).z
    value = 0.3 * best[-2:].mean() + 0.7 * own.prior @ each + 0.02 * np.abs(model.weights).sum()
    assert value == pytest.approx(problem.objective(z), abs=1e-7)
    asked = planned(tmp_path, groups=None, cvar=0.9)
    assert (asked.recipe.recipe(asked.known).cvar, asked.recipe.recipe(asked.known).spread) == (0.9, 0.1)


@pytest.mark.parametrize(
    ("rows", "merged", "expected"),
    [
        ([60, 30, 10], [], 0.6 * np.array([0.5, 0.375, 0.125]) + 0.1 / 3),
        ([40, 35, 25], [], 0.6 * np.array([0.4, 0.35, 0.25]) + 0.1 / 3),
        ([90, 10], [], 0.6 * np.array([0.9, 0.1]) + 0.05),
        ([40, 5, 35, 20], [1, 3], 0.6 * np.array([0.25, 0.4, 0.35]) + 0.1 / 3),
    ],
)
def test_what_clients_share(rows, merged, expected):
    found = with_limited_weights({}, np.array(rows), np.array(merged, int))
    np.testing.assert_allclose(found["spread"] * found["prior"], expected, rtol=1e-12)
    assert found["cvar"] == (None if len(rows) == 2 else pytest.approx(2 / 3))


@given(st.lists(st.integers(1, 10**6), min_size=3, max_size=8))
def test_no_sum_of_sites_is_one_of_few(rows):
    """What a site's rule asks for, whatever the adversary does within its limit; a thirtieth is left for the third."""
    found = with_limited_weights({}, np.array(rows), np.zeros(0, int))
    for worst in np.eye(len(rows)) / 2:
        other = np.roll(worst, 1)
        weights = (1 - found["spread"]) * (worst + other) + found["spread"] * found["prior"]
        assert weights.sum() == pytest.approx(1, rel=1e-12)
        assert weights.max() <= 0.45 + 0.1 / len(rows) + 1e-12
        assert weights.min() >= 0.1 / len(rows)
    assert held_shares(np.array(rows), hidden=True).max() <= 0.5 + 1e-12

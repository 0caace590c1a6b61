"""Where groups are in a column, their weights are held to their shares of the rows."""

import numpy as np
import pytest
from support.patients import columns, write

from fedualex import models
from fedualex.regularizers import KL
from fedualex.runs.settings import ConfigurationError
from fedualex.tables.fit import fit_into, plan_fit

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

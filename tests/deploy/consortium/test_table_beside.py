"""What stands beside a goal in a fit stands beside it between sites: the ordinary model, calibration of each, a rate."""

import numpy as np
import pytest
from support.consortium import noting, run_in_threads
from support.heart import CENTERS, heart_columns, write_heart
from support.numbers_in_json import numbers_of

from fedualex import models
from fedualex.deploy.consortium.kit import plan_deployment, write_table_deployment
from fedualex.runs.settings import ConfigurationError
from fedualex.tables.fit import fit_into, plan_fit

FIT = {"target": "disease", "id": "patient_id", "l1": 0.01, "l2": 0.001, "tol": 1e-9}


def fitted(folder, secure_sums, **fit):
    """A fit of all rows, the model of the sites, and what these were asked."""
    write_heart(folder, heart_columns(900))
    whole = fit_into(folder / "fit", plan_fit({"table": "heart.csv", "clients": "center", **FIT, **fit}, folder))
    sites = {name: {"table": str(folder / f"{name}.csv")} for name in CENTERS}
    run, method = {"secure_sums": secure_sums, "timeout": 300.0}, {"name": "FeDualNewton"}
    write_table_deployment(folder / "kit", {**FIT, **fit}, sites, {}, run, method)
    seen = []
    run_in_threads(folder / "kit", noting(seen))
    return whole, models.load(folder / "kit" / "server"), seen


@pytest.mark.slow
def test_in_the_clear_all_that_a_fit_tells_is_told(tmp_path):
    whole, apart, _ = fitted(tmp_path, "off", goal="fair")
    for part in ("penalty", "effects", "held_out", "ordinary", "rows", "clients", "done", "weighs"):
        mine, theirs = whole.training[part], apart.training[part]
        np.testing.assert_allclose(numbers_of(theirs), numbers_of(mine), rtol=1e-9, atol=1e-9, err_msg=part)
    assert apart.training["ordinary"]["sentence"] == whole.training["ordinary"]["sentence"]
    calibration = apart.training["held_out"]["calibration"]["clients"]
    assert set(calibration) == set(CENTERS)
    assert all(own["slope"] is not None for own in calibration.values())
    curves = apart.training["held_out"]["curves"]["clients"].values()
    assert min(rows for own in curves for rows, *_ in own["bins"]) >= 5


@pytest.mark.slow
def test_under_masks_sums_alone_are_told_and_a_rate_is_kept_with_them(tmp_path):
    more = {"goal": "neyman-pearson", "limit": 0.5, "rate": 0.2}
    whole, apart, seen = fitted(tmp_path, "on", **more)
    assert apart.training["held_out"]["clients"] == {}
    np.testing.assert_allclose(
        numbers_of(apart.training["ordinary"]["held_out"]["overall"]),
        numbers_of(whole.training["ordinary"]["held_out"]["overall"]),
        atol=1e-9,
    )
    mine, theirs = whole.training["rate"], apart.training["rate"]
    assert (theirs["risk"], theirs["rows"]) == (pytest.approx(mine["risk"], abs=1e-12), mine["rows"])
    above = theirs["threshold"] - mine["threshold"]  # further on the side of the limited class, by one risk at most
    first = theirs["limited"] == str(apart.classes[0])
    assert 0 <= (above if first else -above) <= 0.05
    assert apart.answers.threshold == theirs["threshold"]
    asked = [request for site, request, _ in seen if site == CENTERS[0] and request.task in ("measure", "calibrate")]
    assert all(request.nonce for request in asked)


def test_a_rate_is_refused_before_a_kit_is_made():
    given = {"target": "disease", "goal": "logistic", "rate": 0.05}
    with pytest.raises(ConfigurationError, match="rate is for the goal neyman-pearson, got the goal logistic"):
        plan_deployment(given, CENTERS, {}, {})
    given |= {"goal": "neyman-pearson", "holdout": 0.0}
    with pytest.raises(ConfigurationError, match="rate takes held-out rows: give a holdout > 0"):
        plan_deployment(given, CENTERS, {}, {})

"""Counts from tables: beside statsmodels, with exposure, measured, fair, and between sites."""

import numpy as np
import pytest
import statsmodels.api as sm
from support.consortium import run_in_threads
from support.patients import HOSPITALS, write

from fedualex import models
from fedualex.data import read_csv
from fedualex.data.columns import CellError
from fedualex.deploy.consortium.kit import write_table_deployment
from fedualex.runs.settings import ConfigurationError
from fedualex.tables.fit import fit_into, plan_fit

ROWS = 400
FIT = {"table": "all.csv", "target": "visits", "goal": "poisson", "clients": "hospital", "exposure": "days"}


def columns(seed=0):
    rng = np.random.default_rng(seed)
    age, dose, days = rng.normal(60, 12, ROWS), rng.gamma(2, 1.5, ROWS), rng.integers(30, 400, ROWS)
    sex, hospital = rng.choice(["f", "m"], ROWS), rng.choice(HOSPITALS, ROWS)
    rate = np.exp(-4 + 0.02 * (age - 60) + 0.1 * dose - 0.3 * (sex == "m") + 0.4 * (hospital == "west"))
    visits = rng.poisson(days * rate * rng.gamma(3, 1 / 3, ROWS))
    named = {"age": age, "dose": dose, "days": days, "visits": visits}
    return {name: column.tolist() for name, column in named.items()} | {
        "sex": sex.tolist(),
        "hospital": hospital.tolist(),
    }


@pytest.fixture
def table(tmp_path):
    whole = columns()
    write(tmp_path / "all.csv", whole)
    for name in HOSPITALS:
        own = [i for i, hospital in enumerate(whole["hospital"]) if hospital == name]
        write(
            tmp_path / f"{name}.csv",
            {key: [values[i] for i in own] for key, values in whole.items() if key != "hospital"},
        )
    return tmp_path


def reference(folder):
    rows = read_csv(folder / "all.csv")
    X = np.stack([np.ones(ROWS), rows["age"], rows["dose"], rows["sex"] == "m"], axis=1).astype(float)
    return sm.GLM(rows["visits"], X, family=sm.families.Poisson(), exposure=rows["days"]), rows


def test_without_penalty_it_is_statsmodels(table):
    settings = {**FIT, "l1": 0.0, "l2": 0.0, "holdout": 0.0, "site_intercepts": False, "reference": {"sex": "f"}}
    model = fit_into(table / "fit", plan_fit(settings, table))
    other, _ = reference(table)
    plain, quasi, robust = (other.fit(tol=1e-14, **kind) for kind in ({}, {"scale": "X2"}, {"cov_type": "HC0"}))
    own = {c.feature: float(c.per_unit[0]) for c in model.coefficients}
    np.testing.assert_allclose([own["age"], own["dose"]], plain.params[1:3], atol=1e-6)
    effects = model.training["effects"]
    assert effects["kind"] == "quasi-Poisson"
    tables = {"quasi-Poisson": effects, **effects["others"]}
    for kind, found in (("model-based", plain), ("quasi-Poisson", quasi), ("sandwich", robust)):
        errors = [row["error"] for row in tables[kind]["rows"]]
        np.testing.assert_allclose([row["estimate"] for row in tables[kind]["rows"]], found.params, atol=1e-6)
        np.testing.assert_allclose(errors, found.bse, atol=1e-5, rtol=1e-5)
    assert tables["quasi-Poisson"]["effect"] == "rate ratio"
    assert f"The dispersion is {quasi.scale:.3g} " in " ".join(effects["words"])
    assert model.certificate["gap"] <= 1e-8


def test_a_model_of_counts_knows_what_they_are_over(table):
    settings = {**FIT, "l1": 0.01, "l2": 0.0, "tol": 1e-8}
    model = fit_into(table / "fit", plan_fit(settings, table))
    assert model.certificate["gap"] <= 1e-8
    rows = dict(read_csv(table / "all.csv"))
    again = models.load(table / "fit")
    counts = again.predict(rows)
    np.testing.assert_allclose(again.predict({**rows, "days": 2 * np.asarray(rows["days"])}), 2 * counts, rtol=1e-12)
    rates = again.predict({**rows, "days": np.ones(ROWS)})
    np.testing.assert_allclose(counts, rates * rows["days"], rtol=1e-12)
    names = [*again.encoder.numbers, *again.encoder.categories]
    features = np.array([[rows[name][i] for name in names] for i in range(ROWS)], object)
    np.testing.assert_allclose(again.to_sklearn().predict(features), rates, rtol=1e-9)
    with pytest.raises(
        ValueError, match="table must have the column 'days', the exposure; for rates, a column of ones"
    ):
        again.predict({name: column for name, column in rows.items() if name != "days"})
    with pytest.raises(CellError, match="the column 'days', the exposure, must hold numbers > 0, got 0 in row 3"):
        again.predict({**rows, "days": np.where(np.arange(ROWS) == 2, 0, rows["days"])})


def test_it_is_measured_as_counts_are(table):
    settings = {**FIT, "l1": 0.01, "l2": 0.0}
    model = fit_into(table / "fit", plan_fit(settings, table))
    held = model.training["held_out"]
    assert held["overall"].keys() == {"rows", "r2", "mae", "mse", "deviance", "log-likelihood", "observed/expected"}
    other = plan_fit(settings, table).parties.held_out
    expected = model.predict(other)
    poisson = sm.families.Poisson()
    deviance = poisson.deviance(other["visits"], expected) / other.rows
    assert held["overall"]["deviance"] == pytest.approx(deviance, rel=1e-9)
    likelihood = poisson.loglike(other["visits"], expected) / other.rows
    assert held["overall"]["log-likelihood"] == pytest.approx(likelihood, rel=1e-9)
    assert held["overall"]["observed/expected"] == pytest.approx(other["visits"].sum() / expected.sum(), rel=1e-12)
    line = np.column_stack([np.ones(other.rows), np.log(expected)])
    fitted = sm.GLM(other["visits"], line, family=poisson).fit(tol=1e-14, cov_type="HC0")
    slope, lower, upper = held["calibration"]["overall"]["slope"]
    # Its sums are told rounded (`coarse`), which may move an interval by a small share of its width.
    outside = [fitted.params[1], *fitted.conf_int()[1]]
    np.testing.assert_allclose([slope, lower, upper], outside, rtol=0, atol=1e-3 * (upper - lower))


def test_the_hospital_that_is_served_worst(table):
    settings = {**FIT, "goal": "fair-counts", "l1": 0.01, "l2": 0.0}
    model = fit_into(table / "fit", plan_fit(settings, table))
    assert model.certificate["gap"] <= 1e-5
    assert model.training["effects"]["kind"] == "sandwich"
    assert "deviance" in model.training["ordinary"]["sentence"]


@pytest.mark.parametrize("masks", ["off", "on"])
def test_sites_have_the_model_of_a_fit(table, masks):
    fit = {**FIT, "l1": 0.01, "l2": 0.0, "tol": 1e-8}
    here = fit_into(table / "fit", plan_fit(fit, table))
    own = {name: {"table": str(table / f"{name}.csv")} for name in HOSPITALS}
    wanted = {key: value for key, value in fit.items() if key not in ("table", "clients")}
    write_table_deployment(table / "deployment", wanted, own, {}, {"secure_sums": masks, "timeout": 300.0})
    run_in_threads(table / "deployment")
    there = models.load(table / "deployment" / "server")
    np.testing.assert_allclose(there.weights, here.weights, atol=1e-9)
    np.testing.assert_allclose(there.bias, here.bias, atol=1e-9)
    assert there.certificate["exchanges"] == here.certificate["exchanges"]
    for name, value in here.training["held_out"]["overall"].items():
        assert there.training["held_out"]["overall"][name] == pytest.approx(value, abs=1e-6), name
    kinds = (there.training["effects"], here.training["effects"])
    assert kinds[0]["kind"] == kinds[1]["kind"] == "quasi-Poisson"
    errors = [[row["error"] for row in found["rows"]] for found in kinds]
    np.testing.assert_allclose(errors[0], errors[1], rtol=1e-6)


def test_what_cannot_be_is_refused_in_one_sentence(table):
    with pytest.raises(
        ConfigurationError, match="exposure is for the goals poisson, fair-counts, limits-counts, got the goal lasso"
    ):
        plan_fit({**FIT, "goal": "lasso"}, table)
    with pytest.raises(ConfigurationError, match="exposure must be another column than the target"):
        plan_fit({**FIT, "exposure": "visits"}, table)
    whole = columns()
    write(table / "all.csv", {**whole, "days": [0 if i == 6 else d for i, d in enumerate(whole["days"])]})
    with pytest.raises(CellError, match="the column 'days', the exposure, must hold numbers > 0, got 0 in row 7"):
        plan_fit(FIT, table)
    write(table / "all.csv", {**whole, "visits": [-1 if i == 4 else d for i, d in enumerate(whole["visits"])]})
    with pytest.raises(ValueError, match="the target 'visits' of the goal poisson must be numbers from 0 to 1e8"):
        plan_fit(FIT, table)

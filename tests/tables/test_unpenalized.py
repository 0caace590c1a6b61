"""`fit --l1 0 --l2 0`: the model that most papers report, certified without a domain; and a rate that is promised."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from click.testing import CliRunner

from fedualex.cli.group import main
from fedualex.models import load, save
from fedualex.runs.settings import ConfigurationError
from fedualex.tables.fit import fit_into, plan_fit
from fedualex.verification.verify import verify

RNG = np.random.default_rng(8)
N = 600


def write_table(folder, **more):
    frame = pd.DataFrame({"age": 50 + 10 * RNG.normal(size=N), "dose": RNG.normal(size=N), "site": np.arange(N) % 3})
    frame["kind"] = RNG.choice(["a", "b", "c"], size=N)
    score = 0.05 * (frame["age"] - 50) - frame["dose"] + (frame["kind"] == "b")
    frame["ill"] = np.where(RNG.random(N) < 1 / (1 + np.exp(-score)), "yes", "no")
    frame["three"] = np.array(["p", "q", "r"])[
        np.argmax(np.outer(score, [0, 1, -0.5]) + RNG.gumbel(size=(N, 3)), axis=1)
    ]
    frame["level"] = 1e4 + 1e3 * score + 100 * RNG.normal(size=N)
    frame = frame.assign(**{name: column(frame) for name, column in more.items()})
    frame.to_csv(folder / "table.csv", index=False)
    return frame


def fitted(folder, target, **settings):
    drop = [name for name in ("ill", "three", "level") if name != target]
    given = {"table": "table.csv", "target": target, "clients": "site", "holdout": 0.0, "l1": 0.0, "l2": 0.0}
    planned = plan_fit({**given, "ignore": drop, **settings}, folder)
    return fit_into(folder / "fit", planned)


def design(frame):
    kinds = pd.get_dummies(frame["kind"], dtype=float)
    reference = frame["kind"].value_counts().index[0]
    return sm.add_constant(pd.concat([frame[["age", "dose"]], kinds.drop(columns=reference)], axis=1))


def test_logistic_regression_is_that_of_statsmodels(tmp_path):
    frame = write_table(tmp_path)
    model = fitted(tmp_path, "ill")
    reference = sm.Logit(frame["ill"] == "yes", design(frame)).fit(disp=0, tol=1e-12)
    score = np.log(model.predict_proba(frame)[:, 1] / model.predict_proba(frame)[:, 0])
    np.testing.assert_allclose(score, reference.fittedvalues, atol=1e-6)
    assert model.certificate["status"] == "OPTIMAL"
    assert model.certificate["gap"] <= 1e-10
    assert model.certificate["proof"] == "self-concordance"
    assert model.training["penalty"]["value"] == 0
    assert not (tmp_path / "fit" / "run").exists()
    assert load(tmp_path / "fit" / "model").certificate == model.certificate


def test_least_squares_and_three_classes(tmp_path):
    frame = write_table(tmp_path)
    reference = sm.OLS(frame["level"], design(frame)).fit()
    np.testing.assert_allclose(fitted(tmp_path, "level").predict(frame), reference.fittedvalues, rtol=1e-9)
    three = fitted(tmp_path, "three")
    chances = sm.MNLogit(frame["three"], design(frame)).fit(disp=0, tol=1e-12, method="newton").predict()
    np.testing.assert_allclose(three.predict_proba(frame), chances, atol=1e-6)


def test_a_column_that_is_a_combination_of_others_is_dropped_and_said(tmp_path):
    frame = write_table(tmp_path, both=lambda frame: frame["age"] + frame["dose"])
    model = fitted(tmp_path, "ill")
    assert any("have no coefficient: both" in sentence for sentence in model.training["done"])
    reference = sm.Logit(frame["ill"] == "yes", design(frame)).fit(disp=0, tol=1e-12)
    np.testing.assert_allclose(model.predict_proba(frame)[:, 1], reference.predict(), atol=1e-6)
    with pytest.raises(ConfigurationError, match=r"there is no model: both is a combination of .*age, dose"):
        fitted(tmp_path, "ill", collinear="refuse")
    with pytest.raises(ConfigurationError, match="collinear must be drop or refuse, got 'keep'"):
        fitted(tmp_path, "ill", collinear="keep")


def test_a_table_of_effects_may_refuse_such_a_column(tmp_path):
    write_table(tmp_path, both=lambda frame: frame["age"] + frame["dose"])
    effects = fitted(tmp_path, "ill", l1=0.02, collinear="refuse").training["effects"]
    assert effects["refused"].startswith("no intervals: both is a combination of age, dose")


def test_verify_computes_the_gap_again_from_the_table(tmp_path):
    frame = write_table(tmp_path)
    model = fitted(tmp_path, "ill")
    for path in (tmp_path / "fit", tmp_path / "fit" / "run"):
        assert verify(path).headline == "VERIFIED"
    save(replace(model, weights=model.weights + 0.01), tmp_path / "fit" / "model")
    found = {check.what: check.agrees for check in verify(tmp_path / "fit").checks}
    assert found["SHA-256 of the table"]
    assert not found["change of a coefficient"]
    save(model, tmp_path / "fit" / "model")
    frame.assign(dose=frame["dose"] + 1).to_csv(tmp_path / "table.csv", index=False)
    assert not verify(tmp_path / "fit").checks[0].agrees


def test_separable_data_have_no_model(tmp_path):
    write_table(tmp_path, ill=lambda frame: np.where(frame["dose"] > 0, "yes", "no"))
    with pytest.raises(ConfigurationError, match=r"there is no model: .* separable along .*dose \(\+\)"):
        fitted(tmp_path, "ill")
    assert not (tmp_path / "fit" / "model").exists()


def test_other_goals_still_need_a_penalty(tmp_path):
    write_table(tmp_path)
    with pytest.raises(ConfigurationError, match=r"l1 or l2 must be > 0 for the goal fair, .* logistic, lasso, .*cox"):
        fitted(tmp_path, "ill", goal="fair")


# --- a rate ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limited", ["no", "yes"])
def test_a_rate_is_promised_from_held_out_rows(tmp_path, limited):
    write_table(tmp_path)
    arguments = ["fit", "table.csv", "--target", "ill", "--goal", "neyman-pearson", "--ignore", "three,level"]
    arguments += ["--rate", "0.1", "--confidence", "0.9", "--limited", limited, "--l1", "0.01", "--holdout", "0.3"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        found = CliRunner().invoke(main, [*arguments, "--limit", "0.5", "--json"])
    assert found.exit_code == 0, found.output
    told = json.loads(found.output)["training"]
    rate, by_class = told["rate"], told["held_out"]["overall"]
    assert (rate["limited"], rate["rate"], rate["confidence"]) == (limited, 0.1, 0.9)
    assert rate["risk"] <= 0.1
    assert rate["rows"] >= 60
    assert by_class[f"errors of {limited}"] <= 0.1
    assert rate["sentence"].startswith(f"P(more than 0.1 of ill = {limited} is on the wrong side) <= ")
    model = load(tmp_path / "fits" / "table-neyman-pearson" / "model")
    assert model.answers.threshold == rate["threshold"] != 0


def test_rates_that_cannot_be_promised_are_refused_before_the_run(tmp_path):
    write_table(tmp_path)
    base = {"goal": "neyman-pearson", "l1": 0.01, "l2": 0.0}
    with pytest.raises(ValueError, match=r"rate=0.01 with confidence=0.95 must have 299 rows .* or a larger holdout"):
        fitted(tmp_path, "ill", **base, rate=0.01, holdout=0.2)
    with pytest.raises(ConfigurationError, match="rate takes held-out rows: give a holdout > 0"):
        fitted(tmp_path, "ill", **base, rate=0.05)
    with pytest.raises(ConfigurationError, match="rate is for the goal neyman-pearson, got the goal logistic"):
        fitted(tmp_path, "ill", rate=0.05)
    with pytest.raises(ValueError, match="rate must be a number > 0 and < 1, got 2"):
        fitted(tmp_path, "ill", **base, rate=2.0, holdout=0.2)

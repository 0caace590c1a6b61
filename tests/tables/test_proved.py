"""What a fit says of its penalized coefficients: how far they are from the best ones, zeros and signs."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from fedualex.cli.group import main
from fedualex.models import load
from fedualex.tables.fit import fit_into, plan_fit

RNG = np.random.default_rng(11)
N = 300


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proved")
    frame = pd.DataFrame({"income": np.round(np.exp(RNG.normal(10.6, 0.5, N))), "age": 50 + 9 * RNG.normal(size=N)})
    frame = frame.assign(noise=RNG.normal(size=N), kind=RNG.choice(["a", "b", "c"], N), site=np.arange(N) % 3)
    score = 0.08 * (frame["age"] - 50) - 4e-5 * (frame["income"] - 4e4) + (frame["kind"] == "b")
    frame["ill"] = np.where(RNG.random(N) < 1 / (1 + np.exp(-score)), "yes", "no")
    frame["cost"] = np.round(5000 + 900 * score + 500 * RNG.normal(size=N))
    frame["years"] = np.round(RNG.uniform(0.01, 0.2, N), 3)
    frame["falls"] = RNG.poisson(10 * frame["years"] * np.exp(0.6 * score))
    frame.to_csv(folder / "table.csv", index=False)
    return folder


def fitted(place, target, name, **settings):
    left = [name for name in ("ill", "cost", "years", "falls") if name not in (target, settings.get("exposure"))]
    given = {"table": "table.csv", "target": target, "clients": "site", "ignore": left, "l1": 0.03, **settings}
    return fit_into(place / name, plan_fit(given, place))


@pytest.mark.parametrize("target", ["ill", "cost", "falls"])
def test_coefficients_are_within_their_bounds_of_those_of_a_far_closer_fit(place, target):
    goal = {"ill": {}, "cost": {"l2": 0.01}, "falls": {"exposure": "years", "l1": 3.0}}[target]
    loose = {"ill": 1e-4, "cost": 1e-5, "falls": 1e-4}[target]
    rough = fitted(place, target, f"{target}-rough", tol=loose, **goal)
    close = fitted(place, target, f"{target}-close", tol=1e-10, **goal)
    told = rough.training["effects"]["coefficients"]
    best = {one.feature: float(one.per_unit[0]) for one in close.coefficients}
    own = {one.feature: float(one.per_unit[0]) for one in rough.coefficients}
    best["(intercept)"], own["(intercept)"] = float(close.intercept), float(rough.intercept)
    slack = {name: one["within"] for name, one in close.training["effects"]["coefficients"].items()}
    for name, one in told.items():
        assert abs(own[name] - best[name]) <= one["within"] + slack[name]
        assert one["proved"] != "zero" or best[name] == 0
        assert one["proved"] != "sign" or np.sign(own[name]) == np.sign(best[name]) != 0
    words = [one["proved"] for one in close.training["effects"]["coefficients"].values()]
    assert set(words) == {"zero", "sign"}


def test_the_table_has_it_in_the_terminal_as_json_and_as_a_file(place):
    fitted(place, "ill", "shown")
    run = CliRunner().invoke(
        main, ["summary", str(place / "shown"), "--out", str(place / "effects.csv")], env={"COLUMNS": "140"}
    )
    assert run.exit_code == 0, run.output
    assert "Effects on ill = yes (without penalty" in run.output
    assert "income (per 10,000)" in run.output
    line = next(line for line in run.output.splitlines() if line.split()[:1] == ["noise"])
    assert line.split()[1:3] == ["0", "zero"]
    rows = {row["name"]: row for row in csv.DictReader((place / "effects.csv").read_text().splitlines())}
    assert (rows["noise"]["penalized_proved"], rows["age"]["penalized_proved"]) == ("zero", "sign")
    assert float(rows["income"]["shown_per"]) == 1e4
    assert abs(float(rows["income"]["estimate"])) < 1e-3  # of one unit
    plain = json.loads(CliRunner().invoke(main, ["summary", str(place / "shown"), "--json"]).output)
    assert plain["rows"][0]["penalized_bound"] == float(rows["income"]["penalized_bound"])
    table = load(place / "shown").summary()
    assert [row.estimate for row in table.rows] == [row["estimate"] for row in plain["rows"]]
    assert "income (per 10,000)" in repr(table)
    assert load(place / "shown").summary("sandwich").kind == "sandwich"
    with pytest.raises(ValueError, match=r"errors must be one of model-based, sandwich, .*got 'clustered'"):
        load(place / "shown").summary("clustered")
    explained = CliRunner().invoke(main, ["explain", str(place / "shown")]).output
    assert "Proved to be 0 in the best model at this penalty: noise" in explained


def test_nothing_is_said_where_nothing_is_proved(place):
    model = fitted(place, "ill", "fair", goal="fair", l1=0.02)
    assert "coefficients" not in model.training["effects"]
    assert all(row["penalized_bound"] is None for row in model.training["effects"]["rows"])
    assert load(place / "fair").training["effects"]["rows"][0]["penalized_proved"] == ""

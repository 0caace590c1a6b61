"""Effects that bend in a table: beside statsmodels, straight or zero by the penalty, kept, refused, and between sites."""

import csv
import json

import numpy as np
import pytest
import statsmodels.api as sm
from click.testing import CliRunner
from scipy.interpolate import CubicSpline
from statsmodels.duration.hazard_regression import PHReg
from support.command_line import cli, refused
from support.consortium import noting, run_in_threads

from fedualex import models
from fedualex.cli import main
from fedualex.data import Coding
from fedualex.data.curves import EDGES, FEWEST_IN_BIN
from fedualex.deploy.consortium.kit import write_table_deployment
from fedualex.deploy.consortium.site import read_own_table
from fedualex.deploy.wire import unpack_summary
from fedualex.models.checks import check_document
from fedualex.models.store import to_parts
from fedualex.tables.fit import fit_into, plan_fit
from fedualex.tables.recipe import TableRecipe

SITES = ("bonn", "oslo", "york")


def columns(rows=450, seed=2):
    rng = np.random.default_rng(seed)
    dose, age, sex = rng.gamma(2, 1.5, rows), rng.normal(60, 10, rows), rng.choice(["f", "m"], rows, p=[0.4, 0.6])
    score = 1.6 * np.cos(dose / 1.5) + 0.05 * (age - 60) + 0.06 * (age - 60) * (sex == "f")
    died, seen = rng.exponential(np.exp(-score)), rng.exponential(2, rows)
    found = {"dose": dose.round(3), "age": age.round(1), "sex": sex, "site": np.array(SITES)[np.arange(rows) % 3]}
    found |= {"ill": np.where(rng.random(rows) < 1 / (1 + np.exp(-score)), "yes", "no")}
    found |= {"visits": rng.poisson(np.exp(0.5 + 0.4 * score)), "days": np.minimum(died, seen).round(4)}
    return found | {"died": (died <= seen).astype(int)}


def write(path, table):
    with path.open("w") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return path


OUTCOMES = {
    "logistic": ({"target": "ill"}, ["visits", "days", "died"]),
    "poisson": ({"target": "visits"}, ["ill", "days", "died"]),
    "lasso": ({"target": "days"}, ["ill", "visits", "died"]),
    "cox": ({"time": "days", "event": "died"}, ["ill", "visits"]),
}


def wanted(goal, **more):
    outcome, ignore = OUTCOMES[goal]
    smooth = {"smooth": ["dose"], "interact": ["age:sex"], "site_intercepts": False, "holdout": 0.0}
    return {"table": "t.csv", "clients": "site", "goal": goal, **outcome, "ignore": ignore, **smooth, **more}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smooth")
    write(folder / "t.csv", columns())
    return folder


def fitted(place, goal, name, **more):
    return fit_into(place / name, plan_fit(wanted(goal, **more), place))


def own_matrix(table, knots):
    """The same space from scipy's natural splines, and the product of the columns themselves."""
    cardinal = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")

    def spline(values):
        inside = np.clip(values, knots[0], knots[-1])
        return cardinal(inside) + cardinal(inside, 1) * (values - inside)[:, None]

    rest = np.column_stack([table["age"], table["sex"] == "f", table["age"] * (table["sex"] == "f")]).astype(float)
    return np.column_stack([spline(table["dose"]), rest]), spline


@pytest.mark.parametrize("goal", ["logistic", "poisson", "cox"])
def test_without_penalty_it_is_the_spline_of_an_outside_library(place, goal):
    model, table = fitted(place, goal, f"{goal}-free", l1=0.0, l2=0.0), columns()
    X, spline = own_matrix(table, model.encoder.knots("dose"))
    if goal == "cox":
        outside = PHReg(table["days"], X[:, 1:], status=table["died"], strata=table["site"], ties="breslow").fit(disp=0)
    elif goal == "poisson":
        outside = sm.GLM(table["visits"], X, family=sm.families.Poisson()).fit(tol=1e-12)
    else:
        outside = sm.Logit((table["ill"] == "yes") * 1.0, X).fit(disp=0, tol=1e-12)
    beta, covariance = np.asarray(outside.params), np.asarray(outside.cov_params())
    if goal == "cox":
        beta, covariance = np.append(0.0, beta), np.pad(covariance, ((1, 0), (1, 0)))
    scores = model.decision_function(table)
    np.testing.assert_allclose(scores - scores[0], (X - X[0]) @ beta, atol=1e-5)
    effects = model.training["effects"]
    kept = effects["curves"]["dose"] if effects["kind"] == "model-based" else None
    rows = {row["name"]: row for row in (effects if kept else effects["others"]["model-based"])["rows"]}
    knots = model.encoder.knots("dose")
    contrast = np.zeros(X.shape[1])
    contrast[:5] = np.eye(5)[4] - np.eye(5)[2]
    last = rows[f"dose={knots[4]:.4g}"]
    assert last["reference"] == f"{knots[2]:.4g}"
    assert last["estimate"] == pytest.approx(contrast @ beta, abs=1e-5)
    assert last["error"] == pytest.approx(np.sqrt(contrast @ covariance @ contrast), rel=1e-4)
    assert rows["age:sex=f"]["estimate"] == pytest.approx(beta[-1], abs=1e-6)
    assert model.curve("dose", [knots[4]])[0] == pytest.approx(contrast @ beta, abs=1e-5)
    if kept:
        at = np.zeros((len(kept["at"]), X.shape[1]))
        at[:, :5] = spline(np.array(kept["at"])) - np.eye(5)[2]
        np.testing.assert_allclose(kept["estimate"], at @ beta, atol=1e-5)
        errors = np.sqrt(np.einsum("ij,jk,ik->i", at, covariance, at))
        np.testing.assert_allclose(np.subtract(kept["upper"], kept["lower"]) / 2, 1.959964 * errors, rtol=1e-4)
        assert kept["bends"] < 1e-4


def test_the_penalty_makes_a_curve_straight_and_then_zero(place):
    kinds = []
    for l1 in (0.003, 0.05, 0.3):
        model = fitted(place, "logistic", f"l1-{l1}", l1=l1, l2=0.0)
        own = model.weights[model.encoder.bent["dose"]]
        assert np.all(own == 0) or np.all(own != 0)  # they vanish together
        kinds.append((bool(own.any()), bool(model.weights[0] != 0)))
        assert model.certificate["gap"] <= 1e-5
    assert kinds[0] == (True, True)
    assert kinds[-1] == (False, False)
    age = fitted(place, "logistic", "age", l1=0.05, l2=0.0, smooth=["dose", "age"])
    assert not age.weights[age.encoder.bent["age"]].any()  # whose effect is straight
    assert age.weights[age.encoder.numbers.index("age")] != 0


def test_a_penalty_is_chosen_and_the_fit_verified_and_told(place):
    options = ("--target", "ill", "--ignore", "visits,days,died", "--clients", "site", "--smooth", "dose,age")
    text = cli("fit", place / "t.csv", *options, "--interact", "age:sex", "--out", place / "chosen").output
    assert "The effect of dose bends with p = " in text
    text = " ".join(cli("explain", place / "chosen").output.split())
    assert "The effect of dose bends between" in text
    assert "The effect of age does not bend at this penalty: it is straight." in text
    assert "VERIFIED" in cli("verify", place / "chosen" / "run").output
    told = json.loads(cli("explain", place / "chosen", "--json").output)
    model = models.load(place / "chosen")
    assert told["curves"]["dose"]["adds"][2] == 0.0
    np.testing.assert_allclose(told["curves"]["dose"]["knots"], model.encoder.knots("dose"))
    cli("report", place / "chosen")
    page = (place / "chosen" / "report.html").read_text()
    assert "Effects that bend" in page
    assert "dose, against" in page


def test_predictions_say_where_they_are_beyond_the_knots_and_are_straight_there(place):
    model = fitted(place, "logistic", "l1-0.003", l1=0.003, l2=0.0)
    last = float(model.encoder.knots("dose")[-1])
    far = {"dose": last + np.array([0.0, 10.0, 20.0]), "age": [60.0] * 3, "sex": ["f"] * 3}
    steps = np.diff(model.decision_function(far))
    assert steps[0] == pytest.approx(steps[1])
    assert model.beyond(far)["dose"][0] == 2
    write(place / "far.csv", {name: list(column) for name, column in far.items()})
    told = CliRunner().invoke(main, ["predict", str(place / "l1-0.003"), str(place / "far.csv")])
    assert "its outer knots, in 2 of 3 rows: its effect is straight there" in told.stderr


def test_a_model_is_read_again_and_its_entries_are_checked(place):
    model = fitted(place, "logistic", "l1-0.003", l1=0.003, l2=0.0)
    again = models.load(place / "l1-0.003")
    assert again.encoder.curves == model.encoder.curves
    np.testing.assert_array_equal(again.predict(columns()), model.predict(columns()))
    document = json.loads(json.dumps(to_parts(model)[0]))
    curve = document["curves"]["dose"]
    for change, words in (
        ({"curves": {"sex": curve}}, "curves must be a table of columns of numbers"),
        ({"curves": {"dose": {"knots": [1, 0, 2], "mix": curve["mix"]}}}, "three rising numbers"),
        ({"curves": {"dose": {**curve, "mix": curve["mix"][1:]}}}, "a row for each knot"),
        ({"curves": {"dose": {**curve, "mix": [["x"] * 3] * 5}}}, r"mix\[0\]\[0\] must be a number"),
        ({"products": [["age", "dose", "sex"]]}, "products must be pairs"),
        ({"products": [["age", "height"]]}, "'height' must be a column of the model"),
    ):
        with pytest.raises(ValueError, match=words):
            check_document({**document, **change})
    with pytest.raises(ValueError, match="to_sklearn\\(\\) is for models without smooth columns"):
        model.to_sklearn()


BAD = [
    ({"smooth": ["dos"]}, "smooth: .* has no column 'dos'; did you mean 'dose'"),
    ({"smooth": ["sex"]}, "smooth: the column 'sex' must hold numbers, got text such as '[fm]'"),
    ({"smooth": ["died"], "ignore": ["visits", "days"]}, "'died' must have 5 different values at some client .* got 2"),
    ({"smooth": ["dose", "dose"]}, "smooth must name every column once"),
    ({"smooth": "dose"}, "smooth must be a list of columns"),
    ({"smooth": ["ill"]}, "smooth must name features, got 'ill'|smooth: .* has no column 'ill'"),
    ({"smooth": ["dose"], "categories": ["dose"]}, "smooth: the column 'dose' is one of categories"),
    ({"interact": ["age:height"]}, "interact: .* has no column 'height'"),
    ({"interact": ["age"]}, "interact must be pairs of two columns"),
    ({"interact": ["age:age"]}, "interact must be pairs of two columns"),
    ({"interact": ["age:sex", "sex:age"]}, "interact must name every pair once"),
    ({"interact": [3]}, "interact must be pairs of two columns"),
]


@pytest.mark.parametrize(("change", "words"), BAD, ids=[str(case[0]) for case in BAD])
def test_what_cannot_bend_or_be_multiplied_is_refused_in_one_sentence(place, change, words):
    with pytest.raises(ValueError, match=words):
        plan_fit({**wanted("logistic"), **change}, place)


def test_the_command_line_refuses_in_one_sentence(place):
    options = ("--target", "ill", "--clients", "site", "--out", place / "none")
    assert "has no column 'dos'" in refused("fit", place / "t.csv", *options, "--smooth", "dos")
    assert "interact must be pairs" in refused("fit", place / "t.csv", *options, "--interact", "age")


def sites_of(place, name, goal, masks):
    told = wanted(goal, l1=0.004, l2=0.001)
    gone, tables, table = {"site", *told.pop("ignore")}, {}, columns()
    for site in SITES:
        own = table["site"] == site
        own_table = {key: np.asarray(v)[own].tolist() for key, v in table.items() if key not in gone}
        tables[site] = {"table": str(write(place / f"{goal}-{site}.csv", own_table))}
    fit = {key: value for key, value in told.items() if key not in ("table", "clients")}
    write_table_deployment(place / name, fit, tables, {}, {"secure_sums": masks, "timeout": 300.0})
    return place / name


def test_a_site_tells_of_no_product_of_categories_that_few_rows_are_in(tmp_path):
    sexes, wards = ["f"] * 10 + ["m"] * 30, ["b"] * 6 + ["a"] * 8 + ["b"] * 26
    table = {"sex": sexes, "ward": wards, "dose": list(range(40)), "ill": ["yes", "no"] * 20}
    write(tmp_path / "t.csv", table)
    (tmp_path / "site.toml").write_text('table = "t.csv"\n')
    recipe = TableRecipe("logistic", "ill", coding=Coding(interact=(("sex", "ward"),)))
    assert read_own_table(tmp_path, recipe, 0.0, least_category=4).rows == 40
    with pytest.raises(ValueError, match=r"fewer than 5 rows of .* have sex = f, ward = a"):
        read_own_table(tmp_path, recipe, 0.0, least_category=5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("goal", "masks"), [("logistic", "off"), ("logistic", "on"), ("poisson", "off"), ("cox", "off"), ("cox", "on")]
)
def test_sites_have_the_model_of_a_fit(place, goal, masks):
    here, seen = fitted(place, goal, f"{goal}-given", l1=0.004, l2=0.001), []
    root = sites_of(place, f"{goal}-{masks}", goal, masks)
    run_in_threads(root, noting(seen))
    there = models.load(root / "server")
    np.testing.assert_allclose(there.encoder.knots("dose"), here.encoder.knots("dose"), rtol=1e-9)
    np.testing.assert_allclose(there.weights, here.weights, atol=1e-9)
    np.testing.assert_allclose(there.bias, here.bias, atol=1e-9)
    assert here.weights[here.encoder.bent["dose"]].any()
    own, other = (model.training["effects"]["curves"]["dose"] for model in (there, here))
    for key in ("at", "estimate", "lower", "upper"):
        np.testing.assert_allclose(own[key], other[key], atol=1e-7)
    if masks == "off":  # what leaves of a column that bends, and that no bin is of few rows
        said = [unpack_summary(arrays).sums for _, request, arrays in seen if request.task == "summary"]
        bins = [sums["histogram of dose"] for sums in said if "histogram of dose" in sums]
        assert len(bins) == len(SITES)
        for counts in bins:
            assert counts.shape == (EDGES.size + 1,)
            assert counts[counts > 0].min() >= FEWEST_IN_BIN

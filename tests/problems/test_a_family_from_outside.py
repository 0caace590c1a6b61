"""A family that the package does not know, in one file: the gamma loss with log link."""

from typing import ClassVar

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.linear_model import GammaRegressor
from support.consortium import run_in_threads
from support.families import check_laws

import fedualex as fx
from fedualex import models
from fedualex.deploy.consortium.kit import write_table_deployment
from fedualex.problems.families import FAMILIES, NumberFamily, namespace
from fedualex.tables import goals
from fedualex.tables.fit import fit_into, plan_fit


class Gamma(NumberFamily):
    """u - 1 + exp(-u), u = score - log target: half the unit deviance of a gamma distribution with mean exp(score)."""

    name: ClassVar[str] = "gamma"
    accepted: ClassVar[str] = "numbers > 0"
    effect: ClassVar[str] = "ratio of means"
    estimator: ClassVar[tuple[str, str]] = ("sklearn.linear_model", "GammaRegressor")
    self_concordant: ClassVar[bool] = True
    likelihood: ClassVar[bool] = False  # its dispersion is not known

    def allows(self, target):
        return np.isfinite(target) & (target > 0)

    def mean(self, score):
        return np.exp(score)

    def link(self, mean):
        return np.log(mean)

    def loss(self, score, target):
        xp = namespace(score, target)
        apart = score - xp.log(target)
        return apart + xp.expm1(-apart)

    def slope(self, score, target):
        xp = namespace(score, target)
        return -xp.expm1(xp.log(target) - score)

    def second(self, score, target):
        xp = namespace(score, target)
        return xp.exp(xp.log(target) - score)

    def conjugate(self, slope, target):
        """a log target + (1 - a) log(1 - a) + a, for a <= 1."""
        xp = namespace(slope, target)
        rest = 1 - slope
        entropy = xp.where(rest > 0, rest * xp.log(xp.where(rest > 0, rest, 1.0)), 0.0)
        return xp.where(rest >= 0, slope * xp.log(target) + entropy + slope, xp.inf)

    def clipped(self, slope, target):
        return namespace(slope, target).minimum(slope, 1.0)

    def size(self, reach, target):
        """(1 + reach + |log target|) (1 + target exp(reach)): the slope is at most 1 + target exp(reach)."""
        xp = namespace(reach, target)
        return (1 + reach + xp.abs(xp.log(target))) * (1 + target * xp.exp(reach))

    def curvature(self, lower, upper, target):
        return self.second(lower, target)

    def steepest(self, lower, upper, target):
        return np.maximum(np.abs(self.slope(lower, target)), np.abs(self.slope(upper, target)))


RNG = np.random.default_rng(0)
ROWS = 240
X = RNG.normal([0.0, 1.0, -0.5], size=(ROWS, 3))
CLIENTS = RNG.integers(0, 3, ROWS)
MEAN = np.exp(X @ [0.5, -0.3, 0.0] + 1.0 + 0.4 * (CLIENTS == 2))
Y = MEAN * RNG.gamma(3.0, 1 / 3.0, ROWS)
L2 = 0.05
SITES = ("east", "north", "west")


@pytest.fixture
def registered(monkeypatch):
    """One line makes a family known by its name, and one a goal of it."""
    monkeypatch.setitem(FAMILIES, "gamma", Gamma)
    monkeypatch.setitem(goals.GOALS, "gamma", goals.Goal("the least gamma deviance", goals.MEAN, "gamma"))


def test_it_obeys_the_laws():
    check_laws(Gamma(), RNG.normal(size=60), np.exp(RNG.normal(size=60)), RNG.uniform(-4, 1, 60))


def test_a_fit_is_scikit_learns_and_certified():
    problem = fx.problems.sparse_glm(Gamma(), X, Y, CLIENTS, l2=L2)
    run = fx.solve(problem, rounds=400, tol=1e-8)
    assert run.gap <= 1e-8
    assert not problem.certificate(run.z).estimated
    other = GammaRegressor(alpha=L2, tol=1e-10, max_iter=1000).fit(X, Y)
    np.testing.assert_allclose(run.z.x["weights"], other.coef_, atol=1e-3)
    np.testing.assert_allclose(run.z.x["bias"], other.intercept_, atol=1e-3)
    assert fx.problems.active_bounds(problem, run.z) == []
    fx.testing.check_problem(problem, samples=3)


@pytest.mark.parametrize("penalty", [{"l1": 0.05}, {"l2": 0.5}, {"radius": 0.2}])
def test_the_box_of_the_bias_holds_what_the_budget_allows(penalty):
    """No bias outside has, with any weights of the ball, a loss as small as that of the best constant."""
    problem = fx.problems.sparse_glm(Gamma(), X, Y, CLIENTS, **penalty)
    box, ball = problem.geometry.parts.x["bias"].regularizer, 0.2 if "radius" in penalty else None
    budget = float(np.mean(Gamma().loss(np.log(Y.mean()), Y)))
    for end in (box.lower - 1e-9, box.upper + 1e-9):
        for w in RNG.normal(size=(200, 3)):
            radius = ball or (budget / 0.05 if "l1" in penalty else np.sqrt(2 * budget / 0.5))
            size = np.abs(w).sum() if "l1" in penalty else np.linalg.norm(w)
            assert np.mean(Gamma().loss(X @ (w * radius / size) + end, Y)) > budget


def test_rows_relative_to_a_center_give_the_same_bounds():
    center = X.mean(axis=0)
    one = fx.problems.sparse_glm(Gamma(), X - center, Y, CLIENTS, l2=L2)
    other = fx.problems.sparse_glm(Gamma(), X, Y, CLIENTS, l2=L2, center=center)
    for end in ("lower", "upper"):
        ends = [getattr(p.geometry.parts.x["bias"].regularizer, end) for p in (one, other)]
        assert ends[0] == pytest.approx(ends[1], rel=1e-12)


def test_it_is_fair_to_the_worst_client():
    fair = fx.solve(fx.problems.agnostic(X, Y, CLIENTS, loss=Gamma(), l2=L2), rounds=1000, tol=1e-3)
    mean = fx.solve(fx.problems.sparse_glm(Gamma(), X, Y, CLIENTS, l2=L2), rounds=400, tol=1e-6)
    assert fair.gap <= 1e-3
    worst = [fx.problems.client_metrics(run.z.x, X, Y, CLIENTS, loss=Gamma()).worst_loss for run in (fair, mean)]
    assert worst[0] < worst[1]


def test_the_loss_of_a_client_can_be_limited():
    own = Y[CLIENTS == 2]
    limit = float(np.mean(Gamma().loss(np.log(own.mean()), own))) * 0.5 + 0.5 * float(
        np.mean(Gamma().loss(np.log(Y.mean()), own))
    )
    problem = fx.problems.constrained(X, Y, CLIENTS, limits={2: limit}, loss=Gamma(), l2=L2)
    run = fx.solve(problem, rounds=1000, tol=1e-3)
    assert run.gap <= 1e-3
    assert fx.problems.violation(problem, run.z).max() <= 1e-2
    assert fx.problems.active_bounds(problem, run.z) == []


def test_step_sizes_of_theory_know_how_smooth_it_is():
    problem = fx.problems.sparse_glm(Gamma(), X / 10, Y, CLIENTS, l2=1.0)
    assert fx.solve(problem, fx.FeDualEx(), rounds=5).gap < np.inf


def test_a_table_is_fitted_and_its_model_kept(registered, tmp_path):
    names = ["age", "dose", "days"]
    table = np.column_stack([X[:, :2], Y])
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header=",".join(names), comments="")
    planned = plan_fit({"table": "t.csv", "target": "days", "goal": "gamma", "clients": 3}, tmp_path)
    model = fit_into(tmp_path / "fit", planned)
    assert model.certificate["gap"] <= 1e-2
    assert str(model).startswith("gamma model for 'days'")
    rows = fx.data.read_csv(tmp_path / "t.csv")
    again = models.load(tmp_path / "fit")
    np.testing.assert_array_equal(again.predict(rows), np.exp(model.decision_function(rows)))
    features = np.stack([rows[name] for name in model.columns], axis=1)
    np.testing.assert_allclose(model.to_sklearn().predict(features), model.predict(rows), rtol=1e-10)
    tested = model.training["held_out"]["overall"]
    assert tested.keys() == {"rows", "r2", "mae", "mse", "loss"}
    assert tested["r2"] > 0.3
    assert model.adds_to == "the score of days (exp of a coefficient is a ratio of means)"


def test_it_is_deployed_with_intervals_and_a_penalty_of_its_own_choice(registered, tmp_path):
    """Between sites as in a fit: the same model, certified, with the sandwich of statsmodels."""
    lines = [",".join(map(str, [*row, days])) for row, days in zip(X[:, :2], Y, strict=True)]
    for m, name in enumerate(SITES):
        own = [line for line, client in zip(lines, CLIENTS, strict=True) if client == m]
        (tmp_path / f"{name}.csv").write_text("\n".join(["age,dose,days", *own]) + "\n")
    pooled = [f"{line},{SITES[client]}" for line, client in zip(lines, CLIENTS, strict=True)]
    (tmp_path / "all.csv").write_text("\n".join(["age,dose,days,site", *pooled]) + "\n")
    wanted = {"target": "days", "goal": "gamma", "holdout": 0.0, "site_intercepts": False, "tol": 1e-8}
    fit = fit_into(tmp_path / "fit", plan_fit({**wanted, "table": "all.csv", "clients": "site"}, tmp_path))
    own = {name: {"table": str(tmp_path / f"{name}.csv")} for name in SITES}
    write_table_deployment(tmp_path / "there", wanted, own, {}, {"secure_sums": "on", "timeout": 300.0})
    run_in_threads(tmp_path / "there")
    there = models.load(tmp_path / "there" / "server")
    np.testing.assert_allclose(there.weights, fit.weights, atol=1e-9)
    assert there.certificate["gap"] <= 1e-8
    assert there.training["penalty"]["value"] == pytest.approx(fit.training["penalty"]["value"], rel=1e-12)
    effects = there.training["effects"]
    assert (effects["kind"], effects["effect"]) == ("sandwich", "ratio of means")
    log = sm.families.Gamma(link=sm.families.links.Log())
    other = sm.GLM(Y, sm.add_constant(X[:, :2]), family=log).fit(tol=1e-13, maxiter=200, cov_type="HC0")
    np.testing.assert_allclose([row["estimate"] for row in effects["rows"]], other.params, atol=1e-5)
    np.testing.assert_allclose([row["error"] for row in effects["rows"]], other.bse, rtol=1e-4)


def test_what_it_cannot_be_of_is_refused_in_one_sentence():
    bad = np.where(np.arange(ROWS) == 7, -1.0, Y)
    with pytest.raises(ValueError, match="y must be numbers > 0 for the family gamma, got -1 in row 7"):
        fx.problems.sparse_glm(Gamma(), X, bad, CLIENTS, l2=L2)

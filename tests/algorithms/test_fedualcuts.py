"""FeDualCuts: exchanges, valid bounds, what it asks for, steps in y, resume, and the way on without second derivatives."""

from itertools import zip_longest

import jax
import numpy as np
import pytest
from scipy.optimize import minimize

import fedualex as fx
from fedualex.algorithms import Facts, cuts
from fedualex.compiling import double
from fedualex.problems.curvature import surveyor_of, with_alike_y
from fedualex.runtime.outputs import exact_problem


def groups(count, rows, columns=4, seed=0):
    """Rows of groups that differ in what matters."""
    rng = np.random.default_rng(seed)
    site, X = np.arange(rows) % count, rng.normal(size=(rows, columns))
    score = np.sum(X * (1 + rng.normal(size=(count, columns)))[site], axis=1)
    return X, np.where(score + rng.logistic(size=rows) > 0, 1.0, -1.0), score + rng.standard_t(2, size=rows), site


def agnostic(count=4, rows=240, columns=4, *, numbers=False, **options):
    X, label, number, site = groups(count, rows, columns)
    return fx.problems.agnostic(X, number if numbers else label, site, **options)


def counts(**options):
    """Loss and gradient are exponentials of scores, of which some columns make large ones."""
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.normal(size=(600, 3)), rng.exponential(size=600) ** 2])
    site = np.arange(600) % 4
    count = rng.poisson(np.exp(0.6 + X @ [0.3, -0.2, 0.1, 0.25] + 0.1 * site).clip(max=60))
    return fx.problems.agnostic(X, count, site, loss="poisson", **options)


PROBLEMS = {
    "capped": lambda: agnostic(l1=0.005, spread=0.1, cvar=0.5),
    "simplex": lambda: agnostic(l1=0.005),
    "the mean": lambda: agnostic(l1=0.005, cvar=1.0),
    "one group": lambda: agnostic(1, 100, l1=0.005),
    "twelve groups": lambda: agnostic(12, 600, 6, l2=0.01, cvar=0.25),
    "squares": lambda: agnostic(numbers=True, loss="squared", l1=0.01),
    "huber": lambda: agnostic(numbers=True, loss="huber", l1=0.01, cvar=0.5),
}


def surveys(problem, count, given=100):
    """What was asked for in each exchange, and the server afterwards. given: exchanges with second derivatives."""
    method, exact = fx.FeDualCuts(), exact_problem(problem)
    facts, surveyor = Facts(exact, 1), surveyor_of(exact)
    server = method.init(facts, jax.tree.map(np.asarray, exact.geometry.project(facts.flat.like)))
    for exchange in range(count):
        asked = method.ask(facts, server)
        answer = []
        for point, curved, start in zip_longest(asked.points, asked.curvature, asked.starts):
            whole = curved and exchange < given
            own = surveyor.survey_alike(point, start=start) if whole else surveyor.survey(point)
            answer.append(own)
        server = method.tell(facts, server, answer)
        yield asked, server


@pytest.mark.parametrize("name", PROBLEMS)
def test_small_gaps_need_some_tens_of_exchanges_and_every_bound_is_one(name):
    problem = PROBLEMS[name]()
    exactly = fx.solve(problem, fx.FeDualNewton(), rounds=30, tol=1e-11)
    optimum = float(problem.objective(exactly.z))
    reached, before = {}, np.inf
    with double():
        for exchange, (_, server) in enumerate(surveys(problem, 60), 1):
            upper, lower = float(server.bounds.upper.bound), float(server.bounds.lower.bound)
            assert lower - 1e-10 <= optimum <= upper + 1e-10
            assert upper - lower <= before
            before = upper - lower
            for level in (1e-4, 1e-6):
                if before <= level:
                    reached.setdefault(level, exchange)
    assert reached[1e-4] <= 45
    assert reached[1e-6] <= 55


def test_the_answer_is_certified_and_has_the_optimum():
    problem = PROBLEMS["capped"]()
    run = fx.solve(problem, fx.FeDualCuts(), rounds=60, tol=1e-7)
    assert (run.status, run.output) == (fx.Status.OPTIMAL, "bounds")
    best = fx.solve(problem, fx.FeDualNewton(), rounds=30, tol=1e-10)
    assert abs(float(problem.objective(run.z)) - float(problem.objective(best.z))) <= 1e-7


def test_nothing_is_asked_for_that_would_show_a_gradient_of_one_group():
    """One point an exchange; second derivatives in x alone, at steps in x, whose dual cut begins at the same y."""
    problem = PROBLEMS["capped"]()
    with double():
        asked = [one for one, _ in surveys(problem, 20)]
    assert all(len(one.points) == 1 for one in asked)
    assert all(one.alike for one in asked if any(one.curvature))
    assert {any(one.curvature) for one in asked} == {False, True}
    for one in asked[1:]:
        if one.starts:
            np.testing.assert_array_equal(one.starts[0].y, one.points[0].y)
        else:
            assert not one.curvature


def test_second_derivatives_of_all_alike_do_not_depend_on_y_and_have_no_other_block():
    problem = PROBLEMS["capped"]()
    surveyor, rng = surveyor_of(exact_problem(problem)), np.random.default_rng(0)
    x = {"weights": rng.normal(size=4), "bias": np.asarray(0.3)}
    with double():
        found = [surveyor.survey_alike(fx.Saddle(x, y)) for y in rng.dirichlet(np.ones(4), 2)]
        whole = surveyor.survey(with_alike_y(fx.Saddle(x, np.zeros(4))), curvature=True).curvature
    for one in found:
        np.testing.assert_array_equal(one.curvature.xx, whole.xx)
        assert one.curvature.yx.shape == (0, 5)
        assert one.curvature.yy.shape == (0, 0)
        np.testing.assert_array_equal(one.curvature.triangles().squares().xx, one.curvature.xx)
    assert not np.array_equal(found[0].operator.x["weights"], found[1].operator.x["weights"])


def test_of_many_surveys_those_without_a_place_in_a_bound_are_forgotten(monkeypatch):
    monkeypatch.setattr(cuts, "MEMORY", 7)
    problem = PROBLEMS["capped"]()
    run = fx.solve(problem, fx.FeDualCuts(), rounds=60, tol=1e-6)
    assert run.status is fx.Status.OPTIMAL
    assert run.exchanges > 7


def test_secants_of_steps_that_were_much_too_long_do_not_end_a_run():
    """They bent so much that every later step was of length 0."""
    run = fx.solve(counts(l1=0.003, cvar=0.5), fx.FeDualCuts(), rounds=80, tol=1e-4)
    assert run.status is fx.Status.OPTIMAL


def test_a_step_that_is_too_long_is_damped():
    """Labels that a line nearly separates, from where the curvature is large to where there is next to none."""
    X, _, score, site = groups(4, 240)
    problem = fx.problems.agnostic(X, np.where(score > 0, 1.0, -1.0), site, loss="logistic", l1=1e-4, cvar=0.5)
    start = fx.Saddle({"weights": 20 * np.ones(4), "bias": np.asarray(-5.0)}, np.full(4, 0.25))
    damped, method = [], fx.FeDualCuts()
    with double():
        exact = exact_problem(problem)
        facts, surveyor = Facts(exact, 1), surveyor_of(exact)
        server = method.init(facts, start)
        for _ in range(60):
            (asked,) = [method.ask(facts, server)]
            own = surveyor.survey_alike if asked.curvature else surveyor.survey
            server = method.tell(facts, server, [own(asked.points[0], start=(asked.starts or (None,))[0])])
            damped.append(float(server.tau) < 1)
    assert any(damped)
    assert server.bounds.gap <= 1e-4


@pytest.mark.parametrize("given", [0, 1, 4])
def test_without_second_derivatives_it_is_fedualslide(given):
    problem = PROBLEMS["capped"]()
    best = float(problem.objective(fx.solve(problem, fx.FeDualNewton(), rounds=30, tol=1e-10).z))
    with double():
        run = list(surveys(problem, 60, given))
    first = next(k for k, (_, server) in enumerate(run) if bool(server.plain))
    assert first >= given
    assert all(not one.curvature for one, _ in run[first + 1 :])
    bounds = run[-1][1].bounds
    assert float(bounds.lower.bound) - 1e-10 <= best <= float(bounds.upper.bound) + 1e-10
    assert bounds.gap <= 1e-2


def test_many_variables_are_fedualslides(monkeypatch):
    monkeypatch.setattr(cuts, "MOST", 4)
    with double():
        asked = [one for one, _ in surveys(PROBLEMS["capped"](), 3)]
    assert not any(one.curvature for one in asked)


@pytest.mark.parametrize("stop", [1, 5, 12])
def test_a_resumed_run_has_the_same_bits(stop, tmp_path):
    problem, options = PROBLEMS["capped"](), {"rounds": 16, "record_every": 1, "tol": None}
    whole = fx.solve(problem, fx.FeDualCuts(), **options)
    file = tmp_path / "run"
    fx.solve(problem, fx.FeDualCuts(), **options, checkpoint=file, callback=lambda record: record["round"] == stop)
    resumed = fx.solve(problem, fx.FeDualCuts(), **options, checkpoint=file)
    for one, other in zip(jax.tree.leaves(resumed.state), jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(resumed.history["gap_bounds"], whole.history["gap_bounds"])


def test_refusals():
    words = "FeDualCuts is for an adversary that weighs groups, y on a simplex with or without a cap and no more"
    X, label, _, site = groups(4, 80)
    for problem in (
        agnostic(l1=0.01, kl=0.1),
        fx.problems.sparse_glm("logistic", X, label, site, l1=0.01),
        fx.problems.bilinear(np.eye(2), np.zeros(2), x=fx.Box(1.0), y=fx.Box(1.0)),
    ):
        with pytest.raises(ValueError, match=words):
            fx.solve(problem, fx.FeDualCuts(), rounds=2)
    with pytest.raises(ValueError, match="FeDualCuts surveys all clients: leave out cohort=2"):
        fx.solve(agnostic(l1=0.01), fx.FeDualCuts(), rounds=2, cohort=2)


# The step in y.


@pytest.mark.parametrize("seed", range(5))
def test_the_next_mixture_is_the_nearest_one_above_the_level(seed):
    rng = np.random.default_rng(seed)
    size, cap = 5, 0.4
    slopes, best = rng.normal(size=(6, size)), np.full(size, 1 / size)
    inside = np.array([0.4, 0.3, 0.1, 0.1, 0.1])
    least = slopes @ (inside - best) - 0.05
    move = cuts._find_shortest(slopes, least, best, cap)
    y = best + move
    assert np.sum(move) == pytest.approx(0, abs=1e-12)
    assert np.all(slopes @ move >= least - 1e-10)
    assert np.all((y >= -1e-12) & (y <= cap + 1e-12))
    rows = [{"type": "ineq", "fun": lambda v: slopes @ v - least}, {"type": "eq", "fun": np.sum}]
    limits = [(-b, cap - b) for b in best]
    other = minimize(lambda v: v @ v, inside - best, jac=lambda v: 2 * v, constraints=rows, bounds=limits, tol=1e-14)
    assert move @ move == pytest.approx(other.fun, abs=1e-7)


def test_where_no_mixture_is_above_the_level_none_is_found():
    assert cuts._find_shortest(np.array([[1.0, 1.0]]), np.array([1.0]), np.array([0.5, 0.5]), 1.0) is None

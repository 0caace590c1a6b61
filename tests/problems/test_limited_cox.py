"""Cox regression under limits: beside a convex solver, proved infeasible, surveyed in closed form, and refused."""

import cvxpy as cp
import jax
import numpy as np
import pytest
from problems.test_cox import parts, plain, times
from support.references import minimize

import fedualex as fx
from fedualex.compiling import double
from fedualex.problems import LimitedCoxRecipe, Rows, gather, limited_cox
from fedualex.problems.curvature import DifferentiatedSurveyor, surveyor_of
from fedualex.problems.known import beta_of

HALVES = np.arange(40) // 20
CASES = {
    "one client": ({"limits": {1: 0.79}, "l2": 0.01}, None),
    "all clients": ({"limits": 0.82, "l1": 0.01}, None),
    "groups across clients": ({"limits": {0: 0.88}, "l1": 0.005, "l2": 0.005}, HALVES),
}


def stated(X, time, event, clients, groups):
    """Weights for a convex solver, the loss of each row's event, and what it is at 0."""
    w, each, null = cp.Variable(X.shape[1]), {}, {}
    for e in np.flatnonzero(event):
        member = (clients == clients[e]) & (time >= time[e])
        each[e], null[e] = cp.log_sum_exp((X[member] - X[e]) @ w), np.log(member.sum())
    shares = {
        g: sum(each[e] for e in each if groups[e] == g) / sum(null[e] for e in each if groups[e] == g)
        for g in np.unique(groups)
    }
    return w, sum(each.values()) / len(X), shares


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_minimum_of_a_convex_solver(name):
    (options, groups), (X, time, event, clients) = CASES[name], times()
    given = options if groups is None else {**options, "groups": groups}
    run = fx.solve(limited_cox(X, time, event, clients, multiplier=100.0, **given), tol=1e-9, rounds=40)
    w, each, shares = stated(X, time, event, clients, clients if groups is None else groups)
    limits = options["limits"] if isinstance(options["limits"], dict) else dict.fromkeys(shares, options["limits"])
    below = [shares[g] <= limit for g, limit in limits.items()]
    minimize(each + options.get("l1", 0) * cp.norm1(w) + options.get("l2", 0) / 2 * cp.sum_squares(w), below)
    assert max(float(np.squeeze(one.dual_value)) for one in below) > 0.01  # some limit matters
    np.testing.assert_allclose(run.z.x["weights"], w.value, atol=2e-5)
    assert run.gap <= 1e-9
    assert run.violation <= 1e-8
    assert run.exchanges <= 14


def test_certificates_are_never_below_the_true_gap():
    X, time, event, clients = times(rows=30, columns=3)
    rng = np.random.default_rng(0)
    w, each, shares = stated(X, time, event, clients, clients)
    problem = limited_cox(X, time, event, clients, limits={0: 0.9, 2: 0.95}, multiplier=3.0, l2=0.02)
    worst = each + 3 * sum(cp.pos(shares[g] - limit) for g, limit in ((0, 0.9), (2, 0.95)))
    least = minimize(worst + 0.01 * cp.sum_squares(w))
    for _ in range(20):
        z = fx.Saddle({"weights": rng.normal(size=3) * 10 ** rng.uniform(-2, 0.5)}, {"multipliers": 3 * rng.random(2)})
        point, certificate = problem.certify(z)
        w.value = np.asarray(point.x["weights"])
        true = float(worst.value) + 0.01 * w.value @ w.value - least
        assert -1e-7 <= true <= certificate.gap + 1e-7


def test_limits_that_no_model_meets_are_proved_to_be_none():
    X, time, event, clients = times()
    problem = limited_cox(X, time, event, clients, limits={0: 0.9, 1: 0.5}, multiplier=100.0, l2=0.01)
    run = fx.solve(problem, tol=1e-8, rounds=40)
    assert run.stop is fx.Stop.INFEASIBLE
    assert run.detail.startswith("the limits are infeasible: no model in this domain violates less than")
    _, _, shares = stated(X, time, event, clients, clients)
    least = minimize(cp.maximum(shares[0] - 0.9, shares[1] - 0.5))
    assert 0.8 * least <= run.least_violation <= least + 1e-7


def test_limits_above_1_are_met_without_a_model_and_bound_their_multipliers():
    X, time, event, clients = times()
    problem = limited_cox(X, time, event, clients, limits={0: 1.25}, l2=0.01)
    null = sum(plain(own.X, *own.y.T, np.ones(len(own.y)), np.zeros(4))[0] for own in parts(X, time, event, clients))
    bound = problem.geometry.parts.y["multipliers"].regularizer.upper
    np.testing.assert_allclose(bound, null / len(X) / 0.25)
    run, free = (fx.solve(p, tol=1e-9, rounds=30) for p in (problem, fx.problems.cox(X, time, event, clients, l2=0.01)))
    np.testing.assert_allclose(run.z.x["weights"], free.z.x["weights"], atol=1e-5)
    with pytest.raises(ValueError, match="multiplier must be given: no constant score meets all limits strictly"):
        limited_cox(X, time, event, clients, limits={0: 1.0}, l2=0.01)


@pytest.mark.parametrize("without", [False, True])
def test_surveys_in_closed_form_are_those_by_jax(without):
    X, time, event, clients = times()
    weight, rng = np.arange(40) % 4, np.random.default_rng(3)
    limits = {0: 0.9, 2: 0.95}
    problem = limited_cox(X, time, event, clients, limits=limits, multiplier=9.0, l1=0.01, sample_weight=weight)
    problem = fx.problems.phase_one(problem) if without else problem
    z = fx.Saddle({"weights": rng.normal(size=4)}, {"multipliers": rng.dirichlet(np.ones(2))})
    found, known = (kind.survey(z, curvature=True) for kind in (surveyor_of(problem), DifferentiatedSurveyor(problem)))
    assert type(surveyor_of(problem)).__name__ == "RiskSurveyor"
    for own, other in zip(jax.tree.leaves(found), jax.tree.leaves(known), strict=True):
        np.testing.assert_allclose(own, other, atol=1e-13)


def test_a_cut_is_below_f_at_the_multipliers_of_its_end():
    X, time, event, clients = times()
    problem, rng = limited_cox(X, time, event, clients, limits=0.9, multiplier=9.0, l2=0.01), np.random.default_rng(4)
    begin, end = (fx.Saddle({"weights": rng.normal(size=4)}, {"multipliers": 3 * rng.random(3)}) for _ in range(2))
    cut = surveyor_of(problem).survey(end, start=begin).cut
    with double():
        for scale in (1e-3, 0.1, 1.0, 10.0):
            x = {"weights": end.x["weights"] + scale * rng.normal(size=4)}
            value = float(problem.loss(fx.Saddle(x, end.y)))
            assert cut.slope["weights"] @ x["weights"] + cut.offset <= value + 1e-12 * (1 + abs(value))


def test_second_derivatives_are_bounded_by_the_jacobian_bound():
    X, time, event, clients = times()
    problem, rng = limited_cox(X, time, event, clients, limits=0.9, multiplier=5.0, l2=0.01), np.random.default_rng(5)
    with double():
        alone = problem.of_client(0)
        for y in (np.full(3, 5.0), 5 * rng.random(3)):
            found = surveyor_of(alone).survey(
                fx.Saddle({"weights": rng.normal(size=4)}, {"multipliers": y}), curvature=True
            )
            whole = np.block([[found.curvature.xx, -found.curvature.yx.T], [found.curvature.yx, np.zeros((3, 3))]])
            assert np.linalg.norm(whole, 2) <= beta_of(problem)


def test_held_out_groups_are_measured_as_shares_of_their_loss_without_a_model():
    X, time, event, clients = times(rows=60)
    whole = [
        Rows(own.X, own.y, None, np.where(np.arange(len(own.y)) % 2, "a", "b"))
        for own in parts(X, time, event, clients)
    ]
    recipe, w = LimitedCoxRecipe(limits={"b": 0.9}, multiplier=9.0, l2=0.1), np.array([0.8, 0.1, 0.0, -0.2])
    known = gather(recipe, whole)
    found = sum(recipe.held_out(own, known, m, [{"weights": w}]) for m, own in enumerate(whole))[0]
    lost = {name: [0.0, 0.0] for name in "ab"}
    for own in whole:
        for name in "ab":
            time, event = own.y.T
            counts = event * (own.group == name)
            for k, at in enumerate((w, 0 * w)):
                lost[name][k] += plain(own.X, time, event, np.ones(len(time)), at, counts)[0]
    assert found[1, 1] / found[0, 1] == pytest.approx(lost["b"][0] / lost["b"][1])
    assert found[1, 0] / found[0, 0] == pytest.approx(
        (lost["a"][0] + lost["b"][0]) / sum(own.y[:, 1].sum() for own in whole)
    )


def test_clients_without_rows_that_count_and_groups_without_events():
    X, time, event, clients = times()
    weight = (clients != 1) * 1.0
    problem = limited_cox(X, time, event, clients, limits={0: 0.9}, multiplier=100.0, l2=0.01, sample_weight=weight)
    kept = clients != 1
    alone = limited_cox(X[kept], time[kept], event[kept], clients[kept], limits={0: 0.9}, multiplier=100.0, l2=0.01)
    run, other = (fx.solve(p, tol=1e-9, rounds=30) for p in (problem, alone))
    np.testing.assert_allclose(run.z.x["weights"], other.z.x["weights"], atol=1e-6)
    with pytest.raises(ValueError, match=r"every group with a limit must have an event .* but group 1 has none"):
        limited_cox(X, time, event * (clients != 1), clients, limits={1: 0.9}, multiplier=1.0, l2=0.1)
    with pytest.raises(ValueError, match="groups must be one of 'clients'"):
        limited_cox(X, time, event, clients, limits={1: 0.9}, groups="classes", multiplier=1.0, l2=0.1)
    with pytest.raises(ValueError, match="limits must be for groups of"):
        limited_cox(X, time, event, clients, limits={7: 0.9}, multiplier=1.0, l2=0.1)
    with pytest.raises(ValueError, match="limits must be a number > 0, got 0"):
        limited_cox(X, time, event, clients, limits=0.0, multiplier=1.0, l2=0.1)

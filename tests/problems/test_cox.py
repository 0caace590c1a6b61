"""Cox regression with clients as strata: sums over risk sets beside plain loops, cuts, certificates, refusals."""

import re
from pathlib import Path

import cvxpy as cp
import jax
import numpy as np
import pytest
from scipy.optimize import minimize
from support.references import minimize as solver_minimum

import fedualex as fx
from fedualex.compiling import double
from fedualex.problems import CoxRecipe, FairCoxRecipe, LimitedCoxRecipe, Rows, cox, fair_cox, gather
from fedualex.problems.curvature import DifferentiatedSurveyor, surveyor_of
from fedualex.problems.risk_sets import RiskSets, Shares, concordance_sums, cut_of_step, second_of, slope_of


def times(seed=0, rows=40, columns=4, clients=3):
    """Rows with ties, and whose they are; every client has events."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    happened = np.ceil(8 * rng.exponential(np.exp(-X[:, 0])))
    seen = np.ceil(8 * rng.exponential(1.5, rows))
    event = (happened <= seen) * 1.0
    event[:clients] = 1.0
    return X, np.minimum(happened, seen), event, np.arange(rows) % clients


def plain(rows, time, event, weight, w, counts=None):
    """Value, slope and second derivative of sum_e counts_e loss_e, pair by pair."""
    s, value, slope, second = rows @ w, 0.0, np.zeros(len(w)), np.zeros((len(w), len(w)))
    counts = event * weight if counts is None else counts
    for e in np.flatnonzero(event > 0):
        member = time >= time[e]
        log = np.logaddexp.reduce(s[member] + np.log(weight[member]))
        p = np.exp(s[member] + np.log(weight[member]) - log)
        mean = p @ rows[member]
        apart = rows[member] - mean
        value += counts[e] * (log - s[e] - np.log(weight[e]))
        slope += counts[e] * (mean - rows[e])
        second += counts[e] * apart.T @ (p[:, None] * apart)
    return value, slope, second


@pytest.mark.parametrize("scale", [0.5, 30.0, 400.0])
def test_sums_over_risk_sets_are_those_of_pairs(scale):
    X, time, event, _ = times()
    rng = np.random.default_rng(1)
    weight, w = rng.uniform(0.5, 2, len(X)), scale * rng.normal(size=X.shape[1])
    own = RiskSets.of(X, time, event, weight)
    shares, counts = Shares(own, own.rows @ w), own.event * own.weight
    value, slope, second = plain(X, time, event, weight, w)
    assert counts @ shares.losses(own) == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(slope_of(own, shares, counts), slope, atol=1e-11 * (1 + np.abs(slope).max()))
    np.testing.assert_allclose(second_of(own.rows, shares, counts), second, atol=1e-9)
    assert counts @ own.null == pytest.approx(plain(X, time, event, weight, 0 * w)[0], rel=1e-12)


@pytest.mark.parametrize("size", [1e-3, 0.1, 1.0, 10.0])
def test_the_cut_of_a_step_is_below_f_and_nearly_touches_it(size):
    X, time, event, _ = times()
    rng = np.random.default_rng(2)
    own = RiskSets.of(X, time, event, rng.uniform(0.5, 2, len(X)))
    counts = own.event * rng.uniform(0.5, 2, len(X))

    def f(w):
        return counts @ Shares(own, own.rows @ w).losses(own)

    begin, step = 0.3 * rng.normal(size=4), size * rng.normal(size=4)
    for before in (counts, counts * rng.uniform(0.5, 2, len(X)), 0 * counts):
        cut = cut_of_step(own, own.rows @ begin, own.rows @ (begin + step), before, counts)
        points = begin + np.concatenate([step[None], 3 * size * rng.normal(size=(200, 4))])
        apart = [f(w) - cut.slope @ w - cut.offset for w in points]
        assert min(apart) >= -1e-12 * (1 + f(begin))
        if before is counts and size <= 0.1:  # of third order in the step, where a plain slope is of second order
            assert apart[0] <= 200 * size**3
            shares = Shares(own, own.rows @ begin)
            newton = slope_of(own, shares, counts) + second_of(own.rows, shares, counts) @ step
            np.testing.assert_allclose(cut.slope, newton, atol=1e-12)


CASES = {
    "mean": lambda X, t, e, c: cox(X, t, e, c, l2=0.01),
    "weights": lambda X, t, e, c: cox(X, t, e, c, l1=0.01, sample_weight=np.arange(len(X)) % 4),
    "worst client": lambda X, t, e, c: fair_cox(X, t, e, c, l2=0.01, cvar=0.7, spread=0.2),
    "worst group": lambda X, t, e, c: fair_cox(X, t, e, c, l1=0.01, groups=np.arange(len(X)) // 20),
}


@pytest.mark.parametrize("name", CASES)
def test_surveys_in_closed_form_are_those_by_jax(name):
    problem, rng = CASES[name](*times()), np.random.default_rng(3)
    size = 0 if problem.like.y is None else problem.like.y.size
    z = fx.Saddle({"weights": rng.normal(size=4)}, rng.dirichlet(np.ones(size)) if size else None)
    found, known = (kind.survey(z, curvature=True) for kind in (surveyor_of(problem), DifferentiatedSurveyor(problem)))
    assert type(surveyor_of(problem)).__name__ == "RiskSurveyor"
    for own, other in zip(jax.tree.leaves(found), jax.tree.leaves(known), strict=True):
        np.testing.assert_allclose(own, other, atol=1e-13)


@pytest.mark.parametrize("name", ["mean", "worst client"])
def test_a_fit_is_certified_in_few_exchanges(name):
    run = fx.solve(CASES[name](*times()), tol=1e-8, rounds=12)
    assert run.gap <= 1e-8
    assert len(run.history) <= 10


def outside(X, time, event, clients, l1, l2):
    """The least objective, by scipy: w = u - v with u, v >= 0."""
    d = X.shape[1]

    def objective(uv):
        w = uv[:d] - uv[d:]
        parts = [
            plain(X[own], time[own], event[own], np.ones(own.sum()), w)
            for own in clients == np.unique(clients)[:, None]
        ]
        value = sum(part[0] for part in parts) / len(X) + l2 / 2 * w @ w + l1 * uv.sum()
        slope = sum(part[1] for part in parts) / len(X) + l2 * w
        return value, np.concatenate([slope + l1, l1 - slope])

    tight = {"ftol": 1e-15, "gtol": 1e-11, "maxiter": 2000}
    found = minimize(
        objective, np.zeros(2 * d), jac=True, method="L-BFGS-B", bounds=[(0, None)] * (2 * d), options=tight
    )
    return found.fun, objective


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 100, 10))
def test_certificates_are_never_below_the_true_gap_on_a_hundred_problems(first):
    for seed in range(first, first + 10):
        (X, time, event, clients), rng = times(seed), np.random.default_rng(seed)
        l1, l2 = (10 ** rng.uniform(-3, -1) for _ in range(2))
        problem = cox(X, time, event, clients, l1=l1, l2=l2)
        least, objective = outside(X, time, event, clients, l1, l2)
        w = np.zeros(4)
        for _ in range(3):
            w = w + rng.normal(size=4) * 10 ** rng.uniform(-4, 0)
            point, certificate = problem.certify(fx.Saddle({"weights": w}))
            uv = np.maximum(np.concatenate([point.x["weights"], -point.x["weights"]]), 0)
            true = objective(uv)[0] - least
            assert true <= certificate.gap + 1e-9
            assert problem.objective(point) == pytest.approx(objective(uv)[0], abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_certificates_of_the_worst_client_hold_beside_a_convex_solver(seed):
    X, time, event, clients = times(seed, rows=30, columns=3)
    rng = np.random.default_rng(seed)
    l1, l2 = (10 ** rng.uniform(-2.5, -1) for _ in range(2))
    problem, w = fair_cox(X, time, event, clients, l1=l1, l2=l2), cp.Variable(3)
    own = [np.flatnonzero(clients == m) for m in range(3)]
    null = np.array([plain(X[r], time[r], event[r], np.ones(len(r)), np.zeros(3))[0] / event[r].sum() for r in own])

    def gained(r):
        each = [cp.log_sum_exp((X[r][time[r] >= time[e]] - X[e]) @ w) for e in r if event[e]]
        return sum(each) / len(each)

    worst = cp.maximum(*(gained(r) - before for r, before in zip(own, null, strict=True))) + null.mean()
    least = solver_minimum(worst + l1 * cp.norm1(w) + l2 / 2 * cp.sum_squares(w))
    run = fx.solve(problem, tol=1e-7, rounds=100)
    assert run.gap <= 1e-7
    points = [
        np.asarray(run.z.x["weights"]),
        *(w.value + rng.normal(size=3) * 10 ** rng.uniform(-3, 0) for _ in range(3)),
    ]
    for at in points:
        z, certificate = problem.certify(fx.Saddle({"weights": at}, run.z.y))
        w.value = np.asarray(z.x["weights"])
        value = float(worst.value) + l1 * np.abs(w.value).sum() + l2 / 2 * w.value @ w.value
        assert value - least >= -1e-7
        assert value - least <= certificate.gap + 1e-7
    w.value = points[0]
    value = float(worst.value) + l1 * np.abs(w.value).sum() + l2 / 2 * w.value @ w.value
    assert value - least <= run.gap + 1e-8


def test_the_domain_holds_the_solution():
    X, time, event, clients = times()
    ball = CoxRecipe(l2=1e-3).problem(gather(CoxRecipe(l2=1e-3), parts(X, time, event, clients)), "elsewhere").geometry
    d = X.shape[1]

    def objective(w):
        return outside(X, time, event, clients, 0.0, 1e-3)[1](np.concatenate([w, np.zeros(d)]))[0]

    found = minimize(objective, np.zeros(d))
    assert float(ball.parts.x["weights"].regularizer.violation({"w": found.x}["w"])) == 0.0


def parts(X, time, event, clients):
    pairs = np.stack([time, event], axis=1)
    return [Rows(X[clients == c], pairs[clients == c], None, clients[clients == c]) for c in np.unique(clients)]


RECIPES = (
    CoxRecipe(l2=0.1),
    FairCoxRecipe(l2=0.1),
    LimitedCoxRecipe(l2=0.1, limits={0: 0.9, 2: 0.8}, multiplier=9.0),
)


def test_what_a_client_sends_does_not_depend_on_how_many_rows_it_has():
    X, time, event, clients = times(rows=60)
    whole = parts(X, time, event, clients)
    few = [own.of(np.arange(len(own.y)) < 10) for own in whole]
    for recipe in RECIPES:
        known = gather(recipe, whole)
        for number in range(recipe.exchanges):
            sent = [recipe.summarize(some[0], known[:number], 0).shapes for some in (whole, few)]
            assert sent[0] == sent[1]


def test_what_leaves_a_client_is_what_the_docs_list():
    sections = re.split(
        r"^### `(.*)`\n", (Path(__file__).parents[2] / "docs/recipes.md").read_text(), flags=re.MULTILINE
    )
    whole = parts(*times())
    for recipe in RECIPES:
        text = sections[0].partition("## The recipes")[2] + sections[sections.index(type(recipe).__name__) + 1]
        listed = re.findall(r"^\| (\d) \| `(.*?)` \| (.*?) \| `(.*?)` \|", text, flags=re.MULTILINE)
        known = gather(recipe, whole)
        for k in range(recipe.exchanges):
            sent = recipe.summarize(whole[0], known[:k], 0)
            own = {
                name: (kind, eval(shape, {"d": 4, "groups": 3, "limited": 2}))
                for number, name, kind, shape in listed
                if int(number) == k + 1
            }
            assert sent.shapes.keys() == own.keys()
            for name, (kind, shape) in own.items():
                assert name in getattr(sent, kind)
                assert sent.shapes[name] == shape or kind == "labels"


def test_clients_without_events_and_weights_of_zero():
    X, time, event, clients = times()
    event = np.where(clients == 1, 0.0, event)
    run = fx.solve(cox(X, time, event, clients, l2=0.1), tol=1e-7, rounds=15)
    w, each = run.z.x["weights"], parts(X, time, event, clients)
    slope = sum(plain(own.X, *own.y.T, np.ones(len(own.y)), w)[1] for own in each)
    np.testing.assert_allclose(slope / len(X) + 0.1 * w, 0, atol=1e-3)
    with pytest.raises(
        ValueError, match="every client must have an event, by which its loss is measured, but client 1 has none"
    ):
        fair_cox(X, time, event, clients, l2=0.1)
    with pytest.raises(ValueError, match=r"some row must have an event, but every row of every client is censored"):
        cox(X, time, 0 * event, clients, l2=0.1)


def test_bad_input_is_refused():
    X, time, event, clients = times()
    with pytest.raises(ValueError, match="the time of every row must be a number >= 0, got -1 in row 3 of 40"):
        cox(X, np.where(np.arange(40) == 2, -1, time), event, clients, l2=1)
    with pytest.raises(ValueError, match=r"the event of every row must be 0.*got 2 in row 1 of 40"):
        cox(X, time, np.where(np.arange(40) == 0, 2, event), clients, l2=1)
    with pytest.raises(ValueError, match="radius must be given if no penalty is > 0"):
        cox(X, time, event, clients)


def test_concordance_is_that_of_pairs():
    X, time, event, _ = times(rows=60)
    scores = np.round(X[:, 0], 0)
    right = known = 0.0
    for i in range(60):
        for j in range(60):
            if event[i] and (time[i] < time[j] or (time[i] == time[j] and not event[j])):
                known += 1
                right += (scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j])
    found = concordance_sums(time, event, scores)
    assert (found["concordant"], found["comparable"]) == (right, known)


def test_second_derivatives_are_bounded_by_the_jacobian_bound():
    with double():
        for name in ("mean", "worst client"):
            problem, rng = CASES[name](*times()), np.random.default_rng(5)
            alone = problem.of_client(0)
            examples = jax.tree.map(lambda leaf: np.asarray(leaf)[0], alone.data.examples)
            size = 0 if problem.like.y is None else problem.like.y.size
            z = fx.Saddle({"weights": rng.normal(size=4)}, rng.dirichlet(np.ones(size)) if size else None)
            found = surveyor_of(alone).survey(z, curvature=True).curvature
            assert np.linalg.norm(found.xx, 2) <= problem.f.jacobian_bound(examples, problem)


@pytest.mark.parametrize(("name", "wrong"), [("time", np.ones(3)), ("event", np.ones((4, 1)))])
def test_times_and_events_of_another_length_are_refused_by_name(name, wrong):
    given = {"X": np.ones((4, 2)), "time": np.ones(4), "event": np.ones(4)} | {name: wrong}
    with pytest.raises(ValueError, match=f"{name} must hold 4 numbers, one for each row of X"):
        fx.problems.cox(**given, radius=1.0)

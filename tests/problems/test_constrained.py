"""Constraints on losses: Neyman-Pearson, clients and groups, against a convex solver on real data."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from support.references import ball_of, box_of, inside, minimize, penalty, random_points, table

import fedualex as fx
from fedualex.compiling import double
from fedualex.problems import active_bounds, client_metrics, constrained, violation

CASES = {
    "Neyman-Pearson": ("cancer", {"groups": "classes", "limits": {1: 0.1}, "l2": 0.05}),
    "Neyman-Pearson, l1": ("cancer", {"groups": "classes", "limits": {0: 0.2}, "l1": 0.02}),
    "clients": ("cancer", {"limits": 0.75, "l1": 0.01}),
    "clients, tight": ("cancer", {"limits": 0.33, "l2": 0.01, "multiplier": 10.0}),
    "some clients": ("cancer", {"limits": {1: 0.3, 3: 0.35}, "radius": 2.0, "multiplier": 20.0}),
    "squared": ("diabetes", {"loss": "squared", "limits": 0.75, "l1": 0.05}),
    "huber": (
        "diabetes",
        {"loss": "huber", "delta": 0.7, "groups": "sex", "limits": {"f": 0.26}, "l2": 0.1, "multiplier": 30.0},
    ),
}
SHORT = ("Neyman-Pearson", "clients", "squared")
EVERY = pytest.mark.parametrize(
    ("name", "options"),
    [pytest.param(*case, id=name, marks=[] if name in SHORT else pytest.mark.slow) for name, case in CASES.items()],
)


def built(name, options):
    """The problem, and its definition in cvxpy: x, loss_0 and the limited groups' losses, and their limits."""
    X, y, clients = table(name)
    groups = np.where(X[:, 1] > 0, "m", "f") if options.get("groups") == "sex" else options.get("groups", "clients")
    problem = constrained(X, y, clients, **{**options, "groups": groups})
    weights, bias = cp.Variable(X.shape[1]), cp.Variable()
    score = X @ weights + bias
    match options.get("loss", "logistic"):
        case "logistic":
            each = cp.logistic(cp.multiply(1 - 2 * y, score))
        case "squared":
            each = cp.square(score - y) / 2
        case "huber":
            each = cp.huber(score - y, options["delta"]) / 2
    group = {"clients": clients, "classes": y}.get(groups) if isinstance(groups, str) else groups
    names, limits = np.unique(group), options["limits"]
    limits = limits if isinstance(limits, dict) else dict.fromkeys(names, limits)
    free = ~np.isin(group, list(limits))
    rows = [free if free.any() else np.ones(len(y), bool), *(group == g for g in names if g in limits)]
    losses = [cp.sum(each[np.flatnonzero(r)]) / r.sum() for r in rows]
    return problem, (weights, bias), losses, np.array([limits[g] for g in names if g in limits])


def optimum(problem, x, losses, limits, options):
    """The constrained minimum over all of space, a given radius aside, and its saddle point."""
    below = [loss <= limit for loss, limit in zip(losses[1:], limits, strict=True)]
    given = [cp.norm(x[0]) <= options["radius"]] if "radius" in options else []
    value = minimize(losses[0] + penalty(x[0], **options), [*below, *given])
    lam = np.array([max(float(np.squeeze(c.dual_value)), 0) for c in below])
    return value, fx.Saddle({"weights": x[0].value, "bias": x[1].value}, {"multipliers": lam})


def values(x, losses, z):
    x[0].value, x[1].value = np.asarray(z.x["weights"]), np.asarray(z.x["bias"])
    return np.array([float(loss.value) for loss in losses])


@pytest.mark.slow
@EVERY
def test_derived_bounds_keep_the_solution_and_the_certificate_proves_it(name, options):
    problem, x, losses, limits = built(name, options)
    value, z = optimum(problem, x, losses, limits, options)
    lower, upper = box_of(problem, "bias")
    assert lower < z.x["bias"] < upper
    assert np.all(z.y["multipliers"] < problem.geometry.parts.y["multipliers"].regularizer.upper)
    assert name == "diabetes" or z.y["multipliers"].max() > 1e-3 or options["limits"] == 0.75  # some limit matters
    if "radius" not in options:
        ball = ball_of(problem)
        assert np.linalg.norm(z.x["weights"], 1 if isinstance(ball, fx.L1Ball) else 2) < ball.radius
        assert active_bounds(problem, problem.project(z)) == []
    z, certificate = problem.certify(z)
    assert certificate.gap < 1e-3  # the solver's accuracy times the size of the domain
    assert problem.objective(z) == pytest.approx(value, abs=1e-4)
    assert violation(problem, z).max() < 1e-5


@EVERY
def test_certificate_is_never_below_the_gap(name, options):
    problem, x, losses, limits = built(name, options)
    bound = problem.geometry.parts.y["multipliers"].regularizer.upper
    for z in random_points(problem):
        lam = np.asarray(z.y["multipliers"])
        loss = values(x, losses, z)
        assert problem.objective(z) == pytest.approx(
            loss[0] + lam @ (loss[1:] - limits) + penalty(z.x["weights"], **options), rel=1e-9, abs=1e-9
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # far points have multipliers at their bounds
            np.testing.assert_allclose(violation(problem, z), loss[1:] - limits, atol=1e-9)
        highest = loss[0] + bound @ np.maximum(loss[1:] - limits, 0) + penalty(z.x["weights"], **options)
        mixed = losses[0] + sum(weight * part for weight, part in zip(lam, losses[1:], strict=True))
        lowest = minimize(mixed + penalty(x[0], **options), inside(problem, x[0], bias=x[1])) - lam @ limits
        assert highest - lowest >= -1e-6
        assert problem.certificate(z).gap >= highest - lowest - 1e-6 * max(1, highest)


@pytest.mark.slow
def test_neyman_pearson_run_ends_within_its_certificate_of_the_optimum():
    name, options = CASES["Neyman-Pearson"]
    problem, x, losses, limits = built(name, options)
    run = fx.solve(problem, fx.FeDualExCorrected(0.03), local_steps=10, rounds=3000, tol=0.02, record_every=50)
    assert run.status == fx.Status.OPTIMAL
    bound = problem.geometry.parts.y["multipliers"].regularizer.upper
    loss = values(x, losses, run.z)
    objective = loss[0] + bound @ np.maximum(loss[1:] - limits, 0) + penalty(run.z.x["weights"], **options)
    value, z = optimum(problem, x, losses, limits, options)
    assert -1e-7 <= objective - value <= run.gap
    assert violation(problem, run.z).max() <= run.gap / (bound[0] - z.y["multipliers"][0])


@pytest.mark.slow
def test_infeasible_limits_are_suspected():
    X, y, clients = table("cancer")
    problem = constrained(X, 1 - y, clients, limits=0.01, multiplier=1.0, l2=0.01)
    run = fx.solve(problem, fx.FeDualExCorrected(0.03), local_steps=10, rounds=100)
    with pytest.warns(UserWarning, match="of 5 multipliers are at their bound .*suspected to be infeasible"):
        assert violation(problem, run.z).max() > 0
    with pytest.warns(UserWarning, match="bounds are active at this point: .*multipliers"):
        active_bounds(problem, run.z)


@pytest.mark.parametrize("kind", [int, float, bool])
def test_groups_are_named_by_their_label_or_its_text(kind):
    X, y, clients = table("cancer")
    labels = (1, kind(1), str(kind(1))) + (() if kind is bool else ("1",))
    first, *others = (
        constrained(X, y.astype(kind), clients, groups="classes", limits={label: 0.1}, l1=0.1) for label in labels
    )
    z = first.project(fx.Saddle({"weights": np.ones(6), "bias": np.ones(())}, {"multipliers": np.ones(1)}))
    assert all(other.objective(z) == first.objective(z) for other in others)


@pytest.mark.slow
def test_operator_is_monotone():
    name, options = CASES["clients"]
    assert fx.problems.check_convex_concave(built(name, options)[0], pairs=90).passed


def test_client_losses_are_the_clients_violations():
    X, y, clients = table("cancer")
    problem = constrained(X, y, clients, limits=0.7, l1=0.01)
    z = next(random_points(problem, scales=(0.5,)))
    with double():
        np.testing.assert_allclose(client_metrics(z.x, X, y, clients).losses - 0.7, violation(problem, z), rtol=1e-10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"limits": {}}, "limits must hold at least one limit"),
        ({"limits": {5: 0.1}}, r"limits must be for groups of \[0, 1\], got one for 5"),
        ({"limits": "low"}, "limits must be a number > 0"),
        ({"limits": {1: 0.8, "1": 0.9}}, "limits must hold one limit for each group, got two for"),
        ({"limits": {1: 0.0}}, r"limits\[1\] must be a number > 0, got 0.0"),
        ({"limits": 0.3}, "multiplier must be given: no constant score meets all limits strictly"),
        ({"groups": "rows"}, "groups must be one of 'clients', 'classes', got 'rows'"),
        ({"groups": [1, 2]}, r"groups must hold 4 labels.*\(2,\)"),
        ({"loss": "hinge"}, "loss must be one of 'logistic', 'squared', 'huber', 'absolute', 'poisson', got 'hinge'"),
        ({"loss": "huber", "delta": 0.0}, "delta must be a number > 0"),
        ({"y": [0, 1, 2, 1]}, "y must hold two classes, but it holds 3"),
        ({"multiplier": 0.0}, "multiplier must be a number > 0"),
        ({"l1": 0.0}, "radius must be given if no penalty is > 0"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(changes, message):
    arguments = {"y": [0, 1, 0, 1], "limits": 0.8, "l1": 0.1, **changes}
    with pytest.raises((TypeError, ValueError), match=message):
        constrained(np.arange(8.0).reshape(4, 2), arguments.pop("y"), [0, 0, 1, 1], **arguments)


def test_violation_is_of_constrained_problems():
    game = fx.problems.matrix_game(np.eye(2))
    with pytest.raises(TypeError, match=r"violation is for a problem with limits"):
        violation(game, fx.Saddle(np.ones(2) / 2, np.ones(2) / 2))

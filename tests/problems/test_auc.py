"""AUC maximization: against its definition over pairs, a convex solver, and scikit-learn."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from support.references import ball_of, inside, minimize, penalty, random_points, table

import fedualex as fx
from fedualex.problems import active_bounds, auc, roc_auc

OPTIONS = {
    "l1": {"l1": 0.05},
    "l2": {"l2": 0.1},
    "elastic net": {"l1": 0.02, "l2": 0.05},
    "radius": {"radius": 0.3},
    "radius, all": {"radius": 0.4, "l1": 0.02, "l2": 0.05},
}
CASES = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def cancer():
    X, y, clients = table("cancer")
    return X + 2.0, np.where(y == 0, "ill", "healthy"), clients  # features far from zero change nothing


def pair_loss(X, y, w):
    scores = X @ w
    return np.mean((1 - scores[y == "ill"][:, None] + scores[y == "healthy"]) ** 2)


def differences(X, y):
    return (X[y == "ill"][:, None] - X[y == "healthy"]).reshape(-1, X.shape[1])


def best(problem, X, y, options, bounded):
    """The least objective over pairs by cvxpy, and its weights."""
    w = cp.Variable(X.shape[1])
    pairs = differences(X, y)
    second, first = pairs.T @ pairs / len(pairs), pairs.mean(axis=0)
    loss = 1 - 2 * first @ w + cp.quad_form(w, cp.psd_wrap(second))
    limits = [cp.norm(w) <= options["radius"]] if "radius" in options else []
    value = minimize(loss + penalty(w, **options), inside(problem, w) if bounded else limits)
    return value, w.value


@pytest.mark.slow
@CASES
def test_the_inner_problems_give_the_loss_over_pairs(options):
    X, y, clients = cancer()
    problem = auc(X, y, clients, **options)
    shifted = X - (X[y == "ill"].mean(axis=0) + X[y == "healthy"].mean(axis=0)) / 2
    w = 0.1 * np.random.default_rng(0).normal(size=X.shape[1]) + 0.02 * differences(X, y).mean(axis=0)
    up, down = (shifted[y == label].mean(axis=0) @ w for label in ("ill", "healthy"))
    z = fx.Saddle({"weights": w, "a": up, "b": down}, np.asarray(down - up))
    assert problem.objective(z) == pytest.approx(pair_loss(X, y, w) + penalty(w, **options), rel=1e-12)
    for change in (-0.01, 0.01):  # a, b minimize, alpha maximizes
        assert problem.objective(fx.Saddle({**z.x, "a": up + change}, z.y)) > problem.objective(z)
        assert problem.objective(fx.Saddle({**z.x, "b": down + change}, z.y)) > problem.objective(z)
        assert problem.objective(fx.Saddle(z.x, z.y + change)) < problem.objective(z)


@CASES
def test_the_plain_form_is_the_loss_over_pairs_for_any_number_of_rows(options):
    X, y, clients = cancer()
    w = 0.1 * np.random.default_rng(0).normal(size=X.shape[1])
    alone = np.where(np.arange(len(y)) < 3, np.arange(len(y)), 3)  # three clients have one row each
    for owner in (clients, alone, np.zeros(len(y))):
        problem = auc(X, y, owner, saddle=False, **options)
        assert problem.data.examples["row"].shape[1] <= X.shape[1]
        expected = pair_loss(X, y, w) + penalty(w, **options)
        assert problem.objective(fx.Saddle({"weights": w})) == pytest.approx(expected, rel=1e-12)


@CASES
def test_derived_bounds_keep_the_solution_and_the_certificate_proves_it(options):
    X, y, clients = cancer()
    problem = auc(X, y, clients, **options)
    value, w = best(problem, X, y, options, bounded=False)
    up = np.mean(differences(X, y) @ w) / 2
    assert 0 < up < 0.5
    if "radius" not in options:
        ball = ball_of(problem)
        assert np.linalg.norm(w, 1 if isinstance(ball, fx.L1Ball) else 2) < ball.radius
    z, certificate = problem.certify(fx.Saddle({"weights": w, "a": up, "b": -up}, np.asarray(-2 * up)))
    assert 0 <= certificate.gap + 1e-9 < 1e-4
    assert problem.objective(z) == pytest.approx(value, abs=1e-6)
    if "radius" not in options:
        assert active_bounds(problem, z) == []


@CASES
def test_certificate_is_never_below_the_gap(options):
    X, y, clients = cancer()
    problem = auc(X, y, clients, **options)
    for z in random_points(problem):
        w, a, b = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable()
        rows, alpha = X - (X[y == "ill"].mean(axis=0) + X[y == "healthy"].mean(axis=0)) / 2, float(z.y)
        ill, healthy = rows[y == "ill"], rows[y == "healthy"]
        spread = cp.sum_squares(ill @ w - a) / len(ill) + cp.sum_squares(healthy @ w - b) / len(healthy)
        cross = -2 * (1 + alpha) * (ill.mean(axis=0) - healthy.mean(axis=0)) @ w
        lowest = minimize(spread + cross + penalty(w, **options), inside(problem, w, a=a, b=b)) + 1 - alpha**2
        response = (healthy.mean(axis=0) - ill.mean(axis=0)) @ z.x["weights"]  # inside its box for every w
        highest = problem.objective(fx.Saddle(z.x, np.asarray(response)))
        gap = problem.certificate(z).gap
        assert highest - lowest >= -1e-7
        assert gap >= highest - lowest - 1e-6
        own = pair_loss(X, y, z.x["weights"]) + penalty(z.x["weights"], **options)
        assert own - best(problem, X, y, options, bounded=True)[0] <= gap + 1e-6


@pytest.mark.slow
def test_a_run_ends_within_its_certificate_of_the_optimum():
    X, y, clients = cancer()
    options = OPTIONS["elastic net"]
    problem = auc(X, y, clients, **options)
    run = fx.solve(problem, fx.FeDualExCorrected(0.03), local_steps=10, rounds=2000, tol=0.01, record_every=20)
    assert run.status == fx.Status.OPTIMAL
    objective = pair_loss(X, y, run.z.x["weights"]) + penalty(run.z.x["weights"], **options)
    assert -1e-7 <= objective - best(problem, X, y, options, bounded=False)[0] <= run.gap


@pytest.mark.slow
def test_operator_is_monotone():
    assert fx.problems.check_convex_concave(auc(*cancer(), l1=0.1), pairs=90).passed


def test_roc_auc_is_scikit_learns():
    rng = np.random.default_rng(0)
    for scores in (rng.normal(size=200), rng.integers(0, 4, 200), np.zeros(200)):
        y = rng.random(200) < 0.2
        assert roc_auc(scores, y) == pytest.approx(roc_auc_score(y, scores), rel=1e-13)


def test_a_given_radius_that_is_active_is_a_warning():
    X, y, clients = cancer()
    problem = auc(X, y, clients, radius=0.1)
    w = best(problem, X, y, {"radius": 0.1}, bounded=False)[1]
    z = problem.project(fx.Saddle({"weights": w, "a": 0.1, "b": -0.1}, np.asarray(-0.2)))
    with pytest.warns(UserWarning, match=r"bounds are active at this point: x\['weights'\]$"):
        assert active_bounds(problem, z) == ["x['weights']"]


@pytest.mark.slow
def test_bounds_of_one_point_far_boxes_and_separable_rows_are_no_alarm():
    """A degenerate set leaves no choice, a box around 1e7 is as wide as it is, and a perfect ranking is a solution."""
    X, y, clients = np.arange(6.0)[:, None], np.ones(6), np.zeros(6)
    flat = fx.problems.sparse_glm("squared", X, y, clients, l1=0.1)
    assert active_bounds(flat, fx.Saddle({"weights": np.zeros(1), "bias": np.asarray(1.0)})) == []
    far = fx.problems.sparse_glm("squared", X, 1e7 + y * X[:, 0], clients, l1=0.1)
    middle = np.asarray(1e7 + 2.5)
    assert active_bounds(far, fx.Saddle({"weights": np.zeros(1), "bias": middle})) == []
    two = auc([[0.0], [1.0]], [0, 1], [0, 0], l1=1e-3, l2=1e-3)
    run = fx.solve(two, fx.BacktrackingCoMP(), steps=2000, tol=1e-3)
    assert run.status is fx.Status.OPTIMAL
    assert active_bounds(two, run.z) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": [0, 1, 2, 1]}, "y must hold two classes, but it holds 3"),
        ({"y": [1, 1, 1, 1]}, "y must hold two classes, but it holds 1"),
        ({"y": [0, 1, 1]}, r"y must hold 4 labels.*\(3,\)"),
        ({"X": np.ones(4)}, "X must be a nonempty matrix"),
        ({"l1": 0.0}, "radius must be given if no penalty is > 0"),
        ({"l2": -1}, "l2 must be a number >= 0"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(changes, message):
    arguments = {"X": np.arange(8.0).reshape(4, 2), "y": [0, 1, 0, 1], "clients": [0, 0, 1, 1], "l1": 0.1, **changes}
    with pytest.raises((TypeError, ValueError), match=message):
        auc(arguments.pop("X"), arguments.pop("y"), arguments.pop("clients"), **arguments)


# --- one digit against all others: 10% positive, 20 clients ---------------------------------------------------------


def digits(rows=1000):
    X, digit = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], (digit == 8)[order]
    spread = X[:rows].std(axis=0)
    X = (X - X[:rows].mean(axis=0)) / np.where(spread > 0, spread, 1)
    return (X[:rows], y[:rows]), (X[rows:], y[rows:])


def rounds_until(problem, local_steps, tol, every):
    run = fx.solve(
        problem, fx.FeDualExCorrected(0.005), local_steps=local_steps, rounds=3000, tol=tol, record_every=every
    )
    assert run.status == fx.Status.OPTIMAL
    return run


@pytest.mark.slow
def test_ten_local_steps_need_a_fifth_of_the_rounds_and_rank_as_well_as_scikit_learn():
    (X, y), (X_test, y_test) = digits()
    assert 0.08 < y.mean() < 0.12
    problem = auc(X, y, np.arange(len(y)) % 20, l1=0.003, l2=0.01)
    assert problem.clients == 20
    many, one = (rounds_until(problem, steps, 0.01, every=5) for steps in (10, 1))
    print(f"certified gap 0.01: K=10 {many.rounds} rounds, K=1 {one.rounds} rounds")
    assert many.rounds <= one.rounds / 5
    reference = LogisticRegression(class_weight="balanced", max_iter=2000).fit(X, y)
    theirs = roc_auc(reference.decision_function(X_test), y_test)
    ours = roc_auc(X_test @ many.z.x["weights"], y_test)
    print(f"test AUC {ours:.4f}, balanced logistic regression {theirs:.4f}")
    assert ours >= theirs - 0.01

"""Sparse models, low rank, absolute deviations and the universal attack, against scikit-learn, cvxpy and numpy."""

import warnings

import cvxpy as cp
import jax
import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, QuantileRegressor

import fedualex as fx
from fedualex.problems import attack_report, low_rank, robust_regression, sparse_glm, universal_adversarial
from fedualex.runs.settings import build_problem

PENALTIES = {
    "l1": {"l1": 0.05},
    "l2": {"l2": 0.1},
    "elastic net": {"l1": 0.03, "l2": 0.05},
    "group": {"group": 0.05, "groups": ["a", "b", "a", "c", "b"]},
    "group and l2": {"group": 0.05, "groups": [3, 1, 3, 2, 1], "l2": 0.02},
    "radius": {"radius": 0.7},
}
KINDS = ("squared", "two classes", "three classes")


def standardized(load, rows=None):
    X, y = load(return_X_y=True)
    X, y = X[:rows], y[:rows]
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def drawn(kind, rows=40, seed=0):
    """Three clients of unequal size; features are not centered."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 5)) + rng.normal(size=5)
    scores = X @ rng.normal(size=(5, 3)) + rng.normal(size=(rows, 3))
    clients = np.array([7, 2, 5])[rng.choice(3, rows, p=[0.6, 0.3, 0.1])]
    clients[:3] = 7, 2, 5
    if kind == "squared":
        return X, scores[:, 0] + 3, clients
    label = (scores[:, 0] > 1.5).astype(int) if kind == "two classes" else scores.argmax(axis=1)
    label[:3] = np.arange(3) % (2 if kind == "two classes" else 3)
    return X, np.array(["x", "y", "z"])[label], clients


def share(clients, weights):
    ids, number, counts = np.unique(clients, return_inverse=True, return_counts=True)
    p = counts / counts.sum() if weights == "samples" else np.ones(len(ids)) / len(ids)
    return (p / counts)[number]


def penalty(w, l1=0.0, l2=0.0, group=0.0, groups=None, radius=None, norm=np.linalg.norm):
    total = l1 * np.abs(w).sum() + l2 / 2 * np.sum(w**2)
    for g in np.unique(groups) if groups is not None else ():
        block = w[np.asarray(groups) == g]
        total = total + group * np.sqrt(block.size) * norm(block)
    return total


def random_point(problem, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return problem.project(jax.tree.map(lambda leaf: scale * rng.normal(size=np.shape(leaf)), problem.like))


class Model:
    """The same problem in cvxpy, from its definition alone."""

    def __init__(
        self,
        kind,
        X,
        y,
        clients,
        l1=0.0,
        l2=0.0,
        group=0.0,
        groups=None,
        radius=None,
        intercept=True,
        weights="samples",
    ):
        p = share(clients, weights)
        d = X.shape[1]
        outputs = 3 if kind == "three classes" else 1
        self.w, self.b = cp.Variable((d, outputs)), cp.Variable((1, outputs))
        scores = X @ self.w + np.ones((len(X), 1)) @ self.b
        if kind == "squared":
            loss = cp.sum(cp.multiply(p, cp.square(scores[:, 0] - y))) / 2
        elif kind == "absolute":
            loss = cp.sum(cp.multiply(p, cp.abs(scores[:, 0] - y)))
        elif kind == "two classes":
            sign = np.where(y == np.unique(y)[1], 1.0, -1.0)
            loss = cp.sum(cp.multiply(p, cp.logistic(cp.multiply(-sign, scores[:, 0]))))
        else:
            label = np.searchsorted(np.unique(y), y)
            picked = cp.sum(cp.multiply(np.eye(3)[label], scores), axis=1)
            loss = cp.sum(cp.multiply(p, cp.log_sum_exp(scores, axis=1) - picked))
        self.objective = loss + l1 * cp.sum(cp.abs(self.w)) + l2 / 2 * cp.sum_squares(self.w)
        for g in np.unique(groups) if groups is not None else ():
            block = self.w[np.flatnonzero(np.asarray(groups) == g), :]
            self.objective += group * np.sqrt(block.size) * cp.norm(cp.vec(block, order="C"))
        self.constraints = [] if radius is None else [cp.norm(cp.vec(self.w, order="C")) <= radius]
        self.constraints += [] if intercept else [self.b == 0]

    def solve(self):
        task = cp.Problem(cp.Minimize(self.objective), self.constraints)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "may be inaccurate" is judged by the tests
            task.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        w, b = self.w.value, self.b.value[0]
        if w.shape[1] == 1:
            return float(task.value), {"weights": w[:, 0], "bias": b[0]}
        return float(task.value), {"weights": w, "bias": b - (b.max() + b.min()) / 2}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("weights", ["samples", "clients"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", PENALTIES.values(), ids=PENALTIES)
def test_objective_is_the_definition(kind, options, weights):
    X, y, clients = drawn(kind)
    problem = sparse_glm("squared" if kind == "squared" else "logistic", X, y, clients, **options, weights=weights)
    z = random_point(problem, 1)
    scores = X @ z.x["weights"] + z.x["bias"]
    if kind == "squared":
        each = (scores - y) ** 2 / 2
    else:
        scores = np.stack([0 * scores, scores], axis=1) if scores.ndim == 1 else scores
        each = -log_softmax(scores, axis=1)[np.arange(len(y)), np.searchsorted(np.unique(y), y)]
    expected = share(clients, weights) @ each + penalty(z.x["weights"], **options)
    assert problem.objective(z) == pytest.approx(expected, rel=1e-12)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", PENALTIES.values(), ids=PENALTIES)
def test_bounds_keep_the_solution_and_certificates_hold(kind, options):
    data = drawn(kind)
    problem = sparse_glm("squared" if kind == "squared" else "logistic", *data, **options)
    value, x = Model(kind, *data, **options).solve()
    parts = problem.geometry.parts.x
    box = parts["bias"].regularizer
    assert np.all(box.lower < x["bias"])
    assert np.all(x["bias"] < box.upper)
    if "radius" not in options:  # a given radius may be active
        shrunk = jax.tree.map(lambda leaf: leaf * (1 - 1e-6), x["weights"])
        assert float(parts["weights"].regularizer.violation(shrunk)) == 0
    projected, certificate = problem.certify(fx.Saddle(x))
    assert certificate.gap < 1e-3
    assert problem.objective(projected) == pytest.approx(value, abs=1e-6)
    for seed, scale in enumerate((0.01, 0.3, 3.0)):
        z = random_point(problem, seed, scale)
        assert problem.certificate(z).gap >= problem.objective(z) - value - 1e-7


def test_without_intercept():
    X, y, clients = drawn("squared")
    problem = sparse_glm("squared", X, y, clients, l1=0.1, intercept=False)
    assert set(problem.like.x) == {"weights"}
    value, x = Model("squared", X, y, clients, l1=0.1, intercept=False).solve()
    assert problem.objective(problem.project(fx.Saddle({"weights": x["weights"]}))) == pytest.approx(value, abs=1e-7)
    assert sparse_glm("logistic", X, y > 3, l2=0.5, intercept=False).clients == 1


@pytest.mark.slow
def test_constant_target_is_solved_at_once():
    X, _, clients = drawn("squared")
    problem = sparse_glm("squared", X, np.full(len(X), 2.0), clients, l1=0.1)
    run = fx.solve(problem, fx.SynchronousMirrorProx(0.1), rounds=5, tol=1e-9)
    assert run.z.x["bias"] == pytest.approx(2)
    assert not np.any(run.z.x["weights"])


# --- against scikit-learn ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [fx.CompositeDualExtrapolation(), pytest.param(fx.AdaptiveDualExtrapolation(), marks=pytest.mark.slow)],
    ids=["exact", "adaptive"],
)
def test_lasso_is_scikit_learns(method):
    X, y = standardized(load_diabetes)
    reference = Lasso(alpha=2.0, tol=1e-12, max_iter=100_000).fit(X, y)
    run = fx.solve(sparse_glm("squared", X, y, l1=2.0), method, steps=3000, tol=1e-7)
    certificate = run.answer.certificate
    assert certificate.x + certificate.y <= 1e-7
    # 453 terms in a sum and a domain that is hundreds wide: the bound on their rounding is above this tol.
    assert run.gap <= 1e-6
    np.testing.assert_allclose(run.z.x["weights"], reference.coef_, atol=1e-5)
    np.testing.assert_allclose(run.z.x["bias"], reference.intercept_, atol=1e-5)
    np.testing.assert_array_equal(run.z.x["weights"] == 0, reference.coef_ == 0)


@pytest.mark.slow
def test_federated_lasso_is_the_pooled_lasso():
    X, y = standardized(load_diabetes)
    reference = Lasso(alpha=2.0, tol=1e-12, max_iter=100_000).fit(X, y)
    clients = np.argsort(np.argsort(X[:, 2])) * 4 // len(y)  # by body mass: heterogeneous and unequal
    problem = sparse_glm("squared", X, y, clients, l1=2.0)
    run = fx.solve(problem, fx.FeDualExCorrected(eta_c=0.2), rounds=1500, local_steps=5, tol=1e-6)
    assert run.status is fx.Status.OPTIMAL
    np.testing.assert_allclose(run.z.x["weights"], reference.coef_, atol=1e-4)


@pytest.mark.slow
def test_elastic_net_is_scikit_learns():
    X, y = standardized(load_diabetes)
    reference = ElasticNet(alpha=1.0, l1_ratio=0.4, tol=1e-12, max_iter=100_000).fit(X, y)
    run = fx.solve(sparse_glm("squared", X, y, l1=0.4, l2=0.6), fx.BacktrackingCoMP(growth=1.05), steps=1000, tol=1e-7)
    np.testing.assert_allclose(run.z.x["weights"], reference.coef_, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "lam"),
    [pytest.param(load_breast_cancer, 0.02, marks=pytest.mark.slow), (load_wine, 0.05)],
    ids=["two", "three"],
)
def test_logistic_is_scikit_learns(load, lam):
    X, y = standardized(load)
    reference = LogisticRegression(l1_ratio=1.0, C=1 / (lam * len(y)), solver="saga", tol=1e-10, max_iter=100_000).fit(
        X, y
    )
    run = fx.solve(sparse_glm("logistic", X, y, l1=lam), fx.AdaptiveDualExtrapolation(), steps=4000, tol=1e-8)
    assert run.status is fx.Status.OPTIMAL
    coefficients = reference.coef_[0] if len(reference.coef_) == 1 else reference.coef_.T
    np.testing.assert_allclose(run.z.x["weights"], coefficients, atol=1e-4)


@pytest.mark.slow
def test_group_lasso_is_cvxpys_and_groups_vanish():
    X, y = standardized(load_diabetes)
    options = {"group": 10.0, "groups": [0, 0, 1, 1, 2, 2, 2, 2, 2, 2]}
    value, x = Model("squared", X, y, np.zeros(len(y)), **options).solve()
    run = fx.solve(sparse_glm("squared", X, y, **options), fx.BacktrackingCoMP(growth=1.05), steps=1000, tol=1e-6)
    assert run.gap < 1e-6
    assert sparse_glm("squared", X, y, **options).objective(run.z) == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose(run.z.x["weights"], x["weights"], atol=1e-3)
    assert not np.any(run.z.x["weights"][:2])
    assert np.all(run.z.x["weights"][2:])


# --- low rank ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_low_rank_is_cvxpys():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8)) + 1
    Y = X @ (rng.normal(size=(8, 2)) @ rng.normal(size=(2, 6))) + 0.1 * rng.normal(size=(60, 6)) + 2
    clients = np.arange(60) % 3
    problem = low_rank(X, Y, clients, nuclear=0.3)
    W, b = cp.Variable((8, 6)), cp.Variable((1, 6))
    residual = X @ W + np.ones((60, 1)) @ b - Y
    task = cp.Problem(cp.Minimize(cp.sum_squares(residual) / 120 + 0.3 * cp.normNuc(W)))
    task.solve(solver=cp.CLARABEL)
    run = fx.solve(problem, fx.FeDualExCorrected(eta_c=0.1), rounds=1500, local_steps=5, tol=1e-5)
    assert run.status is fx.Status.OPTIMAL
    assert problem.objective(run.z) == pytest.approx(task.value, abs=2e-5)
    np.testing.assert_allclose(run.z.x["weights"], W.value, atol=1e-3)
    assert run.outputs["last"].rank == (2,)
    z = random_point(problem, 1, 10)
    assert problem.certificate(z).gap >= problem.objective(z) - task.value
    assert set(low_rank(X, Y, nuclear=0.3, intercept=False).like.x) == {"weights"}


# --- least absolute deviations -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_robust_regression_is_scikit_learns():
    X, y = standardized(load_diabetes, 80)
    y = (y - y.mean()) / y.std()
    y[:8] += 20  # outliers
    problem = robust_regression(X, y, l1=0.1)
    reference = QuantileRegressor(quantile=0.5, alpha=0.05).fit(X, y)
    run = fx.solve(problem, fx.CoMP(), steps=10000, tol=1e-4)
    assert run.status is fx.Status.OPTIMAL
    best = np.mean(np.abs(X @ reference.coef_ + reference.intercept_ - y)) + 0.1 * np.abs(reference.coef_).sum()
    mine = np.mean(np.abs(X @ run.z.x["weights"] + run.z.x["bias"] - y)) + 0.1 * np.abs(run.z.x["weights"]).sum()
    assert best - 1e-9 <= mine <= best + 1e-4
    np.testing.assert_allclose(run.z.x["weights"], reference.coef_, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["samples", "clients"])
@pytest.mark.parametrize(
    "options",
    [
        {"l1": 0.1},
        pytest.param({"l2": 0.1}, marks=pytest.mark.slow),
        pytest.param({"l1": 0.05, "l2": 0.1, "radius": 2.0}, marks=pytest.mark.slow),
    ],
)
def test_robust_regression_is_the_definition(options, weights):
    X, y, clients = drawn("squared")
    problem = robust_regression(X, y, clients, **options, weights=weights)
    value, x = Model("absolute", X, y, clients, **options, weights=weights).solve()
    order = np.argsort(clients, kind="stable")  # of the entries of u
    X, y, p = X[order], y[order], share(clients, weights)[order]
    z = random_point(problem, 0, 2.0)
    residual = X @ z.x["weights"] + z.x["bias"] - y
    assert problem.objective(z) == pytest.approx(
        z.y @ (np.sqrt(p) * residual) + penalty(z.x["weights"], **options), rel=1e-10
    )
    best = fx.Saddle(z.x, np.sqrt(p) * np.sign(residual))
    highest = p @ np.abs(residual) + penalty(z.x["weights"], **options)
    assert problem.objective(best) == pytest.approx(highest, rel=1e-12)
    assert problem.certificate(z).gap >= highest - value - 1e-8
    parts = problem.geometry.parts.x
    assert float(parts["weights"].regularizer.violation(x["weights"] * (1 - 1e-6))) == 0
    assert float(parts["bias"].regularizer.violation(np.asarray(x["bias"]))) == 0
    assert fx.problems.check_convex_concave(problem, pairs=30).passed


MADE_FOR_THEIR_WEIGHTS = {
    "sparse_glm": lambda X, y, c: sparse_glm("squared", X, y, c, l1=1.0),
    "robust_regression": lambda X, y, c: robust_regression(X, y, c, l1=0.1),
    "low_rank": lambda X, y, c: low_rank(X, y[:, None], c, nuclear=0.1),
    "auc": lambda X, y, c: fx.problems.auc(X, y > 0, c, l1=0.1),
    "agnostic": lambda X, y, c: fx.problems.agnostic(X, y, c, loss="squared", l1=0.1),
    "constrained": lambda X, y, c: fx.problems.constrained(X, y, c, loss="squared", limits=1e3, l1=0.1),
    "universal_adversarial": lambda X, y, c: universal_adversarial(X, y > 0, 0.1, 0.1, clients=c),
}


@pytest.mark.parametrize("make", MADE_FOR_THEIR_WEIGHTS.values(), ids=MADE_FOR_THEIR_WEIGHTS)
def test_other_weights_are_refused_where_the_domains_do_not_hold_for_them(make):
    X, clients = np.zeros((10, 1)), np.r_[np.zeros(9), 1.0]
    problem = make(X + np.arange(10)[:, None], np.r_[np.zeros(9), 10.0], clients)
    with pytest.raises(ValueError, match="weights belong to this problem"):
        fx.solve(problem, fx.SynchronousMirrorProx(0.5), rounds=2, weights="clients")


@pytest.mark.slow
def test_weights_are_given_where_the_problem_is_made():
    """Pooled rows have their mean, 1, in the box; clients alike, 5, which the box of pooled rows does not hold."""
    X, y, clients = np.zeros((10, 1)), np.r_[np.zeros(9), 10.0], np.r_[np.zeros(9), 1.0]
    problem = sparse_glm("squared", X, y, clients, l1=1.0, weights="clients")
    run = fx.solve(problem, fx.SynchronousMirrorProx(0.5), rounds=100, tol=1e-6)
    assert run.status is fx.Status.OPTIMAL
    assert run.z.x["bias"] == pytest.approx(5, abs=1e-3)


def test_a_class_without_weight_is_refused():
    X, y, clients = np.arange(6.0)[:, None], [0, 1, 0, 1, 2, 2], [0, 0, 1, 1, 2, 2]
    with pytest.raises(ValueError, match="weights must be > 0 for some client of every class of y"):
        sparse_glm("logistic", X, y, clients, l1=0.1, weights=[1, 1, 0])


# --- the universal attack ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_universal_attack_is_uncertified_and_sparse():
    X, y = standardized(load_breast_cancer)
    clients = np.arange(len(y)) % 4
    points = {}
    for lam in (0.0, 0.005, 0.02):
        problem = universal_adversarial(X, y, radius=0.5, lam=lam, clients=clients)
        run = fx.solve(problem, fx.FeDualEx(eta_c=0.1), rounds=100, local_steps=5, tol=1e-3)
        assert run.status is fx.Status.UNCERTIFIED
        assert run.gap is None
        assert "not concave" in str(problem.certificate(run.z))
        points[lam] = run.z
    assert not fx.problems.check_convex_concave(problem).passed
    dense, sparse, none = (attack_report(X, y, z) for z in points.values())
    assert dense.density > sparse.density > none.density == 0  # and no attack leaves a plain model
    plain = attack_report(X, y, fx.Saddle(points[0.02].x, points[0.0].y))
    assert plain.clean > 0.97
    assert plain.attacked < plain.clean - 0.05 < dense.attacked


def test_attack_report_counts():
    z = fx.Saddle({"weights": np.array([1.0, 0.0]), "bias": np.array(0.0)}, np.array([-2.0, 0.0]))
    with pytest.raises(ValueError, match=r"labels must be the 2 labels .*; y holds 3 labels"):
        attack_report(np.ones((3, 2)), [0, 1, 2], z)
    assert attack_report([[3.0, 0.0]], ["b"], z, labels=["a", "b"]).clean == 1.0
    report = attack_report([[1.0, 5.0], [3.0, 0.0], [-1.0, 2.0], [-4.0, 1.0]], ["b", "b", "a", "b"], z)
    assert (report.clean, report.attacked, report.density) == (0.75, 0.5, 0.5)


def test_attacked_objective_has_the_sign_that_makes_it_sparse():
    X, y, clients = drawn("two classes")
    problem = universal_adversarial(X, y, 0.3, 0.1, clients=clients, l2=0.5)
    z = random_point(problem, 2)
    scores = np.where(y == "y", 1, -1) * ((X + z.y) @ z.x["weights"] + z.x["bias"])
    expected = np.mean(np.logaddexp(0, -scores)) + 0.25 * np.sum(z.x["weights"] ** 2) - 0.1 * np.abs(z.y).sum()
    assert problem.objective(z) == pytest.approx(expected, rel=1e-12)


# --- bad input -----------------------------------------------------------------------------------------------------

ROWS, TARGET = np.arange(8.0).reshape(4, 2), [0.0, 1.0, 0.0, 2.0]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: sparse_glm("tweedie", ROWS, TARGET, l1=1),
            "family must be one of 'logistic', 'multiclass', 'squared', 'huber', 'absolute', 'poisson', got 'tweedie'",
        ),
        (lambda: sparse_glm("squared", ROWS[0], TARGET, l1=1), r"X must be a nonempty matrix.*got shape \(2,\)"),
        (lambda: sparse_glm("squared", ROWS, TARGET[:3], l1=1), r"y must hold 4 numbers.*\(3,\)"),
        (lambda: sparse_glm("squared", ROWS, [0, 1, np.nan, 2], l1=1), "y must not contain nan"),
        (lambda: sparse_glm("squared", ROWS, TARGET, [0, 1], l1=1), r"clients must hold 4 labels.*\(2,\)"),
        (lambda: sparse_glm("squared", ROWS, TARGET), "radius must be given if no penalty is > 0"),
        (lambda: sparse_glm("squared", ROWS, TARGET, l1=1, group=1, groups=[0, 1]), "l1 and group cannot both be > 0"),
        (lambda: sparse_glm("squared", ROWS, TARGET, group=1), "group > 0 and groups=.*belong together"),
        (lambda: sparse_glm("squared", ROWS, TARGET, group=1, groups=[0]), r"groups must hold 2 labels.*\(1,\)"),
        (lambda: sparse_glm("logistic", ROWS, [1, 1, 1, 1], l1=1), "y must hold at least two classes"),
        (lambda: sparse_glm("squared", ROWS, TARGET, l1=1, weights="rows"), "weights must be 'clients', 'samples'"),
        (lambda: low_rank(ROWS, [[1.0]], nuclear=1), "Y must have 4 rows, as many as X, got 1"),
        (lambda: low_rank(ROWS, ROWS, nuclear=0), "nuclear must be a number > 0, got 0.0"),
        (
            lambda: robust_regression(ROWS, TARGET, [0, 0, 1, 1], l1=1, weights=[1, 0]),
            "weights must be > 0 for every client",
        ),
        (lambda: universal_adversarial(ROWS, [0, 1, 2, 0], 1.0, 0.1), "y must hold two classes, but it holds 3"),
        (lambda: universal_adversarial(ROWS, [0, 1, 1, 0], 0.0, 0.1), "radius must be a number > 0"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(build, message):
    with pytest.raises((TypeError, ValueError), match=message) as refused:
        build()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "target"),
    [
        ({"name": "sparse_glm", "family": "squared", "group": 0.1, "groups": [0, 1, 0, 1, 2]}, "y"),
        ({"name": "low_rank", "nuclear": 0.5}, "Y"),
        ({"name": "robust_regression", "l1": 0.1}, "y"),
        ({"name": "universal_adversarial", "radius": 0.5, "lam": 0.1}, "y"),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else value,
)
def test_a_file_can_name_them(tmp_path, settings, target):
    X, y, clients = drawn("squared")
    y = y > 3 if settings["name"] == "universal_adversarial" else y
    np.savez(tmp_path / "data.npz", X=X, clients=clients, **{target: y[:, None] if target == "Y" else y})
    assert build_problem(settings | {"file": "data.npz"}, tmp_path).clients == 3


def test_signs_of_residuals_are_at_their_ends_without_a_warning():
    X = np.arange(12.0).reshape(6, 2)
    problem = fx.problems.robust_regression(X, X[:, 0] ** 2, l1=0.1)
    ends = problem.like.y + np.sqrt(1 / 6)
    assert fx.problems.active_bounds(problem, fx.Saddle(problem.like.x, ends)) == []
    radius = problem.geometry.parts.x["weights"].regularizer.domain.radius
    far = {**problem.like.x, "weights": np.array([radius, 0])}
    with pytest.warns(UserWarning, match="x\\['weights'\\]"):
        fx.problems.active_bounds(problem, fx.Saddle(far, ends))

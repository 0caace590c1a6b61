"""Agnostic federated learning: against numpy, against a convex solver, and on scikit-learn's digits."""

import cvxpy as cp
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp
from support.references import ball_of, digits, inside, minimize, penalty

import fedualex as fx
from fedualex import tree
from fedualex.compiling import double
from fedualex.problems import agnostic
from fedualex.problems.agnostic import Weighted
from fedualex.problems.families import Logistic, Softmax

OPTIONS = {
    "l1": {"l1": 0.03},
    "l2": {"l2": 0.05},
    "both": {"l1": 0.02, "l2": 0.01, "kl": 0.3},
    "l2 tighter": {"l1": 1e-6, "l2": 0.1},
    "kl": {"l1": 0.03, "kl": 0.1, "prior": [1.0, 2.0, 3.0, 4.0]},
    "radius": {"radius": 2.0},
    "radius, all": {"radius": 1.5, "l1": 0.01, "l2": 0.02, "kl": 0.5},
    "spread": {"l1": 0.03, "spread": 0.3},
    "spread, kl": {"l2": 0.05, "kl": 0.3, "prior": [1.0, 2.0, 3.0, 4.0], "spread": 0.2},
}
CASES = [
    pytest.param(classes, options, id=f"{classes} {name}") for classes in (2, 3) for name, options in OPTIONS.items()
]


def drawn(classes, rows=48, features=4, seed=0):
    """Four clients of unequal size whose labels follow different rules; the features are not centered."""
    rng = np.random.default_rng(seed)
    client = np.sort(rng.integers(0, 4, rows))
    client[:4] = range(4)
    X = rng.normal(size=(rows, features)) + rng.normal(size=features) + rng.normal(size=(4, features))[client]
    rule = rng.normal(size=(features, classes)) + rng.normal(size=(4, features, classes))[client]
    label = np.argmax(np.einsum("nd,ndc->nc", X, rule) + rng.gumbel(size=(rows, classes)), axis=1)
    label[-classes:] = range(classes)
    return X, np.array(["a", "b", "c"])[label], np.array([10, 3, 7, -1])[client]


def numpy_losses(X, y, clients, x):
    """loss_m(x), clients in sorted order."""
    scores = X @ x["weights"] + x["bias"]
    if scores.ndim == 1:
        scores = np.stack([np.zeros_like(scores), scores], axis=1)
    each = -log_softmax(scores, axis=1)[np.arange(len(y)), np.searchsorted(np.unique(y), y)]
    return np.array([each[clients == m].mean() for m in np.unique(clients)])


def shares(y, prior=None, spread=0.0, **_):
    """What losses count with at y."""
    q = np.ones(4) / 4 if prior is None else np.asarray(prior) / np.sum(prior)
    return (1 - spread) * y + spread * q


def worst_mixture(losses, kl=0.0, prior=None, spread=0.0, **_):
    """max over y of <shares(y), losses> - kl KL(y || prior), and its y (for kl > 0)."""
    always = shares(0.0, prior, spread) @ losses
    if kl == 0:
        return always + (1 - spread) * losses.max(), None
    q = np.ones(4) / 4 if prior is None else np.asarray(prior) / np.sum(prior)
    tilted = (1 - spread) * losses / kl + np.log(q)
    return always + kl * logsumexp(tilted), np.exp(tilted - logsumexp(tilted))


def random_point(problem, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    z = problem.project(jax.tree.map(lambda leaf: scale * rng.normal(size=np.shape(leaf)), problem.like))
    return fx.Saddle(z.x, rng.dirichlet(np.ones(z.y.size)))


def balls(problem):
    """The set that holds the weights, and the bound of the bias."""
    return ball_of(problem), float(problem.geometry.parts.x["bias"].regularizer.upper)


# --- cvxpy, from the definition alone ------------------------------------------------------------------------------


class Model:
    """The variables, the clients' losses and the penalty, as cvxpy has them."""

    def __init__(self, X, y, clients, l1=0.0, l2=0.0, radius=None, **_):
        names, label = np.unique(y, return_inverse=True)
        binary = len(names) == 2
        self.weights = cp.Variable(X.shape[1] if binary else (X.shape[1], len(names)))
        self.bias = cp.Variable(() if binary else len(names))
        self.losses = []
        for m in np.unique(clients):
            rows = np.flatnonzero(clients == m)
            if binary:
                sign = 2 * label[rows] - 1
                terms = cp.sum(cp.logistic(cp.multiply(-sign, X[rows] @ self.weights + self.bias)))
            else:
                scores = X[rows] @ self.weights + np.ones((len(rows), 1)) @ cp.reshape(
                    self.bias, (1, len(names)), order="C"
                )
                picked = cp.sum(cp.multiply(np.eye(len(names))[label[rows]], scores))
                terms = cp.sum(cp.log_sum_exp(scores, axis=1)) - picked
            self.losses.append(terms / len(rows))
        self.penalty = penalty(self.weights, l1, l2)
        self.given = [] if radius is None else [cp.norm(cp.vec(self.weights, order="C")) <= radius]

    def domain(self, problem):
        return inside(problem, self.weights, bias=self.bias)

    def minimize(self, objective, constraints):
        return minimize(objective + self.penalty, constraints)

    def solve(self, kl=0.0, prior=None, constraints=(), spread=0.0, **_):
        """The value and the saddle point of the worst-mixture problem; biases shifted to the middle."""
        constraints = [*constraints, *self.given]
        always = sum(share * loss for share, loss in zip(shares(0.0, prior, spread), self.losses, strict=False))
        if kl == 0:
            top = cp.Variable()
            below = [loss <= top for loss in self.losses]
            value = self.minimize((1 - spread) * top + always, [*below, *constraints])
            y = np.maximum([float(np.squeeze(c.dual_value)) for c in below], 0)
            y = y / y.sum()
        else:
            q = np.ones(4) / 4 if prior is None else np.asarray(prior) / np.sum(prior)
            tilted = cp.hstack([(1 - spread) * loss / kl + np.log(p) for loss, p in zip(self.losses, q, strict=True)])
            value = self.minimize(kl * cp.log_sum_exp(tilted) + always, constraints)
            y = worst_mixture(np.array([float(loss.value) for loss in self.losses]), kl, prior, spread)[1]
        bias = np.asarray(self.bias.value)
        bias = bias - (bias.max() + bias.min()) / 2 if bias.ndim else bias
        return value, fx.Saddle({"weights": self.weights.value, "bias": bias}, y)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("classes", "options"), CASES)
def test_objective_is_the_definition(classes, options):
    data = drawn(classes)
    problem = agnostic(*data, **options)
    kl, q = options.get("kl", 0.0), np.asarray(options.get("prior", np.ones(4)))
    for seed in range(3):
        z = random_point(problem, seed)
        divergence = np.sum(z.y * np.log(z.y / (q / q.sum())))
        expected = (
            shares(z.y, **options) @ numpy_losses(*data, z.x) + penalty(z.x["weights"], **options) - kl * divergence
        )
        assert problem.objective(z) == pytest.approx(expected, rel=1e-12)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("classes", "options"), CASES)
def test_certificate_is_never_below_the_gap(classes, options):
    data = drawn(classes, rows=36)
    problem = agnostic(*data, **options)
    model = Model(*data, **options)
    for seed, scale in enumerate((0.01, 0.3, 3.0)):
        z = random_point(problem, seed, scale)
        losses = numpy_losses(*data, z.x)
        highest = worst_mixture(losses, **options)[0] + penalty(z.x["weights"], **options)
        q = np.asarray(options.get("prior", np.ones(4)))
        constant = options.get("kl", 0.0) * np.sum(z.y * np.log(z.y / (q / q.sum())))
        mixed = sum(share * loss for share, loss in zip(shares(z.y, **options), model.losses, strict=True))
        lowest = model.minimize(mixed, model.domain(problem)) - constant
        assert highest - lowest >= -1e-7
        assert problem.certificate(z).gap >= highest - lowest - 1e-6


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("classes", "options"), CASES)
def test_derived_bounds_keep_the_solution_and_the_certificate_proves_it(classes, options):
    data = drawn(classes, rows=36, seed=1)
    problem = agnostic(*data, **options)
    free, z = Model(*data, **options).solve(**options)
    ball, bound = balls(problem)
    assert np.max(np.abs(z.x["bias"])) < bound
    if "radius" not in options:
        order = 1 if isinstance(ball, fx.L1Ball) else 2
        assert np.linalg.norm(z.x["weights"].ravel(), order) < ball.radius
    projected, certificate = problem.certify(z)
    assert certificate.gap < 2e-4  # the solver's accuracy times the size of the domain
    assert problem.objective(projected) == pytest.approx(free, abs=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kl", [0.0, 0.2])
def test_bias_bound_holds_where_biases_are_large(classes, kl):
    """Rare classes, clients with one class only, and features far from zero."""
    rng = np.random.default_rng(3)
    label = np.repeat(np.arange(classes), [30 - 2 * (classes - 1), *[2] * (classes - 1)])
    X = rng.normal(size=(30, 2)) + [3.0, -2.0] + label[:, None] / 2
    client = np.where(label == classes - 1, 3, np.arange(30) % 3)
    for radius in (0.01, 3.0):
        options = {"radius": radius, "kl": kl}
        problem = agnostic(X, label, client, **options)
        value, z = Model(X, label, client, **options).solve(**options)
        assert np.max(np.abs(z.x["bias"])) < balls(problem)[1]
        assert problem.objective(problem.project(z)) == pytest.approx(value, abs=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    ("options", "kind", "radius"),
    [
        ({"l1": 0.03}, fx.L1Ball, lambda top: top / 0.03),
        ({"l2": 0.1}, fx.L2Ball, lambda top: np.sqrt(2 * top / 0.1)),
        ({"l1": 0.03, "l2": 1e-6}, fx.L1Ball, lambda top: top / 0.03),
        ({"l1": 1e-6, "l2": 0.1}, fx.L2Ball, lambda top: np.sqrt(2 * top / 0.1)),
        ({"l1": 0.03, "radius": 2}, fx.L2Ball, lambda top: 2),
    ],
)
def test_bounds_are_the_docstrings(classes, options, kind, radius):
    X, y, clients = drawn(classes)
    ball, bound = balls(agnostic(X, y, clients, **options, kl=1.0, prior=[1, 2, 3, 4]))
    assert isinstance(ball, kind)
    assert ball.radius == pytest.approx(radius(np.log(classes)), rel=1e-14)
    prior, sizes = {-1: 0.1, 3: 0.2, 7: 0.3, 10: 0.4}, {m: np.sum(clients == m) for m in np.unique(clients)}
    weight = np.array([prior[m] / sizes[m] for m in clients])
    spreads = []
    for c in np.unique(y):
        mean = np.average(X[y == c], axis=0, weights=weight[y == c])
        slope = mean if classes == 2 else np.stack([mean, -mean, 0 * mean], axis=1)
        with double():
            spreads.append(float(ball.support(slope)) + np.log(classes) / weight[y == c].sum())
    assert bound == pytest.approx(max(spreads) / (1 if classes == 2 else 2), rel=1e-12)


@pytest.mark.parametrize("loss", ["logistic", "squared", "huber"])
def test_a_spread_changes_no_bound_and_lowers_the_objective_by_what_it_takes_from_the_worst(loss):
    X, y, clients = drawn(2)
    data = X, (y == "b") * 1.0, clients
    plain, spread = (agnostic(*data, loss=loss, l1=0.03, spread=share) for share in (0.0, 0.25))
    assert ball_of(plain).radius == ball_of(spread).radius
    assert balls(plain)[1] == balls(spread)[1]
    even = fx.Saddle(random_point(plain).x, np.full(4, 0.25))
    assert spread.objective(even) == pytest.approx(plain.objective(even), rel=1e-14)
    own = _first(spread)
    assert spread.f.jacobian_bound(own, spread) <= plain.f.jacobian_bound(own, plain)
    one = fx.Saddle(even.x, np.array([1.0, 0, 0, 0]))
    mixed = 0.75 * plain.objective(one) + 0.25 * plain.objective(even)
    assert spread.objective(one) == pytest.approx(mixed, rel=1e-13)
    terms, weights = spread.f.score_sum(own, spread.like), np.array([0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(
        terms.coefficients(weights),
        np.asarray(own["weight"]) / len(own["group"]) * shares(weights, spread=0.25)[own["group"]],
        rtol=1e-14,
    )


def _first(problem):
    """The examples of the first client."""
    count = int(problem.data.counts[0])
    return jax.tree.map(lambda leaf: np.asarray(leaf)[0][:count], problem.data.examples)


# --- the losses ----------------------------------------------------------------------------------------------------


def test_two_classes_are_the_softmax_of_their_difference():
    rng = np.random.default_rng(0)
    for sign, label in ((-1.0, 0), (1.0, 1)):
        with double():
            w, b, row, y = rng.normal(size=5), rng.normal(), rng.normal(size=5), jnp.asarray([0.3, 0.7])
            one = {"weights": jnp.asarray(w), "bias": jnp.asarray(b)}
            two = {"weights": jnp.stack([-w / 2, w / 2], axis=1), "bias": jnp.stack([-b / 2, b / 2])}
            of = {"row": row, "group": 1, "weight": 2.0}
            binary, g = jax.value_and_grad(Weighted(Logistic()))(one, y, {**of, "target": sign})
            softmax, h = jax.value_and_grad(Weighted(Softmax()))(two, y, {**of, "target": label})
            assert float(binary) == pytest.approx(float(softmax), rel=1e-13)
            np.testing.assert_allclose(g["weights"], h["weights"][:, 1], rtol=1e-12)
            np.testing.assert_allclose(g["bias"], h["bias"][1], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_huge_scores_stay_finite_in_float32(classes):
    X, y, clients = drawn(classes)
    problem = agnostic(1e4 * X, y, clients, radius=1e3)
    z = tree.cast(random_point(problem, 1, 1e3), jnp.float32)
    assert np.isfinite(problem.loss(z))
    g = problem.operator(z)
    assert tree.is_finite(g)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(g))


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_operator_is_monotone(classes):
    check = fx.problems.check_convex_concave(agnostic(*drawn(classes), l1=0.1, kl=0.1), pairs=90)
    assert check.passed, str(check)


def test_client_operators_average_to_the_operator():
    problem = agnostic(*drawn(3), l1=0.1)
    z = random_point(problem)
    with double():
        z = tree.cast(z, jnp.float64)
        each = jax.vmap(lambda client: problem.client_operator(client, z))(jax.tree.map(jnp.asarray, problem.data))
        assert np.count_nonzero(each.y) == 4  # client m sees its own entry of the mixture only
        for mean, whole in zip(jax.tree.leaves(each), jax.tree.leaves(problem.operator(z)), strict=True):
            np.testing.assert_allclose(np.mean(mean, axis=0), whole, rtol=1e-12, atol=1e-15)


def test_labels_and_ids_may_be_anything_that_sorts():
    X, y, clients = drawn(2)
    z = random_point(agnostic(X, y, clients, l1=0.1))
    expected = agnostic(X, y, clients, l1=0.1).objective(z)
    order = {-1: "e", 3: "f", 7: "g", 10: "h"}
    shuffled = np.random.default_rng(0).permutation(len(y))
    for labels, ids in ((y == "b", [order[m] for m in clients]), (np.where(y == "b", 1.0, -2), clients / 7)):
        problem = agnostic(X[shuffled], np.asarray(labels)[shuffled], list(np.asarray(ids)[shuffled]), l1=0.1)
        assert problem.objective(z) == pytest.approx(expected, rel=1e-13)


def test_one_client_is_plain_logistic_regression():
    X, y, _ = drawn(2)
    problem = agnostic(X, y, np.zeros(len(y)), l2=0.1)
    assert problem.clients == 1
    start = problem.project(problem.like)
    assert problem.objective(start) == pytest.approx(np.log(2), rel=1e-14)
    assert problem.certificate(start).y == pytest.approx(0, abs=1e-14)


def test_new_data_of_the_same_shapes_does_not_recompile():
    traces = []

    @eqx.filter_jit
    def operator(problem, z):
        traces.append(1)
        return problem.operator(z)

    X, y, clients = drawn(3)
    for scale, l1 in ((1, 0.1), (2, 0.2)):
        problem = agnostic(scale * X, y, clients, l1=l1, kl=l1)
        operator(problem, tree.cast(problem.like, jnp.float32))
    assert len(traces) == 1


# --- digits --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_synchronous_dual_extrapolation_on_digits():
    data = digits()
    problem = agnostic(*data, l1=0.01, kl=0.01)
    assert problem.clients == 15
    start = problem.project(problem.like)
    first = problem.certificate(start).gap
    assert problem.objective(start) == pytest.approx(np.log(2), rel=1e-12)

    def step(state, _):
        dual, total = state
        half = problem.geometry.primal(dual.descend(eta, problem.operator(problem.geometry.primal(dual))))
        return (dual.descend(eta, problem.operator(half)), tree.add(total, half)), None

    with double():
        eta, steps = 1.0, 300
        z = jax.tree.map(jnp.asarray, start)
        (_, total), _ = jax.lax.scan(step, (problem.geometry.dual(z), tree.scale(0.0, z)), length=steps)
        mean = jax.tree.map(lambda leaf: np.asarray(leaf) / steps, total)
    projected, certificate = problem.certify(mean)
    assert 0 <= certificate.gap < first / 40
    assert numpy_losses(*data, projected.x).max() < np.log(2)


# --- bad input -----------------------------------------------------------------------------------------------------

X, Y, IDS = np.arange(8.0).reshape(4, 2), [0, 1, 0, 1], ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.ones(4)}, r"X must be a nonempty matrix.*\(4,\)"),
        ({"X": np.ones((0, 2)), "y": [], "clients": []}, "X must not be empty"),
        ({"X": np.ones((4, 0))}, "X must not be empty"),
        ({"X": np.where(X == 3, np.nan, X)}, "X must not contain nan"),
        ({"X": np.where(X == 3, np.inf, X)}, "X must be finite: "),
        ({"X": [["a", "b"]] * 4}, "X must be a real matrix"),
        ({"y": [0, 1, 0]}, r"y must hold 4 labels.*\(3,\)"),
        ({"y": np.eye(4)}, r"y must hold 4 labels.*\(4, 4\)"),
        ({"y": [1, 1, 1, 1]}, "y must hold at least two classes, but all its 4 labels are alike"),
        ({"y": [0, 1, np.nan, 1]}, "y must not contain nan"),
        ({"y": [0, None, 1, 1]}, "y must be 4 labels that can be sorted"),
        ({"y": [0, [1], 1, 1]}, "y must be 4 labels that can be sorted"),
        ({"clients": ["a", "b"]}, r"clients must hold 4 labels.*\(2,\)"),
        ({"clients": 3}, r"clients must hold 4 labels.*\(\)"),
        ({"clients": []}, r"clients must hold 4 labels.*\(0,\)"),
        ({"clients": [0, 1, np.nan, 1]}, "clients must not contain nan"),
        ({"l1": -1.0}, "l1 must be a number >= 0, got -1.0"),
        ({"l2": [1.0, 2.0]}, "l2 must be a number >= 0, got an array of shape"),
        ({"kl": np.inf}, "kl must be finite"),
        ({"l1": 0.0}, "radius must be given if no penalty is > 0"),
        ({"radius": 0.0}, "radius must be a number > 0, got 0.0"),
        ({"radius": "big"}, "radius must be a number > 0, got 'big'"),
        ({"kl": 0.1, "prior": [1.0, 0.0]}, r"prior must be 2 numbers > 0.*got \[1.0, 0.0\]"),
        ({"kl": 0.1, "prior": [1.0, 1.0, 1.0]}, "prior must be 2 numbers > 0, one for each client"),
        ({"kl": 0.1, "prior": [1.0, np.nan]}, "prior must not contain nan"),
        ({"kl": 0.1, "prior": {"a": 1.0}}, "prior must be 2 numbers > 0"),
        ({"prior": [1.0, 2.0]}, "prior needs kl > 0.*or spread > 0"),
        ({"spread": 1.0}, "spread must be a number >= 0 and below 1, got 1.0"),
        ({"spread": -0.1}, "spread must be a number >= 0, got -0.1"),
        ({"spread": "wide"}, "spread must be a number >= 0, got 'wide'"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(changes, message):
    arguments = {"X": X, "y": Y, "clients": IDS, "l1": 0.1, **changes}
    with pytest.raises((TypeError, ValueError), match=message) as refused:
        agnostic(arguments.pop("X"), arguments.pop("y"), arguments.pop("clients"), **arguments)
    assert "\n" not in str(refused.value)

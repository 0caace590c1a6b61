"""The other losses of agnostic learning, and CVaR over clients, against a convex solver on real data."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from support.references import ball_of, box_of, inside, minimize, penalty, random_points, table

import fedualex as fx
from fedualex.problems import active_bounds, agnostic, client_metrics

UNEVEN = [0.6, 0.04, 0.06, 0.1, 0.2]
"""No y within a cap of 1/2 is this."""
CASES = {
    "squared": ("diabetes", {"loss": "squared", "l1": 0.05}),
    "squared, kl": ("diabetes", {"loss": "squared", "l2": 0.1, "kl": 0.2}),
    "huber": ("diabetes", {"loss": "huber", "delta": 0.5, "l1": 0.02, "l2": 0.02}),
    "huber, cvar": ("diabetes", {"loss": "huber", "delta": 5.0, "radius": 0.5, "cvar": 0.5}),
    "logistic, cvar": ("cancer", {"loss": "logistic", "l1": 0.02, "cvar": 0.45}),
    "two classes": ("cancer", {"loss": "multiclass", "l2": 0.05}),
    "multiclass, cvar": ("wine", {"loss": "multiclass", "l2": 0.05, "cvar": 0.6}),
    "logistic, cvar and shares": (
        "cancer",
        {"loss": "logistic", "l1": 0.02, "cvar": 0.4, "spread": 0.7, "prior": UNEVEN},
    ),
    "squared, cvar and shares": (
        "diabetes",
        {"loss": "squared", "l2": 0.1, "cvar": 0.4, "spread": 0.7, "prior": UNEVEN},
    ),
}
SHORT = ("squared", "logistic, cvar", "two classes", "logistic, cvar and shares")
EVERY = pytest.mark.parametrize(
    ("name", "options"),
    [pytest.param(*case, id=name, marks=[] if name in SHORT else pytest.mark.slow) for name, case in CASES.items()],
)


def losses_of(X, y, clients, loss, delta=1.0, **_):
    """cvxpy's variables, and the loss of each client."""
    classes = len(np.unique(y))
    outputs = (classes,) if loss == "multiclass" else ()
    weights, bias = cp.Variable((X.shape[1], *outputs)), cp.Variable(outputs)
    if outputs:
        score = X @ weights + np.ones((len(X), 1)) @ cp.reshape(bias, (1, classes), order="C")
        each = cp.log_sum_exp(score, axis=1) - cp.sum(cp.multiply(np.eye(classes)[y], score), axis=1)
    elif loss == "logistic":
        each = cp.logistic(cp.multiply(1 - 2 * y, X @ weights + bias))
    elif loss == "squared":
        each = cp.square(X @ weights + bias - y) / 2
    else:
        each = cp.huber(X @ weights + bias - y, delta) / 2
    rows = [np.flatnonzero(clients == m) for m in np.unique(clients)]
    return weights, bias, [cp.sum(each[r]) / len(r) for r in rows]


def worst(losses, kl=0.0, cvar=None, spread=0.0, prior=None, **_):
    """The maximum over mixtures, in cvxpy."""
    losses = cp.hstack(losses)
    if spread:
        return (1 - spread) * worst(losses, kl, cvar) + spread * (np.array(prior) @ losses)
    if kl:
        return kl * cp.log_sum_exp(losses / kl - np.log(losses.size))
    if cvar is None:
        return cp.max(losses)
    top = cp.Variable()  # Rockafellar and Uryasev: the mean of the worst share
    return top + cp.sum(cp.pos(losses - top)) / (cvar * losses.size)


def highest(losses, kl=0.0, cvar=None, spread=0.0, prior=None, **_):
    """The same of numbers."""
    if spread:
        return (1 - spread) * highest(losses, kl, cvar) + spread * (np.array(prior) @ losses)
    if kl:
        return kl * np.log(np.mean(np.exp(losses / kl)))
    if cvar is None:
        return losses.max()
    share, falling = cvar * losses.size, -np.sort(-losses)
    whole = int(share)
    rest = (share - whole) * falling[whole] if whole < losses.size else 0.0
    return (falling[:whole].sum() + rest) / share


@EVERY
@pytest.mark.slow
def test_runs_end_within_their_certificate_of_the_optimum_and_no_derived_bound_is_active(name, options):
    data = table(name)
    problem = agnostic(*data, **options)
    run = fx.solve(problem, fx.FeDualExCorrected(0.05), local_steps=10, rounds=100, tol=0.02, record_every=50)
    weights, bias, losses = losses_of(*data, **options)
    given = [cp.norm(cp.vec(weights, order="C")) <= options["radius"]] if "radius" in options else []
    value = minimize(worst(losses, **options) + penalty(weights, **options), given)
    metrics = client_metrics(run.z.x, *data, loss=options["loss"], delta=options.get("delta", 1.0))
    objective = highest(metrics.losses, **options) + penalty(run.z.x["weights"], **options)
    assert -1e-7 <= objective - value <= run.gap
    assert run.gap < problem.certificate(problem.project(problem.like)).gap / 3
    middle = (bias.value.max() + bias.value.min()) / 2 if bias.ndim else 0.0
    lower, upper = box_of(problem, "bias")
    assert np.all((lower < bias.value - middle) & (bias.value - middle < upper))
    if "radius" not in options:
        order = 1 if isinstance(ball_of(problem), fx.L1Ball) else 2
        assert np.linalg.norm(weights.value.ravel(), order) < ball_of(problem).radius
        assert active_bounds(problem, run.z) == []


@pytest.mark.sampled(6)
@EVERY
def test_certificate_is_never_below_the_gap(name, options):
    data = table(name)
    problem = agnostic(*data, **options)
    weights, bias, losses = losses_of(*data, **options)
    for z in random_points(problem, scales=(0.05, 1.0)):
        own = client_metrics(z.x, *data, loss=options["loss"], delta=options.get("delta", 1.0)).losses
        y = np.asarray(z.y)
        constant = options.get("kl", 0.0) * np.sum(y * np.log(y * y.size))
        spread = options.get("spread", 0.0)
        y = (1 - spread) * y + spread * np.array(options.get("prior", 0.0))
        assert problem.objective(z) == pytest.approx(y @ own + penalty(z.x["weights"], **options) - constant, rel=1e-10)
        top = highest(own, **options) + penalty(z.x["weights"], **options)
        mixed = sum(weight * loss for weight, loss in zip(y, losses, strict=True))
        bottom = minimize(mixed + penalty(weights, **options), inside(problem, weights, bias=bias)) - constant
        assert top - bottom >= -1e-6
        assert problem.certificate(z).gap >= top - bottom - 1e-6 * max(1, top)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_bias_bound_holds_where_labels_are_far_from_zero(loss):
    X, y, clients = table("diabetes")
    X, y = X + np.array([5, -3, 0, 0, 0, 0]), 20 * y + 100
    options = {"loss": loss, "l2": 1.0}
    problem = agnostic(X, y, clients, **options)
    weights, bias, losses = losses_of(X, y, clients, **options)
    minimize(worst(losses) + penalty(weights, **options))
    lower, upper = box_of(problem, "bias")
    assert lower < bias.value < upper
    assert np.linalg.norm(weights.value) < ball_of(problem).radius


@pytest.mark.slow
def test_cvar_of_all_clients_is_the_mean_and_of_few_the_worst():
    data = table("cancer")
    for cvar, expected in ((1.0, np.mean), (0.2, np.max), (0.1, np.max)):
        problem = agnostic(*data, l1=0.1, cvar=cvar)
        z = next(random_points(problem))
        own = client_metrics(z.x, *data)
        value = problem.objective(z) + problem.certificate(z).y - penalty(z.x["weights"], l1=0.1)
        assert value == pytest.approx(expected(own.losses), rel=1e-9)
    assert (own.worst_loss, own.mean_loss) == (own.losses.max(), own.losses.mean())


def test_client_metrics_are_numpys():
    X, y, clients = table("wine")
    rng = np.random.default_rng(0)
    x = {"weights": rng.normal(size=(6, 3)), "bias": rng.normal(size=3)}
    right = np.argmax(X @ x["weights"] + x["bias"], axis=1) == y
    metrics = client_metrics(x, X, y, clients)
    expected = [right[clients == m].mean() for m in range(5)]
    np.testing.assert_allclose(metrics.accuracies, expected)
    assert metrics.worst_accuracy == min(expected)
    assert metrics.mean_accuracy == pytest.approx(np.mean(expected))
    few = y > 0  # the first label is missing
    part = client_metrics(x, X[few], y[few], clients[few], labels=[0, 1, 2])
    np.testing.assert_allclose(part.accuracies, [right[few & (clients == m)].mean() for m in np.unique(clients[few])])
    binary = {"weights": np.ones(6), "bias": 0.0}
    for wrong, message in [
        ({"y": y}, "labels must be the 2 labels that the model was trained on; y holds 3 labels"),
        ({"y": np.ones(len(y))}, "labels must be the 2 labels .*; y holds 1 labels"),
        ({"y": y, "labels": [0, 1]}, r"y must hold labels of array\(\[0, 1\]\), got .*2"),
        ({"y": y, "loss": "multiclass"}, r"loss must fit the model, whose weights have shape \(6,\), got 'multiclass'"),
    ]:
        with pytest.raises(ValueError, match=message):
            client_metrics(binary, X, wrong.pop("y"), clients, **wrong)
    regression = client_metrics({"weights": np.ones(6), "bias": 0.0}, X, y, clients, loss="squared")
    assert regression.accuracies is regression.worst_accuracy is regression.mean_accuracy is None
    np.testing.assert_allclose(regression.losses[1], np.mean((X.sum(axis=1) - y)[clients == 1] ** 2) / 2)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_real_groups_are_within_two_percent_of_the_pooled_optimum_after_300_rounds(loss):
    """Disease progression of six groups: both sexes, three thirds of age."""
    X, y = load_diabetes(return_X_y=True)
    X, y = X / X.std(axis=0), (y - y.mean()) / y.std()
    group = 3 * (X[:, 1] > 0) + np.searchsorted(np.quantile(X[:, 0], [1 / 3, 2 / 3]), X[:, 0])
    options = {"loss": loss, "l1": 0.01, "l2": 0.01}
    problem = agnostic(X, y, group, **options)
    run = fx.simulate(problem, fx.FeDualExCorrected(0.1), local_steps=10, rounds=300)
    weights, _, losses = losses_of(X, y, group, **options)
    value = minimize(worst(losses) + penalty(weights, **options))
    best_worst = max(float(loss.value) for loss in losses)
    ours = client_metrics(run.z.x, X, y, group, loss=loss)
    objective = ours.worst_loss + penalty(run.z.x["weights"], **options)
    print(f"objective {objective:.5f}, optimum {value:.5f}, certified gap {run.gap:.4f}")
    print(f"worst client's loss {ours.worst_loss:.5f}, at the optimum {best_worst:.5f}")
    assert -1e-7 <= objective - value <= min(run.gap, 0.02 * value)
    assert ours.worst_loss <= 1.02 * best_worst


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"loss": "hinge"},
            "loss must be one of 'logistic', 'multiclass', 'squared', 'huber', 'absolute', 'poisson', got 'hinge'",
        ),
        ({"loss": "logistic", "y": [0, 1, 2, 1]}, "loss must be 'multiclass' for more than two classes, and y holds 3"),
        ({"loss": "squared", "y": ["a", "b", "a", "b"]}, "y must be 4 real numbers"),
        ({"loss": "squared", "y": [1.0, 2.0]}, r"y must hold 4 numbers.*\(2,\)"),
        ({"loss": "huber", "delta": -1}, "delta must be a number > 0, got -1.0"),
        ({"cvar": 0.0}, "cvar must be a number > 0"),
        ({"cvar": 1.5}, "cvar must be a share of the clients, above 0 and at most 1, got 1.5"),
        ({"cvar": 0.5, "kl": 0.1}, "cvar cannot be given together with kl, or with prior without spread"),
        ({"cvar": 0.5, "prior": [1, 2]}, "cvar cannot be given together with kl, or with prior without spread"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(changes, message):
    arguments = {"y": [0, 1, 0, 1], "l1": 0.1, **changes}
    with pytest.raises((TypeError, ValueError), match=message):
        agnostic(np.arange(8.0).reshape(4, 2), arguments.pop("y"), [0, 0, 1, 1], **arguments)

"""The certificate is never below the true duality gap, by a convex solver."""

import functools
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.solver_rows import (
    C4,
    HIGH,
    LOW,
    ON_SIMPLEX,
    Row,
    ball1,
    ball2,
    ball_inf,
    box,
    capped,
    corners,
    cross,
    elastic,
    entropic,
    group,
    kl,
    l1,
    linear,
    mixtures,
    row,
    simplex,
    solve,
    squared,
    units,
)

import fedualex as fx

pytestmark = pytest.mark.slow


class Numpy:
    """The elementary functions of the losses; one loss text serves numpy, jax and cvxpy."""

    square, multiply, exp = np.square, np.multiply, np.exp
    logistic = staticmethod(lambda t: np.logaddexp(0.0, t))


class Jax:
    square, multiply, exp = jnp.square, jnp.multiply, jnp.exp
    logistic = staticmethod(jax.nn.softplus)


class Cvxpy:
    square, multiply, exp, logistic = cp.square, cp.multiply, cp.exp, cp.logistic


def bilinear_loss(on: Any, x: Any, y: Any, e: Any) -> Any:
    return on.multiply(e["a"] @ x - e["b"], e["c"] @ y)


def least_squares(on: Any, x: Any, y: Any, e: Any) -> Any:
    fit, weight = e["a"] @ x, e["c"] @ y
    return on.square(fit - e["b"]) / 2 + on.multiply(fit, weight) - 0.4 * on.square(weight)


def logistic(on: Any, x: Any, y: Any, e: Any) -> Any:
    fit, weight = e["a"] @ x, e["c"] @ y
    return on.logistic(-on.multiply(e["b"], fit)) + 0.5 * on.multiply(fit, weight) - 0.2 * on.square(weight)


def exponential(on: Any, x: Any, y: Any, e: Any) -> Any:
    fit, weight = e["a"] @ x, e["c"] @ y
    return on.exp(0.5 * fit) + on.multiply(fit, weight) - on.exp(0.3 * weight)


def agnostic(on: Any, x: Any, y: Any, e: Any) -> Any:
    """Mixtures y of groups, weighing the losses of their examples; needs y >= 0."""
    return on.multiply(e["group"] @ y, on.logistic(-on.multiply(e["b"], e["a"] @ x)))


MIXTURE = [0.2, 0.5, 0.3]
X_SIDES = [
    row("l1 + l2 ball", 4, l1(0.1), ball2(1.5)),
    row("l1 + box", 4, l1(0.2), box(LOW, HIGH), points=corners(LOW, HIGH, (4,))),
    row("elastic net + inf ball", 4, elastic(0.1, 0.5), ball_inf(1.0), points=corners(-1.0, 1.0, (4,))),
    row("l1 + l1 ball", 4, l1(0.1), ball1(2.0), points=cross(2.0, (4,))),
    row("squared l2", 4, squared(0.8)),
    row("linear + simplex", 4, linear(C4), simplex(2.0), points=units(2.0, (4,))),
    row("group l2 + l2 ball", 4, group(0.2, [0, 1, 1, 0]), ball2(1.0)),
]
Y_SIDES = [
    row("simplex", 3, simplex(), points=units(1.0, (3,))),
    row("capped simplex", 3, capped(0.45), points=mixtures(0.45, 3)),
    row("squared l2 + simplex", 3, squared(0.5), simplex(), points=units(1.0, (3,))),
    row("entropic: kl", 3, ON_SIMPLEX, kl(0.5, MIXTURE), points=units(1.0, (3,))),
    row("entropic: none", 3, ON_SIMPLEX, points=units(1.0, (3,))),
    row("entropic: linear + cap", 3, ON_SIMPLEX, linear(C4[:3]), capped(0.6), points=mixtures(0.6, 3)),
    row("kl", 3, kl(0.5, MIXTURE)),
    # The first seven lie in the orthant, as `agnostic` asks for.
    row("l1 + inf ball", 3, l1(0.2), ball_inf(1.0), points=corners(-1.0, 1.0, (3,))),
    row("l2 ball", 3, ball2(1.2)),
    row("squared l2", 3, squared(0.6)),
    row("box", 3, box(LOW[:3], HIGH[:3]), points=corners(LOW[:3], HIGH[:3], (3,))),
]
LOSSES = [bilinear_loss, least_squares, logistic, exponential, agnostic]


def given(row: Row) -> Any:
    return entropic(row)[0] if row.name.startswith("entropic") else row.psi


def clients(rng: np.random.Generator) -> list[dict[str, np.ndarray]]:
    return [
        {
            "a": rng.normal(size=(n, 4)),
            "b": rng.choice([-1.0, 1.0], size=n),
            "c": rng.normal(size=(n, 3)),
            "group": 3 * np.eye(3)[rng.integers(3, size=n)],
        }
        for n in rng.permutation([1, 3, 5])
    ]


def weighing(kind: int, data: list[Any], rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """What is passed as weights=, and the p it should mean."""
    counts = np.array([len(e["b"]) for e in data])
    array = rng.uniform(0.5, 3.0, size=len(data))
    return [
        ("clients", np.full(len(data), 1 / len(data))),
        ("samples", counts / counts.sum()),
        (array, array / array.sum()),
    ][kind % 3]


def slopes(f: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    step = 1e-5
    return np.array([(f(at + step * e) - f(at - step * e)) / (2 * step) for e in np.eye(len(at))])


@pytest.mark.parametrize("seed", range(25))
def test_certificate_is_its_definition_and_bounds_the_true_gap(seed: int) -> None:
    rng = np.random.default_rng([10, seed])
    loss = LOSSES[seed % 5]
    x_side = X_SIDES[seed % 7]
    y_side = Y_SIDES[seed % 7] if loss is agnostic else Y_SIDES[seed % 11]
    data = clients(rng)
    weights, p = weighing(seed, data, rng)
    problem = fx.Problem(
        functools.partial(loss, Jax),
        x=given(x_side),
        y=given(y_side),
        like=fx.Saddle(np.zeros(4), np.zeros(3)),
        data=data,
        weights=weights,
    )

    def f(on: Any, x: Any, y: Any) -> Any:
        total = np.sum if on is Numpy else cp.sum
        return sum(p_m * total(loss(on, x, y, e)) / len(e["b"]) for p_m, e in zip(p, data, strict=True))

    for scale in (0.5, 3.0):
        z = problem.project(fx.Saddle(scale * rng.normal(size=4), scale * rng.normal(size=3)))
        assert z.x.dtype == z.y.dtype == np.float64
        psi_x, psi_y = x_side.value(z.x), y_side.value(z.y)
        phi = float(f(Numpy, z.x, z.y)) + psi_x - psi_y
        assert problem.objective(z) == pytest.approx(phi, rel=1e-12, abs=1e-12)

        x, y = cp.Variable(4), cp.Variable(3)
        penalty_x, x_in_domain = x_side.cvx(x)
        penalty_y, y_in_domain = y_side.cvx(y)
        upper = solve(cp.Problem(cp.Maximize(f(Cvxpy, z.x, y) - penalty_y), y_in_domain)) + psi_x
        lower = solve(cp.Problem(cp.Minimize(f(Cvxpy, x, z.y) + penalty_x), x_in_domain)) - psi_y
        certificate = problem.certificate(z)
        assert certificate.gap >= upper - lower - 1e-7 * (1 + abs(upper) + abs(lower))
        if loss is bilinear_loss:
            assert certificate.gap == pytest.approx(upper - lower, rel=1e-7, abs=1e-7)

        g_x = slopes(lambda x, y=z.y: float(f(Numpy, x, y)), z.x)
        g_y = -slopes(lambda y, x=z.x: float(f(Numpy, x, y)), z.y)
        x_part = float(g_x @ z.x) + psi_x + x_side.conjugate(-g_x)
        y_part = float(g_y @ z.y) + psi_y + y_side.conjugate(-g_y)
        assert certificate.x == pytest.approx(x_part, rel=1e-6, abs=1e-6)
        assert certificate.y == pytest.approx(y_part, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_certificate_of_plain_minimization(seed: int) -> None:
    rng = np.random.default_rng([11, seed])
    loss, side, data = (least_squares, logistic)[seed % 2], X_SIDES[seed % 7], clients(rng)
    weights, p = weighing(seed, data, rng)
    still = np.zeros(3)  # y = 0 leaves the part of the loss that is convex in x
    problem = fx.Problem(
        lambda x, e: loss(Jax, x, still, e),
        x=given(side),
        like=fx.Saddle(np.zeros(4)),
        data=data,
        weights=weights,
    )

    def f(on: Any, x: Any) -> Any:
        total = np.sum if on is Numpy else cp.sum
        return sum(p_m * total(loss(on, x, still, e)) / len(e["b"]) for p_m, e in zip(p, data, strict=True))

    x = cp.Variable(4)
    penalty, constraints = side.cvx(x)
    best = solve(cp.Problem(cp.Minimize(f(Cvxpy, x) + penalty), constraints))
    for start in (rng.normal(size=4), 5 * rng.normal(size=4), x.value):
        z = problem.project(fx.Saddle(start))
        phi = float(f(Numpy, z.x)) + side.value(z.x)
        assert problem.objective(z) == pytest.approx(phi, rel=1e-12, abs=1e-12)
        assert problem.certificate(z).gap >= phi - best - 1e-8 * (1 + abs(phi))
    assert problem.certificate(z).gap <= 1e-3  # at the solver's own minimizer the bound closes


@pytest.mark.parametrize("seed", range(4))
def test_certificate_of_a_pytree(seed: int) -> None:
    """x = {weights, bias} with a regularizer each, y a mixture of three groups."""
    rng = np.random.default_rng([12, seed])
    data = clients(rng)
    w_side, b_side, y_side = (
        X_SIDES[0],
        row("bias", 1, ball_inf(0.7), points=corners(-0.7, 0.7, (1,))),
        Y_SIDES[3],
    )
    problem = fx.Problem(
        lambda x, y, e: Jax.logistic(-e["b"] * (e["a"] @ x["w"] + x["b"][0])) * (e["group"] @ y),
        x={"w": given(w_side), "b": given(b_side)},
        y=given(y_side),
        like=fx.Saddle({"w": np.zeros(4), "b": np.zeros(1)}, np.zeros(3)),
        data=data,
        weights="samples",
    )
    a, b, groups = (np.concatenate([e[key] for e in data]) for key in ("a", "b", "group"))
    start = {"w": rng.normal(size=4), "b": rng.normal(size=1)}
    z = problem.project(fx.Saddle(start, rng.normal(size=3)))
    w, bias, y = cp.Variable(4), cp.Variable(1), cp.Variable(3)
    (penalty, in_w), (_, in_b), (penalty_y, in_y) = w_side.cvx(w), b_side.cvx(bias), y_side.cvx(y)
    losses = np.logaddexp(0.0, -b * (a @ z.x["w"] + z.x["b"]))
    by_group = losses @ groups / len(b)
    upper = solve(cp.Problem(cp.Maximize(by_group @ y - penalty_y), in_y)) + w_side.value(z.x["w"])
    mixed = (groups @ z.y) @ cp.logistic(-cp.multiply(b, a @ w + bias)) / len(b)
    lower = solve(cp.Problem(cp.Minimize(mixed + penalty), in_w + in_b)) - y_side.value(z.y)
    phi = float(by_group @ z.y) + w_side.value(z.x["w"]) - y_side.value(z.y)
    assert problem.objective(z) == pytest.approx(phi, rel=1e-12)
    assert problem.certificate(z).gap >= upper - lower - 1e-8


@pytest.mark.parametrize("psi", [fx.L1(0.3), fx.NonNegative(), fx.Zero()], ids=str)
def test_no_number_where_the_conjugate_is_not_finite(psi: Any) -> None:
    problem = fx.Problem(lambda x: jnp.sum((x - 1.0) ** 2), x=psi, like=fx.Saddle(np.zeros(4)))
    certificate = problem.certificate(problem.project(fx.Saddle(np.ones(4))))
    assert certificate.gap is None
    assert certificate.reason

"""What is not convex-concave is found, and what is convex-concave is left alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.catalogue import CATALOGUE, catalogue

import fedualex as fx
from fedualex.compiling import double
from fedualex.problems.convexity import disproof, why_not_checked
from fedualex.tree import cast_module


def found_at(problem, z=None, **options):
    with double():
        wide = cast_module(problem, jnp.float64)
        return disproof(wide, wide.validate_point(problem.project(problem.like if z is None else z)), **options)


class Quadratic(eqx.Module):
    """1/2 <x, H x>, or its negative as a function of y beside a bilinear term."""

    H: jax.Array

    def __call__(self, x, y=None):
        if y is None:
            return x @ self.H @ x / 2
        return jnp.sum(x**2) + jnp.sum(x) * jnp.sum(y) - y @ self.H @ y / 2


def with_curvatures(values, block="x", seed=0):
    """Random orthogonal directions with these curvatures, of f in x or of -f in y."""
    Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))
    H = Q @ np.diag(values) @ Q.T
    zero = np.zeros(len(values))
    if block == "x":
        return fx.Problem(Quadratic(H), x=fx.Box(1.0), like=fx.Saddle(zero))
    return fx.Problem(Quadratic(H), x=fx.Box(1.0), y=fx.Box(1.0), like=fx.Saddle(np.zeros(3), zero))


def one_bad(size, curvature, seed):
    values = np.random.default_rng(seed).uniform(0.1, 1, size)
    values[0] = curvature
    return values


SEEDS = [seed if seed < 1 else pytest.param(seed, marks=pytest.mark.slow) for seed in range(20)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("block", ["x", "y"])
@pytest.mark.parametrize(("size", "curvature"), [(50, -1.0), (10, -0.1)])
def test_one_direction_of_negative_curvature_is_found(size, curvature, block, seed):
    problem = with_curvatures(one_bad(size, curvature, seed), block, seed)
    found = found_at(problem, thorough=True)
    assert found is not None
    assert f"not {'convex' if block == 'x' else 'concave'} in {block}" in found.reason
    a, b = found.witness
    step = jax.tree.map(np.subtract, a, b)
    slope = jax.tree.map(np.subtract, *(jax.tree.map(np.asarray, problem.operator(point)) for point in (a, b)))
    assert np.vdot(getattr(slope, block), getattr(step, block)) < 0
    assert np.all(np.abs(getattr(a, block)) <= 1 + 1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_convex_quadratics_are_left_alone_also_where_they_are_flat(seed):
    rng = np.random.default_rng(seed)
    values = rng.uniform(0, 1, 50) * (rng.uniform(size=50) < 0.5) * 10.0 ** rng.integers(-8, 9)
    for block in ("x", "y"):
        assert found_at(with_curvatures(values, block, seed), thorough=True) is None


def softmax(x):
    return jax.nn.logsumexp(3 * x - 1)


def hinge(x):
    return jnp.sum(jnp.maximum(0.0, 1 - 2 * x))


def absolute(x):
    return jnp.sum(jnp.abs(x - 0.3)) + jnp.max(x)


def linear(x):
    return 1e8 * jnp.sum(x)


def constant(x):
    return 0.0 * jnp.sum(x)


def tiny(x):
    return 1e-8 * jnp.sum(jnp.cosh(x))


def huge(x):
    return 1e8 * jnp.sum(jnp.log1p(jnp.exp(5 * x)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("f", [softmax, hinge, absolute, linear, constant, tiny, huge])
@pytest.mark.parametrize("domain", [fx.Box(1.0), fx.Simplex(1.0), fx.Box(lower=1e4, upper=1e4 + 1)])
def test_convex_functions_are_left_alone(f, domain):
    problem = fx.Problem(f, x=domain, like=fx.Saddle(np.zeros(6)))
    assert found_at(problem, thorough=True) is None


def test_only_directions_of_the_domain_count():
    problem = fx.Problem(lambda x: -(jnp.sum(x) ** 2), x=fx.Simplex(1.0), like=fx.Saddle(np.zeros(5)))
    assert found_at(problem, thorough=True) is None  # a constant there
    fixed = fx.Box(lower=np.array([0.5, -1.0]), upper=np.array([0.5, 1.0]))
    problem = fx.Problem(lambda x: -(x[0] ** 2) + x[1] ** 2, x=fixed, like=fx.Saddle(np.zeros(2)))
    assert found_at(problem, thorough=True) is None


@pytest.mark.parametrize("where", range(0, 50, 7))
def test_a_gradient_that_is_no_subgradient_at_one_kink_of_fifty_is_found(where):
    def kinked(x):
        return jnp.sum(x**2) + 1.01 * jax.nn.relu(x[where]) - 0.99 * jax.nn.relu(-x[where])

    problem = fx.Problem(kinked, x=fx.Box(1.0), like=fx.Saddle(np.zeros(50)))
    assert "tangent" in found_at(problem).reason


def test_a_small_network_is_not_convex():
    rng = np.random.default_rng(0)
    rows = [(rng.normal(size=(20, 3)), rng.normal(size=20)) for _ in range(2)]

    def loss(x, example):
        row, target = example
        return (jnp.tanh(row @ x["first"]) @ x["second"] - target) ** 2

    problem = fx.Problem(
        loss,
        x={"first": fx.Box(1.0), "second": fx.Box(1.0)},
        like=fx.Saddle({"first": np.zeros((3, 4)), "second": np.zeros(4)}),
        data=rows,
    )
    assert found_at(problem, thorough=True) is not None


def test_what_is_not_looked_at_is_said():
    game = fx.problems.bilinear(np.eye(2), np.ones(2), x=fx.Box(1.0), y=fx.Box(1.0))
    assert "by construction" in why_not_checked(game)
    server = fx.Problem(
        lambda x, example: jnp.sum(x * example), x=fx.Box(1.0), like=fx.Saddle(np.zeros(2)), data="elsewhere"
    )
    assert "elsewhere" in why_not_checked(server)


# --- no false alarm -------------------------------------------------------------------------------------------------


def quadratic_form(x, e):
    return jnp.sum((e["A"] @ x - e["b"]) ** 2)


def largest(x, e):
    return jnp.max(e["A"] @ x - e["b"])


def soft_largest(x, e):
    return jax.nn.logsumexp(e["A"] @ x - e["b"])


def hinges(x, e):
    return jnp.sum(jax.nn.relu(e["A"] @ x - e["b"]))


def logistic(x, e):
    return jnp.sum(jax.nn.softplus(e["A"] @ x - e["b"]))


def distances(x, e):
    return jnp.sum(jnp.sqrt((e["A"] @ x - e["b"]) ** 2 + 1e-6)) + jnp.sum(jnp.abs(x))


def huber(x, e):
    residual = jnp.abs(e["A"] @ x - e["b"])
    return jnp.sum(jnp.where(residual < 1, residual**2 / 2, residual - 0.5))


def fourth_powers(x, e):
    return jnp.sum((e["A"] @ x - e["b"]) ** 4)


CONVEX = (quadratic_form, largest, soft_largest, hinges, logistic, distances, huber, fourth_powers)


class Mixed(eqx.Module):
    """scale (first(x) + coupling <x, y> - second(y)), or scale first(x): one function for all arrays."""

    first: object = eqx.field(static=True)
    second: object = eqx.field(static=True)

    def __call__(self, *arguments):
        *point, e = arguments
        value = self.first(point[0], e["x"])
        if self.second is not None:
            value += e["coupling"] * jnp.sum(point[0] * point[1]) - self.second(point[1], e["y"])
        return e["scale"] * value


def random_convex(seed, n=6):
    """Of any scale, often flat in many directions, with equal rows, or centered at a kink of its own."""
    rng = np.random.default_rng(seed)

    def arrays():
        A = rng.normal(size=(5, n)) * 10.0 ** rng.uniform(-2, 1)
        A *= rng.random(size=n) < rng.choice([0.3, 1.0])
        A[1] = A[0] if rng.random() < 0.5 else A[1]
        b = A @ rng.normal(size=n) if rng.random() < 0.5 else np.zeros(5)
        return {"A": A[None], "b": b[None]}

    first, second = CONVEX[seed % len(CONVEX)], CONVEX[(seed // 8) % len(CONVEX)]
    saddle = bool(rng.random() < 0.5)
    domain = [fx.Box(1.0), fx.Simplex(2.0), fx.L2Ball(3.0), fx.Box(lower=100.0, upper=101.0)][rng.integers(4)]
    data = {"x": arrays(), "y": arrays(), "scale": np.array([10.0 ** rng.uniform(-8, 8)])}
    data["coupling"] = rng.normal(size=1) * 10.0 ** rng.uniform(-2, 2)
    zero = np.zeros(n)
    return fx.Problem(
        Mixed(first, second if saddle else None),
        x=domain,
        y=fx.Box(1.0) if saddle else None,
        like=fx.Saddle(zero, zero if saddle else None),
        data=[data],
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "seed", [seed if seed < 8 else pytest.param(seed, marks=pytest.mark.slow) for seed in range(200)]
)
def test_random_convex_functions_are_left_alone(seed):
    problem = random_convex(seed)
    rng = np.random.default_rng(seed)
    somewhere = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), problem.like)
    for z in (problem.like, somewhere):
        assert found_at(problem, z, thorough=True) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", CATALOGUE)
def test_the_catalogue_is_left_alone(name):
    """A run does not look, for they are convex-concave by construction; the search must agree."""
    problem, rng = catalogue(name), np.random.default_rng(0)
    somewhere = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), problem.like)
    for z in (problem.like, somewhere):
        assert found_at(problem, z, thorough=True) is None

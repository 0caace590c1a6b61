"""Problems, oracles and certificates: against numpy, against the paper's printed formulas, and against bad input."""

import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedualex as fx
from fedualex import tree
from fedualex.compiling import double
from fedualex.problems.rows import padded_length

RNG = np.random.default_rng(0)


def hinge_free_loss(x, y, example):
    """Logistic in x, coupled to y, concave in y."""
    feature, label = example
    margin = label * (feature @ x["w"] + x["b"])
    return jnp.log1p(jnp.exp(-margin)) + jnp.vdot(feature[:2], y) * margin - jnp.sum(y**2)


def coupled(x, y, example):
    """Least squares in x plus a bilinear term: convex-concave."""
    feature, target = example
    return (feature @ x - target) ** 2 / 2 + (feature @ x) * jnp.sum(y) - jnp.sum(y**2) / 2


def clients(sizes, seed=1):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(n, 3)), rng.normal(size=n)) for n in sizes]


def coupled_problem(sizes=(4, 1, 6), **options):
    like = fx.Saddle(np.zeros(3), np.zeros(2))
    return fx.Problem(coupled, x=fx.L1(0.1) + fx.Box(1.0), y=fx.L2Ball(1.0), like=like, data=clients(sizes), **options)


def random_point(problem, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return problem.project(jax.tree.map(lambda leaf: scale * rng.normal(size=np.shape(leaf)), problem.like))


# --- the paper's printed gaps --------------------------------------------------------------------------------------


def printed_l1_gap(A, b, x, y, lam, D):
    return (
        D * np.sum(np.maximum(np.abs(A @ x - b) - lam, 0))
        + lam * np.sum(np.abs(x))
        + D * np.sum(np.maximum(np.abs(A.T @ y) - lam, 0))
        + b @ y
        + lam * np.sum(np.abs(y))
    )


def printed_nuclear_gap(A, B, X, Y, lam, D):
    def sigma(W):
        return np.linalg.svd(W, compute_uv=False)

    return (
        D * np.sum(np.maximum(sigma(A @ X - B) - lam, 0))
        + lam * np.sum(sigma(X))
        + D * np.sum(np.maximum(sigma(A.T @ Y) - lam, 0))
        + np.trace(B.T @ Y)
        + lam * np.sum(sigma(Y))
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("game", "printed", "scales"),
    [
        (fx.problems.paper_l1(1), printed_l1_gap, (0.01, 0.1, 1.0)),
        (fx.problems.paper_nuclear(1), printed_nuclear_gap, (1e-4, 1e-3, 1.0)),
    ],
)
def test_certificate_is_the_papers_printed_gap(game, printed, scales):
    for seed, scale in enumerate(scales):
        z = random_point(game, seed, scale)
        expected = printed(game.A, game.b, z.x, z.y, 0.1, 0.05)
        assert game.gap(z) == pytest.approx(expected, rel=1e-12)
        certificate = game.certificate(z)
        assert certificate.x + certificate.y == pytest.approx(expected, rel=1e-12)
        assert certificate.rounding < 1e-9


@pytest.mark.slow
def test_certificate_splits_into_nonnegative_parts():
    game = fx.problems.paper_l1(2)
    for seed in range(5):
        certificate = game.certificate(random_point(game, seed, 0.1))
        assert certificate.x >= 0
        assert certificate.y >= 0
        assert certificate.gap == certificate.x + certificate.y + certificate.rounding


@pytest.mark.slow
def test_gap_is_convex_along_segments_and_bounds_the_value_of_any_play():
    rng = np.random.default_rng(3)
    psi = fx.L1(0.1) + fx.Box(lower=-1.0, upper=0.5)
    game = fx.problems.bilinear(rng.normal(size=(4, 6)), rng.normal(size=4), x=psi, y=fx.L2Ball(1.0))
    for seed in range(10):
        one, other = random_point(game, seed), random_point(game, seed + 100)
        middle = jax.tree.map(lambda a, b: (a + b) / 2, one, other)
        assert game.gap(middle) <= (game.gap(one) + game.gap(other)) / 2 + 1e-12
        # Weak duality: no y gains, and no x saves, more than the gap allows.
        mixed = fx.Saddle(one.x, other.y), fx.Saddle(other.x, one.y)
        assert game.objective(mixed[0]) - game.objective(mixed[1]) <= game.gap(one) + 1e-12


def test_certificate_equals_brute_force_on_a_tiny_game():
    A, b = np.array([[1.0, -2.0]]), np.array([0.3])
    game = fx.problems.bilinear(A, b, x=fx.L1(0.2) + fx.Box(1.0), y=fx.Box(0.5))
    z = fx.Saddle(np.array([0.7, -0.1]), np.array([0.2]))
    corners = [-1.0, 0.0, 1.0]
    best = min(game.objective(fx.Saddle(np.array([i, j]), z.y)) for i in corners for j in corners)
    worst = max(game.objective(fx.Saddle(z.x, np.array([v]))) for v in (-0.5, 0.5))
    certificate = game.certificate(z)
    assert certificate.x + certificate.y == pytest.approx(worst - best, rel=1e-14)


# --- domains and precision -----------------------------------------------------------------------------------------


def test_a_point_outside_the_domain_gets_infinity_and_its_projection_a_number():
    game = fx.problems.paper_l1(0)
    outside = fx.Saddle(np.full(600, np.float32(0.05)), np.zeros(300))  # float32(0.05) is above 0.05
    assert game.certificate(outside).gap == np.inf
    assert "outside the domain" in str(game.certificate(outside))
    assert game.gap(outside) == np.inf
    inside, certificate = game.certify(outside)
    assert np.all(inside.x == 0.05)
    assert inside.x.dtype == np.float64
    assert np.isfinite(certificate.gap)


def test_unbounded_domains_are_not_certifiable():
    game = fx.problems.bilinear(np.eye(2), np.zeros(2), x=fx.L1(0.1), y=fx.Box(1.0))
    certificate = game.certificate(fx.Saddle(np.zeros(2), np.zeros(2)))
    assert certificate.gap is None
    assert "not certifiable" in str(certificate)
    assert "x=Euclidean(L1(0.1))" in str(certificate)
    strong = fx.problems.bilinear(np.eye(2), np.zeros(2), x=fx.SquaredL2(1.0), y=fx.Entropy(1.0))
    # At x = 0, y = 1/e is the best response; x = 0 costs the x player ||y||^2 / 2.
    certificate = strong.certificate(fx.Saddle(np.zeros(2), np.full(2, np.exp(-1))))
    assert certificate.x == pytest.approx(np.exp(-2), rel=1e-14)
    assert certificate.y == pytest.approx(0, abs=1e-15)


def test_small_negative_rounding_is_no_negative_gap():
    certificate = fx.Certificate(-1e-17, 0.0)
    assert certificate.gap == 0.0
    assert "gap <= 0 " in str(certificate)
    assert fx.Certificate(-1e-17, 0.0, rounding=1e-16).gap == 1e-16


def test_certificates_use_float64_and_leave_the_users_flag_alone():
    assert not jax.config.read("jax_enable_x64")
    game = fx.problems.paper_l1(0)
    z = random_point(game, 4, 0.01)
    exact = printed_l1_gap(game.A, game.b, z.x, z.y, 0.1, 0.05)
    certificate = game.certificate(z)
    assert abs(certificate.x + certificate.y - exact) < 1e-12
    assert not jax.config.read("jax_enable_x64")
    assert jnp.ones(2).dtype == jnp.float32


def test_an_operator_that_overflows_is_an_error_not_a_number():
    problem = fx.Problem(lambda x: jnp.sum(jnp.exp(1e4 * x)), x=fx.Box(1.0), like=fx.Saddle(np.zeros(2)))
    with pytest.raises(FloatingPointError, match="operator of this problem is not finite"):
        problem.certificate(fx.Saddle(np.ones(2)))


# --- operators -----------------------------------------------------------------------------------------------------


def test_operator_is_the_saddle_gradient():
    like = fx.Saddle({"w": np.zeros(3), "b": np.zeros(())}, np.zeros(2))
    problem = fx.Problem(
        hinge_free_loss, x={"w": fx.L1(0.1), "b": fx.Zero()}, y=fx.Box(1.0), like=like, data=clients((5, 2))
    )
    rng = np.random.default_rng(5)
    with double():
        z = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), like)
        g = problem.operator(z)
        step = jax.tree.map(lambda leaf: 1e-6 * jnp.asarray(rng.normal(size=leaf.shape)), like)
        change = (problem.loss(tree.add(z, step)) - problem.loss(tree.subtract(z, step))) / 2
        signed = fx.Saddle(step.x, -step.y)
        assert float(tree.dot(g, signed)) == pytest.approx(float(change), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["clients", "samples", np.array([1.0, 2.0, 1.0])])
def test_unequal_clients_have_the_weights_that_were_asked_for(weights):
    problem, data = coupled_problem(weights=weights), clients((4, 1, 6))
    share = {"clients": np.full(3, 1 / 3), "samples": np.array([4, 1, 6]) / 11}
    p = share[weights] if isinstance(weights, str) else weights / 4
    z = random_point(problem, 1)

    def loss(x, y):
        each = [((X @ x - t) ** 2 / 2 + (X @ x) * y.sum() - np.sum(y**2) / 2).mean() for X, t in data]
        return p @ each

    assert problem.objective(z) == pytest.approx(loss(z.x, z.y) + 0.1 * np.abs(z.x).sum(), rel=1e-12)
    with double():
        mean = tree.scale(0.0, problem.operator(z))
        for m in range(3):
            client = jax.tree.map(lambda leaf, m=m: jnp.asarray(leaf[m]), problem.data)
            mean = tree.add(mean, tree.scale(p[m], problem.client_operator(client, z)))
        np.testing.assert_allclose(mean.x, problem.operator(z).x, rtol=1e-12)
        np.testing.assert_allclose(mean.y, problem.operator(z).y, rtol=1e-12)


def test_the_objective_is_a_program_whatever_the_regularizers():
    """Parts of a program cannot be looked into, which the box of singular values once was there."""
    psi = fx.Spectral(fx.L1(0.1) + fx.Box(2.0))
    game = fx.problems.bilinear(np.eye(2), np.eye(2), x=psi, y=fx.Spectral(fx.Box(0.5)))
    z = fx.Saddle(np.diag([1.0, -1.5]), np.diag([0.5, 0.0]))
    assert game.objective(z) == pytest.approx(1.0 * 0.5 - 0.5 + 0.1 * 2.5, rel=1e-12)


def test_padding_is_harmless_where_zeros_would_not_be():
    data = [np.array([1.0]), np.array([2.0, 3.0, 4.0])]
    problem = fx.Problem(
        lambda x, example: x[0] * jnp.log(example), x=fx.Box(1.0), like=fx.Saddle(np.zeros(1)), data=data
    )
    with double():
        g = problem.operator(problem.project(problem.like))
    assert float(g.x[0]) == pytest.approx(np.mean([0.0, np.mean(np.log([2.0, 3.0, 4.0]))]), rel=1e-14)


def test_plain_minimization_has_no_y():
    problem = fx.Problem(
        lambda x, example: (example[0] @ x - example[1]) ** 2 / 2,
        x=fx.L1(0.1) + fx.L1Ball(5.0),
        like=fx.Saddle(np.zeros(3)),
        data=clients((8, 8)),
    )
    certificate = problem.certificate(fx.Saddle(np.zeros(3)))
    assert certificate.y == 0
    assert certificate.gap > 0
    assert problem.clients == 2


def test_bilinear_operator_is_monotone_with_equality():
    game = fx.problems.paper_l1(0)
    one, other = random_point(game, 1), random_point(game, 2)
    with double():
        step, change = tree.subtract(one, other), tree.subtract(game.operator(one), game.operator(other))
        assert abs(float(tree.dot(change, step))) < 1e-12
        beta = np.linalg.norm(game.A, 2)
        assert float(game.geometry.dual_norm(change)) <= beta * float(game.geometry.norm(step)) * (1 + 1e-12)


# --- oracles -------------------------------------------------------------------------------------------------------


def test_gaussian_noise_is_per_entry_and_follows_the_key():
    game = fx.problems.paper_l1(0)
    with double():
        z = tree.cast(game.like, jnp.float64)
        exact = fx.Exact()(game, None, z, jax.random.key(0))
        one, same, other = (fx.GaussianNoise(0.1)(game, None, z, jax.random.key(k)) for k in (1, 1, 2))
        noise = np.concatenate([one.x - exact.x, one.y - exact.y])
        assert np.array_equal(one.x, same.x)
        assert not np.array_equal(one.x, other.x)
        assert np.std(noise) == pytest.approx(0.1, rel=0.1)
        assert abs(np.corrcoef(noise[:300], noise[600:])[0, 1]) < 0.2  # x and y have their own streams
        assert np.array_equal(fx.GaussianNoise(0.0)(game, None, z, jax.random.key(1)).x, exact.x)


def test_minibatch_is_unbiased_and_never_draws_padding():
    problem = coupled_problem(sizes=(4, 1, 6))
    with double():
        z = tree.cast(random_point(problem, 1), jnp.float64)
        for m in range(3):
            client = jax.tree.map(lambda leaf, m=m: jnp.asarray(leaf[m]), problem.data)
            keys = jax.random.split(jax.random.key(m), 4000)
            draws = jax.vmap(lambda key, client=client: fx.Minibatch(2)(problem, client, z, key))(keys)
            exact = problem.client_operator(client, z)
            error = np.abs(np.mean(draws.x, axis=0) - exact.x)
            assert np.all(error <= 5 * np.std(draws.x, axis=0) / np.sqrt(4000) + 1e-12)


# --- convexity -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_convexity_check_passes_convex_concave_problems_without_calling_it_a_proof():
    for problem in (fx.problems.paper_l1(0), fx.problems.matrix_game(RNG.normal(size=(3, 4))), coupled_problem()):
        check = fx.problems.check_convex_concave(problem, pairs=60)
        assert check.passed
        assert check.witness is None
        assert "not a proof" in str(check)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: -jnp.sum(x**2) + jnp.vdot(x, y),
        lambda x, y: jnp.vdot(x, y) + jnp.sum(y**2),
        lambda x, y: jnp.sum(jnp.sin(3 * x)) * jnp.sum(y),
    ],
)
def test_convexity_check_finds_a_witness(f):
    like = fx.Saddle(np.zeros(2), np.zeros(2))
    problem = fx.Problem(f, x=fx.Box(1.0), y=fx.Box(1.0), like=like)
    check = fx.problems.check_convex_concave(problem)
    assert not check.passed
    one, other = check.witness
    with double():
        change = tree.subtract(problem.operator(one), problem.operator(other))
        assert float(tree.dot(change, tree.subtract(one, other))) < 0
    assert problem.certificate(one).gap < np.inf  # the witness is feasible


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow")
def test_convexity_check_does_not_take_overflow_or_cancellation_for_a_witness():
    steep = fx.Problem(lambda x: jnp.sum(jnp.exp(60 * x)), x=fx.Box(100.0), like=fx.Saddle(np.zeros(2)))
    check = fx.problems.check_convex_concave(steep)
    assert check.passed
    assert check.skipped > 0
    rng = np.random.default_rng(0)
    offset = fx.problems.bilinear(rng.normal(size=(4, 6)), 1e6 * rng.normal(size=4), x=fx.Box(1.0), y=fx.Box(1.0))
    assert fx.problems.check_convex_concave(offset).passed


# --- bad input -----------------------------------------------------------------------------------------------------

GOOD = {"x": fx.Box(1.0), "y": fx.Box(1.0), "like": fx.Saddle(np.zeros(3), np.zeros(2))}
PSI = fx.Box(1.0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: fx.problems.bilinear(np.ones((2, 3)), np.ones(3), x=PSI, y=PSI),
            r"b must have 2 entries or rows.*\(3,\)",
        ),
        (lambda: fx.problems.bilinear(np.ones(3), np.ones(3), x=PSI, y=PSI), r"A must be a nonempty matrix.*\(3,\)"),
        (lambda: fx.problems.bilinear([[np.nan]], [1.0], x=PSI, y=PSI), "A must not contain nan"),
        (lambda: fx.problems.bilinear([[1.0]], [np.inf], x=PSI, y=PSI), "b must be finite: a real vector or matrix"),
        (lambda: fx.problems.bilinear([["a"]], [1.0], x=PSI, y=PSI), "A must be a real matrix"),
        (lambda: fx.problems.bilinear([[1.0]], [1.0], x=0.1, y=PSI), "x must be a regularizer.*got 0.1"),
        (
            lambda: fx.problems.bilinear(np.ones((2, 3)), np.ones(2), x=fx.Spectral(PSI), y=PSI),
            "Spectral needs a matrix",
        ),
        (
            lambda: fx.problems.bilinear(np.ones((2, 3)), np.ones(2), x=fx.Linear(np.ones(2)), y=PSI),
            r"does not fit an array of shape \(3,\)",
        ),
        (
            lambda: fx.problems.bilinear(np.ones((2, 3)), np.ones(2), x=fx.Box(upper=np.ones((4, 3))), y=PSI),
            r"make it \(4, 3\)",
        ),
        (lambda: fx.problems.bilinear(np.ones((2, 3)), np.ones(2), x=fx.CappedSimplex(0.1), y=PSI), "at least 1/3"),
        (lambda: fx.problems.matrix_game([1.0]), "A must be a nonempty matrix"),
        (lambda: fx.Problem(lambda x, y: x, **GOOD), r"f\(x, y\) must return one real number"),
        (lambda: fx.Problem(lambda x, y: x @ y, **GOOD), r"f\(x, y\) could not be evaluated"),
        (lambda: fx.Problem(lambda x: 1.0, **GOOD), r"f\(x, y\) could not be evaluated.*TypeError"),
        (lambda: fx.Problem(coupled, **{**GOOD, "y": None}), "y= and like.y belong together"),
        (lambda: fx.Problem(coupled, **{**GOOD, "x": {"w": PSI}}), "with one regularizer or geometry for each array"),
        (lambda: fx.Problem(coupled, **{**GOOD, "like": fx.Saddle(np.zeros(0), np.zeros(2))}), "nonempty arrays"),
        (lambda: fx.Problem(coupled, **GOOD, data=[]), "nonempty list"),
        (lambda: fx.Problem(coupled, **GOOD, data=[(np.zeros((0, 3)), np.zeros(0))]), r"data\[0\] is empty"),
        (lambda: fx.Problem(coupled, **GOOD, data=[(np.zeros((2, 3)), np.zeros(4))]), "examples along the first axis"),
        (
            lambda: fx.Problem(coupled, **GOOD, data=[*clients((2,)), (np.zeros((2, 4)), np.zeros(2))]),
            "examples of one shape",
        ),
        (
            lambda: fx.Problem(coupled, **GOOD, data=[*clients((2,)), np.zeros((2, 4))]),
            r"data\[1\] must have the structure",
        ),
        (
            lambda: fx.Problem(coupled, **GOOD, data=[(np.full((2, 3), np.nan), np.zeros(2))]),
            "6 entries are nan or infinite",
        ),
        (lambda: fx.Problem(coupled, **GOOD, data=[(np.full((2, 3), "a"), np.zeros(2))]), "array of numbers"),
        (lambda: fx.Problem(coupled, **GOOD, data=clients((2, 3)), weights="size"), "'clients', 'samples'.*got 'size'"),
        (lambda: fx.Problem(coupled, **GOOD, data=clients((2, 3)), weights=[1.0, -1.0]), "2 numbers >= 0"),
        (lambda: fx.Problem(coupled, **GOOD, data=clients((2, 3)), weights=[1.0]), "2 numbers >= 0"),
        (lambda: fx.Problem(coupled, **GOOD, data=[None]), r"data\[0\] must be a pytree of arrays, got None"),
        (
            lambda: fx.Problem(coupled, **{**GOOD, "like": fx.Saddle("abc", np.zeros(2))}),
            "like.x must be an array of numbers",
        ),
        (
            lambda: fx.Problem(
                lambda x: jax.lax.while_loop(lambda v: v < 1, lambda v: v + 1, x[0]), x=PSI, like=fx.Saddle(np.zeros(1))
            ),
            "no gradient that jax can compute",
        ),
        (
            lambda: fx.problems.check_convex_concave(coupled_problem(), pairs=0),
            "pairs must be a whole number >= 1, got 0",
        ),
        (lambda: fx.problems.paper_l1(0).certificate(fx.Saddle([0.0, 0.0], np.zeros(300))), "so make it an array"),
        (lambda: fx.GaussianNoise(-1.0), "sigma must be a number >= 0, got -1.0"),
        (lambda: fx.Minibatch(0), "size must be a whole number >= 1, got 0"),
        (
            lambda: fx.problems.paper_l1(0).certificate(fx.Saddle(np.zeros(3), np.zeros(300))),
            r"z.x must have shape \(600,\), got \(3,\)",
        ),
        (
            lambda: fx.problems.paper_l1(0).certificate(fx.Saddle(np.full(600, np.nan), np.zeros(300))),
            "z.x must not contain nan",
        ),
        (lambda: fx.problems.paper_l1(0).certificate(fx.Saddle(np.zeros(600))), "structure of `like`"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(build, message):
    with pytest.raises((TypeError, ValueError), match=message) as refused:
        build()
    assert "\n" not in str(refused.value)


def test_wrong_types_are_refused_without_a_type_checker():
    """The tests run under a type checker that would speak first; a user does not have one."""
    program = """
import numpy as np, fedualex as fx
good = dict(x=fx.Box(1.0), y=fx.Box(1.0), like=fx.Saddle(np.zeros(3), np.zeros(2)))
for build in (
    lambda: fx.Problem(3, **good),
    lambda: fx.Problem(lambda x, y: 0.0, **{**good, "like": np.zeros(3)}),
    lambda: fx.problems.paper_l1(0).certificate(np.zeros(900)),
    lambda: fx.reference.lp(3),
):
    try:
        build()
    except TypeError as error:
        print(str(error).splitlines()[0])
"""
    lines = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for line, start in zip(
        lines,
        ("f must be a function", "like must be fx.Saddle", "z must be fx.Saddle", "game must be a bilinear game"),
        strict=True,
    ):
        assert line.startswith(start)


def test_a_minibatch_needs_examples():
    game = fx.problems.paper_l1(0)
    with pytest.raises(TypeError, match="no examples to draw a Minibatch from"):
        fx.Minibatch(2)(game, None, game.like, jax.random.key(0))


def test_problems_are_pytrees_that_do_not_recompile():
    traces = []

    @eqx.filter_jit
    def operator(problem, z):
        traces.append(1)
        return problem.operator(z)

    for seed in (0, 1):
        game = fx.problems.paper_l1(seed)
        operator(game, tree.cast(game.like, jnp.float32))
    assert len(traces) == 1


# --- padding ----------------------------------------------------------------------------------------------


def test_clients_are_padded_to_a_few_lengths():
    many = [padded_length(n, 10**6) for n in range(1, 5000)]
    assert all(n <= length <= 1.125 * n for n, length in enumerate(many, 1))
    assert len(set(many)) <= 8 * 10 + 8
    few = [padded_length(n, 3) for n in range(1, 65)]
    assert few == [*range(1, 8), *(-(-n // 8) * 8 for n in range(8, 65))]


def test_padding_has_no_weight():
    problem = coupled_problem((17, 3, 21), weights="samples")
    assert problem.data.examples[0].shape == (3, 24, 3)
    z = random_point(problem)
    rows, targets = (np.concatenate(parts) for parts in zip(*clients((17, 3, 21)), strict=True))
    score = rows @ z.x
    with double():
        value = float(problem.loss(z))
    assert value == pytest.approx(
        np.mean((score - targets) ** 2 / 2 + score * z.y.sum() - np.sum(z.y**2) / 2), rel=1e-12
    )

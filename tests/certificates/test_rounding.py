"""A certificate with its rounding is never below the exact number, and without it often is."""

from fractions import Fraction

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.catalogue import CATALOGUE, catalogue
from support.rational import exact_certificate, exact_gap, number

import fedualex as fx
from fedualex import tree
from fedualex.certificates.certificate import Measured, certificate_of
from fedualex.certificates.told import ToldErrors
from fedualex.compiling import double
from fedualex.problems import Certificate
from fedualex.regularizers.fenchel import UNIT, fenchel
from fedualex.runtime.outputs import Evaluator, exact_problem


def below(certificate, exact):
    """Whether the certificate without its rounding, and whether the certificate, is below the exact number."""
    return max(certificate.x + certificate.y, 0) < exact, certificate.gap < exact


# --- hard games -----------------------------------------------------------------------------------------------------


def scale(rng):
    return 10.0 ** rng.uniform(-8, 8)


def far_box(rng):
    lower = scale(rng) * rng.choice([-1.0, 0.0, 1.0])
    return fx.Box(lower=lower, upper=np.nextafter(lower + scale(rng), np.inf))


SETS = {
    "box": lambda rng, n: fx.Box(scale(rng)),
    "far box": lambda rng, n: far_box(rng),
    "far box, quadratic": lambda rng, n: far_box(rng) + fx.SquaredL2(scale(rng)),
    "far box, l1": lambda rng, n: fx.L1(scale(rng)) + far_box(rng),
    "far box, everything": lambda rng, n: fx.ElasticNet(scale(rng), scale(rng)) + far_box(rng) + tilt(rng, n),
    "simplex": lambda rng, n: fx.Simplex(scale(rng)) + tilt(rng, n),
    "simplex, quadratic": lambda rng, n: fx.Simplex(scale(rng)) + fx.SquaredL2(scale(rng)),
    "capped simplex": lambda rng, n: fx.CappedSimplex(rng.uniform(1 / n, 1)),
    "entropic simplex": lambda rng, n: fx.EntropicSimplex(),
    "entropic simplex, kl": lambda rng, n: fx.EntropicSimplex(fx.KL(scale(rng), rng.uniform(0.1, 1, n))),
    "l1 ball, l1": lambda rng, n: fx.L1(scale(rng)) + fx.L1Ball(scale(rng)),
    "l1 ball, quadratic": lambda rng, n: fx.L1Ball(scale(rng)) + fx.SquaredL2(scale(rng)),
    "l2 ball, l1": lambda rng, n: fx.L1(scale(rng)) + fx.L2Ball(scale(rng)),
    "l2 ball, quadratic": lambda rng, n: fx.L2Ball(scale(rng)) + fx.SquaredL2(scale(rng)),
    "quadratic": lambda rng, n: fx.SquaredL2(scale(rng)),
    "elastic net": lambda rng, n: fx.ElasticNet(scale(rng), scale(rng)) + tilt(rng, n),
    "orthant, quadratic": lambda rng, n: fx.NonNegative() + fx.SquaredL2(scale(rng)),
}
PAIRS = [(name, list(SETS)[(5 * i + 3) % len(SETS)]) for i, name in enumerate(SETS)]


def tilt(rng, n):
    return fx.Linear(scale(rng) * rng.normal(size=n))


def hard_matrix(rng, n, m):
    """Entries of any scale; often columns that cancel each other, or one large number in all entries."""
    A = scale(rng) * rng.normal(size=(n, m))
    if m > 1 and rng.random() < 0.5:
        A[:, 1:] = A[:, :1] * rng.choice([-1, 1], size=m - 1) * (1 + 1e-9 * rng.normal(size=(n, m - 1)))
    return A + scale(rng) if rng.random() < 0.3 else A


def hard_output(game, rng):
    """A point of any scale, or one that answers such a point nearly best; as a run certifies it."""

    def draw(leaf):
        return scale(rng) * rng.normal(size=leaf.shape)

    with double():
        evaluator = Evaluator(exact_problem(game))
        output = evaluator.project_and_certify({"last": jax.tree.map(draw, game.like)})["last"]
        if rng.random() < 0.6:
            step = 10.0 ** rng.uniform(0, 12)
            answer = jax.tree.map(lambda leaf, g: leaf - step * g, output.z, output.operator)
            output = evaluator.project_and_certify({"last": answer})["last"]
    return output


def check_hard_games(pair, shape, cases, seed):
    """How many of the certificates were below the exact gap without their rounding; with it, none."""
    rng, (n, m), without = np.random.default_rng(seed), shape, 0
    for _ in range(cases):
        psi_x, psi_y = SETS[pair[0]](rng, m), SETS[pair[1]](rng, n)
        game = fx.problems.bilinear(hard_matrix(rng, n, m), scale(rng) * rng.normal(size=n), x=psi_x, y=psi_y)
        output = hard_output(game, rng)
        bare, whole = below(output.certificate, exact_gap(game, output.z))
        assert not whole, (game, output.z, output.certificate)
        assert not output.certificate.estimated
        without += bare
    return without


@pytest.mark.sampled(8)
@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_no_certificate_of_a_hard_game_is_below_the_exact_gap(number):
    shape = [(3, 5), (9, 4), (1, 2)][number % 3]
    assert check_hard_games(PAIRS[number], shape, 20, number) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 1), (2, 40), (17, 9), (40, 33)])
@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_no_certificate_of_many_hard_games_is_below_the_exact_gap(number, shape):
    check_hard_games(PAIRS[number], shape, 40, 1000 + number)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("inner", [fx.L1(0.3) + fx.Box(2.0), fx.L1(0.3) + fx.L2Ball(2.0), fx.ElasticNet(0.3, 0.2)])
def test_no_certificate_of_a_spectral_game_is_below_the_exact_gap(inner):
    rng, without = np.random.default_rng(0), 0
    outside = fx.Spectral(inner + fx.Box(3.0)) if isinstance(inner, fx.regularizers.InBox) else fx.Spectral(inner)
    for case in range(12):
        A, B = hard_matrix(rng, 3, 4) / 1e3, scale(rng) / 1e3 * rng.normal(size=(3, 2))
        game = fx.problems.bilinear(A, B, x=outside, y=fx.Spectral(fx.L2Ball(2.0)) + fx.SquaredL2(10.0 ** (case - 6)))
        output = hard_output(game, rng)
        bare, whole = below(output.certificate, exact_gap(game, output.z))
        assert not whole, (game, output.z, output.certificate)
        assert not output.certificate.estimated
        without += bare
    assert without >= 2


def test_a_wide_domain_does_not_multiply_the_rounding_of_a_strongly_convex_game():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(4, 4))
    x = rng.normal(size=4)
    game = fx.problems.bilinear(
        A, A @ x, x=fx.Box(1e8) + fx.SquaredL2(1.0) + fx.Linear(-x), y=fx.Box(1e8) + fx.SquaredL2(1.0)
    )
    certificate = game.certificate(fx.Saddle(x, np.zeros(4)))
    assert exact_gap(game, fx.Saddle(x, np.zeros(4))) <= certificate.gap < 1e-25


# --- the box far from 0 ---------------------------------------------------------------------------------------------


def far_game(seed, n=4, m=5):
    """A game whose saddle point is inside its boxes, which begin at 1e4: x and y hardly fill 13 bits of their digits."""
    rng = np.random.default_rng(seed)
    x, y = 1e4 + rng.uniform(0.2, 0.8, m), 1e4 + rng.uniform(0.2, 0.8, n)
    free = rng.normal(size=(n, m))
    A = free - np.outer(y, y @ free + x) / (y @ y)  # A^T y = -x
    psi = fx.Box(lower=1e4, upper=1e4 + 1) + fx.SquaredL2(1.0)
    return fx.problems.bilinear(A, A @ x - y, x=psi, y=psi)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_optimum_far_from_zero_is_claimed_falsely(seed):
    game, optimal, bare = far_game(seed), 0, 0
    for exponent in range(6, 16):
        tol = 10.0**-exponent
        run = fx.solve(game, fx.AdaptiveDualExtrapolation(), steps=1000, tol=tol)
        exact = exact_gap(game, run.z)
        assert run.gap >= exact
        assert run.gap <= 1.01 * exact
        optimal += run.status is fx.Status.OPTIMAL
        assert run.status is not fx.Status.OPTIMAL or exact <= tol
        # From sums instead of differences, with nothing for the rounding, it is off by more than half of itself at the
        # end: by multiples of 2^-23, above or below as rounding has it.
        bare += abs(game.gap(run.z) - exact) > exact / 2
    assert 3 <= optimal < 10
    assert bare >= 3


# --- the catalogue --------------------------------------------------------------------------------------------------


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CATALOGUE)
def test_no_certificate_of_the_catalogue_is_below_the_exact_number(name):
    problem, rng = catalogue(name), np.random.default_rng(1)
    for size in (1e-6, 1e-3, 1.0, 1e3, 1e6):
        z = problem.project(jax.tree.map(lambda leaf, size=size: size * rng.normal(size=leaf.shape), problem.like))
        certificate = problem.certificate(z)
        assert certificate.gap >= exact_certificate(problem, z)
        assert not certificate.estimated
        assert certificate.rounding < 1e-6 * (certificate.x + certificate.y)  # far from a solution it is small


# --- estimates ------------------------------------------------------------------------------------------------------


def user_problems(rng):
    """Losses of a user's own, with their exact gradients."""
    n, d = int(rng.choice([5, 60])), int(rng.choice([1, 4]))
    size = 10.0 ** rng.uniform(-4, 4)
    X = size * (rng.normal(size=(n, d)) + rng.choice([0, 1e3]) * rng.normal(size=d))
    w = rng.normal(size=d) / size
    t = X @ w * (1 + 0.1 * rng.normal(size=n))
    if rng.random() < 0.5:
        w = np.linalg.lstsq(X, t, rcond=None)[0]  # where all cancels
    rows, targets = [[number(a) for a in row] for row in X], [number(a) for a in t]
    point = [number(a) for a in w]
    residuals = [sum(a * b for a, b in zip(row, point, strict=True)) - b for row, b in zip(rows, targets, strict=True)]

    def gradient(slopes):
        return [sum(row[j] * slope for row, slope in zip(rows, slopes, strict=True)) for j in range(d)]

    options = {"x": fx.Box(10 * np.abs(w).max()), "like": fx.Saddle(np.zeros(d))}
    data = [{"row": X, "target": t}]
    yield (
        fx.Problem(lambda x, e: (e["row"] @ x - e["target"]) ** 2, data=data, **options),
        w,
        gradient([2 * r / n for r in residuals]),
    )
    yield fx.Problem(lambda x: jnp.sum((X @ x - t) ** 4), **options), w, gradient([4 * r**3 for r in residuals])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_estimates_are_seldom_too_small_and_called_estimates(seed):
    rng, fine, total = np.random.default_rng(seed), 0, 0
    for _ in range(8):
        for problem, w, exact in user_problems(rng):
            with double():
                z = fx.Saddle(jnp.asarray(w))
                g = problem.operator(z)
                error = problem.operator_error(z, g)
            assert error.estimated
            apart = [abs(number(a) - b) for a, b in zip(np.asarray(g.x), exact, strict=True)]
            fine += all(a <= Fraction(float(b)) for a, b in zip(apart, error.size.x, strict=True))
            total += 1
    assert fine >= 0.95 * total
    assert problem.certificate(problem.project(z)).estimated


def test_a_server_without_data_has_an_estimate_from_the_operator():
    problem = catalogue("lasso")
    z = problem.project(problem.like)
    certificate = problem.certificate(z)
    with double():
        found = tree.cast_module(problem, jnp.float64).survey(z)
        view = exact_problem(problem.without_data())
        server = Evaluator(view, lambda points: [found], told=ToldErrors(view, 0.0))
        output = server.project_and_certify({"last": z})["last"]
    assert output.certificate.estimated
    assert output.certificate.x == pytest.approx(certificate.x, rel=1e-12)
    # Columns that differ by a factor of 1e6 all get the rounding of the largest.
    assert certificate.rounding < output.certificate.rounding < 1e6 * certificate.rounding


def test_operators_that_come_from_elsewhere_have_an_estimated_rounding():
    game = far_game(0)
    z = game.project(game.like)
    with double():
        found = game.survey(jax.tree.map(jnp.asarray, z))
        assert (
            Evaluator(exact_problem(game), lambda points: [found], told=ToldErrors(game, 0.0))
            .project_and_certify({"last": z})["last"]
            .certificate.estimated
        )
        assert not Evaluator(exact_problem(game)).project_and_certify({"last": z})["last"].certificate.estimated


def test_the_rounding_of_a_users_own_regularizer_is_an_estimate():
    class Own(fx.Box):
        pass

    for psi, estimated in ((Own(1.0), True), (fx.Box(1.0), False), (fx.Entropy(1.0), True)):
        game = fx.problems.bilinear(np.eye(2), np.ones(2), x=psi, y=fx.Box(1.0))
        certificate = game.certificate(game.project(game.like))
        assert certificate.estimated is estimated
        assert certificate.rounding > 0


# --- never from nonsense --------------------------------------------------------------------------------------------


def test_a_part_below_its_rounding_is_an_error():
    class TooSmall(fx.L2Ball):
        def conjugate(self, s):
            return super().conjugate(s) / 2

    game = fx.problems.bilinear(np.eye(2), np.ones(2), x=fx.Box(1.0), y=TooSmall(1.0))
    z = fx.Saddle(np.zeros(2), np.array([-1.0, 0.0]))
    with pytest.raises(FloatingPointError, match=r"y part of the certificate is -0\.29.* a conjugate is wrong"):
        game.certificate(fx.Saddle(z.x, np.array([-1.0, 0.0])))
    with double(), pytest.raises(FloatingPointError, match="y part"):
        Evaluator(exact_problem(game)).project_and_certify({"last": z})


@pytest.mark.parametrize("psi", [fx.SquaredL2(1e-160), fx.NonNegative() + fx.SquaredL2(1e-160)])
def test_a_tiny_quadratic_has_a_huge_gap(psi):
    game = fx.problems.bilinear(-np.eye(2), np.ones(2), x=psi, y=fx.Box(1.0))
    z = fx.Saddle(np.full(2, 0.5), np.full(2, 0.5))
    assert game.certificate(z).gap == pytest.approx(float(exact_gap(game, z)), rel=1e-9) == pytest.approx(2.5e159)


def test_numbers_beyond_float64_are_an_error():
    game = fx.problems.bilinear(1e200 * np.eye(2), np.ones(2), x=fx.Box(1e150), y=fx.Box(1e150))
    for size, message in ((1.0, "part of the certificate is inf"), (1e150, "operator of this problem is not finite")):
        z = fx.Saddle(np.full(2, size), np.full(2, size))
        with pytest.raises(FloatingPointError, match=message):
            game.certificate(z)
        with double(), pytest.raises(FloatingPointError, match=message):
            Evaluator(exact_problem(game)).project_and_certify({"last": z})


def test_an_infeasible_point_has_no_number_in_a_run_either():
    game = far_game(0)
    outside = jax.tree.map(lambda leaf: np.zeros_like(leaf), game.like)
    with double():
        evaluator = Evaluator(exact_problem(game))
        output = evaluator.certify_survey("last", outside, game.survey(jax.tree.map(jnp.asarray, outside)))
    assert output.gap is None
    assert "outside the domain" in output.certificate.reason
    assert game.certificate(outside).x == np.inf


def test_what_a_certificate_is_made_of():
    good = Measured(*(jnp.asarray(number) for number in (1.0, -1e-14, 1e-13, 1.0, 0.0)), jnp.asarray(True))
    found = certificate_of(good, estimated=False)
    assert (found.x, found.y, found.rounding) == pytest.approx((1.0, -1e-14, 1e-13), rel=1e-6)
    assert found.gap >= 1.0
    for change in ({"x": jnp.nan}, {"rounding": jnp.inf}, {"y": -1e-11}, {"finite": jnp.asarray(False)}):
        with pytest.raises(FloatingPointError):
            certificate_of(good._replace(**change), estimated=False)
    assert certificate_of(good._replace(violation=jnp.nan), estimated=False).x == np.inf


def test_the_rounding_of_a_gap_is_that_of_its_terms():
    with double():
        x, s = jnp.asarray([0.5, 0.5]), jnp.asarray([3.0, -4.0])
        found = fenchel(fx.Box(1.0), x, s, jnp.zeros(2))
        assert found.gap == 3 * 0.5 + 4 * 1.5
        assert 0 < found.rounding <= 20 * UNIT * 7.5
        # An error of the slope costs its length times the distance to the farthest corner.
        moved = fenchel(fx.Box(1.0), x, s, jnp.asarray([0.3, 0.4]))
        assert moved.rounding - found.rounding == pytest.approx(0.5 * 1.5 * np.sqrt(2))


def test_measuring_is_compiled_once():
    game = far_game(0)
    with double():
        evaluator, traces = Evaluator(exact_problem(game)), []
        measure = eqx.filter_jit(lambda problem, z, g: (traces.append(1), problem.measure(z, g))[1])
        for seed in range(3):
            z = jax.tree.map(jnp.asarray, game.project(jax.tree.map(lambda leaf, seed=seed: leaf + seed, game.like)))
            measured, estimated = measure(evaluator.problem, z, evaluator.problem.operator(z))
            assert isinstance(certificate_of(measured, estimated), Certificate)
    assert len(traces) == 1

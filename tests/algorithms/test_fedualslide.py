"""FeDualSlide: what its theorems promise at every exchange, on runs as users have them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_array
from support import plain_rows
from support.catalogue import CATALOGUE, catalogue
from support.plain_rows import ROWS, rows

import fedualex as fx
from fedualex.algorithms import Facts, slide as fedualslide
from fedualex.algorithms.dual import extrapolate
from fedualex.algorithms.slide import UNTRIED, BlockScale, ModeSelector, Pull, PulledSteps
from fedualex.bundle import pair_of
from fedualex.certificates.surveys import flat_of
from fedualex.compiling import double
from fedualex.geometry import Product
from fedualex.problems.known import with_metric
from fedualex.runtime.options import SolveOptions
from fedualex.runtime.outputs import exact_problem
from fedualex.runtime.prepare import choose_method


def exchanges(problem, count, local_steps=1, method=None):
    """The servers after every survey of a run, with the flat geometry."""
    method = method or fx.FeDualSlide()
    exact = exact_problem(problem)
    facts = Facts(exact, local_steps)
    server = method.init(facts, exact.geometry.project(jax.tree.map(jnp.asarray, facts.flat.like)))
    for _ in range(count):
        (point,) = method.ask(facts, server).points
        server = method.tell(facts, server, [exact.survey(point)])
        yield facts.scaled.with_scale(server.scale), server


def distance_bound(flat, center):
    """At least B(O_c), the largest divergence of the domain from the center."""
    z, parts = flat.point(center), flat.geometry.parts
    x = Product(parts.x).B0(Product(parts.x).dual(z.x).omega)
    y = 0.0 if z.y is None else Product(parts.y).B0(Product(parts.y).dual(z.y).omega)
    longest = max((float(np.max(leaf)) for leaf in jax.tree.leaves(flat.metric)), default=1.0)
    return float(flat.scale) * longest * float(x) + float(y)


def raw(family, **options):
    """A GLM whose columns have means of their own and scales from .01 to 100."""
    X, y, owner = plain_rows.X, plain_rows.TWO if family == "logistic" else plain_rows.SCORE, plain_rows.OWNER
    return fx.problems.sparse_glm(family, X * SCALES, y, owner, **options)


SCALES = np.array([0.01, 0.3, 5.0, 100.0])


class Spy:
    """What the server of a run does at every survey: its accepted step, what it forgets, and its state afterwards."""

    def __init__(self, monkeypatch):
        self.accepted, self.forgets, self.states = 0.0, False, []
        add_cut, tell = fedualslide.add_cut, fx.FeDualSlide.tell

        def absorbing(flat, scale, cuts, *survey):
            found = add_cut(flat, scale, cuts, *survey)
            self.accepted, self.forgets = float(found[1]), bool(jnp.all(cuts.used & (cuts.weights > 0)))
            return found

        def told(method, facts, server, answer):
            following = tell(method, facts, server, answer)
            if isinstance(answer, list):
                flat = method._flat(facts).with_scale(following.scale)
                self.states.append((flat, following, self.accepted, self.forgets))
            return following

        monkeypatch.setattr(fedualslide, "add_cut", absorbing)
        monkeypatch.setattr(fx.FeDualSlide, "tell", told)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("mode", ["survey", "local"])
@pytest.mark.parametrize("name", ["lasso", "agnostic, kl", "agnostic", "auc", "raw"])
def test_the_certificate_of_the_weights_obeys_theorems_1_and_4(name, mode, monkeypatch):
    """Cert(c) <= (B_c + Phi(c)) / S, and while no survey with weight was forgotten in the phase, Q(c) <= - a sum gamma,
    so that Cert(c) <= a + (B_c - a sum gamma) / S: after every survey of a run.
    """
    spy, method = Spy(monkeypatch), fx.FeDualSlide(mode=mode)
    problem = raw("logistic", l1=0.01) if name == "raw" else rows(name)
    fx.simulate(problem, method, rounds=40 if mode == "survey" else 80, local_steps=4, record_every=80)
    steps, whole, seen = 0.0, True, 0
    with double():
        for flat, server, accepted, forgets in spy.states:
            begins = int(server.age) == 1
            steps, whole = (0.0, True) if begins else (steps + accepted, whole and not forgets)
            cuts, total = server.cuts, float(jnp.sum(server.cuts.weights))
            if total == 0:
                continue
            share = cuts.weights / total
            cert = float(share @ cuts.heights + flat.conjugate(-(share @ cuts.operators)))
            omega = flat.dual(server.center)
            moved, start = flat.map_dual(*pair_of(cuts, omega)), flat.map_dual(omega, jnp.zeros(()))
            phi = float(moved.potential - start.potential + cuts.weights @ cuts.heights)
            level, within = method.kappa * float(server.phase), distance_bound(flat, server.center)
            slack = 1e-12 * (1 + abs(cert) + float(jnp.max(jnp.abs(cuts.heights))))
            assert cert <= (within + phi) / total + slack
            assert float(server.bounds.gap) <= cert + slack
            if whole:
                rounding = 1e-12 * (1 + abs(float(start.potential)) + abs(float(moved.potential)))
                assert phi - level * total <= -level * steps + rounding
                assert cert <= level + (within - level * steps) / total + slack
                seen += steps > 0
    assert seen > 15


def test_without_a_pull_the_local_step_is_fedualex():
    with double():
        problem = rows("auc")
        geometry = exact_problem(problem).geometry
        z = jax.tree.map(lambda leaf: jnp.asarray(np.full(np.shape(leaf), 0.1)), problem.like)
        dual = geometry.dual(geometry.project(z))
        oracle = lambda at, sample: problem.operator(at)  # noqa: E731
        server = Pull(dual, jnp.asarray(0.3), jnp.asarray(0.0), jnp.asarray(1.0))
        steps = PulledSteps()
        local, half, _ = steps.local_step(steps.local_init(server, None), oracle, geometry)
        following, half_pair, _ = extrapolate(dual, jnp.asarray(0.3), oracle, geometry)
        for found, expected in ((local.dual, following), (half, geometry.primal(half_pair))):
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15), found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_every_kind_of_problem_is_solved_without_a_step_size(name):
    tol = 1e-3 * fx.solve(rows(name), rounds=1).gap
    run = fx.solve(rows(name), rounds=300, tol=tol)
    assert run.status is fx.Status.OPTIMAL, run
    assert run.exchanges == run.rounds <= 200
    own = rows(name).certificate(run.z)  # another certificate of the same point, which does not know the surveys
    assert own.gap >= -1e-12
    assert run.chosen.startswith("FeDualNewton")


def test_few_rows_and_features_take_few_exchanges():
    """Once the surveys prove a gap below the level, the level problem has no minimum, and its weights must say so."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(48, 5))
    labels = (X @ [1.0, -1.0, 1.0, 0.0, 0.0] + rng.logistic(size=48) > 0).astype(int)
    counts = []
    for left_out in range(3):
        some = np.arange(48) % 3 != left_out
        problem = fx.problems.sparse_glm("logistic", X[some], labels[some], np.zeros(32, int), l1=0.01)
        run = fx.solve(problem, rounds=200, tol=1e-5)
        assert run.status is fx.Status.OPTIMAL, run
        counts.append(run.exchanges)
    assert sum(counts) <= 180, counts


# Columns of many scales.


def boxed(scales, metric=True):
    """Squares in a box of half a deviation, which is as hard in all units of the columns: scales, powers of 2."""
    X, y = plain_rows.X - plain_rows.X.mean(axis=0), plain_rows.SCORE
    weights = fx.L1(0.0) + fx.Box(lower=-0.5 / scales, upper=0.5 / scales)

    def loss(x, example):
        return (example["row"] @ x["weights"] - example["target"]) ** 2 / 2

    problem = fx.Problem(
        loss,
        x={"weights": weights},
        like=fx.Saddle({"weights": np.zeros(4)}),
        data=[{"row": X * scales, "target": y}],
    )
    return with_metric(problem, np.square(scales) * 2) if metric else problem


def gaps_of(problem, count=25):
    return np.array([float(server.bounds.gap) for _, server in exchanges(problem, count)])


def test_units_of_columns_change_nothing():
    """The metric is a change of variables, so with powers of 2 the run is that of scaled columns up to rounding."""
    with double():
        one, other = (gaps_of(boxed(scales)) for scales in (np.ones(4), 2.0 ** np.array([-9, 0, 5, 12])))
        np.testing.assert_allclose(one, other, rtol=1e-6)
        assert one[-1] < 1e-6 < gaps_of(boxed(2.0 ** np.array([-9, 0, 5, 12]), metric=False))[-1]


@pytest.mark.parametrize(("family", "penalty"), [("squared", {"l1": 0.01}), ("logistic", {"l2": 1e-3})])
def test_raw_columns_are_solved(family, penalty):
    problem = raw(family, **penalty)
    without = eqx.tree_at(lambda p: p.metric, problem, None, is_leaf=lambda node: node is problem.metric)
    scaled, unscaled = (
        fx.solve(p, fx.FeDualSlide(), rounds=150, tol=1e-4, output="bounds") for p in (problem, without)
    )
    assert scaled.gap <= 1e-4
    assert scaled.exchanges <= 50
    assert unscaled.exchanges >= 2 * scaled.exchanges  # which may not be there yet: the last digits decide


def test_the_metric_is_the_variance_of_columns():
    metric = raw("squared", l1=0.1).metric
    np.testing.assert_allclose(metric["weights"], (plain_rows.X * SCALES).var(axis=0), rtol=1e-9)
    assert metric["bias"] == 1
    sparse = fx.problems.sparse_glm(
        "squared", csr_array(plain_rows.X * SCALES), plain_rows.SCORE, plain_rows.OWNER, l1=0.1
    )
    np.testing.assert_allclose(sparse.metric["weights"], metric["weights"], rtol=1e-9)
    standard = (plain_rows.X - plain_rows.X.mean(axis=0)) / plain_rows.X.std(axis=0)
    assert fx.problems.sparse_glm("squared", standard, plain_rows.SCORE, l1=0.1).metric is None
    constant = np.hstack([plain_rows.X, np.full((60, 1), 3.0), np.zeros((60, 1))])
    assert fx.problems.sparse_glm("squared", constant, plain_rows.SCORE, l1=0.1).metric["weights"][-2:].tolist() == [
        9,
        1,
    ]
    np.testing.assert_allclose(rows("low rank").metric["weights"], plain_rows.X.var(axis=0).mean(), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["local", "auto"])
def test_local_steps_propose(mode):
    run = fx.solve(rows("auc"), fx.FeDualSlide(mode=mode), rounds=200, local_steps=5, tol=1e-3)
    assert run.status is fx.Status.OPTIMAL, run
    assert int(run.state.server.local_rounds) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "gap"), [("survey", 1e-7), ("local", 1.2e-3), ("auto", 2e-4)])
def test_unequal_variables_do_not_hold_it_up(mode, gap):
    """A robust regression whose y moves a hundredth of the way of x: a scale of x that follows the ways they went falls too far."""
    rng = np.random.default_rng(0)
    truth = np.where(np.arange(20) < 4, 1.0, 0.0)
    data = []
    for _ in range(8):
        X = rng.normal(size=(60, 20)) + rng.normal(size=20)
        data.append((X, np.sign(X @ truth + rng.normal(size=60))))

    def loss(x, y, example):
        row, label = example
        return jnp.logaddexp(0, -label * (row + y) @ x) - 5 * jnp.sum(y**2)

    like = fx.Saddle(np.zeros(20), np.zeros(20))
    problem = fx.Problem(loss, x=fx.L1(0.02) + fx.Box(1.0), y=fx.L2Ball(0.3), like=like, data=data)
    run = fx.solve(problem, fx.FeDualSlide(mode), rounds=100, local_steps=10)
    assert run.gap <= gap


@pytest.mark.slow
def test_noise_in_local_steps_leaves_the_certificate_exact():
    run = fx.solve(rows("auc"), fx.FeDualSlide(mode="local"), rounds=60, local_steps=5, noise=fx.GaussianNoise(0.3))
    exact = fx.solve(rows("auc"), rounds=300, tol=1e-6)
    with double():
        bounds, best = run.state.server.bounds, exact.state.server.bounds
        assert float(bounds.upper.bound) >= float(best.lower.bound)
        assert float(bounds.lower.bound) <= float(best.upper.bound)


def test_the_gap_is_never_below_the_true_one():
    """max_y phi(x, y) - min_x phi(x, y) of a bilinear game with l1 and boxes, in closed form."""
    rng = np.random.default_rng(3)
    A, b = rng.uniform(-1, 1, (6, 5)), rng.uniform(-1, 1, 6)
    psi = fx.L1(0.1) + fx.Box(0.5)
    problem = fx.problems.bilinear(A, b, x=psi, y=psi)
    run = fx.simulate(problem, fx.FeDualSlide(), rounds=30)
    x, y = np.asarray(run.z.x), np.asarray(run.z.y)

    def most(slope):
        return 0.5 * np.sum(np.maximum(np.abs(slope) - 0.1, 0))

    upper = 0.1 * np.sum(np.abs(x)) + most(A @ x - b)
    lower = -0.1 * np.sum(np.abs(y)) - b @ y - most(A.T @ y)
    assert upper - lower <= run.gap <= 2 * (upper - lower) + 1e-9


SCALAR = [(2.0, 0.0), (2.1, -0.9, -0.9)]
"""Clients with f_m = a_m x y on which local steps with drift correction alone spiral outwards (docs/slide.md)."""


def scalar_game(slopes):
    data = [{"a": np.array([a])} for a in slopes]
    box = fx.Box(lower=-1, upper=3)
    like = fx.Saddle(np.zeros(()), np.zeros(()))
    return fx.Problem(lambda x, y, e: e["a"] * x * y, x=box, y=box, like=like, data=data)


@pytest.mark.slow
@pytest.mark.parametrize(("slopes", "eta"), [(SCALAR[0], 0.2), (SCALAR[1], 0.05)])
def test_counterexamples_to_drift_correction_alone(slopes, eta):
    start = fx.Saddle(np.array(1.0), np.array(1.0))
    problem, options = scalar_game(slopes), {"local_steps": 10, "z0": start}
    corrected = fx.simulate(problem, fx.FeDualExCorrected(eta_c=eta), rounds=60, **options)
    last = corrected.outputs["last"].z
    assert abs(float(last.x)) + abs(float(last.y)) > 0.5  # it does not come near the solution, 0
    for mode in ("survey", "local"):
        run = fx.solve(problem, fx.FeDualSlide(mode=mode), rounds=200, tol=1e-3, **options)
        assert run.status is fx.Status.OPTIMAL, run


@pytest.mark.slow
@pytest.mark.parametrize("name", CATALOGUE)
def test_no_gap_is_above_what_the_zero_model_is_worth(name):
    """From the first record on: the objective of the start where losses are >= 0, on badly scaled rows too."""
    problem = catalogue(name)
    zero = problem.project(jax.tree.map(np.zeros_like, problem.like))
    with double():
        exact = exact_problem(problem)
        flat, at = flat_of(exact), exact.survey(jax.tree.map(jnp.asarray, zero))
        u, g = flat.vector(zero), flat.vector(at.operator)
        split = flat.split
        objective = float(at.value + jnp.vdot(g[split:], u[split:]) + flat.x.psi(u[:split]))
        objective += float(flat.y.conjugate(-g[split:]))
        floor = problem.floor
        worth = objective - float(floor.value) + float(flat.y.psi(flat.vector(fx.Saddle(zero.x, floor.y))[split:]))
        size = 1 + abs(objective)
    for method in (None, fx.FeDualSlide(), fx.FeDualExCorrected(eta_c=1e-3)):
        run = fx.simulate(problem, method, rounds=2)
        assert np.all(run.history["gap_bounds"] <= worth + 1e-6 * size), name


def test_what_it_does_not_take():
    problem = rows("agnostic")
    with pytest.raises(ValueError, match="same number of local_steps"):
        fx.solve(problem, fx.FeDualSlide(), rounds=3, local_steps=[1, 2, 3])
    with pytest.raises(ValueError, match="cohort"):
        fx.solve(problem, fx.FeDualSlide(), rounds=3, cohort=2)
    for wrong in ({"kappa": 0.0}, {"drop": 1.0}, {"sigma": 2.0}, {"remember": 1}, {"mode": "both"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            fx.FeDualSlide(**wrong)


def test_the_choice_without_a_method_says_why():
    minibatch = {"noise": fx.Minibatch(2)}
    game = fx.problems.bilinear(np.eye(2), np.zeros(2), x=fx.Box(1.0), y=fx.Box(1.0))
    domain = {"x": fx.Box(1.0), "y": fx.Box(1.0), "like": fx.Saddle(np.zeros(2), np.zeros(2))}
    kinked = fx.Problem(lambda x, y, row: jnp.abs(row @ x) + x @ y, **domain, data=[np.ones((4, 2))])
    for problem, options, name in (
        (rows("agnostic"), {}, "FeDualNewton"),
        (kinked, {}, "FeDualSlide"),
        (rows("agnostic"), minibatch, "FeDualExCorrected"),
        (rows("agnostic"), {"cohort": 2}, "FeDualExCorrected"),
        (game, {"noise": fx.GaussianNoise(0.1), "clients": 3}, "FeDualEx"),
    ):
        method, why = choose_method(problem, SolveOptions(rounds=2, **options))
        assert type(method).__name__ == why.split(":")[0] == name
    run = fx.solve(game, rounds=2, noise=fx.GaussianNoise(0.1), clients=3)
    assert run.chosen == why
    assert fx.solve(game, fx.FeDualEx(0.1), rounds=1, clients=3).chosen == ""


def test_a_turn_lasts_as_long_as_its_phase_unless_the_other_way_was_faster():
    way, selector = ModeSelector((UNTRIED, UNTRIED), 0, 0, UNTRIED).choose(1, 1, 1.0, 0.3, ended=False)
    assert way == 1
    for exchanges in (3, 5, 7):  # bounds that stand still within a phase say nothing
        way, selector = selector.choose(way, exchanges, 1.0, 0.3, ended=False)
        assert way == 1
    way, selector = selector.choose(way, 11, 0.25, 0.3, ended=True)
    assert (way, float(selector.rates[1])) == (0, pytest.approx(np.log(4) / 10))
    for spent in range(1, 18):  # log(1 / 0.3) / 17 is still above half of log(4) / 10
        way, selector = selector.choose(way, 11 + spent, 0.2, 0.3, ended=False)
        assert way == 0
    way, selector = selector.choose(way, 11 + 18, 0.2, 0.3, ended=False)
    assert way == 1


def test_a_scale_that_fails_is_a_limit_and_the_last_successful_one_comes_back():
    block_scale = BlockScale(1.0, 0.0, 0.0, 1e300).end_phase(0.1, success=False)  # nothing is proven: the proposal
    block_scale = block_scale.end_phase(0.01, success=True)
    assert (float(block_scale.scale), float(block_scale.proven)) == (0.01, 0.1)
    block_scale = block_scale.end_phase(0.001, success=False)
    assert (float(block_scale.scale), float(block_scale.least)) == (0.1, 0.1)
    assert float(block_scale.end_phase(0.01, success=True).scale) == 0.1
    above = block_scale.end_phase(1.0, success=True).end_phase(10.0, success=False)
    assert (float(above.scale), float(above.least), float(above.most)) == (0.1, 0.1, 0.1)
    again = block_scale.end_phase(0.2, success=False)  # at the successful scale: nothing is known any more
    assert [float(number) for number in again] == [0.2, 0.0, 0.0, 1e300]


@pytest.mark.slow
@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_resumed_run_has_the_same_bits(stop, tmp_path):
    problem, options = rows("lasso"), {"rounds": 6, "record_every": 1}
    whole = fx.simulate(problem, fx.FeDualSlide(), **options)
    file = tmp_path / "run"
    fx.simulate(problem, fx.FeDualSlide(), **options, checkpoint=file, callback=lambda record: record["round"] == stop)
    resumed = fx.simulate(problem, fx.FeDualSlide(), **options, checkpoint=file)
    for one, other in zip(jax.tree.leaves(resumed.state), jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_array_equal(one, other)

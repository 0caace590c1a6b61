"""FeDualNewton: Lemma N1 on real steps, exchanges to small gaps, certificates beside outside solvers, resume, choice."""

import sys
from functools import cache
from itertools import zip_longest
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.plain_rows import ROWS, rows

import fedualex as fx
from fedualex.algorithms import Facts, newton
from fedualex.algorithms.newton import LARGEST
from fedualex.bundle import UNKNOWN
from fedualex.certificates.surveys import flat_of
from fedualex.compiling import double
from fedualex.geometry import is_geometry
from fedualex.model_problem import blocks_of, solve_model
from fedualex.problems.curvature import surveyor_of
from fedualex.runtime.outputs import exact_problem

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import newton_problems
import random_problems


def bent(seed=0):
    """A loss of one's own that bends in both variables, on boxes."""

    def loss(x, y, example):
        row, label = example
        return jnp.logaddexp(0, -label * (row + y) @ x) - 5 * jnp.sum(y**2) - jnp.logaddexp(0, y[0])

    rng = np.random.default_rng(seed)
    data = [(rng.normal(size=(n, 3)), rng.choice([-1.0, 1.0], n)) for n in (40, 25, 90)]
    domain = {"x": fx.L1(0.01) + fx.Box(1.0), "y": fx.Box(0.3), "like": fx.Saddle(np.zeros(3), np.zeros(3))}
    return fx.Problem(loss, **domain, data=data)


def surveys(problem, count, method=None, given=100):
    """What was asked for in each exchange of a run, and the server afterwards. given: exchanges with curvature."""
    method = method or fx.FeDualNewton()
    exact = exact_problem(problem)
    facts, surveyor = Facts(exact, 1), surveyor_of(exact)
    server = method.init(facts, jax.tree.map(np.asarray, exact.geometry.project(facts.flat.like)))
    for exchange in range(count):
        asked = method.ask(facts, server)
        answer = [
            surveyor.survey(point, curvature=bool(curved) and exchange < given, start=start, columns=asked.columns)
            for point, curved, start in zip_longest(asked.points, asked.curvature, asked.starts)
        ]
        server = method.tell(facts, server, answer)
        yield asked, server


# Lemma N1, in the Euclidean geometry.


EUCLIDEAN = {
    "logistic": lambda: rows("logistic"),
    "constrained": lambda: rows("constrained"),
    "robust": lambda: rows("robust"),
    "bent": bent,
}


class Implicit:
    """The implicit steps of one problem, from pairs O = (omega, tau), by the server's own solver."""

    def __init__(self, problem):
        self.exact = exact_problem(problem)
        self.flat, self.surveyor = flat_of(self.exact), surveyor_of(self.exact)
        self.size = sum(leaf.size for leaf in jax.tree.leaves(self.flat.like))

    def operator(self, v, curvature=False):
        found = self.surveyor.survey(jax.tree.map(np.asarray, self.flat.point(v)), curvature=curvature)
        g = np.asarray(self.flat.vector(found.operator))
        return (g, found.curvature.jacobian) if curvature else g

    def step(self, omega, tau, w, T):
        """u = P(O.descend(T, ghat(u))): the model with ell / T added, and ghat(u)."""
        g, J = self.operator(w, curvature=True)
        share = 1 / (tau + T)
        slope, bend = share * (T * g + w - omega), share * (T * J + np.eye(self.size))
        u = solve_model(blocks_of(self.flat), slope, bend, w).point
        return u, g + J @ (u - w)

    def err(self, omega, tau, u, g, T):
        before, after = self.flat.map_dual(omega, tau), self.flat.map_dual(omega - T * g, tau + T)
        return float(after[2] - before[2] + T * (g @ u + self.flat.psi(u)))


@pytest.mark.parametrize("name", EUCLIDEAN)
def test_the_error_of_an_implicit_step_is_that_of_its_model(name):
    """Err(T) <= T^2 |g(u) - ghat(u)|^2 / 2 - |u - z|^2 / 2, and <= 0 where T |g(u) - ghat(u)| <= |u - z|."""
    rng = np.random.default_rng(0)
    with double():
        of = Implicit(EUCLIDEAN[name]())
        accepted = refused = 0
        for T in 10.0 ** np.arange(-2.0, 5.0):
            omega, tau = jnp.asarray(rng.normal(size=of.size)), float(rng.uniform(0, 2))
            z = np.asarray(of.flat.map_dual(omega, tau)[0])
            w = z if rng.random() < 0.7 else np.asarray(of.flat.map_dual(omega + rng.normal(size=of.size), tau)[0])
            u, model = of.step(np.asarray(omega), tau, w, T)
            own = np.asarray(of.flat.map_dual(omega - T * model, tau + T)[0])
            np.testing.assert_allclose(u, own, rtol=1e-7, atol=1e-7)
            g = of.operator(u)
            wrong, far = T * np.linalg.norm(g - model), np.linalg.norm(u - z)
            found = of.err(omega, tau, u, g, T)
            slack = 1e-10 * (1 + T * (np.abs(g) @ np.abs(u) + np.abs(model) @ np.abs(u)))
            assert found <= wrong**2 / 2 - far**2 / 2 + slack
            if wrong <= far:
                accepted += 1
                assert found <= slack
            else:
                refused += 1
        assert accepted > 0
        assert refused > 0 or name == "robust"  # an affine operator is its own model


@pytest.mark.parametrize("name", ["logistic", "bent"])
def test_implicit_steps_gain_by_how_far_they_go(name):
    """With w = z and sigma = T |g(u) - ghat(u)| / |u - z|: Err <= -(1 - sigma^2) |u - z|^2 / 2."""
    rng = np.random.default_rng(1)
    with double():
        of = Implicit(EUCLIDEAN[name]())
        for T in 10.0 ** np.arange(-1.0, 4.0):
            omega = jnp.asarray(rng.normal(size=of.size))
            z = np.asarray(of.flat.map_dual(omega, 0.0)[0])
            u, model = of.step(np.asarray(omega), 0.0, z, T)
            far, wrong = np.linalg.norm(u - z), np.linalg.norm(of.operator(u) - model)
            sigma = T * wrong / far
            assert of.err(omega, 0.0, u, of.operator(u), T) <= (sigma**2 - 1) * far**2 / 2 + 1e-9 * (1 + T)


@pytest.mark.parametrize("name", ["logistic", "constrained"])
def test_the_lemma_holds_at_every_exchange_of_a_run(name):
    """With z = w = the center, the point of the pair (center, 0)."""
    problem = EUCLIDEAN[name]()
    with double():
        of = Implicit(problem)
        for _, server in surveys(problem, 6):
            z = np.asarray(server.center.point)
            for T in (0.1, 10.0, 1000.0):
                u, model = of.step(z, 0.0, z, T)
                g = of.operator(u)
                wrong, far = T * np.linalg.norm(g - model), np.linalg.norm(u - z)
                assert of.err(jnp.asarray(z), 0.0, u, g, T) <= wrong**2 / 2 - far**2 / 2 + 1e-10 * (1 + T)


def test_implicit_steps_have_their_rate():
    """Gap <= B0 / sum T <= L B0^(3/2) / (sigma' sqrt(2 (1 - sigma^2)) R^(3/2)) after each of R steps."""
    problem, high, low = rows("logistic"), 0.5, 0.25
    examples, counts = problem.data.examples["row"], np.asarray(problem.data.counts)
    sizes = [np.hypot(1, np.linalg.norm(np.asarray(own)[:n], axis=1)) for own, n in zip(examples, counts, strict=True)]
    weights = np.asarray(problem.weights)
    L = sum(p * np.mean(own**3) for p, own in zip(weights, sizes, strict=True)) / (6 * np.sqrt(3))
    best = float(problem.objective(fx.solve(problem, rounds=20, tol=1e-10).z))
    with double():
        of = Implicit(problem)
        start = np.zeros(of.size)
        parts = jax.tree.leaves(of.flat.geometry.parts, is_leaf=is_geometry)
        leaves = jax.tree.leaves(of.flat.like)
        B0 = sum(float(part.diameter(leaf)) ** 2 for part, leaf in zip(parts, leaves, strict=True)) / 2
        omega, tau, mean = start, 0.0, np.zeros(of.size)
        for R in range(1, 9):
            z = np.asarray(of.flat.map_dual(jnp.asarray(omega), tau)[0])
            least, most = 1e-6, 1e12
            for _ in range(80):
                T = np.sqrt(least * most)
                u, _ = of.step(omega, tau, z, T)
                far = np.linalg.norm(u - z)
                if 2 * low / L <= T * far <= 2 * high / L:
                    break
                least, most = (T, most) if T * far < 2 * low / L else (least, T)
            else:
                pytest.fail("no step of that length was found")
            g = of.operator(u)
            assert of.err(jnp.asarray(omega), tau, u, g, T) <= -(1 - high**2) * far**2 / 2 + 1e-9 * (1 + T)
            omega, tau, mean = omega - T * g, tau + T, mean + T * u
            point = jax.tree.map(np.asarray, of.flat.point(mean / tau))
            assert float(problem.objective(point)) - best <= B0 / tau
            assert B0 / tau <= L * B0**1.5 / (low * np.sqrt(2 * (1 - high**2)) * R**1.5)


# Exchanges to small gaps.


@cache
def gaps(name, rounds=17):
    """The certified gap after every exchange, and what of the last one is an allowance for rounding."""
    problem = newton_problems.PROBLEMS[name]()
    run = fx.solve(problem, fx.FeDualNewton(), rounds=rounds, record_every=1, tol=None, output="bounds")
    assert run.history["exchanges"].tolist() == list(range(1, rounds + 1))
    found = np.array([np.inf if gap is None else gap for gap in run.history["gap_bounds"]], float)
    return found, float(run.outputs["bounds"].certificate.rounding)


def exchanges_to(name, level):
    found, rounding = gaps(name)
    there = np.flatnonzero(found <= level + rounding)
    return there[0] + 1 if len(there) else np.inf


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", newton_problems.AFFINE)
def test_affine_operators_need_three_exchanges(name):
    assert exchanges_to(name, 1e-6 * gaps(name)[0][0]) <= 3


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", newton_problems.CURVED)
def test_losses_that_bend_need_ten_exchanges(name):
    assert exchanges_to(name, 1e-4) <= 10
    assert exchanges_to(name, 1e-8) <= 14


@pytest.mark.slow
@pytest.mark.parametrize("name", newton_problems.HUBER)
def test_losses_without_a_second_derivative_need_twelve(name):
    assert exchanges_to(name, 1e-4) <= 12
    assert exchanges_to(name, 1e-8) <= 16


@pytest.mark.parametrize("name", ROWS)
def test_small_problems_of_every_kind_are_solved(name):
    run = fx.solve(rows(name), rounds=20, tol=1e-9)
    assert run.chosen.startswith("FeDualNewton: ")
    assert (run.status, run.stop) == (fx.Status.OPTIMAL, fx.Stop.TOLERANCE)
    assert run.exchanges <= 12


def test_a_loss_of_ones_own_that_bends_in_both_is_solved():
    run = fx.solve(bent(), rounds=20, tol=1e-8)
    assert run.status is fx.Status.OPTIMAL
    assert run.exchanges <= 10


# Certificates beside an outside solver.


@pytest.mark.sampled(5)
@pytest.mark.parametrize("number", range(1000, 1014))
def test_no_certificate_is_below_the_true_gap(number):
    """One problem of each kind; the objective is computed in plain numpy, and the other model by Clarabel."""
    row = random_problems.measured(number)
    assert not random_problems.is_wrong(row)
    slack = 1e-9 * abs(row["own"]) + row["rounding"]
    assert row["lower"] - slack <= row["own"] <= row["upper"] + slack
    if row["outside"] is not None:
        assert row["lower"] <= row["outside"] + slack


@pytest.mark.parametrize("name", ["logistic", "agnostic", "constrained"])
def test_bounds_never_become_worse_and_every_cut_is_counted(name):
    with double():
        before, steps = np.inf, []
        for _, server in surveys(rows(name), 8):
            upper, lower = float(server.bounds.upper.bound), float(server.bounds.lower.bound)
            assert upper - lower <= before
            assert lower <= upper + 1e-12
            before = upper - lower
            if before <= 1e-8:
                steps.append(np.any(server.bounds.lower.starts[0] != server.bounds.lower.points[0]))
        assert before <= 1e-9
        # The lower bound that closed the gap is that of a step: a dual cut, whose start is not its end. Later ones differ
        # by rounding.
        assert steps[0]


def test_the_first_exchange_asks_for_one_point_and_later_ones_for_few():
    with double():
        asked = [one for one, _ in surveys(rows("logistic"), 5)]
        assert len(asked[0].points) == 1
        assert asked[0].starts == (None,)
        assert all(len(one.points) <= 2 and one.starts[0] is not None for one in asked[1:])
        assert all(all(one.curvature) for one in asked)


@pytest.mark.parametrize(("name", "once"), [("lasso", True), ("logistic", False), ("agnostic", False)])
def test_second_derivatives_that_are_the_same_everywhere_are_asked_for_once(name, once):
    with double():
        asked = [one for one, _ in surveys(rows(name), 3)]
    assert [any(one.curvature) for one in asked] == [True, not once, not once]
    assert asked[1].starts[0] is not None
    assert not once or len(asked[1].points) == 1


# Some columns of wide tables.


KINDS = ("logistic", "squared", "softmax", "agnostic")


def wide(kind, columns=120, seed=0):
    """More columns than rows of which a few matter, with scales from .01 to 100."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, columns)) + rng.normal(size=(80, 1))
    score = X[:, :4] @ np.array([2.0, -1.0, 1.0, 0.5]) + rng.normal(size=80)
    labels = (score > np.median(score)).astype(int) + (kind == "softmax") * (score > np.quantile(score, 0.8))
    clients, X = fx.data.iid(80, 3), X * 10 ** rng.uniform(-2, 2, size=columns)
    l1 = 0.1 * np.max(np.abs(X.T @ (labels - labels.mean()))) / 80
    if kind == "agnostic":
        return fx.problems.agnostic(X, labels, clients, l1=l1)
    family, target = ("squared", score) if kind == "squared" else ("logistic", labels)
    return fx.problems.sparse_glm(family, X, target, clients, l1=l1)


@pytest.fixture
def narrow(monkeypatch):
    """As if 40 variables were many."""
    for name, value in (("LARGEST", 40), ("MANY", 30), ("WORKING", 20)):
        monkeypatch.setattr(newton, name, value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_some_columns_ends_where_that_of_all_does(kind, narrow, monkeypatch):
    problem = wide(kind)
    some = fx.solve(problem, rounds=25, tol=1e-8)
    assert some.chosen.startswith("FeDualNewton: ")
    assert some.status is fx.Status.OPTIMAL
    assert some.exchanges <= 15
    monkeypatch.setattr(newton, "MANY", 1000)
    every = fx.solve(problem, rounds=25, tol=1e-8)
    assert problem.objective(some.z) == pytest.approx(problem.objective(every.z), abs=2e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_chosen_after_a_survey_and_hold_all_that_is_not_0(kind, narrow):
    with double():
        run = list(surveys(wide(kind), 8))
    asked = [one for one, _ in run]
    assert not any(asked[0].curvature)
    for one in asked[1:]:
        assert 20 <= one.columns.size <= 40
        assert np.all(np.diff(one.columns) > 0)
        assert one.curvature[-1] is False  # FeDualSlide's own survey travels along
        for point in one.points[:-1]:
            x = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(point.x)])
            assert set(np.flatnonzero(x)) <= set(one.columns)


def test_a_model_of_some_columns_is_never_worse_than_fedualslide(narrow, monkeypatch):
    """With so few columns that no model of them is right."""
    monkeypatch.setattr(newton, "LARGEST", 6)
    monkeypatch.setattr(newton, "WORKING", 6)
    problem = wide("logistic")
    with double():
        ours, slide = surveys(problem, 25), surveys(problem, 25, fx.FeDualSlide("survey"))
        for (_, server), (_, other) in zip(ours, slide, strict=True):
            if other.bounds.are_known:
                assert server.bounds.gap <= other.bounds.gap + 1e-15


@pytest.mark.parametrize("given", [1, 2, 3])
def test_clients_may_refuse_the_columns_of_a_later_exchange(given, narrow):
    """From then on the run is FeDualSlide's, which was there all along."""
    problem = wide("logistic")
    with double():
        ours, slide = surveys(problem, 8, given=given), surveys(problem, 8, fx.FeDualSlide("survey"))
        for exchange, ((_, server), (_, other)) in enumerate(zip(ours, slide, strict=True)):
            assert bool(server.plain) == (exchange >= given)
            if other.bounds.are_known:
                assert server.bounds.gap <= other.bounds.gap + 1e-15


@pytest.mark.parametrize("name", ["logistic", "agnostic"])
@pytest.mark.parametrize("given", [0, 1, 3])
def test_bounds_are_true_where_clients_refuse_in_a_later_exchange(name, given):
    """The survey that came is of the point of the step, which FeDualSlide did not propose."""
    problem = rows(name)
    best = float(problem.objective(fx.solve(problem, rounds=30, tol=1e-11).z))
    with double():
        for _, server in surveys(problem, 20, given=given):
            if server.bounds.are_known:
                assert float(server.bounds.lower.bound) - 1e-10 <= best <= float(server.bounds.upper.bound) + 1e-10
    assert bool(server.plain)


# A guard, once steps are damped.


def test_damped_steps_are_guarded_by_fedualslide(monkeypatch):
    """With a solver that always leads nowhere the bounds are those of FeDualSlide, from the exchange on that guards."""
    problem = rows("logistic")

    def lost(blocks, g, J, c, start=None):
        return solve_model(blocks, np.zeros_like(g), np.eye(g.size), np.zeros_like(c))

    monkeypatch.setattr("fedualex.algorithms.newton.solve_model", lost)
    with double():
        guarded = [bool(server.guarded) for _, server in surveys(problem, 30)]
        first = guarded.index(True) + 1
        assert all(guarded[first:])
        run = list(surveys(problem, 30))
        slide = list(surveys(problem, 30 - first, fx.FeDualSlide("survey")))
        for (asked, server), (_, other) in zip(run[first:], slide, strict=True):
            assert not asked.curvature[-1]
            if other.bounds.are_known:
                assert server.bounds.gap <= other.bounds.gap + 1e-15


# Resume, refusals, the choice.


@pytest.mark.parametrize(("name", "stop"), [("agnostic", 1), ("agnostic", 3), ("lasso", 2)])
def test_a_resumed_run_has_the_same_bits(name, stop, tmp_path):
    assert_same_bits(rows(name), stop, tmp_path)


@pytest.mark.parametrize("stop", [1, 2, 4])
def test_a_resumed_run_of_some_columns_has_the_same_bits(stop, tmp_path, narrow):
    assert_same_bits(wide("logistic"), stop, tmp_path)


def assert_same_bits(problem, stop, tmp_path):
    options = {"rounds": 6, "record_every": 1, "tol": None}
    whole = fx.solve(problem, fx.FeDualNewton(), **options)
    file = tmp_path / "run"
    fx.solve(problem, fx.FeDualNewton(), **options, checkpoint=file, callback=lambda record: record["round"] == stop)
    resumed = fx.solve(problem, fx.FeDualNewton(), **options, checkpoint=file)
    for one, other in zip(jax.tree.leaves(resumed.state), jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(resumed.history["gap_bounds"], whole.history["gap_bounds"])


def test_refusals():
    unbounded = fx.problems.bilinear(np.eye(2), np.zeros(2), x=fx.L1(0.1), y=fx.Box(1.0))
    with pytest.raises(ValueError, match="FeDualNewton works with certificates, and there is none here: "):
        fx.solve(unbounded, fx.FeDualNewton(), rounds=2)
    with pytest.raises(ValueError, match="FeDualNewton"):
        fx.solve(rows("agnostic"), fx.FeDualNewton(), rounds=2, cohort=2)


def test_the_choice_says_why():
    problem = rows("logistic")
    size = sum(np.size(leaf) for leaf in jax.tree.leaves(problem.like))
    chosen = "FeDualNewton: all clients can be asked for exact operators and second derivatives of"
    assert fx.solve(problem, rounds=2).chosen == f"{chosen} all {size} variables"
    assert fx.solve(rows("logistic"), fx.FeDualNewton(), rounds=2).chosen == ""


def test_the_choice_says_of_how_many_of_many_columns_it_asks(narrow):
    assert fx.solve(wide("logistic"), rounds=1).chosen.endswith("second derivatives of 20 of 121 variables at first")


def test_most_limits_what_a_message_carries():
    """In proportion: a model of all variables up to two thirds of it, and of a third of it at least."""
    problem = wide("logistic")
    run = fx.solve(problem, fx.FeDualNewton(most=45), rounds=25, tol=1e-8)
    assert run.status is fx.Status.OPTIMAL
    with double():
        sizes = [one.columns.size for one, _ in surveys(problem, 6, fx.FeDualNewton(most=45)) if any(one.curvature)]
        assert sizes[0] == 15
        assert max(sizes) <= 45
        assert next(surveys(wide("logistic", columns=29), 1, fx.FeDualNewton(most=45)))[0].columns is None
    with pytest.raises(ValueError, match="most must be a whole number >= 1, got 0"):
        fx.FeDualNewton(most=0)


def test_kinks_and_many_variables_are_left_to_fedualslide():
    domain = {"x": fx.Box(1.0), "y": fx.Box(1.0), "like": fx.Saddle(np.zeros(2), np.zeros(2))}
    kinked = fx.Problem(lambda x, y, row: jnp.abs(row @ x) + x @ y, **domain, data=[np.ones((4, 2))])
    why = "FeDualSlide: all clients can be asked for exact operators, but "
    assert fx.solve(kinked, rounds=2).chosen == f"{why}f uses abs, where second derivatives need not exist"
    many = np.zeros((2, LARGEST))
    large = fx.problems.sparse_glm("squared", many, np.arange(2.0), l2=0.1)
    dense = f"second derivatives of {LARGEST + 1} variables are too many, and no l1 keeps most of them at 0"
    assert fx.solve(large, rounds=1).chosen == f"{why}{dense}"


def test_nothing_is_known_before_the_first_survey():
    with double():
        exact = exact_problem(rows("lasso"))
        server = fx.FeDualNewton().init(Facts(exact, 1), exact.geometry.project(flat_of(exact).like))
        assert not server.bounds.are_known
        assert float(server.merit) == UNKNOWN

"""What a survey returns besides the operator: the value of f, how far float64 may have missed it, and its floor."""

from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.catalogue import CATALOGUE, OWNER, TWO, X, catalogue
from support.deploying import DATA, task_of, works_of
from support.rational import dot, exact_value, number, numbers

import fedualex as fx
from fedualex import tree
from fedualex.certificates.rounding import UNSEEN
from fedualex.compiling import double
from fedualex.deploy import thread_engine
from fedualex.deploy.clients import AnswerCheck, SiteClients
from fedualex.regularizers.fenchel import UNIT
from fedualex.runtime import fingerprint
from fedualex.runtime.clients import SimulatedClients
from fedualex.runtime.outputs import exact_problem, map_in_pairs
from fedualex.runtime.surveying import survey_at, surveys_at

Floor = fx.problems.Floor
NAMES = [*CATALOGUE, "auc, small"]


def problem_of(name):
    """One of the catalogue, or an `auc` whose scores differ by less than 1 on the whole domain."""
    return catalogue(name) if name in CATALOGUE else fx.problems.auc(X / 1e4, TWO, OWNER, radius=0.5)


def random_point(problem, rng, size=1.0):
    drawn = jax.tree.map(lambda leaf: size * rng.normal(size=leaf.shape), problem.like)
    return tree.cast(problem.project(drawn), jnp.float64)


def compiled_surveys(exact, z):
    """The survey of a method's own exchange, and that of records, which ask in pairs."""
    alone = SimulatedClients.survey(SimpleNamespace(exact=exact), [z])
    return [*alone, *map_in_pairs(partial(surveys_at, exact), [z])]


# --- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", NAMES)
def test_a_survey_is_the_operator_and_the_loss(name):
    problem, rng = problem_of(name), np.random.default_rng(0)
    with double():
        exact = exact_problem(problem)
        z = random_point(problem, rng)
        found, g = exact.survey(z), exact.operator(z)
        compiled = compiled_surveys(exact, z)
        value = exact.loss(z)
    assert isinstance(found, fx.problems.Surveyed)
    for again in (found, *compiled):
        np.testing.assert_allclose(again.value, value, rtol=1e-12)
    for a, b in zip(jax.tree.leaves(found.operator), jax.tree.leaves(g), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15, atol=1e-15 * np.max(np.abs(b)))


def test_a_game_has_a_survey_too():
    game = fx.problems.bilinear([[1.0, 2.0]], [0.5], x=fx.Box(1.0), y=fx.Box(1.0))
    with double():
        found = game.survey(fx.Saddle(jnp.asarray([1.0, -1.0]), jnp.asarray([0.5])))
    assert float(found.value) == -0.75
    np.testing.assert_array_equal(found.operator.x, [0.5, 1.0])
    np.testing.assert_array_equal(found.operator.y, [1.5])


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_sites_sum_up_to_the_value_of_the_whole(kind):
    """In the precision that was asked for, with the weights in the order of the sites."""
    task, rng = task_of(), np.random.default_rng(0)
    weights = dict(zip(task.sites, map(float, DATA.client_weights(3)), strict=True))
    with double():
        run = task.prepare(DATA)
        options = {"timeout": 60.0, "needed": None, "attempts": 1, "averages": task.options.averages, "privacy": None}
        options["answer_check"] = AnswerCheck(run.view, None)
        sites = SiteClients(thread_engine(works_of(task, DATA)), run.setup, weights, run_id=run.run_id, **options)
        points = [tree.cast(random_point(DATA, rng), kind) for _ in range(2)]
        found = sites.survey(points)
        exact = exact_problem(DATA)
        for z, at in zip(points, found, strict=True):
            expected = exact.survey(tree.cast(z, jnp.float64))
            assert at.value.dtype == kind
            assert all(leaf.dtype == kind for leaf in jax.tree.leaves(at.operator))
            tolerance = 1e-12 if kind is np.float64 else 1e-5
            np.testing.assert_allclose(at.value, expected.value, rtol=tolerance)
            np.testing.assert_allclose(at.operator.x, expected.operator.x, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
def test_outputs_carry_the_value():
    problem = catalogue("lasso")
    run = fx.simulate(problem, fx.FeDualEx(1e-9), rounds=2)
    with double():
        for output in run.outputs.values():
            if output.evidence is not None:  # of several surveys, none of them at z
                assert output.value is None
                continue
            expected = exact_problem(problem).loss(tree.cast(output.z, jnp.float64))
            assert output.value == pytest.approx(float(expected), rel=1e-12)


# --- rounding -------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", NAMES)
def test_the_value_of_the_catalogue_is_off_by_no_more_than_its_error(name):
    problem, rng = problem_of(name), np.random.default_rng(1)
    for size in (1e-3, 1.0, 1e6):
        with double():
            exact = exact_problem(problem)
            z = random_point(problem, rng, size)
            found = exact.survey(z)
            error = exact.value_error(z, found)
            scale = abs(float(found.value)) + float(tree.dot(*(jax.tree.map(jnp.abs, a) for a in (found.operator, z))))
        assert not error.estimated
        assert abs(number(found.value) - exact_value(problem, jax.tree.map(np.asarray, z))) <= Fraction(
            float(error.size)
        )
        assert float(error.size) < 1e-6 * max(scale, 1.0)


def test_a_square_of_a_long_sum_is_bounded():
    """(n + 32) UNIT of the majorant alone is half of what a square of n terms of one sign can lose."""
    d = 2000
    problem = fx.problems.auc(np.ones((2, d)) * [[1.0], [-1.0]], [0, 1], [0, 0], radius=1.0)
    with double():
        exact = exact_problem(problem)
        z = tree.cast(
            problem.project(fx.Saddle({"weights": np.ones(d), "a": np.ones(()), "b": -np.ones(())}, -1.0)), float
        )
        size = float(exact.value_error(z, exact.survey(z)).size)
        most = float(jnp.sum(z.x["weights"]) + 1) ** 2 * 2
    assert size >= 2 * d * UNIT * most


def test_the_value_of_a_game_is_off_by_no_more_than_its_error():
    rng = np.random.default_rng(0)
    for n, m in [(1, 1), (2, 30), (20, 3), (17, 17)] * 3:
        A, b = rng.normal(size=(n, m)) + rng.choice([0, 1e6]), 10.0 ** rng.uniform(-8, 8) * rng.normal(size=n)
        game = fx.problems.bilinear(A, b, x=fx.Box(1e9), y=fx.Box(1e9))
        x, y = (10.0 ** rng.uniform(-8, 8) * rng.normal(size=k) for k in (m, n))
        with double():
            z = fx.Saddle(jnp.asarray(x), jnp.asarray(y))
            found = exact_problem(game).survey(z)
            error = exact_problem(game).value_error(z, found)
        row = [dot(numbers(line), numbers(x)) - number(c) for line, c in zip(A, b, strict=True)]
        assert not error.estimated
        assert abs(number(found.value) - dot(row, numbers(y))) <= Fraction(float(error.size))


@pytest.mark.slow
def test_estimates_of_the_error_of_a_value():
    rng, fine = np.random.default_rng(0), 0
    for _ in range(20):
        size = 10.0 ** rng.uniform(-4, 4)
        rows = size * (rng.normal(size=(40, 3)) + rng.choice([0, 1e3]) * rng.normal(size=3))
        w = rng.normal(size=3) / size
        target = rows @ w * (1 + 1e-3 * rng.normal(size=40))
        data, options = [{"row": rows, "target": target}], {"x": fx.Box(1e6), "like": fx.Saddle(np.zeros(3))}
        problem = fx.Problem(lambda x, e: (e["row"] @ x - e["target"]) ** 2, data=data, **options)
        with double():
            z = fx.Saddle(jnp.asarray(w))
            found = problem.survey(z)
            error = problem.value_error(z, found)
            unseen = problem.without_data().value_error(z, found)
        residuals = [dot(numbers(row), numbers(w)) - number(t) for row, t in zip(rows, target, strict=True)]
        fine += abs(number(found.value) - dot(residuals, residuals) / 40) <= Fraction(float(error.size))
        assert error.estimated
        assert unseen.estimated
        product = float(np.abs(found.operator.x) @ np.abs(w))
        assert float(unseen.size) == pytest.approx(UNSEEN * UNIT * max(abs(float(found.value)), product), rel=1e-12)
    assert fine >= 19


# --- floors ---------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", NAMES)
def test_f_is_never_below_its_floor(name):
    problem, rng = problem_of(name), np.random.default_rng(2)
    floor = problem.floor
    with double():
        exact = exact_problem(problem)
        for size in (0.0, 1e-6, 1e-3, 1.0, 1e3, 1e6):
            z = fx.Saddle(random_point(problem, rng, size).x, floor.y)
            if size in (0.0, 1.0):
                assert exact_value(problem, jax.tree.map(np.asarray, z)) >= Fraction(float(floor.value))
            found = survey_at(exact, z)
            assert float(found.value + exact.value_error(z, found).size) >= float(floor.value)


def test_the_floor_of_auc_is_that_of_its_formula():
    wide, small = catalogue("auc"), problem_of("auc, small")
    assert float(wide.floor.y) == -1.0
    assert float(wide.floor.value) == pytest.approx(1.0, abs=1e-12)
    c = float(small.geometry.parts.y.regularizer.core.upper)
    assert 0 < c < 1
    assert float(small.floor.y) == -c
    assert float(small.floor.value) == pytest.approx(1 - 2 * (1 - c) * c, abs=1e-12)
    assert wide.of_client(0).floor is not None
    assert small.of_client(0).floor is None  # a client's own classes may be further apart than all together


def test_games_and_attacks_have_no_floor():
    assert fx.problems.matrix_game(np.eye(2)).floor is None
    assert fx.problems.universal_adversarial(X, TWO, 0.1, 0.1).floor is None


def test_the_search_for_infeasible_limits_has_a_floor_of_its_own():
    problem = fx.problems.phase_one(catalogue("constrained"))
    assert float(problem.floor.value) == pytest.approx(-0.5, abs=1e-12)
    with double():
        z = fx.Saddle(random_point(problem, np.random.default_rng(0)).x, problem.floor.y)
        assert float(exact_problem(problem).loss(z)) >= float(problem.floor.value)


def least_squares(floor=None, **changes):
    options = {"x": fx.Box(1.0), "like": fx.Saddle(np.zeros(2)), "data": [np.ones((3, 2)), np.ones((1, 2))]}
    return fx.Problem(lambda x, row: (row @ x) ** 2, floor=floor, **options | changes)


def test_a_floor_survives_the_views_that_it_holds_for():
    rng = np.random.default_rng(0)
    for each in (True, False):
        problem = least_squares(Floor(None, -0.1, each=each))
        views = [problem.of_client(1), problem.reweighted([1, 2]), problem.sampled(2, rng)]
        assert [view.floor is not None for view in views] == [each] * 3
        with double():
            kept = [problem.without_data(), exact_problem(problem), *(views if each else ())]
            assert all(float(view.floor.value) == -0.1 for view in kept)
        assert fingerprint(problem) != fingerprint(least_squares(Floor(None, -0.2, each=each)))
    assert fingerprint(problem) != fingerprint(least_squares())


def test_a_server_has_the_floor():
    view = least_squares(Floor(None, 0.0), data="elsewhere")
    assert float(view.floor.value) == 0.0


@pytest.mark.parametrize(
    ("floor", "error", "message"),
    [
        (0.0, TypeError, r"floor must be fx\.problems\.Floor\(y, value\)"),
        (Floor(None, np.nan), ValueError, "floor.value must not contain nan"),
        (Floor(None, np.zeros(2)), ValueError, "floor.value must be one finite number"),
        (Floor(None, 0.0, each=1), TypeError, "floor.each must be True or False"),
        (Floor(np.zeros(2), 0.0), ValueError, "floor must have the structure of `like`"),
    ],
)
def test_a_wrong_floor_is_refused(floor, error, message):
    with pytest.raises(error, match=message):
        least_squares(floor)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(3), r"floor\.y must have shape \(2,\)"),
        (np.full(2, 2.0), "floor.y must be in the domain of y, got a point outside it by 1 of its size"),
        (None, "floor must have the structure of `like`"),
    ],
)
def test_a_floor_at_a_wrong_y_is_refused(y, message):
    options = {"x": fx.Box(1.0), "y": fx.Box(1.0), "like": fx.Saddle(np.zeros(2), np.zeros(2))}
    with pytest.raises(ValueError, match=message):
        fx.Problem(lambda x, y: x @ y, floor=Floor(y, 0.0), **options)

"""Surveys with second derivatives and dual cuts: Jacobians beside autodiff's, and Proposition F of docs/curvature.md."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.sparse import csr_array
from support.catalogue import CATALOGUE, catalogue
from support.plain_rows import OWNER, ROWS, SCORE, TWO, X, rows

import fedualex as fx
from fedualex.certificates.surveys import Curvature, flat_of
from fedualex.compiling import double
from fedualex.problems.curvature import DifferentiatedSurveyor, ScoreSurveyor, kink_of, surveyor_of
from fedualex.problems.known import is_affine
from fedualex.runtime.outputs import exact_problem
from fedualex.tree import Saddle

P = fx.problems
HEAVY = np.linspace(0.0, 3.0, 60)
"""Weights of rows, of which the first is 0."""
UNEVEN = np.repeat([0, 1, 2], [3, 7, 50])
"""Clients of which two are padded."""
SPARSE = csr_array(np.where(np.abs(X) > 0.7, X, 0.0))
THREE = (np.arange(60) + (X[:, 0] > 0)) % 3
MORE = {
    "agnostic, cvar": lambda: P.agnostic(X, TWO, OWNER, l1=0.05, cvar=0.5),
    "agnostic, spread": lambda: P.agnostic(X, TWO, OWNER, l1=0.05, spread=0.1),
    "agnostic, huber": lambda: P.agnostic(X, SCORE, OWNER, loss="huber", delta=0.5, l1=0.05),
    "agnostic, softmax": lambda: P.agnostic(X, THREE, OWNER, l1=0.05),
    "agnostic, groups over clients": lambda: P.agnostic(X, TWO, UNEVEN, groups=OWNER, l1=0.05),
    "agnostic, sparse, weights": lambda: P.agnostic(SPARSE, TWO, UNEVEN, l1=0.05, sample_weight=1 + HEAVY),
    "Neyman-Pearson": lambda: P.constrained(X, TWO, OWNER, groups="classes", limits={0: 0.4}, l1=0.01),
    "constrained, huber": lambda: P.constrained(X, SCORE, OWNER, limits=2.0, loss="huber", l2=0.1, multiplier=3.0),
    "logistic, sparse": lambda: P.sparse_glm("logistic", SPARSE, TWO, OWNER, l1=0.02),
    "logistic, sparse around a center": lambda: P.sparse_glm("logistic", SPARSE, TWO, OWNER, l1=0.02, center=X.mean(0)),
    "logistic, center": lambda: P.sparse_glm("logistic", X, TWO, OWNER, l1=0.02, center=X.mean(0)),
    "logistic, weights of rows": lambda: P.sparse_glm("logistic", X, TWO, UNEVEN, l1=0.02, sample_weight=HEAVY),
    "logistic, groups of columns": lambda: P.sparse_glm("logistic", X, TWO, OWNER, group=0.1, groups=[0, 0, 1, 1]),
    "logistic, no intercept": lambda: P.sparse_glm("logistic", X, TWO, UNEVEN, l1=0.02, intercept=False),
    "softmax": lambda: P.sparse_glm("logistic", X, THREE, UNEVEN, l1=0.02),
    "softmax, sparse": lambda: P.sparse_glm("logistic", SPARSE, THREE, UNEVEN, l1=0.02, sample_weight=HEAVY),
    "huber": lambda: P.sparse_glm("huber", X, SCORE, UNEVEN, l1=0.02),
    "auc, minimization": lambda: P.auc(X, TWO, OWNER, l1=0.01, saddle=False),
    "low rank, weights": lambda: P.low_rank(X, np.stack([SCORE, TWO], 1), UNEVEN, nuclear=0.2, sample_weight=1 + HEAVY),
}
EVERY = {
    **{f"{name}, plain": (lambda name=name: rows(name)) for name in ROWS},
    **{f"{name}, bad scales": (lambda name=name: catalogue(name)) for name in CATALOGUE},
    **MORE,
}
BY_JAX = {"auc, plain", "auc, bad scales", "auc, l2, bad scales", "robust, plain", "robust, bad scales"}
"""Saddle forms that are no sum of losses of scores."""
SCORED = sorted(EVERY.keys() - BY_JAX)


def made(name):
    with double():
        return exact_problem(EVERY[name]())


def points(problem, count, rng, spread=1.0):
    """Points of the domain, near 0 and far away; some with weights y that are 0."""
    flat = flat_of(problem)
    size = sum(np.size(leaf) for leaf in jax.tree.leaves(flat.like))
    for k in range(count):
        away = spread * 10.0 ** rng.uniform(-1, 1) * rng.normal(size=size)
        z = flat.geometry.project(flat.point(jnp.asarray(away)))
        if k % 3 == 0 and z.y is not None:
            z = flat.geometry.project(Saddle(z.x, jax.tree.map(lambda leaf: 1e6 * leaf, z.y)))
        yield jax.tree.map(np.asarray, z)


def entries(part):
    return np.concatenate([np.zeros(0), *(np.ravel(leaf) for leaf in jax.tree.leaves(part))])


def jacobian(problem, z):
    """By jax, of the operator that every other part of the library works with."""
    vector, back = ravel_pytree(jax.tree.map(jnp.asarray, z))
    return np.asarray(jax.jacfwd(lambda v: ravel_pytree(problem.operator(back(v)))[0])(vector))


def test_every_loss_of_scores_is_surveyed_by_its_rows():
    with double():
        kinds = {name: type(surveyor_of(made(name))) for name in EVERY}
    assert {name for name, kind in kinds.items() if kind is DifferentiatedSurveyor} == BY_JAX
    assert set(kinds.values()) == {ScoreSurveyor, DifferentiatedSurveyor}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", sorted(EVERY))
def test_second_derivatives_are_those_of_autodiff(name):
    """Value, operator and Jacobian beside the problem's own; Huber's second derivative is one of two at its kinks."""
    rng = np.random.default_rng(0)
    problem = made(name)
    surveyor = surveyor_of(problem)
    with double():
        for z in points(problem, 3, rng, 0.3):
            found, own = surveyor.survey(z, curvature=True), problem.survey(z)
            assert float(found.value) == pytest.approx(float(own.value), rel=1e-9, abs=1e-12)
            expected = entries(own.operator)
            size = np.max(np.abs(expected))
            np.testing.assert_allclose(entries(found.operator), expected, rtol=1e-9, atol=1e-9 * size)
            J = jacobian(problem, z)
            np.testing.assert_allclose(found.curvature.jacobian, J, rtol=1e-8, atol=1e-10 * np.max(np.abs(J)))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", sorted(EVERY))
def test_second_derivatives_of_some_entries_are_a_part_of_all(name):
    rng = np.random.default_rng(3)
    problem = made(name)
    surveyor, size = surveyor_of(problem), entries(problem.like.x).size
    with double():
        for z in points(problem, 2, rng, 0.3):
            whole = surveyor.survey(z, curvature=True).curvature
            for count in {0, 1, size // 2, size}:
                columns = np.sort(rng.choice(size, count, replace=False))
                some = surveyor.survey(z, curvature=True, columns=columns).curvature
                scale = np.max(np.abs(whole.jacobian))
                np.testing.assert_allclose(some.xx, whole.xx[np.ix_(columns, columns)], rtol=1e-11, atol=1e-13 * scale)
                np.testing.assert_allclose(some.yx, whole.yx[:, columns], rtol=1e-11, atol=1e-13 * scale)
                np.testing.assert_allclose(some.yy, whole.yy, rtol=1e-11, atol=1e-13 * scale)


AFFINE = [name for name in sorted(EVERY) if name.partition(",")[0] in ("auc", "lasso", "low rank", "low_rank")]


def test_losses_that_bend_are_not_declared_affine():
    bent = ("agnostic", "constrained", "huber", "logistic", "Neyman-Pearson", "softmax")
    assert not any(is_affine(EVERY[name]()) for name in EVERY if name.partition(",")[0] in bent)
    assert all(is_affine(EVERY[name]()) for name in AFFINE)


@pytest.mark.parametrize("name", AFFINE)
def test_what_is_declared_affine_has_one_jacobian(name):
    rng = np.random.default_rng(4)
    problem = made(name)
    surveyor = surveyor_of(problem)
    with double():
        one, other = (surveyor.survey(z, curvature=True).curvature.jacobian for z in points(problem, 2, rng))
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13 * np.max(np.abs(one)))


def test_a_loss_of_ones_own_is_differentiated():
    def loss(x, y, example):
        row, label = example
        return jnp.logaddexp(0, -label * (row + y["shift"]) @ x["w"]) - 5 * jnp.sum(y["shift"] ** 2)

    rng = np.random.default_rng(1)
    data = [(rng.normal(size=(n, 3)), rng.choice([-1.0, 1.0], n)) for n in (40, 25, 9)]
    like = fx.Saddle({"w": np.zeros(3)}, {"shift": np.zeros(3)})
    domain = {"x": {"w": fx.L1(0.01) + fx.Box(1.0)}, "y": {"shift": fx.L2Ball(0.3)}}
    with double():
        problem = exact_problem(fx.Problem(loss, **domain, like=like, data=data))
        for z in points(problem, 3, rng):
            found = surveyor_of(problem).survey(z, curvature=True, start=z)
            J = jacobian(problem, z)
            np.testing.assert_allclose(found.curvature.jacobian, J, rtol=1e-10, atol=1e-12 * np.max(np.abs(J)))
            assert np.any(found.curvature.yy)
            assert found.cut is None


def test_the_jacobian_has_the_signs_of_a_saddle():
    J = Curvature(np.full((2, 2), 1.0), np.full((1, 2), 2.0), np.full((1, 1), 3.0)).jacobian
    np.testing.assert_array_equal(J, [[1, 1, 2], [1, 1, 2], [-2, -2, 3]])


# Proposition F.


def closed_form(problem, start, z):
    """g_x(c) + J_xx (n_x - c_x) + J_xy (n_y - c_y)."""
    at = surveyor_of(problem).survey(start, curvature=True)
    step = entries(z) - entries(start)
    split = entries(z.x).size
    return entries(at.operator.x) + at.curvature.jacobian[:split] @ step


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", SCORED)
def test_dual_cuts_are_below_f(name):
    """(a): whatever the step was, so also where most rows are clipped and where some weights are 0."""
    rng = np.random.default_rng(2)
    problem = made(name)
    surveyor = surveyor_of(problem)
    with double():
        places = list(points(problem, 6, rng))
        for start, z in zip(places, [*places[1:], places[0]], strict=True):
            cut = surveyor.survey(z, start=start).cut
            slope = entries(cut.slope)
            for v in points(problem, 12, rng, 3.0):
                value = float(surveyor.survey(Saddle(v.x, z.y)).value)
                size = abs(value) + abs(float(cut.offset)) + np.abs(slope) @ np.abs(entries(v.x))
                assert slope @ entries(v.x) + float(cut.offset) <= value + 1e-12 * size


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", SCORED)
def test_the_cut_of_no_step_is_that_of_the_gradient(name):
    problem = made(name)
    surveyor = surveyor_of(problem)
    with double():
        for z in points(problem, 3, np.random.default_rng(3), 0.2):
            found = surveyor.survey(z, start=z)
            slope, g = entries(found.cut.slope), entries(found.operator.x)
            np.testing.assert_allclose(slope, g, rtol=1e-12, atol=1e-12 * np.max(np.abs(g)))
            size = abs(float(found.value)) + np.abs(g) @ np.abs(entries(z.x))
            assert slope @ entries(z.x) + float(found.cut.offset) == pytest.approx(float(found.value), abs=1e-9 * size)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", SCORED)
def test_short_steps_have_the_slope_of_the_model(name):
    """(b): nothing is clipped, and no row loses its weight."""
    rng = np.random.default_rng(4)
    problem = made(name)
    with double():
        flat = flat_of(problem)
        inside = jax.tree.map(np.asarray, flat.geometry.project(flat.like))
        aside = jax.tree.map(lambda leaf: leaf + 0.01 * rng.normal(size=leaf.shape), inside)
        start, near = (jax.tree.map(np.asarray, flat.geometry.project(each)) for each in (inside, aside))
        z = jax.tree.map(lambda a, b: a + 1e-5 * (b - a), start, near)
        slope, expected = entries(surveyor_of(problem).survey(z, start=start).cut.slope), closed_form(problem, start, z)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-11 * np.max(np.abs(expected)))


def test_far_steps_clip_rows_and_are_steeper_models_nowhere():
    """The same step ten times as long: the model's slope would be outside of what any row's loss can have."""
    problem = made("logistic, plain")
    rng = np.random.default_rng(5)
    with double():
        start = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf)), problem.like)
        z = Saddle({"weights": 30 * rng.normal(size=4), "bias": np.zeros(())})
        slope, model = entries(surveyor_of(problem).survey(z, start=start).cut.slope), closed_form(problem, start, z)
        # |slope| is at most the mean of |row|, because a logistic loss is nowhere steeper than 1.
        assert np.all(np.abs(slope) <= np.mean(np.abs(np.hstack([np.ones((60, 1)), X])), axis=0) + 1e-12)
        assert np.max(np.abs(model)) > 5 * np.max(np.abs(slope))


def test_rows_that_lose_their_weight_contribute_nothing():
    """At a vertex of the adversary's simplex only one client's rows are left: the cut is one of this client's loss."""
    problem = made("agnostic, plain")
    alone = exact_problem(P.sparse_glm("logistic", X[OWNER == 1], TWO[OWNER == 1], l1=0.05))
    with double():
        here = Saddle({"weights": np.full(4, 0.1), "bias": np.zeros(())}, np.full(3, 1 / 3))
        there = Saddle({"weights": np.full(4, 0.3), "bias": np.ones(())}, np.eye(3)[1])
        cut = surveyor_of(problem).survey(there, start=here).cut
        heights = [
            entries(cut.slope) @ entries(v.x) + float(cut.offset) - float(alone.survey(v).value)
            for v in points(alone, 5, np.random.default_rng(6))
        ]
        assert max(heights) <= 1e-12
        nearby = Saddle(there.x, np.array([1e-300, 1 - 2e-300, 1e-300]))
        again = surveyor_of(problem).survey(nearby, start=here).cut
        np.testing.assert_array_equal(entries(again.slope), entries(cut.slope))


# Where second derivatives need not exist.


@pytest.mark.parametrize(
    ("loss", "kink"),
    [
        (lambda x, y, row: jnp.logaddexp(0.0, row @ x) + x @ y, ""),
        (lambda x, y, row: jax.nn.logsumexp(row * x) + x @ y, ""),
        (lambda x, y, row: jax.nn.softplus(row @ x) + x @ y, ""),
        (lambda x, y, row: jnp.sum((row @ x) ** 2) + x @ y, ""),
        (lambda x, y, row: jnp.abs(row @ x) + x @ y, "abs"),
        (lambda x, y, row: jnp.maximum(row @ x, 0.0) + x @ y, "max"),
        (lambda x, y, row: jax.nn.relu(row @ x) + x @ y, "relu"),
        (lambda x, y, row: jnp.max(row * x) + x @ y, "reduce_max"),
        (lambda x, y, row: jnp.where(row @ x > 0, row @ x, 0.0) + x @ y, "select_n"),
    ],
)
def test_kinks_are_seen_in_the_program(loss, kink):
    like = fx.Saddle(np.zeros(2), np.zeros(2))
    problem = fx.Problem(loss, x=fx.Box(1.0), y=fx.Box(1.0), like=like, data=[np.ones((4, 2))])
    assert kink_of(problem) == kink


def test_problems_of_the_catalogue_vouch_for_themselves():
    assert {kink_of(EVERY[name]()) for name in EVERY} == {""}

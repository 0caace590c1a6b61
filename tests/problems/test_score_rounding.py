"""The rounding of bounds of losses of scores is proved: formulas, sums, and whole fits against many digits."""

from dataclasses import replace
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attack import rounding
from mpmath import mp, mpf
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

import fedualex as fx
from fedualex.bundle import Bounds, Side
from fedualex.certificates.surveys import flat_of, known_floor
from fedualex.compiling import double
from fedualex.problems import score_rounding
from fedualex.problems.curvature import surveyor_of
from fedualex.problems.families import Huber, Logistic, Softmax, Squared
from fedualex.problems.families.base import EXP_LOG
from fedualex.problems.score_rounding import score_errors
from fedualex.regularizers.fenchel import UNIT

RNG = np.random.default_rng(0)
SCORES = np.concatenate([RNG.normal(size=200) * 10 ** RNG.uniform(-8, 2.5, 200), RNG.uniform(-700, 700, 100)])


def units(found, exact, size):
    """The largest error, in units of UNIT times a size."""
    pairs = zip(np.ravel(found), exact, np.ravel(size), strict=True)
    return max(float(abs(mpf(float(a)) - b) / (UNIT * mpf(float(s)))) for a, b, s in pairs if s > 1e-290)


@pytest.mark.parametrize("space", [np, jnp], ids=["numpy", "jax"])
def test_exponentials_and_logarithms_are_as_accurate_as_assumed(space):
    with mp.workdps(100), double():
        exp, log, log1p = (
            np.asarray(f(space.asarray(SCORES)))
            for f in (space.exp, lambda a: space.log(abs(a)), lambda a: space.log1p(space.exp(-abs(a))))
        )
        points = [mpf(float(t)) for t in SCORES]
        assert units(exp, map(mp.exp, points), exp) <= EXP_LOG
        assert units(log, [mp.log(abs(t)) for t in points], np.abs(log)) <= EXP_LOG
        assert units(log1p, [mp.log1p(mp.exp(-abs(t))) for t in points], 1 + log1p) <= EXP_LOG


@pytest.mark.parametrize("family", [Squared(), Huber(0.7), Logistic()], ids=lambda f: f.name)
def test_losses_and_slopes_are_as_accurate_as_families_say(family):
    target = np.where(RNG.random(SCORES.size) < 0.5, 1.0, -1.0)
    with mp.workdps(60), double():
        said = family.accuracy(SCORES, target)
        exact = [exact_loss(family, mpf(float(s)), mpf(float(t))) for s, t in zip(SCORES, target, strict=True)]
        both = jax.jit(jax.vmap(jax.value_and_grad(family.loss)))(jnp.asarray(SCORES), jnp.asarray(target))
        plain = family.loss(SCORES, target), family.slope(SCORES, target)
        for loss, slope in (plain, map(np.asarray, both)):
            assert units(loss, [e[0] for e in exact], said.value) <= 1
            assert units(slope, [e[1] for e in exact], said.slope) <= 1


def exact_loss(family, score, target):
    if family.name == "logistic":
        grown = mp.exp(-target * score)
        return mp.log1p(grown), -target * grown / (1 + grown)
    apart = score - target
    if family.name == "squared" or abs(apart) <= mpf(float(family.delta)):
        return apart**2 / 2, apart
    delta = mpf(float(family.delta))
    return delta * abs(apart) - delta**2 / 2, mp.sign(apart) * delta


def test_softmax_is_as_accurate_as_it_says():
    scores, target = RNG.normal(size=(100, 4)) * 10 ** RNG.uniform(-6, 2.5, (100, 1)), RNG.integers(0, 4, 100)
    with mp.workdps(60), double():
        said = Softmax().accuracy(scores, target)
        exact = [softmax(row, int(c)) for row, c in zip(scores, target, strict=True)]
        both = jax.jit(jax.vmap(jax.value_and_grad(Softmax().loss)))(jnp.asarray(scores), jnp.asarray(target))
        plain = Softmax().loss(scores, target), Softmax().slope(scores, target)
        for loss, slope in (plain, map(np.asarray, both)):
            assert units(loss, [e[0] for e in exact], said.value) <= 1
            assert units(slope, [t for e in exact for t in e[1]], said.slope) <= 1


def softmax(row, own):
    grown = [mp.exp(mpf(float(t))) for t in row]
    total = sum(grown)
    return mp.log(total) - mpf(float(row[own])), [g / total - (k == own) for k, g in enumerate(grown)]


@pytest.mark.parametrize("family", [Squared(), Huber(0.7), Logistic(), Softmax()], ids=lambda f: f.name)
def test_conjugates_are_as_accurate_as_families_say(family):
    shape = (200, 4) if isinstance(family, Softmax) else (200,)
    target = RNG.integers(0, 4, 200) if len(shape) > 1 else np.where(RNG.random(200) < 0.5, 1.0, -1.0)
    a = family.clipped(RNG.normal(size=shape) * 10 ** RNG.uniform(-9, 1, (200,) + (1,) * (len(shape) - 1)), target)
    said, found = family.conjugate_accuracy(a, target), family.conjugate(a, target)
    with mp.workdps(60):
        exact = [exact_conjugate(family, *both) for both in zip(a, target, strict=True)]
        assert units(found, exact, np.maximum(said.value, 1e-280)) <= 1


def exact_conjugate(family, a, target):
    if isinstance(family, Softmax):
        shares = [mpf(float(t)) + (k == target) for k, t in enumerate(a)]
        total = sum(shares)
        return sum((t / total * mp.log(t / total) for t in shares if t > 0), mpf(0))
    a, target = mpf(float(a)), mpf(float(target))
    if family.name != "logistic":
        return a * (a / 2 + target)
    return sum((t * mp.log(t) for t in (-target * a, 1 + target * a) if t > 0), mpf(0))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_no_gap_of_a_fit_is_below_the_true_one_however_near_rounding(seed):
    """Ten of the two thousand problems each; `make attack PARTS=rounding` has the rest."""
    before = dict(rounding.COUNTS)
    for index in range(2):
        rounding.attack(np.random.default_rng([seed, 77, index]), several=5)
    new = {key: rounding.COUNTS[key] - before[key] for key in before}
    assert new["runs"] == new["proved"] > 5


TABLES = {"cancer": load_breast_cancer, "wine": load_wine, "diabetes": load_diabetes}


@pytest.mark.parametrize("name", TABLES)
def test_the_allowance_is_far_below_the_objective_on_scaled_tables(name):
    X, y = TABLES[name](return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    family, size = ("squared", float(np.var(y)) / 2) if name == "diabetes" else ("logistic", np.log(2))
    run = fx.solve(fx.problems.sparse_glm(family, X, y, l1=0.01 * size, l2=0.01), rounds=30, tol=1e-9 * size)
    certificate = run.answer.certificate
    assert not certificate.estimated
    assert str(run.answer.status) == "OPTIMAL"
    assert 0 < certificate.rounding < 1e-9 * size


def test_a_mean_of_weights_of_groups_costs_a_share_of_the_bound_and_no_loss_of_a_far_corner():
    """Squares at the end of a wide domain are 1e20 here; a lower bound is mixed with the floor."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6)) * 10.0 ** np.array([-6, -3, 0, 2, 4, 6])
    target = X @ (rng.normal(size=6) / np.abs(X).mean(axis=0)) + rng.normal(size=120)
    target = target / np.std(target)
    problem = fx.problems.agnostic(X, target, np.arange(120) % 3, groups=np.arange(120) % 2, loss="squared", l1=1e-3)
    bounds = fx.solve(problem, fx.FeDualNewton(), rounds=4, tol=None, output="bounds").state.server.bounds
    share, places = 0.75, np.arange(bounds.lower.weights.size)
    side = replace(bounds.lower, weights=np.where(places == 0, 1.0, 0.0))
    y, slope = (np.asarray(part) for part in (side.point, side.slope))
    mixed = replace(
        side,
        point=share * y + (1 - share) * np.asarray(problem.floor.y),
        slope=share * slope,
        offset=share * float(side.offset) + (1 - share) * float(problem.floor.value),
        weights=np.where(places == places[-1], 1 - share, share * side.weights),
    )
    errors = score_errors(problem).of(Bounds(bounds.upper, mixed))
    alone = score_errors(problem).of(Bounds(bounds.upper, side))
    assert errors.offset <= 2 * alone.offset + 1e-12
    assert np.all(errors.slope <= 2 * alone.slope + 1e-12)


def scattered(loss="squared"):
    """Rows whose columns have scales of 1e-6 to 1e6, under one l1."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(90, 6)) * 10.0 ** np.array([-6, -3, 0, 2, 4, 6])
    target = X @ (rng.normal(size=6) / np.abs(X).mean(axis=0)) + rng.normal(size=90)
    if loss != "squared":
        target = np.digitize(target, [-1, 1])
    return X, target, fx.problems.sparse_glm(loss, X, target, np.arange(90) % 3, l1=1e-3)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_columns_of_all_scales_cost_few_digits(loss):
    """Bounded in advance, the rounding of sums of numbers of 1e6 costs more than this under an l1 of 1e-3."""
    _, _, problem = scattered(loss)
    run = fx.solve(problem, fx.FeDualNewton(), rounds=20, tol=1e-6)
    assert run.answer.certificate.rounding < 1e-6
    assert str(run.answer.status) == "OPTIMAL"


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_what_a_bound_by_one_cut_differs_by_is_measured(loss, monkeypatch):
    """Whatever slope and offset a side claims: what is added to them is in its errors."""
    _, _, problem = scattered(loss)
    bounds = fx.solve(problem, fx.FeDualNewton(), rounds=5, tol=None, output="bounds").state.server.bounds
    slope, offset = np.asarray(bounds.lower.slope), float(bounds.lower.offset)
    shift = np.abs(slope) * np.where(np.arange(slope.size) % 2, 1e-9, -1e-9)
    moved = replace(bounds.lower, slope=slope + shift, offset=offset + 1e-9)
    with double():
        measured, claimed = (score_errors(problem).of(Bounds(bounds.upper, side)) for side in (bounds.lower, moved))
        assert np.all(claimed.slope[: slope.size] >= np.abs(shift) - measured.slope[: slope.size])
        assert claimed.offset >= 1e-9
        monkeypatch.setattr(score_rounding, "LONG_UNIT", UNIT)  # as on a machine without longer numbers
        proved = score_errors(problem).of(bounds)
    assert np.max(measured.slope) < np.max(proved.slope) / 20


def test_a_cut_does_not_exceed_the_loss_by_more_than_its_errors():
    """In rational numbers, where it touches the loss and beside."""
    X, target, problem = scattered()
    bounds = fx.solve(problem, fx.FeDualNewton(), rounds=3, tol=None, output="bounds").state.server.bounds
    with double():
        errors = score_errors(problem).of(bounds)
    side, size = bounds.lower, np.asarray(bounds.lower.slope).size
    place = int(np.argmax(np.asarray(side.weights)[:-1]))
    for scale in (0.0, 1e-9, 1e-3):
        v = np.asarray(side.points)[place] * (1 + scale * RNG.normal(size=size))
        b, *w = (Fraction(float(t)) for t in v)
        apart = [
            sum(Fraction(x) * c for x, c in zip(row, w, strict=True)) + b - Fraction(t)
            for row, t in zip(X, target, strict=True)
        ]
        exact = sum(t * t for t in apart) / (2 * len(X))
        cut = Fraction(float(side.offset)) + sum(
            Fraction(float(g)) * t for g, t in zip(side.slope, (b, *w), strict=True)
        )
        allowed = Fraction(errors.offset) + sum(
            Fraction(float(e)) * abs(t) for e, t in zip(errors.slope, (b, *w), strict=True)
        )
        assert exact >= cut - allowed
        assert float(allowed) < 1e-9


def test_blocks_sparse_rows_and_weights_are_proved_alike():
    X = RNG.normal(size=(5000, 3)) * (RNG.random((5000, 3)) < 0.5)
    y, weight = np.where(X[:, 0] + RNG.normal(size=5000) > 0, 1, -1), RNG.uniform(0.5, 2, 5000)
    found = []
    for rows in (X, csr_array(X)):
        problem = fx.problems.sparse_glm("logistic", rows, y, l2=0.1, sample_weight=weight, center=X.mean(axis=0))
        certificate = fx.solve(problem, rounds=20, tol=1e-11).answer.certificate
        assert not certificate.estimated
        found.append(certificate.rounding)
    assert found[0] == pytest.approx(found[1], rel=0.5)
    assert max(found) < 1e-10


def test_what_is_not_analyzed_stays_an_estimate_and_says_so():
    X, y = RNG.normal(size=(30, 2)), RNG.normal(size=30)

    def loss(x, example):
        return (example["row"] @ x - example["target"]) ** 2

    own = fx.Problem(
        loss,
        like=fx.Saddle(np.zeros(2)),
        x=fx.SquaredL2(0.1),
        data=[{"row": X, "target": y}],
        floor=fx.problems.Floor(None, 0.0),
    )
    certificate = fx.solve(own, rounds=20, tol=1e-6).outputs["bounds"].certificate
    assert certificate.estimated
    assert "an estimate" in str(certificate)

    class Changed(Squared):
        def loss(self, score, target):
            return 2 * super().loss(score, target)

    with double():
        assert score_errors(fx.problems.sparse_glm(Changed(), X, y, l2=0.1)) is None
        assert score_errors(fx.problems.sparse_glm("squared", X, y, l2=0.1).without_data()) is None
        assert score_errors(fx.problems.sparse_glm("squared", X, y, l2=0.1)) is not None


@pytest.mark.parametrize("method", [fx.FeDualNewton(), fx.FeDualSlide()], ids=["newton", "slide"])
def test_a_violation_is_not_below_the_exact_excess(method):
    """In rational numbers, at the model that is returned."""
    X, y, group = RNG.normal(size=(40, 2)), RNG.normal(size=40), np.arange(40) % 2
    limit = 0.4
    run = fx.solve(
        fx.problems.constrained(X, y, group, limits={0: limit}, loss="squared", l2=0.01, multiplier=5.0),
        method,
        rounds=15,
    )
    w, b = ([Fraction(float(t)) for t in np.ravel(run.z.x[name])] for name in ("weights", "bias"))
    own = [(X[i], y[i]) for i in range(40) if group[i] == 0]
    scores = [sum(Fraction(float(a)) * c for a, c in zip(row, w, strict=True)) + b[0] for row, _ in own]
    apart = [score - Fraction(float(t)) for score, (_, t) in zip(scores, own, strict=True)]
    excess = sum(t * t / 2 for t in apart) / len(own) - Fraction(limit)
    assert Fraction(run.violation) >= excess
    assert isinstance(method, fx.FeDualSlide) or float(Fraction(run.violation) - excess) < 1e-12


# What mixes several points of y is a bound, in 100 digits, where the mean is tight: all points have one x.


def mixed_points(seed):
    """A problem with rows of any size, points of one x, and weights of them from 1 down to 1e-17."""
    rng = np.random.default_rng(seed)
    count = int(rng.choice([2, 5, 40]))
    rows, columns = count * int(rng.choice([1, 3])) + int(rng.integers(5)), int(rng.integers(1, 5))
    X = rng.normal(size=(rows, columns)) * 10.0 ** rng.uniform(-8, 8, (rows, 1) if rng.random() < 0.5 else (1, columns))
    X, group = X + (1e8 if rng.random() < 0.2 else 0.0), np.arange(rows) % count
    family = str(rng.choice(["logistic", "squared", "huber"]))
    y = (
        np.where(np.arange(rows) // count % 2, 1.0, -1.0)
        if rows >= 2 * count
        else np.where(np.arange(rows) % 2, 1.0, -1.0)
    )
    y = y if family == "logistic" else rng.normal(size=rows) * 10.0 ** rng.uniform(-6, 6)
    weight = np.ones(rows) if rng.random() < 0.5 else 10.0 ** rng.uniform(-12, 3, rows)
    same = {"loss": family, "l2": 1.0, "radius": float(10 ** rng.uniform(-3, 3)), "sample_weight": weight}
    spread, limit, top = float(rng.choice([0.0, 0.1])), float(10 ** rng.uniform(-2, 2)), float(10 ** rng.uniform(-2, 4))
    mixture = rng.random() < 0.5
    if mixture:
        problem = fx.problems.agnostic(X, y, group, spread=spread, **same)
    else:
        problem = fx.problems.constrained(X, y, group, groups="clients", limits={0: limit}, multiplier=top, **same)
    k, others = int(rng.choice([1, 2, 20])), count if mixture else 1
    x = np.append(rng.normal() * 10.0 ** rng.uniform(-6, 3), rng.normal(size=columns) * 10.0 ** rng.uniform(-6, 3))
    ys = np.abs(rng.normal(size=(k, others))) * 10.0 ** rng.uniform(-12, 0, (k, others))
    ys = ys / ys.sum(axis=1, keepdims=True) if mixture else top * ys / ys.max()
    share = rng.random(k) * 10.0 ** rng.uniform(-17, 0, k)
    share = np.append(share, rng.random() if rng.random() < 0.5 else 0.0)

    def exact(v, mix):
        numbers = [[mpf(float(t)) for t in row] for row in X]
        score = [mpf(float(v[0])) + mp.fdot(row, [mpf(float(t)) for t in v[1:]]) for row in numbers]
        losses, own = (
            [_loss(family, s, mpf(float(t))) for s, t in zip(score, y, strict=True)],
            [mpf(float(t)) for t in weight],
        )

        def mean(chosen):
            some = np.flatnonzero(chosen)
            return mp.fdot([own[i] for i in some], [losses[i] for i in some]) / sum(own[i] for i in some)

        if mixture:
            means = [mean(group == g) for g in range(count)]
            shares = [(1 - mpf(spread)) * mpf(float(t)) + mpf(spread) * mpf(1.0 / count) for t in mix]
            return mp.fdot(shares, means)
        return mean(group != 0) + mpf(float(mix[0])) * (mean(group == 0) - mpf(limit))

    return problem, x, ys, share / share.sum(), exact


def _loss(family, score, target):
    if family == "logistic":
        return mp.log1p(mp.exp(-target * score))
    u = score - target
    return u * u / 2 if family == "squared" or abs(u) <= 1 else abs(u) - mpf(0.5)


def checked_mean(seed):
    """Whether the allowance is enough, and whether it was needed."""
    problem, x, ys, weights, exact = mixed_points(seed)
    errors, points = score_errors(problem), np.concatenate([np.tile(x, (len(ys), 1)), ys], axis=1)
    with double():
        flat, surveyor = flat_of(problem), surveyor_of(problem)
        found = [surveyor.survey(flat.point(jnp.asarray(z))) for z in points]
        operators = np.array([np.asarray(flat.vector(one.operator)) for one in found])[:, : x.size]
        floor = known_floor(problem, flat)
        slopes = np.concatenate([operators, np.zeros((1, x.size))])
        offsets = np.append([float(one.value) for one in found] - np.sum(operators * x, axis=1), float(floor.value))
        mixed = [jnp.asarray(weights) @ a for a in (np.concatenate([ys, np.asarray(floor.y)[None]]), slopes, offsets)]
        y, slope, offset = map(np.asarray, mixed)
        side = Side(np.zeros(()), y, slope, offset, points, weights, np.ones(()), np.ones(()))
        told = errors._measured_side(side) or errors._side(side, errors._lower, errors._of_mean_y)
    with mp.workdps(100):
        cut = mpf(float(offset)) + mp.fdot([mpf(float(t)) for t in slope], [mpf(float(t)) for t in x])
        below = cut - exact(x, y)
        allowed = mpf(told.offset) + mp.fdot([mpf(float(t)) for t in told.slope], [abs(mpf(float(t))) for t in x])
        return below <= allowed, below > 0


@pytest.mark.parametrize("count", [8, pytest.param(300, marks=pytest.mark.slow)])
def test_a_mean_of_points_is_a_bound_in_100_digits_with_its_allowance_and_not_without(count):
    """Means of up to 20 points and the floor, weights from 1 to 1e-17, 2 to 40 groups, rows from 1e-8 to 1e8."""
    found = [checked_mean(seed) for seed in range(count)]
    assert all(enough for enough, _ in found)
    assert sum(needed for _, needed in found) >= count // 5

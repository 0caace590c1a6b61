"""Estimates and covariances beside statsmodels, and what is proved of them."""

import numpy as np
import pytest
import statsmodels.api as sm
from support.effects import Parties, cut, draw_rows, draw_target, family_named

from fedualex.inference.newton import Outcome, estimate
from fedualex.inference.sums import Design, from_triangle

ROWS, COLUMNS, CLASSES = 600, 3, 3
SEEDS = [range(15), pytest.param(range(15, 125), marks=pytest.mark.slow)]
CONCORDANT = {"logistic": True, "multiclass": True, "poisson": True, "squared": False}


def table(name, seed=0, parties=8):
    rng = np.random.default_rng(seed)
    X = draw_rows(rng, ROWS, COLUMNS)
    who = rng.integers(0, parties, ROWS)
    shift = 0.5 * rng.normal(size=parties)[who]
    slopes = np.array([0.5, -0.7, 0.0])
    score = X @ slopes + shift - 0.3
    if name == "multiclass":
        score = np.stack([0 * score, score, X @ [0.2, 0.4, -0.6] - shift], axis=1)
    return Design(X, draw_target(rng, name, score), np.ones(ROWS)), who


def found(name, design, who, own=False, **options):
    family = family_named(name)
    contrasts = CLASSES - 1 if name == "multiclass" else 1
    size = contrasts * (design.rows.shape[1] + (not own))
    asking = Parties(family, cut(design, who), own)
    answer = estimate(
        asking,
        np.zeros(size),
        names=[f"b{j}" for j in range(size)],
        exact=family.exact_second,
        self_concordant=CONCORDANT[name],
        **options,
    )
    assert answer.exchanges == asking.asked
    return answer


def reference(name, X, target, **kind):
    if name == "logistic":
        return sm.Logit((target > 0).astype(int), X).fit(disp=0, method="newton", tol=1e-12, **kind)
    if name == "multiclass":
        return sm.MNLogit(target, X).fit(disp=0, method="newton", tol=1e-12, **kind)
    if name == "poisson":
        return sm.GLM(target, X, family=sm.families.Poisson()).fit(tol=1e-14, **kind)
    return sm.OLS(target, X).fit(**kind)


def flat(name, numbers):
    """Parameters of one column side by side; statsmodels has those of one class side by side."""
    return np.asarray(numbers).ravel() if name == "multiclass" else np.asarray(numbers)


def reordered(name, matrix):
    """A covariance of statsmodels, with the parameters of one column side by side."""
    matrix = np.asarray(matrix)
    if name != "multiclass":
        return matrix
    columns = len(matrix) // (CLASSES - 1)
    order = np.arange(len(matrix)).reshape(CLASSES - 1, columns).T.ravel()
    return matrix[np.ix_(order, order)]


@pytest.mark.parametrize("name", CONCORDANT)
def test_estimates_are_those_of_statsmodels(name):
    design, who = table(name)
    answer = found(name, design, who)
    X = sm.add_constant(design.rows)
    ours = reference(name, X, design.target)
    assert answer.outcome is Outcome.DONE
    np.testing.assert_allclose(answer.beta, flat(name, ours.params), atol=1e-7)
    np.testing.assert_allclose(answer.model_based, reordered(name, ours.cov_params()), rtol=1e-6, atol=1e-9)
    assert answer.exchanges <= 8


@pytest.mark.parametrize("name", ["logistic", "poisson", "squared"])
def test_sandwiches_are_those_of_statsmodels(name):
    """HC0 over rows; by party with statsmodels' factor G / (G - 1) (n - 1) / (n - k)."""
    design, who = table(name)
    answer = found(name, design, who)
    X = sm.add_constant(design.rows)
    rows = reference(name, X, design.target, cov_type="HC0")
    np.testing.assert_allclose(answer.sandwich, rows.cov_params(), rtol=1e-6, atol=1e-10)
    parties = reference(name, X, design.target, cov_type="cluster", cov_kwds={"groups": who})
    np.testing.assert_allclose(answer.clustered, parties.cov_params(), rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("name", CONCORDANT)
def test_own_intercepts_are_those_of_dummies(name):
    design, who = table(name)
    answer = found(name, design, who, own=True)
    dummies = (who[:, None] == np.unique(who)).astype(float)
    X = np.concatenate([design.rows, dummies], axis=1)
    ours = reference(name, X, design.target)
    size = answer.beta.size
    np.testing.assert_allclose(answer.beta, flat(name, ours.params)[:size], atol=1e-7)
    expected = reordered(name, ours.cov_params())[:size, :size]
    np.testing.assert_allclose(answer.model_based, expected, rtol=1e-6, atol=1e-9)
    assert answer.parameters == size + dummies.shape[1] * (2 if name == "multiclass" else 1)
    if name == "squared":
        assert answer.degrees == ours.df_resid
    if name != "multiclass":
        rows = reference(name, X, design.target, cov_type="HC0").cov_params()
        np.testing.assert_allclose(answer.sandwich, rows[:size, :size], rtol=1e-6, atol=1e-10)
        kinds = {"cov_type": "cluster", "cov_kwds": {"groups": who}}
        parties = reference(name, X, design.target, **kinds).cov_params()
        np.testing.assert_allclose(answer.clustered, parties[:size, :size], rtol=1e-6, atol=1e-10)


def test_multiclass_sandwich_is_that_of_its_scores():
    """statsmodels has none of MNLogit: the scores of the rows, and the matrix of its own covariance."""
    design, who = table("multiclass")
    answer = found("multiclass", design, who)
    X = sm.add_constant(design.rows)
    ours = reference("multiclass", X, design.target)
    share = ours.predict()[:, 1:]
    scores = (X[:, :, None] * (share - (design.target[:, None] == [1, 2]))[:, None, :]).reshape(ROWS, -1)
    bread = reordered("multiclass", ours.cov_params())
    np.testing.assert_allclose(answer.sandwich, bread @ scores.T @ scores @ bread, rtol=1e-5, atol=1e-9)


def test_weights_are_counts_of_rows():
    design, who = table("logistic")
    weight = np.random.default_rng(1).integers(0, 3, ROWS)
    again = Design(*(np.repeat(part, weight, axis=0) for part in design))
    weighted = found("logistic", design._replace(weight=weight.astype(float)), who)
    repeated = found("logistic", again, np.repeat(who, weight))
    np.testing.assert_allclose(weighted.beta, repeated.beta, atol=1e-9)
    np.testing.assert_allclose(weighted.model_based, repeated.model_based, rtol=1e-7)
    assert weighted.rows == np.sum(weight > 0)


def test_a_party_of_one_class_says_nothing_with_an_intercept_of_its_own():
    design, who = table("logistic")
    target = np.where(who == 0, 1.0, design.target)
    answer = found("logistic", design._replace(target=target), who, own=True)
    others = who != 0
    without = found("logistic", Design(*(part[others] for part in design)), who[others], own=True)
    np.testing.assert_allclose(answer.beta, without.beta, atol=1e-9)
    np.testing.assert_allclose(answer.model_based, without.model_based, rtol=1e-7)
    assert (answer.uninformative, answer.rows) == (np.sum(who == 0), np.sum(others))


def test_a_party_without_a_class_is_one_of_the_other_classes():
    """Its own intercept of that class is -inf, which dummies in statsmodels approach."""
    design, who = table("multiclass")
    for missing in range(CLASSES):
        target = np.where((who == 0) & (design.target == missing), (missing + 1) % CLASSES, design.target)
        answer = found("multiclass", design._replace(target=target), who, own=True)
        dummies = (who[:, None] == np.unique(who)).astype(float)
        X = np.concatenate([design.rows, dummies], axis=1)
        ours = sm.MNLogit(target, X).fit(disp=0, method="newton", maxiter=15, warn_convergence=False)
        np.testing.assert_allclose(answer.beta, np.asarray(ours.params).ravel()[: answer.beta.size], atol=1e-4)


def test_clusters_need_more_parties_than_parameters():
    design, who = table("logistic", parties=4)
    assert found("logistic", design, who).clustered is None


def test_huber_is_fitted_and_nothing_is_proved():
    design, who = table("squared")
    family = family_named("huber")
    answer = estimate(Parties(family, cut(design, who)), np.zeros(4), names="abcd", exact=False, self_concordant=False)
    assert answer.outcome is Outcome.DONE
    assert np.all(np.isinf(answer.bounds))
    assert np.max(np.abs(Parties(family, cut(design, who))(answer.beta, False)["slope"])) < 1e-6


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("name", CONCORDANT)
def test_bounds_hold_wherever_the_search_stops(name, seeds, monkeypatch):
    """Of 500 random problems in all: the truth is the same search, gone on to rounding."""
    monkeypatch.setattr("fedualex.inference.newton.CLOSE", 0.1)
    claimed = 0
    for seed in seeds:
        design, who = table(name, seed, parties=3)
        own = bool(seed % 2)
        loose = found(name, design, who, own)
        if loose.outcome is not Outcome.DONE:
            continue
        asking = Parties(family_named(name), cut(design, who), own)
        truth = loose.beta
        for _ in range(12):
            sums = asking(truth, False)
            truth = truth - np.linalg.solve(from_triangle(sums["second"]), sums["slope"])
        away, least = np.abs(loose.beta - truth), float(asking(truth, False)["value"])
        assert np.all(away <= loose.bounds + 1e-13), seed
        assert loose.value - least <= loose.gap + 1e-11 * abs(least)
        claimed += 1
    assert claimed > 0.8 * len(seeds)


def test_counts_without_events_in_a_column():
    """A Poisson loss falls forever along a column that is only there where the count is 0."""
    rng = np.random.default_rng(0)
    design, who = table("poisson")
    rare = (rng.random(ROWS) < 0.2).astype(float)
    target = np.where(rare > 0, 0.0, design.target)
    answer = found("poisson", Design(np.column_stack([design.rows, rare]), target, design.weight), who)
    assert answer.outcome is Outcome.SEPARABLE
    assert answer.direction == {"b4": -1.0}


def test_a_start_far_away_is_found_back():
    """exp() of a score overflows at the start of counts; what is sent is finite, and the search says that it failed."""
    design, who = table("poisson")
    family = family_named("poisson")
    asking = Parties(family, cut(design, who))
    options = {"names": "abcd", "exact": False, "self_concordant": True}
    lost = estimate(asking, np.array([0.0, 900.0, 0.0, 0.0]), **options)
    assert all(np.all(np.isfinite(part)) for part in asking(np.array([0.0, 900.0, 0.0, 0.0]), True).values())
    assert lost.outcome is Outcome.NOT_REACHED
    near = estimate(asking, np.array([3.0, 2.0, 0.0, 0.0]), **options)
    np.testing.assert_allclose(near.beta, found("poisson", design, who).beta, atol=1e-7)


def test_a_party_without_rows_changes_nothing():
    design, who = table("logistic")
    family = family_named("logistic")
    none = Design(*(part[:0] for part in design))
    for own in (False, True):
        beta = np.zeros(4 - own)
        whole = Parties(family, [*cut(design, who), none], own)(beta, True)
        for name, part in Parties(family, cut(design, who), own)(beta, True).items():
            np.testing.assert_array_equal(part, whole[name], name)

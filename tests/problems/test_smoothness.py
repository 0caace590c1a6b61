"""Smoothness constants: bounds that hold at every pair of points, and that each client finds from its own rows."""

import jax
import numpy as np
import pytest
from scipy.sparse import csr_array
from support.pooled import CASES, SIZES, owners, tables

import fedualex as fx
from fedualex.compiling import compile_quickly, double
from fedualex.problems import assemble, gather, split_rows
from fedualex.problems.known import beta_of, slope_of, smoothness_of
from fedualex.summaries import merge_summaries

KINDS = ("random", "constant columns", "weights", "one row of each class weighs")
ROUNDING = 1 + 1e-9
PAIRS = 40
EVERY = pytest.mark.parametrize("name", CASES)
MERGED = [name for name in CASES if name not in ("agnostic", "robust")]
"""Those whose client with the rows of two is a mean of the two: a dual of each row or client belongs to its owner."""


def parts_of(name, t, o):
    _, target, _, group = CASES[name]
    return split_rows(t["X"], t[target], o, t["weight"], None if group is None else t[group])


def problem_of(name, kind, clients):
    t = tables(kind)
    o = owners(clients)
    if name == "agnostic" and t["weight"] is not None:  # of which every client needs a row that weighs something
        o = np.zeros_like(o)
    return assemble(CASES[name][0], parts_of(name, t, o))


@compile_quickly
def quotients(problem, points, others):
    """||g_m(z) - g_m(z')||_* / ||z - z'|| of each client and pair, and ||g_m(z)||_*."""
    geometry = problem.geometry

    def of(client, z, other):
        g, h = problem.client_operator(client, z), problem.client_operator(client, other)
        apart = geometry.norm(jax.tree.map(lambda a, b: a - b, z, other))
        change = geometry.dual_norm(jax.tree.map(lambda a, b: a - b, g, h))
        return jax.numpy.where(apart > 0, change / apart, 0.0), geometry.dual_norm(g)

    return jax.lax.map(lambda client: jax.vmap(lambda z, other: of(client, z, other))(points, others), problem.data)


def largest_seen(problem, seed=0):
    """The largest at pairs of points of the domain: near to each other and far apart, inside and at its boundary."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.uniform(-2, 3, PAIRS)

    def drawn():
        return jax.tree.map(
            lambda u: sizes.reshape(-1, *(1,) * np.ndim(u)) * rng.normal(size=(PAIRS, *np.shape(u))), problem.like
        )

    with double():
        project = compile_quickly(jax.vmap(problem.geometry.project))
        z, away = project(drawn()), drawn()
        steps = 10.0 ** rng.uniform(-4, 0, PAIRS)
        near = project(jax.tree.map(lambda a, b: a + steps.reshape(-1, *(1,) * (a.ndim - 1)) * b, z, away))
        return tuple(float(np.max(np.asarray(found))) for found in quotients(problem, z, near))


@pytest.mark.sampled(97)
@pytest.mark.parametrize("clients", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@EVERY
def test_no_operator_changes_faster_or_is_larger(name, kind, clients):
    problem = problem_of(name, kind, clients)
    constants = fx.theory.constants(problem)
    change, slope = largest_seen(problem)
    assert change <= constants.beta * ROUNDING
    assert slope <= constants.grad_bound * ROUNDING
    assert {constants.how[key] for key in ("beta", "grad_bound")} == {"bound"}


@pytest.mark.parametrize("clients", SIZES)
@pytest.mark.parametrize(("name", "curvature"), [("lasso", 1.0), ("low rank", 1.0), ("logistic", 0.25)])
def test_the_bound_of_a_linear_model_is_that_of_the_rows(name, curvature, clients):
    """Attained: by squares everywhere, and by the logistic loss at 0."""
    t, o = tables("weights"), owners(clients)
    found = []
    for m in range(clients):
        own, w = np.c_[t["X"][o == m], np.ones(np.sum(o == m))], t["weight"][o == m]
        w = w / w.sum() if w.any() else w
        found.append(curvature * np.linalg.eigvalsh(own.T @ (w[:, None] * own))[-1])
    assert beta_of(problem_of(name, "weights", clients)) == pytest.approx(max(found), rel=1e-9)


@pytest.mark.sampled(13)
@EVERY
def test_it_is_the_largest_of_what_each_client_finds_alone(name):
    recipe, t = CASES[name][0], tables("random")
    parts = parts_of(name, t, np.arange(len(t["X"])) % 4)
    problem, known = assemble(recipe, parts), gather(recipe, parts)
    sent = [recipe.smoothness(rows, known, m) for m, rows in enumerate(parts)]
    assert {key: shape for one in sent for key, shape in one.shapes.items()} == {"beta": (), "slope": ()}
    whole = smoothness_of(problem)
    assert float(whole.beta) == max(float(one.largest["beta"]) for one in sent)
    np.testing.assert_allclose(whole.slope, max(float(one.largest["slope"]) for one in sent), rtol=1e-12)
    assert beta_of(problem) == max(beta_of(problem.of_client(m)) for m in range(4))
    told = recipe.problem([*known, merge_summaries(sent)], "elsewhere")
    assert fx.theory.constants(told).beta == beta_of(problem)
    assert slope_of(told) == float(merge_summaries(sent)["slope"])


@pytest.mark.sampled(4)
@EVERY
def test_the_order_of_clients_does_not_matter(name):
    t, o = tables("random"), owners(4)
    first, other = (assemble(CASES[name][0], parts_of(name, t, order)) for order in (o, 3 - o))
    assert beta_of(first) == pytest.approx(beta_of(other), rel=1e-12)


@pytest.mark.parametrize("name", MERGED)
def test_two_clients_that_become_one_never_raise_it(name):
    t, o = tables("random"), owners(4)
    apart, together = (assemble(CASES[name][0], parts_of(name, t, order)) for order in (o, np.minimum(o, 2)))
    assert beta_of(together) <= beta_of(apart) * ROUNDING


@pytest.mark.parametrize(
    "build",
    [
        lambda X, y, o: fx.problems.auc(X, y, o, l2=0.1),
        lambda X, y, o: fx.problems.auc(X, y, o, l2=0.1, saddle=False),
        lambda X, y, o: fx.problems.sparse_glm("logistic", X, y, o, l2=0.1, center=np.full(X.shape[1], 0.3)),
        lambda X, y, o: fx.problems.agnostic(X, y, o, l2=0.1),
        lambda X, y, o: fx.problems.robust_regression(X, y, o, l1=0.1),
    ],
    ids=["auc", "auc, plain", "logistic", "agnostic", "robust"],
)
@pytest.mark.parametrize("large", [False, True])
def test_sparse_rows_have_the_bound_of_full_ones(build, large, monkeypatch):
    """Of the plain AUC, whose sparse rows keep their classes' means, one that is not much larger."""
    if large:
        monkeypatch.setattr("fedualex.problems.scores.FEW", 1)
    rng = np.random.default_rng(0)
    X = np.where(rng.uniform(size=(40, 6)) < 0.5, 0.0, rng.normal(size=(40, 6)))
    y, o = rng.integers(0, 2, 40).astype(float), rng.integers(0, 3, 40)
    full, sparse = beta_of(build(X, y, o)), beta_of(build(csr_array(X), y, o))
    assert full * (1 - 1e-9) <= sparse <= full * 2
    if "class" not in build(csr_array(X), y, o).data.examples:
        assert sparse == pytest.approx(full, rel=1e-9)


def test_a_loss_of_ones_own_has_an_estimate_and_nothing_to_tell():
    problem = fx.Problem(
        lambda x, example: (x @ example) ** 2, x=fx.L2Ball(1.0), like=fx.Saddle(np.zeros(2)), data=[np.ones((3, 2))]
    )
    assert smoothness_of(problem) is None
    assert fx.theory.constants(problem).how["beta"] == "estimate"

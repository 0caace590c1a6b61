"""Sparse rows: the same problems as of the same rows in full, in less memory."""

import equinox as eqx
import jax
import numpy as np
import pytest
import scipy.sparse as sp
from support.pooled import CASES, DELTA, L1, L2, ROWS, owners, tables

import fedualex as fx
from fedualex.compiling import double
from fedualex.problems import Rows, assemble, gather, split_rows
from fedualex.problems.rows import SparseRow, example_rows
from fedualex.testing import check_problem

P = fx.problems
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
ALL = {
    **{name: (recipe, target, group) for name, (recipe, target, _, group) in CASES.items()},
    "agnostic, squared": (P.AgnosticRecipe("squared", l2=L2), "score", None),
    "agnostic, multiclass": (P.AgnosticRecipe("multiclass", l1=L1), "three", None),
    "constrained, huber": (P.ConstrainedRecipe(9.0, "huber", DELTA, l1=L1), "score", "group"),
}
EVERY = pytest.mark.parametrize("name", ALL)


def thin():
    """The rows of `tables` with seven columns, most of their entries 0: an empty row, and client 1 has only such."""
    t, o, rng = tables("weights"), owners(3), np.random.default_rng(2)
    X = np.round(np.hstack([t["X"], rng.normal(size=(ROWS, 4))]), 3) * (rng.random((ROWS, 7)) < 0.3)
    X[o == 1] = 0
    X[np.flatnonzero(o == 0)[0]] = 0
    return {**t, "X": X}, o


def both(name):
    """A problem of the catalogue from full rows, and from sparse ones."""
    recipe, target, group = ALL[name]
    t, o = thin()
    group = None if group is None else t[group]
    full, sparse = (split_rows(X, t[target], o, t["weight"], group) for X in (t["X"], sp.csr_array(t["X"])))
    return assemble(recipe, full), assemble(recipe, sparse)


def points(problem, count=2):
    rng = np.random.default_rng(0)
    return [jax.tree.map(lambda leaf: 0.3 * rng.normal(size=np.shape(leaf)), problem.like) for _ in range(count)]


def same(a, b):
    jax.tree.map(lambda u, v: np.testing.assert_allclose(u, v, **CLOSE), a, b)


def arrays(a):
    return eqx.filter(a, eqx.is_array_like)


@eqx.filter_jit
def seen(problem, z, key):
    """What is computed of a problem: the survey, its error, and the operator of a client's minibatch."""
    client = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf)[0], problem.data)
    found = problem.survey(z)
    return found, problem.minibatch_operator(client, z, 2, key)


# --- equivalence -----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(5)
@EVERY
def test_sparse_rows_are_the_same_problem(name):
    full, sparse = both(name)
    assert isinstance(sparse.data.examples["row"], SparseRow)
    same(arrays(full.geometry), arrays(sparse.geometry))
    same(full.floor and full.floor.value, sparse.floor and sparse.floor.value)
    with double():
        for z in points(full):
            if name == "auc, plain":  # a client's full rows are fewer: there are no draws to compare
                same(full.survey(z), sparse.survey(z))
            else:
                same(*(seen(problem, z, jax.random.key(3)) for problem in (full, sparse)))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", sorted(set(ALL) - {"adversarial"}))
def test_certificate_of_sparse_rows(name):
    full, sparse = both(name)
    with double():
        z = full.geometry.project(points(full, 1)[0])
    a, b = full.certificate(z), sparse.certificate(z)
    assert a.gap == pytest.approx(b.gap, rel=1e-12, abs=1e-12)
    assert not b.estimated
    assert 0 < b.rounding < 1e-11


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("family", "target"), [("squared", "score"), ("logistic", "two"), ("logistic", "three")])
def test_a_center_is_taken_off_every_row(family, target):
    """The problem of the rows less the center in full: domains, surveys and the score of a row that is not centered."""
    t, o = thin()
    center = t["X"].mean(axis=0)
    full = P.sparse_glm(family, t["X"] - center, t[target], o, l1=L1)
    sparse = P.sparse_glm(family, sp.csr_array(t["X"]), t[target], o, l1=L1, center=center)
    same(arrays(full.geometry), arrays(sparse.geometry))
    with double():
        for z in points(full):
            same(full.survey(z), sparse.survey(z))
    weights, bias = points(full, 1)[0].x["weights"], points(full, 1)[0].x["bias"]
    own = P.SparseGlmRecipe(family, l1=L1, center=center).bias([], {"weights": weights, "bias": bias})
    np.testing.assert_allclose(t["X"] @ weights + own, (t["X"] - center) @ weights + bias, **CLOSE)


def test_a_center_must_be_a_row():
    with pytest.raises(ValueError, match="center must be 2 numbers, one for each column of X"):
        P.sparse_glm("squared", np.eye(2), [0.0, 1.0], l1=0.1, center=[1.0, 2.0, 3.0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["auc", "auc, plain", "softmax", "robust"])
def test_laws_of_a_problem_with_sparse_rows(name):
    check_problem(both(name)[1])


@pytest.mark.slow
def test_errors_of_sparse_rows_hold_far_from_zero():
    """Rows far from 0 lose digits, and the bounds of rounding know: float64 against the same in more digits."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((30, 4)) < 0.5, 1e6 + rng.normal(size=(30, 4)), 0.0)
    y = (rng.random(30) < 0.5).astype(int)
    for saddle in (True, False):
        problem = P.auc(sp.csr_array(X), y, np.arange(30) % 2, l2=0.1, saddle=saddle)
        z = points(problem, 1)[0]
        with double():
            found = problem.survey(z)
            allowed = float(problem.value_error(z, found).size)
            exact = _exact(problem, z)
        assert abs(float(found.value) - exact) <= allowed


def test_error_of_a_center_far_from_zero():
    """The same where the score of the center is taken off that of the row."""
    rng, long = np.random.default_rng(0), np.longdouble
    X = np.where(rng.random((30, 4)) < 0.5, 1e6 + rng.normal(size=(30, 4)), 0.0)
    y, center = rng.normal(size=30), X.mean(axis=0)
    problem = P.sparse_glm("squared", sp.csr_array(X), y, l2=0.1, center=center)
    z = points(problem, 1)[0]
    with double():
        found = problem.survey(z)
        allowed = float(problem.value_error(z, found).size)
    score = (X.astype(long) - center.astype(long)) @ np.asarray(z.x["weights"], long) + long(float(z.x["bias"]))
    exact = float(((score - y) ** 2).mean() / 2)
    assert abs(float(found.value) - exact) <= allowed < 1e-11 * exact


def _exact(problem, z):
    """f in long doubles."""
    long = np.longdouble
    examples, counts = problem.data.examples, problem.data.counts
    w, total = np.asarray(z.x["weights"], long), long(0)
    for m, count in enumerate(counts):
        index, value = examples["row"].index[m, :count], examples["row"].value[m, :count].astype(long)
        score, weight = np.sum(value * w[index], axis=1), examples["weight"][m, :count].astype(long)
        if z.y is None:
            center = (problem.f.means.astype(long) @ w)[examples["class"][m, :count]]
            each = weight * (score - center) ** 2 + (1 - problem.f.difference.astype(long) @ w) ** 2
        else:
            sign, alpha = examples["sign"][m, :count].astype(long), long(float(z.y))
            score = score - problem.f.middle.astype(long) @ w
            center = np.where(sign > 0, long(float(z.x["a"])), long(float(z.x["b"])))
            each = weight * ((score - center) ** 2 - 2 * (1 + alpha) * sign * score) + 1
        total += long(problem.weights[m]) * each.mean()
    return float(total)


@pytest.mark.slow
def test_a_run_on_sparse_rows_ends_where_the_full_one_does():
    t, o = thin()
    runs = [
        fx.solve(P.sparse_glm("logistic", X, t["two"], o, l1=L1), fx.FeDualSlide(), rounds=200, local_steps=1, tol=1e-6)
        for X in (t["X"], sp.csr_array(t["X"]))
    ]
    assert all(run.status is fx.Status.OPTIMAL for run in runs)
    np.testing.assert_allclose(*(run.z.x["weights"] for run in runs), atol=1e-3)


# --- formats ---------------------------------------------------------------------------------------------------------


def test_any_sparse_matrix_is_one_problem():
    """Formats, whole numbers, duplicates, explicit zeros and unsorted columns: the same examples, bit by bit."""
    X = np.array([[0, 2, 0], [3, 0, 1], [0, 0, 0], [1, 1, 0]])
    untidy = sp.csr_matrix(([1.0, 1.0, 1.0, 0.0, 3.0, 1.0, 1.0], [1, 1, 2, 1, 0, 1, 0], [0, 2, 5, 5, 7]), shape=X.shape)
    assert not untidy.has_canonical_format
    kinds = [
        kind(X) for kind in (sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array, sp.lil_array, sp.dok_array)
    ]
    problems = [P.sparse_glm("squared", A, np.arange(4.0), [0, 0, 1, 1], l1=0.1) for A in [*kinds, untidy]]
    for problem in problems[1:]:
        assert fx.runtime.fingerprint(problem) == fx.runtime.fingerprint(problems[0])
    assert untidy.nnz == 7  # what was given is as it was


def test_rows_of_clients_have_one_width():
    """Clients make their examples alone; where they are in one process, all are as wide as the fullest row."""
    X = sp.csr_array(np.tri(20))
    parts = split_rows(X, np.arange(20.0), np.arange(20) // 10)
    recipe = P.SparseGlmRecipe("squared", l1=0.1)
    known = gather(recipe, parts)
    widths = [recipe.examples(rows, known, m)["row"].value.shape[-1] for m, rows in enumerate(parts)]
    assert widths == [16, 20]
    assert assemble(recipe, parts).data.examples["row"].value.shape == (2, 16, 20)


def test_product_with_a_matrix_and_absolute_value():
    X = np.array([[0.0, -2.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    rows, W = example_rows(sp.csr_array(X)), np.arange(8.0).reshape(4, 2)
    with double():
        np.testing.assert_array_equal(jax.vmap(lambda row: row @ W)(rows), X @ W)
        np.testing.assert_array_equal(jax.vmap(lambda row: abs(row) @ W[:, 0])(rows), np.abs(X) @ W[:, 0])


def test_metrics_of_sparse_rows():
    t, o = thin()
    X, model = t["X"], {"weights": np.arange(7.0) - 3, "bias": np.array(0.2)}
    full, sparse = (P.client_metrics(model, A, t["two"], o) for A in (X, sp.csc_array(X)))
    np.testing.assert_allclose(full.losses, sparse.losses)
    z = fx.Saddle(model, 0.1 * np.ones(7))
    assert P.attack_report(X, t["two"], z) == P.attack_report(sp.csr_array(X), t["two"], z)


def test_sampled_examples_are_rows_of_the_client():
    problem = both("lasso")[1]
    few = problem.sampled(6, np.random.default_rng(0))
    assert few.data.examples["row"].index.shape[:2] == (3, 2)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        (sp.csr_array([[1.0, np.nan], [0.0, 1.0]]), ValueError, "X must be finite"),
        (sp.csr_array([[1.0, np.inf], [0.0, 1.0]]), ValueError, "X must be finite"),
        (sp.csr_array([[1j, 0], [0, 1]]), TypeError, "X must be a real matrix, got a sparse one of complex128"),
        (sp.csr_array((0, 2)), ValueError, r"X must be a nonempty matrix .* got shape \(0, 2\)"),
        (sp.coo_array(np.ones(3)), ValueError, r"X must be a nonempty matrix .* got shape \(3,\)"),
    ],
)
def test_what_is_no_matrix_is_refused(X, error, words):
    with pytest.raises(error, match=words):
        P.sparse_glm("squared", X, np.arange(2.0), l1=0.1)


def test_wrong_indices_are_refused():
    X = sp.csr_array(np.eye(3))
    X.indices[1] = 7
    with pytest.raises(ValueError, match=r"X must be a sparse matrix whose indices fit its shape \(3, 3\)"):
        P.sparse_glm("squared", X, np.arange(3.0), l1=0.1)


def test_sparse_targets_are_refused():
    with pytest.raises(TypeError, match=r"Y must be a real matrix, got a sparse matrix .*: give Y.toarray\(\)"):
        P.low_rank(np.eye(3), sp.csr_array(np.eye(3)), nuclear=0.1)


def test_clients_with_full_and_with_sparse_rows_are_refused():
    parts = [Rows(np.eye(3), np.arange(3.0)), Rows(sp.csr_array(np.eye(3)), np.arange(3.0))]
    with pytest.raises(ValueError, match=r"data\[1\] must have the structure of data\[0\]"):
        assemble(P.SparseGlmRecipe("squared", l1=0.1), parts)

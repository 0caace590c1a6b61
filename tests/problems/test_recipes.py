"""Recipes: what clients add up to gives the problem of all rows, and little else leaves a client."""

import re
from fractions import Fraction
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.pooled import CASES, FEATURES, L1, L2, ROWS, SIZES, owners, tables
from support.rational import number, numbers, weighted_examples

import fedualex as fx
from fedualex.compiling import double
from fedualex.problems import assemble, gather, split_rows
from fedualex.regularizers import InBall, split
from fedualex.summaries import Summary, merge_summaries

P = fx.problems
KINDS = ("random", "constant columns", "weights", "one row of each class weighs")
REAL = ("agnostic, huber", "constrained, groups", "lasso", "low rank", "robust")
"""Those for which one row is enough; others need all classes."""
TRIED = [(name, kind) for name in CASES for kind in KINDS] + [(name, "one row weighs") for name in REAL]
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
EVERY = pytest.mark.parametrize("name", CASES)


def parts_of(name, t, o):
    _, target, _, group = CASES[name]
    return split_rows(t["X"], t[target], o, t["weight"], None if group is None else t[group])


def weights_of(t):
    return np.ones(len(t["X"])) if t["weight"] is None else t["weight"]


def bounds_of(problem):
    """The radius of the weights and the ends of all boxes, by name."""
    psi = problem.geometry.parts.x["weights"].regularizer
    core, _, _ = split(getattr(psi, "psi", psi))
    found = {"radius": (core.domain if isinstance(core, InBall) else core).radius}
    if "bias" in problem.like.x:
        bias = problem.geometry.parts.x["bias"].regularizer
        found["bias"] = [np.broadcast_to(end, problem.like.x["bias"].shape) for end in (bias.lower, bias.upper)]
    y = problem.geometry.parts.y
    psi = getattr(y["multipliers"] if isinstance(y, dict) else y, "regularizer", None)
    psi = None if psi is None else split(psi)[0]
    if isinstance(psi, fx.Box):
        found["y"] = np.stack([psi.lower, psi.upper])
    if problem.floor is not None:
        found["floor"] = problem.floor.value
    return found


@eqx.filter_jit
def values(f, z, examples):
    at = (z.x,) if z.y is None else (z.x, z.y)
    return jax.vmap(lambda example: f(*at, example))(examples)


def value(problem, z):
    """f(z): all rows along one axis, so that any number of clients is one program."""
    counts, p = problem.data.counts, problem.weights
    there = np.arange(jax.tree.leaves(problem.data.examples)[0].shape[1]) < counts[:, None]
    rows = jax.tree.map(lambda leaf: leaf[there], problem.data.examples)
    with double():
        return float(np.repeat(p / counts, counts) @ values(problem.f, z, rows))


def point_of(problem, seed=0):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: 0.3 * rng.normal(size=np.shape(leaf)), problem.like)


def agree(problem, expected, f):
    """Bounds and the value at a point are these."""
    found = bounds_of(problem)
    for name, bound in expected.items():
        np.testing.assert_allclose(np.squeeze(found[name]), np.squeeze(bound), **CLOSE, err_msg=name)
    assert value(problem, point_of(problem)) == pytest.approx(f, rel=1e-12, abs=1e-12)


# --- the formulas of all rows ----------------------------------------------------------------------------------------


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("name", "kind"), TRIED)
def test_recipe_is_the_formula_of_all_rows(name, kind):
    recipe, _, formula, _ = CASES[name]
    t = tables(kind)
    for o in [*map(owners, SIZES), t["two"], (np.arange(ROWS) > 0).astype(int)]:  # one class, and one row, of a client
        parts = parts_of(name, t, o)
        if name == "agnostic" and not all(rows.shares.any() for rows in parts):
            with pytest.raises(ValueError, match="sample_weight must be > 0 for some row of every client"):
                assemble(recipe, parts)
            continue
        problem = assemble(recipe, parts)
        agree(problem, *formula(t, o, weights_of(t), point_of(problem)))


@pytest.mark.parametrize("weights", ["clients", [3.0, 1.0]])
@pytest.mark.parametrize("name", ["lasso", "logistic", "softmax", "low rank", "robust", "adversarial"])
def test_clients_weigh_what_was_asked_for(name, weights):
    recipe, _, formula, _ = CASES[name]
    t, o = tables("weights"), owners(2)
    problem = assemble(type(recipe)(**{**vars(recipe), "weights": weights}), parts_of(name, t, o))
    agree(problem, *formula(t, o, weights_of(t), point_of(problem), weights))


@pytest.mark.parametrize("name", sorted(set(CASES) - {"agnostic", "robust"}))
def test_it_does_not_matter_who_holds_a_row(name):
    """Neither the order of the clients nor whether two of them are one; a dual for each row or client has an order."""
    t, o = tables("weights"), owners(4)
    first = assemble(CASES[name][0], parts_of(name, t, o))
    for other in (3 - o, np.minimum(o, 2), np.array(["b", "a", "d", "c"])[o]):
        agree(assemble(CASES[name][0], parts_of(name, t, other)), bounds_of(first), value(first, point_of(first)))


@EVERY
def test_whole_weights_are_repeated_rows(name):
    recipe = CASES[name][0]
    t, o = tables("weights"), owners(2)
    count = t["weight"].astype(int)
    again = {key: None if key == "weight" else np.repeat(column, count, axis=0) for key, column in t.items()}
    weighed, repeated = assemble(recipe, parts_of(name, t, o)), assemble(recipe, parts_of(name, again, o.repeat(count)))
    first, second = bounds_of(weighed), bounds_of(repeated)
    if name == "robust":  # which has one entry of y for each row
        assert (first.pop("y").shape[1], second.pop("y").shape[1]) == (ROWS, count.sum())
    for bound in first:
        np.testing.assert_allclose(first[bound], second[bound], **CLOSE)
    np.testing.assert_allclose(weighed.weights, repeated.weights, **CLOSE)
    z = point_of(weighed)
    if name != "robust":
        assert value(weighed, z) == pytest.approx(value(repeated, z), rel=1e-12)
        return
    for problem, table, owner in ((weighed, t, o), (repeated, again, o.repeat(count))):
        order = np.argsort(owner, kind="stable")
        residual = (table["X"] @ z.x["weights"] + z.x["bias"] - table["score"])[order]
        at = fx.Saddle(z.x, problem.geometry.parts.y.regularizer.upper * np.sign(residual))
        expected = count / count.sum() @ np.abs(t["X"] @ z.x["weights"] + z.x["bias"] - t["score"])
        assert value(problem, at) == pytest.approx(expected, rel=1e-12)


# --- what leaves a client, and what is built where -------------------------------------------------------------------


def shapes_of(name, t, o):
    """For each exchange the shapes of what each client sends, and by which rule it is merged."""
    recipe, known, sent = CASES[name][0], [], []
    parts = parts_of(name, t, o)
    for _ in range(recipe.exchanges):
        summaries = [recipe.summarize(rows, known, m) for m, rows in enumerate(parts)]
        known.append(merge_summaries(summaries))
        sent.append([{n: (kind_of(s, n), shape) for n, shape in s.shapes.items()} for s in summaries])
    return sent


def kind_of(summary, name):
    return next(kind for kind in ("sums", "largest", "labels", "each") if name in getattr(summary, kind))


def documented():
    """docs/recipes.md: for each recipe the rows (exchange, name, merged by, shape)."""
    text = (Path(__file__).parents[2] / "docs/recipes.md").read_text()
    sections = re.split(r"^### `(.*)`\n", text, flags=re.MULTILINE)
    common, *bodies = [
        re.findall(r"^\| (\d) \| `(.*?)` \| (.*?) \| `(.*?)` \|", body, flags=re.MULTILINE)
        for body in (sections[0].partition("## The recipes")[2], *sections[2::2])
    ]
    return {name: common + rows for name, rows in zip(sections[1::2], bodies, strict=True)}


@EVERY
def test_what_leaves_a_client_is_what_the_docs_list(name):
    recipe, target, _, _ = CASES[name]
    regression = target in ("score", "tasks")
    title = type(recipe).__name__
    if title not in documented():
        title += ", numbers" if regression else ", classes"
    t, o = tables("weights"), owners(3)
    limited = 1 if name == "constrained" else 3
    sizes = {"d": FEATURES, "classes": t["three" if target == "three" else "two"].max() + 1, "tasks": 2}
    sizes |= {"groups": 2 if name == "constrained" else 3, "limited": limited, "grid": 101 if regression else 301}
    for k, clients in enumerate(shapes_of(name, t, o), start=1):
        listed = {n: (rule, eval(shape, sizes)) for number, n, rule, shape in documented()[title] if int(number) == k}
        for sent in clients:
            assert sent.keys() == listed.keys()
            for n, (rule, shape) in sent.items():
                assert rule == listed[n][0]
                assert shape <= listed[n][1] if rule == "labels" else shape == listed[n][1]
    assert recipe.exchanges == max(int(row[0]) for row in documented()[title])


@EVERY
def test_what_leaves_a_client_does_not_grow_with_its_rows(name):
    t, o = tables("random"), owners(2)
    twice = {key: None if column is None else np.concatenate([column, column]) for key, column in t.items()}
    assert shapes_of(name, t, o) == shapes_of(name, twice, np.concatenate([o, o]))


@EVERY
def test_a_server_builds_the_same_domains(name):
    recipe, t = CASES[name][0], tables("weights")
    parts = parts_of(name, t, owners(2))
    here, there = assemble(recipe, parts), recipe.problem(gather(recipe, parts), "elsewhere")
    for mine, theirs in ((here.geometry, there.geometry), (here.floor, there.floor), (here.like, there.like)):
        assert jax.tree.structure(mine) == jax.tree.structure(theirs)
        assert all(map(np.array_equal, jax.tree.leaves(mine), jax.tree.leaves(theirs)))
    assert there.clients == 0
    assert (here.uncertified, here.by_construction) == (there.uncertified, there.by_construction)


def test_rows_with_a_label_that_nobody_named_are_refused():
    t, o = tables("weights"), owners(2)
    recipe, parts = CASES["logistic"][0], parts_of("logistic", t, o)
    known = gather(recipe, parts)
    changed = parts[0]._replace(y=np.full(len(parts[0].y), 7))
    with pytest.raises(ValueError, match=r"labels must be of \[0, 1\], got .*7"):
        recipe.examples(changed, known, 0)
    recipe.examples(changed._replace(weight=np.zeros(len(changed.y))), known, 0)  # rows that are as good as absent


def test_summaries_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"client 1 must summarize \['a'\], got \['b'\]"):
        merge_summaries([Summary(sums={"a": 1.0}), Summary(sums={"b": 1.0})])
    with pytest.raises(ValueError, match=r"client 1: a must have the shape \(2,\) of client 0, got \(3,\)"):
        merge_summaries([Summary(sums={"a": np.zeros(2)}), Summary(sums={"a": np.zeros(3)})])
    with pytest.raises(TypeError, match="a must be labels of one kind"):
        merge_summaries([Summary(labels={"a": np.array(["1"])}), Summary(labels={"a": np.array([1])})])


# --- the functions of the catalogue ----------------------------------------------------------------------------------

FUNCTIONS = {
    "auc": lambda t, o, w: P.auc(t["X"], t["two"], o, l1=L1, sample_weight=w),
    "auc, plain": lambda t, o, w: P.auc(t["X"], t["two"], o, l1=L1, saddle=False, sample_weight=w),
    "agnostic": lambda t, o, w: P.agnostic(t["X"], t["two"], o, l1=L1, sample_weight=w),
    "agnostic, groups": lambda t, o, w: P.agnostic(t["X"], t["two"], o, l1=L1, groups=t["group"], sample_weight=w),
    "agnostic, huber": lambda t, o, w: P.agnostic(
        t["X"], t["score"], o, loss="huber", delta=0.7, l2=L2, kl=0.1, groups=t["group"], sample_weight=w
    ),
    "constrained": lambda t, o, w: P.constrained(
        t["X"], t["two"], o, groups="classes", limits={1: 0.4}, l2=L2, sample_weight=w
    ),
    "constrained, groups": lambda t, o, w: P.constrained(
        t["X"], t["score"], o, groups=t["group"], limits=9.0, loss="squared", l1=L1, sample_weight=w
    ),
    "lasso": lambda t, o, w: P.sparse_glm("squared", t["X"], t["score"], o, l1=L1, sample_weight=w),
    "logistic": lambda t, o, w: P.sparse_glm("logistic", t["X"], t["two"], o, l2=L2, sample_weight=w),
    "softmax": lambda t, o, w: P.sparse_glm("logistic", t["X"], t["three"], o, l1=L1, sample_weight=w),
    "low rank": lambda t, o, w: P.low_rank(t["X"], t["tasks"], o, nuclear=L1, sample_weight=w),
    "robust": lambda t, o, w: P.robust_regression(t["X"], t["score"], o, l1=L1, sample_weight=w),
    "adversarial": lambda t, o, w: P.universal_adversarial(
        t["X"], t["two"], 0.5, 0.1, clients=o, l2=L2, sample_weight=w
    ),
}


@pytest.mark.parametrize("kind", ["random", "weights"])
@EVERY
def test_functions_of_the_catalogue_go_the_same_way(name, kind):
    t, o = tables(kind), owners(2)
    one, other = FUNCTIONS[name](t, o, t["weight"]), assemble(CASES[name][0], parts_of(name, t, o))
    assert all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(other)))


@pytest.mark.parametrize("weight", [np.ones(3), np.zeros(ROWS), np.full(ROWS, -1.0), np.full(ROWS, 1e308), "heavy"])
@pytest.mark.parametrize("name", ["lasso", "auc"])
def test_weights_that_are_none_are_refused_in_one_sentence(name, weight):
    with pytest.raises((TypeError, ValueError), match=rf"sample_weight must be {ROWS} numbers >= 0") as refused:
        FUNCTIONS[name](tables("random"), owners(2), weight)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_the_floor_of_auc_holds_for_the_stored_rows(shift):
    """f >= 1 - 2 (1 + alpha) <w, S> with S the exact sum over the rows as they are stored, whatever rounding did."""
    t, rng = tables("random"), np.random.default_rng(0)
    problem = P.auc(t["X"] + shift, t["two"], owners(3), radius=0.1, sample_weight=rng.random(ROWS))
    total = [Fraction(0)] * FEATURES
    for share, example in weighted_examples(problem):
        factor = share * number(example["weight"]) * number(example["sign"])
        total = [s + factor * entry for s, entry in zip(total, numbers(example["row"]), strict=True)]
    longest = sum(s * s for s in total)
    least = (1 - Fraction(float(problem.floor.value))) / (2 * (1 + Fraction(float(problem.floor.y))) * Fraction(0.1))
    assert float(problem.floor.y) > -1
    assert least > 0
    assert least**2 >= longest
    assert float(least) == pytest.approx(float(longest) ** 0.5, rel=1e-11)


def test_a_class_needs_a_row_that_weighs():
    t = tables("random")
    with pytest.raises(ValueError, match="y must hold two classes, but it holds 1"):
        FUNCTIONS["auc"](t, owners(2), (t["two"] == 1).astype(float))


def test_without_groups_clients_weigh_alike_to_the_bit():
    t, o = tables("random"), (np.arange(ROWS) >= 10).astype(int)  # ten times 0.1 is not 1
    problem = FUNCTIONS["agnostic"](t, o, None)
    assert np.all(problem.data.examples["weight"] == 2)
    assert np.all(problem.weights == problem.weights[0])


def test_the_loss_of_a_problem_is_the_formula():
    """With padding, as runs compute it."""
    t, o = tables("weights"), owners(20)
    problem = FUNCTIONS["agnostic, groups"](t, o, t["weight"])
    z = point_of(problem)
    with double():
        assert float(problem.loss(jax.tree.map(jnp.asarray, z))) == pytest.approx(value(problem, z), rel=1e-12)

"""Sites that answer wrong but finite numbers: refused by name where they can be seen, and what they can do at most."""

import jax
import numpy as np
import pytest
from support.catalogue import CATALOGUE, catalogue
from support.deploying import DEAD, NAMES, patience, serve, task_of, works_of  # noqa: F401
from support.plain_rows import rows

import fedualex as fx
from fedualex.compiling import double
from fedualex.deploy.clients import AnswerCheck
from fedualex.problems import Surveyed
from fedualex.runtime.outputs import exact_problem

CONVEX = "two of its answers cannot both be of a loss that is convex in x and concave in y"


def surveys(problem, points):
    """What one honest client answers at each point."""
    exact = exact_problem(problem)
    found = [exact.survey(z) for z in points]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *found)


def points_of(problem, count, rng):
    """Points of the domain, some of them far out."""
    scales = 10.0 ** np.linspace(-3, 3, count)
    return [
        problem.project(jax.tree.map(lambda a, s=s: s * rng.normal(size=np.shape(a)), problem.like)) for s in scales
    ]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", CATALOGUE)
def test_no_honest_client_of_the_catalogue_is_doubted(name):
    """On badly scaled rows, at points all over the domain: what is refused is not rounding."""
    with double():
        problem = catalogue(name)
        points = points_of(problem, 6, np.random.default_rng(0))
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *points)
        answer_check = AnswerCheck(problem.without_data(), None)
        for m in range(problem.clients):
            assert answer_check.find_doubts(stacked, {f"site-{m}": surveys(problem.of_client(m), points)}) == {}


X = np.random.default_rng(3).normal(size=(30, 4))
LOGISTIC = fx.problems.sparse_glm("logistic", X, (X[:, 0] > 0).astype(int), np.arange(30) % 3, l2=0.1)

LIES = {
    "another sign": (lambda s: Surveyed(jax.tree.map(lambda g: -g, s.operator), s.value), CONVEX),
    "ten times as large": (lambda s: Surveyed(jax.tree.map(lambda g: 10 * g, s.operator), s.value), CONVEX),
    "a constant operator": (lambda s: Surveyed(jax.tree.map(np.ones_like, s.operator), s.value), CONVEX),
    "a random operator": (
        lambda s: Surveyed(
            jax.tree.map(lambda g: np.random.default_rng(g.size).normal(size=g.shape), s.operator), s.value
        ),
        CONVEX,
    ),
    "values of nothing": (lambda s: Surveyed(s.operator, 0 * s.value - 1.0), "below the least that this loss can be"),
    "values upside down": (lambda s: Surveyed(s.operator, 10 - s.value), CONVEX),
}


@pytest.mark.parametrize(("lie", "reason"), LIES.values(), ids=LIES)
def test_a_lie_is_refused_by_name(lie, reason):
    with double():
        points = points_of(LOGISTIC, 6, np.random.default_rng(0))
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *points)
        honest = {f"site-{m}": surveys(LOGISTIC.of_client(m), points) for m in range(3)}
        answer_check = AnswerCheck(LOGISTIC.without_data(), None)
        doubts = answer_check.find_doubts(stacked, honest | {"site-1": lie(honest["site-1"])})
    assert list(doubts) == ["site-1"]
    assert reason in doubts["site-1"]


def test_answers_are_compared_across_surveys():
    """One point at a time, as FeDualSlide asks: the second answer gives the lie away."""
    with double():
        points = points_of(LOGISTIC, 4, np.random.default_rng(1))
        answer_check = AnswerCheck(LOGISTIC.without_data(), None)
        found = []
        for number, z in enumerate(points):
            said = surveys(LOGISTIC.of_client(0), [z])
            if number == 3:
                said = Surveyed(jax.tree.map(lambda g: -g, said.operator), said.value)
            found.append(answer_check.find_doubts(jax.tree.map(lambda leaf: leaf[None], z), {"cork": said}))
    assert found[:3] == [{}, {}, {}]
    assert list(found[3]) == ["cork"]


def test_an_operator_beyond_the_stated_bound_is_refused_by_name():
    with double():
        [z] = points_of(LOGISTIC, 1, np.random.default_rng(0))
        stacked = jax.tree.map(lambda leaf: leaf[None], z)
        honest = surveys(LOGISTIC.of_client(0), [z])
        length = float(np.sqrt(sum(np.sum(leaf**2) for leaf in jax.tree.leaves(honest.operator))))
        assert AnswerCheck(LOGISTIC.without_data(), length).find_doubts(stacked, {"cork": honest}) == {}
        doubts = AnswerCheck(LOGISTIC.without_data(), 0.9 * length).find_doubts(stacked, {"cork": honest})
    assert "long, and at most" in doubts["cork"]


def test_what_is_not_convex_is_nobodys_lie():
    """Where the problem itself says that nothing can be certified, answers are not judged by convexity."""
    like = fx.Saddle(np.zeros(2))
    problem = fx.Problem(lambda x: -(x @ x), x=fx.Box(1.0), like=like, uncertified="f is concave")
    with double():
        points = points_of(problem, 3, np.random.default_rng(0))
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *points)
        assert AnswerCheck(problem, None).find_doubts(stacked, {"cork": surveys(problem, points)}) == {}


SLIDE = {"problem": rows("agnostic"), "sites": NAMES, "noise": None, "rounds": 12, "local_steps": 1, "record_every": 1}


def lying(factor):
    """The dead site's honest answers, with its operators turned from the third survey on."""
    honest = works_of(
        task_of(method=fx.FeDualSlide(), **{k: v for k, v in SLIDE.items() if k != "problem"}), SLIDE["problem"]
    )[DEAD]

    def fault(request):
        found = honest(request)
        if request.task == "survey" and request.round > 3:
            found |= {name: factor * array for name, array in found.items() if name.startswith("operators")}
        return found

    return fault


@pytest.mark.slow
def test_a_run_ends_with_the_name_of_the_liar_and_what_was_certified_before(tmp_path):
    run, _ = serve(tmp_path, method=fx.FeDualSlide(), fault=lying(-1.0), attempts=2, **SLIDE)
    assert run.stop is fx.Stop.CLIENTS_LOST
    assert run.rounds == 3
    assert run.detail == f"no valid answer of {DEAD} (its loss is below the least that this loss can be)"
    same = fx.simulate(rows("agnostic"), fx.FeDualSlide(), rounds=3, record_every=1)
    assert run.gap == pytest.approx(same.gap, abs=1e-10)

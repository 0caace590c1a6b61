"""What sites say of the rounding of their surveys is enough in exact arithmetic, and certificates follow from it."""

import json
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
from attack import rounding
from mpmath import mp, mpf
from support.consortium import deployment, run_in_threads
from support.deploying import DATA, NAMES
from support.plain_rows import rows
from support.reconstruction import GOALS, write_sites
from support.tampering import of_output, reseal

import fedualex as fx
from fedualex.certificates.surveys import flat_of
from fedualex.compiling import double
from fedualex.deploy import run as rehearse
from fedualex.problems.curvature import surveyor_of
from fedualex.problems.score_rounding import score_errors, tells_errors
from fedualex.verification.verify import verify


def said_and_true(seed):
    """Of a random fit: by how many times its allowance a survey, or the cut of a step, is off anywhere, at most."""
    rng = np.random.default_rng(seed)
    made = rounding.random_sum(rng, np.random.default_rng([seed, 1]))
    if made is None or not tells_errors(made[1]):
        return []
    exact, problem = made
    with double():
        flat, errors = flat_of(problem), score_errors(problem)
        z, start = (problem.project(flat.point(jnp.asarray(draw(rng, problem)))) for _ in range(2))
        found = surveyor_of(problem).survey(z, start=start)
        told = errors.tell(z, start, found, clients=3)
        others = [problem.project(flat.point(jnp.asarray(draw(rng, problem)))) for _ in range(6)]
        vectors = [np.asarray(flat.vector(point)) for point in (z, start, *others)]
        slope, cut = np.asarray(flat.vector(found.operator)), np.asarray(flat.x.vector(found.cut.slope))
    assert all(np.frexp(number)[0] == 0.5 for number in told), "powers of two"
    with mp.workdps(rounding.DIGITS):
        value, (x, y), split = mpf(float(found.value)), parts_of(problem, vectors[0]), cut.size
        shares = []
        for vector in vectors:
            v, w = parts_of(problem, vector)
            above = loss(exact, x, w) - value - inner(slope[split:], minus(y, w))
            own = value + inner(slope[:split], minus(ordered(problem, v), ordered(problem, x))) - loss(exact, v, y)
            step = mpf(float(found.cut.offset)) + inner(cut, ordered(problem, v)) - loss(exact, v, y)
            allowed = mpf(float(told.offset)) + mpf(float(told.slope)) * sum(map(abs, v))
            shares += [above / mpf(float(told.offset)), own / allowed, step / allowed]
        return [float(share) for share in shares]


def draw(rng, problem):
    size = sum(np.size(leaf) for leaf in problem.like.x.values())
    others = 0 if problem.like.y is None else np.size(next(iter(np.atleast_1d(leaves(problem.like.y)))))
    scale = 10.0 ** rng.uniform(-3, 3)
    return np.concatenate([scale * rng.normal(size=size), np.abs(rng.normal(size=others))])


def leaves(y):
    return np.concatenate([np.ravel(leaf) for leaf in (y.values() if isinstance(y, dict) else [y])])[None]


def parts_of(problem, vector):
    """Weights first and the bias last, as exact sums have them; and y."""
    bias = int("bias" in problem.like.x)
    size = bias + np.size(problem.like.x["weights"])
    numbers = [mpf(float(t)) for t in vector]
    return numbers[bias:size] + numbers[:bias], numbers[size:]


def ordered(problem, v):
    """The bias first again."""
    return v[-1:] + v[:-1] if "bias" in problem.like.x else v


def loss(exact, v, y):
    found = sum((s * m for s, m in zip(exact.shares(y), exact.means(v), strict=True)), mpf(0))
    return found - sum((t * limit for t, limit in zip(y, exact.limits, strict=False)), mpf(0))


def inner(a, b):
    return mp.fdot([mpf(float(t)) for t in a], b)


def minus(a, b):
    return [s - t for s, t in zip(a, b, strict=True)]


@pytest.mark.parametrize("count", [6, pytest.param(150, marks=pytest.mark.slow)])
def test_a_survey_is_not_farther_off_than_its_site_says_anywhere_in_the_domain(count):
    """Rows of sizes 1e-6 to 1e6, columns that differ by 1e6; squares, Huber and logistic losses, groups and limits."""
    shares = [share for seed in range(count) for share in said_and_true(seed)]
    assert len(shares) > 10 * count
    assert max(shares) <= 1
    assert max(shares) > 0, "rounding was needed somewhere"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_no_certificate_between_sites_is_below_the_true_gap_and_none_is_an_estimate(seed, monkeypatch):
    """Plain and masked, raw columns among them, solved until rounding is all that is left."""
    monkeypatch.setattr(rounding, "BETWEEN_SITES", 1.0)
    before = dict(rounding.COUNTS)
    rounding.attack(np.random.default_rng([seed, 78]), several=4)
    new = {key: rounding.COUNTS[key] - before[key] for key in before}
    assert new["runs"] == new["proved"] == new["between sites"] > 1


@pytest.mark.parametrize("masks", ["off", pytest.param("on", marks=pytest.mark.slow)])
def test_on_scaled_tables_the_allowance_between_sites_is_far_below_the_objective(masks):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 4)), np.sign(rng.normal(size=150))
    problem = fx.problems.sparse_glm("logistic", X, y, np.arange(150) % 3, l1=0.02)
    run = rehearse(problem, fx.FeDualNewton(), rounds=20, tol=1e-8, secure_sums=masks)
    assert not run.answer.certificate.estimated
    assert 0 < run.answer.certificate.rounding < 1e-9
    if masks == "off":  # under masks a rehearsal's sites, whose rows nobody counted, release no second derivatives
        assert run.exchanges == fx.solve(problem, fx.FeDualNewton(), rounds=20, tol=1e-8).exchanges


@pytest.mark.parametrize(
    "method", [fx.FeDualNewton(), fx.FeDualSlide(), fx.FeDualCuts()], ids=["newton", "slide", "cuts"]
)
def test_a_run_that_goes_on_from_its_checkpoint_knows_what_sites_said_before(tmp_path, method):
    """The best bounds are of surveys that nobody makes again."""
    options = {"tol": 1e-6, "checkpoint": tmp_path / "checkpoint.npz", "local_steps": 1, "record_every": 1}
    stopped = rehearse(rows("agnostic"), method, rounds=9, callback=lambda record: record["round"] == 3, **options)
    assert stopped.rounds == 3
    run = rehearse(rows("agnostic"), method, rounds=9, **options)
    assert not run.outputs["bounds"].certificate.estimated
    same = rehearse(rows("agnostic"), method, rounds=9, **{**options, "checkpoint": None})
    assert run.outputs["bounds"].certificate == same.outputs["bounds"].certificate


def test_of_a_loss_of_ones_own_sites_say_nothing_and_the_rounding_is_an_estimate():
    assert not tells_errors(DATA)
    run = rehearse(DATA, fx.FeDualSlide(), rounds=4, local_steps=1)
    assert run.outputs["bounds"].certificate.estimated
    assert run.outputs["bounds"].evidence.told is None


def test_where_one_site_says_nothing_the_rounding_is_an_estimate(monkeypatch):
    from fedualex.deploy import site

    tell = site.Site._tell_errors
    silent = lambda self, surveys: {} if self.client == 1 else tell(self, surveys)  # noqa: E731
    monkeypatch.setattr(site.Site, "_tell_errors", silent)
    run = rehearse(rows("logistic"), fx.FeDualNewton(), rounds=6, secure_sums="off")
    assert len(NAMES) == rows("logistic").clients
    assert run.outputs["bounds"].certificate.estimated


@pytest.fixture(scope="module", params=["fair, groups", "fair"])
def deployed(tmp_path_factory, request):
    """The run folder of three sites with tables, under masks; where sites are weighed of means of many surveys."""
    folder = tmp_path_factory.mktemp("told")
    write_sites(folder, {"east": 60, "north": 50, "west": 45}, GOALS[request.param])
    root = deployment(folder, "on", goal="fair", l1=0.01, tol=1e-6, rounds=40, **GOALS[request.param])
    run_in_threads(root)
    return root / "server" / "run"


def test_verify_computes_the_rounding_again_from_what_sites_said(deployed, tmp_path):
    result = verify(deployed)
    (found,) = [check for check in result.checks if (check.output, check.what) == ("bounds", "rounding")]
    stored = json.loads((deployed / "status.json").read_text())["outputs"]["bounds"]
    assert found.agrees
    assert found.found == pytest.approx(stored["rounding"], rel=1e-9)
    assert not stored["estimated"]
    assert not [check.what for check in result.checks if check.agrees is False]


@pytest.mark.parametrize("what", ["rounding", "offsets", "negative", "shape", "nothing said"])
def test_a_smaller_rounding_than_sites_said_differs(deployed, tmp_path, what):
    path = tmp_path / "run"
    shutil.copytree(deployed, path)
    with np.load(path / "solution.npz") as file:
        arrays = dict(file)
    output = json.loads((path / "status.json").read_text())["outputs"]["bounds"]
    if what == "rounding":
        half = output["rounding"] / 2
        total = max(output["gap_x"] + output["gap_y"] + output["shift"], 0.0) + half
        of_output("bounds", rounding=half, gap=total)(path)
    elif what == "nothing said":
        arrays = {name: array for name, array in arrays.items() if "/told/" not in name}
    elif what == "shape":
        arrays["bounds/told/upper"] = np.zeros((7, 3))
    else:
        arrays["bounds/told/offsets" if what == "offsets" else "bounds/told/lower"][0] -= 1.0
    np.savez(path / "solution.npz", **arrays)
    reseal(path)
    if what == "shape":
        with pytest.raises(ValueError, match="does not hold surveys of the output 'bounds'"):
            verify(path)
        return
    noticed = {
        "rounding": "rounding",
        "offsets": "shift from the offsets of both bounds",
        "negative": "rounding from what sites say of theirs",
        "nothing said": "rounding is an estimate where nobody bounds it",
    }
    assert noticed[what] in {check.what for check in verify(path).checks if check.agrees is False}

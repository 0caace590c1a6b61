"""Limits that no model meets: the proof against a convex solver, and that it is neither missed nor made up."""

import json

import cvxpy as cp
import jax
import numpy as np
import pytest
from click.testing import CliRunner
from support.references import inside, minimize, random_points, table

import fedualex as fx
from fedualex.cli import main
from fedualex.compiling import double
from fedualex.display import round_up
from fedualex.estimators import FederatedClassifier, NeymanPearsonClassifier
from fedualex.problems import constrained, phase_one, violation
from fedualex.problems.constrained import excess, lower_bound
from fedualex.reference import LeastViolation, least_violation
from fedualex.runtime.driver import UNDECIDED, bound_violation, prove_infeasible


def noise(classes=2):
    """Rows whose labels mean nothing, on three clients."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 4)), rng.integers(0, classes, 60), rng.integers(0, 3, 60)


CASES = {
    "both classes of random labels": (noise(), {"groups": "classes", "limits": 0.001, "multiplier": 10.0, "l1": 0.01}),
    "clients": (noise(), {"limits": 0.3, "multiplier": 5.0, "l2": 0.05}),
    "three groups": (noise(), {"groups": np.arange(60) % 3, "limits": {0: 0.1, 1: 0.2, 2: 0.3}, "radius": 3.0}),
    "one limited client": (noise(), {"limits": {1: 0.1}, "radius": 1.0}),
    "squared": (table("diabetes", 60, 4, 3), {"loss": "squared", "limits": 0.1, "l1": 0.05}),
    "huber": (table("diabetes", 60, 4, 3), {"loss": "huber", "delta": 0.7, "limits": {0: 0.01, 2: 0.02}, "l2": 0.1}),
}
SHORT = ("both classes of random labels", "one limited client", "squared", "met by the origin")
GAME = fx.problems.matrix_game(np.eye(2))


def each_of(cases):
    """All names, some of them in the long set only."""
    return [pytest.param(name, marks=[] if name in SHORT else pytest.mark.slow) for name in cases]


EVERY = pytest.mark.parametrize("name", each_of(CASES))


def built(name):
    """The problem, and the excess of each limited group over its limit in cvxpy, with the variables they depend on."""
    (X, y, clients), options = CASES[name]
    problem = constrained(X, y, clients, **{"multiplier": 4.0, **options})
    weights, bias = cp.Variable(X.shape[1]), cp.Variable()
    score = X @ weights + bias
    each = {
        "logistic": cp.logistic(cp.multiply(1 - 2 * y, score)),
        "squared": cp.square(score - y) / 2,
        "huber": cp.huber(score - y, options.get("delta", 1.0)) / 2,
    }[options.get("loss", "logistic")]
    groups = options.get("groups", clients)
    group = y if isinstance(groups, str) else groups
    limits = options["limits"]
    limits = limits if isinstance(limits, dict) else dict.fromkeys(np.unique(group).tolist(), limits)
    above = [cp.sum(each[np.flatnonzero(group == g)]) / np.sum(group == g) - limits[g] for g in sorted(limits)]
    return problem, (weights, bias), above


def least(problem, x, above):
    """The least violation in the domain of the problem."""
    return minimize(cp.maximum(*above, -1e9), inside(problem, x[0], bias=x[1]))


def certified(phase, z):
    """The exact operator and the certificate at a point."""
    with double():
        return phase.operator(phase.validate_point(z)), phase.certificate(z)


@pytest.mark.slow
@EVERY
def test_lower_bound_is_never_above_the_least_violation_and_reaches_it(name):
    problem, x, above = built(name)
    phase = phase_one(problem)
    value = least(problem, x, above)
    solution = {"weights": x[0].value, "bias": x[1].value}
    for z in random_points(phase):
        x[0].value, x[1].value = z.x["weights"], z.x["bias"]
        g, certificate = certified(phase, z)
        np.testing.assert_allclose(excess(g), [part.value for part in above], atol=1e-9)
        assert phase.objective(z) == pytest.approx(z.y["multipliers"] @ excess(g), abs=1e-12)  # and no penalty
        mixed = sum(share * part for share, part in zip(z.y["multipliers"], above, strict=True))
        lowest = minimize(mixed, inside(problem, x[0], bias=x[1]))
        assert lower_bound(certificate, g) <= lowest + 1e-7
        assert lowest <= value + 1e-7
    level = cp.Variable()
    below = [part <= level for part in above]
    minimize(level, [*below, *inside(problem, x[0], bias=x[1])])
    lam = np.array([float(np.squeeze(part.dual_value)) for part in below])
    g, certificate = certified(phase, phase.project(fx.Saddle(solution, {"multipliers": lam})))
    assert value - 0.05 <= lower_bound(certificate, g) <= value + 1e-7
    assert value > 0.05  # all of them are infeasible


@pytest.mark.sampled(4)
@EVERY
def test_bounds_are_on_both_sides_of_the_least_violation_and_near_it(name):
    problem, x, above = built(name)
    found, value = least_violation(problem), least(problem, x, above)
    assert 0.75 * value <= found.lower <= value + 1e-7
    assert value - 1e-7 <= found.upper <= 1.2 * value
    before, _, number = prove_infeasible(found).rpartition(" ")
    assert before == "the limits are infeasible: no model in this domain violates less than"
    assert 0.999 * found.lower <= float(number) <= found.lower


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, "raw"])
def test_correlated_columns_and_a_huge_domain_do_not_hide_the_proof(scale):
    """Hundreds of first-order steps do not prove these."""
    X, y = fx.data.bundled("breast_cancer")
    wrong = np.where(np.random.default_rng(1).random(len(y)) < 0.2, 1 - y, y)
    rows = X if scale == "raw" else fx.data.Standardizer.fit(X).transform(X)
    clients = fx.data.iid(len(y), 8, seed=0)
    for groups, limits, multiplier in (("clients", 0.3, 10.0), ("clients", 0.4, 100.0), ("classes", 0.001, 10.0)):
        options = {"groups": groups, "limits": limits, "multiplier": multiplier, "l1": 0.1 / multiplier}
        found = least_violation(constrained(rows, wrong, clients, **options))
        assert 0.5 * found.upper < found.lower <= found.upper


FEASIBLE = {
    "clients": {"limits": 0.33, "l2": 0.01, "multiplier": 10.0},
    "some clients": {"limits": {1: 0.3, 3: 0.35}, "radius": 2.0, "multiplier": 20.0},
    "Neyman-Pearson": {"groups": "classes", "limits": {1: 0.05}, "l1": 0.01, "multiplier": 0.1},
    "met by the origin": {"limits": 5.0, "multiplier": 1.0, "l2": 0.1},
}


@pytest.mark.parametrize("name", each_of(FEASIBLE))
def test_nothing_is_made_up_where_some_model_meets_the_limits(name):
    found = least_violation(constrained(*table("cancer"), **FEASIBLE[name]))
    assert found.lower <= found.upper <= 0
    assert prove_infeasible(found) == ""


def test_nothing_is_asked_without_doubt(monkeypatch):
    monkeypatch.setattr("fedualex.reference.least_violation", lambda problem: LeastViolation(1.0, 2.0))
    assert phase_one(GAME) is None
    assert bound_violation(GAME, None) is None
    derived = constrained(*table("cancer"), groups="classes", limits={1: 0.05}, l1=0.01)  # a constant score meets it
    assert bound_violation(derived, 0.1) is None
    infeasible = built("clients")[0]
    assert bound_violation(infeasible, 0.0) is None
    assert bound_violation(infeasible.without_data(), 0.1) is None  # a server has nothing to prove it with
    assert bound_violation(infeasible, 0.1) == (1.0, 2.0)
    assert prove_infeasible(None) == ""
    with pytest.raises(TypeError, match=r"least_violation is for a problem made by fx.problems.constrained, got Bil"):
        least_violation(GAME)


@pytest.mark.slow
def test_phase_one_is_a_problem_like_any_other():
    problem, _, _ = built("one limited client")
    phase = phase_one(problem)
    assert phase.clients == problem.clients == 3
    assert phase.like.y["multipliers"].shape == (1,)
    run = fx.solve(phase, fx.FeDualEx(), rounds=30, local_steps=2)
    np.testing.assert_array_equal(run.z.y["multipliers"], 1.0)
    assert np.isfinite(run.gap)
    z = next(random_points(phase))
    with double():
        each = [phase.of_client(m).operator(phase.validate_point(z)) for m in range(3)]
        mean = jax.tree.map(lambda *parts: sum(p * part for p, part in zip(phase.weights, parts, strict=True)), *each)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), mean, phase.operator(phase.validate_point(z))
        )
    assert repr(phase_one(problem.without_data()).geometry) == repr(phase.geometry)


def test_limits_of_one_class_are_met_by_a_bias_alone_however_small_they_are():
    X, y, clients = noise()
    for limit in (1e-6, 1e-9, 1e-15):
        problem = constrained(X, y, clients, groups="classes", limits={1: limit}, l1=0.1)
        upper = problem.geometry.parts.y["multipliers"].regularizer.upper
        assert 1 < upper[0] * limit < 100
    with pytest.raises(ValueError, match=r"limits must be so large that float64 holds loss / limit, got 1e-307"):
        constrained(X, y, clients, groups="classes", limits={1: 1e-307}, l1=0.1)


def test_violation_of_the_catalogue_is_the_excess():
    problem = built("three groups")[0]
    z = next(random_points(problem))
    with double():
        np.testing.assert_array_equal(violation(problem, z), excess(problem.operator(problem.validate_point(z))))


# --- runs -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_on_infeasible_limits_is_not_optimal_and_says_why():
    problem, x, above = built("both classes of random labels")
    run = fx.solve(problem, fx.FeDualExCorrected(0.03), local_steps=5, rounds=40, record_every=20, tol=1e3)
    assert run.gap <= 1e3  # of the Lagrangian with bounded multipliers
    assert run.stop is fx.Stop.INFEASIBLE
    assert run.status is fx.Status.CERTIFIED
    assert fx.Status.OPTIMAL not in {output.status for output in run.outputs.values()}
    value = least(problem, x, above)
    assert 0.85 * value <= float(run.detail.rpartition(" ")[2]) <= value <= run.violation
    assert "CERTIFIED, INFEASIBLE, the limits are infeasible: no model in this domain violates less than" in str(run)


@pytest.mark.slow
def test_a_feasible_run_reports_its_violation_beside_its_gap():
    problem = constrained(*table("cancer"), **FEASIBLE["some clients"])
    run = fx.solve(problem, fx.FeDualExCorrected(0.3), local_steps=5, rounds=200, record_every=50, tol=0.1)
    assert run.stop is fx.Stop.TOLERANCE
    assert run.violation == pytest.approx(violation(problem, run.z).max(), abs=1e-12)
    assert run.violation < 0.01
    assert f", violation <= {round_up(run.violation)}, " in str(run)
    game = fx.simulate(GAME, fx.MirrorProx(0.5), steps=2)
    assert game.violation is None
    assert "violation" not in str(game)


@pytest.mark.slow
def test_an_interrupt_while_the_proof_is_looked_for_keeps_the_run(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    problem = built("three groups")[0]
    monkeypatch.setattr("fedualex.reference.least_violation", lambda problem: LeastViolation(-0.1, 0.1))
    run = fx.simulate(problem, fx.FeDualEx(0.01), rounds=1)
    assert run.stop is fx.Stop.MAX_ROUNDS
    assert run.detail == UNDECIDED
    monkeypatch.setattr("fedualex.reference.least_violation", interrupt)
    run = fx.simulate(problem, fx.FeDualEx(0.01), rounds=1)
    assert run.stop is fx.Stop.INTERRUPTED
    assert run.violation > 0


@pytest.mark.slow
def test_the_command_line_has_a_word_and_a_code_for_it(tmp_path):
    X, y, clients = noise()
    np.savez(tmp_path / "rows.npz", X=X, y=y, clients=clients)
    (tmp_path / "limits.toml").write_text(
        '[problem]\nname = "constrained"\nfile = "rows.npz"\ngroups = "classes"\nlimits = 0.001\nmultiplier = 10.0\n'
        'l1 = 0.01\n\n[method]\nname = "FeDualEx"\neta_c = 0.01\n\n[run]\nrounds = 2\n'
    )
    arguments = ["solve", str(tmp_path / "limits.toml"), "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 7, result.output
    assert "INFEASIBLE (the limits are infeasible: no model in this domain violates less than 0.6" in result.stdout
    stored = json.loads((tmp_path / "run" / "status.json").read_text())
    assert stored["stop"] == "INFEASIBLE"
    assert stored["violation"] == stored["outputs"][stored["output"]]["violation"] > 0.6
    assert f"violation <= {round_up(stored['violation'], 3)}" in result.stdout


# --- estimators -----------------------------------------------------------------------------------------------------


class BothLimited(FederatedClassifier):
    """An estimator whose limits may be infeasible."""

    multiclass = False

    def __init__(self, tol=0.1, max_rounds=20, local_steps=1, method=None):
        super().__init__(tol, max_rounds, local_steps, method)

    def _problem(self, X, label, clients, size, sample_weight):
        return constrained(X, label, clients, groups="classes", limits=0.01, multiplier=5.0, l2=0.1)


@pytest.mark.slow
def test_a_fit_without_a_model_does_not_return_quietly():
    X, y, _ = noise()
    sentence = r"BothLimited has no model: the limits are infeasible: no model in this domain violates less than 0\.6"
    with pytest.raises(ValueError, match=sentence):
        BothLimited().fit(X, y)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_neyman_pearson_names_its_own_arguments_only():
    X, y, _ = noise()
    model = NeymanPearsonClassifier(1e-9, max_rounds=20).fit(X, y)  # no constant score up to 15 is that good
    assert model.violation_ == model.run_.violation
    for limit in (1e-20, 1e-300):
        with pytest.raises(ValueError, match=r"^limit must be at least 1e-15, about the rounding of a loss"):
            NeymanPearsonClassifier(limit).fit(X, y)

"""Methods that decide on their own exchanges, written outside of the package by `init`, `ask` and `tell`."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from support.deploying import NAMES, serve
from support.plain_rows import rows

import fedualex as fx
from fedualex.algorithms import LocalSteps, Method, Stepped, Survey
from fedualex.cli import main
from fedualex.runs.settings import METHODS
from fedualex.tree import Saddle
from fedualex.verification.verify import verify


class Walk(NamedTuple):
    """Where a step begins, and where clients are asked: there, or at the half point."""

    anchor: Saddle
    at: Saddle
    half: bool


class ExtragradientBySurveys(Method):
    """z_half = P(z - eta g(z)); z <- P(z - eta g(z_half)): every exchange is a survey."""

    eta: float
    outputs = ("last",)
    needs_float64 = "operators are exact"

    def init(self, facts, z):
        z = facts.flat.geometry.project(z)
        return Walk(z, z, jnp.asarray(False))

    def ask(self, facts, server):
        return Survey((server.at,))

    def tell(self, facts, server, answer):
        geometry = facts.flat.geometry
        z = geometry.primal(geometry.dual(server.anchor).descend(self.eta, answer[0].operator))
        return Walk(z, z, jnp.asarray(False)) if bool(server.half) else Walk(server.anchor, z, jnp.asarray(True))

    def point(self, server, geometry):
        return server.anchor


class WarmRounds(Method):
    """One survey, which it only looks at, and then the rounds of FeDualEx from where they are."""

    eta: float
    outputs = ("last",)

    @property
    def rounds(self):
        return fx.FeDualEx(self.eta)

    def init(self, facts, z):
        return fx.Dual(facts.flat.geometry.dual(z).omega, jnp.zeros(()))

    def ask(self, facts, server):
        return LocalSteps(server.descend(0.0, server.omega))  # a state of its own, so that it is told of every round

    def tell(self, facts, server, answer):
        assert isinstance(answer, Stepped)
        assert answer.mean is not None
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), answer.server)

    def point(self, server, geometry):
        return geometry.primal(server)


def test_a_method_of_surveys_from_outside_is_solved_certified_and_counted():
    problem = rows("agnostic")
    run = fx.solve(problem, ExtragradientBySurveys(0.3), rounds=400, tol=0.1)
    assert run.stop is fx.Stop.TOLERANCE
    assert list(run.outputs) in (["last"], ["last", "best"])
    assert run.exchanges == run.rounds
    size = sum(leaf.size for leaf in jax.tree.leaves(problem.like))
    assert run.history["bytes_up"][-1] == run.rounds * problem.clients * (size + 1) * 8


def test_it_goes_on_from_its_checkpoint_to_the_bit(tmp_path):
    problem, method, file = rows("agnostic"), ExtragradientBySurveys(0.3), tmp_path / "run.npz"
    whole = fx.simulate(problem, method, rounds=20, record_every=5)
    seen = iter(range(100))
    fx.simulate(problem, method, rounds=20, record_every=5, checkpoint=file, callback=lambda record: next(seen) == 2)
    run = fx.simulate(problem, method, rounds=20, record_every=5, checkpoint=file)
    for a, b in zip(jax.tree.leaves(run.state), jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(run.history["gap_last"], whole.history["gap_last"])


def test_it_is_deployed_as_it_is(tmp_path):
    options = {"problem": rows("agnostic"), "sites": NAMES, "noise": None}
    run, engine = serve(
        tmp_path, method=ExtragradientBySurveys(0.3), rounds=6, local_steps=1, record_every=6, **options
    )
    same = fx.simulate(rows("agnostic"), ExtragradientBySurveys(0.3), rounds=6, record_every=6)
    for a, b in zip(jax.tree.leaves(run.z), jax.tree.leaves(same.z), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    assert {request.task for request, _ in engine.requests} == {"survey"}


def test_a_method_that_asks_for_rounds_one_by_one_takes_those_of_its_local_steps():
    problem = rows("agnostic")
    run = fx.simulate(problem, WarmRounds(0.05), rounds=5, local_steps=3, record_every=5, dtype="float64")
    plain = fx.simulate(problem, fx.FeDualEx(0.05), rounds=5, local_steps=3, record_every=5, dtype="float64")
    for a, b in zip(jax.tree.leaves(run.z), jax.tree.leaves(plain.outputs["last"].z), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


class PlainRounds(WarmRounds):
    """The same, but it sends its own state."""

    def ask(self, facts, server):
        return LocalSteps(server, most=5)


def test_rounds_from_a_state_of_its_own_are_told_one_by_one():
    options = {"rounds": 5, "local_steps": 3, "record_every": 5, "dtype": "float64"}
    runs = [fx.simulate(rows("agnostic"), method, **options) for method in (PlainRounds(0.05), WarmRounds(0.05))]
    for a, b in zip(*(jax.tree.leaves(run.z) for run in runs), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


def test_rounds_through_a_method_carry_what_rounds_carry():
    """But for the weight of the sum, which a round that is not told one by one need not send."""
    game, options = (
        fx.problems.matrix_game(np.eye(2)),
        {"clients": 4, "rounds": 2, "record_every": 2, "dtype": "float64"},
    )
    for more in ({}, {"cohort": 2}):
        asked = fx.simulate(game, WarmRounds(0.05), **options, **more).history["bytes_up"][-1]
        plain = fx.simulate(game, fx.FeDualEx(0.05), **options, **more).history["bytes_up"][-1]
        assert asked == plain + 2 * more.get("cohort", 4) * 8


def test_a_stored_run_of_a_method_of_ones_own_is_verified(tmp_path):
    compared = fx.compare(rows("agnostic"), [ExtragradientBySurveys(0.3)], rounds=10)
    compared.report(tmp_path / "page")
    result = verify(tmp_path / "page")
    assert [check for run in result.runs for check in run.checks if check.agrees is False] == []


def test_its_checkpoint_is_verified_where_a_file_names_it(tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "ExtragradientBySurveys", ExtragradientBySurveys)
    np.savez(tmp_path / "game.npz", A=np.array([[1.0, -1.0], [-1.0, 2.0]]), b=np.zeros(2))
    file = tmp_path / "game.toml"
    file.write_text(
        '[problem]\nname = "bilinear"\nfile = "game.npz"\nx = "Simplex"\ny = "Simplex"\n'
        '[method]\nname = "ExtragradientBySurveys"\neta = 0.3\n[run]\nrounds = 20\nclients = 2\n'
    )
    solved = CliRunner().invoke(main, ["solve", str(file), "--out", str(tmp_path / "run")])
    assert solved.exit_code == 0, solved.output
    found = verify(tmp_path / "run").checks
    assert [check for check in found if check.agrees is False] == []
    assert any(check.what.startswith("point in the checkpoint") for check in found)


def test_what_a_method_asks_for_must_be_answered_by_all():
    with pytest.raises(ValueError, match="surveys all clients: leave out cohort"):
        fx.simulate(rows("agnostic"), fx.FeDualSlide(), rounds=2, cohort=1)

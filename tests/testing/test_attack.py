"""The fuzzer itself: it covers the public surface, repeats a case by its number, and sees what is wrong."""

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from attack import games, surface
from attack.__main__ import parts, table
from attack.exact import Psi
from attack.harness import BrokenPromiseError, Part, attack
from attack.suprema import number, vector
from attack.terms import Term, evaluated

import fedualex as fx
from fedualex.problems import Certificate

TESTS = Path(__file__).parents[1]
CAUGHT = {"capture_output": True, "text": True, "check": True, "timeout": 250}
ROOMS = ("algorithms", "data", "deploy", "estimators", "problems", "reference", "testing", "theory")


def test_every_public_name_is_called_or_excused():
    modules = {name: getattr(fx, name) for name in ROOMS}
    assert surface.uncovered(modules | {"fx": fx}) == set()


def test_a_case_is_repeated_by_its_number():
    drawn = []
    part = Part("draws", "", 1.0, lambda rng: drawn.append(rng.random()))
    attack(part, 3, 7, 0.01)
    attack(part, 3, 7, 60.0, case=0)
    assert drawn[-1] == drawn[0]
    assert len(set(drawn[:-1])) == len(drawn) - 1


def test_failures_are_counted_and_shown_with_what_repeats_them(capsys):
    def fail(rng):
        raise BrokenPromiseError("too small: 1 < 2", "print(1)")

    tally = attack(Part("small", "nothing is small", 1.0, fail), 0, 5, 0.01)
    assert tally.failures == tally.cases > 0
    shown = capsys.readouterr().out
    assert "make attack SEED=5 PARTS=small CASE=0" in shown
    assert "print(1)" in shown
    assert "too small" in table([tally])


def test_a_certificate_below_the_gap_is_seen():
    gap = Decimal("0.1")
    games.check_certificate(Certificate(0.05, 0.06), gap, "")
    for certificate in (Certificate(0.05, 0.04), Certificate(None, None, "no"), Certificate(np.inf, np.inf)):
        with pytest.raises(BrokenPromiseError):
            games.check_certificate(certificate, gap, "")
    with pytest.raises(BrokenPromiseError, match="printed"):
        games.check_text("OPTIMAL: certified gap <= 0.09", gap, "")


def test_exact_arithmetic_against_closed_forms():
    s = vector(np.array([3.0, -1.0]))
    box = Psi("box", 2, lower=[number(-2)] * 2, upper=[number(5)] * 2, l1=number(0.5))
    assert box.conjugate(s) == Decimal("13.5")
    assert Psi("ball2", 2, radius=number(2), l1=number(1)).conjugate(s) == 4
    assert Psi("simplex", 2, radius=number(2)).conjugate(s) == 6
    assert Psi("simplex", 2, l2=number(1)).prox(s, Decimal(0)) == [1, 0]
    assert Psi("capped", 2, cap=number(0.75)).conjugate(s) == 2
    assert abs(float(Psi("space", 1, kl=number(2), q=[number(1)]).conjugate([number(2)])) - 2) < 1e-15


def test_the_exponential_of_an_entropy_loses_digits_and_the_rounding_says_so():
    """Found by the attack: a relative error of s / lam units in exp(s / lam), of which one unit was counted."""
    q, strength = np.array([0.7978317068587801]), 0.027180616782409035
    box = Term("fx.Box(1.0)", Psi("box", 1, lower=[number(-1)], upper=[number(1)]))
    entropy = Psi("orthant", 1, kl=number(strength), q=vector(q))
    for b in np.linspace(-2.9101399886240737, -3.5, 20):
        game = games.Game(np.zeros((1, 1)), np.array([b]), box, Term(f"fx.KL({strength}, {q[0]})", entropy))
        z = fx.Saddle(np.zeros(1), np.array([1e-7]))
        games.check_certificate(evaluated(game.text).certificate(z), game.gap(z), "")


FOUND = [
    ("fx.data.read_csv(path=1)", "path must be the path of a file, got 1"),
    ("fx.data.read_npz(path=True)", "path must be the path of a file, got True"),
    ("fx.data.read_parquet(path=10**400)", "path must be the path of a file, got 1000"),
    ("fx.data.added(parts=[])", "parts must be what `sums` returned, of each client, got None"),
    ("fx.data.sums(X=X, center=['a', 'b'])", "center must be real numbers"),
    ("fx.data.sums(X=X, center=np.ones(3))", "center must be a number, or one for each of 2 columns"),
    ("fx.data.bundled(name=np.array(['a', 'b']))", "name must be one of"),
    ("fx.FedMiD(eta_c=0.1, server_prox=np.ones(7))", "server_prox must be one of"),
    ("fx.Spectral(psi=fx.L1(0.1), route=np.ones(6))", "route must be one of"),
    ("fx.ElasticNet(lam1='a', lam2=0.2)", "ElasticNet: lam1 must be a number >= 0"),
    ("fx.EntropicSimplex(regularizer=-1)", "regularizer=-1 has no closed form"),
    ("fx.problems.active_bounds(problem=0.5, z=Z)", "problem must be a problem such as"),
    ("fx.problems.check_convex_concave(problem=np)", "problem must be a problem such as"),
    ("fx.problems.check_convex_concave(problem=GAME, seed=1.5)", "seed must be a whole number >= 0"),
    ("fx.deploy.run(problem=np.ones(2), method=fx.FeDualEx(0.1), rounds=1)", "problem must be a problem such as"),
    ("fx.tune(problem=..., method=fx.FeDualEx(0.1), grid={'eta_c': [0.1]})", "problem must be a problem such as"),
    ("fx.sweep(problem=GAME, method=np.ones(2), grid={})", "method must be a method such as"),
    ("fx.sweep(problem=GAME, method=fx.FeDualEx(0.1), grid=0.1)", "grid must be step sizes such as"),
    (
        "fx.sweep(problem=GAME, method=fx.FeDualEx(0.1), grid={'eta_c': [0.1]}, seeds=0)",
        "seeds must be whole numbers",
    ),
    ("fx.theory.constants(problem=GAME, z0=2)", "z0 must be fx.Saddle(x, y), got 2"),
    (
        "fx.solve(problem=GAME, method=fx.FeDualEx(0.1), rounds=1, z0=fx.Saddle(np.ones(3), np.ones(2)))",
        "z0.x must have",
    ),
    ("fx.reference.best_response(game=MATRICES, tol='a')", "tol must be a number > 0"),
    ("fx.MirrorProx(eta='a')", "eta must be a number > 0"),
    ("fx.SynchronousDualExtrapolation(eta=-1)", "eta must be a number > 0"),
    ("fx.problems.attack_report(X=X, y=LABELS, z=())", "z must be the answer of"),
    ("fx.problems.attack_report(X=X, y=LABELS, z=Z)", "z.x must be weights and bias"),
    ("fx.testing.check_geometry(geometry=1)", "geometry must be a geometry such as"),
    ("fx.testing.check_regularizer(psi=fx.L1(0.1), seed=0.5)", "seed must be a whole number >= 0"),
    ("fx.testing.check_geometry(geometry=fx.Euclidean(), samples='a')", "samples must be a whole number >= 1"),
]
"""Calls that raised something else, or named no argument; path=1 read and closed the standard output."""

REFUSED = """
import json, sys
from attack import calls
from attack.surface import GIVEN
for name in GIVEN:
    calls.given(name)
for call in json.loads(sys.stdin.read()):
    try:
        print(json.dumps(repr(calls.evaluated(call))))
    except (TypeError, ValueError) as error:
        print(json.dumps(str(error)))
"""


@pytest.mark.slow
def test_wrong_calls_that_the_attack_found():
    """In a process of its own: here, annotations are checked before the library can speak."""
    told = subprocess.run(
        [sys.executable, "-c", REFUSED], cwd=TESTS, input=json.dumps([call for call, _ in FOUND]), **CAUGHT
    )
    answers = [json.loads(line) for line in told.stdout.splitlines()]
    assert [answer for answer, (_, says) in zip(answers, FOUND, strict=True) if says not in answer] == []


def test_the_programs_parts_have_names_of_their_own():
    names = [part.name for part in parts()]
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_smoke():
    """Twenty seconds of all parts, as `SECONDS=20 make attack` runs them."""
    program = [sys.executable, "-m", "attack"]
    done = subprocess.run(program, cwd=TESTS, env={**os.environ, "SECONDS": "20"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout

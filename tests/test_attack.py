"""The fuzzer itself: it covers the public surface, repeats a case by its number, and sees what is wrong."""

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


def test_the_programs_parts_have_names_of_their_own():
    names = [part.name for part in parts()]
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_smoke():
    """Twenty seconds of all parts, as `SECONDS=20 make attack` runs them."""
    here = Path(__file__).parent
    program = [sys.executable, "-m", "attack"]
    done = subprocess.run(program, cwd=here, env={**os.environ, "SECONDS": "20"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout

"""The example scripts run as they stand, are short, and say what they promise."""

import runpy
import time
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "bounds.py": ["Theorem 1 corrected, K=1: step ", "Proposition B, any K: step ", "gap at the start: "],
    "adversarial.py": ["UNCERTIFIED", "not concave", "density of the attack"],
    "estimators.py": [
        "FederatedLogisticRegression: OPTIMAL",
        "AgnosticClassifier: OPTIMAL",
        "FederatedAUCClassifier: OPTIMAL",
        "NeymanPearsonClassifier: OPTIMAL",
    ],
    "lasso.py": ["OPTIMAL, TOLERANCE: certified gap <= ", "largest difference"],
    "matrix_game.py": ["66 plans", "CERTIFIED, MAX_ROUNDS: certified gap <= ", "worst payoff"],
    "low_rank.py": ["OPTIMAL", "rank 2 of 6"],
    "robust_regression.py": ["OPTIMAL", "least squares"],
    "tracking.py": ["CERTIFIED, MAX_ROUNDS: certified gap <= "],
    "auc.py": ["OPTIMAL, TOLERANCE: certified gap <= ", "test AUC 0.9", "active bounds: none"],
    "agnostic.py": ["cvar=1.0: mean loss ", "cvar=None: mean loss ", "certified gap <= "],
    "neyman_pearson.py": ["limit 0.1: exceeded by ", "missed tumors ", "certified gap <= "],
}
SLOW = {
    "bounds.py",
    "adversarial.py",
    "agnostic.py",
    "auc.py",
    "estimators.py",
    "low_rank.py",
    "neyman_pearson.py",
    "robust_regression.py",
}


def test_every_script_is_listed():
    assert {path.name for path in EXAMPLES.glob("*.py")} == SAYS.keys()


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in SAYS]
)
def test_example_runs(name, capsys):
    path = EXAMPLES / name
    assert len(path.read_text().splitlines()) < 60
    began = time.process_time()
    runpy.run_path(str(path), run_name="__main__")
    assert time.process_time() - began < 2 * 60  # a minute of two cores, however busy they are with other things
    shown = capsys.readouterr().out
    for words in SAYS[name]:
        assert words in shown

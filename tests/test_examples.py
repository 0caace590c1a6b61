"""Every example script runs as it stands, is short, and says what it should."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "adversarial": ["UNCERTIFIED", "not concave", "density of the attack"],
    "estimators": ["FederatedLogisticRegression: OPTIMAL", "AgnosticClassifier: OPTIMAL"],
    "lasso": ["OPTIMAL: certified gap <= ", "largest difference"],
    "low_rank": ["OPTIMAL", "rank 2 of 6"],
    "robust_regression": ["OPTIMAL", "least squares"],
}


@pytest.mark.parametrize("name", SAYS)
def test_example_runs(name, capsys):
    script = EXAMPLES / f"{name}.py"
    assert len(script.read_text().splitlines()) < 60
    runpy.run_path(str(script), run_name="__main__")
    shown = capsys.readouterr().out
    for text in SAYS[name]:
        assert text in shown

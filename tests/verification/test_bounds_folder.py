"""Folders of runs whose answer follows from several surveys: spectral parts, methods that have no other output."""

import json

import equinox as eqx
import numpy as np
import pytest
from support.verified_folders import GAME, here, solved  # noqa: F401

import fedualex as fx
from fedualex.regularizers import for_reports
from fedualex.report.collect import collect
from fedualex.runs import folder
from fedualex.runs.settings import configure
from fedualex.runs.solving import solve_into
from fedualex.runtime.run import columns
from fedualex.verification.evidence import Verdict
from fedualex.verification.verify import verify


@pytest.mark.slow
def test_spectral_parts_have_bounds_too(here, tmp_path):
    np.savez(tmp_path / "matrix.npz", A=np.diag([1.0, 0.5, 0.2]), b=np.ones((3, 2)))
    psi = {"Spectral": {"L1": 0.1, "Box": 0.5}}
    problem = {**GAME, "file": "matrix.npz", "x": psi, "y": {"Box": 0.5}}
    tables = {"problem": problem, "method": {"name": "FeDualSlide"}, "run": {"rounds": 2}}
    solve_into(tmp_path / "run", configure(tables, tmp_path))
    status = json.loads((tmp_path / "run" / "status.json").read_text())
    assert status["outputs"]["bounds"]["gap"] is not None
    assert verify(tmp_path / "run").verdict is Verdict.VERIFIED


@pytest.mark.slow
def test_a_method_of_surveys_has_bounds_alone(solved):
    run = folder.load(solved("slide"))
    assert set(run.status["outputs"]) == {"bounds"}
    assert run.status["exchanges"] == run.history[-1]["exchanges"] > 0
    points, weights, starts, told = run.surveys("bounds")
    assert starts == {} == told  # its cuts are those of the surveys, and the rows are here
    assert abs(np.sum(weights["upper"]) - 1) < 1e-12
    z, _ = run.points("bounds")
    assert np.allclose(weights["upper"] @ points["x"], z["x"], rtol=0, atol=1e-15)
    assert np.allclose(weights["lower"] @ points["y"], z["y"], rtol=0, atol=1e-15)
    (panel,) = collect(solved("slide"))["panels"]
    assert [curve["output"] for curve in panel["curves"]] == ["bounds"]
    assert panel["curves"][0]["exchanges"] == [record["exchanges"] for record in run.history]


def test_a_record_may_lack_an_output():
    found = columns([{"round": 0}, {"round": 1, "gap_bounds": 0.5}])
    assert found["gap_bounds"].tolist() == [None, 0.5]


def test_spectral_parts_on_the_svd_route_may_be_traced():
    """Whether a box is symmetric cannot be asked of a tracer."""
    exact = for_reports(fx.Spectral(fx.L1(0.1) + fx.Box(0.5)))
    value = eqx.filter_jit(lambda psi: for_reports(psi).value(np.diag([0.5, 0.25])))(exact)
    assert float(value) == pytest.approx(0.075)

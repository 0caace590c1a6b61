"""The sentences that a report begins with, and the model beside a run."""

import json

import numpy as np
import pytest
from support.paper_runs import as_the_paper_says, write_experiment, write_run

from fedualex.data import Encoder, Standardizer
from fedualex.models import Answers, Model, save
from fedualex.problems.families import reading_of
from fedualex.report.collect import collect
from fedualex.report.figures import settings_text
from fedualex.report.page import check_report
from fedualex.report.panels import answer_of, compared_panel, findings, headline, verdicts
from fedualex.runs import folder


def stored(path, label="A", gap=0.0125, density=0.5, **changes):
    """A run by hand, with other entries of its status and of [run]."""
    write_run(path, label, lambda output, r: (gap, density, None), eta_c=0.1 + len(label) / 100)
    for file, entries in changes.items():
        name = {"status": "status.json", "run": "manifest.json"}[file]
        document = json.loads((path / name).read_text())
        (document["configuration"]["run"] if file == "run" else document).update(entries)
        (path / name).write_text(json.dumps(document))
    return folder.load(path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "Certified within 0.0125 of optimal after 10 rounds, 0.03 MB."),
        ({"gap": 0.012345}, "Certified within 0.0124 of optimal after 10 rounds, 0.03 MB."),  # never rounded down
        ({"gap": None}, "Nothing is certified after 10 rounds, 0.03 MB: unbounded."),
        (
            {"run": {"tol": 0.01}, "status": {"stop_meaning": "all rounds were run"}},
            "Certified within 0.0125 of optimal after 10 rounds, 0.03 MB; the tolerance 0.01 was not reached "
            "(all rounds were run).",
        ),
        (
            {"status": {"violation": 0.002}},
            "Certified within 0.0125 of optimal after 10 rounds, 0.03 MB, with limits exceeded by at most 0.002.",
        ),
        (
            {"run": {"steps": 10}, "status": {"bytes_up": None, "bytes_down": None}},
            "Certified within 0.0125 of optimal after 10 steps.",
        ),
    ],
)
def test_the_answer_of_a_run_in_one_sentence(tmp_path, changes, sentence):
    assert headline({"A": [stored(tmp_path / "run", **changes)]}) == sentence


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "by hand"),
        (
            {"clients": 100, "local_steps": 10, "rounds": 500, "noise": 0.1},
            "by hand; 100 clients, 10 local steps, 500 rounds, noise 0.1",
        ),
        ({"clients": None, "local_steps": [1, 2, 3], "steps": 40, "noise": 0.0}, "by hand; 40 steps"),  # no one number
    ],
)
def test_settings_in_words(tmp_path, settings, words):
    assert settings_text(stored(tmp_path / "run", run=settings)) == words


def test_the_two_best_of_several_methods_and_means_over_seeds(tmp_path):
    runs = {name: [stored(tmp_path / name, name, gap)] for name, gap in (("C", 0.3), ("A", 0.1), ("B", 0.2))}
    runs["A"].append(stored(tmp_path / "again", "A", 0.2))
    assert headline(runs) == (
        "A is certified within 0.151 of optimal on average over 2 seeds, after 10 rounds, 0.03 MB; "
        "B, the next, within 0.2 after 10 rounds, 0.03 MB."
    )
    assert headline({"D": [stored(tmp_path / "D", gap=None)], "E": [stored(tmp_path / "E", gap=None)]}) == (
        "Nothing is certified: unbounded."
    )


def test_what_has_no_curve_is_shown_by_the_best_that_has_one(tmp_path):
    run = stored(tmp_path / "run")
    assert answer_of("A", [run]) == {"method": "A", "output": "last", "curve": "last"}
    run.status["output"] = "best"
    for record in run.history:
        record["gap_ergodic"] = record["gap_last"] / 2
    assert answer_of("A", [run]) == {"method": "A", "output": "best", "curve": "ergodic"}


def test_findings_compare_at_equal_cost_by_structure_and_in_last(tmp_path):
    ours, theirs = (
        stored(tmp_path / name, name, gap, density) for name, gap, density in (("ours", 0.1, 0.7), ("theirs", 0.3, 0.9))
    )
    for record in theirs.history:  # twice as many bytes, and a better gap once it has sent more than ours
        record["gap_ergodic"] = 0.01 if record["round"] == 10 else record["gap_last"]
        record["bytes_up"] *= 2
    exact = {"value": 2.0, "gap": 0.0, "how": "by hand", "density": 0.65, "rank": None, "blocks": {}}
    panel = compared_panel("both", [ours, theirs], exact)
    assert panel["x"] == "megabytes"
    assert panel["findings"] == [
        "At 0.03 MB, the smallest gap that each has certified: ours 0.1 (ergodic), theirs 0.3 (ergodic)."
    ]
    polished = [row | {"output": "polished"} for row in panel["table"] if row["output"] == "last"]
    assert findings(panel | {"table": polished})[1] == (
        "Density of the polished outputs, where the exact optimum has 0.650, the nearest first: ours 0.700, theirs 0.900."
    )
    for row in panel["table"]:
        if row["output"] == "ergodic":
            row |= {"answer": True, "gap": 0.001 if row["method"] == "theirs" else 0.2}
        else:
            row["answer"] = False
    assert findings(panel)[-1] == (
        "In last, the server's own point, the order is another one: ours 0.1 (density 0.700), theirs 0.3 (density 0.900)."
    )


def test_a_reproduction_begins_with_its_verdicts_and_says_if_it_is_small(tmp_path):
    for quick in (False, True):
        root = tmp_path / str(quick)
        for name in ("l1-k1", "nuclear-k1"):
            write_experiment(root, name, as_the_paper_says, quick=quick)
        folder.write_collection(root, "reproduction", experiments=["l1-k1", "nuclear-k1"], seeds=2)
        data = collect(root)
        check_report(data)
        assert data["headline"] == verdicts(data["claims"])
        assert data["headline"].startswith("Of 12 sentences, 12 hold in every reading")
        assert ("small instance" in data["small"]) == quick
        assert ("small instance" in collect(root / "l1-k1")["small"]) == quick
        assert data["styles"]["FeDualEx"]["color"] == "#0072B2"


@pytest.fixture
def model():
    encoder = Encoder(
        ("age", "dose"),
        {"site": ("east", "north", "south")},
        Standardizer(np.array([40.0, 2.0]), np.array([10.0, 0.5])),
        references={"site": "north"},
        shares={"site": (0.2, 0.4, 0.4)},
    )
    measures = {"rows": 8, "overall": {"accuracy": 0.8}, "clients": {"a": {"accuracy": 0.9}, "b": {"accuracy": None}}}
    training = {"goal": "fair", "clients": {"a": 20, "b": 4}, "held_out": measures}
    answers = Answers(reading_of("classes"), np.array(["no", "yes"]))
    return Model(encoder, np.array([0.5, -1.0, 0.0, 0.25]), np.array(0.1), answers, "ill", {"gap": 0.1}, training)


@pytest.mark.parametrize("place", ["fit", "fit/run", "run"])
def test_the_model_of_a_fit_has_named_signed_coefficients_and_clients(tmp_path, model, place):
    """Beside the run of a fit, or within the folder of a run."""
    run = tmp_path / ("fit/run" if "fit" in place else "run")
    stored(run)
    save(model, (tmp_path / "fit" if "fit" in place else run) / "model")
    data = collect(tmp_path / place)
    check_report(data)
    (panel,) = data["panels"]
    assert data["title"] == "A model of ill (fair)"
    assert panel["name"] == place.split("/")[0]
    found = panel["model"]
    assert found["meaning"] == "What each feature adds to the score, which is above 0 for ill = yes."
    assert [(one["feature"], one["deviation"], one["unit"]) for one in found["coefficients"]] == [
        ("dose", [-1.0], [-2.0]),
        ("age", [0.5], [0.05]),
        ("site=south (against north)", [0.25], [0.25]),
    ]
    assert found["zeros"] == 1
    assert found["intercept"] == [pytest.approx(0.1 - 0.5 * 4 + 1.0 * 4)]
    assert found["measures"] == {
        "rows": 8,
        "names": ["accuracy"],
        "overall": [0.8],
        "worst": [0.9],
        "clients": [{"name": "a", "trained": 20, "values": [0.9]}, {"name": "b", "trained": 4, "values": [None]}],
    }


def test_a_run_without_a_model_has_none(tmp_path):
    stored(tmp_path / "run")
    assert collect(tmp_path / "run")["panels"][0]["model"] is None

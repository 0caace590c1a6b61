"""Hospitals that trust the server with sums only: the same model, rules of their own, and a ledger that agrees."""

import shutil

import numpy as np
import pytest
from support.consortium import deployment, noting, run_in_threads, write_tables
from support.patients import HOSPITALS

from fedualex import models
from fedualex.deploy.clients import SilentSitesError
from fedualex.deploy.consortium.messages import read_known
from fedualex.deploy.ledger import audit
from fedualex.deploy.policy import POLICY


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Tables, and a deployment with keys that has not run."""
    folder = tmp_path_factory.mktemp("trust")
    write_tables(folder)
    deployment(folder, secure_sums="auto")
    return folder


@pytest.fixture(scope="module")
def ended(place, tmp_path_factory):
    """The deployment after a run under masks, and all that sites sent."""
    root, seen = shutil.copytree(place / "deployment", tmp_path_factory.mktemp("ended") / "deployment"), []
    run_in_threads(root, noting(seen))
    return root, seen


def test_under_masks_summaries_and_model_are_the_same(ended, place):
    """Summaries to the last bits. 20 exchanges later the last bits of surveys have grown, as they do without masks."""
    root, _ = ended
    shutil.copytree(place, plain := root.parent / "plain")
    shutil.rmtree(plain / "deployment")
    other = deployment(plain)
    run_in_threads(other)
    for one, same in zip(read_known(root / "server"), read_known(other / "server"), strict=True):
        for name, array in same.items():
            if array.dtype.kind == "f":
                np.testing.assert_allclose(one[name], array, rtol=1e-15, atol=1e-17)
            else:
                np.testing.assert_array_equal(one[name], array)
    masked, bare = (models.load(folder / "server") for folder in (root, other))
    np.testing.assert_allclose(masked.weights, bare.weights, rtol=0, atol=1e-4)
    assert masked.certificate["gap"] == pytest.approx(bare.certificate["gap"], abs=1e-5)
    assert masked.certificate["gap"] <= masked.certificate["tol"]


def test_what_is_added_up_leaves_as_words_that_nobody_can_read(ended):
    _, seen = ended
    for _, request, arrays in seen:
        assert bool(request.nonce) == (request.task not in ("columns", "begin", "model"))
        summed = [
            a for name, a in arrays.items() if name.partition(".")[0] in ("sums", "operators", "values", "points")
        ]
        assert all(array.dtype == np.uint64 for array in summed)
    hidden = np.concatenate(
        [a.reshape(-1) for _, q, arrays in seen if q.nonce for a in arrays.values() if a.dtype == np.uint64]
    )
    counts = np.bincount(hidden.view(np.uint8), minlength=256)
    expected = counts.sum() / 256
    assert np.sum((counts - expected) ** 2 / expected) < 255 + 6 * np.sqrt(2 * 255)


def test_the_ledgers_hold_every_answer(ended):
    root, seen = ended
    for name in HOSPITALS:
        found = audit(root / "sites" / name)
        sent = [(request.task, request.round) for site, request, _ in seen if site == name]
        lines = [line for line in found["lines"] if line["kind"] == "release"]
        assert sorted((line["task"], line["round"]) for line in lines) == sorted(sent)
        left = {(request.task, request.round): arrays for site, request, arrays in seen if site == name}
        for line in lines:
            masked = [part for part, array in left[line["task"], line["round"]].items() if array.dtype == np.uint64]
            assert sorted([*line["under_masks"], *["check"] * bool(line["nonce"])]) == sorted(masked)
            assert sorted(line["under_masks"] + line["in_the_clear"]) == sorted(line["arrays"])
        summary = next(line for line in lines if line["task"] == "summary")
        assert {"names", "labels.0", "largest.0"} <= set(summary["in_the_clear"])
        assert found["totals"]["under_masks"] == sum(bool(line["under_masks"]) for line in lines) < len(lines)
        assert found["damage"] == ""


RULES = [
    ("least_rows = 1000", "this site answers from at least 1000 rows"),
    ("least_group = 30", "this site answers from at least 30 rows in each class and category"),
    ('goals = ["auc"]', "this site takes part in auc, not in 'fair'"),
    ("exchanges_per_day = 3", "this site gives 3 answers in 24 hours, and has given them"),
    ('tasks = ["survey"]', "this site answers 'survey', not 'columns'"),
    ("epsilon = 1.0", "this site releases nothing without noise, and the run has no privacy"),
]


@pytest.mark.parametrize(("rule", "reason"), RULES, ids=[rule for rule, _ in RULES])
def test_a_server_is_told_which_rule_is_in_its_way(place, tmp_path, rule, reason):
    root = shutil.copytree(place / "deployment", tmp_path / "deployment")
    (root / "sites" / "north" / POLICY).write_text(rule)
    asked = []

    def counted(works):
        return {**works, "north": lambda request: asked.append(request.task) or works["north"](request)}

    with pytest.raises(SilentSitesError) as refused:
        run_in_threads(root, counted)
    assert f"north (refused: {reason})" in str(refused.value)
    assert audit(root / "sites" / "north")["totals"]["releases"] == (3 if "per_day" in rule else 0)
    assert len(asked) == (4 if "per_day" in rule else 1), "a refusal is final"


def test_rules_that_are_met_and_a_site_that_keeps_no_model(ended, place, tmp_path):
    root = shutil.copytree(place / "deployment", tmp_path / "deployment")
    rules = 'least_rows = 10\nleast_group = 1\ngoals = ["fair"]\nsecure_sums = true\nkeep_model = false\n'
    (root / "sites" / "north" / POLICY).write_text(rules)
    run_in_threads(root)
    assert not (root / "sites" / "north" / "model").exists()
    assert models.load(root / "sites" / "west").weights.size == models.load(ended[0] / "server").weights.size

"""Models: kept, moved, explained, turned into scikit-learn's, and refused where they are not one."""

import io
import json
import os
import shutil
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pandas
import pytest
from support.committee_data import effect, full_training, path_curve
from support.patients import write

import fedualex as fx
from fedualex import models
from fedualex.data import Coding, Encoder
from fedualex.models import Answers, Model
from fedualex.models.store import DEEPEST, MOST_ARRAYS, MOST_JSON, _checksums
from fedualex.problems.families import reading_of

FEATURES = ("age", "dose", "unit", "town")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return fx.data.read_csv(write(tmp_path_factory.mktemp("table") / "t.csv"))


def model_of(table, kind, outputs=()):
    features = fx.data.Table({name: table[name] for name in FEATURES}, "t")
    encoder = Encoder.fit(features)
    rng = np.random.default_rng(1)
    labels = {"ranking": ["sick", "well"], "classes": ["a", "b", "c"] if outputs else ["sick", "well"], "numbers": []}[
        kind
    ]
    scale = {"center": np.full(outputs, 20.0), "scale": np.full(outputs, 3.0)} if kind == "numbers" else {}
    target = ("days", "cost") if kind == "numbers" and outputs else "outcome"
    weights = rng.normal(size=(len(encoder.features), *outputs))
    answers = Answers(reading_of(kind), np.array(labels), 0.3 if kind == "ranking" else 0.0, **scale)
    return Model(encoder, weights, rng.normal(size=outputs), answers, target, {"gap": 0.01}, {"goal": "test"})


KINDS = [("classes", ()), ("classes", (3,)), ("ranking", ()), ("numbers", ()), ("numbers", (2,))]


@pytest.mark.parametrize(("kind", "outputs"), KINDS)
def test_a_stored_and_moved_model_predicts_the_same(table, tmp_path, kind, outputs):
    model = model_of(table, kind, outputs)
    models.save(model, tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there")
    again = models.load(tmp_path / "there")
    np.testing.assert_array_equal(again.decision_function(table), model.decision_function(table))
    assert again.predict(table).tolist() == model.predict(table).tolist()
    assert str(again) == str(model)
    assert again.training == {"goal": "test"}


@pytest.mark.parametrize(("kind", "outputs"), KINDS)
def test_scikit_learns_pipeline_predicts_the_same(table, kind, outputs):
    model = model_of(table, kind, outputs)
    pipeline = model.to_sklearn()
    rows = np.stack([np.asarray(table[name], object) for name in model.columns], axis=1)
    rows[rows[:, 3] == "", 3] = "nowhere"  # unseen is as missing
    if kind == "numbers":
        np.testing.assert_allclose(pipeline.predict(rows), model.predict(table), rtol=1e-12)
    else:
        assert pipeline.predict(rows).tolist() == model.predict(table).tolist()
        shift = model.answers.threshold
        np.testing.assert_allclose(pipeline.decision_function(rows) + shift, model.decision_function(table), atol=1e-12)
    if kind == "classes":
        np.testing.assert_allclose(pipeline.predict_proba(rows), model.predict_proba(table), atol=1e-12)
    else:
        assert not hasattr(pipeline, "predict_proba")


@pytest.mark.parametrize(("kind", "outputs"), KINDS)
def test_coefficients_are_those_of_rows_as_they_are(table, kind, outputs):
    """answer = intercept + sum_j per_unit_j value_j for rows without holes; a constant column has none."""
    model = model_of(table, kind, outputs)
    full = table.take(~np.isnan(table["age"]) & (table["town"] != ""))
    total = np.broadcast_to(model.intercept, (full.rows, *outputs)).reshape(full.rows, -1).copy()
    for found in model.coefficients:
        name, _, category = found.feature.partition(" (against")[0].partition("=")
        values = (full[name] == category).astype(float) if category else full[name]
        total += np.outer(values, found.per_unit)
    scores = model.decision_function(full)
    expected = model.answers.of(scores) if kind == "numbers" else scores
    np.testing.assert_allclose(total, np.reshape(expected, total.shape), rtol=1e-10, atol=1e-10)
    assert next(c for c in model.coefficients if c.feature == "unit").per_unit.tolist() == [0] * (outputs or (1,))[0]
    sizes = [c.size for c in model.coefficients]
    assert sizes == sorted(sizes, reverse=True)


def test_coefficients_that_differ_in_their_last_digit_are_in_the_order_of_the_features(table):
    model = model_of(table, "classes")
    for first, second in ((1.0, np.nextafter(1.0, 2.0)), (np.nextafter(1.0, 2.0), 1.0)):
        weights = np.zeros(len(model.weights))
        weights[-2:] = first, -second
        found = [c.feature for c in replace(model, weights=weights).coefficients]
        assert found[:2] == list(model.encoder.features[-2:])


def test_a_model_of_several_targets_is_one_of_each(table):
    model = model_of(table, "numbers", (2,))
    each = model.parts()
    assert [part.target for part in each] == list(model.targets) == ["days", "cost"]
    assert str(model).startswith("model of numbers for 'days', 'cost': 5 of 5 features")
    np.testing.assert_allclose(np.stack([part.predict(table) for part in each], axis=1), model.predict(table))
    for t, part in enumerate(each):
        whole = {c.feature: c.per_unit[t] for c in model.coefficients}
        assert {c.feature: c.per_unit[0] for c in part.coefficients} == pytest.approx(whole)
    assert model_of(table, "numbers").parts()[0].target == "outcome"
    with pytest.raises(ValueError, match="weights must have a column for each of"):
        replace(model, target=("days", "cost", "age"))


def test_probabilities_only_where_they_mean_something(table):
    shares = model_of(table, "classes", (3,)).predict_proba(table)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    for kind, reason in (("ranking", "only order rows"), ("numbers", "predicts numbers")):
        with pytest.raises(ValueError, match=reason):
            model_of(table, kind).predict_proba(table)


def test_what_is_unseen_is_said_and_what_lacks_is_refused(table):
    model = model_of(table, "classes")
    other = dict(table.columns) | {"town": np.where(table["town"] == "Oslo", "Bern", table["town"])}
    assert model.unseen(other) == {"town": ["Bern"]}
    assert model.unseen(table) == {}
    with pytest.raises(ValueError, match="must have the column 'dose'"):
        model.predict({name: table[name] for name in ("age", "unit", "town")})
    with pytest.raises(ValueError, match="'age' must hold numbers, as when it was fitted, got text"):
        model.predict(dict(table.columns) | {"age": np.full(table.rows, "old")})
    with pytest.raises(TypeError, match="table must map the names of columns to columns"):
        model.predict(np.zeros((3, 4)))


def test_what_is_no_model_is_refused_in_one_sentence(table, tmp_path):
    folder = models.save(model_of(table, "classes"), tmp_path / "m")
    with pytest.raises(ValueError, match=r"is no model: it has no model.json"):
        models.load(tmp_path)
    document = json.loads((folder / "model.json").read_text())

    def stored(**changes):
        changed = document | changes
        changed["checksums"] = _checksums(changed, (folder / "model.npz").read_bytes())
        (folder / "model.json").write_text(json.dumps(changed))
        return folder

    with pytest.raises(ValueError, match="has schema 99, of another version of fedualex; this one reads 3"):
        models.load(stored(schema=99))
    with pytest.raises(ValueError, match="has schema None"):
        models.load(stored(kind="run"))
    with pytest.raises(ValueError, match=r"is damaged: .*must fit"):
        models.load(stored(categories={"town": {"levels": ["Rome"], "shares": [1.0], "reference": "Rome"}}))
    with pytest.raises(
        ValueError, match=r"is damaged: .*must have a share for each category, and one as its reference"
    ):
        models.load(stored(categories={"town": {"levels": ["Rome"], "shares": [], "reference": "Rome"}}))
    with pytest.raises(ValueError, match=r"is damaged: .*'flat' must be a column of the model"):
        models.load(stored(indicators=[["age", "flat"]]))
    with pytest.raises(
        ValueError, match=r"is a model of schema 2, whose categories had no reference: fit it again, or"
    ):
        models.load(stored(schema=2))
    with pytest.raises(ValueError, match=r"is damaged: .*one of classes, ranking, risk, numbers"):
        models.load(stored(answers=document["answers"] | {"kind": "oracle"}))
    (folder / "model.json").write_text("{")
    with pytest.raises(ValueError, match="is no model of fedualex"):
        models.load(folder)
    stored()
    (folder / "model.npz").write_bytes(b"PK")
    with pytest.raises(ValueError, match="is damaged"):
        models.load(folder)


def test_numbers_that_are_not_finite_are_no_model(table):
    model = model_of(table, "classes")
    with pytest.raises(ValueError, match="must be finite"):
        Model(model.encoder, np.nan * model.weights, model.bias, model.answers, "outcome")


def test_a_data_frame_will_do(table):
    model = model_of(table, "classes")
    frame = pandas.DataFrame({name: table[name] for name in table})
    assert model.predict(frame).tolist() == model.predict(table).tolist()


def test_a_folder_whose_files_were_changed_is_refused(table, tmp_path):
    folder = models.save(model_of(table, "classes"), tmp_path / "model")
    text, arrays = (folder / "model.json").read_text(), (folder / "model.npz").read_bytes()
    models.load(folder)
    (folder / "model.json").write_text(text.replace('"threshold": 0.0', '"threshold": 0.5'))
    with pytest.raises(ValueError, match="a checksum differs"):
        models.load(folder)
    (folder / "model.json").write_text(text)
    with np.load(folder / "model.npz") as stored:
        np.savez(folder / "model.npz", **{key: 2 * stored[key] if key == "weights" else stored[key] for key in stored})
    with pytest.raises(ValueError, match="a checksum differs"):
        models.load(folder)
    (folder / "model.npz").write_bytes(arrays)
    document = json.loads(text)
    del document["checksums"]
    (folder / "model.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="is damaged: KeyError"):
        models.load(folder)


def bomb(path, zeros):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weights.npy", bytes(zeros))


def long_header(path, zeros):
    """An array of which the header promises many numbers and the file has one."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (zeros,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("weights.npy", file.getvalue() + bytes(8))


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda folder: (folder / "model.json").write_bytes(b" " * (MOST_JSON + 1)), "has more than 16777216 bytes"),
        (lambda folder: (folder / "model.json").write_text("[" * 100_000), "is no model of fedualex: RecursionError"),
        (
            lambda folder: (folder / "model.json").write_text('{"kind": ' + "[" * 40 + "]" * 40 + "}"),
            f"lie more than {DEEPEST} deep",
        ),
        (lambda folder: bomb(folder / "model.npz", MOST_ARRAYS + 1), "the archive holds more than 268435456 bytes"),
        (lambda folder: long_header(folder / "model.npz", 10**11), "longer or shorter than its header says"),
        (lambda folder: (folder / "model.npz").write_bytes(b"no archive"), "is damaged: BadZipFile"),
    ],
)
def test_a_huge_deep_or_foreign_model_is_refused_within_stated_limits(table, tmp_path, spoil, match):
    folder = models.save(model_of(table, "classes"), tmp_path / "model")
    spoil(folder)
    tracemalloc.start()
    with pytest.raises(ValueError, match=match) as refused:
        models.load(folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "\n" not in str(refused.value)
    assert peak < 2 * MOST_JSON + 2**20


def kept(**changes):
    """All that a model keeps of its training, with other entries in some of its tables."""
    training = full_training(["a", "b"])
    return {"training": training | {name: training[name] | own for name, own in changes.items()}}


TOWN = {"levels": ["Oslo", "Rome"], "shares": [0.5, 0.5], "reference": "Rome"}


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"training": [0]}, "training must be a table"),
        ({"training": {"held_out": 5}}, "training.held_out must be a table"),
        ({"training": {"done": "all"}}, "training.done must be a list of sentences"),
        ({"training": {"weighs": None}}, "training.weighs must be a list of sentences, got None"),
        ({"training": {"created": None}}, "training.created must be a text, got None"),
        ({"training": {"id": 5}}, "training.id must be the name of a column"),
        ({"training": {"effects": []}}, "training.effects must be a table"),
        ({"training": {"effects": {"rows": []}}}, "training.effects must be a table of effects, or a sentence"),
        ({"training": {"effects": {"refused": 5}}}, "training.effects.refused must be a text, got 5"),
        (kept(effects={"rows": [{"name": "age"}]}), r"training.effects.rows\[0\] must be a table"),
        (kept(effects={"rows": [effect("age", 0.1) | {"p": "small"}]}), r"effects.rows\[0\].p must be a number"),
        (kept(effects={"kind": "guess"}), "effects.kind must be one of model-based, "),
        (kept(effects={"degrees": 0}), "effects.degrees must be a whole number > 0"),
        (kept(effects={"others": {"sandwich": {}}}), "effects.others.sandwich must be a table of effects"),
        (kept(penalty={"curve": path_curve() | {"chosen": 3}}), "curve.chosen must be the place of a value, got 3"),
        (
            kept(penalty={"curve": path_curve() | {"gaps": [1e-7]}}),
            "curve.values must be as many numbers as the others",
        ),
        (
            kept(penalty={"curve": path_curve() | {"values": [1, 0, 1]}}),
            r"curve.values\[1\] must be a number > 0, got 0",
        ),
        (kept(held_out={"curves": {"overall": {"roc": [[0.5, 2, 1]]}}}), r"roc\[0\]\[1\] must be a number from 0 to 1"),
        (kept(held_out={"curves": {"overall": {"bins": [[0, 0, 0, 0, 0]]}}}), r"bins\[0\]\[0\] must be a number > 0"),
        (kept(held_out={"intervals": {"overall": {"auc": [0.1]}}}), "overall.auc must be the ends of an interval"),
        (kept(held_out={"calibration": {"overall": {}}}), "calibration.overall must be a calibration"),
        (kept(held_out={"confidence": 1}), "held_out.confidence must be a number between 0 and 1"),
        (kept(held_out={"clients": {"a b": {"auc": "x"}}}), "held_out.clients.'a b'.auc must be a number"),
        (kept(ordinary={"held_out": {"rows": -1}}), "ordinary.held_out must be a table of measures"),
        ({"training": {"rows": "many"}}, "training.rows must be a whole number >= 0, got 'many'"),
        ({"training": {"clients": [5]}}, "training.clients must be a table"),
        ({"training": {"configuration": {"problem": 5}}}, "training.configuration.problem must be a table"),
        ({"training": {"rate": "0.05"}}, "training.rate must be a table with a sentence"),
        ({"training": {"versions": {"jax": 1}}}, "training.versions.jax must be a text"),
        ({"training": {"penalty": {}}}, "training.penalty must be a table with a sentence"),
        ({"certificate": {"gap": "small"}}, "certificate.gap must be a number"),
        ({"certificate": {"gap": 10**400}}, "certificate.gap must be a number"),
        ({"numbers": "age"}, "numbers must be a list of names"),
        ({"categories": ["town"]}, "categories must be a table"),
        ({"categories": {"town": "Rome"}}, "categories.town must be a table of levels, shares and reference"),
        (
            {"categories": {"town": TOWN | {"levels": ["Rome", "Rome"]}}},
            "town.levels must be a list of different words",
        ),
        ({"categories": {"town": TOWN | {"shares": [0.5]}}}, "'town' must have a share for each category, and one as"),
        (
            {"categories": {"town": TOWN | {"shares": [0.5, "x"]}}},
            "'town' must have a share for each category, and one as",
        ),
        (
            {"categories": {"town": TOWN | {"reference": "Lima"}}},
            "'town' must have a share for each category, and one as",
        ),
        ({"codes": ["age"]}, "codes must be a list of columns of categories"),
        ({"indicators": [["age"], ["age"]]}, "indicators must be lists of columns, each column in one"),
        ({"indicators": "age"}, "indicators must be lists of columns, each column in one"),
        ({"missing": "guess"}, "missing must be one of mean, indicator, drop"),
        ({"target": []}, "target must be a name"),
    ],
)
def test_entries_of_a_wrong_kind_are_named(table, tmp_path, changes, match):
    folder = models.save(model_of(table, "classes"), tmp_path / "m")
    changed = json.loads((folder / "model.json").read_text()) | changes
    changed["checksums"] = _checksums(changed, (folder / "model.npz").read_bytes())
    (folder / "model.json").write_text(json.dumps(changed))
    with pytest.raises(ValueError, match=match) as refused:
        models.load(folder)
    assert "\n" not in str(refused.value)


def test_labels_of_another_model_are_refused(table, tmp_path):
    folder, other = (models.save(model_of(table, kind), tmp_path / kind) for kind in ("classes", "numbers"))
    changed = json.loads((folder / "model.json").read_text())
    changed["checksums"] = _checksums(changed, (other / "model.npz").read_bytes())
    (folder / "model.json").write_text(json.dumps(changed))
    shutil.copy(other / "model.npz", folder / "model.npz")
    with pytest.raises(ValueError, match="labels must be 2 for weights"):
        models.load(folder)


@pytest.mark.parametrize("name", ["model.json", "model.npz"])
@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "/dev/null"])
def test_what_never_ends_is_no_model(table, tmp_path, name, kind):
    folder = models.save(model_of(table, "classes"), tmp_path / "m")
    (folder / name).unlink()
    if kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to(kind)
    with pytest.raises(ValueError, match="is no regular file"):
        models.load(folder)


def test_scores_beyond_float64_are_refused(table):
    model = model_of(table, "classes")
    huge = replace(model, weights=np.full_like(model.weights, 1.7e308))
    with pytest.raises(ValueError, match="is beyond it"):
        huge.predict(table)


@pytest.mark.parametrize("schema", [1, 2])
def test_a_model_of_an_earlier_schema_without_categories_is_still_read(tmp_path, schema):
    encoder = Encoder.fit({"age": np.arange(4.0)})
    model = Model(encoder, np.ones(1), np.zeros(()), Answers(reading_of("numbers")), "y")
    folder = models.save(model, tmp_path / "m")
    document = json.loads((folder / "model.json").read_text()) | {"schema": schema}
    for key in ("codes", "indicators", "missing", "checksums"):
        document.pop(key)
    if schema > 1:
        document["checksums"] = _checksums(document, (folder / "model.npz").read_bytes())
    (folder / "model.json").write_text(json.dumps(document))
    np.testing.assert_array_equal(
        models.load(folder).predict({"age": np.arange(3.0)}), model.predict({"age": np.arange(3.0)})
    )


@pytest.mark.parametrize("outputs", [(), (3,)])
@pytest.mark.parametrize("missing", ["mean", "indicator"])
def test_codes_and_indicators_are_stored_and_are_scikit_learns_as_well(tmp_path, missing, outputs):
    rng = np.random.default_rng(0)
    gone = rng.random(60) < 0.2
    table = {
        "age": np.where(rng.random(60) < 0.2, np.nan, rng.normal(size=60)),
        "cp": rng.integers(1, 13, 60),  # of which "10" comes before "2" as text, and after it as a number
        "thal": np.where(gone, np.nan, rng.choice([3.0, 6.0, 7.0], 60)),
        "town": np.where(gone, "", rng.choice(["a", "b"], 60)),
    }
    encoder = Encoder.fit(table, coding=Coding(("cp", "thal"), {"cp": "2"}, missing))
    assert encoder.references["cp"] == "2"
    assert encoder.indicators == ((("age",), ("thal", "town")) if missing == "indicator" else ())
    classes = np.array(["a", "b", "c"] if outputs else ["a", "b"])
    weights = rng.normal(size=(len(encoder.features), *outputs))
    model = Model(encoder, weights, rng.normal(size=outputs), Answers(reading_of("classes"), classes), "y")
    again = models.load(models.save(model, tmp_path / "m"))
    assert again.encoder.features == encoder.features
    np.testing.assert_array_equal(again.decision_function(table), model.decision_function(table))
    rows = np.stack([np.asarray(table[name], object) for name in model.columns], axis=1)
    np.testing.assert_allclose(
        model.to_sklearn().decision_function(rows), model.decision_function(table), rtol=0, atol=1e-12
    )

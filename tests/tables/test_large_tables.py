"""Tables larger than the memory: the same bits as of the table in memory, and one sentence about what they cannot have."""

import jax
import numpy as np
import pytest

import fedualex as fx
from fedualex.compiling import double
from fedualex.data import Table, stored
from fedualex.data.columns import from_arrow, from_values
from fedualex.data.files import read_parquet
from fedualex.data.stored import open_table
from fedualex.models import load
from fedualex.problems import curvature, stored as rows
from fedualex.problems.curvature import surveyor_of
from fedualex.problems.rows import Clients
from fedualex.runs.settings import ConfigurationError
from fedualex.runtime.options import SolveOptions
from fedualex.runtime.prepare import prepare
from fedualex.tables.fit import fit_into, plan_fit
from fedualex.tree import Saddle
from fedualex.verification.verify import verify

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
COUNT = 700


@pytest.fixture
def folder(tmp_path):
    """A table with numbers of three kinds, categories, holes, weights, and clients of unequal size."""
    rng = np.random.default_rng(0)
    age, dose = rng.normal(60, 9, COUNT).astype(np.float32), rng.integers(0, 50, COUNT).astype(float)
    ward, site = rng.choice(["east", "north", "west"], COUNT), rng.choice(["a", "b"], COUNT, p=[0.3, 0.7])
    score = (age - 60) / 9 + (ward == "west") - 0.02 * dose
    columns = {
        "age": arrow.array(age, mask=rng.random(COUNT) < 0.1),
        "dose": arrow.array(dose.astype(np.int64), mask=rng.random(COUNT) < 0.05),
        "grade": arrow.array(rng.integers(1, 4, COUNT).astype(np.int8)),
        "ward": arrow.array([None if gone else str(word) for word, gone in zip(ward, dose == 7, strict=True)]),
        "count": arrow.array(rng.integers(1, 5, COUNT)),
        "site": arrow.array(site),
        "ill": arrow.array((rng.random(COUNT) < 1 / (1 + np.exp(-score))).astype(np.int32)),
    }
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet", row_group_size=200)
    return tmp_path


@pytest.fixture
def as_large(monkeypatch):
    """Every Parquet file is one that is not read at once, in several batches, blocks and stretches."""
    monkeypatch.setattr(stored, "LARGE", 0)
    monkeypatch.setattr(stored, "AT_ONCE", 130)


SETTINGS = {"table": "t.parquet", "target": "ill", "clients": "site", "l1": 0.01, "weights": "count"}
MORE = [{}, {"missing": "indicator", "categories": ["grade"]}, {"missing": "drop"}, {"goal": "lasso"}, {"clients": 3}]


@pytest.mark.parametrize("more", MORE, ids=str)
def test_parties_know_and_survey_the_same(folder, monkeypatch, more):
    """Summaries, rows, surveys with second derivatives and cuts, and sums of effects, to the last bit."""
    found = []
    for large in (stored.LARGE, 0):
        monkeypatch.setattr(stored, "LARGE", large)
        planned = plan_fit({**SETTINGS, **more}, folder)
        problem = planned.configuration.problem
        x = {name: np.full(np.shape(leaf), 0.1) for name, leaf in problem.like.x.items()}
        survey = surveyor_of(problem).survey(Saddle(x), curvature=True, start=problem.like)
        beta = np.full(len(planned.encoder.features) + 1, 0.1)
        asked = {"y": np.zeros(0), "own_intercept": np.asarray(0), "beta": beta, "meat": np.asarray(1)}
        own = {"checksum": planned.checksum, "words": planned.words, "notes": planned.notes}
        found.append([own, *planned.known, survey._asdict(), planned.ask_effects(asked)])
    assert isinstance(problem.data, rows.HeldClients)
    for one, other in zip(*found, strict=True):
        assert list(one) == list(other)
        for name, value in one.items():
            np.testing.assert_equal(value, other[name], err_msg=name)


@pytest.mark.slow
def test_the_model_is_the_same_and_verified(folder, as_large, tmp_path):
    """All that a model keeps: weights, certificate, effects and measures."""
    large = fit_into(tmp_path / "large", plan_fit(SETTINGS, folder))
    stored.LARGE = 2**40
    small = fit_into(tmp_path / "small", plan_fit(SETTINGS, folder))
    np.testing.assert_array_equal(large.weights, small.weights)
    assert large.certificate == small.certificate
    for key in ("held_out", "effects", "rows", "clients", "done"):
        assert large.training[key] == small.training[key]
    stored.LARGE = 0
    assert load(tmp_path / "large" / "model").certificate == large.certificate
    assert all(check.agrees for check in verify(tmp_path / "large" / "run").checks)


def test_what_a_large_table_cannot_have(folder, as_large):
    """Before anything long begins."""
    for key, value, said in (("l1", "auto", "give l1"), ("goal", "fair", "goals of so large a table are logistic")):
        with pytest.raises(ConfigurationError, match=said):
            plan_fit({**SETTINGS, key: value}, folder)


def test_a_large_table_is_read_by_columns(folder, as_large):
    """As the same file in memory; and its rows by blocks, by mask and by index."""
    large, small = open_table("t.parquet", folder), read_parquet(folder / "t.parquet")
    assert large.checksum == small.checksum
    assert (list(large), large.rows) == (list(small), small.rows)
    chosen = np.arange(COUNT) % 3 == 1
    (ordered,) = stored.sort_rows(large, np.zeros(COUNT, int), 1)
    for name in small:
        np.testing.assert_array_equal(ordered[name], small[name])
        np.testing.assert_array_equal(ordered.take(chosen).take(slice(50, 90))[name], small[name][chosen][50:90])


@pytest.mark.parametrize(
    "values",
    [[1.5, None, 2.0], [1, 2, 3], [1, None, 3], [True, False], [True, None], ["b", "", None, "a"], [None, None]],
    ids=str,
)
def test_columns_of_arrow_are_those_of_their_values(values):
    """Without an object for each value."""
    for column in (arrow.array(values), arrow.chunked_array([values[:1], values[1:]], arrow.array(values).type)):
        np.testing.assert_array_equal(from_arrow(column), from_values(values))
        assert from_arrow(column).dtype.kind == from_values(values).dtype.kind


def test_no_room_is_said_before_rows_are_written(monkeypatch):
    """With the folder, and how to name another one."""
    with pytest.raises(ValueError, match=r"needs 4194304\.0 GiB for the rows of the table.*TMPDIR"):
        stored.room_for(2**52)


def test_rows_of_a_file():
    """As a matrix: slices, products from both sides, and a refusal to be in memory at once."""
    X = np.random.default_rng(0).normal(size=(5000, 3))
    source = rows.FileRows(iter([X[:1234], X[1234:]]), 3)
    assert source.shape == X.shape
    np.testing.assert_array_equal(source[4000:6000], X[4000:])
    np.testing.assert_allclose(source @ np.ones(3), X @ np.ones(3), rtol=1e-14)
    weights = np.stack([np.arange(5000.0), np.ones(5000)])
    np.testing.assert_allclose(weights @ source, weights @ X, rtol=1e-10)
    np.testing.assert_array_equal(rows.chosen_rows(source, X[:, 0] > 0)[100:200], X[X[:, 0] > 0][100:200])
    with pytest.raises(TypeError, match="5,000 rows that are read block by block"):
        np.asarray(source)
    assert source.fingerprint != rows.FileRows(iter([X + 1]), 3).fingerprint


def test_infinite_numbers_of_a_large_table_are_refused(tmp_path, as_large):
    """By column, as of a table in memory."""
    parquet.write_table(arrow.table({"x": [1.0, np.inf], "ill": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="the column 'x' must hold finite numbers"):
        plan_fit({"table": "t.parquet", "target": "ill", "l1": 0.1}, tmp_path)


def test_stored_tables_of_other_files_are_not_opened(tmp_path, as_large):
    """Only Parquet files are read by columns."""
    (tmp_path / "t.csv").write_text("x,y\n1,2\n3,4\n")
    assert type(open_table("t.csv", tmp_path)) is Table


def test_threads_change_no_bit(monkeypatch):
    """Stretches of rows are added up in their order, whoever looked at them."""
    rng, found = np.random.default_rng(0), []
    X, y, clients = rng.normal(size=(30_000, 4)), rng.integers(0, 2, 30_000), np.arange(30_000) % 3
    surveyor = surveyor_of(fx.problems.agnostic(X, y, clients, l1=0.01))
    z = Saddle({"bias": np.asarray(0.1), "weights": np.full(4, 0.2)}, np.full(3, 1 / 3))
    monkeypatch.setattr(curvature, "STRETCH", 4096)
    for threads in ("1", "2"):
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", threads)
        monkeypatch.setattr(rows.os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
        found.append(surveyor.survey(z, curvature=True, start=surveyor.problem.like))
    jax.tree.map(np.testing.assert_array_equal, *found)


def test_a_run_copies_no_row():
    """Where numpy alone looks at them, what a run holds is a view of what the problem holds."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    problem = fx.problems.sparse_glm("squared", X, X[:, 0], l1=0.01)
    with double():
        held = prepare(problem, fx.FeDualNewton(), SolveOptions(rounds=1)).setup.problem.data
        placed = prepare(problem, fx.FeDualSlide(), SolveOptions(rounds=1)).setup.problem.data
    assert isinstance(held, rows.HeldClients)
    assert np.shares_memory(held.client(0)["row"], problem.data.examples["row"])
    assert isinstance(placed, Clients)

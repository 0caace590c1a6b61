"""Tables, partitions, federated moments and encoders."""

import json
import sys
import time
import tomllib
from datetime import date
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pandas
import pyarrow
import pytest
import scipy.sparse
from pyarrow import parquet
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

import fedualex as fx
from fedualex import data
from fedualex.problems import split_rows
from fedualex.runs import folder
from fedualex.runs.settings import ConfigurationError, build_problem, configure
from fedualex.runs.solving import solve_into
from fedualex.verification.verify import verify

CHECKSUMS = {
    "breast_cancer": "bad1f701395a84df5424ae2f8e08bdfa835c36aeb29d785dc2fb5c863f299450",
    "diabetes": "363b82c2b9b1e5480a9cef7632fda08cc9a41b4e3d6718f6cfad1b6fd48d4f96",
    "digits": "0b3e4ee14f82503950f2fd8375b2e78056c1dd5ef2cb04e4cd0cc4827c0e6bb6",
    "wine": "56bb2e6fadbd20a1e7eac5848ff988c1843f2cadbdaaf295967c75e7b12dfe70",
}

# --- tables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", data.BUNDLED)
def test_bundled_data_is_there_offline(name):
    X, y = data.bundled(name)
    assert X.dtype == float
    assert X.shape[0] == y.size > 100
    assert data.checksum(X, y) == CHECKSUMS[name]


def test_csv_knows_numbers_text_and_holes(tmp_path):
    file = tmp_path / "people.csv"
    file.write_text('age,town,"weight, kg",sick\n30,Rome,70.5,yes\n,?,NA,no\n41, Oslo ,1e2,yes\n')
    table = data.read_csv(file)
    assert list(table) == ["age", "town", "weight, kg", "sick"]
    assert table.rows == 3
    np.testing.assert_array_equal(table["age"], [30, np.nan, 41])
    np.testing.assert_array_equal(table["weight, kg"], [70.5, np.nan, 100])
    assert table["town"].tolist() == ["Rome", "", "Oslo"]
    assert "sick" not in table.without("sick")
    assert table.take([0, 2])["town"].tolist() == ["Rome", "Oslo"]
    other = tmp_path / "other.csv"
    other.write_text(file.read_text().replace(",", ";").replace("weight; kg", "weight, kg"))
    assert data.read_csv(other, delimiter=";").checksum == table.checksum
    assert table.take([0, 1]).checksum != table.checksum


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "must have a line of names and at least one row, got 1 lines"),
        ("a,b\n1\n", "row 2: 1 values for 2 columns"),
        ("a,a\n1,2\n", "must have different names"),
    ],
)
def test_bad_csv_is_refused_in_one_sentence(tmp_path, text, message):
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        data.read_csv(file)
    with pytest.raises(ValueError, match="cannot be read as a CSV file"):
        data.read_csv(tmp_path / "none.csv")
    with pytest.raises(KeyError, match="has no column 'agee'; did you mean 'age'"):
        data.Table({"age": np.zeros(2)}, "here")["agee"]
    with pytest.raises(ValueError, match="here must have columns, all of one length"):
        data.Table({"age": np.zeros(2), "town": np.zeros(3)}, "here")


def test_numbers_of_csv_are_those_of_people(tmp_path):
    file = tmp_path / "codes.csv"
    file.write_text("code,id,share,word\n1_1,9007199254740992,1,inf\n2,9007199254740993,2.5,x\n")
    table = data.read_csv(file)
    assert table["code"].tolist() == ["1_1", "2"]
    assert data.by_column(table["id"]).tolist() == [0, 1]
    np.testing.assert_array_equal(table["share"], [1, 2.5])
    assert table["word"].tolist() == ["inf", "x"]
    file.write_text("a,b\n1,2\n3,-inf\n")
    with pytest.raises(ValueError, match=r"codes.csv: the column 'b' must hold finite numbers, got an infinite one"):
        data.read_csv(file)


def test_a_table_is_equal_to_itself_alone():
    first, second = (data.Table({"a": np.array([1.0, 2.0])}, "here") for _ in range(2))
    assert first == first != second
    assert first.checksum == second.checksum
    assert len({first, second}) == 2
    assert data.sums([[1.0, 2.0]]) != data.sums([[1.0, 2.0]])


def test_equal_text_has_equal_checksums():
    narrow, wide = np.array(["a", "b"]), np.array(["a", "b", "wider"])[:2]
    assert data.checksum(narrow) == data.checksum(wide) == data.checksum(narrow.astype(object))
    assert data.checksum(narrow) != data.checksum(np.array(["a", "c"]))
    assert data.checksum(np.array(["ab", "c"])) != data.checksum(np.array(["a", "bc"]))
    assert data.checksum(np.array([b"a"])) == data.checksum(np.array([b"a"], "S5")) != data.checksum(np.array(["a"]))


def test_npz(tmp_path):
    np.savez(tmp_path / "two.npz", X=np.eye(2), y=[1, 2])
    assert set(data.read_npz(tmp_path / "two.npz")) == {"X", "y"}
    (tmp_path / "bad.npz").write_text("no")
    with pytest.raises(ValueError, match=r"bad.npz cannot be read as an .npz file"):
        data.read_npz(tmp_path / "bad.npz")


def test_parquet(tmp_path):
    parquet.write_table(pyarrow.table({"a": [1, None, 3], "b": ["x", None, "y"]}), tmp_path / "t.parquet")
    table = data.read_parquet(tmp_path / "t.parquet")
    np.testing.assert_array_equal(table["a"], [1, np.nan, 3])
    assert table["b"].tolist() == ["x", "", "y"]


def test_parquet_decimals_are_numbers_and_ids_stay_apart(tmp_path):
    big = 2**53
    columns = {
        "price": [Decimal("1.50"), None, Decimal("2.00")],
        "key": [Decimal(big), Decimal(big + 1), Decimal(1)],
        "id": [big, big + 1, 1],
        "sick": [True, False, None],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    table = data.read_parquet(tmp_path / "t.parquet")
    np.testing.assert_array_equal(table["price"], [1.5, np.nan, 2])
    np.testing.assert_array_equal(table["sick"], [1, 0, np.nan])
    for name in ("key", "id"):
        assert data.by_column(table[name]).tolist() == [1, 2, 0]


def test_a_missing_package_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"a Parquet file needs pyarrow: pip install 'fedualex\[parquet\]'"):
        data.read_parquet("t.parquet")
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"bundled data needs scikit-learn: pip install 'fedualex\[estimators\]'"):
        data.bundled("wine")


def test_openml_decodes_categories_and_checks_the_checksum(monkeypatch):
    found = SimpleNamespace(
        feature_names=["age", "town"],
        target_names=["class"],
        data=np.array([[30, 1], [np.nan, 0], [41, np.nan]]),
        target=np.array(["a", "b", "a"], object),
        categories={"town": ["Oslo", "Rome"], "class": ["a", "b"]},
    )
    monkeypatch.setattr(datasets, "fetch_openml", lambda name, **_: found)
    table = data.openml("people")
    assert table["town"].tolist() == ["Rome", "Oslo", ""]
    assert table["class"].tolist() == ["a", "b", "a"]
    assert data.openml("people", checksum=table.checksum).checksum == table.checksum
    with pytest.raises(ValueError, match="OpenML 'people', version 1, has checksum"):
        data.openml("people", checksum="0")

    def fail(name, **_):
        raise OSError("no network")

    monkeypatch.setattr(datasets, "fetch_openml", fail)
    with pytest.raises(ValueError, match="OpenML has not given 'people', version 1: no network"):
        data.openml("people")


def test_openml_without_a_target_and_sparse(monkeypatch):
    found = SimpleNamespace(feature_names=["a"], target_names=[], data=np.eye(3)[:, :1], target=None, categories=None)
    monkeypatch.setattr(datasets, "fetch_openml", lambda name, **_: found)
    assert list(data.openml("plain")) == ["a"]
    found.data = scipy.sparse.csr_matrix(np.eye(3))
    with pytest.raises(ValueError, match="OpenML 'plain', version 1, is sparse: only data of full columns can be read"):
        data.openml("plain")


# --- partitions ----------------------------------------------------------------------------------------------------


def test_partitions_are_decided_by_their_seed():
    label = data.bundled("digits")[1]
    for draw in (
        lambda seed: data.iid(100, 7, seed=seed),
        lambda seed: data.dirichlet(label, 10, 0.5, seed=seed),
        lambda seed: data.by_size(100, [1, 2, 5], seed=seed),
    ):
        assert data.checksum(draw(0)) == data.checksum(draw(0)) != data.checksum(draw(1))
        assert np.bincount(draw(0)).min() >= 1


def test_sizes_of_partitions():
    assert sorted(np.bincount(data.iid(100, 7))) == [14] * 5 + [15] * 2
    assert np.bincount(data.by_size(80, [1, 2, 5])).tolist() == [10, 20, 50]
    assert np.bincount(data.by_size(20, [10] + [1] * 10)).tolist() == [10] + [1] * 10
    assert np.bincount(data.by_size(7, [1, 1, 1])).tolist() == [3, 2, 2]
    assert np.bincount(data.by_size(4, [1e308, 1e308])).tolist() == [2, 2]
    assert np.bincount(data.by_size(10, [1, 1e9])).tolist() == [1, 9]
    assert np.bincount(data.by_size(3, [5, 1, 1])).tolist() == [1, 1, 1]
    assert data.by_column(["b", "a", "b", "c"]).tolist() == [1, 0, 1, 2]


def test_smaller_alpha_is_less_alike():
    label = data.bundled("digits")[1]

    def spread(alpha):
        owner = data.dirichlet(label, 10, alpha, seed=3)
        shares = np.array([np.bincount(label[owner == m], minlength=10) / np.sum(owner == m) for m in range(10)])
        return shares.std(axis=0).mean()

    assert spread(0.1) > spread(1.0) > spread(100.0)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: data.iid(3, 4), "clients must be at most the number of rows, 3, got 4"),
        (lambda: data.iid(3, 0), "clients must be a whole number >= 1, got 0"),
        (lambda: data.by_column([]), r"values must hold labels in one column, got an array of shape \(0,\)"),
        (lambda: data.by_column(np.eye(2)), r"values must hold labels in one column, got an array of shape \(2, 2\)"),
        (lambda: data.by_size(10, [1, 2], seed=0.5), "seed must be a whole number >= 0, got 0.5"),
        (lambda: data.dirichlet([[0, 1]], 1, 1.0), "labels must hold labels in one column"),
        (lambda: data.dirichlet([0, np.nan], 1, 1.0), "labels must not contain nan, None or empty text"),
        (lambda: data.dirichlet([0, 1, 1], 2, 1.0, least=1.5), "least must be a whole number >= 1, got 1.5"),
        (lambda: data.dirichlet([0, 1], 2, 0.0), "alpha must be a number > 0"),
        (lambda: data.dirichlet(np.zeros(20), 10, 1e-3, least=2), "alpha must be larger"),
        (lambda: data.dirichlet([0, 1, 1], 2, 1.0, least=2), "least must be from 1 to rows / clients = 1, got 2"),
        (lambda: data.by_size(10, [1, -1]), "sizes must be numbers > 0"),
    ],
)
def test_bad_partitions_are_refused(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


@pytest.mark.parametrize("ids", [[1.0, np.nan], ["a", ""], ["a", None], [None, None], ["a", np.nan], [[1], [1, 2]]])
@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("values", data.by_column),
        ("clients", lambda ids: data.Standardizer.fit(np.eye(2), ids)),
        ("clients", lambda ids: data.Encoder.fit({"town": np.array(["Rome", "Oslo"])}, ids)),
        ("clients", lambda ids: fx.problems.sparse_glm("squared", np.eye(2), [0, 1], ids, l1=1.0)),
    ],
)
def test_every_row_needs_an_owner(name, use, ids):
    with pytest.raises(
        (TypeError, ValueError), match=rf"{name} must (not contain nan, None or empty|be (2 )?labels that can be sor)"
    ):
        use(ids)


@pytest.mark.slow
def test_rows_of_many_clients_are_split_at_once():
    """Sorted once: masks of all rows take longer for three quarters of the clients."""
    owner, values = np.random.default_rng(0).permutation(60000), np.arange(60000.0)
    start = time.thread_time()
    parts = split_rows(values, values, owner)
    between = time.thread_time()
    masked = [values[owner == m] for m in range(45000)]
    assert between - start < time.thread_time() - between
    assert all(theirs == mine.X for mine, theirs in zip(parts, masked, strict=False))
    some = split_rows(values[:6], values[:6], np.array([1, 0, 1, 2, 0, 1]))
    assert [part.y.tolist() for part in some] == [[1, 4], [0, 2, 5], [3]]


# --- moments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clients", [1, 5, 60])
def test_federated_moments_are_the_pooled_ones(clients):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) * [1, 1e-6, 1e6, 3] + [1e8, 1, 0, -5]
    owner = data.iid(60, clients)
    mine, theirs = data.Standardizer.fit(X, owner), StandardScaler().fit(X)
    np.testing.assert_allclose(mine.mean, theirs.mean_, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(mine.deviation, theirs.scale_, rtol=1e-6)
    np.testing.assert_allclose(mine.transform(X), theirs.transform(X), rtol=1e-6, atol=1e-6)


def test_missing_values_and_constant_columns():
    X = np.array([[1.0, 5.0, np.nan, 0.1], [np.nan, 5.0, np.nan, 0.1], [3.0, 5.0, np.nan, 0.1]])
    fitted = data.Standardizer.fit(X, ["a", "b", "a"])
    np.testing.assert_array_equal(fitted.mean[:3], [2, 5, 0])
    np.testing.assert_array_equal(fitted.deviation, [1, 0, 0, 0])
    np.testing.assert_array_equal(fitted.transform(X), [[-1, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]])
    np.testing.assert_array_equal(fitted.transform([[2.0, 9.0, 7.0, 8.0]]), np.zeros((1, 4)))


def test_what_a_client_sends_is_as_long_as_a_row():
    part = data.sums(np.ones((50, 3)))
    assert part.count.shape == part.total.shape == (3,)
    together = data.added([part, data.sums(np.zeros((50, 3)))])
    np.testing.assert_array_equal(together.mean, [0.5, 0.5, 0.5])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: data.Standardizer.fit([["a"]]), "X must be a real matrix"),
        (lambda: data.Standardizer.fit([[np.inf]]), "X must be a nonempty matrix of finite numbers or nan"),
        (lambda: data.Standardizer.fit(np.eye(2), [1]), r"clients must hold 2 labels.*\(1,\)"),
        (lambda: data.Standardizer.fit(np.eye(2)).transform(np.eye(3)), "X must have 2 columns"),
    ],
)
def test_bad_moments_are_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


# --- encoders ------------------------------------------------------------------------------------------------------


def test_encoder_treats_unseen_and_missing_as_stated():
    table = data.Table(
        {"age": np.array([1.0, np.nan, 3.0]), "town": np.array(["Rome", "", "Oslo"]), "one": np.ones(3)}, "here"
    )
    encoder = data.Encoder.fit(table, ["a", "a", "b"])
    assert encoder.features == ("age", "one", "town=Rome (against Oslo)")  # of equals the first is the reference
    np.testing.assert_array_equal(encoder.transform(table), [[-1, 0, 1], [0, 0, 0.5], [1, 0, 0]])
    new = {"age": np.array([2.0]), "town": np.array(["Paris"]), "one": np.array([7.0]), "more": np.array([0])}
    np.testing.assert_array_equal(encoder.transform(new), [[0, 0, 0.5]])
    with pytest.raises(ValueError, match="the table must have the column 'town'"):
        encoder.transform({"age": np.zeros(1), "one": np.zeros(1)})


def test_a_column_keeps_its_kind():
    encoder = data.Encoder.fit({"code": np.array(["1", "x"]), "age": np.array([1, 3])})
    assert encoder.features == ("age", "code=x (against 1)")
    for codes in (np.array([1.0, np.nan]), np.array([1, 2])):  # all codes of this table happen to be numbers
        np.testing.assert_array_equal(encoder.transform({"code": codes, "age": np.array([1, 3])})[:, 1:], [[0], [0.5]])
    message = "the column 'age' must hold numbers, as when it was fitted, got text, 'old' in row 2 of 2"
    with pytest.raises(ValueError, match=message):
        encoder.transform({"code": np.array(["x", "x"]), "age": np.array(["7", "old"])})
    empty = {"code": np.array([np.nan]), "age": np.array([""])}  # as a file without any value of theirs is read
    np.testing.assert_array_equal(encoder.transform(empty), [[0, 0.5]])
    with pytest.raises(ValueError, match="the table must have columns, all of one length"):
        encoder.transform({"code": np.array(["x"]), "age": np.array([1, 3])})


def test_none_and_nan_among_objects_are_missing():
    table = {"town": np.array(["Rome", None, np.nan, "Oslo"], object), "age": np.array([1, None, 3, 2], object)}
    encoder = data.Encoder.fit(table)
    assert encoder.features == ("age", "town=Rome (against Oslo)")
    np.testing.assert_array_equal(encoder.transform(table)[:, 1], [1, 0.5, 0.5, 0])
    days = {"day": np.array(["2020-01-01", "NaT", "2020-01-02"], "datetime64[D]")}
    assert data.Encoder.fit(days).features == ("day=2020-01-02 (against 2020-01-01)",)


def test_none_in_a_file_is_missing_among_numbers_and_a_word_among_texts(tmp_path):
    file = tmp_path / "drugs.csv"
    file.write_text("drug,dose,other,stopped\naspirin,5,none,NA\nnone,None,None,\nNA,none,none,?\n")
    table = data.read_csv(file)
    assert table["drug"].tolist() == ["aspirin", "none", ""]
    np.testing.assert_array_equal(table["dose"], [5, np.nan, np.nan])
    assert table["other"].tolist() == ["none", "None", "none"]
    np.testing.assert_array_equal(table["stopped"], [np.nan] * 3)


class SpeaksArrow:
    """All that a frame of polars or DuckDB has in common with one of pyarrow."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_frames_that_speak_arrow_are_tables(monkeypatch):
    columns = {
        "age": [30, None, 50],
        "town": ["Oslo", "Rome", None],
        "since": [date(2020, 1, day) for day in (1, 2, 3)],
    }
    frame = SpeaksArrow(pyarrow.table(columns))
    encoder, expected = data.Encoder.fit(frame), data.Encoder.fit(pandas.DataFrame(columns))
    assert encoder.features == expected.features
    np.testing.assert_array_equal(encoder.transform(frame), expected.transform(pandas.DataFrame(columns)))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"a table of test_data needs pyarrow: pip install 'fedualex\[parquet\]'"):
        encoder.transform(frame)


def test_only_text():
    encoder = data.Encoder.fit({"a": np.array(["x", "y"])})
    np.testing.assert_array_equal(encoder.transform({"a": np.array(["y", "x"])}), [[1], [0]])


@pytest.mark.slow
def test_from_a_file_to_a_certified_model(tmp_path):
    X, y = data.bundled("diabetes")
    rows = "\n".join(
        ",".join(map(str, [*row, target, "fm"[int(row[1] > 0)]])) for row, target in zip(X, y, strict=True)
    )
    (tmp_path / "d.csv").write_text(",".join([*(f"f{i}" for i in range(10)), "target", "sex"]) + "\n" + rows)
    table = data.read_csv(tmp_path / "d.csv")
    clients = data.by_column(table["sex"])
    features = table.without("target", "sex")
    rows = data.Encoder.fit(features, clients).transform(features)
    problem = fx.problems.sparse_glm("squared", rows, table["target"], clients, l1=2.0)
    assert problem.clients == 2
    assert problem.certificate(problem.project(problem.like)).gap > 0


# --- in a configuration --------------------------------------------------------------------------------------------

GLM = 'name = "sparse_glm"\nfamily = "squared"\nl1 = 0.01\n'


def configured(path, text):
    tables = {"problem": tomllib.loads(GLM + text), "method": {"name": "FeDualEx"}, "run": {"rounds": 1}}
    return configure(tables, path)


@pytest.mark.slow
def test_a_manifest_tells_source_and_partition(tmp_path):
    text = 'bundled = "wine"\nstandardize = true\npartition = { kind = "dirichlet", clients = 3, alpha = 1.0'
    configurations = [configured(tmp_path, f"{text}{seed} }}") for seed in ("", ", seed = 0", ", seed = 1")]
    solve_into(tmp_path / "run0", configurations[0])
    for i, each in enumerate(configurations[1:], 1):
        folder.begin(tmp_path / f"run{i}", each.problem, each.resolved)
    manifests = [json.loads((tmp_path / f"run{i}" / "manifest.json").read_text()) for i in range(3)]
    first, same, other = manifests
    assert first["configuration"]["problem"]["bundled"] == "wine"
    partition = {"kind": "dirichlet", "clients": 3, "alpha": 1.0, "seed": 0, "least": 1}
    assert first["configuration"]["problem"]["partition"] == partition
    assert first["data_sha256"] == same["data_sha256"] != other["data_sha256"]
    again = build_problem(first["configuration"]["problem"], tmp_path)
    assert fx.runtime.fingerprint(again) == first["data_sha256"]
    first["configuration"]["problem"]["partition"]["seed"] = 1
    (tmp_path / "run0" / "manifest.json").write_text(json.dumps(first))
    assert any("the data has changed since" in check.what for check in verify(tmp_path / "run0").checks)


def test_rows_of_a_configuration_are_those_of_the_library(tmp_path):
    rng = np.random.default_rng(0)
    town, age, sick = rng.choice(["Oslo", "Rome"], 30), rng.normal(50, 9, 30), rng.integers(0, 2, 30)
    lines = [f"{t},{a},{'xy'[s]},{s}" for t, a, s in zip(town, age, sick, strict=True)]
    (tmp_path / "t.csv").write_text("town,age,mark,sick\n" + "\n".join(lines))
    columns = data.read_csv(tmp_path / "t.csv")
    parquet.write_table(pyarrow.table({k: v.tolist() for k, v in columns.items()}), tmp_path / "t.parquet")
    table = columns.without("sick", "town")
    ours = fx.problems.sparse_glm("squared", data.Encoder.fit(table, town).transform(table), sick, town, l1=0.01)
    for source in ("csv", "parquet"):
        text = f'{source} = "t.{source}"\ntarget = "sick"\nstandardize = true\npartition = '
        theirs = configured(tmp_path, text + '{ kind = "by_column", column = "town" }').problem
        assert fx.runtime.fingerprint(theirs) == fx.runtime.fingerprint(ours)
        assert configured(tmp_path, text + '{ kind = "iid", clients = 4 }').problem.clients == 4
        assert configured(tmp_path, text + '{ kind = "by_size", sizes = [2, 1, 1] }').problem.clients == 3
    plain = configured(tmp_path, 'bundled = "wine"\npartition = { kind = "iid", clients = 2, seed = 5 }').problem
    X, y = data.bundled("wine")
    ours = fx.problems.sparse_glm("squared", X, y, data.iid(len(X), 2, seed=5), l1=0.01)
    assert fx.runtime.fingerprint(plain) == fx.runtime.fingerprint(ours)


IID = 'partition = { kind = "iid", clients = 2 }\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('bundled = "wine"', r"\[problem\]: partition must be such as"),
        ('bundled = "win"\n' + IID, "name must be one of 'breast_cancer', .*, got 'win'"),
        (
            'bundled = "wine"\nfile = "t.npz"\n' + IID,
            "needs one source of bundled, csv, parquet, npz, got file, bundled",
        ),
        ('file = "t.npz"\n' + IID, "needs one source of bundled, csv, parquet, npz, got file"),
        (IID, "needs one source of bundled, csv, parquet, npz, got none"),
        ('bundled = "wine"\npartition = { kind = "even" }', "partition.kind must be one of 'iid', .*, got 'even'"),
        ('bundled = "wine"\npartition = { kind = "iid" }', "missing .* argument: 'clients'"),
        ('bundled = "wine"\npartition = { kind = "by_column", column = "col" }', "wine has no column 'col'"),
        ('bundled = "wine"\ntarget = "y"\n' + IID, "wine has no column 'y'"),
        ('bundled = "wine"\nstandardize = 1\n' + IID, "standardize must be true or false, got 1"),
        ('csv = "t.csv"\n' + IID, "target must name a column of"),
        ('csv = "t.csv"\ntarget = "sick"\n' + IID, "the column 'town' is text: only with standardize = true"),
        ('csv = "u.csv"\ntarget = "sick"\n' + IID, "u.csv cannot be read as a CSV file"),
    ],
)
def test_bad_sources_are_refused_in_one_sentence(tmp_path, text, message):
    (tmp_path / "t.csv").write_text("town,sick\nRome,1\nOslo,0\n")
    with pytest.raises(ConfigurationError, match=message):
        configured(tmp_path, text)


def test_a_stored_configuration_builds_its_problem_again(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(4), y=[0, 1, 0, 1], clients=[0, 0, 1, 1])
    first = configured(tmp_path, 'file = "t.npz"')
    assert fx.runtime.fingerprint(build_problem(first.resolved["problem"], tmp_path)) == fx.runtime.fingerprint(
        first.problem
    )

"""Tables, partitions, federated moments and encoders."""

import sys
from types import SimpleNamespace

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

import fedualex as fx
from fedualex import data

# --- tables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", data.BUNDLED)
def test_bundled_data_is_there_offline(name):
    X, y = data.bundled(name)
    assert X.dtype == float
    assert X.shape[0] == y.size > 100
    assert data.checksum(X, y) == data.checksum(*data.bundled(name))


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


def test_a_missing_package_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match="a Parquet file needs pyarrow: pip install pyarrow"):
        data.read_parquet("t.parquet")
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match="bundled data needs scikit-learn: pip install scikit-learn"):
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
    assert np.bincount(data.by_size(80, [1, 2, 5])).tolist() == pytest.approx([10, 20, 50], abs=1)
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
        (lambda: data.by_column([1.0, np.nan]), "values must not be missing"),
        (lambda: data.by_column(["a", ""]), "values must not be missing"),
        (lambda: data.dirichlet([0, 1], 2, 0.0), "alpha must be a number > 0"),
        (lambda: data.dirichlet(np.zeros(20), 10, 1e-3, least=2), "alpha must be larger"),
        (lambda: data.dirichlet([0, 1, 1], 2, 1.0, least=2), "least must be from 1 to rows / clients = 1, got 2"),
        (lambda: data.by_size(10, [1, -1]), "sizes must be numbers > 0"),
    ],
)
def test_bad_partitions_are_refused(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


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
        (lambda: data.Standardizer.fit(np.eye(2), [1]), r"clients must be 2 ids.*\(1,\)"),
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
    assert encoder.features == ("age", "one", "town=Oslo", "town=Rome")
    np.testing.assert_array_equal(encoder.transform(table), [[-1, 0, 0, 1], [0, 0, 0, 0], [1, 0, 1, 0]])
    new = {"age": np.array([2.0]), "town": np.array(["Paris"]), "one": np.array([7.0]), "more": np.array([0])}
    np.testing.assert_array_equal(encoder.transform(new), np.zeros((1, 4)))
    with pytest.raises(ValueError, match="the table must have the column 'town'"):
        encoder.transform({"age": np.zeros(1), "one": np.zeros(1)})


def test_only_text():
    encoder = data.Encoder.fit({"a": np.array(["x", "y"])})
    np.testing.assert_array_equal(encoder.transform({"a": np.array(["y", "x"])}), [[0, 1], [1, 0]])


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

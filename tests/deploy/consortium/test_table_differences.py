"""A site whose column has other units: the run ends before its first exchange, and both sides are told."""

import json
import time

import numpy as np
import pytest
from support.consortium import deployment, noting, run_in_threads, write_tables

from fedualex.data import Encoder, Table, read_csv
from fedualex.data.encoder import known_numbers
from fedualex.deploy.consortium.messages import check_columns
from fedualex.deploy.party import Layout
from fedualex.deploy.wire import pack_summary, unpack_json, unpack_summary
from fedualex.runs.settings import ConfigurationError
from fedualex.tables.recipe import merge_named


def write_in_other_units(folder, name, column, factor):
    """The table of one site with a column in other units."""
    file = folder / f"{name}.csv"
    header, *rows = [line.split(",") for line in file.read_text().splitlines()]
    place = header.index(column)
    for row in rows:
        row[place] = str(factor * float(row[place])) if row[place] else ""
    file.write_text("\n".join(",".join(row) for row in (header, *rows)) + "\n")


@pytest.mark.parametrize("sums", ["off", "on"])
def test_other_units_stop_a_run_and_the_corrected_table_is_summarized_anew(tmp_path, sums, caplog):
    write_tables(tmp_path)
    right = (tmp_path / "west.csv").read_text()
    write_in_other_units(tmp_path, "west", "age", 1e6)
    root, seen = deployment(tmp_path, sums, goal="logistic"), []
    with pytest.raises(ConfigurationError, match="the column 'age' is far wider at west, and far narrower at east, n"):
        run_in_threads(root, noting(seen))
    assert {request.task for _, request, _ in seen} == {"columns", "summary", "begin"}
    assert "far wider at this site: ['age']" in caplog.text
    for _, request, arrays in seen:
        if request.task == "begin":
            ready, told = unpack_json(arrays, "ready", "differences")
            assert ready is True
            assert {column for columns in told.values() for column in columns} == {"age"}
    (tmp_path / "west.csv").write_text(right)
    assert not (Layout(root).server / "known.npz").exists()
    assert run_in_threads(root).gap is not None


def test_an_operator_may_go_on(tmp_path):
    write_tables(tmp_path)
    write_in_other_units(tmp_path, "west", "age", 1e6)
    root = deployment(tmp_path, goal="logistic", run={"on_warning": "go"})
    assert run_in_threads(root).gap is not None
    found = json.loads((root / "server" / "differences.json").read_text())
    assert found["age"] == {"wider": ["west"], "narrower": ["east", "north"]}
    assert read_csv(tmp_path / "west.csv").rows


def test_only_two_words_are_taken(tmp_path):
    write_tables(tmp_path)
    with pytest.raises(ValueError, match=r"on_warning must be one of 'stop', 'go'"):
        deployment(tmp_path, run={"on_warning": "maybe"})


def test_time_grows_with_the_columns_and_not_with_their_square():
    """20,000 columns of a few rows: comparing each with each would take a quarter of a minute."""
    count, rng = 20_000, np.random.default_rng(0)
    tables = [Table({f"gene {i}": column for i, column in enumerate(rng.normal(size=(count, 3)))}, "t") for _ in "ab"]
    began = time.process_time()
    check_columns({"a": list(tables[0]), "b": list(tables[1])})
    parts = {name: Encoder.summarize(table, []) for name, table in zip("ab", tables, strict=True)}
    known = merge_named({name: unpack_summary(pack_summary(part)) for name, part in parts.items()})
    assert len(known_numbers([known])) == count
    assert time.process_time() - began < 6.0
    with pytest.raises(ConfigurationError, match=r"b without \['gene 7'\]"):
        check_columns({"a": list(tables[0]), "b": [name for name in tables[1] if name != "gene 7"]})

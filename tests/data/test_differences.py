"""Columns in which one party is not like the others: units, coding, holes, and the differences that honest sites have."""

import json

import numpy as np
import pytest

from fedualex.data import Coding, Encoder, Table
from fedualex.data.differences import DOUBTS, find_differences
from fedualex.deploy.consortium.differences import FILE, read_ready, tell_differences
from fedualex.deploy.wire import MessageError, pack_json
from fedualex.runs.settings import ConfigurationError
from fedualex.summaries import merge_summaries

SITES = ("north", "south", "west")


def table(seed, rows=80, **changes):
    """Columns as hospitals have them: the means and spreads of each are its own."""
    rng = np.random.default_rng(seed)
    columns = {
        "age": rng.normal(45 + 10 * rng.random(), 9 + 6 * rng.random(), rows),
        "income": np.exp(rng.normal(10, 0.8, rows)),
        "score": rng.normal(0.3 * rng.normal(), 1, rows),
        "rare": (rng.random(rows) < 0.02) * 1.0,
        "dose": np.where(rng.random(rows) < 0.1, np.nan, rng.exponential(2, rows)),
        "sex": rng.choice(["F", "M"], rows, p=[0.3, 0.7]),
    }
    return Table({name: changes.get(name, lambda column: column)(column) for name, column in columns.items()}, "t")


def differences(tables, weights=None):
    """Of each party, what it says."""
    coding, known, own = Coding(), [], [[] for _ in tables]
    weights = weights or [None] * len(tables)
    for _ in range(Encoder.exchanges):
        parts = [Encoder.summarize(one, known, w, coding) for one, w in zip(tables, weights, strict=True)]
        for mine, part in zip(own, parts, strict=True):
            mine.append(part)
        known.append(merge_summaries(parts) | {"rows": np.asarray(float(sum(one.rows for one in tables)))})
    return [find_differences(one, mine, known, coding, w) for one, mine, w in zip(tables, own, weights, strict=True)]


@pytest.mark.parametrize("sites", [2, 3, 10])
def test_honest_sites_are_not_doubted(sites):
    for trial in range(20):
        assert differences([table(100 * trial + m) for m in range(sites)]) == [{}] * sites


@pytest.mark.parametrize("factor", [1e-9, 1e-3, 18.0, 1e6, 1e9])
@pytest.mark.parametrize("column", ["age", "income", "dose"])
def test_other_units_at_one_site_are_seen_there_and_by_the_others(factor, column):
    said = differences([table(1), table(2), table(3, **{column: lambda values: factor * values})])
    assert said[2]["wider" if factor > 1 else "narrower"] == [column]
    if factor > 1e3:  # else those who are right see two kinds of others, of whom half are like them
        assert all(column in {n for kind in DOUBTS for n in one.get(kind, [])} for one in said[:2])


def test_other_units_are_seen_with_weights_of_rows():
    weights = [np.random.default_rng(m).random(80) for m in range(3)]
    said = differences([table(1), table(2), table(3, age=lambda v: 1e6 * v)], weights)
    assert said[2] == {"wider": ["age"]}
    assert differences([table(m) for m in range(3)], weights) == [{}] * 3


def test_another_zero_other_spellings_holes_and_wild_values_have_kinds_of_their_own():
    def wild(values):
        values[3] = -9999.0
        return values

    changes = {
        "age": lambda values: 1950.0 + values,
        "sex": lambda values: np.where(values == "F", "female", "male"),
        "score": lambda values: np.where(np.arange(80) < 60, np.nan, values),
        "income": lambda values: np.full(80, 2e4),
        "dose": wild,
    }
    said = differences([table(1), table(2), table(3, **changes)])[2]
    assert said == {
        "higher": ["age"],
        "words": ["sex"],
        "missing": ["score"],
        "constant": ["income"],
        **({"far": ["dose"]} if "far" in said else {"wider": ["dose"]}),
    }


def test_what_does_not_vary_elsewhere_is_no_doubt_here():
    ones = [table(m, score=lambda values: np.full(80, 7.0)) for m in range(2)]
    assert differences([*ones, table(3, score=lambda values: 7.0 + values)])[2] == {}


def test_what_is_said_names_columns_and_kinds_and_nothing_else(tmp_path):
    said = differences([table(1), table(2), table(3, age=lambda v: 1e6 * v)])
    assert set(said[2]) <= {"wider"}
    assert read_ready(pack_json(ready=True, differences=said[2])) == {"wider": ["age"]}
    for wrong in ({"cleverer": ["age"]}, {"wider": [3]}, ["age"]):
        with pytest.raises(MessageError):
            read_ready(pack_json(ready=True, differences=wrong))


def test_a_doubt_stops_the_run_by_column_and_site_and_a_note_does_not(tmp_path, caplog):
    said = dict(zip(SITES, differences([table(1), table(2), table(3, age=lambda v: 1e6 * v)]), strict=True))
    with pytest.raises(
        ConfigurationError, match="'age' is far wider at west, and far narrower at north, south"
    ) as error:
        tell_differences(tmp_path, said, "stop")
    assert '"on_warning": "go"' in str(error.value)
    tell_differences(tmp_path, said, "go")
    assert json.loads((tmp_path / FILE).read_text()) == {"age": {"wider": ["west"], "narrower": ["north", "south"]}}
    assert {record.event["party"] for record in caplog.records} == set(SITES)
    tell_differences(tmp_path, {"north": {"missing": ["dose"]}, "south": {}}, "stop")

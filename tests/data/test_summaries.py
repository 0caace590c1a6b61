"""An encoder from what clients send: the same as of one table, and nothing grows with the rows."""

import numpy as np
import pytest

from fedualex import data
from fedualex.summaries import merge_summaries


def fitted_apart(*parts):
    """An encoder from tables that nobody puts together."""
    known = []
    for _ in range(data.Encoder.exchanges):
        known.append(merge_summaries([data.Encoder.summarize(part, known) for part in parts]))
    return data.Encoder.from_known(known)


def test_an_encoder_is_fitted_from_what_clients_send():
    rng = np.random.default_rng(0)
    age, town = rng.normal(50, 9, 40), np.array(["Rome", "Oslo", "Bern", ""])[rng.integers(0, 4, 40)]
    table, owner = data.Table({"town": town, "age": age, "bmi": age**2}, "here"), rng.integers(0, 3, 40)
    parts = [table.take(owner == m) for m in range(3)]
    whole = data.Encoder.fit(table)
    counts = {word: int(np.sum(town == word)) for word in ("Bern", "Oslo", "Rome")}
    most = max(counts, key=counts.get)
    others = [word for word in counts if word != most]
    turned = data.Table({name: parts[1][name] for name in ("bmi", "age", "town")}, "elsewhere")
    for encoder in (data.Encoder.fit(table, owner), fitted_apart(parts[0], turned, parts[2])):
        assert encoder.features == whole.features
        assert whole.features == ("age", "bmi", *(f"town={t} (against {most})" for t in others))
        np.testing.assert_allclose(encoder.transform(table), whole.transform(table), rtol=1e-12, atol=1e-12)
    known = [merge_summaries(data.Encoder.summarize(part, []) for part in parts)]
    known.append(merge_summaries(data.Encoder.summarize(part, known) for part in parts))
    for so_far, own in (([], {(3,)}), (known[:1], {(2,), (3,)}), (known, {(3,)})):
        shapes = data.Encoder.summarize(parts[0], so_far).shapes
        assert set(shapes.values()) == own
        assert shapes == data.Encoder.summarize(parts[0].take(np.arange(5).repeat(9)), so_far).shapes | shapes
    assert data.Encoder.summarize(parts[0], known[:1]).labels.keys() == {"categories of town"}
    found = merge_summaries(data.Encoder.summarize(part, known) for part in parts)
    assert dict(zip(known[1]["categories of town"].tolist(), found["counts of town"].tolist(), strict=True)) == counts
    assert whole.shares["town"] == pytest.approx([count / sum(counts.values()) for count in counts.values()])


def test_texts_that_are_no_categories_take_no_part_and_never_leave_a_client():
    rng = np.random.default_rng(0)
    table = data.Table(
        {
            "id": np.array([f"P{i}" for i in range(90)]),
            "town": rng.choice(["Rome", "Oslo"], 90),
            "age": rng.normal(size=90),
            "remark": np.array([f"word {i}" if i % 3 else "" for i in range(90)]),
            "day": np.array([f"{1 + i % 28}.11.2026" for i in range(90)]),
            "hour": np.array([f"2026-11-{1 + i % 9:02} 14:{i % 5}0" for i in range(90)]),
            "ward": np.full(90, "acute"),
            "allergy": rng.choice(["yes", ""], 90),
        },
        "here",
    )
    encoder = data.Encoder.fit(table, np.arange(90) % 2)
    assert encoder.left_out == {
        "id": "texts of which most are different",
        "remark": "texts of which most are different",
        "day": "dates",
        "hour": "dates",
        "ward": "the same text in every row",
        "allergy": "the same text wherever there is one: missing = indicator tells where",
    }
    assert encoder.features in (("age", "town=Oslo (against Rome)"), ("age", "town=Rome (against Oslo)"))
    # One text in some of the rows says something: whether it is there.
    told = data.Encoder.fit(table, np.arange(90) % 2, coding=data.Coding(missing="indicator"))
    assert told.features == (*encoder.features, "allergy missing")
    np.testing.assert_array_equal(told.transform(table)[:, 2], table["allergy"] == "")
    known = [merge_summaries([data.Encoder.summarize(table, [])])]
    known.append(merge_summaries([data.Encoder.summarize(table, known)]))
    sent = str([data.Encoder.summarize(table, known[:k]) for k in (0, 1, 2)])
    assert "P7" not in sent
    assert ".11.2026" not in sent
    few = data.Encoder.fit(table.take(np.arange(19)))  # too few to tell
    assert set(few.left_out) == {"ward", "allergy"}
    with pytest.raises(ValueError, match="columns of numbers or categories; id holds texts of which most are diff"):
        data.Encoder.fit({"id": table["id"]})
    with pytest.raises(ValueError, match=r"all clients must have the same 1 columns, got \['a', 'b'\]"):
        fitted_apart({"a": np.zeros(2)}, {"b": np.zeros(2)})


def test_a_column_is_of_one_kind_at_all_clients():
    with pytest.raises(ValueError, match="the column 'code' must hold text at all clients or numbers at all, got both"):
        fitted_apart({"code": np.array([1, 2])}, {"code": np.array(["x"])})
    empty = {"code": np.array(["", ""]), "age": np.array([np.nan, np.nan])}
    full = {"code": np.array([1.0, 3.0]), "age": np.array(["old", "new"])}
    for parts in ((empty, full), (full, empty)):  # what is missing everywhere at a client can be either
        assert fitted_apart(*parts).features == ("code", "age=old (against new)")

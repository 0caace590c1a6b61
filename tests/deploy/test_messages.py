"""Messages: what is encoded comes back equal, and whatever else arrives is refused in one sentence."""

import hashlib
import json
import random
import struct
import tracemalloc
from dataclasses import dataclass, fields

import numpy as np
import pytest

from fedualex.deploy import wire as encoding
from fedualex.deploy.engine import Arrays, RefusedError, Reply, Request
from fedualex.deploy.wire import (
    CarriedEngine,
    MessageError,
    answer,
    reply_from_bytes,
    reply_to_bytes,
    request_from_bytes,
    request_to_bytes,
)
from fedualex.runtime.status import Code, Failure

ARRAYS = {
    "server.omega.x": np.array([[1 / 3, np.pi], [1e-300, -0.0]]),
    "tau": np.asarray(2.0),
    "counts": np.arange(5),
    "mask": np.array([True, False]),
    "single": np.ones(3, np.float32),
    "big endian": np.arange(3, dtype=">f8"),
    "complex": np.array([1j]),
    "nothing": np.zeros((0, 4)),
    "größe": np.ones(1, np.uint64),
}
REQUEST = Request("round", 7, "run-1", ARRAYS)
REPLIES = [Reply("", 7, "run-1", ARRAYS), Reply("a", -1, "", error="no"), Reply("", 0, "", {})]


def assert_equal(found, expected):
    assert type(found) is type(expected)
    for field in fields(expected):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(other, dict) and all(isinstance(array, np.ndarray) for array in other.values()):
            assert list(one) == list(other)
            for name, array in other.items():
                assert (one[name].dtype, one[name].shape) == (array.dtype, array.shape)
                assert one[name].tobytes() == array.tobytes()
                assert one[name].flags.writeable
        else:
            assert (type(one), one) == (type(other), other)


def test_what_was_sent_arrives_bit_for_bit():
    assert_equal(request_from_bytes(request_to_bytes(REQUEST)), REQUEST)
    for reply in REPLIES:
        assert_equal(reply_from_bytes(reply_to_bytes(reply)), reply)


def test_a_view_of_any_layout_and_a_jax_array_travel():
    import jax.numpy as jnp

    arrays = {"turned": np.arange(6.0).reshape(2, 3).T, "every second": np.arange(6)[::2], "jax": jnp.arange(3.0)}
    found = request_from_bytes(request_to_bytes(Request("round", 0, "r", arrays))).arrays
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("bad", [np.array([None]), np.zeros(2, "V2"), np.array(["x"]), np.array(["2026"], "M8[D]")])
def test_only_plain_numbers_travel(bad):
    with pytest.raises(TypeError, match=r"'x' of dtype .* only plain numbers travel"):
        request_to_bytes(Request("round", 0, "r", {"x": bad}))


def test_a_new_field_of_a_message_changes_nothing_in_its_encoding():
    @dataclass(frozen=True)
    class Wider(Request):
        sums: Arrays | None = None
        keys: dict[str, str] | None = None
        share: float = 0.5

    wide = Wider("begin", 1, "r", {"a": np.ones(2)}, sums={"b": np.zeros(3)}, keys={"north": "key"})
    assert_equal(encoding._decode(Wider, encoding._encode(wide)), wide)
    assert_equal(encoding._decode(Wider, encoding._encode(Wider("begin", 1, "r", {}))), Wider("begin", 1, "r", {}))


def message(header, body=b"", length=None):
    """A message with a right checksum and any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    rest = struct.pack("<I", len(text) if length is None else length) + text + body
    return b"FXM3" + hashlib.sha256(rest).digest() + rest


def header(words=(), rows=(), **more):
    own = {"task": "round", "round": 0, "run_id": "r", "nonce": "", "roster": "", "version": "0", **dict(words)}
    return {"kind": "Request", "words": own, "arrays": {"arrays": list(rows)}, **more}


def test_the_forged_messages_below_are_wrong_in_one_thing_only():
    assert request_from_bytes(
        message(
            header(
                rows=[["x", "<f8", [1]]],
            ),
            b"12345678",
        )
    ).arrays["x"].shape == (1,)


LARGE = [1 << 30] * 4
MALFORMED = {
    "nothing": (b"", "a message has"),
    "a word": (b"hello", "a message has"),
    "another format": (b"PK\x03\x04" + bytes(100), "not a message of fedualex"),
    "damaged": (request_to_bytes(REQUEST)[:-1] + b"\x01", "not a message of fedualex, or one that was damaged"),
    "a header beyond the end": (message(header(), length=5000), "a header has at most"),
    "a long header": (message(b" " * (encoding.LARGEST_HEADER + 1)), "a header has at most"),
    "not JSON": (message(b"{"), "a malformed message"),
    "deep JSON": (message(b"[" * 500_000), "a malformed message"),
    "a long number": (message(b"1" * 100_000), "a malformed message"),
    "not a table": (message([1]), "a request was expected"),
    "words that are not": (message({**header(), "words": [1]}), "a malformed message"),
    "another kind": (message(header(kind="Reply")), "a request was expected"),
    "an unknown field": (message(header({"rank": 1})), "the message's 'rank' is not what it must be"),
    "a missing field": (message({"kind": "Request", "words": {}, "arrays": {}}), "a request has the fields"),
    "a number for a word": (message(header({"task": 3})), "the message's 'task' is not"),
    "a truth for a number": (message(header({"round": True})), "the message's 'round' is not"),
    "not a number": (message(json.dumps(header({"round": float("nan")})).encode()), "holds NaN"),
    "twice": (message(b'{"kind": "Request", "kind": "Request"}'), "the same thing twice"),
    "objects": (message(header(rows=[["x", "|O8", [1]]]), bytes(8)), "arrays of plain numbers travel"),
    "strings": (message(header(rows=[["x", "<U2", [1]]]), bytes(8)), "arrays of plain numbers travel"),
    "a structure": (message(header(rows=[["x", "f8,f8", [1]]]), bytes(16)), "arrays of plain numbers travel"),
    "an enormous dtype": (message(header(rows=[["x", "V99999999", [1]]])), "arrays of plain numbers travel"),
    "an enormous array": (message(header(rows=[["x", "<f8", LARGE]])), "longer or shorter than its header says"),
    "nothing of enormous shape": (message(header(rows=[["x", "<f8", [0, *LARGE]]])), "a malformed message"),
    "a negative shape": (message(header(rows=[["x", "<f8", [-1]]])), "a shape has at most"),
    "a broken shape": (message(header(rows=[["x", "<f8", [1.0]]]), bytes(8)), "a shape has at most"),
    "many axes": (message(header(rows=[["x", "<f8", [1] * 33]]), bytes(8)), "a shape has at most"),
    "too short": (message(header(rows=[["x", "<f8", [2]]]), bytes(8)), "longer or shorter"),
    "too long": (message(header(rows=[["x", "<f8", [1]]]), bytes(9)), "longer or shorter"),
    "one name twice": (message(header(rows=[["x", "<f8", [1]]] * 2), bytes(16)), "each once"),
    "a number for a name": (message(header(rows=[[3, "<f8", [1]]]), bytes(8)), "names of arrays"),
    "arrays for a word": (message({**header(), "arrays": {"task": []}}), "arrays where none belong"),
    "arrays for nothing": (message({**header(), "arrays": {"rank": []}}), "a malformed message"),
}


@pytest.mark.parametrize(("content", "sentence"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_message_is_refused_in_one_sentence(content, sentence):
    with pytest.raises(MessageError, match=sentence) as found:
        request_from_bytes(content)
    assert "\n" not in str(found.value)
    assert len(str(found.value)) < 200


def test_a_message_that_is_too_large_is_refused_on_both_sides(monkeypatch):
    monkeypatch.setattr(encoding, "LARGEST", 1000)
    with pytest.raises(ValueError, match="at most 1000 bytes"):
        request_to_bytes(Request("round", 0, "r", {"x": np.zeros(200)}))
    with pytest.raises(MessageError, match="40 to 1000 bytes, got 1001"):
        request_from_bytes(bytes(1001))


def mutated(content: bytes, rng: random.Random) -> bytes:
    """One to four changes of a message: bits, bytes, cuts, repetitions, other digits."""
    found = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(found)) if found else 0
        way = rng.randrange(6)
        if way == 0 and found:
            found[at] ^= 1 << rng.randrange(8)
        elif way == 1 and found:
            found[at] = rng.randrange(256)
        elif way == 2:
            del found[at : at + rng.randint(1, 30)]
        elif way == 3:
            found[at:at] = found[at : at + rng.randint(1, 30)]
        elif way == 4:
            found[at:at] = rng.randbytes(rng.randint(1, 9))
        elif digits := [i for i, byte in enumerate(found) if 48 <= byte < 58]:
            found[rng.choice(digits)] = rng.choice(b"0123456789")
    return bytes(found)


def attack(count: int) -> int:
    """How many mutated messages are read; a right checksum is put on every second one, as an attacker would do."""
    rng, read = random.Random(count), 0
    valid = [request_to_bytes(REQUEST), *map(reply_to_bytes, REPLIES)]
    for index in range(count):
        which = rng.randrange(len(valid))
        content = mutated(valid[which], rng)
        if forged := index % 2 == 0:
            content = content[:4] + hashlib.sha256(content[36:]).digest() + content[36:]
        back, forth = (request_from_bytes, request_to_bytes) if which == 0 else (reply_from_bytes, reply_to_bytes)
        try:
            found = back(content)
        except MessageError:
            continue
        if not forged:
            assert content == valid[which]  # changed and changed back
        assert_equal(back(forth(found)), found)
        read += 1
    return read


@pytest.mark.parametrize("count", [500, pytest.param(20_000, marks=pytest.mark.slow)])
def test_mutated_messages_are_refused_or_read_and_never_cost_memory(count):
    tracemalloc.start()
    try:
        read = attack(count)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0 < read < count / 2  # changed numbers under a right checksum are a message, all else is none
    assert most < 20e6


# Both ends


class Wires:
    """Carries to functions in place, and may change what comes back."""

    def __init__(self, works, change=lambda site, content: content):
        self.works, self.change = works, change

    def sites(self):
        return list(self.works)

    def carry(self, message, sites, timeout):
        return {site: self.change(site, answer(self.works[site], message)) for site in sites}

    def stopped(self):
        return False

    def close(self):
        pass


def double(request):
    return {"x": 2 * request.arrays["x"]}


def test_who_sent_a_reply_is_the_engines_word():
    forged = reply_to_bytes(Reply("north", 3, "r", {"x": np.ones(1)}))
    engine = CarriedEngine(Wires({"north": double, "south": double}, lambda site, content: forged))
    replies = engine.broadcast(Request("round", 3, "r", {"x": np.ones(1)}), ["south"], 1.0)
    assert [reply.site for reply in replies] == ["south"]


def test_of_an_error_its_kind_leaves_the_site_and_of_a_refusal_its_reason(caplog):
    def fails(request):
        raise ValueError("patient 4711")

    def refuses(request):
        raise RefusedError("fewer than 20 rows")

    def objects(request):
        return {"x": np.array([object()])}

    works = {"fails": fails, "refuses": refuses, "objects": objects, "fine": double}
    replies = CarriedEngine(Wires(works)).broadcast(Request("round", 3, "r", {"x": np.ones(2)}), list(works), 1.0)
    assert [reply.error for reply in replies] == [
        "the site raised ValueError (its log says more)",
        "refused: fewer than 20 rows",
        "the site raised TypeError (its log says more)",
        None,
    ]
    assert all((reply.round, reply.run_id) == (3, "r") for reply in replies)
    np.testing.assert_array_equal(replies[-1].arrays["x"], [2.0, 2.0])
    assert "patient 4711" in caplog.text


@pytest.mark.parametrize(
    "content", [b"", b"nonsense" * 10, request_to_bytes(REQUEST), Failure(Code.RAISED, "gone\nfor good")]
)
def test_what_cannot_be_read_is_an_error_of_its_site(content):
    engine = CarriedEngine(Wires({"a": double}, lambda site, answered: content))
    [reply] = engine.broadcast(Request("round", 3, "r", {"x": np.ones(1)}), ["a"], 1.0)
    assert (reply.arrays, reply.round, reply.run_id) == (None, 3, "r")
    failure = reply.failure
    if isinstance(content, Failure):
        assert failure == Failure(Code.RAISED, "gone for good")
    else:
        assert failure.code is Code.MALFORMED
        assert failure.text.startswith("malformed reply: ")
    assert reply_from_bytes(answer(double, b"nonsense")).error.startswith("malformed request: a message has")

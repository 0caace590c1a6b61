"""Secure sums: exact within the stated bound, nothing to see in one site's answer, keys that are signed."""

import json
import shutil
from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedualex.deploy.engine import RefusedError, Request
from fedualex.deploy.guard import Guard
from fedualex.deploy.ledger import Ledger
from fedualex.deploy.party import Layout
from fedualex.deploy.policy import Policy
from fedualex.deploy.secure.masks import (
    Masker,
    SiteKeys,
    UntrustedKeysError,
    generate_keys,
    make_keys,
    read_keys,
)
from fedualex.deploy.secure.sums import (
    CHECK,
    KEY,
    MOST_SITES,
    ROSTER,
    SECURE,
    UNITS,
    MaskError,
    decode_words,
    encode_words,
    quantization,
    unmask,
)

NAMES = ("cork", "amsterdam", "berlin", "delft")


def party(sites=NAMES):
    """The keys of sites that were never on a disk."""
    _, roster, own = generate_keys(sites)
    return {site: SiteKeys(site, roster, key) for site, key in own.items()}


KEYS = party()


def ask(keys=KEYS, **changes):
    roster = next(iter(keys.values())).roster.digest
    about = {"task": "survey", "round": 3, "run_id": "run", "arrays": {"points.x": np.ones(3)}}
    return Request(**about | {"nonce": "n1", "roster": roster} | changes)


def answers(arrays, request, keys=KEYS, weights=None):
    """The answers of all sites, each with its own arrays and weight."""
    weights = weights or dict.fromkeys(keys, 1.0)
    return {
        site: Masker(keys[site], lambda task, w=weights[site]: {"operators": w, "values": w}).hide(
            request, arrays[site]
        )
        for site in keys
    }


@pytest.mark.slow
def test_sums_are_exact_within_the_stated_bound_in_1000_random_cases():
    """Against exact rational sums, for sizes from 1e-20 to 1e13 and 3 to 8 sites with random weights."""
    rng, worst = np.random.default_rng(0), Fraction(0)
    everybody = {count: party([f"site-{m}" for m in range(count)]) for count in range(3, 9)}
    for case in range(1000):
        keys = everybody[int(rng.integers(3, 9))]
        size = 10.0 ** rng.uniform(-20, 12.5)
        own = {site: {"operators.x": size * rng.normal(size=2), "values": size * rng.normal(size=1)} for site in keys}
        weights = dict(zip(keys, map(float, rng.dirichlet(np.ones(len(keys)))), strict=True))
        found = unmask(answers(own, ask(keys, round=case), keys, weights))
        for name in ("operators.x", "values"):
            products = [weights[site] * own[site][name] for site in keys]  # rounded, as plain sums have them
            for entry, total in enumerate(found[name]):
                exact = sum(Fraction(float(product[entry])) for product in products)
                error = abs(Fraction(float(total)) - exact)
                bound = Fraction(quantization(len(keys))) + abs(exact) / 2**51
                assert error <= bound
                worst = max(worst, error / bound)
    assert worst > 0.1  # the bound is not an empty one


def test_wide_words_hold_the_sums_of_tables():
    rng = np.random.default_rng(1)
    for size in (1e-15, 1.0, 1e9, 1e20, 1e28):
        parts = size * rng.normal(size=(MOST_SITES, 3))
        total = np.sum([encode_words("sums", part, 3) for part in parts], axis=0, dtype=np.uint64)
        exact = [sum(map(Fraction, map(float, column))) for column in parts.T]
        for found, true in zip(decode_words(total), exact, strict=True):
            assert abs(Fraction(float(found)) - true) <= Fraction(quantization(MOST_SITES)) + abs(true) / 2**51


def test_as_many_sites_as_allowed_cannot_overflow():
    most = np.array([2.0**44, -(2.0**44)])
    one = encode_words("operators", most, 2)
    total = np.sum([one] * MOST_SITES, axis=0, dtype=np.uint64)
    np.testing.assert_array_equal(decode_words(total), MOST_SITES * most)
    assert UNITS[-2] * 2.0**52 == 2.0**44


def test_numbers_that_float64_holds_above_2_to_the_minus_8_are_exact():
    rng = np.random.default_rng(2)
    values = rng.choice([-1.0, 1.0], 1000) * 2.0 ** rng.uniform(-8, 44, 1000)
    np.testing.assert_array_equal(decode_words(encode_words("values", values, 2)), values)


@pytest.mark.parametrize("value", [2.0**44 * 1.01, -1e200])
def test_a_number_out_of_range_is_refused_by_name_and_not_quoted(value):
    with pytest.raises(RefusedError, match=r"^operators.x has entries beyond 2\^44, which secure sums cannot hold$"):
        Masker(KEYS["cork"], lambda task: {}).hide(ask(), {"operators.x": np.array([1.0, value])})


def test_a_number_that_is_not_finite_is_refused_by_name():
    for bad in (np.nan, np.inf):
        with pytest.raises(RefusedError, match=r"^values is not finite$"):
            Masker(KEYS["cork"], lambda task: {}).hide(ask(), {"values": np.array([bad])})


def test_one_answer_looks_like_random_bits_whatever_it_hides():
    """Bytes are spread evenly (chi-square of 255 degrees), bits have no bias, words no correlation with the numbers."""
    n = 20_000
    plain = {"operators.x": np.linspace(-1.0, 1.0, n)}
    hidden = Masker(KEYS["cork"], lambda task: {}).hide(ask(), plain)["operators.x"]
    assert hidden.shape == (2, n)
    counts = np.bincount(hidden.reshape(-1).view(np.uint8), minlength=256)
    expected = counts.sum() / 256
    assert np.sum((counts - expected) ** 2 / expected) < 255 + 6 * np.sqrt(2 * 255)
    bits = np.unpackbits(hidden.reshape(-1).view(np.uint8))
    assert abs(bits.mean() - 0.5) < 6 * 0.5 / np.sqrt(bits.size)
    for word in hidden.view(np.int64).astype(float):
        assert abs(np.corrcoef(word, plain["operators.x"])[0, 1]) < 6 / np.sqrt(n)
    # The same numbers without masks fail each of the tests.
    bare = encode_words("operators", plain["operators.x"], 2)
    counts = np.bincount(bare.reshape(-1).view(np.uint8), minlength=256)
    assert np.sum((counts - expected) ** 2 / expected) > 1e4
    assert np.corrcoef(bare[0].view(np.int64).astype(float), plain["operators.x"])[0, 1] > 0.9


def test_all_but_one_answer_add_up_to_random_words_too():
    own = {site: {"values": np.zeros(5000)} for site in KEYS}
    without_one = {site: answer for site, answer in answers(own, ask()).items() if site != "delft"}
    total = np.sum([answer["values"] for answer in without_one.values()], axis=0, dtype=np.uint64)
    counts = np.bincount(total.reshape(-1).view(np.uint8), minlength=256)
    expected = counts.sum() / 256
    assert np.sum((counts - expected) ** 2 / expected) < 255 + 6 * np.sqrt(2 * 255)
    with pytest.raises(MaskError, match="do not cancel"):
        unmask(without_one)


CHANGES = {
    "nonce": {"nonce": "n2"},
    "round": {"round": 4},
    "run": {"run_id": "another"},
    "task": {"task": "round"},
    "content": {"arrays": {"points.x": np.full(3, 2.0)}},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_masks_are_fresh_if_anything_differs_and_cancel_only_if_nothing_does(change):
    """A server that asks sites for different things, or again, learns nothing from the differences."""
    plain = {"values": np.zeros(50)}
    one, other = (Masker(KEYS["cork"], lambda task: {}).hide(request, plain) for request in (ask(), ask(**change)))
    assert not np.any(one["values"] == other["values"])
    rest = {site: Masker(KEYS[site], lambda task: {}).hide(ask(), plain) for site in NAMES[1:]}
    assert not np.any(unmask({"cork": one} | rest)["values"])
    with pytest.raises(MaskError, match="do not cancel"):
        unmask({"cork": other} | rest)


def test_a_site_answers_once_under_a_nonce():
    count = iter(range(9))
    masking = Masker(KEYS["cork"], lambda task: {})
    ledger = Ledger(None)
    door = Guard(
        lambda request: {"values": np.array([float(next(count))])}, Policy(secure_sums=True), ledger, hide=masking.hide
    )
    door.work(ask())
    for again in (ask(), ask(round=9), ask(task="round")):
        with pytest.raises(RefusedError, match="masks are used once"):
            door.work(again)
    door.work(ask(nonce="n2"))
    assert ledger.count_recent() == 2


def test_what_is_not_added_up_travels_as_it_is():
    plain = {
        "sums.total": np.ones(3),
        "largest.size": np.array([4.0]),
        "labels.y": np.arange(2),
        "each.rows": np.array(7),
    }
    hidden = Masker(KEYS["cork"], lambda task: {}).hide(ask(task="summary"), plain)
    assert sorted(hidden) == sorted([*plain, CHECK])
    for name in ("largest.size", "labels.y", "each.rows"):
        assert hidden[name] is plain[name]
    assert (hidden["sums.total"].shape, hidden["sums.total"].dtype) == ((3, 3), np.uint64)


def test_two_sites_are_refused():
    keys = party(NAMES[:2])
    with pytest.raises(RefusedError, match="3 sites or more: of two, each knows the other's numbers"):
        Masker(keys["cork"], lambda task: {}).hide(ask(keys), {"values": np.ones(1)})


def test_answers_that_do_not_fit_together_are_refused():
    own = {site: {"values": np.ones(2), "operators.x": np.ones(3)} for site in KEYS}
    good = answers(own, ask())
    theirs = good["delft"]
    words = "of delft must be 2 words of 64 bits for each number"
    for change, match in [
        ({"values": theirs["values"][:, :1]}, "values of delft has another shape than that of cork"),
        ({"values": theirs["values"][:1]}, f"values {words}"),
        ({"values": theirs["values"].astype(float)}, f"values {words}"),
        ({"points": theirs["values"]}, "points of delft has another shape than that of cork"),
        ({CHECK: theirs[CHECK] + np.uint64(1)}, "do not cancel"),
        ({CHECK: theirs[CHECK][:1]}, f"check {words}"),
    ]:
        with pytest.raises(MaskError, match=match):
            unmask(good | {"delft": theirs | change})
    with pytest.raises(MaskError, match=f"operators.x {words}"):
        unmask(good | {"delft": {name: array for name, array in theirs.items() if name != "operators.x"}})
    with pytest.raises(MaskError, match="check of cork must be"):
        unmask(own)


@pytest.fixture
def deployment(tmp_path):
    make_keys(Layout(tmp_path), NAMES)
    return tmp_path


def test_keys_are_made_for_each_party_and_private_ones_are_its_own(deployment):
    files = {str(file.relative_to(deployment)) for file in deployment.rglob("*") if file.is_file()}
    parties = ["authority", "server", *(f"sites/{name}" for name in NAMES)]
    assert files == {f"{party}/secure/{file}" for party in parties for file in (ROSTER, "authority.pub", KEY)} - {
        "server/secure/key.pem"
    }
    for file in deployment.rglob(KEY):
        assert file.stat().st_mode & 0o777 == 0o600
    keys = {name: read_keys(deployment / "sites" / name, name) for name in NAMES}
    assert keys["cork"].shared["delft"] == keys["delft"].shared["cork"]
    assert len({secret for own in keys.values() for secret in own.shared.values()}) == 6
    found = unmask(answers({name: {"values": np.ones(2)} for name in NAMES}, ask(keys), keys))
    np.testing.assert_array_equal(found["values"], [4.0, 4.0])


def forge(folder, change):
    file = folder / SECURE / ROSTER
    roster = json.loads(file.read_text())
    change(roster)
    file.write_text(json.dumps(roster))


OTHER_KEY = X25519PrivateKey.generate().public_key().public_bytes_raw().hex()
FORGED = {
    "another key": lambda roster: roster["keys"].update(delft=OTHER_KEY),
    "one more site": lambda roster: roster["keys"].update(ghost=OTHER_KEY),
    "one site less": lambda roster: roster["keys"].pop("delft"),
    "two keys swapped": lambda roster: roster["keys"].update(
        delft=roster["keys"]["berlin"], berlin=roster["keys"]["delft"]
    ),
    "another deployment": lambda roster: roster.update(deployment="00" * 16),
    "no signature": lambda roster: roster.update(signature=""),
    "a signature of somebody else": lambda roster: roster.update(
        signature=Ed25519PrivateKey.generate().sign(b"").hex()
    ),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_forged_list_of_keys_is_refused(deployment, change):
    folder = deployment / "sites" / "cork"
    forge(folder, change)
    with pytest.raises(UntrustedKeysError, match="not signed by the authority of this deployment"):
        read_keys(folder, "cork")


def test_a_malformed_list_of_keys_is_refused(deployment):
    folder = deployment / "sites" / "cork"
    for content in (b"", b"[]", b"{}", b"null", b"\xff"):
        (folder / SECURE / ROSTER).write_bytes(content)
        with pytest.raises(UntrustedKeysError, match=r"roster\.json"):
            read_keys(folder, "cork")


def test_a_list_with_another_key_of_ones_own_is_refused(deployment):
    folder = deployment / "sites" / "cork"
    (folder / SECURE / KEY).write_bytes((deployment / "sites" / "delft" / SECURE / KEY).read_bytes())
    with pytest.raises(UntrustedKeysError, match="another key than this site's own under the name 'cork'"):
        read_keys(folder, "cork")


def test_a_list_of_keys_that_was_replaced_is_refused(deployment, tmp_path_factory):
    """New keys come with a new authority: what the old one signed is void, and sites with other lists do not add up."""
    folder = deployment / "sites" / "cork"
    old, before = (folder / SECURE / ROSTER).read_bytes(), read_keys(folder, "cork")
    shutil.rmtree(folder / SECURE)
    make_keys(Layout(other := tmp_path_factory.mktemp("renewed")), NAMES)
    shutil.move(other / "sites" / "cork" / SECURE, folder / SECURE)
    request = ask({"cork": read_keys(folder, "cork")})
    with pytest.raises(RefusedError, match="the server has another list of keys than this site"):
        Masker(before, lambda task: {}).hide(request, {"values": np.ones(1)})
    (folder / SECURE / ROSTER).write_bytes(old)
    with pytest.raises(UntrustedKeysError, match="not signed by the authority of this deployment"):
        read_keys(folder, "cork")

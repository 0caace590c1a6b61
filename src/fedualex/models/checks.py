"""Whether plain data can be a model at all: what programs read of it has the kind that they expect.

Kinds are said in tables: what an entry is, which entries a table must have and which it may have. Whatever is not named
is shown as it is, if at all, and nothing is computed from it.
"""

import itertools
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ..data.encoder import MEAN, MISSING
from ..inference.table import KINDS as ERRORS, Effect
from ..storage import Json
from ..validation import short

Kind = Callable[[str, Any], None]
"""Refuses what is not of it, by the name that it is given."""
NOTHING: Mapping[str, Kind] = MappingProxyType({})


def check_document(document: Json) -> None:
    """Refuse the first entry of a wrong kind."""
    _check_columns(document)
    for name, kind in DOCUMENT.items():
        kind(name, document[name])


def _check_columns(document: Json) -> None:
    numbers, categories, target = (document[key] for key in ("numbers", "categories", "target"))
    NAMES("numbers", numbers)
    _require(isinstance(categories, dict), "categories", categories, "a table")
    for name, own in categories.items():
        _check_category(name, own)
    names = [*numbers, *categories]
    _require(len(set(names)) == len(names), "numbers and categories", names, "different names")
    _check_coding(document, names)
    _require(isinstance(target, str) or (_is_words(target) and bool(target)), "target", target, "a name, or several")
    exposure = document.get("exposure")
    _require(exposure is None or _is_word(exposure), "exposure", exposure, "the name of a column")


def _check_category(name: str, own: Any) -> None:
    """Its levels, the share of each, and which of them is the reference; "" where there is none."""
    _require(isinstance(own, dict), f"categories.{name}", own, "a table of levels, shares and reference")
    levels, shares, reference = (own[key] for key in ("levels", "shares", "reference"))
    _require(_is_words(levels) and "" not in levels, f"categories.{name}.levels", levels, "a list of different words")
    each = isinstance(shares, list) and len(shares) == len(levels) and all(_is_share(one) for one in shares)
    if not each or reference not in (levels or [""]):
        raise ValueError(f"the column {name!r} must have a share for each category, and one as its reference")


def _check_coding(document: Json, names: list[str]) -> None:
    """What models of earlier schemas do not have."""
    codes, indicators = (document.get(key, []) for key in ("codes", "indicators"))
    known = _is_words(codes) and set(codes) <= set(document["categories"])
    _require(known, "codes", codes, "a list of columns of categories")
    groups = isinstance(indicators, list) and all(isinstance(group, list) and group for group in indicators)
    gone = [name for group in indicators for name in group] if groups else None
    _require(_is_words(gone), "indicators", indicators, "lists of columns, each column in one of them")
    if unknown := sorted({*(gone or ())} - {*names}):
        raise ValueError(f"{unknown[0]!r} must be a column of the model")
    _check_curves(document, names)
    missing = document.get("missing", MEAN)
    _require(missing in MISSING, "missing", missing, f"one of {', '.join(MISSING)}")


def _check_curves(document: Json, names: list[str]) -> None:
    """Curves of columns of numbers, with numbers that fit one another, and pairs of columns."""
    curves, products = document.get("curves", {}), document.get("products", [])
    known = isinstance(curves, dict) and {*curves} <= {*document["numbers"]}
    _require(known, "curves", curves, "a table of columns of numbers")
    for name, own in curves.items():
        _table({"knots": _list(NUMBER), "mix": _list(_list(NUMBER))}, accepted="a curve")(f"curves.{name}", own)
        knots, mix = own["knots"], own["mix"]
        rising = len(knots) >= 3 and all(one < other for one, other in itertools.pairwise(knots))
        _require(rising, f"curves.{name}.knots", knots, "three rising numbers or more")
        fits = len(mix) == len(knots) and all(len(row) == len(knots) - 2 for row in mix)
        _require(fits, f"curves.{name}.mix", mix, "a row for each knot, of numbers for all knots but two")
    pairs = isinstance(products, list) and all(_is_words(pair) and len(pair) == 2 for pair in products)
    _require(pairs, "products", products, "pairs of columns")
    if unknown := sorted({name for pair in products for name in pair} - {*names}):
        raise ValueError(f"{unknown[0]!r} must be a column of the model")


# What an entry can be.


def _require(holds: bool, name: str, given: Any, accepted: str) -> None:
    if not holds:
        raise ValueError(f"{name} must be {accepted}, got {short(given)}")


def _is_words(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(word, str) for word in given) and len(set(given)) == len(given)


def _is_word(given: Any) -> bool:
    return isinstance(given, str)


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and abs(given) <= sys.float_info.max


def _is_size(given: Any) -> bool:
    return _is_number(given) and given >= 0


def _is_share(given: Any) -> bool:
    return _is_size(given) and given <= 1


def _is_count(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 2**63


def _is(holds: Callable[[Any], bool], accepted: str) -> Kind:
    return lambda name, given: _require(holds(given), name, given, accepted)


def _maybe(kind: Kind) -> Kind:
    """None, or of that kind."""
    return lambda name, given: None if given is None else kind(name, given)


def _list(kind: Kind, length: int | None = None, accepted: str = "a list") -> Kind:
    def check(name: str, given: Any) -> None:
        _require(isinstance(given, list) and length in (None, len(given)), name, given, accepted)
        for place, one in enumerate(given):
            kind(f"{name}[{place}]", one)

    return check


def _each(kind: Kind) -> Kind:
    """A table in which every entry is of that kind."""

    def check(name: str, given: Any) -> None:
        _require(isinstance(given, dict), name, given, "a table")
        for key, one in given.items():
            kind(_within(name, key), one)

    return check


def _within(name: str, key: str) -> str:
    return f"{name}.{key if key.isidentifier() else short(key)}"


def _table(needed: Mapping[str, Kind], others: Mapping[str, Kind] = NOTHING, accepted: str = "a table") -> Kind:
    """needed: what it must have; others: what it may have."""

    def check(name: str, given: Any) -> None:
        _require(isinstance(given, dict) and {*needed} <= {*given}, name, given, accepted)
        for key, kind in {**needed, **others}.items():
            if key in given:
                kind(f"{name}.{key}", given[key])

    return check


WORD, FLAG = _is(_is_word, "a text"), _is(lambda given: isinstance(given, bool), "true or false")
NUMBER, SIZE = _is(_is_number, "a number"), _is(_is_size, "a number >= 0")
COUNT, SHARE = _is(_is_count, "a whole number >= 0"), _is(_is_share, "a number from 0 to 1")
CONFIDENCE = _is(lambda given: _is_number(given) and 0 < given < 1, "a number between 0 and 1")
ERROR_KIND = _is(lambda given: given in ERRORS, f"one of {', '.join(ERRORS)}")
NAMES = _is(_is_words, "a list of names")
SENTENCES = _is(lambda given: isinstance(given, list) and all(map(_is_word, given)), "a list of sentences")
ANYTHING = _is(lambda given: True, "")

# A model's certificate, and what it keeps of its training.

PROVED = _is(lambda given: given in ("", "zero", "sign"), "one of 'zero', 'sign' and ''")
COEFFICIENTS = _each(_table({"proved": PROVED}, {"within": _maybe(SIZE)}, "what is proved of a coefficient"))
UNITS = _is(lambda given: _is_number(given) and given > 0, "a number > 0")
OTHERS = {"name": WORD, "reference": WORD, "penalized_proved": PROVED, "shown_per": UNITS}
ROW = _table({name: OTHERS.get(name, _maybe(NUMBER)) for name in Effect._fields})
"""Of a table of effects, all that an `Effect` has; a number beyond float64 is None."""
TABLE_OF_EFFECTS = {
    "rows": _list(ROW, accepted="a list of effects"),
    "kind": ERROR_KIND,
    "effect": WORD,
    "confidence": CONFIDENCE,
    "conditional": FLAG,
    "degrees": _maybe(_is(lambda given: _is_count(given) and given > 0, "a whole number > 0")),
    "words": SENTENCES,
}


def _check_band(name: str, given: Any) -> None:
    """A curve with its band, as many numbers of each kind."""
    numbers = {"at": NUMBER, **dict.fromkeys(("estimate", "lower", "upper"), _maybe(NUMBER))}
    needed = {**{key: _list(kind) for key, kind in numbers.items()}, "against": NUMBER, "bends": _maybe(SHARE)}
    _table(needed, accepted="a curve with its band")(name, given)
    _require(len({len(given[key]) for key in numbers}) == 1, name, given, "as many numbers of each kind")


def _check_effects(name: str, given: Any) -> None:
    """The table with its others, or the reason why there is none."""
    _require(isinstance(given, dict), name, given, "a table")
    accepted = "a table of effects, or a sentence that refuses one"
    if "refused" in given:
        _table({"refused": WORD}, {"exchanges": COUNT, "coefficients": COEFFICIENTS}, accepted)(name, given)
        return
    others = {"exchanges": COUNT, "own_intercepts": FLAG, "others": _each(_table(TABLE_OF_EFFECTS, accepted=accepted))}
    others |= {"coefficients": COEFFICIENTS, "curves": _each(_check_band)}
    _table(TABLE_OF_EFFECTS, others, accepted)(name, given)


def _check_curve(name: str, given: Any) -> None:
    """What held-out rows said along a path of penalties: as many numbers of each kind as values."""
    positive = _is(lambda value: _is_number(value) and value > 0, "a number > 0")
    own = {"values": positive, "measure": NUMBER, "error": SIZE, "gaps": SIZE, "nonzeros": COUNT}
    places = {"best": COUNT, "chosen": COUNT}
    words = {"name": WORD, "what": WORD}
    _table({**{key: _list(kind) for key, kind in own.items()}, **places, **words}, accepted="a path of penalties")(
        name, given
    )
    count = len(given["values"])
    alike = count > 0 and all(len(given[key]) == count for key in own)
    _require(alike, f"{name}.values", given["values"], "as many numbers as the others of the path, and some")
    for key in places:
        _require(given[key] < count, f"{name}.{key}", given[key], "the place of a value")


def _check_calibration(name: str, given: Any) -> None:
    """Both lines with their ends, or neither and the reason."""
    ends = _maybe(_list(NUMBER, 3, "a number with both ends of its interval"))
    _table({"intercept": ends, "slope": ends, "sentence": WORD}, accepted="a calibration")(name, given)
    both = (given["intercept"] is None) == (given["slope"] is None)
    _require(both, name, given, "an intercept and a slope, or neither")


BIN = _list(NUMBER, 5, "rows, predicted and observed share, and the ends of an interval")


def _check_bin(name: str, given: Any) -> None:
    BIN(name, given)
    _require(given[0] > 0, f"{name}[0]", given[0], "a number > 0 of rows")


def _check_rates(name: str, given: Any) -> None:
    _list(NUMBER, 3, "a threshold with both its rates")(name, given)
    for place in (1, 2):
        SHARE(f"{name}[{place}]", given[place])


MEASURES = _each(_maybe(NUMBER))
INTERVALS = _each(_list(NUMBER, 2, "the ends of an interval"))
CURVES = _table({}, {"bins": _list(_check_bin), "roc": _list(_check_rates)})
HELD_OUT = _table(
    {"rows": COUNT, "overall": MEASURES, "clients": _each(MEASURES)},
    {
        "confidence": CONFIDENCE,
        "intervals": _table({}, {"overall": INTERVALS, "clients": _each(INTERVALS)}),
        "calibration": _table({}, {"overall": _check_calibration, "clients": _each(_check_calibration)}),
        "curves": _table({}, {"overall": CURVES, "clients": _each(CURVES)}),
    },
    "a table of measures of all rows and of each client",
)
PENALTY = _table(
    {"sentence": WORD}, {"name": WORD, "value": NUMBER, "curve": _maybe(_check_curve)}, "a table with a sentence"
)
TRAINING = _table(
    {},
    {
        "goal": WORD,
        "id": _maybe(_is(_is_word, "the name of a column")),
        "rows": COUNT,
        "clients": _each(COUNT),
        "weighs": SENTENCES,
        "done": SENTENCES,
        "penalty": PENALTY,
        "effects": _check_effects,
        "rate": _table({"sentence": WORD}, accepted="a table with a sentence"),
        "held_out": _maybe(HELD_OUT),
        "ordinary": _table({"sentence": WORD}, {"held_out": _maybe(HELD_OUT)}, "a table with a sentence"),
        "configuration": _table({}, {"problem": _each(ANYTHING), "run": _each(ANYTHING)}),
        "versions": _each(WORD),
        "machine": _each(ANYTHING),
        "command": WORD,
        "created": WORD,
    },
)
CERTIFICATE = _table(
    {},
    {
        **{name: _maybe(SIZE) for name in ("gap", "tol")},
        **{name: _maybe(WORD) for name in ("status", "meaning", "proof")},
        "exchanges": _maybe(COUNT),
        "violation": _maybe(NUMBER),
    },
)
ANSWERS = _table({"kind": _is(_is_word, "a word"), "threshold": NUMBER, "center": ANYTHING, "scale": ANYTHING})
DOCUMENT: Mapping[str, Kind] = {"answers": ANSWERS, "certificate": CERTIFICATE, "training": TRAINING}
"""What a model has beside its columns."""

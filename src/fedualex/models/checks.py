"""Whether plain data can be a model at all: what programs read of it has the kind that they expect."""

from collections.abc import Callable, Mapping
from typing import Any

from ..data.encoder import MEAN, MISSING
from ..validation import short


def check_document(document: Mapping[str, Any]) -> None:
    """Refuse the first entry of a wrong kind."""
    numbers, categories, target = (document[key] for key in ("numbers", "categories", "target"))
    _require(_is_words(numbers), "numbers", numbers, "a list of names")
    _require(isinstance(categories, dict), "categories", categories, "a table")
    for name, own in categories.items():
        _check_category(name, own)
    names = [*numbers, *categories]
    _require(len(set(names)) == len(names), "numbers and categories", names, "different names")
    _check_coding(document, names)
    _require(isinstance(target, str) or (_is_words(target) and bool(target)), "target", target, "a name, or several")
    exposure = document.get("exposure")
    _require(exposure is None or _is_word(exposure), "exposure", exposure, "the name of a column")
    for key in ("answers", "certificate", "training"):
        _require(isinstance(document[key], dict), key, document[key], "a table")
    for key, is_kind in CERTIFICATE.items():
        found = document["certificate"].get(key)
        _require(found is None or is_kind(found), f"certificate.{key}", found, "a number or a word as a run writes it")
    _check_training(document["training"])


def _check_category(name: str, own: Any) -> None:
    """Its levels, the share of each, and which of them is the reference; "" where there is none."""
    _require(isinstance(own, dict), f"categories.{name}", own, "a table of levels, shares and reference")
    levels, shares, reference = (own[key] for key in ("levels", "shares", "reference"))
    _require(_is_words(levels) and "" not in levels, f"categories.{name}.levels", levels, "a list of different words")
    each = isinstance(shares, list) and len(shares) == len(levels) and all(_is_size(one) and one <= 1 for one in shares)
    if not each or reference not in (levels or [""]):
        raise ValueError(f"the column {name!r} must have a share for each category, and one as its reference")


def _check_coding(document: Mapping[str, Any], names: list[str]) -> None:
    """What models of earlier schemas do not have."""
    codes, indicators = (document.get(key, []) for key in ("codes", "indicators"))
    known = _is_words(codes) and set(codes) <= set(document["categories"])
    _require(known, "codes", codes, "a list of columns of categories")
    groups = isinstance(indicators, list) and all(isinstance(group, list) and group for group in indicators)
    gone = [name for group in indicators for name in group] if groups else None
    _require(_is_words(gone), "indicators", indicators, "lists of columns, each column in one of them")
    if unknown := sorted({*(gone or ())} - {*names}):
        raise ValueError(f"{unknown[0]!r} must be a column of the model")
    missing = document.get("missing", MEAN)
    _require(missing in MISSING, "missing", missing, f"one of {', '.join(MISSING)}")


def _check_training(training: Mapping[str, Any]) -> None:
    weighs, clients, held_out = (training.get(key) for key in ("weighs", "clients", "held_out"))
    _require(weighs is None or _is_words(weighs), "training.weighs", weighs, "a list of sentences")
    done, name = training.get("done"), training.get("id")
    told = done is None or (isinstance(done, list) and all(map(_is_word, done)))
    _require(told, "training.done", done, "a list of sentences")
    _require(name is None or _is_word(name), "training.id", name, "the name of a column")
    penalty, effects = (training.get(key) for key in ("penalty", "effects"))
    _require(effects is None or isinstance(effects, dict), "training.effects", effects, "a table")
    told = penalty is None or (isinstance(penalty, dict) and _is_word(penalty.get("sentence")))
    _require(told, "training.penalty", penalty, "a table with a sentence")
    _require(clients is None or isinstance(clients, dict | list), "training.clients", clients, "a table")
    if held_out is None:
        return
    _require(isinstance(held_out, dict), "training.held_out", held_out, "a table")
    overall, each, rows = (held_out.get(key) for key in ("overall", "clients", "rows"))
    _require(_is_measures(overall), "training.held_out.overall", overall, "numbers by name")
    alike = isinstance(each, dict) and all(map(_is_measures, each.values()))
    _require(alike, "training.held_out.clients", each, "numbers by name for each client")
    _require(_is_number(rows), "training.held_out.rows", rows, "a number")
    for key in ("intervals", "calibration", "curves"):
        found = held_out.get(key, {})
        _require(isinstance(found, dict), f"training.held_out.{key}", found, "a table")
    confidence = held_out.get("confidence", 0.95)
    _require(_is_number(confidence), "training.held_out.confidence", confidence, "a number")


def _require(holds: bool, name: str, given: Any, accepted: str) -> None:
    if not holds:
        raise ValueError(f"{name} must be {accepted}, got {short(given)}")


def _is_words(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(word, str) for word in given) and len(set(given)) == len(given)


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and abs(given) < 1e308


def _is_measures(given: Any) -> bool:
    return isinstance(given, dict) and all(value is None or _is_number(value) for value in given.values())


def _is_size(given: Any) -> bool:
    return _is_number(given) and given >= 0


def _is_word(given: Any) -> bool:
    return isinstance(given, str)


CERTIFICATE: dict[str, Callable[[Any], bool]] = {
    "gap": _is_size,
    "tol": _is_size,
    "exchanges": _is_size,
    "violation": _is_number,
    "status": _is_word,
    "meaning": _is_word,
}
"""What is shown of a certificate, and of which kind it is where it is there."""

"""A model on disk: model.json for people and programs, model.npz for its numbers. Nothing in it is code."""

import hashlib
import io
import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..arrays import Values
from ..data import Encoder, Standardizer
from ..data.curves import Curve
from ..data.encoder import MEAN
from ..problems.families import reading_of
from ..storage import Json, arrays_within, read_within, write_atomically, write_json
from ..validation import short
from .checks import check_document
from .model import Answers, Model

SCHEMA, WITHOUT_REFERENCES, WITHOUT_CHECKSUMS = 3, 2, 1
JSON, ARRAYS = "model.json", "model.npz"
MOST_JSON, MOST_ARRAYS, DEEPEST = 2**24, 2**28, 32
"""Bytes of each file at most, also when it is unpacked, and how deep lists and tables lie in one another in model.json.
More is refused before it is read."""
CHECKSUMS = "checksums"
OF_TARGETS = ("center", "scale")
"""The numbers of answers of which there is one for each target."""
MODEL = "model"
"""The folder of a model within that of a fit or a run."""


def save(model: Model, folder: str | Path) -> Path:
    """Write a model into a folder, which may be moved anywhere, and return the folder.

    model.json is written last: its presence says that all is there.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    (path / JSON).unlink(missing_ok=True)
    document, arrays = to_parts(model)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write_atomically(path / ARRAYS, buffer.getvalue())
    write_json(path / JSON, {**document, CHECKSUMS: _checksums(document, buffer.getvalue())})
    return path


def _checksums(document: Json, arrays: bytes) -> dict[str, str]:
    """SHA-256 of the document without them, written in one way, and of the file of arrays."""
    plain = {key: value for key, value in document.items() if key != CHECKSUMS}
    words = json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()
    return {JSON: hashlib.sha256(words).hexdigest(), ARRAYS: hashlib.sha256(arrays).hexdigest()}


def to_parts(model: Model) -> tuple[Json, dict[str, Values]]:
    """A model as plain data and arrays, for a folder or a message."""
    arrays = {"weights": model.weights, "bias": np.asarray(model.bias), "labels": model.answers.labels}
    if (scale := model.encoder.standardizer) is not None:
        arrays |= {"mean": scale.mean, "deviation": scale.deviation}
    numbers = {key: np.asarray(getattr(model.answers, key)).tolist() for key in ("threshold", "center", "scale")}
    answers = {"kind": model.answers.reading.name, **numbers}
    document = {
        "schema": SCHEMA,
        "kind": "model",
        "target": model.target if isinstance(model.target, str) else list(model.target),
        "answers": answers,
        "exposure": model.exposure,
        "numbers": list(model.encoder.numbers),
        "categories": {name: _category(model.encoder, name) for name in model.encoder.categories},
        "codes": list(model.encoder.codes),
        "indicators": list(map(list, model.encoder.indicators)),
        "missing": model.encoder.missing,
        "curves": {name: _curve(curve) for name, curve in model.encoder.curves.items()},
        "products": list(map(list, model.encoder.products)),
        "certificate": dict(model.certificate),
        "training": dict(model.training),
    }
    return document, arrays


def _category(encoder: Encoder, name: str) -> Json:
    levels, shares = encoder.categories[name], encoder.shares[name]
    return {"levels": list(levels), "shares": list(shares), "reference": encoder.references[name]}


def _curve(curve: Curve) -> Json:
    return {"knots": list(curve.knots), "mix": list(map(list, curve.mix))}


def load(folder: str | Path) -> Model:
    """The model of a folder, or of that of a fit or a run; a clear refusal of what this version cannot read."""
    inner = Path(folder) / MODEL
    path = inner if (inner / JSON).exists() else Path(folder)
    file = path / JSON
    if not file.exists():
        raise ValueError(f"{str(folder)!r} is no model: it has no {JSON}")
    try:
        document = json.loads(read_within(file, MOST_JSON), parse_constant=_refuse_constant, parse_float=_read_float)
        _check_depth(document)
        schema = document["schema"] if document["kind"] == "model" else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{file} is no model of fedualex: {type(error).__name__}: {error}") from None
    if schema not in (SCHEMA, WITHOUT_REFERENCES, WITHOUT_CHECKSUMS):
        raise ValueError(f"{file} has schema {short(schema)}, of another version of fedualex; this one reads {SCHEMA}")
    if schema != SCHEMA and document.get("categories"):
        why = "whose categories had no reference: fit it again, or use the version of fedualex that made it"
        raise ValueError(f"{file} is a model of schema {schema}, {why}")
    try:
        content = read_within(path / ARRAYS, MOST_ARRAYS)
        arrays = arrays_within(content, MOST_ARRAYS)
        if schema != WITHOUT_CHECKSUMS and document[CHECKSUMS] != _checksums(document, content):
            raise ValueError("its files are not those that were written together: a checksum differs")
        return from_parts(document, arrays)
    except Exception as error:  # a damaged file can fail in many ways
        raise ValueError(f"{str(folder)!r} is damaged: {type(error).__name__}: {error}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _read_float(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{short(text)} is beyond float64")
    return number


def _check_depth(document: object) -> None:
    level, depth = [document], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise ValueError(f"lists and tables lie more than {DEEPEST} deep in one another")
        inner = [list(one.values()) if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [value for one in inner for value in one]


def from_parts(document: Json, arrays: Mapping[str, Values]) -> Model:
    """The model of `to_parts`; what is no model can fail in many ways."""
    check_document(document)
    numbers = tuple(document["numbers"])
    scale = Standardizer(*(_real(key, arrays[key]) for key in ("mean", "deviation"))) if numbers else None
    if scale is not None and not scale.mean.shape == scale.deviation.shape == (len(numbers),):
        raise ValueError(f"mean and deviation must be {len(numbers)} numbers each")
    if scale is not None and not np.all(scale.deviation >= 0):
        raise ValueError("deviation must be numbers >= 0")
    given, weights, bias = document["answers"], _real("weights", arrays["weights"]), _real("bias", arrays["bias"])
    answers = Answers(
        reading_of(given["kind"]),
        arrays["labels"],
        float(given["threshold"]),
        *(_real(key, np.array(given[key], float)) for key in OF_TARGETS),
    )
    encoder = _encoder(numbers, scale, document)
    target, certificate, training = document["target"], document["certificate"], document["training"]
    target = tuple(target) if isinstance(target, list) else target
    model = Model(encoder, weights, bias, answers, target, certificate, training, document.get("exposure"))
    _check_answers(model)
    return model


def _encoder(numbers: tuple[str, ...], scale: Standardizer | None, document: Json) -> Encoder:
    """Models of earlier schemas have no categories, or were refused."""
    categories = document["categories"]
    levels = {name: tuple(own["levels"]) for name, own in categories.items()}
    shares = {name: tuple(map(float, own["shares"])) for name, own in categories.items()}
    references = {name: own["reference"] for name, own in categories.items()}
    indicators = tuple(map(tuple, document.get("indicators", ())))
    codes, missing = tuple(document.get("codes", ())), document.get("missing", MEAN)
    curves = {
        name: Curve(tuple(map(float, own["knots"])), tuple(tuple(map(float, row)) for row in own["mix"]))
        for name, own in document.get("curves", {}).items()
    }
    products = tuple((one, other) for one, other in document.get("products", ()))
    return Encoder(numbers, levels, scale, {}, references, shares, indicators, codes, missing, curves, products)


def _real(name: str, given: object) -> NDArray[np.float64]:
    """Finite numbers."""
    if np.asarray(given).dtype.kind not in "fiu":
        raise ValueError(f"{name} must be real numbers, got {np.asarray(given).dtype}")
    numbers = np.asarray(given, np.float64)
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"{name} must be finite")
    return numbers


def _check_answers(model: Model) -> None:
    """Labels, one for each score or two for one, and coefficients that float64 holds."""
    labels, several = model.answers.labels, model.weights.shape[1:]
    if labels.ndim != 1 or labels.dtype.kind not in "Ubfiu" or len(np.unique(labels)) != len(labels):
        raise ValueError(f"labels must be different words or numbers, got {short(labels)}")
    wanted = (several[0] if several else 2) if model.answers.reading.labelled else 0
    if len(several) > 1 or len(labels) != wanted:
        raise ValueError(f"labels must be {wanted} for weights of shape {model.weights.shape}, got {len(labels)}")
    targets = (len(model.target),) if model.several else ()
    if any(np.shape(getattr(model.answers, key)) not in ((), targets) for key in OF_TARGETS):
        raise ValueError("center and scale must be one number, or one for each target")
    with np.errstate(all="ignore"):
        shown = [model.intercept, *(coefficient.per_unit for coefficient in model.coefficients)]
    if not all(np.all(np.isfinite(numbers)) for numbers in shown):
        raise ValueError("its coefficients are beyond float64")

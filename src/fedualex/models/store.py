"""A model on disk: model.json for people and programs, model.npz for its numbers. Nothing in it is code."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Encoder, Standardizer
from ..problems.families import reading_of
from ..storage import read_arrays, write_atomically, write_json
from ..validation import short
from .model import Answers, Model

SCHEMA = 1
JSON, ARRAYS = "model.json", "model.npz"
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
    write_json(path / JSON, document)
    return path


def to_parts(model: Model) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
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
        "numbers": list(model.encoder.numbers),
        "categories": {name: list(known) for name, known in model.encoder.categories.items()},
        "certificate": dict(model.certificate),
        "training": dict(model.training),
    }
    return document, arrays


def load(folder: str | Path) -> Model:
    """The model of a folder, or of that of a fit or a run; a clear refusal of what this version cannot read."""
    inner = Path(folder) / MODEL
    path = inner if (inner / JSON).exists() else Path(folder)
    file = path / JSON
    if not file.exists():
        raise ValueError(f"{str(folder)!r} is no model: it has no {JSON}")
    try:
        document = json.loads(file.read_text())
        schema = document["schema"] if document["kind"] == "model" else None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file} is no model of fedualex: {type(error).__name__}: {error}") from None
    if schema != SCHEMA:
        raise ValueError(f"{file} has schema {short(schema)}, of another version of fedualex; this one reads {SCHEMA}")
    try:
        return from_parts(document, read_arrays(path / ARRAYS))
    except Exception as error:  # a damaged file can fail in many ways
        raise ValueError(f"{str(folder)!r} is damaged: {type(error).__name__}: {error}") from None


def from_parts(document: Mapping[str, Any], arrays: Mapping[str, Any]) -> Model:
    """The model of `to_parts`; what is no model can fail in many ways."""
    numbers = tuple(map(str, document["numbers"]))
    categories = {str(name): tuple(map(str, known)) for name, known in document["categories"].items()}
    scale = Standardizer(arrays["mean"], arrays["deviation"]) if numbers else None
    if scale is not None and not scale.mean.shape == scale.deviation.shape == (len(numbers),):
        raise ValueError(f"mean and deviation must be {len(numbers)} numbers each")
    given = document["answers"]
    answers = Answers(
        reading_of(given["kind"]),
        arrays["labels"],
        float(given["threshold"]),
        *(np.array(given[key], float) for key in OF_TARGETS),
    )
    encoder = Encoder(numbers, categories, scale)
    target, certificate, training = document["target"], document["certificate"], document["training"]
    target = tuple(map(str, target)) if isinstance(target, list) else str(target)
    return Model(encoder, arrays["weights"], arrays["bias"], answers, target, certificate, training)

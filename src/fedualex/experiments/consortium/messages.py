"""Models as the arrays that travel between parties."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...deploy import Arrays
from ...deploy.wire import MessageError, pack_known, unpack_known
from ...models import Model
from ...models.store import SCHEMA, from_parts, to_parts

DOCUMENT = "document"


def pack_model(model: Model) -> Arrays:
    """A model as arrays."""
    document, arrays = to_parts(model)
    return pack_known([{**arrays, DOCUMENT: np.array([json.dumps(document, allow_nan=False)])}])


def unpack_model(arrays: Mapping[str, Any]) -> Model:
    """The model again; a MessageError if it is none that this version can read."""
    try:
        (parts,) = map(dict, unpack_known(arrays))
        document = json.loads(parts.pop(DOCUMENT)[0])
        if (document["schema"], document["kind"]) != (SCHEMA, "model"):
            raise ValueError("it is of another version")
        return from_parts(document, parts)
    except MessageError:
        raise
    except Exception as error:  # what is no model can fail in many ways
        raise MessageError(f"this is no model: {type(error).__name__}: {error}") from None

"""A geometry as plain JSON data, from which its certificates can be computed again without this library."""

import dataclasses
from typing import Any

import numpy as np

from .. import tree
from ..geometry import AbstractGeometry, Product, is_geometry
from ..regularizers import AbstractRegularizer


def describe(geometry: Product) -> dict[str, Any]:
    """{name of a leaf: {"class": its name, and every number in it}}, nested as the classes are.

    Floats keep every bit through JSON; infinities are the strings "inf" and "-inf". A class that is not ours has only
    its name, and "foreign": True.
    """
    named = tree.leaves_with_names(geometry.parts, is_leaf=is_geometry)
    return {name: _describe(part) for name, part in named}


def _describe(node: Any) -> Any:
    if not isinstance(node, AbstractGeometry | AbstractRegularizer):
        return _plain(np.asarray(node).tolist())
    name = type(node).__name__
    if not type(node).__module__.startswith("fedualex."):
        return {"class": name, "foreign": True}
    # A static field, such as the route of Spectral, says how to compute, not what.
    fields = [field.name for field in dataclasses.fields(node) if not field.metadata.get("static", False)]
    return {"class": name, **{field: _describe(getattr(node, field)) for field in fields}}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return str(value) if np.isinf(value) else value  # strict JSON has no infinities

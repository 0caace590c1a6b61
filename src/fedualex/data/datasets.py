"""Data sets by name: those that come with scikit-learn, and OpenML's."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..validation import one_of
from .optional import required
from .tables import Table, from_values

BUNDLED = ("breast_cancer", "diabetes", "digits", "wine")


def bundled(name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """(X, y) of real data that comes with scikit-learn: breast_cancer, diabetes, digits or wine.

    name: one of `fx.data.BUNDLED`.
    """
    one_of("name", name, BUNDLED)
    datasets = required("sklearn.datasets", "scikit-learn", "estimators", "bundled data")
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return np.asarray(X, float), np.asarray(y)


def bundled_table(name: str) -> Table:
    """The same as a table with the names of its features, and the column "target".

    name: one of `fx.data.BUNDLED`.
    """
    one_of("name", name, BUNDLED)
    found = getattr(required("sklearn.datasets", "scikit-learn", "estimators", "bundled data"), f"load_{name}")()
    columns = {str(key): np.asarray(x, float) for key, x in zip(found.feature_names, found.data.T, strict=True)}
    return Table(columns | {"target": np.asarray(found.target)}, name)


def openml(name: str, *, version: int = 1, checksum: str | None = None) -> Table:
    """A data set of OpenML by name and version, through scikit-learn; needs a network, or scikit-learn's cache.

    checksum: what `Table.checksum` was when the data was first seen; other data is refused. Without it, print the
    table's own and keep it.
    """
    datasets = required("sklearn.datasets", "scikit-learn", "estimators", "OpenML")
    try:
        found = datasets.fetch_openml(name, version=version, as_frame=False, parser="liac-arff")
    except Exception as error:  # no network, no such name, a broken cache
        raise ValueError(f"OpenML has not given {name!r}, version {version}: {' '.join(str(error).split())}") from None
    if not isinstance(found.data, np.ndarray):
        raise ValueError(f"OpenML {name!r}, version {version}, is sparse: only data of full columns can be read")
    categories = found.categories or {}
    columns = {}
    for key, column in zip(found.feature_names, np.asarray(found.data, object).T, strict=True):
        columns[key] = _decoded(column, categories[key]) if key in categories else from_values(column.tolist())
    if found.target is not None:  # a data set may have no default target
        targets = np.asarray(found.target, object).reshape(len(found.data), -1).T
        columns |= {key: from_values(values.tolist()) for key, values in zip(found.target_names, targets, strict=True)}
    table = Table(columns, f"OpenML {name}")
    if checksum is not None and table.checksum != checksum:
        raise ValueError(f"OpenML {name!r}, version {version}, has checksum {table.checksum}, not {checksum}")
    return table


def _decoded(codes: NDArray[Any], names: list[str]) -> NDArray[Any]:
    """Names of categories from their numbers, which is how scikit-learn hands them out; nan is missing."""
    return np.array(["" if code is None or code != code else str(names[int(code)]) for code in codes])

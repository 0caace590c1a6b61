"""Packages that only some sources of data need."""

import importlib
from typing import Any


def required(module: str, package: str, extra: str, purpose: str) -> Any:
    """The module of an optional package; what to install if it is not there."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(f"{purpose} needs {package}: pip install 'fedualex[{extra}]'") from None

"""What the parties of a deployment have agreed on: the merged summaries of their tables, kept beside the run."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...deploy.summary_wire import pack_known, unpack_known
from ...storage import read_arrays, write_atomically
from ...summaries import Known, Summary, merged
from ...validation import short
from ..registry import ConfigurationError

KNOWN = "known.npz"


def read_known(party: Path) -> list[Known] | None:
    """The merged summaries that a party keeps; None if there are none yet."""
    file = party / KNOWN
    if not file.exists():
        return None
    try:
        return unpack_known(read_arrays(file))
    except Exception as error:  # a truncated or foreign file can fail in many ways
        raise ConfigurationError(f"{file} cannot be read as merged summaries: {error}") from None


def write_known(party: Path, known: Sequence[Known]) -> None:
    """Keep them."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **pack_known(known))
    write_atomically(party / KNOWN, buffer.getvalue())


def merge(parts: Mapping[str, Summary]) -> dict[str, Any]:
    """The summaries of all sites as one; a refusal that names the site whose columns are not those of the first."""
    sites = list(parts)
    columns = {site: set(part.labels["columns"].tolist()) for site, part in parts.items() if "columns" in part.labels}
    for site in sites[1:]:
        if columns and columns[site] != columns[sites[0]]:
            more, gone = columns[site] - columns[sites[0]], columns[sites[0]] - columns[site]
            raise ConfigurationError(
                f"all sites must have the same columns: {site} has {short(sorted(more))} that {sites[0]} has not, and "
                f"lacks {short(sorted(gone))}; [columns] of site.toml renames columns, ignore leaves some out"
            )
    return merged(parts.values())

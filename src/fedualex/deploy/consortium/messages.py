"""Models as the arrays that travel between parties."""

import io
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import Reals, Values
from ...models import Model
from ...models.store import SCHEMA, from_parts, to_parts
from ...runs.settings import ConfigurationError
from ...storage import read_arrays, write_atomically
from ...summaries import Known
from ...validation import short
from .. import Arrays
from ..ledger import content_digest
from ..wire import MessageError, pack_json, pack_known, unpack_known

# What the parties have agreed on: that they have the same columns, and the merged summaries, kept beside the run.


KNOWN = "known"


def known_file(party: Path, what: str = KNOWN) -> Path:
    """Where a party keeps merged summaries. what: "known", or "folds"."""
    return party / f"{what}.npz"


def read_known(party: Path, what: str = KNOWN) -> list[Known] | None:
    """The merged summaries that a party keeps; None if there are none yet."""
    file = known_file(party, what)
    if not file.exists():
        return None
    try:
        return unpack_known(read_arrays(file))
    except Exception as error:  # a truncated or foreign file can fail in many ways
        raise ConfigurationError(f"{file} cannot be read as merged summaries: {error}") from None


def write_known(party: Path, known: Sequence[Known], what: str = KNOWN) -> None:
    """Keep what all summaries became in this folder."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **pack_known(known))
    write_atomically(known_file(party, what), buffer.getvalue())


def forget_known(party: Path) -> None:
    """Remove the merged summaries, so that the next run asks for summaries again."""
    known_file(party).unlink(missing_ok=True)


def digest_known(agreed: str, known: Sequence[Known]) -> str:
    """A digest of what a party was told: of the agreement, and of merged summaries to the last bit."""
    return content_digest(pack_known(known) | pack_json(agreed=agreed))


def check_columns(columns: Mapping[str, Collection[str]]) -> None:
    """Refuse tables of sites that do not have the same columns, in a sentence that names sites and columns."""
    owned = {site: set(own) for site, own in columns.items()}
    holders = {
        name: [site for site, own in owned.items() if name in own] for name in sorted(set[str]().union(*owned.values()))
    }
    differences: dict[str, list[str]] = {}
    for name, sites in holders.items():
        missing = [site for site in columns if site not in sites]
        if missing:
            few = len(missing) <= len(sites)
            said = f"{', '.join(missing)} without" if few else f"{', '.join(sites)} alone with"
            differences.setdefault(said, []).append(name)
    if differences:
        words = "; ".join(f"{said} {short(names)}" for said, names in differences.items())
        raise ConfigurationError(
            f"all sites must have the same columns: {words}; [columns] of site.toml renames columns, ignore leaves "
            "some out"
        )


DOCUMENT = "document"


def pack_model(model: Model, **beside: Any) -> Arrays:
    """A model as arrays. beside: what is asked of it."""
    document, arrays = to_parts(model)
    return pack_known([{**arrays, DOCUMENT: np.array([json.dumps(document, allow_nan=False)])}, beside])


def unpack_model(arrays: Mapping[str, Values]) -> Model:
    """The model from arrays; a `MessageError` if this version cannot read it."""
    try:
        parts = dict(unpack_known(arrays)[0])
        document = json.loads(parts.pop(DOCUMENT)[0])
        if (document["schema"], document["kind"]) != (SCHEMA, "model"):
            raise ValueError("it is of another version")
        return from_parts(document, parts)
    except MessageError:
        raise
    except Exception as error:  # what is no model can fail in many ways
        raise MessageError(f"this is no model: {type(error).__name__}: {error}") from None


def unpack_place(arrays: Mapping[str, Values]) -> tuple[Reals, bool]:
    """At which (intercept, slope) a model's calibration is asked for, and whether with the sums of the sandwich."""
    try:
        beside = unpack_known(arrays)[1]
        return np.asarray(beside["beta"], float).reshape(2), bool(beside["meat"])
    except (IndexError, KeyError, ValueError, TypeError) as error:
        raise MessageError(f"this is no place of a calibration: {type(error).__name__}") from None


def digest_model(model: Model) -> str:
    """A digest of how a model answers; its description does not count."""
    document, arrays = to_parts(model)
    said = {key: value for key, value in document.items() if key not in ("certificate", "training")}
    return content_digest(pack_known([arrays]) | pack_json(said=said))

"""What sites say of columns that differ from those of the others: read, told, and whether a run stops by it."""

import logging
from collections.abc import Mapping
from pathlib import Path

from ...data.differences import DOUBTS, NOTES
from ...runs.settings import ConfigurationError
from ...storage import write_json
from ...validation import short
from .. import Arrays
from ..engine import event
from ..wire import MessageError, unpack_json

log = logging.getLogger(__name__)

FILE = "differences.json"
"""The server's file of differences: the sites, by column and kind."""
STOP, GO = "stop", "go"
"""What a run does at a doubt. It stops by default: a model in which one site has other units is certified and wrong,
and what left the sites for it has left; to go on costs one word in the server's settings."""
DIFFERS = "differs"
"""The code of such an event."""
TELL: Mapping[str, str] = {
    "wider": "far wider at {sites}",
    "narrower": "far narrower at {sites}",
    "higher": "far higher at {sites}",
    "lower": "far lower at {sites}",
    "words": "mostly of categories that nobody else has at {sites}",
    "missing": "missing far more or far less often at {sites}",
    "constant": "the same in every row at {sites}",
    "far": "with single values far from all others at {sites}",
}
"""How each kind of difference is told in a sentence about a column."""

Differences = dict[str, list[str]]
"""Of one site: columns by kind."""


def read_ready(arrays: Arrays) -> Differences:
    """The columns in which a site that is ready differs."""
    ready, differences = unpack_json(arrays, "ready", "differences")
    named = isinstance(differences, dict) and differences.keys() <= {*DOUBTS, *NOTES}
    if not ready or not named or not all(isinstance(n, str) for columns in differences.values() for n in columns):
        raise MessageError("a site that is ready names columns by kinds of differences")
    return {kind: list(columns) for kind, columns in differences.items()}


def tell_differences(party: Path, said: Mapping[str, Differences], on_warning: str) -> None:
    """Log and keep what sites say; a `ConfigurationError` where a run stops because units or spellings are doubted."""
    columns: dict[str, dict[str, list[str]]] = {}
    for site, differences in said.items():
        for kind, names in differences.items():
            for name in names:
                columns.setdefault(name, {}).setdefault(kind, []).append(site)
    write_json(party / FILE, columns)
    for name in sorted(columns):
        sentence = tell_column(name, columns[name])
        for kind, sites in columns[name].items():
            for site in sites:
                log.warning("%s", sentence, extra=event(DIFFERS, site, kind, 0, sentence))
    doubted = [name for name in sorted(columns) if columns[name].keys() & set(DOUBTS)]
    if doubted and on_warning == STOP:
        first = "; ".join(tell_column(name, columns[name]) for name in doubted[:3])
        more = f"; so it is with {short(doubted[3:])}" if doubted[3:] else ""
        raise ConfigurationError(
            f"sites have other units or spellings in a column, or patients who differ as much: {first}{more}. Correct "
            f'the tables, or set "on_warning": "{GO}" under "run" in the server\'s deployment.json, and run again'
        )


def tell_column(name: str, kinds: Mapping[str, list[str]]) -> str:
    """How a column differs at which sites, in one sentence."""
    parts = [TELL[kind].format(sites=", ".join(kinds[kind])) for kind in TELL if kind in kinds]
    return f"the column {name!r} is {', and '.join(parts)}"

"""A model without penalty checked again: its gap, from the table that it was fitted to."""

from pathlib import Path
from typing import Any

from ..models import Model, load
from ..models.store import MODEL
from ..runs.solving import CONTENT
from ..runtime.status import status_of
from ..summaries import Known, merged
from ..tables.fit import RUN, stored_parties
from ..tables.party import agree
from ..tables.unpenalized import PROOF, recheck
from .evidence import Check, Result

CLOSE = 1e-9
"""By how much a gap, or a coefficient of standardized columns, may differ when it is computed a second time."""


def find_unpenalized_model(path: Path) -> Model | None:
    """The model of a fit without penalty, which has no run; None if the folder is no such fit, nor where its run would
    be.
    """
    fit = path.parent if path.name == RUN else path
    if (fit / RUN).exists() or not (fit / MODEL).is_dir():
        return None
    model = load(fit / MODEL)
    return model if model.certificate.get("proof") == PROOF else None


def verify_unpenalized(path: Path, model: Model) -> Result:
    """The table, the coefficients and the gap that self-concordance proves at them."""
    told, certificate = model.training["configuration"], model.certificate
    parties, checksum = stored_parties(told["problem"], Path(told["folder"]))
    members, content = parties.members, told["problem"][CONTENT]
    same = Check("", "SHA-256 of the table", content, checksum, content == checksum)
    known = agree(members)

    def ask(asked: Known) -> Known:
        return merged(party.effects(known, asked) for party in members)

    x: dict[str, Any] = {"weights": model.weights, "bias": model.bias}
    found = recheck(members[0].recipe, known, ask, x)
    gap, status = float(certificate["gap"]), status_of(found.gap, certificate["tol"]).name
    return Result(
        path,
        (
            same,
            Check("", "change of a coefficient", 0.0, found.moved, found.moved <= CLOSE),
            Check("", "certified gap", gap, found.gap, abs(found.gap - gap) <= CLOSE),
            Check("", "status", certificate["status"], status, certificate["status"] == status),
        ),
    )

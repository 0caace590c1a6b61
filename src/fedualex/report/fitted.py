"""The model beside a run: its named coefficients, and how it fares at each client."""

from pathlib import Path
from typing import Any

from ..experiments.fitting import RUN
from ..experiments.measures import worst
from ..models import Model, load
from ..models.store import JSON, MODEL


def fit_around(run: Path) -> Path | None:
    """The folder of the fit that a run belongs to; None if it belongs to none."""
    home = run.resolve()
    return home.parent if home.name == RUN and (home.parent / MODEL / JSON).exists() else None


def model_beside(run: Path) -> dict[str, Any] | None:
    """The model within a run's folder, or beside it where the run is that of a fit; None if there is none."""
    home = fit_around(run) or run
    return described(load(home / MODEL)) if (home / MODEL / JSON).exists() else None


def described(model: Model) -> dict[str, Any]:
    """A model as the page shows it; features whose coefficients are 0 are counted, not listed."""
    several = model.weights.ndim > 1
    used = [one for one in model.coefficients if one.size > 0]
    return {
        "target": ", ".join(model.targets),
        "goal": str(model.training.get("goal", "")),
        "meaning": _meaning(model),
        "scores": [str(label) for label in (model.classes.tolist() or model.targets)] if several else [""],
        "coefficients": [
            {"feature": one.feature, "unit": one.per_unit.tolist(), "deviation": one.per_deviation.tolist()}
            for one in used
        ],
        "zeros": len(model.encoder.features) - len(used),
        "intercept": [float(value) for value in model.intercept.reshape(-1)],
        "measures": _measures(model),
    }


def _meaning(model: Model) -> str:
    """What coefficients add up to."""
    if model.answers.kind == "numbers":
        return f"What each feature adds to {', '.join(model.targets)}."
    if model.weights.ndim > 1:
        return "What each feature adds to the scores, of which the largest wins."
    return f"What each feature adds to the score, which is above 0 for {model.target} = {model.classes.tolist()[1]}."


def _measures(model: Model) -> dict[str, Any] | None:
    """Numbers on held-out rows: of all of them, then of each client, in the order of the names."""
    found = model.training.get("held_out")
    if not found:
        return None
    names = list(found["overall"])
    rows = model.training.get("clients", {})
    clients = found["clients"] if len(found["clients"]) > 1 else {}
    return {
        "rows": found["rows"],
        "names": names,
        "overall": [found["overall"][name] for name in names],
        "worst": [worst(name, clients) for name in names],
        "clients": [
            {"name": client, "trained": rows.get(client), "values": [values.get(name) for name in names]}
            for client, values in clients.items()
        ],
    }

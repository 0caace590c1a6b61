"""Stored runs as the plain data that figures and the page are drawn from."""

from collections.abc import Sequence
from pathlib import Path

from ..display import round_up
from ..models import Model, load
from ..models.store import JSON, MODEL
from ..palette import styles
from ..paper.claims import is_case, is_small, judge_claims
from ..paper.reproduction import SMALL
from ..runs import folder
from ..runs.folder import RUN_OF_FIT, StoredRun
from ..storage import Json
from ..tables.measures import worst
from .committee import first_sentence
from .panels import compared_panel, exact_of, experiment_panel, runs_panel, verdicts
from .studies import Study, collect_studies

# The model beside a run: its named coefficients, and how it fares at each client.


def fit_around(run: Path) -> Path | None:
    """The folder of the fit that a run belongs to; None if it belongs to none."""
    home = run.resolve()
    return home.parent if home.name == RUN_OF_FIT and (home.parent / MODEL / JSON).exists() else None


def fitted_model(path: Path) -> Model | None:
    """The model of a fit's run, which a committee is to read of; None for any other folder."""
    home = fit_around(path)
    return None if home is None else load(home / MODEL)


def model_beside(run: Path) -> Json | None:
    """The model within a run's folder, or beside it where the run is that of a fit; None if there is none."""
    home = fit_around(run) or run
    return describe_model(load(home / MODEL)) if (home / MODEL / JSON).exists() else None


def describe_model(model: Model) -> Json:
    """A model as the page shows it; features whose coefficients are 0 are counted, not listed."""
    several = model.weights.ndim > 1
    used = [one for one in model.coefficients if one.size > 0]
    return {
        "target": ", ".join(model.targets),
        "goal": str(model.training.get("goal", "")),
        "meaning": f"What each feature adds to {model.adds_to}.",
        "scores": [str(label) for label in (model.classes.tolist() or model.targets)] if several else [""],
        "coefficients": [
            {"feature": one.feature, "unit": one.per_unit.tolist(), "deviation": one.per_deviation.tolist()}
            for one in used
        ],
        "zeros": len(model.encoder.features) - len(used),
        "intercept": [float(value) for value in model.intercept.reshape(-1)],
        "measures": _measures(model),
    }


def _measures(model: Model) -> Json | None:
    """Numbers on held-out rows: of all of them, then of each client, in the order of the names."""
    held_out = model.training.get("held_out")
    if not held_out:
        return None
    names = list(held_out["overall"])
    rows = model.training.get("clients", {})
    clients = held_out["clients"] if len(held_out["clients"]) > 1 else {}
    return {
        "rows": held_out["rows"],
        "names": names,
        "overall": [held_out["overall"][name] for name in names],
        "worst": [worst(name, clients) for name in names],
        "clients": [
            {"name": client, "trained": rows.get(client), "values": [values.get(name) for name in names]}
            for client, values in clients.items()
        ],
    }


def collect(path: Path) -> Json:
    """The report of a folder: of a run, a fit, a model, runs side by side, an experiment, or several experiments."""
    path = folder.run_of(path)
    if (path / JSON).exists() or ((path / MODEL / JSON).exists() and not (path / "manifest.json").exists()):
        return model_report(load(path))
    manifest = folder.read_manifest(path)
    match manifest["kind"]:
        case "run":
            run, model = folder.load(path), model_beside(path)
            title = run.label if model is None else f"A model of {model['target']} ({model['goal'] or run.label})"
            name = (fit_around(path) or path.resolve()).name
            panel = runs_panel(name, title, {run.label: [run]}, model=model)
            collected = report(title, [panel], manifest, seeds_text([run]))
            fitted = fitted_model(path)
            return collected if fitted is None else collected | {"headline": first_sentence(fitted), "fitted": fitted}
        case "comparison":
            runs = [folder.load(path / name) for name in manifest["runs"]]
            panel = compared_panel(manifest["title"], runs, exact_of(path)) | {"model": model_beside(path)}
            panel["findings"] += manifest.get("findings", [])
            return report(manifest["title"], [panel], manifest, seeds_text(runs))
        case "comparisons":
            parts = [collect(path / name) for name in manifest["comparisons"]]
            panels = [panel for part in parts for panel in part["panels"]]
            for panel, name in zip(panels, manifest["comparisons"], strict=True):
                panel["name"] = name
            collected = report(manifest["title"], panels, manifest, parts[0]["repeat"]["seeds"])
            return collected | {"headline": smallest_answers(panels)}
        case "experiment":
            title, seeds = manifest["title"], f"0 to {manifest['plan']['seeds'] - 1}"
            small = SMALL if is_small(path) else ""
            return report(title, [experiment_panel(path)], manifest, seeds, small=small)
        case _:
            names = [name for name in manifest["experiments"] if any((path / name / "runs").glob("*/*/status.json"))]
            plain = [name for name in names if not is_case(path / name)]
            panels, seeds = [experiment_panel(path / name) for name in plain], f"0 to {manifest['seeds'] - 1}"
            small = SMALL if any(is_small(path / name) for name in names) else ""
            studies = collect_studies(path, names)
            return report("The paper's experiments", panels, manifest, seeds, judge_claims(path), small, studies)


def model_report(model: Model) -> Json:
    """All that the page shows of a model whose run is elsewhere."""
    goal = model.training.get("goal")
    title = f"A model of {', '.join(model.targets)}" + (f" ({goal})" if goal else "")
    unknown = {"command": "", "versions": {}, "machine": {}, "created": ""}
    manifest = {key: model.training.get(key, empty) for key, empty in unknown.items()}
    seed = model.training.get("configuration", {}).get("run", {}).get("seed", "")
    return report(title, [], manifest, str(seed)) | {"headline": first_sentence(model), "fitted": model}


def smallest_answers(panels: Sequence[Json]) -> str:
    """Of each comparison the answer with the smallest certificate, in one sentence."""
    answers = [[row for row in panel["table"] if row["answer"] and row["gap"] is not None] for panel in panels]
    best = [min(rows, key=lambda row: row["gap"]) for rows in answers if rows]
    words = [f"{row['output']} {row['method']} {round_up(row['gap'], 3)}" for row in best]
    return f"Smallest certified gaps: {'; '.join(words)}" if words else "No answer has a certificate"


def report(
    title: str,
    panels: list[Json],
    manifest: Json,
    seeds: str,
    claims: Sequence[Json] = (),
    small: str = "",
    studies: Sequence[Study] = (),
) -> Json:
    """All that the page shows."""
    methods = {label: method for panel in panels for label, method in panel["methods"].items()}
    return {
        "title": title,
        "headline": panels[0]["headline"] if len(panels) == 1 and not claims else verdicts(claims),
        "small": small,
        "panels": panels,
        "styles": {label: style._asdict() for label, style in styles(methods).items()},
        "claims": list(claims),
        "studies": list(studies),
        "repeat": {key: manifest[key] for key in ("command", "versions", "machine", "created")} | {"seeds": seeds},
    }


def seeds_text(runs: Sequence[StoredRun]) -> str:
    """The seeds of some runs, each once."""
    return ", ".join(dict.fromkeys(str(run.manifest["configuration"]["run"]["seed"]) for run in runs))

"""A fitted model with all that its training may keep for the page of a committee, made up."""

from typing import Any

import numpy as np

from fedualex.data import Encoder, Standardizer
from fedualex.models import Answers, Model
from fedualex.problems.families import reading_of

UNSAID = {"penalized_bound": None, "penalized_proved": "", "shown_per": 1.0}
"""Of penalized coefficients of which nothing is proved, one unit of a column each."""


def effect(name: str, estimate: float | None, reference: str = "") -> dict[str, Any]:
    if estimate is None:
        return dict.fromkeys(("estimate", "error", "lower", "upper", "z", "p", "ratio", "bound")) | {
            "name": name,
            "penalized": 0.0,
            "ratio_lower": None,
            "ratio_upper": None,
            "reference": reference,
            **UNSAID,
        }
    lower, upper = estimate - 0.4, estimate + 0.4
    ratios = dict(zip(("ratio", "ratio_lower", "ratio_upper"), np.exp([estimate, lower, upper]).tolist(), strict=True))
    numbers = {"estimate": estimate, "error": 0.2, "lower": lower, "upper": upper, "z": estimate / 0.2, "p": 0.01}
    return {
        "name": name,
        "penalized": estimate / 2,
        **numbers,
        **ratios,
        "reference": reference,
        "bound": 1e-9,
        **UNSAID,
    }


def effects(rows: list[dict[str, Any]], kind: str = "odds ratio") -> dict[str, Any]:
    said = {"kind": "model-based", "effect": kind, "confidence": 0.95, "conditional": False, "degrees": None}
    return {"rows": rows, **said, "words": ["Errors are model-based."]}


def held_out(clients: list[str], shift: float = 0.0) -> dict[str, Any]:
    def one(k: int) -> dict[str, Any]:
        return {"rows": 10, "accuracy": 0.8, "auc": 0.9 - 0.001 * k, "loss": 0.4 + 0.01 * k + shift}

    ends = {"accuracy": [0.7, 0.9], "auc": [0.85, 0.95], "loss": [0.3, 0.6]}
    curve = {
        "bins": [[5, 0.1, 0.2, 0.05, 0.4], [5, 0.8, 0.7, 0.5, 0.9]],
        "roc": [[0.0, 1.0, 1.0], [0.5, 0.2, 0.8], [1, 0, 0]],
    }
    right = {"intercept": [0.02, -0.3, 0.35], "slope": [0.9, 0.7, 1.1], "sentence": ""}
    none = {"intercept": None, "slope": None, "sentence": "no intervals: one class only"}
    return {
        "rows": 10 * max(len(clients), 1),
        "overall": one(0),
        "clients": {name: one(k) for k, name in enumerate(clients)},
        "intervals": {"overall": ends, "clients": dict.fromkeys(clients, ends)},
        "calibration": {"overall": right, "clients": dict.fromkeys(clients, none)},
        "curves": {"overall": curve, "clients": dict.fromkeys(clients, curve)},
    }


def path_curve() -> dict[str, Any]:
    return {
        "name": "l1",
        "values": [0.1, 0.05, 0.01],
        "measure": [0.6, 0.51, 0.5],
        "error": [0.02] * 3,
        "excess": [0.0] * 3,
        "nonzeros": [0, 2, 4],
        "gaps": [1e-7] * 3,
        "tol": 1e-6,
        "folds": 5,
        "exchanges": 9,
        "what": "mean loss",
        "rule": "one-standard-error",
        "best": 2,
        "chosen": 1,
        "said": "",
    }


def full_training(clients: list[str]) -> dict[str, Any]:
    rows = [effect("age", 0.7), effect("dose", None), effect("ward=south", -0.3, "north"), effect("intercept", 0.1)]
    chosen = {
        "name": "l1",
        "value": 0.05,
        "l2": 0.0,
        "short": "l1 = 0.05, chosen.",
        "sentence": "l1 = 0.05, chosen. It is the largest.",
        "curve": path_curve(),
    }
    return {
        "goal": "fair",
        "rows": 1234,
        "clients": dict.fromkeys(clients, 20),
        "effects": effects(rows),
        "penalty": chosen,
        "held_out": held_out(clients),
        "ordinary": {"sentence": "The ordinary model minimizes the mean", "held_out": held_out(clients, 0.2)},
        "done": ["age is missing in 3 rows."],
        "weighs": ["a weighs 0.9"],
        "configuration": {"run": {"seed": 0, "tol": 1e-6}},
    }


def fitted(training: dict[str, Any], features: tuple[str, ...] = ("age", "dose"), kind: str = "classes") -> Model:
    scale = Standardizer(np.zeros(len(features)), np.ones(len(features)))
    encoder = Encoder(
        features,
        {"ward": ("north", "south")},
        scale,
        references={"ward": "north"},
        shares={"ward": (0.5, 0.5)},
    )
    weights = np.linspace(0.5, -0.5, len(encoder.features))
    answers = Answers(reading_of(kind), np.array(["no", "yes"]) if kind == "classes" else np.zeros(0))
    certificate = {"gap": 3.2e-7, "status": "OPTIMAL", "meaning": "", "exchanges": 5, "violation": None, "tol": 1e-6}
    return Model(encoder, weights, np.array(0.1), answers, "ill", certificate, training)

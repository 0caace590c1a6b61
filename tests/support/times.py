"""A table of times to an event at three sites."""

import csv
from pathlib import Path

import numpy as np

FIT = ("--time", "days", "--event", "died", "--clients", "site", "--id", "patient", "--reference", "ward=a")


def columns(rows=240, seed=0):
    rng = np.random.default_rng(seed)
    age, dose, ward = rng.normal(60, 9, rows), rng.normal(3, 1, rows), rng.choice(["a", "b", "c"], rows)
    score = 0.06 * (age - 60) - 0.5 * (dose - 3) + 0.7 * (ward == "b")
    died = np.ceil(200 * rng.exponential(np.exp(-score)))
    seen = np.ceil(200 * rng.exponential(1.5, rows))
    found = {"patient": [f"p{i}" for i in range(rows)], "site": rng.choice(["york", "bonn", "oslo"], rows)}
    found |= {"age": age.round(1), "dose": dose.round(2), "ward": ward}
    return found | {"days": np.minimum(died, seen), "died": (died <= seen).astype(int)}


def write(path: Path, table: dict, **changed) -> Path:
    table = {**table, **changed}
    with path.open("w") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return path

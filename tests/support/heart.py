"""A small table with the traits of clinical ones: codes that are numbers, laboratory values that are missing together,
three centers of which one never measured them, and ids.
"""

from typing import Any

import numpy as np
from support.patients import write

CENTERS = ("basel", "cleveland", "zurich")
CODES = ("cp", "thal")


def heart_columns(rows: int = 180, seed: int = 0) -> dict[str, list[Any]]:
    """Columns by name, missing values as None; `disease` follows age, cp and thal."""
    rng = np.random.default_rng(seed)
    center = np.array(CENTERS)[np.arange(rows) % 3]
    age, cp = rng.normal(55, 9, rows).round(1), rng.integers(1, 5, rows)
    thal, ca = rng.choice([3.0, 6.0, 7.0], rows, p=[0.6, 0.1, 0.3]), rng.integers(0, 4, rows)
    score = (age - 55) / 9 + 0.9 * (cp == 4) + (thal == 7) - 0.8 + 0.7 * rng.normal(size=rows)
    gone = (center == "zurich") & (rng.random(rows) < 0.6) | (rng.random(rows) < 0.05)
    pressure = rng.normal(130, 15, rows).round(0)
    return {
        "patient_id": [f"P{i:03}" for i in range(rows)],
        "center": center.tolist(),
        "age": age.tolist(),
        "cp": cp.tolist(),
        "thal": [None if none else value for none, value in zip(gone, thal.tolist(), strict=True)],
        "ca": [None if none else value for none, value in zip(gone, ca.tolist(), strict=True)],
        "trestbps": [None if i % 19 == 4 else value for i, value in enumerate(pressure.tolist())],
        "smoker": np.where(rng.random(rows) < 0.4, "yes", "no").tolist(),
        "disease": np.where(score > 0, "yes", "no").tolist(),
    }


def write_heart(folder: Any, table: dict[str, list[Any]] | None = None) -> dict[str, list[Any]]:
    """heart.csv of all centers, and a file for each without the column of centers."""
    whole = heart_columns() if table is None else table
    write(folder / "heart.csv", whole)
    for name in CENTERS:
        own = [i for i, center in enumerate(whole["center"]) if center == name]
        write(
            folder / f"{name}.csv", {key: [values[i] for i in own] for key, values in whole.items() if key != "center"}
        )
    return whole

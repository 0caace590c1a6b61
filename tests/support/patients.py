"""A small table as people have it: numbers, words, holes, a constant column, three hospitals that differ."""

import csv

import numpy as np

HOSPITALS = ("east", "north", "west")


def columns(rows=150, seed=0):
    """Columns by name, missing values as None; `outcome` follows age, dose and town, with noise."""
    rng = np.random.default_rng(seed)
    age, dose = rng.normal(50, 12, rows), rng.exponential(2.0, rows)
    town = rng.choice(["Rome", "Oslo", "Lima"], rows)
    hospital = rng.choice(HOSPITALS, rows, p=[0.5, 0.3, 0.2])
    score = (age - 50) / 8 - 0.8 * (dose - 2) + (town == "Oslo") + (hospital == "west") + 0.5 * rng.normal(size=rows)
    return {
        "age": [None if i % 17 == 3 else round(a, 3) for i, a in enumerate(age)],
        "dose": dose.round(4).tolist(),
        "unit": [7] * rows,
        "town": ["" if i % 23 == 5 else t for i, t in enumerate(town.tolist())],
        "hospital": hospital.tolist(),
        "ward": [("A", "B")[i % 3 == 0] for i in range(rows)],
        "outcome": np.where(score > 0, "sick", "well").tolist(),
        "days": (20 + 3 * score).round(3).tolist(),
    }


def write(path, table=None, delimiter=",", decimal=".", without=()):
    """The table as a CSV file."""
    table = columns() if table is None else table
    names = [name for name in table if name not in without]

    def text(value):
        return "" if value is None else str(value).replace(".", decimal) if isinstance(value, float) else value

    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(names)
        writer.writerows(zip(*([text(value) for value in table[name]] for name in names), strict=True))
    return path

"""Labels of methods side by side, and the folders of their runs."""

import re
from collections.abc import Iterable, Sequence

RESERVED = ("manifest.json", "exact.json", "report.html", "figures")
"""What a folder of runs holds besides them."""


def unique(names: Sequence[str]) -> list[str]:
    """The same names, with a number behind those that were there before: FedAvg, FedAvg 2."""
    found: list[str] = []
    for name in names:
        others = (f"{name} {number}" for number in range(2, len(names) + 2))
        found.append(next(one for one in (name, *others) if one not in found and (one == name or one not in names)))
    return found


def folder_names(labels: Iterable[str]) -> dict[str, str]:
    """For each label a name that every file system takes, without what would lead to another folder."""
    labels = list(labels)
    plain = [re.sub(r"[^\w.+-]+", "-", label).strip("-.") or "method" for label in labels]
    # Some file systems do not tell capital letters apart, so neither do the names.
    numbered = unique([*RESERVED, *(name.casefold() for name in plain)])[len(RESERVED) :]
    names = [name + number[len(name) :].replace(" ", "-") for name, number in zip(plain, numbered, strict=True)]
    return dict(zip(labels, names, strict=True))

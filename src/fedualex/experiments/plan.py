"""An experiment as plain data, from its TOML file: problem, methods, grid of step sizes and seeds.

A file with [[cases]] is a study: several experiments that differ in one thing, of which the case says the value.
"""

import itertools
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ..problems import AbstractProblem
from .configuration import RUN_DEFAULTS, check_tables, read_toml
from .registry import ConfigurationError, build_method, build_problem, check_keys

SMALL = "a small instance (--quick), not the paper's sizes"
"""What every page, figure and verdict of a quick experiment says."""
TABLES = ("problem", "run", "grid", "tuning", "quick", "methods")
CHANGED = ("problem", "run", "grid")
"""The tables that a case may change."""


@dataclass(frozen=True)
class Experiment:
    """A named experiment, at full size or quick, as plain data."""

    name: str
    title: str
    settings: dict[str, Any]
    seeds: int
    quick: bool = False
    """Whether it is the small instance of its file."""
    case: dict[str, Any] | None = None
    """Of an experiment that is one case of a study: its `study`, what differs (`axis`), and its `value`."""

    @property
    def methods(self) -> dict[str, dict[str, Any]]:
        """Settings of each method, by its label."""
        return dict(self.settings["methods"])

    def grid(self, label: str) -> list[dict[str, float]]:
        """All combinations of the step sizes that a method has and that its settings leave open.

        A method whose settings say steps = "theory" has one point: what theory chooses.
        """
        settings = self.method_settings(label)
        if self.uses_theory(label):
            return [{}]
        names = [name for name in build_method(settings).step_names() if name not in settings]
        grid = {name: values for name, values in self.settings["grid"].items() if name in names}
        return [dict(zip(grid, map(float, values), strict=True)) for values in itertools.product(*grid.values())]

    def method_settings(self, label: str) -> dict[str, Any]:
        """What a method is made from: its table, but for what the protocol reads."""
        return {key: value for key, value in self.methods[label].items() if key not in ("run", "steps")}

    def uses_theory(self, label: str) -> bool:
        """Whether theory chooses the steps of a method."""
        return bool(self.methods[label].get("steps") == "theory")

    def problem(self) -> AbstractProblem:
        """The game."""
        return build_problem(self.settings["problem"], Path())

    @property
    def plan(self) -> dict[str, Any]:
        """What its folder keeps of it, and is resumed by."""
        small = {"quick": True} if self.quick else {}
        case = {"case": self.case} if self.case else {}
        return {"name": self.name, "seeds": self.seeds, "settings": self.settings, **small, **case}


def read_experiments(path: Path, *, seeds: int | None = None, quick: bool = False) -> list[Experiment]:
    """The experiments of a TOML file: one, or one for each case of a study."""
    tables = read_toml(path)
    title, count, cases = tables.pop("title", path.stem), tables.pop("seeds", 10), tables.pop("cases", [])
    check_tables(tables, TABLES)
    small = tables.pop("quick")
    _check(tables, small, cases)
    if quick:
        count, title = small.pop("seeds"), f"{title} (quick)"
        chosen = small.pop("cases", None)
        cases = [case for case in cases if chosen is None or case["name"] in chosen]
    else:
        small = {}
    found = []
    for case in cases or [{}]:
        settings = deepcopy(tables)
        for table in CHANGED:
            settings[table] |= case.get(table, {})
        for key, value in small.items():  # a case keeps what makes it one
            table = "grid" if key in settings["grid"] else "run"
            if key not in case.get(table, {}):
                settings[table][key] = value
        about = {"study": path.stem, "axis": case["axis"], "value": case["value"]} if case else None
        name = f"{path.stem}-{case['name']}" if case else path.stem
        headline = f"{title}: {case['axis']} = {case['value']:g}" if case else title
        found.append(Experiment(name, headline, settings, seeds or count, quick, about))
    return found


def _check(tables: Mapping[str, Any], small: Mapping[str, Any], cases: list[dict[str, Any]]) -> None:
    """Refuse keys that do not exist."""
    check_keys("[run]", tables["run"], RUN_DEFAULTS)
    check_keys("[tuning]", tables["tuning"], ("seed", "output"))
    known = ("clients", "rounds", "record_every", "seeds", "cases", *tables["grid"])
    check_keys("[quick]", small, known)
    for label, method in tables["methods"].items():
        check_keys(f"[methods.{label}] run", method.get("run", {}), RUN_DEFAULTS)
    for case in cases:
        check_keys("[[cases]]", case, ("name", "axis", "value", *CHANGED))
        if missing := {"name", "axis", "value"} - case.keys():
            raise ConfigurationError(f"[[cases]] needs name, axis and value, and a case has no {sorted(missing)[0]}")


def paper_experiments() -> dict[str, Path]:
    """The paper's experiments, and the studies that its theorems ask for, by the names of their files."""
    root = Path(str(resources.files(__package__) / "paper"))
    return {path.stem: path for path in sorted(root.glob("*.toml"))}

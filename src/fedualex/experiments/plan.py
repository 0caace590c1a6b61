"""An experiment as plain data, from its TOML file: problem, methods, grid of step sizes and seeds."""

import itertools
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ..problems import AbstractProblem
from .configuration import RUN_DEFAULTS, check_tables, read_toml
from .registry import build_problem, check_keys

SMALL = "a small instance (--quick), not the paper's sizes"
"""What every page, figure and verdict of a quick experiment says."""


@dataclass(frozen=True)
class Experiment:
    """A named experiment, at full size or quick, as plain data."""

    name: str
    title: str
    settings: dict[str, Any]
    seeds: int
    quick: bool = False
    """Whether it is the small instance of its file."""

    @staticmethod
    def read(path: Path, *, seeds: int | None = None, quick: bool = False) -> "Experiment":
        """The experiment of a TOML file."""
        tables = read_toml(path)
        title = tables.pop("title", path.stem)
        check_tables(tables, ("problem", "run", "grid", "tuning", "quick", "methods"))
        check_keys("[run]", tables["run"], RUN_DEFAULTS)
        check_keys("[tuning]", tables["tuning"], ("seed", "output"))
        small = tables.pop("quick")
        check_keys("[quick]", small, ("clients", "rounds", "record_every", "seeds", *tables["grid"]))
        for label, method in tables["methods"].items():
            check_keys(f"[methods.{label}] run", method.get("run", {}), RUN_DEFAULTS)
        count = small.pop("seeds") if quick else 10
        if quick:
            for key, value in small.items():
                tables["grid" if key in tables["grid"] else "run"][key] = value
            title += " (quick)"
        return Experiment(path.stem, title, tables, seeds or count, quick)

    @property
    def methods(self) -> dict[str, dict[str, Any]]:
        """Settings of each method, by its label."""
        return dict(self.settings["methods"])

    def grid(self) -> list[dict[str, float]]:
        """All combinations of step sizes."""
        grid = self.settings["grid"]
        return [dict(zip(grid, map(float, values), strict=True)) for values in itertools.product(*grid.values())]

    def problem(self) -> AbstractProblem:
        """The game."""
        return build_problem(self.settings["problem"], Path())

    @property
    def plan(self) -> dict[str, Any]:
        """What its folder keeps of it, and is resumed by."""
        small = {"quick": True} if self.quick else {}
        return {"name": self.name, "seeds": self.seeds, "settings": self.settings, **small}


def paper_experiments() -> dict[str, Path]:
    """The experiments of the paper's Section 6, by name."""
    root = Path(str(resources.files(__package__) / "paper"))
    return {path.stem: path for path in sorted(root.glob("*.toml"))}

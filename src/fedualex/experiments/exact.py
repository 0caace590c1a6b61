"""The exact saddle point of a game beside its runs."""

from pathlib import Path
from typing import Any

import numpy as np

from .. import reference, tree
from ..problems import AbstractProblem
from ..runtime import structure_of
from ..storage import write_json


def write_exact(path: Path, problem: AbstractProblem) -> None:
    """Solve by linear programming, or by best responses where the game is not polyhedral; keep what reports show."""
    try:
        solution, how = reference.lp(problem), "linear programming"
    except TypeError:
        solution, how = reference.best_response(problem), "best responses"
    density, rank = structure_of(problem, solution.z)
    data = {
        "value": solution.value,
        "gap": solution.gap,
        "how": how,
        "density": density,
        "rank": None if rank is None else list(rank),
        "blocks": {
            name: structure_values(array, rank is not None) for name, array in tree.leaves_with_names(solution.z)
        },
    }
    write_json(path, data)


def structure_values(array: Any, spectral: bool) -> list[float]:
    """What shows a block's structure: its singular values, or its entries' sizes, in falling order."""
    values = np.linalg.svd(array, compute_uv=False) if spectral else np.sort(np.abs(np.ravel(array)))[::-1]
    return [float(value) for value in values]

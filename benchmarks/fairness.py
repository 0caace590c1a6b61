"""The picture of docs/fairness.md: the loss of every group, for the mean of all rows and for the worst group.

python benchmarks/fairness.py        # writes docs/figures/fairness.png and prints its numbers; about a minute
"""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import pyplot as plt

import fedualex as fx

matplotlib.use("Agg")
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "fairness.png"
GROUPS = ("smallest", "small", "middle", "large", "largest")
PENALTY = {"l1": 1e-3, "l2": 2e-3}


def rows() -> tuple[Any, Any, Any, Any]:
    """Breast cancer: five groups by the area of the tumor, whose rows three clients hold at random."""
    X, y = fx.data.bundled("breast_cancer")
    group = np.argsort(np.argsort(X[:, 3], kind="stable"), kind="stable") * len(GROUPS) // len(y)
    return fx.data.Standardizer.fit(X).transform(X), y, group, fx.data.iid(len(y), 3)


def solved(fair: bool) -> tuple[Any, Any]:
    """The losses of all groups at a solution, and the run."""
    X, y, group, clients = rows()
    if fair:
        problem = fx.problems.agnostic(X, y, clients, groups=group, **PENALTY)
    else:
        problem = fx.problems.sparse_glm("logistic", X, y, clients, **PENALTY)
    run = fx.solve(problem, rounds=1000, tol=1e-3)
    return fx.problems.client_metrics(run.z.x, X, y, group).losses, run


def main() -> None:
    """Two models side by side."""
    models = {"logistic: the mean of all rows": solved(fair=False), "fair: the worst group": solved(fair=True)}
    figure, axis = plt.subplots(figsize=(7, 3.4), layout="constrained")
    for i, (label, (losses, run)) in enumerate(models.items()):
        print(f"{label}: losses {np.round(losses, 3).tolist()}, worst {losses.max():.3f}; {run}")
        bars = axis.bar(np.arange(len(losses)) + 0.36 * (i - 0.5), losses, 0.33, label=label)
        axis.axhline(losses.max(), color=bars[0].get_facecolor(), linestyle=":", linewidth=1.2)
    axis.set_xticks(range(len(GROUPS)), GROUPS)
    axis.set_xlabel("tumors by area")
    axis.set_ylabel("mean logistic loss of the group")
    axis.legend(frameon=False, fontsize=9, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(FIGURE, dpi=130)


if __name__ == "__main__":
    main()

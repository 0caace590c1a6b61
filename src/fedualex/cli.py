"""The command line."""

import time

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from . import problems, reference
from .problems import Bilinear
from .tree import Saddle

NONZERO = 1e-5
"""Entries up to this size count as zero, as in the paper."""


@click.group()
@click.version_option(package_name="fedualex")
def main() -> None:
    """Federated composite saddle point optimization, with a certificate for every answer."""


@main.command()
@click.option("--seed", default=0, show_default=True, help="Seed of the game and of the random point.")
def demo(seed: int) -> None:
    """The paper's l1 game: its exact saddle point, and certificates there and elsewhere."""
    console = Console()
    game = problems.paper_l1(seed)
    console.print("min over x, max over y:  <A x - b, y> + 0.1 |x|_1 - 0.1 |y|_1,  entries within 0.05,  A 300 x 600")
    with console.status("solving the linear program (HiGHS)"):
        start = time.perf_counter()
        exact = reference.lp(game)
        seconds = time.perf_counter() - start
    console.print(f"saddle value {exact.value:.6f}, by linear programming in {seconds:.1f} s\n")
    rng = np.random.default_rng(seed)
    anywhere = Saddle(rng.uniform(-0.05, 0.05, 600), rng.uniform(-0.05, 0.05, 300))
    points = {
        "exact saddle point": exact.z,
        "zero": Saddle(np.zeros(600), np.zeros(300)),
        "random feasible point": game.project(anywhere),
    }
    console.print(_certificates(game, points))
    certificate = game.certificate(exact.z)
    console.print(f"\ncertified: the duality gap of the exact point is at most {max(certificate.gap or 0.0, 0.0):.2g}")


def _certificates(game: Bilinear, points: dict[str, Saddle]) -> Table:
    table = Table("point", "certified gap <=", "x part", "y part", "density x", "density y")
    for name, z in points.items():
        certificate = game.certificate(z)
        numbers = [max(part or 0.0, 0.0) for part in (certificate.gap, certificate.x, certificate.y)]
        densities = [float(np.mean(np.abs(block) > NONZERO)) for block in (z.x, z.y)]
        table.add_row(name, *(f"{number:.4g}" for number in numbers), *(f"{density:.3f}" for density in densities))
    return table

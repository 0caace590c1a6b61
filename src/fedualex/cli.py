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
@click.option(
    "--seed", default=0, type=click.IntRange(min=0), show_default=True, help="Seed of the game and of the random point."
)
def demo(seed: int) -> None:
    """The paper's l1 game: its exact saddle point, and certificates there and elsewhere."""
    console = Console()
    game = problems.paper_l1(seed)
    console.print(game, soft_wrap=True)
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
        "random feasible": game.project(anywhere),
    }
    console.print(_certificates(game, points))
    console.print(f"\ncertificate of the exact point: {exact.certificate}", soft_wrap=True)


def _certificates(game: Bilinear, points: dict[str, Saddle]) -> Table:
    table = Table("point", "gap <=", "x part", "y part", "density x", "y")
    for name, z in points.items():
        certificate = game.certificate(z)
        parts = (certificate.gap, certificate.x, certificate.y)
        shown = ["-" if part is None else f"{max(part, 0):.3g}" for part in parts]
        densities = [f"{np.mean(np.abs(block) > NONZERO):.3f}" for block in (z.x, z.y)]
        table.add_row(name, *shown, *densities)
    return table

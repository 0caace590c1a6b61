"""What a person can choose about a model of a table, whether the table is here or at several sites."""

from collections.abc import Callable
from typing import Any

import click

OPTIONS = (
    click.option("--target", help="The column to predict; low-rank: several, with commas between them."),
    click.option("--groups", help="fair: the column whose groups are served, whoever holds their rows; no feature."),
    click.option("--weights", help="The column that says how much a row counts, a number >= 0; no feature."),
    click.option("--goal", help="logistic, fair, auc, neyman-pearson, lasso, fair-regression, robust or low-rank."),
    click.option("--l1", type=float, help="Weight of the l1 penalty; larger is sparser."),
    click.option("--l2", type=float, help="Weight of the squared l2 penalty."),
    click.option(
        "--cvar", type=float, help="fair: the share of clients that is served worst, not the worst one alone."
    ),
    click.option("--nuclear", type=float, help="low-rank: weight of the nuclear norm; larger has fewer directions."),
    click.option("--limit", type=float, help="neyman-pearson: the largest mean loss of the limited class."),
    click.option("--limited", help="neyman-pearson: the class whose loss is limited; the first in sorted order."),
    click.option("--tol", type=float, help="The certified gap at which the fit ends."),
    click.option("--rounds", type=int, help="The most exchanges with the clients."),
    click.option("--holdout", type=float, help="The share of rows kept for the test; 0.2."),
)


def goal_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with all of them, in this order."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command

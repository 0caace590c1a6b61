"""Learning under constraints on losses: Neyman-Pearson, limits for clients, limits for any groups of rows."""

from typing import Any

from ..validation.accepted import Column, Matrix, Number, Numbers
from .built_from import built_from
from .client_rows import split_rows
from .constrained_recipe import ConstrainedRecipe
from .general import Problem
from .groups import group_column
from .recipe import assemble
from .rows import class_column, features, targets


@built_from("X", "y", "clients", recipe=ConstrainedRecipe)
def constrained(
    X: Matrix,
    y: Column,
    clients: Column,
    *,
    limits: Any,
    groups: Column = "clients",
    loss: str = "logistic",
    delta: Number = 1.0,
    l1: Number = 0.0,
    l2: Number = 0.0,
    radius: Number | None = None,
    multiplier: Any = None,
    sample_weight: Numbers | None = None,
) -> Problem:
    """min_x loss_0(x) + l1 ||w||_1 + l2/2 ||w||^2 subject to loss_g(x) <= limit_g for each group g with a limit.

    X: n rows of d features; y: n labels; clients: for each row, whose it is. sample_weight: a number >= 0 for each row,
        in proportion to which rows count in every mean over rows; all alike without it.
    groups: "clients", "classes" (of y), or one label for each row. limits: one number for all groups, or a mapping
        from some groups to their limits. loss_g is the mean loss of the group's rows, whoever holds them; loss_0 that
        of the rows whose group has no limit, or of all rows if every group has one. groups="classes",
        limits={label: tau} is Neyman-Pearson classification.
    loss: "logistic" (two classes), "squared" or "huber" with its delta, as for `agnostic`; x and radius are as
        there. The saddle point is that of the Lagrangian, y = {"multipliers": lam}, limited groups in sorted order:

        min_x max_{0 <= lam_g <= bound_g}  loss_0(x) + sum_g lam_g (loss_g(x) - limit_g) + penalty(w).

    Certificates need bounded domains. If a constant score c (w = 0) is strictly feasible, losses >= 0 give at a
    solution sum_g lam_g (limit_g - loss_g(c)) <= loss_0(c): bound_g is the least loss_0(c) / (limit_g - loss_g(c))
    over a grid of such c. Where no constant is strictly feasible, multiplier= must be given. The limits may then be
    infeasible, for which a run looks for a proof (`phase_one`), or that bound too small for them (see `violation`).
    Let phi be the maximum over lam, and B the least phi over the grid. A solution has penalty(w) <= B, which gives
    its ball as in `agnostic`; loss_0 <= B, and loss_g <= limit_g + B / bound_g. For "logistic", a mean loss <= L over
    rows of which the share s is of the class with sign +1 and mean mu has -s (b + <w, mu>) <= L, so b >= -L / s -
    (the largest |<w, mu>| for w in its ball); likewise from above for the sign -1. The best of these is taken over
    loss_0 and all groups. For "squared" and "huber", with the means t and mu of the rows of loss_0, |b - t| <= (the
    largest |<w, mu>|) + the reach of B as in `agnostic`.
    At lam = 0 the Lagrangian is loss_0 >= 0, which is its floor.
    Rigollet, Tong, Neyman-Pearson Classification, Convexity and Stochastic Constraints, JMLR 2011.
    """
    recipe = ConstrainedRecipe(limits, loss, delta, l1, l2, radius, multiplier)
    rows = features(X)
    target = class_column(y, rows.shape[0]) if loss == "logistic" else targets(y, rows.shape[0])
    group = group_column(y, clients, groups, rows.shape[0])
    return assemble(recipe, split_rows(rows, target, clients, sample_weight, group))

"""Learning under constraints on losses: Neyman-Pearson, limits for clients, limits for any groups of rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..regularizers import Box
from ..tree import Saddle
from ..validation import encode_labels, nonnegative, one_of, positive
from .built_from import built_from
from .feasibility import Lagrangian
from .floor import Floor
from .general import Problem
from .groups import group_shares
from .losses import Huber, Logistic, Loss, Squared, constant_losses, regression_loss
from .penalties import Ball, bias_box, largest_product, penalized, weight_ball
from .rows import by_client, matrix, targets, two_classes


@built_from("X", "y", "clients", pooled=True)
def constrained(
    X: Any,
    y: Any,
    clients: Any,
    *,
    limits: Any,
    groups: Any = "clients",
    loss: str = "logistic",
    delta: Any = 1.0,
    l1: Any = 0.0,
    l2: Any = 0.0,
    radius: Any = None,
    multiplier: Any = None,
) -> Problem:
    """min_x loss_0(x) + l1 ||w||_1 + l2/2 ||w||^2 subject to loss_g(x) <= limit_g for each group g with a limit.

    X: n rows of d features; y: n labels; clients: for each row, whose it is.
    groups: "clients", "classes" (of y), or one label for each row. limits: one number for all groups, or a mapping
        from some groups to their limits. loss_g is the mean loss of the group's rows, whoever holds them; loss_0 that
        of the rows whose group has no limit, or of all rows if every group has one. groups="classes",
        limits={label: tau} is Neyman-Pearson classification.
    loss: "logistic" (two classes), "squared" or "huber" with its delta, as for `agnostic`; x is as there. The
        saddle point is that of the Lagrangian, y = {"multipliers": lam}, limited groups in sorted order:

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
    X = matrix(X)
    one_of("loss", loss, ("logistic", "squared", "huber"))
    target = two_classes(y, len(X)) if loss == "logistic" else targets(y, len(X))
    rule: Loss = Logistic() if loss == "logistic" else regression_loss(loss, delta)
    _, client = encode_labels("clients", clients, len(X))
    shares, tau = group_shares(X, y, clients, groups, limits)
    l1, l2 = nonnegative("l1", l1), nonnegative("l2", l2)

    constant = constant_losses(rule, _constants(rule, target, tau), target, shares)
    bound = _multiplier_bounds(constant, tau, multiplier)
    budget = np.min(constant[:, 0] + np.maximum(constant[:, 1:] - tau, 0) @ bound)
    ball = weight_ball(float(l1), float(l2), radius, float(budget))
    return Problem(
        Lagrangian(rule, tau, feasible=multiplier is None),
        x={"weights": penalized(ball, l1, l2), "bias": _bias_box(X, target, rule, shares, tau, bound, budget, ball)},
        y={"multipliers": Box(lower=np.zeros_like(bound), upper=bound)},
        like=Saddle({"weights": np.zeros(X.shape[1]), "bias": np.zeros(())}, {"multipliers": np.zeros(tau.size)}),
        data=by_client({"row": X, "target": target, "shares": len(X) * shares.T}, client),
        weights="samples",
        by_construction=True,
        own_weights=True,
        floor=Floor({"multipliers": np.zeros(tau.size)}, 0.0, each=True),
    )


def _constants(loss: Loss, target: NDArray[Any], tau: NDArray[Any]) -> NDArray[Any]:
    """The constant scores of the docstring; for "logistic" so far that the rows of one class meet the least limit."""
    if not isinstance(loss, Logistic):
        return np.linspace(target.min(), target.max(), 101)
    enough = -np.log(np.expm1(min(tau.min(), 1.0)))  # log(1 + exp(-enough)) = limit
    end = max(15.0, enough + 1)
    return np.linspace(-end, end, 301)


def _multiplier_bounds(constant: NDArray[Any], tau: NDArray[Any], multiplier: Any) -> NDArray[Any]:
    """The bounds of the docstring; row c of `constant` holds loss_0 and the groups' losses of one constant score."""
    if multiplier is not None:
        return np.full(tau.size, float(positive("multiplier", multiplier)))
    feasible = constant[np.all(constant[:, 1:] < tau, axis=1)]
    if not len(feasible):
        raise ValueError(
            "multiplier must be given: no constant score meets all limits strictly, so nothing bounds the multipliers"
        )
    with np.errstate(over="ignore"):  # refused below
        bound = np.min(feasible[:, :1] / (tau - feasible[:, 1:]), axis=0)
    if not np.all(np.isfinite(bound)):
        raise ValueError(f"limits must be so large that float64 holds loss / limit, got {tau.min():.3g}")
    return np.asarray(bound)


def _bias_box(
    X: NDArray[Any],
    target: NDArray[Any],
    loss: Loss,
    shares: NDArray[Any],
    tau: NDArray[Any],
    bound: NDArray[Any],
    budget: float,
    ball: Ball,
) -> Box:
    if isinstance(loss, Squared | Huber):
        return bias_box(shares[0] @ target, shares[0] @ X, ball, loss.reach(float(budget)))
    most = np.array([budget, *(tau + budget / bound)])
    ends = {}
    for sign in (-1, 1):
        within = shares * (target == sign)
        share = within.sum(axis=1)
        has = share > 0
        reach = most[has] / share[has] + largest_product(ball, within[has] @ X / share[has, None])
        ends[sign] = float(np.min(reach))
    return Box(lower=-ends[1], upper=ends[-1])

"""A saddle problem of one's own: least squares against one shift of all targets."""

import numpy as np

import fedualex as fx


def shifted_loss(w, shift, example):
    """(<row, w> - target - shift)^2 / 2 - shift^2: convex in w, and concave in the shift, whose curvature is 1 - 2."""
    row, target = example
    return (row @ w - target - shift) ** 2 / 2 - shift**2


def shifted_regression(rows, targets, *, l1, radius, largest_shift):
    """Least squares against one shift of all targets, up to a size; one array of rows for each client."""
    like = fx.Saddle(np.zeros(rows[0].shape[1]), np.zeros(()))
    data = list(zip(rows, targets, strict=True))
    return fx.Problem(shifted_loss, x=fx.L1(l1) + fx.L2Ball(radius), y=fx.Box(largest_shift), like=like, data=data)


rng = np.random.default_rng(0)
rows = [rng.normal(size=(n, 2)) for n in (5, 8)]
problem = shifted_regression(rows, [own.sum(axis=1) for own in rows], l1=0.01, radius=5.0, largest_shift=0.5)
fx.testing.check_problem(problem, samples=3)

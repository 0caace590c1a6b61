"""The catalogue's bounds and losses as plain numpy formulas of all rows in one table, and rows to try them on.

Nothing here knows of summaries. Every formula gets the table t of all rows, their owners o, their weights w and a point
z, and returns the bounds of the domain by name, and f(z).
"""

import numpy as np
from scipy.special import log_softmax

import fedualex as fx

ROWS, FEATURES, SIZES = 24, 3, (1, 2, 20)
L1, L2, DELTA = 0.05, 0.2, 0.7
P = fx.problems


# --- rows ------------------------------------------------------------------------------------------------------------


def owners(clients, seed=0):
    """Whose row is whose, all of these clients having some."""
    rng = np.random.default_rng(seed)
    return rng.permutation(np.r_[np.arange(clients), rng.integers(0, clients, ROWS - clients)])


def tables(kind):
    """X, a real target, two classes, three classes, two tasks; three groups of rows; and weights or None."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(ROWS, FEATURES)) + np.array([0.0, 3.0, -1.0])
    score = X @ [1.0, -0.5, 0.2] + rng.normal(size=ROWS)
    two, three = (score > np.median(score)).astype(int), np.digitize(score, np.quantile(score, [0.4, 0.7]))
    tasks = np.stack([score, 1 - score], axis=1) + rng.normal(size=(ROWS, 2))
    group = np.array(["north", "south", "west"])[rng.integers(0, 3, ROWS)]
    weight = None
    if kind == "constant columns":
        X = X * [1.0, 0.0, 0.0] + [0.0, 0.0, 2.0]
    elif kind == "weights":
        weight = rng.integers(0, 4, ROWS).astype(float)
    elif kind == "one row of each class weighs":
        weight = np.zeros(ROWS)
        weight[[np.flatnonzero(three == c)[0] for c in range(3)]] = 1.0
    elif kind == "one row weighs":
        weight = np.eye(ROWS)[5]
    return {"X": X, "score": score, "two": two, "three": three, "tasks": tasks, "group": group, "weight": weight}


# --- bounds ----------------------------------------------------------------------------------------------------------


def box(center, spread):
    return np.array([center - spread, center + spread])


def classes_box(X, label, p, radius, budget, dual):
    """The box of the bias of a logistic loss, or half the width of that of a softmax loss."""
    q = np.array([p[label == c].sum() for c in range(label.max() + 1)])
    mu = np.stack([p[label == c] @ X[label == c] / p[label == c].sum() for c in range(label.max() + 1)])
    reach = radius * np.linalg.norm(mu, dual, axis=1)
    if q.size == 2:
        return np.array([-reach[1] - budget / q[1], reach[0] + budget / q[0]])
    return box(0.0, np.max((np.sqrt(2) if dual == 2 else 1.0) * reach + budget / q) / 2)


def shares(o, w, weights):
    """The weight of each row in the objective."""
    if isinstance(weights, str) and weights == "samples":
        return w / w.sum()
    own = np.ones(o.max() + 1) if isinstance(weights, str) else np.asarray(weights, float)
    return (own / own.sum() / np.bincount(o, w))[o] * w


def logistic(label, score):
    return np.logaddexp(0.0, np.where(label == 1, -score, score))


def huber(u):
    return np.where(np.abs(u) <= DELTA, u**2 / 2, DELTA * np.abs(u) - DELTA**2 / 2)


# --- the catalogue ---------------------------------------------------------------------------------------------------


def lasso(t, o, w, z, weights="samples"):
    X, y, p = t["X"], t["score"], shares(o, w, weights)
    center = p @ y
    F = p @ (y - center) ** 2 / 2
    radius = F / L1
    bounds = {"radius": radius, "bias": box(center, radius * np.abs(p @ X).max() + np.sqrt(2 * F))}
    return bounds, p @ (X @ z.x["weights"] + z.x["bias"] - y) ** 2 / 2


def sparse_logistic(t, o, w, z, weights="samples"):
    X, y, p = t["X"], t["two"], shares(o, w, weights)
    q = np.array([p[y == 0].sum(), p[y == 1].sum()])
    F = -q @ np.log(q)
    radius = np.sqrt(2 * F / L2)
    bounds = {"radius": radius, "bias": classes_box(X, y, p, radius, F, 2)}
    return bounds, p @ logistic(y, X @ z.x["weights"] + z.x["bias"])


def softmax(t, o, w, z, weights="samples"):
    X, y, p = t["X"], t["three"], shares(o, w, weights)
    q = np.array([p[y == c].sum() for c in range(3)])
    F = -q @ np.log(q)
    radius = F / L1
    bounds = {"radius": radius, "bias": np.repeat(classes_box(X, y, p, radius, F, np.inf)[:, None], 3, axis=1)}
    return bounds, -p @ log_softmax(X @ z.x["weights"] + z.x["bias"], axis=1)[np.arange(len(y)), y]


def low_rank(t, o, w, z, weights="samples"):
    X, Y, p = t["X"], t["tasks"], shares(o, w, weights)
    center = p @ Y
    F = np.sum(p @ (Y - center) ** 2) / 2
    bounds = {"radius": F / L1, "bias": box(center, F / L1 * np.linalg.norm(p @ X) + np.sqrt(2 * F))}
    return bounds, np.sum(p @ (X @ z.x["weights"] + z.x["bias"] - Y) ** 2) / 2


def robust(t, o, w, z, weights="samples"):
    X, y, p = t["X"], t["score"], shares(o, w, weights)
    center = p @ y
    F = p @ np.abs(y - center)
    radius = F / L1
    order = np.argsort(o, kind="stable")
    size = np.sqrt(np.bincount(o, p) / np.bincount(o))[o]
    residual = X @ z.x["weights"] + z.x["bias"] - y
    with np.errstate(invalid="ignore"):  # of a client without weight
        f = np.nansum(z.y * (p / size * residual)[order])
    bounds = {"radius": radius, "bias": box(center, radius * np.abs(p @ X).max() + F)}
    return {**bounds, "y": np.stack([-size[order], size[order]])}, f


def adversarial(t, o, w, z, weights="samples"):
    X, y, p = t["X"], t["two"], shares(o, w, weights)
    radius = np.sqrt(2 * np.log(2) / L2)
    bounds = {"radius": radius, "bias": classes_box(X, y, p, radius, np.log(2), 2)}
    return bounds, p @ logistic(y, (X + z.y) @ z.x["weights"] + z.x["bias"])


def auc(t, o, w, z):
    X, y = t["X"], t["two"]
    up, down = (w[y == c] @ X[y == c] / w[y == c].sum() for c in (1, 0))
    c = 0.5 / L1 * np.abs(up - down).max()
    scores, alpha = (X - (up + down) / 2) @ z.x["weights"], float(z.y)
    plus, minus = (w * (y == c) / w[y == c].sum() for c in (1, 0))
    f = plus @ (scores - z.x["a"]) ** 2 + minus @ (scores - z.x["b"]) ** 2
    f += 1 - 2 * (1 + alpha) * (plus - minus) @ scores
    lowest = -min(1.0, c)
    floor = 1 - 2 * (1 + lowest) * 0.5 / L1 * np.abs(up - down).max()
    return {"radius": 0.5 / L1, "y": np.array([-c, c]), "floor": floor}, f


def plain_auc(t, o, w, z):
    X, y = t["X"], t["two"]
    scores = X @ z.x["weights"]
    pairs = np.outer(w * (y == 1), w * (y == 0))
    return {"radius": 0.5 / L1}, np.sum(pairs * (1 - scores[:, None] + scores) ** 2) / pairs.sum()


def agnostic_of(t, w, group, z):
    """Two classes, the mixture of these groups, all alike beforehand."""
    X, y = t["X"], t["two"]
    within = (group == np.unique(group[w > 0])[:, None]) * w
    within = within / within.sum(axis=1, keepdims=True)
    radius = np.log(2) / L1
    bounds = {"radius": radius, "bias": classes_box(X, y, within.mean(axis=0), radius, np.log(2), np.inf)}
    return bounds, z.y @ within @ logistic(y, X @ z.x["weights"] + z.x["bias"])


def agnostic(t, o, w, z):
    return agnostic_of(t, w, o, z)


def agnostic_groups(t, o, w, z):
    return agnostic_of(t, w, t["group"], z)


def agnostic_huber(t, o, w, z):
    X, y, group = t["X"], t["score"], t["group"]
    within = (group == np.unique(group[w > 0])[:, None]) * w
    within = within / within.sum(axis=1, keepdims=True)
    p = within.mean(axis=0)
    center = p @ y
    B = np.max(within @ huber(center - y))
    radius, reach = np.sqrt(2 * B / L2), np.sqrt(2 * B) if 2 * B <= DELTA**2 else B / DELTA + DELTA / 2
    bounds = {"radius": radius, "bias": box(center, radius * np.linalg.norm(p @ X) + reach)}
    return bounds, z.y @ within @ huber(X @ z.x["weights"] + z.x["bias"] - y)


def constrained_of(group, limited, limits, losses, grid, w):
    """Weights of loss_0 and the limited groups, bounds of multipliers, and B."""
    free = ~np.isin(group, limited)
    members = np.stack([free if np.any(w[free] > 0) else np.ones(len(w), bool), *(group == g for g in limited)]) * w
    members = members / members.sum(axis=1, keepdims=True)
    at = np.stack([members @ losses(c) for c in grid])
    feasible = at[np.all(at[:, 1:] < limits, axis=1)]
    bound = np.min(feasible[:, :1] / (limits - feasible[:, 1:]), axis=0)
    return members, bound, np.min(at[:, 0] + np.maximum(at[:, 1:] - limits, 0) @ bound)


def constrained(t, o, w, z):
    """Neyman-Pearson: the loss of the class 1 is at most 0.4."""
    X, y, tau = t["X"], t["two"], np.array([0.4])
    grid = np.linspace(-15, 15, 301)
    members, bound, B = constrained_of(y, [1], tau, lambda c: logistic(y, np.full(len(y), c)), grid, w)
    radius = np.sqrt(2 * B / L2)
    most, ends = np.array([B, *(tau + B / bound)]), []
    for c in (0, 1):
        s = np.array([m[y == c].sum() for m in members])
        mu = [m[y == c] @ X[y == c] / m[y == c].sum() for m in members[s > 0]]
        ends.append(np.min(most[s > 0] / s[s > 0] + radius * np.linalg.norm(mu, axis=1)))
    lam, loss = z.y["multipliers"], members @ logistic(y, X @ z.x["weights"] + z.x["bias"])
    bounds = {"radius": radius, "bias": np.array([-ends[1], ends[0]]), "y": np.stack([0 * bound, bound])}
    return bounds, loss[0] + lam @ (loss[1:] - tau)


def constrained_groups(t, o, w, z):
    """Least squares with a limit for each group of which some row weighs anything."""
    X, y, group = t["X"], t["score"], t["group"]
    limited = np.unique(group[w > 0])
    tau, inside = np.full(len(limited), 9.0), y[w > 0]
    grid = np.linspace(inside.min(), inside.max(), 101)
    members, bound, B = constrained_of(group, limited, tau, lambda c: (c - y) ** 2 / 2, grid, w)
    radius = B / L1
    spread = radius * np.abs(members[0] @ X).max() + np.sqrt(2 * B)
    lam, loss = z.y["multipliers"], members @ (X @ z.x["weights"] + z.x["bias"] - y) ** 2 / 2
    bounds = {"radius": radius, "bias": box(members[0] @ y, spread), "y": np.stack([0 * bound, bound])}
    return bounds, loss[0] + lam @ (loss[1:] - tau)


# name: (the recipe, the column of the target, the formula, the column of groups)
CASES = {
    "auc": (P.AucRecipe(l1=L1), "two", auc, None),
    "auc, plain": (P.AucRecipe(l1=L1, saddle=False), "two", plain_auc, None),
    "agnostic": (P.AgnosticRecipe(l1=L1), "two", agnostic, None),
    "agnostic, groups": (P.AgnosticRecipe(l1=L1, grouped=True), "two", agnostic_groups, "group"),
    "agnostic, huber": (
        P.AgnosticRecipe("huber", DELTA, l2=L2, kl=0.1, grouped=True),
        "score",
        agnostic_huber,
        "group",
    ),
    "constrained": (P.ConstrainedRecipe({1: 0.4}, l2=L2), "two", constrained, "two"),
    "constrained, groups": (P.ConstrainedRecipe(9.0, "squared", l1=L1), "score", constrained_groups, "group"),
    "lasso": (P.SparseGlmRecipe("squared", l1=L1), "score", lasso, None),
    "logistic": (P.SparseGlmRecipe("logistic", l2=L2), "two", sparse_logistic, None),
    "softmax": (P.SparseGlmRecipe("logistic", l1=L1), "three", softmax, None),
    "low rank": (P.LowRankRecipe(L1), "tasks", low_rank, None),
    "robust": (P.RobustRecipe(l1=L1), "score", robust, None),
    "adversarial": (P.AdversarialRecipe(0.5, 0.1, l2=L2), "two", adversarial, None),
}

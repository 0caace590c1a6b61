"""Fits solved until rounding is all that is left: gap and violation of `bounds` against arithmetic of 60 digits.

What is held against a printed gap is P(x) - L(v, y) for a v of the domain, evaluated in mpmath at the returned numbers:
every v proves that much of a gap. v is the minimum over the entries of x that are free, by Newton's method in 60 digits,
so that it is the true gap where these are those of a solution. Nothing here is the library's but what was returned.
"""

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpmath import mp, mpf

import fedualex as fx
from fedualex.runs.folder import describe

from .games import REFUSALS
from .harness import require, within
from .losses import _described
from .terms import Rng, array, evaluated

DIGITS, STEPS = 60, 12
ROWS, FEATURES, GROUPS = (2, 7, 16, 40), (1, 2, 4, 6), (2, 3)
"""Few different shapes: programs are compiled for each."""
ALIKE = int(os.environ.get("ALIKE", "8"))
"""Fits of a case, of one form and with other numbers: programs are compiled once for all of them."""
BETWEEN_SITES = float(os.environ.get("BETWEEN_SITES", "0.25"))
"""The share of fits whose clients are sites, which say how far their own surveys are off."""
FAMILIES = ("squared", "logistic", "huber")
COUNTS = {"runs": 0, "between sites": 0, "proved": 0, "refused": 0, "below without rounding": 0}
"""What became of the cases so far: `make attack` shows that they are near rounding, where the allowance is needed."""


@dataclass(frozen=True)
class Sum:
    """sum_i c_i(y) loss(<r_i, v>, t_i) + l1 |w| + l2/2 |w|^2 and what is beside it, in exact arithmetic."""

    text: str
    rows: list[list[Any]]
    """The bias last, where there is one."""
    target: list[Any]
    family: str
    weight: list[Any]
    groups: list[list[int]]
    """The rows of loss_0 if there are limits, and of each group."""
    l1: Any
    l2: Any
    features: int
    limits: list[Any] = field(default_factory=list)
    spread: Any = 0
    kl: Any = 0
    domain: dict[str, Any] = field(default_factory=dict)

    def means(self, v: list[Any]) -> list[Any]:
        """The mean loss of each group."""
        losses = [_phi(self.family, _inner(row, v), t)[0] for row, t in zip(self.rows, self.target, strict=True)]
        return [_mean(losses, self.weight, group) for group in self.groups]

    def penalty(self, v: list[Any]) -> Any:
        """Of the weights."""
        w = v[: self.features]
        return self.l1 * sum(map(abs, w), mpf(0)) + self.l2 / 2 * sum((t * t for t in w), mpf(0))

    def shares(self, y: list[Any]) -> list[Any]:
        """What the mean losses of the groups count with."""
        if self.limits:
            return [mpf(1), *y]
        if not y:
            return [mpf(1)]
        return [(1 - self.spread) * t + self.spread * mpf(1.0 / len(y)) for t in y]

    def above(self, v: list[Any], most: list[Any]) -> Any:
        """P(v): the maximum over y. most: the bounds of multipliers."""
        means = self.means(v)
        if self.limits:
            excess = [mean - limit for mean, limit in zip(means[1:], self.limits, strict=True)]
            return (
                means[0]
                + sum((b * max(e, mpf(0)) for b, e in zip(most, excess, strict=True)), mpf(0))
                + self.penalty(v)
            )
        if len(means) == 1:
            return means[0] + self.penalty(v)
        even, moved = self.spread * sum(means, mpf(0)) * mpf(1.0 / len(means)), [(1 - self.spread) * m for m in means]
        if self.kl == 0:
            return even + max(moved) + self.penalty(v)
        top = max(moved)
        inner = sum((mpf(1.0 / len(means)) * mp.exp((m - top) / self.kl) for m in moved), mpf(0))
        return even + top + self.kl * mp.log(inner) + self.penalty(v)

    def lagrangian(self, v: list[Any], y: list[Any]) -> Any:
        """f(v, y) + psi_1(v) - psi_2(y)."""
        found = sum((s * m for s, m in zip(self.shares(y), self.means(v), strict=True)), mpf(0)) + self.penalty(v)
        if self.limits:
            found -= sum((t * limit for t, limit in zip(y, self.limits, strict=True)), mpf(0))
        if self.kl != 0:
            found -= self.kl * sum((t * mp.log(t / mpf(1.0 / len(y))) for t in y if t > 0), mpf(0))
        return found

    def coefficients(self, y: list[Any]) -> list[Any]:
        """c_i(y)."""
        found = [mpf(0)] * len(self.rows)
        for share, group in zip(self.shares(y), self.groups, strict=True):
            total = sum((self.weight[i] for i in group), mpf(0))
            for i in group:
                found[i] += share * self.weight[i] / total
        return found

    def response(self, start: list[Any], y: list[Any]) -> list[Any]:
        """Newton's method on the free entries: weights that are not 0 under an l1 penalty, nor at an end of a box."""
        free = [j for j in range(len(start)) if self._is_free(j, start[j])]
        v, c, best = list(start), self.coefficients(y), list(start)
        least = self.lagrangian(v, y)
        for _ in range(STEPS if free else 0):
            step = self._step(v, c, free)
            if step is None:
                break
            v = [v[j] - (step[free.index(j)] if j in free else 0) for j in range(len(v))]
            if not self._inside(v):
                break
            value = self.lagrangian(v, y)
            if value < least:
                least, best = value, list(v)
        return best

    def _is_free(self, j: int, entry: Any) -> bool:
        if j >= self.features:
            return True
        ends = self.domain["ends"]
        return not (self.l1 > 0 and entry == 0) and (ends is None or abs(entry) < ends)

    def _inside(self, v: list[Any]) -> bool:
        w, ends, ball = v[: self.features], self.domain["ends"], self.domain["ball"]
        bias = all(
            lower <= b <= upper for b, (lower, upper) in zip(v[self.features :], self.domain["bias"], strict=True)
        )
        small = ends is None or all(abs(t) <= ends for t in w)
        return bias and small and (ball is None or ball(w) <= 0)

    def _step(self, v: list[Any], c: list[Any], free: list[int]) -> Any:
        gradient, hessian = mp.zeros(len(free), 1), mp.zeros(len(free))
        for row, t, weight in zip(self.rows, self.target, c, strict=True):
            _, slope, second = _phi(self.family, _inner(row, v), t)
            for a, j in enumerate(free):
                gradient[a] += weight * slope * row[j]
                for b, k in enumerate(free):
                    hessian[a, b] += weight * second * row[j] * row[k]
        for a, j in enumerate(free):
            if j < self.features:
                gradient[a] += self.l1 * mp.sign(v[j]) + self.l2 * v[j]
                hessian[a, a] += self.l2
        largest = max(hessian[a, a] for a in range(len(free)))
        for a in range(len(free)):  # rows may be fewer than features
            hessian[a, a] += largest * mpf(10) ** -40 + mpf(10) ** -300
        try:
            return mp.lu_solve(hessian, gradient)
        except (ZeroDivisionError, ValueError):
            return None


def _inner(row: list[Any], v: list[Any]) -> Any:
    return mp.fdot(row, v)


def _mean(losses: list[Any], weight: list[Any], group: list[int]) -> Any:
    return mp.fdot([weight[i] for i in group], [losses[i] for i in group]) / sum((weight[i] for i in group), mpf(0))


def _phi(family: str, score: Any, target: Any) -> tuple[Any, Any, Any]:
    """The loss and its two derivatives."""
    if family == "logistic":
        grown = mp.exp(-target * score)
        return mp.log1p(grown), -target * grown / (1 + grown), grown / (1 + grown) ** 2
    u = score - target
    if family == "squared" or abs(u) <= 1:
        return u * u / 2, u, mpf(1)
    return abs(u) - mpf(0.5), mp.sign(u), mpf(0)


# Random fits.


def random_sum(rng: Rng, form: Rng) -> tuple[Sum, Any] | None:
    """A fit of the catalogue with random rows, penalties, domains and goals; None if it is refused.

    form: decides all that programs are compiled for; rng decides the numbers.
    """
    kind = str(form.choice(["plain", "plain", "box", "agnostic", "limits"]))
    family = str(form.choice(FAMILIES))
    rows, features, groups = (int(form.choice(few)) for few in (ROWS, FEATURES, GROUPS))
    rows = max(rows, 2 * groups)
    X = _scale(rng) * rng.normal(size=(rows, features)) + (0 if rng.random() < 0.7 else _scale(rng))
    if rng.random() < 0.3:
        X = X * 10.0 ** rng.uniform(-3, 3, features)
    number = np.arange(rows) % groups
    y = np.where((np.arange(rows) // groups) % 2, 1.0, -1.0)
    if family != "logistic":
        y = _scale(rng) * rng.normal(size=rows)
    penalty = {
        "l1": 0.0 if form.random() < 0.4 else _strength(rng, X, y),
        "l2": 0.0 if form.random() < 0.4 else _strength(rng, X, y),
    }
    if not any(penalty.values()):
        penalty["l2"] = _strength(rng, X, y)
    weight = np.ones(rows) if form.random() < 0.6 else rng.uniform(0.1, 3.0, rows)
    made = _text(rng, form, kind, family, X, y, number, penalty, weight)
    return _built(made, kind, family, X, y, number, penalty, weight)


def _scale(rng: Rng) -> float:
    return float(10 ** rng.uniform(-6, 6)) if rng.random() < 0.5 else 1.0


def _strength(rng: Rng, X: Any, y: Any) -> float:
    """Penalties that leave something of the model, in the units of the table."""
    return float(np.std(X) * (np.std(y) + 1e-3) * 10 ** rng.uniform(-5, 0)) + 1e-12


def _text(
    rng: Rng, form: Rng, kind: str, family: str, X: Any, y: Any, number: Any, penalty: dict[str, float], weight: Any
) -> tuple[str, dict[str, Any]]:
    options, more = dict(penalty), {}
    shown = f"{array(X)}"
    if kind in ("plain", "box") and form.random() < 0.3:
        shown = f"csr_array({shown})"
    if kind in ("plain", "box"):
        options |= {"intercept": bool(form.random() < 0.7)}
        name, first = "sparse_glm", f"{family!r}, {shown}, {array(y)}, {array(number)}"
    elif kind == "agnostic":
        more = {"spread": float(form.choice([0.0, 0.1])), "kl": float(form.choice([0.0, 0.0, 0.1]))}
        name, first = "agnostic", f"{shown}, {array(y)}, {array(number)}"
        options |= {"loss": family, **more}
    else:
        middle = {"logistic": np.log(2), "squared": np.var(y) / 2, "huber": np.mean(np.abs(y))}[family]
        more = {"limits": {0: float(middle * rng.uniform(0.7, 1.5) + 1e-9)}}
        name, first = "constrained", f"{shown}, {array(y)}, {array(number)}"
        options |= {"loss": family, "multiplier": float(rng.uniform(0.5, 5)), **more}
    if kind != "box" and form.random() < 0.3:
        options["radius"] = float(10 ** rng.uniform(-2, 2) / (np.std(X) + 1e-9))
    if not np.all(weight == 1):
        options["sample_weight"] = weight.tolist()
    return f"fx.problems.{name}({first}, {', '.join(f'{k}={v!r}' for k, v in options.items())})", more


def _built(
    made: tuple[str, dict[str, Any]], kind: str, family: str, X: Any, y: Any, number: Any, penalty: Any, weight: Any
) -> tuple[Sum, Any] | None:
    text, more = made
    ends = None
    try:
        problem = evaluated(text)
        if kind == "box":
            ends = float(10 ** (round(np.log10(1 / (np.std(X) + 1e-9)), 1)))
            problem = in_box(problem, ends, penalty)
        parts = {
            name: _described(part, X.shape[1]) for name, part in describe(problem.geometry).items() if name[0] == "x"
        }
    except REFUSALS:
        return None
    bias = parts.get("x['bias']")
    exact = [[mpf(float(t)) for t in row] + ([mpf(1)] if bias is not None else []) for row in X]
    members = [list(np.flatnonzero(number == g)) for g in range(int(number.max()) + 1)]
    if kind in ("plain", "box"):
        members = [list(range(len(X)))]
    if kind == "limits":
        members = [[i for i in range(len(X)) if number[i] != 0], members[0]]
    own = parts["x['weights']"]
    domain = {
        "ends": None if ends is None else mpf(ends),
        "ball": None if ends is not None else lambda w: mpf(str(own.outside([_decimal(t) for t in w]))),
        "bias": [] if bias is None else [(mpf(str(bias.lower[0])), mpf(str(bias.upper[0])))],
    }
    limits = [mpf(value) for value in more.get("limits", {}).values()]
    found = Sum(
        text if ends is None else f"{text}  # with weights in a box of {ends!r}",
        exact,
        [mpf(float(t)) for t in y],
        family,
        [mpf(float(t)) for t in weight],
        members,
        mpf(penalty["l1"]),
        mpf(penalty["l2"]),
        X.shape[1],
        limits,
        mpf(more.get("spread", 0.0)),
        mpf(more.get("kl", 0.0)),
        domain,
    )
    return found, problem


def _decimal(number: Any) -> Any:
    from decimal import Decimal

    return Decimal(mp.nstr(number, DIGITS))


def in_box(problem: Any, ends: float, penalty: dict[str, float]) -> Any:
    """The problem with its weights in a box, where its ball was."""
    import equinox as eqx

    psi = fx.Box(ends)
    for name, term in (("l1", fx.L1), ("l2", fx.SquaredL2)):
        psi = psi + term(penalty[name]) if penalty[name] else psi
    return eqx.tree_at(lambda p: p.geometry.parts.x["weights"], problem, fx.Euclidean(psi))


def attack(rng: Rng, several: int = ALIKE) -> None:
    """Fits of one form, solved as far as float64 goes, by one of the two methods of `bounds`."""
    seed = int(rng.integers(2**32))
    method = "fx.FeDualNewton()" if rng.random() < 0.8 else "fx.FeDualSlide()"
    for _ in range(several):
        with mp.workdps(DIGITS):
            _attack_one(rng, np.random.default_rng(seed), method)


def _attack_one(rng: Rng, form: Rng, method: str) -> None:
    made = random_sum(rng, form)
    if made is None:
        COUNTS["refused"] += 1
        return
    exact, problem = made
    tol = float(10 ** rng.uniform(-15, -3))
    call = f"fx.solve(problem, {method}, rounds=25, tol={tol!r})"
    if problem.clients > 1 and rng.random() < BETWEEN_SITES:
        masks = "on" if problem.clients > 2 and rng.random() < 0.5 else "off"
        call = f"fx.deploy.run(problem, {method}, rounds=25, tol={tol!r}, secure_sums={masks!r})"
    repro = f"problem = {exact.text}\nrun = {call}\nprint(run, run.outputs['bounds'].certificate)"
    with within(120, "a fit near rounding", repro):
        try:
            run = eval(call, {"fx": fx, "problem": problem})
        except REFUSALS as error:
            require(len(str(error)) <= 500, f"a refusal of {len(str(error))} characters", repro)
            COUNTS["refused"] += 1
            return
        COUNTS["between sites"] += "deploy" in call
        check(exact, problem, run, tol, repro)


def check(exact: Sum, problem: Any, run: Any, tol: float, repro: str) -> None:
    """The gap, the status and the violation of `bounds`."""
    output = run.outputs.get("bounds")
    if output is None or output.gap is None:
        return
    COUNTS["runs"] += 1
    certificate, x = output.certificate, output.z.x
    COUNTS["proved"] += not certificate.estimated
    point = [mpf(float(t)) for t in np.ravel(x["weights"])] + [mpf(float(t)) for t in np.ravel(x.get("bias", []))]
    y, most = [], []
    if exact.limits:
        y = [mpf(float(t)) for t in output.z.y["multipliers"]]
        most = [mpf(float(t)) for t in np.ravel(problem.geometry.parts.y["multipliers"].regularizer.upper)]
    elif len(exact.groups) > 1:
        y = [mpf(float(t)) for t in np.ravel(output.z.y)]
    true = exact.above(point, most) - exact.lagrangian(exact.response(point, y), y)
    require(mpf(output.gap) >= true, f"a gap of {output.gap!r} is below {mp.nstr(true, 20)}", repro)
    COUNTS["below without rounding"] += mpf(output.gap) - mpf(certificate.rounding) < true
    if str(output.status) == "OPTIMAL":
        require(true <= tol, f"OPTIMAL within {tol!r} with a gap of {mp.nstr(true, 20)}", repro)
    if exact.limits:
        above = max(m - t for m, t in zip(exact.means(point)[1:], exact.limits, strict=True))
        require(
            mpf(output.violation) >= above, f"a violation of {output.violation!r} is below {mp.nstr(above, 20)}", repro
        )
        size = max(float(t) for t in exact.limits) + abs(float(above))
        alone = (
            np.count_nonzero(output.evidence.upper) == 1
        )  # of a mean of surveys the mean loss is told, which is more
        near = not alone or output.violation <= float(above) + 1e-6 * size
        require(near, f"a violation of {output.violation!r} is far above {mp.nstr(above, 20)}", repro)

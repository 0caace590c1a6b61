"""Certificates in exact rational arithmetic, straight from the definitions: nothing of ours computes here.

float64 numbers are fractions, and so is all that bilinear games on boxes, simplices and l1 balls are made of. Roots,
exponentials, logarithms and singular values have 60 digits.
"""

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations
from math import inf

import numpy as np

from fedualex.geometry import EntropicSimplex
from fedualex.problems.agnostic import Weighted
from fedualex.problems.auc import CenteredSquare, PairwiseSquare
from fedualex.problems.constrained import Lagrangian
from fedualex.problems.families import Huber, Logistic, Softmax, Squared
from fedualex.problems.robust import SignedResidual
from fedualex.problems.scores import OfScore
from fedualex.regularizers import (
    KL,
    L1,
    Box,
    CappedSimplex,
    InBall,
    InBox,
    L1Ball,
    L2Ball,
    Simplex,
    Spectral,
    Zero,
    split,
)

DIGITS = 60


def number(value):
    """A float64 number as a fraction; an infinite end of a box as it is."""
    return Fraction(float(value)) if np.isfinite(value) else float(value)


def numbers(array, count=None):
    """A float64 array as a list of fractions, repeated if it is one number for all."""
    return [number(entry) for entry in np.ravel(array if count is None else np.broadcast_to(array, count))]


def dot(a, b):
    """<a, b>."""
    return sum((u * v for u, v in zip(a, b, strict=True)), Fraction(0))


def through_decimals(function, *arguments):
    """A function of decimals, on fractions."""
    with localcontext() as context:
        context.prec = DIGITS
        return Fraction(function(*(Decimal(a.numerator) / Decimal(a.denominator) for a in arguments)))


def root(a):
    """The square root."""
    return through_decimals(Decimal.sqrt, a)


def log(a):
    """The natural logarithm."""
    return through_decimals(Decimal.ln, a)


def exp(a):
    """The exponential of a number that is not positive; 0 below -500, for e^-500 is beyond all digits here."""
    assert a <= 0
    return through_decimals(Decimal.exp, a) if a > -500 else Fraction(0)


def log_sum_exp(s):
    """log sum_i exp(s_i)."""
    return max(s) + log(sum(exp(a - max(s)) for a in s))


def softmax(s):
    """exp(s_i) / sum_j exp(s_j)."""
    weights = [exp(a - max(s)) for a in s]
    return [weight / sum(weights) for weight in weights]


# --- bilinear games -------------------------------------------------------------------------------------------------


def exact_gap(game, z):
    """The duality gap of the float64 point z in a bilinear game, of vectors or of matrices."""
    A = [numbers(row) for row in game.A]
    transposed = list(zip(*A, strict=True))
    columns = [np.reshape(leaf, (len(leaf), -1)).T for leaf in (z.x, z.y, game.b)]
    at_x, at_y = [], []
    for x, y, b in zip(*([numbers(column) for column in leaf] for leaf in columns), strict=True):
        at_x.append([dot(column, y) for column in transposed])
        at_y.append([b_i - dot(row, x) for row, b_i in zip(A, b, strict=True)])

    def flat(columns):
        return [entry for row in zip(*columns, strict=True) for entry in row]

    parts = game.geometry.parts
    return exact_fenchel_gap(parts.x, z.x, flat(at_x)) + exact_fenchel_gap(parts.y, z.y, flat(at_y))


def exact_fenchel_gap(part, z, g):
    """<g, z> + psi(z) + psi^*(-g) of one array; g is a list of fractions in the order of its entries."""
    core, lam, c = split(part.regularizer)
    shape, z = np.shape(z), numbers(z)
    lam, c = number(lam), numbers(c, len(z))
    slope = [-a - b for a, b in zip(g, c, strict=True)]
    if isinstance(part, EntropicSimplex):
        value, conjugate = on_entropic_simplex(core, z, slope)
    elif isinstance(core, Spectral):
        inner, more, _ = split(core.psi)
        sigma, slopes = singular_values(z, shape), singular_values(slope, shape)
        value, conjugate = value_of(inner, sigma), conjugate_of(inner, slopes, lam + number(more))
        lam += number(more)
    else:
        value, conjugate = value_of(core, z), conjugate_of(core, slope, lam)
    return value + lam / 2 * dot(z, z) - dot(slope, z) + conjugate


def value_of(core, x):
    """The finite part."""
    match core:
        case L1():
            return number(core.lam) * sum(map(abs, x))
        case InBox() | InBall():
            return value_of(core.penalty, x)
    return Fraction(0)


def conjugate_of(core, s, lam):
    """sup over the core's set of <s, x> - core(x) - lam/2 ||x||^2."""
    match core:
        case Zero():
            return in_box(s, [-inf] * len(s), [inf] * len(s), 0, lam)
        case L1():
            return in_box(s, [-inf] * len(s), [inf] * len(s), number(core.lam), lam)
        case Box():
            return in_box(s, numbers(core.lower, len(s)), numbers(core.upper, len(s)), 0, lam)
        case InBox():
            ends = (numbers(end, len(s)) for end in (core.domain.lower, core.domain.upper))
            return in_box(s, *ends, number(core.penalty.lam), lam)
        case Simplex():
            return on_simplex(s, number(core.radius), lam)
        case CappedSimplex() if lam == 0:
            return on_capped_simplex(s, number(core.cap))
        case L1Ball():
            return in_l1_ball(s, number(core.radius), lam)
        case L2Ball():
            return in_l2_ball(s, number(core.radius), lam)
        case InBall(penalty=L1()):
            left = [max(abs(slope) - number(core.penalty.lam), Fraction(0)) for slope in s]
            return conjugate_of(core.domain, left, lam)
    raise NotImplementedError(repr(core))


def in_box(s, lower, upper, l1, lam):
    """Entry by entry, at an end, at 0 or at the free maximizer."""
    total = Fraction(0)
    for slope, low, high in zip(s, lower, upper, strict=True):
        free = [Fraction(0)]
        if lam > 0:
            free.append(max(abs(slope) - l1, Fraction(0)) / lam * (1 if slope > 0 else -1))
        points = [min(max(u, low), high) for u in [*free, low, high]]
        total += max(slope * u - l1 * abs(u) - lam / 2 * u * u for u in points if abs(u) < inf)
    return total


def on_simplex(s, radius, lam):
    """At a vertex, or at the projection of s / lam."""
    if lam == 0:
        return radius * max(s)
    falling = sorted(s, reverse=True)
    kappa = max((sum(falling[: j + 1]) - lam * radius) / (j + 1) for j in range(len(s)))
    x = [max((slope - kappa) / lam, Fraction(0)) for slope in s]
    assert sum(x) == radius
    return dot(s, x) - lam / 2 * dot(x, x)


def on_capped_simplex(s, cap):
    """As much as the cap allows to the largest slopes."""
    total, left = Fraction(0), Fraction(1)
    for slope in sorted(s, reverse=True):
        share = min(cap, left)
        total, left = total + share * slope, left - share
    return total


def in_l1_ball(s, radius, lam):
    """At a vertex, inside, or on the face of the signs of s."""
    size = [abs(slope) for slope in s]
    if lam == 0:
        return radius * max(size)
    if sum(size) <= lam * radius:
        return dot(size, size) / (2 * lam)
    return on_simplex(size, radius, lam)


def in_l2_ball(s, radius, lam):
    """Along s."""
    length = root(dot(s, s))
    size = radius if length >= lam * radius else length / lam
    return length * size - lam / 2 * size**2


def on_entropic_simplex(core, z, slope):
    """psi(z) and the largest <slope, x> - psi(x) over the simplex."""
    match core:
        case Zero():
            return Fraction(0), max(slope)
        case CappedSimplex():
            return Fraction(0), on_capped_simplex(slope, number(core.cap))
        case KL():
            lam, q = number(core.lam), numbers(core.q, len(z))
            value = lam * sum((a * log(a / b) for a, b in zip(z, q, strict=True) if a > 0), Fraction(0))
            top = max(slope)
            return value, top + lam * log(sum(b * exp((a - top) / lam) for a, b in zip(slope, q, strict=True)))
    raise NotImplementedError(repr(core))


def singular_values(entries, shape):
    """By one-sided Jacobi rotations of the columns."""
    with localcontext() as context:
        context.prec = DIGITS + 20
        decimals = [Decimal(a.numerator) / Decimal(a.denominator) for a in entries]
        rows = [decimals[i * shape[1] : (i + 1) * shape[1]] for i in range(shape[0])]
        columns = [list(column) for column in (zip(*rows, strict=True) if shape[0] >= shape[1] else rows)]

        def product(a, b):
            return sum((u * v for u, v in zip(a, b, strict=True)), Decimal(0))

        for _ in range(30):
            for i, j in combinations(range(len(columns)), 2):
                a, b = columns[i], columns[j]
                mixed = product(a, b)
                if mixed == 0:
                    continue
                zeta = (product(b, b) - product(a, a)) / (2 * mixed)
                t = (1 if zeta >= 0 else -1) / (abs(zeta) + (1 + zeta * zeta).sqrt())
                cosine = 1 / (1 + t * t).sqrt()
                columns[i] = [cosine * (u - t * v) for u, v in zip(a, b, strict=True)]
                columns[j] = [cosine * (t * u + v) for u, v in zip(a, b, strict=True)]
        return [Fraction(product(column, column).sqrt()) for column in columns]


# --- losses of a linear score ---------------------------------------------------------------------------------------


def exact_certificate(problem, z):
    """<g, z> + psi(z) + psi^*(-g) of a problem of the catalogue at the float64 point z."""
    g = exact_operator(problem, z)
    total = Fraction(0)
    for block in ("x", "y"):
        parts, leaves = getattr(problem.geometry.parts, block), getattr(z, block)
        named = isinstance(leaves, dict)
        for name in leaves if named else [block] * (leaves is not None):
            part, leaf = (parts[name], leaves[name]) if named else (parts, leaves)
            total += exact_fenchel_gap(part, leaf, g[name])
    return total


def exact_operator(problem, z):
    """The exact operator, a list of fractions for each array; plain y as "y"."""
    w = [numbers(row) for row in np.reshape(z.x["weights"], (len(z.x["weights"]), -1))]
    outputs = len(w[0])
    b = numbers(z.x["bias"]) if "bias" in z.x else [Fraction(0)] * outputs
    g = {"weights": [[Fraction(0)] * outputs for _ in w], "bias": [Fraction(0)] * outputs}
    y = numbers(z.y["multipliers"] if isinstance(z.y, dict) else [] if z.y is None else z.y)
    center = {name: number(z.x[name]) for name in ("a", "b") if name in z.x}
    others = {**{name: [Fraction(0)] for name in center}, "y": [Fraction(0)] * len(y)}
    for share, example in weighted_examples(problem):
        row = numbers(example["row"])
        score = [dot(row, column) + b_k for column, b_k in zip(zip(*w, strict=True), b, strict=True)]
        slopes, more = derivatives(problem.f, score, y, center, example)
        for j, entry in enumerate(row):
            for k, slope in enumerate(slopes):
                g["weights"][j][k] += share * entry * slope
        g["bias"] = [old + share * slope for old, slope in zip(g["bias"], slopes, strict=True)]
        for (name, i), slope in more.items():
            others[name][i] += share * slope * (-1 if name == "y" else 1)
        if isinstance(problem.f, CenteredSquare):  # the part that no row is in
            difference = numbers(problem.f.difference)
            short = 1 - dot(difference, [entry for (entry,) in w])
            for j, entry in enumerate(difference):
                g["weights"][j][0] -= share * 2 * short * entry
    g["weights"] = [entry for row in g["weights"] for entry in row]
    return {**g, **others, "multipliers": others["y"]}


def exact_value(problem, z):
    """f(z) of a problem of the catalogue at the float64 point z."""
    w = [numbers(row) for row in np.reshape(z.x["weights"], (len(z.x["weights"]), -1))]
    b = numbers(z.x["bias"]) if "bias" in z.x else [Fraction(0)] * len(w[0])
    y = numbers(z.y["multipliers"] if isinstance(z.y, dict) else [] if z.y is None else z.y)
    center = {name: number(z.x[name]) for name in ("a", "b") if name in z.x}
    total = Fraction(0)
    for share, example in weighted_examples(problem):
        row = numbers(example["row"])
        score = [dot(row, column) + b_k for column, b_k in zip(zip(*w, strict=True), b, strict=True)]
        total += share * exact_example(problem.f, score, y, center, example)
        if isinstance(problem.f, CenteredSquare):
            total += share * (1 - dot(numbers(problem.f.difference), [entry for (entry,) in w])) ** 2
    return total


def exact_example(f, score, y, center, example):
    """The loss of one example."""
    match f:
        case OfScore(center=None):
            return loss_of(f.family, score, example["target"])
        case Weighted():
            factor = number(example["weight"]) * share_of(f, y, int(example["group"]))
            return factor * loss_of(f.family, score, example["target"])
        case Lagrangian():
            first, *shares = numbers(example["shares"])
            return (first + dot(shares, y)) * loss_of(f.family, score, example["target"]) - dot(y, numbers(f.limits))
        case CenteredSquare():  # the part that depends on the row
            return number(example.get("weight", 1.0)) * score[0] ** 2
        case PairwiseSquare():
            weight, sign = number(example["weight"]), number(example["sign"])
            apart = score[0] - center["a" if sign > 0 else "b"]
            return weight * (apart**2 - 2 * (1 + y[0]) * sign * score[0]) + 1
        case SignedResidual():
            return y[int(example["index"])] / number(example["root"]) * (score[0] - number(example["target"]))
    raise NotImplementedError(repr(f))


def share_of(f, y, m):
    """What the loss of group m counts with."""
    return y[m] if f.spread is None else (1 - number(f.spread)) * y[m] + number(f.spread) * numbers(f.prior)[m]


def weighted_examples(problem):
    """All examples with their exact weights in the objective."""
    for m, (weight, count) in enumerate(zip(problem.weights, problem.data.counts, strict=True)):
        for i in range(count):
            yield number(weight) / int(count), {name: leaf[m, i] for name, leaf in problem.data.examples.items()}


def derivatives(f, score, y, center, example):
    """The derivatives of the loss of one example in its scores, and in the entries of other variables."""
    match f:
        case OfScore(center=None):
            return slopes_of(f.family, score, example["target"]), {}
        case Weighted():
            m, factor = int(example["group"]), number(example["weight"])
            slopes = [factor * share_of(f, y, m) * slope for slope in slopes_of(f.family, score, example["target"])]
            moved = factor if f.spread is None else factor * (1 - number(f.spread))
            return slopes, {("y", m): moved * loss_of(f.family, score, example["target"])}
        case Lagrangian():
            first, *shares = numbers(example["shares"])
            weight, loss = first + dot(shares, y), loss_of(f.family, score, example["target"])
            limits = numbers(f.limits)
            more = {("y", i): share * loss - limits[i] for i, share in enumerate(shares)}
            return [weight * slope for slope in slopes_of(f.family, score, example["target"])], more
        case CenteredSquare():
            return [2 * number(example.get("weight", 1.0)) * score[0]], {}
        case PairwiseSquare():
            weight, sign = number(example["weight"]), number(example["sign"])
            name = "a" if sign > 0 else "b"
            apart = 2 * weight * (score[0] - center[name])
            more = {(name, 0): -apart, ("y", 0): -2 * weight * sign * score[0]}
            return [apart - 2 * weight * (1 + y[0]) * sign], more
        case SignedResidual():
            i, size = int(example["index"]), number(example["root"])
            return [y[i] / size], {("y", i): (score[0] - number(example["target"])) / size}
    raise NotImplementedError(repr(f))


def loss_of(loss, score, target):
    """The loss."""
    match loss:
        case Squared():
            return sum((a - t) ** 2 for a, t in zip(score, numbers(target), strict=True)) / 2
        case Huber():
            far, delta = abs(score[0] - number(target)), number(loss.delta)
            return far**2 / 2 if far <= delta else delta * far - delta**2 / 2
        case Logistic():
            return log_sum_exp([Fraction(0), -number(target) * score[0]])
        case Softmax():
            return log_sum_exp(score) - score[int(target)]
    raise NotImplementedError(repr(loss))


def slopes_of(loss, score, target):
    """Its derivative in each score."""
    match loss:
        case Squared():
            return [a - t for a, t in zip(score, numbers(target), strict=True)]
        case Huber():
            delta = number(loss.delta)
            return [min(max(score[0] - number(target), -delta), delta)]
        case Logistic():
            return [-number(target) * softmax([Fraction(0), -number(target) * score[0]])[1]]
        case Softmax():
            return [share - (k == int(target)) for k, share in enumerate(softmax(score))]
    raise NotImplementedError(repr(loss))

"""Measures of models with their intervals, from sums over rows that are added over parties.

Means of losses, squares and absolute errors have normal intervals; shares have Wilson's; r2 that of the delta method.
An AUC is that of the pairs within parties, with DeLong's variance, and so is a C-index: pairs of two parties would need
their rows side by side. Both intervals are those of log-odds. Where all pairs are in the right order, or all in the
wrong one, an AUC has the exact interval of pairs that share no row.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Reals
from ..problems.families import Family
from ..problems.risk_sets import concordance_sums
from .newton import Ask, Estimate, estimate
from .sums import Design, Sums, summarize_effects
from .table import check_confidence, covariance_of

BINS = 10
"""Bins of the calibration curve, of equal width in predicted risk."""
LEAST_BIN = 5
"""The fewest rows of a bin that is told: the sum of the risks of fewer rows would nearly be that of one."""
STEP = 2.0**-7
"""Sums of risks and of a calibration are rounded to multiples of this: far finer than the errors that intervals are
made of, and too coarse to solve for the score of a row."""
THRESHOLDS = np.linspace(0.0, 1.0, 101)
"""Predicted risks at which a point of the ROC curve is drawn."""

Given = Mapping[str, Reals]


class Interval(NamedTuple):
    """A measure with its standard error and interval; the error is nan where the rows are too few to have one."""

    value: float
    error: float
    lower: float
    upper: float


class Bin(NamedTuple):
    """Rows of similar predicted risk: how many, their mean prediction, the share with the outcome and its interval."""

    rows: int
    predicted: float
    observed: float
    lower: float
    upper: float


class RocPoint(NamedTuple):
    """The shares of negative and of positive rows whose predicted risk is at least the threshold."""

    threshold: float
    false_positive: float
    true_positive: float


class Calibration(NamedTuple):
    """Of the logistic regression of outcome on score, of a count Poisson's: 0 and 1 if predictions are right.

    Both are None where there is no such line; `sentence` then says why.
    """

    intercept: Interval | None
    slope: Interval | None
    sentence: str


# At a party.


def summarize_answers(right: NDArray[np.bool_], losses: Reals | None = None) -> Sums:
    """Sums for accuracy, and for the mean loss. right: whether the answer is. losses: of each row, where it has one."""
    sums = {"rows": np.asarray(float(len(right))), "right": np.asarray(np.sum(right, dtype=float))}
    return sums if losses is None else sums | _moments("loss", losses)


def summarize_ranks(scores: Reals, positive: NDArray[np.bool_]) -> Sums:
    """Sums for the AUC: the pairs, those that are ranked rightly, and DeLong's variance of their number.

    pairs_apart: how many pairs can be made so that no row is in two of them.
    Zeros where there are no pairs. A class of one row has no variance that could be seen; it counts with the largest.
    """
    above, below = scores[positive], scores[~positive]
    pairs, apart = float(len(above) * len(below)), float(min(len(above), len(below)))
    if not pairs:
        return {name: np.zeros(()) for name in ("pairs", "ranked", "ranked_variance", "pairs_apart")}
    wins, losses = _shares_below(above, below), 1 - _shares_below(below, above)
    auc = float(wins.mean())
    variance = sum(_variance_of_mean(shares) for shares in (wins, losses))
    sums = {"pairs": pairs, "ranked": pairs * auc, "ranked_variance": pairs**2 * variance, "pairs_apart": apart}
    return {name: np.asarray(number) for name, number in sums.items()}


def summarize_risks(risk: Reals, positive: NDArray[np.bool_]) -> Sums:
    """Sums for the calibration curve and the ROC curve. risk: the predicted probability of being positive."""
    number = np.clip((risk * BINS).astype(int), 0, BINS - 1)
    place = np.searchsorted(THRESHOLDS, risk, side="right")  # so many thresholds are at most the risk

    def count_reached(some: NDArray[np.bool_]) -> Reals:
        return np.bincount(place[some], minlength=len(THRESHOLDS) + 1)[::-1].cumsum()[::-1][1:].astype(float)

    return {
        "bin_rows": np.bincount(number, minlength=BINS).astype(float),
        "bin_risk": np.bincount(number, risk, BINS),
        "bin_positive": np.bincount(number, positive, BINS),
        "reached_positive": count_reached(positive),
        "reached_negative": count_reached(~positive),
        "classes": np.array([np.sum(~positive), np.sum(positive)], float),
    }


def merge_bins(sums: Given) -> Sums:
    """What leaves a party of `summarize_risks`: bins of few rows are merged, in the bin of their mean."""
    counts, groups = sums["bin_rows"], list[list[int]]()
    for k in np.flatnonzero(counts):
        if not groups or counts[groups[-1]].sum() >= LEAST_BIN:
            groups.append([])
        groups[-1].append(int(k))
    if len(groups) > 1 and counts[groups[-1]].sum() < LEAST_BIN:
        groups[-2:] = [groups[-2] + groups[-1]]
    merged = dict(sums) | {name: np.zeros(BINS) for name in BINNED}
    for several in groups:
        total = {name: float(sums[name][several].sum()) for name in BINNED}
        place = min(int(total["bin_risk"] / total["bin_rows"] * BINS), BINS - 1)
        for name, number in total.items():
            merged[name][place] = number
    return merged | {"bin_risk": round_to_step(merged["bin_risk"])}


BINNED = ("bin_rows", "bin_risk", "bin_positive")


def summarize_numbers(truth: Reals, answers: Reals, center: float = 0.0, scale: float = 1.0) -> Sums:
    """Sums for r2, mae and mse. center, scale: of the truth, roughly, alike at all parties: digits are kept by them."""
    apart, spread = (truth - answers) / scale, (truth - center) / scale
    square = apart**2
    powers = {f"truth_{k}": np.asarray(np.sum(spread**k)) for k in (1, 2, 3, 4)}
    crossed = {f"crossed_{k}": np.asarray(np.sum(square * spread**k)) for k in (1, 2)}
    sums = {"rows": np.asarray(float(len(truth))), **_moments("mae", np.abs(apart)), **_moments("mse", square)}
    return sums | powers | crossed


def summarize_times(time: Reals, event: Reals, scores: Reals) -> Sums:
    """Sums for the C-index: rows, events, and those of `concordance_sums`."""
    sums = {"rows": float(len(time)), "events": float(np.sum(event > 0)), **concordance_sums(time, event, scores)}
    return {name: np.asarray(float(value)) for name, value in sums.items()}


def summarize_counts(truth: Reals, expected: Reals, deviance: Reals, likelihood: Reals) -> Sums:
    """Sums for the deviance and the log-likelihood, means over rows, and for observed counts over expected ones."""
    products = {"observed_squares": truth**2, "crossed": truth * expected, "expected_squares": expected**2}
    sums = {"observed": truth, "expected": expected, **products}
    totals = {name: np.asarray(np.sum(values)) for name, values in sums.items()}
    return totals | _moments("deviance", deviance) | _moments("log-likelihood", likelihood)


def summarize_calibration(family: Family, scores: Reals, target: Reals, beta: Reals, meat: bool) -> Sums:
    """The answer of a party to `calibrate`, before it is made `coarse`."""
    return summarize_effects(family, Design(scores[:, None], target, np.ones(len(target))), beta, meat=meat)


def coarse(sums: Given) -> Sums:
    """What leaves a party of `summarize_calibration`: rounded sums, and how far they are off."""
    multiples = {name: round_to_step(value) if name in ROUNDED else np.asarray(value) for name, value in sums.items()}
    return multiples | {"rounding": np.full_like(sums["rounding"], OFF * STEP), "coarse": np.asarray(STEP)}


ROUNDED = ("value", "slope", "second", "mass", "row_meat", "party_meat", "pearson")
OFF = 0.51
"""How many steps a rounded sum is off at most, the rounding of float64 included."""


def round_to_step(sums: Reals) -> Reals:
    """The sums rounded to whole multiples of STEP."""
    return np.asarray(STEP * np.rint(np.asarray(sums) / STEP))


# From the sums of all.


def measure(sums: Given, confidence: float = 0.95, scale: float = 1.0) -> dict[str, Interval | None]:
    """Every measure that the sums are of, by name; None where the rows do not define it.

    scale: as given to `summarize_numbers`.
    """
    z = normal_quantile(confidence)
    rows = float(sums["rows"])
    measures: dict[str, Interval | None] = {}
    if "right" in sums:
        measures["accuracy"] = wilson_interval(float(sums["right"]), rows, z)
    if "pairs" in sums:
        measures["auc"] = _auc(sums, confidence)
    if "comparable" in sums:
        measures["c-index"] = _concordance(sums, z)
    if "truth_1" in sums:
        measures["r2"] = _r2(sums, rows, z)
    if "observed" in sums:
        measures["observed/expected"] = _ratio_of_counts(sums, z)
    for name, unit in (("deviance", 1.0), ("log-likelihood", 1.0), ("loss", 1.0), ("mae", scale), ("mse", scale**2)):
        if f"{name}_sum" in sums:
            measures[name] = _mean(name, sums, rows, z, unit)
    return measures


def wilson_interval(count: float, rows: float, z: float) -> Interval | None:
    """Wilson's interval of a share. z: the normal quantile."""
    if rows == 0:
        return None
    share = count / rows
    middle = (share + z**2 / (2 * rows)) / (1 + z**2 / rows)
    half = z / (1 + z**2 / rows) * np.sqrt(share * (1 - share) / rows + z**2 / (4 * rows**2))
    error = float(np.sqrt(share * (1 - share) / rows))
    return Interval(share, error, max(float(middle - half), 0.0), min(float(middle + half), 1.0))


def calibration_curve(sums: Given, confidence: float = 0.95, least: int = 1) -> list[Bin]:
    """A `Bin` for each tenth of predicted risk that has at least so many rows, with Wilson's interval."""
    z, curve = normal_quantile(confidence), []
    for rows, risk, positive in zip(sums["bin_rows"], sums["bin_risk"], sums["bin_positive"], strict=True):
        if round(rows) >= least and (share := wilson_interval(positive, rows, z)) is not None:
            curve.append(Bin(round(rows), float(risk / rows), float(share.value), share.lower, share.upper))
    return curve


def roc_points(sums: Given) -> list[RocPoint]:
    """The ROC curve at 101 predicted risks; nothing where there is one class only."""
    negatives, positives = sums["classes"]
    if not negatives or not positives:
        return []
    shares = zip(THRESHOLDS, sums["reached_negative"] / negatives, sums["reached_positive"] / positives, strict=True)
    return [RocPoint(*map(float, point)) for point in shares]


def calibrate(ask: Ask, confidence: float = 0.95, kind: str = "model-based") -> Calibration:
    """Intercept and slope of the regression of outcome on score, by Newton's method on sums.

    ask: the sums of all parties at (intercept, slope), each `summarize_calibration`. kind: of the errors.
    """
    line = estimate(ask, np.array([0.0, 1.0]), names=("intercept", "slope"), exact=False, self_concordant=True)
    if line.model_based is None:
        return Calibration(None, None, line.sentence)
    covariance = covariance_of(line, kind)
    intercept, slope = (_normal(line, covariance, j, normal_quantile(confidence)) for j in (0, 1))
    return Calibration(intercept, slope, "")


def normal_quantile(confidence: float) -> float:
    """How many standard errors a two-sided interval reaches to either side."""
    from scipy.special import ndtri  # a site of a deployment starts without it

    return float(ndtri((1 + check_confidence(confidence)) / 2))


def _normal(line: Estimate, covariance: Reals, j: int, z: float) -> Interval:
    value, error = float(line.beta[j]), float(np.sqrt(covariance[j, j]))
    return Interval(value, error, value - z * error, value + z * error)


def _moments(name: str, values: Reals) -> Sums:
    return {f"{name}_sum": np.asarray(np.sum(values)), f"{name}_squares": np.asarray(np.sum(values**2))}


def _mean(name: str, sums: Given, rows: float, z: float, unit: float) -> Interval | None:
    """The mean with its normal interval, whose lower end is not below 0 where no row is."""
    if rows == 0:
        return None
    mean = float(sums[f"{name}_sum"]) / rows
    spread = max(float(sums[f"{name}_squares"]) / rows - mean**2, 0.0)
    error = float(np.sqrt(spread / (rows - 1))) if rows > 1 else np.nan
    least = -np.inf if mean < 0 else 0.0
    return Interval(unit * mean, unit * error, unit * max(mean - z * error, least), unit * (mean + z * error))


def _ratio_of_counts(sums: Given, z: float) -> Interval | None:
    """All counts over all expected ones, with the variance of its first-order change with each row."""
    observed, expected = float(sums["observed"]), float(sums["expected"])
    if not expected > 0:
        return None
    ratio = observed / expected
    spread = sums["observed_squares"] - 2 * ratio * sums["crossed"] + ratio**2 * sums["expected_squares"]
    error = float(np.sqrt(max(float(spread), 0.0))) / expected
    return Interval(ratio, error, max(ratio - z * error, 0.0), ratio + z * error)


def _r2(sums: Given, rows: float, z: float) -> Interval | None:
    """1 - mse / variance, with the variance of its first-order change with each row.

    With e the error and u the truth less its mean, that is ((u^2 - v) mse / v - (e^2 - mse)) / v, v the mean of u^2.
    """
    if rows < 2:
        return None
    t1, t2, t3, t4 = (float(sums[f"truth_{k}"]) / rows for k in (1, 2, 3, 4))
    variance = t2 - t1**2
    if not variance > 0:
        return None
    mse, fourth = float(sums["mse_sum"]) / rows, float(sums["mse_squares"]) / rows
    crossed = [float(sums[f"crossed_{k}"]) / rows for k in (1, 2)]
    kurtosis = t4 - 4 * t1 * t3 + 6 * t1**2 * t2 - 3 * t1**4
    both = crossed[1] - 2 * t1 * crossed[0] + t1**2 * mse
    ratio = mse / variance
    spread = ratio**2 * (kurtosis - variance**2) - 2 * ratio * (both - mse * variance) + fourth - mse**2
    error = float(np.sqrt(max(spread, 0.0) / rows)) / variance
    value = 1 - ratio
    return Interval(value, error, value - z * error, min(value + z * error, 1.0))


def _auc(sums: Given, confidence: float) -> Interval | None:
    pairs = float(sums["pairs"])
    if not pairs:
        return None
    value, apart = float(sums["ranked"]) / pairs, float(sums["pairs_apart"])
    error = float(np.sqrt(float(sums["ranked_variance"]))) / pairs
    if is_at_end(value):
        reach = ((1 - confidence) / 2) ** (1 / apart)
        lower, upper = (reach, 1.0) if value > 0.5 else (0.0, 1 - reach)
        return Interval(float(round(value)), error, lower, upper)
    spread = error if error > 0 else float(np.sqrt(value * (1 - value) / apart))
    middle, reach = np.log(value / (1 - value)), normal_quantile(confidence) * spread / (value * (1 - value))
    lower, upper = (float(1 / (1 + np.exp(-end))) for end in (middle - reach, middle + reach))
    return Interval(value, error, lower, upper)


def is_at_end(auc: float) -> bool:
    """Whether all pairs are in the right order, or all in the wrong one, up to the rounding of sums."""
    return min(auc, 1 - auc) < 1e-12


def _concordance(sums: Given, z: float) -> Interval | None:
    """The share of pairs c / p with the variance of its first-order change with each row, sum (c_i - share p_i)^2.

    The interval is normal for the logarithm of the odds, so that it stays between 0 and 1.
    """
    pairs = float(sums["comparable"])
    if not pairs:
        return None
    share = float(sums["concordant"]) / pairs
    squares = [float(sums[name]) for name in ("concordant_squares", "concordant_comparable", "comparable_squares")]
    spread = squares[0] - 2 * share * squares[1] + share**2 * squares[2]
    error = float(np.sqrt(max(spread, 0.0))) / pairs
    if not 0 < share < 1:
        return Interval(share, error, 0.0, 1.0)
    odds, half = np.log(share / (1 - share)), z * error / (share * (1 - share))
    lower, upper = (float(1 / (1 + np.exp(-end))) for end in (odds - half, odds + half))
    return Interval(share, error, lower, upper)


def _shares_below(some: Reals, others: Reals) -> Reals:
    """For each of some, the share of others below it, ties counted half."""
    ordered = np.sort(others)
    below, up_to = (np.searchsorted(ordered, some, side) for side in ("left", "right"))
    return (below + up_to) / (2 * len(others))


def _variance_of_mean(values: Reals) -> float:
    """The variance of the mean of some shares, each of variance at most 1/4."""
    return float(values.var(ddof=1) / len(values)) if len(values) > 1 else 1 / 4

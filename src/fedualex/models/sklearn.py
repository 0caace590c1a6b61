"""A model as a pipeline of scikit-learn."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Reals, Values
from ..data.columns import require_package
from .model import Model

NOTHING = ("", None, np.nan)
"""What stands in a column of text where a value is missing."""


def pipeline(model: Model) -> Any:
    """Imputation, scaling, columns of holes and one-hot columns, then a linear estimator.

    Its parts are fitted to one row of means and to the known categories, and then hold the model's numbers. Here every
    category has a column: a row that is in none of the known ones is then one of zeros, and the intercept is its score.
    """
    if model.encoder.curves or model.encoder.products:
        raise ValueError("to_sklearn() is for models without smooth columns and interactions, which this one has")
    why = "to_sklearn()"
    compose = require_package("sklearn.compose", "scikit-learn", "estimators", why)
    steps = require_package("sklearn.pipeline", "scikit-learn", "estimators", why)
    encoder = model.encoder
    width, gone = len(encoder.numbers), _missing_numbers(model)
    parts = [("numbers", _numbers(), list(range(width)))] if width else []
    parts += [("missing numbers", _holes(), gone)] if gone else []
    words = [_values(model, name) for name in encoder.categories]
    parts += [(name, _words(words[i]), [width + i]) for i, name in enumerate(encoder.categories)]
    encode = compose.ColumnTransformer(parts)
    row = np.empty((1, len(model.columns)), object)
    if encoder.standardizer is not None:
        row[0, :width] = encoder.standardizer.mean
    row[0, width:] = [values[0] if len(values) else "" for values in words]
    encode.fit(row)
    encode.feature_names_in_ = np.array(model.columns, object)  # a data frame in another order is refused
    if encoder.standardizer is not None:
        scaler = encode.named_transformers_["numbers"][-1]
        scaler.scale_ = np.where(encoder.standardizer.deviation > 0, encoder.standardizer.deviation, 1.0)
        scaler.var_ = scaler.scale_**2
    return steps.Pipeline([("encode", encode), ("model", _estimator(model))])


def _missing_numbers(model: Model) -> list[int]:
    """The places of the columns of numbers whose holes have an indicator."""
    said = {name for group in model.encoder.indicators for name in group}
    return [i for i, name in enumerate(model.encoder.numbers) if name in said]


def _values(model: Model, name: str) -> Values:
    """What a column of categories can hold, in the order of scikit-learn's columns: numbers where all are codes."""
    levels = model.encoder.categories[name]
    said = any(name in group for group in model.encoder.indicators)
    if levels and _are_numbers(model, name):
        return np.array([*sorted(map(float, levels)), *[np.nan] * said])
    return np.array([*levels, *(NOTHING if said else ())], object)


def _are_numbers(model: Model, name: str) -> bool:
    try:
        return name in model.encoder.codes and len(list(map(float, model.encoder.categories[name]))) > 0
    except ValueError:
        return False


def _numbers() -> Any:
    steps = require_package("sklearn.pipeline", "scikit-learn", "estimators", "to_sklearn()")
    impute = require_package("sklearn.impute", "scikit-learn", "estimators", "to_sklearn()")
    scaling = require_package("sklearn.preprocessing", "scikit-learn", "estimators", "to_sklearn()")
    return steps.make_pipeline(_plain(), impute.SimpleImputer(), scaling.StandardScaler())


def _holes() -> Any:
    steps = require_package("sklearn.pipeline", "scikit-learn", "estimators", "to_sklearn()")
    impute = require_package("sklearn.impute", "scikit-learn", "estimators", "to_sklearn()")
    return steps.make_pipeline(_plain(dtype=float), impute.MissingIndicator(features="all"))


def _words(values: Values) -> Any:
    steps = require_package("sklearn.pipeline", "scikit-learn", "estimators", "to_sklearn()")
    scaling = require_package("sklearn.preprocessing", "scikit-learn", "estimators", "to_sklearn()")
    one = scaling.OneHotEncoder(categories=[values], handle_unknown="ignore", sparse_output=False)
    return steps.make_pipeline(_plain(dtype=values.dtype.type), one)


def _plain(**kind: object) -> Any:
    """A data frame's names are checked once, by the whole."""
    scaling = require_package("sklearn.preprocessing", "scikit-learn", "estimators", "to_sklearn()")
    return scaling.FunctionTransformer(np.asarray, kw_args=kind)


def _estimator(model: Model) -> Any:
    """The estimator that the model's reading names, with the model's coefficients."""
    module, name = model.answers.reading.estimator
    estimator = getattr(require_package(module, "scikit-learn", "estimators", "to_sklearn()"), name)()
    answers, (weights, bias) = model.answers, _coefficients(model)
    if answers.reading.labelled:
        estimator.coef_ = np.atleast_2d(weights.T)
        estimator.intercept_ = np.atleast_1d(bias - answers.threshold)
        estimator.classes_ = answers.labels
    else:
        # Some classes make what `predict` needs in `fit` alone: to one row, which leaves nothing else behind.
        estimator.fit(np.zeros((1, len(weights))), answers.of(np.asarray(bias)[None]))
        estimator.coef_ = (answers.scale * weights).T
        estimator.intercept_ = answers.center + answers.scale * bias
    estimator.n_features_in_ = len(weights)
    return estimator


def _coefficients(model: Model) -> tuple[Reals, Reals]:
    """The weights of the pipeline's columns, and the bias: the score of missing numbers and of no category."""
    encoder, weights = model.encoder, np.array(model.weights)
    numbers = len(encoder.numbers)
    if encoder.standardizer is not None:  # the encoder makes constant columns 0, scikit-learn's scaler would not
        weights[:numbers][encoder.standardizer.deviation == 0] = 0
    of_holes = dict.fromkeys((*encoder.numbers, *encoder.categories), np.zeros(weights.shape[1:]))
    for group, weight in zip(encoder.indicators, weights[len(weights) - len(encoder.indicators) :], strict=True):
        of_holes |= {name: weight / len(group) for name in group}
    blocks = [weights[:numbers], *(of_holes[encoder.numbers[i]][None] for i in _missing_numbers(model))]
    bias, place = np.asarray(model.bias), numbers
    for name, levels in encoder.categories.items():
        others = [i for i, level in enumerate(levels) if level != encoder.references[name]]
        contrast = np.zeros((len(levels), *weights.shape[1:]))
        contrast[others] = weights[place : place + len(others)]
        mean, place = np.tensordot(np.array(encoder.shares[name]), contrast, 1), place + len(others)
        bias = bias + mean
        blocks.append(contrast[_order(model, name, levels)] - mean)
        blocks.append(np.tile(of_holes[name], (len(_values(model, name)) - len(levels), *[1] * (weights.ndim - 1))))
    return np.concatenate([block.reshape(-1, *weights.shape[1:]) for block in blocks]), bias


def _order(model: Model, name: str, levels: Sequence[str]) -> list[int]:
    """The places of the categories in the order of scikit-learn's columns."""
    by = (lambda i: float(levels[i])) if levels and _are_numbers(model, name) else (lambda i: i)
    return sorted(range(len(levels)), key=by)

"""A model as a pipeline of scikit-learn."""

from typing import Any

import numpy as np

from ..data.tables import required
from .model import Model


def pipeline(model: Model) -> Any:
    """Imputation, scaling and one-hot columns, then a linear estimator with this model's coefficients.

    Its parts are fitted to one row of means and to the known categories, and then hold the model's numbers.
    """
    why = "to_sklearn()"
    compose = required("sklearn.compose", "scikit-learn", "estimators", why)
    steps = required("sklearn.pipeline", "scikit-learn", "estimators", why)
    encoder, categories = model.encoder, model.encoder.categories
    width = len(encoder.numbers)
    parts = [("numbers", _numbers(model), list(range(width)))] if width else []
    parts += [(name, _words(known), [width + i]) for i, (name, known) in enumerate(categories.items())]
    encode = compose.ColumnTransformer(parts)
    row = np.empty((1, len(model.columns)), object)
    if encoder.standardizer is not None:
        row[0, :width] = encoder.standardizer.mean
    row[0, width:] = [known[0] if known else "" for known in categories.values()]
    encode.fit(row)
    encode.feature_names_in_ = np.array(model.columns, object)  # a data frame in another order is refused
    if encoder.standardizer is not None:
        scaler = encode.named_transformers_["numbers"][-1]
        scaler.scale_ = np.where(encoder.standardizer.deviation > 0, encoder.standardizer.deviation, 1.0)
        scaler.var_ = scaler.scale_**2
    return steps.Pipeline([("encode", encode), ("model", _estimator(model))])


def _numbers(model: Model) -> Any:
    steps = required("sklearn.pipeline", "scikit-learn", "estimators", "to_sklearn()")
    impute = required("sklearn.impute", "scikit-learn", "estimators", "to_sklearn()")
    scaling = required("sklearn.preprocessing", "scikit-learn", "estimators", "to_sklearn()")
    plain = scaling.FunctionTransformer(np.asarray)  # a data frame's names are checked once, by the whole
    return steps.make_pipeline(plain, impute.SimpleImputer(), scaling.StandardScaler())


def _words(known: tuple[str, ...]) -> Any:
    steps = required("sklearn.pipeline", "scikit-learn", "estimators", "to_sklearn()")
    scaling = required("sklearn.preprocessing", "scikit-learn", "estimators", "to_sklearn()")
    one = scaling.OneHotEncoder(categories=[np.array(known, object)], handle_unknown="ignore", sparse_output=False)
    return steps.make_pipeline(scaling.FunctionTransformer(np.asarray), one)


def _estimator(model: Model) -> Any:
    """The estimator that the model's reading names, with the model's coefficients."""
    module, name = model.answers.reading.estimator
    estimator = getattr(required(module, "scikit-learn", "estimators", "to_sklearn()"), name)()
    answers, weights = model.answers, _without_constants(model)
    if answers.reading.labelled:
        estimator.coef_ = np.atleast_2d(weights.T)
        estimator.intercept_ = np.atleast_1d(model.bias - answers.threshold)
        estimator.classes_ = answers.labels
    else:
        # Some classes make what `predict` needs in `fit` alone: to one row, which leaves nothing else behind.
        estimator.fit(np.zeros((1, len(weights))), answers.of(np.asarray(model.bias)[None]))
        estimator.coef_ = (answers.scale * weights).T
        estimator.intercept_ = answers.center + answers.scale * model.bias
    estimator.n_features_in_ = len(weights)
    return estimator


def _without_constants(model: Model) -> Any:
    """The weights, 0 for columns that were constant: the encoder makes them 0, scikit-learn's scaler would not."""
    weights = np.array(model.weights)
    if model.encoder.standardizer is not None:
        weights[: len(model.encoder.numbers)][model.encoder.standardizer.deviation == 0] = 0
    return weights

"""Estimators on raw tables, for comparisons, `lupi fit`, `lupi predict` and Python users."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from inspect import signature
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import accuracy_score, r2_score
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from lupi.inputs.decorators import available_if
from lupi.inputs.tables import is_frame
from lupi.inputs.training_set import refuse_masked
from lupi.inputs.types import MatrixLike, VectorLike
from lupi.privacy import WithoutPrivilegedRows, model_part
from lupi.surrogate.surrogate import SurrogateClassifier, SurrogateRegressor
from lupi.svm.paths import fit_path
from lupi.tabular.table import KNOWN_WORDS, MAX_COMPONENTS, MAX_LEVELS, OddCells, Table, as_pandas, expand

# A target of numbers with more values than this is a quantity, unless an estimator or a metric says otherwise.
MAX_CLASSES = 20
# Most terms (words and pairs of words) of a column of free text, and fewest training rows per component.
MAX_TERMS, COMPONENT_ROWS = 3000, 2


def tabular_model(estimator: Any = None, privileged: str | Sequence[str] = ()) -> TabularModel:
    """Make an estimator that fits and predicts raw data frames: numbers, words, dates, free text and gaps.

    Column kinds, date formats, medians, scales, frequent words and the terms of free text are learned in `fit` and saved
    with the model, so every later table is read the same way. Nothing of the privileged columns is kept but their names.

    Parameters
    ----------
    estimator : estimator, optional
        Estimator for the encoded features; without `privileged` in its `fit` it gets the other columns alone. By default
        :class:`~lupi.SurrogateRegressor` for a target of numbers, :class:`~lupi.SurrogateClassifier` otherwise.
    privileged : str or sequence of str, default=()
        Columns of the data frame given to `fit` that do not exist at prediction time; wildcards are allowed.

    Returns
    -------
    TabularModel
        Unfitted scikit-learn estimator.

    Examples
    --------
    >>> import lupi
    >>> from lupi.datasets import load_young_men
    >>> men = load_young_men(fill_gaps=False, as_frame=True)
    >>> table = men.frame.drop(columns="target")
    >>> model = lupi.tabular_model(lupi.SurrogateClassifier("ridge"), privileged=men.privileged_names)
    >>> model.fit(table, men.target).predict(men.data.head(3)).shape
    (3,)
    """
    return TabularModel(estimator, privileged)


@model_part
@dataclass(eq=False, repr=False)
class TableEncoder(BaseEstimator):
    """Encoder of a table: medians for gaps, standardized numbers, a feature for each frequent word, components of text.

    Free text gets the TF-IDF weights of words and pairs of words in two rows or more, reduced by a truncated SVD, with one
    scale for all components. Words that `fit` did not see, and gaps among words or texts, give zeros. Without `fill`, gaps
    among numbers stay NaN, for estimators that accept them; with `as_frame`, the result is a data frame, for estimators that
    know categories. With `keep_empty`, `fit` ignores rows without any value, and their features are NaN.
    """

    standardize: bool = True
    fill: bool = True
    as_frame: bool = False
    keep_empty: bool = False

    def fit(self, table, y=None):
        """Learn medians, means, scales and frequent words from the rows of a Table."""
        if self.keep_empty:
            table = table.take(np.flatnonzero(~table.empty_rows()))
        self.levels_ = {name: _frequent(table.frame[name]) for name in table.words}
        spaces = {name: _text_space(_cells(table, name)) for name in table.texts}
        self.texts_ = {name: space for name, space in spaces.items() if space is not None}
        numbers = table.frame[table.numbers]
        self.medians_ = np.nan_to_num(numbers.median().to_numpy(dtype=np.float64))
        numbers = np.where(numbers.isna(), self.medians_, numbers)
        means, spread = numbers.mean(axis=0), numbers.std(axis=0)
        varied = self.standardize & (spread > 1e-12 * np.abs(means))
        self.means_, self.scales_ = means * self.standardize, np.where(varied, spread, 1.0)
        blocks = self.levels_ | {name: axes for name, (_, axes) in self.texts_.items()}
        self.sources_ = [*table.numbers, *(name for name, block in blocks.items() for _ in block)]
        self.n_features_out_ = len(self.sources_)
        return self

    def transform(self, table):
        """Features of the rows of a Table: an array, or a data frame with `as_frame`."""
        words = {name: table.frame[name].cat.set_categories(levels) for name, levels in self.levels_.items()}
        texts = [terms.transform(_cells(table, name)) @ axes.T for name, (terms, axes) in self.texts_.items()]
        if self.as_frame:
            frame = table.frame.drop(columns=table.texts).assign(**words)
            names = [f"{name} {k + 1}" for name, (_, axes) in self.texts_.items() for k in range(len(axes))]
            block = pd.DataFrame(np.hstack([np.empty((len(frame), 0)), *texts]), frame.index, names)
            return pd.concat([frame, block], axis=1)
        numbers = table.frame[table.numbers].to_numpy()
        numbers = np.where(np.isnan(numbers), self.medians_, numbers) if self.fill else numbers
        # Gaps and rare words have code -1: zeros.
        one_hot = [np.eye(len(column.cat.categories) + 1)[column.cat.codes, :-1] for column in words.values()]
        features = np.hstack([(numbers - self.means_) / self.scales_, *one_hot, *texts])
        if self.keep_empty:
            features[table.empty_rows()] = np.nan
        return features

    def write(self, graph):
        """Name of the features in an ONNX graph, with an input for each column."""
        if self.texts_:
            name = next(iter(self.texts_))
            raise TypeError(f"the free text of the column {name!r} cannot be exported; leave it out, or use lupi.save.")
        parts, names = [], self.sources_[: len(self.means_)]
        if names:
            X = graph.op("Concat", *(graph.input(name, 1) for name in names), axis=1)
            X = graph.op("Where", graph.op("IsNaN", X), self.medians_, X) if self.fill else X
            parts.append(graph.scale(X, self.means_, self.scales_))
        for name, levels in self.levels_.items():
            word = graph.input(name, 1, np.object_)
            if levels:
                one_hot = graph.op("OneHotEncoder", word, domain="ai.onnx.ml", cats_strings=levels, zeros=1)
                parts.append(graph.cast(graph.op("Squeeze", one_hot, [1]), graph.dtype))
        return graph.op("Concat", *parts, axis=1)


def _frequent(column):
    """The most frequent words, ties by name, in alphabetical order."""
    codes, words = column.cat.codes.to_numpy(), column.cat.categories
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    ranked = np.argsort(-counts, kind="stable")[:MAX_LEVELS]
    return [str(words[k]) for k in np.sort(ranked) if counts[k]]


def _cells(table, name):
    """Texts of a column, empty for gaps."""
    column = table.frame[name].cat
    return np.array([*column.categories, ""], dtype=object)[column.codes]


def _text_space(texts):
    """Vectorizer of the terms that at least two rows have, and the leading singular vectors of its weights; None without terms."""
    terms = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2, max_features=MAX_TERMS)
    try:
        weights = terms.fit_transform(texts)
    except ValueError:  # no term is left
        return None
    # skops writes a file for each of NumPy's integers.
    terms.vocabulary_ = {term: int(k) for term, k in terms.vocabulary_.items()}
    k = min(MAX_COMPONENTS, weights.shape[1], max(1, len(texts) // COMPONENT_ROWS))
    axes = randomized_svd(weights, k, transpose=False, random_state=0)[2]
    # The component that varies most counts as much as a column of numbers; the others keep their sizes relative to it.
    return terms, axes / ((weights @ axes.T).std(axis=0).max() or 1.0)


def privileged_encoder(table, standardize=True):
    """Encoder fitted to a privileged Table; features are NaN throughout where a row has no value."""
    return TableEncoder(standardize, keep_empty=True).fit(table)


@model_part
@dataclass(eq=False, repr=False)
class TabularModel(WithoutPrivilegedRows, BaseEstimator):
    """Estimator on raw tables, as :func:`lupi.tabular_model` makes it.

    Parameters
    ----------
    estimator : estimator, optional
        Estimator for the encoded features and labels 0, 1, ... (numbers are standardized).
    privileged : str or sequence of str, default=()
        Privileged columns of the data frame given to `fit`, unless `fit` gets `privileged`.
    regression : bool, optional
        Whether the target is a number and not a label; by default as the estimator, or else the target, implies.
    standardize : bool, default=True
        Whether numeric columns are standardized.

    Attributes
    ----------
    estimator_ : estimator
        Fitted estimator.
    schema_ : Schema
        Kinds of the decision columns.
    encoder_ : TableEncoder
        Encoder of the decision columns.
    regression_ : bool
        Whether the target is a number.
    classes_ : ndarray
        Labels, unless `regression_`.
    """

    __metadata_request__fit = {"privileged": True, "groups": True}
    _needed = "schema_", "encoder_", "estimator_", "regression_", "target_mean_", "target_scale_", "info_"

    estimator: Any = None
    privileged: str | Sequence[str] = ()
    _: KW_ONLY
    regression: bool | None = None
    standardize: bool = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(SurrogateClassifier() if self.estimator is None else self.estimator)
        tags.estimator_type = "regressor" if self._is_regression() else "classifier"
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags.required = True
        tags.input_tags.allow_nan = tags.input_tags.string = True
        return tags

    def _is_regression(self, y=None):
        """Whether the target is a number: by `regression`, the estimator, or the target."""
        if self.regression is not None:
            return self.regression
        if self.estimator is not None:
            return is_regressor(self.estimator)
        if y is None:
            return getattr(self, "regression_", False)
        labels = plain_labels(y[~missing_targets(y)])
        return labels.dtype.kind == "f" or (labels.dtype.kind in "iu" and len(np.unique(labels)) > MAX_CLASSES)

    def fit(self, X: MatrixLike, y: VectorLike, privileged: Any = None, groups: VectorLike | None = None) -> Self:
        """Learn the schema and the encoder, and fit the estimator.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)
            Decision columns; with the parameter `privileged` also the privileged columns.
        y : array-like of shape (n_samples,)
            Target. Missing values (NaN, None) are unlabeled rows, for estimators that use them.
        privileged : data frame or array, optional
            Privileged columns. In a row without any value they are not available; other gaps are filled.
        groups : array-like of shape (n_samples,), optional
            Passed to estimators whose `fit` takes groups.

        Returns
        -------
        TabularModel
            This object.
        """
        if privileged is None and len(self.privileged):
            if not is_frame(X):
                raise TypeError("`privileged` names columns, so `X` must be a data frame that has them.")
            X = as_pandas(X)
            names = expand(self.privileged, list(X.columns), "privileged")
            X, privileged = X.drop(columns=names), X[names]
        (fitted,) = encode_and_fit(self, [{}], X, y, privileged, groups)
        if isinstance(fitted, ValueError):
            raise fitted
        for name, value in vars(fitted).items():
            if name.endswith("_"):
                setattr(self, name, value)
        return self

    @property
    def ranks(self) -> bool:
        """Whether the fitted estimator orders rows without a threshold between the classes."""
        check_is_fitted(self)
        return not self.regression_ and not hasattr(self.estimator_, "classes_")

    def parse(self, X, odd=None):
        """Table of the decision columns; unreadable cells and unknown words are counted in `odd`, or else reported."""
        check_is_fitted(self)
        counted = OddCells() if odd is None else odd
        table = self.schema_.parse(X, counted)
        for name, levels in self.encoder_.levels_.items():
            filled = table.frame[name].notna().to_numpy()
            counted.add(table.frame[name], KNOWN_WORDS, filled, filled & ~table.frame[name].isin(levels).to_numpy())
        if odd is None:
            counted.warn()
        return table

    def features_of(self, X):
        """Features of the rows as the fitted estimator gets them."""
        check_is_fitted(self)
        return self.encoder_.transform(X if isinstance(X, Table) else self.parse(X))

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Decision values of the rows, or else probabilities; further columns of a data frame are ignored.

        As in `predict`, columns with cells that count as gaps are named in a warning.
        """
        features = self.features_of(X)  # first: it raises for an unfitted model
        return scores_of(self.estimator_, features)

    @available_if(lambda self: hasattr(getattr(self, "estimator_", self.estimator), "predict_proba"))
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the classes, if the estimator gives them."""
        features = self.features_of(X)
        return self.estimator_.predict_proba(features)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predicted labels or numbers; scores of a ranker.

        Cells that cannot be read by the schema of training, and unknown words, count as gaps: a UserWarning gives each
        column with their number and an example. A column is an error if none of its filled cells can be read, or if more
        than one and more than 5% of them cannot. Words are unknown if they are new or were rare in training.
        """
        features = self.features_of(X)
        raw = self.estimator_.predict(features)
        if self.regression_:
            return raw * self.target_scale_ + self.target_mean_
        return raw if self.ranks else self.classes_[np.asarray(raw).astype(np.intp)]

    @available_if(lambda self: hasattr(getattr(self, "estimator_", self.estimator), "explain"))
    def explain(self) -> Any:
        """Report of a surrogate estimator: its evidence for a privileged column of words or text is the sum over the features."""
        check_is_fitted(self)
        report = self.estimator_.explain()
        if report.get("columns"):
            evidence = pd.Series(list(report["columns"].values())).groupby(self.privileged_sources_, sort=False)
            report["columns"] = evidence.sum().to_dict()
        return report

    def score(self, X: MatrixLike, y: VectorLike) -> float:
        """Accuracy of a classifier, R² of a regressor."""
        metric = r2_score if self.regression_ else accuracy_score
        return float(metric(np.asarray(y), self.predict(X)))


def scores_of(model, X):
    """Scores by which a fitted estimator orders rows: decision values, or else probabilities."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X))
    shares = np.asarray(model.predict_proba(X))
    return shares[:, 1] if shares.shape[1] == 2 else shares


def encode_and_fit(model, candidates, X, y, privileged=None, groups=None):
    """Encode once, then fit the estimator for each candidate (its parameters): a TabularModel or a ValueError for each.

    Every fit of a table goes through here.
    """
    shared, features, target = encode_training(model, X, y)
    extra = {}
    accepted = signature(shared.estimator.fit).parameters.values()
    if privileged is not None and any(p.name == "privileged" or p.kind is p.VAR_KEYWORD for p in accepted):
        table = Table.of(privileged)
        encoder = privileged_encoder(table, model.standardize)
        extra["privileged"], shared.privileged_sources_ = encoder.transform(table), encoder.sources_
    if groups is not None and has_fit_parameter(shared.estimator, "groups"):
        extra["groups"] = groups
    fitted = fit_path(shared.estimator, candidates, features, target, **extra)
    return [found if isinstance(found, ValueError) else with_estimator(shared, found) for found in fitted]


def encode_training(model, X, y):
    """A copy of an unfitted model with its schema and encoder, and the features and the target for its estimator."""
    refuse_masked(y, "`y`")
    table, y = Table.of(X), np.asarray(y)
    shared = clone(model)
    shared.schema_, shared.regression_ = table.schema, model._is_regression(y)
    if shared.estimator is None:
        shared.estimator = SurrogateRegressor() if shared.regression_ else SurrogateClassifier()
    as_frame = table.schema.named and takes_frames(shared.estimator)
    accepts_gaps = get_tags(shared.estimator).input_tags.allow_nan
    shared.encoder_ = TableEncoder(model.standardize, not accepts_gaps, as_frame).fit(table)
    features = shared.encoder_.transform(table)
    return shared, features, _encode_target(shared, y)


def refit_on_chunks(model, frame, target, privileged=None):
    """Fit the estimator of a model on all rows of a Dask data frame, encoded as the sample that the model was fitted on.

    `privileged` is the Table of the privileged columns of the sample.
    """
    import dask.array as da
    from dask.delayed import delayed

    def collect(parts, function, dtype, *width):
        blocks = [da.from_delayed(delayed(function)(part), (np.nan, *width), dtype) for part in parts.to_delayed()]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)

    def features(schema, encoder):
        def encode(part):
            return encoder.transform(schema.parse(part))

        return collect(frame[list(schema.columns)], encode, np.float64, encoder.n_features_out_)

    classes = model.classes_

    def codes(column):
        labels = plain_labels(column.to_numpy())
        found = pd.Index(classes).get_indexer(labels)
        if (found < 0).any():
            rare = labels[found < 0][0]
            raise ValueError(f"the target holds {rare!r}, a class that the sample has none of; leave these rows out.")
        return found

    tables = {"X": features(model.schema_, model.encoder_), "y": collect(frame[target], codes, np.int64)}
    if privileged is not None:
        encoder = privileged_encoder(privileged, model.standardize)
        tables["privileged"] = features(privileged.schema, encoder)
    model.estimator_ = clone(model.estimator).fit(**tables)
    return model


def takes_frames(estimator):
    """Whether an estimator (of a search: its estimator; of a pipeline: the first step) selects columns or knows words."""
    first = estimator
    while isinstance(first, Pipeline) or hasattr(first, "refit"):  # only searches have `refit`
        first = first.steps[0][1] if isinstance(first, Pipeline) else first.estimator
    tags = get_tags(first).input_tags
    by_type = getattr(first, "enable_categorical", getattr(first, "categorical_features", None) == "from_dtype")
    return tags.categorical or tags.string or bool(by_type) or isinstance(first, ColumnTransformer)


def with_estimator(shared, estimator):
    """The model with this fitted estimator."""
    model = copy(shared)
    model.estimator, model.estimator_ = clone(estimator), estimator
    return model


def _encode_target(model, y):
    """Standardized numbers, or positions of the labels among the classes; NaN for unlabeled rows."""
    missing = missing_targets(y)
    target = np.full(len(y), np.nan)
    if model.regression_:
        known = y[~missing].astype(np.float64)
        model.target_mean_, model.target_scale_ = float(known.mean()), float(known.std()) or 1.0
        target[~missing] = (known - model.target_mean_) / model.target_scale_
        return target
    model.classes_, codes = np.unique(plain_labels(y[~missing]), return_inverse=True)
    target[~missing] = codes
    return target if missing.any() else codes


def missing_targets(y):
    """Mask of the unlabeled rows: NaN, None, pandas' NA."""
    return np.asarray(pd.isna(np.asarray(y)))


def plain_labels(known):
    """Labels that can be sorted: whole numbers as integers, though gaps in their column made them floats; else text."""
    if known.dtype.kind == "O":
        known = np.array(known.tolist())
    if known.dtype.kind == "f" and np.array_equal(known, np.round(known)):
        return known.astype(np.int64)
    return known.astype(str) if known.dtype.kind == "O" else known

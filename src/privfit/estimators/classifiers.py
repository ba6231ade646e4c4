"""Classifiers."""

from collections.abc import Sequence
from typing import Any, Self, final

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from privfit._checks import FloatArray
from privfit.data.declarations import Level
from privfit.data.response import standard_labels
from privfit.data.schema import Schema
from privfit.data.stream import RowStream
from privfit.errors import LabelError
from privfit.estimators.base import AbstractPrivateRegressor
from privfit.estimators.models import Model, logistic_regression
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import Ledger


@final
class LogisticRegression(ClassifierMixin, AbstractPrivateRegressor):
    """Differentially private logistic regression with standard errors.

    Parameters
    ----------
    epsilon, delta : float
        The budget: replacing any one row changes the probability of any result by a factor of at most
        ``exp(epsilon)``, except with probability ``delta``.
    budget : Budget, optional
        A budget in another notion, in place of ``epsilon`` and ``delta``.
    schema : Schema, optional
        Public bounds and levels of the columns. Without it, features are assumed to be numbers on a unit
        scale, and rows far out are weighted down; nothing is learned from the data.
    solver : str or AbstractSolver
        ``"auto"``, or see `privfit.solvers`.
    fit_intercept : bool
        Whether to add the constant column.
    l2 : float
        Ridge weight on encoded coefficients, the intercept excepted.
    relation : {"replace", "add_remove"}
        Which tables are neighbours; ``add_remove`` keeps the number of rows private and needs ``n_rows``.
    inference : bool
        Whether to spend about a quarter of the squared budget on standard errors.
    norm_bound : float, optional
        Without a schema: norm of a row (constant included) beyond which it is weighted down.
    classes : pair of labels, optional
        [negative, positive]. 0/1, -1/1 and booleans need no declaration; a schema declares its own.
    n_rows : int, optional
        Public number of rows under ``add_remove``.
    ledger, dataset : optional
        A `Ledger` (or its path) in which the spend is reserved before a row is used, and the data set's
        name in it.
    random_state : None, int, RandomState or Generator
        Leave it None: a seed makes the noise predictable, and the result is then marked *not private*.

    Attributes
    ----------
    coef_ : array of shape (1, n_columns)
        Coefficients in the units of the raw columns, one for each indicator of a categorical column.
    intercept_ : array of shape (1,)
    classes_ : array of shape (2,)
    result_ : FitResult
        Summary, standard errors, intervals, tests, and the guarantee.
    n_features_in_ : int
    feature_names_in_ : array, where the input has names

    Notes
    -----
    *Guarantee.* The fitted attributes together satisfy the budget under the relation, for one row.
    Predictions are functions of them.

    Examples
    --------
    >>> import numpy as np, privfit as pf
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = pf.LogisticRegression(epsilon=2.0, random_state=1).fit(X, y)
    >>> model.result_.private
    False
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        budget: Budget | None = None,
        schema: Schema | None = None,
        solver: object = "auto",
        fit_intercept: bool = True,
        l2: float = 0.0,
        relation: str = "replace",
        inference: bool = True,
        norm_bound: float | None = None,
        classes: Sequence[Level] | None = None,
        n_rows: int | None = None,
        ledger: Ledger | str | None = None,
        dataset: str | None = None,
        random_state: object = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.budget = budget
        self.schema = schema
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.relation = relation
        self.inference = inference
        self.norm_bound = norm_bound
        self.classes = classes
        self.n_rows = n_rows
        self.ledger = ledger
        self.dataset = dataset
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Return the tags: binary only, and accuracy is not promised on tiny tables."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags

    def _model(self) -> Model:
        return logistic_regression()

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n, k), frame, path, or RowStream
            Rows. With a schema: a frame, a mapping of columns, or a CSV or Parquet file. A stream holds the
            labels, too.
        y : array-like of shape (n,) or str, optional
            Labels. With a schema it may be the name of a column of ``X``, or be left out where the
            schema marks the target.

        Returns
        -------
        LogisticRegression

        Raises
        ------
        PrivfitError
            A named subclass, in one line, before any budget is spent.
        """
        classes = self._stream_classes() if isinstance(X, RowStream) else self._declared_classes(y)
        self._fit(X, y, classes)
        self.coef_, self.intercept_ = self.coef_.reshape(1, -1), np.array([self.intercept_])
        labels = self._encoder.design.target.labels
        self.classes_ = np.array(classes if classes is not None else labels)
        return self

    def _stream_classes(self) -> Sequence[Level] | None:
        """Return the labels of a stream, which are public: declared, or else 0 and 1."""
        if self.schema is not None:
            return None
        return (0, 1) if self.classes is None else tuple(self.classes)

    def _declared_classes(self, y: Any) -> Sequence[Level] | None:
        """Return the labels behind 0 and 1 of a fit without a schema; None with one."""
        if self.schema is not None:
            return None
        if y is None:
            raise ValueError("y is needed: this estimator requires y to be passed, but the target y is None")
        if self.classes is not None:
            return tuple(self.classes)
        with np.errstate(invalid="ignore"):
            check_classification_targets(y)
            kind = type_of_target(y)
        if kind == "multiclass":
            raise LabelError("Only binary classification is supported. The type of the target is multiclass.")
        response = np.asarray(y).ravel()
        if response.dtype.kind in "OUS":
            raise LabelError("y has labels other than 0/1, -1/1 and true/false; declare them with classes=")
        if response.dtype.kind == "b":
            return (False, True)
        return standard_labels(response)

    def decision_function(self, X: Any) -> FloatArray:
        """Return the log-odds of the positive class, shape (n,)."""
        return self._linear_predictor(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of both classes, shape (n, 2)."""
        positive = expit(self._linear_predictor(X))
        return np.column_stack([1.0 - positive, positive])

    def predict(self, X: Any) -> np.ndarray:
        """Return the more probable class of each row, shape (n,)."""
        positive = (self._linear_predictor(X) > 0).astype(int)
        return self.classes_[positive]

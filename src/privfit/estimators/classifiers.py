"""Classifiers."""

from collections.abc import Sequence
from typing import Any, Self, final

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin

from privfit._checks import FloatArray, one_of
from privfit._sealed import sealed
from privfit.data.declarations import Level
from privfit.data.schema import Schema
from privfit.errors import Incompatible
from privfit.estimators.base import AbstractPrivateRegressor
from privfit.estimators.labels import declared_classes
from privfit.estimators.models import Model, logistic_regression, support_vector_machine
from privfit.losses import AbstractLoss, Hinge, SmoothedHinge
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import Ledger

_LOSSES = {"smoothed_hinge": SmoothedHinge(), "hinge": Hinge()}


class AbstractBinaryClassifier(ClassifierMixin, AbstractPrivateRegressor):
    """Fitting and prediction of a linear model of two classes."""

    classes: Sequence[Level] | None
    classes_: np.ndarray

    def __sklearn_tags__(self) -> Any:
        """Return the tags: binary only, and accuracy is not promised on tiny tables."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags

    @sealed
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
        the estimator

        Raises
        ------
        PrivfitError
            A named subclass, in one line, before any budget is spent.
        """
        classes = None if self.schema is not None else declared_classes(X, y, self.classes)
        self._fit(X, y, classes)
        self.coef_, self.intercept_ = self.coef_.reshape(1, -1), np.array([self.intercept_])
        labels = self._encoder.design.target.labels
        self.classes_ = np.array(classes if classes is not None else labels)
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """Return the linear predictor, positive where the second class is predicted, shape (n,)."""
        return self._linear_predictor(X)

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted class of each row, shape (n,)."""
        positive = (self._linear_predictor(X) > 0).astype(int)
        return self.classes_[positive]


@final
class LogisticRegression(AbstractBinaryClassifier):
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

    def _model(self) -> Model:
        return logistic_regression()

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of both classes, shape (n, 2)."""
        positive = expit(self._linear_predictor(X))
        return np.column_stack([1.0 - positive, positive])


@final
class LinearSVC(AbstractBinaryClassifier):
    """Differentially private linear support vector machine with standard errors.

    By default with the smoothed hinge loss. It gives no probabilities: use `LogisticRegression` for them.

    Parameters
    ----------
    loss : {"smoothed_hinge", "hinge"} or AbstractLoss
        ``"smoothed_hinge"`` is `SmoothedHinge` of width 1. ``"hinge"`` has a kink, so that only solvers that
        allow one, and ``inference=False``, go with it. Or any loss of a binary response.
    epsilon, delta, budget, schema, solver, fit_intercept, l2, relation, inference, norm_bound, classes, \
n_rows, ledger, dataset, random_state
        As in `LogisticRegression`. ``l2`` stands where scikit-learn has ``1 / (C * n)``.

    Attributes
    ----------
    coef_ : array of shape (1, n_columns)
    intercept_ : array of shape (1,)
    classes_ : array of shape (2,)
    result_ : FitResult
        Standard errors and intervals are those of the minimiser of the expected loss.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        loss: str | AbstractLoss = "smoothed_hinge",
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
        self.loss = loss
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

    def _model(self) -> Model:
        loss = self.loss
        if not isinstance(loss, AbstractLoss):
            return support_vector_machine(_LOSSES[one_of(tuple(_LOSSES), loss=loss)])
        if loss.target_kind != "binary":
            raise Incompatible(f"loss: {loss.name} is for a {loss.target_kind} response; see MEstimator")
        return support_vector_machine(loss)

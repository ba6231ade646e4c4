"""Classifiers."""

from collections.abc import Sequence, Sized
from typing import Any, final

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin

from privfit._checks import FloatArray, one_of
from privfit._sealed import sealed
from privfit.data.declarations import Level
from privfit.data.schema import SchemaLike
from privfit.errors import Incompatible
from privfit.estimators.base import AbstractPrivateRegressor
from privfit.estimators.class_order import accuracy, of_sorted_classes, sorted_classes
from privfit.estimators.labels import declared_classes
from privfit.estimators.models import Model, logistic_regression, support_vector_machine
from privfit.inference.infer import BudgetSplit
from privfit.losses import AbstractLoss, Hinge, Multinomial, SmoothedHinge
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import LedgerOrPath

_LOSSES = {"smoothed_hinge": SmoothedHinge(), "hinge": Hinge()}


class AbstractLinearClassifier(ClassifierMixin, AbstractPrivateRegressor):
    """Fitting and prediction of a linear model of classes: two, or more where the model takes them."""

    classes: Sequence[Level] | None
    classes_: np.ndarray

    def __sklearn_tags__(self) -> Any:
        """Return the tags: accuracy is not promised on tiny tables, and only declared classes are many."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._takes_many()
        tags.classifier_tags.poor_score = True
        return tags

    def _takes_many(self) -> bool:
        """Return whether a response with more than two classes can be fitted as declared."""
        return False

    def _declared_classes(self, X: Any, y: Any) -> Sequence[Level]:
        return declared_classes(X, y, self.classes)

    @property
    def _many(self) -> bool:
        return self._encoder.design.target.kind == "class"

    def _set_coefficients(self, reported: FloatArray) -> None:
        """Set a row of coefficients for two classes; for more, a row each, which add up to 0."""
        self.classes_ = sorted_classes(self._encoder.design.target)
        rows = reported.reshape(-1, len(self._encoder.design.columns))
        if self._many:
            rows = np.vstack([np.zeros(rows.shape[1]), rows])
            rows = rows - rows.mean(axis=0)
        rows = of_sorted_classes(self._encoder.design.target, rows, axis=0)
        self.intercept_ = rows[:, 0] if self.fit_intercept else np.zeros(len(rows))
        self.coef_ = rows[:, 1:] if self.fit_intercept else rows

    def _linear_predictor(self, X: Any) -> FloatArray:
        """Return the linear predictor, shape (n,), or one for every class, shape (n, K); they add up to 0."""
        encoded = self._encoded(X)
        if self._many:
            contrasts = Multinomial(self.coef_.shape[0]).contrasts
            predictor = encoded @ self._theta.reshape(contrasts.shape[1], -1).T @ contrasts.T
        else:
            predictor = encoded @ self._theta
        return of_sorted_classes(self._encoder.design.target, predictor, axis=-1)

    @sealed
    def decision_function(self, X: Any) -> FloatArray:
        """Return the linear predictor, positive where ``classes_[1]`` is predicted, shape (n,).

        With more than two classes: one for every class, shape (n, K), the largest where it is predicted.
        """
        return self._linear_predictor(X)

    @sealed
    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted class of each row, shape (n,)."""
        predictor = self._linear_predictor(X)
        return self.classes_[np.argmax(predictor, axis=1) if self._many else (predictor > 0).astype(int)]

    @sealed
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy, not private: a function of these rows and labels, read as in a fit."""
        return accuracy(self.classes_, self._labels(X, y), self.predict(X), sample_weight)


@final
class LogisticRegression(AbstractLinearClassifier):
    """Differentially private logistic regression with standard errors, of two classes or more.

    With more than two declared classes the model is the multinomial one, fitted jointly: all classes share
    one sensitivity and one budget.

    Parameters
    ----------
    epsilon, delta : float
        The budget: replacing any one row changes the probability of any result by a factor of at most
        ``exp(epsilon)``, except with probability ``delta``.
    budget : Budget, optional
        A budget in another notion, in place of ``epsilon`` and ``delta``.
    schema : Schema, mapping or path, optional
        Public bounds and levels of the columns, or the TOML file that declares them. Without it, features
        are assumed to be numbers on a unit scale, and rows far out are weighted down; nothing is learned
        from the data.
    solver : str or AbstractSolver
        ``"auto"``, or see `privfit.solvers`.
    fit_intercept : bool
        Whether to add the constant column.
    l2 : float
        Ridge weight on encoded coefficients, the intercept excepted.
    relation : {"replace", "add_remove"}
        Which tables are neighbours; ``add_remove`` keeps the number of rows private and needs ``n_rows``.
    inference : bool or BudgetSplit
        Whether to spend 10 to 43 % of the squared budget on standard errors; a split says with what parts.
    norm_bound : float, optional
        Without a schema: norm of a row (constant included) beyond which it is weighted down. Default: what
        the solver chooses from the number of columns, ``"newton"`` and ``"gradient-descent"`` also from the
        budget and the (public) number of rows.
    scale : {"private"}, optional
        Learn the bounds of columns first, with differential privacy: all of them without a schema, a numeric
        response among them; with one, those of numeric columns that lack ``lower`` or ``upper``. Values
        beyond them are clamped. The looks are part of ``result_``; a ledger has two entries.
    scale_share : float
        Part of the squared budget (of a pure one, as for two releases) for that.
    classes : sequence of labels, optional
        [negative, positive] of ``result_``, or three labels or more, its reference class first; all text,
        all numbers or all true/false. They are public and never read off the data. 0/1, -1/1 and booleans
        need no declaration; where a schema declares them, as the levels of the target, leave it out.
    n_rows : int, optional
        Public number of rows, or of values of ``unit``, under ``add_remove``.
    unit : str, optional
        Column that identifies a person, where one has several rows: all of them are then protected
        together. By default the one that the schema marks, or every row for itself. Without a schema, give
        ``fit(X, y, groups=...)``.
    rows_per_unit : int, default 1
        Rows of a person up to which all rows count alike; those of one with more share what this many
        count. With 1 every person counts alike.
    weights : str, optional
        Column of survey weights; its declared upper bound is the largest weight that counts in full. By
        default the one that the schema marks, or none.
    weight_bound : float, optional
        Public bound on the weights that ``fit(X, y, sample_weight=...)`` is given; larger ones are cut to it.
    ledger, dataset : optional
        A `Ledger` (or its path) in which the spend is reserved before a row is used, and the data set's
        name in it.
    random_state : None, int, RandomState or Generator
        Leave it None: a seed makes the noise predictable, and the result is then marked *not private*.

    Attributes
    ----------
    coef_ : array of shape (1, n_columns), or (K, n_columns) for K > 2 classes
        Coefficients in the units of the raw columns, one for each indicator of a categorical column: those
        of the odds of ``classes_[1]``, or a row for each of ``classes_``; K rows add up to 0, as in
        scikit-learn.
    intercept_ : array of shape (1,) or (K,)
    classes_ : array of shape (K,)
        Sorted, as scikit-learn has them, in whatever order they were declared.
    result_ : FitResult
        Summary, standard errors, intervals, tests, and the guarantee. Here the classes have their declared
        order. Two: coefficients are those of the odds of the second. More: they are named ``class: column``
        and are differences from the first class, as in statsmodels' ``MNLogit``.
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
        schema: SchemaLike | None = None,
        solver: object = "auto",
        fit_intercept: bool = True,
        l2: float = 0.0,
        relation: str = "replace",
        inference: bool | BudgetSplit = True,
        norm_bound: float | None = None,
        scale: str | None = None,
        scale_share: float = 0.1,
        classes: Sequence[Level] | None = None,
        n_rows: int | None = None,
        unit: str | None = None,
        rows_per_unit: int = 1,
        weights: str | None = None,
        weight_bound: float | None = None,
        ledger: LedgerOrPath | None = None,
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
        self.scale = scale
        self.scale_share = scale_share
        self.classes = classes
        self.n_rows = n_rows
        self.unit = unit
        self.rows_per_unit = rows_per_unit
        self.weights = weights
        self.weight_bound = weight_bound
        self.ledger = ledger
        self.dataset = dataset
        self.random_state = random_state

    def _model(self) -> Model:
        return logistic_regression()

    def _takes_many(self) -> bool:
        return self.schema is not None or (isinstance(self.classes, Sized) and len(self.classes) > 2)

    @sealed
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the classes, in the order of ``classes_``, shape (n, K)."""
        predictor = self._linear_predictor(X)
        if self._many:
            return softmax(predictor, axis=1)
        return np.column_stack([expit(-predictor), expit(predictor)])

    @sealed
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithms of the probabilities of the classes, finite far out, too, shape (n, K)."""
        predictor = self._linear_predictor(X)
        if self._many:
            return log_softmax(predictor, axis=1)
        return np.column_stack([log_expit(-predictor), log_expit(predictor)])


@final
class LinearSVC(AbstractLinearClassifier):
    """Differentially private linear support vector machine with standard errors.

    By default with the smoothed hinge loss. It gives no probabilities: use `LogisticRegression` for them.

    Parameters
    ----------
    loss : {"smoothed_hinge", "hinge"} or AbstractLoss
        ``"smoothed_hinge"`` is `SmoothedHinge` of width 1. ``"hinge"`` has a kink, so that only solvers that
        allow one, and ``inference=False``, go with it. Or any loss of a binary response.
    epsilon, delta, budget, schema, solver, fit_intercept, l2, relation, inference, norm_bound, scale, \
scale_share, classes, n_rows, unit, rows_per_unit, weights, weight_bound, ledger, dataset, random_state
        As in `LogisticRegression`. ``l2`` stands where scikit-learn has ``1 / (C * n)``.

    Attributes
    ----------
    coef_ : array of shape (1, n_columns)
        Positive where a column speaks for ``classes_[1]``.
    intercept_ : array of shape (1,)
    classes_ : array of shape (2,)
        Sorted; ``result_`` has them in the declared order, as in `LogisticRegression`.
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
        schema: SchemaLike | None = None,
        solver: object = "auto",
        fit_intercept: bool = True,
        l2: float = 0.0,
        relation: str = "replace",
        inference: bool | BudgetSplit = True,
        norm_bound: float | None = None,
        scale: str | None = None,
        scale_share: float = 0.1,
        classes: Sequence[Level] | None = None,
        n_rows: int | None = None,
        unit: str | None = None,
        rows_per_unit: int = 1,
        weights: str | None = None,
        weight_bound: float | None = None,
        ledger: LedgerOrPath | None = None,
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
        self.scale = scale
        self.scale_share = scale_share
        self.classes = classes
        self.n_rows = n_rows
        self.unit = unit
        self.rows_per_unit = rows_per_unit
        self.weights = weights
        self.weight_bound = weight_bound
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

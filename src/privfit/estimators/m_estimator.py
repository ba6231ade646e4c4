"""M-estimation with any loss."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from privfit._checks import FloatArray
from privfit._sealed import sealed
from privfit.data.declarations import Level
from privfit.data.schema import SchemaLike
from privfit.errors import InvalidArgument
from privfit.estimators.base import AbstractPrivateRegressor
from privfit.estimators.class_order import accuracy, of_sorted_classes, sorted_classes
from privfit.estimators.counts import expected_count, exposures
from privfit.estimators.labels import declared_classes
from privfit.estimators.models import Model, m_estimation
from privfit.inference.infer import BudgetSplit
from privfit.losses import AbstractLoss
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import LedgerOrPath


@final
class MEstimator(AbstractPrivateRegressor):
    """Differentially private M-estimator of a linear model: any loss of the linear predictor.

    What it predicts follows from the response that the loss is for. Numeric: the response. Binary: a label,
    by the sign of ``decision_function``; it then is a classifier. Count: the exponential of the linear
    predictor.

    Parameters
    ----------
    loss : AbstractLoss
        From `privfit.losses`, with constants in units of the *encoded* response: a schema scales a numeric
        response to [-1, 1]. Your own functions: `privfit.losses.Custom`.
    count_bound : float, optional
        For a count without a schema: the largest that is taken as it is. Default: the loss's, if it has one.
    classes : pair of labels, optional
        For a binary response: [negative, positive], as in `LogisticRegression`.
    epsilon, delta, budget, schema, solver, fit_intercept, l2, relation, inference, norm_bound, scale, \
scale_share, n_rows, unit, rows_per_unit, weights, weight_bound, ledger, dataset, random_state
        As in `LogisticRegression`. Losses with kinks, or that are not convex, need ``inference=False`` and
        a solver for them; the error says which.

    Attributes
    ----------
    coef_ : array of shape (n_columns,), or (1, n_columns) for a binary response
    intercept_ : float, or array of shape (1,) for a binary response
    classes_ : array of shape (2,)
        For a binary response: sorted, while ``result_`` has the declared order.
    result_ : FitResult

    Examples
    --------
    >>> import numpy as np, privfit as pf
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> model = pf.MEstimator(loss=pf.losses.PseudoHuber(0.5), random_state=1).fit(X, X @ [1.0, -1.0])
    >>> model.coef_.round(1).tolist()
    [1.0, -1.0]
    """

    classes_: np.ndarray

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        loss: AbstractLoss | None = None,
        count_bound: float | None = None,
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
        self.count_bound = count_bound
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

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a binary classifier or of a regressor, as the loss says."""
        tags = super().__sklearn_tags__()
        if self._binary:
            tags.estimator_type, tags.classifier_tags = (
                "classifier",
                ClassifierTags(poor_score=True, multi_class=False),
            )
        else:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags(poor_score=True)
        return tags

    @property
    def _binary(self) -> bool:
        return isinstance(self.loss, AbstractLoss) and self.loss.target_kind == "binary"

    @property
    def _fitted_classes(self) -> bool:
        """Whether the response of the fit has classes, whatever the loss is set to now."""
        check_is_fitted(self, "result_")
        return self._encoder.design.target.labels is not None

    def _model(self) -> Model:
        if not isinstance(self.loss, AbstractLoss):
            raise InvalidArgument("loss is needed: one of privfit.losses, such as PseudoHuber(0.5)")
        kind = self.loss.target_kind
        for argument, of_kind in (("classes", "binary"), ("count_bound", "count")):
            if getattr(self, argument) is not None and kind != of_kind:
                raise InvalidArgument(
                    f"{argument} goes with the loss of a {of_kind} response, and {self.loss.name} is for a "
                    f"{kind} one; leave it out"
                )
        return m_estimation(self.loss)

    def _count_bound(self) -> float:
        declared = getattr(self.loss, "count_bound", None)
        return super()._count_bound() if self.count_bound is not None or declared is None else declared

    def _set_coefficients(self, reported: FloatArray) -> None:
        """Set a number and a vector, or an entry and a row where the response has classes."""
        super()._set_coefficients(reported)
        if self._fitted_classes:
            target = self._encoder.design.target
            self.classes_ = sorted_classes(target)
            self.coef_ = of_sorted_classes(target, self.coef_.reshape(1, -1), axis=0)
            self.intercept_ = of_sorted_classes(target, np.array([self.intercept_]), axis=0)

    def _linear_predictor(self, X: Any) -> FloatArray:
        """Return the linear predictor, that of ``classes_[1]`` where the response has classes, shape (n,)."""
        predictor = super()._linear_predictor(X)
        if not self._fitted_classes:
            return predictor
        return of_sorted_classes(self._encoder.design.target, predictor, axis=-1)

    def _declared_classes(self, X: Any, y: Any) -> Sequence[Level] | None:
        return declared_classes(X, y, self.classes) if self._binary else None

    @available_if(lambda self: self._fitted_classes if hasattr(self, "result_") else self._binary)
    @sealed
    def decision_function(self, X: Any) -> FloatArray:
        """Return the linear predictor, positive where ``classes_[1]`` is predicted, shape (n,).

        For losses of a binary response only.
        """
        return self._linear_predictor(X)

    @sealed
    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted response, label or count of each row, shape (n,)."""
        predictor, target = self._linear_predictor(X), self._encoder.design.target
        if self._fitted_classes:
            return self.classes_[(predictor > 0).astype(int)]
        if target.count_bound is not None:
            return expected_count(predictor, target)
        return target.center + target.half_width * predictor

    @sealed
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy for a binary response, and R squared for others, not private.

        Where counts have exposures, what is expected of them is over those of the rows of ``X``.

        Responses are read as in a fit: where they are given, within their declared bounds, and transformed
        as the schema says.
        """
        if self._fitted_classes:
            return accuracy(self.classes_, self._labels(X, y), self.predict(X), sample_weight)
        expected = self.predict(X) * exposures(self._encoder.design.target, X)
        return float(r2_score(self._responses(X, y), expected, sample_weight=sample_weight))

"""Regressors of a numeric response."""

from typing import Any, final

from sklearn.base import RegressorMixin

from privfit._checks import FloatArray, optional, positive, sized
from privfit._sealed import sealed
from privfit.data.schema import SchemaLike
from privfit.estimators.base import AbstractPrivateRegressor
from privfit.estimators.models import Model, huber_regression, linear_regression
from privfit.estimators.scales import residual_scale
from privfit.inference.infer import BudgetSplit
from privfit.losses.huber import GAUSSIAN_95
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import LedgerOrPath


class AbstractLinearRegressor(RegressorMixin, AbstractPrivateRegressor):
    """Fitting and prediction of a linear model of a numeric response."""

    def __sklearn_tags__(self) -> Any:
        """Return the tags: accuracy is not promised on tiny tables."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    @sealed
    def predict(self, X: Any) -> FloatArray:
        """Return predictions in the unit of the response (of its transform, if the schema has one)."""
        predictor = self._linear_predictor(X)
        target = self._encoder.design.target
        return target.center + target.half_width * predictor

    @sealed
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R squared, not private: a function of these rows and responses.

        Responses are read as in a fit: where they are given, within their declared bounds, and transformed
        as the schema says. Predictions are on that scale, too.
        """
        return float(super().score(X, self._responses(X, y), sample_weight))


@final
class LinearRegression(AbstractLinearRegressor):
    """Differentially private least squares with standard errors.

    Least squares has no bounded influence, so residuals beyond a public bound are clipped: the loss goes
    on linearly there. Where no residual is that large it is ordinary least squares.

    Parameters
    ----------
    residual_bound : float, optional
        In units of the response. Default: half the range that the schema declares, which the default method
        with inference lowers to what a private look at residuals shows, or 3 without a schema, where the
        response is assumed to be on a unit scale.
    epsilon, delta, budget, schema, solver, fit_intercept, l2, relation, inference, norm_bound, scale, \
scale_share, n_rows, unit, rows_per_unit, weights, weight_bound, ledger, dataset, random_state
        As in `LogisticRegression`.

    Attributes
    ----------
    coef_ : array of shape (n_columns,)
    intercept_ : float
    result_ : FitResult
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        residual_bound: float | None = None,
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
        self.residual_bound = residual_bound
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
        self.n_rows = n_rows
        self.unit = unit
        self.rows_per_unit = rows_per_unit
        self.weights = weights
        self.weight_bound = weight_bound
        self.ledger = ledger
        self.dataset = dataset
        self.random_state = random_state

    def _model(self) -> Model:
        return linear_regression(optional(positive, residual_bound=self.residual_bound))


@final
class HuberRegressor(AbstractLinearRegressor):
    """Differentially private robust linear regression (Huber) with standard errors.

    The residual scale is estimated along with the coefficients, unless a public one is given.

    Parameters
    ----------
    threshold : float
        Residuals beyond this many scales have bounded influence; 1.345 keeps 95 % efficiency under
        normal errors.
    scale : float or "private", optional
        Public residual scale, in units of the response; ``"private"`` as in `LogisticRegression`.
    epsilon, delta, budget, schema, solver, fit_intercept, l2, relation, inference, norm_bound, \
scale_share, n_rows, unit, rows_per_unit, weights, weight_bound, ledger, dataset, random_state
        As in `LogisticRegression`.

    Attributes
    ----------
    coef_ : array of shape (n_columns,)
    intercept_ : float
    scale_ : float
        Residual scale in units of the response.
    result_ : FitResult
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        threshold: float = GAUSSIAN_95,
        scale: float | str | None = None,
        budget: Budget | None = None,
        schema: SchemaLike | None = None,
        solver: object = "auto",
        fit_intercept: bool = True,
        l2: float = 0.0,
        relation: str = "replace",
        inference: bool | BudgetSplit = True,
        norm_bound: float | None = None,
        scale_share: float = 0.1,
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
        self.threshold = threshold
        self.scale = scale
        self.budget = budget
        self.schema = schema
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.relation = relation
        self.inference = inference
        self.norm_bound = norm_bound
        self.scale_share = scale_share
        self.n_rows = n_rows
        self.unit = unit
        self.rows_per_unit = rows_per_unit
        self.weights = weights
        self.weight_bound = weight_bound
        self.ledger = ledger
        self.dataset = dataset
        self.random_state = random_state

    def _model(self) -> Model:
        return huber_regression(sized(threshold=self.threshold), self._residual_scale())

    def _residual_scale(self) -> float | None:
        """Return the public residual scale, None for one that is estimated."""
        return residual_scale(self.scale)

    def _set_coefficients(self, reported: FloatArray) -> None:
        """Set the residual scale, too."""
        super()._set_coefficients(reported)
        given = self._residual_scale()
        scale = self.result_.scale if given is None else given
        assert scale is not None  # noqa: S101 -- it is estimated where none is given
        self.scale_ = float(scale)

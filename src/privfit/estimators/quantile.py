"""Quantile regression."""

from typing import final

from privfit._checks import in_range, optional, positive
from privfit.data.schema import SchemaLike
from privfit.estimators.models import Model, quantile_regression
from privfit.estimators.regressors import AbstractLinearRegressor
from privfit.inference.infer import BudgetSplit
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import LedgerOrPath


@final
class QuantileRegressor(AbstractLinearRegressor):
    """Differentially private quantile regression with standard errors.

    The check loss has a kink, which leaves no Hessian, so it is smoothed over a width. The minimiser of the
    smoothed loss differs from the quantile by a multiple of ``width**2``: nothing for the median of symmetric
    errors, and more for far quantiles. With a width that is given, estimate and interval are those of the
    smoothed loss. With one that is chosen from released looks they are for the quantile: the difference is
    estimated and taken away, and the interval is wider by what is not known of it.

    Parameters
    ----------
    quantile : float
        Which one, in (0, 1); 0.5 is the median.
    width : float, optional
        Half-width of the smoothing, in units of the response. Smaller is closer to the quantile and
        noisier. By default the default methods choose it from released looks at residuals, and say so in
        the title of the summary. With other methods, with a pure budget of few rows, and at most, it is 5 %
        of the range that the schema declares, or 0.4 without a schema, where the response is assumed to be
        on a unit scale. If the range is generous, give about a tenth of the residual spread there: a wide
        one turns a far quantile into another. Where the response lies on a coarse grid (counts of a few, a
        scale of five) and predictors explain a part of it, give half its spacing.
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
        quantile: float = 0.5,
        width: float | None = None,
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
        self.quantile = quantile
        self.width = width
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
        width = optional(positive, width=self.width)
        return quantile_regression(in_range(0.0, 1.0, closed="neither", quantile=self.quantile), width)

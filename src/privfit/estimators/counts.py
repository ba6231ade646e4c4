"""Regression of counts."""

from typing import Any, final

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from privfit._checks import FloatArray, in_range, optional
from privfit._sealed import sealed
from privfit.data.design import Target
from privfit.data.schema import SchemaLike
from privfit.data.tables import open_table
from privfit.errors import SchemaError
from privfit.estimators.models import Model, poisson_regression
from privfit.estimators.regressors import AbstractLinearRegressor
from privfit.inference.infer import BudgetSplit
from privfit.losses.poisson import LARGEST_PREDICTOR
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import LedgerOrPath


@final
class PoissonRegressor(AbstractLinearRegressor):
    """Differentially private Poisson regression of a count, with a log link and standard errors.

    Counts are moved into public bounds, and beyond a public size of the log mean the loss goes on linearly.
    Standard errors are right for counts of any variance. Noise grows with the bound on the count, so declare
    one that few counts exceed; the default solvers lower a generous one to what a look at the counts shows.

    Parameters
    ----------
    count_bound : float, optional
        Without a schema: the largest count that is taken as it is. A schema declares ``lower`` and
        ``upper`` of the response.
    predictor_bound : float, optional
        Largest log mean that is taken as it is. Default: the logarithm of the bound on the count
        and a quarter.
    exposure : str, optional
        With a schema: column of the exposures over which counts were gathered, with bounds. The mean of a
        count is then its exposure times ``exp`` of the linear predictor, and `predict` returns that of an
        exposure of 1.
    epsilon, delta, budget, schema, solver, fit_intercept, l2, relation, inference, norm_bound, scale, \
scale_share, n_rows, unit, rows_per_unit, weights, weight_bound, ledger, dataset, random_state
        As in `LogisticRegression`.

    Attributes
    ----------
    coef_ : array of shape (n_columns,)
        Changes of the log mean.
    intercept_ : float
    result_ : FitResult

    Notes
    -----
    ``score`` is R squared as for other regressors, where scikit-learn's `PoissonRegressor` has the share of
    deviance that is explained: `sklearn.metrics.d2_tweedie_score` with ``power=1``. Scores that scikit-learn
    works out from `predict` take no account of exposures: give them its results times these.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        count_bound: float | None = None,
        predictor_bound: float | None = None,
        exposure: str | None = None,
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
        self.count_bound = count_bound
        self.predictor_bound = predictor_bound
        self.exposure = exposure
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

    def _exposure(self) -> str | None:
        return self.exposure

    def _model(self) -> Model:
        bound = self.predictor_bound
        optional(in_range, 0.0, LARGEST_PREDICTOR, closed="right", predictor_bound=bound)
        return poisson_regression(bound)

    @sealed
    def predict(self, X: Any) -> FloatArray:
        """Return expected counts, shape (n,), up to the bound on counts.

        Where counts have exposures they are those over an exposure of 1, which nothing bounds.
        """
        return expected_count(self._linear_predictor(X), self._encoder.design.target)

    @sealed
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R squared, not private: a function of these rows and counts, read as in a fit.

        Where counts have exposures, what is expected of them is over those of the rows of ``X``.
        """
        check_is_fitted(self, "result_")
        expected = self.predict(X) * exposures(self._encoder.design.target, X)
        return float(r2_score(self._responses(X, y), expected, sample_weight=sample_weight))


def exposures(target: Target, X: Any) -> FloatArray | float:
    """Return over which exposure the count of each row of a table is expected, shape (n,), or 1 for all."""
    if target.exposure is None:
        return 1.0
    found = np.exp(target.exposure.read(open_table(X, needed=(target.exposure.name,))))
    if np.isnan(found).any():
        raise SchemaError(f"column {target.exposure.name!r} holds a missing exposure, or 0; drop such rows")
    return np.asarray(found, dtype=np.float64)


def expected_count(predictor: FloatArray, target: Target) -> FloatArray:
    """Return the mean of a count with a log link; log means beyond 50 in size are moved there."""
    mean = np.exp(np.clip(predictor, -LARGEST_PREDICTOR, LARGEST_PREDICTOR))
    return np.minimum(mean, target.largest_mean)

"""Poisson regression by formula under differential privacy: `poisson`."""

from collections.abc import Sequence

from privfit._checks import RelationName, in_range, optional
from privfit._sealed import sealed
from privfit.data.csv_text import TextForm
from privfit.data.schema import SchemaLike
from privfit.estimators.budget import choose_budget
from privfit.estimators.models import poisson_regression
from privfit.estimators.options import FitOptions
from privfit.estimators.scales import bought_share
from privfit.formula.run import Roles, fit_formula
from privfit.inference.infer import BudgetSplit
from privfit.losses.poisson import LARGEST_PREDICTOR
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import LedgerOrPath
from privfit.results import FitResult


@sealed
def poisson(
    formula: str,
    data: object,
    *,
    schema: SchemaLike,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    budget: Budget | None = None,
    solver: object = "auto",
    relation: RelationName = "replace",
    l2: float = 0.0,
    inference: bool | BudgetSplit = True,
    scale: str | None = None,
    scale_share: float = 0.1,
    n_rows: int | None = None,
    unit: str | None = None,
    rows_per_unit: int = 1,
    weights: str | None = None,
    exposure: str | None = None,
    ledger: LedgerOrPath | None = None,
    dataset: str | None = None,
    random_state: object = None,
    predictor_bound: float | None = None,
    sep: str = ",",
    header: bool = True,
    columns: Sequence[str] | None = None,
) -> FitResult:
    """Fit a Poisson regression of a count, with a log link.

    The model of `statsmodels.formula.api.poisson`, with noise that hides every single row.

    Parameters
    ----------
    formula : str
        Such as ``"visits ~ age + I(age ** 2) + C(sex)"``.
    predictor_bound : float, optional
        Largest log mean that is taken as it is, from 0 to 50; the loss goes on linearly above.
        Default: the logarithm of the declared upper bound of the count and a quarter.
    exposure : str, optional
        Column of the exposures over which counts were gathered, such as years: its logarithm is added to the
        linear predictor, so that coefficients are of the rate, and predictions are for an exposure of 1. Rows
        with an exposure of 0 do not count.
    data, schema, epsilon, delta, budget, solver, relation, l2, inference, scale, scale_share, n_rows, unit, \
rows_per_unit, weights, ledger, dataset, random_state, sep, header, columns
        As in `logit`.

    Returns
    -------
    FitResult
        As that of `logit`.

    Raises
    ------
    PrivfitError
        As in `logit`.

    Notes
    -----
    *Guarantee.* The result as a whole is ``(epsilon, delta)``-differentially private for one row, whatever
    the data. Bounds that do not fit the data cost accuracy, never privacy.

    The response is a numeric column with bounds of at least 0. Counts beyond them are moved to the nearest
    bound, and noise grows with the upper one, so declare one that few counts exceed. Coefficients are changes
    of the log mean. Standard errors do not need the variance to equal the mean.

    Examples
    --------
    >>> from privfit.data.schema import Schema
    >>> from privfit.data.synthetic import census
    >>> people = census(n_rows=50_000, seed=1)
    >>> schema = Schema({
    ...     "hours_per_week": {"type": "numeric", "lower": 0, "upper": 60},
    ...     "age": {"type": "numeric", "lower": 17, "upper": 90},
    ... })
    >>> result = poisson("hours_per_week ~ age", people, schema=schema, epsilon=4.0, random_state=0)
    >>> result.params.index.tolist()
    ['Intercept', 'age']
    """
    options = FitOptions(
        budget=choose_budget(epsilon, delta, budget),
        solver=solver,
        relation=relation,
        l2=l2,
        inference=inference,
        n_rows=n_rows,
        ledger=ledger,
        dataset=dataset,
        random_state=random_state,
    )
    optional(in_range, 0.0, LARGEST_PREDICTOR, closed="right", predictor_bound=predictor_bound)
    model = poisson_regression(predictor_bound)
    text = TextForm(columns, header, sep)
    share = bought_share(scale, scale_share)
    roles = Roles(unit, rows_per_unit, weights, exposure)
    return fit_formula(
        model, formula, data, schema=schema, roles=roles, options=options, text=text, share=share
    )

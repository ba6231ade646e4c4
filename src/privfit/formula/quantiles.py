"""Quantile regression by formula under differential privacy: `quantile`."""

from collections.abc import Sequence

from privfit._checks import RelationName, in_range, optional, positive
from privfit._sealed import sealed
from privfit.data.csv_text import TextForm
from privfit.data.schema import SchemaLike
from privfit.estimators.budget import choose_budget
from privfit.estimators.models import quantile_regression
from privfit.estimators.options import FitOptions
from privfit.estimators.scales import bought_share
from privfit.formula.run import Roles, fit_formula
from privfit.inference.infer import BudgetSplit
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import LedgerOrPath
from privfit.results import FitResult


@sealed
def quantile(
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
    ledger: LedgerOrPath | None = None,
    dataset: str | None = None,
    random_state: object = None,
    quantile: float = 0.5,
    width: float | None = None,
    sep: str = ",",
    header: bool = True,
    columns: Sequence[str] | None = None,
) -> FitResult:
    """Fit a quantile regression: the median of the response, or another quantile of it.

    The model of `statsmodels.formula.api.quantreg`, smoothed, with noise that hides every single row.

    Parameters
    ----------
    formula : str
        Such as ``"wage ~ age + I(age ** 2) + C(sex)"``.
    quantile : float, default 0.5
        Which quantile, in (0, 1); 0.5 is the median.
    width : float, optional
        Half-width over which the kink of the check loss is smoothed, in units of the response. Smaller is
        closer to the quantile, and noisier. By default the default methods choose it from released looks at
        residuals, and the title says how wide it is; other methods, and a pure budget of few rows, take 5 %
        of the declared range of the response. Where the response lies on a coarse grid (counts of a few, a
        scale of five) and predictors explain a part of it, give half its spacing.
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

    The smoothed quantile differs from the quantile by a multiple of ``width**2``: nothing for the median of
    symmetric errors, and more for far quantiles. With a width that is given, standard errors and intervals
    are those of the smoothed one. With one that is chosen from released looks they are for the quantile: the
    difference is estimated and taken away, and intervals are wider by what is not known of it.

    Examples
    --------
    >>> from privfit.data.schema import Schema
    >>> from privfit.data.synthetic import linear_model
    >>> x, y = linear_model(20_000, [1.0, -0.5], intercept=2.0, noise_sd=0.5, design="uniform", seed=3)
    >>> data = {"dose": x[:, 0], "age": x[:, 1], "response": y}
    >>> schema = Schema({
    ...     "response": {"type": "numeric", "lower": -1, "upper": 5},
    ...     "dose": {"type": "numeric", "lower": -1, "upper": 1},
    ...     "age": {"type": "numeric", "lower": -1, "upper": 1},
    ... })
    >>> result = quantile("response ~ dose + age", data, schema=schema, epsilon=4.0, random_state=0)
    >>> result.params.round(1).to_dict()
    {'Intercept': 2.0, 'dose': 1.0, 'age': -0.5}
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
    in_range(0.0, 1.0, closed="neither", quantile=quantile)
    optional(positive, width=width)
    model = quantile_regression(quantile, width)
    text = TextForm(columns, header, sep)
    share = bought_share(scale, scale_share)
    roles = Roles(unit, rows_per_unit, weights)
    return fit_formula(
        model, formula, data, schema=schema, roles=roles, options=options, text=text, share=share
    )

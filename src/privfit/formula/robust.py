"""Robust linear regression by formula."""

from collections.abc import Sequence

from privfit._checks import RelationName, sized
from privfit._sealed import sealed
from privfit.data.csv_text import TextForm
from privfit.data.schema import SchemaLike
from privfit.estimators.budget import choose_budget
from privfit.estimators.models import huber_regression
from privfit.estimators.options import FitOptions
from privfit.estimators.scales import scales_of
from privfit.formula.run import Roles, fit_formula
from privfit.inference.infer import BudgetSplit
from privfit.losses.huber import GAUSSIAN_95
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import LedgerOrPath
from privfit.results import FitResult


@sealed
def huber(
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
    n_rows: int | None = None,
    unit: str | None = None,
    rows_per_unit: int = 1,
    weights: str | None = None,
    ledger: LedgerOrPath | None = None,
    dataset: str | None = None,
    random_state: object = None,
    threshold: float = GAUSSIAN_95,
    scale: float | str | None = None,
    scale_share: float = 0.1,
    sep: str = ",",
    header: bool = True,
    columns: Sequence[str] | None = None,
) -> FitResult:
    """Fit a linear regression that resists outliers, by Huber's loss.

    The model of `statsmodels.formula.api.rlm`, with noise that hides every single row.

    Parameters
    ----------
    formula : str
        Such as ``"wage ~ age + C(sex)"``.
    threshold : float, default 1.345
        Where the loss turns from squared to absolute, in units of the residual scale. The default is 95% as
        efficient as least squares under normal errors.
    scale : float or "private", optional
        Residual scale in units of the response, if it is publicly known. By default it is estimated along,
        within the same budget. ``"private"``: that, and the bounds of numeric columns that the schema leaves
        open are learned first, with differential privacy and as a part of the same budget. The formula must
        make sense within any bounds that can come out: declare those that a term needs, as ``lower`` for a
        logarithm.
    data, schema, epsilon, delta, budget, solver, relation, l2, inference, scale_share, n_rows, unit, \
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

    The loss limits the pull of a row by itself. A response with wide bounds and few extreme values is better
    served by it than by `ols`.

    Examples
    --------
    >>> from privfit.data.schema import Schema
    >>> from privfit.data.synthetic import linear_model
    >>> x, y = linear_model(20_000, [1.0], intercept=2.0, noise="student", design="uniform", seed=3)
    >>> schema = Schema({
    ...     "cost": {"type": "numeric", "lower": -8, "upper": 12},
    ...     "age": {"type": "numeric", "lower": -1, "upper": 1},
    ... })
    >>> result = huber("cost ~ age", {"cost": y, "age": x[:, 0]}, schema=schema, scale=1.0, random_state=0)
    >>> result.params.round(1).to_dict()
    {'Intercept': 2.0, 'age': 1.0}
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
    sized(threshold=threshold)
    known, share = scales_of(scale, scale_share)
    model = huber_regression(threshold, known)
    text = TextForm(columns, header, sep)
    roles = Roles(unit, rows_per_unit, weights)
    return fit_formula(
        model, formula, data, schema=schema, roles=roles, options=options, text=text, share=share
    )

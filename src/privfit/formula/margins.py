"""Support vector machines by formula under differential privacy: `svm`."""

from collections.abc import Sequence

from privfit._checks import RelationName, positive
from privfit._sealed import sealed
from privfit.data.csv_text import TextForm
from privfit.data.schema import SchemaLike
from privfit.estimators.budget import choose_budget
from privfit.estimators.models import support_vector_machine
from privfit.estimators.options import FitOptions
from privfit.estimators.scales import bought_share
from privfit.formula.run import Roles, fit_formula
from privfit.inference.infer import BudgetSplit
from privfit.losses import SmoothedHinge
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import LedgerOrPath
from privfit.results import FitResult


@sealed
def svm(
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
    width: float = 1.0,
    sep: str = ",",
    header: bool = True,
    columns: Sequence[str] | None = None,
) -> FitResult:
    """Fit a linear support vector machine to a two-valued response.

    The hinge loss, smoothed, with noise that hides every single row.

    Parameters
    ----------
    formula : str
        Such as ``"income ~ age + C(sex) * hours"``.
    width : float, default 1.0
        Width of the parabola that replaces the kink of the hinge loss, in units of the margin. Smaller is
        closer to the hinge loss, and noisier.
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

    The response is a categorical column with the two levels [negative, positive], or a numeric one with
    bounds 0, 1. A positive linear predictor stands for the positive one; its size is not a log odds. Standard
    errors and intervals are those of the minimiser of the expected loss. ``predict(table)`` gives the class
    of each row, ``decision_function(table)`` its linear predictor. For probabilities see `logit`.

    Examples
    --------
    >>> from privfit.data.schema import Schema
    >>> from privfit.data.synthetic import logistic_model
    >>> x, y = logistic_model(20_000, [1.0, -0.5], design="uniform", seed=3)
    >>> data = {"dose": x[:, 0], "age": x[:, 1], "ill": y}
    >>> schema = Schema({
    ...     "ill": {"type": "numeric", "lower": 0, "upper": 1},
    ...     "dose": {"type": "numeric", "lower": -1, "upper": 1},
    ...     "age": {"type": "numeric", "lower": -1, "upper": 1},
    ... })
    >>> result = svm("ill ~ dose + age", data, schema=schema, epsilon=4.0, random_state=0)
    >>> bool(result.params["dose"] > 0 > result.params["age"])
    True
    >>> result.predict({"dose": [0.9, -0.9], "age": [-0.9, 0.9]}).tolist()
    [1, 0]
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
    model = support_vector_machine(SmoothedHinge(positive(width=width)))
    text = TextForm(columns, header, sep)
    share = bought_share(scale, scale_share)
    roles = Roles(unit, rows_per_unit, weights)
    return fit_formula(
        model, formula, data, schema=schema, roles=roles, options=options, text=text, share=share
    )

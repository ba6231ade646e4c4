"""Robust linear regression by formula."""

from collections.abc import Sequence

from privfit._checks import RelationName, sized
from privfit._sealed import sealed
from privfit.data.batches import TextForm
from privfit.data.schema import SchemaLike
from privfit.estimators.budget import choose_budget
from privfit.estimators.models import huber_regression
from privfit.estimators.options import FitOptions
from privfit.estimators.scales import scales_of
from privfit.formula.run import Roles, fit_formula
from privfit.losses.huber import GAUSSIAN_95
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import Ledger
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
    inference: bool = True,
    n_rows: int | None = None,
    unit: str | None = None,
    rows_per_unit: int = 1,
    weights: str | None = None,
    ledger: Ledger | str | None = None,
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
        Response and terms in the notation of R and statsmodels: ``"wage ~ age + C(sex)"``.
        Categorical columns are coded by indicators against their first level. Inside a term, arithmetic,
        comparisons and functions of one row (``np.log``, ``np.sqrt``, ``np.maximum`` ...) are allowed;
        anything that looks across rows, such as a mean, is not, because it would mix private rows.
    data : frame, mapping, array or path
        pandas, polars or Arrow table, mapping of arrays, or the path of a CSV, Parquet or Arrow file. Only
        columns in the formula are read.
    schema : Schema, mapping or path
        What is publicly known of each column: its bounds or its levels; see `privfit.Schema`. Values beyond
        the bounds are moved to the nearest bound. Bounds must come from outside knowledge, never from these
        data.
    epsilon : float, default 1.0
        How much the published numbers may reveal of any one row. The odds that anyone would give for what a
        row contains, after seeing the result, differ by a factor of at most ``exp(epsilon)`` from what they
        would be had another row stood in its place. Smaller is safer and noisier; 0.1 to 3 is usual.
    delta : float, default 1e-6
        Probability with which that limit may fail; take it well below one over the number of rows.
    budget : Budget, optional
        In place of ``epsilon`` and ``delta``, for other notions: ``Budget.gdp(mu)``, ``Budget.zcdp(rho)``.
    solver : str or solver, default "auto"
        How the coefficients are found. ``"non-private"`` gives the ordinary estimate without noise, for
        comparison on data that need no protection.
    relation : {"replace", "add_remove"}
        What is hidden: the contents of a row, or also whether it is in the table at all.
    l2 : float, default 0.0
        Ridge weight on the coefficients of the scaled columns, the intercept excepted.
    inference : bool, default True
        Whether to spend about a quarter of the budget on standard errors.
    n_rows : int, optional
        Public approximate number of rows, or of values of ``unit``, needed under
        ``relation="add_remove"``, where the exact one is private.
    unit : str, optional
        Column that identifies a person, where one has several rows: the result then protects all of them
        together. By default the one that the schema marks, or every row for itself.
    rows_per_unit : int, default 1
        Rows of a person up to which all rows count alike; those of one with more share what this many
        count. With 1 every person counts alike.
    weights : str, optional
        Column of survey weights. Its upper bound in the schema is the largest weight that counts in full.
    ledger : Ledger or path, optional
        Account that the fit is charged to, before a row is read.
    dataset : str, optional
        Name of the data in the ledger.
    random_state : int, RandomState or Generator, optional
        Makes the noise repeatable, for tests and teaching. The result is then marked *not private*.
    threshold : float, default 1.345
        Where the loss turns from squared to absolute, in units of the residual scale. The default is 95% as
        efficient as least squares under normal errors.
    scale : float or "private", optional
        Residual scale in units of the response, if it is publicly known. By default it is estimated along,
        within the same budget. ``"private"``: that, and the bounds of numeric columns that the schema leaves
        open are learned first, with differential privacy and as a part of the same budget. The formula must
        make sense within any bounds that can come out: declare those that a term needs, as ``lower`` for a
        logarithm.
    scale_share : float, default 0.1
        Part of the squared budget (of a pure one, as for two releases) for that.
    sep, header, columns
        Layout of a CSV file: its separator, whether its first line holds the names, and the names if not.

    Returns
    -------
    FitResult
        Coefficients in the units of the columns, standard errors and intervals that include the privacy
        noise, and the guarantee: ``params``, ``bse``, ``conf_int()``, ``summary()``, ``privacy``.

    Raises
    ------
    PrivfitError
        A named subclass. Arguments, schema and formula are checked before the data are opened, and nothing is
        spent unless the fit can go ahead; only what looks for ``scale`` show can end it after they are spent.

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

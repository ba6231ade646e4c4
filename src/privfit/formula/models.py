"""Regression by formula under differential privacy: `logit` and `ols`."""

from collections.abc import Sequence

from privfit._checks import RelationName, optional, positive
from privfit._sealed import sealed
from privfit.data.csv_text import TextForm
from privfit.data.schema import SchemaLike
from privfit.estimators.budget import choose_budget
from privfit.estimators.models import linear_regression, logistic_regression
from privfit.estimators.options import FitOptions
from privfit.estimators.scales import bought_share
from privfit.formula.run import Roles, fit_formula
from privfit.inference.infer import BudgetSplit
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import LedgerOrPath
from privfit.results import FitResult


@sealed
def logit(
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
    sep: str = ",",
    header: bool = True,
    columns: Sequence[str] | None = None,
) -> FitResult:
    """Fit a logistic regression of a response with two classes or more.

    The model of `statsmodels.formula.api.logit` (`mnlogit` for more than two), with noise that hides every
    single row.

    Parameters
    ----------
    formula : str
        Response and terms in the notation of R and statsmodels: ``"income ~ age + C(sex) * hours"``.
        Categorical columns are coded by indicators against their first level. Inside a term, arithmetic,
        comparisons and functions of one row (``np.log``, ``np.sqrt``, ``np.maximum`` ...) are allowed;
        anything that looks across rows, such as a mean, is not, because it would mix private rows.
    data : frame, mapping, array or path
        pandas, polars or Arrow table, mapping of arrays, or the path of a CSV, Parquet or Arrow file;
        `RowCache`, Dask DataFrame or Dask array. Only columns in the formula are read.
    schema : Schema, mapping or path
        What is publicly known of each column: its bounds or its levels; see `privfit.Schema`. Values beyond
        the bounds are moved to the nearest bound. Bounds must come from outside knowledge, never from these
        data.
    epsilon : float, default 1.0
        How much the published numbers may reveal of any one row. The odds that anyone would give for what a
        row contains, after seeing the result, differ by a factor of at most ``exp(epsilon)`` from what they
        would be had another row stood in its place. Smaller is safer and noisier; 0.1 to 3 is usual.
    delta : float, default 1e-6
        Probability with which that limit may fail; take it well below one over the number of rows. None of
        it is spent where it buys nothing: by a logit of few rows and columns, see
        `privfit.solvers.choice`.
    budget : Budget, optional
        In place of ``epsilon`` and ``delta``, for other notions: ``Budget.gdp(mu)``, ``Budget.zcdp(rho)``.
    solver : str or solver, default "auto"
        How the coefficients are found. ``"non-private"`` gives the ordinary estimate without noise, for
        comparison on data that need no protection.
    relation : {"replace", "add_remove"}
        What is hidden: the contents of a row, or also whether it is in the table at all.
    l2 : float, default 0.0
        Ridge weight on the coefficients of the scaled columns, the intercept excepted.
    inference : bool or BudgetSplit, default True
        Whether to spend 10 to 43 % of the squared budget on standard errors; a split says with what parts.
    scale : {"private"}, optional
        Learn the bounds of numeric columns that the schema leaves open, with differential privacy and as a
        part of the same budget. The formula must make sense within any bounds that can come out: declare
        those that a term needs, as ``lower`` for a logarithm.
    scale_share : float, default 0.1
        Part of the squared budget (of a pure one, as for two releases) for that.
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

    The response is a categorical column with the two levels [negative, positive], or a numeric one with
    bounds 0, 1. Coefficients are changes in the log odds of the positive one. With more levels all are fitted
    together, and coefficients, named ``level: column``, are changes in the log odds against the first level.

    Examples
    --------
    A census-like table of simulated people. The schema states what is known without looking.

    >>> from privfit.data.schema import Schema
    >>> from privfit.data.synthetic import census
    >>> people = census(n_rows=50_000, seed=1)
    >>> schema = Schema({
    ...     "income_over_50k": {"type": "categorical", "levels": ["no", "yes"]},
    ...     "age": {"type": "numeric", "lower": 17, "upper": 90},
    ...     "sex": {"type": "categorical", "levels": ["Female", "Male"]},
    ... })
    >>> result = logit("income_over_50k ~ age + C(sex)", people, schema=schema, epsilon=1.0, random_state=0)
    >>> result.params.index.tolist()
    ['Intercept', 'age', 'C(sex)[T.Male]']
    >>> bool(result.conf_int().loc["age", "lower"] > 0)
    True
    >>> print(result.privacy.guarantee)
    none; secure noise would give (ε = 1, δ = 1e-06)-DP, replace one row

    The seed makes the example repeatable, which is why nothing is promised. Leave ``random_state`` out.
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
    model = logistic_regression()
    text = TextForm(columns, header, sep)
    share = bought_share(scale, scale_share)
    roles = Roles(unit, rows_per_unit, weights)
    return fit_formula(
        model, formula, data, schema=schema, roles=roles, options=options, text=text, share=share
    )


@sealed
def ols(
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
    residual_bound: float | None = None,
    sep: str = ",",
    header: bool = True,
    columns: Sequence[str] | None = None,
) -> FitResult:
    """Fit a linear regression by least squares.

    The model of `statsmodels.formula.api.ols`, with noise that hides every single row.

    Parameters
    ----------
    formula : str
        Such as ``"wage ~ age + I(age ** 2) + C(sex)"``.
    residual_bound : float, optional
        Largest residual that counts in full, in units of the response; larger ones pull no harder, so that
        one row cannot move the fit at will. Default: half the declared range of the response, which the
        default method with inference lowers to what a private look at residuals shows; the title says so.
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

    Standard errors are robust to unequal variances (the sandwich of statsmodels' ``cov_type="HC1"``) and
    include the privacy noise.

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
    >>> result = ols("response ~ dose + age", data, schema=schema, epsilon=4.0, random_state=0)
    >>> result.params.round(1).to_dict()
    {'Intercept': 2.0, 'dose': 1.0, 'age': -0.5}
    >>> result.private  # because the noise is seeded
    False
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
    optional(positive, residual_bound=residual_bound)
    model = linear_regression(residual_bound)
    text = TextForm(columns, header, sep)
    share = bought_share(scale, scale_share)
    roles = Roles(unit, rows_per_unit, weights)
    return fit_formula(
        model, formula, data, schema=schema, roles=roles, options=options, text=text, share=share
    )

"""Bounds of columns, learned with privacy: a draft of a schema becomes a schema."""

from collections.abc import Sequence

from privfit._checks import column_name
from privfit._sealed import sealed
from privfit.data.csv_text import TextForm
from privfit.data.draft import Draft
from privfit.data.encode import SchemaEncoder
from privfit.data.schema import SchemaLike
from privfit.data.shares import ShareRule
from privfit.errors import InvalidArgument
from privfit.estimators.budget import DELTA, choose_budget
from privfit.estimators.look import look_at
from privfit.estimators.opened import rows_of
from privfit.estimators.options import FitOptions
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import LedgerOrPath
from privfit.results import PrivacyStatement
from privfit.results.learned_bounds import LearnedBounds

EPSILON = 0.1
"""Default budget of a look at columns."""


@sealed
def learn_bounds(
    data: object,
    schema: SchemaLike,
    *,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    budget: Budget | None = None,
    relation: str = "replace",
    n_rows: int | None = None,
    unit: str | None = None,
    rows_per_unit: int = 1,
    weights: str | None = None,
    ledger: LedgerOrPath | None = None,
    dataset: str | None = None,
    random_state: object = None,
    columns: Sequence[str] | None = None,
    header: bool = True,
    sep: str = ",",
) -> LearnedBounds:
    """Learn the bounds of numeric columns with differential privacy, where no public fact tells them.

    Parameters
    ----------
    data : frame, mapping of arrays, array, path, RowCache or Dask collection
        As for `privfit.logit`. A row with a missing cell in one of the columns that are looked at, for which
        no ``missing`` is declared, counts for none of them, as in a fit.
    schema : mapping or path of a TOML file
        Declarations of the columns. Those of ``type = "numeric"`` without ``lower``, ``upper`` or both are
        looked at; all else stays as it is declared. The response may be one of them.
    epsilon, delta : float
        Budget for all columns together. 0.1 tells the bounds of a few columns of some thousand rows.
    budget : Budget, optional
        Any other budget, in place of these.
    relation : {"replace", "add_remove"}
        Which tables are neighbours.
    n_rows : int, optional
        Public number of rows, for ``add_remove`` alone.
    unit : str, optional
        Column that identifies the privacy unit; all its rows are protected together.
    rows_per_unit : int
        Rows of a unit up to which all rows count alike.
    weights : str, optional
        Column of survey weights.
    ledger : Ledger or path, optional
        Where the spend is reserved before a row is read.
    dataset : str, optional
        Name of the data set in the ledger, granted without a schema: there is none yet.
    random_state : None, int, RandomState or Generator
        None for private noise; a seed makes the bounds repeatable and not private.
    columns : sequence of str, optional
        Names of the columns of an array, or of a CSV file without header.
    header : bool
        Whether the first line of a CSV file holds names.
    sep : str
        Separator of a CSV file.

    Returns
    -------
    LearnedBounds
        Its ``schema`` goes to any fit.

    Raises
    ------
    InvalidArgument
        If no column lacks bounds, or an argument is out of range.
    SchemaError, TooLittleData, BudgetExceeded, LedgerError
        Before any budget is spent.

    Notes
    -----
    *Guarantee.* All bounds together are private within the budget, for one row or unit. Fits that follow
    cost their own; a ledger adds them up.

    Bounds hold nearly all rows: the tail that noise hides is drawn out by what is seen of it. They are
    rounded outwards. Docs, *Learning bounds*, have the method.

    Examples
    --------
    >>> import numpy as np, privfit as pf
    >>> rng = np.random.default_rng(0)
    >>> people = {"age": rng.integers(17, 91, 20_000), "income": np.exp(10 + rng.normal(size=20_000))}
    >>> draft = {"age": {"type": "numeric"}, "income": {"type": "numeric", "lower": 0}}
    >>> learned = pf.learn_bounds(people, draft, epsilon=0.1, delta=1e-6)
    >>> sorted(learned.schema)
    ['age', 'income']
    """
    draft = Draft.of(schema)
    if not draft.unbounded:
        raise InvalidArgument("schema: no numeric column lacks lower or upper, so there is nothing to learn")
    draft.check_roles(unit=column_name(unit=unit), weights=column_name(weights=weights))
    declared = draft.stand_in.with_roles(unit=unit, weights=weights)
    options = FitOptions(
        budget=choose_budget(epsilon, delta, budget, usual=EPSILON),
        relation=relation,
        inference=False,
        n_rows=n_rows,
        ledger=ledger,
        dataset=dataset,
        schema=declared,
        random_state=random_state,
        shares=ShareRule.of(declared, rows_per_unit),
    )
    *first, last = draft.unbounded
    encoder = SchemaEncoder(declared, target=last, columns=first)
    rows = rows_of(data, encoder, options, TextForm(columns, header, sep))
    look = look_at(encoder, rows, options, draft.unbounded, Allowance.of(options.budget))
    return LearnedBounds(
        names=draft.unbounded,
        draft=draft.completed(look.bounds(draft)),
        privacy=PrivacyStatement.of(options.budget, look.plan, private=look.private, noise=look.noise_label),
        plan=look.plan,
    )

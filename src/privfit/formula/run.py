"""One fit by formula: everything that can be checked is checked before the data are opened."""

from dataclasses import dataclass, replace

from privfit._progress import running
from privfit.data.batches import TextForm
from privfit.data.schema import SchemaLike, as_schema
from privfit.data.shares import ShareRule
from privfit.data.stream import RowStream
from privfit.errors import InvalidArgument
from privfit.estimators.fit import fit
from privfit.estimators.models import Model
from privfit.estimators.objective import make_problem
from privfit.estimators.opened import rows_of
from privfit.estimators.options import FitOptions, public_rows
from privfit.results import FitResult
from privfit.terms.encoder import FormulaEncoder

_STAND_IN_ROWS = 10**9
"""Number of rows for checks that come before the data; larger than any table that would be refused."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Columns that say how much a row counts, as in `privfit.formula.models.logit`."""

    unit: str | None
    rows_per_unit: int
    weights: str | None


def fit_formula(
    model: Model,
    formula: str,
    data: object,
    *,
    schema: SchemaLike,
    roles: Roles,
    options: FitOptions,
    text: TextForm,
) -> FitResult:
    """Fit ``model`` to the terms of ``formula``; parameters as in `privfit.formula.models.logit`."""
    if isinstance(data, RowStream):
        raise InvalidArgument(
            "data: a RowStream goes with estimators, such as LogisticRegression(schema=..., "
            "solver=OnlineToBatch(), inference=False).fit(stream)"
        )
    declared = as_schema(schema).with_roles(unit=roles.unit, weights=roles.weights)
    shares = ShareRule.of(declared, roles.rows_per_unit)
    options = replace(options, schema=declared, shares=shares)
    encoder = FormulaEncoder(formula, declared, target_kind=model.target_kind)
    _check(model, encoder, options)
    with running("fitting"):
        return fit(model, encoder, rows_of(data, encoder, options, text), options)[0]


def _check(model: Model, encoder: FormulaEncoder, options: FitOptions) -> None:
    """Raise what `fit` would raise by public facts alone."""
    _ = options.method
    n_rows = public_rows(_STAND_IN_ROWS, options)
    make_problem(model, encoder.design, options, n_rows=n_rows)

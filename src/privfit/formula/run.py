"""One fit by formula: everything that can be checked is checked before the data are opened."""

from dataclasses import dataclass, replace

from privfit._progress import running
from privfit.data.csv_text import TextForm
from privfit.data.encode import AbstractEncoder
from privfit.data.schema import Schema, SchemaLike
from privfit.data.shares import ShareRule
from privfit.data.stream import RowStream
from privfit.data.tables import in_order
from privfit.errors import InvalidArgument
from privfit.estimators.fit import fit
from privfit.estimators.models import Model
from privfit.estimators.objective import make_problem
from privfit.estimators.opened import rows_of
from privfit.estimators.options import FitOptions, public_rows
from privfit.estimators.scales import bought_schema, outlined
from privfit.results import FitResult
from privfit.terms.encoder import FormulaEncoder

_STAND_IN_ROWS = 10**9
"""Number of rows for checks that come before the data; larger than any table that would be refused."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Columns with a part of their own, as in `privfit.formula.models.logit` and `counts.poisson`."""

    unit: str | None
    rows_per_unit: int
    weights: str | None
    exposure: str | None = None


def fit_formula(
    model: Model,
    formula: str,
    data: object,
    *,
    schema: SchemaLike,
    roles: Roles,
    options: FitOptions,
    text: TextForm,
    share: float | None,
) -> FitResult:
    """Fit ``model`` to the terms of ``formula``; parameters as in `privfit.formula.models.logit`.

    ``share`` is the part of the budget for bounds that the schema lacks, None if it must hold all. The
    formula is checked within the widest that they can become.
    """
    if isinstance(data, RowStream):
        raise InvalidArgument(
            "data: a RowStream goes with estimators, such as LogisticRegression(schema=..., "
            "solver=OnlineToBatch(), inference=False).fit(stream)"
        )
    outline, bounds = outlined(schema, share, unit=roles.unit, weights=roles.weights, exposure=roles.exposure)
    options = replace(options, schema=outline, shares=ShareRule.of(outline, roles.rows_per_unit))

    def encoder_of(known: Schema) -> FormulaEncoder:
        return FormulaEncoder(formula, known, target_kind=model.target_kind)

    encoder: AbstractEncoder = encoder_of(outline)
    _check(model, encoder, options)
    with running("fitting"):
        rows = rows_of(data, encoder, options, text)
        if bounds is not None:
            encoder, options = bought_schema(model, encoder_of, rows, options, bounds)
        options = replace(options, ordered=in_order(data, encoder.needed[:-1]))
        return fit(model, encoder, rows, options)[0]


def _check(model: Model, encoder: AbstractEncoder, options: FitOptions) -> None:
    """Raise what `fit` would raise by public facts alone."""
    _ = options.method
    n_rows = public_rows(_STAND_IN_ROWS, options)
    make_problem(model, encoder.design, options, n_rows=n_rows)

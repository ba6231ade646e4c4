"""Scales of columns that a fit buys with a part of its budget, before it is planned."""

from dataclasses import replace

from privfit._checks import in_range
from privfit._sealed import sealed
from privfit.data.declarations import NumericColumn
from privfit.data.draft import Draft
from privfit.data.encode import SchemaEncoder
from privfit.data.schema import Schema
from privfit.data.unit_scale import UnitScaleEncoder
from privfit.errors import InvalidArgument, TooLittleData
from privfit.estimators.look import look_at
from privfit.estimators.opened import RawRows
from privfit.estimators.options import FitOptions
from privfit.estimators.reserved import check_affordable

PRIVATE = "private"
"""What ``scale`` is where scales are bought."""


@sealed
def bought_schema(draft: Draft, raw: RawRows, options: FitOptions, share: float) -> tuple[Schema, FitOptions]:
    """Return the schema with the bounds that a draft lacks, and the options of the fit.

    Parameters
    ----------
    draft : Draft
    raw : Table or AbstractRowStore
    options : FitOptions
        Their schema is the outline of the draft, with the unit and the weights.
    share : float
        Part of the budget.

    Raises
    ------
    InvalidArgument
        If the draft lacks no bounds.
    TooLittleData
        If noise hides those of a column; what was looked at is then spent.
    """
    if not draft.unbounded or options.schema is None:
        raise InvalidArgument(
            f"scale={PRIVATE!r}: no numeric column of the schema lacks lower or upper; leave scale out"
        )
    *first, last = draft.unbounded
    roles = {"unit": options.schema.unit, "weights": options.schema.weight}
    encoder = SchemaEncoder(draft.stand_in.with_roles(**roles), target=last, columns=first)
    completed, fitted = _bought(draft, encoder, raw, options, share)
    schema = Schema(completed.declarations).with_roles(**roles)
    return schema, replace(fitted, schema=schema)


@sealed
def bought_scales(
    encoder: UnitScaleEncoder, raw: RawRows, options: FitOptions, share: float
) -> tuple[UnitScaleEncoder, FitOptions]:
    """Return an encoder within learned bounds in place of one without, and the options of the fit.

    A numeric response is looked at as well. Parameters and errors as in `bought_schema`.
    """
    facts = encoder.facts
    looked = encoder.needed if facts.target_kind == "numeric" else facts.names
    draft = Draft.of({name: {"type": "numeric"} for name in looked})
    rough = _within(encoder, draft.stand_in, intercept=True)
    completed, fitted = _bought(draft, rough, raw, options, share)
    return _within(encoder, Schema(completed.declarations), intercept=facts.intercept), fitted


def _within(encoder: UnitScaleEncoder, schema: Schema, *, intercept: bool) -> UnitScaleEncoder:
    """Return the encoder within the bounds of a schema."""
    facts = encoder.facts
    numbers = {name: column for name, column in schema.items() if isinstance(column, NumericColumn)}
    within = tuple(numbers[name] for name in facts.names)
    return replace(facts, within=within, response=numbers.get(facts.target), intercept=intercept).encoder()


def _bought(
    draft: Draft, encoder: SchemaEncoder | UnitScaleEncoder, raw: RawRows, options: FitOptions, share: float
) -> tuple[Draft, FitOptions]:
    """Look at the unbounded columns of a draft; return it with bounds, and the options of the fit."""
    in_range(0.0, 1.0, closed="neither", scale_share=share)
    part, _ = options.allowance.split([share, 1.0 - share])
    check_affordable(options)
    look = look_at(encoder, raw, options, draft.unbounded, part)
    completed = draft.completed(look.bounds(draft))
    if completed.unbounded:
        hidden = ", ".join(repr(name) for name in completed.unbounded)
        raise TooLittleData(
            f"scale={PRIVATE!r}: noise hides where the values of {hidden} lie; declare bounds in a schema, "
            "or give more budget or a larger scale_share"
        )
    return completed, replace(options, looks=look.releases, source=look.source)

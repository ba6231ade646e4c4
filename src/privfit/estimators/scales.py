"""Scales of columns that a fit buys with a part of its budget, before it is planned."""

from collections.abc import Collection
from dataclasses import replace

from privfit._checks import in_range, positive
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


def residual_scale(scale: object) -> float | None:
    """Return the public scale of residuals that ``scale`` can be instead of text; None if it is not."""
    return None if scale is None or isinstance(scale, str) else positive(scale=scale)


def bought_share(scale: object, share: float) -> float | None:
    """Return the part of the budget for scales; None where none are bought."""
    if scale is None:
        return None
    if not isinstance(scale, str) or scale != PRIVATE:
        raise InvalidArgument(f"scale must be None or {PRIVATE!r} (of Huber's loss also a number)")
    return in_range(0.0, 1.0, closed="neither", scale_share=share)


def lacking(draft: Draft, needed: Collection[str]) -> tuple[str, ...]:
    """Return which of the columns that a fit reads lack bounds in a draft.

    Raises
    ------
    InvalidArgument
        If none does.
    """
    names = tuple(name for name in draft.unbounded if name in needed)
    if not names:
        raise InvalidArgument(
            f"scale={PRIVATE!r}: no numeric column that the fit reads lacks lower or upper; leave scale out"
        )
    return names


@sealed
def bought_schema(
    draft: Draft, names: tuple[str, ...], raw: RawRows, options: FitOptions, share: float
) -> tuple[Schema, FitOptions]:
    """Return the schema with the bounds that a draft lacks, and the options of the fit.

    Parameters
    ----------
    draft : Draft
    names : tuple of str
        The columns that are `lacking`. Others keep the widest bounds.
    raw : Table or AbstractRowStore
    options : FitOptions
        Their schema is the outline of the draft, with the unit and the weights.
    share : float
        Part of the budget.

    Raises
    ------
    TooLittleData
        If noise hides those of a column; what was looked at is then spent.
    """
    assert options.schema is not None  # noqa: S101 -- the outline
    *first, last = names
    roles = {"unit": options.schema.unit, "weights": options.schema.weight}
    encoder = SchemaEncoder(draft.stand_in.with_roles(**roles), target=last, columns=first)
    completed, fitted = _bought(draft, names, encoder, raw, options, share)
    schema = completed.outline.with_roles(**roles)
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
    completed, fitted = _bought(draft, draft.unbounded, rough, raw, options, share)
    return _within(encoder, Schema(completed.declarations), intercept=facts.intercept), fitted


def _within(encoder: UnitScaleEncoder, schema: Schema, *, intercept: bool) -> UnitScaleEncoder:
    """Return the encoder within the bounds of a schema."""
    facts = encoder.facts
    numbers = {name: column for name, column in schema.items() if isinstance(column, NumericColumn)}
    within = tuple(numbers[name] for name in facts.names)
    return replace(facts, within=within, response=numbers.get(facts.target), intercept=intercept).encoder()


def _bought(  # noqa: PLR0917 -- private
    draft: Draft,
    names: tuple[str, ...],
    encoder: SchemaEncoder | UnitScaleEncoder,
    raw: RawRows,
    options: FitOptions,
    share: float,
) -> tuple[Draft, FitOptions]:
    """Look at some unbounded columns of a draft; return it with bounds, and the options of the fit."""
    part, _ = options.allowance.split([share, 1.0 - share])
    check_affordable(options)
    look = look_at(encoder, raw, options, names, part)
    completed = draft.completed(look.bounds(draft))
    hidden = ", ".join(repr(name) for name in completed.unbounded if name in names)
    if hidden:
        raise TooLittleData(
            f"scale={PRIVATE!r}: noise hides where the values of {hidden} lie; declare bounds in a schema, "
            "or give more budget or a larger scale_share"
        )
    return completed, replace(options, looks=look.releases, source=look.source)
